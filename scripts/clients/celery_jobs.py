"""Celery: tasks in a worker process, with broker and results on the server at 127.0.0.1:PORT."""

import os
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone

import redis
from celery import Celery, chain, chord, group

PORT = int(sys.argv[1]) if __name__ == "__main__" else int(os.environ["PORT"])
app = Celery("celery_jobs", broker=f"redis://127.0.0.1:{PORT}/0", backend=f"redis://127.0.0.1:{PORT}/1")
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"visibility_timeout": 3600, "priority_steps": list(range(10)), "queue_order_strategy": "priority"},
    worker_prefetch_multiplier=1,
    result_extended=True,
)
marks = redis.Redis(port=PORT, db=2, decode_responses=True)


@app.task(name="add")
def add(a, b):
    return a + b


@app.task(name="total")
def total(numbers):
    return sum(numbers)


@app.task(name="fails")
def fails():
    raise ValueError("as intended")


@app.task(name="flaky", bind=True, max_retries=5)
def flaky(self):
    """A task that fails twice, and succeeds the third time."""
    if marks.incr("attempts") < 3:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task(name="mark", ignore_result=True)
def mark(text):
    marks.rpush("marks", text)


@app.task(name="now")
def now():
    return time.time()


def worker(processes):
    quick = ["--without-gossip", "--without-mingle"]
    command = [sys.executable, "-m", "celery", "-A", "celery_jobs", "worker", "-c", str(processes), "-l", "WARNING", *quick]
    folder = os.path.dirname(os.path.abspath(__file__))
    return subprocess.Popen(command, env={**os.environ, "PORT": str(PORT), "PYTHONPATH": folder, "C_FORCE_ROOT": "1"})


def tasks():
    assert [add.delay(n, 1).get(timeout=20) for n in range(5)] == [1, 2, 3, 4, 5]
    assert group(add.s(n, n) for n in range(20))().get(timeout=20) == [2 * n for n in range(20)]
    assert chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=20) == 10
    assert chord((add.s(n, n) for n in range(20)), total.s())().get(timeout=20) == 380
    assert chord([chord([add.s(1, 1), add.s(2, 2)], total.s()), add.s(5, 5)], total.s())().get(timeout=20) == 16
    assert flaky.delay().get(timeout=20) == 2 and marks.get("attempts") == "3"
    result = fails.delay()
    try:
        result.get(timeout=20)
        raise AssertionError("a task that fails")
    except ValueError as error:
        assert str(error) == "as intended" and result.state == "FAILURE" and "ValueError" in result.traceback
    mark.apply_async(("ignored",))
    assert marks.blpop("marks", timeout=20) == ("marks", "ignored")
    assert add.AsyncResult(add.delay(1, 1).id).get(timeout=20) == 2


def later():
    due = datetime.now(timezone.utc) + timedelta(seconds=1)
    revoked = mark.apply_async(("revoked",), countdown=1)
    at, after = now.apply_async(eta=due), now.apply_async(countdown=0.5)
    expired = add.apply_async((1, 1), countdown=0.5, expires=0.1)
    revoked.revoke()
    assert at.get(timeout=20) >= due.timestamp() and after.get(timeout=20) < at.result
    try:
        expired.get(timeout=20)
        raise AssertionError("a task that expired")
    except Exception as error:
        assert type(error).__name__ == "TaskRevokedError", repr(error)
    # The worker replies to remote control; the revoked task left no mark.
    (name, answer), = app.control.inspect(timeout=20, limit=1).ping().items()
    assert name.startswith("celery@") and answer == {"ok": "pong"}
    assert set(app.control.inspect(timeout=20, limit=1).registered()[name]) >= {"add", "flaky"}
    assert mark.apply_async(("last",)) and marks.blpop("marks", timeout=20) == ("marks", "last")


def acknowledged():
    """Waits until the worker has acknowledged all tasks. One that is told to end while it has a task sometimes never does (5.7.0)."""
    queued, end = redis.Redis(port=PORT, db=0), time.monotonic() + 20
    while queued.llen("celery") + queued.hlen("unacked"):
        assert time.monotonic() < end, (queued.lrange("celery", 0, -1), queued.hgetall("unacked"))
        time.sleep(0.05)


def end(process):
    """Ends the worker. Celery 5.7.0 sometimes hangs at its end, on Redis as well; then the worker is killed."""
    process.terminate()
    try:
        process.wait(timeout=3)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main():
    process = worker(2)
    try:
        tasks()
        later()
        acknowledged()
        end(process)
        for priority in (9, 0, 5):
            mark.apply_async((str(priority),), priority=priority)
        process = worker(1)
        assert [marks.blpop("marks", timeout=20)[1] for _ in range(3)] == ["0", "5", "9"]
        acknowledged()
    finally:
        end(process)


if __name__ == "__main__":
    sys.modules["celery_jobs"] = sys.modules["__main__"]
    main()
