"""Django with cache and sessions in django-redis, on the server at 127.0.0.1:PORT."""

import sys
import threading
import time

import django
from django.conf import settings

URL = f"redis://127.0.0.1:{sys.argv[1]}/1"
BACKEND = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": URL, "KEY_PREFIX": "app", "TIMEOUT": 300}
settings.configure(
    CACHES={
        "default": BACKEND,
        "packed": {**BACKEND, "OPTIONS": {"COMPRESSOR": "django_redis.compressors.zlib.ZlibCompressor"}, "KEY_PREFIX": "packed"},
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore
from django.core.cache import cache, caches
from django_redis import get_redis_connection


def values():
    assert cache.set("a", {"list": [1, 2]}) and cache.get("a") == {"list": [1, 2]} and cache.get("none", "else") == "else"
    assert 290 < cache.ttl("a") <= 300 and 290_000 < cache.pttl("a") <= 300_000 and cache.ttl("none") == 0
    assert cache.add("a", 1) is False and cache.add("b", 1, timeout=None) is True and cache.ttl("b") is None
    assert cache.set("b", 2, nx=True) is False and cache.set("b", 5, xx=True) is True
    assert cache.expire("b", 100) and 90 < cache.ttl("b") <= 100 and cache.persist("b") and cache.ttl("b") is None
    assert cache.touch("b", 50) and 40 < cache.ttl("b") <= 50 and not cache.touch("none", 50)
    assert cache.pexpire("b", 50_000) and "b" in cache and cache.has_key("a") and "none" not in cache
    cache.set_many({f"many:{n}": n for n in range(50)}, timeout=60)
    assert cache.get_many([f"many:{n}" for n in range(0, 60, 10)]) == {f"many:{n}": n for n in range(0, 50, 10)}
    assert cache.delete("a") and not cache.delete("a") and cache.delete_many(["many:0", "many:1", "none"]) == 2
    assert cache.get_or_set("made", lambda: "made", 10) == "made" and cache.get_or_set("made", "other", 10) == "made"
    cache.set("ends", 1, timeout=1)
    cache.set("dead", 1, timeout=0)
    assert cache.get("dead") is None
    while cache.get("ends") is not None:
        time.sleep(0.05)
    caches["packed"].set("long", "x" * 100_000)
    assert caches["packed"].get("long") == "x" * 100_000 and get_redis_connection().strlen("packed:1:long") < 1000


def numbers():
    cache.set("n", 1, timeout=100)
    assert cache.incr("n") == 2 and cache.incr("n", 40) == 42 and cache.decr("n", 2) == 40 and cache.get("n") == 40
    assert 90 < cache.ttl("n") <= 100
    # `incr` beyond 64 bits, and of a missing key.
    cache.set("big", 2**63 - 1)
    assert cache.incr("big") == 2**63
    try:
        cache.incr("none")
        raise AssertionError("a number that is not there")
    except ValueError:
        pass
    cache.set("version", "old")
    assert cache.incr_version("version") == 2 and cache.get("version") is None and cache.get("version", version=2) == "old"


def patterns():
    cache.set_many({"user:1:name": "a", "user:2:name": "b", "user:1:mail": "c", "users": "d"})
    assert sorted(cache.keys("user:1:*")) == ["user:1:mail", "user:1:name"]
    assert sorted(cache.iter_keys("user:*:name", itersize=1)) == ["user:1:name", "user:2:name"]
    assert cache.delete_pattern("user:*", itersize=2) == 3 and cache.keys("user*") == ["users"]


def locks():
    def count():
        for _ in range(20):
            with cache.lock("lock", timeout=20, sleep=0.001):
                number = cache.get("number")
                time.sleep(0.001)
                cache.set("number", number + 1)

    cache.set("number", 0)
    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.get("number") == 60 and not cache.has_key("lock")


def sessions():
    session = SessionStore()
    session["user"] = 7
    session.set_expiry(100)
    session.save()
    again = SessionStore(session.session_key)
    assert again["user"] == 7 and 90 < cache.ttl(f"django.contrib.sessions.cache{session.session_key}") <= 100
    again.cycle_key()
    assert again.session_key != session.session_key and not SessionStore().exists(session.session_key)
    assert SessionStore(again.session_key)["user"] == 7
    again.flush()


for part in (values, numbers, patterns, locks, sessions):
    part()
assert cache.sadd("set", 1, 2, 3) == 3 and cache.smembers("set") == {1, 2, 3} and cache.srem("set", 1) == 1
cache.clear()
assert get_redis_connection().dbsize() == 0
