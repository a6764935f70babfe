#!/usr/bin/env python3
"""Fifty kills under load; make soak does a thousand: kill_drill.py.
usage: test_kill.py BLOOMGATED"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kill_drill import drill  # noqa: E402


def main():
    results = [drill(sys.argv[1], 13, policy, 1) for policy in ("always", "everysec")]
    passed, failed = sum(r[0] for r in results), sum(r[1] for r in results)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
