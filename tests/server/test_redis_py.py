#!/usr/bin/env python3
"""Runs redis-py against the service: all of its BF and CF commands, pipelines with and without
MULTI, retries, pools, the asyncio client, and requests for unsupported features.
usage: test_redis_py.py PATH-OF-BLOOMGATED [PART-OF-A-NAME...]"""

import asyncio
import threading
import time

import service
from service import Service, Skip, alone, wait_for

try:
    import redis
    import redis.asyncio
    from redis.backoff import ConstantBackoff
    from redis.retry import Retry
except ImportError:
    redis = None


TYPES = {"BF": b"MBbloom--", "CF": b"MBbloomCF"}


def prepare():
    if redis is None:
        raise Skip("no redis-py (Debian: python3-redis)")
    print(f"redis-py {redis.__version__}")


def client(s, **options):
    return redis.Redis(port=s.port, **options)


def refused(call, *parts):
    """Calls a function, which must fail with an error that contains all of `parts`."""
    try:
        call()
    except redis.ResponseError as error:
        assert all(part in str(error) for part in parts), error
        return
    raise AssertionError(f"expected an error that contains {parts}, got none")


# ---- BF ----------------------------------------------------------------------------------------


def test_bf(s):
    r = client(s)
    bf = r.bf()
    assert bf.create("k", 0.01, 1000) is True
    refused(lambda: bf.create("k", 0.01, 1000), "item exists")
    assert bf.create("e", 0.01, 1000, expansion=4) is True
    assert bf.create("n", 0.01, 10, noScale=True) is True
    refused(lambda: bf.create("x", 0.01, 1000, expansion=1, noScale=True), "expand")
    refused(lambda: bf.create("x", 2, 1000), "error rate must be in the range")
    assert bf.add("k", "apple") == 1 and bf.add("k", "apple") == 0
    assert bf.madd("k", "apple", "pear", b"\x00\xff") == [0, 1, 1]
    assert bf.exists("k", b"\x00\xff") == 1 and bf.exists("k", "plum") == 0
    assert bf.mexists("k", "apple", "plum") == [1, 0]
    assert bf.exists("missing", "x") == 0
    assert bf.insert("i", ["a", "b"], capacity=500, error=0.001, expansion=2) == [1, 1]
    assert bf.insert("i", ["a", "c"], noCreate=True) == [0, 1]
    refused(lambda: bf.insert("missing", ["a"], noCreate=True), "not found")
    assert bf.insert("j", ["a"], noScale=True) == [1]
    info = bf.info("i")
    assert (info.capacity, info.filterNum, info.insertedNum, info.expansionRate) == (500, 1, 3, 2)
    assert info.size > 500
    assert bf.info("j").expansionRate is None
    refused(lambda: bf.info("missing"), "not found")
    assert r.execute_command("BF.CARD", "i") == 3
    assert r.type("k") == TYPES["BF"]


def test_bf_full(s):
    bf = client(s).bf()
    bf.create("n", 0.01, 10, noScale=True)
    added = 0
    try:
        for i in range(1000):
            added += bf.add("n", i)
    except redis.ResponseError as error:
        assert "non scaling filter is full" in str(error)
    assert 10 <= added < 1000
    answer = bf.madd("n", *(f"more{i}" for i in range(5)))
    assert any(isinstance(a, redis.ResponseError) for a in answer), answer


def test_bf_grows(s):
    bf = client(s).bf()
    bf.create("g", 0.001, 100)
    for i in range(0, 20000, 500):
        bf.madd("g", *range(i, i + 500))
    assert bf.mexists("g", *range(20000)) == [1] * 20000
    assert bf.info("g").filterNum > 1
    wrong = sum(bf.mexists("g", *range(20000, 120000)))
    assert wrong < 100000 * 0.001 * 1.5, wrong


def dump_and_load(family, source, target):
    """Copies a filter with SCANDUMP and LOADCHUNK, as a migration program does."""
    iterator, chunks = 0, []
    while True:
        iterator, data = family.scandump(source, iterator)
        if iterator == 0:
            break
        chunks.append((iterator, data))
    assert chunks
    for iterator, data in chunks:
        assert family.loadchunk(target, iterator, data) in (True, b"OK", "OK")


def test_bf_scandump(s):
    bf = client(s).bf()
    bf.create("k", 0.001, 1000)
    bf.madd("k", *range(5000))
    dump_and_load(bf, "k", "copy")
    assert bf.mexists("copy", *range(5000)) == [1] * 5000
    absent = range(10000, 60000)
    assert bf.mexists("copy", *absent) == bf.mexists("k", *absent)
    refused(lambda: bf.loadchunk("broken", 1, b"garbage"), "")


# ---- CF ----------------------------------------------------------------------------------------


