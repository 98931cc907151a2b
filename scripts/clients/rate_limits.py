"""limits: fixed, moving and sliding windows, on the server at 127.0.0.1:PORT."""

import sys
import threading
import time

import limits
import redis
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter

URL = f"redis://127.0.0.1:{sys.argv[1]}"
storage = limits.storage.storage_from_string(URL)
assert isinstance(storage, RedisStorage) and storage.check()

for strategy in (FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter):
    limiter = strategy(storage)
    hour = limits.parse("10/hour")
    assert limiter.test(hour, "user") and limiter.get_window_stats(hour, "user").remaining == 10

    # Ten of 24 hits by four threads pass.
    passed = []
    threads = [threading.Thread(target=lambda: passed.extend(limiter.hit(hour, "user") for _ in range(6))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(passed) == [False] * 14 + [True] * 10, passed
    stats = limiter.get_window_stats(hour, "user")
    assert not limiter.test(hour, "user") and stats.remaining == 0 and time.time() < stats.reset_time <= time.time() + 3601, stats
    assert limiter.hit(hour, "other") and limiter.get_window_stats(hour, "other").remaining == 9
    assert limiter.hit(hour, "cost", cost=10) and not limiter.hit(hour, "cost", cost=1)
    limiter.clear(hour, "user")
    assert limiter.hit(hour, "user") and limiter.get_window_stats(hour, "user").remaining == 9

    # The next window counts from zero.
    second = limits.parse("2/second")
    assert limiter.hit(second, "user") and limiter.hit(second, "user")
    end = time.monotonic() + 10
    while not limiter.hit(second, "user"):
        assert time.monotonic() < end
        time.sleep(0.02)
    assert storage.reset() and redis.Redis.from_url(URL).keys("LIMITS*") == []
