// Common uses of Jedis, on the server at 127.0.0.1:PORT. Any difference from Redis ends the program.
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.LCSParams;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XAutoClaimParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.params.ZRangeParams;

public class Main {
    static void equal(Object got, Object want) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError("got " + got + ", expected " + want);
        }
    }

    static void basics(JedisPooled redis) {
        equal(redis.set("s", "1", SetParams.setParams().px(60_000).nx()), "OK");
        equal(redis.set("s", "2", SetParams.setParams().nx()), null);
        equal(redis.incrBy("s", 41), 42L);
        equal(redis.pttl("s") > 50_000, true);
        try {
            redis.lpush("s", "x");
            throw new AssertionError("a list command on a string");
        } catch (JedisDataException wrong) {
            equal(wrong.getMessage().startsWith("WRONGTYPE"), true);
        }
        redis.zadd("z", Map.of("a", 1.0, "b", 2.0, "c", 3.5));
        equal(redis.zrange("z", ZRangeParams.zrangeByScoreParams(1.5, 4)), List.of("b", "c"));
        redis.mset("one", "ohmytext", "two", "mynewtext");
        equal(redis.lcs("one", "two", LCSParams.LCSParams()).getMatchString(), "mytext");
        byte[] large = new byte[5_000_000];
        large[4_999_999] = 7;
        redis.set("large".getBytes(), large);
        equal(redis.get("large".getBytes())[4_999_999], (byte) 7);
    }

    static void pipelines(JedisPooled redis) {
        try (var pipeline = redis.pipelined()) {
            List<Response<Long>> replies = new ArrayList<>();
            for (int i = 0; i < 5000; i++) {
                replies.add(pipeline.incr("counter"));
                pipeline.set("key:" + i, "v");
            }
            pipeline.sync();
            equal(replies.get(4999).get(), 5000L);
        }
        try (var transaction = redis.multi()) {
            transaction.set("t", "1");
            transaction.incr("t");
            equal(transaction.exec(), List.of("OK", 2L));
        }
        int found = 0;
        String cursor = "0";
        do {
            var part = redis.scan(cursor, new ScanParams().match("key:*").count(500));
            found += part.getResult().size();
            cursor = part.getCursor();
        } while (!cursor.equals("0"));
        equal(found, 5000);
    }

    // A transaction whose watched key changes does nothing.
    static void watches(JedisPool pool) {
        try (Jedis one = pool.getResource(); Jedis other = pool.getResource()) {
            one.watch("w");
            other.set("w", "other");
            var transaction = one.multi();
            transaction.set("w", "one");
            equal(transaction.exec(), null);
            equal(one.get("w"), "other");
        }
    }

    static void channels(JedisPool pool) throws Exception {
        var messages = new ArrayList<String>();
        var ready = new CountDownLatch(1);
        var listener = new JedisPubSub() {
            @Override
            public void onPSubscribe(String pattern, int count) {
                ready.countDown();
            }

            @Override
            public void onPMessage(String pattern, String channel, String message) {
                messages.add(channel + " " + message);
                punsubscribe();
            }
        };
        var threads = Executors.newSingleThreadExecutor();
        var ended = threads.submit(() -> {
            try (Jedis redis = pool.getResource()) {
                redis.psubscribe(listener, "news.*");
            }
        });
        equal(ready.await(20, TimeUnit.SECONDS), true);
        try (Jedis redis = pool.getResource()) {
            equal(redis.publish("news.today", "hello"), 1L);
        }
        ended.get(20, TimeUnit.SECONDS);
        threads.shutdown();
        equal(messages, List.of("news.today hello"));
    }

    static void streams(JedisPooled redis) {
        redis.xgroupCreate("stream", "group", new StreamEntryID("0-0"), true);
        for (int i = 0; i < 3; i++) {
            redis.xadd("stream", StreamEntryID.NEW_ENTRY, Map.of("n", "" + i));
        }
        var ask = XReadGroupParams.xReadGroupParams().count(2);
        var got = redis.xreadGroup("group", "a", ask, Map.of("stream", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
        equal(got.get(0).getValue().size(), 2);
        equal(redis.xack("stream", "group", got.get(0).getValue().get(0).getID()), 1L);
        equal(redis.xpending("stream", "group").getTotal(), 1L);
        var claimed = redis.xautoclaim("stream", "group", "b", 0, new StreamEntryID("0-0"), XAutoClaimParams.xAutoClaimParams());
        equal(claimed.getValue().size(), 1);
        equal(redis.xinfoStream("stream").getLength(), 3L);
    }

    static void scripts(JedisPooled redis) {
        String script = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('STRLEN', KEYS[1])";
        equal(redis.eval(script, List.of("of-script"), List.of("four")), 4L);
        equal(redis.evalsha(redis.scriptLoad(script, "of-script"), List.of("of-script"), List.of("three")), 5L);
        redis.functionLoadReplace("#!lua name=library\nredis.register_function('echo', function(keys, args) return args[1] end)");
        equal(redis.fcall("echo", List.of(), List.of("x")), "x");
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        for (var protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            var settings = DefaultJedisClientConfig.builder().protocol(protocol).build();
            var address = new HostAndPort("127.0.0.1", port);
            try (var redis = new JedisPooled(address, settings); var pool = new JedisPool(address, settings)) {
                redis.flushAll();
                basics(redis);
                pipelines(redis);
                watches(pool);
                channels(pool);
                streams(redis);
                scripts(redis);
            }
        }
    }
}
