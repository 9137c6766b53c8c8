//! Regular expressions of the suite, compiled once. They ignore case.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
};

use regex::{Regex, RegexBuilder};

/// Expressions that are kept; a suite has a few hundred.
const MOST: usize = 4096;

/// The compiled expression; `None` where it is none.
pub fn compiled(pattern: &str) -> Option<Regex> {
    static KEPT: LazyLock<Mutex<HashMap<String, Regex>>> = LazyLock::new(Mutex::default);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = kept.get(pattern) {
        return Some(found.clone());
    }
    let regex = RegexBuilder::new(pattern).case_insensitive(true).build().ok()?;
    if kept.len() < MOST {
        kept.insert(pattern.to_owned(), regex.clone());
    }
    Some(regex)
}
