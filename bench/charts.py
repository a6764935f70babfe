#!/usr/bin/env python3
"""Draws the charts in docs/charts from the JSON files there. With --measure, runs the measurements first.

The data for each chart comes from one command, which is printed on the chart. docs/charts/NAME.json contains the
command, the CPU, the date and the command's raw output; docs/charts/NAME.svg is drawn from that file alone.

usage: charts.py [--measure] [--build DIR] [--folder DIR] [NAME...]
       without --measure, only draws; without names, handles all charts"""

import argparse
import datetime
import json
import math
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # keeps bytecode files out of the source directory
import chart_svg as svg  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# ---- Measuring ---------------------------------------------------------------------------------------------------

# BUILD stands for the build directory. A command that writes its results to a file refers to that file as OUT.
COMMANDS = {
    "lookups": "BUILD/bin/bgbench peers --bits 10 --lookups-only --n 1e5,3e5,1e6,3e6,1e7,3e7,1e8 --json",
    "memory": "seq 8 40 | awk '{print 10^(-$1/8)}' | "
              "xargs -I RATE BUILD/bin/bloomgate plan --items 1e7 --rate RATE --json",
    "service": "bench/bench_service.py BUILD/bin large --keys 1e7 --requests 5e5 --json OUT",
    "module": "bench/bench_redis.py BUILD commands --keys 1e7 --requests 5e5 --json OUT",
    "threads": "BUILD/bin/bgbench concurrency --n 1e6 --json",
}
SERVERS = {"service", "module"}  # charts that need redis-server


def cpu():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = re.search(r"model name\s*:\s*(.*)", f.read())
    cores = len(os.sched_getaffinity(0))
    return f"{model.group(1) if model else 'unknown CPU'}, {cores} core{'s' if cores > 1 else ''}"


def software(name):
    with open(os.path.join(ROOT, "VERSION"), encoding="utf-8") as f:
        versions = f"Bloomgate {f.read().strip()}"
    if name in SERVERS:
        text = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
        versions += f", Redis {re.search(r'v=([0-9.]+)', text).group(1)}"
    return versions


def measure(name, build):
    """Runs the command for a chart and returns the content of its JSON file."""
    with tempfile.TemporaryDirectory(prefix="bloomgate-charts-") as folder:
        out = os.path.join(folder, "out.json")
        command = COMMANDS[name]
        done = subprocess.run(command.replace("BUILD", build).replace("OUT", out), shell=True, cwd=ROOT, check=True,
                              text=True, stdout=subprocess.PIPE)
        if "OUT" in command:
            with open(out, encoding="utf-8") as f:
                results = [json.load(f)]
        else:
            results = [json.loads(line) for line in done.stdout.splitlines()]
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return {"cpu": cpu(), "software": software(name), "date": today.isoformat(),
            "command": command.replace("BUILD", "build").replace("OUT", f"{name}.json"), "results": results}


