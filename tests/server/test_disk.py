#!/usr/bin/env python3
"""Tests disk failures. Simulates a full disk with a limit on file sizes. Changes are refused, but queries are still
answered. No acknowledged change is lost, and changes are accepted again when space is available. If a disk damages the
journal or loses parts of it, the service refuses to start, or treats unknown content as in doubt. Other tests remove or
replace the data directory.
usage: test_disk.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import glob
import os
import resource
import shutil
import sqlite3
import urllib.error
import urllib.request

import service
from service import Closed, Error, Service, Skip, Status, alone, wait_for

OK = Status("OK")
ENDLESS = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def limit(s, size):
    """Prevents the service's files from growing beyond `size` bytes. None removes the limit."""
    try:
        resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE,
                         ENDLESS if size is None else (size, resource.RLIM_INFINITY))
    except PermissionError as error:
        raise Skip("cannot limit file sizes: permission denied") from error


def journal_size(s):
    return max(os.path.getsize(path) for path in glob.glob(s.folder + "/data/journal-*.log"))


def add_until_refused(s, first):
    """Adds keys until an add is refused, reconnecting whenever a connection is closed. Returns the acknowledged keys
    and the next index."""
    told, i, c = [], first, s.connect()
    while True:
        try:
            reply = c.ask("BF.ADD", "k", f"key{i}")
        except (Closed, OSError):
            c = s.connect()
            i += 1
            continue
        if isinstance(reply, Error):
            assert reply.startswith("MISCONF") or "journal" in reply, reply
            return told, i
        told.append(f"key{i}")
        i += 1


def attempt(s, *words):
    """Sends a command. Returns None if the service closes the connection, because the journal failed before a change was
    synced."""
    try:
        return s.ask(*words)
    except (Closed, OSError):
        s.forget()
        return None


def accepts(s, name, key):
    return attempt(s, "BF.ADD", name, key) in (0, 1)


def fill(s, room, first):
    """Adds keys until the journal has grown by about `room` bytes and adds are refused. Returns the acknowledged keys and
    the next index. The service soon replaces a failed journal with a shorter one, so files must not grow at all until the
    caller removes the limit."""
    limit(s, journal_size(s) + room)
    told, i = add_until_refused(s, first)
    limit(s, 1)
    more, i = add_until_refused(s, i)
    wait_for(lambda: str(attempt(s, "DEL", "none")).startswith("MISCONF"), what="all changes to be refused")
    return told + more, i


def check(s, told):
    for at in range(0, len(told), 1000):
        part = told[at:at + 1000]
        assert s.ask("BF.MEXISTS", "k", *part) == [1] * len(part), at


def full_and_back(program, policy):
    with Service(program, f"appendfsync {policy}") as s:
        assert s.ask("BF.RESERVE", "k", "0.001", "10000") == OK
        told, i = [], 0
        for _ in range(3):
            more, i = fill(s, 20000, i)
            told += more
            check(s, told)  # queries are answered
            assert s.ask("DEL", "k").startswith("MISCONF")
            assert b"aof_last_write_status:err" in s.ask("INFO", "persistence")
            limit(s, None)
            wait_for(lambda: accepts(s, "back", "x"), what="the service to notice the free space")
            assert b"aof_last_write_status:ok" in s.ask("INFO", "persistence")
            check(s, told)
        more, i = fill(s, 20000, i)
        told += more
        s.kill()  # tests that the keys also survive a kill
        s.start()
        check(s, told)
        assert s.ask("BF.EXISTS", "back", "x") == 1


@alone
def test_full_and_back_always(program):
    full_and_back(program, "always")


@alone
def test_full_and_back_everysec(program):
    full_and_back(program, "everysec")


