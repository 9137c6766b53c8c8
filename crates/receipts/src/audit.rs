//! Auditing a guard's receipts: hashes, checkpoints, the chain of segments, and whether salts and counted entries are still there.

use std::collections::HashSet;

use credence_ledger::{Checkpoint, Hash, Kind, LogVerifier, merkle};
use credence_protocol::{Uuid, receipt::Receipt};

use crate::{
    Error, OperationRecord,
    archive::Source,
    book::Position,
    segments::{PRIVATE, SegmentRecord, SegmentRemains, open_segment, read_remains, segments, visit},
};

impl Source {
    /// Everything that is wrong with the receipts of this guard, and how many were looked at. `counted` is how far summaries have
    /// counted them.
    pub fn audit(&self, counted: Option<Position>) -> Result<(u64, Vec<String>), Error> {
        let mut findings = Vec::new();
        let mut receipts = 0;
        let mut in_journal = self.in_journal(&mut |finding| findings.push(finding))?;
        let mut before: Option<(u64, String)> = None;
        let mut calls = HashSet::new();
        for (segment, there) in segments(&self.folder)? {
            let here = format!("{}, segment {segment}", self.name());
            if !there {
                match read_remains(&self.folder, segment) {
                    Ok(remains) => before = Some((segment, audit_remains(&here, &remains, &mut findings))),
                    Err(error) => findings.push(format!("{here}: {error}")),
                }
                continue;
            }
            match self.audit_segment(segment, before.take(), &mut calls, &mut findings, &here) {
                Ok((count, checkpoint)) => {
                    receipts += count;
                    before = Some((segment, checkpoint));
                }
                Err(error) => findings.push(format!("{here}: {error}")),
            }
        }
        if let Some(counted) = counted {
            self.audit_position(counted, &mut findings)?;
        }
        in_journal.retain(|call, _| !calls.contains(call));
        Ok((receipts + in_journal.len() as u64, findings))
    }

    /// What was counted must still be there, or its segment's remains.
    fn audit_position(&self, Position(segment, entries): Position, findings: &mut Vec<String>) -> Result<(), Error> {
        let there = segments(&self.folder)?;
        for number in 1..=segment {
            if !there.iter().any(|(one, _)| *one == number) {
                findings.push(format!("{}: segment {number} is gone, and nothing was kept of it", self.name()));
            }
        }
        if there.contains(&(segment, true)) {
            let log = open_segment(&self.folder, segment, &self.origin, &self.key, false)?;
            let size = log.ledger().view()?.size()?;
            if size < entries {
                findings
                    .push(format!("{}, segment {segment}: {size} entries, and {entries} were counted", self.name()));
            }
        }
        Ok(())
    }

    fn audit_segment(
        &self,
        segment: u64,
        before: Option<(u64, String)>,
        calls: &mut HashSet<Uuid>,
        findings: &mut Vec<String>,
        here: &str,
    ) -> Result<(u64, String), Error> {
        if let Err(error) = self.segment(segment) {
            findings.push(format!("{here}: {error}"));
        }
        let log = open_segment(&self.folder, segment, &self.origin, &self.key, false)?;
        let view = log.ledger().view()?;
        for missing in view.missing_protections()? {
            findings.push(format!("{here}: the database does not refuse changes any more: {missing}"));
        }
        let note = view.checkpoint()?.unwrap_or_default();
        let checkpoint = Checkpoint::open(&note, &log.verifier)?;
        let mut edge = merkle::Edge::default();
        let mut receipts = 0;
        let mut root = None;
        visit(&*view, 0, &mut |seq, bytes, entry| {
            match entry.kind {
                other if seq == 0 && other != Kind::Segment => {
                    findings.push(format!("{here}: it does not begin with what it follows"));
                }
                Kind::Segment if seq == 0 => {
                    let record: SegmentRecord = entry.record(seq)?;
                    let chained = match (&before, &record.previous) {
                        (Some((number, last)), Some(previous)) if *number + 1 == segment => last == previous,
                        (None, None) => true,
                        _ => false,
                    };
                    if !chained || record.segment != segment {
                        findings.push(format!("{here}: it does not follow the segment before it"));
                    }
                }
                Kind::Receipt => {
                    let receipt: Receipt = entry.record(seq)?;
                    receipts += 1;
                    if !calls.insert(receipt.call) {
                        findings.push(format!("{here}: two receipts of call {}", receipt.call));
                    }
                    if view.get(PRIVATE, &receipt.call.to_string())?.is_none() {
                        findings.push(format!(
                            "{here}: the salts of call {} are gone: its claims cannot be checked",
                            receipt.call
                        ));
                    }
                }
                Kind::Canary | Kind::Control => {}
                Kind::Operation => drop(entry.record::<OperationRecord>(seq)?),
                other => findings.push(format!("{here}: entry {seq} is a {}, which does not belong here", other.key())),
            }
            edge.extend(&[merkle::leaf(bytes)]);
            if seq + 1 == checkpoint.size {
                root = Some(edge.root()?);
            }
            Ok(())
        })?;
        if root != Some(checkpoint.root) {
            findings.push(format!(
                "{here}: its first {} entries are not those that the checkpoint was signed over: some were changed, or are gone",
                checkpoint.size
            ));
        }
        Ok((receipts, note))
    }
}

/// Checks what is left of a segment that was dropped; gives its checkpoint.
fn audit_remains(here: &str, remains: &SegmentRemains, findings: &mut Vec<String>) -> String {
    let checked = (|| {
        let log = LogVerifier::parse(&remains.log_key)?;
        let checkpoint = Checkpoint::open(&remains.checkpoint, &log)?;
        let mut edge = merkle::Edge::default();
        for (leaf, _) in remains.entries.iter().take(usize::try_from(checkpoint.size).unwrap_or(usize::MAX)) {
            let bytes = data_encoding::BASE64.decode(leaf.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
            let bytes: [u8; 32] =
                bytes.ok_or_else(|| Error::Damaged("a leaf is not a SHA-256 in base64".to_owned()))?;
            edge.extend(&[Hash(bytes)]);
        }
        Ok::<_, Error>(edge.size() == checkpoint.size && edge.root()? == checkpoint.root)
    })();
    match checked {
        Ok(true) => {}
        Ok(false) => findings.push(format!("{here}: what was kept of it does not add up to its checkpoint")),
        Err(error) => findings.push(format!("{here}: {error}")),
    }
    remains.checkpoint.clone()
}
