//! Which credentials were revoked: a BitstringStatusList (W3C), as `u` + base64url of the gzipped bits, most significant
//! first, of at least 16 KiB, so that a look-up does not say whose credential was looked up.

use std::io::{Read, Write};

use data_encoding::BASE64URL_NOPAD;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Error;

/// The least that a list has, in bits.
pub const MIN_BITS: usize = 131_072;
/// The most that is unpacked of a foreign list, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A list of bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusList(Vec<u8>);

impl StatusList {
    /// Nothing is revoked, with room for `entries`.
    pub fn new(entries: usize) -> Self {
        Self(vec![0; entries.max(MIN_BITS).div_ceil(8)])
    }

    /// How many entries there is room for.
    pub fn len(&self) -> usize {
        self.0.len() * 8
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Revokes an entry.
    pub fn revoke(&mut self, index: usize) -> Result<(), Error> {
        let length = self.len();
        let byte = self.0.get_mut(index / 8).ok_or(Error::Index { index, length })?;
        *byte |= 0x80 >> (index % 8);
        Ok(())
    }

    /// Whether an entry is revoked.
    pub fn is_revoked(&self, index: usize) -> Result<bool, Error> {
        let byte = self.0.get(index / 8).ok_or(Error::Index { index, length: self.len() })?;
        Ok(byte & (0x80 >> (index % 8)) != 0)
    }

    /// As in a credential.
    pub fn encode(&self) -> Result<String, Error> {
        let failed = |e: std::io::Error| Error::Malformed(e.to_string());
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&self.0).map_err(failed)?;
        Ok(format!("u{}", BASE64URL_NOPAD.encode(&gzip.finish().map_err(failed)?)))
    }

    /// From a credential.
    pub fn decode(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Malformed("encodedList is not multibase base64url of gzipped bits".into());
        let packed =
            text.strip_prefix('u').and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok()).ok_or_else(wrong)?;
        let mut bits = Vec::new();
        GzDecoder::new(packed.as_slice()).take(MAX_BYTES).read_to_end(&mut bits).map_err(|_| wrong())?;
        if bits.len() * 8 < MIN_BITS {
            return Err(Error::Malformed(format!("a status list has at least {MIN_BITS} entries")));
        }
        Ok(Self(bits))
    }

    /// The subject of the list's credential.
    pub fn subject(&self, url: &str, purpose: Purpose) -> Result<Map<String, Value>, Error> {
        let subject = json!({
            "id": format!("{url}#list"), "type": "BitstringStatusList", "statusPurpose": purpose, "encodedList": self.encode()?,
        });
        Ok(subject.as_object().cloned().unwrap_or_default())
    }
}

/// What a set bit means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Taken back for good.
    Revocation,
    /// Does not hold at present.
    Suspension,
}

/// A `credentialStatus`: entry `index` in the list at `url`.
pub fn entry(url: &str, index: usize, purpose: Purpose) -> Value {
    json!({
        "id": format!("{url}#{index}"), "type": "BitstringStatusListEntry", "statusPurpose": purpose,
        "statusListIndex": index.to_string(), "statusListCredential": url,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_survive_the_way_and_nothing_else_is_set() {
        let mut list = StatusList::new(0);
        for index in [0, 7, 8, 94_567, MIN_BITS - 1] {
            list.revoke(index).unwrap();
        }
        let again = StatusList::decode(&list.encode().unwrap()).unwrap();
        assert_eq!(again, list);
        let set: Vec<usize> = (0..again.len()).filter(|index| again.is_revoked(*index).unwrap()).collect();
        assert_eq!(set, [0, 7, 8, 94_567, MIN_BITS - 1]);
        assert!(list.revoke(MIN_BITS).is_err());
        assert_eq!(again.0[0], 0b1000_0001, "the first entry is the leftmost bit");
    }

    #[test]
    fn foreign_lists_are_read_carefully() {
        for bad in ["", "z123", "u!!!", "uH4sI"] {
            assert!(StatusList::decode(bad).is_err(), "{bad}");
        }
    }
}
