"""Measures the cost and speed of following a source's changes. Long runs print the results; no test depends on them.

    written        rows per second written by one connection, without and with a gate
    CPU and WAL    CPU time and WAL bytes of the server per row, without and with a gate
    lag            largest lag of the follower during the writes
    caught up      changes per second while catching up after a service restart
"""

import glob
import os
import time

TICKS = os.sysconf("SC_CLK_TCK")
BATCH = 5000


def cpu_seconds(pid):
    """Returns the CPU time of a server process and its children, including children that have exited."""
    total = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        me, parent = int(path.split("/")[2]), int(fields[1])
        if me == pid:
            total += sum(int(x) for x in fields[11:15])
        elif parent == pid:
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def costs(case):
    if case.source == "sqlite":
        return time.process_time(), 0
    position = case.sql("SELECT pg_current_wal_lsn() - '0/0'")[0][0]
    return cpu_seconds(case.server.pid()), int(position)


def fill(case, table, rows, start):
    """Inserts rows from a SELECT, so this process spends no time generating them. Returns the
    largest lag."""
    lag = 0
    series = "generate_series({}, {}) i" if case.source == "postgres" else (
        "(WITH RECURSIVE n(i) AS (VALUES ({}) UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i FROM n)")
    for at in range(start, start + rows, BATCH):
        last = min(at + BATCH, start + rows) - 1
        case.sql(f"INSERT INTO {table} ({case.column}) SELECT 'measured-' || i FROM " + series.format(at, last))
        for gate in case.gates:
            if gate.is_running():
                lag = max(lag, time.monotonic_ns() - int(gate.about()["since"]))
    return lag / 1e9


def timed(case, table, rows, start):
    cpu, wal = costs(case)
    begun = time.monotonic()
    lag = fill(case, table, rows, start)
    seconds = time.monotonic() - begun
    now = costs(case)
    return rows / seconds, (now[0] - cpu) / rows * 1e6, (now[1] - wal) / rows, lag


def measure(case, rows):
    """Yields the results as lines of text."""
    case.create(table=case.table + "_alone")
    case.create()
    alone = timed(case, case.table + "_alone", rows, 0)
    gate = case.open_gate(capacity=str(3 * rows))
    followed = timed(case, case.table, rows, 0)
    begun = time.monotonic()
    case.caught_up()
    rest = time.monotonic() - begun
    gate.stop()
    fill(case, case.table, rows, rows)
    begun = time.monotonic()
    gate.start()
    gate.wait_caught()
    rate = rows / (time.monotonic() - begun)
    about = gate.about()
    yield (f"written: {alone[0]:,.0f} rows/s without a gate, {followed[0]:,.0f} with; largest lag {followed[3]:.2f} s,"
           f" caught up {rest:.2f} s after the last row")
    if case.source == "postgres":
        yield (f"server cost per row: CPU {alone[1]:.1f} us without a gate, {followed[1]:.1f} us with;"
               f" WAL {alone[2]:.0f} bytes without, {followed[2]:.0f} bytes with")
    yield (f"caught up after a service restart: {rate:,.0f} changes/s ({about['changes']} reported,"
           f" {about['builds']} builds)")
