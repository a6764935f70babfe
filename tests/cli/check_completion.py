#!/usr/bin/env python3
"""Completes command lines in bash, zsh and fish with the scripts that bloomgate prints, and checks the
completions. Shells that are not installed are reported and skipped.

usage: check_completion.py BLOOMGATE"""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.abspath(sys.argv[1])

# Each case contains a command line, completions that must be offered at its end, and completions that must not be
# offered.
CASES = [
    ("bloomgate ", ["build", "check", "completion", "help", "version"], ["--force", "blocked"]),
    ("bloomgate bui", ["build"], ["check"]),
    ("bloomgate build --ki", ["--kind"], ["--items", "check"]),
    ("bloomgate build --no", ["--note", "--no-canaries"], ["--force"]),
    ("bloomgate build --kind cu", ["cuckoo"], ["classic", "--kind"]),
    ("bloomgate build --kind=cu", ["cuckoo"], ["classic"]),
    ("bloomgate build -k fu", ["fuse"], ["cuckoo"]),
    ("bloomgate build --color al", ["always"], ["auto", "never"]),
    ("bloomgate check --inv", ["--invert"], ["--force"]),
    ("bloomgate check --format ro", ["rocksdb"], ["leveldb"]),
    ("bloomgate completion ", ["bash", "zsh", "fish"], ["build"]),
    ("bloomgate help ch", ["check"], ["build"]),
]
# Command lines, each with a flag that is true if file names must be offered at the end. File names are not offered if
# the option expects a number.
FILES = [("bloomgate check some_f", True), ("bloomgate check --keyring some_f", True),
         ("bloomgate check --threads some_f", False)]


def output(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, **more).stdout


def by_bash(script, line):
    """Returns the completions that bash offers. Splits the line into words as bash does, and adds file names if bash
    would offer them by default."""
    words = line.replace("=", " = ").split() + ([""] if line[-1] in " =" else [])
    code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); default=1; '
            'compopt() { [[ "$*" == *"+o default"* ]] && default=; }; _bloomgate; printf "%s\\n" "${COMPREPLY[@]}"; '
            '[[ ${#COMPREPLY[@]} == 0 && $default && $(complete -p bloomgate) == *"-o default"* ]] && '
            'compgen -f -- "${@: -1}"; true')
    return output("bash", "-c", code, "bash", script, *words).split()


def by_fish(script, line):
    code = f"source {script}; complete -C '{line}'"
    offered = output("fish", "--no-config", "-c", code).splitlines()
    return [word.split("\t")[0].split("=")[-1] for word in offered]


def by_zsh(script, line):
    text = output("zsh", "-f", os.path.join(HERE, "offers.zsh"), script, line)
    listed = text.split("\r\r\n", 1)[-1].rsplit("END", 1)[0]  # skip the echoed input
    for sign in ("\x1b[J", "\x1b[0m", "\x1b[K", "\x1b[A", "\x1b[27m", "\x1b[24m", "\r"):
        listed = listed.replace(sign, " ")
    return listed.replace(line, " ").split()


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("some_file", "w", encoding="utf-8"):
            pass
        os.environ["HOME"] = os.environ["XDG_CONFIG_HOME"] = folder
        for shell, offers in (("bash", by_bash), ("zsh", by_zsh), ("fish", by_fish)):
            if not shutil.which(shell):
                print(f"{shell} is not installed, so its tests are skipped")
                continue
            script = os.path.join(folder, f"script.{shell}")
            with open(script, "w", encoding="utf-8") as f:
                f.write(output(PROGRAM, "completion", shell))
            cases = CASES + [(line, ["some_file"][:there], ["some_file"][there:]) for line, there in FILES]
            for line, wanted, unwanted in cases:
                found = offers(script, line)
                good = all(w in found for w in wanted) and not any(w in found for w in unwanted)
                passed, failed = passed + good, failed + (not good)
                if not good:
                    print(f"{shell}: {line!r}: found {found}, expected {wanted} and none of {unwanted}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


os.environ["PATH"] = os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]
sys.exit(main())
