#!/usr/bin/env python3
"""Plants one violation of each rule in a copy of the sources, and checks that tools/check_layers.py reports it.

usage: check_layer_rules.py"""

import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# (file, line appended to it, part of the message)
VIOLATIONS = [
    ("src/base/bits.h", '#include "store/disk.h"', "base must not include store"),
    ("src/kind/cuckoo.c", '#include "kind/quotient_table.h"', "kind cuckoo must not include kind quotient"),
    ("src/base/pool.c", "static void f(void) { printf(); }", "the library prints nothing"),
    ("src/new.c", "", "files in src/ must be in one of these directories"),
    ("server/util/log.c", '#include "base/bits.h"', "is private to src/"),
    ("server/util/log.c", '#include "request/session.h"', "util must not include request"),
    ("server/journal/read.c", '#include "record.h"', 'write "DIRECTORY/record.h"'),
    ("server/new.c", "", "files in server/ must be in one of these directories"),
    ("server/util/log.c", '#include "say.h"', "server must not include cli"),
    ("common/text.c", '#include "args.h"', "common must not include command"),
    ("command/args.c", '#include "cluster_client.h"', "command must not include cluster"),
    ("cluster/cluster_client.c", '#include "say.h"', "cluster must not include cli"),
    ("cli/say.c", '#include "util/log.h"', "cli must not include server"),
    ("cli/disk.c", "", "has the same file name"),
]


def report(tree):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools/check_layers.py"), tree], capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as tree:
        for folder in ("include", "src", "common", "command", "cluster", "cli", "server"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(tree, folder))
        for path, line, message in [(None, None, "no violations"), *VIOLATIONS]:
            before = None
            if path:
                path = os.path.join(tree, path)
                before = open(path, encoding="utf-8").read() if os.path.exists(path) else None
                with open(path, "a", encoding="utf-8") as f:
                    f.write(f"\n{line}\n")
            status, text = report(tree)
            good = status == (path is not None) and message in text
            passed, failed = passed + good, failed + (not good)
            if not good:
                print(f"FAILED {path or 'the unchanged tree'}: {line}: expected {message!r}, got:\n{text}")
            if path and before is None:
                os.remove(path)
            elif path:
                with open(path, "w", encoding="utf-8") as f:
                    f.write(before)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
