#!/usr/bin/env python3
"""Runs redis-cli against the service: transcripts in RESP2 and RESP3, pipes, scans, statistics, and a terminal session,
for which redis-cli reads COMMAND DOCS.
usage: test_redis_cli.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import os
import pty
import re
import select
import shutil
import subprocess
import time

import service
from service import Skip, encode


def prepare():
    if not shutil.which("redis-cli"):
        raise Skip("redis-cli is not installed (Debian: redis-tools)")


def cli(s, *words, stdin=None, check=True, timeout=service.PATIENCE):
    done = subprocess.run(["redis-cli", "-p", str(s.port), *words], input=stdin, timeout=timeout,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert not check or done.returncode == 0, done.stdout
    return done.stdout.decode(errors="replace")


# The input lines (after ">") and the expected output with --no-raw. Where the RESP2 and RESP3 outputs differ, a line
# contains both, separated by " / ".
TRANSCRIPT = r"""
> PING
PONG
> BF.RESERVE b 0.01 1000
OK
> BF.RESERVE b 0.01 1000
(error) ERR item exists
> BF.ADD b apple
(integer) 1 / (true)
> BF.ADD b apple
(integer) 0 / (false)
> BF.MADD b apple pear "a fig"
1) (integer) 0 / 1) (false)
2) (integer) 1 / 2) (true)
3) (integer) 1 / 3) (true)
> BF.EXISTS b "a fig"
(integer) 1 / (true)
> BF.MEXISTS b apple plum
1) (integer) 1 / 1) (true)
2) (integer) 0 / 2) (false)
> BF.INSERT b2 CAPACITY 100 ERROR 0.001 ITEMS x y
1) (integer) 1 / 1) (true)
2) (integer) 1 / 2) (true)
> BF.INSERT b3 NOCREATE ITEMS x
(error) ERR not found
> BF.CARD b
(integer) 3
> BF.INFO b ITEMS
1) (integer) 3 / 1# Number of items inserted => (integer) 3
> BF.INFO b FOO
(error) ERR Invalid information value
> CF.RESERVE c 1000
OK
> CF.ADD c apple
(integer) 1 / (true)
> CF.ADDNX c apple
(integer) 0 / (false)
> CF.ADD c apple
(integer) 1 / (true)
> CF.COUNT c apple
(integer) 2
> CF.DEL c apple
(integer) 1 / (true)
> CF.DEL c plum
(integer) 0 / (false)
> CF.INSERT c ITEMS a b
1) (integer) 1 / 1) (true)
2) (integer) 1 / 2) (true)
> CF.INSERTNX c ITEMS a z
1) (integer) 0
2) (integer) 1
> CF.EXISTS c apple
(integer) 1 / (true)
> CF.MEXISTS c apple plum
1) (integer) 1 / 1) (true)
2) (integer) 0 / 2) (false)
> BF.ADD c x
(error) WRONGTYPE Operation against a key holding the wrong kind of value
> TYPE b
MBbloom-- / MBbloom--
> DBSIZE
(integer) 3
> GET b
(error) ERR unknown command 'GET', with args beginning with: 'b'
"""


def transcript(protocol):
    """Yields requests and their expected output lines."""
    steps = []
    for line in TRANSCRIPT.strip().splitlines():
        if line.startswith("> "):
            steps.append((line[2:], []))
        else:
            both = line.split(" / ")
            steps[-1][1].append(both[-1] if protocol == 3 else both[0])
    return steps


def play(s, protocol):
    steps = transcript(protocol)
    told = cli(s, f"-{protocol}", "--no-raw",
               stdin="".join(request + "\n" for request, _ in steps).encode())
    found = [line.rstrip() for line in told.splitlines() if line.strip()]
    expected = [line for _, lines in steps for line in lines]
    for i, (a, b) in enumerate(zip(found, expected)):
        assert a == b, f"line {i}: found {a!r}, expected {b!r}"
    assert len(found) == len(expected), found[len(expected):]


def test_transcript_resp2(s):
    play(s, 2)


def test_transcript_resp3(s):
    play(s, 3)


def test_unix_socket(s):
    done = subprocess.run(["redis-cli", "-s", s.unix, "ping"], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"PONG\n"


def test_pipe(s):
    """Tests mass insertion with --pipe, which ends with redis-cli's own ECHO command."""
    n = service.work(200000)
    data = b"".join(encode("BF.ADD", "k", i) for i in range(n))
    told = cli(s, "--pipe", stdin=data)
    assert f"errors: 0, replies: {n}" in told, told
    assert all(s.ask("BF.MEXISTS", "k", *range(0, n, 17)))
    told = cli(s, "--pipe", stdin=b"BF.ADD k inline\r\nBF.ADD\r\nPING\r\n", check=False)
    assert "errors: 1, replies: 3" in told, told


