#!/usr/bin/env python3
"""Tests docs/format.md: the header table matches the library, and tools/bgread.py, a reader based only on that page,
verifies all golden files and files with many more geometries. The reader must give the same answers as the library.
usage: check_reader.py PATH-OF-golden_files"""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests/golden/files")
SECRET = bytes(range(16))
sys.path.insert(0, os.path.join(ROOT, "tools"))
sys.dont_write_bytecode = True

import bgread  # noqa: E402: needs the path above

passed = failed = 0


def check(condition, text):
    global passed, failed
    passed += bool(condition)
    failed += not condition
    if not condition:
        print(f"FAILED {text}")


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


# ---- The table of the header -------------------------------------------------------------


def fields_of_library():
    """Returns (offset, size, name) for every field in container.h, whether or not it is in the X-macro list."""
    text = text_of("src/store/container.h")
    fields = {(int(a), int(n), name) for a, n, name in re.findall(r"\bX\((\d+), (\d+), (\w+)\)", text)}
    at = {name: int(value) for name, value in re.findall(r"CONTAINER_(\w+)_AT = (\d+)", text)}
    size = int(re.search(r"CONTAINER_HEADER = (\d+)", text).group(1))
    ends = {"KEY_ID": "NAME", "NAME": "DIGEST", "RESERVED": "METADATA", "METADATA": "CRC"}
    names = {"NAME": "custom_name"}
    for field, following in ends.items():
        fields.add((at[field], at[following] - at[field], names.get(field, field.lower())))
    return fields | {(0, 8, "magic"), (at["DIGEST"], 16, "digest"), (at["CRC"], size - at["CRC"], "crc")}


def fields_of_page():
    section = text_of("docs/format.md").split("## 2. The header")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\w+) \|", section, re.M)
    return {(int(a), int(n), name) for a, n, name in rows}


def check_table():
    page, library = fields_of_page(), fields_of_library()
    check(len(library) > 40, "the library's list of fields was not found")
    check(page == library, f"docs/format.md and container.h differ: {sorted(page ^ library)}")
    check({(at, n, name) for name, at, n in bgread.LAYOUT} <= page, "the offsets in bgread.py differ from docs/format.md")
    end = 0
    for at, size, name in sorted(page):
        check(at == end, f"{name} starts at {at}, but the previous field ends at {end}")
        end = at + size
    check(end == 4096, f"expected a header of 4096 bytes, got {end}")


# ---- Files ----------------------------------------------------------------------------------


def run(program, step, **settings):
    done = subprocess.run([program, step], env={**os.environ, **settings}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    check(done.returncode == 0, f"golden_files {step}:\n{done.stdout}")


def answers_of(file, keys):
    return "".join("01"[file.may_contain(key)] for key in keys)


def check_folder(program, folder, canaries):
    """Compares the reader's answers for all files in a directory with the library's answers. Returns the number of
    files."""
    with tempfile.NamedTemporaryFile() as answers:
        run(program, "ask", GOLDEN_FOLDER=folder, GOLDEN_ANSWERS=answers.name)
        lines = answers.read().decode().splitlines()
    for name, present, absent in map(str.split, lines):
        data = bgread.read_path(os.path.join(folder, name))
        try:
            file = bgread.File(data, SECRET, canaries)
        except bgread.Refused as why:
            check(False, f"{name} was refused: {why}")
            continue
        here = answers_of(file, (b"https://example.org/%d" % i for i in range(len(present))))
        check("0" not in here + present, f"{name}: a key is missing")
        here = answers_of(file, (b"absent/%d" % i for i in range(len(absent))))
        check(here == absent and len(absent) == 2000, f"{name}: different answers for absent keys")
    return len(lines)


def check_integers():
    """Checks that the reader finds the 8-byte keys in the file for `fast-int`, which hashes only them differently."""
    file = bgread.File(bgread.read_path(os.path.join(GOLDEN, "hash_fast_int.bg")))
    check(all(file.may_contain(i.to_bytes(8, "little")) for i in range(300)), "hash_fast_int.bg: an integer is missing")


def refused(data, secret=SECRET):
    try:
        bgread.File(data, secret, canaries=False)
    except bgread.Refused:
        return True
    return False


def check_damage():
    """Checks that the reader refuses files with a flipped bit or a different size, and that it refuses a wrong
    secret."""
    for name in sorted(os.listdir(GOLDEN)):
        if not name.endswith(".bg"):
            continue
        data = bgread.read_path(os.path.join(GOLDEN, name))
        for at in [*range(0, 4096, 399), 4095, 4096, 8191, 8192, len(data) - 5, len(data) - 1]:
            check(refused(data[:at] + bytes([data[at] ^ 4]) + data[at + 1:]), f"{name}: a flipped bit at {at} was not detected")
        check(refused(data[:-1]) and refused(data + b"\0"), f"{name}: a different size was not detected")
    keyed = bgread.read_path(os.path.join(GOLDEN, "hash_keyed.bg"))
    check(refused(keyed, bytes(16)), "a wrong secret was not detected")
    check(not refused(keyed, None), "the file was refused because no secret was passed")


def check_hashes(program):
    with tempfile.NamedTemporaryFile() as hashes:
        run(program, "hash", GOLDEN_HASHES=hashes.name)
        lines = hashes.read().decode().splitlines()
    key = bytes((n * n + 7) % 256 for n in range(600))
    check(len(lines) == 6 * 600, "expected 600 hashes for each of six profiles")
    functions = {name: bgread.hash_function(name, 0xfedcba9876543210, SECRET) for name in bgread.PROFILES}
    for profile, length, wanted in map(str.split, lines):
        found = functions[profile](key[:int(length)])
        check(found == int(wanted, 16), f"{profile} of {length} bytes: expected {wanted}, got {found:x}")


def main():
    program = sys.argv[1]
    check_table()
    check_hashes(program)
    check(bgread.crc32c(b"123456789") == 0xe3069283, "the CRC-32C differs from the example in docs/format.md")
    check(check_folder(program, GOLDEN, True) >= 28, "golden files are missing")
    check_integers()
    check_damage()
    with tempfile.TemporaryDirectory() as folder:
        run(program, "variants", GOLDEN_FOLDER=folder)
        check(check_folder(program, folder, False) >= 150, "variants are missing")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
