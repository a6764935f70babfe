#!/usr/bin/env python3
"""Runs the distributed crawl example on a new cluster.
usage: test_crawl.py EXAMPLE MODULE [SERVER]"""

import os
import shutil
import subprocess
import sys
import time

import cluster_world

EXAMPLE, MODULE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SERVER = sys.argv[3] if len(sys.argv) > 3 else "redis-server"

if not shutil.which(SERVER) or not shutil.which("redis-cli"):
    print(f"skipped: {SERVER} or redis-cli is not installed")
    sys.exit(77)
with cluster_world.World(SERVER, MODULE) as world:
    done = subprocess.run([EXAMPLE, world.addresses()], capture_output=True, text=True, timeout=cluster_world.PATIENCE)
    print(done.stdout + done.stderr, end="")
    end = time.monotonic() + cluster_world.PATIENCE
    while (left := sum(node.ask("DBSIZE") for node in world.nodes)) and time.monotonic() < end:
        time.sleep(0.1)  # replicas delete keys slightly later than primaries
    rows = [line.split() for line in done.stdout.splitlines()[2:]]
    good = done.returncode == 0 and left == 0 and len(rows) == 3 and int(rows[0][4]) < int(rows[2][4])
    if not good:
        print(f"exit code {done.returncode}, {left} keys left")
print("1 passed, 0 failed" if good else "0 passed, 1 failed")
sys.exit(not good)
