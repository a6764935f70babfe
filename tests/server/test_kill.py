#!/usr/bin/env python3
"""Runs kill -9 while clients write, 50 times or more: see kill_drill.py, which has options for
more kills.
usage: test_kill.py PATH-OF-BLOOMGATED"""

import os
import subprocess
import sys

ROUNDS = 13 * max(1, int(os.environ.get("BG_TEST_SCALE", "1")))  # per round: two kills for each policy


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    drill = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kill_drill.py")
    sys.exit(subprocess.call([sys.executable, drill, sys.argv[1], "--kills", str(ROUNDS)]))


main()
