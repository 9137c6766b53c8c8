//! The digests of a call's parts as rows of a segment.
//!
//! A row holds the digests, one after the other; the paths they are of are the same for most calls of a tool and are kept once, in a row
//! of their own. Each digest takes 4 bytes where a path and a digest took 40.
//!
//! | key | value |
//! |---|---|
//! | a call's id | the key of its paths, a space, the digests |
//! | `paths:` and a hash | `[[paths of arguments], [paths of results]]` in JSON |
//!
//! Rows of earlier versions hold paths and digests in JSON and are read too. A row that an earlier version cannot read is one without
//! digests to it: it then names no parts that differ.

use credence_ledger::{Transaction, View};
use credence_protocol::Uuid;
use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};

use crate::{Error, parts::DIGEST_CHARS, records::PartDigests, segments::PARTS};

/// What the key of paths begins with: no call's id does.
const PATHS: &str = "paths:";
/// Characters of the hash in the key of paths: 96 bits.
const HASH_CHARS: usize = 16;

/// What is written of one call.
pub(crate) struct DigestRow {
    call: String,
    digests: String,
    paths_key: String,
    paths: String,
}

impl DigestRow {
    pub fn of(call: Uuid, parts: &PartDigests) -> Result<Self, Error> {
        let paths_of = |parts: &[(String, String)]| parts.iter().map(|(path, _)| path.clone()).collect::<Vec<String>>();
        let paths = serde_json::to_string(&(paths_of(&parts.arguments), paths_of(&parts.result)))?;
        let mut hash = BASE64URL_NOPAD.encode(&Sha256::digest(&paths));
        hash.truncate(HASH_CHARS);
        let all = parts.arguments.iter().chain(&parts.result).map(|(_, digest)| digest.as_str());
        let digests = format!("{hash} {}", all.collect::<String>());
        Ok(Self { call: call.to_string(), digests, paths_key: format!("{PATHS}{hash}"), paths })
    }

    pub fn put(&self, tx: &mut dyn Transaction) -> credence_ledger::Result<()> {
        if tx.get(PARTS, &self.paths_key)?.is_none() {
            tx.put(PARTS, &self.paths_key, &self.paths)?;
        }
        tx.put(PARTS, &self.call, &self.digests)
    }
}

/// The digests of a call's parts; `None` where there are none, or they cannot be read.
pub(crate) fn read(view: &dyn View, call: Uuid) -> Option<PartDigests> {
    let row = String::from_utf8(view.get(PARTS, &call.to_string()).ok()??).ok()?;
    if row.starts_with('{') {
        let mut parts: PartDigests = serde_json::from_str(&row).ok()?;
        for (_, digest) in parts.arguments.iter_mut().chain(&mut parts.result) {
            digest.truncate(DIGEST_CHARS);
        }
        return Some(parts);
    }
    let (hash, digests) = row.split_once(' ')?;
    let paths = view.get(PARTS, &format!("{PATHS}{hash}")).ok()??;
    let (arguments, result): (Vec<String>, Vec<String>) = serde_json::from_slice(&paths).ok()?;
    if !digests.is_ascii() || digests.len() != DIGEST_CHARS * (arguments.len() + result.len()) {
        return None;
    }
    let mut each = digests.as_bytes().chunks_exact(DIGEST_CHARS);
    let mut with = |paths: Vec<String>| {
        let digest = |chunk: &[u8]| String::from_utf8_lossy(chunk).into_owned();
        paths.into_iter().zip(each.by_ref()).map(|(path, chunk)| (path, digest(chunk))).collect::<Vec<_>>()
    };
    let arguments = with(arguments);
    Some(PartDigests { arguments, result: with(result) })
}

#[cfg(test)]
mod tests {
    use credence_protocol::{EntityId, SecretKey};

    use super::*;
    use crate::{BookSettings, ReceiptBook, folder};

    fn parts(digest: &str) -> PartDigests {
        let one = |path: &str| (path.to_owned(), digest.to_owned());
        PartDigests { arguments: vec![one("city")], result: vec![one("t"), one("wind.speed")] }
    }

    #[test]
    fn digests_come_back_and_paths_are_kept_once() {
        let state = tempfile::tempdir().unwrap();
        let place = folder::take_place(state.path(), "s").unwrap();
        let settings = BookSettings::new(&place, "s", EntityId::new("lab").unwrap(), SecretKey::generate().unwrap());
        let book = ReceiptBook::open(settings).unwrap();
        let (one, two, old) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
        book.flush_journal(vec![(one, parts("aaaa")), (two, parts("bbbb"))]).unwrap();
        let former = serde_json::to_string(&parts("ccccdddddddddddd")).unwrap();
        let log = book.current_log();
        credence_ledger::write(log.ledger(), move |tx| {
            tx.put(PARTS, &old.to_string(), &former)?;
            tx.put(PARTS, &Uuid::nil().to_string(), "no-such-paths xx")
        })
        .unwrap();
        let view = log.ledger().view().unwrap();
        assert_eq!(read(&*view, one), Some(parts("aaaa")));
        assert_eq!(read(&*view, two), Some(parts("bbbb")));
        assert_eq!(read(&*view, old), Some(parts("cccc")), "a row of an earlier version");
        assert_eq!(read(&*view, Uuid::nil()), None);
        let mut rows = 0;
        view.scan(PARTS, credence_ledger::Scan::prefix(PATHS), &mut |_, _| {
            rows += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(rows, 1);
    }
}
