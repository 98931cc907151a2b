//! `keyspace_hits` and `keyspace_misses`: a command counts each key that it reads once, whether it also writes or not.

use super::Talk;

/// Commands that make the keys.
const KEYS: &[&str] = &[
    "SET s1 abc",
    "SET s2 10",
    "SET w_1 5",
    "SET w_2 6",
    "SET w_3 7",
    "RPUSH l1 a b c",
    "RPUSH l2 3 1 2",
    "SADD t1 a b c",
    "SADD t2 b c d",
    "ZADD z1 1 a 2 b 3 c",
    "ZADD z2 1 b",
    "HSET h1 f 1 g 2",
    "PFADD p1 a b",
    "PFADD p2 c",
    "GEOADD g1 13 38 P 15 37 C",
    "XADD x1 1-1 a b",
    "XADD x1 2-1 a b",
    "XGROUP CREATE x1 gr 0",
    "XREADGROUP GROUP gr c COUNT 1 STREAMS x1 >",
];

/// Numbers of hits and misses, and the commands that have them in Redis 7.0.15, each run on fresh keys.
const COUNTED: &[(u64, u64, &str)] = &[
    (0, 0, "MEMORY USAGE s1; MEMORY USAGE no; RANDOMKEY; KEYS *; SCAN 0; PFADD p1 x; BITFIELD s1 SET u8 0 1"),
    (0, 0, "BITFIELD s1 SET u8 0 1 GET u8 0; SET s1 x; SET s1 x NX; SET no x XX; SET s1 x KEEPTTL; SETNX s1 x"),
    (0, 0, "MSETNX s1 a no b; APPEND s1 x; INCR s2; DEL s1 no; EXPIRE s1 10; PERSIST s1; RENAME s1 d; RENAME no d; MOVE s1 1"),
    (0, 0, "LPUSH l1 a; LPOP l1; LMOVE l1 l2 LEFT LEFT; HSET h1 a b; HDEL no f; SADD t1 x; SPOP t1; SMOVE t1 t2 a"),
    (0, 0, "ZADD z1 1 a; ZPOPMIN z1; ZMPOP 2 no z1 MIN; ZREMRANGEBYSCORE no 0 0; GEOADD g1 1 1 q; XADD x1 * a b; XDEL no 1-1"),
    (0, 0, "XTRIM x1 MAXLEN 1; XGROUP CREATE x1 g2 0; XGROUP DESTROY no gr; PFDEBUG ENCODING p1"),
    (0, 1, "GET no; GETRANGE no 0 1; GETBIT no 1; STRLEN no; EXISTS no; TYPE no; TTL no; OBJECT ENCODING no; DUMP no"),
    (0, 1, "PFCOUNT no; SUBSTR no 0 1; BITCOUNT no; BITPOS no 1; BITPOS no 0; BITFIELD no GET u8 0; BITFIELD_RO no GET u8 0"),
    (0, 1, "BITOP NOT d no; SET no x GET; SET no x NX GET; SET no x XX GET; GETSET no x; GETEX no; GETDEL no; COPY no d"),
    (0, 1, "SORT no; SORT no STORE d; SORT_RO no; LLEN no; LRANGE no 0 -1; LINDEX no 0; LPOS no a; HGET no f; HMGET no f no"),
    (0, 1, "HGETALL no; HKEYS no; HVALS no; HLEN no; HEXISTS no f; HSTRLEN no f; HRANDFIELD no; HRANDFIELD no 2; HSCAN no 0"),
    (0, 1, "SMEMBERS no; SISMEMBER no a; SMISMEMBER no a no; SCARD no; SRANDMEMBER no; SRANDMEMBER no 2; SSCAN no 0"),
    (0, 1, "SINTER no; ZSCORE no a; ZMSCORE no a no; ZRANK no a; ZREVRANK no a; ZCARD no; ZCOUNT no 0 1; ZLEXCOUNT no - +"),
    (0, 1, "ZRANGE no 0 -1; ZRANGE no 0 2 BYSCORE; ZRANGEBYSCORE no 0 1; ZRANGEBYLEX no - +; ZREVRANGEBYLEX no - +"),
    (0, 1, "ZREVRANGE no 0 -1; ZRANDMEMBER no; ZRANDMEMBER no 2; ZSCAN no 0; ZRANGESTORE d no 0 -1; GEOPOS no P"),
    (0, 1, "GEODIST no P C; GEOHASH no P; GEORADIUS no 15 37 200 km; GEORADIUS no 15 37 200 km STORE d"),
    (0, 1, "GEORADIUSBYMEMBER no P 200 km; GEORADIUSBYMEMBER_RO no P 200 km; GEOSEARCH no FROMMEMBER P BYRADIUS 200 km"),
    (0, 1, "GEOSEARCHSTORE d no FROMMEMBER P BYRADIUS 200 km; XLEN no; XRANGE no - +; XREVRANGE no + -"),
    (0, 1, "XREADGROUP GROUP gr c STREAMS no >; XACK no gr 1-1; XPENDING no gr; XCLAIM no gr d 0 1-1; XAUTOCLAIM no gr d 0 0"),
    (0, 1, "XINFO STREAM no; XINFO GROUPS no; XINFO CONSUMERS no gr; COPY no s2; BITFIELD no"),
    (0, 2, "MGET no no; PFMERGE d no; LCS no no; SINTER no no2; SUNION no no; XREAD STREAMS no 0; XREAD STREAMS no $"),
    (1, 0, "GET s1; GET l1; GETRANGE s1 0 1; SUBSTR s1 0 1; GETBIT s1 1; STRLEN s1; STRLEN l1; EXISTS s1; TYPE s1; TTL s1"),
    (1, 0, "PTTL s1; EXPIRETIME s1; OBJECT ENCODING s1; OBJECT REFCOUNT s1; OBJECT IDLETIME s1; OBJECT FREQ s1"),
    (1, 0, "OBJECT ENCODING l1; OBJECT ENCODING t1; OBJECT ENCODING z1; OBJECT ENCODING h1; DUMP s1; DUMP l1; PFCOUNT p1"),
    (1, 0, "PFCOUNT s1; PFMERGE p1; BITCOUNT s1; BITPOS s1 1; BITFIELD s1 GET u8 0; BITFIELD s1; BITFIELD_RO s1 GET u8 0"),
    (1, 0, "BITOP NOT s1 s1; SET s1 x GET; SET l1 x GET; SET s1 x NX GET; SET s1 x XX GET; GETSET s1 x; GETSET l1 x"),
    (1, 0, "GETEX s1; GETEX l1; GETEX s1 EX 10; GETEX s1 PERSIST; GETEX s1 EXAT 1; GETDEL s1; GETDEL l1; COPY s1 d"),
    (1, 0, "COPY s1 s2; COPY s1 s2 REPLACE; COPY l1 d; SORT l2; SORT s1; SORT l2 BY nosort; SORT l2 GET h1->f"),
    (1, 0, "SORT l2 GET h1->no; SORT l2 STORE d; SORT l2 STORE l1; SORT_RO l2; SORT t1 ALPHA; SORT z1 ALPHA"),
    (1, 0, "SORT z1 BY nosort; SORT z1 BY nosort LIMIT 0 1 ALPHA DESC; LLEN l1; LLEN s1; LRANGE l1 0 -1; LINDEX l1 0"),
    (1, 0, "LPOS l1 a; HGET h1 f; HGET h1 no; HGET s1 f; HMGET h1 f no; HGETALL h1; HKEYS h1; HVALS h1; HLEN h1"),
    (1, 0, "HEXISTS h1 f; HSTRLEN h1 f; HRANDFIELD h1; HRANDFIELD h1 2; HRANDFIELD h1 -5; HSCAN h1 0; SMEMBERS t1"),
    (1, 0, "SISMEMBER t1 a; SISMEMBER t1 no; SMISMEMBER t1 a no; SCARD t1; SRANDMEMBER t1; SRANDMEMBER t1 2"),
    (1, 0, "SRANDMEMBER t1 -5; SSCAN t1 0; SINTER t1; ZSCORE z1 a; ZSCORE z1 no; ZMSCORE z1 a no; ZRANK z1 a; ZREVRANK z1 a"),
    (1, 0, "ZCARD z1; ZCOUNT z1 0 1; ZLEXCOUNT z1 - +; ZRANGE z1 0 -1; ZRANGE z1 0 2 BYSCORE; ZRANGEBYSCORE z1 0 1"),
    (1, 0, "ZREVRANGEBYSCORE z1 1 0; ZRANGEBYLEX z1 - +; ZREVRANGE z1 0 -1; ZRANDMEMBER z1; ZRANDMEMBER z1 2"),
    (1, 0, "ZRANDMEMBER z1 -5; ZSCAN z1 0; ZRANGESTORE d z1 0 -1; ZRANGESTORE z1 z1 0 0; ZRANGESTORE d s1 0 -1"),
    (1, 0, "ZRANGESTORE d z1 0 2 BYSCORE; GEOPOS g1 P no; GEODIST g1 P C; GEOHASH g1 P; GEORADIUS g1 15 37 200 km"),
    (1, 0, "GEORADIUS g1 15 37 200 km STORE d; GEORADIUSBYMEMBER g1 P 200 km; GEORADIUSBYMEMBER g1 P 200 km STORE d"),
    (1, 0, "GEORADIUSBYMEMBER_RO g1 P 200 km; GEOSEARCH g1 FROMMEMBER P BYRADIUS 200 km"),
    (1, 0, "GEOSEARCH g1 FROMLONLAT 15 37 BYRADIUS 200 km; GEOSEARCHSTORE d g1 FROMMEMBER P BYRADIUS 200 km"),
    (1, 0, "GEOSEARCHSTORE g1 g1 FROMMEMBER P BYRADIUS 200 km; XLEN x1; XRANGE x1 - +; XREVRANGE x1 + -"),
    (1, 0, "XREADGROUP GROUP gr2 c STREAMS x1 >; XACK x1 gr 1-1; XACK x1 nogr 1-1; XPENDING x1 gr; XPENDING x1 gr - + 10"),
    (1, 0, "XPENDING x1 nogr; XCLAIM x1 gr d 0 1-1; XCLAIM x1 nogr d 0 1-1; XAUTOCLAIM x1 gr d 0 0; XINFO STREAM x1"),
    (1, 0, "XINFO STREAM x1 FULL; XINFO GROUPS x1; XINFO CONSUMERS x1 gr; XINFO CONSUMERS x1 nogr; GETEX s1 PXAT 1"),
    (1, 0, "COPY l1 s1; SORT l2 ALPHA GET #; SUNION l1 t1; SUNIONSTORE d l1 t1; ZUNIONSTORE d 2 l1 z1"),
    (1, 0, "GEOSEARCHSTORE d s1 FROMLONLAT 15 37 BYRADIUS 200 km; SET s1 x GET NX; SET s1 x GET EX 10 XX; BITOP AND d l1 s1"),
    (1, 0, "XAUTOCLAIM x1 nogr d 0 0; XACK s1 gr 1-1; XREADGROUP GROUP gr c STREAMS s1 >; OBJECT ENCODING x1"),
    (1, 1, "PFMERGE d s1; LCS s1 no; BITOP AND d s1 no; SINTER t1 no; SINTER no t1; SINTER no s1; SINTERCARD 2 t1 no"),
    (1, 1, "SUNION t1 no; SDIFF t1 no; SDIFF no t1; SINTERSTORE d t1 no; SUNIONSTORE d t1 no; SDIFFSTORE d no t1"),
    (1, 1, "ZUNION 2 z1 no; ZINTER 2 z1 no; ZINTER 2 no z1; ZINTERCARD 2 no z2; ZDIFF 2 no z2; ZDIFF 2 z1 no"),
    (1, 1, "ZUNIONSTORE d 2 z1 no; ZINTERSTORE d 2 no z2; ZDIFFSTORE d 2 no z2; LCS l1 no; LCS no l1; SINTERSTORE d no s1"),
    (1, 3, "SORT l2 GET no_*; SORT l2 BY no_*; SORT_RO l2 GET h1->f GET no_*"),
    (2, 0, "PFCOUNT p1 p2; PFCOUNT p1 s1; PFMERGE p1 p2; LCS s1 s2; LCS s1 l1; LCS s1 s1 LEN; BITOP AND d s1 s2"),
    (2, 0, "BITOP AND d s1 l1; SORT l2 GET w_* LIMIT 0 1; SINTER t1 t2; SINTER t1 t1; SINTER t1 s1; SINTERCARD 2 t1 t2"),
    (2, 0, "SUNION t1 t2; SUNION t1 s1; SDIFF t1 t2; SDIFF t1 t1; SDIFF t1 s1; SINTERSTORE d t1 t2; SINTERSTORE t1 t1 t2"),
    (2, 0, "SUNIONSTORE d t1 t2; SUNIONSTORE t1 t1 t2; SUNIONSTORE d t1 s1; SDIFFSTORE d t1 t2; SDIFFSTORE t1 t1 t2"),
    (2, 0, "ZUNION 2 z1 z2; ZUNION 2 z1 t1; ZUNION 2 z1 s1; ZUNION 2 z1 z1; ZINTER 2 z1 z2; ZINTERCARD 2 z1 z2"),
    (2, 0, "ZDIFF 2 z1 z2; ZUNIONSTORE d 2 z1 z2; ZUNIONSTORE z1 2 z1 z2; ZINTERSTORE d 2 z1 z2; ZDIFFSTORE d 2 z1 z2"),
    (2, 0, "XREAD STREAMS x1 0; XREAD STREAMS x1 $; XREADGROUP GROUP gr c STREAMS x1 >; XREADGROUP GROUP gr c STREAMS x1 0"),
    (2, 0, "XREADGROUP GROUP gr d STREAMS x1 >; PFCOUNT p1 p1; PFMERGE p1 p1"),
    (2, 1, "MGET s1 no h1; TOUCH s1 no s1; PFCOUNT p1 no p2; PFMERGE d p1 p2; SINTER t1 no t2; SINTERCARD 3 t1 no t2"),
    (2, 1, "SINTERSTORE d no t1 t2"),
    (2, 2, "XREAD STREAMS x1 no 0 0"),
    (3, 0, "MGET s1 s1 s1; BITOP OR d s1 s1 s1"),
    (3, 1, "MGET l1 no s2 s2"),
    (3, 2, "EXISTS s1 s1 no no l1"),
    (4, 0, "SORT l2 BY w_*; SORT l2 GET w_*->f; SORT l2 BY w_* STORE d; XREAD STREAMS x1 x1 0 $"),
    (4, 0, "XREADGROUP GROUP gr c STREAMS x1 x1 > 0"),
    (5, 0, "SORT l2 BY w_* LIMIT 0 1 GET w_*"),
    (7, 0, "SORT l2 BY w_* GET w_* GET #; SORT_RO l2 BY w_* GET w_*"),
];

