#!/usr/bin/env python3
"""Runs all phases of `make test`, even if one fails, and reports failures and times. Each test in a test program is
counted separately; a script or a failed build counts as one test. The output of a failed test is printed when its phase
ends, and its name again before the last line, which is "N passed, N failed". The exit status is 1 if anything failed.

usage: run_tests.py [PHASE...]   (default: all phases except analyze and fast)"""

import concurrent.futures
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CPUS = len(os.sched_getaffinity(0)) # the CPUs that this process may use, which can be fewer than the machine has
JOBS = str(CPUS)
MORE_JOBS = str(2 * CPUS) # for tests that spend much of their time waiting
OUTPUT = 200_000 # longest output of a failed test to print, in characters

passed = failed = 0
failures = [] # names of all failed tests
durations = [] # (seconds, name) for each test in the current phase


def count(good, bad):
    global passed, failed
    passed += good
    failed += bad


def run(command, env=None):
    """Runs a command. Returns whether the command succeeded, and its output."""
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **(env or {})}, text=True,
                          errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode == 0, done.stdout


def shorten(output):
    """Removes the middle of an output that is too long. The start shows which test failed first, the end how it ended."""
    if len(output) <= OUTPUT:
        return output
    half = OUTPUT // 2
    return f"{output[:half]}\n[... {len(output) - 2 * half} characters omitted ...]\n{output[-half:]}"


def report(name, output):
    failures.append(name)
    print(f"--- FAILED {name}\n{shorten(output.rstrip())}\n---", flush=True)


def check(name, command):
    """Runs a command that counts as one test."""
    good, output = run(command)
    count(good, not good)
    if not good:
        report(name, output)
    return good


def configure(preset):
    good, output = run(["cmake", "--preset", preset])
    if not good:
        count(0, 1)
        report(f"configure {preset}", output)
    return good


# Tests often wait, so builds run in the background at the lowest priority, one after another in the order of the
# phases. Each build uses the CPU time that the tests of the previous phase leave idle.
builder = concurrent.futures.ThreadPoolExecutor(1)
TARGETS = {"dev": ["tests_of_other_builds"]} # all other presets build all targets, because their phases run most tests
builds = {} # preset -> future of (failed step, output)


def build_in_background(preset):
    for step, command in (("configure", ["cmake", "--preset", preset]),
                          ("build", ["nice", "-n", "19", "cmake", "--build", "--preset", preset, "-j", JOBS,
                                     "--target", *TARGETS.get(preset, ["all"])])):
        good, output = run(command)
        if not good:
            return step, re.sub(r"^\[\d+/\d+\] .*\n", "", output, flags=re.M)
    return None, ""


def build(preset):
    """Waits until a preset is built. A failure counts as one failed test."""
    failed_step, output = builds[preset].result()
    if failed_step:
        count(0, 1)
        report(f"{failed_step} {preset}", output)
    return not failed_step


def folder(preset):
    return "build" if preset == "release" else f"build-{preset}"


def ctest(preset, labels=".", env=None, wrapper=(), without="^$", skip="^$", jobs=JOBS, names="."):
    """Runs the tests with these labels and names, except those with a label in `without` or a name in `skip`,
    and counts the results."""
    with tempfile.NamedTemporaryFile(suffix=".xml") as results:
        good, output = run([*wrapper, "ctest", "--test-dir", folder(preset), "-j", jobs, "-L", labels,
                            "-LE", without, "-R", names, "-E", skip, "--output-junit", results.name,
                            "--test-output-size-passed", "10000000", "--test-output-size-failed", "10000000"], env)
        try:
            cases = xml.etree.ElementTree.parse(results.name).getroot().findall("testcase")
        except xml.etree.ElementTree.ParseError:
            count(0, 1)
            report(f"ctest {preset}", output)
            return
    durations.extend((float(case.get("time") or 0), case.get("name")) for case in cases)
    for case in cases:
        text = case.findtext("system-out") or ""
        tallies = re.findall(r"^(\d+) passed, (\d+) failed$", text, re.M)
        if case.get("status") == "run":
            count(int(tallies[-1][0]) if tallies else 1, 0)
        elif "SKIP_RETURN_CODE" in (getattr(case.find("skipped"), "attrib", {}).get("message") or ""):
            print(f"--- {case.get('name')} {text.strip() or 'skipped'}", flush=True)
        else:
            good_inside, bad_inside = map(int, tallies[-1]) if tallies else (0, 1)
            count(good_inside, max(1, bad_inside))
            setting = "".join(f" {name}={value}" for name, value in (env or {}).items())
            report(f"{case.get('name')} ({preset}{setting})", text or output)


# ---- The phases ------------------------------------------------------------------------


def sources(*endings):
    """Yields the files in the tree with these endings; skips build directories."""
    for place, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not re.match(r"(\.|build$|build-)", f))
        for name in sorted(names):
            if name.endswith(endings):
                yield os.path.relpath(os.path.join(place, name), ROOT)


def tidy(checks, leave_out="^$"):
    """Runs clang-tidy on every compiled file whose path does not match `leave_out`."""
    if not configure("dev"):
        return
    with open(os.path.join(ROOT, "build-dev/compile_commands.json"), encoding="utf-8") as f:
        files = sorted({os.path.relpath(unit["file"], ROOT) for unit in json.load(f) if unit["file"].endswith(".c")})
    files = [path for path in files if not re.match(rf"build|{leave_out}", path)] # generated files are in build*/

    def one(path):
        return path, *run(["clang-tidy", "-p", "build-dev", "--quiet", f"--checks={checks}", path])
    with concurrent.futures.ThreadPoolExecutor(CPUS) as pool:
        for path, good, output in pool.map(one, files):
            count(good, not good)
            if not good:
                report(f"clang-tidy {path}", output)


