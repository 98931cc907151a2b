//! Loading of all data that a primary sends into an empty keyspace.

use crate::keyspace::{DATABASES, Keyspace, Passed, check_key};
use crate::persist::{Pieces, load as load_value};
use crate::rdb::{Key, Reader, Record};
use crate::system;
use sinter_script::{Host, Machine, Protocol, Settings, Verdict};
use sinterdb::{Durability, WriteOptions};
use std::fmt::Display;
use std::io::Read;

/// Bytes of writes at which a part is committed.
const COMMIT: usize = if cfg!(test) { 4 << 10 } else { 8 << 20 };
/// Memory of the functions, bytes.
const FUNCTIONS_MAX: usize = 512 << 20;
/// Bytes of a key in an error, at most.
const REPEATED: usize = 200;

/// Loads an RDB file into an empty keyspace, durably. Keys whose deadline has passed are loaded, too: the primary removes them by name.
/// `version`: the version of Redis that functions see. Returns the database that is selected at the beginning of the stream, and the
/// number of bytes of the file. `each` is called for each key, and regularly while a library of functions loads.
///
/// # Errors
/// Damage of the file, and where it is; errors of the engine, and of `each`. The keyspace holds a part of the keys then.
pub fn load(from: impl Read, into: &mut Keyspace, version: &str, each: &dyn Fn() -> Result<(), String>) -> Result<(usize, u64), String> {
    into.treat_passed(Passed::Kept);
    let loaded = Loader { into, version, each, machine: None, db: 0, selected: 0 }.load(from);
    into.treat_passed(Passed::Removed);
    let loaded = loaded?;
    // The families of stored bytes are made here, so that the event loop need not wait for the medium when it takes the data over.
    into.stream_families_maker()().map_err(|error| error.to_string())?;
    into.commit(&WriteOptions::new(Durability::Sync)).map_err(|error| error.to_string())?;
    Ok(loaded)
}

struct Loader<'k> {
    into: &'k mut Keyspace,
    version: &'k str,
    each: &'k dyn Fn() -> Result<(), String>,
    /// Machine that checks functions.
    machine: Option<Machine>,
    /// Database of the keys that follow.
    db: usize,
    selected: usize,
}

fn database(number: u64) -> Result<usize, String> {
    let db = usize::try_from(number).ok().filter(|db| *db < DATABASES);
    db.ok_or_else(|| format!("database {number}, and there are {DATABASES}"))
}

