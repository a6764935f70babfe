#!/usr/bin/env python3
"""Compares the command-line tool with common alternatives, on the same lines, in the same run.

  build    bloomgate build    compared with   wc -l
  check    bloomgate check    compared with   bloom check (DCSO), and grep -F -x -f on fewer lines
  dedup    bloomgate dedup    compared with   sort -u, awk '!seen[$0]++'

Every command runs --times times, alternating with the commands it is compared with. The results are the median time and
the highest peak memory. Output goes to /dev/null; input files are in the page cache. A ratio above 1 means that
bloomgate is faster.

usage: bench_cli.py BIN [--lines 1e7] [--grep-lines 1e6] [--times 3] [--folder F] [--only build,check,dedup]"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time


def measure(command, folder):
    """Runs a shell command; returns its run time in seconds and its peak memory in bytes."""
    start = time.monotonic()
    process = subprocess.Popen(["bash", "-c", "exec " + command], cwd=folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, env={**os.environ, "LC_ALL": "C"})
    said = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"{command}: {said}")
    return seconds, used.ru_maxrss * 1024


def compare(title, commands, folder, times, lines):
    """Runs commands in turn, prints a table and returns {name: (seconds, bytes)}. `commands` maps names to shell
    commands, with bloomgate first."""
    commands = {name: command for name, command in commands.items() if command}
    runs = {name: [] for name in commands}
    for _ in range(times):
        for name, command in commands.items():
            runs[name].append(measure(command, folder))
    found = {name: (statistics.median(s for s, _ in r), max(m for _, m in r)) for name, r in runs.items()}
    ours = next(iter(found.values()))[0]
    print(f"\n{title}\n{'':34}{'seconds':>9}{'lines/s':>12}{'memory':>11}{'ratio':>8}")
    for i, (name, (seconds, memory)) in enumerate(found.items()):
        ratio = f"{seconds / ours:8.2f}" if i else f"{'':8}"
        print(f"{name:34}{seconds:9.3f}{lines / seconds:12.3g}{memory / 2 ** 20:7.0f} MiB{ratio}", flush=True)
    return found


def prepare(folder, programs, lines, share, name, first=0):
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        subprocess.run([f"{programs}/bgkeys", str(lines), str(share), str(first)], stdout=f, check=True)
    print(f"{name}: {lines:.0f} lines, {os.path.getsize(path) / 1e9:.2f} GB")


def filter_bytes(folder, name):
    return os.path.getsize(os.path.join(folder, name))


def run_build(a, folder, ours):
    compare(f"build: a filter of {a.lines:.0f} lines at 1%", {
        "bloomgate build --items": f"{ours} build -q -f --items {a.lines:.0f} keys.bg keys.txt",
        "bloomgate build, counting first": f"{ours} build -q -f keys.bg keys.txt",
        "wc -l": "wc -l keys.txt"}, folder, a.times, a.lines)
    print(f"filter size: {filter_bytes(folder, 'keys.bg') / 2 ** 20:.0f} MiB")


def run_check(a, folder, ours):
    bloom = shutil.which("bloom")
    subprocess.run([ours, "build", "-q", "-f", "--items", f"{a.lines:.0f}", "keys.bg", "keys.txt"], cwd=folder, check=True)
    if bloom:
        subprocess.run(f"rm -f keys.dcso; {bloom} create -p 0.01 -n {a.lines:.0f} keys.dcso && {bloom} insert keys.dcso < keys.txt",
                       shell=True, cwd=folder, check=True)
    compare(f"check: {a.lines:.0f} lines, half of them in a filter of {a.lines:.0f} keys", {
        "bloomgate check": f"{ours} check keys.bg half.txt",
        "bloom check (DCSO)": bloom and f"{bloom} check keys.dcso < half.txt"}, folder, a.times, a.lines)
    few = a.grep_lines
    subprocess.run(f"head -n {few:.0f} keys.txt > few.txt; (head -n {few / 2:.0f} few.txt; tail -n {few / 2:.0f} half.txt) > few_half.txt;"
                   f"{ours} build -q -f few.bg few.txt", shell=True, cwd=folder, check=True)
    compare(f"check: {few:.0f} lines against {few:.0f} keys", {
        "bloomgate check": f"{ours} check few.bg few_half.txt",
        "grep -F -x -f": "grep -F -x -f few.txt few_half.txt"}, folder, a.times, few)


def run_dedup(a, folder, ours):
    found = compare(f"dedup: {a.lines:.0f} lines, 30% of them repeated", {
        "bloomgate dedup": f"{ours} dedup -q repeated.txt",
        "bloomgate dedup --items --rate 1e-6": f"{ours} dedup -q --items {0.7 * a.lines:.0f} --rate 1e-6 repeated.txt",
        "sort -u": "sort -u repeated.txt",
        "awk '!seen[$0]++'": "awk '!seen[$0]++' repeated.txt"}, folder, a.times, a.lines)
    mine, awk = found["bloomgate dedup"][1], found["awk '!seen[$0]++'"][1]
    print(f"memory: 1/{awk / mine:.1f} of awk's")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs")
    parser.add_argument("--lines", type=float, default=1e7)
    parser.add_argument("--grep-lines", type=float, default=1e6)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--folder")
    parser.add_argument("--only", default="build,check,dedup")
    a = parser.parse_args()
    programs = os.path.abspath(a.programs)
    ours = f"{programs}/bloomgate"
    parts = a.only.split(",")
    print(f"cores: {len(os.sched_getaffinity(0))}, load: {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="bloomgate-bench-", dir=a.folder) as folder:
        if "build" in parts or "check" in parts:
            prepare(folder, programs, a.lines, 0, "keys.txt")
        if "build" in parts:
            run_build(a, folder, ours)
        if "check" in parts:
            prepare(folder, programs, a.lines, 0, "half.txt", a.lines / 2)
            run_check(a, folder, ours)
            os.unlink(os.path.join(folder, "keys.txt"))
        if "dedup" in parts:
            prepare(folder, programs, a.lines, 0.3, "repeated.txt")
            run_dedup(a, folder, ours)


main()
