//! Exported receipts: one JSON object a line, each with the proof that it is in its guard's log, for others to check.

use credence_ledger::{Entry, Kind, LogVerifier, proof::InclusionProof};
use credence_protocol::{
    PublicKey,
    receipt::{Receipt, Salts},
};
use serde::{Deserialize, Serialize};

use crate::Error;

/// A receipt with everything to check it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExportedReceipt {
    /// The receipt.
    pub receipt: Receipt,
    /// What the log's checkpoints are verified with. The reader has to trust it.
    pub log_key: String,
    /// The proof, as a file.
    pub proof: String,
    /// The salts, where they are disclosed: with them a claim can be compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salts: Option<Salts>,
}

/// A key that is trusted beforehand.
#[derive(Clone)]
pub enum TrustedKey {
    /// Of one log.
    Log(LogVerifier),
    /// Of a provider, for all its logs.
    Provider(PublicKey),
}

impl TrustedKey {
    /// Reads a log's key (`NAME+HASH+KEY`) or a provider's public key.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if let Ok(key) = PublicKey::parse(text) {
            return Ok(Self::Provider(key));
        }
        Ok(Self::Log(LogVerifier::parse(text)?))
    }

    /// The verifier of a log that calls itself what `claimed` says.
    fn verifier(&self, claimed: &LogVerifier) -> Result<LogVerifier, Error> {
        Ok(match self {
            Self::Log(log) => log.clone(),
            Self::Provider(key) => LogVerifier::of(claimed.origin(), key)?,
        })
    }
}

impl ExportedReceipt {
    /// Reads one line of an export.
    pub fn parse(line: &str) -> Result<Self, Error> {
        serde_json::from_str(line).map_err(|error| Error::NotProved(format!("not an exported receipt: {error}")))
    }

    /// Checks the proof, with the trusted key or else with the one that the export names.
    pub fn verify(&self, trusted: Option<&TrustedKey>) -> Result<(), Error> {
        let claimed =
            LogVerifier::parse(&self.log_key).map_err(|error| Error::NotProved(format!("log_key: {error}")))?;
        let verifier = match trusted {
            Some(trusted) => trusted.verifier(&claimed)?,
            None => claimed,
        };
        let refused = |error: credence_ledger::Error| Error::NotProved(error.to_string());
        let proof = InclusionProof::parse(&self.proof).map_err(refused)?;
        proof.verify(&verifier).map_err(refused)?;
        let entry = Entry::parse(proof.seq, &proof.entry).map_err(refused)?;
        if entry.kind != Kind::Receipt {
            return Err(Error::NotProved(format!("what is proved is a {}, not a receipt", entry.kind.key())));
        }
        let proved: Receipt = entry.record(proof.seq).map_err(refused)?;
        if proved != self.receipt {
            return Err(Error::NotProved("the receipt is not the one that is proved".to_owned()));
        }
        Ok(())
    }
}
