#!/usr/bin/env python3
"""Checks a running service against its contract, server/web/openapi.yaml. Sends valid and invalid requests for every
operation in the document, and checks the status, content type, headers and schema of every response. The document's own
examples are checked as well.

usage: check_contract.py [BASE [NAME:PASSWORD]]     without BASE: starts a mock
Creates filters whose names begin with contract:, and drops them again."""

import base64
import http.client
import json
import os
import re
import subprocess
import sys
import urllib.parse

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "..", "..", "..", "server", "web", "openapi.yaml")
passed = failed = 0


def check(what, good, found=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAILED: {what}: {found}")
    return good


# ---- Schemas: the part of JSON Schema that the document uses --------------------------------------

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


class Contract:
    KNOWN = {"type", "enum", "properties", "required", "items", "oneOf", "allOf", "additionalProperties", "minimum", "maximum", "exclusiveMinimum",
             "exclusiveMaximum", "minItems", "maxItems", "minProperties", "maxLength", "format", "description", "example", "examples", "default", "$ref"}

    def __init__(self):
        with open(DOCUMENT, encoding="utf-8") as file:
            self.document = yaml.safe_load(file)

    def resolve(self, node):
        while "$ref" in node:
            target = self.document
            for part in node["$ref"][2:].split("/"):
                target = target[part]
            node = target
        return node

    def problems(self, value, schema, where="answer"):
        """Returns a message for each violation of the schema."""
        schema = self.resolve(schema)
        unknown = set(schema) - self.KNOWN
        if unknown:
            return [f"{where}: the checker does not support {sorted(unknown)}"]
        found = []
        if "oneOf" in schema:
            fits = [not self.problems(value, part, where) for part in schema["oneOf"]]
            found += [] if sum(fits) == 1 else [f"{where}: {json.dumps(value)[:80]} fits {sum(fits)} of {len(fits)}"]
        for part in schema.get("allOf", []):
            found += self.problems(value, part, where)
        if "type" in schema:
            wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
            if not any(is_type(value, name) for name in wanted):
                return found + [f"{where}: found {json.dumps(value)[:80]}, expected {' or '.join(wanted)}"]
        if "enum" in schema and value not in schema["enum"]:
            found.append(f"{where}: found {json.dumps(value)[:80]}, expected one of {schema['enum']}")
        return found + self.range_problems(value, schema, where) + self.inner_problems(value, schema, where)

    def range_problems(self, value, schema, where):
        found = []
        if is_type(value, "number"):
            for word, bad in (("minimum", lambda a, b: a < b), ("maximum", lambda a, b: a > b), ("exclusiveMinimum", lambda a, b: a <= b),
                              ("exclusiveMaximum", lambda a, b: a >= b)):
                if word in schema and bad(value, schema[word]):
                    found.append(f"{where}: found {value}, but {word} is {schema[word]}")
        return found

    def inner_problems(self, value, schema, where):
        found = []
        if isinstance(value, dict):
            properties = schema.get("properties", {})
            found += [f"{where}: {name} is missing" for name in schema.get("required", []) if name not in value]
            for name, inner in value.items():
                if name in properties:
                    found += self.problems(inner, properties[name], f"{where}.{name}")
                elif isinstance(schema.get("additionalProperties"), dict):
                    found += self.problems(inner, schema["additionalProperties"], f"{where}.{name}")
        if isinstance(value, list) and "items" in schema:
            for i, inner in enumerate(value):
                found += self.problems(inner, schema["items"], f"{where}[{i}]")
        return found

    def unnamed(self, value, schema):
        """Returns the members of a response that are missing from the document. The schema allows such members, but the
        caller reports them as a failure."""
        schema = self.resolve(schema)
        parts = [self.resolve(part) for part in schema.get("allOf", [schema])]
        names = set().union(*[set(self.resolve(p).get("properties", {})) for p in parts])
        return sorted(set(value) - names) if isinstance(value, dict) and names else []

    def check_itself(self):
        """Checks that every reference resolves, every example matches its schema, and operation IDs are unique."""
        ids = []

        def walk(node, where):
            if isinstance(node, list):
                for i, inner in enumerate(node):
                    walk(inner, f"{where}[{i}]")
            if not isinstance(node, dict):
                return
            if "$ref" in node:
                try:
                    self.resolve(node)
                except KeyError:
                    check(f"reference {node['$ref']} at {where}", False, "cannot be resolved")
            if "operationId" in node:
                ids.append(node["operationId"])
            if "schema" in node and "example" in node and isinstance(node["schema"], dict) and "application" not in str(node.get("in")):
                if where.endswith("json") or "in" in node:
                    check(f"example at {where}", not self.problems(node["example"], node["schema"]), self.problems(node["example"], node["schema"]))
            if "example" in node and ("properties" in node or "allOf" in node):
                check(f"example of {where}", not self.problems(node["example"], node), self.problems(node["example"], node))
            for name, inner in node.items():
                if name not in ("example", "examples"):
                    walk(inner, f"{where}/{name}")
        walk(self.document, "")
        check("operation IDs are unique", len(ids) == len(set(ids)) and len(ids) > 20, ids)
        return ids


# ---- Requests -------------------------------------------------------------------------------------

class Service:
    seen = set()  # (operationId, status) pairs of all responses

    def __init__(self, base, contract, user=None):
        self.url = urllib.parse.urlsplit(base)
        self.contract, self.user, self.asked = contract, user, set()

    def operation(self, method, path):
        """Returns the part of the document that describes a request."""
        bare = path.split("?")[0]
        for template, item in self.contract.document["paths"].items():
            pattern = "^" + re.sub(r"\\\{\w+\\\}", "[^/]*", re.escape(template)) + "$"
            if re.match(pattern, bare) and method.lower() in item:
                return item[method.lower()]
        return None

    def ask(self, method, path, expect, body=None, kind="application/json", headers=(), user=True):
        """Sends a request, and checks that the response has the status `expect` and matches the document."""
        sent = dict(headers)
        if body is not None:
            sent["Content-Type"] = kind
            body = json.dumps(body).encode() if kind == "application/json" and not isinstance(body, bytes) else body
        if self.user and user:
            sent["Authorization"] = "Basic " + base64.b64encode(self.user.encode()).decode()
        link = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=300)
        link.putrequest(method, path, skip_host="Host" in sent, skip_accept_encoding=True)
        for name, value in sent.items():
            link.putheader(name, value)
        if method not in ("GET", "HEAD") and "Content-Length" not in sent:
            link.putheader("Content-Length", str(len(body or b"")))
        link.endheaders(body)
        response = link.getresponse()
        data = response.read()
        link.close()
        what = f"{method} {path[:90]}"
        check(f"{what} is {expect}", response.status == expect, f"{response.status} {data[:200]}")
        return response, self.fits(method, path, response, data, what)

    def fits(self, method, path, response, data, what):
        operation = self.operation("GET" if method == "HEAD" else method, path)
        kind = (response.getheader("Content-Type") or "").split(";")[0]
        text = kind == "application/json"
        try:
            value = json.loads(data) if text and data else data
        except ValueError as error:
            check(f"{what} is JSON", False, error)
            return data
        if operation is None:
            if response.status >= 400 and method != "HEAD":
                self.fits_error(value, what)
            return value
        self.asked.add(operation["operationId"])
        self.seen.add((operation["operationId"], str(response.status)))
        told = operation["responses"].get(str(response.status), operation["responses"].get("default") if response.status >= 400 else None)
        if not check(f"{what}: status {response.status} is in the document", told, ""):
            return value
        told = self.contract.resolve(told)
        if "content" in told and method != "HEAD":
            if check(f"{what}: content type", kind in told["content"], f"{kind}, expected {list(told['content'])}") and text:
                schema = told["content"][kind]["schema"]
                found = self.contract.problems(value, schema)
                check(f"{what}: shape", not found, "; ".join(found[:5]))
                extra = self.contract.unnamed(value, schema)
                check(f"{what}: nothing unnamed", not extra, extra)
        for name in told.get("headers", {}):
            check(f"{what}: header {name}", response.getheader(name) is not None or response.status == 503, "missing")
        return value

    def fits_error(self, value, what):
        found = self.contract.problems(value, {"$ref": "#/components/schemas/ErrorBody"})
        check(f"{what}: the error has the documented shape", not found, found)


