//! Spelling of flags: `--key_size=16`, `-key_size 16` and `--key-size 16` are equal, as in db_bench. Errors become one line.

use crate::ended::Ended;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;

/// Rewrites long flags to the one spelling that is declared: two dashes, underscores. Words behind `serve` stay: some are values that begin
/// with dashes.
pub fn normalise(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut serves = false;
    args.enumerate().map(move |(at, arg)| {
        serves |= at == 1 && arg == "serve";
        match arg.to_str().filter(|_| !serves).and_then(spelling) {
            Some(flag) => flag.into(),
            None => arg,
        }
    })
}

fn spelling(arg: &str) -> Option<String> {
    let name = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-'))?;
    let (name, value) = name.split_at(name.find('=').unwrap_or(name.len()));
    // `-`, `--`, `-h` and negative numbers are not long flags.
    if name.len() < 2 || !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    Some(format!("--{}{value}", name.replace('-', "_")))
}

/// Parses `true`, `false` and other spellings, as gflags does.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" => Ok(true),
        "0" | "false" | "f" | "no" | "n" => Ok(false),
        _ => Err("expected true or false".into()),
    }
}

/// A flag error as one line; help and version are printed. `program`: the whole command, `words`: what it was called with.
pub fn explain(error: &clap::Error, mut program: clap::Command, words: &[OsString]) -> Result<ExitCode, Ended> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        error.print()?;
        return Ok(ExitCode::SUCCESS);
    }
    program.build();
    let command = called(&program, words);
    if matches!(error.kind(), ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) {
        let name = command.get_bin_name().unwrap_or(command.get_name());
        return Err(Ended::Usage(format!("no command given; there are {} (see {name} --help)", subcommands(command))));
    }
    let rendered = error.render().to_string();
    let first = rendered.lines().next().unwrap_or_default();
    let mut line = first.strip_prefix("error: ").unwrap_or(first).to_string();
    if let (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) = (error.kind(), error.get(ContextKind::InvalidArg)) {
        line = unknown(word, command, &program);
    }
    if line.ends_with(':') {
        // The missing arguments are on the lines below.
        let below: Vec<&str> = rendered.lines().skip(1).map(str::trim).take_while(|l| !l.is_empty()).collect();
        line = format!("{line} {}", below.join(", "));
    }
    if let Some(ContextValue::Strings(near)) = error.get(ContextKind::SuggestedSubcommand) {
        line.extend(near.first().map(|near| format!("; did you mean {near}?")));
    }
    Err(Ended::Usage(line))
}

/// The subcommand that the words call.
fn called<'a>(program: &'a clap::Command, words: &[OsString]) -> &'a clap::Command {
    words.iter().skip(1).fold(program, |command, word| command.find_subcommand(word).unwrap_or(command))
}

/// The names of the subcommands, in order, as words: `check, map and space`.
fn subcommands(command: &clap::Command) -> String {
    let mut names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "help").collect();
    names.sort_unstable();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// The complaint about a word that a command does not take.
fn unknown(word: &str, command: &clap::Command, program: &clap::Command) -> String {
    if !word.starts_with("--") {
        return format!("unexpected argument {word}");
    }
    if all(program).iter().any(|flag| flag == word) {
        return format!("{word} is a flag of other commands, not of this one");
    }
    let flags: Vec<String> = own(command).collect();
    let near = nearest(word, flags.iter().map(String::as_str)).map(|near| format!("; did you mean {near}?"));
    format!("unknown flag {word}{}", near.unwrap_or_default())
}

/// The long flags of a command, without those of its subcommands.
fn own(command: &clap::Command) -> impl Iterator<Item = String> {
    command.get_arguments().filter_map(|arg| arg.get_long()).map(|long| format!("--{long}"))
}

/// The long flags of a command and its subcommands.
fn all(command: &clap::Command) -> Vec<String> {
    own(command).chain(command.get_subcommands().flat_map(all)).collect()
}

/// The name that `wrong` was probably meant to be, if one is close enough.
pub fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, flag) = names.map(|name| (distance(wrong, name), name)).min()?;
    (distance <= 2 || distance * 4 <= wrong.len()).then_some(flag)
}

/// The Levenshtein distance, computed row by row.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_flag_are_one() {
        let spell = |arg: &str| normalise(std::iter::once(arg.into())).next().unwrap().into_string().unwrap();
        for arg in ["--key-size=16", "--key_size=16", "-key_size=16", "-key-size=16"] {
            assert_eq!(spell(arg), "--key_size=16");
        }
        assert_eq!(spell("--db=/a-b/c=d"), "--db=/a-b/c=d");
        for same in ["-", "--", "-1", "-h", "bench", "/a-b", ""] {
            assert_eq!(spell(same), same);
        }
        let serve = ["sinter", "serve", "--requirepass", "--a-b", "-c-d"];
        assert!(normalise(serve.iter().map(Into::into)).eq(serve.iter().map(OsString::from)));
    }

    #[test]
    fn the_nearest_flag_is_named_only_if_it_is_near() {
        let flags = || ["--num", "--reads", "--memory", "--cache_size"].into_iter();
        assert_eq!(nearest("--nmu", flags()), Some("--num"));
        assert_eq!(nearest("--cache_siez", flags()), Some("--cache_size"));
        assert_eq!(nearest("--memtablerep", flags()), None);
        assert_eq!((distance("kitten", "sitting"), distance("", "ab"), distance("ab", "")), (3, 2, 2));
    }

    #[test]
    fn booleans() {
        assert_eq!(boolean("1"), Ok(true));
        assert_eq!(boolean("False"), Ok(false));
        assert!(boolean("maybe").is_err());
    }
}
