#!/usr/bin/env python3
"""Runs client_redigo.go, which tests the BF and CF commands with redigo, a Redis client for Go.
usage: test_go_client.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import os
import shutil
import subprocess
import tempfile

import service
from service import HERE, Skip

LIBRARY = "/usr/share/gocode/src/github.com/gomodule/redigo"


def prepare():
    if not shutil.which("go") or not os.path.isdir(LIBRARY):
        raise Skip("Go or redigo is not installed (Debian: golang-go golang-github-gomodule-redigo-dev)")


def test_redigo(s):
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "client_redigo")
        subprocess.run(["go", "build", "-o", program, os.path.join(HERE, "client_redigo.go")],
                       check=True, env={**os.environ, "GO111MODULE": "off",
                                        "GOPATH": "/usr/share/gocode", "GOFLAGS": "-buildvcs=false",
                                        "GOCACHE": os.path.join(folder, "cache")})
        done = subprocess.run([program, str(s.port)], text=True, timeout=service.PATIENCE, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout
        print(f"  {done.stdout.splitlines()[-1]}")


service.main(__doc__)
