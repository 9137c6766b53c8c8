//! Waiting for a condition, never for a time: a test that is right passes on a machine that is busy with other things.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take before a test says that it hangs. Far longer than it takes, also under load.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Looks until `look` finds something, and gives it; `None` after `most`.
pub fn within<T>(most: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if since.elapsed() > most {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

/// Looks until `look` finds something, and gives it; fails with `what` after [`PATIENCE`].
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, look).unwrap_or_else(|| panic!("not within {} s: {what}", PATIENCE.as_secs()))
}

/// Looks until `holds` is true; fails with `what` after [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}
