//! Signed responses that left: what is recorded of them, kept of them and proved (docs/adr/0021).
//!
//! The hashes of the responses that left within a second are a batch. An entry holds the root of the tree over the batch
//! ([`credence_ledger::batch`]) and how many hashes are in it, so that readers, who cost nothing, grow the log by one small entry a
//! second at most. The hashes stand beside the log, each with its path to the root, written in the unit of work that appends the
//! entry. They follow from no entry: replay neither drops nor rebuilds them.
//!
//! A hash is kept until [`KEPT_SECONDS`] after its response expired. Beyond [`Settings::response_hashes`](crate::Settings) of one
//! class the oldest of that class go first: readers without a token never crowd out the bearers of tokens.

use std::ops::ControlFlow;

use credence_ledger::{
    Checkpoint, Entry, Hash, Kind, LogVerifier, Overlay, Scan, Transaction, View,
    batch::{self, BatchTree},
    proof::InclusionProof,
    write,
};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, Timestamp};
use data_encoding::{BASE64, HEXLOWER};
use serde::{Deserialize, Serialize};

use crate::{
    Authority, Error, Result,
    record::{CitedResponse, Record, ResponsesRecord},
    registry::append,
    replay::Findings,
    tables,
};

/// How long a hash is kept after its response expired: 90 days.
pub const KEPT_SECONDS: i64 = 90 * 86_400;
/// Hashes that are kept of each class where the operator sets nothing else: 0.3 to 1 GB of each, by how many
/// leave in a second.
pub const DEFAULT_HASHES: u64 = 1_000_000;
/// Hashes past their time that one batch removes, so that no unit of work takes long.
const EXPIRED_AT_ONCE: usize = 2_000;

/// The first line of a [`ResponseProof`].
const PROOF: &str = "credence.log/response@v1";

/// Who asked for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReaderClass {
    /// Somebody without a token.
    Anonymous,
    /// The bearer of a token, or the operator.
    Bearer,
}

impl ReaderClass {
    const ALL: [Self; 2] = [Self::Anonymous, Self::Bearer];

    fn key(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous",
            Self::Bearer => "bearer",
        }
    }

    /// The row with the number of hashes of this class.
    fn count_key(self) -> String {
        format!("count/{}", self.key())
    }
}

/// A signed response that left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentResponse {
    /// SHA-256 of what was signed, in hex.
    pub hash: String,
    /// Until when the response can be relied on.
    pub expires: Timestamp,
    /// Who asked for it.
    pub class: ReaderClass,
}

/// A hash that is kept, and how it leads to the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HashRow {
    /// The entry that holds the batch's root.
    pub seq: u64,
    /// The hash's place in the batch.
    pub index: u64,
    /// From the hash to the root, in base64, the hash's sibling first.
    pub path: Vec<String>,
    /// Who asked for the response.
    pub class: ReaderClass,
    /// Kept until then, where there is room.
    pub until: Timestamp,
}

impl Authority {
    /// Records that signed responses left: one entry with the root of the batch, and the hashes beside the log. Gives the entry,
    /// if there was anything to record.
    pub fn record_responses(&self, sent: Vec<SentResponse>) -> Result<Option<u64>> {
        let hashes = sent.iter().map(|sent| hash_of(&sent.hash)).collect::<Result<Vec<_>>>()?;
        let Some(BatchTree { root, paths }) = BatchTree::of(&hashes) else { return Ok(None) };
        let record = ResponsesRecord { root: BASE64.encode(&root.0), count: hashes.len() as u64 };
        let mut rows = Vec::with_capacity(sent.len());
        for ((index, sent), path) in (0..).zip(&sent).zip(&paths) {
            let path = path.iter().map(|hash| BASE64.encode(&hash.0)).collect();
            let (class, until) = (sent.class, sent.expires.plus_seconds(KEPT_SECONDS));
            rows.push((sent.hash.clone(), HashRow { seq: 0, index, path, class, until }));
        }
        let (authority, record) = (EntityId::new(AUTHORITY_SOURCE)?, Record::Responses(record));
        let bound = self.response_hashes();
        let clock = self.now();
        write(self.ledger(), move |tx| {
            Overlay::run(tx, |tx| {
                let seq = append(tx, &authority, &record)?;
                keep(tx, &rows, seq)?;
                ReaderClass::ALL.into_iter().try_for_each(|class| prune(tx, class, bound, clock))?;
                Ok(Some(seq))
            })
        })
    }
}

