//! Commands about the connection: greeting, authentication, names.

use super::acl::authenticate;
use super::arguments::{Rest, integer_or, is};
use super::keys::database;
use super::spec::{ALLOW_BUSY, FAST, IMMEDIATE, LOADING, NO_AUTH, NOSCRIPT, Run, STALE};
use super::{Command, Context, Failure, Group, Outcome, SYNTAX, wrong_arity};
use crate::resp::Protocol;

const NAME: Failure = Failure::fixed("ERR Client names cannot contain spaces, newlines or special characters.");

const fn connection(name: &'static str, arity: i32, run: Run) -> Command {
    Command::new(Group::Connection, name, arity, run).flags(FAST | LOADING | STALE | NOSCRIPT)
}

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    connection("auth", -2, auth).flags(FAST | LOADING | STALE | NO_AUTH | NOSCRIPT | ALLOW_BUSY).says("Authenticate", "O(1)"),
    connection("echo", 2, echo).flags(FAST | LOADING | STALE).says("The argument", "O(1)"),
    connection("hello", -1, hello)
        .flags(FAST | LOADING | STALE | NO_AUTH | NOSCRIPT | ALLOW_BUSY)
        .since("6.0.0")
        .says("Choose the protocol", "O(1)"),
    connection("ping", -1, ping).flags(FAST).says("PONG", "O(1)"),
    connection("quit", -1, quit)
        .flags(FAST | LOADING | STALE | NO_AUTH | NOSCRIPT | IMMEDIATE | ALLOW_BUSY)
        .says("Close the connection", "O(1)"),
    connection("reset", 1, reset)
        .flags(FAST | LOADING | STALE | NO_AUTH | NOSCRIPT | IMMEDIATE | ALLOW_BUSY)
        .since("6.2.0")
        .says("Make the connection as new", "O(1)"),
    connection("select", 2, select).flags(FAST | LOADING | STALE).says("Choose the database", "O(1)"),
];

fn ping(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    match arguments {
        [_] | [_, _] if context.session.gets_only_messages() => {
            context.reply.array(2);
            context.reply.bulk(b"pong");
            context.reply.bulk(arguments.get(1).copied().unwrap_or_default());
        }
        [_] => context.reply.simple("PONG"),
        [_, text] => context.reply.bulk(text),
        _ => return Err(wrong_arity(b"ping")),
    }
    Ok(())
}

fn echo(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    context.reply.bulk(arguments[1]);
    Ok(())
}

fn select(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    context.session.db = database(arguments[1])?;
    context.reply.ok();
    Ok(())
}

fn quit(context: &mut Context, _: &[&[u8]]) -> Outcome {
    context.session.closes = true;
    context.reply.ok();
    Ok(())
}

fn reset(context: &mut Context, _: &[&[u8]]) -> Outcome {
    if context.session.is_replica || context.session.is_primary {
        return Err(Failure::fixed("ERR can only reset normal client connections"));
    }
    context.keyspace.unwatch(context.session.id);
    context.server.hub.leave(context.session.id);
    context.server.tracking.leave(context.session.id);
    context.session.reset(context.server);
    context.server.update(context.session, context.keyspace.now());
    context.reply.set_protocol(context.session.protocol);
    context.reply.simple("RESET");
    Ok(())
}

fn auth(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    match arguments {
        [word, password] => {
            if context.server.users.needs_no_password() {
                return Err(Failure::fixed(
                    "ERR AUTH <password> called without any password configured for the default user. \
                     Are you sure your configuration is correct?",
                ));
            }
            authenticate(context, word, b"default", password)?;
        }
        [word, user, password] => authenticate(context, word, user, password)?,
        _ => return Err(SYNTAX),
    }
    context.reply.ok();
    Ok(())
}

pub(super) fn check_name(name: &[u8]) -> Outcome {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) { Ok(()) } else { Err(NAME) }
}

fn hello(context: &mut Context, arguments: &[&[u8]]) -> Outcome {
    const VERSION: Failure = Failure::fixed("ERR Protocol version is not an integer or out of range");
    let mut protocol = context.session.protocol;
    let mut rest = Rest::new(&arguments[1..]);
    if let Some(version) = rest.next() {
        protocol = match integer_or(version, VERSION)? {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(Failure::fixed("NOPROTO unsupported protocol version")),
        };
    }
    let (mut credentials, mut name) = (None, None);
    while let Some(word) = rest.next() {
        match () {
            () if is(word, "auth") && rest.len() >= 2 => credentials = Some((rest.value()?, rest.value()?)),
            () if is(word, "setname") && rest.len() >= 1 => {
                let given = rest.value()?;
                check_name(given)?;
                name = Some(given);
            }
            () => {
                return Err(Failure::new([b"ERR Syntax error in HELLO option '", word, b"'"].concat()));
            }
        }
    }
    if let Some((user, password)) = credentials {
        authenticate(context, arguments[0], user, password)?;
    }
    if !context.session.is_authenticated && !context.server.users.is_open() {
        return Err(Failure::fixed(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> \
             option can be used to authenticate the client and select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        context.session.name = name.to_vec();
    }
    context.session.protocol = protocol;
    context.reply.set_protocol(protocol);
    greet(context);
    Ok(())
}

/// Writes the reply of `HELLO`.
fn greet(context: &mut Context) {
    let reply = &mut context.reply;
    reply.map(7);
    for (key, value) in [("server", "redis"), ("version", context.server.configuration.compatible.version())] {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if context.session.protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(i64::try_from(context.session.id).unwrap_or(i64::MAX));
    let role = if context.server.is_replica() { "replica" } else { "master" };
    for (key, value) in [("mode", "standalone"), ("role", role)] {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
}
