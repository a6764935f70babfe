#!/usr/bin/env python3
"""Compares the module's commands with the built-in commands of Redis or Valkey, in one server process.

  commands  BF.EXISTS and BF.ADD on a filter of --keys keys, compared with GET on the same number of strings and
            with GET of a single key, which is always in the CPU cache. redis-benchmark runs them in turn, with
            pipelines of 1, 16 and 64 requests: requests per second, and the server's CPU time per request (utime +
            stime of its process)
  batches   BF.MEXISTS of 100 keys compared with 100 BF.EXISTS in one pipeline, on a filter of --many keys:
            keys per second from bgload, and the server's CPU time per key
  others    latency of other clients while a filter of 1 GiB is unlinked, deleted, loaded from a dump, or
            queried for its statistics: median, 99th percentile and maximum of consecutive GETs over two
            seconds
  memory    additional memory while a filter of 1 GiB is saved and loaded again: the peak reported by the
            kernel, in MiB

All keys are 12-digit decimal numbers. The client runs on the same machine.

usage: bench_redis.py BUILD [--server redis-server] [--keys 1e7] [--many 1e8] [--requests 1e6] [--json FILE]"""

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Connection:
    """A minimal RESP2 client for small replies."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def ask(self, *words):
        self.send(*words)
        return self.reply()


class Server:
    def __init__(self, program, module):
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="bloomgate-bench-")
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--save", "", "--dir", self.folder, "--enable-debug-command", "yes",
             "--loadmodule", module],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(2000):
            try:
                self.connection = Connection(self.port)
                return
            except OSError:
                time.sleep(0.005)
        raise RuntimeError(f"{program} did not start")

    def ask(self, *words):
        return self.connection.ask(*words)

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def status(self, field):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) / 1024 for line in f if line.startswith(field + ":"))

    def more(self, act):
        """Runs act() and returns the server's peak additional memory, in MiB."""
        with open(f"/proc/{self.process.pid}/clear_refs", "w", encoding="ascii") as f:
            f.write("5")
        before = self.status("VmRSS")
        act()
        return self.status("VmHWM") - before

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder)

    def benchmark(self, *command, requests, pipeline, keys):
        """Runs redis-benchmark; returns requests per second and the server's CPU time per request in microseconds."""
        before = self.cpu()
        output = subprocess.run(
            ["redis-benchmark", "-p", str(self.port), "-c", "50", "-n", str(int(requests)), "-P", str(pipeline),
             "-r", str(int(keys)), "--csv", *command], check=True, capture_output=True, text=True).stdout
        used = self.cpu() - before
        return float(output.strip().splitlines()[-1].split('","')[1]), used / requests * 1e6


def fill_strings(server, keys, step=1000):
    """Stores one string per key, with the value "1"."""
    c = Connection(server.port)
    for first in range(0, int(keys), step):
        n = min(step, int(keys) - first)
        c.socket.sendall(b"*%d\r\n$4\r\nMSET\r\n" % (1 + 2 * n)
                         + b"".join(b"$12\r\n%012d\r\n$1\r\n1\r\n" % k for k in range(first, first + n)))
        c.reply()


