//! Several clients at once, here and at a real `redis-server`, in RESP2 and RESP3. `common/play.rs` describes the scripts.

use crate::common::Served;
use crate::common::play::{Play, play};

#[test]
fn the_first_to_wait_is_the_first_served() {
    play(
        "a: BLPOP k 0 &
         b: BRPOP other k 0 &
         c: BLPOP k 0 &
         p: RPUSH k 1 2
         a? => *2($k $1 )
         b? => *2($k $2 )
         c.
         p: LLEN k => :0
         p: RPUSH k 3
         c? => *2($k $3 )
         p: EXISTS k => :0
         -- Also who comes back goes to the end.
         a: BLPOP k 0 &
         b: BLPOP k 0 &
         p: LPUSH k x
         a?
         a: BLPOP k 0 &
         p: LPUSH k y
         b?
         p: LPUSH k z
         a?
         -- The same key many times.
         a: BLPOP k k k 0 &
         p: RPUSH k a b
         a?
         p: LRANGE k 0 -1",
    );
}

#[test]
fn what_is_there_is_taken_at_once() {
    play(
        "p: RPUSH b 1 2
         a: BLPOP a b c 0
         a: BRPOP a b 1
         a: BLPOP a b 0.05 => *-1
         p: SET s x
         a: BLPOP a s 1
         a: BLPOP s a 1
         a: BLPOP a x => -ERR timeout is not a float or out of range
         a: BLPOP a -1 => -ERR timeout is negative
         a: BLPOP a
         p: ZADD z 1 m 2 n
         a: BZPOPMIN none z 0
         a: BZPOPMAX z 0
         a: BZPOPMAX z 0.05
         a: BZPOPMAX s 0.05
         p: RPUSH l 1 2 3 4
         a: BLMPOP 1 2 none l LEFT COUNT 2
         a: BLMPOP 1 1 l RIGHT
         a: BLMPOP 0.01 1 none LEFT
         a: BLMPOP x 1 l LEFT
         a: BLMPOP 1 0 l LEFT
         a: BLMPOP 1 2 l LEFT
         a: BLMPOP 1 1 l NEAR
         a: BLMPOP 1 1 l LEFT COUNT 0
         p: ZADD z 1 a 2 b 3 c
         a: BZMPOP 1 1 z MIN COUNT 2
         a: BZMPOP 1 1 z MAX
         a: BZMPOP 0.01 1 z MAX
         a: BZMPOP 1 1 z SIDE
         a: BZMPOP 1 1 s MIN
         p: RPUSH from 1 2
         a: BLMOVE from to LEFT RIGHT 0
         a: BRPOPLPUSH from to 0
         a: BLMOVE from to LEFT RIGHT 0.01 => *-1
         a: BRPOPLPUSH from to 0.01
         a: BLMOVE from to LEFT MIDDLE 0
         a: BLMOVE from to LEFT LEFT x
         a: BLMOVE s to LEFT LEFT 0
         a: BLMOVE to s LEFT LEFT 0
         p: LRANGE to 0 -1",
    );
}

#[test]
fn other_types_are_waited_past() {
    play(
        "a: BLPOP k 0 &
         b: BZPOPMIN k 0 &
         c: BLPOP k 0 &
         p: SET k x
         p: DEL k
         p: SADD k x
         p: DEL k
         a.
         p: ZADD k 1 m
         b? => *3($k $m $1 )
         p: RPUSH k 1
         a?
         -- A list that goes before anybody can have it.
         p: MULTI
         p: LPUSH k x
         p: DEL k
         p: EXEC
         p: MULTI
         p: LPUSH k x
         p: DEL k
         p: SET k x
         p: EXEC
         c.
         p: DEL k
         p: MULTI
         p: LPUSH k x
         p: LPUSH k y
         p: EXEC
         c? => *2($k $y )
         -- Among several keys the one that has changed first.
         a: BLPOP one two 0 &
         p: MULTI
         p: RPUSH two 2
         p: RPUSH one 1
         p: EXEC
         a?
         -- A key of another type does no harm while another is waited for.
         p: DEL one two
         a: BLPOP one two 0 &
         p: SET one x
         p: RPUSH two 2
         a?",
    );
}

