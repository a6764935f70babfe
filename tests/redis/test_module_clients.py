#!/usr/bin/env python3
"""Tests widely used clients with the module: runs the service's tests in
tests/server/test_redis_py.py with redis-py and, if installed, valkey-py.
usage: test_module_clients.py PATH-OF-BLOOMGATE.SO [--server redis] [PART-OF-A-NAME...]"""

import importlib

import redis_host
import test_redis_py as checks  # in tests/server
from redis_host import Skip

CLIENTS = ("redis", "valkey")
TESTS = (checks.test_bf, checks.test_bf_full, checks.test_bf_grows, checks.test_bf_scandump, checks.test_cf,
         checks.test_cf_grows_and_shrinks, checks.test_cf_scandump, checks.test_pipelines, checks.test_pipeline_error_of_form,
         checks.test_asyncio)
# In RESP3, the clients return BF.INFO and CF.INFO replies as dictionaries, which these tests do not support.
FACTS = (checks.test_bf, checks.test_bf_grows, checks.test_cf, checks.test_cf_grows_and_shrinks)


def library(name):
    try:
        found = importlib.import_module(name)
        importlib.import_module(name + ".asyncio")
    except ImportError:
        return None
    return found


def speaks_resp3(client):
    return int(client.__version__.split(".")[0]) >= 5


def check(h, test):
    """Runs one test with each installed client."""
    checks.TYPES = {"BF": b"bloomgate", "CF": b"bloomgate"}
    there = [found for found in map(library, CLIENTS) if found]
    if not there:
        raise Skip("neither redis-py nor valkey-py is installed (Debian packages: python3-redis, python3-valkey)")
    for checks.redis in there:
        for more in ({}, {"protocol": 3}) if speaks_resp3(checks.redis) and test not in FACTS else ({},):
            checks.client = lambda s, more=more, **options: checks.redis.Redis(port=s.port, **more, **options)
            h.ask("FLUSHALL")
            test(h)


def made(test):
    def run(h):
        check(h, test)
    run.__name__ = test.__name__
    return run


for each in TESTS:
    globals()[each.__name__] = made(each)


def test_facts_in_resp3(h):
    there = [found for found in map(library, CLIENTS) if found and speaks_resp3(found)]
    if not there:
        raise Skip("no installed client supports RESP3")
    for found in there:
        h.ask("FLUSHALL")
        r = found.Redis(port=h.port, protocol=3, decode_responses=True)
        assert r.bf().add("b", "x") is True and r.bf().madd("b", "x", "y") == [False, True]
        assert r.cf().add("c", "x") is True and r.cf().count("c", "x") == 1
        assert {"Capacity": 100, "Number of items inserted": 2, "Expansion rate": 2}.items() <= r.bf().info("b").items()
        assert {"Number of items inserted": 1, "Bucket size": 2, "Max iterations": 20}.items() <= r.cf().info("c").items()


redis_host.main(__doc__)