@alone
def test_writers_report_without_a_journal(program):
    """A gate must receive committed keys regardless of the state of the journal."""
    s = Service(program)
    path = os.path.join(s.folder, "keys.db")
    with sqlite3.connect(path) as db:
        db.execute("create table keys (key text)")
    s.lines = (f"gate g source=sqlite:{path} keys=keys(key) follow=none promise=writers-report audit=0",)
    with s:
        wait_for(lambda: s.ask("BG.LOOKUP", "g", "a") == [0, b"absent_by_filter"], what="a gate")
        assert s.ask("BF.RESERVE", "k", "0.001", "10000") == OK
        fill(s, 1000, 0)
        with sqlite3.connect(path) as db:
            db.execute("insert into keys values ('a')")
        assert s.ask("DEL", "k").startswith("MISCONF")
        assert s.ask("BG.WROTE", "g", "a") == OK
        assert s.ask("BG.LOOKUP", "g", "a") == [1, b"present"]
        limit(s, None)
        # Gates read their keys while the service loads its filters, so writers must be able to report keys during
        # loading.
        assert "loading" in str(s.ask("COMMAND", "INFO", "BG.WROTE")[0][2])


@alone
def test_a_snapshot_without_room(program):
    with Service(program) as s:
        assert s.ask("BG.CREATE", "large", "KIND", "classic", "BYTES", "4000000", "K", "5") == OK
        for i in range(1000):
            assert s.ask("BG.ADD", "large", i) in (0, 1)
        limit(s, 2000000)
        assert isinstance(s.ask("SAVE"), Error)
        assert isinstance(s.ask("COPY", "large", "copy"), Error)
        assert s.ask("EXISTS", "copy") == 0
        assert s.ask("BG.ADD", "large", "more") in (0, 1)  # the journal still has space
        assert os.listdir(s.folder + "/data/filters") == []  # no partial file remains
        limit(s, None)
        assert s.ask("SAVE") == OK
        s.kill()
        s.start()
        assert s.ask("BG.MEXISTS", "large", "more", *range(1000)) == [1] * 1001


def damage_journal(s):
    """Flips one bit in the middle of the largest journal file."""
    path = max(glob.glob(s.folder + "/data/journal-*.log"), key=os.path.getsize)
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 4]))


@alone
def test_a_damaged_journal(program):
    with Service(program, "appendfsync always") as s:
        assert s.ask("BF.RESERVE", "old", "0.001", "1000") == OK
        for i in range(200):
            assert s.ask("BF.ADD", "old", i) == 1
        assert s.ask("BF.RESERVE", "new", "0.001", "1000") == OK
        assert s.ask("BF.ADD", "new", "x") == 1
        s.kill()
        damage_journal(s)
        s.start(wait=False)
        assert s.wait() == 1
        assert "journal-" in s.read_log() and "expected" in s.read_log()
        s.lines = (*s.lines, "damaged-journal doubt")
        for _ in range(2):
            s.start()
            # the filter is in doubt, so it may contain any key
            assert s.ask("BF.MEXISTS", "old", *range(200), "never") == [1] * 201
            assert isinstance(s.ask("BF.ADD", "old", "more"), Error)
            assert s.ask("BF.MEXISTS", "new", "x", "never") == [1, 0]  # this filter was created after the damage
            assert s.ask("BF.ADD", "new", "y") in (0, 1)
            s.kill()
        s.start()
        assert s.ask("SAVE") == OK
        s.kill()
        s.lines = s.lines[:1]  # the snapshot replaced the damaged journal, so the option is no longer needed
        s.start()
        assert s.ask("BF.MEXISTS", "old", 1, "never") == [1, 1]
        assert s.ask("BF.MEXISTS", "new", "x", "y", "never") == [1, 1, 0]
        assert s.ask("DEL", "old") == 1
        assert s.ask("BF.ADD", "old", "again") == 1


# ---- Missing parts, and the resulting doubt --------------------------------------------------


