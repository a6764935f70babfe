#!/usr/bin/env python3
"""Compares the service with redis-server, on this machine, in one run.

  lookups   BF.EXISTS in bloomgated and SISMEMBER in Redis, from redis-benchmark with pipelines of 1, 16 and 64
            requests: requests per second, and the server's CPU time per request
  batches   BF.MEXISTS of 100 keys compared with BF.EXISTS, without pipelining: keys per second
  memory    memory of the process with the filter, and of the process with the set
  workers   two workers compared with one: BF.EXISTS in pipelines of 64, from bgload. The client needs CPU time
            too, so one worker and its client share one core, and two workers and two clients share two cores:
            this compares the total work done with twice the resources
  small     many small filters, compared with the same number of strings of the same size in Redis: time per filter or
            string to save all of them, and to load them at startup

Both servers hold the same keys, which are 12-digit decimal numbers. The servers are loaded and measured one after
the other, so that they do not affect each other. The client runs on the same machine, so the rates include
its work; CPU times include only the server process (utime + stime).

usage: bench_service.py BIN [large] [small] [--keys 1e7] [--requests 1e6] [--filters 1e5] [--json FILE]
       large: all of the above except `small`; default: both"""

import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024


class Server:
    """A server process with its port."""

    def __init__(self, command, port):
        self.port = port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(2000):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.005)
        raise RuntimeError(f"{command[0]} did not start")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def benchmark(self, *command, requests, pipeline, keys):
        """Runs redis-benchmark; returns requests per second and the server's CPU time per request in microseconds."""
        before = cpu_seconds(self.process.pid)
        output = subprocess.run(
            ["redis-benchmark", "-p", str(self.port), "-c", "50", "-n", str(int(requests)), "-P", str(pipeline),
             "-r", str(int(keys)), "--csv", *command], check=True, capture_output=True, text=True).stdout
        used = cpu_seconds(self.process.pid) - before
        rate = float(output.strip().splitlines()[-1].split('","')[1])
        return rate, used / requests * 1e6


def bgload(folder, port, **options):
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    output = subprocess.run([os.path.join(folder, "bgload"), f"--port={port}", *arguments], check=True,
                            capture_output=True, text=True).stdout
    return json.loads(output)