/// Writes the rows of a batch.
fn keep(tx: &mut Overlay<'_>, rows: &[(String, HashRow)], seq: u64) -> Result<()> {
    tx.prefetch(tables::RESPONSE_HASHES, rows.iter().map(|(hash, _)| hash.as_str()))?;
    let mut taken_over = 0;
    for class in ReaderClass::ALL {
        let mut count: u64 = tables::get(tx, tables::RESPONSE_AGES, &class.count_key())?.unwrap_or_default();
        for (hash, row) in rows.iter().filter(|(_, row)| row.class == class) {
            // The same response again is proved by its first batch. Once a bearer of a token has it, it counts among theirs.
            let kept = match tables::get::<HashRow>(tx, tables::RESPONSE_HASHES, hash)? {
                None => HashRow { seq, ..row.clone() },
                Some(known) if known.class == ReaderClass::Anonymous && class == ReaderClass::Bearer => {
                    tx.delete(tables::RESPONSE_AGES, &age_key(hash, &known))?;
                    taken_over += 1;
                    HashRow { class, ..known }
                }
                Some(_) => continue,
            };
            tables::put(tx, tables::RESPONSE_AGES, &age_key(hash, &kept), &())?;
            tables::put(tx, tables::RESPONSE_HASHES, hash, &kept)?;
            count += 1;
        }
        tables::put(tx, tables::RESPONSE_AGES, &class.count_key(), &count)?;
    }
    if taken_over > 0 {
        let key = ReaderClass::Anonymous.count_key();
        let count: u64 = tables::get(tx, tables::RESPONSE_AGES, &key)?.unwrap_or_default();
        tables::put(tx, tables::RESPONSE_AGES, &key, &count.saturating_sub(taken_over))?;
    }
    Ok(())
}

/// Where a hash stands among those of its class, the oldest first.
fn age_key(hash: &str, row: &HashRow) -> String {
    format!("{}/{:020}/{hash}", row.class.key(), row.until.micros())
}

/// Removes what is beyond the bound, and some of what is past its time.
fn prune(tx: &mut Overlay<'_>, class: ReaderClass, bound: u64, now: Timestamp) -> Result<()> {
    let count: u64 = tables::get(tx, tables::RESPONSE_AGES, &class.count_key())?.unwrap_or_default();
    let beyond = usize::try_from(count.saturating_sub(bound)).unwrap_or(usize::MAX);
    let now = format!("{}/{:020}", class.key(), now.micros());
    let mut gone: Vec<String> = Vec::new();
    tx.scan(tables::RESPONSE_AGES, Scan::prefix(&format!("{}/", class.key())), &mut |key, _| {
        let expired = gone.len() < beyond.saturating_add(EXPIRED_AT_ONCE) && *key < *now;
        if gone.len() >= beyond && !expired {
            return ControlFlow::Break(());
        }
        gone.push(key.to_owned());
        ControlFlow::Continue(())
    })?;
    for key in &gone {
        tx.delete(tables::RESPONSE_AGES, key)?;
        tx.delete(tables::RESPONSE_HASHES, key.rsplit('/').next().unwrap_or_default())?;
    }
    if !gone.is_empty() {
        let left = count.saturating_sub(gone.len() as u64);
        tables::put(tx, tables::RESPONSE_AGES, &class.count_key(), &left)?;
    }
    Ok(())
}

/// A response by the hash that is kept of it, as an outcome cites it.
pub(crate) fn cite(view: &(impl View + ?Sized), hash: &str) -> Result<Option<CitedResponse>> {
    let row: Option<HashRow> = tables::get(view, tables::RESPONSE_HASHES, hash)?;
    Ok(row.map(|HashRow { seq, index, path, .. }| CitedResponse { hash: hash.to_owned(), entry: seq, index, path }))
}

/// What is wrong with a citation in an entry at `seq`, if anything is. Needs nothing but the entries.
pub(crate) fn wrong_with(view: &(impl View + ?Sized), cited: &CitedResponse, seq: u64) -> Result<Option<String>> {
    if cited.entry >= seq {
        return Ok(Some(format!("response: entry {} is not before this one", cited.entry)));
    }
    let bytes = view.entry(cited.entry)?.unwrap_or_default();
    Ok(check(cited, &bytes).err().map(|error| format!("response: {error}")))
}

/// Checks that the path of a citation leads to the root that the entry `bytes` holds.
fn check(cited: &CitedResponse, bytes: &[u8]) -> Result<()> {
    let entry = Entry::parse(cited.entry, bytes)?;
    if entry.kind != Kind::Responses {
        return Err(wrong(format!("entry {} records no responses", cited.entry)).into());
    }
    let record: ResponsesRecord = entry.record(cited.entry)?;
    let path = cited.path.iter().map(|text| base64_hash(text)).collect::<Result<Vec<_>>>()?;
    let (root, hash) = (base64_hash(&record.root)?, hash_of(&cited.hash)?);
    Ok(batch::check_path(&path, record.count, root, cited.index, hash)?)
}

