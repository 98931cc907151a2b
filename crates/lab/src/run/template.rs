//! Templates of commands: an operation of a server's mix in Redis's own words, such as `HSET {key} {member of 10} {value}`.

/// Most arguments of a command that Redis accepts.
const MAX_ARGUMENTS: u64 = 1 << 20;
/// Members have twelve digits.
pub const MAX_MEMBERS: u64 = 1_000_000_000_000;

/// Effect of a command, as far as a client has to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Replies with values, or with nothing.
    Read,
    /// Changes data, and replies with a status or a number.
    Write,
    /// Changes data, and replies with the removed values, or with nothing.
    Take,
}

/// A command that a template can have.
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// Name of the command.
    pub name: &'static str,
    /// Whether it reads, writes or takes.
    pub effect: Effect,
}

const fn command(name: &'static str, effect: Effect) -> Command {
    Command { name, effect }
}

/// The commands that templates can have: each has its key as the first argument.
static COMMANDS: [Command; 19] = [
    command("DEL", Effect::Write),
    command("GET", Effect::Read),
    command("HDEL", Effect::Write),
    command("HGET", Effect::Read),
    command("HGETALL", Effect::Read),
    command("HSET", Effect::Write),
    command("LPOP", Effect::Take),
    command("LPUSH", Effect::Write),
    command("LRANGE", Effect::Read),
    command("RPOP", Effect::Take),
    command("RPUSH", Effect::Write),
    command("SADD", Effect::Write),
    command("SET", Effect::Write),
    command("SMEMBERS", Effect::Read),
    command("SPOP", Effect::Take),
    command("SREM", Effect::Write),
    command("ZADD", Effect::Write),
    command("ZRANGE", Effect::Read),
    command("ZREM", Effect::Write),
];

/// An argument of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// Fixed bytes.
    Text(String),
    /// A key of the mix.
    Key,
    /// A value of the workload. All values of a command have one size.
    Value,
    /// A number of six digits.
    Score,
    /// One of this many members, all equally frequent.
    Member(u64),
}

/// A command with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The command.
    pub command: &'static Command,
    /// Arguments of the command.
    pub arguments: Vec<Argument>,
}

impl Template {
    /// Parses a template: a command, and its arguments with blanks between them. `{key}`, `{value}`, `{score}` and `{member of 10}` are the
    /// holes of [`Argument`], and `{10 of member value}` is the members 0 to 9, each followed by a value.
    ///
    /// # Errors
    /// The reason why the text is no template, in a few words.
    pub fn parse(text: &str) -> Result<Template, String> {
        let (name, mut rest) = text.split_once(' ').unwrap_or((text, ""));
        let names = || COMMANDS.iter().map(|command| command.name).collect::<Vec<_>>().join(", ");
        let command = COMMANDS.iter().find(|command| command.name == name);
        let command = command.ok_or_else(|| format!("{name:?} is none of {}", names()))?;
        let mut arguments = Vec::new();
        while !rest.is_empty() {
            let end = if rest.starts_with('{') { rest.find('}').map(|end| end + 1) } else { rest.find(' ') };
            let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
            match word.strip_prefix('{') {
                Some(hole) => fill(hole.strip_suffix('}').ok_or("a hole does not end")?, &mut arguments)?,
                None if word.is_empty() || word.contains(['{', '}']) => return Err(format!("{word:?} is no argument")),
                None => arguments.push(Argument::Text(word.to_string())),
            }
            rest = match behind.strip_prefix(' ') {
                Some(next) if !next.is_empty() => next,
                None if behind.is_empty() => behind,
                _ => return Err("arguments have one blank between them".to_string()),
            };
        }
        if arguments.first() != Some(&Argument::Key) {
            return Err("{key} must be the first argument".to_string());
        }
        match arguments.len() as u64 {
            ..MAX_ARGUMENTS => Ok(Template { command, arguments }),
            count => Err(format!("{count} arguments are too many")),
        }
    }
}

/// The text of a member of a collection, as long as redis-benchmark's.
pub fn member(number: u64) -> String {
    format!("element:{number:012}")
}

/// Adds the arguments of a hole.
fn fill(hole: &str, arguments: &mut Vec<Argument>) -> Result<(), String> {
    let unknown =
        || format!("{{{hole}}} is no hole; there are {{key}}, {{value}}, {{score}}, {{member of 9}} and {{9 of member score value}}");
    let count = |text: &str| text.parse::<u64>().ok().filter(|count| (1..=MAX_MEMBERS).contains(count)).ok_or_else(unknown);
    let words: Vec<&str> = hole.split(' ').collect();
    match words.as_slice() {
        ["key"] => arguments.push(Argument::Key),
        ["value"] => arguments.push(Argument::Value),
        ["score"] => arguments.push(Argument::Score),
        ["member", "of", members] => arguments.push(Argument::Member(count(members)?)),
        [times, "of", parts @ ..] if !parts.is_empty() => {
            let times = count(times)?;
            if times.saturating_mul(parts.len() as u64) >= MAX_ARGUMENTS {
                return Err(format!("{{{hole}}} stands for too many arguments"));
            }
            for number in 0..times {
                for part in parts {
                    arguments.push(match *part {
                        "member" => Argument::Text(member(number)),
                        "value" => Argument::Value,
                        "score" => Argument::Score,
                        _ => return Err(unknown()),
                    });
                }
            }
        }
        _ => return Err(unknown()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_commands_with_holes() {
        let template = Template::parse("ZADD {key} NX {score} {member of 50}").unwrap();
        assert_eq!((template.command.name, template.command.effect), ("ZADD", Effect::Write));
        assert_eq!(template.arguments, [Argument::Key, Argument::Text("NX".into()), Argument::Score, Argument::Member(50)]);
        let all = Template::parse("HSET {key} {2 of member value}").unwrap();
        let [first, second] = [0, 1].map(|number| Argument::Text(member(number)));
        assert_eq!(all.arguments, [Argument::Key, first, Argument::Value, second, Argument::Value]);
        assert_eq!(member(1), "element:000000000001");
        assert_eq!(Template::parse("LRANGE {key} 0 -1").unwrap().arguments.len(), 3);
    }

    #[test]
    fn what_is_no_template_is_said() {
        let said = |text: &str| Template::parse(text).unwrap_err();
        assert!(said("FLUSHALL").starts_with("\"FLUSHALL\" is none of DEL, GET, "));
        assert!(said("").starts_with("\"\" is none of "));
        for text in ["GET", "GET ", "LRANGE 0 {key}"] {
            assert_eq!(said(text), "{key} must be the first argument", "{text:?}");
        }
        assert_eq!(said("GET {key"), "a hole does not end");
        for text in ["GET {key} ", "GET {key}x", "SET {key} {value}{value}"] {
            assert_eq!(said(text), "arguments have one blank between them", "{text:?}");
        }
        assert_eq!(said("SET {key} x{value}"), "\"x{value}\" is no argument");
        assert_eq!(said("SET {key}  x"), "\"\" is no argument");
        for hole in ["{}", "{keys}", "{member of 0}", "{member of 1000000000001}", "{-1 of value}", "{2 of key}", "{2 of }", "{2 of}"] {
            assert!(said(&format!("SADD {{key}} {hole}")).starts_with(&format!("{hole} is no hole; ")), "{hole}");
        }
        assert_eq!(said("SADD {key} {1048576 of member}"), "{1048576 of member} stands for too many arguments");
        assert_eq!(said("SADD {key} {999999 of member} {99999 of member}"), "1099999 arguments are too many");
    }
}
