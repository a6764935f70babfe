#!/usr/bin/env python3
"""Gates over a real PostgreSQL, started in a folder of its own: triggers and notifications, rows
that commit late, restarts of the server, keys of several types. Drives gate_probe, which lies
beside the service. The last line is "N passed, N failed"; 77: there is no PostgreSQL here.
usage: test_gates_postgres.py PATH-OF-BLOOMGATED [PART-OF-A-NAME]"""

import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
import time

SKIP = 77
BIN = next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)), None)
PROBE = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "gate_probe")


def unprivileged():
    """The start of a command line that is not run as root: PostgreSQL refuses that."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]


class Server:
    """PostgreSQL with a unix socket in its folder, and no other door."""

    def __init__(self):
        # Not where TMPDIR says: a socket's path is short, and "postgres" has to get there.
        self.folder = tempfile.mkdtemp(prefix="bloomgate-pg-", dir="/tmp")
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self.data = os.path.join(self.folder, "data")
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "owner", "-E", "UTF8",
                 "--locale=C.UTF-8", "--no-sync")
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as f:
            f.write(f"listen_addresses = ''\nunix_socket_directories = '{self.folder}'\n"
                    "fsync = off\nmax_prepared_transactions = 5\nautovacuum = off\n"
                    "shared_buffers = 32MB\n")

    def run(self, program, *arguments):
        result = subprocess.run(unprivileged() + [os.path.join(BIN, program), *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                cwd=self.folder, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{program}: {result.stdout}")
        return result.stdout

    def start(self):
        self.run("pg_ctl", "-D", self.data, "-w", "-l", os.path.join(self.folder, "log"), "start")

    def stop(self, mode="fast"):
        self.run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def end(self):
        try:
            self.stop("immediate")
        except RuntimeError:
            pass
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self):
        return f"postgres:///postgres?host={self.folder}&user=owner"

    def psql(self, *arguments):
        return ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", self.url(), *arguments]

    def sql(self, text):
        """Runs SQL; what it says."""
        result = subprocess.run(self.psql("-f", "-"), input=text, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, check=False)
        if result.returncode != 0:
            raise RuntimeError(f"{text}: {result.stdout}")
        return result.stdout.strip()


class Session:
    """A connection that stays open, for transactions that take their time."""

    def __init__(self, server):
        self.process = subprocess.Popen(server.psql(), stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def do(self, text):
        """Runs SQL, and waits until it is done."""
        self.process.stdin.write(text + ";\n\\echo done\n")
        self.process.stdin.flush()
        said = []
        for line in self.process.stdout:
            if line == "done\n":
                return "".join(said).strip()
            said.append(line)
        raise RuntimeError(f"{text}: {''.join(said)}")

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Probe:
    """A gate in a process of its own."""

    def __init__(self, name, **settings):
        words = [f"{key.replace('_', '-')}={value}" for key, value in settings.items()]
        self.process = subprocess.Popen([PROBE, name, *words], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        errors="surrogateescape")
        self.first = self.process.stdout.readline().strip()
        expect(self.first, "ready")

    def do(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{command}: gate_probe is gone, {self.process.wait()}")
        return answer.strip()

    def wait(self, condition):
        expect(self.do("wait " + condition), "ok", f"wait {condition}: {self.do('about')}")

    def lookup(self, key):
        return self.do("lookup " + key)

    def outcome(self, key):
        return self.lookup(key).split()[0]

    def check(self, prefix, first, last):
        counts = self.do(f"check {prefix} {first} {last}").split()
        return {name: int(n) for name, n in (c.split("=") for c in counts)}

    def about(self):
        words = self.do("about").split(" ")
        text = " ".join(words).partition("text=")[2]
        about = dict(w.split("=", 1) for w in words if "=" in w and not w.startswith("text="))
        about["text"] = text
        return about

    def events(self):
        return [self.process.stdout.readline().strip() for _ in range(int(self.do("events")))]

    def end(self):
        """Ends it; a sanitizer's finding is a failure."""
        self.process.stdin.close()
        self.process.stdout.close()
        expect(self.process.wait(timeout=60), 0, "gate_probe's exit status")


