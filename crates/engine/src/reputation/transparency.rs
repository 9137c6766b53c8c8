//! T: how well a claim can be followed up (seed 1, §3.2): a weighted checklist for each contract, and the mean over them.
//!
//! | item | weight |
//! |---|---|
//! | reasoning_trace, source_refs, schema_valid | 0.20 each |
//! | context_hash, verification_hash | 0.15 each |
//! | timestamp | 0.10 |
//!
//! A contract that fails its schema has at most 0.30; one without verification_hash at most 0.60. Validity is judged without
//! the checklist's optional fields, so that the second cap can bind.

use serde::{Deserialize, Serialize};

/// The most that a contract which fails its schema can have.
pub const INVALID_CAP: f64 = 0.30;
/// The most that a contract without verification_hash can have.
pub const UNVERIFIABLE_CAP: f64 = 0.60;

/// What a contract has, each 0..=1 where it is there in part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Checklist {
    /// Why it was claimed.
    pub reasoning_trace: f64,
    /// What it rests on.
    pub source_refs: f64,
    /// In what context.
    pub context_hash: f64,
    /// How it can be verified.
    pub verification_hash: f64,
    /// When.
    pub timestamp: f64,
    /// Whether it passes its schema.
    pub schema_valid: f64,
}

impl Checklist {
    /// Everything is there.
    #[cfg(test)]
    pub(super) const FULL: Self = Self {
        reasoning_trace: 1.0,
        source_refs: 1.0,
        context_hash: 1.0,
        verification_hash: 1.0,
        timestamp: 1.0,
        schema_valid: 1.0,
    };

    /// T of one contract.
    pub fn score(&self) -> f64 {
        let part = |share: f64, weight: f64| share.clamp(0.0, 1.0) * weight;
        let sum = part(self.reasoning_trace, 0.20)
            + part(self.source_refs, 0.20)
            + part(self.context_hash, 0.15)
            + part(self.verification_hash, 0.15)
            + part(self.timestamp, 0.10)
            + part(self.schema_valid, 0.20);
        let cap = match (self.schema_valid > 0.0, self.verification_hash > 0.0) {
            (false, _) => INVALID_CAP,
            (true, false) => UNVERIFIABLE_CAP,
            (true, true) => 1.0,
        };
        sum.min(cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FULL: Checklist = Checklist::FULL;

    #[test]
    fn caps_bind() {
        assert!((FULL.score() - 1.0).abs() < 1e-12);
        assert_eq!(Checklist { schema_valid: 0.0, ..FULL }.score(), 0.30);
        assert_eq!(Checklist { verification_hash: 0.0, ..FULL }.score(), 0.60);
        let bare = Checklist { reasoning_trace: 0.0, source_refs: 0.0, ..FULL };
        assert!((bare.score() - 0.60).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn bounds_and_caps_always_hold(parts in proptest::array::uniform6(-0.5..=1.5_f64), valid: bool, hash: bool) {
            let [reasoning_trace, source_refs, context_hash, _, timestamp, _] = parts;
            let (verification_hash, schema_valid) = (f64::from(u8::from(hash)), f64::from(u8::from(valid)));
            let t = Checklist { reasoning_trace, source_refs, context_hash, verification_hash, timestamp, schema_valid }.score();
            prop_assert!((0.0..=1.0 + 1e-12).contains(&t));
            prop_assert!(valid || t <= INVALID_CAP);
            prop_assert!(hash || t <= UNVERIFIABLE_CAP);
        }
    }
}
