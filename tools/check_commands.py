#!/usr/bin/env python3
"""Checks that the list of commands in docs/commands.md matches the service's command tables.
usage: check_commands.py COMMAND_REFERENCE [--update]"""

import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = os.path.join(ROOT, "docs/commands.md")
BEGIN, END = "<!-- the list: tools/check_commands.py -->\n", "<!-- end of the list -->\n"


def main():
    listed = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout
    with open(DOCUMENT, encoding="utf-8") as f:
        text = f.read()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    wanted = before + BEGIN + "\n" + listed + END + after
    if sys.argv[2:] == ["--update"]:
        with open(DOCUMENT, "w", encoding="utf-8") as f:
            f.write(wanted)
    elif wanted != text:
        sys.exit(f"docs/commands.md is out of date: run {sys.argv[0]} {sys.argv[1]} --update")
    print(f"commands: {listed.count('`') // 2} in docs/commands.md")


if __name__ == "__main__":
    main()