class Failure(Exception):
    pass


def expect(found, expected, what=""):
    if found != expected:
        raise Failure(f"{what}: found {found!r}, expected {expected!r}")


def expect_in(part, whole):
    if part not in whole:
        raise Failure(f"found {whole!r}, expected {part!r} in it")


def products(server, n, columns=""):
    server.sql(f"""DROP TABLE IF EXISTS products CASCADE;
        CREATE TABLE products (id bigserial PRIMARY KEY, sku text UNIQUE, name text {columns});
        INSERT INTO products (sku, name) SELECT 'sku-' || i, 'name ' || i
          FROM generate_series(0, {n} - 1) AS i;""")


def probe_for(server, **more):
    settings = {"source": server.url(), "query": "SELECT sku, id FROM products",
                "lookup": "SELECT name FROM products WHERE sku = $1", "follow": "column:id",
                "poll": "20ms", "timeout": "20s", "max-lag": "100s", "overlap": "0"}
    settings.update({k.replace("_", "-"): v for k, v in more.items()})
    return Probe("products", **{k: v for k, v in settings.items() if v is not None})


# ---- Tests: each is given a server that runs ----------------------------------------------------


def test_a_hundred_thousand_keys(server):
    products(server, 100000)
    probe = probe_for(server)
    probe.wait("trusted")
    expect(probe.check("sku-", 0, 100000), {"present": 100000})
    expect(probe.lookup("sku-7"), "present name 7")
    absent = probe.check("no-", 0, 100000)
    expect(set(absent) <= {"absent_by_filter", "absent_by_truth"}, True, absent)
    expect(absent.get("absent_by_filter", 0) > 98000, True, (absent, probe.about()))
    about = probe.about()
    expect(about["keys"], "100000")
    expect(about["phase"], "serving")
    server.sql("INSERT INTO products (sku, name) VALUES ('fresh', 'x')")
    probe.wait("caught")
    expect(probe.lookup("fresh"), "present x")
    xid = int(server.sql("SELECT pg_current_xact_id()"))
    probe.wait("caught")
    expect(int(probe.about()["position"]) >= xid, True, "position")
    probe.do("rebuild")
    probe.wait("builds 2")
    expect(probe.check("sku-", 0, 1000), {"present": 1000})
    probe.end()


def test_installs_its_trigger_and_hears_it(server):
    products(server, 100)
    probe = probe_for(server, follow="notify", install="yes", poll="50ms")
    probe.wait("trusted")
    expect(server.sql("SELECT tgname, tgenabled FROM pg_trigger WHERE NOT tgisinternal"),
           "bg_tell_bloomgate_products|A")
    server.sql("INSERT INTO products (sku, name) VALUES ('it''s \"new\" \\', 'quotes')")
    probe.wait("caught")
    expect(probe.lookup("it's \"new\" \\"), "present quotes")
    server.sql("UPDATE products SET sku = 'renamed' WHERE sku = 'sku-5'")
    probe.wait("caught")
    expect(probe.outcome("renamed"), "present")
    server.sql("INSERT INTO products (sku) VALUES (NULL), ('ümläut')")
    probe.wait("caught")
    expect(probe.outcome("ümläut"), "present")
    server.sql("INSERT INTO products (sku) SELECT 'bulk-' || i FROM generate_series(0, 4999) i")
    probe.wait("caught")
    expect(probe.check("bulk-", 0, 5000), {"present": 5000})
    expect(probe.about()["anew"], "1")
    # A key too long for a notification: everything is read again.
    server.sql("INSERT INTO products (sku) VALUES (repeat('long', 2500))")
    probe.wait("builds 2")
    probe.wait("trusted")
    expect(probe.outcome("long" * 2500), "present")
    probe.end()
    # It is there already: nothing is locked, so a writer that holds the table does not matter.
    writer = Session(server)
    writer.do("BEGIN")
    writer.do("INSERT INTO products (sku) VALUES ('held')")
    probe = probe_for(server, follow="notify", install="yes", poll="50ms")
    probe.wait("trusted")
    expect(probe.outcome("sku-1"), "present")
    writer.do("COMMIT")
    probe.wait("caught")
    expect(probe.outcome("held"), "present")
    # Somebody takes it away.
    server.sql("ALTER TABLE products DISABLE TRIGGER ALL")
    probe.wait("event source_lost")
    probe.wait("builds 2")
    server.sql("INSERT INTO products (sku) VALUES ('after')")
    probe.wait("caught")
    expect(probe.outcome("after"), "present")
    probe.end()
    writer.end()


