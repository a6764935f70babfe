#!/usr/bin/env python3
"""The conformance suite for sources. The suite runs every event against every source and mode, with
real servers and concurrent writers, and compares the gate with the table itself. A new source must pass the suite
before it is released.

usage: test_sources.py GATE_PROBE [--mode SOURCE/MODE]... [--event PART]... [--changes N] [--seed S] [--list]

Prints a matrix. `--changes` is the number of keys to write per mode. With 100,000 or more, the suite also measures
throughput and costs (--event throughput runs only these measurements). Exit status 77: PostgreSQL is not installed.
"""

import argparse
import json
import subprocess
import sys
import threading
import time
import traceback

import events_changes  # noqa: F401  pylint: disable=unused-import
import events_postgres  # noqa: F401  pylint: disable=unused-import
import events_sqlite  # noqa: F401  pylint: disable=unused-import
import oracle
import world_postgres
from case import Case, Writers
from events import DOUBT, EVENTS, MODES, REFUSED, RESTARTS, STAYS, select
from gate import Failure, expect
from keys import rotation
from measure import measure
from world_sqlite import Sqlite

SKIP = 77
MEASURED = 100_000  # minimum number of changes for measuring throughput


def run_event(event, case):
    """Runs one event in one mode. Returns the number of keys that were compared with the table."""
    event.setup(case)
    if event.expect == REFUSED:
        text, words = event.function(case)
        expect(any(word in text for word in words), f"the message contains none of {words}: {text}")
        return 0
    before = case.gate.about()["restarts"] if case.gates else None
    writers = Writers(case) if event.writers else None
    monitor = oracle.Monitor(case) if event.monitor else None
    try:
        event.function(case)
    finally:
        if writers:
            writers.stop()
    checked = oracle.check_doubt(case) if event.expect == DOUBT else oracle.settle(case)
    if monitor:
        monitor.stop()
    after = case.gate.about()["restarts"]
    if event.expect == STAYS and before is not None:
        expect(after == before or after == "0", f"the follower restarted: {case.gate.events()[-8:]}")
    if event.expect == RESTARTS:
        expect(int(after) > int(before), f"the follower did not restart: {case.gate.events()[-8:]}")
    return (checked or 0) + (monitor.asked if monitor else 0)


def run_mode(mode, arguments, report):
    """Runs all events for one mode in sequence, and reports each event when it ends."""
    source, follow = mode.split("/")
    chosen = select(arguments.event, mode)
    changes = arguments.changes // max(1, sum(event.writers for event in chosen))
    types = rotation(source)
    with (world_postgres.Postgres() if source == "postgres" else Sqlite()) as world:
        for event in chosen:
            number = EVENTS.index(event) + arguments.seed
            key = event.key or types[number % len(types)]
            case = Case(world, source, follow, arguments.probe, key, changes, number)
            result = {"event": event.name, "mode": mode, "key": case.key.name, "failure": None, "checked": 0}
            begun = time.monotonic()
            try:
                try:
                    result["checked"] = run_event(event, case)
                finally:
                    case.end()
            except Failure as failure:
                result["failure"] = str(failure)
            except Exception:  # pylint: disable=broad-except
                result["failure"] = traceback.format_exc()
            result["changes"] = case.changes
            result["seconds"] = round(time.monotonic() - begun, 2)
            report(result)
            if source == "postgres":
                world.tidy()
        if arguments.changes >= MEASURED and (not arguments.event or "throughput" in arguments.event):
            report(run_measure(world, mode, arguments))


def run_measure(world, mode, arguments):
    """Measures the cost of following a source's changes. Returns the result in the same form as an event's result."""
    source, follow = mode.split("/")
    case = Case(world, source, follow, arguments.probe, "text", 0, 0)
    result = {"event": "throughput", "mode": mode, "key": "text", "failure": None, "checked": 0, "seconds": 0}
    begun = time.monotonic()
    try:
        try:
            result["lines"] = list(measure(case, arguments.changes // 5))
            result["checked"] = oracle.check(case)
        finally:
            case.end()
    except Exception:  # pylint: disable=broad-except
        result["failure"] = traceback.format_exc()
    result["seconds"] = round(time.monotonic() - begun, 2)
    result["changes"] = 3 * (arguments.changes // 5)
    return result


def run_all(arguments, modes, report):
    """Runs each mode in its own process, so that the modes run in parallel."""
    def one(mode):
        words = [sys.executable, __file__, arguments.probe, "--mode", mode, "--json", "--changes",
                 str(arguments.changes), "--seed", str(arguments.seed)]
        words += [word for part in arguments.event for word in ("--event", part)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                report(json.loads(line))
        if process.returncode:
            report({"event": "(the suite itself)", "mode": mode, "key": "", "changes": 0, "checked": 0,
                    "seconds": 0, "failure": f"exit status {process.returncode}"})

    threads = [threading.Thread(target=one, args=(mode,)) for mode in modes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def print_matrix(results, modes):
    cells = {(r["event"], r["mode"]): "FAILED" if r["failure"] else f"ok {r['changes']}" for r in results}
    width = max(len(e.name) for e in EVENTS) + 2
    print("\n" + "event".ljust(width) + "".join(mode.ljust(19) for mode in modes))
    for event in EVENTS:
        row = [cells.get((event.name, mode), "" if mode in event.modes else "n/a") for mode in modes]
        if any(cell not in ("", "n/a") for cell in row):
            print(event.name.ljust(width) + "".join(cell.ljust(19) for cell in row).rstrip())
    for mode in modes:
        mine = [r for r in results if r["mode"] == mode]
        print(f"{mode}: {len(mine)} events, {sum(r['changes'] for r in mine)} changes,"
              f" {sum(r['checked'] for r in mine)} keys checked, {sum(r['seconds'] for r in mine):.0f} s,"
              f" {sum(bool(r['failure']) for r in mine)} failed")
        for result in mine:
            for line in result.get("lines", ()):
                print("    " + line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("probe", metavar="GATE_PROBE")
    parser.add_argument("--mode", action="append", choices=MODES, default=[])
    parser.add_argument("--event", action="append", default=[], help="run only events whose names contain this text")
    parser.add_argument("--changes", type=lambda text: int(float(text)), default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help="list the events and exit")
    arguments = parser.parse_args()
    if arguments.list:
        for event in EVENTS:
            print(f"{event.name}: {', '.join(event.modes)}; {event.expect}")
        return 0
    if arguments.json:
        run_mode(arguments.mode[0], arguments, lambda result: print(json.dumps(result), flush=True))
        return 0
    modes = arguments.mode or MODES
    if not world_postgres.is_available() and any(mode.startswith("postgres") for mode in modes):
        print("PostgreSQL is not installed")
        return SKIP
    results, lock = [], threading.Lock()

    def report(result):
        with lock:
            results.append(result)
            state = "FAILED" if result["failure"] else "ok"
            print(f"{state} {result['mode']} {result['event']} ({result['key']} keys, {result['changes']} changes,"
                  f" {result['seconds']} s)" + (f"\n    {result['failure']}" if result["failure"] else ""), flush=True)

    run_all(arguments, modes, report)
    print_matrix(results, modes)
    failed = sum(bool(r["failure"]) for r in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
