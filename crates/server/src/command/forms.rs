//! Forms in which commands are logged, for the AOF and for replicas (`effects`).

use std::collections::HashMap;
use std::sync::LazyLock;

/// Form in which a command is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The request as received.
    Same,
    /// The request as received, even if it changed nothing.
    Always,
    /// The string that the key holds now.
    String,
    /// The present strings of all changed keys.
    Strings,
    /// The deadline that the key has now.
    Deadline,
    /// The present value and deadline of the field.
    Field,
    /// The present deadlines of the fields; with 2 arguments for each field in the request, also their values.
    Fields(usize),
    /// The values that all changed keys hold now.
    Values,
    /// A command of this name that removes one element from the changed key.
    Pop(&'static str),
    /// Another command, with the arguments from the first number on, less the second number at the end.
    As(&'static str, usize, usize),
    /// The entry with its id.
    Entry,
    /// A trim to the current length.
    Trim,
    /// The current state of the group and of its changed pending entries.
    Pending,
    /// Nothing: the handler logs its effect itself.
    ByItself,
}

/// Commands that are not logged as received.
const FORMS: &[(&str, Form)] = &[
    ("flushall flushdb swapdb", Form::Always),
    ("set setex psetex incrbyfloat", Form::String),
    ("msetex", Form::Strings),
    ("expire expireat pexpire pexpireat getex", Form::Deadline),
    ("hincrbyfloat", Form::Field),
    ("hexpire hexpireat hpexpire hpexpireat hgetex hgetdel", Form::Fields(1)),
    ("hsetex", Form::Fields(2)),
    ("delex delifeq georadius georadiusbymember geosearchstore migrate pfdebug restore sort", Form::Values),
    ("restore-asking", Form::Values),
    ("blpop", Form::Pop("LPOP")),
    ("brpop", Form::Pop("RPOP")),
    ("bzpopmax", Form::Pop("ZPOPMAX")),
    ("bzpopmin", Form::Pop("ZPOPMIN")),
    ("blmove", Form::As("LMOVE", 1, 1)),
    ("brpoplpush", Form::As("RPOPLPUSH", 1, 1)),
    ("blmpop", Form::As("LMPOP", 2, 0)),
    ("bzmpop", Form::As("ZMPOP", 2, 0)),
    ("pfcount", Form::Same),
    ("spop", Form::ByItself),
    ("xadd", Form::Entry),
    ("xtrim", Form::Trim),
    // Both commands log the removed entries themselves.
    ("xackdel xdelex", Form::Pending),
    ("xautoclaim xclaim xreadgroup", Form::Pending),
];

static BY_NAME: LazyLock<HashMap<&'static str, Form>> =
    LazyLock::new(|| FORMS.iter().flat_map(|(names, form)| names.split(' ').map(|name| (name, *form))).collect());

/// Form in which a command is logged; `None`: as received, if it is a write.
pub(super) fn form_of(name: &str) -> Option<Form> {
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::super::table::find;
    use super::*;

    #[test]
    fn all_names_are_commands() {
        let names: Vec<&str> = FORMS.iter().flat_map(|(names, _)| names.split(' ')).collect();
        assert_eq!(names.len(), BY_NAME.len(), "one of them is named twice");
        let unknown: Vec<&&str> = names.iter().filter(|name| find(name.as_bytes()).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