def test_cf(s):
    r = client(s)
    cf = r.cf()
    assert cf.create("k", 1000) is True
    refused(lambda: cf.create("k", 1000), "item exists")
    assert cf.create("o", 1000, bucket_size=4, max_iterations=20, expansion=1) is True
    assert cf.add("k", "apple") == 1 and cf.add("k", "apple") == 1
    assert cf.addnx("k", "apple") == 0 and cf.addnx("k", "pear") == 1
    assert cf.count("k", "apple") == 2 and cf.count("k", "plum") == 0
    assert cf.exists("k", "apple") == 1 and cf.exists("k", "plum") == 0
    assert cf.mexists("k", "apple", "plum") == [1, 0]
    assert cf.delete("k", "apple") == 1 and cf.count("k", "apple") == 1
    assert cf.delete("k", "apple") == 1 and cf.delete("k", "apple") == 0
    assert cf.exists("k", "apple") == 0
    refused(lambda: cf.delete("missing", "x"), "ot found")
    assert cf.insert("i", ["a", "b"], capacity=500) == [1, 1]
    assert cf.insert("i", ["a"], nocreate=True) == [1]
    refused(lambda: cf.insert("missing", ["a"], nocreate=True), "not found")
    assert cf.insertnx("i", ["a", "c"]) == [0, 1]
    info = cf.info("o")
    assert (info.insertedNum, info.deletedNum, info.bucketSize, info.expansionRate,
            info.maxIteration) == (0, 0, 4, 1, 20)
    info = cf.info("k")
    assert info.insertedNum == 1 and info.deletedNum == 2 and info.size > 0
    assert info.bucketNum > 0 and info.filterNum >= 1
    assert r.execute_command("CF.COMPACT", "k") == b"OK"
    assert r.type("k") == TYPES["CF"]


def test_cf_grows_and_shrinks(s):
    cf = client(s).cf()
    cf.create("g", 1000)
    items = [f"item{i}" for i in range(8000)]
    for i in range(0, len(items), 500):
        assert cf.insert("g", items[i:i + 500]) == [1] * 500
    assert cf.mexists("g", *items) == [1] * len(items)
    for item in items[:4000]:
        assert cf.delete("g", item) == 1
    assert cf.mexists("g", *items[4000:]) == [1] * 4000
    assert cf.info("g").insertedNum == 4000 and cf.info("g").deletedNum == 4000


def test_cf_scandump(s):
    cf = client(s).cf()
    cf.create("k", 1000)
    cf.insert("k", list(range(3000)))
    dump_and_load(cf, "k", "copy")
    assert cf.mexists("copy", *range(3000)) == [1] * 3000
    assert cf.delete("copy", 1) == 1


# ---- Pipelines ---------------------------------------------------------------------------------


def test_pipelines(s):
    r = client(s)
    for transaction in (True, False):
        r.flushall()
        with r.pipeline(transaction=transaction) as pipe:
            for i in range(1000):
                pipe.execute_command("BF.ADD", "k", i)
            for i in range(2000):
                pipe.execute_command("BF.EXISTS", "k", i)
            pipe.execute_command("CF.ADD", "c", "x")
            answers = pipe.execute()
        assert answers[:1000].count(1) > 980 and answers[1000:2000] == [1] * 1000
        assert sum(answers[2000:3000]) < 40 and answers[3000] == 1
        with r.pipeline(transaction=transaction) as pipe:
            pipe.execute_command("CF.ADD", "k", "x")
            pipe.execute_command("BF.EXISTS", "k", 1)
            answers = pipe.execute(raise_on_error=False)
        assert "WRONGTYPE" in str(answers[0]) and answers[1] == 1
    pipe = r.pipeline()  # a transaction by default
    pipe.bf().create("p", 0.01, 100)
    pipe.bf().add("p", "x")
    pipe.bf().exists("p", "x")
    assert pipe.execute() == [True, 1, 1]


def test_pipeline_error_of_form(s):
    with client(s).pipeline() as pipe:
        pipe.execute_command("BF.ADD", "k", 1)
        pipe.execute_command("BF.ADD", "k")
        refused(pipe.execute, "wrong number of arguments")
    assert client(s).exists("k") == 0


# ---- Other features ----------------------------------------------------------------------------


