//! Signed checkpoints: the log's size and root in a C2SP signed note (tlog-checkpoint, signed-note, Ed25519).
//!
//! ```text
//! example.org/credence
//! 42
//! Zm9v…=
//!
//! — example.org/credence Ab12…
//! ```

use credence_protocol::{PublicKey, SecretKey};
use data_encoding::BASE64;
use signed_note::{Note, StandardSigner, StandardVerifier, VerifierList};
use tlog_tiles::Hash;

use crate::{Error, Result};

/// The signature type of plain Ed25519 in a note key.
const NOTE_ED25519: u8 = 1;

/// Signs checkpoints under the log's name.
#[derive(Clone)]
pub struct LogKey {
    origin: String,
    signer: StandardSigner,
    verifier: LogVerifier,
}

/// Verifies checkpoints: the log's name and public key, as one line `name+hash+key` (a note "vkey").
#[derive(Clone)]
pub struct LogVerifier {
    vkey: String,
    origin: String,
    verifier: StandardVerifier,
}

impl LogKey {
    /// The log `origin` (a schema-less URL by convention, no spaces or `+`) with its key.
    pub fn new(origin: &str, key: &SecretKey) -> Result<Self> {
        let verifier = LogVerifier::of(origin, &key.public())?;
        let mut encoded = vec![NOTE_ED25519];
        encoded.extend_from_slice(&*key.seed());
        let skey =
            format!("PRIVATE+KEY+{origin}+{:08x}+{}", note_key_id(origin, &key.public()), BASE64.encode(&encoded));
        let signer = StandardSigner::new(&skey).map_err(|e| Error::LogKey(e.to_string()))?;
        Ok(Self { origin: origin.to_owned(), signer, verifier })
    }

    /// The public half.
    pub fn verifier(&self) -> &LogVerifier {
        &self.verifier
    }

    /// The signed checkpoint of a tree.
    pub fn sign(&self, size: u64, root: Hash) -> Result<String> {
        let failed = |e: &dyn std::fmt::Display| Error::LogKey(e.to_string());
        let text = tlog_tiles::Checkpoint::new(&self.origin, size, root, "").map_err(|e| failed(&e))?;
        let mut note = Note::new(&text.to_bytes(), &[]).map_err(|e| failed(&e))?;
        note.add_sigs(&[&self.signer]).map_err(|e| failed(&e))?;
        String::from_utf8(note.to_bytes()).map_err(|e| failed(&e))
    }
}

fn note_key_id(origin: &str, key: &PublicKey) -> u32 {
    let mut encoded = vec![NOTE_ED25519];
    encoded.extend_from_slice(key.as_bytes());
    signed_note::key_id(origin, &encoded)
}

impl LogVerifier {
    /// The verifier of log `origin` with this key.
    pub fn of(origin: &str, key: &PublicKey) -> Result<Self> {
        let mut encoded = vec![NOTE_ED25519];
        encoded.extend_from_slice(key.as_bytes());
        Self::parse(&format!("{origin}+{:08x}+{}", note_key_id(origin, key), BASE64.encode(&encoded)))
    }

    /// Parses `name+hash+key`.
    pub fn parse(vkey: &str) -> Result<Self> {
        let unusable = |why: &str| Error::LogKey(format!("'{vkey}' is not a log key (name+hash+key): {why}"));
        let origin = vkey.split('+').next().unwrap_or_default().to_owned();
        if origin.chars().any(char::is_control) {
            return Err(unusable("a control character in the name"));
        }
        let verifier = StandardVerifier::new(vkey).map_err(|e| unusable(&e.to_string()))?;
        Ok(Self { vkey: vkey.to_owned(), origin, verifier })
    }

    /// The same key under another log's name.
    pub fn renamed(&self, origin: &str) -> Result<Self> {
        let unusable = |why: &str| Error::LogKey(format!("'{}': {why}", self.vkey));
        let key = self.vkey.splitn(3, '+').nth(2).ok_or_else(|| unusable("no key in it"))?;
        let encoded = BASE64.decode(key.as_bytes()).map_err(|e| unusable(&e.to_string()))?;
        Self::parse(&format!("{origin}+{:08x}+{key}", signed_note::key_id(origin, &encoded)))
    }

    /// As one line.
    pub fn as_str(&self) -> &str {
        &self.vkey
    }

    /// The log's name.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

/// A checkpoint whose signature was verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The log's name.
    pub origin: String,
    /// How many entries.
    pub size: u64,
    /// The root over them.
    pub root: Hash,
    /// The signed note as received.
    pub note: String,
}

impl Checkpoint {
    /// Parses a signed note and verifies it under the log's key.
    pub fn open(note: &str, verifier: &LogVerifier) -> Result<Self> {
        let wrong = |why: &dyn std::fmt::Display| Error::Proof(format!("checkpoint: {why}"));
        let parsed = Note::from_bytes(note.as_bytes()).map_err(|e| wrong(&e))?;
        let known = VerifierList::new(vec![Box::new(verifier.verifier.clone())]);
        let (signatures, _) = parsed.verify(&known).map_err(|e| wrong(&e))?;
        if signatures.is_empty() {
            return Err(wrong(&format!("not signed by {}", verifier.as_str())));
        }
        let text = tlog_tiles::Checkpoint::from_bytes(parsed.text()).map_err(|e| wrong(&e))?;
        if text.origin() != verifier.origin {
            return Err(wrong(&format!("it is of log {}, not of {}", text.origin(), verifier.origin)));
        }
        Ok(Self { origin: text.origin().to_owned(), size: text.size(), root: *text.hash(), note: note.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_what_it_verifies_and_notices_every_change() {
        let key = LogKey::new("example.org/log", &SecretKey::from_seed(&[9; 32])).unwrap();
        let note = key.sign(42, Hash([5; 32])).unwrap();
        let opened = Checkpoint::open(&note, key.verifier()).unwrap();
        assert_eq!((opened.size, opened.root), (42, Hash([5; 32])));
        for at in 0..note.len() {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(changed) = String::from_utf8(bytes) {
                assert!(Checkpoint::open(&changed, key.verifier()).is_err(), "byte {at}");
            }
        }
        let other = LogKey::new("example.org/log", &SecretKey::from_seed(&[8; 32])).unwrap();
        assert!(Checkpoint::open(&note, other.verifier()).is_err());
    }

    #[test]
    fn verifier_keys_round_trip_and_bad_names_are_refused() {
        let key = LogKey::new("example.org/log", &SecretKey::from_seed(&[9; 32])).unwrap();
        let again = LogVerifier::parse(key.verifier().as_str()).unwrap();
        let receipts = LogKey::new("example.org/log/receipts", &SecretKey::from_seed(&[9; 32])).unwrap();
        assert_eq!(again.renamed("example.org/log/receipts").unwrap().as_str(), receipts.verifier().as_str());
        assert_eq!(again.origin(), "example.org/log");
        for bad in ["", "a b", "a+b", "a\nb"] {
            assert!(LogKey::new(bad, &SecretKey::from_seed(&[9; 32])).is_err(), "{bad:?}");
        }
        assert!(LogVerifier::parse("x+00000000+AAAA").is_err());
    }
}
