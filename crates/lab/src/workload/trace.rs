//! Traces as text, one operation per line, read one at a time into the same buffers. docs/lab/traces.md describes both forms: ours, and the
//! one that RocksDB's trace_analyzer writes with `-convert_to_human_readable_trace`.

use std::fmt;
use std::io::{self, BufRead};

/// Operation of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Read the key.
    Get,
    /// Write a value of this size, bytes.
    Put(usize),
    /// Remove the key.
    Delete,
    /// Read this many entries from the key on.
    Scan(usize),
}

/// Error in a line of a trace.
#[derive(Debug)]
pub struct TraceError {
    /// Line, from 1.
    pub line: u64,
    /// Reason why the line cannot be used.
    pub what: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for TraceError {}

/// Longest line, bytes: a file that is no text should not fill the memory.
const MAX_LINE: usize = 4 << 20;
/// Largest value and longest scan.
const MAX_SIZE: usize = 1 << 30;
/// Longest key, bytes: fjall has 16 bits for its length.
const MAX_KEY: usize = 65_535;

/// Reads a trace. After each [`Trace::advance`] the fields describe the line that was read; nothing is allocated once the buffers have
/// grown to the longest line.
#[derive(Debug)]
pub struct Trace<R> {
    input: R,
    /// The line's number, from 1.
    pub line: u64,
    /// Operation of the line.
    pub action: Action,
    /// The key.
    pub key: Vec<u8>,
    /// The family, as an index into the list that the store was opened with.
    pub family: usize,
    /// Time of the operation, microseconds of the trace's clock; `None` if the line has none.
    pub micros: Option<u64>,
    text: String,
}

impl<R: BufRead> Trace<R> {
    /// A trace at its beginning.
    pub fn new(input: R) -> Self {
        Trace { input, line: 0, action: Action::Get, key: Vec::new(), family: 0, micros: None, text: String::new() }
    }

    /// Reads the next operation; false at the end. Empty lines and lines that start with `#` are skipped.
    ///
    /// # Errors
    /// Failures of the input, and invalid lines.
    pub fn advance(&mut self) -> Result<bool, TraceError> {
        loop {
            self.line += 1;
            self.text.clear();
            let read = io::Read::take(&mut self.input, MAX_LINE as u64).read_line(&mut self.text);
            let bytes = read.map_err(|error| TraceError { line: self.line, what: error.to_string() })?;
            if bytes == 0 {
                return Ok(false);
            }
            let text = std::mem::take(&mut self.text);
            let line = text.trim();
            let outcome = if bytes == MAX_LINE && !text.ends_with('\n') {
                Err(format!("longer than {MAX_LINE} bytes"))
            } else if line.is_empty() || line.starts_with('#') {
                Ok(false)
            } else {
                self.read(line).map(|()| true)
            };
            self.text = text;
            match outcome {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(what) => return Err(TraceError { line: self.line, what }),
            }
        }
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let mut words = line.split_ascii_whitespace();
        if line.starts_with("0x") {
            self.rocksdb(&mut words)?
        } else {
            self.plain(&mut words)?
        }
        if self.key.is_empty() {
            return Err("the key is empty, which not all engines take".into());
        }
        if self.key.len() > MAX_KEY {
            return Err(format!("the key is longer than {MAX_KEY} bytes"));
        }
        words.next().map_or(Ok(()), |extra| Err(format!("{extra:?} is too much")))
    }

