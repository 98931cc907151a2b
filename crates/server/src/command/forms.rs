//! Forms in which commands are logged, for the AOF and for replicas (`effects`).

use std::collections::HashMap;
use std::sync::LazyLock;

/// Form in which a command is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoggedForm {
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
    /// A command of this name with the changed key alone, and the arguments behind the keys of a request that begins with a timeout and a
    /// number of keys. A request that waited took from the key that woke it, although keys before it may have elements by now.
    PopSome(&'static str),
    /// A command of this name with the same arguments, less the last one.
    As(&'static str),
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
const FORMS: &[(&str, LoggedForm)] = &[
    ("flushall flushdb swapdb", LoggedForm::Always),
    ("set setex psetex incrbyfloat", LoggedForm::String),
    ("msetex", LoggedForm::Strings),
    ("expire expireat pexpire pexpireat getex", LoggedForm::Deadline),
    ("hincrbyfloat", LoggedForm::Field),
    ("hexpire hexpireat hpexpire hpexpireat hgetex hgetdel", LoggedForm::Fields(1)),
    ("hsetex", LoggedForm::Fields(2)),
    ("delex delifeq georadius georadiusbymember geosearchstore migrate pfdebug restore sort", LoggedForm::Values),
    ("restore-asking", LoggedForm::Values),
    ("blpop", LoggedForm::Pop("LPOP")),
    ("brpop", LoggedForm::Pop("RPOP")),
    ("bzpopmax", LoggedForm::Pop("ZPOPMAX")),
    ("bzpopmin", LoggedForm::Pop("ZPOPMIN")),
    ("blmove", LoggedForm::As("LMOVE")),
    ("brpoplpush", LoggedForm::As("RPOPLPUSH")),
    ("blmpop", LoggedForm::PopSome("LMPOP")),
    ("bzmpop", LoggedForm::PopSome("ZMPOP")),
    ("pfcount", LoggedForm::Same),
    ("spop", LoggedForm::ByItself),
    ("xadd", LoggedForm::Entry),
    ("xtrim", LoggedForm::Trim),
    // Both commands log the removed entries themselves.
    ("xackdel xdelex", LoggedForm::Pending),
    ("xautoclaim xclaim xreadgroup", LoggedForm::Pending),
];

static BY_NAME: LazyLock<HashMap<&'static str, LoggedForm>> =
    LazyLock::new(|| FORMS.iter().flat_map(|(names, form)| names.split(' ').map(|name| (name, *form))).collect());

/// Form in which a command is logged; `None`: as received, if it is a write.
pub(super) fn form_of(name: &str) -> Option<LoggedForm> {
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
