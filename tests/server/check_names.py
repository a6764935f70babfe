"""Tests malicious filter names over HTTP. Used by test_http.py."""

import base64
import urllib.parse

from http_asker import F, Asker, Wire, request

NAMES = [b"a", b"a b", b"a/b", b"..", b".", b"", b"=", b"==", b"=YQ", b"%41", b"%", b"a%00b", b"a\0b", b"\xff\xfe", b"\xc3\x28", "ä€😀".encode(),
         b"a\r\nSet-Cookie: x=1\r\n\r\nGET / HTTP/1.1", b'"; filename="x', b"<script>alert(1)</script>", b"'; drop table --", b"\x1b[31m", b"file", b"*",
         b"a?b#c&d=e+f", b"/", b"//etc/passwd", b"x" * 2000, "\u202eevil".encode(), b"{name}", b"C:\\con", b"..%2f..", bytes(range(1, 128))]


def decode(told):
    return base64.b64decode(told["name_base64"]) if "name_base64" in told else told["name"].encode()


def member(name):
    try:
        return {"name": name.decode()}
    except UnicodeDecodeError:
        return {"name_base64": base64.b64encode(name).decode()}


def run(s):
    a = Asker(s)
    for name in NAMES:
        response, made = a.ask("POST", F, 201, {**member(name), "capacity": 100, "error": 0.01, "hash": "fast"})
        assert decode(made) == name, (made["name"], name)
        coded = "=" + base64.urlsafe_b64encode(name).decode().rstrip("=")
        padded = "=" + base64.urlsafe_b64encode(name).decode()
        percent = urllib.parse.quote_from_bytes(name, safe="")
        paths = [coded, padded] + ([percent] if name not in (b"", b".", b"..") else [])
        if len(name) < 500 and response.getheader("Location"):
            paths.append(response.getheader("Location").split("/")[-1])
        for path in paths:
            assert decode(a.told("GET", f"{F}/{path}", 200)) == name, path
        assert s.ask("BG.EXISTS", name, "x") == 0, name
        a.ask("POST", f"{F}/{coded}/add", 200, {"keys": ["x"]})
        assert s.ask("BG.EXISTS", name, "x") == 1, name
        check_headers(s, coded)
        # the service refuses this upload, and writes the name to the log and the events
        a.ask("PUT", f"{F}/{coded}/file", 422, b"junk", kind="application/vnd.bloomgate")
    page = a.told("GET", f"{F}?count=1000", 200)
    assert sorted(map(decode, page["filters"])) == sorted(NAMES), "the list does not contain exactly the created names"
    events = a.told("GET", "/api/v1/events?level=warning&count=1000", 200)["events"]
    assert any(e.get("filter") == "\x1b[31m" for e in events), events[-5:]
    a.ask("GET", "/metrics", 200)
    for bad in ("=*", "=a", "=YR", "=YQ=x", "=%zz"):
        assert a.status("GET", f"{F}/{bad}") == 400, bad
    log = s.read_log()
    assert "\x1b" not in log and "\nSet-Cookie" not in log, "a name broke the log's line format"


def check_headers(s, coded):
    """Checks that a filter name cannot break out of an HTTP header field."""
    with Wire(s) as wire:
        wire.send(request("GET", f"{F}/{coded}/file"))
        status, headers, _ = wire.answer()
        assert status == 200 and "set-cookie" not in headers, headers
        shown = headers["content-disposition"]
        assert shown.startswith('attachment; filename="') and shown.endswith('.bg"') and shown.count('"') == 2, shown
        assert all(c.isalnum() or c in "._-" for c in shown[22:-1]), shown
