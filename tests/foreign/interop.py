#!/usr/bin/env python3
"""Tests foreign formats with the original software: each side reads the files that the other side writes. For the same
keys, both files must be byte-for-byte identical, and each side must find every key in the other side's file.
usage: interop.py FOREIGN_TOOL CASE      CASE: the name of a case_* function in this file
The last line is "N passed, N failed"."""

import glob
import hashlib
import http.server
import math
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))

from machine import PATIENCE, free_port  # noqa: E402 pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.abspath(sys.argv[1])
UNSAID, BYTES, UTF16, INT32, INT64 = range(5)  # bg_foreign_keys
SIZES = [(20, 0.01), (1, 0.5), (1000, 0.001), (4000, 0.03)]

passed = failed = 0


def check(what, good):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print(f"FAILED {what}")


def run(command, keys=(), text=None):
    """Runs a command and returns its output. Passes each key to its standard input as a line of hexadecimal digits."""
    lines = text if text is not None else "".join(key.hex() + "\n" for key in keys).encode()
    done = subprocess.run([str(word) for word in command], input=lines, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    check(f"{' '.join(map(str, command))}: {done.stderr.decode(errors='replace')}", done.returncode == 0)
    return done.stdout


def make(name, items, rate, keys, version=0, how=UNSAID, seed=0):
    """Returns the filter file that the library writes for the keys."""
    return run([TOOL, "make", name, items, rate, version, how, seed], keys)


def ask(name, path, keys, version=0, how=UNSAID):
    return int(run([TOOL, "ask", name, path, version, how], keys) or -1)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def byte_keys(n):
    """Returns distinct keys with lengths from 4 to 39; many of their bytes are above 0x7f."""
    return [bytes((j * 37 + 200 + i) & 255 for j in range(i % 36)) + struct.pack("<I", i) for i in range(n)]


def absent_keys(keys):
    return [bytes([byte ^ 0x55 for byte in key]) for key in keys]


def integers(n, code):
    return [struct.pack(code, (i * i * 7919 - 500) % 2**31 * (-1) ** i) for i in range(n)]


def compare(what, theirs, ours, asked_by_them, asked_by_us, keys):
    """Compares the original software's file with the library's file, and checks that each side finds the keys in the
    other side's file."""
    check(f"{what}: the files differ", theirs == ours and theirs)
    check(f"{what}: the original software does not find every key in the library's file", asked_by_them == len(keys))
    check(f"{what}: the library does not find every key in the original software's file", asked_by_us == len(keys))


# ---- The cases -------------------------------------------------------------------------


def case_guava(folder):
    jars = "/usr/share/java/guava.jar:/usr/share/java/failureaccess.jar"
    run(["javac", "-cp", jars, "-d", folder, os.path.join(HERE, "GuavaFilter.java")])
    java = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}:{folder}", "GuavaFilter"]
    funnels = [("bytes", BYTES, byte_keys), ("int32", INT32, lambda n: integers(n, "<i")),
               ("int64", INT64, lambda n: integers(n, "<q")),
               ("utf16", UTF16, lambda n: [f"ключ {i}".encode("utf-16-le") for i in range(n)])]
    for strategy, version in (0, 32), (1, 64):
        for number, (funnel, how, keys_of) in enumerate(funnels):
            items, rate = SIZES[number] if SIZES[number][0] > 1 else SIZES[0]
            keys = keys_of(items)
            theirs, ours = os.path.join(folder, "theirs"), os.path.join(folder, "ours")
            run([*java, "make", strategy, funnel, items, rate, theirs], keys)
            write(ours, make("guava", items, rate, keys, version, how))
            found = run([*java, "ask", funnel, ours], keys)
            compare(f"guava {funnel} {version}", read(theirs), read(ours), int(found or -1),
                    ask("guava", theirs, keys, 0, how), keys)
            absent = absent_keys(keys)
            check(f"guava {funnel} {version}: different numbers of false positives",
                  int(run([*java, "ask", funnel, ours], absent) or -1) == ask("guava", ours, absent, 0, how))