def test_a_bulk_load_is_told_in_few_notifications(server):
    products(server, 10)
    probe = probe_for(server, follow="notify:id", install="keys", poll="100s", max_lag="0")
    probe.wait("trusted")
    ear = Session(server)
    ear.do("LISTEN bloomgate_products")
    server.sql("INSERT INTO products (sku) SELECT 'bulk-' || i FROM generate_series(0, 9999) i")
    heard = ear.do("SELECT 1")
    expect("payload \"*\"" in heard, True, "a look was asked for")
    expect(heard.count("Asynchronous notification") <= 1001, True, "notifications")
    deadline = time.monotonic() + 60  # the poll is too far away: it is the notification
    while probe.outcome("bulk-9999") != "present" and time.monotonic() < deadline:
        time.sleep(0.01)
    expect(probe.check("bulk-", 0, 10000), {"present": 10000})
    server.sql("UPDATE products SET name = 'other'")
    expect("=" in ear.do("SELECT 1").replace("SELECT", ""), False, "updates are not told")
    server.sql("UPDATE products SET sku = 'moved' WHERE sku = 'sku-1'")
    while probe.outcome("moved") != "present" and time.monotonic() < deadline:
        time.sleep(0.01)
    expect(probe.outcome("moved"), "present")
    probe.end()
    ear.end()


def late(server, probe, name, prepared=False):
    """A row with a low number commits after rows with higher ones have long been read."""
    slow = Session(server)
    slow.do("BEGIN")
    slow.do(f"INSERT INTO products (sku) VALUES ('{name}-late')")
    if prepared:
        slow.do(f"PREPARE TRANSACTION '{name}'")
    for i in range(4):
        server.sql(f"INSERT INTO products (sku) VALUES ('{name}-{i}')")
        probe.wait("caught")
        probe.wait("caught")
        expect(probe.outcome(f"{name}-{i}"), "present")
    slow.do(f"COMMIT PREPARED '{name}'" if prepared else "COMMIT")
    probe.wait("caught")
    expect(probe.outcome(f"{name}-late"), "present", "the row that committed late")
    slow.end()


def test_rows_that_commit_late(server):
    products(server, 1000)
    probe = probe_for(server)
    probe.wait("trusted")
    late(server, probe, "a")
    late(server, probe, "b", prepared=True)
    expect(probe.about()["anew"], "1")
    probe.end()


def test_rows_that_commit_late_by_transaction(server):
    products(server, 1000, ", changed xid8 NOT NULL DEFAULT pg_current_xact_id()")
    server.sql("CREATE INDEX ON products (changed)")
    probe = probe_for(server, query="SELECT sku, changed FROM products", follow="column:changed")
    probe.wait("trusted")
    late(server, probe, "a")
    late(server, probe, "b", prepared=True)
    server.sql("UPDATE products SET sku = 'renamed', changed = pg_current_xact_id()"
               " WHERE sku = 'sku-1'")
    probe.wait("caught")
    expect(probe.outcome("renamed"), "present")
    expect(probe.about()["anew"], "1")
    probe.end()


