"""A minimal client for PostgreSQL's wire protocol: simple queries and COPY FROM STDIN.

    connection = Connection(port, "postgres")
    rows = connection("SELECT 1, NULL")            [["1", None]]: the rows of the last statement

The suite writes from many connections at once. One psql process per connection would cost more than the
databases themselves.
"""

import os
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))

from machine import PATIENCE  # noqa: E402 pylint: disable=wrong-import-position


class SqlError(Exception):
    """The server rejected a statement. The connection remains usable."""

    def __init__(self, fields):
        self.code = fields.get("C", "")
        super().__init__(f"{self.code} {fields.get('M', '')}")


class Lost(Exception):
    """The connection is lost."""


class Connection:
    def __init__(self, port, database="postgres", settings=(), host="127.0.0.1"):
        self.socket = None
        try:
            self.socket = socket.create_connection((host, port), timeout=PATIENCE)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            words = ["user", "owner", "database", database, "application_name", "suite", "client_encoding", "UTF8"]
            text = b"".join(w.encode() + b"\0" for w in words) + b"\0"
            self.socket.sendall(struct.pack("!II", len(text) + 8, 196608) + text)
            self.reader = self.socket.makefile("rb")
            self._until_ready()
        except (OSError, SqlError) as error:
            self.close()
            raise Lost(str(error)) from error
        except Lost:
            self.close()
            raise
        for setting in settings:
            self(setting)

    def close(self):
        if self.socket:
            self.socket.close()
            self.socket = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __call__(self, sql, copy=b""):
        """Runs statements. Returns the rows of the last statement. `copy` is the data for COPY FROM
        STDIN."""
        if not self.socket:
            raise Lost("closed")
        try:
            self._send(b"Q", sql.encode() + b"\0")
            return self._until_ready(copy)
        except OSError as error:
            self.close()
            raise Lost(str(error)) from error

    def value(self, sql):
        """Returns the first column of the first row."""
        rows = self(sql)
        return rows[0][0] if rows else None

    def _send(self, kind, body):
        self.socket.sendall(kind + struct.pack("!I", len(body) + 4) + body)

    def _read(self, size):
        data = self.reader.read(size)
        if len(data) < size:
            self.close()
            raise Lost("the server closed the connection")
        return data

    def _until_ready(self, copy=b""):
        rows, error = [], None
        while True:
            kind = self._read(1)
            body = self._read(struct.unpack("!I", self._read(4))[0] - 4)
            if kind == b"Z":
                if error:
                    raise SqlError(error)
                return rows
            if kind == b"T":
                rows = []
            elif kind == b"D":
                rows.append(_row(body))
            elif kind == b"E":
                error = _fields(body)
                if error.get("S") in ("FATAL", "PANIC"):
                    self.close()
                    raise Lost(error.get("M", ""))
            elif kind == b"G":
                for at in range(0, len(copy), 1 << 20):
                    self._send(b"d", copy[at:at + (1 << 20)])
                self._send(b"c", b"")
            elif kind == b"R" and body[:4] != b"\0\0\0\0":
                self.close()
                raise Lost("the server requires a password")


def _fields(body):
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}


def _row(body):
    row, at = [], 2
    for _ in range(struct.unpack_from("!H", body)[0]):
        size = struct.unpack_from("!i", body, at)[0]
        at += 4
        row.append(None if size < 0 else body[at:at + size].decode())
        at += max(size, 0)
    return row