impl Loader<'_> {
    fn load(mut self, from: impl Read) -> Result<(usize, u64), String> {
        let of_file = |error: &dyn Display| format!("the data are damaged: {error}");
        let mut reader = Reader::new(from).map_err(|error| of_file(&error))?;
        loop {
            match reader.record().map_err(|error| of_file(&error))? {
                Record::Key(key) => {
                    self.load_key(&mut reader, &key)?;
                    (self.each)()?;
                }
                Record::Database(number) => self.db = database(number)?,
                Record::Function(code) => self.load_functions(&code)?,
                Record::Aux { name, value } if name == b"repl-stream-db" => {
                    let number = std::str::from_utf8(&value).ok().and_then(|number| number.parse::<u64>().ok());
                    self.selected = number.map_or(Ok(0), database)?;
                }
                // Data of modules outside of keys mean nothing without the modules, and nobody used early functions.
                Record::Aux { .. } | Record::Sizes(..) | Record::Module(_) | Record::EarlyFunction => {}
                Record::End => return Ok((self.selected, reader.position())),
            }
        }
    }

    fn load_key(&mut self, reader: &mut Reader<impl Read>, key: &Key) -> Result<(), String> {
        let failed = |error: &dyn Display| {
            let name = key.name.get(..key.name.len().min(REPEATED)).unwrap_or_default().escape_ascii();
            format!("key {name} of database {} cannot be loaded: {error}", self.db)
        };
        check_key(&key.name).map_err(|error| failed(&error))?;
        let place = (self.db, &key.name[..]);
        load_value(self.into, place, key.deadline, Pieces::Many, |visit| reader.value(visit)).map_err(|error| failed(&error))?;
        if self.into.uncommitted() > COMMIT {
            self.into.commit(&WriteOptions::default()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn load_functions(&mut self, code: &[u8]) -> Result<(), String> {
        let new = || Machine::new(Settings { memory_max: FUNCTIONS_MAX, version: self.version.to_owned() });
        let loaded = self.machine.get_or_insert_with(new).load_library(code, false, &mut Silent(self.each));
        let name = loaded.map_err(|failure| {
            let why = String::from_utf8_lossy(&failure.message).into_owned();
            format!("a library of functions does not load: {why}")
        })?;
        self.into.put_library(&name, code);
        Ok(())
    }
}

/// Host of a library of functions that is loaded from stored code: no commands, no log, and time until its function fails.
pub struct Silent<'a>(pub &'a dyn Fn() -> Result<(), String>);

impl Host for Silent<'_> {
    fn call(&mut self, _: &[&[u8]], _: Protocol, _: &mut Vec<u8>) {}

    fn may_call(&mut self, _: &[&[u8]]) -> Option<bool> {
        None
    }

    fn log(&mut self, _: u8, _: &[u8]) {}

    fn set_replication(&mut self, _: u8) {}

    fn interrupt(&mut self) -> Verdict {
        if (self.0)().is_ok() { Verdict::Continue } else { Verdict::Kill }
    }

    fn clock(&mut self) -> f64 {
        system::processor_seconds()
    }

    fn count_error(&mut self, _: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::{Output, Version, kind};
    use crate::testing::fresh;

    const LIBRARY: &[u8] = b"#!lua name=l\nredis.register_function('f', function() return 1 end)";

    /// A file with a string in database 3, and whatever `more` adds.
    fn file(more: impl FnOnce(&mut Output<Vec<u8>>)) -> Vec<u8> {
        let mut out = Output::new(Vec::new());
        out.head(Version::Eleven).unwrap();
        out.aux("repl-stream-db", "3").unwrap();
        out.database(3, 1, 1).unwrap();
        out.key(kind::STRING, b"ended", Some(5)).unwrap();
        out.string(b"value").unwrap();
        more(&mut out);
        out.end().unwrap()
    }

    #[test]
    fn all_data_are_loaded_whatever_their_deadline() {
        let mut keyspace = fresh();
        let mut next = keyspace.begin_successor().unwrap();
        let bytes = file(|out| {
            for number in 0..2000 {
                out.key(kind::STRING, format!("key:{number}").as_bytes(), None).unwrap();
                out.string(b"some value").unwrap();
            }
        });
        // More follows behind the file.
        let stream = [&bytes[..], b"*1\r\n$4\r\nPING\r\n"].concat();
        assert_eq!(load(&stream[..], &mut next, "7.0.15", &|| Ok(())).unwrap(), (3, bytes.len() as u64));
        assert!(next.size(3) == 2001 && next.has_stream_families());
        keyspace.adopt(next, None).unwrap();
        keyspace.treat_passed(Passed::Hidden);
        assert_eq!((keyspace.size(3), keyspace.string(3, b"ended").unwrap()), (2001, None));
        keyspace.treat_passed(Passed::Kept);
        assert_eq!(keyspace.string(3, b"ended").unwrap(), Some(&b"value"[..]));
    }

    #[test]
    fn damage_and_what_is_not_known_are_named() {
        let good = file(|_| {});
        let complaint = |bytes: &[u8]| {
            let mut keyspace = fresh();
            let mut next = keyspace.begin_successor().unwrap();
            let why = load(bytes, &mut next, "7.0.15", &|| Ok(())).unwrap_err();
            next.discard();
            keyspace.abandon_successor(next).unwrap();
            why
        };
        for cut in 0..good.len() {
            let why = complaint(&good[..cut]);
            assert!(why.contains("ends in the middle") || why.contains("at byte"), "{cut}: {why}");
        }
        let mut flipped = good.clone();
        let at = good.len() - 12;
        flipped[at] ^= 1;
        assert!(complaint(&flipped).contains("checksum"), "{}", complaint(&flipped));
        let far = file(|out| out.database(99, 0, 0).unwrap());
        assert_eq!(complaint(&far), "database 99, and there are 16");
        // A value of a module: its type, and the name of the module.
        let head = file(|_| {});
        let of_module = [&head[..head.len() - 9], b"\x07\x01m\x81\0\0\0\0\0\0\0\0\0"].concat();
        assert!(complaint(&of_module).starts_with("key m of database 3 cannot be loaded: "), "{}", complaint(&of_module));
    }

    #[test]
    fn a_library_that_never_ends_ends_with_the_link() {
        let mut keyspace = fresh();
        let mut next = keyspace.begin_successor().unwrap();
        let told = || Err("it was told to end".to_owned());
        let mut loader = Loader { into: &mut next, version: "7.0.15", each: &told, machine: None, db: 0, selected: 0 };
        assert!(loader.load_functions(b"#!lua name=l\nwhile true do end").is_err());
        keyspace.abandon_successor(next).unwrap();
    }

    #[test]
    fn functions_come_with_the_data() {
        let mut keyspace = fresh();
        let mut next = keyspace.begin_successor().unwrap();
        let mut loader = Loader { into: &mut next, version: "7.0.15", each: &|| Ok(()), machine: None, db: 0, selected: 0 };
        loader.load_functions(LIBRARY).unwrap();
        assert!(loader.load_functions(b"#!lua name=x\nno lua").unwrap_err().starts_with("a library of functions does not load: "));
        assert!(loader.load_functions(LIBRARY).is_err(), "twice");
        keyspace.adopt(next, None).unwrap();
        assert_eq!(keyspace.libraries().unwrap(), [(b"l".to_vec(), LIBRARY.to_vec())]);
    }
}
