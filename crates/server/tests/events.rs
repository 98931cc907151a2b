//! Messages about keys, here and at a real `redis-server`, in RESP2 and RESP3. `common/play.rs` describes the scripts.

use crate::common::play::play;

#[test]
fn changes_of_keys_are_told_by_name() {
    play(
        "p: CONFIG SET notify-keyspace-events y
         p: CONFIG SET notify-keyspace-events KEAn
         p: CONFIG GET notify-keyspace-events
         l: PSUBSCRIBE *
         p: SET s 1 EX 100
         p: SET s 2 KEEPTTL
         p: GETEX s PERSIST
         p: GETEX s EX 100
         p: GETDEL s
         p: MSET a 1 b 2
         p: RENAME a b
         p: RENAME b a
         p: MOVE a 1
         p: MOVE a 1
         p: COPY b c
         p: COPY b c REPLACE
         p: LPUSH l 1 2 3
         p: LMOVE l l LEFT RIGHT
         p: LMOVE l m LEFT RIGHT
         p: RPOPLPUSH m l
         p: LMPOP 1 l LEFT COUNT 2
         p: BLPOP l 0
         w: BLPOP l 0 &
         p: RPUSH l x
         w?
         w: BLMOVE l m LEFT LEFT 0 &
         p: RPUSH l x
         w?
         p: SADD set a b
         p: SMOVE set other a
         p: SMOVE set other b
         p: SINTERSTORE result other none
         p: SUNIONSTORE result other
         p: SINTERSTORE result other none
         p: ZADD z 1 a 2 b
         p: ZADD z INCR 1 a
         p: ZINCRBY z 1 a
         p: BZPOPMIN z 0
         p: BZMPOP 0 1 z MAX
         p: HSET h f 1
         p: HINCRBY h f 1
         p: HDEL h f
         p: EXPIRE other -1
         p: DEL b
         p: UNLINK m
         p: SWAPDB 0 1
         p: FLUSHALL
         p: PUBLISH end END
         l!",
    );
}

#[test]
fn a_key_restored_with_a_time_in_the_past_is_only_removed() {
    play(
        "p: CONFIG SET notify-keyspace-events KEAn
         p: SET from 1
         p: RPUSH old a b
         l: PSUBSCRIBE *
         p: EVAL return␣redis.call('restore','old',1,redis.call('dump','from'),'replace','absttl') 0
         p: EVAL return␣redis.call('restore','none',1,redis.call('dump','from'),'replace','absttl') 0
         p: EVAL return␣redis.call('restore','none',1,redis.call('dump','from'),'absttl') 0
         p: EXISTS old none
         p: PUBLISH end END
         l!",
    );
}

#[test]
fn what_is_missed_is_told_of() {
    play(
        "p: CONFIG SET notify-keyspace-events Km
         l: PSUBSCRIBE *
         p: GET s
         p: EXISTS s t s
         p: MGET a a b
         p: GETDEL s
         p: GETEX s EX 10
         p: GETSET s 1
         p: LRANGE l 0 -1
         p: HGET h f
         p: SMEMBERS m
         p: ZSCORE z m
         p: TTL none
         p: TYPE none
         p: OBJECT ENCODING none
         p: LPOP none
         p: DEL none
         p: COPY none other
         -- What is read before something is written.
         p: SADD set a
         p: ZADD zset 1 a
         p: SET string abc
         p: PFADD count a
         p: RPUSH list 1 2
         p: BITOP AND to string none other
         p: BITOP NOT to none
         p: SINTERSTORE to set none other
         p: SDIFFSTORE to none set
         p: SUNIONSTORE to set none
         p: ZINTERSTORE to 2 zset none
         p: ZUNIONSTORE to 2 none other
         p: ZDIFFSTORE to 2 zset none
         p: ZRANGESTORE to none 0 -1
         p: PFMERGE merged count none
         p: SORT none STORE to
         p: SORT none
         p: SORT list BY by_* GET get_* STORE to
         p: GEORADIUS none 1 1 1 km STORE to
         p: GEOSEARCHSTORE to none FROMLONLAT 1 1 BYRADIUS 1 km
         p: XREADGROUP GROUP g c STREAMS none >
         p: XCLAIM none g c 0 1-1
         p: XAUTOCLAIM none g c 0 0
         p: XACK none g 1-1
         p: BITFIELD none GET u8 0
         p: BITFIELD bits SET u8 0 1
         p: SET new 1 GET
         p: SET newer 1
         p: SETRANGE newest 0 a
         p: LMOVE none to LEFT LEFT
         p: SMOVE none to a
         p: PUBLISH end END
         l!",
    );
}

#[test]
fn keys_that_end_are_told_of() {
    play(
        "p: CONFIG SET notify-keyspace-events Ex
         l: SUBSCRIBE __keyevent@0__:expired
         p: SET k v PX 1
         l? => *3($message $__keyevent@0__:expired $k )",
    );
}