#[test]
fn each_key_that_is_read_counts_once() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    for (hits, misses, lines) in COUNTED {
        for line in lines.split("; ") {
            talk.say(&mut session, "FLUSHALL");
            for key in KEYS {
                let reply = talk.say(&mut session, key);
                assert!(!reply.starts_with('-'), "{key}: {reply}");
            }
            talk.say(&mut session, "CONFIG RESETSTAT");
            let reply = talk.say(&mut session, line);
            let statistics = &talk.server.statistics;
            assert_eq!((statistics.hits, statistics.misses), (*hits, *misses), "{line}: {reply}");
        }
    }
}

/// Commands of newer versions count where Redis tells of a missed key.
#[test]
fn conditional_removals_count() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    for (line, counted) in [("DELEX k IFEQ 2", (1, 0)), ("DELEX k IFEQ 1", (1, 0)), ("DELEX no IFEQ 1", (0, 1)), ("DELEX k", (0, 0))] {
        talk.say(&mut session, "SET k 1");
        talk.say(&mut session, "CONFIG RESETSTAT");
        talk.say(&mut session, line);
        assert_eq!((talk.server.statistics.hits, talk.server.statistics.misses), counted, "{line}");
    }
}

/// Commands inside a transaction count once, not again with `EXEC`.
#[test]
fn transactions_count_like_their_commands() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    for line in ["SET a 1", "MULTI", "GET a", "GETSET a 2", "GET none", "SET a 3", "EXEC"] {
        talk.say(&mut session, line);
    }
    assert_eq!((talk.server.statistics.hits, talk.server.statistics.misses), (2, 1));
}

/// Keys whose deadline has passed are misses.
#[test]
fn ended_keys_are_misses() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    for line in ["GET k", "GETSET k 1", "COPY k other", "SORT k"] {
        talk.say(&mut session, "SET k 1 PX 10");
        talk.keyspace.set_now(talk.keyspace.now() + 1000);
        talk.say(&mut session, "CONFIG RESETSTAT");
        talk.say(&mut session, line);
        assert_eq!((talk.server.statistics.hits, talk.server.statistics.misses), (0, 1), "{line}");
    }
}
