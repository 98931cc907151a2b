//! RocksDB's OPTIONS files, so that people can bring what they have. Nothing is ignored in silence: each option ends up applied, known
//! to be without effect here (with the reason), or unknown.
//!
//! 1. `ini` cuts the text into sections and entries and remembers lines.
//! 2. `draft` takes the options one by one, in any order (RocksDB writes them in that of a hash table).
//! 3. Options that only mean something together (compression and its levels, background threads) are joined at the end.
//! 4. The result is validated like any other settings.

mod draft;
mod ini;
mod known;

#[cfg(test)]
#[cfg(feature = "default")]
mod tests;

use super::field::{DB, FAMILY, Field};
use super::{DbSettings, FamilySettings};
use draft::{DbDraft, FamilyDraft, TABLE, Verdict};
use ini::{Entry, Section};

/// One option of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionEntry {
    /// Section, such as `CFOptions "default"`.
    pub section: String,
    /// Name; members of structs as `compression_opts.level`.
    pub key: String,
    /// Value as written.
    pub value: String,
    /// Line, from 1.
    pub line: usize,
}

/// An option that RocksDB knows and that changes nothing here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WithoutEffect {
    /// The option.
    pub entry: OptionEntry,
    /// Why there is nothing to change.
    pub why: &'static str,
    /// The option has RocksDB's default value, so that nobody asked for anything.
    pub at_default: bool,
}

/// Content of an OPTIONS file. Every option of the file is in exactly one of `used`, `without_effect` and `unknown`.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct OptionsFile {
    /// The database. Options that the file leaves out have SinterDB's defaults.
    pub db: DbSettings,
    /// The column families, in the file's order.
    pub families: Vec<(String, FamilySettings)>,
    /// Options that were applied.
    pub used: Vec<OptionEntry>,
    /// Used options that were applied differently from what is written, with what was done.
    pub otherwise: Vec<(OptionEntry, &'static str)>,
    /// Options that have no equivalent.
    pub without_effect: Vec<WithoutEffect>,
    /// Options that are not known at all.
    pub unknown: Vec<OptionEntry>,
}

/// Number of complaints after which no more are listed.
const COMPLAINTS_MAX: usize = 100;

impl OptionsFile {
    /// Reads the text of an OPTIONS file (RocksDB 5 to 11).
    ///
    /// # Errors
    /// Everything that is wrong, with lines: syntax, values that cannot be read, values out of range, and options that would change what
    /// the data mean (a comparator other than bytewise, FIFO compaction).
    pub fn parse(text: &str) -> Result<OptionsFile, Vec<String>> {
        let mut complaints = Vec::new();
        let sections = ini::sections(text, &mut complaints);
        let mut reading = Reading { file: OptionsFile::default(), db: DbDraft::default(), families: Vec::new(), complaints };
        for section in &sections {
            reading.section(section);
        }
        reading.finish()
    }

    /// Report for the user, one line per option: options that were applied differently from what is written, options that somebody set and
    /// that change nothing, then the unknown ones.
    pub fn report(&self) -> Vec<String> {
        let entry = |e: &OptionEntry| format!("line {}: [{}] {} = {}", e.line, e.section, e.key, super::size::shorten(&e.value));
        let quiet = self.without_effect.iter().filter(|w| !w.at_default).map(|w| format!("{}: no effect: {}", entry(&w.entry), w.why));
        let otherwise = self.otherwise.iter().map(|(option, what)| format!("{}: {what}", entry(option)));
        otherwise.chain(quiet).chain(self.unknown.iter().map(|e| format!("{}: unknown option", entry(e)))).collect()
    }

    /// An option of a family was applied in part only.
    fn remark(&mut self, family: &str, key: &str, what: &'static str) {
        let section = title("CFOptions", family);
        let options = self.used.iter().filter(|option| option.section == section && option.key == key);
        self.otherwise.extend(options.map(|option| (option.clone(), what)));
    }

    /// An option of a family was taken, but what else the file says leaves nothing for it to do.
    fn take_back(&mut self, family: &str, key: &str, why: &'static str) {
        let section = title("CFOptions", family);
        if let Some(at) = self.used.iter().position(|option| option.section == section && option.key == key) {
            let entry = self.used.remove(at);
            let at_default = known::is_default(key, &entry.value);
            self.without_effect.push(WithoutEffect { entry, why, at_default });
        }
    }
}

/// The name of a section in what is told.
fn title(kind: &str, name: &str) -> String {
    if name.is_empty() { kind.to_string() } else { format!("{kind} \"{name}\"") }
}

