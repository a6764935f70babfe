"""Sends HTTP requests to the service and checks every response against the API contract. The
test_http*.py scripts use this module. Problems raise AssertionError."""

import http.client
import json
import os
import socket
import sys

import service

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "web"))
import check_contract  # noqa: E402

try:
    import jsonschema  # a second validator for the responses
except ImportError:
    jsonschema = None

F = "/api/v1/filters"
quote = check_contract.quote
SEEN = check_contract.Service.seen


def insist(what, good, found=""):
    assert good, f"{what}: {str(found)[:1000]}"
    return good


check_contract.check = insist


class Contract(check_contract.Contract):
    """The API contract (an OpenAPI document). Two validators check responses against it."""

    def problems(self, value, schema, where="answer"):
        found = super().problems(value, schema, where)
        if jsonschema and where == "answer":
            resolver = jsonschema.RefResolver("", self.document)
            validator = jsonschema.Draft202012Validator(schema, resolver=resolver)
            found += [f"{list(e.path)}: {e.message[:200]}" for e in validator.iter_errors(value)]
        return found


CONTRACT = Contract()


class Asker(check_contract.Service):
    """Sends requests to the service under test, and checks the responses."""

    def __init__(self, served, user=None):
        super().__init__(f"http://127.0.0.1:{served.http_port}", CONTRACT, user)
        self.served = served
        self.mock = False

    def told(self, *arguments, **named):
        """Sends a request with ask(), and returns only the content of the response."""
        return self.ask(*arguments, **named)[1]

    def make(self, name, **spec):
        return self.told("POST", F, 201, {"name": name, "capacity": 1000, "error": 0.001, **spec})

    def status(self, method, path, body=None, headers=()):
        """Sends a request and returns only the status. The response is not checked against the contract."""
        link = http.client.HTTPConnection("127.0.0.1", self.url.port, timeout=service.PATIENCE)
        link.request(method, path, body, dict(headers))
        response = link.getresponse()
        response.read()
        link.close()
        return response.status


class Wire:
    """A raw HTTP connection that sends bytes and parses responses."""

    def __init__(self, served, timeout=service.PATIENCE):
        self.socket = socket.create_connection(("127.0.0.1", served.http_port), timeout=timeout)
        self.file = self.socket.makefile("rb")

    def send(self, *pieces):
        for piece in pieces:
            self.socket.sendall(piece if isinstance(piece, bytes) else piece.encode())

    def answer(self, head=False):
        """Returns the status, the headers with lowercase names, and the body of the next response, or None at the end
        of the stream."""
        line = self.file.readline()
        if not line:
            return None
        status = int(line.split()[1])
        headers = {}
        while True:
            line = self.file.readline()
            assert line.endswith(b"\r\n"), line
            if line == b"\r\n":
                break
            name, value = line.decode("latin-1").rstrip("\r\n").split(": ", 1)
            headers[name.lower()] = value
        bare = head or status in (204, 304) or status < 200
        body = b"" if bare else self.file.read(int(headers["content-length"]))
        assert bare or len(body) == int(headers["content-length"]), len(body)
        return status, headers, body

    def json(self):
        status, headers, body = self.answer()
        assert headers["content-type"] == "application/json", headers
        return status, json.loads(body)

    def is_over(self):
        """Returns whether the service has closed its side of the connection."""
        try:
            return self.file.read(1) == b""
        except ConnectionError:
            return True

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def request(method, path, body=None, *headers, host="127.0.0.1"):
    """Returns the bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


def free_service(program, *lines, **named):
    return service.Service(program, *lines, http=True, **named)
