//! Unions, intersections and differences of sorted sets: the same results as a straightforward computation, whichever way they are found.

use super::Talk;
use crate::number::format_double;
use crate::testing::Random;
use sinterdb::WriteOptions;
use sinterdb::ledger::Ticker;
use std::collections::HashMap;

/// Scores and weights whose sums and products are rounded, overflow, cancel out, or are no numbers.
const SCORES: &[f64] = &[0.0, 1.0, -1.0, 0.1, 0.2, 0.3, 1e16, -1e16, 1e308, 5e-324, f64::INFINITY, f64::NEG_INFINITY];
const AGGREGATES: &[&str] = &["SUM", "MIN", "MAX"];
const KEYS: usize = 6;

/// A set (all scores 1) or sorted set; without members: there is none.
type Members = Vec<(String, f64)>;

fn number_or_zero(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

fn aggregated(a: f64, b: f64, aggregate: &str) -> f64 {
    match aggregate {
        "SUM" => number_or_zero(a + b),
        "MIN" if b < a => b,
        "MAX" if b > a => b,
        _ => a,
    }
}

/// Reads all members of all inputs.
fn expected(command: &str, inputs: &[(&Members, f64)], aggregate: &str) -> Members {
    let mut inputs = inputs.to_vec();
    if command != "ZDIFF" {
        inputs.sort_by_key(|(members, _)| members.len());
    }
    let mut all: HashMap<&str, (f64, usize)> = HashMap::new();
    for (nth, (members, weight)) in inputs.iter().enumerate() {
        for (member, score) in *members {
            let is_raw = command == "ZINTER" && nth > 0;
            let score = if is_raw { score * weight } else { number_or_zero(score * weight) };
            match (all.get_mut(&member[..]), command) {
                (Some(_), "ZDIFF") => drop(all.remove(&member[..])),
                (Some(found), _) => *found = (aggregated(found.0, score, aggregate), found.1 + 1),
                (None, _) if nth == 0 || command == "ZUNION" => drop(all.insert(member, (score, 1))),
                (None, _) => {}
            }
        }
    }
    let is_in = |inputs_with: usize| command != "ZINTER" || inputs_with == inputs.len();
    let mut found: Members = all.into_iter().filter(|(_, (_, of))| is_in(*of)).map(|(member, (score, _))| (member.into(), score)).collect();
    found.sort_by(|a, b| (a.1 + 0.0).total_cmp(&(b.1 + 0.0)).then_with(|| a.0.cmp(&b.0)));
    found
}

fn encoded(members: &Members) -> String {
    let mut text = format!("*{}|", members.len() * 2);
    for (member, score) in members {
        let score = format_double(*score);
        text += &format!("${}|{member}|${}|{score}|", member.len(), score.len());
    }
    text
}

#[test]
fn results_are_those_of_all_members_of_all_inputs() {
    let mut random = Random(7);
    for limits in [128, 2] {
        let mut talk = Talk::new();
        let mut session = talk.client(1);
        talk.say(&mut session, &format!("CONFIG SET zset-max-listpack-entries {limits} set-max-listpack-entries {limits}"));
        for _ in 0..60 {
            talk.say(&mut session, "FLUSHALL");
            let mut values: Vec<Members> = Vec::new();
            for key in 0..KEYS {
                let (is_set, most) = (random.below(4) == 0, [0, 1, 4, 12, 30][random.below(5)]);
                let mut members = Members::new();
                for n in 0..30 {
                    if members.len() < most && random.below(3) > 0 {
                        members.push((format!("m{n}"), if is_set { 1.0 } else { SCORES[random.below(SCORES.len())] }));
                    }
                }
                for (member, score) in &members {
                    let added = match is_set {
                        true => talk.say(&mut session, &format!("SADD k{key} {member}")),
                        false => talk.say(&mut session, &format!("ZADD k{key} {} {member}", format_double(*score))),
                    };
                    assert_eq!(added, ":1|");
                }
                // The order of equal scores.
                members.sort_by(|a, b| (a.1 + 0.0).total_cmp(&(b.1 + 0.0)).then_with(|| a.0.cmp(&b.0)));
                values.push(members);
            }
            for command in ["ZINTER", "ZDIFF", "ZUNION"] {
                let used: Vec<usize> = (0..1 + random.below(4)).map(|_| random.below(KEYS)).collect();
                let mut line = format!("{}", used.len());
                used.iter().for_each(|key| line += &format!(" k{key}"));
                let (mut weights, mut aggregate, mut options) = (vec![1.0; used.len()], "SUM", String::new());
                if command != "ZDIFF" {
                    weights.fill_with(|| SCORES[random.below(SCORES.len())]);
                    aggregate = AGGREGATES[random.below(3)];
                    let texts: Vec<String> = weights.iter().map(|weight| format_double(*weight)).collect();
                    options = format!(" WEIGHTS {} AGGREGATE {aggregate}", texts.join(" "));
                }
                let inputs: Vec<(&Members, f64)> = used.iter().map(|key| &values[*key]).zip(weights).collect();
                let members = expected(command, &inputs, aggregate);
                let request = format!("{command} {line}{options} WITHSCORES");
                assert_eq!(talk.say(&mut session, &request), encoded(&members), "{request}");
                let stored = talk.say(&mut session, &format!("{command}STORE d {line}{options}"));
                assert_eq!(stored, format!(":{}|", members.len()), "{request}");
                // A small sorted set does not keep the sign of zero.
                let unsigned = |text: String| text.replace("$2|-0|", "$1|0|");
                let read = talk.say(&mut session, "ZRANGE d 0 -1 WITHSCORES");
                assert_eq!(unsigned(read), unsigned(encoded(&members)), "{request}");
                if command == "ZINTER" {
                    let limit = random.below(10);
                    let count = if limit == 0 { members.len() } else { members.len().min(limit) };
                    assert_eq!(talk.say(&mut session, &format!("ZINTERCARD {line} LIMIT {limit}")), format!(":{count}|"), "{request}");
                }
            }
        }
    }
}

#[test]
fn a_wrong_type_is_reported_wherever_it_is() {
    const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    ["SET text 1", "ZADD z 1 a", "SADD s a"].iter().for_each(|line| drop(talk.say(&mut session, line)));
    for keys in ["text z", "z text", "none text", "text none", "s text"] {
        for command in ["ZINTER", "ZINTERCARD", "ZDIFF", "ZUNION", "ZINTERSTORE d", "ZDIFFSTORE d", "ZUNIONSTORE d"] {
            assert_eq!(talk.say(&mut session, &format!("{command} 2 {keys}")), WRONG, "{command} {keys}");
        }
    }
}

#[test]
fn a_large_input_is_not_walked_for_a_small_one() {
    let mut talk = Talk::new();
    let mut session = talk.client(1);
    talk.say(&mut session, "ZADD small 1 m1 2 m2 3 other");
    for key in ["big", "big2"] {
        let members: Vec<String> = (0..3000).map(|n| format!("{n} m{n}")).collect();
        members.chunks(500).for_each(|some| drop(talk.say(&mut session, &format!("ZADD {key} {}", some.join(" ")))));
    }
    talk.keyspace.commit(&WriteOptions::default()).unwrap();
    for (line, reply) in [
        ("ZINTER 2 big small WITHSCORES", "*4|$2|m1|$1|2|$2|m2|$1|4|"),
        ("ZINTER 3 big none big2", "*0|"),
        ("ZINTERSTORE d 2 small big", ":2|"),
        ("ZINTERCARD 2 small big", ":2|"),
        ("ZINTERCARD 2 big big2 LIMIT 5", ":5|"),
        ("ZDIFF 3 small big big2", "*1|$5|other|"),
        ("ZDIFF 2 none big", "*0|"),
        ("ZDIFFSTORE d 2 small big", ":1|"),
    ] {
        let before = talk.keyspace.db().statistics().ticker(Ticker::NumberDbNext);
        assert_eq!(talk.say(&mut session, line), reply, "{line}");
        let steps = talk.keyspace.db().statistics().ticker(Ticker::NumberDbNext) - before;
        assert!(steps < 100, "{line}: {steps}");
    }
}
