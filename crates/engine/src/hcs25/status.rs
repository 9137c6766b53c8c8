//! How a value came about.

use serde::{Deserialize, Serialize};

/// The status of a signal or component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// There, and fresh.
    Ok,
    /// Never seen.
    Missing,
    /// Asked for in vain.
    Timeout,
    /// Asked for, and something went wrong.
    Error,
    /// There, but old.
    Stale,
}

impl Status {
    /// What a collector's finer word means here. A wrong answer is an answer: it is `ok`, and worth 0.
    pub fn of_token(token: &str) -> Self {
        match token {
            "timeout" => Status::Timeout,
            "missing" | "skipped" => Status::Missing,
            "error" | "upstream-error" => Status::Error,
            "stale" => Status::Stale,
            _ => Status::Ok,
        }
    }

    /// Whether there is a value to use.
    pub fn is_available(self) -> bool {
        matches!(self, Status::Ok | Status::Stale)
    }
}
