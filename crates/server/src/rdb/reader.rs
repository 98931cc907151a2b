//! Reader of a whole file, record by record.

use super::input::{Input, Mark};
use super::skip::{module_parts, skip_value};
use super::value::{Element, module_name, read_value};
use super::{Error, NEWEST, Result, VALKEY, opcode, value_kind};
use std::io::{Read, Seek};

/// First byte that is no type of a value: the input behind it cannot be understood. Errors name lower types that are not read.
const FIRST_NO_TYPE: u8 = 27;

/// First version with a checksum at the end.
const CHECKSUM_SINCE: u32 = 5;

/// A key; its value comes next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Key {
    /// Name of the key.
    pub name: Vec<u8>,
    /// Deadline of the key, unix milliseconds.
    pub deadline: Option<u64>,
    /// Seconds since the key was last used.
    pub idle: Option<u64>,
    /// Frequency of use of the key, on a logarithmic scale.
    pub frequency: Option<u8>,
    /// Type of the value: one of [`super::kind`].
    pub kind: u8,
}

/// An element of a file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A property of the writer.
    Aux {
        /// Name of the property.
        name: Vec<u8>,
        /// Value of the property.
        value: Vec<u8>,
    },
    /// The keys that follow belong to this database.
    Database(u64),
    /// Number of keys of the database, and of those with a deadline. A hint, not a fact.
    Sizes(u64, u64),
    /// The code of a library of functions.
    Function(Vec<u8>),
    /// A function of a pre-release of Redis 7.0, which was skipped.
    EarlyFunction,
    /// Data of a module outside of keys, which were skipped.
    Module(String),
    /// A key. [`Reader::value`] reads its value; without that, the value is skipped.
    Key(Key),
    /// The end; the checksum was right.
    End,
}

/// Reads a file.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    version: u32,
    /// Type of a value that was not read yet.
    pending: Option<u8>,
    /// Type of the value of the last key, and its position.
    last: Option<(u8, Mark)>,
}

impl<R: Read> Reader<R> {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// The input is no such file, or of an unknown version.
    pub fn new(from: R) -> Result<Self> {
        let mut input = Input::new(from);
        let head: [u8; 9] = input.array("the head of the file")?;
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
        let of_redis = head.strip_prefix(b"REDIS").and_then(number);
        let of_valkey = head.strip_prefix(b"VALKEY").and_then(number);
        match (of_redis, of_valkey) {
            (None, None) => Err(input.damaged("this is no RDB file")),
            (Some(version @ 1..=NEWEST), _) | (_, Some(version @ VALKEY)) => Ok(Reader { input, version, pending: None, last: None }),
            (Some(version), _) => Err(input.unsupported(format!("RDB version {version} (1 to {NEWEST} are known)"))),
            (None, Some(version)) => Err(input.unsupported(format!("RDB version {version} of Valkey ({VALKEY} is known)"))),
        }
    }

    /// Version of the file.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// The source, behind the bytes read.
    pub fn into_inner(self) -> R {
        self.input.into_inner()
    }

