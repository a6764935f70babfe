#!/usr/bin/env python3
"""Runs tests under conditions that must not change their results: one core, an unprivileged user with an empty
environment, other locales and time zones, no IPv6, small and large caches, a busy machine, a strict umask, and occupied
ports. Prints every failed test with its condition, and ends with "N passed, N failed". A condition that this machine
cannot provide (most of them need root) is skipped with a message.

usage: test_conditions.py [--build DIRECTORY] [--only CONDITION,...] [-j JOBS] [--list] [CTEST-REGEX...]

By default, all tests of the build in build-dev run under every condition. Each CTEST-REGEX selects tests by name:
test_conditions.py --only user,locale_tr 'cli_' 'test_base' runs the command-line tests and some unit tests."""

import argparse
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOBODY = "65534"
PORTS = (5432, 6379, 6420, 8420) # defaults of PostgreSQL, Redis and Bloomgate
CACHES = "/sys/devices/system/cpu/cpu0/cache"


class Skipped(Exception):
    """This machine cannot provide the condition."""


def need_root(reason):
    if os.geteuid() != 0:
        raise Skipped(f"{reason} needs root")


# ---- Preparations inside a namespace -----------------------------------------------------
#
# Some conditions need their own mounts or network. For these, this script runs itself in new namespaces
# (`unshare ... test_conditions.py --inside PREPARATION ARGUMENT -- COMMAND`), changes them, and runs the command.


listeners = [] # open while the command runs; not inherited by it


def inside_lo(_):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def inside_no_ipv6(_):
    with open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w", encoding="ascii") as f:
        f.write("1")
    inside_lo(_)


def inside_ports(_):
    inside_lo(_)
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for port in PORTS:
            listener = socket.socket(family)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address, port))
            listener.listen()
            listeners.append(listener)


def inside_caches(folder):
    subprocess.run(["mount", "--bind", folder, CACHES], check=True)


def inside_tree(folder):
    """Mounts a copy of the tree over the original, because builds contain absolute paths."""
    subprocess.run(["mount", "--bind", folder, ROOT], check=True)


INSIDE = {"lo": inside_lo, "no_ipv6": inside_no_ipv6, "ports": inside_ports, "caches": inside_caches,
          "tree": inside_tree}


def inside(preparation, argument, command):
    """Returns a command that runs `command` in new namespaces after a preparation."""
    spaces = ["--net"] if preparation in ("lo", "no_ipv6", "ports") else ["--mount"]
    return ["unshare", *spaces, sys.executable, os.path.abspath(__file__), "--inside", preparation, argument, "--",
            *command]


# ---- Conditions ----------------------------------------------------------------------------
#
# Each condition is a context manager. It yields a function that changes a command, and a complete environment.


@contextlib.contextmanager
def one_core(_):
    """one core"""
    core = str(min(os.sched_getaffinity(0)))
    yield lambda command: ["taskset", "-c", core, *command], dict(os.environ)


@contextlib.contextmanager
def user(build):
    """an unprivileged user without a home directory, and an environment with only PATH"""
    need_root("running as another user")
    with tempfile.TemporaryDirectory(prefix="bloomgate-conditions-") as folder:
        os.chmod(folder, 0o755)
        copy = os.path.join(folder, "tree")

        def unneeded(place, names):
            top = os.path.abspath(place) == ROOT
            return [name for name in names if top and name != os.path.basename(build)
                    and (name == ".git" or name == "build" or name.startswith("build-"))]
        shutil.copytree(ROOT, copy, symlinks=True, ignore=unneeded)
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", copy], check=True)
        drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
        drop += ["env", "-i", "--chdir=/", "PATH=/usr/local/bin:/usr/bin:/bin"]
        ctest = shutil.which("ctest")
        yield lambda command: inside("tree", copy, [*drop, ctest, *command[1:]]), dict(os.environ)


def locale(name, zone):
    @contextlib.contextmanager
    def condition(_):
        language, code = name.split(".")
        with tempfile.TemporaryDirectory(prefix="bloomgate-conditions-") as folder:
            made = subprocess.run(["localedef", "-i", language, "-f", code, os.path.join(folder, name)],
                                  capture_output=True, text=True)
            if not os.path.exists(os.path.join(folder, name, "LC_NUMERIC")):
                raise Skipped(f"localedef cannot create {name}: {made.stderr.strip() or 'is the package locales installed?'}")
            os.chmod(folder, 0o755)
            yield lambda command: command, {**os.environ, "LOCPATH": folder, "LANG": name, "LC_ALL": name,
                                            "LANGUAGE": language, "TZ": zone}
    condition.__doc__ = f"locale {name}, time zone {zone}"
    return condition


@contextlib.contextmanager
def no_ipv6(_):
    """a network without IPv6"""
    need_root("a network namespace")
    yield lambda command: inside("no_ipv6", "", command), dict(os.environ)


def caches(machine, sizes):
    """Describes a machine to the library, and replaces the kernel's description of the caches if possible."""
    @contextlib.contextmanager
    def condition(_):
        with tempfile.TemporaryDirectory(prefix="bloomgate-conditions-") as folder:
            os.chmod(folder, 0o755)
            for index, (level, kind, size) in enumerate(sizes):
                place = os.path.join(folder, f"index{index}")
                os.mkdir(place)
                for name, text in (("level", level), ("type", kind), ("size", size)):
                    with open(os.path.join(place, name), "w", encoding="ascii") as f:
                        f.write(f"{text}\n")
            real = os.geteuid() == 0 and os.path.isdir(CACHES)
            yield (lambda command: inside("caches", folder, command) if real else command,
                   {**os.environ, "BLOOMGATE_MACHINE": machine})
    condition.__doc__ = f"BLOOMGATE_MACHINE={machine}, and the same caches in the kernel's files"
    return condition


