//! The Merkle tree (RFC 6962) kept as C2SP tiles: 256 hashes each, the right edge growing.
//!
//! Hashing and proofs come from `tlog_tiles`; here is only where its hashes are kept.

use tlog_tiles::{Hash, HashReader, Tile};

use crate::{Error, Result};

/// Levels of the tree per tile (C2SP tlog-tiles).
pub const TILE_HEIGHT: u8 = 8;
/// Hashes of a full tile.
pub const TILE_WIDTH: usize = 1 << TILE_HEIGHT;
const HASH_BYTES: usize = tlog_tiles::HASH_SIZE;

/// Where tiles are read from.
pub trait TileSource {
    /// The hashes of a tile, as far as they exist.
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>>;
}

impl<V: crate::View + ?Sized> TileSource for V {
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        crate::View::tile(self, level, index)
    }
}

/// Hashes by storage index, out of tiles.
pub(crate) struct TileHashes<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: TileSource + ?Sized> HashReader for TileHashes<'_, T> {
    fn read_hashes(&self, indexes: &[u64]) -> std::result::Result<Vec<Hash>, tlog_tiles::Error> {
        let failed = |why: String| tlog_tiles::Error::InvalidInput(why);
        let mut hashes = Vec::with_capacity(indexes.len());
        let mut cached: Option<((u8, u64), Vec<u8>)> = None;
        for &index in indexes {
            let tile = Tile::from_index(TILE_HEIGHT, index);
            let at = (tile.level(), tile.level_index());
            if cached.as_ref().is_none_or(|(key, _)| *key != at) {
                let data = self.0.tile(at.0, at.1).map_err(|e| failed(e.to_string()))?;
                let data = data.ok_or_else(|| failed(format!("tile {}/{} is missing", at.0, at.1)))?;
                cached = Some((at, data));
            }
            if let Some((_, data)) = &cached {
                hashes.push(tile.hash_at_index(data, index)?);
            }
        }
        Ok(hashes)
    }
}

/// The root of the tree's first `size` leaves.
pub fn root(size: u64, tiles: &(impl TileSource + ?Sized)) -> Result<Hash> {
    tlog_tiles::tree_hash(size, &TileHashes(tiles)).map_err(|e| Error::Log(e.to_string()))
}

/// The leaf hash of an entry.
pub fn leaf(entry: &[u8]) -> Hash {
    tlog_tiles::record_hash(entry)
}

/// The tree's right edge: the unfinished tile of each level, and the size. Enough to append and to compute the root.
#[derive(Debug, Clone, Default)]
pub struct Edge {
    size: u64,
    levels: Vec<Vec<u8>>,
}

/// A tile that an append completed or widened.
#[derive(Debug)]
pub struct ChangedTile {
    /// Its level.
    pub level: u8,
    /// Its index.
    pub index: u64,
    /// Its hashes so far.
    pub hashes: Vec<u8>,
}

impl Edge {
    /// Reads the edge of a tree of `size` leaves.
    pub fn load(size: u64, tiles: &(impl TileSource + ?Sized)) -> Result<Self> {
        let mut levels = Vec::new();
        let mut width = size;
        while width > 0 {
            let (index, rest) = (width / TILE_WIDTH as u64, (width % TILE_WIDTH as u64) as usize);
            let level = levels.len() as u8;
            let bytes = rest * HASH_BYTES;
            let mut hashes = if rest == 0 { Vec::new() } else { tiles.tile(level, index)?.unwrap_or_default() };
            if hashes.len() < bytes {
                return Err(Error::Log(format!("tile {level}/{index} holds {} of {bytes} bytes", hashes.len())));
            }
            hashes.truncate(bytes);
            levels.push(hashes);
            width = index;
        }
        Ok(Self { size, levels })
    }

