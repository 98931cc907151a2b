//! Settings as TOML. A file that a user writes is read strictly: every unknown key is a complaint that names the nearest known one.
//! The text stored beside the data is read leniently: a newer version may have written keys that this one does not know, and a
//! database must still open; those keys are returned as warnings.

use super::field::{DB, FAMILY, Field, Kind, nearest};
use super::size::{parse_bytes, shorten};
use super::{Budgets, DbSettings, FamilySettings, Settings};
use std::fmt::Write as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A settings file is a page; more than this is something else.
const TEXT_MAX: usize = 1 << 20;
/// Number of complaints after which no more are listed.
const COMPLAINTS_MAX: usize = 100;

impl Settings {
    /// Reads a settings file: `memory`, `space_amplification` and the database's fields at the top, one table `[family.NAME]` per column
    /// family. What is not written follows from the budgets.
    ///
    /// # Errors
    /// Everything that is wrong, one line each, with its line number if it is about something that the file says.
    pub fn from_toml(text: &str) -> Result<Settings, Vec<String>> {
        let mut reader = Reader::new(text, true);
        let settings = match reader.parse() {
            Some(table) => reader.settings(&table),
            None => Settings::default(),
        };
        reader.finish(settings.validate())?;
        Ok(settings)
    }

    /// All effective values; `from_toml` gives back the same settings.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        if let Some(memory) = self.budgets.memory {
            let _ = writeln!(out, "memory = \"{}\"", super::format_bytes(memory));
        }
        if let Some(space) = self.budgets.space_amplification {
            let _ = writeln!(out, "space_amplification = {space:?}");
        }
        out += &self.db.to_toml();
        for (name, family) in &self.families {
            let _ = write!(out, "\n[family.{}]\n{}", quoted(name), family.to_toml());
        }
        out
    }
}

macro_rules! toml_of {
    ($type:ident, $fields:expr, $mend:expr) => {
        impl $type {
            /// All values, one per line; `from_toml` gives back the same settings.
            pub fn to_toml(&self) -> String {
                write_fields(self, $fields)
            }

            /// Reads text that a user wrote. Fields that are missing keep their defaults.
            ///
            /// # Errors
            /// Everything that is wrong, one line each; unknown keys name the nearest known one.
            pub fn from_toml(text: &str) -> Result<Self, Vec<String>> {
                Self::read(text, true).map(|(settings, _)| settings)
            }

            /// Reads text that was stored beside the data, perhaps by a newer version: unknown keys become warnings, returned with
            /// the settings.
            ///
            /// # Errors
            /// Everything that is wrong with the known keys.
            pub fn from_stored(text: &str) -> Result<(Self, Vec<String>), Vec<String>> {
                Self::read(text, false)
            }

            fn read(text: &str, strict: bool) -> Result<(Self, Vec<String>), Vec<String>> {
                let mut reader = Reader::new(text, strict);
                let mut settings = Self::default();
                if let Some(table) = reader.parse() {
                    for (key, value) in &table {
                        reader.field(&mut settings, $fields, "", key, value);
                    }
                }
                if !strict {
                    $mend(&mut settings);
                }
                let warnings = reader.finish(settings.validate())?;
                Ok((settings, warnings))
            }

            /// Sets one field from text, as in a settings file: `set("write_buffer_size", "64MB")`. Bounds are left to `validate`.
            ///
            /// # Errors
            /// An unknown name or a value of the wrong shape.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
                match $fields.iter().find(|field| field.name == name) {
                    Some(field) => field.set_text(self, value).map_err(|what| format!("{name}: {what}")),
                    None => Err(unknown(name, $fields.iter().map(|field| field.name))),
                }
            }
        }
    };
}

toml_of!(DbSettings, DB, |_| {});
toml_of!(FamilySettings, FAMILY, FamilySettings::leave_out_idle_codecs);

