//! Settings from text: RocksDB's OPTIONS files and TOML. Any text is read or refused; what was read is valid and reads
//! back from what is printed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sinterdb::internal::settings::{parse_bytes, parse_compression, parse_count, parse_seconds};
use sinterdb::settings::{DbSettings, FamilySettings, OptionsFile, Settings};
use sinterdb_fuzz::seed;

fn seeds() -> Vec<Vec<u8>> {
    let rocksdb = include_bytes!("../../crates/engine/testdata/options/rocksdb-7.8.3.ini");
    let mut settings = Settings::default();
    settings.families.insert("default".into(), FamilySettings::default());
    settings.families.insert("a \"quoted\" name".into(), FamilySettings::default());
    let budgets =
        b"memory = \"1GiB\"\nspace_amplification = 1.3\n[family.x]\nstyle = \"universal\"\ncompression = \"none,lz4,zstd:3:dict=16KiB\"\n";
    let texts = [&rocksdb[..], settings.to_toml().as_bytes(), DbSettings::default().to_toml().as_bytes(), budgets].map(<[u8]>::to_vec);
    texts.to_vec()
}

fuzz_target!(init: seed(seeds), |data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(file) = OptionsFile::parse(text) {
        file.db.validate().expect("valid settings of the database");
        file.families.iter().for_each(|(_, family)| family.validate().expect("valid settings of a family"));
        file.report();
    }
    if let Ok(settings) = Settings::from_toml(text) {
        settings.validate().expect("valid settings");
        assert_eq!(Settings::from_toml(&settings.to_toml()), Ok(settings), "settings do not read back");
    }
    if let Ok((settings, _)) = DbSettings::from_stored(text) {
        assert_eq!(DbSettings::from_toml(&settings.to_toml()), Ok(settings));
    }
    if let Ok((settings, _)) = FamilySettings::from_stored(text) {
        assert_eq!(FamilySettings::from_toml(&settings.to_toml()), Ok(settings));
    }
    let _ = (parse_bytes(text), parse_count(text), parse_seconds(text), parse_compression(text));
});
