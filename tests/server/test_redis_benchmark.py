#!/usr/bin/env python3
"""Runs redis-benchmark against the service, with pipelines of 1, 16 and 64 requests, while another client
looks up keys with known answers and verifies every reply. Rates are printed but not checked.
usage: test_redis_benchmark.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import re
import shutil
import subprocess
import threading

import service
from service import Skip, alone, Service

KNOWN = 20000
RANDOM = 50000  # redis-benchmark adds at most this many different keys


def prepare():
    if not shutil.which("redis-benchmark"):
        raise Skip("redis-benchmark is not installed (Debian: redis-tools)")


def benchmark(s, pipeline, n, *words, threads=1):
    done = subprocess.run(
        ["redis-benchmark", "-p", str(s.port), "-n", str(n), "-P", str(pipeline), "-c", "20",
         "-r", str(RANDOM), "--threads", str(threads), "-q", *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=service.PATIENCE, check=False)
    text = done.stdout.decode(errors="replace").replace("\r", "\n")
    assert done.returncode == 0, text
    assert not re.search(r"error|warning", text, re.I), text
    rate = re.search(r"([\d.]+) requests per second, p50=([\d.]+) msec", text)
    assert rate, text
    print(f"  -P {pipeline:2} {words[0]:11} {float(rate[1]):10.0f} requests/s, p50 {rate[2]} ms")


class Checker(threading.Thread):
    """Looks up keys that were added and keys that were not, in pipelines, until it is stopped."""

    def __init__(self, s, command, rate):
        super().__init__()
        self.s, self.command, self.rate = s, command, rate
        self.stopping = threading.Event()
        self.asked = self.positives = 0
        self.wrong = None

    def run(self):
        try:
            with self.s.connect() as c:
                at = 0
                while not self.stopping.is_set() or self.asked < 5 * KNOWN:
                    self.ask(c, at)
                    at = (at + 64) % (KNOWN - 64)
        except Exception as error:  # pylint: disable=broad-except
            self.wrong = repr(error)

    def ask(self, c, at):
        keys = [f"in{at + i}" if i % 2 else f"out{self.asked + i}" for i in range(64)]
        answers = c.pipeline([(self.command, "k", key) for key in keys])
        for key, answer in zip(keys, answers):
            assert answer in (0, 1), answer
            assert answer == 1 or key.startswith("out"), f"{key} was added, but the answer is {answer}"
            self.positives += key.startswith("out") and answer
        self.asked += 64

    def finish(self):
        self.stopping.set()
        self.join()
        assert self.wrong is None, self.wrong
        observed = self.positives / (self.asked / 2)
        print(f"  checked {self.asked} answers; the observed false-positive rate is {observed:.5f}")
        assert observed < 2 * self.rate, "the false-positive rate is at least twice the configured rate"


def drive(s, family, pipeline, n):
    capacity = KNOWN + RANDOM  # the filter is full at the end, so its false-positive rate is the configured rate
    if family == "BF":
        s.ask("BF.RESERVE", "k", "0.01", str(capacity))
    else:
        s.ask("CF.RESERVE", "k", str(capacity))
    s.ask(f"{family}.INSERT", "k", "ITEMS", *(f"in{i}" for i in range(KNOWN)))
    checker = Checker(s, f"{family}.EXISTS", 0.01 if family == "BF" else 0.03)
    checker.start()
    try:
        benchmark(s, pipeline, n, f"{family}.ADD", "k", "__rand_int__")
        benchmark(s, pipeline, n, f"{family}.EXISTS", "k", "__rand_int__", threads=2)
        benchmark(s, pipeline, n // 10, f"{family}.MEXISTS", "k",
                  *(f"__rand_int__:{i}" for i in range(10)))
    finally:
        checker.finish()
    assert all(s.ask(f"{family}.MEXISTS", "k", *(f"in{i}" for i in range(KNOWN))))


def test_bf_1(s):
    drive(s, "BF", 1, service.work(20000))


def test_bf_16(s):
    drive(s, "BF", 16, service.work(200000))


def test_bf_64(s):
    drive(s, "BF", 64, service.work(400000))


def test_cf_16(s):
    drive(s, "CF", 16, service.work(100000))


def test_usual_tests(s):
    """Runs the built-in redis-benchmark tests that apply to the service."""
    done = subprocess.run(["redis-benchmark", "-p", str(s.port), "-n", "20000", "-q", "-t",
                           "ping_inline,ping_mbulk"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=service.PATIENCE, check=True)
    text = done.stdout.decode(errors="replace")
    assert "PING_INLINE" in text and "PING_MBULK" in text and "WARN" not in text, text


@alone
def test_durable(program):
    """Runs the same benchmark with appendfsync always, so every reply waits for the disk."""
    with Service(program, "appendfsync always") as s:
        drive(s, "BF", 16, service.work(20000))


service.main(__doc__)