def quote(name):
    return urllib.parse.quote(name, safe="")


F = "/api/v1/filters"


def ask_service(s):
    _, text = s.ask("GET", "/healthz", 200)
    check("healthz returns ok", text == b"ok\n", text)
    s.ask("GET", "/readyz", 200)
    s.ask("GET", "/readyz?verbose=1", 200)
    response, _ = s.ask("GET", "/metrics", 200)
    check("the content type of the metrics includes the format version", "version=0.0.4" in response.getheader("Content-Type"), response.getheader("Content-Type"))
    _, info = s.ask("GET", "/api/v1/info", 200)
    check("the health counts add up", sum(info["filters"][k] for k in ("fine", "watch", "act", "unknown")) == info["filters"]["count"], info["filters"])
    s.ask("GET", "/api/v1/tenants", 200)
    _, events = s.ask("GET", "/api/v1/events?count=5", 200)
    check("events are sorted by ID", [e["id"] for e in events["events"]] == sorted(e["id"] for e in events["events"]), events)
    _, later = s.ask("GET", f"/api/v1/events?since={events['last']}", 200)
    check("the since parameter selects only later events", all(e["id"] > events["last"] for e in later["events"]), later)
    s.ask("GET", "/api/v1/events?level=error", 200)
    for query in ("", "?seconds=60", "?metric=queries_per_second,adds_per_second&seconds=120"):
        _, past = s.ask("GET", f"/api/v1/history{query}", 200)
        check("series have the stated number of points", all(len(v) == past["points"] for v in past["series"].values()), past["points"])
    s.ask("GET", "/api/v1/history?filter=contract%3Anone", 404)
    s.ask("GET", "/api/v1/nothing", 404)
    response, _ = s.ask("POST", "/api/v1/info", 405, {})
    check("the Allow header lists the allowed methods", "GET" in response.getheader("Allow", ""), response.getheader("Allow"))
    head, body = s.ask("HEAD", "/api/v1/info", 200)
    check("HEAD has no body", body == b"", body)


