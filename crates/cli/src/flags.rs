//! Flags as people paste them: db_bench takes `--key_size=16`, `-key_size 16` and `--key-size 16` alike, and so do we. Errors become one
//! line.

use crate::ended::Ended;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;

/// Rewrites long flags to the one spelling that is declared: two dashes, underscores.
pub fn normalise(args: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    args.map(|arg| match arg.to_str().and_then(spelling) {
        Some(flag) => flag.into(),
        None => arg,
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

/// Reads `true`, `false` and their kin, as gflags does.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "t" | "yes" | "y" => Ok(true),
        "0" | "false" | "f" | "no" | "n" => Ok(false),
        _ => Err("expected true or false".into()),
    }
}

/// A flag error as one line; help and version are printed as they are.
pub fn explain(error: &clap::Error) -> Result<ExitCode, Ended> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        error.print()?;
        return Ok(ExitCode::SUCCESS);
    }
    if matches!(error.kind(), ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) {
        return Err(Ended::usage("no command given; there are bench, inspect and check (see sinter --help)"));
    }
    let rendered = error.render().to_string();
    let first = rendered.lines().next().unwrap_or_default();
    let mut line = first.strip_prefix("error: ").unwrap_or(first).replace("unexpected argument", "unknown flag");
    if line.ends_with(':') {
        // What is missing stands on the lines below.
        let below: Vec<&str> = rendered.lines().skip(1).map(str::trim).take_while(|l| !l.is_empty()).collect();
        line = format!("{line} {}", below.join(", "));
    }
    let near = match (error.get(ContextKind::SuggestedArg), error.get(ContextKind::SuggestedSubcommand)) {
        (Some(ContextValue::String(near)), _) => Some(near.clone()),
        (_, Some(ContextValue::Strings(near))) => near.first().cloned(),
        _ => None,
    };
    if let Some(near) = near {
        line = format!("{line}; did you mean {near}?");
    }
    Err(Ended::Usage(line))
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
    }

    #[test]
    fn booleans() {
        assert_eq!(boolean("1"), Ok(true));
        assert_eq!(boolean("False"), Ok(false));
        assert!(boolean("maybe").is_err());
    }
}
