"""`Lock` of redis-py, held by two processes, on the server at 127.0.0.1:PORT."""

import multiprocessing
import sys
import time

import redis
from redis.exceptions import LockError, LockNotOwnedError

PORT = int(sys.argv[1])
ROUNDS = 100


def count(more):
    """Adds to a number with one read and one write, which need the lock around them."""
    r = redis.Redis(port=PORT, **more)
    for _ in range(ROUNDS):
        with r.lock("lock", timeout=20, sleep=0.001):
            number = int(r.get("number") or 0)
            time.sleep(0.001)
            r.set("number", number + 1)


def hold(ready, release):
    lock = redis.Redis(port=PORT).lock("held", timeout=60)
    assert lock.acquire(blocking=False)
    ready.set()
    assert release.wait(20)
    lock.release()


def refused(action, *arguments, **more):
    try:
        action(*arguments, **more)
    except LockNotOwnedError:
        return
    raise AssertionError("a lock of somebody else")


def main():
    context = multiprocessing.get_context("fork")
    r = redis.Redis(port=PORT)
    both = [context.Process(target=count, args=({"protocol": protocol},)) for protocol in (2, 3)]
    for process in both:
        process.start()
    for process in both:
        process.join()
        assert process.exitcode == 0
    assert int(r.get("number")) == 2 * ROUNDS and not r.exists("lock")

    # Another process has the lock until it is told to release it.
    ready, release = context.Event(), context.Event()
    holder = context.Process(target=hold, args=(ready, release))
    holder.start()
    assert ready.wait(20)
    lock = r.lock("held", timeout=60, sleep=0.01)
    assert not lock.acquire(blocking=False) and not lock.acquire(blocking_timeout=0.1)
    assert lock.locked() and not lock.owned()
    try:
        lock.release()
        raise AssertionError("a lock that was never acquired")
    except LockError as error:
        assert not isinstance(error, LockNotOwnedError)
    release.set()
    assert lock.acquire(blocking_timeout=20) and lock.owned()
    holder.join()
    assert holder.exitcode == 0

    # An extension adds to the remaining time, or replaces it.
    assert lock.extend(60) and 110_000 < r.pttl("held") <= 120_000
    assert lock.extend(10, replace_ttl=True) and 9_000 < r.pttl("held") <= 10_000
    assert lock.reacquire() and 59_000 < r.pttl("held") <= 60_000
    lock.release()
    assert not r.exists("held") and not lock.locked()

    # A lock that has expired can be taken by another holder, and the former holder can neither release nor extend it.
    old = r.lock("short", timeout=0.2)
    assert old.acquire()
    new = r.lock("short", timeout=60, sleep=0.01)
    assert new.acquire(blocking_timeout=20) and new.owned() and not old.owned()
    refused(old.extend, 10)
    refused(old.reacquire)
    refused(old.release)
    new.release()
    assert r.keys() == [b"number"]


main()