def ask_assets(s):
    page, text = s.ask("GET", "/", 200)
    policy = page.getheader("Content-Security-Policy") or ""
    check("the page has the documented content security policy", policy == s.contract.document["paths"]["/"]["get"]["responses"]["200"]["headers"]["Content-Security-Policy"]["example"], policy)
    check("the page disables content sniffing", page.getheader("X-Content-Type-Options") == "nosniff", page.getheader("X-Content-Type-Options"))
    files = re.findall(rb'(?:src|href)="(assets/[^"]+)"', text)
    check("the page links to its assets", len(files) >= 3, files)
    for file in files:
        one, _ = s.ask("GET", "/" + file.decode(), 200)
        s.ask("GET", "/" + file.decode(), 304, headers={"If-None-Match": one.getheader("ETag")})
    s.ask("GET", "/assets/nothing.js", 404)
    s.ask("GET", "/assets/..%2fopenapi.yaml", 404)
    document, text = s.ask("GET", "/openapi.yaml", 200)
    with open(DOCUMENT, "rb") as file:
        check("the served document is identical to the file", text == file.read(), len(text))
    s.ask("GET", "/openapi.yaml", 304, headers={"If-None-Match": document.getheader("ETag")})


def ask_list(s):
    _, page = s.ask("GET", F, 200)
    check("total >= matched >= number of listed filters", page["total"] >= page["matched"] >= len(page["filters"]), page["total"])
    seen, cursor = [], ""
    for _ in range(1000):
        _, page = s.ask("GET", f"{F}?count=7&pattern=contract%3A*{cursor}", 200)
        seen += [f["name"] for f in page["filters"]]
        if page["next"] is None:
            break
        cursor = "&cursor=" + quote(page["next"])
    check("pages list every filter once, sorted by name", seen == sorted(seen) and len(seen) == page["matched"] and len(set(seen)) == len(seen), seen)
    for sort in ("name", "kind", "items", "capacity", "fill", "predicted", "observed", "bytes", "queries", "avoided", "age", "health"):
        s.ask("GET", f"{F}?sort={sort}&order=desc&count=3", 200)
    _, page = s.ask("GET", f"{F}?sort=bytes&order=desc&count=50", 200)
    sizes = [f["bytes"] for f in page["filters"]]
    check("largest first", sizes == sorted(sizes, reverse=True), sizes)
    _, some = s.ask("GET", f"{F}?search=CONTRACT%3Am&kind=blocked&count=50", 200)
    check("search ignores case", {f["name"] for f in some["filters"]} >= {"contract:main"}, [f["name"] for f in some["filters"]])
    _, after = s.ask("GET", f"{F}?pattern=contract%3A*&offset=1", 200)
    check("offset skips", [f["name"] for f in after["filters"]] == seen[1:], after["matched"])
    for bad in ("count=0", "count=1001", "count=x", "sort=colour", "order=up", "offset=-1", "health=ill", "kind=round"):
        s.ask("GET", f"{F}?{bad}", 400)


