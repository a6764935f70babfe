#!/usr/bin/env python3
"""Creates the example catalog, or adds products to an existing one.
usage: catalog.py PATH [--products N]       create a database with N products (default: 5000)
       catalog.py PATH --add N [--every S]  add N products, one every S seconds (default: 1)"""

import argparse
import os
import re
import sqlite3
import sys
import time

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "catalog.sql")


def make(path, products):
    if os.path.exists(path):
        sys.exit(f"{path} already exists")
    with open(SCRIPT, encoding="utf-8") as f:
        script = re.sub(r"SELECT \d+ AS products", f"SELECT {products} AS products", f.read(), count=1)
    database = sqlite3.connect(path)
    database.executescript(script)
    database.close()


def add(path, products, every):
    if not os.path.exists(path):
        sys.exit(f"{path} does not exist")
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    for n in range(products):
        if n:
            time.sleep(every)
        number = database.execute("SELECT max(id) + 1 FROM products").fetchone()[0]
        sku = f"NEW-{number:06d}"
        database.execute("INSERT INTO products (sku, name, category, cents) VALUES (?, ?, 'new', 100)",
                         (sku, f"new product {number}"))
        print(sku, flush=True)
    database.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--products", type=int, default=5000)
    parser.add_argument("--add", type=int)
    parser.add_argument("--every", type=float, default=1)
    options = parser.parse_args()
    if options.add is not None:
        add(options.path, options.add, options.every)
    else:
        make(options.path, options.products)


if __name__ == "__main__":
    main()
