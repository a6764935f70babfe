#!/usr/bin/env python3
"""Tests the script of `make run-cluster`: tools/run_cluster.sh starts a cluster on free ports, its printed commands
work when pasted, and it stops all nodes and deletes their data.

usage: check_run_cluster.py BLOOMGATE MODULE"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from machine import PATIENCE, free_port  # noqa: E402 pylint: disable=wrong-import-position

SCRIPT = f"{ROOT}/tools/run_cluster.sh"
BUS = 10000


def start(program, module, folder, *options):
    return subprocess.Popen([SCRIPT, program, module, *options], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env={**os.environ, "TMPDIR": folder}, start_new_session=True)


def read_until_ready(run):
    text = ""
    for line in run.stdout:
        text += line
        if "Ctrl-C" in line:
            return text
    raise AssertionError(f"the script ended: {text}{run.stderr.read()}")


def paste(text, lines):
    """Runs printed lines in one shell, as a user who pastes them."""
    done = subprocess.run(["bash", "-c", lines], cwd=ROOT, text=True, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, (lines, done.stdout, done.stderr, text)
    return done.stdout + done.stderr


def is_open(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def check_stopped(run, ports, folder):
    status = run.wait(PATIENCE)
    assert status == 0, f"exit status {status}: {run.stderr.read()}"
    assert not any(map(is_open, ports)), "a node is still running"
    assert not os.listdir(folder), "the directory was not deleted"


def commands_work(program, module):
    """The first port is busy. A signal to the whole process group, as from Ctrl-C, stops the cluster."""
    port = free_port(BUS)
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", port)) as busy:
        run = start(program, module, folder, "--port", str(port))
        ports = []
        try:
            text = read_until_ready(run)
            ports = [int(p) for p in re.search(r"ports ([\d ]+),", text)[1].split()]
            assert len(set(ports)) == 6 and port not in ports, ports
            blocks = re.findall(r"(?:^  .*\n)+", text, re.M)
            assert len(blocks) == 2, text
            output = paste(text, blocks[0])
            assert "keys added: 1,000" in output, output
            assert {str(n) for n in range(1001, 1011)} <= set(output.split()) and output.count("master - ") == 3, output
            export = re.search(r"export .*\n", text)[0]
            shutdown, check = blocks[1].splitlines()
            paste(text, shutdown)
            deadline = time.monotonic() + PATIENCE
            while True:  # until the replica has been promoted
                done = subprocess.run(["bash", "-c", export + check], cwd=ROOT, text=True, capture_output=True, timeout=PATIENCE, check=False)
                if done.returncode == 0:
                    break
                assert time.monotonic() < deadline, done
            assert [int(line) for line in done.stdout.split()][-10:] == list(range(1001, 1011)), done
        finally:
            os.killpg(run.pid, signal.SIGINT)
        check_stopped(run, ports, folder)
        assert busy


def can_be_killed(program, module):
    """The printed `kill` command also stops the cluster, and so does a signal while it is starting."""
    with tempfile.TemporaryDirectory() as folder:
        run = start(program, module, folder, f"--port={free_port(BUS)}")
        text = read_until_ready(run)
        paste(text, re.search(r"or run: (kill \d+)", text)[1])
        check_stopped(run, [int(p) for p in re.search(r"ports ([\d ]+),", text)[1].split()], folder)
        run = start(program, module, folder, "--port", str(free_port(BUS)))
        while not os.listdir(folder):
            time.sleep(0.01)
        time.sleep(0.3)
        run.send_signal(signal.SIGTERM)
        check_stopped(run, [], folder)


def filter_is_the_one_in_the_docs(_program, _module):
    with open(f"{ROOT}/docs/cluster.md", encoding="utf-8") as page, open(SCRIPT, encoding="utf-8") as script:
        options = re.search(r"cluster (create .* seen)\n", page.read())[1]
        assert f" {options} " in script.read(), options


def errors_are_reported(program, module):
    with tempfile.TemporaryDirectory() as folder:
        for options in (["--port", "0"], ["--port", "x"], ["--ports", "7000"], ["--port"]):
            done = start(program, module, folder, *options)
            _, messages = done.communicate(timeout=PATIENCE)
            assert done.returncode == 2 and "usage: run_cluster.sh" in messages, (options, done.returncode, messages)
        done = start(program, "/dev/null", folder, "--port", str(free_port(BUS)))
        out, messages = done.communicate(timeout=PATIENCE)
        assert done.returncode == 1 and "the server did not start" in messages and "ready" not in out, (out, messages)
        assert not os.listdir(folder)


def main():
    if not (shutil.which("redis-server") or shutil.which("valkey-server")) or not shutil.which("redis-cli"):
        print("skipped: no server is installed")
        sys.exit(77)
    program, module = sys.argv[1:]
    for test in (filter_is_the_one_in_the_docs, commands_work, can_be_killed, errors_are_reported):
        test(program, module)
        print(f"ok {test.__name__}", flush=True)


main()