def case_go(folder):
    program = os.path.join(folder, "go_filter")
    os.environ.update(GO111MODULE="off", GOPATH="/usr/share/gocode", GOCACHE=os.path.join(folder, "cache"),
                      GOFLAGS="-buildvcs=false")
    run(["go", "build", "-o", program, os.path.join(HERE, "go_filter.go")])
    for items, rate in SIZES:
        keys = [b""] + byte_keys(items)
        theirs, ours = os.path.join(folder, "theirs"), os.path.join(folder, "ours")
        run([program, "make", items, rate, theirs], keys)
        write(ours, make("go", items, rate, keys))
        compare(f"go {items} {rate}", read(theirs), read(ours),
                int(run([program, "ask", ours], keys) or -1), ask("go", theirs, keys), keys)


def case_dcso(folder):
    for items, rate in SIZES:
        keys = [f"host{i}.ключ.example".encode() for i in range(items)]
        lines = b"".join(key + b"\n" for key in keys)
        theirs, ours = os.path.join(folder, f"theirs{items}"), os.path.join(folder, f"ours{items}")
        run(["bloom", "create", "-p", rate, "-n", items, theirs])
        run(["bloom", "insert", theirs], text=lines * 2)  # adding the keys again changes nothing
        write(ours, make("dcso", items, rate, keys * 2))
        found = run(["bloom", "check", ours], text=lines).splitlines()
        compare(f"dcso {items} {rate}", read(theirs), read(ours), len(found), ask("dcso", theirs, keys), keys)
    # User data must be preserved.
    run(["bloom", "set-data", theirs], text=b"source: feed 7")
    check("dcso: set-data did not add data", len(read(theirs)) > len(read(ours)))
    check("dcso: the user data was not preserved", run([TOOL, "add", "dcso", theirs, 0, 0]) == read(theirs))


def case_bip37(folder):
    from bitcoin.bloom import CBloomFilter  # Debian: python3-bitcoinlib
    # bitcoinlib and Bitcoin Core compute different values of k if the fractional part of the number of bits per key
    # affects k.
    for items, rate, tweak, flags in ((3, 0.01, 0, 1), (20, 0.01, 2147483649, 2), (1000, 0.001, 5, 0),
                                      (30000, 0.0001, 7, 1)):
        theirs = CBloomFilter(items, rate, tweak, flags)
        keys = byte_keys(min(items, 2000))
        for key in keys:
            theirs.insert(key)
        path, ours = os.path.join(folder, "theirs"), make("bip37", items, rate, keys, flags, UNSAID, tweak)
        write(path, theirs.serialize())
        again = CBloomFilter.deserialize(ours)
        compare(f"bip37 {items} {rate} {tweak}", theirs.serialize(), ours,
                sum(again.contains(key) for key in keys), ask("bip37", path, keys), keys)
    check("bip37: no file was long enough for a three-byte compact size", len(ours) > 253)


class Origin(http.server.BaseHTTPRequestHandler):
    """A website whose pages can all be cached for ten days."""

    def do_GET(self):
        body = self.path.encode() * 20
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "public, max-age=864000")
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def fetch(url, proxy=None):
    handlers = [urllib.request.ProxyHandler({"http": proxy} if proxy else {})]
    with urllib.request.build_opener(*handlers).open(url, timeout=PATIENCE) as answer:
        return answer.read()


