"""The check of all events: a key that is committed in the table is not denied.

While the event runs, `Monitor` asks for every key whose commit was acknowledged before the time up
to which the gate claims to be complete. Afterwards `settle` compares the gate with the table itself,
and shows that the filter works again: a gate that answers "maybe" for everything passes nothing.
"""

import random
import threading
import time

from gate import Failure, expect
from pgwire import Lost, SqlError

SAMPLE = 400


def check(case, gates=None):
    """No key that is in the table now is denied, once the gates claim to have seen it."""
    keys, since = case.truth(), time.monotonic_ns()
    for gate in gates or case.gates:
        gate.wait_caught(since)
        denied = set(gate.denied(keys))
        if denied:
            denied &= case.truth()  # others write and delete meanwhile
        refuse(case, gate, denied, len(keys))
    return len(keys)


def check_doubt(case):
    """No key that is in the table is denied, of a gate that cannot be complete."""
    gate = case.gate
    gate.wait_doubt()
    refuse(case, gate, gate.denied(case.truth()), 0)
    expect(gate.about()["trusted"] == "0", "the gate is trusted")


def check_works(case, gate):
    """The filter is trusted again, and answers for absent keys without the database."""
    gate.wait_trusted()
    keys = case.absent(SAMPLE)
    denied = len(gate.denied(keys))
    expect(denied >= 0.8 * SAMPLE, f"of {SAMPLE} absent keys the filter rejects {denied}: {gate.about()}")


def settle(case):
    """After an event: right at once, right when trusted again, right for what is written then."""
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
        expect(outcome == "present", f"a lookup of a key in the table: {outcome}")
    return checked


def refuse(case, gate, denied, total):
    """Fails if there are any."""
    if denied:
        examples = ", ".join(repr(key[:40]) for key in sorted(denied)[:3])
        raise Failure(f"{len(denied)} of {total} committed keys denied, such as {examples}; "
                      f"{case.key} keys; {gate.about()}; {gate.events()[-6:]}")


class Monitor:
    """Asks for acknowledged keys all the time, in a thread."""

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
                    pass  # the gate was stopped meanwhile: the event's own business
                except (ValueError, OSError):
                    pass
            time.sleep(0.05)

    def _look(self, gate, done):
        """Asks for keys from number `done` on, and some before; how far it came."""
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
        """A denied key may have been deleted, or its server replaced."""
        try:
            denied = set(denied) & self.case.truth()
            if denied:
                refuse(self.case, gate, denied, len(self.case.acknowledged))
        except (SqlError, Lost):
            pass
        except Failure as failure:
            self.failure = str(failure)
