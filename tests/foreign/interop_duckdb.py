#!/usr/bin/env python3
"""Tests Parquet filters from DuckDB. Every filter in a file that DuckDB writes must be readable and have no false
negatives. A filter that the library builds from only the row group's values must have the same bytes.
usage: interop_duckdb.py PROBE DIRECTORY
The npm package is kept in DIRECTORY between runs. Exits with status 77 if the package could not be downloaded."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "@duckdb/node-api@1.5.6-r.1"
SKIPPED = 77

# Functions that convert each column's values to the bytes to be hashed, using Parquet's plain encoding.
ENCODINGS = {
    "text": lambda v: v.encode(),
    "sparse": lambda v: v.encode(),
    "long": lambda v: struct.pack("<q", int(v)),
    "short": lambda v: struct.pack("<i", int(v)),
    "day": lambda v: struct.pack("<i", int(v)),
    "real": lambda v: struct.pack("<d", float(v)),
}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def have_package(folder):
    """Installs the package into the directory unless it is already there."""
    if not shutil.which("node") or not shutil.which("npm"):
        skip("node or npm is not installed (Debian packages: nodejs npm)")
    ready = os.path.join(folder, "ready")  # written last, so that a failed installation is retried
    if os.path.exists(ready):
        return
    os.makedirs(folder, exist_ok=True)
    try:
        done = subprocess.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund",
                               "--ignore-scripts", "--no-save", PACKAGE], text=True, timeout=180,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        skip(f"npm did not install {PACKAGE} within three minutes")
    if done.returncode:
        reasons = [line for line in done.stdout.splitlines() if "error" in line]
        skip(f"npm cannot install {PACKAGE}: {'; '.join(reasons[:3]) or 'no reason given'}")
    with open(ready, "w", encoding="utf-8") as file:
        file.write(PACKAGE + "\n")


def probe(program, file, part, keys):
    text = "".join(key.hex() + "\n" for key in keys)
    return subprocess.run([program, "rebuild", "parquet", file, str(part)], input=text, text=True,
                          stdout=subprocess.PIPE, check=True).stdout.strip()


def main():
    program, folder = map(os.path.abspath, sys.argv[1:3])
    have_package(folder)
    with tempfile.TemporaryDirectory() as place:
        file = os.path.join(place, "duckdb.parquet")
        told = json.loads(subprocess.run(["node", os.path.join(HERE, "write_duckdb.mjs"), file],
                                         cwd=folder, text=True, stdout=subprocess.PIPE,
                                         check=True).stdout)
        part = wrong = start = group = rows = 0
        for chunk in told["chunks"]:
            if int(chunk["grp"]) != group:
                group, start = int(chunk["grp"]), start + rows
            rows = int(chunk["n"])
            if chunk["place"] is None:
                continue
            column = [row[chunk["name"]] for row in told["values"][start:start + rows]]
            keys = [ENCODINGS[chunk["name"]](value) for value in column if value is not None]
            found = probe(program, file, part, keys)
            good = found == f"{len(keys)} keys, {len(keys)} maybe, same bytes"
            print(f"{'ok' if good else 'FAILED'}: row group {group}, column {chunk['name']}: {found}")
            part, wrong = part + 1, wrong + (not good)
        print(f"{part - wrong} passed, {wrong} failed")
        return 1 if wrong or part < 12 else 0


if __name__ == "__main__":
    sys.exit(main())
