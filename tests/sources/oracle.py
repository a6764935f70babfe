"""Checks the rule that holds for all events: the gate never reports a committed key as absent.

A gate reports the time up to which it is current. While the event runs, `Monitor` looks up every key whose commit was
acknowledged before that time. Afterwards, `settle` compares the gate with the table itself. `settle` also verifies that
the filter works again, so a gate that answers "maybe" for all keys fails.
"""

import random
import threading
import time

from gate import Failure, expect
from pgwire import Lost, SqlError

SAMPLE = 400


def check(case, gates=None):
    """Verifies that once the gates have caught up, they report no key in the table as absent. Returns the number of
    keys."""
    keys, since = case.truth(), time.monotonic_ns()
    for gate in gates or case.gates:
        gate.wait_caught(since)
        denied = set(gate.denied(keys))
        if denied:
            denied &= case.truth()  # writers may have deleted some of the keys
        refuse(case, gate, denied, len(keys))
    return len(keys)


def check_doubt(case):
    """Verifies that a gate that cannot follow its source is not trusted and reports no key in the
    table as absent."""
    gate = case.gate
    gate.wait_doubt()
    refuse(case, gate, gate.denied(case.truth()), 0)
    expect(gate.about()["trusted"] == "0", "the gate is trusted")


def check_works(case, gate):
    """Verifies that the filter is trusted again and reports most absent keys as absent without querying the
    database."""
    gate.wait_trusted()
    keys = case.absent(SAMPLE)
    denied = len(gate.denied(keys))
    expect(denied >= 0.8 * SAMPLE, f"the filter reports only {denied} of {SAMPLE} absent keys as absent: {gate.about()}")


def settle(case):
    """Verifies all gates three times after an event: immediately, when they are trusted again, and after new writes."""
    checked = check(case)
    for gate in case.gates:
        gate.wait_trusted()
    check(case)
    for gate in case.gates:
        check_works(case, gate)
    numbers = case.insert(3)
    check(case)
    for gate in case.gates:
        outcome = gate.lookup(case.key.text(numbers[0]))
        expect(outcome == "present", f"a lookup of a key in the table returned {outcome}")
    return checked


def refuse(case, gate, denied, total):
    """Fails if any keys were reported as absent."""
    if denied:
        examples = ", ".join(repr(key[:40]) for key in sorted(denied)[:3])
        raise Failure(f"{len(denied)} of {total} committed keys reported as absent, such as {examples}; "
                      f"{case.key} keys; {gate.about()}; {gate.events()[-6:]}")


class Monitor:
    """A thread that looks up acknowledged keys continuously."""

    def __init__(self, case):
        self.case = case
        self.failure = None
        self.asked = 0
        self.stopping = threading.Event()
        self.random = random.Random(1)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self):
        self.stopping.set()
        self.thread.join()
        if self.failure:
            raise Failure("during the event: " + self.failure)

    def _run(self):
        done = [0] * 8
        while not self.stopping.is_set() and not self.failure:
            for n, gate in enumerate(list(self.case.gates)):
                try:
                    done[n] = self._look(gate, done[n])
                except Failure:
                    pass  # the event has stopped the gate
                except (ValueError, OSError):
                    pass
            time.sleep(0.05)

    def _look(self, gate, done):
        """Looks up acknowledged keys starting at index `done`, and some earlier keys. Returns the
        next index."""
        if not gate.is_running():
            return done
        since = int(gate.about()["since"])
        with self.case.lock:
            due = done
            while due < len(self.case.acknowledged) and self.case.acknowledged[due][0] < since:
                due += 1
            keys = [key for _, key in self.case.acknowledged[done:due]]
            if done:
                keys += [self.case.acknowledged[self.random.randrange(done)][1] for _ in range(20)]
        denied = gate.denied(keys)
        self.asked += len(keys)
        if denied:
            self._confirm(gate, denied)
        return due

    def _confirm(self, gate, denied):
        """Fails if the table still contains a key that was reported as absent. It is not a failure if the table no
        longer contains the key, because then the key was deleted or the server was replaced."""
        try:
            denied = set(denied) & self.case.truth()
            if denied:
                refuse(self.case, gate, denied, len(self.case.acknowledged))
        except (SqlError, Lost):
            pass
        except Failure as failure:
            self.failure = str(failure)
