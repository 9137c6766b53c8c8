//! Rows as they are in the database, for tests that look behind [`credence_pipeline::query`] or tamper with it.

use credence_ledger::{Scan, Table, Transaction, View};
use credence_pipeline::TABLES;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub const CHALLENGES: &str = "challenges";
pub const CONTRACTS: &str = "contracts";
pub const CURRENT: &str = "current";
pub const REPUTATIONS: &str = "reputations";
pub const REPUTATION_EVENTS: &str = "reputation_events";
pub const SCORES: &str = "scores";

/// The current signal of a slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CurrentRow {
    pub seq: u64,
    pub observed_at: i64,
    pub value: f64,
    pub stddev: f64,
}

pub fn table(name: &str) -> Table {
    *TABLES.iter().find(|table| table.0 == name).unwrap()
}

pub fn get<T: DeserializeOwned>(view: &dyn View, name: &str, key: &str) -> Option<T> {
    view.get(table(name), key).unwrap().map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

pub fn all<T: DeserializeOwned>(view: &dyn View, name: &str) -> Vec<(String, T)> {
    let mut rows = Vec::new();
    view.scan(table(name), Scan::all(), &mut |key, bytes| {
        rows.push((key.to_owned(), serde_json::from_slice(bytes).unwrap()));
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    rows
}

pub fn put(tx: &mut dyn Transaction, name: &str, key: &str, row: &impl Serialize) -> credence_ledger::Result<()> {
    tx.put(table(name), key, &serde_json::to_string(row).unwrap())
}
