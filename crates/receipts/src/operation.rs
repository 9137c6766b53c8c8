//! Operation entries: what somebody did to a guard, or what the guard did by itself, in the guard's own ledger beside the receipts.
//!
//! ```text
//! {"action":"off","at":"…Z","by":{"terminal":"/dev/pts/3","uid":1000,"user":"ada"},"id":"0192…"}
//! ```
//!
//! One kind, one body: every action has this form, and members that an action has no use for are absent. The entry holds no arguments
//! and no results.

use credence_ledger::{Kind, NewEntry};
use credence_protocol::{Canonical, Timestamp, Uuid};
use serde::{Deserialize, Serialize};

use crate::{
    Error, ReceiptBook,
    book::Position,
    segments::{CANARIES, segments, visit},
};

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OperationAction {
    /// The guard was switched off: results pass unjudged.
    Off,
    /// It was switched on again.
    On,
    /// The time before enforcing began, or began anew; `detail` says why.
    Waiting,
    /// The time before enforcing is over.
    Enforcing,
    /// The server declares another name than before: what was learned of the former one does not count for it.
    Renamed,
    /// `guard.toml` was read again and says something else of this server; `detail` says what.
    Configured,
    /// A result of `tool` shows a change, which was told; `detail` says how far it has come, and nothing of the result.
    Changed,
    /// A person looked at a result that was flagged or withheld: it is genuine.
    Accept,
    /// A person looked at it: it is not.
    Reject,
    /// It was taken out of the quarantine and shown.
    Release,
    /// What the quarantine kept was removed.
    Forget,
}

impl OperationAction {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Waiting => "waiting",
            Self::Enforcing => "enforcing",
            Self::Renamed => "renamed",
            Self::Configured => "configured",
            Self::Changed => "changed",
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Release => "release",
            Self::Forget => "forget",
        }
    }
}

/// Who did it, as the system says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// The terminal of the command; absent where it had none, as in a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// The user's number.
    pub uid: u32,
    /// The user's name in the system's list of users, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The body of a operation entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationRecord {
    /// What was done.
    pub action: OperationAction,
    /// When.
    pub at: Timestamp,
    /// Who did it; absent where the guard did it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Operator>,
    /// The call it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Uuid>,
    /// More about it, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Its own id.
    pub id: Uuid,
    /// The tool it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

impl OperationRecord {
    /// Done by the guard itself, now.
    pub fn by_guard(action: OperationAction, detail: Option<String>) -> Self {
        Self { action, at: crate::now(), by: None, call: None, detail, id: Uuid::now_v7(), tool: None }
    }
}

impl ReceiptBook {
    /// Appends a operation entry. When it returns, the entry is in the ledger.
    pub fn record_operation(&self, operation: &OperationRecord) -> Result<(), Error> {
        let entry = NewEntry {
            kind: Kind::Operation,
            subject: self.subject(None),
            body: Canonical::of(operation)?,
            weight: None,
        };
        let segment = self.segment_with_room(entry.body.as_bytes().len() as u64)?;
        Ok(credence_ledger::write(segment.ledger(), move |tx| tx.append(&entry).map(drop))?)
    }

    /// Appends operations that waited in their journal ([`crate::operation_journal`]), except those that are there already: a guard
    /// that was killed finds them in the journal again.
    pub fn record_operations(&self, operations: &[OperationRecord]) -> Result<(), Error> {
        let mut rows = Vec::with_capacity(operations.len());
        for operation in operations {
            let (kind, subject, body) = (Kind::Operation, self.subject(None), Canonical::of(operation)?);
            rows.push((format!("operation/{}", operation.id), NewEntry { kind, subject, body, weight: None }));
        }
        let bytes = rows.iter().map(|(_, entry)| 2 * entry.body.as_bytes().len() as u64).sum();
        let segment = self.segment_with_room(bytes)?;
        Ok(credence_ledger::write(segment.ledger(), move |tx| {
            for (id, entry) in &rows {
                if tx.get(CANARIES, id)?.is_none() {
                    tx.append(entry)?;
                    tx.put(CANARIES, id, "1")?;
                }
            }
            Ok::<(), credence_ledger::Error>(())
        })?)
    }

    /// Every operation entry after `from`, oldest first, as far as segments can be read. Reads the whole ledger from there on.
    pub fn operations(&self, from: Position) -> Result<Vec<OperationRecord>, Error> {
        let mut found = Vec::new();
        for (number, there) in segments(self.folder())? {
            if !there || number < from.0 {
                continue;
            }
            let Ok(segment) = self.segment(number) else { continue };
            let first = if number == from.0 { from.1 } else { 0 };
            visit(&*segment.ledger().view()?, first, &mut |seq, _, entry| {
                if entry.kind == Kind::Operation {
                    found.push(entry.record(seq)?);
                }
                Ok(())
            })?;
        }
        Ok(found)
    }
}
