"""Free ports and the time limit for waits, shared by all test scripts. Tests must pass on a machine that is slow or
busy, so no test asserts a duration, and PATIENCE limits only how long a failing test can hang.

A port that was free a moment ago can be taken by another process before a server listens on it, or while a server
restarts. free_port() prevents both cases: it returns only ports that the kernel does not assign to outgoing connections,
and it reserves them against other test scripts for as long as this process runs, even if those run as other users."""

import itertools
import os
import random
import socket
import time

PATIENCE = float(os.environ.get("BG_TEST_PATIENCE", "300"))  # timeout for each wait, in seconds

_random = random.Random()  # independent of the seeds that tests set
_reserved = {}  # port -> the socket whose name reserves the port


def _server_ports():
    """Returns the ports that the kernel does not assign to outgoing connections."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            low, high = map(int, file.read().split())
    except OSError:
        low, high = 32768, 60999
    ports = {port for port in range(10000, 65536) if not low <= port <= high}
    return ports if len(ports) > 1000 else set(range(10000, 65536))


_ports = _server_ports()


def _reserve(port):
    """Reserves a port if it is free. Returns whether it was."""
    if port in _reserved:
        return False
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0bloomgate-test-port-{port}")  # the kernel frees the name when this process exits
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(("127.0.0.1", port))
    except OSError:
        name.close()
        return False
    _reserved[port] = name
    return True


def release_port(port):
    if port in _reserved:
        _reserved.pop(port).close()


def free_port(*offsets):
    """Returns a free port and reserves it, along with the ports at the given offsets."""
    suitable = [port for port in _ports if all(port + offset in _ports for offset in offsets)]
    for port in _random.sample(suitable, len(suitable)):
        wanted = [port, *(port + offset for offset in offsets)]
        done = list(itertools.takewhile(_reserve, wanted))
        if done == wanted:
            return port
        for one in done:
            release_port(one)
    raise OSError("no free port")


def wait_for(condition, seconds=PATIENCE, what="a condition"):
    """Waits until the condition is true and returns its value. Fails after the timeout."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"timed out after {seconds:g} s waiting for {what}"
        time.sleep(0.01)
