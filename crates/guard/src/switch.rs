//! Switching a guard off and on while it runs.
//!
//! `credence guard off SERVER` appends a line to `STATE/SERVER/switch.jsonl`; the last line is the state. A running guard looks at the file every
//! half second, records each new line as a operation entry in its ledger, and from then on judges nothing. Off means: results pass
//! unjudged and unchanged; receipts go on, and say why there is no verdict.

use std::{
    fs::{self, OpenOptions},
    io::{IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use credence_protocol::Uuid;
use credence_receipts::{OperationAction, OperationRecord, Operator, ReceiptBook, folder, now};

use crate::{Error, warn};

const FILE: &str = "switch.jsonl";
/// Which line a guard has recorded last, in its place.
const RECORDED: &str = "switch.recorded";
/// Bytes of the file: thousands of switchings.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Why a result was not judged, in receipts.
pub const SWITCHED_OFF: &str = "the guard is switched off";

/// The user that runs this process, and the terminal.
pub fn operator() -> Operator {
    let terminal = [std::io::stdin().is_terminal(), std::io::stdout().is_terminal(), std::io::stderr().is_terminal()];
    let terminal = terminal.iter().position(|is| *is).and_then(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).ok());
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty() && user.len() <= 64);
    Operator {
        terminal: terminal.map(|path| path.display().to_string()),
        uid: rustix::process::getuid().as_raw(),
        user: user.filter(|user| !user.chars().any(char::is_control)),
    }
}

/// Switches the server in `server` off or on. Gives what was written; `None` where it is so already.
pub fn switch(server: &Path, off: bool, by: Operator) -> Result<Option<OperationRecord>, Error> {
    let path = server.join(FILE);
    let io = |e| Error::Io(path.clone(), e);
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(io)?;
    file.lock().map_err(io)?;
    if is_off(server) == off {
        return Ok(None);
    }
    if file.metadata().map_err(io)?.len() > MAX_BYTES {
        return Err(Error::Content(format!("{} is full: move it away", path.display())));
    }
    let action = if off { OperationAction::Off } else { OperationAction::On };
    let record =
        OperationRecord { action, at: now(), by: Some(by), call: None, detail: None, id: Uuid::now_v7(), tool: None };
    let mut line = serde_json::to_vec(&record).map_err(|e| Error::Content(e.to_string()))?;
    line.push(b'\n');
    // After a line that was cut off by a full disk, a new one.
    if fs::read(&path).map_err(io)?.last().is_some_and(|last| *last != b'\n') {
        line.insert(0, b'\n');
    }
    file.write_all(&line).and_then(|()| file.sync_data()).map_err(io)?;
    Ok(Some(record))
}

/// What was switched, oldest first. A line that cannot be read is passed over.
pub fn history(server: &Path) -> Vec<OperationRecord> {
    let Ok(text) = fs::read_to_string(server.join(FILE)) else { return Vec::new() };
    let lines = text.lines().filter_map(|line| serde_json::from_str::<OperationRecord>(line).ok());
    lines.filter(|record| matches!(record.action, OperationAction::Off | OperationAction::On)).collect()
}

fn is_off(server: &Path) -> bool {
    history(server).last().is_some_and(|last| last.action == OperationAction::Off)
}

/// The last switching of the server in `server`, where it is off.
pub fn off_since(server: &Path) -> Option<OperationRecord> {
    history(server).pop().filter(|last| last.action == OperationAction::Off)
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
    server: PathBuf,
    place: PathBuf,
    off: AtomicBool,
    /// Bytes of the file when it was read last.
    read: Mutex<Option<u64>>,
}

impl Switch {
    /// The switch of the server in `server`, for the guard in `place`.
    pub fn open(server: &Path, place: &Path) -> Self {
        let off = AtomicBool::new(is_off(server));
        Self { server: server.to_owned(), place: place.to_owned(), off, read: Mutex::default() }
    }

    /// Whether it is off.
    pub fn is_off(&self) -> bool {
        self.off.load(Relaxed)
    }

    /// Looks whether somebody has switched; records it.
    pub fn refresh(&self, book: Option<&ReceiptBook>) {
        let length = fs::metadata(self.server.join(FILE)).map(|meta| meta.len()).ok();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if *read == length {
            return;
        }
        let history = history(&self.server);
        let off = history.last().is_some_and(|last| last.action == OperationAction::Off);
        if self.off.swap(off, Relaxed) != off {
            warn(if off { "switched off: results pass unjudged, receipts go on" } else { "switched on again" });
        }
        let new: Vec<&OperationRecord> = match recorded(&self.place) {
            Some(known) => history.iter().filter(|record| record.id > known).collect(),
            // What was before this guard's time matters where it still holds.
            None => history.last().filter(|_| off).into_iter().collect(),
        };
        for record in &new {
            if let Some(Err(error)) = book.map(|book| book.record_operation(record)) {
                warn(&format!("that it was switched {} could not be recorded: {error}", record.action.name()));
                return;
            }
        }
        if let Some(last) = history.last() {
            let kept = folder::replace_file(&self.place.join(RECORDED), last.id.to_string().as_bytes());
            if let Err(error) = kept {
                warn(&format!("what was recorded of switchings is not kept: {error}"));
            }
        }
        *read = length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_state_and_nothing_is_written_twice() {
        let server = tempfile::tempdir().unwrap();
        assert!(switch(server.path(), false, operator()).unwrap().is_none(), "it is on");
        let off = switch(server.path(), true, operator()).unwrap().unwrap();
        assert!(switch(server.path(), true, operator()).unwrap().is_none(), "it is off already");
        assert_eq!(off_since(server.path()), Some(off));
        switch(server.path(), false, operator()).unwrap().unwrap();
        assert!(off_since(server.path()).is_none() && history(server.path()).len() == 2);
        let mut file = OpenOptions::new().append(true).open(server.path().join(FILE)).unwrap();
        file.write_all(b"{\"action\":\"of").unwrap();
        assert!(off_since(server.path()).is_none(), "half a line is passed over");
    }

    #[test]
    fn a_running_guard_takes_it_in_and_knows_what_it_has_recorded() {
        let (server, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let guard = Switch::open(server.path(), place.path());
        guard.refresh(None);
        assert!(!guard.is_off());
        let off = switch(server.path(), true, operator()).unwrap().unwrap();
        assert!(!has_taken(place.path(), &off));
        guard.refresh(None);
        assert!(guard.is_off() && has_taken(place.path(), &off));
        assert!(Switch::open(server.path(), place.path()).is_off(), "a restart changes nothing");
    }
}
