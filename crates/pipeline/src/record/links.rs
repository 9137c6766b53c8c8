//! The bodies of `link` and `dispute` entries.

use credence_protocol::{
    Canonical, EntityId, ExternalSubject, KeyId, LinkProof, PublicKey, SecretKey, Signature, Timestamp, Uuid,
    strict::present,
};
use serde::{Deserialize, Serialize};

use crate::Result;

/// What became of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkState {
    /// Said, and not proved: feeds nothing.
    Claimed,
    /// Proved both ways.
    Proven,
    /// The proof is gone, or is another's.
    Broken,
    /// Taken back.
    Removed,
}

/// Something outside that an agent says is its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkRecord {
    /// The agent.
    pub agent: EntityId,
    /// The thing.
    pub link: ExternalSubject,
    /// What became of it.
    pub state: LinkState,
    /// In the line of its proof.
    pub nonce: Uuid,
    /// Until when that line holds.
    pub expires: Timestamp,
    /// How it was proved.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub proof: Option<LinkProof>,
    /// Why it is broken or removed.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub reason: Option<String>,
}

/// A step of a dispute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeStep {
    /// The owner says that a signal is wrong.
    Opened,
    /// The operator keeps it.
    Kept,
    /// The operator withdraws it: what the source says there is not recorded any more.
    Withdrawn,
    /// The operator lifts a withdrawal: what the source says from now on counts again.
    Lifted,
}

/// A dispute of a signal that a crawler made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisputeRecord {
    /// The agent.
    pub agent: EntityId,
    /// The signal.
    pub signal: Uuid,
    /// The step.
    pub step: DisputeStep,
    /// The owner's statement, or the operator's reason.
    pub text: String,
    /// The agent's key that signed the statement; none where the operator recorded it for the owner.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub key_id: Option<KeyId>,
    /// Over this record without the signature.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub signature: Option<Signature>,
}

impl DisputeRecord {
    /// The same, signed by a key of the agent.
    pub fn signed_by(mut self, key: &SecretKey) -> Result<Self> {
        self.key_id = Some(key.public().id());
        self.signature = Some(key.sign(Canonical::of(&self)?.as_bytes()));
        Ok(self)
    }

    /// Checks the signature under `key`.
    pub fn verify(&self, key: &PublicKey) -> Result<()> {
        let Some(signature) = self.signature else { return Ok(()) };
        let unsigned = Self { signature: None, ..self.clone() };
        Ok(key.verify(Canonical::of(&unsigned)?.as_bytes(), &signature)?)
    }
}
