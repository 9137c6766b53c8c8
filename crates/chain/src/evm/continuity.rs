//! `identity_key_continuity`: a registration that changed hands or files says less about who is behind it.
//!
//! `value = 100 · 0.6^transfers · 0.95^updates`: the new holder inherits ratings that the former one earned, so a transfer weighs; a
//! new file by the same holder is maintenance. Needs all logs since the registry began; without them nothing is measured.

use credence_protocol::Tag;
use serde_json::{Map, json};

use super::logs::Changes;
use crate::reading::Measured;

const AFTER_TRANSFER: f64 = 0.6;
const AFTER_UPDATE: f64 = 0.95;
const STDDEV: f64 = 10.0;

pub(super) fn measure(changes: Changes) -> Option<Measured> {
    let value = 100.0
        * libm::pow(AFTER_TRANSFER, f64::from(changes.transfers))
        * libm::pow(AFTER_UPDATE, f64::from(changes.uri_updates));
    let numbers = Map::from_iter([
        ("transfers".to_owned(), json!(changes.transfers)),
        ("uri_updates".to_owned(), json!(changes.uri_updates)),
    ]);
    Tag::new("identity_key_continuity").ok().map(|tag| Measured { tag, value, stddev: STDDEV, numbers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_lower_it() {
        let value = |transfers, uri_updates| measure(Changes { transfers, uri_updates }).unwrap().value;
        assert_eq!(value(0, 0), 100.0);
        assert!((value(1, 0) - 60.0).abs() < 1e-9);
        assert!((value(1, 2) - 60.0 * 0.95 * 0.95).abs() < 1e-9);
        assert!(value(u32::MAX, u32::MAX) >= 0.0);
    }
}
