//! Dispatch of commands by their second word.

use super::arguments::is;
use super::spec::{Run, takes};
use super::{Context, Failure, Outcome, unknown_subcommand, wrong_arity};

/// The subcommand in lower case, the number of arguments with both words (negative: at least so many), and its function.
pub(super) struct Sub(pub &'static str, pub i32, pub Run);

/// Runs the subcommand that the second argument names.
pub(super) fn dispatch(context: &mut Context, arguments: &[&[u8]], all: &[Sub]) -> Outcome {
    let Sub(_, arity, run) = all.iter().find(|sub| is(arguments[1], sub.0)).ok_or_else(|| unknown_subcommand(arguments))?;
    if !takes(*arity, arguments.len()) {
        return Err(wrong_arity(&[arguments[0], b"|", arguments[1]].concat()));
    }
    run(context, arguments)
}

/// The error for wrong arguments of a subcommand.
pub(super) fn wrong_form(arguments: &[&[u8]]) -> Failure {
    let name = arguments[0].to_ascii_uppercase();
    let sub = arguments[1].get(..128).unwrap_or(arguments[1]);
    Failure::new([b"ERR unknown subcommand or wrong number of arguments for '", sub, b"'. Try ", &name[..], b" HELP."].concat())
}