def ask_filter(s):
    name = f"{F}/contract%3Amain"
    response, made = s.ask("POST", F, 201, {"name": "contract:main", "kind": "blocked", "capacity": 1000, "error": 0.000001})
    check("Location refers to the new filter", urllib.parse.unquote(response.getheader("Location")).endswith("/contract:main"), response.getheader("Location"))
    check("the new filter is empty", made["items"] is None or made["items"]["value"] == 0, made["items"])
    s.ask("POST", F, 409, {"name": "contract:main", "capacity": 10, "error": 0.1})
    for bad in ({}, {"name": "contract:x", "capacity": "many"}, {"name": "contract:x", "capacity": 0}):
        s.ask("POST", F, 400, bad)
    s.ask("POST", F, 400, b"{not json")
    s.ask("POST", F, 415, b"name=x", kind="application/xml")
    s.ask("GET", f"{F}/contract%3Anone", 404)
    s.ask("GET", name, 200)
    s.ask("GET", f"{name}?examine=1", 200)
    _, told = s.ask("POST", f"{name}/add", 200, {"keys": ["alice", "bob", "alice"]})
    check("new, new, seen", told["results"] == [True, True, False] and told["new"] == 2 and told["keys"] == 3, told)
    _, told = s.ask("POST", f"{name}/check", 200, {"keys": ["alice", "absent key", "bob"]})
    check("maybe, no, maybe", told["results"] == [True, False, True] and told["maybe"] == 2, told)
    _, told = s.ask("GET", f"{name}/check?key=alice&key=absent+key&key=b%6Fb", 200)
    check("the same keys in a query", told["results"] == [True, False, True], told)
    s.ask("GET", f"{name}/check", 400)
    _, told = s.ask("POST", f"{name}/check", 200, {"keys": []})
    check("a request without keys returns no results", told["results"] == [], told)
    binary = base64.b64encode(b"\xff\x00\n").decode()
    s.ask("POST", f"{name}/add", 200, {"keys": [binary], "encoding": "base64"})
    _, told = s.ask("POST", f"{name}/check", 200, {"keys": [binary, base64.b64encode(b"\xfe").decode()], "encoding": "base64"})
    check("keys can contain any bytes", told["results"] == [True, False], told)
    ask_streams(s, name)
    ask_inside(s, name)


