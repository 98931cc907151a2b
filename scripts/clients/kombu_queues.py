"""kombu without Celery: exchanges, acknowledgements and their timeout, on the server at 127.0.0.1:PORT."""

import sys
import time
from queue import Empty

import redis
from kombu import Connection, Consumer, Exchange, Producer, Queue

PORT = int(sys.argv[1])
URL = f"redis://127.0.0.1:{PORT}"
OPTIONS = {"visibility_timeout": 1, "unacked_restore_throttle": 1, "unacked_restore_limit": 10, "fanout_prefix": True, "fanout_patterns": True}
server = redis.Redis(port=PORT)


def connect():
    return Connection(URL, transport_options=OPTIONS)


def simple():
    with connect() as connection, connection.SimpleQueue("simple") as queue:
        for n in range(10):
            queue.put({"n": n}, compression="zlib" if n % 2 else None)
        assert queue.qsize() == 10
        for n in range(10):
            message = queue.get(timeout=20)
            assert message.payload == {"n": n}
            message.ack()
        try:
            queue.get(block=False)
            raise AssertionError("a message of nobody")
        except Empty:
            assert server.hlen("unacked") == 0


def kinds():
    """Direct, topic and fanout exchanges deliver each message to the right queues."""
    exchanges = {kind: Exchange(kind, kind) for kind in ("direct", "topic", "fanout")}
    bindings = [("direct", "a"), ("direct", "b"), ("topic", "logs.*"), ("topic", "#.error"), ("fanout", "")]
    queues = [Queue(f"{kind}:{key}", exchanges[kind], routing_key=key) for kind, key in bindings]
    got = {queue.name: [] for queue in queues}

    with connect() as connection, connect() as other:
        consumers = [
            Consumer(connection, [queue], callbacks=[lambda body, message, name=queue.name: (got[name].append(body), message.ack())])
            for queue in queues
        ]
        for consumer in consumers:
            consumer.consume()
        try:
            connection.drain_events(timeout=0.2)
        except TimeoutError:
            pass
        producer = Producer(other)
        for kind, key in [("direct", "a"), ("direct", "c"), ("topic", "logs.error"), ("topic", "logs.info"), ("fanout", "")]:
            producer.publish(f"{kind} {key}", exchange=exchanges[kind], routing_key=key, declare=[exchanges[kind]])
        end = time.monotonic() + 20
        while sum(map(len, got.values())) < 5 and time.monotonic() < end:
            try:
                connection.drain_events(timeout=0.2)
            except TimeoutError:
                pass
    assert got == {
        "direct:a": ["direct a"],
        "direct:b": [],
        "topic:logs.*": ["topic logs.error", "topic logs.info"],
        "topic:#.error": ["topic logs.error"],
        "fanout:": ["fanout "],
    }, got


def unacknowledged():
    """Rejected messages come back at once, and messages of a consumer that vanished after the timeout."""
    with connect() as connection, connection.SimpleQueue("lost") as queue:
        queue.put("first")
        message = queue.get(timeout=20)
        message.requeue()
        message = queue.get(timeout=20)
        assert message.payload == "first" and message.delivery_info["redelivered"]
        assert server.hlen("unacked") == 1 and server.zcard("unacked_index") == 1
        # The consumer neither acknowledges the message nor closes its connection; other consumers restore it.
        with connect() as other, other.SimpleQueue("lost") as again:
            end = time.monotonic() + 20
            while server.llen("lost") == 0 and time.monotonic() < end:
                again.channel.qos.restore_visible(num=10, interval=1)
                time.sleep(0.05)
            message = again.get(timeout=20)
            assert message.payload == "first" and message.delivery_info["redelivered"]
            message.ack()
            assert server.hlen("unacked") == 0 and server.zcard("unacked_index") == 0


for part in (simple, kinds, unacknowledged):
    part()
