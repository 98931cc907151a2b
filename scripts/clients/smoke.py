"""redis-py: common uses, on the server at 127.0.0.1:PORT, with TLS if a file of certificates is given.

Any difference from Redis is an AssertionError.
"""

import sys
import threading
import time

import redis

PORT = int(sys.argv[1])
TLS = {"ssl": True, "ssl_ca_certs": sys.argv[2]} if len(sys.argv) > 2 else {}


def client(protocol, **more):
    return redis.Redis(port=PORT, protocol=protocol, decode_responses=True, socket_timeout=20, **TLS, **more)


def strings_and_keys(r):
    assert r.set("s", "1", ex=100) and r.get("s") == "1" and 0 < r.ttl("s") <= 100
    assert r.incrby("s", 41) == 42 and r.append("s", "!") == 3 and r.getrange("s", 0, 1) == "42"
    assert r.set("s", "x", nx=True) is None and r.set("s", "y", get=True) == "42!"
    assert r.mset({f"m:{i}": i for i in range(500)}) and r.mget("m:1", "none", "m:499") == ["1", None, "499"]
    assert sorted(r.scan_iter("m:*", count=50)) == sorted(f"m:{i}" for i in range(500))
    assert r.delete("m:1", "m:2", "none") == 2 and r.exists("m:1", "m:3") == 1 and r.type("s") == "string"
    assert r.setbit("bits", 7, 1) == 0 and r.bitcount("bits") == 1
    assert r.pfadd("log", *range(1000)) == 1 and 950 < r.pfcount("log") < 1050
    try:
        r.lpush("s", 1)
        raise AssertionError("a list command on a string")
    except redis.ResponseError as error:
        assert str(error).startswith("WRONGTYPE")


def collections(r):
    assert r.hset("h", mapping={f"f{i}": i for i in range(300)}) == 300 and r.hget("h", "f7") == "7"
    assert r.hincrby("h", "f7", 3) == 10 and len(r.hgetall("h")) == 300 and dict(r.hscan_iter("h"))["f9"] == "9"
    assert r.rpush("l", *range(1000)) == 1000 and r.lrange("l", 10, 12) == ["10", "11", "12"] and r.lpop("l", 2) == ["0", "1"]
    assert r.sadd("a", 1, 2, 3) == 3 and r.sadd("b", 2, 3, 4) == 3 and r.sinter("a", "b") == {"2", "3"}
    assert r.zadd("z", {f"m{i}": i / 2 for i in range(200)}) == 200 and r.zscore("z", "m3") == 1.5 and r.zrank("z", "m199") == 199
    pairs = r.zrange("z", 0, 1, withscores=True)
    assert [tuple(pair) for pair in pairs] == [("m0", 0.0), ("m1", 0.5)], pairs
    assert r.geoadd("g", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")) == 2
    assert 166 < r.geodist("g", "Palermo", "Catania", unit="km") < 167
    first = r.xadd("x", {"k": "v"})
    assert r.xlen("x") == 1 and r.xrange("x") == [(first, {"k": "v"})]
    assert r.xgroup_create("x", "group", id="0") and len(r.xreadgroup("group", "me", {"x": ">"})) == 1 and r.xack("x", "group", first) == 1


def transactions(r):
    r.set("counter", 0)
    with r.pipeline() as pipe:
        for _ in range(1000):
            pipe.incr("counter")
        assert pipe.execute()[-1] == 1000
    other = client(2)
    with r.pipeline() as pipe:
        pipe.watch("counter")
        other.incr("counter")
        pipe.multi()
        pipe.set("counter", 0)
        try:
            pipe.execute()
            raise AssertionError("a watched key had changed")
        except redis.WatchError:
            pass
    assert r.get("counter") == "1001"


def waiting(r, protocol):
    threading.Timer(0.2, lambda: client(2).rpush("queue", "job")).start()
    assert list(r.blpop("queue", timeout=10)) == ["queue", "job"]
    start = time.monotonic()
    assert r.brpop("queue", timeout=1) is None and time.monotonic() - start >= 0.9
    listener = client(protocol).pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    listener.psubscribe("n*")
    threading.Timer(0.2, lambda: client(2).publish("news", "hello")).start()
    got, end = [], time.monotonic() + 10
    while len(got) < 2 and time.monotonic() < end:
        message = listener.get_message(timeout=1)
        if message:
            got.append((message["type"], message["channel"], message["data"]))
    assert sorted(got) == [("message", "news", "hello"), ("pmessage", "news", "hello")], got


for protocol in (2, 3):
    r = client(protocol)
    r.flushall()
    strings_and_keys(r)
    collections(r)
    transactions(r)
    waiting(r, protocol)
    assert r.info("keyspace")["db0"]["keys"] == r.dbsize() == len(list(r.scan_iter()))
