//! The statement: a record signed by its author (DESIGN, *Reputation*): an identity, a contract, a challenge, a review, an
//! output-verification summary.
//!
//! ```text
//! { "author", "aud"?, "kind", "record": {…}, "key_id", "signature" }
//! ```
//!
//! Signed like a [signal](crate::Signal): Ed25519 over the canonical JSON of everything but `signature`. A [`Statement`] in
//! memory is well-formed; whether its record passes its schema and its author may say so is the business of admission.

use std::fmt;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Audience, Canonical, EntityId, Error, KeyId, PublicKey, SecretKey, Signature,
    limits::{MAX_STATEMENT_BYTES, MAX_STATEMENT_INPUT_BYTES},
    schemas,
    strict::{self, StrictValue, present},
};

/// What a statement says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementKind {
    /// Who an agent is, in its own words.
    Identity,
    /// A claim an agent stands by.
    Contract,
    /// What a contract came to, by a verifier.
    Verification,
    /// A contract disputed.
    Challenge,
    /// What a challenge came to.
    Resolution,
    /// What one agent says of another.
    Review,
    /// An output-verification window of an agent.
    Summary,
}

impl StatementKind {
    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            StatementKind::Identity => "identity",
            StatementKind::Contract => "contract",
            StatementKind::Verification => "verification",
            StatementKind::Challenge => "challenge",
            StatementKind::Resolution => "resolution",
            StatementKind::Review => "review",
            StatementKind::Summary => "summary",
        }
    }

    /// The JSON Schema of the record.
    pub fn schema(self) -> &'static str {
        match self {
            StatementKind::Identity => schemas::IDENTITY,
            StatementKind::Contract => schemas::CONTRACT,
            StatementKind::Verification => schemas::VERIFICATION,
            StatementKind::Challenge => schemas::CHALLENGE,
            StatementKind::Resolution => schemas::RESOLUTION,
            StatementKind::Review => schemas::REVIEW,
            StatementKind::Summary => schemas::SUMMARY,
        }
    }
}

/// A signed record, well-formed.
#[derive(Clone, PartialEq)]
pub struct Statement {
    signed: Signed,
    signature: Signature,
    canonical: Canonical,
}

/// What the signature covers.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Signed {
    author: EntityId,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<Audience>,
    kind: StatementKind,
    record: StrictValue,
    key_id: KeyId,
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    signed: &'a Signed,
    signature: Signature,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a statement, as an object")]
struct Wire {
    author: EntityId,
    #[serde(default, deserialize_with = "present")]
    aud: Option<Audience>,
    kind: StatementKind,
    record: StrictValue,
    key_id: KeyId,
    signature: Signature,
}

impl Statement {
    /// `record` of `kind`, signed by `author`'s key, for the authority `aud` alone; for any where there is none.
    pub fn sign(
        author: EntityId,
        aud: Option<Audience>,
        kind: StatementKind,
        record: StrictValue,
        key: &SecretKey,
    ) -> Result<Self, Error> {
        let signed = Signed { author, aud, kind, record, key_id: key.public().id() };
        let signature = key.sign(Canonical::of(&signed)?.as_bytes());
        Self::assemble(signed, signature)
    }

    /// Parses strictly; verifies nothing yet.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > MAX_STATEMENT_INPUT_BYTES {
            return Err(Error::TooLarge { bytes: bytes.len(), limit: MAX_STATEMENT_BYTES });
        }
        let Wire { author, aud, kind, record, key_id, signature } = strict::typed(bytes)?;
        Self::assemble(Signed { author, aud, kind, record, key_id }, signature)
    }

    fn assemble(signed: Signed, signature: Signature) -> Result<Self, Error> {
        if !signed.record.0.is_object() {
            return Err(Error::Malformed("the record must be an object".into()));
        }
        let canonical = Canonical::of(&Whole { signed: &signed, signature })?;
        let bytes = canonical.as_bytes().len();
        if bytes > MAX_STATEMENT_BYTES {
            return Err(Error::TooLarge { bytes, limit: MAX_STATEMENT_BYTES });
        }
        Ok(Self { signed, signature, canonical })
    }

    /// Who signed.
    pub fn author(&self) -> &EntityId {
        &self.signed.author
    }

    /// The authority it is for.
    pub fn aud(&self) -> Option<&Audience> {
        self.signed.aud.as_ref()
    }

    /// What it says.
    pub fn kind(&self) -> StatementKind {
        self.signed.kind
    }

    /// The record.
    pub fn record(&self) -> &Value {
        &self.signed.record.0
    }

    /// The record as a type of [`records`](crate::records).
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(self.record()).map_err(|e| Error::Malformed(format!("{} record: {e}", self.kind().key())))
    }

    /// The key that signed.
    pub fn key_id(&self) -> KeyId {
        self.signed.key_id
    }

    /// The whole statement, canonical: what the ledger stores.
    pub fn canonical(&self) -> &Canonical {
        &self.canonical
    }

    /// Checks the signature under `key`, strictly.
    pub fn verify(&self, key: &PublicKey) -> Result<(), Error> {
        if key.id() != self.signed.key_id {
            return Err(Error::KeyMismatch { named: self.signed.key_id, given: key.id() });
        }
        key.verify(Canonical::of(&self.signed)?.as_bytes(), &self.signature)
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.canonical.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn statement() -> (SecretKey, Statement) {
        let key = SecretKey::from_seed(&[7; 32]);
        let record = StrictValue(json!({"signal_id": "c-1", "risk_band": "low"}));
        let (bot, aud) = (EntityId::new("bot").unwrap(), Audience::new("example.org/log").unwrap());
        let statement = Statement::sign(bot, Some(aud), StatementKind::Contract, record, &key).unwrap();
        (key, statement)
    }

    #[test]
    fn what_was_signed_is_what_verifies() {
        let (key, statement) = statement();
        let text = statement.canonical().as_str();
        let again = Statement::parse(text.as_bytes()).unwrap();
        assert_eq!(again, statement);
        again.verify(&key.public()).unwrap();
        let polished = Statement::parse(text.replace("low", "high").as_bytes()).unwrap();
        assert!(polished.verify(&key.public()).is_err());
        let other = Statement::parse(text.replace("\"kind\":\"contract\"", "\"kind\":\"review\"").as_bytes()).unwrap();
        assert!(other.verify(&key.public()).is_err());
        let elsewhere = Statement::parse(text.replace("example.org/log", "example.com/log").as_bytes()).unwrap();
        assert!(elsewhere.verify(&key.public()).is_err());
        let anywhere = Statement::parse(text.replace("\"aud\":\"example.org/log\",", "").as_bytes()).unwrap();
        assert!(anywhere.verify(&key.public()).is_err());
    }

    #[test]
    fn malformed_ones_are_refused() {
        let (_, statement) = statement();
        let text = statement.canonical().as_str();
        for (from, to, what) in [
            ("\"low\"", "\"low\",\"risk_band\":\"high\"", "duplicate key"),
            ("\"author\"", "\"more\":1,\"author\"", "unknown field"),
            ("{\"risk_band\":\"low\",\"signal_id\":\"c-1\"}", "[]", "must be an object"),
            ("contract", "poem", "unknown variant"),
        ] {
            let error = Statement::parse(text.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        let long = text.replace("low", &"x".repeat(MAX_STATEMENT_BYTES));
        assert!(matches!(Statement::parse(long.as_bytes()), Err(Error::TooLarge { .. })));
    }
}
