//! A tree over a batch of hashes (RFC 6962), for lists that stand beside the log: an entry holds the root, so that a path from a
//! hash to that root and a path from the entry to a checkpoint prove the hash together.
//!
//! Leaf = SHA-256(0x00 ‖ hash).

use tlog_tiles::Hash;

use crate::{Error, Result, merkle, proof};

/// The tree over a batch: its root, and the path of every hash to it.
#[derive(Debug)]
pub struct BatchTree {
    /// The root.
    pub root: Hash,
    /// For each hash of the batch the hashes that lead from it to the root, its sibling first.
    pub paths: Vec<Vec<Hash>>,
}

impl BatchTree {
    /// The tree over `hashes`, in order; none over no hashes.
    pub fn of(hashes: &[Hash]) -> Option<Self> {
        let leaves: Vec<Hash> = hashes.iter().map(|hash| merkle::leaf(&hash.0)).collect();
        let mut paths = vec![Vec::new(); leaves.len()];
        let root = fold(&leaves, &mut paths)?;
        Some(Self { root, paths })
    }
}

/// RFC 6962, 2.1: the left half is the largest power of two that is smaller than the whole. All paths at once, because one by one they
/// would read most of the tree again for each hash.
fn fold(leaves: &[Hash], paths: &mut [Vec<Hash>]) -> Option<Hash> {
    match leaves {
        [] => return None,
        [one] => return Some(*one),
        _ => {}
    }
    let middle = leaves.len().checked_next_power_of_two()? / 2;
    let (left_paths, right_paths) = paths.split_at_mut_checked(middle)?;
    let (left, right) = (fold(&leaves[..middle], left_paths), fold(&leaves[middle..], right_paths));
    let (left, right) = (left?, right?);
    left_paths.iter_mut().for_each(|path| path.push(right));
    right_paths.iter_mut().for_each(|path| path.push(left));
    Some(tlog_tiles::node_hash(left, right))
}

/// Checks that `path` leads from `hash` at `index` to the root of a batch of `count` hashes.
pub fn check_path(path: &[Hash], count: u64, root: Hash, index: u64, hash: Hash) -> Result<()> {
    proof::check_inclusion(path, count, root, index, merkle::leaf(&hash.0))
        .map_err(|_| Error::Proof(format!("the path does not lead from hash {index} of {count} to the batch's root")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every hash of batches around the widths of tiles is proved, and nothing else is.
    #[test]
    fn every_hash_of_a_batch_has_a_path() {
        assert!(BatchTree::of(&[]).is_none());
        for count in [1, 2, 3, 7, 255, 256, 257, 600] {
            let hashes: Vec<Hash> = (0..count).map(|n: u64| merkle::leaf(&n.to_be_bytes())).collect();
            let BatchTree { root, paths } = BatchTree::of(&hashes).unwrap();
            let mut oracle = ct_merkle::mem_backed_tree::MemoryBackedTree::<sha2::Sha256, Vec<u8>>::new();
            hashes.iter().for_each(|hash| oracle.push(hash.0.to_vec()));
            assert_eq!(root.0.as_slice(), oracle.root().as_bytes().as_slice(), "{count} hashes");
            for ((index, hash), path) in (0..).zip(&hashes).zip(&paths) {
                check_path(path, count, root, index, *hash).unwrap();
                assert!(check_path(path, count, root, index, merkle::leaf(b"other")).is_err());
                assert!(count == 1 || check_path(path, count, root, (index + 1) % count, *hash).is_err());
            }
        }
    }
}
