#!/usr/bin/python3
"""Tests the service with a real Prometheus server: the scraped metrics, their values, and the alerts, which are
triggered by provoking their causes. The rules are those in ops/prometheus, except that alerts fire after one second
instead of several minutes. Alerts that take more than a minute to fire, or that require a state that the tests cannot
provoke, are tested only by promtool (ops/prometheus/*.test.yml).

usage: test_prometheus.py BLOOMGATED [PART OF A NAME...]
  UPDATE=1 in the environment updates the list of the service's metrics in docs/metrics.md"""

import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import service
from http_asker import F, Asker, free_service
from service import alone, wait_for

try:
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as openmetrics
except ImportError:
    parser = None

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
RULES = ["bloomgate.rules.yml", "bloomgated.rules.yml"]
DOCUMENT = os.path.join(ROOT, "docs", "metrics.md")
MARKS = "<!-- service -->\n", "<!-- /service -->"
sys.path.insert(0, os.path.join(ROOT, "tools"))
import bgread  # noqa: E402
import check_ops  # noqa: E402

LIBRARY = ("bloomgate_filter_", "bloomgate_gate_", "bloomgate_build_info")
OF_SERVICE = ("bloomgate_gate_source_up", "bloomgate_gate_trusted", "bloomgate_gate_lag_seconds", "bloomgate_gate_changed_keys_total",
              "bloomgate_gate_untrusted_lookups_total", "bloomgate_gate_builds_total")
BY_PROMTOOL = {"BloomgateGateDoubtful", "BloomgateFilterDegraded", "BloomgateFilterOverflowed", "BloomgateReplicasDiffer", "BloomgateRebuildFailing",
               "BloomgateMigrationForgotten", "BloomgateReaderStuck", "BloomgateWriteErrors", "BloomgateTenantsNotReturning", "BloomgateTenantLimited",
               "BloomgateFrontShardsIncomplete"}
FIRED = set()


def same(found, expected):
    assert found == expected, f"found {found!r}, expected {expected!r}"


# ---- Prometheus ---------------------------------------------------------------------------------


class Prometheus:
    """A Prometheus server with its own directory and port, which scrapes metrics and evaluates rules every second."""

    def __init__(self, user=None):
        self.folder = tempfile.mkdtemp(prefix="bloomgate-prometheus-")
        self.port = service.free_port()
        self.targets = os.path.join(self.folder, "targets.json")
        self.set_targets()
        for name in RULES:
            with open(os.path.join(ROOT, "ops", "prometheus", name), encoding="utf-8") as file:
                text = file.read()
            assert "for: " in text
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(re.sub(r"\n( +)for: \w+", r"\n\1for: 1s", text))
        scrape = {"job_name": "bloomgate", "file_sd_configs": [{"files": [self.targets], "refresh_interval": "1s"}]}
        if user:
            scrape["basic_auth"] = {"username": user[0], "password": user[1]}
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                  "rule_files": RULES, "scrape_configs": [scrape]}
        path = os.path.join(self.folder, "prometheus.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)  # JSON is YAML
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = subprocess.Popen(
                [*service.MORTAL, "prometheus", f"--config.file={path}", f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address=127.0.0.1:{self.port}",
                 "--storage.tsdb.retention.time=1h", "--log.level=warn"], stdout=log, stderr=log, cwd=self.folder)
        wait_for(self.is_ready, what="Prometheus")

    def set_targets(self, *services):
        with open(self.targets + ".new", "w", encoding="utf-8") as file:
            json.dump([{"targets": [f"127.0.0.1:{s.http_port}" for s in services]}], file)
        os.rename(self.targets + ".new", self.targets)

    def get(self, path, **query):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}?{urllib.parse.urlencode(query)}", timeout=service.PATIENCE) as answer:
            return json.load(answer)

    def is_ready(self):
        assert self.process.poll() is None, self.read_log()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=service.PATIENCE) as answer:
                return answer.status == 200
        except OSError:
            return False

    def read_log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8") as file:
            return file.read()

    def value(self, query):
        """Returns the value of a query with one result, or None if the query has no result."""
        found = self.get("/api/v1/query", query=query)["data"]["result"]
        assert len(found) < 2, found
        return float(found[0]["value"][1]) if found else None

    def firing(self, s, name, **labels):
        """Returns whether the alert is firing for a service."""
        for alert in self.get("/api/v1/alerts")["data"]["alerts"]:
            has = alert["labels"]
            if has["alertname"] == name and alert["state"] == "firing" and has.get("instance") == f"127.0.0.1:{s.http_port}" \
                    and all(has.get(k) == v for k, v in labels.items()):
                return True
        return False

    def expect(self, s, name, provoke=lambda: None, **labels):
        """Calls `provoke` repeatedly until the alert fires."""
        def look():
            provoke()
            return self.firing(s, name, **labels)
        wait_for(look, what=f"{name} to fire")
        FIRED.add(name)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


