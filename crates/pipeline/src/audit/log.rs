//! A ledger as a log: no gap between entries, every leaf, tile and root made again, the checkpoint in the database and the one outside
//! it. What the entries mean is the business of the caller.

use credence_ledger::{
    Checkpoint, Hash, LogVerifier, View,
    merkle::{ChangedTile, Edge, TILE_WIDTH},
};
use serde_json::Value;

use crate::{Result, replay::Findings};
use credence_protocol::Canonical;

/// The log as far as it was followed.
pub(crate) struct LogAudit<'a> {
    view: &'a dyn View,
    tree: Edge,
    outside: Option<(u64, Hash)>,
    next_seq: u64,
    /// The size of the checkpoint outside the database, once the log was found to reach it.
    pub(crate) outside_size: Option<u64>,
}

impl<'a> LogAudit<'a> {
    /// Begins at the first entry.
    pub(crate) fn begin(
        view: &'a dyn View,
        outside: &credence_ledger::Result<Checkpoint>,
        findings: &mut Findings,
    ) -> Result<Self> {
        if let Err(error) = outside {
            findings.add(None, error.to_string());
        }
        for missing in view.missing_protections()? {
            findings.add(None, format!("{missing}: the database no longer refuses to change entries"));
        }
        let outside = outside.as_ref().ok().map(|outside| (outside.size, outside.root));
        Ok(Self { view, tree: Edge::default(), outside, next_seq: 0, outside_size: None })
    }

    /// Notes that the entry at `seq` is there: those before it should have been, too.
    pub(crate) fn reached(&mut self, seq: u64, findings: &mut Findings) {
        if seq > self.next_seq {
            let what = if seq - self.next_seq == 1 {
                "the entry is missing".to_owned()
            } else {
                format!("the entries from here to {} are missing", seq - 1)
            };
            findings.add(self.next_seq, what);
        }
        self.next_seq = seq + 1;
    }

    /// Compares the next entries' hashes with those that the log was built over, and grows the recomputed tree.
    pub(crate) fn grow(&mut self, leaves: &[(u64, Hash)], findings: &mut Findings) -> Result<()> {
        let mut tile: Option<(u64, Vec<u8>)> = None;
        for (seq, leaf) in leaves {
            let (index, at) = (seq / TILE_WIDTH as u64, (seq % TILE_WIDTH as u64) as usize * 32);
            if tile.as_ref().is_none_or(|(loaded, _)| *loaded != index) {
                tile = Some((index, self.view.tile(0, index)?.unwrap_or_default()));
            }
            let stored = tile.as_ref().and_then(|(_, hashes)| hashes.get(at..at + 32));
            if stored != Some(leaf.0.as_slice()) {
                findings.add(*seq, "the entry is not the one that the log was built over (its hash differs)");
            }
        }
        let leaves: Vec<Hash> = leaves.iter().map(|(_, leaf)| *leaf).collect();
        // Stops on the way at the size of the checkpoint outside.
        let until = self.outside.map_or(0, |(size, _)| size.saturating_sub(self.tree.size()));
        let (before, after) = leaves.split_at((until as usize).min(leaves.len()));
        for part in [before, after] {
            if part.is_empty() {
                continue;
            }
            for tile in self.tree.extend(part) {
                self.tile(&tile, findings)?;
            }
            if let Some((size, root)) = self.outside
                && size == self.tree.size()
            {
                self.outside_size = Some(size);
                if self.tree.root()? != root {
                    let what = format!(
                        "the first {size} entries are not those that the checkpoint outside the database was signed over"
                    );
                    findings.add(None, what);
                }
            }
        }
        Ok(())
    }

    fn tile(&self, tile: &ChangedTile, findings: &mut Findings) -> Result<()> {
        let ChangedTile { level, index, hashes } = tile;
        let stored = self.view.tile(*level, *index)?.unwrap_or_default();
        let differs = |n: usize, hash: &[u8]| stored.get(n * hash.len()..(n + 1) * hash.len()) != Some(hash);
        let wrong = hashes.chunks(32).enumerate().find(|(n, hash)| differs(*n, hash));
        // Leaves have been compared one by one.
        if let Some((n, _)) = wrong.filter(|_| *level > 0) {
            findings.add(None, format!("hash {n} of tile {level}/{index} does not follow from the entries"));
        }
        Ok(())
    }

    /// After the last entry: both checkpoints.
    pub(crate) fn finish(&mut self, log: &LogVerifier, findings: &mut Findings) -> Result<()> {
        let size = self.tree.size();
        match self.view.checkpoint()?.map(|note| Checkpoint::open(&note, log)) {
            None if size == 0 => {}
            None => findings.add(None, "the database has no checkpoint"),
            Some(Err(error)) => findings.add(None, format!("in the database: {error}")),
            Some(Ok(inside)) if inside.size != size => {
                findings.add(None, format!("the checkpoint is of {} entries, there are {size}", inside.size));
            }
            Some(Ok(inside)) if inside.root != self.tree.root()? => {
                findings.add(None, "the entries do not add up to the checkpoint's root");
            }
            Some(Ok(_)) => {}
        }
        match self.outside {
            Some((promised, _)) if promised > size => {
                let what = format!("the checkpoint outside the database is of {promised} entries, there are {size}");
                findings.add(None, what);
            }
            Some((0, _)) => self.outside_size = Some(0),
            _ => {}
        }
        Ok(())
    }
}

/// Whether `bytes` are the one spelling of their JSON.
pub(crate) fn is_canonical(bytes: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    value.is_some_and(|value| Canonical::of(&value).is_ok_and(|canonical| canonical.as_bytes() == bytes))
}
