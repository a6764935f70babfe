#!/usr/bin/env python3
"""A mock of bloomgated's HTTP interface. Serves the dashboard with the same headers as the service, and implements
the API in server/web/openapi.yaml with generated filters, so that pages can be developed and tested
without the service. Needs only Python.

usage: mock.py [--port N] [--filters N] [--bare] [--hostile] [--frozen] [--user NAME:PASSWORD]
[--loading]
The first line of output is the mock's address."""

import argparse
import base64
import bisect
import fnmatch
import hashlib
import json
import math
import os
import random
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WEB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "server", "web")
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
          "base-uri 'none'; frame-ancestors 'none'; form-action 'none'")
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml", ".yaml": "application/yaml"}
KINDS = ["classic", "partitioned", "blocked", "split", "register", "counting", "cuckoo", "quotient", "fuse", "ribbon",
         "scalable", "window"]
CAN = {"classic": ["merge", "fold", "overlap", "clear", "add"], "partitioned": ["merge", "fold", "overlap", "clear", "add"],
       "blocked": ["merge", "fold", "overlap", "clear", "add"], "split": ["merge", "fold", "overlap", "clear", "add"],
       "register": ["merge", "fold", "overlap", "clear", "add"], "counting": ["remove", "count", "merge", "clear", "add"],
       "cuckoo": ["remove", "count", "clear", "add"], "quotient": ["remove", "count", "merge", "enumerate", "resize", "clear", "add"],
       "fuse": [], "ribbon": [], "scalable": ["merge", "clear", "add"], "window": ["merge", "rotate", "clear", "add"]}
HOSTILE = ["<script>document.title='pwned'</script>", "\"><img src=x onerror=\"document.title='pwned'\">", "' onmouseover='alert(1)",
           "</td></tr></table><h1>out</h1>", "\u202egnp.exe\u202c", "\u2067\u05d0\u05d1\u05d2\u2069 mixed \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
           "x" * 10240, "line\nbreak\ttab\0nul", ".", "..", "", "a/b?c#d%2Fe&f=g", "=equals", "==", "%3Cb%3E", "javascript:alert(1)",
           "__proto__", "constructor", "toString", "zero\u200bwidth\ufeff", " leading and trailing ", "   ", "\U0001f468\u200d\U0001f469\u200d\U0001f467 family",
           "{{7*7}}${7*7}", "&lt;b&gt;&amp;", "e\u0301" * 40]
HOSTILE_BYTES = [b"\xff\xfe\x00bytes", b"\xc0\xafoverlong", b"\xed\xa0\x80surrogate"]
SORTS = ["name", "kind", "items", "capacity", "fill", "predicted", "observed", "bytes", "queries", "avoided", "age", "health"]
OUTCOMES = ["absent_by_filter", "absent_by_cache", "absent_by_truth", "present", "unknown", "failed"]


# ---- Filters -----------------------------------------------------------------------------------

def estimate(value, spread):
    return {"value": value, "low": max(0.0, value * (1 - spread)), "high": value * (1 + spread)}


def wilson(hits, trials):
    if trials == 0:
        return None
    z, p = 1.96, hits / trials
    mid = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    return {"value": p, "low": max(0.0, mid - half), "high": min(1.0, mid + half)}