PROMETHEUS = []


def prometheus():
    """Returns the Prometheus server that all tests share."""
    if not PROMETHEUS:
        PROMETHEUS.append(Prometheus())
    return PROMETHEUS[0]


def prepare():
    for program in ("prometheus", "promtool"):
        if not shutil.which(program):
            raise service.Skip(f"{program} is not installed (Debian: prometheus)")
    if not parser:
        raise service.Skip("prometheus_client is not installed (Debian: python3-prometheus-client)")


def make_catalogue(path, rows):
    with sqlite3.connect(path) as db:
        db.execute("create table products (id integer primary key autoincrement, sku text unique)")
        db.executemany("insert into products (sku) values (?)", [(f"sku-{i}",) for i in range(rows)])


def with_gate(program, name, *words, rows=2000):
    s = free_service(program)
    path = os.path.join(s.folder, "catalogue.db")
    make_catalogue(path, rows)
    s.lines = (f"gate {name} source=sqlite:{path} keys=products(sku) lookup='select id from products where sku = ?' " + " ".join(words),)
    return s, path


def wait_for_gate(a, name):
    return wait_for(lambda: (lambda g: g if g["complete"]["state"] == "complete" else None)(a.told("GET", f"/api/v1/gates/{name}", 200)), what="a gate")


def look_up(a, gate, keys):
    return a.told("POST", f"/api/v1/gates/{gate}/lookup", 200, {"keys": keys})["results"]


# ---- The document -------------------------------------------------------------------------------


def samples_of(families):
    """Returns the samples of parsed families as {(name, labels): value}, and their metadata as {name: (type, help)}."""
    samples, about = {}, {}
    for family in families:
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in samples, f"{key} is repeated"
            samples[key] = sample.value
            about[sample.name] = family.type, family.documentation
    return samples, about


def scraped(a, accept, query=""):
    response, text = a.ask("GET", f"/metrics{query}", 200, headers={"Accept": accept})
    return response.getheader("Content-Type"), text.decode("utf-8")


def both_forms(a):
    kind, text = scraped(a, "text/plain")
    same(kind, "text/plain; version=0.0.4; charset=utf-8")
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    same((done.returncode, done.stdout), (0, ""))
    kind, open_text = scraped(a, "application/openmetrics-text; version=1.0.0")
    same(kind.startswith("application/openmetrics-text; version=1.0.0"), True)
    return samples_of(parser.text_string_to_metric_families(text)), samples_of(openmetrics.text_string_to_metric_families(open_text))


