#!/usr/bin/env python3
"""Runs a load test of an existence check while its filter is being rebuilt.

The filter is built from N IDs (--ids) and has a false-positive rate of 0.5%. The first phase, which is quiet, sends
only lookups, as fast as the client can send them. The second phase sends the same lookups while the filter is rebuilt
from all IDs (BG.REBUILD, fed by another client) and 1,000 new IDs are added each second. Every ID that was added,
before or during the rebuild, must be found afterward. The test checks a sample of the N IDs, and all new IDs. The new
IDs are also checked while they are being added.

Prints the latencies of both phases, the ratio of their p99 latencies, and the memory of the process and of its filter.
Fails if an ID was lost, the rebuild did not finish, or the service exited with an error. Times are printed but not
checked.

usage: existence_drill.py BIN [--ids 2e8] [--seconds 5]"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kill_drill import Connection, Service  # noqa: E402

ADDS_PER_SECOND = 1000


def bgload(folder, port, **options):
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    output = subprocess.run([os.path.join(folder, "bgload"), f"--port={port}", *arguments], check=True,
                            capture_output=True, text=True).stdout
    return json.loads(output)


def rss_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))


def key(number):
    return f"{number:012d}"


class Adder(threading.Thread):
    """Adds new IDs, and looks up the IDs that it has added."""

    def __init__(self, port, first):
        super().__init__(daemon=True)
        self.connection, self.next, self.first = Connection(port), first, first
        self.ending, self.lost = False, []

    def run(self):
        began, done = time.monotonic(), 0
        while not self.ending:
            due = int((time.monotonic() - began) * ADDS_PER_SECOND)
            if due > done:
                new = [key(self.next + i) for i in range(due - done)]
                self.connection.ask("BG.MADD", "ids", *new)
                self.next += len(new)
                done = due
                asked = new + [key(random.randrange(self.first, self.next)) for _ in range(20)]
                answers = self.connection.ask("BG.MEXISTS", "ids", *asked)
                self.lost += [k for k, answer in zip(asked, answers) if not answer]
            time.sleep(0.01)


def rebuild(folder, service, ids, finished):
    connection = Connection(service.port)
    connection.socket.settimeout(600)
    connection.ask("BG.REBUILD", "ids", "BEGIN", str(int(ids * 1.05)), "ERROR", "0.005")
    fed = bgload(folder, service.port, command="BG.REBUILD ids ADD", count=ids, per=100, connections=2,
                 lines_per_request=1)
    connection.ask("BG.REBUILD", "ids", "COMMIT")
    finished.append(fed)


def lookups(folder, service, ids, seconds):
    return bgload(folder, service.port, command="BG.EXISTS ids", seconds=seconds, range=2 * ids, connections=4)


def drill(folder, ids, seconds):
    home = tempfile.TemporaryDirectory(prefix="bloomgate-existence-")
    service = Service(os.path.join(folder, "bloomgated"), home.name, "everysec",
                      more="maxmemory 0\nmax-filter-memory 0\nsnapshot-journal-size 64Gi\nsnapshot-interval 0\n")
    connection = service.start()
    connection.socket.settimeout(600)
    connection.ask("BG.CREATE", "ids", "KIND", "blocked", "CAPACITY", str(ids), "ERROR", "0.005")
    before = rss_bytes(service.process.pid)
    filled = bgload(folder, service.port, command="BG.MADD ids", count=ids, per=1000, connections=4)
    print(f"filled: {filled['keys_per_second']:,.0f} IDs/s", flush=True)
    memory = rss_bytes(service.process.pid)
    info = connection.ask("BG.INFO", "ids")
    facts = {name.decode() if isinstance(name, bytes) else name: value for name, value in zip(info[::2], info[1::2])}
    print(f"memory: {memory / 2**20:,.0f} MiB, of which {before / 2**20:,.0f} MiB were used "
          f"before the filter was filled; the filter uses {int(facts.get('bytes', 0)) / 2**20:,.0f} MiB", flush=True)
    quiet = [lookups(folder, service, ids, seconds) for _ in range(3)]
    adder = Adder(service.port, ids)
    adder.start()
    finished = []
    worker = threading.Thread(target=rebuild, args=(folder, service, ids, finished), daemon=True)
    worker.start()
    busy = []
    while worker.is_alive():
        busy.append(lookups(folder, service, ids, seconds))
    adder.ending = True
    adder.join()
    lost = list(adder.lost)
    for at in range(ids, adder.next, 1000):
        keys = [key(i) for i in range(at, min(at + 1000, adder.next))]
        lost += [k for k, answer in zip(keys, connection.ask("BG.MEXISTS", "ids", *keys)) if not answer]
    sample = [key(random.randrange(ids)) for _ in range(1000000)]
    for at in range(0, len(sample), 1000):
        keys = sample[at:at + 1000]
        lost += [k for k, answer in zip(keys, connection.ask("BG.MEXISTS", "ids", *keys)) if not answer]
    for name, runs in (("quiet", quiet), ("while rebuilding", busy)):
        for run in runs:
            print(f"{name}: {run['requests_per_second']:,.0f} lookups/s, p50 {run['p50_us']} us, p99 {run['p99_us']} us, "
                  f"p99.9 {run['p999_us']} us")
    middle = lambda runs: sorted(run["p99_us"] for run in runs)[len(runs) // 2]
    print(f"p99 while rebuilding divided by quiet p99: {middle(busy) / middle(quiet):.2f} (medians of {len(busy)} and {len(quiet)} runs)")
    print(f"{adder.next - ids:,} IDs added during the rebuild, {len(lost)} IDs lost out of these and a million others; "
          f"rebuilt from {ids:,} IDs: {'yes' if finished else 'no'}")
    code = service.stop()
    home.cleanup()
    return not lost and bool(finished) and code == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--ids", type=float, default=2e8)
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    good = drill(options.bin, int(options.ids), options.seconds)
    print(f"{int(good)} passed, {int(not good)} failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
