//! Both implementations against the contract.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use credence_ledger::{
    Clock, Ledger, OutsideCheckpoint, SqliteLedger,
    conformance::{Implementation, Overlaid, TABLES, log_key},
    memory::MemoryLedger,
    sqlite::{Options, Sealing},
};

/// SQLite in temporary folders.
struct Sqlite {
    folders: Mutex<Vec<tempfile::TempDir>>,
    sealing: Sealing,
}

impl Sqlite {
    fn new(sealing: Sealing) -> Self {
        Self { folders: Mutex::default(), sealing }
    }

    fn folder(&self) -> PathBuf {
        let mut folders = self.folders.lock().unwrap();
        folders.push(tempfile::tempdir().unwrap());
        folders.last().unwrap().path().to_owned()
    }

    fn newest(&self) -> PathBuf {
        self.folders.lock().unwrap().last().unwrap().path().to_owned()
    }

    fn options(&self, folder: &Path) -> Options {
        Options {
            path: folder.join("ledger.db"),
            tables: TABLES,
            outside: OutsideCheckpoint::at(folder.join("checkpoint")),
            sealing: self.sealing,
        }
    }
}

impl Implementation for Sqlite {
    fn create(&self, clock: Clock) -> Arc<dyn Ledger> {
        let folder = self.folder();
        Arc::new(SqliteLedger::create(self.options(&folder), log_key(), clock).unwrap())
    }

    /// What a killed process leaves behind: its files as they are at that moment.
    fn after_crash(&self, ledger: Arc<dyn Ledger>, clock: Clock) -> Arc<dyn Ledger> {
        let (before, after) = (self.newest(), self.folder());
        for file in std::fs::read_dir(before).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), after.join(file.file_name())).unwrap();
        }
        drop(ledger);
        Arc::new(SqliteLedger::open(self.options(&after), log_key(), clock).unwrap())
    }

    fn tamper(&self, _: &dyn Ledger) -> Vec<Result<(), String>> {
        let raw = rusqlite::Connection::open(self.newest().join("ledger.db")).unwrap();
        let tries = [
            "UPDATE entries SET entry = '{}' WHERE seq = 1",
            "DELETE FROM entries WHERE seq = 2",
            "DELETE FROM entries",
            "INSERT OR REPLACE INTO entries VALUES (1, '{}')",
            "INSERT INTO entries VALUES (7, '{}')",
            "UPDATE entries SET seq = 9 WHERE seq = 0",
        ];
        tries.iter().map(|sql| raw.execute(sql, []).map(drop).map_err(|e| e.to_string())).collect()
    }
}

struct Memory;

impl Implementation for Memory {
    fn create(&self, clock: Clock) -> Arc<dyn Ledger> {
        Arc::new(MemoryLedger::new(log_key(), clock))
    }

    /// Memory does not outlive its process: a writer that dies leaves the others.
    fn after_crash(&self, ledger: Arc<dyn Ledger>, _: Clock) -> Arc<dyn Ledger> {
        ledger
    }

    fn tamper(&self, _: &dyn Ledger) -> Vec<Result<(), String>> {
        Vec::new()
    }
}

mod sqlite {
    credence_ledger::ledger_suite!(super::Sqlite::new(super::Sealing::EveryCommit));
}

mod sqlite_sealed_in_batches {
    credence_ledger::ledger_suite!(super::Sqlite::new(super::Sealing::Batched));
}

mod memory {
    credence_ledger::ledger_suite!(super::Memory);
}

/// What units of work write and read through an overlay is what they would write and read without.
struct ThroughAnOverlay;

impl Implementation for ThroughAnOverlay {
    fn create(&self, clock: Clock) -> Arc<dyn Ledger> {
        Arc::new(Overlaid(MemoryLedger::new(log_key(), clock)))
    }
    fn after_crash(&self, ledger: Arc<dyn Ledger>, _: Clock) -> Arc<dyn Ledger> {
        ledger
    }
    fn tamper(&self, _: &dyn Ledger) -> Vec<Result<(), String>> {
        Vec::new()
    }
}

mod memory_through_an_overlay {
    credence_ledger::ledger_suite!(super::ThroughAnOverlay);
}
