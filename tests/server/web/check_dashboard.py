#!/usr/bin/env python3
"""Tests the dashboard in Chromium with browse.mjs, against mocks or against a running service.
usage: check_dashboard.py DIRECTORY [BASE [OPTION=VALUE ...]]      options: see browse.mjs
  DIRECTORY keeps playwright-core and axe-core (installed with npm) and the latest screenshots between runs
  exit status 77: skipped because there is no browser, or the package could not be downloaded"""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["playwright-core@1.55.0", "axe-core@4.10.3"]  # both are required for a complete run
SKIPPED = 77
MOCKS = {"": ["--filters", "40", "--hostile", "--frozen"], "users=": ["--user", "admin:secret"], "loading=": ["--loading"], "large=": ["--filters", "10000"],
         "empty=": ["--filters", "0", "--bare"], "one=": ["--filters", "1", "--bare"]}


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


def browse(folder, addresses):
    return subprocess.run(["node", os.path.join(HERE, "browse.mjs"), folder, shutil.which("chromium"), os.path.join(folder, "screenshots"), *addresses],
                          check=False).returncode


def main():
    folder = os.path.abspath(sys.argv[1])
    have_package(folder)
    if len(sys.argv) > 2:
        return browse(folder, sys.argv[2:])
    mocks = [subprocess.Popen([sys.executable, os.path.join(HERE, "mock.py"), *options], stdout=subprocess.PIPE, text=True) for options in MOCKS.values()]
    try:
        return browse(folder, [name + mock.stdout.readline().strip() for name, mock in zip(MOCKS, mocks)])
    finally:
        for mock in mocks:
            mock.terminate()
            mock.wait()


if __name__ == "__main__":
    sys.exit(main())
