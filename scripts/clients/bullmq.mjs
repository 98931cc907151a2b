// BullMQ: queues and workers, on the server at 127.0.0.1:PORT, over both clients that BullMQ takes: ioredis and node-redis.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { createNodeRedisClient, FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import { Redis } from "ioredis";
import { createClient } from "redis";

const port = Number(process.argv[2]);

// Each driver opens a connection for BullMQ, and adds a function that closes it to `opened`.
const drivers = [
  (opened) => {
    const client = new Redis(port, { maxRetriesPerRequest: null });
    opened.push(() => client.quit());
    return client;
  },
  async (opened) => {
    const client = createClient({ url: `redis://127.0.0.1:${port}` });
    await client.connect();
    opened.push(() => client.close());
    return createNodeRedisClient(client);
  },
];

const counts = (queue) => queue.getJobCounts("completed", "failed", "delayed", "wait", "active", "prioritized", "waiting-children");

for (const connect of drivers) {
  const opened = [];
  const connection = await connect(opened);
  const options = { connection, stalledInterval: 100 };
  const queue = new Queue("work", options);
  const events = new QueueEvents("work", options);
  await events.waitUntilReady();
  const order = [];
  const handlers = {
    double: async (job) => job.data.n * 2,
    order: async (job) => order.push(job.data),
    flaky: async (job) => {
      if (job.attemptsMade < 2) throw new Error(`attempt ${job.attemptsMade}`);
      return "third time";
    },
    fails: async () => {
      throw new Error("as intended");
    },
    tick: async (job) => order.push(job.data),
    child: async (job) => job.data.n,
    sum: async (job) => Object.values(await job.getChildrenValues()).reduce((a, b) => a + b, 0),
    progress: async (job) => {
      await job.log("one line");
      await job.updateProgress(50);
    },
  };
  const worker = (more) => new Worker("work", (job) => handlers[job.name](job), { ...options, ...more });
  const ends = async (job) => job.waitUntilFinished(events, 20_000);

  // Twenty jobs at once, four of them worked on at a time.
  let hands = worker({ concurrency: 4 });
  const jobs = await queue.addBulk(Array.from({ length: 20 }, (_, n) => ({ name: "double", data: { n } })));
  assert.deepEqual(await Promise.all(jobs.map(ends)), Array.from({ length: 20 }, (_, n) => n * 2));

  // A delayed job, a job that fails twice, and one that always fails.
  const delayed = await queue.add("double", { n: 4 }, { delay: 300 });
  assert.equal(await delayed.getState(), "delayed");
  const flaky = await queue.add("flaky", {}, { attempts: 3, backoff: { type: "fixed", delay: 50 } });
  const fails = await queue.add("fails", {});
  assert.equal(await ends(delayed), 8);
  const { processedOn, timestamp } = await queue.getJob(delayed.id);
  assert.ok(processedOn - timestamp >= 300, `delayed by ${processedOn - timestamp} ms`);
  assert.equal(await ends(flaky), "third time");
  await assert.rejects(ends(fails), /as intended/);
  assert.equal((await queue.getJob(fails.id)).failedReason, "as intended");

  // Progress and log lines of a job.
  const heard = new Promise((resolve) => events.once("progress", ({ data }) => resolve(data)));
  const progress = await queue.add("progress", {});
  await ends(progress);
  assert.equal(await heard, 50);
  assert.deepEqual((await queue.getJobLogs(progress.id)).logs, ["one line"]);

  // Deduplication: many additions with one id make one job.
  const [first, second] = await Promise.all([1, 2].map((n) => queue.add("double", { n }, { delay: 100, deduplication: { id: "d" } })));
  assert.equal(first.id, second.id);
  await ends(first);

  // A job that repeats three times.
  const scheduled = await queue.upsertJobScheduler("every", { every: 100, limit: 3 }, { name: "tick", data: "tick" });
  assert.ok(scheduled.id.startsWith("repeat:every:"), scheduled.id);
  while (order.length < 3) await sleep(20);
  await queue.removeJobScheduler("every");
  assert.deepEqual(order.splice(0), ["tick", "tick", "tick"]);

  // A parent waits for its children, also in another queue.
  const flow = new FlowProducer(options);
  const others = new Worker("others", (job) => handlers[job.name](job), options);
  const tree = await flow.add({
    name: "sum",
    queueName: "work",
    children: [1, 20, 300].map((n) => ({ name: "child", queueName: n === 20 ? "others" : "work", data: { n } })),
  });
  assert.equal(await ends(tree.job), 321);

  assert.deepEqual(await counts(queue), {
    completed: 30, failed: 1, delayed: 0, wait: 0, active: 0, prioritized: 0, "waiting-children": 0,
  });
  await fails.retry();
  await assert.rejects(ends(fails), /as intended/);
  await hands.close();

  // Jobs of a paused queue run by priority once it is resumed, at most two in 200 ms.
  await queue.pause();
  await queue.addBulk([3, 1, 2, 5, 4].map((priority) => ({ name: "order", data: priority, opts: { priority } })));
  hands = worker({ limiter: { max: 2, duration: 200 } });
  assert.deepEqual((await queue.getJobs("prioritized", 0, -1, true)).length, 5);
  const start = Date.now();
  await queue.resume();
  while (order.length < 5) await sleep(20);
  assert.deepEqual(order, [1, 2, 3, 4, 5]);
  assert.ok(Date.now() - start >= 200, "the limiter holds jobs back");
  await hands.close();

  // A job whose worker has vanished is taken by another worker.
  const lost = await queue.add("double", { n: 50 });
  const vanishes = new Worker("work", null, { ...options, lockDuration: 100 });
  assert.equal((await vanishes.getNextJob("token")).id, lost.id);
  hands = worker();
  assert.equal(await ends(lost), 100);

  await Promise.all([hands, vanishes, others].map((each) => each.close()));
  await queue.obliterate({ force: true });
  await new Queue("others", options).obliterate({ force: true });
  await Promise.all([events, flow, queue].map((each) => each.close()));
  const left = new Redis(port);
  assert.deepEqual((await left.keys("*")).filter((key) => !/:(meta|limiter)$/.test(key)), []);
  await left.flushall();
  await left.quit();
  await Promise.all(opened.map((close) => close()));
}
process.exit();
