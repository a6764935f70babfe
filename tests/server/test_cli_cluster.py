#!/usr/bin/env python3
"""Runs `bloomgate cluster` against a single service, and checks what it adds and prints.

usage: test_cli_cluster.py BLOOMGATED [PARTS-OF-NAMES...]"""

import os
import subprocess
import tempfile

import service
from service import Service, alone


class Cli:
    """The program `bloomgate` with a filter of two shards in a service."""

    def __init__(self, program, running):
        self.path = os.path.join(os.path.dirname(program), "bloomgate")
        self.address = f"127.0.0.1:{running.port}"

    def run(self, *words, keys="", expect=0):
        done = subprocess.run([self.path, "cluster", "--cluster", self.address, "--shards", "2", *words],
                              input=keys, capture_output=True, text=True)
        assert done.returncode == expect, done
        return done

    def facts(self, name):
        lines = self.run("info", name).stdout.split("\n")
        return {line[2:15].strip(): line[15:] for line in lines if line.startswith("  ")}


@alone
def test_records_without_the_field(program):
    """If no record has the field, the empty key is not added. Otherwise, records without it are added in order."""
    with Service(program).start() as s:
        cli = Cli(program, s)
        cli.run("create", "-n", "10k", "seen")
        many = "a,1\n" * 100000
        for keys in "a,1\nb,2\n", many:
            for option in (), ("--acknowledged",):
                done = cli.run("add", *option, "--csv", "--field", "9", "seen", keys=keys, expect=3)
                assert "has field 9" in done.stderr and done.stdout == "", done.stderr
        assert cli.run("check", "-c", "seen", keys="\n", expect=1).stdout == "0\n"
        late = many + "x,y,z\n" + "a,1\n"
        done = cli.run("add", "--acknowledged", "--csv", "--field", "3", "seen", keys=late)
        assert done.stdout == late
        assert "keys added: 100,002, definitely new: 2" in done.stderr, done.stderr
        assert cli.run("check", "-c", "--csv", "--field", "3", "seen", keys=late).stdout == "100002\n"
        assert cli.run("check", "-c", "seen", keys="\nz\ny\n").stdout == "2\n"


@alone
def test_empty_lines(program):
    with Service(program).start() as s:
        cli = Cli(program, s)
        cli.run("create", "-n", "10k", "seen")
        assert "empty keys: 2 of 3" in cli.run("add", "seen", keys="a\n\n\n").stderr
        assert "empty keys" not in cli.run("check", "seen", keys="a\n\n\n").stderr


@alone
def test_info(program):
    """info shows the target, the capacity and the health, without exponents."""
    with Service(program).start() as s:
        cli = Cli(program, s)
        cli.run("create", "-n", "1000", "seen")
        cli.run("add", "seen", keys="one\n")
        facts = cli.facts("seen")
        assert facts["current rate"] == "below 0.01% (target 1%)", facts
        assert facts["keys stored"] == "about 1 of 1,182" and facts["health"] == "fine", facts
        for shard in range(2):
            name = cli.run("info", "seen").stdout.split("\n")[-3 + shard].split()[0]
            s.ask("BG.CREATE", "more", "CAPACITY", "591", "ERROR", "0.01")
            s.ask("BG.MADD", "more", *range(500))
            for i in range(500, 1500, 250):
                s.ask("BG.CREATE", f"part{i}", "CAPACITY", "591", "ERROR", "0.01")
                s.ask("BG.MADD", f"part{i}", *range(i, i + 250))
                s.ask("BG.MERGE", name, f"part{i}")
        facts = cli.facts("seen")
        assert facts["health"].startswith("act: the rate is too high in 2 of 2 shards"), facts
        assert facts["current rate"].endswith("(target 1%)"), facts


@alone
def test_watch_of_a_download(program):
    """A download has no creation time."""
    with Service(program, http=True).start() as s, tempfile.TemporaryDirectory() as folder:
        cli = Cli(program, s)
        s.ask("BG.CREATE", "seen", "CAPACITY", "100")
        path = os.path.join(folder, "seen.bg")
        subprocess.run(["curl", "-sSf", "-o", path, f"http://127.0.0.1:{s.http_port}/api/v1/filters/seen/file"], check=True)
        shown = subprocess.run([cli.path, "watch", "--once", path], capture_output=True, text=True, check=True).stdout
        assert "  created     not recorded\n" in shown, shown


service.main(__doc__)
