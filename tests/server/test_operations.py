#!/usr/bin/env python3
"""Tests the files that operators use: the program's own documentation (help, example file, man page), the systemd unit
and the Dockerfile.
usage: test_operations.py BLOOMGATED"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from service import PATIENCE

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = sys.argv[1]

tests = []


def test(function):
    tests.append(function)
    return function


def run(*arguments, stdin="", env=None):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BLOOMGATED_")}
    return subprocess.run([PROGRAM, *arguments], input=stdin, text=True, capture_output=True, check=False,
                          env={**clean, **(env or {})}, timeout=PATIENCE)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def options():
    """Returns the names of all options in the help text."""
    return re.findall(r"^  --([a-z-]+) ", run("--help").stdout, re.M)


# ---- The program's own documentation -------------------------------------------------------


@test
def example_file_is_what_the_program_prints():
    assert run("--print-config").stdout == read("ops/bloomgate.conf"), \
        "ops/bloomgate.conf is out of date: run bloomgated --print-config > ops/bloomgate.conf"


@test
def example_file_is_accepted_as_it_is_and_with_everything_said():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bloomgate.conf")
        text = read("ops/bloomgate.conf")
        for content in (text, re.sub(r"^#(?=[a-z])", "", text, flags=re.M)):
            if os.geteuid(): # only root can create the default directories
                content = re.sub(r"^(dir|keyring) .*\n", "", content, flags=re.M)
                content += f"dir {folder}/data\nkeyring {folder}/keyring\n"
            with open(path, "w", encoding="utf-8") as f:
                f.write(content)
            done = run(path, "--check-config")
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
            assert done.stdout == "bloomgated: the configuration is valid\n", done.stdout


@test
def every_option_is_in_the_example_file_and_the_man_page():
    names = [name for name in options() if name not in
             {"check-config", "print-config", "print-man", "hash-password"}]
    assert len(names) > 50, names
    example, page = read("ops/bloomgate.conf"), run("--print-man").stdout
    for name in names:
        assert re.search(rf"^# ?{name} ", example, re.M), f"{name} is not in the example file"
        assert "\n\\fB" + name.replace("-", "\\-") + "\\fR " in page, f"{name} is not in the man page"


@test
def man_pages_are_well_formed():
    if not shutil.which("mandoc"):
        return
    pages = {"bloomgate.conf.5": run("--print-man").stdout}
    if shutil.which("scdoc"):
        pages["bloomgated.8"] = subprocess.run(["scdoc"], input=read("docs/man/bloomgated.8.scd"), text=True,
                                               capture_output=True, check=True).stdout
    for name, text in pages.items():
        least = "warning" if name.endswith("5") else "error"  # scdoc writes empty paragraphs, which cause warnings
        done = subprocess.run(["mandoc", "-T", "lint", "-W", least], input=text, text=True,
                              capture_output=True, check=False)
        said = [line for line in done.stdout.splitlines()
                if "missing date" not in line and "referenced manual not found" not in line]
        assert not said, f"{name}: {said}"


@test
def mistakes_and_exit_codes():
    cases = [(["--help"], 0, ""), (["--version"], 0, ""),
             (["--prto", "1"], 2, "did you mean port?"),
             (["/nowhere.conf"], 3, "/nowhere.conf: cannot be read"),
             (["--bind", "*"], 3, "is reachable from other machines"),
             (["--check-config", "--user", "a on +bf.ad"], 3, "did you mean BF.ADD?"),
             (["--check-config", "--user", "a on +bf.add"], 0, "")]
    for arguments, code, said in cases:
        done = run(*arguments)
        assert done.returncode == code, (arguments, done)
        assert said in done.stderr, (arguments, done.stderr)
    done = run("--check-config", env={"BLOOMGATED_PORT": "x"})
    assert done.returncode == 3 and "BLOOMGATED_PORT: port: found 'x'" in done.stderr, done
    with tempfile.TemporaryDirectory() as folder:
        cert, key, other = (os.path.join(folder, name) for name in ("cert.pem", "key.pem", "other.pem"))
        for to, name in ((key, cert), (other, os.path.join(folder, "unused.pem"))):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                            "-subj", "/CN=localhost", "-keyout", to, "-out", name], check=True, capture_output=True)
        for file, code in ((key, 0), (other, 3), (cert, 3)):
            done = run("--check-config", "--tls-port=1", f"--tls-cert-file={cert}", f"--tls-key-file={file}")
            assert (done.returncode, "tls-key-file: " in done.stderr) == (code, code == 3), done
    version = read("VERSION").split()[0]
    assert run("--version").stdout == f"bloomgated {version}\n"


@test
def files_are_checked_without_creating_them():
    """--check-config reports everything that a start would refuse, at once."""
    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return os.path.join(folder, name)

        for name, text in (("file", "text\n"), ("open", ""), ("password", "secret\n")):
            with open(path(name), "w", encoding="ascii") as f:
                f.write(text)
            os.chmod(path(name), 0o644 if name == "open" else 0o600)
        os.mkdir(path("shared"))
        os.chmod(path("shared"), 0o777)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        "/CN=x", "-keyout", path("key"), "-out", path("cert")], check=True, capture_output=True)
        sharded = f"sharded {{}} nodes=h:1 tls=yes tls-cert={path('cert')} tls-key="
        good = {"dir": path("new/data"), "keyring": path("new/secrets/keyring"), "log-file": path("log"), "pid-file": path("pid"),
                "sharded": f"{sharded.format('s')}{path('key')} user=u password-file={path('password')}"}
        cases = (({}, []),
                 ({"dir": path("file/data")}, ["dir: cannot create "]),
                 ({"dir": path("file")}, ["dir: found "]),
                 ({"dir": path("shared")}, ["not world-writable"]),
                 ({"unixsocket": path("file")}, ["unixsocket: ", "exists and is not a socket"]),
                 ({"unixsocket": path("none/socket")}, ["bloomgate.conf:6: unixsocket: cannot create ", "No such file or directory"]),
                 ({"unixsocket": path("new/data/socket"), "pid-file": path("new/pid")}, []),
                 ({"unixsocket": path("new/other/socket"), "pid-file": path("new/dat/pid")},
                  ["unixsocket: cannot create ", "pid-file: cannot write "]),
                 ({"keyring": path("file")}, ["keyring: cannot open "]),
                 ({"keyring": path("open")}, ["keyring: cannot open "]),
                 ({"keyring": path("file/keyring")}, ["keyring: cannot "]),
                 ({"log-file": path("none/log"), "pid-file": path("shared")},
                  ["log-file: cannot write ", "No such file or directory", "pid-file: cannot write ", "Is a directory"]),
                 ({"sharded": f"{sharded.format('a')}{path('file')}\n{sharded.format('b')}{path('key')} password-file={path('none')}"},
                  ["bloomgate.conf:5: sharded a: tls-key", "bloomgate.conf:6: sharded b: password-file: "]),
                 ({"dir": path("file"), "keyring": path("file"), "port": "x"}, ["port: found 'x'", "dir: found ", "keyring: cannot open "]))
        before = sorted(os.listdir(folder))
        for changes, expected in cases:
            settings = {**good, **changes}
            with tempfile.NamedTemporaryFile("w", prefix="bloomgate.conf", delete=False) as f:
                f.write("".join(f"{value if name == 'sharded' else f'{name} {value}'}\n" for name, value in settings.items()))
            done = run(f.name, "--check-config")
            os.unlink(f.name)
            said = done.stderr.replace(f.name, "bloomgate.conf")
            assert done.returncode == (3 if expected else 0), (changes, done)
            assert all(text in said for text in expected) and bool(said) == bool(expected), (expected, said)
            assert sorted(os.listdir(folder)) == before, "the check created a file"
        if os.geteuid() == 0:  # root cannot tell whether the service's user can open its keyring
            os.chown(path("open"), 6420, 6420)
            done = run("--check-config", f"--dir={path('new')}", f"--keyring={path('open')}")
            assert (done.returncode, "belongs to user 6420, so it was not checked" in done.stderr) == (0, True), done
        done = run(f"--log-file={path('none/log')}", f"--dir={path('new')}")
        assert done.returncode == 1 and "none/log: No such file or directory" in done.stderr, done


@test
def hashed_password_is_taken():
    done = run("--hash-password", stdin="pear\n")
    assert done.returncode == 0 and re.fullmatch(r"\$scrypt\$ln=14,r=8,p=1\$[\w+/]{22}\$[\w+/]{43}\n", done.stdout)
    assert run("--check-config", "--bind=*", "--requirepass=" + done.stdout.strip()).returncode == 0
    assert run("--hash-password", stdin="").returncode == 2


@test
def keyring_of_another_user_is_explained():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        keyring = os.path.join(folder, "keyring")
        with open(keyring, "w", encoding="utf-8"):
            pass
        os.chmod(keyring, 0)
        # Without root privileges, an unreadable keyring has the same effect as one owned by another user.
        user = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
        done = subprocess.run([PROGRAM, "--port", "0", "--http-port", "0", "--unixsocket", f"{folder}/socket",
                               "--dir", f"{folder}/data", "--keyring", keyring],
                              capture_output=True, text=True, timeout=PATIENCE, check=False, **user)
        assert done.returncode == 1, done
        assert f"keyring: cannot open {keyring}: Permission denied; change the owner" in done.stderr, done.stderr


# ---- systemd -------------------------------------------------------------------------------


def unit():
    return dict(line.split("=", 1) for line in read("ops/systemd/bloomgated.service").splitlines()
                if re.match(r"[A-Z]\w+=", line))


@test
def unit_runs_a_program_and_options_that_exist():
    settings = unit()
    assert settings["Type"] == "notify" and settings["User"] == "bloomgate"
    assert settings["ExecStart"].split()[0] == settings["ExecStartPre"].split()[0] == "/usr/sbin/bloomgated"
    assert "BLOOMGATED_" not in "".join(settings.values()), "the file could not override such a variable"
    shipped = shipped_values("ops/systemd/systemd.conf", read("ops/bloomgate.conf"))
    folders = {"/var/lib/" + name for name in settings["StateDirectory"].split()}
    assert shipped["dir"] in folders
    assert os.path.dirname(shipped["keyring"]) in folders


def shipped_values(path, conf):
    """Checks a file with defaults, which includes a configuration with the text `conf`, and returns its values."""
    text = read(path)
    include = "include /etc/bloomgate/bloomgate.conf\n"
    assert text.endswith(include), "the configuration must come last to override the defaults"
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("defaults.conf", text.replace(include, "include bloomgate.conf\n").replace("/var/lib", folder)), ("bloomgate.conf", conf)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(content)
        done = run(os.path.join(folder, "defaults.conf"), "--check-config")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return dict(line.split(" ", 1) for line in text.splitlines() if not line.startswith(("#", "include")))


@test
def overridden_values_are_logged_at_startup():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bloomgate.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"port 0\nhttp-port 0\nunixsocket {folder}/socket\ndir /srv/big\nkeyring {folder}/keyring\n")
        with open(os.path.join(folder, "data"), "w", encoding="utf-8"):
            pass  # the service cannot use a file as its directory, so it exits after logging the warnings
        done = run(path, env={"BLOOMGATED_DIR": f"{folder}/data"})
        assert done.returncode == 1, done
        expected = f"{path}:4: dir: '/srv/big' is overridden by '{folder}/data' (BLOOMGATED_DIR)"
        assert [line for line in done.stderr.splitlines() if "level=warning" in line and expected in line], done.stderr


@test
def unit_is_locked_in():
    if not shutil.which("systemd-analyze"):
        return
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15",
                           os.path.join(ROOT, "ops/systemd/bloomgated.service")],
                          text=True, capture_output=True, check=False)
    level = re.search(r"exposure level for bloomgated.service: ([\d.]+)", done.stdout + done.stderr)
    assert level, done
    assert done.returncode == 0 and float(level.group(1)) <= 1.5, level.group(0)
    assert f"at {level.group(1)} of 10" in read("docs/operations.md"), f"docs/operations.md does not state the exposure level {level.group(1)}"


# ---- Docker --------------------------------------------------------------------------------


def instructions(text):
    """Returns the instructions of a Dockerfile as [(name, arguments)], without comments and with continued lines
    joined."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [tuple(line.split(None, 1)) for line in joined.splitlines() if line.strip()]


