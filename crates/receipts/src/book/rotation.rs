//! Which segment is written to, and when the oldest is dropped.

use std::fs;

use super::ReceiptBook;
use crate::{
    Error, Warn, folder,
    segments::{
        SegmentLog, SegmentWriter, folder_bytes, open_segment, remains_file, remains_of, segment_folder, segments,
    },
};

/// Segments that the room for receipts is divided into.
const SEGMENTS: u64 = 8;
/// No segment is smaller.
const MIN_SEGMENT_BYTES: u64 = 64 * 1024;

/// The segment that is written to.
pub(super) struct CurrentSegment {
    pub log: SegmentLog,
    /// Bytes written, about.
    pub bytes: u64,
}

impl CurrentSegment {
    /// The newest segment, or a first one; where the newest cannot be used, the next.
    /// Gives the number of the one that cannot be used, too.
    pub fn open(writer: &SegmentWriter, warn: &Warn) -> Result<(Self, Option<u64>), Error> {
        let all = segments(&writer.folder)?;
        let Some(number) = all.iter().filter(|(_, there)| *there).map(|(number, _)| *number).max() else {
            let first = all.last().map_or(1, |(number, _)| number + 1);
            return Ok((Self { log: writer.begin(first, None)?, bytes: 0 }, None));
        };
        match writer.resume(number) {
            Ok((log, bytes)) => Ok((Self { log, bytes }, None)),
            Err(error @ Error::Ledger(credence_ledger::Error::Full(_) | credence_ledger::Error::Locked { .. })) => {
                Err(error)
            }
            // Left as it is, for `credence receipts verify` to show: calls go on, with receipts.
            Err(error) => {
                warn(&format!("segment {number} of the receipts cannot be used, another is begun: {error}"));
                Ok((Self { log: writer.begin(number + 1, None)?, bytes: 0 }, Some(number)))
            }
        }
    }
}

impl ReceiptBook {
    /// The segment for this many more bytes; begins another one when the current is full.
    pub(crate) fn segment_with_room(&self, bytes: u64) -> Result<SegmentLog, Error> {
        let mut current = self.current();
        if current.bytes > 0 && current.bytes + bytes > (self.max_bytes / SEGMENTS).max(MIN_SEGMENT_BYTES) {
            current.log.ledger().flush()?;
            let previous = current.log.ledger().view()?.checkpoint()?;
            let number = current.log.number + 1;
            *current = CurrentSegment { log: self.writer.begin(number, previous)?, bytes: 0 };
            if let Err(error) = self.drop_oldest(number) {
                self.warn(&format!("old receipts could not be let go: {error}"));
            }
        }
        Ok(current.log.clone())
    }

    /// Drops the oldest segments until the rest have room.
    fn drop_oldest(&self, newest: u64) -> Result<(), Error> {
        let size = |number: u64| folder_bytes(&segment_folder(&self.writer.folder, number));
        let there = self.segments()?;
        let mut total: u64 = there.iter().map(|number| size(*number)).sum();
        for number in there {
            // The one before the newest stays: a reader may still need it.
            if total <= self.max_bytes || number + 1 >= newest {
                break;
            }
            let bytes = size(number);
            if let Err(error) = self.drop_segment(number) {
                // Left as it is, for `credence receipts verify` to show; the next one makes room.
                self.warn(&format!("segment {number} cannot be let go: {error}"));
                continue;
            }
            total -= bytes;
        }
        Ok(())
    }

    fn drop_segment(&self, number: u64) -> Result<(), Error> {
        let SegmentWriter { folder, origin, key, .. } = &self.writer;
        let remains = remains_of(&open_segment(folder, number, origin, &key.public(), true)?)?;
        folder::replace_file(&remains_file(folder, number), &serde_json::to_vec(&remains)?)?;
        let path = segment_folder(folder, number);
        fs::remove_dir_all(&path).map_err(|e| Error::Io(path, e))
    }
}
