#!/usr/bin/env python3
"""Runs the examples in README.md and docs/*.md. Every ```c block with a main function is compiled against an installed
copy of the library, and the program must exit with status 0. Every ```sh block with <!-- test --> on the preceding line
is run, and must also exit with status 0.
usage: run_blocks.py BUILD-DIRECTORY"""

import glob
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/cli"))
import transcript


def blocks(path):
    """Yields (line number, language, text, marked) for each fenced block in a document."""
    with open(path, encoding="utf-8") as f:
        lines = f.read().split("\n")
    start = None
    for number, line in enumerate(lines):
        fence = re.match(r"\s*```\s*(\w*)", line)
        if not fence:
            continue
        if start is None:
            start, language = number, fence.group(1)
        else:
            marked = start > 0 and lines[start - 1].strip() == "<!-- test -->"
            yield start + 1, language, "\n".join(lines[start + 1:number]) + "\n", marked
            start = None


def run_program(text, folder, env):
    source, program = os.path.join(folder, "block.c"), os.path.join(folder, "block")
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)
    package = "libbloomgate_leveldb" if "bloomgate_leveldb.h" in text else "libbloomgate"
    compile_it = f"gcc -std=c17 -Wall -Wextra -Werror {source} -o {program} " \
                 f"$(pkg-config --cflags --libs {package}) -pthread -lm"
    subprocess.run(compile_it, shell=True, check=True, env=env)
    subprocess.run([program], check=True, env=env, cwd=folder, timeout=60,
                   stdout=subprocess.DEVNULL)


def run_shell(text, env):
    subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True, env=env, cwd=ROOT,
                   timeout=200, stdout=subprocess.DEVNULL)


def main():
    build = os.path.abspath(sys.argv[1])
    ran = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "prefix")
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True,
                       stdout=subprocess.DEVNULL)
        env = dict(os.environ, PKG_CONFIG_PATH=f"{prefix}/lib/pkgconfig",
                   LD_LIBRARY_PATH=f"{prefix}/lib", BLOOMGATE_MACHINE=transcript.MACHINE,
                   PATH=f"{build}/bin:{os.environ['PATH']}")
        documents = [os.path.join(ROOT, "README.md"), *sorted(glob.glob(f"{ROOT}/docs/*.md"))]
        for path in filter(os.path.exists, documents):
            for line, language, text, marked in blocks(path):
                try:
                    if language == "c" and "int main" in text:
                        ran += 1
                        run_program(text, folder, env)
                    elif language == "sh" and marked:
                        ran += 1
                        run_shell(text, env)
                except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                    failed += 1
                    print(f"{os.path.relpath(path, ROOT)}:{line}: {error}")
    print(f"{ran - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