@alone
def test_documents(program):
    """promtool accepts the text format, and the client library reads the same metrics from the text and OpenMetrics
    formats, whatever characters the filters' names contain."""
    s, _ = with_gate(program, "products", "follow=changes")
    with s:
        a = Asker(s)
        wait_for_gate(a, "products")
        for name in (b"users", b'quote"back\\slash', b"new\nline", b"\xff\xfe", "äöü".encode(), b"gate:products", b"a{b=\"c\"} 1", b"", b"x" * 300, b"nul\0"):
            assert s.ask("BG.CREATE", name, "CAPACITY", 100, "ERROR", "0.01") == "OK", name
            s.ask("BG.ADD", name, "x")
        new = ("bloomgate_service_inserts_total", frozenset({("result", "new")}))
        for _ in range(600):  # a worker publishes its counters after it has replied
            (samples, about), (open_samples, open_about) = both_forms(a)
            if samples[new] == 10:
                break
            time.sleep(0.1)
        names = {dict(labels).get("filter") for _, labels in samples}
        assert {"users", 'quote"back\\slash', "new\nline", "äöü", "gate:products", 'a{b="c"} 1'} <= names, names
        same(sum(name == "bloomgate_filter_size_bytes" and dict(labels)["filter"] == "gate:products" for name, labels in samples), 1)
        same(samples[("bloomgate_service_filters", frozenset())], 10)
        same(samples.keys() ^ open_samples.keys(), set())
        live = re.compile(r"_bytes_total|used_bytes|requests_total|resident|age_seconds|lag_|accepted|connections|polls|measured|start_time")
        for key, value in samples.items():
            if not live.search(key[0]):
                assert value == open_samples[key] or value != value, (key, value, open_samples[key])
        for name, (kind, text) in about.items():
            same((name, open_about[name][1]), (name, text))
            assert open_about[name][0] == kind or (kind, open_about[name][0]) == ("gauge", "info"), (name, kind)


def table_of(samples, about):
    """Returns the service's own metrics, formatted like the list in docs/metrics.md."""
    rows, labels = {}, {}
    for name, pairs in samples:
        if name.startswith(LIBRARY) and name not in OF_SERVICE:
            continue
        family = re.sub("_(bucket|sum|count)$", "", name) if about[name][0] == "histogram" else name
        for label, value in sorted(pairs):
            if label != "le":
                labels.setdefault(family, {}).setdefault(label, set()).update(() if label == "user" else (value,))
        rows[family] = about[name]
    text = "\n"
    for name, (kind, meaning) in rows.items():
        text += check_ops.entry(name, kind, meaning, {label: sorted(values) for label, values in labels.get(name, {}).items()})
    assert not check_ops.breaches, check_ops.breaches
    return MARKS[0] + text + "\n" + MARKS[1]


@alone
def test_table(program):
    """docs/metrics.md lists the service's own metrics."""
    s, _ = with_gate(program, "products", "follow=changes")
    s.lines += ("sharded seen nodes=127.0.0.1:1 shards=4", "user default on nopass +@all ~* quota-memory=1Ti quota-filters=100k")
    with s:
        a = Asker(s)
        wait_for_gate(a, "products")
        (samples, about), _ = both_forms(a)
        with open(DOCUMENT, encoding="utf-8") as file:
            text = file.read()
        begin, end = text.index(MARKS[0]), text.index(MARKS[1]) + len(MARKS[1])
        wanted = table_of(samples, about)
        if os.environ.get("UPDATE"):
            with open(DOCUMENT, "w", encoding="utf-8") as file:
                file.write(text[:begin] + wanted + text[end:])
        else:
            same(text[begin:end], wanted)


@alone
def test_there_is_a_bound(program):
    """metrics-max-filters limits the number of filters listed in /metrics, but the totals include all filters."""
    with free_service(program, "metrics-max-filters 3") as s:
        a = Asker(s)
        for i in range(10):
            a.make(f"f{i}")
            a.ask("POST", f"{F}/f{i}/add", 200, {"keys": ["x"]})
        (samples, _), _ = both_forms(a)
        same(len({labels for name, labels in samples if name == "bloomgate_filter_size_bytes"}), 3)
        same(samples[("bloomgate_service_reported_filters", frozenset())], 3)
        same(samples[("bloomgate_service_filters", frozenset())], 10)

        def sums():
            found, _ = samples_of(parser.text_string_to_metric_families(scraped(a, "text/plain")[1]))
            return found[("bloomgate_service_inserts_total", frozenset({("result", "new")}))] == 10
        wait_for(sums, 20, "the sums")


# ---- Scraping -----------------------------------------------------------------------------------