def test_rows_that_commit_late_by_time(server):
    products(server, 1000, ", updated timestamptz NOT NULL DEFAULT now()")
    probe = probe_for(server, query="SELECT sku, updated FROM products", follow="column:updated",
                      overlap=None)
    probe.wait("trusted")
    late(server, probe, "a")
    probe.end()


def test_a_transaction_that_is_open_when_the_gate_begins(server):
    products(server, 1000)
    slow = Session(server)
    slow.do("BEGIN")
    slow.do("INSERT INTO products (sku) VALUES ('before')")
    server.sql("INSERT INTO products (sku) VALUES ('higher')")
    probe = probe_for(server)
    probe.wait("event source_lost")
    expect_in("waits for transactions", probe.about()["text"])
    expect(probe.about()["trusted"], "0")
    expect(probe.outcome("higher"), "present")  # asked for, without a filter
    expect(probe.outcome("before"), "absent_by_truth")
    slow.do("COMMIT")
    probe.wait("trusted")
    expect(probe.outcome("before"), "present")
    probe.end()
    slow.end()


def test_numbers_that_are_drawn_early(server):
    products(server, 100)
    probe = probe_for(server, overlap="50")
    probe.wait("trusted")
    drawn = server.sql("SELECT nextval('products_id_seq')")
    server.sql("INSERT INTO products (sku) VALUES ('x'), ('y'), ('z')")
    for _ in range(3):
        probe.wait("caught")
    server.sql(f"INSERT INTO products (id, sku) VALUES ({drawn}, 'early')")
    probe.wait("caught")
    expect(probe.outcome("early"), "present")
    probe.end()


def test_many_writers_in_any_order(server):
    products(server, 1000)
    probe = probe_for(server, poll="5ms")
    probe.wait("trusted")
    writers, rows = 4, 60

    def write(number):
        script = "".join(f"""BEGIN; INSERT INTO products (sku) VALUES ('w{number}-{i}');
            SELECT pg_sleep(random() * 0.03) \\g /dev/null
            COMMIT;\n""" for i in range(rows))
        server.sql(script)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        number = int(server.sql("SELECT count(*) FROM products WHERE sku LIKE 'w0-%'"))
        probe.wait("caught")
        expect(probe.check("w0-", 0, number), {"present": number} if number else {})
    for thread in threads:
        thread.join()
    probe.wait("caught")
    for n in range(writers):
        expect(probe.check(f"w{n}-", 0, rows), {"present": rows})
    expect(probe.check("sku-", 0, 1000), {"present": 1000})
    probe.end()


def test_rebuilds_while_others_write(server):
    products(server, 20000)
    probe = probe_for(server, poll="5ms", audit="0.05")
    probe.wait("trusted")
    stop = threading.Event()
    written = []

    def write():
        session = Session(server)
        while not stop.is_set():
            session.do(f"INSERT INTO products (sku) VALUES ('during-{len(written)}')")
            written.append(1)
        session.end()

    thread = threading.Thread(target=write)
    thread.start()
    for n in range(2, 6):
        probe.do("rebuild")
        probe.wait(f"builds {n}")
        number = len(written)
        probe.wait("caught")
        expect(probe.check("during-", 0, number), {"present": number} if number else {})
    stop.set()
    thread.join()
    probe.check("no-", 0, 5000)
    about = probe.about()
    expect(about["false_negatives"], "0")
    expect(int(about["audits"]) > 0, True, "audits")
    probe.end()


