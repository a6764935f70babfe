#!/usr/bin/env python3
"""Runs `make run` in a bare Debian 12 root, as after a fresh installation, and checks that it installs little, builds
quickly, and starts a service that answers the commands it prints. Then repeats it unchanged, as an unprivileged
user, and with a package missing and no way to install it. Packages come from the machine's own package
sources. Must run as root. The last line is "N passed, N failed".

usage: test_bare.py"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, f"{ROOT}/tests/tools")
from check_run import INSTALL, free_port, printed_commands # noqa

MIB_MAX = 250
# Two idle cores that build and start the service in 120 s spend up to 240 s of CPU time. Unlike the elapsed time,
# the CPU time is nearly the same on a busy machine.
CPU_SECONDS_MAX = 200
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
USER = "65534" # without privileges and home directory
UNPRIVILEGED = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")

passed = failed = 0


def check(name, good, detail=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(f"{'ok' if good else 'FAILED'} {name}", flush=True)
    if not good:
        print(detail, flush=True)
    return good


def output_lines(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def package_sources():
    """Returns the Debian 12 lines of the machine's package sources."""
    lines = output_lines("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
                         "Created-By: Packages", "Origin: Debian")
    return sorted({f"deb {line}" for line in lines if re.fullmatch("bookworm(-updates|-security)?", line.split()[1])})


def create_root(folder):
    lines = package_sources()
    if not lines:
        subprocess.run(["apt-get", "-qq", "update"], check=True)
        lines = package_sources()
    if not lines:
        sys.exit("no Debian 12 package sources: add them to /etc/apt/sources.list")
    proxies = [f"--aptopt={line}" for line in output_lines("apt-config", "dump") if re.match(r"Acquire::https?::Proxy\b", line)]
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", *proxies, "bookworm", folder, "-"], check=True,
                   input="\n".join(lines) + "\n", text=True)
    shutil.copy("/etc/resolv.conf", f"{folder}/etc/resolv.conf")
    shutil.copytree(ROOT, f"{folder}/src", symlinks=True, ignore=shutil.ignore_patterns(".git", "build", "build-*"))
    subprocess.run(["mount", "-t", "proc", "proc", f"{folder}/proc"], check=True)


