// Two servers of socket.io, connected by adapters through the server at 127.0.0.1:PORT: over channels, sharded channels and streams.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { createAdapter, createShardedAdapter } from "@socket.io/redis-adapter";
import { createAdapter as createStreamsAdapter } from "@socket.io/redis-streams-adapter";
import { createClient } from "redis";
import { Server } from "socket.io";
import { io as connectTo } from "socket.io-client";

const url = `redis://127.0.0.1:${process.argv[2]}`;

const streamsAdapter = (pub) => createStreamsAdapter(pub, { blockTimeInMs: 200 });

async function until(what, holds) {
  for (const end = performance.now() + 10_000; !(await holds()); await sleep(10)) assert.ok(performance.now() < end, what);
}

for (const create of [createAdapter, createShardedAdapter, streamsAdapter]) {
  const streams = create === streamsAdapter;
  const pubs = await Promise.all([1, 2].map(() => createClient({ url }).connect()));
  const subs = await Promise.all(pubs.map((pub) => pub.duplicate().connect()));
  const servers = pubs.map((pub, i) => {
    const io = new Server(createServer().listen(0), {
      adapter: create(pub, subs[i]),
      connectionStateRecovery: streams ? { maxDisconnectionDuration: 60_000 } : undefined,
    });
    io.on("connection", (socket) => socket.on("join", (room, done) => Promise.resolve(socket.join(room)).then(() => done())));
    return io;
  });
  // Two clients of each server.
  const clients = [0, 0, 1, 1].map((i) => connectTo(`http://127.0.0.1:${servers[i].httpServer.address().port}`, { transports: ["websocket"] }));
  await Promise.all(clients.map((client) => client.connected || once(client, "connect")));
  const [first, second] = servers;
  await until("servers see each other's clients", async () => (await first.fetchSockets()).length === 4 && (await second.fetchSockets()).length === 4);

  // The streams' adapter adds an offset to the values.
  const got = clients.map(() => []);
  clients.forEach((client, i) => client.on("news", (...values) => got[i].push(values.slice(0, 3))));
  clients.forEach((client) => client.on("question", (n, answer) => answer(n + 1)));
  const all = [["to", "all", { bytes: Buffer.from([0, 255]) }]];
  first.emit("news", ...all[0]);
  await until("a broadcast reaches clients of both servers", () => got.every((values) => values.length === 1));
  for (const values of got.splice(0, 4, [], [], [], [])) assert.deepEqual(values, all);

  // A room with one client of each server: one joins by its own request, the other server adds the other one.
  await clients[1].emitWithAck("join", "room");
  first.in(clients[2].id).socketsJoin("room");
  await until("both are in the room", async () => (await second.in("room").fetchSockets()).length === 2);
  second.to("room").emit("news", "room");
  second.emit("news", "last");
  await until("a broadcast to all comes after it", () => got.every((values) => values.at(-1)?.[0] === "last"));
  assert.deepEqual(got.map((values) => values.length), [1, 2, 2, 1]);

  // Acknowledgements of clients, and of the other server.
  assert.deepEqual(await first.timeout(5000).emitWithAck("question", 41), [42, 42, 42, 42]);
  second.on("sum", (a, b, answer) => answer(a + b));
  assert.deepEqual(await first.serverSideEmitWithAck("sum", 1, 2), [3]);

  // With the streams adapter, a client that lost its connection gets the messages that it missed.
  if (streams) {
    const engine = clients[3].io.engine;
    await until("there is an offset to go on from", () => clients[3]._lastOffset);
    clients[3].io.reconnection(true).reconnectionDelay(100).reconnectionDelayMax(100);
    engine.close();
    first.emit("news", "missed");
    await once(clients[3], "connect");
    assert.ok(clients[3].recovered, "the session is found");
    await until("the missed event arrives", () => got[3].at(-1)[0] === "missed");
  }
  second.disconnectSockets();
  await until("all are disconnected", () => clients.every((client) => client.disconnected));
  await Promise.all(servers.map((io) => io.close()));
  await Promise.all([...pubs, ...subs].map((client) => client.close()));
}
