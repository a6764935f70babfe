#!/usr/bin/env python3
"""Runs `bloomgate cluster` against a single service, and checks what it adds and prints.

usage: test_cli_cluster.py BLOOMGATED [PARTS-OF-NAMES...]"""

import os
import subprocess

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


service.main(__doc__)