def ask_streams(s, name):
    _, text = s.ask("POST", f"{name}/check", 200, b"alice\nabsent key\nbob", kind="text/plain")
    check("a line per key", text == b"1\n0\n1\n", text)
    _, text = s.ask("POST", f"{name}/add", 200, b"carol\nalice\n", kind="text/plain", headers={"X-Bloomgate": "1"})
    check("one line per key: 1 if new, 0 if seen", text == b"1\n0\n", text)
    lines = b'"alice"\n{"key":"/gA=","encoding":"base64"}\n'
    _, text = s.ask("POST", f"{name}/check", 200, lines, kind="application/x-ndjson")
    check("JSON per key", [json.loads(line) for line in text.splitlines()] == [{"maybe": True}, {"maybe": False}], text)
    _, text = s.ask("POST", f"{name}/add", 200, lines, kind="application/x-ndjson")
    check("JSON per add", [json.loads(line) for line in text.splitlines()] == [{"new": False}, {"new": True}], text)
    s.ask("POST", f"{name}/check", 400, {"keys": "alice"})
    s.ask("POST", f"{name}/check", 400, {"keys": [1]})
    s.ask("POST", f"{F}/contract%3Anone/check", 404, {"keys": ["a"]})
    s.ask("POST", f"{name}/add", 403, b"mallory\n", kind="text/plain")
    s.ask("POST", f"{name}/clear", 403)
    s.ask("DELETE", name, 403, headers={"Origin": "http://elsewhere.example"})
    s.ask("DELETE", name, 403, headers={"Origin": "null", "X-Bloomgate": "1"})
    s.ask("POST", f"{name}/add", 403, {"keys": ["mallory"]}, headers={"Sec-Fetch-Site": "cross-site"})
    _, told = s.ask("POST", f"{name}/check", 200, {"keys": ["mallory"]})
    check("no key was added from another origin", told["results"] == [False], told)


def ask_inside(s, name):
    _, map_ = s.ask("GET", f"{name}/occupancy?cells=8", 200)
    check("the map has at most the requested number of cells", len(map_["shares"]) == map_["cells"] <= 8, map_)
    check("least, mean, most", map_["least"] <= map_["mean"] <= map_["most"], map_)
    s.ask("GET", f"{name}/occupancy?cells=0", 400)
    _, told = s.ask("POST", f"{name}/verify", 200, {})
    check("the filter is intact", told["ok"], told)
    s.ask("POST", f"{name}/rotate", 422, {})
    ask_file(s, name)
    _, told = s.ask("PATCH", name, 200, {"expires_in_seconds": 3600})
    check("the filter will expire", 3500 < told["expires_in_seconds"] <= 3600, told["expires_in_seconds"])
    _, told = s.ask("PATCH", name, 200, {"expires_in_seconds": None})
    check("the filter will not expire", told["expires_in_seconds"] is None, told["expires_in_seconds"])
    s.ask("PATCH", name, 400, {})
    _, told = s.ask("POST", f"{name}/clear", 200, {})
    _, told = s.ask("POST", f"{name}/check", 200, {"keys": ["alice"]})
    check("the cleared filter is empty", told["results"] == [False], told)


def ask_file(s, name):
    kind = {"kind": "application/vnd.bloomgate"}
    response, file = s.ask("GET", f"{name}/file", 200)
    tag = response.getheader("ETag")
    check("a tag in quotes", re.fullmatch(r'"[0-9a-f]{32}"', tag), tag)
    s.ask("GET", f"{name}/file", 304, headers={"If-None-Match": tag})
    s.ask("PUT", f"{name}/file", 422, b"no filter at all", **kind)
    s.ask("PUT", f"{name}/file", 412, file, headers={"If-Match": '"00000000000000000000000000000000"'}, **kind)
    s.ask("PUT", f"{name}/file", 412, file, headers={"If-None-Match": "*"}, **kind)
    s.ask("PUT", f"{F}/contract%3Acopy/file", 201, file, headers={"If-None-Match": "*"}, **kind)
    response, _ = s.ask("PUT", f"{F}/contract%3Acopy/file", 200, file, **kind)
    check("the response includes an ETag", response.getheader("ETag"), response.getheaders())
    if not s.mock:
        check("identical files have identical ETags", response.getheader("ETag") == tag, (response.getheader("ETag"), tag))
        damaged = bytearray(file)
        damaged[-40] ^= 1
        s.ask("PUT", f"{F}/contract%3Acopy/file", 422, bytes(damaged), **kind)
        s.ask("POST", f"{F}/contract%3Acopy/merge", 200, {"from": ["contract:main"]})
        s.ask("POST", f"{F}/contract%3Acopy/merge", 404, {"from": ["contract:none"]})
    s.ask("POST", f"{F}/contract%3Anone/merge", 404, {"from": ["contract:main"]})


