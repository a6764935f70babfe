#!/usr/bin/env python3
"""Tests how bloomgate behaves on a terminal, using tmux.

Progress, colors, prompts and the screen of `bloomgate watch` appear only on a terminal. No test depends on timing,
because every step waits minutes, if necessary, for the screen to show the expected content.
usage: terminal.py BLOOMGATE      exit code 77: tmux is not installed"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))

from machine import PATIENCE  # noqa: E402 pylint: disable=wrong-import-position

COLUMNS, ROWS = 100, 30


class Terminal:
    """A shell in a terminal, with its own tmux server."""

    def __init__(self, folder, program, name):
        self.folder, self.name, self.commands = folder, name, 0
        self.environment = {key: value for key, value in os.environ.items() if key not in ("TMUX", "NO_COLOR", "LANGUAGE")}
        self.environment.update(PATH=os.path.dirname(os.path.abspath(program)) + ":" + os.environ["PATH"],
                                LC_ALL="C.UTF-8", TERM="xterm-256color", TMUX_TMPDIR=folder,
                                SHELL="/bin/sh",  # tmux starts commands with this shell; the user's may refuse to run
                                HOME=folder, ENV="", PS1="$ ")
        self.tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", folder, "sh")

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-u", "-L", self.name, "-f", "/dev/null", *words], env=self.environment,
                              capture_output=True, text=True, check=True)
        return done.stdout

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):  # the server exits on its own if the shell has exited
            self.tmux("kill-server")

    def screen(self, codes=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if codes else [])).rstrip("\n")

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def begin(self, command):
        """Clears the screen and types a command."""
        self.type("clear", "Enter")
        self.until(lambda: "ended" not in self.screen(), self.screen)
        self.commands += 1
        self.tmux("send-keys", "-l", f"{command}; echo ended {self.commands} $?")
        self.type("Enter")

    def ends(self, code):
        """Waits for the command to exit, and checks its exit code."""
        # If the command was typed before `clear` had ended, the line starts with the prompt.
        found = self.shows(rf"(?m)^(?:\$ |\^C)*ended {self.commands} (\d+)$").group(1)
        assert found == str(code), f"expected exit code {code}, got {found}:\n{self.screen()}"

    def shows(self, pattern, codes=False):
        """Waits until the screen matches the pattern."""
        return self.until(lambda: re.search(pattern, self.screen(codes)), lambda: f"no {pattern!r} in\n" + self.screen(codes))

    def until(self, holds, complaint):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = holds()
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(complaint())

    def state(self, name):
        return self.tmux("display-message", "-p", "#{" + name + "}").strip()


def write(folder, name, lines):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.writelines(f"{line}\n" for line in lines)


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def build(terminal, name, keys, *options):
    subprocess.run(["bloomgate", "build", "-q", "-f", *options, name], env=terminal.environment, cwd=terminal.folder,
                   input="".join(f"{key}\n" for key in range(keys)), text=True, check=True)


# A shell command that prints keys slowly until the file `enough` exists.
SLOW = "(while [ ! -e enough ]; do seq 1000; sleep 0.05; done)"


def enough(terminal, is_enough):
    path = os.path.join(terminal.folder, "enough")
    if is_enough:
        write(terminal.folder, "enough", [])
    elif os.path.exists(path):
        os.remove(path)


def progress_is_drawn_and_removed(terminal):
    for when in ("--progress=always", "--progress=auto"):
        enough(terminal, False)
        terminal.begin(f"{SLOW} | bloomgate build -f {when} slow.bg")
        terminal.shows(r"(?m)^reading [0-9.]+ (B|KiB|MiB), [0-9.]+ (B|KiB|MiB)/s, ")
        enough(terminal, True)
        terminal.ends(0)
        assert "/s" not in terminal.screen(), terminal.screen()
        assert re.search(r"(?m)^bloomgate build: slow\.bg: scalable, ", terminal.screen()), terminal.screen()


def progress_is_drawn_on_terminals_only(terminal):
    for options, to in (("", "2> said"), ("-q", ""), ("--progress=never", "")):
        enough(terminal, False)
        terminal.begin(f"{SLOW} | bloomgate build -f {options} slow.bg {to}")
        end = time.monotonic() + 1.5  # longer than the delay before progress is drawn
        while time.monotonic() < end:
            assert "reading" not in terminal.screen(), terminal.screen()
            time.sleep(0.05)
        enough(terminal, True)
        terminal.ends(0)
    said = read(terminal.folder, "said")
    assert b"\r" not in said and b"\033" not in said and said.startswith(b"bloomgate build: slow.bg: "), said


def colors_are_used_unless_unwanted(terminal):
    write(terminal.folder, "keys", range(1000))
    colored, plain = r"\x1b\[33m.*warning", r"(?m)build: warning: the filter holds more keys than its capacity of 700"
    command = "bloomgate build -f {} -n 700 small.bg keys"
    for before, options, pattern in (("", "", colored), ("NO_COLOR= ", "", colored), ("NO_COLOR=1 ", "", plain),
                                     ("TERM=dumb ", "", plain), ("", "--color=never", plain),
                                     ("NO_COLOR=1 ", "--color=always", colored)):
        terminal.begin(before + command.format(options))
        terminal.ends(0)
        assert re.search(pattern, terminal.screen(codes=True)), (before, options, terminal.screen(codes=True))


def keys_from_a_terminal_are_asked_for(terminal):
    terminal.begin("bloomgate build -f typed.bg")
    terminal.shows(r"bloomgate build: reading from the terminal; press Ctrl-D to end the input")
    terminal.type("apple", "Enter", "C-d")
    terminal.shows(r"typed\.bg: scalable, 1 key, ")
    terminal.ends(0)
    terminal.begin("bloomgate build -f typed.bg")
    terminal.shows(r"reading from the terminal")
    terminal.type("C-c")
    terminal.ends(130)


def begin_watch(terminal):
    terminal.begin("echo what was there; stty -g > before; bloomgate watch -i 50ms seen.bg; code=$?; stty -g > after; (exit $code)")
    terminal.shows(r"press q to quit")
    terminal.until(lambda: terminal.state("alternate_on") == "1" and terminal.state("cursor_flag") == "0", terminal.screen)
    assert "what was there" not in terminal.screen(), terminal.screen()


def expect_restored(terminal, code):
    terminal.ends(code)
    assert "what was there" in terminal.screen() and "press q to quit" not in terminal.screen(), terminal.screen()
    assert terminal.state("alternate_on") == "0" and terminal.state("cursor_flag") == "1"
    assert read(terminal.folder, "before") == read(terminal.folder, "after")


def watch_redraws_what_is_replaced(terminal):
    path = os.path.join(terminal.folder, "seen.bg")
    build(terminal, "seen.bg", 1000, "-n", "1000", "-g", "1")
    begin_watch(terminal)
    terminal.shows(r"(?m)^seen\.bg\n  kind        blocked, hash profile fast\n  items       about 1,0\d\d of 1,000 .*$")
    assert "history" not in terminal.screen(), terminal.screen()
    build(terminal, "seen.bg", 5000, "-n", "4000", "-g", "2")
    terminal.shows(r"about 5,\d\d\d of 4,000 .*\n.*\n  rate .* \(target 1%\)\n  health      act\n"
                   r"  history     [\u2581\u2582]\u2588 items, 1 change\n  generation  2\n")
    os.rename(path, path + ".away")
    terminal.shows(r"ERROR       No such file or directory\n +showing the last good file\n  kind (.*\n)*  generation  2\n")
    write(terminal.folder, "seen.bg", ["no filter"] * 1000)
    terminal.shows(r"ERROR       magic: .*\n +showing the last good file\n  kind (.*\n)*  generation  2\n")
    os.rename(path + ".away", path)
    terminal.shows(r"(?m)^seen\.bg\n  kind ")
    assert "ERROR" not in terminal.screen(), terminal.screen()
    terminal.type("x")  # is ignored
    terminal.type("q")
    expect_restored(terminal, 0)


def watch_fits_every_size(terminal):
    build(terminal, "seen.bg", 1000, "-n", "1000")
    begin_watch(terminal)
    terminal.tmux("resize-window", "-x", "30", "-y", "5")
    # The pattern must match one complete capture, because right after the resize, the screen may still show the output
    # for the old size, wrapped and scrolled.
    terminal.shows(r"\Aseen\.bg\n  .{0,28}\n  .{0,28}\n  fill        \[####.{0,12}\n  rate.{0,24}\Z")
    terminal.tmux("resize-window", "-x", str(COLUMNS), "-y", str(ROWS))
    terminal.shows(r"(?m)fill        \[#+\.+\] \d+\.\d%$(.|\n)*press q to quit")
    terminal.type("q")
    expect_restored(terminal, 0)


def watch_ends_by_signals(terminal):
    build(terminal, "seen.bg", 1000, "-n", "1000")
    begin_watch(terminal)
    terminal.type("C-z")  # Ctrl-Z has no effect while watch uses the screen
    terminal.type("C-c")
    expect_restored(terminal, 130)
    terminal.begin("rm -f seen.bg; echo what was there; stty -g > before; bloomgate watch -i 50ms seen.bg; "
                   "code=$?; stty -g > after; (exit $code)")
    terminal.shows(r"(?m)^seen\.bg\n  ERROR       No such file or directory\n")
    terminal.type("q")
    expect_restored(terminal, 0)


def main():
    if not shutil.which("tmux"):
        print("tmux is not installed")
        sys.exit(77)
    program = sys.argv[1]
    os.environ["PATH"] = os.path.dirname(os.path.abspath(program)) + ":" + os.environ["PATH"]
    tests = [progress_is_drawn_and_removed, progress_is_drawn_on_terminals_only, colors_are_used_unless_unwanted,
             keys_from_a_terminal_are_asked_for, watch_redraws_what_is_replaced, watch_fits_every_size,
             watch_ends_by_signals]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="bloomgate-terminal-") as folder:
        for test in tests:
            terminal = Terminal(folder, program, test.__name__)
            try:
                terminal.shows(r"\S")  # a prompt
                test(terminal)
            except (AssertionError, subprocess.CalledProcessError) as why:
                failed += 1
                print(f"--- {test.__name__}: {why}")
            finally:
                terminal.close()
    print(f"{len(tests) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