class Bare:
    """A root directory in which commands run with an empty environment: HOME is not set."""
    def __init__(self, folder):
        self.folder = folder

    def command(self, *words, before=()):
        return [*before, "chroot", self.folder, "env", "-i", PATH, *words]

    def run(self, *words, before=()):
        """Runs a command. Returns its exit status and output."""
        done = subprocess.run(self.command(*words, before=before), text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def shell(self, text):
        return self.run("sh", "-c", text)

    def packages(self):
        """Returns the number of installed packages and their size in MiB."""
        sizes = self.run("dpkg-query", "-W", "-f", "${Installed-Size}\n")[1].split()
        return len(sizes), sum(map(int, sizes)) / 1024


def cpu_seconds(pid):
    """Returns the CPU time of a process's terminated children."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


class Run:
    """`make run` in the root, until it prints that the service is ready, or fails."""
    def __init__(self, bare, folder, user=()):
        self.bare = bare
        self.lines, self.times, self.cpu = [], {}, {}
        self.ready = threading.Event()
        options = f"ARGS=--port {free_port()} --http-port {free_port()}"
        self.start = time.monotonic()
        self.process = subprocess.Popen(bare.command(*user, "make", "-C", folder, "run", options), text=True,
                                        start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        threading.Thread(target=self.read, daemon=True).start()
        self.ready.wait()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            for event, pattern in (("build", "  CC "), ("ready", "bloomgated is ready")):
                if line.startswith(pattern) and event not in self.times:
                    self.times[event] = time.monotonic() - self.start
                    self.cpu[event] = cpu_seconds(self.process.pid)
            if "Ctrl-C" in line:
                self.ready.set()
        self.ready.set()

    def answers(self):
        """Checks the printed commands."""
        text = "".join(self.lines)
        if not check("the service is ready", "ready" in self.times, text):
            return
        for command, pattern in printed_commands(text):
            status, output = self.bare.shell(command)
            check(command, status == 0 and pattern.fullmatch(output), output)

    def stop(self):
        """Sends SIGINT to all processes, like Ctrl-C."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait()
        check("Ctrl-C stops the service", self.bare.shell("! grep -l bloomgated /proc/[0-9]*/comm")[0] == 0)


def first_run(bare):
    count, size = bare.packages()
    status, output = bare.shell(f"start=$(date +%s) && {INSTALL} -y make && echo $(($(date +%s) - start))")
    if not check("install make", status == 0, output):
        return False
    make_seconds = int(output.split()[-1])
    run = Run(bare, "/src")
    run.answers()
    more, larger = bare.packages()
    if "ready" in run.times:
        seconds = run.times["ready"] - run.times["build"]
        cpu = run.cpu["ready"] - run.cpu["build"]
        print(f"   packages installed:  {more - count}, {larger - size:.0f} MiB, in {make_seconds + run.times['build']:.0f} s\n"
              f"   build and start:     {seconds:.0f} s; {cpu:.0f} s of CPU time on {os.cpu_count()} cores, "
              f"load average {os.getloadavg()[0]:.0f}")
        check(f"the packages need at most {MIB_MAX} MiB", larger - size <= MIB_MAX)
        check(f"the build needs at most {CPU_SECONDS_MAX} s of CPU time", cpu <= CPU_SECONDS_MAX)
    run.stop()
    return "ready" in run.times


def build_again(bare):
    make = "make -C /src -f tools/bloomgated.mk"
    status, output = bare.shell(make)
    check("nothing is built again", status == 0 and "CC" not in output, output)
    status, output = bare.shell(f"touch /src/server/api/assets.h && {make}")
    check("an edit of a header rebuilds what includes it", status == 0 and 2 <= output.count("  CC ") <= 20, output)


def unprivileged_run(bare):
    bare.shell(f"cp -a /src /own && rm -r /own/build-run/example && chown -R {USER} /own")
    bare.shell("touch /own/server/main/bloomgated.c")
    run = Run(bare, "/own", UNPRIVILEGED)
    run.answers()
    check("an unprivileged user builds what changed", "".join(run.lines).count("  CC ") == 1, "".join(run.lines))
    run.stop()


def missing_packages(bare):
    """Checks the messages when packages are missing and cannot be installed."""
    def explains(name, target, package, user=(), before=()):
        status, output = bare.run(*user, "make", "-C", "/own", target, before=before)
        command = re.search(rf"^ +{INSTALL} .*\b{package}\b.*$", output, re.M)
        check(name, status != 0 and re.search(rf"^Missing packages: .*\b{package}\b", output, re.M) and command, output)
        return command and command[0].strip()
    bare.run("dpkg", "--remove", "sqlite3")
    explains("make run explains what to install without privileges", "run", "sqlite3", UNPRIVILEGED)
    explains("make test explains what to install without privileges", "test", "clang-tidy", UNPRIVILEGED)
    bare.shell("apt-get clean")
    command = explains("make run explains what to install without a network", "run", "sqlite3",
                       before=("unshare", "--net"))
    status, output = bare.shell(f"export DEBIAN_FRONTEND=noninteractive; {command} && make -n -C /own run")
    check("the printed command installs the packages", status == 0 and bare.run("/own/tools/deps.sh", "run") == (0, ""), output)


def main():
    if os.getuid() != 0:
        sys.exit("make test-bare changes its root directory and must run as root")
    if "BG_BARE" not in os.environ: # own mounts and processes, which end with this script
        os.execvpe("unshare", ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable,
                               *sys.argv], {**os.environ, "BG_BARE": "1"})
    folder = tempfile.mkdtemp(prefix="bare.")
    try:
        os.chmod(folder, 0o755)
        create_root(folder)
        bare = Bare(folder)
        if first_run(bare):
            build_again(bare)
            unprivileged_run(bare)
            missing_packages(bare)
    finally:
        subprocess.run(["umount", f"{folder}/proc"], check=False)
        subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
