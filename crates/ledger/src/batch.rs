//! A tree over a batch of hashes (RFC 6962), for lists that stand beside the log: an entry holds the root, so that a path from a
//! hash to that root and a path from the entry to a checkpoint prove the hash together.
//!
//! Leaf = SHA-256(0x00 ‖ hash).

use std::collections::BTreeMap;

use tlog_tiles::Hash;

use crate::{
    Error, Result,
    merkle::{self, Edge, TileSource},
    proof,
};

/// The tree over a batch, with all of its hashes in memory.
#[derive(Debug)]
pub struct BatchTree {
    edge: Edge,
    tiles: BTreeMap<(u8, u64), Vec<u8>>,
}

impl BatchTree {
    /// The tree over `hashes`, in order.
    pub fn of(hashes: &[Hash]) -> Self {
        let leaves: Vec<Hash> = hashes.iter().map(|hash| merkle::leaf(&hash.0)).collect();
        let mut edge = Edge::default();
        let tiles = edge.extend(&leaves).into_iter().map(|tile| ((tile.level, tile.index), tile.hashes)).collect();
        Self { edge, tiles }
    }

    /// Its root.
    pub fn root(&self) -> Result<Hash> {
        self.edge.root()
    }

    /// The hashes that lead from the one at `index` to the root, its sibling first.
    pub fn path(&self, index: u64) -> Result<Vec<Hash>> {
        proof::inclusion(self.edge.size(), index, self)
    }
}

impl TileSource for BatchTree {
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.tiles.get(&(level, index)).cloned())
    }
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
        for count in [1, 2, 3, 7, 255, 256, 257, 600] {
            let hashes: Vec<Hash> = (0..count).map(|n: u64| merkle::leaf(&n.to_be_bytes())).collect();
            let tree = BatchTree::of(&hashes);
            let root = tree.root().unwrap();
            let mut oracle = ct_merkle::mem_backed_tree::MemoryBackedTree::<sha2::Sha256, Vec<u8>>::new();
            hashes.iter().for_each(|hash| oracle.push(hash.0.to_vec()));
            assert_eq!(root.0.as_slice(), oracle.root().as_bytes().as_slice(), "{count} hashes");
            for (index, hash) in (0..).zip(&hashes) {
                let path = tree.path(index).unwrap();
                check_path(&path, count, root, index, *hash).unwrap();
                assert!(check_path(&path, count, root, index, merkle::leaf(b"other")).is_err());
                assert!(count == 1 || check_path(&path, count, root, (index + 1) % count, *hash).is_err());
            }
            assert!(tree.path(count).is_err());
        }
    }
}