class Filter:
    """A generated filter. Its values depend only on its seed and the time, so all responses at one point in time are
    consistent."""

    def __init__(self, name, seed, born, kind=None, capacity=None, rate=None):
        made = random.Random(seed)
        self.name, self.seed, self.born = name, seed, born
        self.kind = kind or made.choices(KINDS, [2, 1, 10, 1, 1, 2, 3, 1, 2, 1, 5, 3])[0]
        self.capacity = capacity or int(float(f"{10 ** made.uniform(3, 8.3):.1e}"))
        self.rate = rate or made.choice([0.05, 0.01, 0.01, 0.01, 0.001, 0.0001])
        self.family = "cf" if self.kind == "quotient" and seed % 2 else "bf" if self.kind == "scalable" and seed % 2 else "bg"
        self.part = made.choice([0.02, 0.2, 0.4, 0.55, 0.6, 0.7, 0.8, 0.85, 0.93, 1.1 if made.random() < 0.3 else 0.5])
        self.speed = 10 ** made.uniform(-1, 4.5)
        self.present = made.uniform(0.02, 0.3)
        self.adds = self.speed * made.uniform(0, 0.02)
        self.age = 10 ** made.uniform(1, 6.5)
        self.gate = None
        self.degraded = seed % 97 == 13
        self.polluted = seed % 89 == 7
        self.expires = born + 86400 * made.uniform(0.1, 30) if seed % 11 == 3 else None
        self.keys = set()
        self.cleared = None
        self.generation = made.randrange(0, 40)
        self.examined = seed % 23 != 22
        self.k = max(1, round(-math.log2(self.rate)))
        self.power = -math.log2(self.rate)
        self.bits = max(512, int(self.capacity * 1.44 * self.power * 1.04) // 512 * 512)

    def fill_with(self, items):
        return 1 - 2.0 ** (-items / self.capacity)  # at capacity, half of the bits are set

    def rate_with(self, items):
        return self.fill_with(items) ** self.power

    def seconds(self, now):
        return max(0.0, now - (self.cleared or self.born - self.age))

    def figures(self, now):
        lived = self.seconds(now)
        queries = int(self.speed * lived)
        items = 0.0 if self.cleared else self.capacity * self.part
        items = min(items + (self.adds * (now - self.born) if not self.cleared else self.adds * lived) + len(self.keys), self.capacity * 1.4)
        fill, predicted = self.fill_with(items), self.rate_with(items)
        drift = 1 + 0.04 * math.sin(self.seed)
        absent = int(queries * (1 - self.present))
        fps = int(absent * predicted * drift)
        return {"queries": queries, "items": items, "fill": fill, "predicted": predicted, "absent": absent, "fps": fps,
                "maybes": queries - absent + fps, "adds": int(items * 1.02), "news": int(items)}

    def reasons(self, now, f):
        found = []
        if self.degraded:
            found.append(("degraded", "parts of the filter's file were damaged and answer \"maybe\": rebuild the filter"))
        if self.capacity and f["items"] > self.capacity:
            found.append(("predicted", f"the false-positive rate is {100 * f['predicted']:.3g}%, but the target is {100 * self.rate:.3g}%: "
                          "rebuild with a larger capacity"))
        elif self.capacity and f["items"] > 0.9 * self.capacity:
            found.append(("fill", f"the filter holds {f['items']:,.0f} keys and has a capacity of {self.capacity:,}: rebuild with a larger capacity before the filter is full"))
        if self.polluted:
            found.append(("polluted", "each add sets 7.61 bits on average instead of the expected 4.20: the keys may have been chosen by an attacker"))
        return found

    def summary(self, now):
        f = self.figures(now)
        seen = self.examined
        reasons = self.reasons(now, f) if seen else []
        status = "unknown" if not seen else "fine" if not reasons else "watch" if reasons[0][0] in ("fill", "polluted") else "act"
        observed = wilson(f["fps"], f["absent"]) if (self.gate or self.seed % 3 == 0) and f["absent"] else None
        measured = wilson(round(16384 * f["predicted"]), 16384)
        told = {
            "family": self.family, "kind": self.kind, "bytes": self.bits // 8, "layers": 1 + self.seed % 3 if self.kind in ("scalable", "window") else 1,
            "capacity": self.capacity, "target": self.rate, "requested": self.rate, "items": estimate(f["items"], 0.002) if seen else None,
            "fill": f["fill"] if seen else None, "predicted": f["predicted"] if seen else None, "measured": measured if seen else None,
            "observed": observed, "examined": now - 3.5 if seen else None,
            "counters": {"queries": f["queries"], "maybes": f["maybes"], "adds": f["adds"], "news": f["news"], "refused": 3 if self.seed % 17 == 1 else 0},
            "avoided": f["queries"] - f["maybes"], "wasted": f["fps"] if observed else None, "age_seconds": self.seconds(now),
            "expires_in_seconds": self.expires - now if self.expires else None, "available": True, "degraded": self.degraded, "overflowed": False,
            "polluted": self.polluted, "rebuilding": self.seed % 61 == 5, "false_negatives": 0,
            "health": {"status": status, "reasons": [{"code": c, "text": t} for c, t in reasons]},
        }
        return {**named(self.name), **told}

    def detail(self, now):
        f = self.figures(now)
        s = self.summary(now)
        seen = self.examined
        window = self.kind == "window"
        s.update({
            "geometry": {"units": self.bits // 512, "bits": self.bits, "k": self.k, "width": 4 if self.kind == "counting" else 0, "shards": 1, "foldable": 2},
            "bits_per_key": self.bits / f["items"] if seen and f["items"] >= 1 else None,
            "ones": int(self.bits * f["fill"]) if seen else None, "saturated": 0 if seen else None,
            "hash": {"profile": "keyed", "key_id": "9f2c41d07be35a18"}, "can": CAN[self.kind], "created": self.born - self.age,
            "generation": self.generation, "complete_sequence": self.generation * 1000, "digest": self.digest() if self.generation else None,
            "ones_per_insert": self.k * 0.71 if seen and f["adds"] else None, "honest_ones_per_insert": self.k * 0.708 if seen and f["adds"] else None,
            "history": {"swaps": self.generation, "reloads": self.generation // 2, "reloads_unchanged": 4, "reloads_failed": self.seed % 3,
                        "rebuilds": self.generation - self.generation // 2, "rebuilds_failed": 0, "compactions": 1, "retired_lists": 0},
            "migrating": False, "rebuild": {"phase": "adding", "keys": int(self.capacity * 0.6), "expected": self.capacity, "seconds": 12.5, "seconds_left": 8.25}
            if s["rebuilding"] else None,
            "last_failure": "checksum of block 3: found 5a0c93d1, expected 77e1b022" if self.seed % 3 else None,
            "window": {"mode": "generations", "generations": 8, "seconds": 3600.0, "count": None} if window else None,
            "growth": {"expansion": 2, "expansions": 1} if self.family == "bf" else None,
        })
        return s

    def digest(self):
        return hashlib.sha256(f"{self.seed} {self.generation} {len(self.keys)} {self.cleared}".encode()).hexdigest()[:32]

    def may_contain(self, key):
        draw = int.from_bytes(hashlib.sha256(b"%d " % self.seed + key).digest()[:8], "big") / 2 ** 64
        return key in self.keys or draw < self.rate


def named(name, member="name"):
    try:
        return {member: name.decode()}
    except UnicodeDecodeError:
        return {member: name.decode(errors="replace"), f"{member}_base64": base64.b64encode(name).decode()}


# ---- Gates, users, events ----------------------------------------------------------------------

def gate_of(f, now, name):
    g = f.figures(now)
    s = f.summary(now)
    cache = g["fps"] // 20
    present = g["queries"] - g["absent"]
    counts = [g["absent"] - g["fps"], cache, g["fps"] - cache, present, 0, 0]
    down = name == "orders"
    return {**named(name.encode()),
            "filter": {"kind": s["kind"], "bytes": s["bytes"], "layers": 1, "capacity": f.capacity, "items": s["items"], "fill": s["fill"],
                       "measured": s["measured"], "examined": s["examined"], "overflowed": False},
            "source": {"type": "sqlite" if name == "catalogue" else "postgresql", "description": f"{name}(id)",
                       "url": "sqlite:/var/lib/shop.db" if name == "catalogue" else "postgresql://reader@10.0.0.7/shop", "state": "down" if down else "up", "error": "connection refused: is the server running on 10.0.0.7, port 5432?" if down else None,
                       "follows": "changes" if name == "catalogue" else "logical"},
            "complete": {"state": "unknown" if down else "complete", "sequence": 20120 + int(now - f.born), "lag_seconds": 93.0 if down else 0.4, "keys": int(g["items"])},
            "lookups": sum(counts), "outcomes": dict(zip(OUTCOMES, counts)),
            "truth": {"calls": counts[2] + counts[3] + 40, "errors": 17 if down else 0, "seconds": (counts[2] + counts[3] + 40) * 0.00213},
            "avoided": counts[0], "wasted": g["fps"], "observed": wilson(g["fps"], g["absent"]), "predicted": g["predicted"], "target": f.rate,
            "drifting": False, "doubtful": False, "breaker": {"state": "open" if down else "closed", "opened": 2 if down else 0, "spared": 4100 if down else 0},
            "audits": counts[0] // 1000, "false_negatives": 0, "shared": 12, "reported": 0, "negative_cache": {"entries": 250, "hits": cache},
            "writes": 301, "write_errors": 0, "rebuild": s.get("rebuild"),
            "last_build": {"time": now - 4000, "seconds": 2.1, "keys": int(f.capacity * f.part)}, "rebuilds": 3, "rebuilds_failed": 0, "last_failure": None,
            "health": {"status": "act", "reasons": [{"code": "incomplete", "text": "the gate cannot use its source: connection refused: is the server running on 10.0.0.7, port 5432?"}]}
            if down else s["health"]}


class World:
    def __init__(self, options):
        self.options = options
        self.start = time.time()
        self.lock = threading.Lock()
        self.filters = {}
        self.events = []
        self.sampled = {}
        for i in range(options.filters):
            area = ["users", "sessions", "orders", "urls", "mail", "images", "coupons", "devices", "logins", "tokens"][i % 10]
            self.put(f"{area}:{i // 10:04d}" if options.filters > 40 else f"{area}" if i < 10 else f"{area}:{['eu', 'us', 'asia', 'test'][i // 10 - 1]}", i)
        if options.hostile:
            for i, name in enumerate([n.encode() for n in HOSTILE] + HOSTILE_BYTES):
                self.put_bytes(name, 5000 + i)
        self.gates = {}
        for name in () if options.bare else ("catalogue", "orders"):
            f = self.put_bytes(name.encode(), 42 if name == "catalogue" else 44, kind="blocked", capacity=2000000, rate=0.01)
            f.degraded = f.polluted = False
            f.part, f.examined, f.gate, f.speed, f.age = 0.86, True, name, 2200.0, 9.3 * 86400
            self.gates[name] = f
        self.seed_events()

    def now(self):
        return self.start if self.options.frozen else time.time()

    def put(self, name, seed):
        return self.put_bytes(name.encode(), seed)

    def put_bytes(self, name, seed, **more):
        self.filters[name] = Filter(name, seed, self.start, **more)
        return self.filters[name]

    def event(self, level, kind, message, name=None, at=None):
        told = {"id": len(self.events) + 1, "time": at or self.now(), "level": level, "type": kind, "message": message}
        if name is not None:
            told.update(named(name, "filter"))
        self.events.append(told)

    def seed_events(self):
        names = list(self.filters)[:8] or [b"none"]
        t = self.start - 90000
        script = [("info", "started", "version 0.1.0, 2 workers"), ("info", "loaded", "all filters in 0.8 s"), ("info", "snapshot", "38 filters, 412 MiB in 1.9 s"),
                  ("info", "rebuilt", "1,240,112 keys in 2.1 s", 0), ("warning", "file_refused", "checksum of block 3: found 5a0c93d1, expected 77e1b022", 1),
                  ("info", "reloaded", "generation 12, digest 3a9be4a31cbf96dd", 1), ("warning", "reload_failed", "format version: found 2.0, expected 1.x", 2),
                  ("info", "created", "blocked, 1,000,000 keys at 1%, 1.2 MiB", 3), ("error", "snapshot_failed", "no space left on device"),
                  ("info", "snapshot", "38 filters, 412 MiB in 2.0 s"), ("warning", "login_failed", "user admin from 127.0.0.1"),
                  ("error", "source_down", "connection refused", 0), ("error", "breaker_opened", "5 failures in a row", 0), ("info", "breaker_closed", "the source is answering again", 0),
                  ("info", "rebuild_started", "about 2,000,000 keys", 4), ("info", "expired", "after 1d 0h", 5), ("warning", "limited", "user shop: over 1,000 adds per second")]
        for i in range(60):
            level, kind, message, *which = script[i % len(script)]
            t += random.Random(i).uniform(200, 2600)
            self.event(level, kind, message, names[which[0] % len(names)] if which else None, at=min(t, self.start - (60 - i) * 20))
        if self.options.hostile:
            for name in [HOSTILE[0].encode(), HOSTILE[4].encode(), HOSTILE_BYTES[0]]:
                self.event("warning", "file_refused", "<b>not a filter file</b>", name, at=self.start - 5)

    # -- the service as a whole --

    def totals(self, now):
        """Returns the totals over all filters. Like the service, the mock recomputes them only once per second."""
        with self.lock:
            if self.sampled.get("at", -9) < now - 0.9 or self.options.frozen or self.sampled.get("n") != len(self.filters):
                all_of = [f.summary(now) for f in self.filters.values()]
                counters = {k: sum(s["counters"][k] for s in all_of) for k in ("queries", "maybes", "adds", "news", "refused")}
                self.sampled = {"at": now, "n": len(self.filters), "all": all_of, "counters": counters, "bytes": sum(s["bytes"] for s in all_of),
                                "items": sum(s["items"]["value"] for s in all_of if s["items"]), "avoided": sum(s["avoided"] for s in all_of),
                                "health": {k: sum(s["health"]["status"] == k for s in all_of) for k in ("fine", "watch", "act", "unknown")}}
            return self.sampled

    def info(self, user):
        now = self.now()
        t = self.totals(now)
        loading = self.options.loading
        return {"version": "0.1.0", "cpu": "avx2", "state": "loading" if loading else "ready", "now": now, "started": self.start - 90000,
                "uptime_seconds": now - self.start + 90000, "workers": 2, "tls": False, "users": bool(self.options.user),
                "user": {"name": user, "admin": True, "write": True,
                         "can": ["add", "create", "rename", "drop", "clear", "rotate", "download", "verify", "rebuild"]},
                "memory": {"filter_bytes": t["bytes"], "rss_bytes": int(t["bytes"] * 1.02) + 9 * 2 ** 20, "limit_bytes": 8 * 2 ** 30},
                "connections": {"resp": 37, "http": 2, "accepted": 4112, "refused": 0, "limit": 10000},
                "network": {"received_bytes": int(41e9 + 1.2e6 * (now - self.start)), "sent_bytes": int(11e9 + 4e5 * (now - self.start))},
                "commands": t["counters"]["queries"] // 3, "filters": {"count": len(self.filters), "items": t["items"], **t["health"]}, "gates": len(self.gates),
                "counters": t["counters"], "avoided": t["avoided"],
                "persistence": {"enabled": True, "dir": "/var/lib/bloomgate", "appendfsync": "everysec",
                                "log": {"bytes": 48123904, "unsynced": 0, "syncs": 90123, "failed": False, "error": None},
                                "snapshot": {"running": False, "last_success": now - 712.0, "last_seconds": 1.93, "failures": 1, "error": None},
                                "loading": {"filters": 12, "expected": 40} if loading else None},
                "limits": {"max_body_bytes": 67108864, "max_upload_bytes": None, "max_keys": 1000000, "max_key_bytes": 65536, "max_name_bytes": 16384,
                           "max_filter_bytes": 4 * 2 ** 30, "max_filters": None, "idle_seconds": 60}}

    def tenants(self):
        now = self.now()
        rows = []
        for name, rules, patterns, limits, rate, refused in [
                ("admin", ["+@all"], ["*"], (None, None), (4.5, 0.0), (0, 0)),
                ("shop", ["+@read", "+@write", "-@dangerous"], ["orders*", "coupons*"], (1000, 2000), (1840.25, 961.5), (1219, 4)),
                ("reader", ["+@read"], ["users*"], (None, None), (320.0, 0.0), (0, 31)),
                ("old-batch", ["+@read", "+@write"], ["mail*"], (100, 100), (0.0, 0.0), (7, 0))]:
            mine = [s for s in self.totals(now)["all"] if any(fnmatch.fnmatchcase(s["name"], p) for p in patterns)]
            rows.append({"name": name, "enabled": name != "old-batch", "admin": name == "admin", "rules": rules, "patterns": patterns, "filters": len(mine),
                         "bytes": sum(s["bytes"] for s in mine), "items": sum(s["items"]["value"] for s in mine if s["items"]), "connections": 4,
                         "counters": {k: sum(s["counters"][k] for s in mine) for k in ("queries", "adds")},
                         "per_second": {"queries": rate[0], "adds": rate[1]},
                         "limits": {**dict(zip(("inserts_per_second", "burst"), limits)), "bytes": 2 ** 34 if limits[0] else None,
                                    "filters": 20 if limits[0] else None},
                         "charged": {"bytes": sum(s["bytes"] for s in mine) if limits[0] else None, "filters": len(mine) if limits[0] else None},
                         "refused": {**dict(zip(("rate", "rights"), refused)), "quota": 0}})
        return {"tenants": rows}

    def gate_series(self, f, points, quiet, wave):
        """Returns the series of a gate. The source of "orders" is down."""
        g = f.figures(self.now())
        share, down = g["absent"] / max(1, g["queries"]), f.gate == "orders"
        rates = {"lookups_per_second": f.speed, "avoided_per_second": f.speed * share * (1 - g["predicted"]), "wasted_per_second": f.speed * share * g["predicted"],
                 "calls_per_second": f.speed * (1 - share), "errors_per_second": 2.0 if down else 0.0, "call_seconds": 0.00213, "items": g["items"],
                 "predicted": g["predicted"], "observed": g["predicted"], "observed_low": g["predicted"] * 0.9, "observed_high": g["predicted"] * 1.1, "lag_seconds": 0.4}
        still = ("items", "predicted", "observed", "observed_low", "observed_high")
        return {name: [None if quiet(t) else base if name in still else wave(t, f.seed, base) for t in points] for name, base in rates.items()}

    def history(self, f, seconds, wanted, gate=None):
        now = self.now()
        step = 2 if seconds <= 600 else 10 if seconds <= 3600 else 60 if seconds <= 21600 else 240
        n = max(2, seconds // step)
        begin = math.floor(now / step) * step - (n - 1) * step
        points = [begin + i * step for i in range(n)]
        wave = lambda t, seed, base, part=0.25: max(0.0, base * (1 + part * math.sin(t / 97 + seed) + part / 2 * math.sin(t / 13 + seed * 3) + 0.05 * math.sin(t * 1.7 + seed)))
        quiet = lambda t: n > 40 and begin + n * step * 0.08 > t  # the start of a long series, which has no data
        series = {}
        if gate:
            series = self.gate_series(gate, points, quiet, wave)
        elif f:
            g = f.figures(now)
            s = f.summary(now)
            q = [None if quiet(t) else wave(t, f.seed, f.speed) for t in points]
            share = g["maybes"] / max(1, g["queries"])
            series["queries_per_second"] = q
            series["maybes_per_second"] = [None if v is None else v * share * (1 + 0.06 * math.sin(points[i] / 31)) for i, v in enumerate(q)]
            series["adds_per_second"] = [None if quiet(t) else wave(t, f.seed + 1, f.adds, 0.5) for t in points]
            series["refused_per_second"] = [None if quiet(t) else 0.0 for t in points]
            grow = lambda t: max(0.0, g["items"] * (1 - 0.25 * (now - t) / max(seconds, 1)))
            rate_at = f.rate_with
            series["items"] = [None if quiet(t) else grow(t) for t in points]
            series["fill"] = [None if quiet(t) else f.fill_with(grow(t)) for t in points]
            series["predicted"] = [None if quiet(t) else rate_at(grow(t)) for t in points]
            series["measured"] = [None if quiet(t) else rate_at(grow(t)) * (1 + 0.08 * math.sin(t * 3.1)) for t in points]
            o = s["observed"]
            for name, factor in (("observed", 1.0), ("observed_low", 0.9), ("observed_high", 1.1)):
                series[name] = [None if quiet(t) or not o else rate_at(grow(t)) * 1.03 * factor * (1 + 0.02 * math.sin(t / 50)) for t in points]
            series["avoided_per_second"] = [None if v is None else v * (1 - share) for v in q]
            series["wasted_per_second"] = [None if v is None or not o else v * (1 - f.present) * g["predicted"] for v in q]
            series["bytes"] = [float(f.bits // 8)] * n
        else:
            speed = sum(x.speed for x in self.filters.values())
            for name, seed, base in (("queries_per_second", 1, speed), ("maybes_per_second", 1, speed * 0.2), ("adds_per_second", 2, speed * 0.01),
                                     ("commands_per_second", 3, speed / 3), ("connections", 4, 39), ("received_bytes_per_second", 5, speed * 41),
                                     ("sent_bytes_per_second", 6, speed * 9)):
                series[name] = [None if quiet(t) else wave(t, seed, base) for t in points]
            series["refused_per_second"] = [None if quiet(t) else 0.0 for t in points]
            total = self.totals(now)["bytes"]
            series["filter_bytes"] = [None if quiet(t) else float(total) for t in points]
            series["rss_bytes"] = [None if quiet(t) else total * 1.02 + 9 * 2 ** 20 for t in points]
        if wanted:
            series = {k: v for k, v in series.items() if k in wanted}
        return {**(named(f.name, "filter") if f else {"gate": gate.gate} if gate else {}), "kept": True, "from": float(begin), "step": float(step), "points": n, "series": series}


# ---- The planner, with approximate formulas ------------------------------------------------------

def bits_for(kind, p):
    l = -math.log2(p)
    return {"classic": 1.44 * l, "partitioned": 1.445 * l, "blocked": 1.44 * l * (1.0 + 0.0052 * l ** 1.02), "split": 1.44 * l * (1.02 + 0.012 * l),
            "register": 1.44 * l * (0.95 + 0.045 * l), "counting": 4 * 1.44 * l * (1 + 0.02 * l), "cuckoo": (math.ceil((l + 3) / 4) * 4) / 0.95,
            "quotient": (math.ceil(l) + 2.1) / 0.7, "fuse": 1.13 * (8 if l <= 8 else 16 if l <= 16 else 32), "ribbon": 1.01 * math.ceil(l),
            "scalable": 1.9 * l + 2, "window": 2.0 * 1.44 * l}[kind]


def rate_with(kind, bits_per_key, p, multiple):
    """Returns the false-positive rate at this multiple of the planned number of keys, or None if that many keys do not
    fit."""
    if kind in ("fuse", "ribbon"):
        return p if abs(multiple - 1) < 1e-9 else None
    if kind in ("cuckoo", "quotient"):
        return p * multiple if multiple <= 1.05 else None
    if kind == "scalable":
        return p * min(1, 0.3 + 0.08 * multiple)
    k = max(1, -math.log2(p))
    return (1 - math.exp(-multiple * math.log(2))) ** k


LINES = {"classic": 7, "partitioned": 7, "cuckoo": 2, "fuse": 3, "ribbon": 2, "window": 8}


def plan(query):
    items = whole(query, "items", 0, 1, 2 ** 53)
    error = float(query.get("error") or 0.01)
    growth = float(query.get("growth") or 1)
    points = int(query.get("points") or 0)
    number = lambda name: float(query[name]) if query.get(name) else None
    qps, call, memory = number("queries_per_second"), number("call_cost"), number("memory_cost")
    absent = number("absent_share") or 1.0
    if not 0 < error < 1:
        raise ApiError(400, "bad_request", f"error: found {error:g}, expected a number above 0 and below 1")
    kinds, curves = [], []
    for kind in KINDS:
        sized = int(items * growth)
        b = bits_for(kind, error)
        got = {"fuse": 2.0 ** -(8 if -math.log2(error) <= 8 else 16 if -math.log2(error) <= 16 else 32), "ribbon": 2.0 ** -math.ceil(-math.log2(error))}.get(kind, error * 0.9998)
        size = max(64, int(sized * b / 8 / 64) * 64)
        if kind == "register" and error < 1e-4:
            kinds.append({"kind": kind, "possible": False, "problem": f"register: found rate {error:g}, expected 0.0001 or more: a word has 64 bits"})
            continue
        wasted = qps * absent * got if qps else None
        kinds.append({"kind": kind, "possible": True, "problem": None, "items": sized, "bytes": size, "bits_per_key": size * 8 / sized, "k": max(1, round(-math.log2(error))),
                      "units": size // 64, "layers": 8 if kind == "window" else 1, "rate": got, "rate_2x": rate_with(kind, b, got, 2.0), "rate_10x": rate_with(kind, b, got, 10.0),
                      "fill": 0.5, "target": error, "cache_level": 1 if size < 32768 else 2 if size < 2 ** 20 else 3 if size < 2 ** 25 else 4,
                      "fits_into": "L1" if size < 32768 else "L2" if size < 2 ** 20 else "L3" if size < 2 ** 25 else "memory" if size < 2 ** 40 else "none",
                      "lines_per_lookup": LINES.get(kind, 1),
                      "calls_avoided": qps * absent * (1 - got) if qps else None, "calls_wasted": wasted,
                      "cost": (memory or 0) * size / 2 ** 30 + (call or 0) * (wasted or 0) if memory or call else None,
                      "reason": f"{kind}: {max(1, round(-math.log2(error)))} bits per key", "can": [c for c in CAN[kind] if c not in ("clear", "add")]})
        if points:
            rates = [10 ** (-0.3 - 6.7 * i / (points - 1)) for i in range(points)]
            rates = [r for r in rates if kind != "register" or r >= 1e-4]
            multiples = [10 ** (-1 + 2 * i / (points - 1)) for i in range(points)]
            curves.append({"kind": kind, "bits_per_key": [bits_for(kind, r) for r in rates], "bytes": [int(sized * bits_for(kind, r) / 8) for r in rates], "rate": rates,
                           "multiple": multiples, "rate_at": [rate_with(kind, b, got, m) for m in multiples]})
    return {"request": {"items": items, "error": error, "growth": growth}, "kinds": kinds,
            "recommended": {"kind": "blocked", "reason": "blocked: a lookup reads 6 bits of one cache line"},
            "hints": ["all keys are known in advance: ribbon needs 29% less; no keys can be added later", "keys have to be deleted: cuckoo needs 27% more",
                      "the number of keys is unknown: scalable needs 39% more; it grows"], "curves": curves}


# ---- HTTP --------------------------------------------------------------------------------------

class ApiError(Exception):
    def __init__(self, status, code, message, headers=()):
        super().__init__(message)
        self.status, self.code, self.headers = status, code, headers


def segment_bytes(segment):
    if segment.startswith("="):
        text = segment[1:]
        try:
            return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
        except ValueError:
            raise ApiError(400, "bad_request", "name: text after '=' is not valid base64url") from None
    return urllib.parse.unquote_to_bytes(segment)


def whole(query, name, usual, least, most):
    text = query.get(name, str(usual))
    if not text.isdigit() or not least <= int(text) <= most:
        raise ApiError(400, "bad_request", f"{name}: found {text[:40]}, expected an integer from {least} to {most}")
    return int(text)


def parameter_bytes(value):
    return segment_bytes(value) if value.startswith("=") else value.encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world = None

    def log_message(self, format, *args):
        pass

    # -- answers --

    def answer(self, status, body, kind, headers=()):
        data = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Security-Policy", POLICY)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and status not in (204, 304):
            self.wfile.write(data)

    def json(self, value, status=200, headers=()):
        self.answer(status, b"" if value is None else json.dumps(value).encode(), "application/json", [("Cache-Control", "no-store"), *headers])

    def asset(self, file, kind=None):
        path = os.path.join(WEB, file)
        if "/" in file or file.startswith(".") or not os.path.isfile(path):
            raise ApiError(404, "not_found", f"there is no file {file[:80]}")
        with open(path, "rb") as f:
            data = f.read()
        tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
        if self.headers.get("If-None-Match") == tag:
            return self.answer(304, b"", kind or TYPES[os.path.splitext(file)[1]], [("ETag", tag)])
        return self.answer(200, data, kind or TYPES[os.path.splitext(file)[1]], [("ETag", tag), ("Cache-Control", "no-cache")])

    # -- requests --

    def do_GET(self):
        self.serve()

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def serve(self):
        try:
            self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.route()
        except ApiError as error:
            self.json({"error": {"code": error.code, "message": str(error)}}, error.status, error.headers)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def who(self):
        wanted = self.world.options.user
        if not wanted:
            return None
        user = wanted.split(":")[0]
        if self.headers.get("Authorization") in ("Basic " + base64.b64encode(wanted.encode()).decode(), "Bearer " + wanted.split(":")[1]):
            return user
        challenge = 'Bearer realm="bloomgate"' if self.headers.get("X-Bloomgate") else 'Basic realm="bloomgate", charset="UTF-8"'
        raise ApiError(401, "unauthorized", "authentication failed: send a valid user and password with Basic or Bearer authorization", [("WWW-Authenticate", challenge)])

    def guard(self, path):
        """Refuses requests that change something if they might come from another website."""
        if self.command in ("GET", "HEAD"):
            return
        kind = (self.headers.get("Content-Type") or "").split(";")[0].strip().lower()
        simple = kind in ("", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
        site = self.headers.get("Sec-Fetch-Site")
        origin = self.headers.get("Origin")
        if site in ("cross-site", "same-site") or (origin and origin.split("://")[-1] != self.headers.get("Host")) or (
                self.command == "POST" and simple and not self.headers.get("X-Bloomgate") and not path.endswith("/check")):
            raise ApiError(403, "cross_site", "the request may come from another website: send an X-Bloomgate header, or set the content type of the body")

    def route(self):
        url = urllib.parse.urlsplit(self.path)
        path = url.path
        query = dict(urllib.parse.parse_qsl(url.query))
        loading = self.world.options.loading
        if path in ("/", "/index.html"):
            return self.asset("index.html")
        if path.startswith("/assets/"):
            return self.asset(path[len("/assets/"):])
        if path == "/openapi.yaml":
            return self.asset("openapi.yaml")
        if path == "/healthz":
            return self.answer(200, "ok\n", "text/plain; charset=utf-8")
        if path == "/readyz":
            state = "loading" if loading else "ready"
            if query.get("verbose") in ("1", "true"):
                return self.json({"state": state, "checks": [{"name": "recovery", "ok": not loading}]}, 503 if loading else 200)
            return self.answer(503 if loading else 200, state + "\n", "text/plain; charset=utf-8", [("Retry-After", "1")] if loading else [])
        user = self.who()
        self.guard(path)
        if path in ("/metrics", "/api/v1/info", "/api/v1/events") and self.command not in ("GET", "HEAD"):
            raise ApiError(405, "method_not_allowed", f"method {self.command} is not allowed; use GET, HEAD", [("Allow", "GET, HEAD")])
        if path == "/metrics":
            return self.answer(200, metrics(self.world), "text/plain; version=0.0.4; charset=utf-8", [("Cache-Control", "no-store")])
        if path == "/api/v1/info":
            return self.json(self.world.info(user))
        if path == "/api/v1/events":
            return self.list_events(query)
        if loading:
            raise ApiError(503, "loading", "the service is still loading its filters; try again later", [("Retry-After", "1")])
        return self.route_api(path, query)

    def route_api(self, path, query):
        parts = path.split("/")
        world = self.world
        if path == "/api/v1/filters":
            return self.create() if self.command == "POST" else self.list_filters(query)
        if path.startswith("/api/v1/filters/") and len(parts) in (5, 6):
            return self.on_filter(segment_bytes(parts[4]), parts[5] if len(parts) == 6 else "", query)
        if path == "/api/v1/plan":
            return self.json(plan(query))
        if path == "/api/v1/gates":
            return self.json({"gates": [gate_of(f, world.now(), name) for name, f in world.gates.items()]})
        if path.startswith("/api/v1/gates/") and len(parts) in (5, 6):
            return self.on_gate(segment_bytes(parts[4]), parts[5] if len(parts) == 6 else "")
        if path == "/api/v1/fronts":
            return self.json({"fronts": []})
        if path == "/api/v1/tenants":
            return self.json(world.tenants())
        if path == "/api/v1/history":
            f = self.find(parameter_bytes(query["filter"])) if "filter" in query else None
            gate = world.gates.get(query.get("gate"))
            if "gate" in query and not gate:
                raise ApiError(404, "not_found", f"there is no gate {query['gate'][:80]}")
            if f and gate:
                raise ApiError(400, "bad_request", "filter and gate: set only one")
            return self.json(world.history(f, whole(query, "seconds", 600, 1, 86400), [m for m in query.get("metric", "").split(",") if m], gate))
        raise ApiError(404, "not_found", f"unknown path {path[:200]}")

    def find(self, name):
        found = self.world.filters.get(name)
        if not found:
            raise ApiError(404, "not_found", f"there is no filter {name.decode(errors='replace')[:80]}")
        return found

    def parsed(self):
        if (self.headers.get("Content-Type") or "").split(";")[0] not in ("application/json", ""):
            raise ApiError(415, "unsupported_media_type", f"unsupported content type {self.headers.get('Content-Type')}; send application/json")
        try:
            return json.loads(self.body or b"{}")
        except ValueError as error:
            raise ApiError(400, "bad_request", f"body: {error}") from None

    # -- filters --

    def list_filters(self, query):
        count, offset = whole(query, "count", 100, 1, 1000), whole(query, "offset", 0, 0, 2 ** 53)
        for name, words in (("sort", SORTS), ("order", ["asc", "desc"]), ("health", ["fine", "watch", "act", "unknown"]), ("kind", KINDS)):
            if name in query and query[name] not in words:
                raise ApiError(400, "bad_request", f"{name}: found {query[name][:40]}, expected one of {', '.join(words)}")
        if "cursor" in query:
            offset = int(query["cursor"])
        rows = self.world.totals(self.world.now())["all"]
        chosen = [s for s in rows if fnmatch.fnmatchcase(s["name"], query.get("pattern", "*")) and query.get("search", "").lower() in s["name"].lower()
                  and s["health"]["status"] == query.get("health", s["health"]["status"]) and s["kind"] == query.get("kind", s["kind"])]
        how = query.get("sort", "name")
        value = {"items": lambda s: s["items"] and s["items"]["value"], "observed": lambda s: s["observed"] and s["observed"]["value"],
                 "queries": lambda s: s["counters"]["queries"], "age": lambda s: s["age_seconds"],
                 "health": lambda s: {"fine": 0, "watch": 1, "act": 2, "unknown": None}[s["health"]["status"]]}.get(how, lambda s: s[how])
        chosen.sort(key=lambda s: s["name"])
        known = [s for s in chosen if value(s) is not None]
        known.sort(key=value, reverse=query.get("order") == "desc")
        chosen = known + [s for s in chosen if value(s) is None]
        page = chosen[offset:offset + count]
        after = offset + count
        return self.json({"filters": page, "next": str(after) if after < len(chosen) else None, "total": len(rows), "matched": len(chosen)})

    def create(self):
        spec = self.parsed()
        name = base64.b64decode(spec["name_base64"]) if "name_base64" in spec else str(spec.get("name", "")).encode()
        if "name" not in spec and "name_base64" not in spec:
            raise ApiError(400, "bad_request", "name is missing")
        if not isinstance(spec.get("capacity", 100), int) or spec.get("capacity", 100) < 1:
            raise ApiError(400, "bad_request", f"capacity: found {json.dumps(spec['capacity'])}, expected an integer of 1 or more")
        if name in self.world.filters:
            raise ApiError(409, "exists", f"filter {name.decode(errors='replace')[:80]} already exists")
        kind = spec.get("kind", "auto")
        made = self.world.put_bytes(name, 7, kind="blocked" if kind == "auto" else kind, capacity=spec.get("capacity", 100), rate=spec.get("error", 0.01))
        made.born, made.age, made.part, made.speed, made.adds, made.cleared = self.world.now(), 0.0, 0, 0.0, 0.0, self.world.now()
        made.generation, made.expires = 0, self.world.now() + spec["expires_in_seconds"] if spec.get("expires_in_seconds") else None
        made.degraded = made.polluted = False
        made.examined = True
        made.seed = 21
        self.world.event("info", "created", f"{made.kind}, {made.capacity:,} keys", name)
        return self.json(made.detail(self.world.now()), 201, [("Location", "/api/v1/filters/" + urllib.parse.quote_from_bytes(name, safe=""))])

    def on_filter(self, name, action, query):
        if action == "file" and self.command == "PUT":
            return self.upload(name)
        f = self.find(name)
        world, now = self.world, self.world.now()
        if action == "" and self.command == "DELETE":
            del world.filters[name]
            world.event("info", "dropped", "by request", name)
            return self.json(None, 204)
        if action == "" and self.command == "PATCH":
            return self.patch(f)
        if action == "":
            return self.json(f.detail(now))
        if action == "occupancy":
            return self.occupancy(f, whole(query, "cells", 1024, 1, 16384))
        if action == "file":
            tag = f'"{f.digest()}"'
            if self.headers.get("If-None-Match") == tag:
                return self.answer(304, b"", "application/vnd.bloomgate", [("ETag", tag)])
            return self.answer(200, b"\x89BG\r\n" + random.Random(f.seed).randbytes(min(f.bits // 8, 65536)), "application/vnd.bloomgate",
                               [("ETag", tag), ("Content-Disposition", 'attachment; filename="filter.bg"'), ("Cache-Control", "no-cache")])
        if action == "check" and self.command == "GET":
            keys = [v.encode() for k, v in urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True) if k == "key"]
            if not keys:
                raise ApiError(400, "bad_request", "key: missing or malformed")
            results = [f.may_contain(key) for key in keys]
            return self.json({"results": results, "keys": len(keys), "maybe": sum(results)})
        if self.command != "POST":
            raise ApiError(405, "method_not_allowed", f"method {self.command} is not allowed; use POST", [("Allow", "POST")])
        return self.act(f, action)

    def act(self, f, action):
        world, now = self.world, self.world.now()
        if action in ("check", "add"):
            return self.keys(f, action)
        self.parsed()
        if action == "verify":
            s = f.summary(now)
            return self.json({"ok": not f.degraded, "digest": f.digest(), "degraded": f.degraded, "predicted": s["predicted"], "measured": s["measured"],
                              "problems": ["2 of 64 blocks of its file were damaged"] if f.degraded else [], "seconds": 0.0123})
        if action in ("clear", "rotate", "fold", "merge"):
            if action != "clear" and action not in CAN[f.kind] or action == "clear" and not CAN[f.kind]:
                raise ApiError(422, "not_supported", f"a {f.kind} filter cannot {action}")
            if action == "clear":
                f.cleared, f.keys, f.adds, f.expires, f.degraded = now, set(), 0.0, None, False
            f.generation += action == "rotate"
            world.event("info", {"clear": "cleared", "rotate": "rotated", "fold": "folded", "merge": "merged"}[action], "by request", f.name)
            world.sampled = {}
            return self.json(f.detail(world.now()))
        raise ApiError(404, "not_found", f"there is no action {action[:40]}")

    def keys(self, f, action):
        kind = (self.headers.get("Content-Type") or "").split(";")[0]
        if kind == "text/plain":
            keys = self.body.split(b"\n")
            keys = keys[:-1] if keys and keys[-1] == b"" else keys
        elif kind == "application/x-ndjson":
            rows = [json.loads(line) for line in self.body.splitlines() if line.strip()]
            keys = [row.encode() if isinstance(row, str) else base64.b64decode(row["key"]) if row.get("encoding") == "base64" else row["key"].encode() for row in rows]
        else:
            told = self.parsed()
            if not isinstance(told.get("keys"), list) or not all(isinstance(k, str) for k in told["keys"]):
                raise ApiError(400, "bad_request", "keys: expected a list of strings")
            keys = [base64.b64decode(k) if told.get("encoding") == "base64" else k.encode() for k in told["keys"]]
        if action == "add" and not CAN[f.kind]:
            raise ApiError(422, "not_supported", f"a {f.kind} filter accepts no keys after it was built")
        results = []
        for key in keys:
            maybe = f.may_contain(key)
            results.append(maybe if action == "check" else not maybe)
            if action == "add":
                f.keys.add(key)
        word = "maybe" if action == "check" else "new"
        if kind == "text/plain":
            return self.answer(200, "".join(f"{int(r)}\n" for r in results), "text/plain; charset=utf-8")
        if kind == "application/x-ndjson":
            return self.answer(200, "".join(json.dumps({word: r}, separators=(",", ":")) + "\n" for r in results), "application/x-ndjson")
        return self.json({"results": results, "keys": len(keys), word: sum(results)})

    def patch(self, f):
        change = self.parsed()
        if "expires_in_seconds" in change:
            f.expires = None if change["expires_in_seconds"] is None else self.world.now() + change["expires_in_seconds"]
        if "name" in change or "name_base64" in change:
            new = base64.b64decode(change["name_base64"]) if "name_base64" in change else change["name"].encode()
            if new in self.world.filters:
                raise ApiError(409, "exists", "a filter with this name already exists")
            self.world.filters[new] = self.world.filters.pop(f.name)
            f.name = new
        if not change:
            raise ApiError(400, "bad_request", "nothing to change: set name, name_base64 or expires_in_seconds")
        return self.json(f.detail(self.world.now()))

    def upload(self, name):
        if not self.body.startswith(b"\x89BG"):
            raise ApiError(422, "bad_file", f"magic: found {self.body[:4].hex() or 'nothing'}, expected 89424700")
        there = name in self.world.filters
        tag = f'"{self.world.filters[name].digest()}"' if there else None
        if (self.headers.get("If-Match") and self.headers["If-Match"] != tag) or (self.headers.get("If-None-Match") == "*" and there):
            raise ApiError(412, "precondition_failed", f"If-Match: the filter has changed; its ETag is now {tag}", [("ETag", tag or '""')])
        f = self.world.filters[name] if there else self.world.put_bytes(name, 21, kind="blocked", capacity=1000, rate=0.01)
        f.generation += 1
        return self.json(f.detail(self.world.now()), 200 if there else 201, [("ETag", f'"{f.digest()}"')])

    def occupancy(self, f, cells):
        made = random.Random(f.seed)
        fill = f.figures(self.world.now())["fill"]
        cells = max(1, min(cells, f.bits // 64))
        spread = math.sqrt(fill * (1 - fill) / max(1, f.bits / cells))
        shares = [min(1.0, max(0.0, made.gauss(fill, spread))) for _ in range(cells)]
        if f.degraded:
            for i in range(cells // 3, cells // 3 + max(1, cells // 32)):
                shares[i] = 1.0
        known = f.kind not in ("quotient", "fuse", "ribbon", "scalable", "window")
        low, high = (max(0, fill - 20 * spread), min(1, fill + 20 * spread)) if known else (None, None)
        return self.json({"cells": cells, "cell_bits": f.bits / cells, "least": min(shares), "mean": sum(shares) / cells, "most": max(shares), "low": low, "high": high,
                          "uneven": sum(not low <= share <= high for share in shares) if known else None, "shares": shares})

    # -- the rest --

    def list_events(self, query):
        events = self.world.events
        since, count = whole(query, "since", 0, 0, 2 ** 53), whole(query, "count", 200, 1, 1000)
        rank = ["info", "warning", "error"]
        found = events[bisect.bisect([e["id"] for e in events], since):]
        found = [e for e in found if rank.index(e["level"]) >= rank.index(query.get("level", "info"))]
        if "filter" in query:
            wanted = named(parameter_bytes(query["filter"]), "filter")
            found = [e for e in found if all(e.get(k) == v for k, v in wanted.items())]
        return self.json({"events": found[-count:], "last": events[-1]["id"] if events else 0, "missed": False})

    def on_gate(self, name, action):
        f = self.world.gates.get(name.decode(errors="replace"))
        if not f:
            raise ApiError(404, "not_found", f"there is no gate {name.decode(errors='replace')[:80]}")
        told = gate_of(f, self.world.now(), name.decode())
        if action == "":
            return self.json(told)
        if action == "row":
            raise ApiError(422, "not_supported", "this gate does not return rows")
        if action == "lookup":
            results = []
            asked = self.parsed().get("keys")
            if not isinstance(asked, list):
                raise ApiError(400, "bad_request", "keys: expected a list of strings")
            for key in asked:
                present = key.startswith("sku")
                down = told["source"]["state"] == "down"
                outcome = "absent_by_filter" if not present and not f.may_contain(key.encode()) else "unknown" if down else "present" if present else "absent_by_truth"
                results.append({"outcome": outcome, "present": None if outcome == "unknown" else outcome == "present"})
            return self.json({"results": results, "seconds": 0.00042})
        if action == "rebuild":
            self.world.event("info", "rebuild_started", f"about {told['complete']['keys']:,} keys", f.name)
            told["rebuild"] = {"phase": "adding", "keys": 1000, "expected": told["complete"]["keys"], "seconds": 0.1, "seconds_left": 12.0}
            return self.json(told, 202)
        raise ApiError(404, "not_found", f"there is no action {action[:40]}")


def metrics(world):
    """Returns the metrics that the dashboard shows, in the format that bg_metrics_write produces."""
    label = lambda s: s["name"].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    rows = world.totals(world.now())["all"]
    values = [("bloomgate_filter_size_bytes", "gauge", lambda s: s["bytes"]), ("bloomgate_filter_layers", "gauge", lambda s: s["layers"]),
              ("bloomgate_filter_capacity_items", "gauge", lambda s: s["capacity"]), ("bloomgate_filter_items", "gauge", lambda s: s["items"] and s["items"]["value"]),
              ("bloomgate_filter_fill_ratio", "gauge", lambda s: s["fill"]), ("bloomgate_filter_target_fpr_ratio", "gauge", lambda s: s["target"]),
              ("bloomgate_filter_predicted_fpr_ratio", "gauge", lambda s: s["predicted"]),
              ("bloomgate_filter_measured_fpr_ratio", "gauge", lambda s: s["measured"] and s["measured"]["value"]),
              ("bloomgate_gate_observed_fpr_ratio", "gauge", lambda s: s["observed"] and s["observed"]["value"])]
    text = ""
    for name, kind, value in values:
        text += f"# TYPE {name} {kind}\n" + "".join(f'{name}{{filter="{label(s)}"}} {value(s)!r}\n' for s in rows if value(s) is not None)
    text += "# TYPE bloomgate_filter_queries_total counter\n"
    for s in rows:
        c = s["counters"]
        text += f'bloomgate_filter_queries_total{{filter="{label(s)}",result="maybe"}} {c["maybes"]}\nbloomgate_filter_queries_total{{filter="{label(s)}",result="no"}} {c["queries"] - c["maybes"]}\n'
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--filters", type=int, default=40)
    parser.add_argument("--hostile", action="store_true", help="include filters whose names contain markup")
    parser.add_argument("--bare", action="store_true", help="no gates")
    parser.add_argument("--frozen", action="store_true", help="stop the clock, so that values can be compared")
    parser.add_argument("--user", help="NAME:PASSWORD; the password is also accepted as a token")
    parser.add_argument("--loading", action="store_true", help="never finish loading")
    Handler.world = World(parser.parse_args())
    server = ThreadingHTTPServer(("127.0.0.1", Handler.world.options.port), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_address[1]}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