def test_a_server_that_goes_and_comes_back(server):
    products(server, 1000)
    by_column = probe_for(server, timeout="2s")
    by_notice = probe_for(server, follow="notify", install="yes", timeout="2s")
    # The other one waits for the table's lock no longer than it has to.
    for probe in by_column, by_notice:
        probe.wait("trusted")
    server.stop()
    for probe in by_column, by_notice:
        probe.wait("event source_lost")
        expect(probe.outcome("sku-1"), "unknown")
        expect(probe.check("no-", 0, 1000).get("absent_by_filter", 0) > 900, True, "its own no")
    server.start()
    server.sql("INSERT INTO products (sku) VALUES ('back')")
    for probe in by_column, by_notice:
        probe.wait("event source_back")
        probe.wait("caught")
        probe.wait("trusted")
        expect(probe.outcome("back"), "present")
        expect(probe.check("sku-", 0, 1000), {"present": 1000})
    expect(by_column.about()["anew"], "1")
    expect(by_notice.about()["anew"], "2")
    # Connections that die under it.
    for _ in range(3):
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                   " WHERE application_name = 'bloomgated'")
        expect(by_column.check("sku-", 0, 8), {"present": 8})
        server.sql("INSERT INTO products (sku) VALUES ('again' || nextval('products_id_seq'))")
    name = server.sql("SELECT max(sku) FROM products WHERE sku LIKE 'again%'")
    for probe in by_column, by_notice:
        probe.wait("caught")
        probe.wait("trusted")
        expect(probe.outcome(name), "present")
        probe.end()


def test_a_gate_that_begins_before_its_server(server):
    products(server, 100)
    server.stop()
    open_one = probe_for(server, timeout="1s")
    closed_one = probe_for(server, timeout="1s", fail="closed")
    expect(open_one.outcome("sku-1"), "unknown")
    expect(closed_one.outcome("sku-1"), "failed")
    open_one.wait("event source_lost")
    expect(open_one.about()["phase"], "waiting")
    server.start()
    for probe in open_one, closed_one:
        probe.wait("trusted")
        expect(probe.outcome("sku-1"), "present")
        expect(probe.outcome("sku-100").startswith("absent"), True)
        probe.end()


def test_too_far_behind_to_be_believed(server):
    products(server, 1000)
    probe = probe_for(server, timeout="1s", max_lag="200ms")
    probe.wait("trusted")
    server.stop()
    probe.wait("event stale")
    probe.wait("distrusted")
    expect(probe.check("no-", 0, 100), {"unknown": 100})
    server.start()
    probe.wait("trusted")
    probe.wait("event fresh")
    expect(probe.check("no-", 0, 1000).get("absent_by_filter", 0) > 900, True)
    expect(probe.about()["builds"], "1")
    probe.end()


def test_a_table_that_is_made_anew(server):
    products(server, 1000)
    probe = probe_for(server)
    probe.wait("trusted")
    server.sql("TRUNCATE products RESTART IDENTITY; INSERT INTO products (sku) VALUES ('first')")
    probe.wait("builds 2")
    probe.wait("trusted")
    expect(probe.outcome("first"), "present")
    products(server, 10)
    probe.wait("builds 3")
    server.sql("INSERT INTO products (sku) VALUES ('second')")
    probe.wait("caught")
    probe.wait("trusted")
    expect(probe.outcome("second"), "present")
    probe.end()


def test_keys_of_other_types(server):
    server.sql("""DROP TABLE IF EXISTS things;
        CREATE TABLE things (id serial, i int, u uuid, b bytea, c char(8), n numeric);
        INSERT INTO things (i, u, b, c, n) VALUES
          (42, '00000000-0000-0000-0000-00000000002a', '\\x6869', 'abc', 1.50),
          (-1, NULL, NULL, NULL, NULL)""")
    for column, good, bad in (("i", ["42", "-1"], ["43", "letters", "99999999999999999999", ""]),
                              ("u", ["00000000-0000-0000-0000-00000000002a"],
                               ["00000000-0000-0000-0000-00000000002b", "x"]),
                              ("b", ["hi"], ["ho", "\\x6869"]),
                              ("c", ["abc"], ["abd"]),
                              ("n", ["1.50"], ["2", "many"])):
        settings = {"query": f"SELECT {column}, id FROM things",
                    "lookup": f"SELECT id FROM things WHERE {column} = $1"}
        probe = probe_for(server, follow="notify", install="yes", channel="things_" + column,
                          **settings)
        probe.wait("trusted")
        blind = probe_for(server, follow="none", count="SELECT 1 / 0", **settings)
        blind.wait("event build_failed")
        for one in probe, blind:
            for key in good:
                expect(one.outcome(key), "present", f"{column} {key}")
            for key in bad:
                expect_in(one.outcome(key), ["absent_by_filter", "absent_by_truth"])
        expect(blind.about()["trusted"], "0")
        value = {"i": "77", "u": "'00000000-0000-0000-0000-00000000004d'", "b": "'\\xff00'",
                 "c": "'seven'", "n": "7.70"}[column]
        server.sql(f"INSERT INTO things ({column}) VALUES ({value})")
        probe.wait("caught")
        if column != "b":
            expect(probe.outcome(value.strip("'")), "present", column)
        probe.end()
        blind.end()


