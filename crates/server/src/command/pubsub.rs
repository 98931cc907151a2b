//! Commands for publishing messages and for subscribing to channels, patterns and shard channels.

use super::hub::Topic;
use super::spec::{FAST, LOADING, MAY_REPLICATE, NOSCRIPT, PUBSUB, Run, STALE};
use super::subcommand::{Sub, dispatch, wrong_form};
use super::{Command, Context, Failure, Group, Outcome, effects, help};
use crate::glob;

const fn messages(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::PubSub, name, arity, run).flags(PUBSUB | NOSCRIPT | LOADING | STALE).since("2.0.0")
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    messages("psubscribe", -2, psubscribe).says("Listen to all channels that match", "O(1) for each pattern"),
    messages("publish", 3, publish)
        .flags(PUBSUB | LOADING | STALE | FAST | MAY_REPLICATE)
        .says("Send a message to a channel", "O(n+m), n being those who listen to the channel and m all patterns"),
    messages("pubsub", -2, pubsub)
        .subcommands(&["channels", "help", "numpat", "numsub", "shardchannels", "shardnumsub"], HELP)
        .flags(PUBSUB | LOADING | STALE)
        .since("2.8.0")
        .says("Ask who listens to what", "O(n), n being the number of channels"),
    messages("punsubscribe", -1, punsubscribe).says("Listen to patterns no more", "O(1) for each pattern"),
    messages("spublish", 3, spublish)
        .flags(PUBSUB | LOADING | STALE | FAST | MAY_REPLICATE)
        .since("7.0.0")
        .keys(1, 1, 1)
        .says("Send a message to a shard channel", "O(n), n being those who listen to it"),
    messages("ssubscribe", -2, ssubscribe).since("7.0.0").keys(1, -1, 1).says("Listen to shard channels", "O(1) for each channel"),
    messages("subscribe", -2, subscribe).says("Listen to channels", "O(1) for each channel"),
    messages("sunsubscribe", -1, sunsubscribe)
        .since("7.0.0")
        .keys(1, -1, 1)
        .says("Listen to shard channels no more", "O(1) for each channel"),
    messages("unsubscribe", -1, unsubscribe).says("Listen to channels no more", "O(1) for each channel"),
];

/// The number of subscriptions in a confirmation: of channels and patterns together, or of shard channels.
fn count(context: &Context, topic: Topic) -> usize {
    let of = |topic| context.server.hub.count(context.session.id, topic);
    if topic == Topic::Shard { of(topic) } else { of(Topic::Channel) + of(Topic::Pattern) }
}

/// Confirms a change of subscriptions; `None`: there was nothing to change.
fn confirm(context: &mut Context, word: &str, topic: Topic, name: Option<&[u8]>) {
    let count = count(context, topic);
    context.reply.push(3);
    context.reply.bulk(word.as_bytes());
    context.reply.bulk_or_null(name);
    context.reply.count(count);
}

fn listen(context: &mut Context, arguments: &[&[u8]], topic: Topic, word: &str) -> Outcome {
    for name in &arguments[1..] {
        context.server.hub.add(context.session.id, topic, name);
        confirm(context, word, topic, Some(name));
    }
    context.session.listens = true;
    Ok(())
}

fn subscribe(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    listen(context, arguments, Topic::Channel, "subscribe")
}

fn psubscribe(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    listen(context, arguments, Topic::Pattern, "psubscribe")
}

fn ssubscribe(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    if context.session.is_in_exec {
        return Err(Failure::fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    listen(context, arguments, Topic::Shard, "ssubscribe")
}

/// Ends subscriptions to the given names; without names, to all.
fn leave(context: &mut Context, arguments: &[&[u8]], topic: Topic, word: &str) -> Outcome {
    let id = context.session.id;
    let names: Vec<Vec<u8>> = match &arguments[1..] {
        [] => context.server.hub.names(id, topic),
        names => names.iter().map(|name| name.to_vec()).collect(),
    };
    for name in &names {
        context.server.hub.remove(id, topic, name);
        confirm(context, word, topic, Some(name));
    }
    if names.is_empty() {
        confirm(context, word, topic, None);
    }
    context.session.listens = context.server.hub.is_listening(id);
    Ok(())
}

fn unsubscribe(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    leave(context, arguments, Topic::Channel, "unsubscribe")
}

fn punsubscribe(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    leave(context, arguments, Topic::Pattern, "punsubscribe")
}

fn sunsubscribe(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    leave(context, arguments, Topic::Shard, "sunsubscribe")
}

fn send(context: &mut Context, arguments: &[&[u8]], topic: Topic) -> Outcome {
    let receivers = context.server.hub.publish(topic, arguments[1], arguments[2]);
    context.server.feed.keep_from(context.session.kept_from);
    let name = if topic == Topic::Shard { "spublish" } else { "publish" };
    context.server.feed.tell_replicas(&effects::by_own_name(name, arguments));
    context.server.feed.keep_from(0);
    context.reply.count(receivers);
    Ok(())
}

fn publish(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    send(context, arguments, Topic::Channel)
}

fn spublish(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    send(context, arguments, Topic::Shard)
}

const HELP: &[&str] = &[
    "CHANNELS [<pattern>]",
    "    The channels that anybody listens to, or those that match.",
    "NUMPAT",
    "    How many patterns anybody listens to.",
    "NUMSUB [<channel> ...]",
    "    How many listen to each channel, without patterns.",
    "SHARDCHANNELS [<pattern>]",
    "    The shard channels that anybody listens to, or those that match.",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    How many listen to each shard channel.",
];

const SUBCOMMANDS: &[Sub] = &[
    Sub("channels", -2, |context, arguments| channels(context, arguments, Topic::Channel)),
    Sub("help", 2, |context, _| help(context, "PUBSUB", HELP)),
    Sub("numpat", 2, |context, _| {
        let patterns = context.server.hub.all(Topic::Pattern).len();
        context.reply.count(patterns);
        Ok(())
    }),
    Sub("numsub", -2, |context, arguments| numbers(context, arguments, Topic::Channel)),
    Sub("shardchannels", -2, |context, arguments| channels(context, arguments, Topic::Shard)),
    Sub("shardnumsub", -2, |context, arguments| numbers(context, arguments, Topic::Shard)),
];

fn pubsub(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    dispatch(context, arguments, SUBCOMMANDS)
}

fn channels(context: &mut Context, arguments: &[&[u8]], topic: Topic) -> Outcome {
    if arguments.len() > 3 {
        return Err(wrong_form(arguments));
    }
    let mut names = context.server.hub.all(topic);
    names.retain(|name| arguments.get(2).is_none_or(|pattern| glob::matches(pattern, name)));
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name));
    Ok(())
}

fn numbers(context: &mut Context, arguments: &[&[u8]], topic: Topic) -> Outcome {
    context.reply.array((arguments.len() - 2) * 2);
    for name in &arguments[2..] {
        context.reply.bulk(name);
        context.reply.count(context.server.hub.listeners(topic, name));
    }
    Ok(())
}