def test_generic(s):
    r = client(s, decode_responses=True)
    assert r.ping() is True and r.echo("x") == "x"
    assert r.client_setname("joe") and r.client_getname() == "joe"
    assert any(c["name"] == "joe" for c in r.client_list())
    assert r.client_info()["cmd"] == "client|info"
    assert r.info()["redis_version"] == "7.2.0" and r.info("keyspace") == {}
    assert r.config_get("save") == {"save": ""}
    assert r.config_set("timeout", 0) is True
    assert r.dbsize() == 0 and r.keys() == []
    r.bf().add("a", 1)
    r.cf().add("b", 1)
    assert sorted(r.scan_iter()) == ["a", "b"] and list(r.scan_iter(_type="MBbloomCF")) == ["b"]
    assert r.expire("a", 100) is True and 0 < r.ttl("a") <= 100 and r.persist("a") is True
    assert r.expireat("a", int(time.time()) + 100) is True
    assert r.rename("a", "c") is True and r.exists("a", "b", "c") == 2
    assert r.copy("c", "d") is True and r.memory_usage("c") > 100
    assert r.object("ENCODING", "c") == "scalable"
    assert r.info("keyspace")["db0"]["expires"] == 2
    assert r.command_count() > 60 and r.command()["bf.add"]["arity"] == 3
    assert r.command_getkeys("DEL", "a", "b") == ["a", "b"]
    assert r.module_list()[0]["name"] == "bf" if isinstance(r.module_list()[0], dict) \
        else "bf" in r.module_list()[0]
    assert r.acl_whoami() == "default" and "bloom" in r.acl_cat()
    assert r.role()[0] == "master" and r.time()[0] > 0
    assert r.slowlog_len() >= 0 and isinstance(r.slowlog_get(), list)
    assert r.save() is True and r.bgsave() is True and r.lastsave()
    assert r.delete("b", "c", "d") == 3 and r.flushall() is True
    assert r.reset() == "RESET" and r.quit() is True


def test_what_is_not_there(s):
    r = client(s)
    refused(lambda: r.set("k", "v"), "unknown command")
    refused(lambda: r.publish("c", "x"), "unknown command")
    p = r.pubsub()
    p.subscribe("channel")
    refused(lambda: p.get_message(timeout=300), "unknown command 'SUBSCRIBE'")
    p.close()
    refused(lambda: r.execute_command("WATCH", "k"), "unknown command")
    assert r.ping() is True


@alone
def test_passwords(program):
    with Service(program, "user default on nopass -@all",
                 "user alice on >secret +@all ~*") as s:
        r = client(s, username="alice", password="secret")
        assert r.bf().add("k", 1) == 1 and r.acl_whoami() == "alice"
        try:
            client(s, username="alice", password="wrong").ping()
            raise AssertionError("expected an error for a wrong password, got none")
        except (redis.AuthenticationError, redis.ResponseError) as error:
            assert "invalid username-password" in str(error)
        try:
            client(s).ping()
            raise AssertionError("expected a permission error, got none")
        except redis.exceptions.NoPermissionError:
            pass
        s.connection = s.connect()
        s.ask("AUTH", "alice", "secret")
    with Service(program, "requirepass secret") as s:
        assert client(s, password="secret").ping()
        try:
            client(s).ping()
            raise AssertionError("expected an error without a password, got none")
        except redis.AuthenticationError:
            pass


@alone
def test_retries_over_a_restart(program):
    """A client with retries enabled keeps working after a restart and finds the items it added."""
    s = Service(program).start()
    try:
        r = client(s, retry=Retry(ConstantBackoff(0.05), 400),
                   retry_on_error=[redis.ConnectionError, redis.BusyLoadingError])
        added, stop, wrong = [], threading.Event(), []

        def add():
            try:
                while not stop.is_set():
                    try:
                        r.bf().add("k", len(added))
                        added.append(len(added))
                    except redis.ConnectionError:  # some versions of redis-py do not retry a failed connection attempt
                        time.sleep(0.01)
            except Exception as error:  # pylint: disable=broad-except
                wrong.append(error)

        thread = threading.Thread(target=add, daemon=True)
        thread.start()
        wait_for(lambda: len(added) > 100)
        port = s.port
        for _ in range(3):
            s.stop()
            s.configure = lambda: again(s, port)
            s.start()
            before = len(added)
            wait_for(lambda n=before: len(added) > n + 100 or wrong)
        stop.set()
        thread.join()
        assert not wrong, wrong
        assert all(r.bf().mexists("k", *added))
        s.stop()
    finally:
        s.kill()
        s.remove()


def again(s, port):
    """Replaces Service.configure. Keeps the port and the configuration file, so that the clients can reconnect."""
    s.port = port
    return f"{s.folder}/bloomgate.conf"


def test_pool_and_unix_socket(s):
    pool = redis.ConnectionPool(port=s.port, max_connections=8)

    def add(part):
        r = redis.Redis(connection_pool=pool)
        for i in range(300):
            r.bf().add("k", f"{part}:{i}")

    threads = [threading.Thread(target=add, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    r = redis.Redis(unix_socket_path=s.unix)
    assert all(r.bf().mexists("k", *(f"{n}:{i}" for n in range(8) for i in range(300))))


def test_asyncio(s):
    async def run():
        r = redis.asyncio.Redis(port=s.port)
        await r.bf().create("k", 0.01, 1000)
        await asyncio.gather(*(r.bf().add("k", i) for i in range(200)))
        answers = await r.bf().mexists("k", *range(200))
        async with r.pipeline() as pipe:
            told = await pipe.ping().dbsize().execute()
        await r.close()
        await r.connection_pool.disconnect()
        return answers, told

    answers, told = asyncio.run(run())
    assert answers == [1] * 200 and told == [True, 1]


if __name__ == "__main__":  # tests/redis imports some of these tests to run them with the Redis module
    service.main(__doc__)
