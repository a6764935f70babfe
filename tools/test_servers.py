#!/usr/bin/env python3
"""Runs all tests of the Redis module with each of the given server programs, on single servers and on clusters. Prints
a row of the table in docs/redis.md for each server, and the output of failed tests.
usage: test_servers.py BUILD PATH-OF-A-SERVER..."""

import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED = 77


def runs(build, server):
    """Yields the path and the arguments of each script."""
    module = os.path.join(build, "lib/bloomgate.so")
    for script in sorted(glob.glob(os.path.join(ROOT, "tests/redis/test_*.py"))):
        yield script, [module, "--service", os.path.join(build, "bin/bloomgated"), "--server", server]
    yield os.path.join(ROOT, "tests/cluster/test_cluster.py"), [os.path.join(build, "bin/bloomgate"), module, server]
    yield os.path.join(ROOT, "tests/cluster/test_crawl.py"), [os.path.join(build, "bin/example_16_cluster_crawl"), module, server]


def run(script, words):
    """Returns how many checks passed and how many failed."""
    done = subprocess.run(["/usr/bin/python3", script, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    found = re.findall(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    if done.returncode == SKIPPED:
        return 0, 0
    good, bad = map(int, found[-1]) if found else (0, 1)
    if bad or done.returncode:
        print(done.stdout, file=sys.stderr)
        bad = bad or 1
    return good, bad


def title(server):
    told = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    return re.sub(r"^(\w+) server v=(\S+).*", r"\1 \2", told.strip())


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    failed = 0
    print("| server | checks passed | failed |\n|---|---|---|")
    for server in map(os.path.abspath, sys.argv[2:]):
        counts = [run(script, words) for script, words in runs(build, server)]
        good, bad = (sum(column) for column in zip(*counts))
        print(f"| {title(server)} | {good} | {bad} |", flush=True)
        failed += bad
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