class Bench:
    def __init__(self, options):
        self.options = options
        self.results = {}
        self.bgload_path = os.path.join(options.build, "bin", "bgload")
        self.module = os.path.abspath(os.path.join(options.build, "lib", "bloomgate.so"))

    def bgload(self, server, **options):
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        before = server.cpu()
        output = json.loads(subprocess.run([self.bgload_path, f"--port={server.port}", *arguments], check=True,
                                           capture_output=True, text=True).stdout)
        return output, server.cpu() - before

    # ---- Commands ------------------------------------------------------------------------------------

    def commands(self):
        server = Server(self.options.server, self.module)
        keys = self.options.keys
        server.ask("BF.RESERVE", "seen", "0.01", int(keys))
        self.bgload(server, command="BF.MADD seen", count=keys, per=1000, connections=4)
        fill_strings(server, keys)
        cases = {"GET": ("GET", "__rand_int__"), "BF.EXISTS": ("BF.EXISTS", "seen", "__rand_int__"),
                 "BF.ADD": ("BF.ADD", "seen", "__rand_int__"), "BF.ADD new": ("BF.ADD", "seen", "x__rand_int__"),
                 "GET one": ("GET", "000000000001")}
        for pipeline in (1, 16, 64):
            runs = {name: [] for name in cases}
            for _ in range(5):
                for name, command in cases.items():
                    requests = self.options.requests / (5 if pipeline == 1 else 1)
                    runs[name].append(server.benchmark(*command, requests=requests, pipeline=pipeline, keys=keys))
            rows = {name: {"rate": statistics.median(r[0] for r in found), "cpu_us": statistics.median(r[1] for r in found)}
                    for name, found in runs.items()}
            self.results[f"commands -P {pipeline}"] = rows
            for name, row in rows.items():
                row["of_get"] = row["cpu_us"] / rows["GET"]["cpu_us"]
                print(f"-P {pipeline:<3} {name:10} {row['rate']:12,.0f} /s {row['cpu_us']:8.3f} us CPU each, "
                      f"{row['of_get']:.2f}x GET", flush=True)
        server.stop()

    # ---- Batches -------------------------------------------------------------------------------------

    def batches(self):
        server = Server(self.options.server, self.module)
        keys = self.options.many
        server.ask("BF.RESERVE", "seen", "0.01", int(keys))
        self.bgload(server, command="BF.MADD seen", count=keys, per=1000, connections=4)
        found = {}
        for _ in range(5):
            for name, per, pipeline in (("BF.MEXISTS", 100, 1), ("BF.EXISTS", 1, 100)):
                output, used = self.bgload(server, command=f"{name} seen", per=per, pipeline=pipeline, connections=16,
                                           seconds=3, range=keys)
                found.setdefault(name, []).append((output["keys_per_second"], used / (output["requests"] * per) * 1e6))
        rows = {name: {"rate": statistics.median(f[0] for f in runs), "cpu_us": statistics.median(f[1] for f in runs)}
                for name, runs in found.items()}
        rows["ratio"] = rows["BF.MEXISTS"]["rate"] / rows["BF.EXISTS"]["rate"]
        rows["cpu_ratio"] = rows["BF.EXISTS"]["cpu_us"] / rows["BF.MEXISTS"]["cpu_us"]
        self.results["batches"] = rows
        for name in found:
            print(f"{name:10} {rows[name]['rate']:12,.0f} keys/s {rows[name]['cpu_us']:8.3f} us CPU each")
        print(f"BF.MEXISTS of 100 keys: {rows['ratio']:.1f}x the keys, 1/{rows['cpu_ratio']:.1f} of the CPU time", flush=True)
        server.stop()

    # ---- Others --------------------------------------------------------------------------------------

    def waits(self, server, act, seconds=2):
        """Runs act() while another client sends GETs, and returns statistics on the latency of those GETs, in
        milliseconds."""
        times, ready = [], threading.Event()

        def ask():
            c = Connection(server.port)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                start = time.perf_counter()
                c.ask("GET", "x")
                times.append((time.perf_counter() - start) * 1e3)
                if len(times) == 500:
                    ready.set()
        thread = threading.Thread(target=ask)
        thread.start()
        ready.wait()
        start = time.perf_counter()
        act()
        took = (time.perf_counter() - start) * 1e3
        thread.join()
        times.sort()
        return {"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100], "max": times[-1], "took": took}

    def chunks_of(self, server, name):
        cursor, chunks = 0, []
        while True:
            cursor, chunk = server.ask("BG.DUMP", name, cursor, "SIZE", 64 << 20)
            chunks.append(chunk)
            if cursor == 0:
                return chunks

    def others(self):
        server = Server(self.options.server, self.module)
        size = int(self.options.large)

        def make():
            server.ask("BG.CREATE", "large", "KIND", "blocked", "BYTES", size, "K", 8)
            self.bgload(server, command="BG.MADD large", count=2e6, per=1000, connections=2)
        rows = {"nothing": self.waits(server, lambda: None)}
        for words in (("UNLINK", "large"), ("DEL", "large"), ("FLUSHALL", "SYNC")):
            make()
            rows[words[0]] = self.waits(server, lambda w=words: server.ask(*w))
        make()
        chunks = self.chunks_of(server, "large")
        server.ask("DEL", "large")
        for chunk in chunks[:-1]:
            server.ask("BG.LOAD", "large", chunk)
        rows["last BG.LOAD chunk"] = self.waits(server, lambda: server.ask("BG.LOAD", "large", chunks[-1]), seconds=6)
        rows["BG.INFO"] = self.waits(server, lambda: server.ask("BG.INFO", "large"))
        self.results["others"] = rows
        for name, row in rows.items():
            print(f"GETs during {name:20} p50 {row['p50']:.3f} ms, p99 {row['p99']:.3f} ms, max {row['max']:.1f} ms; "
                  f"the operation took {row['took']:.1f} ms", flush=True)
        server.stop()


    # ---- Memory --------------------------------------------------------------------------------------

    def memory(self):
        server = Server(self.options.server, self.module)
        server.ask("BG.CREATE", "large", "KIND", "blocked", "BYTES", int(self.options.large), "K", 8)
        self.bgload(server, command="BG.MADD large", count=2e6, per=1000, connections=2)
        chunks = self.chunks_of(server, "large")
        rows = {"SAVE": server.more(lambda: server.ask("SAVE")),
                "DEBUG RELOAD": server.more(lambda: server.ask("DEBUG", "RELOAD", "NOSAVE"))}
        server.ask("DEL", "large")
        for chunk in chunks[:-1]:
            server.ask("BG.LOAD", "large", chunk)
        rows["last BG.LOAD chunk"] = server.more(lambda: server.ask("BG.LOAD", "large", chunks[-1]))
        self.results["memory"] = rows
        for name, more in rows.items():
            print(f"{name}: up to {more:.0f} MiB of additional memory", flush=True)
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("parts", nargs="*", help="commands, batches, others, memory (default: all)")
    parser.add_argument("--server", default="redis-server")
    parser.add_argument("--keys", type=float, default=1e7)
    parser.add_argument("--many", type=float, default=1e8)
    parser.add_argument("--large", type=float, default=2**30)
    parser.add_argument("--requests", type=float, default=1e6)
    parser.add_argument("--json")
    options = parser.parse_intermixed_args()
    bench = Bench(options)
    for part in options.parts or ("commands", "batches", "others", "memory"):
        getattr(bench, part)()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(bench.results, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
