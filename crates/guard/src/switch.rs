//! Switching a guard off and on while it runs.
//!
//! `credence guard off SERVER` appends a line with a MAC to `STATE/SERVER/switch` ([`OperationJournal`]); the last line is the state. A running
//! guard looks at the file every half second, records each new line as a operation entry in its ledger, and from then on judges nothing.
//! Off means: results pass unjudged and unchanged; receipts go on, and say why there is no verdict. A line that somebody without the
//! guard's key has written switches nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwapOption;
use credence_protocol::{SecretKey, Uuid};
use credence_receipts::{
    OperationAction, OperationRecord, ReceiptBook, folder, now,
    operation_journal::{OperationJournal, WaitingOperations},
};

use crate::{quarantine::operator, warn};

/// Which line a guard has recorded last, in its place.
const RECORDED: &str = "switch.recorded";

/// Why a result was not judged, in receipts.
pub const SWITCHED_OFF: &str = "the guard is switched off";

/// Switches the server in `server` off or on, in the name of whom the system says runs this process. Gives what was written; `None` where it is so already.
pub fn switch(server: &Path, key: &SecretKey, off: bool) -> Result<Option<OperationRecord>, credence_receipts::Error> {
    let journal = OperationJournal::of_switch(server, key);
    if is_off(&journal.read()?) == off {
        return Ok(None);
    }
    let action = if off { OperationAction::Off } else { OperationAction::On };
    let (by, detail) = operator::current();
    let record =
        OperationRecord { action, at: now(), by: Some(by), call: None, detail, id: Uuid::now_v7(), tool: None };
    journal.append(std::slice::from_ref(&record))?;
    Ok(Some(record))
}

fn is_off(history: &WaitingOperations) -> bool {
    history.operations.last().is_some_and(|last| last.action == OperationAction::Off)
}

/// The last switching of the server in `server`, where it is off.
pub fn off_since(server: &Path, key: &SecretKey) -> Option<OperationRecord> {
    let mut history = OperationJournal::of_switch(server, key).read().ok()?;
    history.operations.pop().filter(|last| last.action == OperationAction::Off)
}

/// Whether the guard in `place` has taken in this switching.
pub fn has_taken(place: &Path, record: &OperationRecord) -> bool {
    recorded(place).is_some_and(|id| id >= record.id)
}

fn recorded(place: &Path) -> Option<Uuid> {
    fs::read_to_string(place.join(RECORDED)).ok()?.trim().parse().ok()
}

/// The state of one guard's switch.
pub struct Switch {
    journal: OperationJournal,
    place: PathBuf,
    /// Since when, and who did it.
    off: ArcSwapOption<OperationRecord>,
    seen: Mutex<Seen>,
}

/// What was seen of the file when it was read last.
#[derive(Default)]
struct Seen {
    /// `None` before it was read.
    bytes: Option<Option<u64>>,
    refused: usize,
}

impl Switch {
    /// The switch of the server in `server`, for the guard in `place` with this key.
    pub fn open(server: &Path, place: &Path, key: &SecretKey) -> Self {
        let off = ArcSwapOption::from_pointee(off_since(server, key));
        let journal = OperationJournal::of_switch(server, key);
        Self { journal, place: place.to_owned(), off, seen: Mutex::default() }
    }

    /// Whether it is off.
    pub fn is_off(&self) -> bool {
        self.off.load().is_some()
    }

    /// Since when it is off, and who did it.
    pub fn off_since(&self) -> Option<Arc<OperationRecord>> {
        self.off.load_full()
    }