def squid_start(folder, port):
    """Starts a private Squid proxy with a cache, whose digest is rebuilt every second."""
    settings = f"""http_port 127.0.0.1:{port}
visible_hostname localhost
http_access allow all
cache_mem 16 MB
cache_dir ufs {folder}/cache 50 4 4
access_log none
cache_log {folder}/cache.log
cache_store_log none
pid_filename {folder}/squid.pid
coredump_dir {folder}
digest_generation on
digest_rebuild_period 1 second
digest_rewrite_period 1 second
netdb_filename none
pinger_enable off
shutdown_lifetime 0 seconds
"""
    path = os.path.join(folder, "squid.conf")
    write(path, settings.encode())
    os.chmod(folder, 0o777)
    for word in ("-z", None):
        # The name keeps the shared memory apart from that of other instances, possibly of other users.
        command = ["squid", "-N", "-n", f"bloomgate{os.getpid()}", "-f", path] + ([word] if word else [])
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if word:
            process.wait(timeout=PATIENCE)
    return process


def squid_digest(port, path, keys):
    """Keeps fetching the digest and writing it to `path` until it contains all keys, and returns it. Returns None after
    a timeout. The number of entries does not show whether the digest is complete, because it includes Squid's own
    pages, such as the digest itself."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            digest = fetch(f"http://127.0.0.1:{port}/squid-internal-periodic/store_digest")
            write(path, digest)
            if struct.unpack(">i", digest[8:12])[0] >= len(keys) and ask("squid", path, keys) == len(keys):
                return digest
        except (OSError, struct.error):
            pass
        time.sleep(0.5)
    return None


def case_squid(folder):
    """Tests the cache digest that a running proxy publishes."""
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    urls = [f"http://127.0.0.1:{site.server_port}/page/{i}" for i in range(60)]
    keys = [url.encode() for url in urls]
    path = os.path.join(folder, "digest")
    port = free_port()
    process = squid_start(folder, port)
    try:
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end:
            try:
                fetch(urls[0], f"http://127.0.0.1:{port}")
                break
            except OSError:
                time.sleep(0.2)
        for url in urls:
            fetch(url, f"http://127.0.0.1:{port}")
        digest = squid_digest(port, path, keys)
    finally:
        process.kill()
        process.wait()
        for left in glob.glob(f"/dev/shm/bloomgate{os.getpid()}-*"):
            os.unlink(left)
        site.shutdown()
    check("squid: not all cached pages are found in the digest", digest is not None)
    absent = [key + b"/absent" for key in keys]
    check("squid: too many absent pages are found", ask("squid", path, absent) < len(keys) // 2)
    check("squid: the digest changed when it was read and written", run([TOOL, "add", "squid", path, 0, 0]) == digest)


def bfv1_positions(key, m, k, seed):
    half = [int.from_bytes(hashlib.blake2b(key, digest_size=8, person=name).digest(), "little")
            for name in (b"bf1", b"bf2")]
    return [(half[0] + i * (half[1] | 1) + seed) % m for i in range(k)]


def case_bfv1(folder):
    """Compares the library with an implementation based on hashlib, because no other program implements the format."""
    for (items, rate), seed in zip(SIZES, (0, 1, 4294967295, 12345)):
        m = math.ceil(-items * math.log(rate) / math.log(2) ** 2)
        k = max(1, round(m / items * math.log(2)))
        bits = bytearray((m + 7) // 8)
        keys = [b""] + byte_keys(items)
        for key in keys:
            for at in bfv1_positions(key, m, k, seed):
                bits[at >> 3] |= 1 << (at & 7)
        theirs = b"BFv1" + struct.pack("<IHII", m, k, seed, len(bits)) + bits
        path, ours = os.path.join(folder, "theirs"), make("bfv1", items, rate, keys, 0, UNSAID, seed)
        write(path, theirs)
        found = sum(all(ours[18 + (at >> 3)] >> (at & 7) & 1 for at in bfv1_positions(key, m, k, seed))
                    for key in keys)
        compare(f"bfv1 {items} {rate} {seed}", theirs, ours, found, ask("bfv1", path, keys), keys)


def main():
    with tempfile.TemporaryDirectory() as folder:
        globals()[f"case_{sys.argv[2]}"](folder)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
