//! Proofs as files, checkable offline with the log's public key alone.
//!
//! Inclusion is the C2SP tlog-proof text; its `extra` line carries the entry itself, which the proof authenticates
//! because the entry is the leaf. Consistency has no standard file form: ours is the same shape, with two checkpoints.
//!
//! ```text
//! c2sp.org/tlog-proof@v1        credence.log/consistency@v1
//! extra <base64 entry>          <base64 hash>…
//! index 7                       (blank)
//! <base64 hash>…                <older checkpoint>
//! (blank)                       (blank, "---", blank)
//! <checkpoint>                  <newer checkpoint>
//! ```

use data_encoding::BASE64;
use tlog_tiles::Hash;

use crate::{
    Checkpoint, Error, LogVerifier, Result,
    merkle::{self, TileHashes, TileSource},
};

const INCLUSION: &str = "c2sp.org/tlog-proof@v1";
const CONSISTENCY: &str = "credence.log/consistency@v1";
const BETWEEN_CHECKPOINTS: &str = "\n\n---\n\n";

/// That an entry is in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct InclusionProof {
    /// The entry's bytes.
    pub entry: Vec<u8>,
    /// Its sequence number.
    pub seq: u64,
    /// The path from the leaf to the root, leaf's sibling first.
    pub hashes: Vec<Hash>,
    /// The signed checkpoint the path leads to.
    pub checkpoint: String,
}

/// That a later log extends an earlier one.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsistencyProof {
    /// The proof's hashes.
    pub hashes: Vec<Hash>,
    /// The earlier signed checkpoint.
    pub older: String,
    /// The later signed checkpoint.
    pub newer: String,
}

/// The hashes that lead from leaf `seq` to the root of the first `size` leaves.
pub fn inclusion(size: u64, seq: u64, tiles: &(impl TileSource + ?Sized)) -> Result<Vec<Hash>> {
    if seq >= size {
        return Err(Error::Proof(format!("there is no entry {seq}: the log has {size}")));
    }
    tlog_tiles::prove_record(size, seq, &TileHashes(tiles)).map_err(|e| Error::Log(e.to_string()))
}

/// The hashes that show how the first `newer` leaves extend the first `older`.
pub fn consistency(older: u64, newer: u64, tiles: &(impl TileSource + ?Sized)) -> Result<Vec<Hash>> {
    if older == 0 || older > newer {
        return Err(Error::Proof(format!("sizes must be 1 ≤ {older} ≤ {newer}")));
    }
    tlog_tiles::prove_tree(newer, older, &TileHashes(tiles)).map_err(|e| Error::Log(e.to_string()))
}

/// Checks an inclusion path.
pub fn check_inclusion(hashes: &[Hash], size: u64, root: Hash, seq: u64, leaf: Hash) -> Result<()> {
    if seq >= size {
        return Err(Error::Proof(format!("index {seq} is not in a log of {size} entries")));
    }
    tlog_tiles::check_record(&hashes.to_vec(), size, root, seq, leaf)
        .map_err(|_| Error::Proof(format!("the path does not lead from entry {seq} to the checkpoint's root")))
}

/// Checks a consistency proof.
pub fn check_consistency(hashes: &[Hash], newer: (u64, Hash), older: (u64, Hash)) -> Result<()> {
    if older.0 == 0 || older.0 > newer.0 {
        return Err(Error::Proof(format!("sizes must be 1 ≤ {} ≤ {}", older.0, newer.0)));
    }
    tlog_tiles::check_tree(&hashes.to_vec(), newer.0, newer.1, older.0, older.1)
        .map_err(|_| Error::Proof(format!("the log of {} entries does not extend the one of {}", newer.0, older.0)))
}

impl InclusionProof {
    /// Verifies signature and path; gives the checkpoint it rests on.
    pub fn verify(&self, log: &LogVerifier) -> Result<Checkpoint> {
        let checkpoint = Checkpoint::open(&self.checkpoint, log)?;
        check_inclusion(&self.hashes, checkpoint.size, checkpoint.root, self.seq, merkle::leaf(&self.entry))?;
        Ok(checkpoint)
    }

    /// As a file.
    pub fn to_text(&self) -> String {
        let Self { entry, seq, hashes, checkpoint } = self;
        let hashes: String = hashes.iter().map(|hash| format!("{}\n", BASE64.encode(&hash.0))).collect();
        format!("{INCLUSION}\nextra {}\nindex {seq}\n{hashes}\n{checkpoint}", BASE64.encode(entry))
    }

