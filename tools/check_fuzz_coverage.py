#!/usr/bin/env python3
"""Checks fuzz/COVERAGE.md: its table lists every public function in include/ once, and each harness
in the table exists and calls the function. Prints every violation, and exits with status 1 if there is one."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = "fuzz/COVERAGE.md"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def public_functions():
    """Returns the names that headers declare with BG_API."""
    names = set()
    folder = os.path.join(ROOT, "include/bloomgate")
    for name in sorted(os.listdir(folder)):
        text = re.sub(r"/\*.*?\*/", "", read(f"include/bloomgate/{name}"), flags=re.S)
        for declaration in re.findall(r"^BG_API\b[^;]*;", text, flags=re.M):
            names.update(re.findall(r"\b(bg_\w+)\s*\(", declaration)[:1])
    return names


def table_rows():
    """Returns (function, second column) for each row of the table."""
    return re.findall(r"^\| `(bg_\w+)` \| (.+?) \|$", read(TABLE), flags=re.M)


def check_row(function, beside):
    """Yields the errors in a row. The second column lists harnesses (`fuzz_x`), or is "none: reason"."""
    if re.match(r"none: \S", beside):
        return
    harnesses = re.findall(r"`(fuzz_\w+)`", beside)
    if not harnesses:
        yield f"{function}: the row lists neither a harness nor a reason why there is none"
    for harness in harnesses:
        path = f"fuzz/{harness}.c"
        if not os.path.exists(os.path.join(ROOT, path)):
            yield f"{function}: {path} does not exist"
        elif not re.search(rf"\b{function}\s*\(", read(path)):
            yield f"{function}: {path} does not call this function"


def main():
    functions, rows = public_functions(), table_rows()
    named = [function for function, _ in rows]
    breaches = [f"{name}: missing" for name in sorted(functions - set(named))]
    breaches += [f"{name}: this is not a public function" for name in sorted(set(named) - functions)]
    breaches += [f"{name}: listed twice" for name in sorted(set(named))
                 if named.count(name) > 1]
    for function, beside in rows:
        breaches += check_row(function, beside)
    if not functions:
        breaches.append("found no public functions in include/")
    for text in breaches:
        print(f"{TABLE}: {text}")
    print(f"fuzz coverage: {len(functions)} public functions, {len(breaches)} violations")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
