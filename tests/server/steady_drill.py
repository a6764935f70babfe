#!/usr/bin/env python3
"""Runs a mixed workload for a long time, and checks that the service's memory does not grow.

Clients connect and disconnect; add, query and delete keys; create, drop, copy, merge, dump, rebuild and rotate filters;
take snapshots; send malformed requests; scrape metrics; and read the dashboard's data. The number of filter names and
the content of each filter are bounded, so memory has no reason to grow once every name has been used. Memory is sampled
every second. The first fifth of the samples is discarded as warm-up. Of the remaining samples, the mean of the last
quarter must not exceed the mean of the first quarter by more than 5% or 4 MiB, whichever is larger.

usage: steady_drill.py BLOOMGATED [--seconds 1800] [--seed N]"""

import argparse
import os
import random
import sys
import threading
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from service import Closed, Error, Service  # noqa: E402

NAMES = 40
KEYS = 20000
MAKES = (("BF.RESERVE", "0.01", "20000"), ("CF.RESERVE", "20000"), ("BG.CREATE", "KIND", "blocked", "CAPACITY", "20000"),
         ("BG.CREATE", "KIND", "counting", "CAPACITY", "20000"), ("BG.CREATE", "WINDOW", "60000", "CAPACITY", "20000"),
         ("BG.CREATE", "KIND", "blocked", "CAPACITY", "20000", "SHARDS", "4"))
PAGES = ("/metrics", "/healthz", "/api/v1/filters", "/api/v1/gates", "/")


class Client(threading.Thread):
    """Runs random operations one after another, and occasionally reconnects."""

    def __init__(self, service, seed):
        super().__init__(daemon=True)
        self.service, self.dice = service, random.Random(seed)
        self.ending, self.requests, self.failure = False, 0, None
        self.connection = service.connect()

    def name(self):
        return f"name-{self.dice.randrange(NAMES)}"

    def keys(self, n):
        return [f"key-{self.dice.randrange(KEYS)}" for _ in range(n)]

    def make(self):
        command, *options = self.dice.choice(MAKES)
        return command, self.name(), *options

    def words(self):
        """Returns the next request."""
        some = self.dice.random()
        if some < 0.40:
            return "BG.MEXISTS", self.name(), *self.keys(50)
        if some < 0.75:
            return "BG.MADD", self.name(), *self.keys(20)
        if some < 0.83:
            return "BG.DEL", self.name(), *self.keys(1)
        if some < 0.88:
            return self.make()
        if some < 0.91:
            return "DEL", self.name()
        return self.dice.choice((
            ("COPY", self.name(), self.name(), "REPLACE"), ("BG.MERGE", self.name(), self.name()), ("BG.INFO", self.name()),
            ("BG.DUMP", self.name(), "0"), ("BG.CLEAR", self.name()), ("EXPIRE", self.name(), "1"), ("BG.DIGEST", self.name()),
            ("BG.REBUILD", self.name(), "BEGIN", "20000"), ("BG.REBUILD", self.name(), "ADD", *self.keys(20)),
            ("BG.REBUILD", self.name(), self.dice.choice(("COMMIT", "ABORT"))), ("BG.ROTATE", self.name()), ("BGSAVE",),
            ("INFO",), ("SCAN", "0"), ("NONSENSE", *self.keys(3)), ("BF.INSERT", self.name(), "ITEMS", *self.keys(5)),
            ("HELLO", self.dice.choice("23")), ("RENAME", self.name(), self.name())))

    def run(self):
        try:
            while not self.ending:
                requests = [self.words() for _ in range(self.dice.randrange(1, 20))]
                self.requests += len(self.connection.pipeline(requests))
                if self.dice.random() < 0.02:
                    self.connection.close()
                    self.connection = self.service.connect()
        except (Closed, OSError) as error:
            self.failure = error


class Browser(threading.Thread):
    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self.port, self.dice, self.ending, self.requests, self.failure = port, random.Random(seed), False, 0, None

    def run(self):
        try:
            while not self.ending:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{self.dice.choice(PAGES)}", timeout=60) as answer:
                    answer.read()
                self.requests += 1
                time.sleep(0.05)
        except OSError as error:
            self.failure = error


def mean(values):
    return sum(values) / len(values)


def drill(program, seconds, seed):
    with Service(program, "snapshot-interval 10s", "appendfsync everysec", http=True) as service:
        threads = [Client(service, seed + i) for i in range(6)] + [Browser(service.http_port, seed)]
        for thread in threads:
            thread.start()
        samples, end = [], time.monotonic() + seconds
        while time.monotonic() < end and not any(thread.failure for thread in threads):
            time.sleep(1)
            samples.append(service.memory())
            if len(samples) % 60 == 0:
                print(f"{len(samples):6} s {samples[-1] / 2**20:8.1f} MiB  {sum(t.requests for t in threads):,} requests", flush=True)
        for thread in threads:
            thread.ending = True
        for thread in threads:
            thread.join()
        failures = [thread.failure for thread in threads if thread.failure]
        log = service.read_log()
        errors = [line for line in log.splitlines() if "level=error" in line]
        print("".join(f"{line}\n" for line in errors[:20]), end="")
        assert not isinstance(service.ask("PING"), Error)
    calm = samples[len(samples) // 5:]
    quarter = max(1, len(calm) // 4)
    first, last = mean(calm[:quarter]), mean(calm[-quarter:])
    print(f"mean memory after the warm-up (a fifth of {len(samples)} s): {first / 2**20:.1f} MiB in the first quarter, {last / 2**20:.1f} MiB in the "
          f"last quarter; peak {max(calm) / 2**20:.1f} MiB; {sum(t.requests for t in threads):,} requests")
    for failure in failures:
        print(f"failure: {failure!r}")
    return not failures and not errors and last <= max(first * 1.05, first + 4 * 2**20)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    good = drill(options.program, options.seconds, options.seed)
    print(f"{int(good)} passed, {int(not good)} failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