@alone
def test_scrape(program):
    p = prometheus()
    with free_service(program) as s:
        p.set_targets(s)
        a = Asker(s)
        a.make("scraped", capacity=10000)
        a.ask("POST", f"{F}/scraped/add", 200, {"keys": [str(i) for i in range(5000)]})
        a.ask("POST", f"{F}/scraped/check", 200, {"keys": [str(i) for i in range(4000, 14000)]})
        told = a.told("GET", f"{F}/scraped?examine=1", 200)
        at = f'{{instance="127.0.0.1:{s.http_port}",job="bloomgate",filter="scraped"'
        wait_for(lambda: p.value(f"bloomgate_filter_items{at}}}") == told["items"]["value"], what="Prometheus to report the number of items")
        for query, value in ((f"bloomgate_filter_fill_ratio{at}}}", told["fill"]), (f"bloomgate_filter_predicted_fpr_ratio{at}}}", told["predicted"]),
                             (f"sum(bloomgate_filter_queries_total{at}}})", 10000), (f'bloomgate_filter_queries_total{at},result="maybe"}}', told["counters"]["maybes"]),
                             (f"sum(bloomgate_filter_inserts_total{at}}})", told["counters"]["adds"]), (f"bloomgate_filter_capacity_items{at}}}", 10000),
                             (f'up{{instance="127.0.0.1:{s.http_port}"}}', 1), ("bloomgate_service_up", 1), ("bloomgate_service_filters", 1)):
            same((query, p.value(query)), (query, value))
        kinds = {m["target"]["instance"]: m["type"] for m in p.get("/api/v1/targets/metadata", metric="bloomgate_service_requests_total")["data"]} or \
                {m["target"]["instance"]: m["type"] for m in p.get("/api/v1/targets/metadata", metric="bloomgate_service_requests")["data"]}
        same(kinds.get(f"127.0.0.1:{s.http_port}"), "counter")
        targets = p.get("/api/v1/targets")["data"]["activeTargets"]
        same([(t["health"], t["lastError"]) for t in targets], [("up", "")])
        p.set_targets()


@alone
def test_scrape_with_a_password(program):
    with free_service(program, "user scraper on >pr0m +info allkeys", "user default off") as s:
        p = Prometheus(("scraper", "pr0m"))
        try:
            p.set_targets(s)
            wait_for(lambda: p.value("bloomgate_service_up") == 1, what="a scrape")
        finally:
            p.stop()


# ---- Alerts -------------------------------------------------------------------------------------


@alone
def test_alerts_of_limits(program):
    p = prometheus()
    with free_service(program, "maxclients 40", "max-filters 10", "maxmemory 15550Ki", "user poor on >x +ping") as s:
        p.set_targets(s)
        a = Asker(s)
        a.told("POST", F, 201, {"name": "large", "kind": "blocked", "capacity": 1000, "memory": (14 << 20) - 65536})
        for i in range(9):
            a.make(f"f{i}", capacity=10)
        p.expect(s, "BloomgateMemoryNearLimit")
        p.expect(s, "BloomgateFiltersNearLimit")
        with s.connect() as c:
            c.ask("AUTH", "poor", "x")
            p.expect(s, "BloomgateUsersRefused", lambda: c.ask("BF.ADD", "f1", "x"), reason="rights")
        crowd = [s.connect() for _ in range(37)]
        p.expect(s, "BloomgateConnectionsNearLimit")

        def knock():
            for _ in range(5):
                try:
                    s.connect().close()
                except OSError:
                    pass
        p.expect(s, "BloomgateConnectionsRejected", knock)
        for c in crowd:
            c.close()
        p.set_targets()


@alone
def test_alerts_of_files(program):
    """If files cannot grow beyond 1 MiB, snapshots fail, and later the journal fails."""
    p = prometheus()
    with free_service(program, "snapshot-interval 1s", prefix=("prlimit", f"--fsize={1 << 20}")) as s:
        p.set_targets(s)
        a = Asker(s)
        a.told("POST", F, 201, {"name": "large", "kind": "blocked", "capacity": 10000000, "memory": 2 << 20})
        keys = iter(range(10 ** 9))

        def add():
            try:
                a.status("POST", f"{F}/large/add", "\n".join(str(next(keys)) for _ in range(20000)), {"Content-Type": "text/plain", "X-Bloomgate": "1"})
            except OSError:
                pass  # the connection is closed if a change could not be made durable
        p.expect(s, "BloomgateSnapshotFailing", add)
        p.expect(s, "BloomgateSnapshotOverdue")
        p.expect(s, "BloomgateJournalFailed", add)
        told = a.told("GET", "/api/v1/info", 200)["persistence"]
        assert told["log"]["failed"] and told["log"]["error"] and told["snapshot"]["error"], told
        ready = a.told("GET", "/readyz?verbose=1", 200)
        same([c["ok"] for c in ready["checks"] if c["name"] == "journal"], [False])
        same(a.told("POST", f"{F}/large/check", 200, {"keys": ["1"]})["results"], [True])
        p.set_targets()
        s.stop(expect=1)  # the journal cannot be closed cleanly