@contextlib.contextmanager
def busy(_):
    """four busy-looping processes"""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        yield lambda command: command, dict(os.environ)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextlib.contextmanager
def umask(_):
    """umask 077"""
    before = os.umask(0o077)
    try:
        yield lambda command: command, dict(os.environ)
    finally:
        os.umask(before)


@contextlib.contextmanager
def ports(_):
    need_root("a network namespace")
    yield lambda command: inside("ports", "", command), dict(os.environ)


ports.__doc__ = f"ports {', '.join(map(str, PORTS))} in use"

CONDITIONS = {
    "one_core": one_core,
    "user": user,
    "locale_tr": locale("tr_TR.UTF-8", "Asia/Kathmandu"),
    "locale_de": locale("de_DE.UTF-8", "America/St_Johns"),
    "no_ipv6": no_ipv6,
    "tiny_caches": caches("l1=4Ki,l2=16Ki,l3=0,memory=64Mi,cpus=1",
                          [(1, "Data", "4K"), (1, "Instruction", "4K"), (2, "Unified", "16K")]),
    "huge_caches": caches("l1=128Ki,l2=16Mi,l3=260Mi,memory=1536Gi,cpus=192",
                          [(1, "Data", "128K"), (1, "Instruction", "64K"), (2, "Unified", "16M"),
                           (3, "Unified", "266240K")]),
    "busy": busy,
    "umask": umask,
    "ports": ports,
}

# ---- Running the tests --------------------------------------------------------------------


def run(name, build, patterns, jobs):
    """Runs the tests under a condition. Returns how many passed and failed."""
    with tempfile.TemporaryDirectory(prefix="bloomgate-conditions-") as folder, CONDITIONS[name](build) as (wrap, env):
        os.chmod(folder, 0o777) # the condition may run ctest as another user
        results = os.path.join(folder, "results.xml")
        command = ["ctest", "--test-dir", build, "-j", str(jobs), "--output-junit", results,
                   "--test-output-size-passed", "10000000", "--test-output-size-failed", "10000000"]
        if patterns:
            command += ["-R", "|".join(f"({pattern})" for pattern in patterns)]
        done = subprocess.run(wrap(command), cwd=ROOT, env=env, text=True, errors="replace", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        try:
            cases = xml.etree.ElementTree.parse(results).getroot().findall("testcase")
        except (OSError, xml.etree.ElementTree.ParseError):
            cases = []
    if not cases:
        print(f"--- FAILED {name}: ctest ran no tests\n{done.stdout.rstrip()}\n---", flush=True)
        return 0, 1
    passed = failed = 0
    for case in cases:
        text = case.findtext("system-out") or ""
        tallies = re.findall(r"^(\d+) passed, (\d+) failed$", text, re.M)
        good, bad = map(int, tallies[-1]) if tallies else (0, 0)
        if case.get("status") == "run":
            passed += good or 1
        elif "SKIP_RETURN_CODE" in (getattr(case.find("skipped"), "attrib", {}).get("message") or ""):
            print(f"--- {case.get('name')}: {text.strip() or 'skipped'}", flush=True)
        else:
            passed, failed = passed + good, failed + max(1, bad)
            print(f"--- FAILED {case.get('name')} ({name})\n{text.rstrip()[-8000:]}\n---", flush=True)
    return passed, failed


def main():
    if sys.argv[1:2] == ["--inside"]:
        INSIDE[sys.argv[2]](sys.argv[3])
        sys.exit(subprocess.call(sys.argv[5:]))
    parser = argparse.ArgumentParser(description="Runs tests under conditions that must not change their results.")
    parser.add_argument("--build", default="build-dev", help="build directory (default: build-dev)")
    parser.add_argument("--only", default=",".join(CONDITIONS), help="conditions, separated by commas (default: all)")
    parser.add_argument("-j", dest="jobs", type=int, default=os.cpu_count() or 1, help="tests to run at once")
    parser.add_argument("--list", action="store_true", help="print the conditions and exit")
    parser.add_argument("patterns", nargs="*", metavar="CTEST-REGEX", help="names of tests (default: all)")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{name:12} {condition.__doc__}" for name, condition in CONDITIONS.items()))
        return 0
    names = options.only.split(",")
    unknown = [name for name in names if name not in CONDITIONS]
    if unknown:
        parser.error(f"unknown condition {unknown[0]!r}; expected {', '.join(CONDITIONS)}")
    build = os.path.join(ROOT, options.build)
    if not os.path.exists(os.path.join(build, "CTestTestfile.cmake")):
        parser.error(f"{options.build} is not a build directory of this tree; build it first, for example with "
                     "cmake --preset dev && cmake --build --preset dev")
    passed = failed = 0
    for name in names:
        print(f"== {name}: {CONDITIONS[name].__doc__}", flush=True)
        try:
            good, bad = run(name, build, options.patterns, options.jobs)
        except Skipped as reason:
            print(f"   skipped: {reason}", flush=True)
            continue
        passed, failed = passed + good, failed + bad
        print(f"   {good} passed, {bad} failed", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
