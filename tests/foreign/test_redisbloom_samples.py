#!/usr/bin/env python3
"""Tests the library with SCANDUMP output from RedisBloom filters (redisbloom/README.md). Every member must be found,
the false positives must be exactly those of RedisBloom, adding more keys must produce the same bytes, and a header in
which any significant byte has changed must be refused.
usage: test_redisbloom_samples.py FOREIGN_TOOL
The last line is "N passed, N failed"."""

import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.abspath(sys.argv[1])
FORMATS = {"MBbloom--": "redisbloom", "MBbloomCF": "rediscuckoo"}
RECORD = 16
CUCKOO_HEADER = 38
# Bytes in a cuckoo filter's header that cannot be validated: the number of deletions, the maximum number of iterations,
# and an address.
FREE = set(range(16, 24)) | {34, 35} | set(range(38, 46))
EXPANSION = {36, 37}  # cannot be validated if there is only one filter

passed = failed = 0


def check(what, good):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print(f"FAILED {what}")


def tool(verb, sample, path, keys=()):
    """Runs the tool, passing the keys as lines of hexadecimal digits. Returns its exit status and output."""
    lines = "".join(key.encode().hex() + "\n" for key in keys).encode()
    done = subprocess.run([TOOL, verb, FORMATS[sample["type"]], path, "0", "0"], input=lines,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout


def file_of(sample):
    """Returns the chunks in the form that bg_foreign_decode accepts (see docs/foreign.md)."""
    return b"".join(struct.pack("<QQ", iterator, len(data) // 2) + bytes.fromhex(data)
                    for iterator, data in sample["chunks"])


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def count(sample, path, keys):
    """Returns how many of the keys may be present, or -1 if the file is refused."""
    status, text = tool("ask", sample, path, keys)
    return int(text) if status == 0 else -1


def test_answers(sample, path):
    members = [f"item:{i}" for i in range(*sample["members"])]
    found = [f"nobody:{i}" for i in sample["found"]]
    others = [f"nobody:{i}" for i in range(sample["absent"]) if i not in sample["found"]]
    check(f"{sample['name']}: not all members were found", count(sample, path, members) == len(members))
    check(f"{sample['name']}: not all of RedisBloom's false positives were found", count(sample, path, found) == len(found))
    check(f"{sample['name']}: absent keys were found", count(sample, path, others) == 0)


def test_written(sample, path):
    """Writing the filter must produce the original bytes, except for an address after the header. After more keys have
    been added, writing it must produce the bytes that RedisBloom produces."""
    expected = json.loads(json.dumps(sample))
    if sample["type"] == "MBbloomCF":
        expected["chunks"][0][1] = expected["chunks"][0][1][:2 * CUCKOO_HEADER]
    check(f"{sample['name']}: different bytes after reading and writing", tool("add", sample, path) == (0, file_of(expected)))
    if sample.get("more"):
        status, text = tool("add", sample, path, [f"more:{i}" for i in range(sample["more"])])
        check(f"{sample['name']}: different bytes after adding keys", status == 0 and hashlib.sha256(text).hexdigest() == sample["more_sha256"])


def test_damage(sample, path):
    """Checks that damage to any significant byte up to the end of the header is detected, whether one bit or all bits
    of the byte are flipped. A truncated file must also be refused."""
    whole = file_of(sample)
    free = FREE | (EXPANSION if len(sample["chunks"]) == 2 else set())
    for at in range(RECORD + len(sample["chunks"][0][1]) // 2):
        for flip in (1, 255):
            if at - RECORD not in free:
                write(path, whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1:])
                check(f"{sample['name']}: accepted with byte {at} ^ {flip}", count(sample, path, ()) == -1)
    write(path, whole[:-1])
    check(f"{sample['name']}: accepted although truncated", count(sample, path, ()) == -1)


def main():
    with open(os.path.join(HERE, "redisbloom", "samples.json"), encoding="utf-8") as file:
        samples = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dump")
        for sample in samples:
            if not sample["chunks"]:
                continue
            write(path, file_of(sample))
            if sample["version"] != 4:
                check(f"{sample['name']}: an unsupported version was accepted", count(sample, path, ()) == -1)
                continue
            test_answers(sample, path)
            test_written(sample, path)
            if sample["type"] == "MBbloomCF":
                test_damage(sample, path)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


main()
