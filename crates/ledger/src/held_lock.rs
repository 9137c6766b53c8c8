//! Files that are locked for as long as this process writes what they stand for.
//!
//! Such a lock belongs to the open file, which a forked child inherits: without [`release_in_child`] it would be held until the last child
//! has ended, though the process that wrote is long gone.

use std::{
    fs::File,
    sync::{Arc, Mutex, PoisonError, Weak},
};

type Slot = Mutex<Option<File>>;

/// Every lock of this process.
static HELD: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

/// A locked file. Dropping it releases the lock.
#[derive(Debug)]
pub struct HeldLock {
    _file: Arc<Slot>,
}

impl HeldLock {
    /// Keeps a file that is locked.
    pub fn new(locked: File) -> Self {
        let file = Arc::new(Mutex::new(Some(locked)));
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|one| one.strong_count() > 0);
        held.push(Arc::downgrade(&file));
        Self { _file: file }
    }
}

/// Closes a child's copies of the files that its parent locked, right after a fork. The parent's own still hold the locks.
pub fn release_in_child() {
    // Held for a moment only, when a lock is taken; a process that forked in that very moment keeps its copies.
    let Ok(mut held) = HELD.try_lock() else { return };
    for slot in held.drain(..).filter_map(|one| one.upgrade()) {
        if let Ok(mut file) = slot.try_lock() {
            *file = None;
        }
    }
}