def attack(a, s, name):
    """Adds keys that set almost only new bits. An attacker can find such keys because the hash has no
    secret."""
    file = bgread.Header(a.told("GET", f"{F}/{name}/file", 200))
    hash_of = bgread.hash_function("fast", file.seed, None)
    taken, chosen, i = set(), [], 0
    while len(chosen) < 1500:
        key = f"chosen {i}".encode()
        bits = set(bgread.walk(hash_of(key), file.k, 64 * file.units))
        if len(bits - taken) >= file.k - (i // 60000):
            taken |= bits
            chosen.append(key)
        i += 1
    for start in range(0, len(chosen), 500):
        s.ask("BG.MADD", name, *chosen[start:start + 500])


@alone
def test_alerts_of_filters(program):
    p = prometheus()
    with free_service(program) as s:
        p.set_targets(s)
        a = Asker(s)
        a.make("over", kind="blocked", capacity=1000, error=0.01, overfill=True)
        a.make("strict", kind="blocked", capacity=100, error=0.01)
        a.make("full", kind="cuckoo", capacity=100, error=0.01)
        a.make("soon", kind="blocked", capacity=1000000, error=0.01)
        a.make("rebuilding", kind="blocked")
        a.make("chosen", kind="classic", capacity=4000, error=0.01, hash="fast")
        a.ask("POST", f"{F}/over/add", 200, {"keys": [str(i) for i in range(3000)]})
        keys = iter(range(10 ** 9))

        def add_more():
            a.ask("POST", f"{F}/soon/add", 200, {"keys": [str(next(keys)) for _ in range(100)]})
            a.ask("GET", f"{F}/soon", 200)
            for name in ("strict", "full"):
                a.status("POST", f"{F}/{name}/add", json.dumps({"keys": [str(next(keys)) for _ in range(200)]}), {"Content-Type": "application/json"})
        same(s.ask("BG.REBUILD", "rebuilding", "BEGIN", 1000), "OK")
        a.ask("GET", f"{F}/over", 200)
        p.expect(s, "BloomgateFullSoon", add_more, filter="soon")
        p.expect(s, "BloomgateInsertsRejected", add_more, filter="full")
        p.expect(s, "BloomgateAddsRefused", add_more)
        assert a.told("GET", f"{F}/strict", 200)["counters"]["refused"] > 1
        p.expect(s, "BloomgateRateHigh", filter="over")
        p.expect(s, "BloomgateRateVeryHigh", filter="over")
        p.expect(s, "BloomgateRebuildSlow", filter="rebuilding")
        attack(a, s, "chosen")
        told = a.told("GET", f"{F}/chosen?examine=1", 200)
        assert told["polluted"] and told["health"]["status"] == "act", told
        p.expect(s, "BloomgatePolluted", filter="chosen")
        assert not p.firing(s, "BloomgatePolluted", filter="soon")
        assert not p.firing(s, "BloomgateRateHigh", filter="soon")
        p.set_targets()


@alone
def test_alerts_of_damage(program):
    """Damages a filter's own file, and the published file from which the filter is reloaded."""
    p = prometheus()
    with free_service(program) as s:
        a = Asker(s)
        a.make("damaged", capacity=1000)
        a.ask("POST", f"{F}/damaged/add", 200, {"keys": ["x"]})
        same(s.ask("BG.PUBLISH", "damaged", "copy.bg") is not None, True)
        assert not isinstance(s.ask("BG.RELOAD", "copy", "copy.bg"), service.Error)
        for folder, _, files in os.walk(s.folder):
            for file in files:
                if file == "copy.bg" or file.startswith("copy.bg-") or file.startswith("copy-"):
                    with open(os.path.join(folder, file), "r+b") as f:
                        f.seek(4300)
                        f.write(b"\xaa\xbb\xcc")
        p.set_targets(s)
        wait_for(lambda: p.value("bloomgate_service_up") == 1, what="a scrape")
        p.expect(s, "BloomgateReloadFailing", lambda: s.ask("BG.RELOAD", "copy", "copy.bg"), filter="copy")
        s.ask("SAVE")
        s.stop()
        folder = os.path.join(s.folder, "data", "filters")
        for file in os.listdir(folder):
            with open(os.path.join(folder, file), "r+b") as f:
                f.seek(5000)
                byte = f.read(1)
                f.seek(5000)
                f.write(bytes([byte[0] ^ 1]))
        s.start()
        p.set_targets(s)
        a = Asker(s)
        told = a.told("GET", f"{F}/damaged", 200)
        same((told["available"], told["health"]["status"]), (False, "act"))
        same(a.told("POST", f"{F}/damaged/check", 200, {"keys": ["x", "y"]})["results"], [True, True])
        events = a.told("GET", "/api/v1/events?level=error", 200)["events"]
        assert any(e["type"] == "alarm" for e in events), events
        p.expect(s, "BloomgateFilterMissing", filter="damaged")
        p.set_targets()


@alone
def test_alerts_of_starting(program):
    p = prometheus()
    s = free_service(program)
    try:
        s.start()
        keep_port(s)
        p.set_targets(s)
        for _ in range(4):
            started = Asker(s).told("GET", "/api/v1/info", 200)["started"]
            seen = f'bloomgate_service_start_time_seconds{{instance="127.0.0.1:{s.http_port}"}} == {started!r}'
            wait_for(lambda: p.value(seen) is not None, what="a scrape")  # pylint: disable=cell-var-from-loop
            s.kill()
            s.start()
        p.expect(s, "BloomgateRestarting")
        check_loading(p, s)
        p.set_targets()
    finally:
        s.kill()
        s.remove()


def keep_port(s):
    """Configures the service to restart on the same port, so that Prometheus sees the same instance."""
    port, configure = s.http_port, s.configure

    def same_port():
        path = configure()
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(f"http-port {s.http_port}\n", f"http-port {port}\n"))
        s.http_port = port
        return path
    s.configure = same_port