    /// `[@MICROSECONDS] put KEY SIZE`, `get KEY`, `delete KEY`, `scan KEY COUNT`.
    fn plain<'t>(&mut self, words: &mut impl Iterator<Item = &'t str>) -> Result<(), String> {
        let mut verb = words.next().unwrap_or_default();
        self.micros = None;
        if let Some(time) = verb.strip_prefix('@') {
            self.micros = Some(number(Some(time), "the time in microseconds")?);
            verb = words.next().unwrap_or_default();
        }
        if !["get", "put", "delete", "scan"].contains(&verb) {
            return Err(format!("{verb:?} is none of put, get, delete, scan"));
        }
        self.family = 0;
        self.key.clear();
        let key = words.next().ok_or("the key is missing")?;
        match key.strip_prefix("0x") {
            Some(digits) => unhex(digits, &mut self.key)?,
            None => self.key.extend_from_slice(key.as_bytes()),
        }
        self.action = match verb {
            "get" => Action::Get,
            "delete" => Action::Delete,
            "put" => Action::Put(size(words.next(), "the size")?),
            _ => Action::Scan(size(words.next(), "the count")?),
        };
        Ok(())
    }

    /// `0xKEY TYPE FAMILY SIZE MICROSECONDS` (tools/trace_analyzer_tool.cc, `WriteTraceSequence`; the types are its
    /// `TraceOperationType`).
    fn rocksdb<'t>(&mut self, words: &mut impl Iterator<Item = &'t str>) -> Result<(), String> {
        self.key.clear();
        unhex(words.next().and_then(|key| key.strip_prefix("0x")).unwrap_or_default(), &mut self.key)?;
        let kind = number(words.next(), "the type")?;
        self.family = number(words.next(), "the family")?.try_into().map_err(|_| "the family is too large")?;
        let size = size(words.next(), "the size")?;
        self.micros = Some(number(words.next(), "the time")?);
        self.action = match kind {
            // A multi-get has a line for each of its keys.
            0 | 8 => Action::Get,
            1 => Action::Put(size),
            2 | 3 => Action::Delete,
            6 => Action::Scan(1),
            4 => return Err("range deletions (type 4) cannot be replayed".into()),
            5 => return Err("merges (type 5) cannot be replayed".into()),
            7 => return Err("backward seeks (type 7) cannot be replayed".into()),
            other => return Err(format!("there is no type {other}")),
        };
        Ok(())
    }
}

fn number(word: Option<&str>, what: &str) -> Result<u64, String> {
    let word = word.ok_or_else(|| format!("{what} is missing"))?;
    word.parse().map_err(|_| format!("{what} is not a whole number: {word:?}"))
}

fn size(word: Option<&str>, what: &str) -> Result<usize, String> {
    let size = usize::try_from(number(word, what)?).unwrap_or(usize::MAX);
    if size <= MAX_SIZE { Ok(size) } else { Err(format!("{what} must be at most {MAX_SIZE}, not {size}")) }
}

fn unhex(digits: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let wrong = || format!("the key 0x{} is not hexadecimal", digits.chars().take(40).collect::<String>());
    let nibble = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(wrong());
    }
    for &[high, low] in pairs {
        out.push(nibble(high).ok_or_else(wrong)? << 4 | nibble(low).ok_or_else(wrong)?);
    }
    Ok(())
}

/// Summary of a whole trace, known before it is replayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of operations.
    pub operations: u64,
    /// The largest value.
    pub largest_value: usize,
    /// The largest family.
    pub largest_family: usize,
    /// The first line without a time.
    pub first_without_time: Option<u64>,
}

impl Contents {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// The first line that cannot be read.
    pub fn of(input: impl BufRead) -> Result<Self, TraceError> {
        let (mut trace, mut contents) = (Trace::new(input), Contents::default());
        while trace.advance()? {
            contents.operations += 1;
            contents.largest_family = contents.largest_family.max(trace.family);
            if let Action::Put(size) = trace.action {
                contents.largest_value = contents.largest_value.max(size);
            }
            if trace.micros.is_none() {
                contents.first_without_time = contents.first_without_time.or(Some(trace.line));
            }
        }
        Ok(contents)
    }

    /// Whether the current line fits the summary, as every line of the summarised trace does.
    pub fn covers<R>(&self, trace: &Trace<R>) -> bool {
        let value = if let Action::Put(size) = trace.action { size } else { 0 };
        trace.family <= self.largest_family && value <= self.largest_value
    }
}

#[cfg(test)]
mod tests;
