#!/usr/bin/env python3
"""Runs every command in the ```console blocks of docs/http.md, against a service without filters or against a mock. See
tests/cli/check_documents.py for the meaning of `...`.
usage: check_tour.py [BASE] [--update]"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
import check_documents  # noqa: E402

DOCUMENT = os.path.join(ROOT, "docs", "http.md")


def play(base):
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    tally = [0, 0]
    environment = {**os.environ, "BLOOMGATE": base.rstrip("/"), "LC_ALL": "C.UTF-8", "LANGUAGE": ""}
    with tempfile.TemporaryDirectory(prefix="bloomgate-tour-") as folder:
        text = check_documents.BLOCK.sub(lambda m: "```console\n" + check_documents.play(m.group(1), folder, environment, tally) + "```", text)
    if "--update" in sys.argv:
        with open(DOCUMENT, "w", encoding="utf-8") as file:
            file.write(text)
    print(f"{tally[0]} passed, {tally[1]} failed")
    return 1 if tally[1] or tally[0] < 20 else 0


def main():
    given = [argument for argument in sys.argv[1:] if argument != "--update"]
    if given:
        return play(given[0])
    with subprocess.Popen([sys.executable, os.path.join(HERE, "mock.py"), "--filters", "0", "--bare"], stdout=subprocess.PIPE, text=True) as mock:
        try:
            return play(mock.stdout.readline().strip())
        finally:
            mock.terminate()


if __name__ == "__main__":
    sys.exit(main())
