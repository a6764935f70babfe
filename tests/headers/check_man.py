#!/usr/bin/env python3
"""Checks the man pages that tools/gen_man.py generates from the headers: every exported function and
every static inline function is documented on exactly one page and has a link page, no page documents
anything else, and mandoc reports no problems.
usage: check_man.py, from the root of the project"""

import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
failures = []


def expect(good, message):
    if not good:
        failures.append(message)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def declared(text):
    """Returns the functions that a page declares, which are the bold names in its literal blocks."""
    blocks = re.findall(r"^\.Bd -literal$(.*?)^\.Ed$", text, re.M | re.S)
    return [name for block in blocks for name in re.findall(r"\\fB(bg_\w+)\\fR\(", block)]


def inline_functions():
    """Returns the static inline functions in the headers, except those in the private code of inline.h."""
    headers = set(glob.glob(os.path.join(ROOT, "include/bloomgate/*.h"))) - {
        os.path.join(ROOT, "include/bloomgate/inline_code.h")}
    return {name for path in headers
            for name in re.findall(r"^static inline [\w *]*?\b(bg_\w+)\(", read(path), re.M)}


def check_functions(pages):
    exported = set(read(os.path.join(ROOT, "abi/symbols.txt")).split()) | inline_functions()
    links = {name: re.fullmatch(r"\.so man3/(.*)\n", text).group(1)
             for name, text in pages.items() if text.startswith(".so ")}
    where = collections.defaultdict(list)
    for name, text in pages.items():
        for function in declared(text):
            where[function].append(name)
    for function in sorted(exported | set(where)):
        found = where.get(function, [])
        expect(function in exported, f"{', '.join(found)}: {function} is not exported (abi/symbols.txt)")
        expect(len(found) == 1, f"{function}: expected one page, got {len(found)}: {', '.join(found)}")
        expect(f"{function}.3" in pages, f"{function}.3 does not exist")
        target = links.get(f"{function}.3", f"{function}.3")
        expect(found in ([], [target]), f"{function}.3 refers to {target}, which does not document the function")
    for name, target in links.items():
        expect(name[:-2] in exported, f"{name}: no exported function has this name")
        expect(target in pages and target not in links, f"{name} refers to {target}, which is not a page")
    return len(where)


def check_references(pages):
    for name, text in pages.items():
        for target in re.findall(r"^\.Xr (\w+) 3", text, re.M):
            expect(f"{target}.3" in pages, f"{name} refers to {target}(3), which does not exist")


def check_format(folder, names):
    """Expects no mandoc warnings except about the date, which is missing until a version is released, and about manuals
    that are not installed."""
    if not shutil.which("mandoc"):
        print("mandoc is not installed, so the format of the pages is not checked")
        return
    done = subprocess.run(["mandoc", "-T", "lint", *names], cwd=folder, capture_output=True, text=True,
                          check=False)
    complaints = [line for line in done.stdout.splitlines()
                  if "missing date" not in line and "referenced manual not found" not in line]
    expect(not complaints, "\n".join(complaints))


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(ROOT, "tools/gen_man.py"), folder], check=True)
        pages = {name: read(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}
        count = check_functions(pages)
        check_references(pages)
        check_format(folder, [name for name, text in pages.items() if not text.startswith(".so ")])
    print("\n".join(failures) if failures else f"man pages: {count} functions, each on one page")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
