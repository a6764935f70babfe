#!/usr/bin/env python3
"""Checks the help text of every subcommand, and checks that the man pages and completions are complete.
usage: check_help.py BLOOMGATE"""

import os
import re
import shutil
import subprocess
import sys

PROGRAM = os.path.abspath(sys.argv[1])
SHELLS = ("bash", "zsh", "fish")
MOST_LINES, MOST_COLUMNS, EXAMPLES = 64, 80, 2

passed = failed = 0


def expect(good, what):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"failed: {what}")


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def check_layout(name, text):
    lines = text.splitlines()
    expect(len(lines) <= MOST_LINES, f"{name} --help: expected at most {MOST_LINES} lines, got {len(lines)}")
    for line in lines:
        expect(len(line) <= MOST_COLUMNS, f"{name} --help: expected at most {MOST_COLUMNS} columns, got {len(line)}: {line}")
        expect(line == line.rstrip() and line.isascii(), f"{name} --help: expected ASCII text without trailing spaces: {line!r}")


def check_examples(name, text):
    examples = text.split("\nExamples\n")[-1].splitlines()
    lines = [line for line in examples if re.match(r"  \S", line)]
    expect(len(lines) == EXAMPLES and len(examples) == 2 * EXAMPLES, f"{name} --help: expected {EXAMPLES} examples, got {examples}")
    for line in lines:
        expect(f"bloomgate {name}" in line, f"{name} --help: the example does not run bloomgate {name}: {line}")


def check_options(name, text, man, scripts):
    options = re.findall(r"^  (?:-(\S), |    )--([a-z0-9-]+)( \S+)?", text, flags=re.M)
    letters, names = [o[0] for o in options if o[0]], [o[1] for o in options]
    expect("help" in names and "quiet" in names, f"{name}: expected the options --help and --quiet, got {names}")
    expect(len(set(names)) == len(names), f"{name}: an option is listed more than once: {names}")
    expect(len(set(letters)) == len(letters), f"{name}: an option letter is used more than once: {letters}")
    # Find the part of each shell's completion script that covers this subcommand.
    parts = {"bash": re.search(rf"^    {name}\)\n        options='([^']*)'", scripts["bash"], re.M),
             "zsh": re.search(rf"^    {name}\)\n(.*?)^        ;;", scripts["zsh"], re.M | re.S)}
    found = {shell: set(re.findall(r"--([a-z0-9-]+)", part.group(1) if part else "")) for shell, part in parts.items()}
    found["fish"] = set(re.findall(rf"'__bloomgate_is {name}'.* -l ([a-z0-9-]+)", scripts["fish"]))
    for option in names:
        escaped = option.replace("-", r"\-")
        expect(rf"\fB\-\-{escaped}\fR" in man, f"--{option} is missing from bloomgate-{name}(1)")
        for shell in SHELLS:
            expect(option in found[shell], f"{name} --{option} is missing from the {shell} completions")
    return names


def check_mistakes(name, names):
    longest = max(names, key=len)
    code, out, err = run(name, "--" + longest[:-1] + "_")
    expect(code == 2 and not out and f"did you mean --{longest}?" in err, f"{name}: expected the suggestion --{longest} for a mistyped option, got {err}")
    code, out, err = run(name, "--zzzzzzzzzzzz")
    expect(code == 2 and "unknown option --zzzzzzzzzzzz\n" in err, f"{name}: expected no suggestion for --zzzzzzzzzzzz, got {err}")
    expect(f"Try 'bloomgate {name} --help'.\n" in err, f"{name}: expected a reference to --help, got {err}")


def check_page(name, page):
    """Checks that a man page has all sections, and that mandoc reports no warnings except about the missing date. Pages
    have no date, so that builds are reproducible."""
    lines = page.splitlines()
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"):
        expect(f".SH {section}" in lines, f"{name} has no section {section}")
    if not shutil.which("mandoc"):
        print("mandoc is not installed, so man pages are not checked with it")
        return
    said = subprocess.run(["mandoc", "-Tlint", "-Wwarning"], input=page, capture_output=True, text=True, timeout=60)
    complaints = [line for line in said.stdout.splitlines() if "missing date" not in line]
    expect(not complaints, f"mandoc reports warnings for {name}: {complaints}")


def check_page_examples(name, text, page):
    """Checks that the man page has every example of the help text in no-fill mode, in which troff does not break lines."""
    escapes = {"\\-": "-", "\\(aq": "'", "\\(ga": "`", "\\(ha": "^", "\\(ti": "~", "\\fB": "", "\\fR": ""}
    for escape, character in escapes.items():
        page = page.replace(escape, character)
    page = page.replace("\\e", "\\")
    for example in re.findall(r"^  (\S.*)$", text.split("\nExamples\n")[-1], re.M):
        expect(f"\n.nf\n{example}\n.fi\n" in page, f"{name}: the example is not in no-fill mode: {example}")


def check_command(name, summary, scripts):
    code, text, err = run(name, "--help")
    expect(code == 0 and not err, f"{name} --help failed with exit code {code}: {err}")
    expect(run("help", name) == (0, text, ""), f"help {name} and {name} --help print different texts")
    expect(run(name, "-h") == (0, text, ""), f"{name} -h and {name} --help print different texts")
    expect(f"usage: bloomgate {name} " in text and summary in text, f"{name} --help does not show the usage and the summary")
    check_layout(name, text)
    check_examples(name, text)
    code, man, err = run("help", "--man", name)
    expect(code == 0 and not err, f"help --man {name} failed with exit code {code}: {err}")
    check_page(f"bloomgate-{name}(1)", man)
    check_page_examples(f"bloomgate-{name}(1)", text, man)
    check_mistakes(name, check_options(name, text, man, scripts))


def main():
    code, text, err = run("--help")
    expect(code == 0 and not err and run("help") == (0, text, "") == run("-h"), "--help, -h and help failed or print different texts")
    check_layout("bloomgate", text)
    commands = re.findall(r"^  ([a-z]+) +(\S.*)$", text.split("\n\n")[1], flags=re.M)
    expect(len(commands) >= 3, f"--help: expected at least 3 subcommands, got {commands}")
    overview = run("help", "--man")[1]
    check_page("bloomgate(1)", overview)
    scripts = {shell: run("completion", shell)[1] for shell in SHELLS}
    for name, summary in commands:
        expect(f".BR bloomgate\\-{name} (1)," in overview, f"bloomgate(1) does not refer to bloomgate-{name}(1)")
        for shell in SHELLS:
            expect(name in scripts[shell], f"{name} is missing from the {shell} completions")
        check_command(name, summary, scripts)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


sys.exit(main())