#[test]
fn items_are_handed_on() {
    play(
        "a: BLMOVE one two LEFT RIGHT 0 &
         b: BLMOVE two three RIGHT LEFT 0 &
         c: BRPOPLPUSH three four 0 &
         d: BLPOP four 0 &
         p: RPUSH one x
         a? => $x
         b? => $x
         c? => $x
         d? => *2($four $x )
         p: DBSIZE => :0
         -- To itself, and to somebody who waits for the same.
         a: BRPOPLPUSH one one 0 &
         b: BRPOPLPUSH one one 0 &
         p: RPUSH one x
         a?
         b?
         p: LRANGE one 0 -1
         -- What it would go to is no list.
         p: DEL one
         p: SET target x
         a: BLMOVE one target LEFT LEFT 0 &
         b: BLMOVE one other LEFT LEFT 0 &
         p: RPUSH one 1
         a?
         b?
         p: LRANGE other 0 -1
         p: DEL other
         -- By twos.
         a: BLMPOP 0 2 x y LEFT COUNT 2 &
         b: BZMPOP 0 2 x y MAX COUNT 2 &
         p: RPUSH y 1 2 3
         a?
         p: DEL y
         p: ZADD y 1 a 2 b 3 c
         b?
         p: ZRANGE y 0 -1",
    );
}

#[test]
fn a_list_is_noticed_however_it_comes() {
    play(
        "a: BLPOP k 0 &
         p: RPUSH other 1
         p: RENAME other k
         a?
         a: BLPOP k 0 &
         p: RPUSH other 2
         p: COPY other k
         a?
         a: BLPOP k 0 &
         p: LMOVE other k LEFT LEFT
         a?
         a: BLPOP k 0 &
         p: SELECT 3
         p: RPUSH k 3
         a.
         p: MOVE k 0
         a?
         a: BLPOP k 0 &
         p: RPUSH k 4
         p: SWAPDB 0 3 => +OK
         a?
         p: SWAPDB 0 3
         p: SWAPDB 0 99
         p: SWAPDB x 0
         p: SWAPDB 0 x
         p: SWAPDB 1 1
         p: SELECT 0
         a: BZPOPMAX z 0 &
         p: ZADD y 1 m
         p: ZUNIONSTORE z 1 y
         a?
         a: BZPOPMAX z 0 &
         p: ZRANGESTORE z y 0 -1
         a?
         -- Watched keys change with their database.
         w: WATCH k
         w: MULTI
         w: PING
         p: SELECT 5
         p: SET k x
         p: SWAPDB 0 5
         w: EXEC
         w: WATCH none
         w: MULTI
         w: PING
         p: SWAPDB 0 5
         w: EXEC",
    );
}

#[test]
fn transactions_do_not_wait() {
    play(
        "a: MULTI
         a: BLPOP k 0
         a: BLMOVE k l LEFT LEFT 0
         a: BRPOPLPUSH k l 0
         a: BLMPOP 0 1 k LEFT
         a: BZPOPMIN k 0
         a: BZMPOP 0 1 k MIN
         a: WAIT 1 0
         a: RPUSH k x
         a: BLPOP k 0
         a: EXEC
         -- What is pushed and taken by the same transaction is not for others.
         b: BLPOP k 0 &
         a: MULTI
         a: RPUSH k 1
         a: LPOP k
         a: EXEC
         b.
         a: MULTI
         a: RPUSH k 1
         a: RPUSH k 2
         a: BLPOP k 0
         a: EXEC
         b?
         p: EXISTS k",
    );
}

