//! The grammar of OPTIONS files (RocksDB, options/options_parser.cc): sections `[Kind "name"]`, entries `key=value`, comments from `#`
//! to the end of the line, `\` before a character that is meant literally. Values may be structs, `{key=value;key={...};}`.

use std::borrow::Cow;

/// Real files have tens of kilobytes.
const TEXT_MAX: usize = 1 << 20;
/// Sections in one file: a thousand families with two each.
const SECTIONS_MAX: usize = 2048;
/// Options in one section; RocksDB has about 120. The lists are searched for each new entry, so this bounds the time of a hostile file.
const ENTRIES_MAX: usize = 1024;

/// A part of the file.
pub(super) struct Section<'a> {
    pub kind: &'a str,
    /// The text in quotes, or empty.
    pub name: &'a str,
    pub entries: Vec<Entry<'a>>,
}

/// One option.
pub(super) struct Entry<'a> {
    pub key: Cow<'a, str>,
    pub value: &'a str,
    pub line: usize,
}

/// Structs that are cut into their members, because some members have an equivalent.
const STRUCTS: [&str; 3] = ["compression_opts", "bottommost_compression_opts", "compaction_options_universal"];

/// The sections of a text; errors go to `complaints`.
pub(super) fn sections<'a>(text: &'a str, complaints: &mut Vec<String>) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    if text.len() > TEXT_MAX {
        complaints.push(format!("{} bytes of options: more than {TEXT_MAX} are not read", text.len()));
        return sections;
    }
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let content = uncomment(raw).trim();
        if content.is_empty() {
            continue;
        }
        let outcome = if content.starts_with('[') {
            header(content, &sections).map(|section| sections.push(section))
        } else {
            match sections.last_mut() {
                Some(section) => entry(content, line, section),
                None => Err("an option before the first section".into()),
            }
        };
        if let Err(what) = outcome {
            complaints.push(format!("line {line}: {what}"));
            // One wrong line is a mistake, a hundred are another kind of file.
            if complaints.len() >= super::COMPLAINTS_MAX {
                return Vec::new();
            }
        }
    }
    sections
}

fn uncomment(line: &str) -> &str {
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        if c == '#' && !escaped {
            return &line[..at];
        }
        escaped = c == '\\' && !escaped;
    }
    line
}

fn header<'a>(content: &'a str, before: &[Section<'a>]) -> Result<Section<'a>, String> {
    let inside = content.strip_prefix('[').and_then(|c| c.strip_suffix(']')).ok_or("a section needs a closing bracket")?.trim();
    let (kind, name) = match inside.split_once('"') {
        Some((kind, rest)) => (kind.trim(), rest.strip_suffix('"').ok_or("a section name needs a closing quote")?),
        None => (inside, ""),
    };
    let named = kind == "CFOptions" || kind.starts_with("TableOptions/");
    if named && name.is_empty() {
        return Err(format!("section {} needs a column family in quotes", super::super::size::shorten(kind)));
    }
    if before.iter().any(|s| s.kind == kind && s.name == name) {
        return Err(format!("section {} stands twice", super::super::size::shorten(inside)));
    }
    if before.len() >= SECTIONS_MAX {
        return Err(format!("more than {SECTIONS_MAX} sections"));
    }
    Ok(Section { kind, name, entries: Vec::new() })
}

fn entry<'a>(content: &'a str, line: usize, section: &mut Section<'a>) -> Result<(), String> {
    let (key, value) = content.split_once('=').ok_or("neither a section nor key=value")?;
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() {
        return Err("an option without a name".into());
    }
    if !STRUCTS.contains(&key) {
        return push(section, Entry { key: key.into(), value, line });
    }
    for (member, value) in members(value)? {
        push(section, Entry { key: format!("{key}.{member}").into(), value, line })?;
    }
    Ok(())
}

fn push<'a>(section: &mut Section<'a>, entry: Entry<'a>) -> Result<(), String> {
    if section.entries.iter().any(|e| e.key == entry.key) {
        return Err(format!("{} stands twice in its section", super::super::size::shorten(&entry.key)));
    }
    if section.entries.len() >= ENTRIES_MAX {
        return Err(format!("more than {ENTRIES_MAX} options in a section"));
    }
    section.entries.push(entry);
    Ok(())
}

/// The members of a struct, nested ones whole. Old files write compression options as a list, `-14:32767:0:0`.
fn members(value: &str) -> Result<Vec<(&str, &str)>, String> {
    let Some(inside) = value.strip_prefix('{') else {
        return listed(value);
    };
    let inside = inside.strip_suffix('}').ok_or("a struct needs a closing brace")?;
    let mut list = Vec::new();
    let (mut depth, mut start) = (0usize, 0);
    for (at, c) in inside.char_indices().chain([(inside.len(), ';')]) {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1).ok_or("a closing brace without an opening one")?,
            ';' if depth == 0 => {
                let member = inside[start..at].trim();
                start = at + 1;
                if !member.is_empty() {
                    let (key, value) = member.split_once('=').ok_or("a member of a struct is not key=value")?;
                    list.push((key.trim(), value.trim()));
                }
            }
            _ => {}
        }
    }
    if depth == 0 { Ok(list) } else { Err("braces do not match".into()) }
}

/// The list form. Its sixth place is `enabled` where it is the last, and `parallel_threads` before it otherwise.
fn listed(value: &str) -> Result<Vec<(&str, &str)>, String> {
    const SHORT: [&str; 6] = ["window_bits", "level", "strategy", "max_dict_bytes", "zstd_max_train_bytes", "enabled"];
    const LONG: [&str; 4] = ["parallel_threads", "enabled", "max_dict_buffer_bytes", "use_zstd_dict_trainer"];
    let values: Vec<&str> = value.split(':').map(str::trim).take(10).collect();
    match values.len() {
        0..=6 => Ok(SHORT.into_iter().zip(values).collect()),
        7..=9 => Ok(SHORT.into_iter().take(5).chain(LONG).zip(values).collect()),
        _ => Err("a list of more than nine compression options".into()),
    }
}
