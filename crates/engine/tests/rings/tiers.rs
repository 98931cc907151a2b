//! Tiers that fail, fill up, get lost or are exchanged. A full tier reaches no writer; whatever else goes wrong is a typed error, and
//! nothing that was acknowledged is gone.

use crate::check;
use crate::machine::{Front, Machine, with_tiers};
use crate::model::{Model, Progress};
use crate::runner::{Runner, builder};
use crate::workloads::{self, Workload};
use sinter_storage::store::{Calls, EIO, ENOSPC, Fault, FileId, FileKind, MemoryStore, Operation, Store};
use sinterdb::Error;
use sinterdb::clock::ManualClock;
use std::sync::Arc;

/// A run of a workload over stores that can fail.
struct Trial {
    machine: Machine,
    front: Front,
    runner: Runner,
}

impl Trial {
    fn new(workload: &Arc<Workload>, model: &Arc<Model>) -> Self {
        let machine = Machine::new(workload.tiers);
        let front = machine.front(None);
        let (primary, tiers) = front.stores();
        let mut runner = Runner::new(workload, model, primary);
        runner.tiers = tiers;
        Trial { machine, front, runner }
    }

    fn run(&mut self) -> sinterdb::Result<()> {
        self.runner.open()?;
        while self.runner.step()? {}
        Ok(())
    }

    /// Checks the content for the next process, and after power cuts.
    fn recovers(&mut self, what: &str) {
        self.runner.abandon();
        let progress = *self.runner.progress.lock();
        let process = Progress { floor: [progress.applied[0], progress.floor[1]], ..progress };
        let mut images = vec![(self.machine.image(), process)];
        for seed in 0..3u64 {
            images.push((self.machine.crash(|store| (seed * 7 + store as u64).into()), progress));
        }
        for (image, progress) in images {
            let files = image.files();
            let db = image.open(builder(1)).unwrap_or_else(|error| panic!("{what}: does not open: {error}; {files}"));
            check::compare(&db, &self.runner.model, &progress).unwrap_or_else(|problem| panic!("{what}: {problem:?}; {files}"));
            assert_eq!(db.verify().expect("verify"), [], "{what}");
        }
    }
}

fn prepare(workload: Workload) -> (Arc<Workload>, Arc<Model>) {
    let workload = Arc::new(workload);
    let model = Arc::new(Model::new(&workload.steps));
    (workload, model)
}

/// Each creation, append and seal on a tier finds it full once, and then from some call on all of them do: nobody is told.
#[test]
fn a_full_tier_reaches_no_writer() {
    let operations = [Operation::Create, Operation::Append, Operation::Seal];
    for (name, workload) in [("tier_full", workloads::tier_full()), ("tier_moves", workloads::tier_moves())] {
        let (workload, model) = prepare(workload);
        let mut counted = Trial::new(&workload, &model);
        counted.run().expect("nothing fails");
        let mut trials = 0;
        for operation in operations {
            for tier in 0..workload.tiers {
                // The first ones write the tier's identity, without which it cannot be attached.
                for at in 1..counted.front.tiers[tier].count(operation) {
                    for (sticky, torn) in [(false, 0), (false, 777), (true, 3)] {
                        trials += 1;
                        let what = format!("{name}: {operation:?} {at} of tier {tier}, sticky {sticky}, torn {torn}");
                        let mut trial = Trial::new(&workload, &model);
                        let fault = Fault { sticky, ..Fault::once(Calls::Only(operation), at, ENOSPC).torn(torn) };
                        trial.front.tiers[tier].inject(fault);
                        trial.run().unwrap_or_else(|error| panic!("{what}: {error}"));
                        trial.runner.db().check_ledger().unwrap_or_else(|error| panic!("{what}: {error}"));
                        trial.runner.close().unwrap_or_else(|error| panic!("{what}: {error}"));
                        trial.recovers(&what);
                    }
                }
            }
        }
        println!("{name}: {trials} trials");
        assert!(trials > 100, "only {trials}");
    }
}

