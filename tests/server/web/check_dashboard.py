#!/usr/bin/env python3
"""Tests the dashboard in Chromium with browse.mjs, against mocks or against a running service. See also check_service.py.
usage: check_dashboard.py DIRECTORY [BASE [OPTION=VALUE ...]]      options: see browse.mjs
  DIRECTORY keeps playwright-core and axe-core (installed with npm) and the latest screenshots between runs
  exit status 77: skipped because there is no browser, or the package could not be downloaded"""

import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["playwright-core@1.55.0", "axe-core@4.10.3"]  # both are required for a complete run
SKIPPED = 77
CLOSING = 30 # seconds that Node.js has for its exit
MOCKS = {"": ["--filters", "40", "--hostile", "--frozen"], "users=": ["--user", "admin:secret"], "loading=": ["--loading"]}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def have_package(folder):
    """Installs the packages into the directory unless they are already there. They do not include a browser."""
    for program in ("node", "npm", "chromium"):
        if not shutil.which(program):
            skip(f"{program} is not installed (Debian packages: nodejs npm chromium)")
    names = " and ".join(PACKAGES)
    ready = os.path.join(folder, "ready")  # this file is written last, so that an incomplete installation is retried
    if os.path.exists(ready):
        with open(ready, encoding="utf-8") as file:
            if file.read().split() == PACKAGES:
                return
    os.makedirs(folder, exist_ok=True)
    try:
        done = subprocess.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--ignore-scripts", "--no-save", *PACKAGES],
                              text=True, timeout=600, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        skip(f"npm did not install {names} within ten minutes")
    if done.returncode:
        reasons = [line for line in done.stdout.splitlines() if "error" in line]
        skip(f"npm cannot install {names}: {'; '.join(reasons[:3]) or 'no reason given'}")
    with open(ready, "w", encoding="utf-8") as file:
        file.write(" ".join(PACKAGES) + "\n")


def browse(folder, shots, addresses):
    """Runs browse.mjs and shows its output. Returns the number of passed checks and the number of failed checks."""
    command = ["node", os.path.join(HERE, "browse.mjs"), folder, shutil.which("chromium"), shots, *addresses]
    tally = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        for line in node.stdout:
            print(line, end="", flush=True)
            tally = re.fullmatch(r"(\d+) passed, (\d+) failed\n", line)
            if tally:
                break
        try:
            node.wait(CLOSING if tally else None)
        except subprocess.TimeoutExpired: # Node.js can deadlock while it exits (nodejs/node#54918); all results are known
            print(f"note: Node.js did not exit within {CLOSING} s", flush=True)
            node.kill()
    return (int(tally[1]), int(tally[2])) if tally else (0, 1)


def main():
    folder = os.path.abspath(sys.argv[1])
    shots = os.path.join(folder, "screenshots")
    have_package(folder)
    mocks = []
    addresses = sys.argv[2:]
    if not addresses:
        mocks = [subprocess.Popen([sys.executable, os.path.join(HERE, "mock.py"), *options], stdout=subprocess.PIPE, text=True) for options in MOCKS.values()]
        addresses = [name + mock.stdout.readline().strip() for name, mock in zip(MOCKS, mocks)]
    try:
        passed, failed = browse(folder, shots, addresses)
        return 1 if failed or not passed else 0
    finally:
        for mock in mocks:
            mock.terminate()
            mock.wait()


if __name__ == "__main__":
    sys.exit(main())