def write_json(path, record):
    """Writes one result per line, so that diffs between measurements are readable."""
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in record.items() if key != "results")
    rows = ",\n".join("  " + json.dumps(row) for row in record["results"])
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{{\n{head} \"results\": [\n{rows}\n ]\n}}\n")


# ---- Charts ------------------------------------------------------------------------------------------------------

def chart(record, title, subtitle, **parts):
    machine = f"{record['cpu']} · {record['software']}"
    return svg.Chart(title, subtitle, machine, record["date"], record["command"], **parts)


def ticks(values, text="{:g}"):
    return [(value, text.format(value)) for value in values]


def short(value):
    """Formats a number with three digits: 88.7 k, 4.10 M."""
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= factor:
            value, digits = value / factor, 2 if value < 10 * factor else 1 if value < 100 * factor else 0
            return f"{value:.{digits}f}{unit}"
    return f"{value:.0f}"


PIPELINES = (1, 16, 64)


def pipeline(requests):
    return "No pipelining" if requests == 1 else f"Pipelines of {requests} requests"


def bar(name, color, found):
    return svg.Bar(name, color, found["rate"], f"{short(found['rate'])}/s, {found['cpu_us']:.2f} µs CPU")


def cache_marks(machine, bits_per_key):
    """Returns (number of keys, label) pairs for the sizes at which a filter outgrows the L2 and the L3 cache."""
    marks = []
    for level, kib in re.findall(r"L([23]) (\d+)K", machine["caches"]):
        size = f"{int(kib) // 1024} MiB" if int(kib) >= 1024 else f"{kib} KiB"
        marks.append((int(kib) * 1024 * 8 / bits_per_key, f"fits L{level} ({size})"))
    return marks


def lookups(record):
    rows = [row for row in record["results"] if row["bench"] == "peers"]
    sizes = [row["n"] for row in rows]

    def series(name, color, subject, peer, how, style=""):
        found = [row for row in rows if row["peer"] == peer and row["subject"].startswith(subject)]
        last = found[-1]
        note = f"{how}, FPR {100 * last['fpr']:.2f}%" if last["fpr"] else how
        points = [(row["n"], row["ns_per_key"]) for row in found]
        return svg.Series(f"{name}: {last['ns_per_key']:.1f} ns", color, points, note, style)
    ours = "bloomgate, same bits: u64 absent"
    machine = next(row for row in record["results"] if row["bench"] == "machine")
    powers = [(10 ** i, f"10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[i]}") for i in range(10) if min(sizes) <= 10 ** i <= max(sizes)]
    plot = svg.Plot(
        svg.Axis("keys in the filter", min(sizes), max(sizes), powers),
        svg.Axis("ns per key", 0.5, 200, ticks([0.5, 1, 2, 5, 10, 20, 50, 100, 200])),
        [series("memory limit", "gray", "limit", "RocksDB", "one random cache line per key", "dashed"),
         series("Bloomgate", "blue", f"{ours}, batch", "RocksDB", "one batch", "thick"),
         series("Bloomgate", "blue", f"{ours}, by 32", "RocksDB", "batches of 32"),
         series("RocksDB", "orange", "RocksDB: absent, batch", "RocksDB", "batches of 32"),
         series("LevelDB", "green", "LevelDB: absent", "LevelDB", "single calls"),
         series("libbloom", "purple", "libbloom: absent", "libbloom", "single calls")],
        marks=cache_marks(machine, 10), labels=200)
    return chart(record, "Lookups of absent keys, one core",
                 "Nanoseconds per 8-byte key at 10 bits per key, lower is better. FPR: measured false-positive rate.",
                 plots=[plot], height=400)


KINDS = {  # name in the plan: label and color
    "ribbon": ("ribbon (immutable)", "green"),
    "fuse": ("fuse (immutable)", "teal"),
    "classic": ("classic, partitioned", "orange"),
    "cuckoo": ("cuckoo (removes)", "purple"),
    "blocked": ("blocked (default)", "blue"),
    "quotient": ("quotient (removes)", "pink"),
    "split": ("split", "red"),
    "scalable": ("scalable (grows)", "olive"),
    "window": ("window (expires)", "lime"),
    "register": ("register", "indigo"),
    "counting": ("counting (removes)", "brown"),
}
STEPPED = {"ribbon", "fuse", "cuckoo", "quotient"}  # kinds with a whole number of bits per fingerprint


def stairs(plans):
    """Returns the points for a kind whose size grows in steps: each size is used for all requested rates down to the
    rate that it achieves."""
    points = []
    for (request, found), (following, after) in zip(plans, plans[1:] + plans[-1:]):
        edge = min(request, max(found["rate"], following))
        points += [(request, found["bits_per_key"]), (edge, found["bits_per_key"]), (edge, after["bits_per_key"])]
    return points


def memory(record):
    plans = sorted(record["results"], key=lambda plan: -plan["request"]["rate"])
    rates = [plan["request"]["rate"] for plan in plans]

    def series(kind, name, color):
        found = [(plan["request"]["rate"], row) for plan in plans for row in plan["kinds"]
                 if row["kind"] == kind and row["possible"]]
        points = stairs(found) if kind in STEPPED else [(rate, row["bits_per_key"]) for rate, row in found]
        return svg.Series(name, color, points, style="thick" if kind == "blocked" else "")
    bound = svg.Series("lower bound", "gray", [(rate, math.log2(1 / rate)) for rate in rates], style="dashed")
    powers = [(10.0 ** -i, f"{10.0 ** (2 - i):g}%") for i in range(1, 6)]
    plot = svg.Plot(
        svg.Axis("false-positive rate", max(rates), min(rates), powers),
        svg.Axis("bits per key", 0, 50, ticks(range(0, 51, 10)), log=False),
        [bound] + [series(kind, *look) for kind, look in KINDS.items()], labels=165, dots=False)
    return chart(record, "Memory by false-positive rate",
                 "Bits per key as planned for 10 million keys. "
                 "The lower bound for any filter is log₂(1 / false-positive rate).", plots=[plot], height=440)


def service(record):
    results = record["results"][0]

    groups = [(pipeline(n), [bar("bloomgated BF.EXISTS", "blue", results["bloomgated"][str(n)]),
                             bar("Redis SISMEMBER", "orange", results["redis"][str(n)])]) for n in PIPELINES]
    many = results["batches"]["keys_per_second"]
    groups.append(("No pipelining, 100 keys per request",
                   [svg.Bar("bloomgated BF.MEXISTS", "blue", many, f"{short(many)} keys/s")]))
    sizes = {name: size / 2**20 for name, size in results["memory"].items()}
    return chart(record, "Service: lookups per second",
                 "One worker, 50 connections, 10 million keys. CPU: server time per lookup. "
                 f"Memory: bloomgated {sizes['bloomgated']:.0f} MiB, Redis set {sizes['redis']:.0f} MiB.",
                 groups=groups)


def module(record):
    results = record["results"][0]
    names = {"BF.EXISTS": ("BF.EXISTS", "blue"), "BF.ADD": ("BF.ADD, existing key", "teal"),
             "BF.ADD new": ("BF.ADD, new key", "green"), "GET": ("GET", "orange")}
    groups = []
    for n in PIPELINES:
        rows = results[f"commands -P {n}"]
        groups.append((pipeline(n), [bar(name, color, rows[key]) for key, (name, color) in names.items()]))
    return chart(record, "Module inside Redis: commands per second",
                 "50 connections, random keys, one filter of 10 million keys at 1%; GET: 10 million strings. "
                 "CPU: server time per command.", groups=groups)


def threads(record):
    rows = [row for row in record["results"] if row["bench"] == "concurrency"]
    counts = sorted({row["threads"] for row in rows})
    schemes = {"atomic (bloomgate), batches": ("Bloomgate, batch", "blue", "thick"),
               "atomic (bloomgate)": ("Bloomgate", "blue", ""),
               "one mutex, batches": ("mutex, batch", "orange", "thick"),
               "64 mutexes": ("64 mutexes", "green", ""),
               "one mutex": ("mutex", "orange", ""),
               "one rwlock": ("rwlock", "purple", "")}

    def points(load, scheme):
        return [(row["threads"], row["mops"]) for row in rows if row["load"] == load
                and re.sub(r", \d+ threads?$", "", row["subject"]) == scheme]
    loads = ("lookups", "90% lookups, 10% adds", "adds")
    least = min(mops for load in loads for scheme in schemes for _, mops in points(load, scheme))
    steps = [step * power for power in (1, 10, 100, 1000) for step in (1, 2, 5)]
    steps = steps[max(i for i, step in enumerate(steps) if step <= least or i == 0):-1]

    def plot(load, y_label):
        return svg.Plot(svg.Axis("threads", counts[0], counts[-1], ticks(counts)),
                        svg.Axis(y_label, steps[0], steps[-1], ticks(steps)),
                        [svg.Series(name, color, points(load, scheme), style=style)
                         for scheme, (name, color, style) in schemes.items()],
                        title=load, labels=146)
    return chart(record, "Threads sharing one filter",
                 "Millions of operations per second on one blocked filter of 1 million keys. "
                 "Bloomgate: shared mode, without a lock.",
                 plots=[plot(load, "" if i else "M ops/s") for i, load in enumerate(loads)], height=360)


CHARTS = {"lookups": lookups, "memory": memory, "service": service, "module": module, "threads": threads}


def render(name, folder):
    """Returns the SVG of a chart, drawn from its JSON file."""
    with open(os.path.join(folder, f"{name}.json"), encoding="utf-8") as f:
        return svg.draw(CHARTS[name](json.load(f)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CHARTS))
    parser.add_argument("--measure", action="store_true", help="run the commands first and replace the JSON files")
    parser.add_argument("--build", default="build", help="build directory (default: build)")
    parser.add_argument("--folder", default=os.path.join(ROOT, "docs", "charts"), help="directory for the charts")
    options = parser.parse_args()
    for name in options.names or CHARTS:
        if name not in CHARTS:
            parser.error(f"no chart {name}; choose from {', '.join(CHARTS)}")
        if options.measure:
            print(f"{name}: {COMMANDS[name].replace('BUILD', options.build)}", flush=True)
            write_json(os.path.join(options.folder, f"{name}.json"), measure(name, options.build))
        path = os.path.join(options.folder, f"{name}.svg")
        with open(path, "w", encoding="utf-8") as f:
            f.write(render(name, options.folder))
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
