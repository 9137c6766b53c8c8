//! Snapshots: everything the engine learned, as bytes, so that a restart forgets nothing.
//!
//! `CRDV`, a 16-bit version (little-endian), a 64-bit checksum (SipHash-1-3), then the state in postcard's format. Profiles and calibrations are settings,
//! not state: they are given again. A change of what is stored takes a new version.

use std::{
    hash::Hasher,
    sync::{Arc, atomic::AtomicUsize},
};

use serde::de::DeserializeOwned;
use siphasher::sip::SipHasher13;

use crate::{
    Error, Limits,
    state::{EarlierSaved, Saved, Shard4, Shard5, State},
};

const MAGIC: &[u8; 4] = b"CRDV";
const VERSION: u16 = 6;
/// It knew nothing of where values were lately.
const WITHOUT_LATELY: u16 = 5;
/// The oldest that is read: nor of after how long answers change.
const WITHOUT_AGES: u16 = 4;

pub(crate) fn save(state: &State) -> Result<Vec<u8>, Error> {
    let header = [MAGIC.as_slice(), &VERSION.to_le_bytes(), &[0; 8]].concat();
    let start = header.len();
    let mut bytes = postcard::to_extend(state, header).map_err(|e| Error::Snapshot(e.to_string()))?;
    let sum = checksum(&bytes[start..]);
    bytes[start - 8..start].copy_from_slice(&sum);
    Ok(bytes)
}

/// Tells damage, not forgery.
fn checksum(body: &[u8]) -> [u8; 8] {
    let mut hasher = SipHasher13::new();
    hasher.write(body);
    hasher.finish().to_le_bytes()
}

pub(crate) fn restore(limits: Limits, bytes: &[u8], total: Arc<AtomicUsize>) -> Result<State, Error> {
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| Error::Snapshot("it does not start with CRDV".into()))?;
    let short = || Error::Snapshot("it ends after its first bytes".into());
    let (version, rest) = rest.split_first_chunk().ok_or_else(short)?;
    let found = u16::from_le_bytes(*version);
    if found > VERSION {
        return Err(Error::NewerSnapshot { found, known: VERSION });
    }
    if found < WITHOUT_AGES {
        return Err(Error::OlderSnapshot { found, known: VERSION });
    }
    let (sum, body) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    if *sum != checksum(body) {
        return Err(Error::Snapshot("it is damaged: its checksum does not match".into()));
    }
    let saved = match found {
        WITHOUT_AGES => read::<EarlierSaved<Shard4>>(body)?.into(),
        WITHOUT_LATELY => read::<EarlierSaved<Shard5>>(body)?.into(),
        _ => read::<Saved>(body)?,
    };
    State::restore(limits, saved, total)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    let (saved, after) = postcard::take_from_bytes(body).map_err(|e| Error::Snapshot(e.to_string()))?;
    if !after.is_empty() {
        return Err(Error::Snapshot("it is longer than its content".into()));
    }
    Ok(saved)
}