def ask_names(s):
    """Checks that filter names can contain any bytes, in paths and in JSON."""
    names = [b"contract:a/b?c#d%2Fe", b"contract:<script>", b"contract:\xff\xfe\x00", "contract:\u202e\u05d0".encode(), b"contract:line\nbreak", b"contract: +&=", b"=contract:", b".", b"..", b""]
    for name in names:
        try:
            member = {"name": name.decode()}
        except UnicodeDecodeError:
            member = {"name_base64": base64.b64encode(name).decode()}
        response, made = s.ask("POST", F, 201, {**member, "capacity": 100, "error": 0.01})
        coded = "=" + base64.urlsafe_b64encode(name).decode().rstrip("=")
        paths = [coded] + ([urllib.parse.quote_from_bytes(name, safe="")] if name not in (b".", b"..", b"") else [])
        for path in paths:
            _, told = s.ask("GET", f"{F}/{path}", 200)
            back = base64.b64decode(told["name_base64"]) if "name_base64" in told else told["name"].encode()
            check(f"the name {name!r} is returned unchanged", back == name, told.get("name"))
        parameter = urllib.parse.quote(coded, safe="") if b"\xff" in name or name[:1] in (b"=", b"") else urllib.parse.quote_from_bytes(name, safe="")
        s.ask("GET", f"/api/v1/history?filter={parameter}&seconds=10", 200)
        s.ask("DELETE", f"{F}/{coded}", 204, headers={"X-Bloomgate": "1"})
        s.ask("GET", f"{F}/{coded}", 404)
    s.ask("GET", f"{F}/=*", 400)


def ask_rename(s):
    s.ask("POST", F, 201, {"name": "contract:old", "capacity": 100, "error": 0.01})
    _, told = s.ask("PATCH", f"{F}/contract%3Aold", 200, {"name": "contract:new"})
    check("the filter has the new name", told["name"] == "contract:new", told["name"])
    s.ask("GET", f"{F}/contract%3Aold", 404)
    s.ask("PATCH", f"{F}/contract%3Anew", 409, {"name": "contract:main"})


def ask_plan(s):
    _, plan = s.ask("GET", "/api/v1/plan?items=1000000&error=0.01&points=12", 200)
    check("a plan for every kind", len(plan["kinds"]) == 12, [p["kind"] for p in plan["kinds"]])
    check("curves for the possible kinds", len(plan["curves"]) >= 8, len(plan["curves"]))
    for curve in plan["curves"]:
        lengths = {len(curve[k]) for k in ("bits_per_key", "bytes", "rate")}
        check(f"the lists of the curve for {curve['kind']} have equal lengths", len(lengths) == 1 and len(curve["multiple"]) == len(curve["rate_at"]), lengths)
    blocked = next(p for p in plan["kinds"] if p["kind"] == "blocked")
    check("about 10 bits for 1%", 9.5 < blocked["bits_per_key"] < 10.5, blocked["bits_per_key"])
    _, plan = s.ask("GET", "/api/v1/plan?items=1000&error=0.01&growth=10&queries_per_second=100&call_cost=1&memory_cost=1", 200)
    check("growth counts", plan["kinds"][0]["items"] == 10000, plan["kinds"][0]["items"])
    check("costs are reported", any(p.get("cost") is not None for p in plan["kinds"]), "")
    check("no curves unless requested", plan["curves"] == [], "")
    for bad in ("", "?items=0&error=0.01", "?items=1000&error=2", "?items=x&error=0.1"):
        s.ask("GET", f"/api/v1/plan{bad}", 400)


