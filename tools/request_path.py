#!/usr/bin/env python3
"""Measures which source files of the service a pipelined BF.EXISTS and a pipelined BF.ADD pass through, and compares
them with the two lists in section 10 of ARCHITECTURE.md.

usage: request_path.py build-dev/bin/bloomgated [--functions]

The service runs with one worker under valgrind's callgrind, which attributes every executed instruction to a line of
the source. Instructions are counted only from the moment before the client sends a pipeline until it has received all
replies, and only on the worker's thread. If the worker's timer expires in between, the measurement is repeated. A file
is on the path if one of its lines was executed. An inline function counts for the header that contains it. The library
behind the public API (src/, include/) and system libraries do not count.

--functions also prints the functions that were executed in each file. The exit status is 1 if the files differ from
those in ARCHITECTURE.md, and 77 if valgrind is not installed."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COUNTED = ("server", "command", "common", "cluster")
DOCUMENT = os.path.join(ROOT, "ARCHITECTURE.md")
REQUESTS = 200  # pipelined requests per measurement
ATTEMPTS = 50


def resp(*words):
    encoded = b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in (w.encode() for w in words))
    return b"*%d\r\n%s" % (len(words), encoded)


class Service:
    """A service that runs under callgrind, and a connection to it."""

    def __init__(self, program, folder):
        self.folder = folder
        path = os.path.join(folder, "socket")
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--compress-strings=no",
             "--compress-pos=no", f"--callgrind-out-file={folder}/profile", f"--vgdb-prefix={folder}/vgdb", program,
             "--unixsocket", path, "--port", "0", "--http-port", "0", "--workers", "1", "--jobs", "1", "--dir",
             f"{folder}/data", "--keyring", f"{folder}/keyring",
             # Under valgrind, every request is slow.
             "--slowlog-log-slower-than", "3600000000"], stdout=subprocess.DEVNULL,
            stderr=open(os.path.join(folder, "log"), "w", encoding="utf-8"))
        self.socket = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + 120
        while self.socket.connect_ex(path):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the service does not start under valgrind:\n" + self.log())
            time.sleep(0.1)

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8") as f:
            return f.read()

    def control(self, *words):
        subprocess.run(["vgdb", f"--vgdb-prefix={self.folder}/vgdb", f"--pid={self.process.pid}", *words], check=True,
                       capture_output=True, timeout=60)

    def ask(self, requests):
        """Sends requests at once, and returns their replies, each of which is one line."""
        self.socket.sendall(b"".join(requests))
        replies = b""
        while replies.count(b"\n") < len(requests):
            more = self.socket.recv(1 << 16)
            if not more:
                sys.exit("the service closed the connection:\n" + self.log())
            replies += more
        return replies.split(b"\r\n")[:-1]

    def profiles(self):
        """Returns the profiles that callgrind has written since the last call, one per thread."""
        texts = []
        for name in os.listdir(self.folder):
            if name.startswith("profile"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as f:
                    texts.append(f.read())
                os.remove(os.path.join(self.folder, name))
        return texts

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=120)


def in_tree(path):
    """Returns the path of a source file relative to the root, or "" if the file is not part of the source. The object
    files of a shared compiler cache can have the paths of another copy of the source."""
    parts = os.path.normpath(path).split("/")
    tails = ("/".join(parts[i:]) for i in range(1, len(parts)))
    return next((tail for tail in tails if os.path.isfile(os.path.join(ROOT, tail))), "")


def executed(profile):
    """Returns the functions with executed lines, by file: {"server/request/conn.c": {"conn_read", ...}}."""
    found, function, file, call = {}, "", "", False
    for line in profile.splitlines():
        key, _, value = line.partition("=")
        if key in ("fl", "fi", "fe"):
            file = in_tree(value)
        elif key == "fn":
            function = value.split("'")[0]
        elif key == "calls":
            call = True  # the next line has the cost of the called function
        elif re.match(r"[0-9+*-]", line):
            if not call and file.split("/")[0] in COUNTED:
                found.setdefault(file, set()).add(function)
            call = False
    return found


def batch(command, round_number):
    """Returns pipelined requests with keys that no other round uses, so that every BF.ADD adds a new key."""
    return [resp(command, "users", f"{round_number}-{i}") for i in range(REQUESTS)]


def measure(service, command, rounds):
    """Returns the functions that the worker executed for a pipeline of this command, by file."""
    for number in rounds:
        service.profiles()
        service.control("zero")
        replies = service.ask(batch(command, number))
        service.control("dump")
        assert set(replies) == {b":1"}, f"{command}: unexpected replies {set(replies)}"
        threads = [executed(profile) for profile in service.profiles()]
        workers = [t for t in threads if "server/request/dispatch.c" in t]
        assert len(workers) == 1, f"{len(workers)} threads ran requests"
        if not any("worker_tick" in functions for functions in workers[0].values()):
            return workers[0]
    return sys.exit("the worker's timer expired during every measurement; is the machine overloaded?")


def measured(program):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        service = Service(program, folder)
        try:
            while service.ask([resp("BF.RESERVE", "users", "0.000001", "100000")]) != [b"+OK"]:
                time.sleep(0.1)  # the service is loading
            service.control("instrumentation", "on")
            service.ask(batch("BF.ADD", 0))  # the first use of a path also executes other functions
            service.ask(batch("BF.EXISTS", 0))
            adds = measure(service, "BF.ADD", range(1, 1 + ATTEMPTS))
            return {"BF.EXISTS": measure(service, "BF.EXISTS", ATTEMPTS * [0]), "BF.ADD": adds}
        finally:
            service.stop()


def documented():
    """Returns the two lists in ARCHITECTURE.md, after checking the numbers of files that the sentences state."""
    with open(DOCUMENT, encoding="utf-8") as f:
        text = f.read()
    sentence = r"^- `(BF\.\w+)` passes\s+through\s+(\d+)\s+source\s+files\s+and\s+(\d+)\s+headers:(.*?)\.\n(?=- |\n)"
    lists = {}
    for command, sources, headers, files in re.findall(sentence, text, re.M | re.S):
        lists[command] = set(re.findall(r"`([^`]+)`", files))
        found = sum(file.endswith(".c") for file in lists[command])
        if (found, len(lists[command]) - found) != (int(sources), int(headers)):
            sys.exit(f"ARCHITECTURE.md: {command}: the list does not have {sources} source files and {headers} headers")
    return lists


def report(command, files, functions):
    print(f"{command}: {sum(f.endswith('.c') for f in files)} source files, {sum(f.endswith('.h') for f in files)} headers")
    for file in sorted(files):
        print(f"    {file}" + (": " + " ".join(sorted(files[file])) if functions else ""))


def main():
    arguments = [a for a in sys.argv[1:] if a != "--functions"]
    if len(arguments) != 1 or not os.access(arguments[0], os.X_OK):
        sys.exit("usage: request_path.py build-dev/bin/bloomgated [--functions]\n"
                 "The program needs debug information; `cmake --build --preset dev` builds it.")
    if not shutil.which("valgrind"):
        print("valgrind is not installed")
        sys.exit(77)
    lists, same = documented(), True
    for command, files in measured(os.path.abspath(arguments[0])).items():
        report(command, files, "--functions" in sys.argv)
        for what, some in (("not on the path", lists[command] - set(files)), ("missing", set(files) - lists[command])):
            if some:
                print(f"ARCHITECTURE.md, section 10: {command}: {what}: {' '.join(sorted(some))}")
                same = False
    if same:
        print("The files are those in section 10 of ARCHITECTURE.md.")
    sys.exit(not same)


if __name__ == "__main__":
    main()