    /// From a file.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::Proof(format!("not a proof: {why}"));
        let (head, checkpoint) = text.split_once("\n\n").ok_or_else(|| wrong("no blank line before the checkpoint"))?;
        let mut lines = head.lines();
        if lines.next() != Some(INCLUSION) {
            return Err(wrong("unknown first line"));
        }
        let extra = lines.next().and_then(|line| line.strip_prefix("extra ")).ok_or_else(|| wrong("no entry in it"))?;
        let entry = BASE64.decode(extra.as_bytes()).map_err(|_| wrong("the entry is not base64"))?;
        let index = lines.next().and_then(|line| line.strip_prefix("index ")).ok_or_else(|| wrong("no index"))?;
        let seq: u64 = index.parse().map_err(|_| wrong("the index is not a number"))?;
        if seq.to_string() != index {
            return Err(wrong("the index is not written canonically"));
        }
        Ok(Self { entry, seq, hashes: parse_hashes(lines)?, checkpoint: checkpoint.to_owned() })
    }
}

impl ConsistencyProof {
    /// Verifies both signatures and the proof; gives the older and the newer checkpoint.
    pub fn verify(&self, log: &LogVerifier) -> Result<(Checkpoint, Checkpoint)> {
        let (older, newer) = (Checkpoint::open(&self.older, log)?, Checkpoint::open(&self.newer, log)?);
        check_consistency(&self.hashes, (newer.size, newer.root), (older.size, older.root))?;
        Ok((older, newer))
    }

    /// As a file.
    pub fn to_text(&self) -> String {
        let Self { hashes, older, newer } = self;
        let hashes: String = hashes.iter().map(|hash| format!("{}\n", BASE64.encode(&hash.0))).collect();
        format!("{CONSISTENCY}\n{hashes}\n{}{BETWEEN_CHECKPOINTS}{newer}", older.trim_end_matches('\n'))
    }

    /// From a file.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::Proof(format!("not a proof: {why}"));
        let (head, checkpoints) = text.split_once("\n\n").ok_or_else(|| wrong("no blank line after the hashes"))?;
        let mut lines = head.lines();
        if lines.next() != Some(CONSISTENCY) {
            return Err(wrong("unknown first line"));
        }
        let (older, newer) =
            checkpoints.split_once(BETWEEN_CHECKPOINTS).ok_or_else(|| wrong("two checkpoints expected"))?;
        Ok(Self { hashes: parse_hashes(lines)?, older: format!("{older}\n"), newer: newer.to_owned() })
    }

    /// Whether `text` claims to be one.
    pub fn recognises(text: &str) -> bool {
        text.starts_with(CONSISTENCY)
    }
}

impl InclusionProof {
    /// Whether `text` claims to be one.
    pub fn recognises(text: &str) -> bool {
        text.starts_with(INCLUSION)
    }
}