def test_lookups_that_fail_for_a_row_that_exists(server):
    """The codes are those of a key that its type cannot have, but the key is not to blame."""
    products(server, 10)
    for name in "letters", "5000000000":
        server.sql(f"UPDATE products SET name = '{name}'")
        for column, present, absent, impossible in (("sku", "sku-7", "sku-77", "\udcff"),
                                                    ("id", "7", "77", "letters")):
            # No filter: the database is asked for every key.
            probe = probe_for(server, query=f"SELECT {column}, id FROM products", follow="none",
                              lookup=f"SELECT name::int FROM products WHERE {column} = $1",
                              count="SELECT 1 / 0", breaker_failures="100")
            probe.wait("event build_failed")
            expect(probe.outcome(present), "unknown", f"{column} {name}")
            for key in absent, impossible:
                expect(probe.outcome(key), "absent_by_truth", f"{column} {name} {key!r}")
            probe.end()


def test_questions_that_take_too_long(server):
    products(server, 10)
    probe = probe_for(server, lookup="SELECT name FROM products WHERE sku = $1"
                      " AND pg_sleep(100) IS NOT NULL", timeout="100ms", breaker_failures="2",
                      breaker_rest="100s")
    probe.wait("event build_ended")
    opened, asked = False, 0
    while not opened and asked < 20:  # two will do, unless the machine is busy and one fails before it is asked
        expect(probe.outcome("sku-1"), "unknown")
        opened = any(e.startswith("breaker_open") for e in probe.events())
        asked += 1
    expect_in("time", probe.about()["text"])
    expect(opened and asked >= 2, True, f"the breaker, after {asked} questions")
    expect(probe.outcome("sku-1"), "unknown")
    expect(server.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(100)%'"
                      " AND state = 'active' AND pid <> pg_backend_pid()"), "0")
    probe.end()


def test_settings_that_cannot_work(server):
    products(server, 10)
    for settings, words in (({"follow": "column:nothing"}, "which it has not"),
                            ({"query": "SELECT nonsense"}, "nonsense"),
                            ({"query": "SELECT sku || '', id FROM products", "install": "yes"},
                             "one of a table"),
                            ({"query": "SELECT sku, name FROM products", "follow": "column:name",
                              "overlap": "3"}, "no number")):
        probe = probe_for(server, **settings)
        probe.wait("event source_lost")
        expect_in(words, probe.about()["text"])
        probe.end()


def main():
    if not BIN or not shutil.which("psql") or (os.geteuid() == 0 and not shutil.which("setpriv")):
        print("no PostgreSQL here")
        return SKIP
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    tests = [(n, f) for n, f in globals().items() if n.startswith("test_") and part in n]
    passed = failed = 0
    server = Server()
    try:
        server.start()
        for name, test in tests:
            begun = time.monotonic()
            try:
                test(server)
                passed += 1
                print(f"ok {name} ({time.monotonic() - begun:.1f} s)", flush=True)
            except Exception as error:  # pylint: disable=broad-except
                failed += 1
                print(f"FAILED {name}: {error}", flush=True)
                try:
                    server.start()
                except RuntimeError:
                    pass
    finally:
        server.end()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
