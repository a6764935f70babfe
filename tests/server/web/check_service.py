#!/usr/bin/env python3
"""Tests the dashboard in Chromium against the real service, using browse.mjs. The service has
filters of all kinds with all sorts of names, an overfull filter, and gates over a small catalog. A
second run also defines users, and a third has services with 100,000 filters, none and one.
usage: check_service.py BLOOMGATED DIRECTORY      DIRECTORY: see check_dashboard.py
  exit status 77: skipped because there is no browser, or the package could not be downloaded"""

import os
import sqlite3
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import check_dashboard  # noqa: E402
from check_names import NAMES, member  # noqa: E402
from http_asker import F, Asker, free_service, quote  # noqa: E402

USERS = ("user admin on >secret allcommands allkeys", "user shop on >buy +@all -@admin -@dangerous ~shop:* rate=1000", "user old off >x +@read ~old:*",
         "user default off")
MANY = 100000
KINDS = ("classic", "partitioned", "blocked", "split", "register", "counting", "cuckoo", "quotient", "scalable", "window")


def make_catalog(path):
    with sqlite3.connect(path) as db:
        db.execute("create table products (id integer primary key autoincrement, sku text unique)")
        db.executemany("insert into products (sku) values (?)", [(f"sku-{i}",) for i in range(20000)])


def serve(program, *lines):
    s = free_service(program)
    path = os.path.join(s.folder, "catalog.db")
    make_catalog(path)
    query = f"source=sqlite:{path} keys=products(sku) lookup='select id from products where sku = ?'"
    s.lines = (f"gate catalog {query} follow=changes audit=0.01", f"gate lost {query.replace('catalog.db', 'nothing.db')} follow=none promise=read-only",
               "sharded elsewhere nodes=127.0.0.1:1 shards=4", *lines)
    return s


def fill(s, user):
    """Creates content like that of a service that has been in use for a while."""
    a = Asker(s, user)
    for kind in KINDS:
        a.make(f"shop:{kind}", kind=kind, capacity=5000, error=0.01)
        a.ask("POST", f"{F}/shop%3A{kind}/add", 200, {"keys": [f"k{i}" for i in range(3000)]})
        a.ask("POST", f"{F}/shop%3A{kind}/check", 200, {"keys": [f"k{i}" for i in range(2000, 8000)]})
    a.make("too full", kind="blocked", capacity=1000, error=0.01, overfill=True)
    a.ask("POST", f"{F}/too%20full/add", 200, {"keys": [f"k{i}" for i in range(4000)]})
    a.make("expires", expires_in_seconds=5000)
    for name in NAMES:
        a.ask("POST", F, 201, {**member(name), "capacity": 100, "error": 0.01})
    a.ask("PUT", f"{F}/refused/file", 422, b"no filter", kind="application/vnd.bloomgate")
    for first in range(19500, 20500, 500):
        a.ask("POST", "/api/v1/gates/catalog/lookup", 200, {"keys": [f"sku-{i}" for i in range(first, first + 500)]})
    a.ask("GET", f"/api/v1/history?filter={quote('shop:blocked')}", 200)


def fill_with_many(s):
    """Creates 100,000 small filters. Another one holds more keys than planned."""
    areas = ("users", "sessions", "orders", "urls", "mail", "images", "coupons", "devices", "logins", "tokens")
    with s.connect() as c:
        for first in range(0, MANY, 1000):
            c.pipeline([("BG.CREATE", f"{areas[i % 10]}:{i // 10:04d}", "KIND", "blocked", "CAPACITY", "100", "ERROR", "0.01") for i in range(first, first + 1000)])
        c.pipeline([("BG.CREATE", "too full", "KIND", "blocked", "CAPACITY", "100", "ERROR", "0.01", "OVERFILL")])
        c.pipeline([("BG.ADD", "too full", f"k{i}") for i in range(400)])
    Asker(s, None).ask("GET", f"{F}/too%20full?examine=1", 200)


def browse(folder, base, user, more=()):
    """Runs browse.mjs. Returns the number of passed checks and the number of failed checks."""
    shots = os.path.join(folder, "screenshots-of-the-service" + ("-with-users" if user else "-with-many" if more else ""))
    return check_dashboard.browse(folder, shots, [base, *([f"login={user}"] if user else []), *more])


def main():
    program, folder = map(os.path.abspath, sys.argv[1:3])
    check_dashboard.have_package(folder)
    good = bad = 0
    for user, lines in ((None, ()), ("admin:secret", USERS)):
        with serve(program, *lines) as s:
            fill(s, user)
            passed, failed = browse(folder, f"http://127.0.0.1:{s.http_port}/", user)
            good, bad = good + passed, bad + failed
    with free_service(program, f"max-filters {2 * MANY}") as s, free_service(program) as empty, free_service(program) as one:
        fill_with_many(s)
        Asker(one, None).make("users")
        base, *few = (f"http://127.0.0.1:{service.http_port}/" for service in (s, empty, one))
        passed, failed = browse(folder, base, None, (f"large={base}", f"empty={few[0]}", f"one={few[1]}", "only=tryFew,tryLarge"))
        good, bad = good + passed, bad + failed
    print(f"{good} passed, {bad} failed")
    return 1 if bad or not good else 0


if __name__ == "__main__":
    sys.exit(main())
