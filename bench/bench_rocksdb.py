#!/usr/bin/env python3
"""Compares RocksDB's own filters with Bloomgate's, using RocksDB's packaged db_bench. The databases contain the same
keys and differ only in the name of the filter policy. There is no block cache, and all gets are for absent keys.

    blocks read      number of blocks read by the same gets in each database
    us/op            time per get, as reported by db_bench
    cpu us           CPU time per get, excluding the time to open the database

The databases take turns. Times are medians over all rounds, and ratios are medians of the ratios in each round.

usage: bench_rocksdb.py BUILD [--keys N] [--reads N] [--rounds N] [--part N] [--folder PATH]"""

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

OPTIONS = """[Version]
  rocksdb_version=7.8.3
  options_file_version=1.1
[DBOptions]
  create_if_missing=true
  max_background_jobs=2
[CFOptions "default"]
  compression=kNoCompression
  disable_auto_compactions={manual}
  level0_slowdown_writes_trigger=1000
  level0_stop_writes_trigger=1000
[TableOptions/BlockBasedTable "default"]
  filter_policy={policy}
  no_block_cache=true
"""


class Database:
    """A database in its own directory, filled on creation."""

    def __init__(self, args, policy, levels):
        self.policy, self.args = policy, args
        self.folder = tempfile.mkdtemp(prefix="bloomgate-rocksdb-", dir=args.folder)
        self.options = os.path.join(self.folder, "OPTIONS-given")
        with open(self.options, "w", encoding="utf-8") as f:
            f.write(OPTIONS.format(policy=policy, manual="true" if levels else "false"))
        self.bench("fillseq,compact" if not levels else "fillrandom", "--disable_wal=1")
        self.micros, self.cpu = [], []

    def bench(self, benchmarks, *more):
        command = ["db_bench", f"--options_file={self.options}", f"--db={self.folder}/db",
                   f"--num={self.args.keys}", f"--benchmarks={benchmarks}", "--value_size=32", *more]
        done = subprocess.run(command, env={**os.environ, "LD_PRELOAD": self.args.library}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0 or "bits per key must" in done.stdout:
            sys.exit(f"{' '.join(command)}\n{done.stdout}")
        return done.stdout

    def bits(self):
        """Returns the size of all filters in bits, divided by the number of their entries."""
        text = subprocess.run(["sst_dump", f"--file={self.folder}/db", "--show_properties", "--command=none"],
                              env={**os.environ, "LD_PRELOAD": self.args.library}, text=True, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
        sizes = sum(map(int, re.findall(r"filter block size: (\d+)", text)))
        return 8 * sizes / sum(map(int, re.findall(r"# entries for filter: (\d+)", text)))

    def blocks_read(self):
        text = self.read("--perf_level=2", "--seed=7")
        return int(re.search(r"\bblock_read_count = (\d+)", text).group(1))

    def read(self, *more, reads=None):
        reads = reads or self.args.reads
        text = self.bench("readmissing", "--use_existing_db=1", f"--reads={reads}", *more)
        if not re.search(rf"\(0 of {reads} found\)", text):
            sys.exit(text)
        return text

    def timed(self, **how):
        """Returns the CPU time of a db_bench run in seconds, and its output."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        text = self.read(f"--seed={how.pop('seed')}", **how)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, text

    def round(self, seed):
        opening, _ = self.timed(seed=seed, reads=1)
        seconds, text = self.timed(seed=seed)
        seconds -= opening
        self.micros.append(float(re.search(r"^readmissing\s*:\s*([\d.]+) micros/op", text, re.M).group(1)))
        self.cpu.append(1e6 * seconds / self.args.reads)

    def remove(self):
        shutil.rmtree(self.folder)


def median_ratio(ours, theirs):
    return statistics.median(a / b for a, b in zip(ours, theirs))


def compare(args, title, theirs, ours, levels=False):
    """Compares a pair of policies, alternating between them. `ours` may refer to the bits per key of `theirs` as
    {bits}."""
    first = Database(args, theirs, levels)
    bits = first.bits()
    second = Database(args, ours.format(bits=f"{bits:.3f}"), levels)
    print(f"\n{title}\n{'policy':24} {'bits/key':>8} {'blocks read':>12} {'avoided':>10} {'us/op':>7} {'cpu us':>7}")
    for i in range(args.rounds):
        for database in [first, second] if i % 2 == 0 else [second, first]:
            database.round(100 + i)
    reads = [database.blocks_read() for database in [first, second]]
    for database, blocks in zip([first, second], reads):
        print(f"{database.policy:24} {database.bits():8.3f} {blocks:12} {args.reads - blocks:10} "
              f"{statistics.median(database.micros):7.3f} {statistics.median(database.cpu):7.3f}")
    print(f"bloomgate / RocksDB      blocks read {reads[1] / reads[0]:.3f}, us/op {median_ratio(second.micros, first.micros):.3f}, "
          f"cpu {median_ratio(second.cpu, first.cpu):.3f}", flush=True)
    for database in [first, second]:
        database.remove()


PAIRS = [
    ("One level, 10 bits per key", "bloomfilter:10", "bloomgate:10"),
    ("One level, as many bits as RocksDB's ribbon filter", "ribbonfilter:10", "bloomgate:{bits}:ribbon"),
    ("One level, fuse with up to 10 bits", "bloomfilter:10", "bloomgate:10:fuse"),
    ("All files in level 0, so that each get queries all filters", "bloomfilter:10", "bloomgate:10", True),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--keys", type=lambda s: int(float(s)), default=10000000)
    parser.add_argument("--reads", type=lambda s: int(float(s)), default=1000000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--part", type=int, choices=range(1, len(PAIRS) + 1), help="number of the only comparison to run")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="directory for the databases")
    args = parser.parse_args()
    args.library = os.path.abspath(os.path.join(args.build, "lib/libbloomgate_rocksdb.so"))
    if not shutil.which("db_bench") or not os.path.exists(args.library):
        sys.exit("requires db_bench (Debian: rocksdb-tools) and the adapter (install librocksdb-dev, then run make build)")
    print(f"{args.keys} keys, {args.reads} gets of absent keys, {args.rounds} rounds; no block cache, one thread")
    for part, pair in enumerate(PAIRS, 1):
        if not args.part or part == args.part:
            compare(args, *pair)


if __name__ == "__main__":
    main()
