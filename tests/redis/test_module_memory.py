#!/usr/bin/env python3
"""Tests how much additional memory large filters need. A filter can be saved (by SAVE or in a child process), sent to a
replica, or written to an AOF. It can be loaded from an RDB file, a primary, an AOF, or chunks. These operations must
not need a second copy of the filter in memory. A size announced in a payload must not cause an allocation. The tests
use the kernel's statistics: they compare the peak memory of the process (VmHWM) with its memory (VmRSS) before or after
the operation.
usage: test_module_memory.py PATH-OF-BLOOMGATE.SO [--server redis] [PART-OF-A-NAME...]
BG_TEST_SCALE=32 selects 1 GiB filters."""

import contextlib
import os

import redis_host
from redis_host import Error, Host, Skip, alone, replica_of, wait_for
from service import encode, work

LARGE = work(32) << 20  # bytes
LITTLE = LARGE // 3     # mostly server buffers
if os.environ.get("BG_PRELOAD"):
    LITTLE = 4 * LARGE  # sanitizers hold on to freed memory

# One kind for each way of writing files: a kind that only sets bits, a kind that moves keys, and a kind that consists
# of several filters.
KINDS = {
    "blocked": ("BG.CREATE", "k", "KIND", "blocked", "BYTES", LARGE, "K", 8),
    "cuckoo": ("BG.CREATE", "k", "KIND", "cuckoo", "CAPACITY", LARGE // 2, "ERROR", 0.001),
    "scalable": ("BF.RESERVE", "k", 0.01, LARGE // 2),
}


def memory_of(process, field):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) << 10
    return 0  # the process has exited


def memory(h, field):
    """Returns a memory statistic of the server process (VmHWM or VmRSS), in bytes."""
    return memory_of(h.process.pid, field)


def more(h, act):
    """Returns the peak memory of the server during an action, minus its memory before the action."""
    try:
        with open(f"/proc/{h.process.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError as e:
        raise Skip(f"cannot reset the peak memory: {e}") from e
    before = memory(h, "VmRSS")
    act()
    return memory(h, "VmHWM") - before


def make(h, kind="blocked"):
    """Creates a filter and writes to all of its pages. Returns its digest."""
    assert not isinstance(h.ask(*KINDS[kind]), Error), kind
    step = 5000
    for i in range(0, LARGE // 256, step):
        assert not isinstance(h.ask("BG.MADD", "k", *range(i, i + step)), Error)
    assert int(h.ask("MEMORY", "USAGE", "k")) > LARGE // 2
    return h.ask("BG.DIGEST", "k")


def all_freed(h):
    h.wait_until_freed()
    wait_for(lambda: h.info("bloomgate", "bloomgate_filters_being_freed") == "0", what="the thread to free the filters")


def idle(h):
    wait_for(lambda: h.info("persistence", "rdb_bgsave_in_progress") == "0"
             and h.info("persistence", "aof_rewrite_in_progress") == "0", what="the child to exit")


def children(h):
    with open(f"/proc/{h.process.pid}/task/{h.process.pid}/children", encoding="ascii") as file:
        return file.read().split()


def more_in_child(h, command):
    """Returns the peak memory of the child process that a command starts, minus the memory of the server.
    rdb-key-save-delay slows the child down, which leaves time to measure its memory."""
    h.ask("CONFIG", "SET", "rdb-key-save-delay", 100000)
    before, most = memory(h, "VmRSS"), 0
    assert not isinstance(h.ask(command), Error), command
    while h.info("persistence", "rdb_bgsave_in_progress") != "0" or h.info("persistence", "aof_rewrite_in_progress") != "0":
        for child in children(h):
            try:
                most = max(most, memory_of(child, "VmHWM"))
            except (FileNotFoundError, ProcessLookupError):
                pass
    assert most > 0, "no child was found"
    h.ask("CONFIG", "SET", "rdb-key-save-delay", 0)
    return most - before


@contextlib.contextmanager
def follower(h):
    replica = replica_of(h)
    try:
        yield replica
    finally:
        replica.kill()
        replica.remove()


def loaded(h, digest, what):
    """Checks the filter and the peak memory of a server that has loaded the filter from a file or from its primary."""
    assert h.ask("BG.DIGEST", "k") == digest
    extra = memory(h, "VmHWM") - memory(h, "VmRSS")
    print(f"  {what}: extra memory while loading: {extra / LARGE:.2f} times the filter size", flush=True)
    assert extra < LITTLE, (what, extra)


def check_saved(h, kind):
    digest = make(h, kind)
    for words in (("BG.DIGEST", "k"), ("SAVE",)):
        extra = more(h, lambda w=words: h.ask(*w))
        print(f"  {kind}, {words[0]}: {extra / LARGE:.2f}", flush=True)
        assert extra < LITTLE, (kind, words, extra)
    h.ask("CONFIG", "SET", "aof-use-rdb-preamble", "no")
    for command in ("BGSAVE", "BGREWRITEAOF"):
        extra = more_in_child(h, command)
        print(f"  {kind}, {command}: {extra / LARGE:.2f}", flush=True)
        assert extra < LITTLE, (kind, command, extra)
    size = int(h.ask("MEMORY", "USAGE", "k"))
    extra = more(h, lambda: h.ask("BG.DUMP", "k", 0)) - size
    print(f"  {kind}, BG.DUMP: a copy and {extra / LARGE:.2f}", flush=True)
    assert extra < LITTLE, (kind, extra)
    h.kill()
    h.start()
    loaded(h, digest, f"{kind}, RDB")


@alone
def test_saved(pattern):
    for kind in KINDS:
        with Host(pattern.program, pattern.module, rdbcompression="no") as h:
            check_saved(h, kind)


@alone
def test_replicated_and_logged(pattern):
    with Host(pattern.program, pattern.module, rdbcompression="no") as h:
        digest = make(h)
        with follower(h) as replica:
            loaded(replica, digest, "a replica")
        h.options["appendonly"] = "yes"
        h.ask("CONFIG", "SET", "aof-use-rdb-preamble", "no")
        h.ask("CONFIG", "SET", "appendonly", "yes")
        idle(h)
        h.kill()
        h.start()
        loaded(h, digest, "AOF")


def chunks_of(h, name):
    cursor, chunks = 0, []
    while True:
        cursor, chunk = h.ask("BG.DUMP", name, cursor, "SIZE", 8 << 20)
        chunks.append(chunk)
        if cursor == 0:
            return chunks


def load(h, chunks):
    for chunk in chunks:
        assert not isinstance(h.ask("BG.LOAD", "k", chunk), Error)


def thread_has_loaded(h, times):
    wait_for(lambda: h.info("bloomgate", "bloomgate_background_loads") == str(times), what="the thread")


@alone
def test_loaded_from_chunks(pattern):
    """A thread decodes the last chunk, first without a replica or an AOF, then with a replica, and finally with an AOF
    but no replica."""
    with Host(pattern.program, pattern.module, ("secret", 2 * "0123456789abcdef")) as h:
        digest = make(h)
        chunks = chunks_of(h, "k")
        h.ask("DEL", "k")
        wait_for(lambda: h.info("bloomgate", "bloomgate_filters_being_freed") == "0", what="the thread")
        load(h, chunks[:-1])
        extra = more(h, lambda: load(h, chunks[-1:]))
        thread_has_loaded(h, 1)
        print(f"  extra memory while loading the last chunk: {extra / LARGE:.2f} times the filter size", flush=True)
        assert h.ask("BG.DIGEST", "k") == digest
        assert extra < LITTLE, extra
        assert int(h.info("persistence", "rdb_changes_since_last_save")) > 0
        with follower(h) as replica:
            h.ask("DEL", "k")
            load(h, chunks)
            thread_has_loaded(h, 2)
            wait_for(lambda: replica.ask("BG.DIGEST", "k") == digest, what="the replica")
        h.stop()
        h.options["appendonly"] = "yes"
        h.start()
        load(h, chunks)
        thread_has_loaded(h, 1)
        assert h.ask("BG.DIGEST", "k") == digest
        h.stop()
        h.start()
        assert h.ask("BG.DIGEST", "k") == digest, "wrong digest after loading from a transaction in the AOF"


def test_new_ones_are_empty(h):
    """A new filter is empty even if it reuses the memory of a deleted filter and the server has not cleared that
    memory."""
    def empty():
        assert h.ask("BG.CREATE", "k", "KIND", "blocked", "BYTES", 6 << 20, "K", 8, "HASH", "fast") == "OK"
        return h.ask("BG.DIGEST", "k")
    first = empty()
    for _ in range(6):
        assert not isinstance(h.ask("BG.MADD", "k", *range(20000)), Error)
        assert h.ask("BG.DIGEST", "k") != first
        h.ask("DEL", "k")
        all_freed(h)
        assert empty() == first


def test_clearing_a_copy_touches_few_pages(h):
    """BG.CLEAR on a copy creates an empty filter of the same size without duplicating the content first. The new filter
    gets its parameters from the copy's filter, because the parameters stored with a copy do not describe that
    filter."""
    for kind in KINDS:
        full = make(h, kind)
        assert h.ask("COPY", "k", "copy") == 1
        before = h.faults()
        assert h.ask("BG.CLEAR", "copy") == "OK"
        touched = h.faults() - before
        assert touched < LARGE // 4096 // 4, (kind, touched)
        assert h.ask("BG.CLEAR", "k") == "OK"
        assert h.ask("BG.DIGEST", "copy") == h.ask("BG.DIGEST", "k") != full, kind
        assert h.ask("DEL", "k", "copy") == 2


# ---- Payloads with other pieces ------------------------------------------------------------------


def length_of(body, at):
    """Parses a length in RDB format. Returns the length and the offset of the byte after it."""
    first = body[at]
    if first >> 6 == 0:
        return first & 63, at + 1
    if first >> 6 == 1:
        return (first & 63) << 8 | body[at + 1], at + 2
    if first == 0x80:
        return int.from_bytes(body[at + 1:at + 5], "big"), at + 5
    assert first == 0x81
    return int.from_bytes(body[at + 1:at + 9], "big"), at + 9


def length(n):
    return b"\x81" + n.to_bytes(8, "big")


def string(data):
    return b"\x05" + length(len(data)) + data


def taken_apart(payload):
    """Splits a DUMP payload into the type, the state, the secret, the content as one byte string, and the RDB
    version."""
    body = payload[:-10]
    at = 1 + 9
    fields = []
    while body[at]:
        code, at = body[at], at + 1
        n, at = length_of(body, at)
        if code == 5:
            fields.append(body[at:at + n])
            at += n
        else:
            assert code == 2
            fields.append(n)
    form, state, secret, total, *pieces = fields
    content = b"".join(pieces)
    assert form == 1 and len(content) == total and max(map(len, pieces)) <= 1 << 20
    return body[:10], state, secret, content, payload[-10:-8]


def put_together(head, state, secret, pieces, version, total):
    return (head + b"\x02" + length(1) + string(state) + string(secret) + b"\x02" + length(total)
            + b"".join(map(string, pieces)) + b"\x00" + version + bytes(8))


def test_other_pieces(h):
    """Loads content in one chunk, as written by earlier versions, and in chunk sizes that no version writes."""
    h.forget()
    h.ask("CONFIG", "SET", "rdbcompression", "no")
    assert h.ask("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1) == "OK"
    h.ask("BF.RESERVE", "k", 0.01, 3000000)
    h.ask("BF.MADD", "k", *range(1000))
    head, state, secret, content, version = taken_apart(h.ask("DUMP", "k"))
    assert len(content) > 3 << 20
    for size in (len(content), 64 << 20, 1000003, 65536, 4096):
        pieces = [content[i:i + size] for i in range(0, len(content), size)]
        payload = put_together(head, state, secret, pieces, version, len(content))
        assert h.ask("RESTORE", "again", 0, payload, "REPLACE") == "OK", size
        assert h.ask("BG.DIGEST", "again") == h.ask("BG.DIGEST", "k")
    for pieces, total in (([content], len(content) + 1), ([content], len(content) - 1), ([content[:-1]], len(content)),
                          ([content, b""], len(content)), ([b"", content], len(content)), ([content], 0)):
        payload = put_together(head, state, secret, pieces, version, total)
        assert isinstance(h.ask("RESTORE", "t", 0, payload), Error), total
    h.ask("CONFIG", "SET", "rdbcompression", "yes")


def test_promises_take_nothing(h):
    """Commands that receive chunks allocate memory as the data arrives, not when its size is announced."""
    h.forget()
    h.ask("CONFIG", "SET", "rdbcompression", "no")
    assert h.ask("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1) == "OK"
    h.ask("BF.RESERVE", "k", 0.01, 100)
    head, state, secret, content, version = taken_apart(h.ask("DUMP", "k"))
    most = 1 << 29

    def act():
        for total in (most, 1 << 40, 1 << 62, 2**64 - 1):
            payload = put_together(head, state, secret, [content], version, total)
            assert isinstance(h.ask("RESTORE", "t", 0, payload), Error), total
            h.ask("BG.REPLAY", "t", "PUT", 0, total, content)
        for i in range(20):
            h.ask("BG.REPLAY", f"t{i}", "PUT", 0, most, content)
        assert isinstance(h.ask("BG.REPLAY", "t", "DONE", state, secret), Error)
    extra = more(h, act)
    assert extra < 16 << 20, extra
    h.ask("CONFIG", "SET", "rdbcompression", "yes")


MIB = 1 << 20


def used(h):
    return int(h.info("memory", "used_memory"))


def test_maxmemory_is_checked_before(h):
    """A filter that does not fit is refused before memory is allocated, and no key is evicted to make space for it."""
    keys = [f"s{i}" for i in range(1000)]
    for key in keys:
        h.ask("SET", key, "x")
    h.ask("BG.CREATE", "large", "KIND", "blocked", "BYTES", 24 * MIB, "K", 8)
    h.ask("BF.INSERT", "grows", "CAPACITY", 100, "EXPANSION", 32768, "SEED", b"s" * 32, "ITEMS", *range(90))
    h.ask("CONFIG", "RESETSTAT")
    try:
        for policy in ("noeviction", "allkeys-lru"):
            h.ask("CONFIG", "SET", "maxmemory-policy", policy)
            h.ask("CONFIG", "SET", "maxmemory", used(h) + 16 * MIB)
            before = used(h)
            for words in (("BF.RESERVE", "k", 0.01, 6 * 10**9), ("BF.RESERVE", "k", 0.01, 3 * 10**7, "NONSCALING"),
                          ("CF.RESERVE", "k", 10**8), ("BF.INSERT", "k", "CAPACITY", 10**9, "ITEMS", "a"),
                          ("BG.CREATE", "k", "KIND", "blocked", "BYTES", 24 * MIB, "K", 8),
                          ("BG.CREATE", "k", "KIND", "blocked", "CAPACITY", 3 * 10**7, "ERROR", 0.01, "SHARDS", 64),
                          ("BG.MERGE", "k", "large", "large"), ("BG.DUMP", "large", 0), ("BG.VERIFY", "large"),
                          ("BG.REBUILD", "large", "BEGIN", 10**9)):
                assert str(h.ask(*words)).startswith("OOM "), (policy, words)
                assert isinstance(h.ask("PING"), str)
            assert h.ask("COPY", "large", "k") != 1
            assert used(h) < before + MIB and h.ask("EXISTS", "k") == 0
            assert h.info("stats", "evicted_keys") == "0" and h.ask("EXISTS", *keys) == len(keys)
            assert h.ask("BG.CREATE", "k", "KIND", "blocked", "BYTES", 4 * MIB, "K", 8) == "OK", "a filter that fits was refused"
            h.ask("DEL", "k")
        all_freed(h)
        h.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        h.ask("CONFIG", "SET", "maxmemory", used(h) + 2 * MIB)
        assert any(str(one).startswith("OOM ") for one in h.ask("BF.MADD", "grows", *range(200))), "no add was refused"
        h.ask("CONFIG", "SET", "maxmemory", 0)
        assert h.ask("BF.MADD", "grows", *range(200))[-1] in (0, 1)
        assert h.ask("BF.MEXISTS", "grows", *range(200)) == [1] * 200
    finally:
        h.ask("CONFIG", "SET", "maxmemory", 0)


def test_full_caches_take_filters(h):
    """With an eviction policy, a filter of up to an eighth of maxmemory is created even if the server is full."""
    h.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        h.ask("CONFIG", "SET", "maxmemory", used(h) + 40 * MIB)
        for i in range(60):
            assert h.ask("SET", f"s{i}", b"x" * MIB) == "OK"
        for i in range(20):
            assert h.ask("BG.CREATE", f"k{i}", "KIND", "blocked", "BYTES", 4 * MIB, "K", 8) == "OK", i
        assert h.ask("BG.ADD", "k19", "a") == 1
    finally:
        h.ask("CONFIG", "SET", "maxmemory", 0)
        h.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_buffers_are_counted(h):
    """Buffers for dumps and loads are counted in used_memory, and are limited by maxmemory."""
    size = 16 * MIB
    all_freed(h)  # waits until the filters from the previous test are freed
    h.ask("BG.CREATE", "k", "KIND", "blocked", "BYTES", size, "K", 8)
    h.ask("BG.MADD", "k", *range(1000))
    start, cursor, chunks = used(h), 0, []
    while True:
        cursor, chunk = h.ask("BG.DUMP", "k", cursor, "SIZE", MIB)
        chunks.append(chunk)
        if cursor == 0:
            break
        # checks for only half of the size, because buffers of closed connections may be freed in the meantime
        assert used(h) > start + size // 2, "used_memory does not include the copy that is being dumped"
    wait_for(lambda: used(h) < start + size // 2, what="the copy to be freed")
    h.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    try:
        h.ask("CONFIG", "SET", "maxmemory", used(h) + 12 * MIB)
        answer = next(answer for answer in (h.ask("BG.LOAD", "l", chunk) for chunk in chunks)
                      if isinstance(answer, Error))
        assert answer.startswith("OOM "), answer
        h.ask("CONFIG", "SET", "maxmemory", 0)
        done = h.ask("BG.LOAD", "l")[0]
        assert done >= 4 * MIB and used(h) > start + done, "used_memory does not include the received chunks"
        for chunk in chunks[done // MIB:]:
            assert isinstance(h.ask("BG.LOAD", "l", chunk), list), "the load did not continue after the refused chunk"
        assert h.ask("BG.DIGEST", "l") == h.ask("BG.DIGEST", "k")
        wait_for(lambda: used(h) < start + size * 3 // 2, what="the chunks to be freed")
    finally:
        h.ask("CONFIG", "SET", "maxmemory", 0)


@alone
def test_maxmemory_of_replicas_and_files(pattern):
    """Data from a primary or from the server's own files is not refused, even above maxmemory."""
    with Host(pattern.program, pattern.module, save="3600 1000000") as h:
        replica = redis_host.replica_of(h, maxmemory="2mb")
        try:
            h.ask("BG.CREATE", "k", "KIND", "blocked", "BYTES", 16 * MIB, "K", 8)
            h.ask("BG.MADD", "k", *range(1000))
            h.ask("COPY", "k", "l")
            redis_host.caught_up(h, replica)
            for name in ("k", "l"):
                assert replica.ask("BG.DIGEST", name) == h.ask("BG.DIGEST", name)
        finally:
            replica.kill()
            replica.remove()
        digest = h.ask("BG.DIGEST", "k")
        h.options["maxmemory"] = "2mb"
        h.restart()
        assert h.ask("BG.DIGEST", "k") == digest


@alone
def test_growth_that_is_refused(pattern):
    """A filter that cannot grow refuses items. If it accepted them, the filter on the replica might still grow, and its
    false positives would then differ from those on the primary."""
    with Host(pattern.program, pattern.module) as h:
        replica = replica_of(h)
        try:
            assert h.ask("BF.RESERVE", "k", 0.01, 100000, "EXPANSION", 8) == "OK"
            for i in range(0, 90000, 1000):
                h.ask("BF.MADD", "k", *range(i, i + 1000))
            h.ask("CONFIG", "SET", "maxmemory", int(h.info("memory", "used_memory")) + 1200000)
            keys = [f"single-{i}" for i in range(20000)]
            replies = [reply for i in range(0, len(keys), 1000)
                       for reply in h.connection.pipeline([("BF.ADD", "k", key) for key in keys[i:i + 1000]])]
            added = [key for key, reply in zip(keys, replies) if not isinstance(reply, Error)]
            assert any(str(reply).startswith("OOM") for reply in replies) and len(added) > 9000
            redis_host.caught_up(h, replica)
            assert replica.ask("BG.MEXISTS", "k", *added) == [1] * len(added)
            assert replica.ask("BG.DIGEST", "k") == h.ask("BG.DIGEST", "k")
        finally:
            replica.kill()
            replica.remove()


@alone
def test_growth_that_nearly_fits(pattern):
    """maxmemory is set so that the second filter of a chain barely fits or does not fit. Each add must either succeed
    or be refused before it changes anything."""
    with Host(pattern.program, pattern.module) as h:
        replica = replica_of(h)
        try:
            for expansion, share in ((1, 0.5), (2, 1.9), (4, 4.1)):
                h.ask("CONFIG", "SET", "maxmemory", 0)
                assert h.ask("BF.RESERVE", "k", 0.00001, 1500000, "EXPANSION", expansion) == "OK"
                size = h.ask("BF.INFO", "k", "SIZE")[0]
                for i in range(0, 1490000, 10000):
                    h.ask("BF.MADD", "k", *range(i, i + 10000))
                h.ask("CONFIG", "SET", "maxmemory", int(h.info("memory", "used_memory")) + int(share * size))
                for i in range(1490000, 1550000, 3000):
                    h.ask("BF.MADD", "k", *range(i, i + 3000))
                redis_host.caught_up(h, replica)
                assert replica.ask("BG.DIGEST", "k") == h.ask("BG.DIGEST", "k"), (expansion, share)
                h.ask("DEL", "k")
        finally:
            replica.kill()
            replica.remove()


@alone
def test_growth_over_the_limit(pattern):
    """A filter from another server grows up to this server's limit. All adds in the server's own append-only file are
    loaded, even beyond the limit."""
    with Host(pattern.program, pattern.module) as other:
        assert other.ask("BF.RESERVE", "k", 0.05, 20000) == "OK"
        other.ask("BF.MADD", "k", *range(10000))
        payload = other.ask("DUMP", "k")
    with Host(pattern.program, pattern.module, ["max-filter-memory", 40000], appendonly="yes") as h:
        assert h.ask("RESTORE", "k", 0, payload) == "OK"
        for i in range(10000, 40000, 1000):
            reply = h.ask("BF.MADD", "k", *range(i, i + 1000))
        assert "would exceed the limit of 40000 bytes" in str(reply), reply
        assert h.ask("BF.INFO", "k", "SIZE")[0] <= 40000
        h.kill()
        folder = os.path.join(h.folder, "appendonlydir")
        name = next(name for name in os.listdir(folder) if name.endswith(".incr.aof"))
        with open(os.path.join(folder, name), "ab") as file:
            file.write(b"".join(encode("BF.ADD", "k", f"more-{i}") for i in range(5000)))
        h.start()
        assert h.ask("BG.MEXISTS", "k", *(f"more-{i}" for i in range(5000))) == [1] * 5000


def test_stored_expansion_is_bounded(h):
    """The size of the next filter in a valkey-bloom chain is limited to a multiple of the size of the last filter, no
    matter how large the stored expansion is."""
    words = ("BF.INSERT", "k", "CAPACITY", 100, "EXPANSION", 1000000, "SEED", b"s" * 32, "ITEMS")
    assert isinstance(h.ask(*words, *range(100)), list)
    assert isinstance(h.ask("RESTORE", "again", 0, h.ask("DUMP", "k")), str)
    for name in ("k", "again"):
        assert isinstance(h.ask("BF.MADD", name, *range(300)), list)
        assert h.ask("BF.MEXISTS", name, *range(300)) == [1] * 300
        assert h.ask("MEMORY", "USAGE", name) < 32 << 20


def test_stored_limits_are_not_believed(h):
    """A restored filter cannot grow beyond this server's limit, whatever limit its payload contains. Payloads with
    values that no command accepts are rejected."""
    h.forget()
    h.ask("CONFIG", "SET", "rdbcompression", "no")
    assert h.ask("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", 1) == "OK"
    h.ask("CF.RESERVE", "k", 1000)
    head, state, secret, content, version = taken_apart(h.ask("DUMP", "k"))
    own = state[state.index(b" limit="):]

    def restored(text):
        return h.ask("RESTORE", "t", 0, put_together(head, text, secret, [content], version, len(content)), "REPLACE")
    most = 1 << 16
    assert h.ask("CONFIG", "SET", "bloomgate.max-filter-memory", most) == "OK"
    assert restored(state.replace(own, b" limit=1152921504606846976")) == "OK"
    for i in range(0, 100000, 1000):
        h.ask("CF.INSERT", "t", "ITEMS", *range(i, i + 1000))
    assert h.ask("MEMORY", "USAGE", "t") < 2 * most, "the filter grew beyond the limit"
    h.ask("CONFIG", "SET", "bloomgate.max-filter-memory", 0)
    for word in (b" window_generations=65", b" nonscaling=2", b" max_expansions=65537", b" max_iterations=65536"):
        name = word[1:word.index(b"=")]
        text = b" ".join(one for one in state.split(b" ") if not one.startswith(name + b"="))
        assert isinstance(restored(text + word), Error), word
    assert restored(state) == "OK"
    h.ask("CONFIG", "SET", "rdbcompression", "yes")


redis_host.main(__doc__)