#[test]
fn requests_behind_one_that_waits_wait() {
    play(
        "a: BLPOP k 0 &
         a: SET after 1 ~
         a: BLPOP k 0 ~
         a: GET after ~
         p: GET after => $-1
         p: RPUSH k 1
         a?
         a?
         p: GET after => $1
         p: RPUSH k 2
         a?
         a? => $1
         -- And messages do not.
         a: BLPOP k 0.05 ~
         a: ECHO x ~
         a?
         a? => $x",
    );
}

#[test]
fn waits_are_ended_by_others() {
    play(
        "a: BLPOP k 0 &
         p: CLIENT UNBLOCK #a => :1
         a? => *-1
         p: CLIENT UNBLOCK #a => :0
         a: BLMOVE k l LEFT LEFT 0 &
         p: CLIENT UNBLOCK #a TIMEOUT
         a?
         a: BZPOPMIN k 0 &
         p: CLIENT UNBLOCK #a ERROR
         a? => -UNBLOCKED client unblocked via CLIENT UNBLOCK
         a: WAIT 3 0 &
         p: CLIENT UNBLOCK #a
         a? => :0
         p: CLIENT UNBLOCK #a SOON
         p: CLIENT UNBLOCK x
         p: CLIENT UNBLOCK
         p: CLIENT UNBLOCK 1 TIMEOUT x
         a: WAIT 0 0
         a: WAIT 1 20
         a: WAIT x 0
         a: WAIT 1 -1
         a: WAIT 1 x
         -- Who is closed waits no more, and takes nothing along.
         a: BLPOP k 0 &
         b: BLPOP k 0 &
         p: CLIENT KILL ID #a => :1
         a? => closed
         p: RPUSH k 1
         b?
         p: CLIENT KILL 1.2.3.4:5
         p: CLIENT KILL ID x
         p: CLIENT KILL ID 0
         p: CLIENT KILL ID 999999
         p: CLIENT KILL TYPE x
         p: CLIENT KILL TYPE replica
         p: CLIENT KILL SKIPME x
         p: CLIENT KILL ID
         p: CLIENT KILL USER nobody
         p: CLIENT KILL
         s: SUBSCRIBE x
         p: CLIENT KILL TYPE pubsub
         s?
         p: CLIENT KILL ID #p SKIPME yes
         p: CLIENT KILL ID #p SKIPME no
         p?",
    );
}

#[test]
fn messages_reach_those_who_listen() {
    play(
        "a: SUBSCRIBE x y
         a?
         b: PSUBSCRIBE x* *
         b?
         p: PUBLISH x hello => :3
         a? => *3($message $x $hello )
         p: PUBSUB NUMSUB x y z
         p: PUBSUB NUMPAT
         p: PUBSUB CHANNELS x
         p: PUBSUB CHANNELS q*
         p: PUBSUB CHANNELS a b
         p: PUBSUB NUMPAT x
         p: PUBSUB NOSUCH
         p: PUBSUB
         p: PUBSUB SHARDCHANNELS
         a: SUBSCRIBE x
         a: UNSUBSCRIBE none
         a: UNSUBSCRIBE x
         p: PUBLISH x again
         a.
         a: UNSUBSCRIBE
         a: UNSUBSCRIBE
         a: PUNSUBSCRIBE
         a: SUNSUBSCRIBE
         a: PUNSUBSCRIBE q
         a: SUNSUBSCRIBE q
         a: SET k v => +OK
         b: PUNSUBSCRIBE x* ~
         p: PING
         b: PUNSUBSCRIBE * ~
         p: PUBLISH x nobody
         s: SSUBSCRIBE x y
         s?
         p: SPUBLISH x hello
         s?
         p: PUBLISH x hello
         s.
         p: PUBSUB SHARDCHANNELS x
         p: PUBSUB SHARDNUMSUB x y z
         p: PUBSUB NUMSUB x
         s: SUBSCRIBE x
         s: SUNSUBSCRIBE x
         s: SUNSUBSCRIBE
         s: UNSUBSCRIBE",
    );
}

