#!/usr/bin/env python3
"""Tests node-redis and ioredis with the service, in RESP2 and RESP3. The client_*.mjs scripts run all BF and CF
commands of these clients. The packages are downloaded once from npm into a directory next to the program.
usage: test_node_clients.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import os
import shutil
import subprocess
import sys

import service
from service import HERE, Skip

PACKAGES = ["redis@6.3.1", "ioredis@6.0.0"]
FOLDER = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])) if len(sys.argv) > 1 else "",
                      "..", "interop", "redis-clients")


def prepare():
    """Installs the packages if they are missing."""
    if not shutil.which("node") or not shutil.which("npm"):
        raise Skip("node or npm is not installed (Debian: nodejs npm)")
    version = subprocess.run(["node", "--version"], stdout=subprocess.PIPE, check=True).stdout
    if int(version.decode().lstrip("v").split(".")[0]) < 20:
        raise Skip(f"the clients require node 20, found {version.decode().strip()}")
    ready = os.path.join(FOLDER, "ready")  # written last, so an incomplete installation is retried
    wanted = "\n".join(PACKAGES) + "\n"
    if os.path.exists(ready):
        with open(ready, encoding="utf-8") as file:
            if file.read() == wanted:
                return
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    try:
        done = subprocess.run(["npm", "install", "--prefix", FOLDER, "--no-audit", "--no-fund",
                               "--ignore-scripts", "--no-save", *PACKAGES], text=True,
                              timeout=600, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
    except subprocess.TimeoutExpired:
        raise Skip("npm did not install the clients within ten minutes") from None
    if done.returncode:
        reasons = [line for line in done.stdout.splitlines() if "error" in line]
        raise Skip(f"npm cannot install the clients: {'; '.join(reasons[:3]) or 'no reason given'}")
    with open(ready, "w", encoding="utf-8") as file:
        file.write(wanted)


def run(script, *arguments):
    done = subprocess.run(["node", os.path.join(HERE, script), *map(str, arguments)], cwd=FOLDER,
                          text=True, timeout=600, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    print(f"  {done.stdout.splitlines()[-1]}")


def test_node_redis_resp2(s):
    run("client_node_redis.mjs", s.port, 2)


def test_node_redis_resp3(s):
    run("client_node_redis.mjs", s.port, 3)


def test_ioredis_resp2(s):
    run("client_ioredis.mjs", s.port, 2, s.unix)


def test_ioredis_resp3(s):
    run("client_ioredis.mjs", s.port, 3, s.unix)


service.main(__doc__)
