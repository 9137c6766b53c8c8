//! Records that are in the journal, held until they are in the ledger.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use credence_ledger::NewEntry;
use credence_protocol::Uuid;

use crate::{
    Error,
    journal::Journal,
    records::{CanaryRecord, ControlRecord, CountedCall},
};

/// Bytes of the journal beyond which what has moved is taken out of it although calls are under way.
const COMPACT_BYTES: u64 = 1024 * 1024;

/// Records that are in the journal and not in the ledger yet.
pub(super) struct PendingRows {
    pub journal: Journal,
    /// The lines of calls that were forwarded and have no receipt yet.
    pub under_way: BTreeMap<Uuid, Vec<u8>>,
    pub rows: Arc<Rows>,
    /// Since when there are any.
    pub since: Instant,
    /// They could not be moved: no more are taken until they are.
    pub behind: bool,
}

/// The records themselves.
#[derive(Default)]
pub(super) struct Rows {
    pub receipts: Vec<ReceiptRow>,
    pub canaries: Vec<ShadowRow<CanaryRecord>>,
    pub controls: Vec<ShadowRow<ControlRecord>>,
}

/// A receipt, as it is written.
pub(super) struct ReceiptRow {
    pub entry: NewEntry,
    pub id: Uuid,
    /// The same as text, by which it is found.
    pub call: String,
    pub private: String,
    pub counted: Option<CountedCall>,
}

/// A canary or a control, as it is written.
pub(super) struct ShadowRow<T> {
    pub entry: NewEntry,
    /// By which it is found.
    pub place: String,
    pub record: T,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.receipts.len() + self.canaries.len() + self.controls.len()
    }

    /// About what they take in the database.
    pub fn bytes(&self) -> u64 {
        let receipts = self.receipts.iter().map(|row| row.entry.body.as_bytes().len() + row.private.len());
        let canaries = self.canaries.iter().map(|row| row.entry.body.as_bytes().len());
        let controls = self.controls.iter().map(|row| row.entry.body.as_bytes().len());
        receipts.chain(canaries).chain(controls).map(|bytes| 2 * bytes as u64).sum()
    }
}

impl PendingRows {
    /// With nothing in it.
    pub fn new(journal: Journal) -> Self {
        Self { journal, under_way: BTreeMap::new(), rows: Arc::default(), since: Instant::now(), behind: false }
    }

    /// Adds rows whose lines are `lines`, once these are in the journal.
    pub fn append(&mut self, lines: &[u8], add: impl FnOnce(&mut Rows)) -> Result<(), Error> {
        // A transaction that failed is over, and holds nothing any more.
        let rows = Arc::get_mut(&mut self.rows).ok_or(Error::Busy)?;
        self.journal.append(lines)?;
        if rows.len() == 0 {
            self.since = Instant::now();
        }
        add(rows);
        Ok(())
    }

    /// Takes out of the journal what is in the ledger; calls under way stay.
    pub fn clear_journal(&mut self) -> Result<(), Error> {
        if self.under_way.is_empty() {
            return self.journal.clear();
        }
        let bytes: usize = self.under_way.values().map(Vec::len).sum();
        if self.journal.bytes() < COMPACT_BYTES.max(2 * bytes as u64) {
            return Ok(());
        }
        self.journal.replace(&self.under_way.values().flatten().copied().collect::<Vec<u8>>())
    }

    /// Holds these in place of what it held.
    pub fn hold(&mut self, rows: Rows) {
        self.rows = Arc::new(rows);
        self.since = Instant::now();
    }
}
