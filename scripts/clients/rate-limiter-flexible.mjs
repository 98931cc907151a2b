// rate-limiter-flexible, on the server at 127.0.0.1:PORT, over ioredis and node-redis.

import assert from "node:assert/strict";
import { Redis } from "ioredis";
import limiters from "rate-limiter-flexible";
import { createClient } from "redis";

const { BurstyRateLimiter, RateLimiterQueue, RateLimiterRedis } = limiters;
const port = Number(process.argv[2]);
const ioredis = new Redis(port);
const nodeRedis = createClient({ url: `redis://127.0.0.1:${port}` });
await nodeRedis.connect();

for (const more of [{ storeClient: ioredis }, { storeClient: nodeRedis, useRedisPackage: true }]) {
  await ioredis.flushall();
  const limiter = (keyPrefix, options) => new RateLimiterRedis({ ...more, keyPrefix, ...options });

  // Ten of fifty requests at once pass.
  const ten = limiter("ten", { points: 10, duration: 60 });
  const results = await Promise.allSettled(Array.from({ length: 50 }, () => ten.consume("user")));
  const passed = results.filter((result) => result.status === "fulfilled").map((result) => result.value);
  assert.deepEqual(passed.map((result) => result.remainingPoints), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
  for (const { reason } of results.filter((result) => result.status === "rejected")) {
    assert.equal(reason.remainingPoints, 0, reason);
    assert.ok(reason.msBeforeNext > 50_000 && reason.msBeforeNext <= 60_000, `${reason.msBeforeNext} ms`);
  }
  assert.ok((await ioredis.pttl("ten:user")) > 50_000);

  // Points are added, taken and set; each user has points of its own.
  const user = limiter("user", { points: 5, duration: 60 });
  assert.equal((await user.consume("a", 3)).remainingPoints, 2);
  assert.equal((await user.reward("a", 2)).consumedPoints, 1);
  assert.equal((await user.penalty("a", 4)).consumedPoints, 5);
  await assert.rejects(user.consume("a"), (result) => result.consumedPoints === 6);
  assert.equal((await user.consume("b")).remainingPoints, 4);
  assert.equal((await user.get("a")).consumedPoints, 6);
  await user.set("a", 1, 60);
  assert.equal((await user.get("a")).consumedPoints, 1);
  assert.equal(await user.delete("a"), true);
  assert.equal(await user.get("a"), null);

  // A user with too many requests is blocked for longer than the window.
  const blocked = limiter("blocked", { points: 1, duration: 1, blockDuration: 100 });
  await blocked.consume("user");
  await assert.rejects(blocked.consume("user"), (result) => result.msBeforeNext > 90_000);
  assert.ok((await ioredis.ttl("blocked:user")) > 90);

  // A new window counts from zero; a queue waits for the next window.
  const queue = new RateLimiterQueue(limiter("queue", { points: 2, duration: 1 }));
  const start = Date.now();
  for (let i = 0; i < 3; i++) await queue.removeTokens(1, "user");
  assert.ok(Date.now() - start >= 900, `after ${Date.now() - start} ms`);
  assert.equal((await ioredis.get("queue:user")), "1");
  const bursty = new BurstyRateLimiter(limiter("steady", { points: 1, duration: 60 }), limiter("burst", { points: 2, duration: 60 }));
  for (let i = 0; i < 3; i++) await bursty.consume("user");
  await assert.rejects(bursty.consume("user"));
}
await Promise.all([ioredis.quit(), nodeRedis.close()]);