/// Each call on a tier fails once: that is an error of the medium, and what was acknowledged is there afterwards.
#[test]
fn a_failing_tier_loses_nothing() {
    let (workload, model) = prepare(workloads::tier_moves());
    let mut counted = Trial::new(&workload, &model);
    counted.run().expect("nothing fails");
    let mut errors = 0;
    for tier in 0..workload.tiers {
        for at in 0..counted.front.tiers[tier].mutating_calls() {
            let what = format!("call {at} of tier {tier}");
            let mut trial = Trial::new(&workload, &model);
            trial.front.tiers[tier].inject(Fault::once(Calls::Mutating, at, EIO).torn(at % 50));
            if let Err(error) = trial.run().and_then(|()| trial.runner.close()) {
                errors += 1;
                assert!(matches!(error, Error::Io(_) | Error::Closed(_)), "{what}: {error:?}");
                assert!(error.to_string().contains("tier") || error.to_string().contains(".sst"), "{what}: {error}");
            }
            trial.front.tiers[tier].clear();
            trial.recovers(&what);
        }
    }
    assert!(errors > 20, "only {errors} errors");
}

/// A closed database with tables on two tiers.
fn tiered() -> (Machine, Arc<Model>, Progress) {
    let (workload, model) = prepare(workloads::tier_moves());
    let mut trial = Trial::new(&workload, &model);
    trial.run().expect("nothing fails");
    trial.runner.close().expect("close");
    let progress = *trial.runner.progress.lock();
    (trial.machine, model, progress)
}

fn is_intact(machine: &Machine, model: &Model, progress: &Progress) {
    let db = machine.open(builder(1)).expect("it opens");
    check::compare(&db, model, progress).expect("all is there");
}

fn identity(store: &MemoryStore) -> FileId {
    let mut files = store.list().expect("list").into_iter().map(|(id, _)| id);
    files.find(|id| id.kind == FileKind::Tier).expect("an identity")
}

/// The error of an open that is refused, for writing and for reading; nothing is changed by it.
fn refused(machine: &Machine, tiers: &[Arc<MemoryStore>]) -> String {
    let all = || std::iter::once(&machine.primary).chain(&machine.tiers).map(|store| store.list().expect("list")).collect::<Vec<_>>();
    let before = all();
    let tiers = || tiers.iter().map(|store| store.clone() as Arc<dyn Store>);
    let error = with_tiers(builder(1), tiers()).open_store(machine.primary.clone()).expect_err("for writing").to_string();
    let reading = with_tiers(builder(1).read_only(), tiers()).open_store(machine.primary.clone()).expect_err("for reading").to_string();
    assert_eq!(error, reading);
    assert_eq!(all(), before, "an open that is refused changes nothing: {error}");
    error
}

#[test]
fn only_the_tiers_that_were_attached_will_do() {
    let (machine, model, progress) = tiered();
    let (cold, ice) = (machine.tiers[0].clone(), machine.tiers[1].clone());
    let empty = || Arc::new(MemoryStore::new());
    assert!(refused(&machine, &[]).contains("tier cold of this database is a store that no setting names"));
    assert!(refused(&machine, std::slice::from_ref(&cold)).contains("tier ice of this database"));
    assert!(refused(&machine, &[empty(), ice.clone()]).contains("tier cold is empty: is its medium mounted?"));
    assert!(refused(&machine, &[ice.clone(), cold.clone()]).contains("tier cold is tier ice of this database: directories were exchanged"));
    // Of another database.
    let other = Machine::new(2);
    drop(other.open(builder(2)).expect("another database"));
    assert!(refused(&machine, &[other.tiers[0].clone(), ice.clone()]).contains("tier cold belongs to database 02020202"));
    // Of the same identity, but attached another time.
    let twin = Machine::new(2);
    let clock = Arc::new(ManualClock::default());
    clock.set_unix_seconds(77);
    drop(twin.open(builder(1).clock(clock)).expect("a twin"));
    let error = refused(&machine, &[twin.tiers[0].clone(), ice.clone()]);
    assert!(error.contains("tier cold was attached another time"), "{error}");
    // A database itself.
    let error = refused(&machine, &[Machine::new(0).primary.clone(), ice.clone()]);
    assert!(error.contains("is empty"), "{error}");
    let plain = Machine::new(0);
    drop(plain.open(builder(3)).expect("a database"));
    assert!(refused(&machine, &[plain.primary.clone(), ice.clone()]).contains("tier cold is the directory of a database"));
    // Its identity is lost.
    let stripped = Arc::new(cold.clone_image());
    stripped.remove(identity(&cold)).expect("it is there");
    assert!(refused(&machine, &[stripped, ice.clone()]).contains("tier cold has lost"));
    is_intact(&machine, &model, &progress);
}

