"""RQ: jobs in a worker process with a scheduler, on the server at 127.0.0.1:PORT."""

import os
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone

import redis
from rq import Queue, Repeat, Retry
from rq.exceptions import DuplicateJobError
from rq.job import JobStatus
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry

PORT = int(sys.argv[1]) if __name__ == "__main__" else int(os.environ["PORT"])
connection = redis.Redis(port=PORT)


def add(a, b):
    return a + b


def fails():
    raise ValueError("as intended")


def flaky():
    """A job that fails twice, and succeeds the third time."""
    if connection.incr("attempts") < 3:
        raise ValueError("not yet")
    return "third time"


def now():
    return time.time()


def tick():
    connection.rpush("ticks", time.time())


def ended(job, status=JobStatus.FINISHED):
    end = time.monotonic() + 20
    while job.get_status(refresh=True) not in (JobStatus.FINISHED, JobStatus.FAILED):
        assert time.monotonic() < end, (job.func_name, job.get_status())
        time.sleep(0.02)
    assert job.get_status() == status, (job.func_name, job.get_status(), job.latest_result() and job.latest_result().exc_string)
    return job.return_value()


def main():
    queue = Queue(connection=connection)
    work = [sys.executable, "-m", "rq.cli", "worker", "--with-scheduler", "--url", f"redis://127.0.0.1:{PORT}", "--quiet"]
    folder = os.path.dirname(os.path.abspath(__file__))
    worker = subprocess.Popen(work, env={**os.environ, "PORT": str(PORT), "PYTHONPATH": folder})
    try:
        # Scheduled jobs are added first, so that they are due when the scheduler next looks.
        due = datetime.now(timezone.utc) + timedelta(seconds=1)
        at, after = queue.enqueue_at(due, "rq_jobs.now"), queue.enqueue_in(timedelta(seconds=1), "rq_jobs.now")
        assert at.get_status() == JobStatus.SCHEDULED and len(ScheduledJobRegistry(queue=queue)) == 2
        once = queue.enqueue_in(timedelta(seconds=1), "rq_jobs.add", 1, 1, job_id="once", unique=True)
        try:
            queue.enqueue_in(timedelta(seconds=1), "rq_jobs.add", 1, 2, job_id="once", unique=True)
            raise AssertionError("a job that is there")
        except DuplicateJobError:
            pass
        jobs = [queue.enqueue("rq_jobs.add", n, n) for n in range(5)]
        dependent = queue.enqueue("rq_jobs.add", 1, 2, depends_on=jobs)
        failed = queue.enqueue("rq_jobs.fails")
        retried = queue.enqueue("rq_jobs.flaky", retry=Retry(max=3, interval=[0, 1]))
        queue.enqueue("rq_jobs.tick", repeat=Repeat(times=2, interval=1))
        assert [ended(job) for job in jobs] == [0, 2, 4, 6, 8] and ended(dependent) == 3
        assert ended(failed, JobStatus.FAILED) is None and "as intended" in failed.latest_result().exc_string
        assert failed.id in FailedJobRegistry(queue=queue) and jobs[0].id in FinishedJobRegistry(queue=queue)
        assert ended(at) >= due.timestamp() - 1 and ended(after) and ended(once) == 2
        assert ended(retried) == "third time" and connection.get("attempts") == b"3"
        while connection.llen("ticks") < 3:
            time.sleep(0.02)
        assert len(ScheduledJobRegistry(queue=queue)) == 0 and len(queue) == 0
        worker.terminate()
        assert worker.wait(timeout=20) == 0
        assert connection.smembers("rq:workers") == set() and connection.keys("rq:scheduler-lock:*") == []
    finally:
        worker.kill()


if __name__ == "__main__":
    main()