def check_loading(p, s):
    """One of the service's files is a pipe without a writer, so the service keeps loading until the test opens the
    pipe."""
    from test_http import load_foreign  # pylint: disable=import-outside-toplevel
    s.forget()
    load_foreign(s, "foreign")
    s.ask("SAVE")
    s.stop()
    folder = os.path.join(s.folder, "data", "filters")
    name = next(n for n in os.listdir(folder) if n.endswith(".redisbloom"))
    os.remove(os.path.join(folder, name))
    os.mkfifo(os.path.join(folder, name))
    s.start(wait=False)
    p.expect(s, "BloomgateNotServing")
    with open(os.path.join(folder, name), "wb"):
        pass
    s.wait_until_ready()
    s.stop()


@alone
def test_alerts_of_wrong_answers(program):
    """A key is written to the source but not reported to the gate, and an audit detects the false negative. An attacker
    repeatedly looks up a key that is a false positive."""
    p = prometheus()
    s, path = with_gate(program, "products", "follow=none", "promise=writers-report", "audit=1", "rate=0.05")
    with s:
        p.set_targets(s)
        a = Asker(s)
        wait_for_gate(a, "products")
        unlucky = next(f"no-{i}" for i in range(100000) if look_up(a, "products", [f"no-{i}"])[0]["outcome"] == "absent_by_truth")
        p.expect(s, "BloomgateDrifting", lambda: look_up(a, "products", [unlucky] * 100), filter="gate:products")
        p.expect(s, "BloomgateObservedRateHigh", lambda: look_up(a, "products", [unlucky] * 100), filter="gate:products")
        names = iter(range(10 ** 9))

        def write_past():
            keys = [f"new-{next(names)}" for _ in range(20)]
            with sqlite3.connect(path) as db:
                db.executemany("insert into products (sku) values (?)", [(key,) for key in keys])
            look_up(a, "products", keys)
        p.expect(s, "BloomgateFalseNegative", write_past, filter="gate:products")
        assert a.told("GET", "/api/v1/gates/products", 200)["health"]["status"] == "act"
        p.set_targets()


