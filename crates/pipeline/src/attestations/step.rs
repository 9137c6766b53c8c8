//! The steps of an attestation, by name.

use serde::{Deserialize, Serialize};

/// A step of an attestation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttestationStep {
    /// The score is to be written.
    Intent,
    /// A transaction is signed, and about to be sent.
    Sent,
    /// One with the same nonce and a higher fee takes its place.
    Replaced,
    /// It is in a block.
    Confirmed,
    /// Its block is no longer part of the chain.
    Reorganised,
    /// Its block is deep enough to stay.
    Final,
    /// The answer to a validation request is signed, and about to be sent.
    ValidationSent,
    /// That answer is in a block that stays.
    Validated,
    /// That request will not be answered by this attestation.
    ValidationGivenUp,
    /// It is in a block that stays, and failed.
    Reverted,
    /// It will not be written.
    GivenUp,
    /// A transaction that takes it back is signed, and about to be sent.
    RevocationSent,
    /// It is taken back.
    Revoked,
}

impl AttestationStep {
    /// All of them, in the order in which they come.
    pub const ALL: [Self; 13] = [
        Self::Intent,
        Self::Sent,
        Self::Replaced,
        Self::Confirmed,
        Self::Reorganised,
        Self::Final,
        Self::ValidationSent,
        Self::Validated,
        Self::ValidationGivenUp,
        Self::Reverted,
        Self::GivenUp,
        Self::RevocationSent,
        Self::Revoked,
    ];

    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Sent => "sent",
            Self::Replaced => "replaced",
            Self::Confirmed => "confirmed",
            Self::Reorganised => "reorganised",
            Self::Final => "final",
            Self::ValidationSent => "validation_sent",
            Self::Validated => "validated",
            Self::ValidationGivenUp => "validation_given_up",
            Self::Reverted => "reverted",
            Self::GivenUp => "given_up",
            Self::RevocationSent => "revocation_sent",
            Self::Revoked => "revoked",
        }
    }
}
