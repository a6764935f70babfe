#!/usr/bin/env python3
"""Replaces the table between two markers in a document with the table that a program printed.
usage: put_table.py DOCUMENT NAME < OUTPUT   (markers: <!-- NAME --> and <!-- /NAME -->)"""

import re
import sys


def main():
    path, name = sys.argv[1:3]
    table = "".join(line for line in sys.stdin if line.startswith("|"))
    with open(path, encoding="utf-8") as f:
        text = f.read()
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if not table or begin not in text or end not in text:
        sys.exit(f"put_table: the input contains no table, or {path} contains no markers named {name}")
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    with open(path, "w", encoding="utf-8") as f:
        f.write(re.sub(pattern, lambda _: begin + table + end, text, flags=re.S))


main()
