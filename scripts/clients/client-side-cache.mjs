// Client-side cache of node-redis (CLIENT TRACKING, RESP3), on the server at 127.0.0.1:PORT.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { BasicClientSideCache, BasicPooledClientSideCache, createClient, createClientPool } from "redis";

const url = `redis://127.0.0.1:${process.argv[2]}`;
const other = await createClient({ url }).connect();

// Reads until the reader sees the value; until then it reads its cached copy.
async function sees(read, value) {
  for (;;) {
    const got = await read();
    try {
      return assert.deepEqual(got, value);
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(5);
    }
  }
}

let deadline;
async function cached(cache, client, close) {
  deadline = performance.now() + 10_000;
  const count = (before) => {
    const { hitCount, missCount } = cache.stats();
    return before ? [hitCount - before[0], missCount - before[1]] : [hitCount, missCount];
  };
  await other.mSet({ a: "1", b: "1", untouched: "same" });
  await other.hSet("h", { f: "1" });
  let before = count();
  for (let i = 0; i < 10; i++) {
    assert.equal(await client.get("a"), "1");
    assert.equal(await client.get("untouched"), "same");
  }
  assert.deepEqual(count(before), [18, 2]);

  // The reader sees each change by another client: a new value, a removed key, a field, a write of a script, a write in a transaction.
  await other.set("a", "2");
  await sees(() => client.get("a"), "2");
  await other.del("a");
  await sees(() => client.get("a"), null);
  await other.eval("return redis.call('SET', KEYS[1], ARGV[1])", { keys: ["a"], arguments: ["3"] });
  await sees(() => client.get("a"), "3");
  await other.multi().incr("a").incr("a").exec();
  await sees(() => client.get("a"), "5");
  assert.equal(await client.hGet("h", "f"), "1");
  await other.hSet("h", "f", "2");
  await sees(() => client.hGet("h", "f"), "2");

  // A key that expires, and a key that the reader changed itself.
  await other.set("a", "short", { PX: 100 });
  await sees(() => client.get("a"), "short");
  await sees(() => client.get("a"), null);
  assert.equal(await client.get("b"), "1");
  await client.set("b", "own");
  await sees(() => client.get("b"), "own");

  // The key that nobody changed is still cached; a flush removes all copies.
  before = count();
  assert.equal(await client.get("untouched"), "same");
  assert.deepEqual(count(before), [1, 0]);
  await other.flushAll();
  await sees(() => client.get("untouched"), null);
  await close();
}

const single = new BasicClientSideCache();
const client = await createClient({ url, RESP: 3, clientSideCache: single }).connect();
await cached(single, client, () => client.close());
const pooled = new BasicPooledClientSideCache();
const pool = await createClientPool({ url, RESP: 3 }, { minimum: 2, clientSideCache: pooled }).connect();
await cached(pooled, pool, () => pool.close());
await other.close();