    /// Reads the value of the last key.
    ///
    /// # Errors
    /// Errors of the file, and of `visit`.
    pub fn value<E: From<Error>>(
        &mut self,
        visit: &mut dyn FnMut(Element<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        match self.pending.take() {
            Some(of) => read_value(&mut self.input, of, visit),
            None => Ok(()),
        }
    }

    /// Reads the next record.
    ///
    /// # Errors
    /// Errors of the file. Nothing can be read behind one.
    pub fn record(&mut self) -> Result<Record> {
        self.value::<Error>(&mut |_| Ok(()))?;
        let mut key = Key::default();
        loop {
            let byte = self.input.byte()?;
            match byte {
                opcode::DEADLINE => {
                    let seconds = i32::from_le_bytes(self.input.array("a deadline")?);
                    key.deadline = Some(u64::try_from(i64::from(seconds) * 1000).unwrap_or(0));
                }
                opcode::DEADLINE_MS => key.deadline = deadline(i64::from_le_bytes(self.input.array("a deadline")?)),
                opcode::IDLE => key.idle = Some(self.input.length()?),
                opcode::FREQUENCY => key.frequency = Some(self.input.byte()?),
                opcode::AUX => {
                    let (mut name, mut value) = (Vec::new(), Vec::new());
                    self.input.string(&mut name)?;
                    self.input.string(&mut value)?;
                    return Ok(Record::Aux { name, value });
                }
                opcode::DATABASE => return Ok(Record::Database(self.input.length()?)),
                opcode::SIZES => return Ok(Record::Sizes(self.input.length()?, self.input.length()?)),
                opcode::SLOT => {
                    // Number, keys, deadlines: a hint.
                    for _ in 0..3 {
                        self.input.length()?;
                    }
                }
                opcode::SLOT_IMPORT if self.version == VALKEY => {
                    // Slots of a cluster that were on the way: the name of the job, and ranges.
                    self.input.skip_string()?;
                    for _ in 0..self.input.length()? {
                        self.input.length()?;
                        self.input.length()?;
                    }
                }
                opcode::FUNCTION => {
                    let mut code = Vec::new();
                    self.input.string(&mut code)?;
                    return Ok(Record::Function(code));
                }
                opcode::FUNCTION_EARLY => return self.early_function(),
                opcode::MODULE_AUX => return self.module(),
                opcode::END => return self.end(),
                byte @ FIRST_NO_TYPE..opcode::SLOT => return Err(self.input.unsupported(format!("a record of type {byte}"))),
                byte => {
                    self.input.string(&mut key.name)?;
                    let of = value_kind(byte, self.version);
                    key.kind = of;
                    self.pending = Some(of);
                    self.last = Some((of, self.input.mark()));
                    return Ok(Record::Key(key));
                }
            }
        }
    }

    /// Reads a function as two pre-releases of Redis 7.0 wrote it.
    fn early_function(&mut self) -> Result<Record> {
        self.input.skip_string()?;
        self.input.skip_string()?;
        if self.input.length()? != 0 {
            self.input.skip_string()?;
        }
        self.input.skip_string()?;
        Ok(Record::EarlyFunction)
    }

    /// Reads data of a module: values that say what they are, up to an end mark.
    fn module(&mut self) -> Result<Record> {
        let name = module_name(self.input.length()?);
        // The time of writing, as a number like those that follow.
        for _ in 0..2 {
            self.input.length()?;
        }
        module_parts(&mut self.input)?;
        Ok(Record::Module(name))
    }

    fn end(&mut self) -> Result<Record> {
        if self.version < CHECKSUM_SINCE {
            return Ok(Record::End);
        }
        let (at, computed) = (self.input.position(), self.input.crc());
        let stored = u64::from_le_bytes(self.input.array("the checksum")?);
        // Zero: the writer was configured to compute none.
        if stored != 0 && stored != computed {
            return Err(Error::Checksum { at, stored, computed });
        }
        Ok(Record::End)
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Skips the value of the last key, however much of it was read, by looking for its end alone.
    ///
    /// # Errors
    /// The end is not known; errors of the file.
    pub fn skip_value(&mut self) -> Result<()> {
        self.pending = None;
        let Some((of, mark)) = self.last.take() else { return Ok(()) };
        self.input.return_to(mark)?;
        skip_value(&mut self.input, of)
    }
}

/// Reads the codes of libraries of functions in a value of `FUNCTION DUMP`; `None`: something else is in it.
///
/// # Errors
/// The value is damaged.
pub fn functions(value: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
    let mut input = Input::new(value);
    let mut all = Vec::new();
    while input.position() < value.len() as u64 {
        if input.byte()? != opcode::FUNCTION {
            return Ok(None);
        }
        let mut code = Vec::new();
        input.string(&mut code)?;
        all.push(code);
    }
    Ok(Some(all))
}

/// Reads a deadline in milliseconds; -1 is none, and one before 1970 has passed.
fn deadline(ms: i64) -> Option<u64> {
    if ms == -1 { None } else { Some(u64::try_from(ms).unwrap_or(0)) }
}
