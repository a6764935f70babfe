#!/usr/bin/env python3
"""Checks rules that a compiler does not check: which directories may include headers from which other directories,
which functions the library must not call, and that file names are unique where headers are included without their
directory. Prints every violation, and exits with status 1 if there is one.

usage: check_layers.py [ROOT]"""

import collections
import os
import re
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Files in a directory of src/ may include headers from that directory and from the directories before it in this list.
LAYERS = ["base", "hash", "kind", "filter", "live", "store", "gate"]

# The same for the directories of server/.
SERVER = ["util", "source", "sqlite", "postgres", "config", "resp", "http", "journal", "catalog", "core", "persist",
          "gates", "fronts", "request", "observe", "commands", "api", "main"]

# The programs. A directory may include headers from the directories before it in this list; server and cli are last and
# independent of each other. Headers are included without their directory.
PROGRAMS = ["common", "command", "cluster", "cli"]

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


def program_headers():
    """Returns {header name: directory} for the headers of the programs."""
    return {name: folder for folder in PROGRAMS for name in sorted(os.listdir(os.path.join(ROOT, folder)))
            if name.endswith(".h")}


def check_program_include(path, line, target, headers):
    """Checks an include in common/, command/, cluster/, cli/ or server/."""
    parts = path.split("/")
    theirs = headers.get(target)
    if parts[0] == "server":
        if theirs == "cli":
            breach(path, line, f'"{target}": server must not include cli')
    elif parts[0] in PROGRAMS and theirs and PROGRAMS.index(theirs) > PROGRAMS.index(parts[0]):
        breach(path, line, f'"{target}": {parts[0]} must not include {theirs} (order: {" < ".join(PROGRAMS)})')
    elif parts[0] in PROGRAMS and os.path.exists(os.path.join(ROOT, "server", target)):
        breach(path, line, f'"{target}": {parts[0]} must not include server')


def check_server_include(path, line, target, headers):
    """Checks an include in server/."""
    layer, top = path.split("/")[1], target.split("/")[0]
    if top == "bloomgate" or target in headers:
        return
    if top not in SERVER:
        if os.path.exists(os.path.join(ROOT, os.path.dirname(path), target)):
            breach(path, line, f'"{target}": in server/ write "DIRECTORY/{target}"')
    elif SERVER.index(top) > SERVER.index(layer):
        breach(path, line, f'"{target}": {layer} must not include {top} (order: {" < ".join(SERVER)})')


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


def check_layer(path, layers):
    parts = path.split("/")
    if len(parts) < 3 or parts[1] not in layers:
        breach(path, 1, f"files in {parts[0]}/ must be in one of these directories: {', '.join(layers)}")
        return False
    return True


def main():
    names, headers = kinds(), program_headers()
    seen = collections.defaultdict(list)
    for path in files():
        base = os.path.basename(path)
        # Public headers are always included as "bloomgate/x.h", and headers of the service as "DIRECTORY/x.h", so they
        # may share a name with another header.
        if base not in MAY_REPEAT and not path.startswith(("include/", "server/", "fuzz/corpus/")):
            seen[base].append(path)
        if not path.endswith(SOURCE):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            text = f.read()
        if path.startswith("src/"):
            if not check_layer(path, LAYERS):
                continue
            check_calls(path, without_comments(text))
        if path.startswith("server/") and not check_layer(path, SERVER):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if found:
                check_include(path, number, found.group(1), names)
                check_program_include(path, number, found.group(1), headers)
                if path.startswith("server/"):
                    check_server_include(path, number, found.group(1), headers)
    for base, paths in seen.items():
        if len(paths) > 1:
            breach(paths[-1], 1, f"{paths[0]} has the same file name")
    print("\n".join(breaches) if breaches else "layers: no violations")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