    /// Looks whether somebody has switched; records it. Gives what is wrong with the file, once.
    pub fn refresh(&self, book: Option<&ReceiptBook>) -> Option<String> {
        let bytes = self.journal.length();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.bytes == Some(bytes) {
            return None;
        }
        let history = match self.journal.read() {
            Ok(history) => history,
            Err(error) => {
                seen.bytes = Some(bytes);
                return Some(format!("the switch cannot be read: {error}"));
            }
        };
        let off = is_off(&history);
        let last = history.operations.last();
        let before = self.off.swap(last.filter(|_| off).map(|last| Arc::new(last.clone())));
        if before.is_some() != off {
            warn(if off { "switched off: results pass unjudged, receipts go on" } else { "switched on again" });
        }
        let new: Vec<&OperationRecord> = match recorded(&self.place) {
            Some(known) => history.operations.iter().filter(|record| record.id > known).collect(),
            // What was before this guard's time matters where it still holds.
            None => last.filter(|_| off).into_iter().collect(),
        };
        for record in &new {
            if let Some(Err(error)) = book.map(|book| book.record_operation(record)) {
                warn(&format!("that it was switched {} could not be recorded: {error}", record.action.name()));
                return None;
            }
        }
        if let Some(last) = last {
            let kept = folder::replace_file(&self.place.join(RECORDED), last.id.to_string().as_bytes());
            if let Err(error) = kept {
                warn(&format!("what was recorded of switchings is not kept: {error}"));
            }
        }
        let more = history.refused > seen.refused;
        *seen = Seen { bytes: Some(bytes), refused: history.refused };
        history.trouble().filter(|_| more)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn key() -> SecretKey {
        SecretKey::from_seed(&[7; 32])
    }

    #[test]
    fn the_last_line_is_the_state_and_nothing_is_written_twice() {
        let server = tempfile::tempdir().unwrap();
        assert!(switch(server.path(), &key(), false).unwrap().is_none(), "it is on");
        let off = switch(server.path(), &key(), true).unwrap().unwrap();
        assert!(switch(server.path(), &key(), true).unwrap().is_none(), "it is off already");
        assert_eq!(off_since(server.path(), &key()), Some(off));
        switch(server.path(), &key(), false).unwrap().unwrap();
        assert!(off_since(server.path(), &key()).is_none());
        let mut file = fs::OpenOptions::new().append(true).open(server.path().join("switch")).unwrap();
        file.write_all(b"AAAA {\"action\":\"of").unwrap();
        assert!(off_since(server.path(), &key()).is_none(), "half a line is passed over");
        switch(server.path(), &key(), true).unwrap().unwrap();
        assert!(off_since(server.path(), &key()).is_some(), "the next line is whole");
    }

    #[test]
    fn a_running_guard_takes_it_in_and_knows_what_it_has_recorded() {
        let (server, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let guard = Switch::open(server.path(), place.path(), &key());
        assert!(guard.refresh(None).is_none() && !guard.is_off());
        let off = switch(server.path(), &key(), true).unwrap().unwrap();
        assert!(!has_taken(place.path(), &off));
        assert!(guard.refresh(None).is_none());
        assert!(guard.is_off() && has_taken(place.path(), &off));
        assert!(Switch::open(server.path(), place.path(), &key()).is_off(), "a restart changes nothing");
    }

    /// Somebody who can write the file and does not have the key.
    #[test]
    fn planted_lines_switch_nothing_and_are_told_of_once() {
        let (server, place, other) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let stranger = SecretKey::from_seed(&[8; 32]);
        switch(server.path(), &stranger, true).unwrap().unwrap();
        // Copied from another server's.
        switch(other.path(), &key(), true).unwrap().unwrap();
        let copied = fs::read(other.path().join("switch")).unwrap();
        fs::OpenOptions::new().append(true).open(server.path().join("switch")).unwrap().write_all(&copied).unwrap();
        let guard = Switch::open(server.path(), place.path(), &key());
        let trouble = guard.refresh(None).unwrap();
        assert!(!guard.is_off() && trouble.contains("2 lines in 'switch'"), "{trouble}");
        assert!(guard.refresh(None).is_none(), "once");
        switch(server.path(), &key(), true).unwrap().unwrap();
        assert!(guard.refresh(None).is_none() && guard.is_off());
    }
}
