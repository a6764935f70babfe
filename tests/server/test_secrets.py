#!/usr/bin/env python3
"""Tests that SIGHUP reloads the keyring (new secrets, removed and changed secrets, damaged files), and that BG.SECRET
exports secrets.
usage: test_secrets.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import json
import os
import re
import signal
import urllib.request

import service
from service import Service, Status, alone, wait_for

OK = Status("OK")
HEAD = "# bloomgate keyring: NAME SECRET [retired]\n"
FIRST = "first 000102030405060708090a0b0c0d0e0f\n"
SECOND = "second 8d5d9f0c4e1b2a3748596a7b8c9dae0f\n"


def write_keyring(s, *lines, mode=0o600):
    path = os.path.join(s.folder, "keyring")
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(HEAD + "".join(lines))
    os.chmod(path + ".new", mode)
    os.rename(path + ".new", path)


def reload(s):
    """Reloads the service, and returns what it logs."""
    before = s.read_log()
    s.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "settings reloaded" in s.read_log()[len(before):], what="a reload")
    return s.read_log()[len(before):]


def key_id(s, name):
    answer = s.ask("BG.INFO", name)
    return dict(zip(answer[::2], answer[1::2]))[b"key_id"]


def new_id(s):
    """Returns the key id of new filters."""
    s.ask("DEL", "probe")
    assert s.ask("BF.ADD", "probe", "a") == 1
    return key_id(s, "probe")


def get(s, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{s.http_port}{path}") as response:
        return response.read().decode()


def check_unavailable(s, name, why):
    """Checks that commands, the API and the metrics agree on why a filter is not available, and that neither they nor
    the log suggest dropping it."""
    for words in (("BF.ADD", name, "b"), ("BG.DUMP", name, "0"), ("BG.FOLD", name, 1), ("BG.DIGEST", name),
                  ("COPY", name, "copy")):
        reply = s.ask(*words)
        assert why in reply and "drop" not in reply, (words, reply)
    shown = json.loads(get(s, f"/api/v1/filters/{name}"))
    reasons = shown["health"]["reasons"]
    assert (shown["available"], shown["degraded"], shown["health"]["status"]) == (False, False, "act"), shown
    assert [r["code"] for r in reasons] == ["unavailable"] and why in reasons[0]["text"], reasons
    metrics = get(s, "/metrics")
    assert re.search(f'bloomgate_filter_info{{filter="{name}",kind="none",.*}} 1\n', metrics), metrics
    for metric, value in {"degraded": 0, "fpr_health": 2, "predicted_fpr_ratio": 1}.items():
        assert f'bloomgate_filter_{metric}{{filter="{name}"}} {value}\n' in metrics, metric
    assert "or drop it" not in s.read_log()


def started(program, *lines, http=False):
    s = Service(program, http=http)
    write_keyring(s, *lines)
    return s


@alone
def test_a_new_secret(program):
    with started(program, FIRST) as s:
        assert s.ask("BF.ADD", "old", "a") == 1
        write_keyring(s, FIRST, SECOND)
        assert "keyring" not in reload(s)
        assert s.ask("BF.ADD", "new", "a") == 1
        assert (key_id(s, "old"), key_id(s, "new")) == (b"first", b"second")
        with s.connect() as c:  # a new connection uses the new secret as well
            assert c.ask("BF.ADD", "newer", "a") == 1
        assert key_id(s, "newer") == b"second"
        assert s.ask("COPY", "old", "copy") == 1
        assert s.ask("BG.REBUILD", "copy", "BEGIN", "100") == OK
        assert s.ask("BG.REBUILD", "copy", "ADD", "a") == 1
        assert isinstance(s.ask("BG.REBUILD", "copy", "COMMIT"), list)
        assert key_id(s, "copy") == b"first"  # docs/operations.md
        for _ in range(2):  # before and after a restart
            for name in ("old", "new", "newer", "copy"):
                assert s.ask("BF.MEXISTS", name, "a", "b") == [1, 0], name
            s.restart()


@alone
def test_a_removed_secret(program):
    """Filters with the removed secret still work, even when they are copied, rebuilt or saved."""
    with started(program, FIRST) as s:
        assert s.ask("BF.ADD", "old", "a") == 1
        write_keyring(s, SECOND)
        for _ in range(2):  # the warning is repeated as long as the secret is missing
            assert reload(s).count("secret=first") == 1
        assert s.ask("BF.ADD", "old", "b") == 1
        assert s.ask("BF.ADD", "new", "a") == 1
        assert s.ask("COPY", "old", "copy") == 1
        assert s.ask("BG.CLEAR", "old") == OK
        assert s.ask("BF.MADD", "old", *range(5000)).count(0) < 200  # the filter grows with its own secret
        assert (key_id(s, "old"), key_id(s, "copy"), key_id(s, "new")) == (b"first", b"first", b"second")
        assert s.ask("BF.MEXISTS", "copy", "a", "b", "c") == [1, 1, 0]
        assert s.ask("SAVE") == OK
        write_keyring(s, FIRST, SECOND)
        assert "secret=" not in reload(s)
        s.restart()
        assert s.ask("BF.MEXISTS", "copy", "a", "b", "c") == [1, 1, 0]
        assert s.ask("BF.MEXISTS", "old", *range(5000)) == [1] * 5000


@alone
def test_refused_files(program):
    """The old secrets stay in use if the file is damaged, missing, readable by others, or has no secret for new filters,
    or if a secret has changed."""
    changed = FIRST.replace("0f", "10")
    with started(program, FIRST) as s:
        assert s.ask("BF.ADD", "old", "a") == 1
        path = os.path.join(s.folder, "keyring")
        damages = {
            "damaged": lambda: write_keyring(s, FIRST, SECOND[:-5] + "\n"),
            "empty": lambda: write_keyring(s),
            "retired": lambda: write_keyring(s, FIRST.replace("\n", " retired\n")),
            "changed": lambda: write_keyring(s, changed, SECOND),
            "open": lambda: write_keyring(s, FIRST, SECOND, mode=0o644),
            "missing": lambda: os.unlink(path),
        }
        for what, damage in damages.items():
            damage()
            text = reload(s)
            assert text.count("the keyring was not reloaded") == 1 and "settings reloaded, except the keyring" in text, (what, text)
            assert "00010203" not in text, text  # secrets are never logged
            assert s.ask("BF.ADD", what, "a") == 1
            assert key_id(s, what) == b"first", what
        assert not os.path.exists(path)  # a missing keyring is created only at startup
        write_keyring(s, FIRST, SECOND)
        assert "keyring" not in reload(s)
        assert s.ask("BF.ADD", "new", "a") == 1
        assert key_id(s, "new") == b"second"
        s.restart()
        for name in ("old", *damages, "new"):
            assert s.ask("BF.MEXISTS", name, "a", "b") == [1, 0], name


@alone
def test_a_secret_that_is_missing_at_startup(program):
    """The filter is kept, errors name the missing secret, and the filter works again with the secret."""
    with started(program, FIRST, http=True) as s:
        assert s.ask("BF.ADD", "old", "a") == 1
        write_keyring(s, SECOND)
        s.restart()
        assert s.ask("BF.MEXISTS", "old", "a", "b") == [1, 1]
        check_unavailable(s, "old", "its secret 'first' is not in the keyring; add it and restart")
        assert s.ask("SAVE") == OK
        assert "its secret 'first' is not in the keyring; add it and restart" in s.read_log()
        write_keyring(s, FIRST, SECOND)
        reload(s)
        check_unavailable(s, "old", "its secret 'first' is now in the keyring; restart the service")
        s.restart()
        assert s.ask("BF.MEXISTS", "old", "a", "b") == [1, 0]


@alone
def test_a_different_secret_with_the_same_key_id(program):
    """The keyring was lost, and the service created a new one on the same day."""
    with started(program, FIRST, http=True) as s:
        assert s.ask("BF.ADD", "old", "a") == 1
        assert s.ask("SAVE") == OK
        assert s.ask("BF.ADD", "new", "a") == 1  # only in the journal
        s.stop()
        write_keyring(s, FIRST.replace("0f", "10"))
        s.start()
        for name in ("old", "new"):
            assert s.ask("BF.MEXISTS", name, "a", "b") == [1, 1]
            check_unavailable(s, name, "a different secret with its key ID 'first'; restore the old keyring and restart")
        s.stop()
        write_keyring(s, FIRST)
        s.start()
        for name in ("old", "new"):
            assert s.ask("BF.MEXISTS", name, "a", "b") == [1, 0]


@alone
def test_a_changed_secret_that_was_removed(program):
    with started(program, FIRST, SECOND) as s:
        write_keyring(s, SECOND)
        assert "secret=first" in reload(s)
        write_keyring(s, FIRST.replace("0f", "10"), SECOND)
        assert "the secret 'first' has changed" in reload(s)


@alone
def test_reload_under_load(program):
    """Clients create filters while the secrets change. Each filter uses one secret, and no key is lost."""
    lines = [FIRST]
    with started(program, *lines) as s, s.connect() as c:
        for i in range(20):
            lines.append(f"more-{i} {i:032x}\n")
            write_keyring(s, *lines)
            s.process.send_signal(signal.SIGHUP)
            assert set(c.pipeline([("BF.ADD", f"f{i}-{j}", "a") for j in range(200)])) == {1}
            wait_for(lambda i=i: new_id(s) == f"more-{i}".encode(), what="the new secret")
        s.restart()
        for i in range(20):
            with s.connect() as c:
                assert set(c.pipeline([("BF.EXISTS", f"f{i}-{j}", "a") for j in range(200)])) == {1}
                replies = c.pipeline([("BF.EXISTS", f"f{i}-{j}", "b") for j in range(200)])
            assert replies.count(0) > 150  # a filter without its secret answers "maybe" to every query


@alone
def test_export(program):
    """BG.SECRET requires +bg.secret, which is in the category admin, and each use is logged, but never the secret."""
    hexadecimal = FIRST.split()[1]
    rules = {"reader": "~* +@read", "gates": "~* +@gate", "app": "~* +@all -@dangerous", "other": "~x* +@all",
             "boss": "~* -@all +bg.secret"}
    users = [f"user {name} on nopass {rule}" for name, rule in rules.items()]
    s = Service(program, "log-level error", *users)
    write_keyring(s, FIRST)
    with s, s.connect() as c:
        assert s.ask("BF.ADD", "k", "a") == 1
        assert s.ask("BG.CREATE", "open", "HASH", "fast") == OK
        for name in rules:
            assert c.ask("AUTH", name, "x") == OK
            reply = c.ask("BG.SECRET", "k")
            assert reply == [b"first", hexadecimal.encode()] if name == "boss" else reply.startswith("NOPERM"), (name, reply)
        assert "has no secret" in c.ask("BG.SECRET", "open")
        assert "no such filter" in c.ask("BG.SECRET", "none")
        line = s.read_log().splitlines()[-1]
        assert 'msg=secret text="user boss at 127.0.0.1:' in line and line.endswith("filter=k"), line
        before = s.read_log().count("msg=secret")
        assert len(c.pipeline([("BG.SECRET", "k")] * 100)) == 100
        assert s.read_log().count("msg=secret") == before + 100, "a use was not logged"
        shown = repr(s.ask("SLOWLOG", "GET", "-1")) + s.read_log()
        assert hexadecimal not in shown and hexadecimal[2:] not in shown
        info = s.ask("COMMAND", "INFO", "BG.SECRET")[0]
        assert set(info[6]) == {"@admin", "@dangerous", "@slow"}, info
        write_keyring(s, SECOND)
        s.restart()
        assert "its secret 'first' is not in the keyring" in s.ask("BG.SECRET", "k")


service.main(__doc__)
