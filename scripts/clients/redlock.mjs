// redlock on three connections to the server at 127.0.0.1:PORT, each with a database of its own in place of a server.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock, { ExecutionError, ResourceLockedError } from "redlock";

const port = Number(process.argv[2]);
const clients = [0, 1, 2].map((db) => new Redis(port, { db }));
const locks = new Redlock(clients, { retryCount: 200, retryDelay: 5, retryJitter: 5 });
const impatient = new Redlock(clients, { retryCount: 0 });
locks.on("error", (error) => assert.ok(error instanceof ResourceLockedError, error));
impatient.on("error", (error) => assert.ok(error instanceof ResourceLockedError, error));

// Ten tasks add to a number with one read and one write, which need the lock around them.
await Promise.all(
  Array.from({ length: 10 }, () =>
    locks.using(["counter"], 5000, async () => {
      const before = Number(await clients[0].get("number"));
      await sleep(2);
      await clients[0].set("number", before + 1);
    }),
  ),
);
assert.equal(await clients[0].get("number"), "10");

let lock = await locks.acquire(["a", "b"], 1000);
await assert.rejects(impatient.acquire(["b"], 1000), ExecutionError);
for (const client of clients) assert.equal(await client.get("a"), lock.value);
lock = await lock.extend(60_000);
assert.ok((await clients[2].pttl("b")) > 50_000);

// A lock survives the loss of one server, and not of two.
await clients[0].del("a");
lock = await lock.extend(60_000);
await clients[0].del("a");
await clients[1].del("a");
await assert.rejects(lock.extend(60_000), ExecutionError);
await clients[2].del("a");
await Promise.all(clients.map((client) => client.del("b")));

// A lock that nobody releases expires; its holder then cannot release it.
const old = await locks.acquire(["short"], 50);
const next = await locks.acquire(["short"], 5000);
assert.notEqual(old.value, next.value);
await assert.rejects(new Redlock(clients, { retryCount: 0 }).release(old), ExecutionError);
await next.release();
for (const client of clients) assert.equal(await client.exists("short"), 0);

// `using` extends the lock as long as its task takes.
await locks.using(["long"], 600, { automaticExtensionThreshold: 400 }, async (signal) => {
  for (let i = 0; i < 10; i++) {
    await sleep(100);
    assert.ok(!signal.aborted, signal.error);
    assert.equal(await clients[1].exists("long"), 1);
  }
});
await Promise.all(clients.map((client) => client.quit()));
