"""Provides SQLite databases for the suite. The databases are files in a temporary directory, with a rollback journal or
a write-ahead log. Connections have the same interface as in pgwire.py."""

import os
import shutil
import sqlite3
import tempfile

from pgwire import PATIENCE, SqlError


class File:
    """A connection. Statements outside of BEGIN and COMMIT are committed automatically."""

    def __init__(self, path, settings=()):
        self.database = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        for setting in settings:
            self(setting)

    def close(self):
        self.database.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __call__(self, sql):
        """Runs statements. Returns the rows of the last statement."""
        rows = []
        try:
            for statement in _statements(sql):
                rows = self.database.execute(statement).fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise SqlError({"C": type(error).__name__, "M": str(error)}) from error
        return rows

    def value(self, sql):
        rows = self(sql)
        return rows[0][0] if rows else None


def _statements(sql):
    """Splits SQL at the semicolons that end a statement, but not inside triggers or string literals."""
    part = ""
    for piece in sql.split(";"):
        part += piece + ";"
        if sqlite3.complete_statement(part):
            if part.strip(" ;\n"):
                yield part
            part = ""
    if part.strip(" ;\n"):
        yield part


class Sqlite:
    """A temporary directory for database files."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="bloomgate-sources-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, name)