def check_text():
    check("clang-format (make format)", ["clang-format", "--dry-run", "-Werror", *sources(".c", ".h")])
    check("check_layers", ["python3", "tools/check_layers.py"])
    check("check_prose", ["python3", "tools/check_prose.py"])


def lint():
    """format, layers, prose, and clang-tidy, which also compiles every file with clang's warnings"""
    check_text()
    tidy("-clang-analyzer-*")


def analyze():
    """clang's static analyzer on the shipped code; it takes ten times as long as the rest of clang-tidy"""
    tidy("-*,clang-analyzer-*,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling,"
         "-clang-analyzer-security.FloatLoopCounter,-clang-analyzer-optin.performance.Padding",
         "tests/|fuzz/|bench/|examples/")


def instruction_sets():
    """Returns the values of BLOOMGATE_CPU that this machine supports."""
    if platform.machine() == "aarch64":
        return ["scalar", "neon"]
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        flags = set(f.read().split())
    wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512ifma"} <= flags
    return ["scalar"] + ["avx2"] * ("avx2" in flags) + ["avx512"] * wide


# Single-threaded commands, which cannot have data races.
ONE_THREAD = "cli_(bench|documents|plan|check_completion|options|info|keyring)$"


# Each of the builds below uses a different instruction set: dev uses the best available one, asan the
# second best, and tsan plain C, because the sanitizer does not see vector loads.


def dev():
    """gcc with assertions, best instruction set: all tests except statistics, threads, programs, scripts and fuzzing"""
    if build("dev"):
        ctest("dev", without="prop|conc|service|fuzz|cli|script") # conc runs in tsan (with assertions) and in release


def asan():
    """address errors and undefined behavior, second-best instruction set"""
    if build("asan-ubsan"):
        ctest("asan-ubsan", "unit|api|examples|fuzz|cli|server|adapters",
              {"ASAN_OPTIONS": "detect_stack_use_after_return=1", "UBSAN_OPTIONS": "print_stacktrace=1",
               "BLOOMGATE_CPU": (["scalar"] + instruction_sets())[-2]}, jobs=MORE_JOBS)


def tsan():
    """data races, in plain C"""
    if build("tsan"):
        # Runs without address-space randomization, because newer kernels use more random bits than
        # this TSan can map.
        fixed = ["setarch", platform.machine(), "-R"]
        fixed = fixed if run([*fixed, "true"])[0] else ()
        ctest("tsan", "conc|unit|cli|server", {"TSAN_OPTIONS": "halt_on_error=1", "BLOOMGATE_CPU": "scalar"}, fixed,
              "signals|service", ONE_THREAD, MORE_JOBS)


def release():
    """the shipped build: properties, threads, programs, installation, symbols, ABI, documents"""
    if build("release"):
        # Skips tests that run in other builds. Scripts mostly wait, so more of them run at once.
        ctest("release", without="^(unit|server|fuzz|api|adapters)$", jobs=MORE_JOBS)


def cross():
    """unit tests on other architectures: 64-bit ARM, big-endian, 32-bit"""
    for preset in CROSS:
        if build(preset):
            ctest(preset, "unit")


# For the phase `fast`: unit tests that take more than four seconds, and tests of the programs that take at most two.
SLOW = "^test_(static|journal|window|persist|cuckoo|ribbon|oplog)$"
PROGRAMS = "^(cli_(check|convert|diff|help|merge|options|verify)|server_test_(http_wire|redis_cli|secrets))$"


def fast():
    """`make check`: format, layers, prose, and the fast tests, built with gcc and assertions"""
    check_text()
    if build("dev"):
        ctest("dev", "^(unit|api|server)$", skip=SLOW)
        ctest("dev", names=PROGRAMS)


# The presets that each phase needs. The release tests spend the most time waiting, so the phases with the longest
# builds follow them.
CROSS = ["aarch64", "s390x", "i386"]
PHASES = {lint: [], dev: ["dev"], release: ["release"], asan: ["asan-ubsan"], tsan: ["tsan"], cross: CROSS, analyze: [],
          fast: ["dev"]}
LEFT_OUT = ["analyze", "fast"] # unless they are selected


def timed(phase):
    """Runs a phase and prints its counts, duration and longest tests."""
    before, start = (passed, failed), time.monotonic()
    durations.clear()
    print(f"== {phase.__name__}: {phase.__doc__}", flush=True)
    phase()
    print(f"   {passed - before[0]} passed, {failed - before[1]} failed "
          f"in {time.monotonic() - start:.0f} s", flush=True)
    if durations:
        slowest = ", ".join(f"{name} {seconds:.0f} s" for seconds, name in sorted(durations, reverse=True)[:8])
        print(f"   slowest tests (total {sum(seconds for seconds, _ in durations):.0f} s): {slowest}", flush=True)


def main():
    names = [phase.__name__ for phase in PHASES]
    wanted = sys.argv[1:] or [name for name in names if name not in LEFT_OUT]
    if not set(wanted) <= set(names):
        sys.exit(f"phases: {' '.join(names)}")
    phases = [phase for phase in PHASES if phase.__name__ in wanted]
    if fast in phases:
        TARGETS["dev"] += ["bloomgate_cli", "bloomgated"]
    try:
        for phase in phases:
            if PHASES[phase] and not builds: # after lint, which configures the first preset
                builds.update((preset, builder.submit(build_in_background, preset)) for p in phases for preset in PHASES[p])
            timed(phase)
    finally:
        builder.shutdown(cancel_futures=True)
    if failures:
        print("failed tests:")
    for name in failures:
        print(f"  {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