#[test]
fn who_listens_in_resp2_may_do_little_else() {
    play(
        "a: SUBSCRIBE x
         a: PING
         a: PING text
         a: PING a b
         a: GET k
         a: CLIENT ID ~
         a: CLIENT NOSUCH ~
         p: PUBLISH x 1
         a.
         p: CLIENT KILL ID #a
         b: SUBSCRIBE x
         b: RESET
         b: PING
         b: GET k
         p: PUBLISH x 1
         c: MULTI
         c: SUBSCRIBE x
         c: SSUBSCRIBE x
         c: PING
         c: MONITOR
         c: EXEC
         c: UNSUBSCRIBE
         c: PING
         d: CLIENT REPLY OFF ~
         d: PING ~
         d: SUBSCRIBE x
         d: PING ~
         p: PUBLISH x silent
         d?
         e: PSUBSCRIBE *
         e: QUIT
         e?",
    );
}

/// Messages to the sender follow the reply to the whole request, as from Redis 7.2 on; Redis 7.0 puts them into the array of `EXEC`.
#[test]
fn who_sends_to_himself_gets_the_message_behind_the_reply() {
    let served = Served::start();
    let mut play = Play::new(served.address, "3");
    for (request, replies) in [
        ("SUBSCRIBE x", &[">3($subscribe $x :1 )"][..]),
        ("PUBLISH x plain", &[":1", ">3($message $x $plain )"]),
        ("PSUBSCRIBE x*", &[">3($psubscribe $x* :2 )"]),
        ("MULTI", &["+OK"]),
        ("PING", &["+QUEUED"]),
        ("PUBLISH x in", &["+QUEUED"]),
        ("PING", &["+QUEUED"]),
        ("EXEC", &["*3(+PONG :2 +PONG )", ">3($message $x $in )", ">4($pmessage $x* $x $in )"]),
        ("PUNSUBSCRIBE", &[">3($punsubscribe $x* :1 )"]),
        (
            "EVAL return{redis.call('publish','x','first'),redis.call('publish','x','second')} 0",
            &["*2(:1 :1 )", ">3($message $x $first )", ">3($message $x $second )"],
        ),
        ("CLIENT REPLY SKIP", &[]),
        ("PUBLISH x silent", &[">3($message $x $silent )"]),
        ("PING", &["+PONG"]),
    ] {
        play.send("a", request);
        let got: Vec<String> = replies.iter().map(|_| play.read("a")).collect();
        assert_eq!(got, replies, "{request}");
    }
}

#[test]
fn requests_wait_while_there_is_a_pause() {
    play(
        "a: SET k 1
         c: MULTI
         c: SET k 3
         h: MULTI
         h: EVAL #!lua␣flags=no-writes␊return␣1 0
         h: EVAL_RO return␣2 0
         i: MULTI
         i: EVAL return␣3 0
         p: PFADD h x
         p: CLIENT PAUSE 100000 WRITE
         a: GET k => $1
         a: SET k => -ERR wrong number of arguments for \\'set\\' command
         a: SET k 2 &
         b: PUBLISH x y &
         c: EXEC &
         e: PFCOUNT h &
         f: FUNCTION FLUSH &
         g: FUNCTION LIST
         g: SCRIPT EXISTS x
         d: MULTI
         d: GET k
         d: EXEC
         h: EXEC => *2(:1 :2 )
         h: EVAL #!lua␣flags=no-writes␊return␣1 0 => :1
         i: EXEC &
         j: EVAL #!lua␊return␣4 0 &
         l: EVAL_RO #!lua␊return␣5 0 &
         m: MULTI
         m: EVAL #!lua␣flags=no-writes,allow-oom␊return␣6 0
         m: EXEC
         p: GET k => $1
         p: CLIENT UNPAUSE => +OK
         a?
         b?
         c?
         e?
         f?
         i?
         j?
         l?
         p: CLIENT PAUSE 60 ALL
         a: GET k
         p: CLIENT PAUSE x
         p: CLIENT PAUSE -1
         p: CLIENT PAUSE 10 SOME
         p: CLIENT PAUSE 10 ALL x
         p: CLIENT PAUSE
         p: CLIENT PAUSE 0
         p: CLIENT UNPAUSE x",
    );
}