/// Compares the hashes beside the log with the roots in it; what an audit has to say of them.
pub(crate) fn audit(view: &dyn View, findings: &mut Findings) -> Result<u64> {
    let mut counts = [0_u64; 2];
    let mut failed = Ok(());
    view.scan(tables::RESPONSE_HASHES, Scan::all(), &mut |hash, bytes| {
        let row: HashRow = match tables::parse(tables::RESPONSE_HASHES, hash, bytes) {
            Ok(row) => row,
            Err(damaged) => {
                findings.add(None, damaged.to_string());
                return ControlFlow::Continue(());
            }
        };
        counts[usize::from(row.class == ReaderClass::Bearer)] += 1;
        match audit_row(view, hash, row) {
            Ok(wrong) => wrong.into_iter().for_each(|what| findings.add(None, what)),
            Err(error) => {
                failed = Err(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    })?;
    failed?;
    for (class, count) in ReaderClass::ALL.into_iter().zip(counts) {
        let counted: u64 = tables::get(view, tables::RESPONSE_AGES, &class.count_key())?.unwrap_or_default();
        if counted != count {
            let what = format!("{counted} hashes of {} responses are counted, {count} are there", class.key());
            findings.add(None, what);
        }
    }
    Ok(counts.iter().sum())
}

fn audit_row(view: &dyn View, hash: &str, row: HashRow) -> Result<Option<String>> {
    if view.get(tables::RESPONSE_AGES, &age_key(hash, &row))?.is_none() {
        return Ok(Some(format!("the hash {hash} beside the log is missing in the order of ages")));
    }
    let HashRow { seq: entry, index, path, .. } = row;
    let cited = CitedResponse { hash: hash.to_owned(), entry, index, path };
    let wrong = wrong_with(view, &cited, u64::MAX)?;
    Ok(wrong.map(|what| format!("the hash {hash} beside the log does not lead to entry {entry}: {what}")))
}

/// That a signed response left: from its hash to the root of a batch, and from the entry with that root to a signed checkpoint.
///
/// ```text
/// credence.log/response@v1
/// hash <hex>
/// index 7
/// <base64 hash>…
/// (blank)
/// <inclusion proof of the entry, C2SP tlog-proof>
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseProof {
    /// The hash, and its path to the batch's root.
    pub cited: CitedResponse,
    /// The proof that the entry with that root is in the log.
    pub inclusion: InclusionProof,
}

impl ResponseProof {
    /// The proof for `hash`, in lower-case hex, under the view's newest checkpoint; none where no such hash is kept.
    pub fn make(view: &dyn View, log: &LogVerifier, hash: &str) -> Result<Option<Self>> {
        let Some(cited) = cite(view, hash)? else { return Ok(None) };
        let checkpoint = view.checkpoint()?.unwrap_or_default();
        let size = Checkpoint::open(&checkpoint, log)?.size;
        let hashes = credence_ledger::proof::inclusion(size, cited.entry, view)?;
        let entry = view.entry(cited.entry)?.unwrap_or_default();
        let inclusion = InclusionProof { entry, seq: cited.entry, hashes, checkpoint };
        Ok(Some(Self { cited, inclusion }))
    }

    /// Verifies both paths and the checkpoint's signature; gives the checkpoint.
    pub fn verify(&self, log: &LogVerifier) -> Result<Checkpoint> {
        let checkpoint = self.inclusion.verify(log)?;
        check(&self.cited, &self.inclusion.entry)?;
        Ok(checkpoint)
    }

    /// As a file.
    pub fn to_text(&self) -> String {
        let CitedResponse { hash, index, path, .. } = &self.cited;
        let path: String = path.iter().map(|hash| format!("{hash}\n")).collect();
        format!("{PROOF}\nhash {hash}\nindex {index}\n{path}\n{}", self.inclusion.to_text())
    }

    /// From a file.
    pub fn parse(text: &str) -> Result<Self> {
        let no = |why: &str| wrong(format!("not a proof: {why}"));
        let (head, rest) = text.split_once("\n\n").ok_or_else(|| no("no blank line after the first path"))?;
        let mut lines = head.lines();
        if lines.next() != Some(PROOF) {
            return Err(no("unknown first line").into());
        }
        let hash = lines.next().and_then(|line| line.strip_prefix("hash ")).ok_or_else(|| no("no hash"))?;
        let index = lines.next().and_then(|line| line.strip_prefix("index ")).ok_or_else(|| no("no index"))?;
        let number: u64 = index.parse().map_err(|_| no("the index is not a number"))?;
        if number.to_string() != index {
            return Err(no("the index is not written canonically").into());
        }
        let path = lines.map(|line| base64_hash(line).map(|_| line.to_owned())).collect::<Result<_>>()?;
        let inclusion = InclusionProof::parse(rest)?;
        let cited = CitedResponse { hash: hash.to_owned(), entry: inclusion.seq, index: number, path };
        Ok(Self { cited, inclusion })
    }

    /// Whether `text` claims to be one.
    pub fn recognises(text: &str) -> bool {
        text.starts_with(PROOF)
    }
}

fn wrong(why: String) -> credence_ledger::Error {
    credence_ledger::Error::Proof(why)
}

/// A response's hash, written as 64 hexadecimal digits in lower case.
pub(crate) fn hash_of(text: &str) -> Result<Hash> {
    let bytes = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    let no = || Error::from(wrong("the SHA-256 of a signed response, 64 hexadecimal digits".into()));
    bytes.map(Hash).ok_or_else(no)
}

fn base64_hash(text: &str) -> Result<Hash> {
    let bytes = BASE64.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map(Hash).ok_or_else(|| wrong(format!("'{text}' is not a hash in base64")).into())
}
