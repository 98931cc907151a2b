// Objects of Redisson that depend on scripts, channels and expiry, on the server at 127.0.0.1:PORT. Any difference from Redis ends the program.
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.redisson.Redisson;
import org.redisson.api.*;
import org.redisson.api.map.event.EntryRemovedListener;
import org.redisson.api.options.LocalCachedMapOptions;
import org.redisson.config.Config;

public class Main {
    static void equal(Object got, Object want) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError("got " + got + ", expected " + want);
        }
    }

    // Adds one 400 times on 4 threads, each time with the lock.
    static void excludes(Supplier<RLock> lock) throws Exception {
        int[] sum = {0};
        var threads = Executors.newFixedThreadPool(4);
        var ends = IntStream.range(0, 4).mapToObj(i -> threads.submit(() -> {
            for (int j = 0; j < 100; j++) {
                var held = lock.get();
                held.lock(20, TimeUnit.SECONDS);
                try {
                    sum[0]++;
                } finally {
                    held.unlock();
                }
            }
        })).toList();
        for (var end : ends) {
            end.get(60, TimeUnit.SECONDS);
        }
        threads.shutdown();
        equal(sum[0], 400);
    }

    static void locks(RedissonClient redis) throws Exception {
        excludes(() -> redis.getLock("lock"));
        excludes(() -> redis.getFairLock("fair"));
        excludes(() -> redis.getReadWriteLock("both").writeLock());
        var both = redis.getReadWriteLock("both");
        both.readLock().lock();
        equal(both.writeLock().tryLock(), false);
        both.readLock().unlock();
        var semaphore = redis.getPermitExpirableSemaphore("permits");
        semaphore.trySetPermits(1);
        equal(semaphore.tryAcquire(0, 300, TimeUnit.MILLISECONDS) != null, true);
        equal(semaphore.tryAcquire(), null);
        // The first permit ends by itself.
        equal(semaphore.tryAcquire(20, 20, TimeUnit.SECONDS) != null, true);
        var latch = redis.getCountDownLatch("latch");
        latch.trySetCount(1);
        latch.countDownAsync();
        equal(latch.await(20, TimeUnit.SECONDS), true);
        var limiter = redis.getRateLimiter("limiter");
        limiter.trySetRate(RateType.OVERALL, 5, Duration.ofMinutes(5));
        equal(IntStream.range(0, 8).filter(i -> limiter.tryAcquire()).count(), 5L);
    }

    static void maps(RedissonClient redis) throws Exception {
        RMapCache<String, Integer> map = redis.getMapCache("map");
        var removed = new CountDownLatch(1);
        map.addListener((EntryRemovedListener<String, Integer>) event -> removed.countDown());
        map.put("stays", 1);
        map.put("ends", 2, 100, TimeUnit.MILLISECONDS);
        map.put("goes", 3);
        map.remove("goes");
        equal(removed.await(20, TimeUnit.SECONDS), true);
        Thread.sleep(200);
        equal(Arrays.asList(map.get("stays"), map.get("ends"), map.get("goes")), Arrays.asList(1, null, null));
        RMapCache<String, Integer> bounded = redis.getMapCache("bounded");
        bounded.setMaxSize(3);
        IntStream.range(0, 10).forEach(i -> bounded.put("key" + i, i));
        equal(bounded.size(), 3);
        RLocalCachedMap<String, Integer> one = redis.getLocalCachedMap(LocalCachedMapOptions.name("near"));
        RLocalCachedMap<String, Integer> other = redis.getLocalCachedMap(LocalCachedMapOptions.name("near"));
        one.put("key", 1);
        equal(other.get("key"), 1);
        one.put("key", 2);
        for (int i = 0; i < 2000 && other.get("key") != 2; i++) {
            Thread.sleep(10);
        }
        equal(other.get("key"), 2);
        var transaction = redis.createTransaction(TransactionOptions.defaults());
        transaction.getBucket("of-transaction").set("v");
        transaction.getMap("map-of-transaction").put("a", 1);
        transaction.commit();
        equal(redis.getMap("map-of-transaction").get("a"), 1);
    }

    static void queues(RedissonClient redis) throws Exception {
        RBlockingQueue<String> queue = redis.getBlockingQueue("queue");
        RDelayedQueue<String> delayed = redis.getDelayedQueue(queue);
        delayed.offer("late", 200, TimeUnit.MILLISECONDS);
        queue.offer("early");
        equal(queue.poll(20, TimeUnit.SECONDS), "early");
        equal(queue.poll(20, TimeUnit.SECONDS), "late");
        delayed.destroy();
        RPriorityQueue<String> priorities = redis.getPriorityQueue("priorities");
        priorities.addAll(List.of("c", "a", "b"));
        equal(priorities.poll(), "a");
        RRingBuffer<Integer> ring = redis.getRingBuffer("ring");
        ring.trySetCapacity(3);
        IntStream.range(0, 5).forEach(ring::add);
        equal(ring.readAll(), List.of(2, 3, 4));
        RTimeSeries<String, Object> series = redis.getTimeSeries("series");
        series.add(1, "a");
        series.add(2, "b");
        equal(List.copyOf(series.range(0, 10)), List.of("a", "b"));
        RBloomFilter<String> filter = redis.getBloomFilter("filter");
        filter.tryInit(10_000, 0.01);
        filter.add("there");
        equal(filter.contains("there"), true);
    }

    static void topics(RedissonClient redis) throws Exception {
        var heard = new CountDownLatch(4);
        redis.getTopic("topic").addListener(String.class, (channel, message) -> heard.countDown());
        redis.getPatternTopic("top?c").addListener(String.class, (pattern, channel, message) -> heard.countDown());
        redis.getShardedTopic("shard").addListener(String.class, (channel, message) -> heard.countDown());
        redis.getReliableTopic("reliable").addListener(String.class, (channel, message) -> heard.countDown());
        redis.getTopic("topic").publish("x");
        redis.getShardedTopic("shard").publish("x");
        redis.getReliableTopic("reliable").publish("x");
        equal(heard.await(20, TimeUnit.SECONDS), true);
    }

    static void batches(RedissonClient redis) {
        for (var mode : BatchOptions.ExecutionMode.values()) {
            var batch = redis.createBatch(BatchOptions.defaults().executionMode(mode));
            var keys = new ArrayList<String>();
            for (int i = 0; i < 100; i++) {
                keys.add(mode + ":" + i);
                batch.getBucket(keys.get(i)).setAsync(i);
            }
            equal(batch.execute().getResponses().size(), 100);
            equal(redis.getBuckets().get(keys.toArray(String[]::new)).size(), 100);
        }
        equal(redis.getKeys().deleteByPattern("*_ATOMIC:*"), 300L);
    }

    public static void main(String[] arguments) throws Exception {
        var config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + arguments[0]);
        var redis = Redisson.create(config);
        try {
            redis.getKeys().flushall();
            locks(redis);
            maps(redis);
            queues(redis);
            topics(redis);
            batches(redis);
        } finally {
            redis.shutdown();
        }
    }
}
