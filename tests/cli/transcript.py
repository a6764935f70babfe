#!/usr/bin/env python3
"""Runs the commands in shell transcripts, and compares their output, messages and exit codes with the expected results.

A transcript contains commands, each followed by its expected results:

    $ bloomgate check seen.bg words.txt      a command, run by bash in a temporary directory
    apple                                    stdout
    ! bloomgate check: no such file          stderr
    ? 1                                      exit code, if it is not 0
    # anything                               a comment

`...` matches any text within a line. Output lines that are empty or start with `$`, `!`, `?`, `#` or `|` are prefixed
with `|`. All commands in a transcript run in the same directory; $CLI_TESTS is the directory that contains this script.
usage: transcript.py BLOOMGATE TRANSCRIPT... [--update]      --update: write the actual results"""

import os
import re
import subprocess
import sys
import tempfile

SIGNS = ("$", "!", "?", "#", "|")


def shown(text, sign=""):
    """Converts output to transcript lines."""
    if not text:
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [sign + (line if sign or line and not line.startswith(SIGNS) else "|" + line) for line in lines]


def run(command, folder, environment):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=1500)
    out, err = (part.decode("utf-8", "backslashreplace") for part in (done.stdout, done.stderr))
    return shown(out) + shown(err, "! ") + ([f"? {done.returncode}"] if done.returncode else [])


def parse(path):
    """Returns [(preceding lines, command, expected lines)], and the lines after the last command."""
    blocks, before = [], []
    with open(path, encoding="utf-8") as f:
        for line in f.read().split("\n"):
            if line.startswith("$ "):
                blocks.append((before, line[2:], []))
                before = []
            elif line.startswith("#") or line == "" or not blocks:
                before.append(line)
            elif before:
                sys.exit(f"{path}: expected a command after an empty line or a comment, got {line}")
            else:
                blocks[-1][2].append(line)
    return blocks, before


def fits(expected, found):
    if len(expected) != len(found):
        return False
    for want, have in zip(expected, found):
        pattern = ".*".join(re.escape(part) for part in want.split("..."))
        if want != have and not re.fullmatch(pattern, have):
            return False
    return True


def play(path, environment, update):
    """Runs a transcript. Returns the number of commands that passed and the number that failed."""
    blocks, rest = parse(path)
    good = bad = 0
    written = []
    with tempfile.TemporaryDirectory(prefix="bloomgate-cli-") as folder:
        for before, command, expected in blocks:
            found = run(command, folder, environment)
            same = fits(expected, found)
            good, bad = good + same, bad + (not same)
            written += before + ["$ " + command] + (expected if same else found)
            if not same and not update:
                print(f"--- {os.path.basename(path)}: $ {command}\nexpected:")
                print("\n".join(expected) + "\nfound:\n" + "\n".join(found))
    if update:
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(written + rest))
    return good, bad


# The machine that transcripts and documents assume.
MACHINE = "l1=32Ki,l2=1Mi,l3=32Mi,memory=16Gi,cpus=2"


def surroundings(program):
    """Returns the environment for commands. It describes a fixed machine, so that the output is the same everywhere."""
    path = os.path.dirname(os.path.abspath(program)) + ":" + os.environ.get("PATH", os.defpath)
    environment = {**os.environ, "BLOOMGATE_MACHINE": MACHINE, "PATH": path, "TZ": "UTC", "LC_ALL": "C.UTF-8", "TERM": "xterm", "CLI_TESTS": os.path.dirname(os.path.abspath(__file__))}
    for name in ("NO_COLOR", "LANGUAGE"): # LANGUAGE takes precedence over LC_ALL=C.UTF-8
        environment.pop(name, None)
    return environment


def main():
    program, *paths = [a for a in sys.argv[1:] if a != "--update"]
    environment = surroundings(program)
    passed = failed = 0
    for path in paths:
        good, bad = play(path, environment, "--update" in sys.argv)
        passed, failed = passed + good, failed + bad
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