def call(port, *words, timeout=600):
    """Sends one command and returns the first line of the reply."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as s:
        s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return s.makefile("rb").readline()


def fill_small(port, count, command):
    """Sends command(i) for each i below count, in pipelines of 1000."""
    with socket.create_connection(("127.0.0.1", port)) as s:
        replies = s.makefile("rb")
        for first in range(0, count, 1000):
            numbers = range(first, min(count, first + 1000))
            s.sendall(b"".join(map(command, numbers)))
            for _ in numbers:
                line = replies.readline()
                if line[:1] not in b":+":
                    raise RuntimeError(line.decode())


class Bench:
    def __init__(self, options):
        self.bin, self.keys, self.requests = options.bin, options.keys, options.requests
        self.folder = tempfile.mkdtemp(prefix="bloomgate-bench-")
        self.results = {"keys": int(self.keys)}
        self.filters = int(options.filters)

    def ours(self, workers, processors=None, port=None, appendonly="no"):
        port = port or free_port()
        where = ["taskset", "-c", ",".join(map(str, processors))] if processors else []
        conf = os.path.join(self.folder, "conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(f"port {port}\nhttp-port 0\nbind 127.0.0.1\nworkers {workers}\ndir {self.folder}/data-{port}\n"
                    f"keyring {self.folder}/keyring\nappendonly {appendonly}\nlog-level warning\nmaxmemory 0\n")
        return Server([*where, os.path.join(self.bin, "bloomgated"), "--config", conf], port)

    def theirs(self, port=None):
        port = port or free_port()
        return Server(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no", "--dir", self.folder], port)

    def fill_ours(self, server):
        subprocess.run(["redis-cli", "-p", str(server.port), "BF.RESERVE", "seen", "0.01", str(int(self.keys)),
                        "NONSCALING"], check=True, stdout=subprocess.DEVNULL)
        return bgload(self.bin, server.port, command="BF.MADD seen", count=self.keys, per=1000, connections=4)

    def fill_theirs(self, server):
        return bgload(self.bin, server.port, command="SADD seen", count=self.keys, per=1000, connections=4,
                      lines_per_request=1)

    def lookups(self, server, name, command):
        rows = {}
        for pipeline in (1, 16, 64):
            requests = self.requests if pipeline > 1 else self.requests / 5
            runs = [server.benchmark(command, "seen", "__rand_int__", requests=requests, pipeline=pipeline,
                                     keys=self.keys) for _ in range(3)]
            rows[pipeline] = {"rate": statistics.median(r[0] for r in runs),
                              "cpu_us": statistics.median(r[1] for r in runs)}
            print(f"{name:10} -P {pipeline:<3} {rows[pipeline]['rate']:12,.0f} /s   "
                  f"{rows[pipeline]['cpu_us']:7.3f} us CPU each", flush=True)
        return rows

    def batches(self, server):
        many = [server.benchmark("BF.MEXISTS", "seen", *["__rand_int__"] * 100, requests=self.requests / 50, pipeline=1,
                                 keys=self.keys)[0] * 100 for _ in range(3)]
        return statistics.median(many)

    def run(self):
        ours = self.ours(1)
        filling = self.fill_ours(ours)
        self.results["fill"] = {"bloomgated": filling["keys_per_second"]}
        self.results["bloomgated"] = self.lookups(ours, "bloomgated", "BF.EXISTS")
        many = self.batches(ours)
        one = self.results["bloomgated"][1]["rate"]
        self.results["batches"] = {"keys_per_second": many, "ratio": many / one}
        print(f"BF.MEXISTS of 100 keys, no pipelining: {many:,.0f} keys/s, {many / one:.1f}x BF.EXISTS")
        memory = rss_bytes(ours.process.pid)
        ours.stop()
        self.workers()
        theirs = self.theirs()
        self.results["fill"]["redis"] = self.fill_theirs(theirs)["keys_per_second"]
        self.results["redis"] = self.lookups(theirs, "redis", "SISMEMBER")
        self.results["memory"] = {"bloomgated": memory, "redis": rss_bytes(theirs.process.pid)}
        theirs.stop()
        self.summary()

    def workers(self):
        """Measures the requests per second with one worker and one client on one core, and with two workers and two
        clients on two cores."""
        processors = sorted(os.sched_getaffinity(0))[:2]
        if len(processors) < 2:
            print("workers: skipped because two cores are required")
            return
        servers = {}
        for number in (1, 2):
            servers[number] = self.ours(number, processors[:number])
            self.fill_ours(servers[number])
        rates, costs = {1: [], 2: []}, {1: [], 2: []}
        for _ in range(7):
            for number, server in servers.items():
                before = cpu_seconds(server.process.pid)
                clients = [subprocess.Popen(
                    ["taskset", "-c", str(p), os.path.join(self.bin, "bgload"), f"--port={server.port}",
                     "--command=BF.EXISTS seen", "--per=1", "--pipeline=64", "--connections=8", "--seconds=3",
                     f"--range={self.keys}"], stdout=subprocess.PIPE, text=True) for p in processors[:number]]
                replies = [json.loads(client.communicate()[0]) for client in clients]
                rate = sum(reply["keys_per_second"] for reply in replies)
                rates[number].append(rate)
                costs[number].append((cpu_seconds(server.process.pid) - before) / sum(reply["requests"] for reply in replies) * 1e6)
        for server in servers.values():
            server.stop()
        single, double = statistics.median(rates[1]), statistics.median(rates[2])
        cost = [statistics.median(costs[number]) for number in (1, 2)]
        self.results["workers"] = {"one": single, "two": double, "ratio": double / single, "cpu_us": cost}
        print(f"workers: one worker {single:,.0f} /s with its client on one core, two workers {double:,.0f} /s on two cores = "
              f"{double / single:.2f}x; {cost[0]:.3f} and {cost[1]:.3f} us server CPU each")

    def saving(self, name, start, command):
        """Returns the time per object, in microseconds, to save all objects and to load them at startup."""
        server = start(None)
        while call(server.port, b"DBSIZE") != b":0\r\n":
            time.sleep(0.01)
        fill_small(server.port, self.filters, command)
        began, used = time.monotonic(), cpu_seconds(server.process.pid)
        if call(server.port, b"SAVE") != b"+OK\r\n":
            raise RuntimeError(f"{name}: SAVE failed")
        saved, used = time.monotonic(), cpu_seconds(server.process.pid) - used
        server.stop()
        began_again = time.monotonic()
        server = start(server.port)
        while call(server.port, b"DBSIZE") != b":%d\r\n" % self.filters:
            time.sleep(0.01)
        loaded, used_again = time.monotonic(), cpu_seconds(server.process.pid)
        server.stop()
        times = {"save_us": saved - began, "save_cpu_us": used, "load_us": loaded - began_again, "load_cpu_us": used_again}
        row = {what: seconds / self.filters * 1e6 for what, seconds in times.items()}
        print(f"{name:10} {self.filters:,} objects: save {row['save_us']:.1f} us each ({row['save_cpu_us']:.1f} us CPU), "
              f"load {row['load_us']:.1f} us ({row['load_cpu_us']:.1f} us CPU)", flush=True)
        return row

    def small(self):
        ours = self.saving("bloomgated", lambda port: self.ours(1, port=port, appendonly="yes"),
                           lambda i: b"*3\r\n$6\r\nBF.ADD\r\n$13\r\nuser:%08d\r\n$3\r\nkey\r\n" % i)
        theirs = self.saving("redis", self.theirs,
                             lambda i: b"*3\r\n$3\r\nSET\r\n$13\r\nuser:%08d\r\n$1200\r\n%s\r\n" % (i, b"x" * 1200))
        self.results["small"] = {"filters": self.filters, "bloomgated": ours, "redis": theirs}
        print(f"small: compared with strings of 1200 bytes, saving takes {ours['save_us'] / theirs['save_us']:.2f}x "
              f"and loading {ours['load_us'] / theirs['load_us']:.2f}x the time")

    def summary(self):
        ours, theirs = self.results["bloomgated"], self.results["redis"]
        for pipeline in (1, 16, 64):
            print(f"-P {pipeline:<3} {ours[pipeline]['rate'] / theirs[pipeline]['rate']:.2f}x the rate, "
                  f"{ours[pipeline]['cpu_us'] / theirs[pipeline]['cpu_us']:.3f}x the CPU time")
        memory = self.results["memory"]
        print(f"memory: bloomgated {memory['bloomgated'] / 2**20:,.0f} MiB, Redis {memory['redis'] / 2**20:,.0f} MiB = 1/"
              f"{memory['redis'] / memory['bloomgated']:.1f}")
        fill = self.results["fill"]
        print(f"filling: bloomgated {fill['bloomgated']:,.0f} keys/s, Redis {fill['redis']:,.0f} keys/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("parts", nargs="*", choices=["large", "small", []])
    parser.add_argument("--filters", type=float, default=1e5)
    parser.add_argument("--keys", type=float, default=1e7)
    parser.add_argument("--requests", type=float, default=1e6)
    parser.add_argument("--json")
    options = parser.parse_args()
    bench = Bench(options)
    if "large" in (options.parts or ["large"]):
        bench.run()
    if "small" in (options.parts or ["small"]):
        bench.small()
    shutil.rmtree(bench.folder, ignore_errors=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(bench.results, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
