#!/usr/bin/env python3
"""Runs the ```console blocks in documents and compares the results with the expected output. Each command follows "$ ";
its expected output and messages are on the next lines. All blocks in a document run in the same directory. `...`
matches any text within a line; a line that consists of `...` matches any number of lines.
usage: check_documents.py BLOOMGATE DOCUMENT... [--update]      --update: write the actual results to the documents"""

import re
import subprocess
import sys
import tempfile

import transcript

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.S | re.M)


def fits(expected, found):
    """Compares lines as transcript.fits does. In addition, a line "..." matches any number of lines."""
    if "..." not in expected:
        return transcript.fits(expected, found)
    at = expected.index("...")
    rest = len(expected) - at - 1
    return len(found) >= at + rest and transcript.fits(expected[:at], found[:at]) \
        and (rest == 0 or transcript.fits(expected[at + 1:], found[len(found) - rest:]))


def play(block, folder, environment, tally):
    """Runs a block and returns it with the actual results."""
    lines = block.rstrip("\n").split("\n")
    written = []
    while lines:
        command = lines.pop(0)
        while command.endswith("\\"):
            command += "\n" + lines.pop(0)
        expected = []
        while lines and not lines[0].startswith("$ "):
            expected.append(lines.pop(0))
        done = subprocess.run(["bash", "-c", command[2:]], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        found = done.stdout.decode("utf-8", "backslashreplace").rstrip("\n").split("\n") if done.stdout else []
        good = fits(expected, found)
        tally[not good] += 1
        if not good:
            print(f"--- {command}\nexpected:\n" + "\n".join(expected) + "\nfound:\n" + "\n".join(found))
        written += [command] + (expected if good else found)
    return "\n".join(written) + "\n"


def main():
    program, *paths = [a for a in sys.argv[1:] if a != "--update"]
    environment = transcript.surroundings(program)
    tally = [0, 0]
    for path in paths:
        with open(path, encoding="utf-8") as f:
            text = f.read()
        with tempfile.TemporaryDirectory(prefix="bloomgate-cli-") as folder:
            text = BLOCK.sub(lambda m: "```console\n" + play(m.group(1), folder, environment, tally) + "```", text)
        if "--update" in sys.argv:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    print(f"{tally[0]} passed, {tally[1]} failed")
    sys.exit(tally[1] > 0)


if __name__ == "__main__":
    main()
