// Common uses of Lettuce, on the server at 127.0.0.1:PORT. Any difference from Redis ends the program.
import io.lettuce.core.*;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

public class Main {
    static void equal(Object got, Object want) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError("got " + got + ", expected " + want);
        }
    }

    static void basics(RedisCommands<String, String> redis) {
        equal(redis.set("s", "1", SetArgs.Builder.ex(100).nx()), "OK");
        equal(redis.setGet("s", "2"), "1");
        redis.zadd("z", ScoredValue.just(1.5, "a"), ScoredValue.just(2, "b"));
        equal(redis.zrangeWithScores("z", 0, -1), List.of(ScoredValue.just(1.5, "a"), ScoredValue.just(2, "b")));
        redis.geoadd("geo", 13.361389, 38.115556, "Palermo");
        redis.geoadd("geo", 15.087269, 37.502669, "Catania");
        var near = redis.geosearch("geo", GeoSearch.fromCoordinates(15, 37), GeoSearch.byRadius(100, GeoArgs.Unit.km));
        equal(List.copyOf(near), List.of("Catania"));
        var field = BitFieldArgs.unsigned(8);
        equal(redis.bitfield("bits", BitFieldArgs.Builder.set(field, 0, 255).get(field, 0)), List.of(0L, 255L));
        String large = "x".repeat(5_000_000);
        redis.set("large", large);
        equal(redis.get("large"), large);
        equal(redis.eval("return ARGV[1]", ScriptOutputType.VALUE, new String[] {"s"}, "given"), "given");
        redis.functionLoad("#!lua name=library\nredis.register_function('echo', function(keys, args) return args[1] end)", true);
        equal(redis.fcall("echo", ScriptOutputType.VALUE, new String[0], "x"), "x");
    }

    static void asynchronous(StatefulRedisConnection<String, String> connection) {
        connection.setAutoFlushCommands(false);
        var replies = IntStream.range(0, 5000).mapToObj(i -> connection.async().incr("counter")).toArray(RedisFuture[]::new);
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        equal(LettuceFutures.awaitAll(Duration.ofSeconds(20), replies), true);
        RedisCommands<String, String> redis = connection.sync();
        equal(redis.get("counter"), "5000");
        redis.multi();
        redis.set("t", "1");
        redis.incr("t");
        equal(redis.exec().stream().toList(), List.of("OK", 2L));
        equal(connection.reactive().get("t").block(Duration.ofSeconds(20)), "2");
    }

    static void channels(RedisClient client, RedisCommands<String, String> redis) throws Exception {
        var messages = new CountDownLatch(3);
        try (var subscriber = client.connectPubSub()) {
            subscriber.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String message) {
                    messages.countDown();
                }

                @Override
                public void message(String pattern, String channel, String message) {
                    messages.countDown();
                }

                @Override
                public void smessage(String channel, String message) {
                    messages.countDown();
                }
            });
            subscriber.sync().subscribe("news");
            subscriber.sync().psubscribe("new*");
            subscriber.sync().ssubscribe("shard");
            equal(redis.publish("news", "x"), 2L);
            equal(redis.spublish("shard", "x"), 1L);
            equal(messages.await(20, TimeUnit.SECONDS), true);
        }
    }

    static void streams(RedisCommands<String, String> redis) {
        redis.xgroupCreate(XReadArgs.StreamOffset.from("stream", "0"), "group", XGroupCreateArgs.Builder.mkstream());
        for (int i = 0; i < 3; i++) {
            redis.xadd("stream", XAddArgs.Builder.maxlen(10).approximateTrimming(), Map.of("n", "" + i));
        }
        var a = Consumer.from("group", "a");
        equal(redis.xreadgroup(a, XReadArgs.StreamOffset.lastConsumed("stream")).size(), 3);
        equal(redis.xpending("stream", "group").getCount(), 3L);
        var claim = XAutoClaimArgs.Builder.<String>xautoclaim(Consumer.from("group", "b"), Duration.ZERO, "0");
        equal(redis.xautoclaim("stream", claim).getMessages().size(), 3);
    }

    // The server tells a client that caches keys of changes by others.
    static void cache(RedisClient client, RedisCommands<String, String> redis) throws Exception {
        Map<String, String> cached = new ConcurrentHashMap<>();
        try (var connection = client.connect()) {
            var front = ClientSideCaching.enable(CacheAccessor.forMap(cached), connection, TrackingArgs.Builder.enabled());
            redis.set("cached", "1");
            equal(front.get("cached"), "1");
            equal(cached.containsKey("cached"), true);
            redis.set("cached", "2");
            for (int i = 0; i < 2000 && cached.containsKey("cached"); i++) {
                Thread.sleep(10);
            }
            equal(front.get("cached"), "2");
        }
    }

    // A list that another connection fills ends the wait for it.
    static void waits(RedisClient client, RedisCommands<String, String> redis) throws Exception {
        try (var other = client.connect()) {
            var popped = other.async().blpop(20, "list");
            redis.rpush("list", "x");
            equal(popped.get(20, TimeUnit.SECONDS), KeyValue.just("list", "x"));
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (var client = RedisClient.create("redis://127.0.0.1:" + arguments[0])) {
            for (var version : ProtocolVersion.values()) {
                client.setOptions(ClientOptions.builder().protocolVersion(version).build());
                try (var connection = client.connect()) {
                    var redis = connection.sync();
                    redis.flushall();
                    basics(redis);
                    asynchronous(connection);
                    channels(client, redis);
                    streams(redis);
                    waits(client, redis);
                    if (version == ProtocolVersion.RESP3) {
                        cache(client, redis);
                    }
                }
            }
        }
    }
}
