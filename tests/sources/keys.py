"""Provides keys of every type: the SQL literal of key number i, and the bytes with which the key is looked up.

Only keys with numbers below ABSENT are written to tables.
"""

import datetime
import uuid

ABSENT = 200_000_000


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


class Key:
    """A key type. `postgres` or `sqlite` is None if that database does not have the type."""

    def __init__(self, name, postgres, sqlite, text, literal=None, spelled=None):
        self.name = name
        self.type = {"postgres": postgres, "sqlite": sqlite}
        self.text = text  # function that maps number i to the bytes of the lookup key
        self._literal = literal
        self._spelled = spelled  # function that maps number i to a different spelling of the key for SQL literals

    def __repr__(self):
        return self.name

    def literal(self, i, kind):
        if self._literal:
            return self._literal(i, kind)
        return quoted((self._spelled or self.text)(i).decode())


def _number(text):
    return {"text": lambda i: str(text(i)).encode(), "literal": lambda i, kind: str(text(i))}


def _blob(i):
    return b"\x00\xff\n" + i.to_bytes(5, "big")


def _time(i):
    moment = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=i)
    return f"{moment:%Y-%m-%d %H:%M:%S}" + (f".{i % 10}" if i % 10 else "")


def _numeric(i):
    return str(i) if i % 10 == 0 else f"{i}.{i % 10}"


KEYS = {key.name: key for key in (
    Key("text", 'text COLLATE "C"', "TEXT", lambda i: b"key-%d" % i),
    Key("int", "int", "INTEGER", **_number(lambda i: i * 7 + 1)),
    Key("uuid", "uuid", None,
        lambda i: str(uuid.UUID(int=i * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)).encode(),
        spelled=lambda i: str(uuid.UUID(int=i * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)).upper().encode()),
    Key("blob", "bytea", "BLOB", _blob, literal=lambda i, kind: (
        f"'\\x{_blob(i).hex()}'::bytea" if kind == "postgres" else f"x'{_blob(i).hex()}'")),
    Key("numeric", "numeric", None, lambda i: _numeric(i).encode(),
        literal=lambda i, kind: f"{i}.{i % 10}0"),
    Key("char", "char(24)", None, lambda i: b"c %d" % i),
    Key("words", 'text COLLATE "und-x-icu"', "TEXT", lambda i: f"ß Schlüssel 'no' \\{i}".encode()),
    Key("bigint", "bigint", "INTEGER", **_number(lambda i: (i * 2654435761 + 2**33) * (-1)**i)),
    Key("time", "timestamptz", None, lambda i: _time(i).encode() + b"+00",
        spelled=lambda i: _time(i).encode() + b" UTC"),
    Key("typeless", None, "", lambda i: b"any-%d" % i),
    Key("varchar", "varchar(60)", "VARCHAR(60)", lambda i: "キー-{}".format(i).encode()),
)}


def rotation(kind):
    """Returns the key types of a database, in the order in which events use them."""
    return [key for key in KEYS.values() if key.type[kind] is not None]
