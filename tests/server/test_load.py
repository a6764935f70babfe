#!/usr/bin/env python3
"""Runs all kinds of load at once: the writers, movers and disturbers from kill_drill.py, redis-benchmark, clients that
connect and disconnect, snapshots, and HTTP requests. After a clean shutdown, every acknowledged key must be present.
Run this with a sanitizer build to find races and leaks.
usage: test_load.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import shutil
import subprocess
import threading
import time
import urllib.request

import kill_drill
import service
from service import Error, Service, alone, encode

SECONDS = service.work(3)


class Visitor(threading.Thread):
    """Repeatedly connects, sends a few requests, and disconnects with or without reading all replies."""

    def __init__(self, s):
        super().__init__(daemon=True)
        self.service, self.ends, self.visits, self.wrong = s, False, 0, None

    def run(self):
        try:
            while not self.ends:
                with self.service.connect() as c:
                    c.send(encode("BF.ADD", "visits", self.visits) + encode("BG.INFO", "visits")
                           + encode("MULTI") + encode("BF.ADD", "visits", "x") + encode("KEYS", "d*")
                           + encode("EXEC"))
                    if self.visits % 3 == 0:
                        for _ in range(6):
                            c.reply()
                    elif self.visits % 3 == 1:
                        c.reply()
                self.visits += 1
        except Exception as error:  # pylint: disable=broad-except
            self.wrong = error


class Reader(threading.Thread):
    """Repeatedly requests metrics, filter lists and health checks over HTTP."""

    PATHS = ["/metrics", "/api/v1/filters", "/api/v1/info", "/healthz", "/readyz"]

    def __init__(self, s):
        super().__init__(daemon=True)
        self.service, self.ends, self.reads, self.wrong = s, False, 0, None

    def run(self):
        try:
            while not self.ends:
                path = self.PATHS[self.reads % len(self.PATHS)]
                with urllib.request.urlopen(f"http://127.0.0.1:{self.service.http_port}{path}",
                                            timeout=service.PATIENCE) as answer:
                    answer.read()
                self.reads += 1
                time.sleep(0.01)
        except Exception as error:  # pylint: disable=broad-except
            self.wrong = error


def benchmark(s):
    program = shutil.which("redis-benchmark")
    if not program:
        return None
    return subprocess.Popen([program, "-p", str(s.port), "-c", "20", "-P", "16", "-l", "-r", "100000",
                             "-q", "BF.ADD", "bench", "__rand_int__"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def under_load(program, policy):
    s = Service(program, f"appendfsync {policy}", "workers 2", "snapshot-journal-size 1Mi",
                "snapshot-interval 1s", http=True)
    bench = None
    try:
        s.start()
        for words in (("BF.RESERVE", "bf-keys", "0.0001", "100000"), ("CF.RESERVE", "cf-keys", "1000")):
            assert not isinstance(s.ask(*words), Error)
        writers = [kill_drill.Writer(s.port, f"w{min(i, 3)}", "CF.ADD" if i == 2 else "BF.ADD")
                   for i in range(5)]
        mover = kill_drill.Mover(s.port, "m")
        disturbers = [kill_drill.Disturber(s.port, i) for i in range(2)]
        guests = [Visitor(s), Reader(s)]
        for thread in writers + [mover] + disturbers + guests:
            thread.start()
        bench = benchmark(s)
        time.sleep(SECONDS)
        for guest in guests:
            guest.ends = True
        for guest in guests:
            guest.join(service.PATIENCE)
            assert guest.wrong is None, guest.wrong
        if bench:
            bench.terminate()
            bench.wait()
        s.stop(120)
        for thread in writers + [mover] + disturbers:
            thread.join(service.PATIENCE)
        s.start()
        connection = kill_drill.Connection(s.port)
        for writer in writers:
            assert not kill_drill.verify(connection, writer), writer.name
        assert not mover.verify(connection)
        connection.close()
        s.stop(120)
        print(f"{policy}: {sum(w.acknowledged for w in writers)} adds, {mover.done} moves, "
              f"{sum(d.commands for d in disturbers)} other commands, {guests[0].visits} visits, "
              f"{guests[1].reads} pages")
    finally:
        if bench and bench.poll() is None:
            bench.kill()
        s.kill()
        s.remove()


@alone
def test_everything_at_once_always(program):
    under_load(program, "always")


@alone
def test_everything_at_once_everysec(program):
    under_load(program, "everysec")


service.main(__doc__)
