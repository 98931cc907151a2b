// node-redis: common uses, on the server at 127.0.0.1:PORT, with TLS if a file of certificates is given. Any difference from Redis throws.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createClient } from "redis";

const [, , port, authorities] = process.argv;
const url = `redis${authorities ? "s" : ""}://127.0.0.1:${port}`;
const socket = authorities ? { tls: true, ca: readFileSync(authorities) } : {};

async function connected(RESP) {
  const client = createClient({ url, socket, RESP });
  client.on("error", (error) => {
    throw error;
  });
  await client.connect();
  return client;
}

for (const RESP of [2, 3]) {
  const client = await connected(RESP);
  const other = await connected(RESP);
  await client.flushAll();

  assert.equal(await client.set("s", "1", { EX: 100 }), "OK");
  assert.equal(await client.incrBy("s", 41), 42);
  const values = await Promise.all(Array.from({ length: 1000 }, (_, i) => client.incr("counter").then((n) => n - i)));
  assert.ok(values.every((difference) => difference === 1), "a pipeline keeps its order");
  assert.equal(await client.hSet("h", { a: "1", b: "2" }), 2);
  assert.deepEqual({ ...(await client.hGetAll("h")) }, { a: "1", b: "2" });
  assert.equal(await client.zAdd("z", [{ score: 1.5, value: "x" }, { score: 2, value: "y" }]), 2);
  assert.deepEqual(await client.zRangeWithScores("z", 0, -1), [{ score: 1.5, value: "x" }, { score: 2, value: "y" }]);
  const id = await client.xAdd("stream", "*", { k: "v" });
  const entries = await client.xRange("stream", "-", "+");
  assert.deepEqual(entries.map((entry) => [entry.id, { ...entry.message }]), [[id, { k: "v" }]]);

  assert.deepEqual(await client.multi().set("t", "1").incr("t").get("t").exec(), ["OK", 2, "2"]);
  await client.rPush("l", ["1", "2", "3"]);
  assert.deepEqual(await client.lRange("l", 0, -1), ["1", "2", "3"]);
  setTimeout(() => other.rPush("queue", "job"), 200);
  assert.deepEqual({ ...(await client.blPop("queue", 10)) }, { key: "queue", element: "job" });

  const listener = client.duplicate();
  await listener.connect();
  const heard = new Promise((resolve) => listener.subscribe("news", resolve).then(() => other.publish("news", "hello")));
  assert.equal(await heard, "hello");
  let keys = 0;
  for await (const batch of client.scanIterator({ COUNT: 2 })) keys += Array.isArray(batch) ? batch.length : 1;
  assert.equal(keys, await client.dbSize());
  await Promise.all([listener.close(), client.close(), other.close()]);
}
