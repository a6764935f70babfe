#!/usr/bin/env python3
"""Checks rules that a compiler does not check: which directories may include headers from which other directories,
which functions the library must not call, and that file names are unique. Prints every violation, and exits with status
1 if there is one."""

import collections
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Files in a directory of src/ may include headers from that directory and from the directories before it in this list.
LAYERS = ["base", "hash", "kind", "filter", "live", "store", "gate"]

# These directories are outside the library and may include only the library's public headers.
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
    """Yields the path of every file, relative to the root; skips build and hidden directories."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not re.match(r"(\.|build$|build-|__pycache__)", f))
        for name in sorted(names):
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def without_comments(text):
    """Returns the text without comments and string contents, but with the same line numbers."""
    def blank(match):
        found = match.group(0)
        return '""' if found.startswith('"') else "\n" * found.count("\n")
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def kinds():
    """Returns the names of all kinds in kind.h."""
    with open(os.path.join(ROOT, "include/bloomgate/kind.h"), encoding="utf-8") as f:
        return re.findall(r"\bX\([A-Z_]+, \d+, (\w+)\)", f.read())


def kind_of(path, names):
    """Returns the kind that a file in src/kind is named after, or None if several kinds share the file."""
    stem = os.path.basename(path).split(".")[0]
    return next((k for k in names if stem == k or stem.startswith(k + "_")), None)


def check_include(path, line, target, names):
    top = target.split("/")[0]
    if any(path.startswith(folder + "/") for folder in OUTSIDE) and top in LAYERS:
        breach(path, line, f'"{target}" is private to src/; include only "bloomgate/..." here')
    if not path.startswith("src/"):
        return
    layer = path.split("/")[1]
    if top == "bloomgate":
        return
    if top not in LAYERS:
        breach(path, line, f'"{target}": in src/ write "bloomgate/..." or "DIRECTORY/..."')
    elif LAYERS.index(top) > LAYERS.index(layer):
        breach(path, line, f'"{target}": {layer} must not include {top} (order: {" < ".join(LAYERS)})')
    elif top == layer == "kind":
        mine, theirs = kind_of(path, names), kind_of(target, names)
        if mine and theirs and mine != theirs:
            breach(path, line, f'"{target}": kind {mine} must not include kind {theirs}; '
                               "move shared code to a header that is not named after a kind")


def check_calls(path, text):
    banned = PRINTS_OR_ENDS + ([] if path in ALLOCATORS else ALLOCATES)
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(banned) + r")\s*\(")
    for number, line in enumerate(text.split("\n"), 1):
        for name in pattern.findall(line):
            why = (f"only {ALLOCATORS[0]} allocates memory" if name in ALLOCATES
                   else "the library prints nothing, never exits and handles no signals")
            breach(path, number, f"{name}(): {why}")


def check_layer(path):
    parts = path.split("/")
    if len(parts) < 3 or parts[1] not in LAYERS:
        breach(path, 1, f"files in src/ must be in one of these directories: {', '.join(LAYERS)}")
        return False
    return True


def main():
    names = kinds()
    seen = collections.defaultdict(list)
    for path in files():
        base = os.path.basename(path)
        # Public headers are always included as "bloomgate/x.h", so they may share a name with a
        # private header.
        if base not in MAY_REPEAT and not path.startswith(("include/", "fuzz/corpus/")):
            seen[base].append(path)
        if not path.endswith(SOURCE):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = f.read()
        if path.startswith("src/"):
            if not check_layer(path):
                continue
            check_calls(path, without_comments(text))
        for number, line in enumerate(text.split("\n"), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if found:
                check_include(path, number, found.group(1), names)
    for base, paths in seen.items():
        if len(paths) > 1:
            breach(paths[-1], 1, f"{paths[0]} has the same file name")
    print("\n".join(breaches) if breaches else "layers: no violations")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