@test
def dockerfile_is_in_order():
    known = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK",
             "ENTRYPOINT"}
    parsed = instructions(read("ops/docker/Dockerfile"))
    for name, _ in parsed:
        assert name in known, name
    froms = [i for i, (name, _) in enumerate(parsed) if name == "FROM"]
    assert len(froms) == 2 and froms[0] == 0
    for i in froms:  # the tag must be a version, not just "latest"
        assert re.match(r"debian:12-slim( AS \w+)?$", parsed[i][1]), parsed[i]
    final = parsed[froms[1]:]
    named = {name for name, _ in final}
    for name in ("USER", "HEALTHCHECK", "ENTRYPOINT", "EXPOSE", "VOLUME"):
        assert name in named, f"no {name}"
    assert [arguments for name, arguments in final if name == "USER"] == ["6420:6420"]
    assert not any(name in {"CMD", "ADD"} for name, _ in parsed)
    for name, arguments in parsed:
        if name in {"ENTRYPOINT", "VOLUME"}:
            json.loads(arguments)
        if name == "HEALTHCHECK":
            command = json.loads(arguments[arguments.index("CMD") + 3:])
            assert subprocess.run(["bash", "-n", "-c", command[-1]], check=False).returncode == 0
        if name == "RUN" and "apt-get" in arguments:
            for part in ("apt-get update", "--no-install-recommends", "rm -rf /var/lib/apt/lists/*"):
                assert part in arguments, (part, arguments)
            assert not re.search(r"\bsudo\b|apt-get (dist-)?upgrade", arguments)
    for image in re.findall(r"COPY --from=(\w+)", read("ops/docker/Dockerfile")):
        assert image == "build"
    assert "ENV" not in named, "the file could not override such a variable"
    assert ("COPY", "ops/docker/docker.conf /usr/share/bloomgate/docker.conf") in final
    shipped = shipped_values("ops/docker/docker.conf", "requirepass pear\n")
    volumes = json.loads(next(arguments for name, arguments in final if name == "VOLUME"))
    assert [shipped["dir"], os.path.dirname(shipped["keyring"])] == volumes and shipped["bind"] == "*"
    exposed = [arguments for name, arguments in final if name == "EXPOSE"][0].split()
    assert exposed == ["6420", "8420"]


@test
def dockerfile_installs_what_the_build_needs():
    """The build stage installs the packages that tools/deps.sh lists for building the programs."""
    deps = [package for group in re.findall(r"^(?:run|build)=\((.*?)\)", read("tools/deps.sh"), re.S | re.M) for package in group.split()]
    assert "libssl-dev" in deps and "zlib1g-dev" in deps, deps
    build = instructions(read("ops/docker/Dockerfile"))[1][1]
    adapters = {"libleveldb-dev", "librocksdb-dev", "libhiredis-dev"} # the image has no adapters or examples
    for package in deps:
        if package.endswith("-dev") and package not in adapters:
            assert f" {package} " in build + " ", f"{package} is missing"


def main():
    failed = 0
    for function in tests:
        try:
            function()
            print(f"ok {function.__name__}")
        except Exception as error:  # noqa: a failing test must not hide the others
            failed += 1
            print(f"FAILED {function.__name__}: {type(error).__name__}: {error}")
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