def test_scan(s):
    with s.connect() as c:
        c.pipeline([("BF.ADD", f"bf:{i}", "x") for i in range(1000)]
                   + [("CF.ADD", f"cf:{i}", "x") for i in range(10)])
    assert len(set(cli(s, "--scan").split())) == 1010
    assert set(cli(s, "--scan", "--pattern", "cf:*").split()) == {f"cf:{i}" for i in range(10)}
    assert "Sampled 1010 keys in the keyspace!" in cli(s, "--bigkeys")
    told = cli(s, "--memkeys")
    assert "1000 MBbloom--s with" in told and "10 MBbloomCFs with" in told, told


def test_statistics(s):
    assert re.match(r"\d+ \d+ \d+\.\d+ \d+", cli(s, "--latency", "-i", "0.2", "--raw"))
    with subprocess.Popen(["redis-cli", "-p", str(s.port), "-i", "0.1", "--stat"],
                          stdout=subprocess.PIPE) as process:
        lines = [process.stdout.readline() for _ in range(4)]
        process.terminate()
    assert b"keys" in lines[1] and re.match(rb"\d+", lines[3]), lines


def test_config_and_info(s):
    assert cli(s, "CONFIG", "GET", "save") == "save\n\n"
    assert "redis_version:7.2.0" in cli(s, "INFO", "server")
    assert "redis_version:7.2.0" in cli(s, "-3", "INFO", "server")
    assert cli(s, "-3", "--json", "CONFIG", "GET", "databases").strip() == '{"databases":"1"}'


class Terminal:
    """Tests redis-cli at a terminal."""

    def __init__(self, port):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", HOME="/nonexistent")
            os.execvp("redis-cli", ["redis-cli", "-p", str(port)])

    def read_until(self, text):
        seen, end = b"", time.monotonic() + service.PATIENCE
        while text not in seen:
            assert select.select([self.fd], [], [], max(0, end - time.monotonic()))[0], seen
            seen += os.read(self.fd, 65536)
        return seen.decode(errors="replace")

    def type(self, line, until):
        os.write(self.fd, line.encode() + b"\n")
        return self.read_until(until)

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def test_terminal(s):
    t = Terminal(s.port)
    t.read_until(b"> ")
    assert "(integer) 1" in t.type("bf.add k x", b"(integer) 1")
    told = t.type("help bf.insert", b"group:")
    assert re.search(r"BF\.INSERT\S* \S*key \[CAPACITY capacity\] \[ERROR error\] "
                     r"\[EXPANSION expansion\] \[NOCREATE\] \[NONSCALING\] .*\[ITEMS item \[item \.\.\.\]\]",
                     told), told
    told = t.type("help client kill", b"group:")
    assert "ip:port|[ID client-id] [TYPE NORMAL|MASTER|REPLICA|PUBSUB]" in told, told
    assert "(TX)" in t.type("multi", b"(TX)> ")
    t.type("bf.exists k x", b"QUEUED")
    assert "1) (integer) 1" in t.type("exec", b"1) (integer) 1")
    t.type("hello 3", b"\"modules\"")
    assert "(true)" in t.type("bf.exists k x", b"(true)")
    t.close()


service.main(__doc__)