/// `line 3, 7: `, where options stand whose settings a complaint names.
fn place_of<'a, S>(options: impl Iterator<Item = &'a OptionEntry>, fields: &[Field<S>], complaint: &str) -> String {
    let names: Vec<&str> = complaint.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).collect();
    let is_about = |key: &str| match key {
        "block_cache" => names.contains(&"cache_size"),
        "filter_policy" => names.iter().any(|name| name.starts_with("bloom_bits_")),
        _ if key.contains("compression") => names.contains(&"compression"),
        _ if key.starts_with("max_background_") => names.contains(&"max_background_jobs"),
        _ => {
            let is_it = |field: &&Field<S>| field.name == key || field.rocksdb.strip_prefix(TABLE).unwrap_or(field.rocksdb) == key;
            fields.iter().find(is_it).is_some_and(|field| names.contains(&field.name))
        }
    };
    let lines: Vec<String> = options.filter(|option| is_about(&option.key)).map(|option| option.line.to_string()).collect();
    if lines.is_empty() { String::new() } else { format!("line {}: ", lines.join(", ")) }
}

struct Reading {
    file: OptionsFile,
    db: DbDraft,
    families: Vec<(String, FamilyDraft)>,
    complaints: Vec<String>,
}

impl Reading {
    fn section(&mut self, section: &Section<'_>) {
        match section.kind {
            "Version" => self.each(section, |_, entry| match entry.key.as_ref() {
                "rocksdb_version" | "options_file_version" => Ok(Verdict::NoEffect("it says who wrote the file")),
                _ => Ok(Verdict::Unknown),
            }),
            "DBOptions" => self.each(section, |reading, entry| reading.db.take(&entry.key, entry.value)),
            "CFOptions" => {
                let index = self.family(section.name);
                self.each(section, |reading, entry| reading.families[index].1.take(&entry.key, entry.value));
            }
            "TableOptions/BlockBasedTable" => {
                let index = self.family(section.name);
                self.each(section, |reading, entry| {
                    let Reading { db, families, .. } = reading;
                    families[index].1.take_table(db, &entry.key, entry.value)
                });
            }
            kind if kind.starts_with("TableOptions/") => {
                self.each(section, |_, _| Ok(Verdict::NoEffect("there is one kind of table, and its options come from BlockBasedTable")));
            }
            _ => self.each(section, |_, _| Ok(Verdict::Unknown)),
        }
    }

    /// The draft of a family, made at its first section.
    fn family(&mut self, name: &str) -> usize {
        self.families.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
            self.families.push((name.to_string(), FamilyDraft::default()));
            self.families.len() - 1
        })
    }

    fn each(&mut self, section: &Section<'_>, take: impl Fn(&mut Self, &Entry<'_>) -> Result<Verdict, String>) {
        for entry in &section.entries {
            let verdict = take(self, entry);
            let (key, value) = (entry.key.to_string(), entry.value.to_string());
            let option = OptionEntry { section: title(section.kind, section.name), key, value, line: entry.line };
            match verdict {
                Ok(Verdict::Used) => self.file.used.push(option),
                Ok(Verdict::Otherwise(what)) => {
                    self.file.otherwise.push((option.clone(), what));
                    self.file.used.push(option);
                }
                Ok(Verdict::NoEffect(why)) => {
                    let at_default = section.kind == "Version" || known::is_default(&entry.key, entry.value);
                    self.file.without_effect.push(WithoutEffect { entry: option, why, at_default });
                }
                Ok(Verdict::Unknown) => self.file.unknown.push(option),
                Err(what) => self.complaints.push(format!("line {}: {}: {what}", entry.line, super::size::shorten(&entry.key))),
            }
        }
    }

    fn finish(mut self) -> Result<OptionsFile, Vec<String>> {
        if self.complaints.is_empty() && !self.families.iter().any(|(name, _)| name == "default") {
            self.complaints.push("not an OPTIONS file: it has no section [CFOptions \"default\"]".into());
        }
        let used = self.file.used.clone();
        for (name, draft) in self.families {
            let sections = [title("CFOptions", &name), title("TableOptions/BlockBasedTable", &name)];
            draft.without_effect().into_iter().for_each(|(key, why)| self.file.take_back(&name, key, why));
            draft.in_part().into_iter().for_each(|(key, what)| self.file.remark(&name, key, what));
            let conflict = draft.conflict();
            let family = draft.finish();
            let list = conflict.into_iter().chain(family.validate().err().into_iter().flatten());
            let place = |what: &str| place_of(used.iter().filter(|option| sections.contains(&option.section)), FAMILY, what);
            self.complaints.extend(list.map(|what| format!("{}CFOptions \"{}\": {what}", place(&what), super::size::shorten(&name))));
            self.file.families.push((name, family));
        }
        self.file.db = self.db.finish(&self.file.families);
        // There is one cache, and tables say how large.
        let options = used.iter().filter(|option| option.section == "DBOptions" || option.key == "block_cache");
        let of_database = self.file.db.validate().err().into_iter().flatten();
        self.complaints.extend(of_database.map(|what| place_of(options.clone(), DB, &what) + &what));
        if self.complaints.is_empty() {
            return Ok(self.file);
        }
        self.complaints.truncate(COMPLAINTS_MAX);
        Err(self.complaints)
    }
}