def call(s, method, path, body=None, kind="text/plain"):
    """Sends an HTTP request. Returns the status and the text of the response."""
    request = urllib.request.Request(f"http://127.0.0.1:{s.http_port}{path}", method=method, data=body,
                                     headers={"Content-Type": kind, "X-Bloomgate": "1"})
    try:
        with urllib.request.urlopen(request, timeout=service.PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@alone
def test_a_missing_journal(program):
    with Service(program, "appendfsync always", http=True) as s:
        assert s.ask("BF.ADD", "k", "x") == 1
        assert s.ask("SAVE") == OK
        s.kill()
        files = os.listdir(s.folder + "/data/filters")
        assert len(files) == 1
        for path in glob.glob(s.folder + "/data/journal-*.log"):
            os.unlink(path)
        s.start(wait=False)
        assert s.wait() == 1
        assert "found no segment" in s.read_log() and "--damaged-journal doubt" in s.read_log()
        assert os.listdir(s.folder + "/data/filters") == files
        s.lines = (*s.lines, "damaged-journal doubt")
        s.start()
        assert s.ask("BF.EXISTS", "k", "x") == 1
        assert s.ask("BF.MEXISTS", "other", "x", "y") == [1, 1]
        with s.connect() as c:  # sent in a pipeline, so the requests are batched
            assert c.pipeline([("BF.EXISTS", "k", "x")] * 3) == [1, 1, 1]
        assert "names_in_doubt:1" in str(s.ask("INFO", "persistence"))
        assert isinstance(s.ask("BF.ADD", "k", "y"), Error)
        status, text = call(s, "POST", "/api/v1/filters/k/check", b"x\ny\n")
        assert (status, text) == (200, "1\n1\n")
        status, text = call(s, "POST", "/api/v1/filters/k/add", b"x\n")
        assert status == 503 and "in_doubt" in text
        status, text = call(s, "POST", "/api/v1/filters", b'{"name": "k", "capacity": 100}', "application/json")
        assert status == 503 and "in_doubt" in text
        assert call(s, "GET", "/api/v1/filters/k")[0] == 503
        assert call(s, "DELETE", "/api/v1/filters/k")[0] == 204
        assert call(s, "GET", "/api/v1/filters/k")[0] == 404
        assert s.ask("BF.ADD", "k", "y") == 1
        assert os.listdir(s.folder + "/data/filters") == files


# ---- A removed directory ---------------------------------------------------------------------------------


def refused(s):
    """Returns whether an add is refused because files were removed or replaced. Returns False if the connection is
    closed."""
    reply = attempt(s, "BF.ADD", "k", "late")
    return isinstance(reply, Error) and "removed or replaced" in reply


@alone
def test_a_removed_folder(program):
    for policy in "always", "everysec":
        with Service(program, f"appendfsync {policy}", http=True) as s:
            assert s.ask("BF.ADD", "k", "x") == 1
            shutil.rmtree(s.folder + "/data")
            wait_for(lambda: call(s, "GET", "/readyz") == (503, "displaced\n"), what="unreadiness")
            wait_for(lambda: refused(s), what="refusal")
            assert s.ask("BF.EXISTS", "k", "x") == 1
            assert isinstance(s.ask("SAVE"), Error)
            s.process.terminate()
            assert s.wait() == 1
            os.mkdir(s.folder + "/data")
            s.start()


@alone
def test_a_replaced_folder(program):
    with Service(program, "appendfsync always", http=True) as s:
        data = s.folder + "/data"
        assert s.ask("BF.ADD", "k", "x") == 1
        os.rename(data, data + ".away")
        os.mkdir(data)
        wait_for(lambda: call(s, "GET", "/readyz")[0] == 503, what="unreadiness")
        wait_for(lambda: refused(s), what="refusal")
        assert os.listdir(data) == []  # nothing is written, because the new directory may belong to another process
        os.rmdir(data)
        os.rename(data + ".away", data)
        wait_for(lambda: call(s, "GET", "/readyz")[0] == 200, what="readiness")
        wait_for(lambda: accepts(s, "k", "y"), what="a working journal")
        wait_for(lambda: 'level=info msg=failure text="journal: works again"' in s.read_log(), what="the recovery in the log")
        s.kill()
        s.start()
        assert s.ask("BF.MEXISTS", "k", "x", "y") == [1, 1]


@alone
def test_a_removed_segment(program):
    """The filters are still in memory, so a new journal with all filters replaces the removed journal."""
    with Service(program, "appendfsync always", http=True) as s:
        assert s.ask("BF.ADD", "k", "x") == 1
        os.unlink(glob.glob(s.folder + "/data/journal-*.log")[-1])
        # The refusal ends as soon as the service has replaced the journal, so a slow client may see only the log.
        wait_for(lambda: refused(s) or "was removed or replaced" in s.read_log(), what="refusal")
        wait_for(lambda: s.ask("SAVE") == "OK", what="a fresh journal")
        wait_for(lambda: accepts(s, "k", "y"), what="a working journal")
        s.kill()
        s.start()
        assert s.ask("BF.MEXISTS", "k", "x", "y") == [1, 1]


service.main(__doc__)
