#!/usr/bin/env python3
"""Checks the house rules that a compiler does not: who may include whom, what the library
may not call, and that file names are unique. Prints every breach; exits 1 if there is one."""

import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A room of src/ may use itself and the rooms before it.
ROOMS = ["base", "hash", "kind", "filter", "live", "store", "gate"]

# These stand outside of the library and see its public headers only.
OUTSIDE = ["common", "command", "cluster", "server", "cli", "adapters", "bindings", "examples", "tests/api"]

PRINTS_OR_ENDS = ["printf", "fprintf", "vprintf", "vfprintf", "puts", "fputs", "putchar", "putc",
                  "perror", "exit", "_exit", "quick_exit", "abort", "signal", "sigaction"]
ALLOCATES = ["malloc", "calloc", "realloc", "free", "strdup", "strndup", "aligned_alloc",
             "posix_memalign", "mmap", "munmap", "alloca"]
ALLOCATORS = ["src/base/memory.c", "src/base/pool.c"]

MAY_REPEAT = {"CMakeLists.txt", "README.md"}
SOURCE = (".c", ".h", ".cc", ".cpp", ".hpp", ".inc")

breaches = []


def breach(path, line, text):
    breaches.append(f"{path}:{line}: {text}")


def files():
    """Every file of the tree, as a path from its root; no build folders, no hidden ones."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not re.match(r"(\.|build$|build-|__pycache__)", f))
        for name in sorted(names):
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def without_comments(text):
    """Comments and the insides of strings blanked; lines keep their numbers."""
    def blank(match):
        found = match.group(0)
        return '""' if found.startswith('"') else "\n" * found.count("\n")
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def kinds():
    """The kinds' names, from the one list of them."""
    with open(os.path.join(ROOT, "include/bloomgate/kind.h"), encoding="utf-8") as f:
        return re.findall(r"\bX\([A-Z_]+, \d+, (\w+)\)", f.read())


def kind_of(path, names):
    """The kind that a file of src/kind belongs to by its name; None when it is shared."""
    stem = os.path.basename(path).split(".")[0]
    return next((k for k in names if stem == k or stem.startswith(k + "_")), None)


def check_include(path, line, target, names):
    top = target.split("/")[0]
    if any(path.startswith(folder + "/") for folder in OUTSIDE) and top in ROOMS:
        breach(path, line, f'"{target}" is private to src/; here only "bloomgate/..." is used')
    if not path.startswith("src/"):
        return
    room = path.split("/")[1]
    if top == "bloomgate":
        return
    if top not in ROOMS:
        breach(path, line, f'"{target}": in src/ say "bloomgate/..." or "<room>/..."')
    elif ROOMS.index(top) > ROOMS.index(room):
        breach(path, line, f'"{target}": {room} comes before {top} ({" < ".join(ROOMS)})')
    elif top == room == "kind":
        mine, theirs = kind_of(path, names), kind_of(target, names)
        if mine and theirs and mine != theirs:
            breach(path, line, f'"{target}": kind {mine} may not include kind {theirs}; '
                               "shared code goes to a header that is not named after a kind")


def check_calls(path, text):
    banned = PRINTS_OR_ENDS + ([] if path in ALLOCATORS else ALLOCATES)
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(banned) + r")\s*\(")
    for number, line in enumerate(text.split("\n"), 1):
        for name in pattern.findall(line):
            why = (f"memory comes from {ALLOCATORS[0]} only" if name in ALLOCATES
                   else "the library prints nothing, never ends the program and handles no signals")
            breach(path, number, f"{name}(): {why}")


def check_room(path):
    parts = path.split("/")
    if len(parts) < 3 or parts[1] not in ROOMS:
        breach(path, 1, f"src/ has the rooms {', '.join(ROOMS)}")
        return False
    return True


def main():
    names = kinds()
    seen = collections.defaultdict(list)
    for path in files():
        base = os.path.basename(path)
        # Public headers are always spelled "bloomgate/x.h": they may share a name with a room's.
        if base not in MAY_REPEAT and not path.startswith(("include/", "fuzz/corpus/")):
            seen[base].append(path)
        if not path.endswith(SOURCE):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = f.read()
        if path.startswith("src/"):
            if not check_room(path):
                continue
            check_calls(path, without_comments(text))
        for number, line in enumerate(text.split("\n"), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if found:
                check_include(path, number, found.group(1), names)
    for base, paths in seen.items():
        if len(paths) > 1:
            breach(paths[-1], 1, f"there is another {base}: {paths[0]}")
    print("\n".join(breaches) if breaches else "layers: in order")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
