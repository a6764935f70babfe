#!/usr/bin/env python3
"""Tests the scripts of `make run`: tools/run.sh starts a service that answers the commands it prints, and stops it;
tools/deps.sh lists missing packages with the command that installs them. Nothing is installed.

usage: check_run.py BLOOMGATED"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from machine import free_port  # noqa: E402 pylint: disable=wrong-import-position
INSTALL = "apt-get update && apt-get install --no-install-recommends"


def printed_commands(text):
    """Returns the commands that tools/run.sh printed, and one that reads the page, each with a pattern of its output."""
    commands = re.findall(r"^  ((?:redis-cli|curl) .*)$", text, re.M)
    page = re.search(r"http://\S+/(?= in a browser)", text)[0]
    expected = [r"[01]\n1\n0\n", # BF.ADD returns 1 in the first run
                r"1\npresent\n0\nabsent_by_\w+\n", r'\{"name": "products", .*"lookups": 2, .*', r"<!doctype html>.*"]
    return list(zip([*commands, f"curl -s {page}"], [re.compile(pattern, re.S | re.I) for pattern in expected], strict=True))


def start_example(program, folder):
    ports = ["--port", str(free_port()), f"--http-port={free_port()}"]
    return subprocess.Popen([f"{ROOT}/tools/run.sh", program, folder, *ports], cwd=ROOT, text=True, stdout=subprocess.PIPE)


def read_until_ready(run):
    text = ""
    for line in run.stdout:
        text += line
        if "Ctrl-C" in line:
            break
    return text


def example_answers(program):
    """Two runs in one directory: the second one uses the database of the first."""
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            run = start_example(program, f"{folder}/example")
            try:
                for command, pattern in printed_commands(read_until_ready(run)):
                    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, text=True, check=True)
                    assert pattern.fullmatch(done.stdout), (command, done.stdout)
            finally:
                run.send_signal(signal.SIGTERM)
                status = run.wait()
            assert status == 0, f"exit status {status}"


def failed_start_is_reported(program):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([f"{ROOT}/tools/run.sh", program, f"{folder}/example", "--no-such-option", "1"], cwd=ROOT,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert done.returncode != 0 and "no-such-option" in done.stderr and "ready" not in done.stdout, done


def busy_port_is_reported(program):
    """A process that never answers listens on the HTTP port."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", port)):
        done = subprocess.run([f"{ROOT}/tools/run.sh", program, f"{folder}/example", "--port", str(free_port()), "--http-port",
                               str(port)], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert done.returncode != 0 and "did not start" in done.stderr and "ready" not in done.stdout, done


def example_starts_without_http(program):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.Popen([f"{ROOT}/tools/run.sh", program, f"{folder}/example", "--port", str(free_port()),
                                "--http-port", "0"], cwd=ROOT, text=True, stdout=subprocess.PIPE)
        assert "ready" in read_until_ready(run)
        run.send_signal(signal.SIGTERM)
        assert run.wait() == 0


def deps(group, programs):
    """Runs tools/deps.sh with replacements for some programs."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in programs.items():
            with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
                f.write(f"#!/bin/sh\n{text}\n")
            os.chmod(f"{folder}/{name}", 0o755)
        done = subprocess.run([f"{ROOT}/tools/deps.sh", group], env={"PATH": f"{folder}:/usr/bin:/bin"}, text=True,
                              check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


ALL_INSTALLED = "echo installed"
NO_SQLITE = "for package; do :; done; [ \"$package\" = sqlite3 ] || echo installed"


def nothing_missing(_):
    for group in ("run", "build", "check", "compare", "bare", "test"):
        found = deps(group, {"dpkg-query": ALL_INSTALLED, "id": "echo 1000", "sudo": "exit 1", "apt-get": "exit 1"})
        assert found == (0, ""), (group, found)


def explains(found):
    status, output = found
    assert status == 1, found
    assert "Missing packages: sqlite3\n" in output and f"    {INSTALL} sqlite3\n" in output, found


def missing_without_privileges(_):
    found = deps("run", {"dpkg-query": NO_SQLITE, "id": "echo 1000", "sudo": "exit 1", "apt-get": "exit 1"})
    explains(found)
    assert "not root" in found[1], found
    explains(deps("test", {"dpkg-query": NO_SQLITE, "id": "echo 1000", "sudo": "exit 1", "npm": ""}))


def missing_without_network(_):
    failing = 'echo "E: no network"; exit 100'
    found = deps("run", {"dpkg-query": NO_SQLITE, "id": "echo 0", "apt-get": failing})
    explains(found)
    assert "E: no network" in found[1], found
    explains(deps("run", {"dpkg-query": NO_SQLITE, "id": "echo 1000", "sudo": 'shift; exec "$@"', "apt-get": failing}))


def missing_are_installed(_):
    found = deps("run", {"dpkg-query": NO_SQLITE, "id": "echo 0", "apt-get": "exit 0"})
    assert found == (0, "Installing sqlite3\n"), found


def missing_optional_packages_are_skipped(_):
    no_valkey = NO_SQLITE.replace("sqlite3", "valkey-server")
    status, output = deps("test", {"dpkg-query": no_valkey, "id": "echo 1000", "sudo": "exit 1", "npm": ""})
    assert status == 0 and "valkey-server is not available" in output, output


def main():
    tests = [example_answers, failed_start_is_reported, busy_port_is_reported, example_starts_without_http,
             nothing_missing, missing_without_privileges, missing_without_network,
             missing_are_installed, missing_optional_packages_are_skipped]
    failed = 0
    for test in tests:
        try:
            test(os.path.abspath(sys.argv[1]))
            print(f"ok {test.__name__}")
        except Exception as error:  # noqa: a failing test must not hide the others
            failed += 1
            print(f"FAILED {test.__name__}: {type(error).__name__}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
