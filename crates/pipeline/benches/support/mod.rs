//! An authority in a temporary folder.

use std::sync::Arc;

use credence_ledger::{LogKey, OutsideCheckpoint, SqliteLedger, sqlite::Options};
use credence_pipeline::{Authority, Settings, TABLES};
use credence_protocol::{EntityId, SecretKey, Timestamp};

/// Where the ledgers of this run live: a real disk, unless `TMPDIR` says otherwise.
pub struct House {
    pub folder: tempfile::TempDir,
    pub authority: Authority,
}

pub fn id(text: &str) -> EntityId {
    EntityId::new(text).unwrap()
}

pub fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_micros(since.as_micros() as i64).unwrap()
}

pub fn house() -> House {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        path: folder.path().join("ledger.db"),
        tables: TABLES,
        outside: OutsideCheckpoint::at(folder.path().join("checkpoint")),
        sealing: Default::default(),
    };
    let key = LogKey::new("example.org/bench", &SecretKey::from_seed(&[3; 32])).unwrap();
    let ledger = SqliteLedger::create(options, key, Arc::new(now)).unwrap();
    let authority = Authority::open(Arc::new(ledger), &Settings::default(), Arc::new(now)).unwrap();
    House { folder, authority }
}
