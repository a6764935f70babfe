#!/usr/bin/env python3
"""Applies .clang-format to C files. It also fixes two things that clang-format does not fix: padding at
the end of trailing comments, and the indentation of their continuation lines.
usage: format.py FILE..."""

import re
import subprocess
import sys


def without_padding(text):
    return re.sub(r"(\S) {2,}\*/$", r"\1 */", text, flags=re.M)


def below_the_first(text):
    lines, column = [], None
    for line in text.split("\n"):
        if column is None:
            opened = re.match(r"\s*[^\s/*#].*?(/\* )(?!.*\*/)", line)
            column = opened.start(1) + 3 if opened and not line.endswith("\\") else None
        else:
            line = " " * column + line.strip()
            column = None if line.endswith("*/") else column
        lines.append(line)
    return "\n".join(lines)


def rewrite(paths, change):
    for path in paths:
        with open(path, encoding="utf-8") as f:
            before = f.read()
        after = change(before)
        if after != before:
            with open(path, "w", encoding="utf-8") as f:
                f.write(after)


def main():
    paths = sys.argv[1:]
    rewrite(paths, without_padding)
    subprocess.run(["clang-format", "-i", *paths], check=True)
    rewrite(paths, below_the_first)
    subprocess.run(["clang-format", "-i", *paths], check=True)


if __name__ == "__main__":
    main()
