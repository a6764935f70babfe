"""Tests the adapter with RocksDB's packaged tools. db_bench, ldb and sst_dump read the policy from an OPTIONS file. The
adapter is loaded into them with LD_PRELOAD.
usage: test_rocksdb_tools.py libbloomgate_rocksdb.so"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

LIBRARY = os.path.abspath(sys.argv[1])
NUMBER = 20000

OPTIONS = """[Version]
  rocksdb_version={version}
  options_file_version=1.1
[DBOptions]
  create_if_missing=true
[CFOptions "default"]
  compression=kNoCompression
  write_buffer_size=1048576
  target_file_size_base=1048576
[TableOptions/BlockBasedTable "default"]
  filter_policy={policy}
  no_block_cache=true
"""

passed = failed = 0


def run(command, preload=True, stdin=None):
    env = {**os.environ, **({"LD_PRELOAD": LIBRARY} if preload else {})}
    done = subprocess.run(command, env=env, text=True, errors="replace", input=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class Broken(Exception):
    pass


def must(condition, what):
    if not condition:
        raise Broken(what)


def version():
    """Returns the version of the tools, for the OPTIONS file."""
    _, text = run(["db_bench", "--version"], preload=False)
    found = re.search(r"\d+\.\d+\.\d+", text)
    return found.group() if found else "7.8.3"


def bench(folder, policy, benchmarks, *more, number=NUMBER):
    """Runs db_bench with a policy. Returns its output."""
    path = os.path.join(folder, "OPTIONS-given")
    with open(path, "w", encoding="utf-8") as f:
        f.write(OPTIONS.format(version=VERSION, policy=policy))
    code, text = run(["db_bench", f"--options_file={path}", f"--db={folder}/db", f"--num={number}",
                      f"--benchmarks={benchmarks}", "--statistics=1", "--seed=1", *more])
    must(code == 0, text)
    return text


def ticker(text, name):
    return int(re.search(rf"^rocksdb\.{re.escape(name)} COUNT : (\d+)$", text, re.M).group(1))


def stored_policy(folder):
    newest = max(glob.glob(f"{folder}/db/OPTIONS-*"), key=lambda p: int(p.rsplit("-", 1)[1]))
    with open(newest, encoding="utf-8") as f:
        return re.search(r"filter_policy=(\S+)", f.read()).group(1)


# ---- Tests ---------------------------------------------------------------------------------


def db_bench_uses_the_filters(folder):
    for policy in ["bloomgate:10", "bloomgate:10:fuse", "bloomgate:9.5:ribbon"]:
        text = bench(folder, policy, "fillrandom,compact,readmissing")
        must(re.search(rf"\(0 of {NUMBER} found\)", text), text)
        must(ticker(text, "bloom.filter.useful") > 0.97 * NUMBER, text)
        must(stored_policy(folder) == policy, stored_policy(folder))
        shutil.rmtree(f"{folder}/db")


def db_bench_finds_every_key(folder):
    for policy in ["bloomgate:10", "bloomgate:10:ribbon"]:
        text = bench(folder, policy, "fillseq,readrandom,multireadrandom", "--batch_size=32",
                     "--multiread_batched=1")
        for benchmark in ["readrandom", "multireadrandom"]:
            found = re.search(rf"^{benchmark} .*\((\d+) of (\d+) found\)", text, re.M)
            must(found and found.group(1) == found.group(2), text)
        shutil.rmtree(f"{folder}/db")


def ldb_writes_and_reads(folder):
    bench(folder, "bloomgate:12:ribbon", "fillseq", number=10)
    database = ["ldb", f"--db={folder}/db", "--try_load_options"]
    lines = "".join(f"key{i:06} ==> value{i}\n" for i in range(5000))
    code, text = run([*database, "load"], stdin=lines)
    must(code == 0, text)
    code, text = run([*database, "compact"])
    must(code == 0, text)
    for i in range(0, 5000, 499):
        code, text = run([*database, "get", f"key{i:06}"])
        must(code == 0 and text.strip() == f"value{i}", text)
    code, text = run([*database, "get", "key000001x"])
    must("NotFound" in text, text)
    code, text = run([*database, "scan", "--from=key", "--no_value"])
    must(len(text.split()) == 5000, text[:300])


def ldb_without_the_library_ignores_them(folder):
    bench(folder, "bloomgate:10", "fillseq,compact", number=1000)
    database = ["ldb", f"--db={folder}/db", "--try_load_options"]
    code, text = run([*database, "scan", "--no_value", "--hex"], preload=False)
    must(code == 0 and text.count("0x") == 1000, text[:300])
    key = text.split()[500]
    code, text = run([*database, "get", "--hex", key], preload=False)
    must(code == 0 and text.startswith("0x"), text)
    code, text = run([*database, "get", "--hex", key])
    must(code == 0 and text.startswith("0x"), text)


def sst_dump_names_them(folder):
    bench(folder, "bloomgate:10:fuse", "fillseq,compact")
    code, text = run(["sst_dump", f"--file={folder}/db", "--show_properties", "--command=check"])
    must(code == 0 and re.search(r"filter policy name: bloomgate", text), text[-2000:])
    entries = sum(map(int, re.findall(r"# entries for filter: (\d+)", text)))
    sizes = sum(map(int, re.findall(r"filter block size: (\d+)", text)))
    must(entries == NUMBER and 8 * sizes < 10.5 * NUMBER, text[-2000:])


def damaged_filters_lose_nothing(folder):
    """Overwrites the marker that identifies the filter in each table file. The files have no checksums, so RocksDB does
    not detect the damage. Every key must still be found."""
    bench(folder, "bloomgate:10", "fillseq,compact", "--checksum_type=0")
    damaged = 0
    for path in glob.glob(f"{folder}/db/*.sst"):
        with open(path, "r+b") as f:
            content = f.read()
            at = content.find(b"\1bgR")
            must(at > 0, f"{path}: found no filter")
            f.seek(at)
            f.write(b"\1bgQ")
            damaged += 1
    must(damaged > 0, "found no files")
    text = bench(folder, "bloomgate:10", "readrandom", "--use_existing_db=1", "--verify_checksum=0")
    found = re.search(r"^readrandom .*\((\d+) of (\d+) found\)", text, re.M)
    must(found and found.group(1) == found.group(2), text)
    must(ticker(text, "bloom.filter.useful") == 0, text)


def wrong_names_are_said(folder):
    for policy, said in [("bloomgate:0", "must be a number from 2 to 64"), ("bloomgate:x", "found 'x'"),
                         ("bloomgate:10:nothing", "kind must be blocked, fuse or ribbon")]:
        text = bench(folder, policy, "fillseq", number=10)
        must(said in text, text)
        shutil.rmtree(f"{folder}/db")


TESTS = [db_bench_uses_the_filters, db_bench_finds_every_key, ldb_writes_and_reads,
         ldb_without_the_library_ignores_them, sst_dump_names_them, damaged_filters_lose_nothing,
         wrong_names_are_said]


def main():
    global passed, failed
    missing = [tool for tool in ["db_bench", "ldb", "sst_dump"] if not shutil.which(tool)]
    if missing:
        print(f"skipped: {', '.join(missing)} not found (Debian package: rocksdb-tools)")
        sys.exit(77)
    for test in TESTS:
        with tempfile.TemporaryDirectory(prefix="bloomgate_rocksdb_tools.") as folder:
            try:
                test(folder)
                passed += 1
                print(f"ok {test.__name__}", flush=True)
            except Broken as broken:
                failed += 1
                print(f"FAILED {test.__name__}\n{broken}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    VERSION = version()
    main()