fn parse_hashes<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<Hash>> {
    lines
        .map(|line| {
            let bytes = BASE64.decode(line.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
            bytes.map(Hash).ok_or_else(|| Error::Proof(format!("not a proof: '{line}' is not a hash")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        LogKey,
        merkle::tests::{MemoryTree, entry},
    };
    use credence_protocol::SecretKey;
    use proptest::prelude::*;

    const LARGEST: u64 = 3_000;
    const EXHAUSTIVE: u64 = 300;
    const EXHAUSTIVE_LONG: u64 = 1_500;

    fn tree(size: u64) -> MemoryTree {
        let mut tree = MemoryTree::default();
        tree.extend(&(0..size).map(|n| merkle::leaf(&entry(n))).collect::<Vec<_>>());
        tree
    }

    /// For every size up to [`LARGEST`]: inclusion of entries at the edges and in between, consistency with the half-sized
    /// log. For every size up to [`EXHAUSTIVE`] ([`EXHAUSTIVE_LONG`] in the long mode): every entry, every older size.
    #[test]
    fn proofs_for_every_size_verify() {
        let exhaustive = if std::env::var_os("LONG_TESTS").is_some() { EXHAUSTIVE_LONG } else { EXHAUSTIVE };
        let tree = tree(LARGEST);
        let roots: Vec<Hash> = (0..=LARGEST).map(|size| merkle::root(size, &tree).unwrap()).collect();
        let leaves: Vec<Hash> = (0..LARGEST).map(|n| merkle::leaf(&entry(n))).collect();
        for size in 1..=LARGEST {
            let root = roots[size as usize];
            let (seqs, olders): (Vec<u64>, Vec<u64>) = if size <= exhaustive {
                ((0..size).collect(), (1..=size).collect())
            } else {
                (vec![0, size / 3, size / 2, size - 1], vec![1, size.div_ceil(2), size - 1, size])
            };
            for seq in seqs {
                let path = inclusion(size, seq, &tree).unwrap();
                check_inclusion(&path, size, root, seq, leaves[seq as usize]).unwrap();
                assert!(check_inclusion(&path, size, root, seq, merkle::leaf(b"other")).is_err());
            }
            for older in olders {
                let path = consistency(older, size, &tree).unwrap();
                check_consistency(&path, (size, root), (older, roots[older as usize])).unwrap();
            }
        }
    }

    /// Our proofs satisfy an independent RFC 6962 implementation.
    #[test]
    fn proofs_equal_ct_merkle() {
        let tree = tree(600);
        let mut oracle = ct_merkle::mem_backed_tree::MemoryBackedTree::<sha2::Sha256, Vec<u8>>::new();
        for size in 1..=600_u64 {
            oracle.push(entry(size - 1));
            let seq = size * 7 % size.max(1);
            let bytes = |hashes: Vec<Hash>| hashes.iter().flat_map(|h| h.0).collect::<Vec<u8>>();
            let expected = oracle.prove_inclusion(seq as usize);
            assert_eq!(bytes(inclusion(size, seq, &tree).unwrap()), expected.as_bytes());
            if size > 1 {
                let expected = oracle.prove_consistency((size / 2) as usize);
                assert_eq!(bytes(consistency(size - size / 2, size, &tree).unwrap()), expected.as_bytes());
            }
        }
    }

    #[test]
    fn out_of_range_is_an_error_not_a_panic() {
        let tree = tree(5);
        assert!(inclusion(5, 5, &tree).is_err());
        assert!(consistency(0, 5, &tree).is_err() && consistency(6, 5, &tree).is_err());
        assert!(check_inclusion(&[], 0, Hash([0; 32]), 0, Hash([0; 32])).is_err());
        assert!(check_consistency(&[], (1, Hash([0; 32])), (2, Hash([0; 32]))).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Any one byte of an inclusion or consistency proof file, changed, is noticed.
        #[test]
        fn a_changed_byte_is_noticed(size in 2u64..700, pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), flip in 1u8..128) {
            let tree = tree(size);
            let key = LogKey::new("example.org/log", &SecretKey::from_seed(&[9; 32])).unwrap();
            let sign = |size| key.sign(size, merkle::root(size, &tree).unwrap()).unwrap();
            let seq = pick.index(size as usize) as u64;
            let proof = InclusionProof { entry: entry(seq), seq, hashes: inclusion(size, seq, &tree).unwrap(), checkpoint: sign(size) };
            prop_assert_eq!(&InclusionProof::parse(&proof.to_text()).unwrap(), &proof);
            proof.verify(key.verifier()).unwrap();
            let mut bytes = proof.to_text().into_bytes();
            let at_byte = at.index(bytes.len());
            bytes[at_byte] ^= flip;
            let noticed = String::from_utf8(bytes).map_or(true, |text| InclusionProof::parse(&text).and_then(|p| p.verify(key.verifier())).is_err());
            prop_assert!(noticed, "byte {at_byte}");

            let older = 1 + pick.index((size - 1) as usize) as u64;
            let proof = ConsistencyProof { hashes: consistency(older, size, &tree).unwrap(), older: sign(older), newer: sign(size) };
            prop_assert_eq!(&ConsistencyProof::parse(&proof.to_text()).unwrap(), &proof);
            proof.verify(key.verifier()).unwrap();
            let mut bytes = proof.to_text().into_bytes();
            let at_byte = at.index(bytes.len());
            bytes[at_byte] ^= flip;
            let noticed = String::from_utf8(bytes).map_or(true, |text| ConsistencyProof::parse(&text).and_then(|p| p.verify(key.verifier())).is_err());
            prop_assert!(noticed, "byte {at_byte}");
        }
    }
}
