#!/usr/bin/env python3
"""Measures the service against redis-server, on this machine, in one run.

  lookups   BF.EXISTS here, SISMEMBER there: redis-benchmark with 1, 16 and 64 requests at a time;
            requests per second, and the server's processor time per request
  batches   BF.MEXISTS of 100 keys against BF.EXISTS, one request at a time: keys per second
  memory    of the filter's process against that of the set's
  workers   two against one: BF.EXISTS, 64 at a time, from bgload. The client needs processor time
            too, so a worker and its client share one processor, and two workers and two clients
            share two: what is compared is the whole work that gets done with twice the means

Both have the same keys: decimal numbers of 12 digits. Loads, rests and measures one server after
the other, so neither disturbs the other one. The client runs on the same machine, so rates are of
both together; processor times are the server's own (utime + stime of its process).

usage: bench_service.py BIN [--keys 1e7] [--requests 1e6] [--json FILE]"""

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
        raise RuntimeError(f"{command[0]} does not start")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def benchmark(self, *command, requests, pipeline, keys):
        """redis-benchmark: requests per second, and processor time per request in microseconds."""
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


class Bench:
    def __init__(self, options):
        self.bin, self.keys, self.requests = options.bin, options.keys, options.requests
        self.folder = tempfile.mkdtemp(prefix="bloomgate-bench-")
        self.results = {"keys": int(self.keys)}

    def ours(self, workers, processors=None):
        port = free_port()
        where = ["taskset", "-c", ",".join(map(str, processors))] if processors else []
        conf = os.path.join(self.folder, "conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(f"port {port}\nhttp-port 0\nbind 127.0.0.1\nworkers {workers}\ndir {self.folder}/data-{port}\n"
                    f"keyring {self.folder}/keyring\nappendonly no\nlog-level warning\nmaxmemory 0\n")
        return Server([*where, os.path.join(self.bin, "bloomgated"), "--config", conf], port)

    def theirs(self):
        port = free_port()
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
                  f"{rows[pipeline]['cpu_us']:7.3f} us of processor time each", flush=True)
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
        print(f"BF.MEXISTS of 100 keys, one at a time: {many:,.0f} keys/s, {many / one:.1f} times BF.EXISTS")
        memory = rss_bytes(ours.process.pid)
        ours.stop()
        self.workers()
        theirs = self.theirs()
        self.results["fill"]["redis"] = self.fill_theirs(theirs)["keys_per_second"]
        self.results["redis"] = self.lookups(theirs, "redis", "SISMEMBER")
        self.results["memory"] = {"bloomgated": memory, "redis": rss_bytes(theirs.process.pid)}
        theirs.stop()
        self.summary()
        shutil.rmtree(self.folder)

    def workers(self):
        """Requests per second with one worker and client on one processor, and with two on two."""
        processors = sorted(os.sched_getaffinity(0))[:2]
        if len(processors) < 2:
            print("workers: there is one processor only")
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
        print(f"workers: one {single:,.0f} /s with its client on one processor, two {double:,.0f} /s on two = "
              f"{double / single:.2f} times; {cost[0]:.3f} and {cost[1]:.3f} us of the server's processor time each")

    def summary(self):
        ours, theirs = self.results["bloomgated"], self.results["redis"]
        for pipeline in (1, 16, 64):
            print(f"-P {pipeline:<3} {ours[pipeline]['rate'] / theirs[pipeline]['rate']:.2f} times the rate, "
                  f"{ours[pipeline]['cpu_us'] / theirs[pipeline]['cpu_us']:.3f} of the processor time")
        memory = self.results["memory"]
        print(f"memory: {memory['bloomgated'] / 2**20:,.0f} MiB against {memory['redis'] / 2**20:,.0f} MiB = 1/"
              f"{memory['redis'] / memory['bloomgated']:.1f}")
        fill = self.results["fill"]
        print(f"filling: {fill['bloomgated']:,.0f} keys/s against {fill['redis']:,.0f} keys/s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--keys", type=float, default=1e7)
    parser.add_argument("--requests", type=float, default=1e6)
    parser.add_argument("--json")
    options = parser.parse_args()
    bench = Bench(options)
    bench.run()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(bench.results, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