    /// Leaves so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Appends leaves; gives back the tiles that changed, each once, in its final form.
    pub fn extend(&mut self, leaves: &[Hash]) -> Vec<ChangedTile> {
        let mut full = Vec::new();
        for leaf in leaves {
            self.push(*leaf, &mut full);
        }
        let mut changed = full;
        let mut width = self.size;
        for (level, hashes) in self.levels.iter().enumerate() {
            let index = width / TILE_WIDTH as u64;
            if !hashes.is_empty() {
                changed.push(ChangedTile { level: level as u8, index, hashes: hashes.clone() });
            }
            width = index;
        }
        changed
    }

    fn push(&mut self, leaf: Hash, full: &mut Vec<ChangedTile>) {
        let mut carry = Some(leaf);
        let mut level = 0;
        let mut index = self.size / TILE_WIDTH as u64;
        while let Some(hash) = carry.take() {
            if level == self.levels.len() {
                self.levels.push(Vec::with_capacity(TILE_WIDTH * HASH_BYTES));
            }
            let hashes = &mut self.levels[level];
            hashes.extend_from_slice(&hash.0);
            if hashes.len() == TILE_WIDTH * HASH_BYTES {
                carry = Some(Tile::subtree_hash(hashes));
                full.push(ChangedTile { level: level as u8, index, hashes: std::mem::take(hashes) });
                level += 1;
                index /= TILE_WIDTH as u64;
            }
        }
        self.size += 1;
    }

    /// The tree's root.
    pub fn root(&self) -> Result<Hash> {
        root(self.size, self)
    }
}

/// The edge alone serves the hashes that a root needs.
impl TileSource for Edge {
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        let at_edge = self.size >> (8 * (u32::from(level) + 1)).min(63);
        let hashes = self.levels.get(usize::from(level)).filter(|_| index == at_edge);
        Ok(hashes.cloned())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A tree in memory, grown leaf by leaf or in batches.
    #[derive(Default)]
    pub(crate) struct MemoryTree {
        pub(crate) edge: Edge,
        tiles: BTreeMap<(u8, u64), Vec<u8>>,
    }

    impl MemoryTree {
        pub(crate) fn extend(&mut self, leaves: &[Hash]) {
            for tile in self.edge.extend(leaves) {
                self.tiles.insert((tile.level, tile.index), tile.hashes);
            }
        }
    }

    impl TileSource for MemoryTree {
        fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
            Ok(self.tiles.get(&(level, index)).cloned())
        }
    }

    pub(crate) fn entry(n: u64) -> Vec<u8> {
        format!("entry {n}").into_bytes()
    }

    /// Our roots equal those of an independent RFC 6962 implementation, at every size across two tile boundaries.
    #[test]
    fn roots_equal_ct_merkle() {
        let mut oracle = ct_merkle::mem_backed_tree::MemoryBackedTree::<sha2::Sha256, Vec<u8>>::new();
        let mut tree = MemoryTree::default();
        for n in 0..700 {
            oracle.push(entry(n));
            tree.extend(&[leaf(&entry(n))]);
            let expected = oracle.root();
            assert_eq!(tree.edge.root().unwrap().0.as_slice(), expected.as_bytes().as_slice(), "size {}", n + 1);
            assert_eq!(root(n + 1, &tree).unwrap(), tree.edge.root().unwrap());
        }
    }

    #[test]
    fn batches_and_reloads_make_no_difference() {
        let leaves: Vec<Hash> = (0..70_000).map(|n| leaf(&entry(n))).collect();
        let mut whole = MemoryTree::default();
        whole.extend(&leaves);
        let mut parts = MemoryTree::default();
        for batch in leaves.chunks(999) {
            parts.extend(batch);
            parts.edge = Edge::load(parts.edge.size(), &parts).unwrap();
        }
        assert_eq!(parts.edge.root().unwrap(), whole.edge.root().unwrap());
        assert_eq!(parts.tiles, whole.tiles);
        // C2SP tlog-tiles' own example: 70,000 leaves are 273 full tiles and 112 hashes, then 1 and 17, then 1.
        let width = |level, index| whole.tiles[&(level, index)].len() / 32;
        assert_eq!((width(0, 272), width(0, 273), width(1, 0), width(1, 1), width(2, 0)), (256, 112, 256, 17, 1));
    }
}