#[test]
fn every_flipped_bit_of_an_identity_is_noticed() {
    let (machine, model, progress) = tiered();
    let cold = machine.tiers[0].clone();
    let id = identity(&cold);
    let length = cold.bytes(id).expect("bytes").len() as u64;
    for bit in 0..length * 8 {
        let copy = Arc::new(cold.clone_image());
        copy.corrupt(id, bit / 8, |byte| *byte ^= 1 << (bit % 8)).expect("the byte is there");
        let error = with_tiers(builder(1), [copy as Arc<dyn Store>, machine.tiers[1].clone()]).open_store(machine.primary.clone());
        let error = error.expect_err("damaged");
        assert!(matches!(&error, Error::Corrupt { file, .. } if *file == id.to_string()), "bit {bit}: {error}");
    }
    for cut in 0..length {
        let copy = Arc::new(cold.clone_image());
        copy.replace(id, cold.bytes(id).expect("bytes")[..cut as usize].to_vec());
        let error = with_tiers(builder(1), [copy as Arc<dyn Store>, machine.tiers[1].clone()]).open_store(machine.primary.clone());
        assert!(matches!(error.expect_err("cut"), Error::Corrupt { .. }), "{cut} bytes");
    }
    is_intact(&machine, &model, &progress);
}

#[test]
fn a_table_that_its_tier_has_lost_is_named() {
    let (machine, model, progress) = tiered();
    let cold = &machine.tiers[0];
    let tables: Vec<FileId> = cold.list().expect("list").into_iter().map(|(id, _)| id).filter(|id| id.kind == FileKind::Table).collect();
    assert!(!tables.is_empty(), "nothing is cold");
    for id in tables {
        let image = machine.image();
        image.tiers[0].remove(id).expect("it is there");
        let error = image.open(builder(1)).expect_err("a table is missing");
        assert!(matches!(&error, Error::Corrupt { file, .. } if *file == id.to_string()), "{error}");
        assert!(error.to_string().contains("neither beside the manifest nor in tier cold, tier ice"), "{error}");
        // To read is possible, up to that table.
        let db = image.open(builder(1).read_only()).expect("opens to read");
        let damage = db.verify().expect("verify");
        assert!(damage.len() == 1 && damage[0].file == id.to_string(), "{damage:?}");
    }
    is_intact(&machine, &model, &progress);
}

/// Tables of tiers rot: named by `verify`, as any table is, and never copied to another tier.
#[test]
fn a_damaged_table_is_not_moved() {
    let workload = workloads::tier_moves();
    let (workload, model) = prepare(workload);
    let mut trial = Trial::new(&workload, &model);
    trial.runner.open().expect("open");
    // Up to the first time that something is cold.
    while trial.machine.tiers[0].list().expect("list").len() < 2 {
        assert!(trial.runner.step().expect("nothing fails"), "nothing ever got cold");
    }
    let cold = &trial.machine.tiers[0];
    let (id, length) = *cold.list().expect("list").iter().find(|(id, _)| id.kind == FileKind::Table).expect("a table");
    let bytes = cold.bytes(id).expect("bytes");
    cold.corrupt(id, length / 3, |byte| *byte ^= 0x10).expect("the byte is there");
    let outcome = loop {
        match trial.runner.step() {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
        if !trial.runner.db().damaged_tables().is_empty() {
            break None;
        }
    };
    let told = outcome.map_or_else(|| trial.runner.db().damaged_tables()[0].file.clone(), |error| error.to_string());
    assert!(told.contains(&id.to_string()), "{told}");
    assert_eq!(cold.bytes(id).expect("it is still there").len(), bytes.len());
}