fn write_fields<S>(settings: &S, fields: &[Field<S>]) -> String {
    let mut out = String::new();
    for field in fields {
        let text = field.text(settings);
        // Words and values with a unit are strings; bare numbers and flags are TOML's own.
        let bare = match &field.kind {
            Kind::Whole { .. } | Kind::Preclude { .. } => text.bytes().all(|b| b.is_ascii_digit()),
            Kind::Real { .. } | Kind::Flag { .. } => true,
            Kind::Word { .. } | Kind::CompressedCache { .. } | Kind::TierBudget { .. } | Kind::Compression { .. } => false,
            Kind::Temperature { .. } | Kind::List { .. } => false,
        };
        let _ = if bare { writeln!(out, "{} = {text}", field.name) } else { writeln!(out, "{} = {}", field.name, quoted(&text)) };
    }
    out
}

/// A TOML basic string, for family names and paths of any kind.
fn quoted(name: &str) -> String {
    let mut out = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => drop(write!(out, "\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}

fn unknown<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    match nearest(name, names) {
        Some(near) => format!("unknown key `{}`; the nearest known one is `{near}`", shorten(name)),
        None => format!("unknown key `{}`", shorten(name)),
    }
}

/// Collects complaints with the place they belong to.
struct Reader<'a> {
    text: &'a str,
    strict: bool,
    /// Offset and complaint; offsets order them as the file does.
    complaints: Vec<(usize, String)>,
    warnings: Vec<String>,
    /// Names of the settings read so far, as complaints about their values begin, with their offsets.
    read: Vec<(String, usize)>,
}

type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;

impl<'a> Reader<'a> {
    fn new(text: &'a str, strict: bool) -> Self {
        Reader { text, strict, complaints: Vec::new(), warnings: Vec::new(), read: Vec::new() }
    }

    /// The table, as far as it can be read; syntax errors are complaints.
    fn parse(&mut self) -> Option<DeTable<'a>> {
        if self.text.len() > TEXT_MAX {
            self.complaints.push((0, format!("settings of {} bytes: more than {TEXT_MAX} are not read", self.text.len())));
            return None;
        }
        match DeTable::parse(self.text) {
            Ok(table) => Some(table.into_inner()),
            Err(error) => {
                let offset = error.span().map_or(0, |span| span.start);
                self.complain(offset, error.message().trim().replace('\n', ", "));
                None
            }
        }
    }

    fn complain(&mut self, offset: usize, what: String) {
        let line = self.text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1;
        self.complaints.push((offset, format!("line {line}: {what}")));
    }

    /// Warnings, or all complaints: about the text, and those about values, which stand where the values do.
    fn finish(mut self, validated: Result<(), Vec<String>>) -> Result<Vec<String>, Vec<String>> {
        for what in validated.err().into_iter().flatten().take(COMPLAINTS_MAX) {
            let is_about = |name: &str| what.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', ':']));
            match self.read.iter().find(|(name, _)| is_about(name)) {
                Some((_, offset)) => self.complain(*offset, what),
                None => self.complaints.push((usize::MAX, what)),
            }
        }
        if self.complaints.is_empty() {
            return Ok(self.warnings);
        }
        self.complaints.sort();
        self.complaints.truncate(COMPLAINTS_MAX);
        Err(self.complaints.into_iter().map(|(_, what)| what).collect())
    }

    /// A key that has no meaning where it stands.
    fn stray_key(&mut self, key: &Key<'a>, what: String) {
        if self.strict {
            self.complain(key.span().start, what);
        } else {
            self.warnings.push(what);
        }
    }

    fn settings(&mut self, table: &DeTable<'a>) -> Settings {
        let budgets = Budgets {
            memory: self.budget(table, "memory", parse_bytes),
            space_amplification: self
                .budget(table, "space_amplification", |t| t.parse().map_err(|_| format!("`{}` is not a number", shorten(t)))),
        };
        let mut settings = Settings::new(budgets);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "memory" | "space_amplification" => {}
                "family" => self.families(&mut settings, value),
                name if FAMILY.iter().any(|field| field.name == name) => {
                    let what = format!("`{name}` is a setting of a column family: it stands below `[family.default]`, or another name");
                    self.stray_key(key, what);
                }
                _ => self.field(&mut settings.db, DB, "memory space_amplification family", key, value),
            }
        }
        let differs = |db: &DbSettings| budgets.memory.is_some() && ![0, budgets.db().memory_budget].contains(&db.memory_budget);
        let is_whole = DB.iter().all(|field| table.contains_key(field.name));
        match table.get("memory_budget") {
            // All settings as text say both, and all else.
            Some(written) if differs(&settings.db) && !is_whole => {
                let what = "memory_budget: memory says another one; write one of them, or memory_budget = 0: then the parts of memory stay";
                self.complain(written.span().start, what.into());
            }
            None if sizes_are_written(table) => settings.db.memory_budget = 0,
            _ => {}
        }
        settings
    }

    fn budget<T>(&mut self, table: &DeTable<'a>, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let value = table.get(name)?;
        self.read.push((name.to_string(), value.span().start));
        match scalar(value.get_ref()).and_then(|text| parse(&text)) {
            Ok(value) => Some(value),
            Err(what) => {
                self.complain(value.span().start, format!("{name}: {what}"));
                None
            }
        }
    }

    fn families(&mut self, settings: &mut Settings, value: &Spanned<DeValue<'a>>) {
        let Some(families) = value.get_ref().as_table() else {
            return self.complain(value.span().start, "family: must be tables, one [family.NAME] each".into());
        };
        for (name, value) in families {
            let mut family = settings.budgets.family();
            match value.get_ref().as_table() {
                Some(fields) => {
                    let first = self.read.len();
                    for (key, value) in fields {
                        self.field(&mut family, FAMILY, "", key, value);
                    }
                    for (field, _) in &mut self.read[first..] {
                        *field = format!("family.{}: {field}", shorten(name.get_ref()));
                    }
                }
                None => self.complain(value.span().start, format!("family.{}: must be a table", shorten(name.get_ref()))),
            }
            settings.families.insert(name.get_ref().to_string(), family);
        }
    }

    /// Sets the field `key`; `others` are more known keys, separated by blanks.
    fn field<S>(&mut self, settings: &mut S, fields: &'static [Field<S>], others: &str, key: &Key<'a>, value: &Spanned<DeValue<'a>>) {
        let name = key.get_ref().as_ref();
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            return self.stray_key(key, unknown(name, fields.iter().map(|field| field.name).chain(others.split_whitespace())));
        };
        self.read.push((name.to_string(), value.span().start));
        if let Err(what) = scalar(value.get_ref()).and_then(|text| field.set_text(settings, &text)) {
            self.complain(value.span().start, format!("{name}: {what}"));
        }
    }
}

/// A file says how large a part of the memory is: then that part, and with it the others, stays as large.
fn sizes_are_written(table: &DeTable<'_>) -> bool {
    let families = table.get("family").and_then(|families| families.get_ref().as_table());
    let mut families = families.into_iter().flatten().filter_map(|(_, family)| family.get_ref().as_table());
    ["cache_size", "db_write_buffer_size"].iter().any(|name| table.contains_key(*name))
        || families.any(|family| family.contains_key("write_buffer_size"))
}

/// The value as text; a list of words becomes one text with commas, so that lists may be written either way.
fn scalar(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Ok(number.to_string()),
            Err(_) => Err(format!("`{}` is not a whole number", shorten(number.as_str()))),
        },
        DeValue::Float(number) => Ok(number.as_str().to_string()),
        DeValue::Boolean(flag) => Ok(flag.to_string()),
        DeValue::Array(items) => {
            let words: Option<Vec<&str>> = items.iter().map(|item| item.get_ref().as_str()).collect();
            words.map(|words| words.join(", ")).ok_or_else(|| "a list may hold strings only".into())
        }
        DeValue::Datetime(_) | DeValue::Table(_) => Err(format!("must be a plain value, not a {}", value.type_str())),
    }
}