#[test]
fn replies_are_left_out_as_asked_for() {
    play(
        "a: CLIENT REPLY SKIP ~
         a: CLIENT REPLY SKIP ~
         a: SET k v ~
         a: GET k => $v
         a: CLIENT REPLY SKIP ~
         a: SET k w ~
         a: GET k => $w
         a: CLIENT REPLY OFF ~
         a: CLIENT REPLY SKIP ~
         a: GET k ~
         a: GET k ~
         a: CLIENT REPLY ON => +OK",
    );
}

#[test]
fn numbers_are_read_in_all_their_forms() {
    play(
        "p: INCRBYFLOAT none inf
         p: INCRBYFLOAT none nan
         p: INCRBYFLOAT none 1e5000
         p: SET long 1e256
         p: INCRBYFLOAT long 1
         p: INCRBYFLOAT long 1
         p: INCRBYFLOAT long 1e4900
         p: INCRBYFLOAT long -1e4900
         p: INCRBYFLOAT hex 0x10 => $16
         p: INCRBYFLOAT hex -0x.8p1
         p: INCRBYFLOAT hex 0x1P-20
         p: INCRBYFLOAT hex 0x
         p: INCRBYFLOAT hex 0xg
         p: SET infinite inf
         p: INCRBYFLOAT infinite 1
         p: INCRBYFLOAT infinite x
         p: HSET hash f -infinity g x
         p: HINCRBYFLOAT hash f 1
         p: HINCRBYFLOAT hash f inf
         p: HINCRBYFLOAT hash g inf
         p: HINCRBYFLOAT hash g 1
         p: HINCRBYFLOAT hash h 0x1.8
         p: ZADD set 0x1p4 m -0x1.8 n
         p: ZRANGE set 0 -1 WITHSCORES
         p: ZADD set 0x m
         p: ZADD set 0x1p1024 m
         p: ZCOUNT set (0x0f 0x10
         p: RPUSH list a b a
         p: LPOS list a RANK -9223372036854775808 => :2
         p: LPOS list a RANK -9223372036854775807
         p: LPOS list a RANK -9223372036854775808 COUNT 0
         p: LPOS list a RANK 9223372036854775808",
    );
}

#[test]
fn who_watches_a_stream_watches_its_entries() {
    play(
        "a: XADD s 1-1 f v
         a: WATCH s
         p: XSETID s 5-0 ENTRIESADDED 7 MAXDELETEDID 3-0 => +OK
         a: MULTI
         a: XADD s 4-0 f v
         a: XADD s 6-0 f v
         a: EXEC
         a: WATCH s
         p: XADD s 7-0 f v
         a: MULTI
         a: PING
         a: EXEC => *-1",
    );
}

#[test]
fn what_clients_may_ask_about_themselves() {
    play(
        "a: CLIENT GETREDIR
         a: CLIENT TRACKINGINFO
         a: CLIENT CACHING YES
         a: CLIENT TRACKING OFF
         a: CLIENT TRACKING x
         a: CLIENT NO-EVICT ON
         a: CLIENT NO-EVICT x
         a: CLIENT NO-EVICT
         a: CLIENT REPLY x
         a: CLIENT SETNAME a\tb
         a: CLIENT SETNAME me
         a: CLIENT GETNAME
         a: CLIENT LIST TYPE x
         a: CLIENT LIST TYPE master
         a: CLIENT LIST ID
         a: CLIENT LIST ID x
         a: CLIENT LIST ID 9999999
         a: CLIENT LIST x
         a: CLIENT NOSUCH
         a: CLIENT
         a: CLIENT ID x
         a: RESET
         a: CLIENT GETNAME",
    );
}