def ask_gates(s):
    _, told = s.ask("GET", "/api/v1/gates", 200)
    s.ask("GET", "/api/v1/gates/contract%3Anone", 404)
    s.ask("GET", "/api/v1/history?gate=contract%3Anone", 404)
    for gate in told["gates"][:1]:
        path = f"/api/v1/gates/{quote(gate['name'])}"
        _, past = s.ask("GET", f"/api/v1/history?gate={quote(gate['name'])}&seconds=60", 200)
        check("the history of a gate has its metrics", {"lookups_per_second", "errors_per_second", "observed_low"} <= set(past["series"]), list(past["series"]))
        s.ask("GET", f"/api/v1/history?gate={quote(gate['name'])}&filter=contract%3Amain", 400)
        s.ask("GET", path, 200)
        _, found = s.ask("POST", f"{path}/lookup", 200, {"keys": ["contract: certainly no such key"]})
        check("one answer", len(found["results"]) == 1, found)
        s.ask("POST", f"{path}/lookup", 400, {"keys": "x"})
        s.ask("GET", f"{path}/row?key=x", 422)
        s.ask("POST", f"{path}/rebuild", 202, {})
        check("outcomes add up", sum(gate["outcomes"].values()) == gate["lookups"], gate["outcomes"])
    if not told["gates"]:
        s.asked |= {"getGate", "lookup", "getRow", "rebuildGate"}


def ask_fronts(s):
    _, told = s.ask("GET", "/api/v1/fronts", 200)
    s.ask("GET", "/api/v1/fronts/contract%3Anone", 404)
    for front in told["fronts"][:1]:
        s.ask("GET", f"/api/v1/fronts/{quote(front['name'])}", 200)
    s.asked.add("getFront")


def ask_users(s):
    if not s.user:
        return
    for path in (F, "/api/v1/info", "/metrics", "/api/v1/plan?items=10&error=0.1"):
        response, _ = s.ask("GET", path, 401, user=False)
        check("a browser gets a Basic challenge", response.getheader("WWW-Authenticate", "").startswith("Basic"), response.getheader("WWW-Authenticate"))
        response, _ = s.ask("GET", path, 401, user=False, headers={"X-Bloomgate": "1"})
        check("the dashboard gets a Bearer challenge", response.getheader("WWW-Authenticate", "").startswith("Bearer"), response.getheader("WWW-Authenticate"))
    s.ask("GET", "/healthz", 200, user=False)
    s.ask("GET", "/", 200, user=False)
    s.ask("GET", F, 401, user=False, headers={"Authorization": "Basic " + base64.b64encode(b"no:body").decode()})


def drop_all(s):
    """Drops all filters that this run created or an interrupted run left behind."""
    for _ in range(100):
        _, page = s.ask("GET", f"{F}?pattern=contract%3A*&count=100", 200)
        for f in page["filters"]:
            coded = f["name_base64"].replace("+", "-").replace("/", "_").rstrip("=") if "name_base64" in f else None
            s.ask("DELETE", f"{F}/" + (f"={coded}" if coded else quote(f["name"])), 204, headers={"X-Bloomgate": "1"})
        if not page["filters"]:
            break


def try_all(base, contract, ids, user=None, mock=False):
    s = Service(base, contract, user)
    s.mock = mock
    ask_users(s)
    drop_all(s)
    ask_service(s)
    ask_assets(s)
    ask_filter(s)
    ask_rename(s)
    ask_list(s)
    ask_names(s)
    ask_plan(s)
    ask_gates(s)
    ask_fronts(s)
    s.ask("POST", f"{F}/contract%3Amain/fold", 200, {"times": 1}) if mock else None
    s.asked.add("foldFilter")
    if mock:
        s.ask("POST", f"{F}/contract%3Amain/merge", 200, {"from": ["contract:copy"]})
    drop_all(s)
    check("every operation in the document was requested", set(ids) <= s.asked, sorted(set(ids) - s.asked))


def main():
    contract = Contract()
    ids = contract.check_itself()
    if len(sys.argv) > 1:
        try_all(sys.argv[1], contract, ids, sys.argv[2] if len(sys.argv) > 2 else None)
    else:
        for options, user in ((["--filters", "12"], None), (["--user", "admin:secret"], "admin:secret")):
            with subprocess.Popen([sys.executable, os.path.join(HERE, "mock.py"), *options], stdout=subprocess.PIPE, text=True) as mock:
                try:
                    try_all(mock.stdout.readline().strip(), contract, ids, user, mock=True)
                finally:
                    mock.terminate()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
