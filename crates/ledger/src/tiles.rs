//! C2SP tlog-tiles resources: what `/checkpoint`, `/tile/<L>/<N>[.p/<W>]` and `/tile/entries/<N>[.p/<W>]` hold.
//!
//! N is written in groups of three digits, all but the last with an `x`: 1234067 is `x001/x234/067`. An entry bundle is
//! up to 256 entries, each after its length as a big-endian 16-bit number.

use std::ops::ControlFlow;

use crate::{Result, View, merkle::TILE_WIDTH};

/// A resource of the log, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// The signed checkpoint: changes as the log grows.
    Checkpoint,
    /// Hashes of one level.
    Tile {
        /// The tile level, 0 for leaves.
        level: u8,
        /// Its index within the level.
        index: u64,
        /// How many hashes, 1..=256.
        width: u16,
    },
    /// Up to 256 entries.
    Entries {
        /// The bundle's index.
        index: u64,
        /// How many entries, 1..=256.
        width: u16,
    },
}

impl Resource {
    /// Parses a path relative to the log's prefix; only the one spelling of each resource is known.
    pub fn parse(path: &str) -> Option<Self> {
        if path == "checkpoint" {
            return Some(Resource::Checkpoint);
        }
        let (level, rest) = path.strip_prefix("tile/")?.split_once('/')?;
        let (number, width) = match rest.split_once(".p/") {
            Some((number, width)) => (number, width.parse().ok().filter(|w| (1..TILE_WIDTH as u16).contains(w))?),
            None => (rest, TILE_WIDTH as u16),
        };
        let mut index = 0_u64;
        let mut groups = number.split('/').peekable();
        while let Some(group) = groups.next() {
            let digits = if groups.peek().is_some() { group.strip_prefix('x')? } else { group };
            if digits.len() != 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            index = index.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
        }
        let resource = match level {
            "entries" => Resource::Entries { index, width },
            level => Resource::Tile { level: level.parse().ok().filter(|l| *l < 64)?, index, width },
        };
        // Leading zeros and the like parse, but are not how the resource is spelled.
        (resource.path() == path).then_some(resource)
    }

    /// The resource's path.
    pub fn path(&self) -> String {
        let (level, mut index, width) = match *self {
            Resource::Checkpoint => return "checkpoint".into(),
            Resource::Tile { level, index, width } => (level.to_string(), index, width),
            Resource::Entries { index, width } => ("entries".into(), index, width),
        };
        let mut number = format!("{:03}", index % 1000);
        while index >= 1000 {
            index /= 1000;
            number = format!("x{:03}/{number}", index % 1000);
        }
        let partial = if usize::from(width) < TILE_WIDTH { format!(".p/{width}") } else { String::new() };
        format!("tile/{level}/{number}{partial}")
    }

    /// The resource's bytes; `None` when the log has not grown that far.
    pub fn read(&self, view: &dyn View) -> Result<Option<Vec<u8>>> {
        match *self {
            Resource::Checkpoint => Ok(view.checkpoint()?.map(String::into_bytes)),
            Resource::Tile { level, index, width } => {
                let bytes = usize::from(width) * tlog_tiles::HASH_SIZE;
                let tile = view.tile(level, index)?.filter(|tile| tile.len() >= bytes);
                Ok(tile.map(|mut tile| {
                    tile.truncate(bytes);
                    tile
                }))
            }
            Resource::Entries { index, width } => {
                let Some(first) = index.checked_mul(TILE_WIDTH as u64) else { return Ok(None) };
                let mut bundle = Vec::new();
                let mut left = width;
                view.entries(first, &mut |_, entry| {
                    // Entries are at most 65,535 bytes by construction.
                    bundle.extend_from_slice(&(entry.len() as u16).to_be_bytes());
                    bundle.extend_from_slice(entry);
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                Ok((left == 0).then_some(bundle))
            }
        }
    }

    /// Every tile and bundle of a log of `size` entries, in its widest form.
    pub fn all(size: u64) -> Vec<Resource> {
        let full = TILE_WIDTH as u64;
        let widths = |count: u64| {
            let partial = (count % full) as u16;
            let whole = (0..count / full).map(move |index| (index, TILE_WIDTH as u16));
            whole.chain((partial > 0).then_some((count / full, partial)))
        };
        let mut resources: Vec<Resource> =
            widths(size).map(|(index, width)| Resource::Entries { index, width }).collect();
        let (mut level, mut count) = (0, size);
        while count > 0 {
            resources.extend(widths(count).map(|(index, width)| Resource::Tile { level, index, width }));
            level += 1;
            count /= full;
        }
        resources
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_specification() {
        for (resource, path) in [
            (Resource::Checkpoint, "checkpoint"),
            (Resource::Tile { level: 0, index: 1_234_067, width: 256 }, "tile/0/x001/x234/067"),
            (Resource::Tile { level: 1, index: 0, width: 17 }, "tile/1/000.p/17"),
            (Resource::Entries { index: 273, width: 112 }, "tile/entries/273.p/112"),
            (Resource::Entries { index: 1000, width: 256 }, "tile/entries/x001/000"),
        ] {
            assert_eq!(resource.path(), path);
            assert_eq!(Resource::parse(path), Some(resource));
        }
        for bad in [
            "",
            "tile/0/1",
            "tile/0/x000/001",
            "tile/64/000",
            "tile/00/000",
            "tile/0/000.p/0",
            "tile/0/000.p/256",
            "tile/0/000.p/256/../1",
            "tile/../checkpoint",
            "tile/entries/abc",
            "tile/0/x001/",
            "tile/0/99999999999999999999999",
            "checkpoint/",
            "tile/0/+01",
            "tile/0/000.p/007",
        ] {
            assert_eq!(Resource::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_log_of_70_000_has_the_tiles_of_the_specification() {
        let all = Resource::all(70_000);
        let tiles =
            |wanted: u8| all.iter().filter(|r| matches!(r, Resource::Tile { level, .. } if *level == wanted)).count();
        assert_eq!((tiles(0), tiles(1), tiles(2), tiles(3)), (274, 2, 1, 0));
        assert!(all.contains(&Resource::Tile { level: 2, index: 0, width: 1 }));
    }
}
