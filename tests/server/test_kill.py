#!/usr/bin/env python3
"""Runs kill_drill.py, which kills the service at least 50 times while clients write.
usage: test_kill.py PATH-OF-BLOOMGATED"""

import os
import subprocess
import sys

ROUNDS = 13 * max(1, int(os.environ.get("BG_TEST_SCALE", "1")))  # each round kills the service twice for each policy


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    drill = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kill_drill.py")
    sys.exit(subprocess.call([sys.executable, drill, sys.argv[1], "--kills", str(ROUNDS)]))


main()
