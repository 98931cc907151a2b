//! Edges of what commands take, as Redis 7.0.15 has them.

use super::script;

#[test]
fn ranges_of_names_go_by_scores() {
    script(&[
        ("ZADD z 1 one 2 two 3 three", ":3|"),
        ("ZLEXCOUNT z - +", ":3|"),
        ("ZLEXCOUNT z [o (p", ":1|"),
        ("ZRANGE z - + BYLEX", "*3|$3|one|$3|two|$5|three|"),
        ("ZRANGE z [p + BYLEX", "*2|$3|two|$5|three|"),
        ("ZRANGE z [a [tk BYLEX", "*1|$3|one|"),
        ("ZRANGE z + - BYLEX REV LIMIT 1 1", "*1|$3|two|"),
        ("ZREVRANGEBYLEX z [tm [a", "*3|$5|three|$3|two|$3|one|"),
        ("ZRANGEBYLEX z [x +", "*0|"),
        ("ZRANGEBYLEX z - [a", "*0|"),
        ("ZRANGEBYLEX z [tx +", "*0|"),
        ("ZADD w 1 c 2 z 3 a 4 b", ":4|"),
        ("ZRANGEBYLEX w [a [c LIMIT 1 1", "*0|"),
        ("ZRANGEBYLEX w [a [c LIMIT 2 1", "*1|$1|a|"),
        ("ZREVRANGEBYLEX w [c [a", "*4|$1|b|$1|a|$1|z|$1|c|"),
        ("ZREVRANGEBYLEX w [y [a LIMIT 2 5", "*2|$1|z|$1|c|"),
        ("ZRANGESTORE s w [c + BYLEX", ":0|"),
        ("ZRANGE s 0 -1", "*0|"),
        ("ZREMRANGEBYLEX w [b [z", ":4|"),
        ("ZRANGE w 0 -1", "*0|"),
        ("ZLEXCOUNT w + -", ":0|"),
    ]);
}