@alone
def test_alerts_of_sources(program):
    """The database becomes unavailable."""
    p = prometheus()
    s, path = with_gate(program, "lost", "follow=changes", "poll=100ms", "max-lag=1s", "maintain=1s")
    s.lines += (s.lines[0].replace("gate lost", "gate cut").replace("follow=changes poll=100ms max-lag=1s", "follow=none promise=read-only breaker-failures=3 breaker-rest=1s"),)
    with s:
        p.set_targets(s)
        a = Asker(s)
        for gate in ("lost", "cut"):
            wait_for_gate(a, gate)
        wait_for(lambda: p.value('bloomgate_gate_source_up{filter="gate:lost"}') == 1, what="a scrape")
        os.rename(path, path + ".away")
        os.mkdir(path)  # a directory instead of a database

        def ask():
            look_up(a, "cut", [f"sku-{random.randrange(2000)}" for _ in range(50)])
        p.expect(s, "BloomgateSourceLost", filter="gate:lost")
        p.expect(s, "BloomgateGateUntrusted", filter="gate:lost")
        p.expect(s, "BloomgateTruthErrors", ask, filter="gate:cut")
        p.expect(s, "BloomgateBreakerOpen", ask, filter="gate:cut")
        p.expect(s, "BloomgateGateBuildFailing", lambda: a.ask("POST", "/api/v1/gates/cut/rebuild", 202, {}), filter="gate:cut")
        gate = a.told("GET", "/api/v1/gates/lost", 200)
        same((gate["source"]["state"] != "up", gate["health"]["status"]), (True, "act"))
        os.rmdir(path)
        os.rename(path + ".away", path)

        def is_over():
            ask()
            return not p.firing(s, "BloomgateSourceLost")
        wait_for(is_over, what="the alert to stop firing")
        wait_for(lambda: look_up(a, "lost", ["sku-1", "sku-9999"])[0]["present"] is True, what="an answer")
        p.set_targets()


@alone
def test_alerts_of_fronts(program):
    """One cluster's node is not listening, and the other cluster's node has no shards."""
    p = prometheus()
    with free_service(program) as node, \
            free_service(program, "sharded gone nodes=127.0.0.1:1 shards=4", f"sharded empty nodes=127.0.0.1:{node.port} shards=2") as s:
        p.set_targets(s)

        def use():
            same(s.ask("BF.EXISTS", "gone", "x"), 1)
            assert s.ask("BF.ADD", "gone", "x").startswith("FAILED")
        p.expect(s, "BloomgateFrontShardsDown", filter="gone")
        p.expect(s, "BloomgateFrontShardsMissing", filter="empty")
        p.expect(s, "BloomgateFrontGuessing", use, filter="gone", result="unreachable")
        p.expect(s, "BloomgateFrontAddsFailing", use, filter="gone", result="rejected")
        # A query has no result if Prometheus was too slow to scrape the service.
        wait_for(lambda: p.value('bloomgate_front_shards{filter="gone",state="down"}') == 4, what="the lost shards")
        wait_for(lambda: p.value('bloomgate_front_shards{filter="empty",state="missing"}') == 2, what="the missing shards")
        p.set_targets()


@alone
def test_zz_every_alert(_):
    """Checks that each alert has fired in these tests or is listed as tested only by promtool."""
    if len(sys.argv) > 2:
        raise service.Skip("only some tests were run")
    names = set()
    for name in RULES:
        with open(os.path.join(ROOT, "ops", "prometheus", name), encoding="utf-8") as file:
            names |= set(re.findall(r"- alert: (\w+)", file.read()))
    same(sorted(names - FIRED - BY_PROMTOOL), [])
    same(sorted(BY_PROMTOOL - names), [])


def main():
    try:
        service.main(__doc__, http=True)
    finally:
        for p in PROMETHEUS:
            p.stop()


if __name__ == "__main__":
    main()
