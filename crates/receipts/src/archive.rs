//! Receipts, read: those of every guard that keeps its state in one folder, whether it is running or not.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, Instant},
};

use credence_ledger::{
    Checkpoint, Kind, Ledger, LogVerifier, SqliteLedger,
    proof::{self, InclusionProof},
};
use credence_protocol::{EntityId, PublicKey, Timestamp, Uuid, receipt::Receipt};

use crate::{
    Error, folder, journal,
    receipts::{CanaryRecord, NewReceipt, Parts, Private},
    rollup::Tally,
    segments::{Kept, PARTS, PRIVATE, SegmentRecord, kept, open_segment, origin, segments, visit},
};

/// How long a receipt may wait for the checkpoint over it.
const SEAL_PATIENCE: Duration = Duration::from_secs(3);

/// One guard's receipts.
pub struct Source {
    /// The server's name.
    pub server: String,
    /// The guard's place.
    pub place: u32,
    /// Its folder.
    pub folder: PathBuf,
    /// The process that runs it, if one does.
    pub running: Option<String>,
    origin: String,
    key: PublicKey,
}

/// Which receipts.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this server.
    pub server: Option<String>,
    /// Of this agent.
    pub agent: Option<EntityId>,
    /// Of this session.
    pub session: Option<String>,
    /// Of this tool.
    pub tool: Option<String>,
    /// From this time on.
    pub since: Option<Timestamp>,
    /// Up to this time.
    pub until: Option<Timestamp>,
}

/// A receipt and where it is.
#[derive(Debug, Clone)]
pub struct Found {
    /// The receipt.
    pub receipt: Receipt,
    /// Which source.
    pub source: usize,
    /// In which segment, and which entry of it; `None` while it is in the journal alone.
    pub at: Option<(u64, u64)>,
}

/// The receipts of a state folder.
pub struct Archive {
    /// The guards.
    pub sources: Vec<Source>,
    /// Since when proofs are asked for.
    since: OnceLock<Instant>,
}

impl Filter {
    fn takes(&self, receipt: &Receipt) -> bool {
        fn is<T: PartialEq>(wanted: &Option<T>, found: Option<&T>) -> bool {
            wanted.as_ref().is_none_or(|wanted| Some(wanted) == found)
        }
        is(&self.agent, receipt.agent.as_ref())
            && is(&self.session, receipt.session.as_ref())
            && is(&self.tool, Some(&receipt.tool))
            && self.since.is_none_or(|since| receipt.started_at >= since)
            && self.until.is_none_or(|until| receipt.started_at <= until)
    }
}

impl Archive {
    /// The guards in `state` whose receipts `provider` signs with `key`.
    pub fn open(state: &Path, provider: &EntityId, key: &PublicKey) -> Result<Self, Error> {
        let sources = folder::all(state)?.into_iter().map(|(server, place, folder)| Source {
            running: folder::running(&folder),
            origin: origin(provider, &server, place),
            folder: folder.join("receipts"),
            key: *key,
            server,
            place,
        });
        Ok(Self { sources: sources.collect(), since: OnceLock::new() })
    }

    /// Calls `each` with the receipts that `filter` takes, guard by guard in the order they were written. What cannot be read is
    /// told to `problem`.
    pub fn visit(
        &self,
        filter: &Filter,
        each: &mut dyn FnMut(Found, Option<Private>) -> Result<(), Error>,
        problem: &mut dyn FnMut(String),
    ) -> Result<(), Error> {
        for (number, source) in self.sources.iter().enumerate() {
            if filter.server.as_ref().is_some_and(|server| *server != source.server) {
                continue;
            }
            // Before the ledger: what moves there in the meantime is met twice rather than missed.
            let mut waiting = source.waiting(problem)?;
            for (segment, there) in segments(&source.folder)? {
                if !there {
                    continue;
                }
                let ledger = match source.segment(segment) {
                    Ok(ledger) => ledger,
                    Err(error) => {
                        problem(format!("{}, segment {segment}: {error}", source.name()));
                        continue;
                    }
                };
                let view = ledger.view()?;
                let visited = visit(&*view, 0, &mut |seq, _, entry| {
                    if entry.kind != Kind::Receipt {
                        return Ok(());
                    }
                    let receipt: Receipt = entry.record(seq)?;
                    waiting.remove(&receipt.call);
                    if !filter.takes(&receipt) {
                        return Ok(());
                    }
                    let private = view.get(PRIVATE, &receipt.call.to_string())?;
                    let private = private.and_then(|bytes| serde_json::from_slice(&bytes).ok());
                    each(Found { receipt, source: number, at: Some((segment, seq)) }, private)
                });
                if let Err(error) = visited {
                    problem(format!("{}, segment {segment}: {error}", source.name()));
                }
            }
            let mut waiting: Vec<NewReceipt> = waiting.into_values().collect();
            waiting.retain(|new| filter.takes(&new.receipt));
            waiting.sort_by_key(|new| (new.receipt.started_at, new.receipt.call));
            for NewReceipt { receipt, private } in waiting {
                each(Found { receipt, source: number, at: None }, Some(private))?;
            }
        }
        Ok(())
    }

    /// Canaries by what was made up: how many there were, and how many were caught.
    pub fn canaries(&self, source: &Source) -> Result<HashMap<String, (u64, u64)>, Error> {
        let mut counts: HashMap<String, (u64, u64)> = HashMap::new();
        for (segment, _) in segments(&source.folder)?.into_iter().filter(|(_, there)| *there) {
            let Ok(ledger) = source.segment(segment) else { continue };
            visit(&*ledger.view()?, 0, &mut |seq, _, entry| {
                if entry.kind == Kind::Canary {
                    let canary: CanaryRecord = entry.record(seq)?;
                    let count = counts.entry(canary.fabrication).or_default();
                    count.0 += 1;
                    count.1 += u64::from(canary.caught);
                }
                Ok(())
            })?;
        }
        Ok(counts)
    }

    /// The receipt of one call.
    pub fn find(&self, call: Uuid) -> Result<Option<(Found, Option<Private>)>, Error> {
        for (number, source) in self.sources.iter().enumerate() {
            let waiting = source.waiting(&mut |_| ())?.remove(&call);
            for (segment, there) in segments(&source.folder)?.into_iter().rev() {
                if !there {
                    continue;
                }
                let Ok(ledger) = source.segment(segment) else { continue };
                let view = ledger.view()?;
                let Some(private) = view.get(PRIVATE, &call.to_string())? else { continue };
                let mut found = None;
                visit(&*view, 0, &mut |seq, _, entry| {
                    if entry.kind == Kind::Receipt && found.is_none() {
                        let receipt: Receipt = entry.record(seq)?;
                        if receipt.call == call {
                            found = Some(Found { receipt, source: number, at: Some((segment, seq)) });
                        }
                    }
                    Ok(())
                })?;
                if let Some(found) = found {
                    return Ok(Some((found, serde_json::from_slice(&private).ok())));
                }
            }
            if let Some(NewReceipt { receipt, private }) = waiting {
                return Ok(Some((Found { receipt, source: number, at: None }, Some(private))));
            }
        }
        Ok(None)
    }

    /// The proof that a receipt is in its guard's log, and whose signature it rests on. A receipt of this very second may have to
    /// wait for its checkpoint.
    pub fn proof(&self, found: &Found) -> Result<(InclusionProof, LogVerifier), Error> {
        let source = &self.sources[found.source];
        // Whoever asks for many waits once.
        let since = self.since.get_or_init(Instant::now);
        let mut at = found.at;
        loop {
            if at.is_none() {
                at = self.find(found.receipt.call)?.and_then(|(found, _)| found.at);
            }
            if let Some((segment, seq)) = at
                && let Some(proof) = source.proof(segment, seq)?
            {
                return Ok(proof);
            }
            if source.running.is_none() {
                let why = "no checkpoint is signed over it yet: its guard ended before; it is signed when a guard starts again";
                return Err(Error::Receipts(why.to_owned()));
            }
            if since.elapsed() > SEAL_PATIENCE {
                let why =
                    "no checkpoint is signed over it yet, although its guard runs: see what that says of its receipts";
                return Err(Error::Receipts(why.to_owned()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The digests of a call's parts, as far as they are there.
    pub fn parts(&self, found: &Found) -> Parts {
        let read = || {
            let ledger = self.sources[found.source].segment(found.at?.0).ok()?;
            let row = ledger.view().ok()?.get(PARTS, &found.receipt.call.to_string()).ok()??;
            serde_json::from_slice(&row).ok()
        };
        read().unwrap_or_default()
    }

    /// What was kept of segments that were let go, with the source they belong to.
    pub fn kept(&self) -> Result<Vec<(usize, u64, Kept)>, Error> {
        let mut all = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            for (segment, there) in segments(&source.folder)? {
                if !there {
                    all.push((number, segment, kept(&source.folder, segment)?));
                }
            }
        }
        Ok(all)
    }
}

impl Source {
    /// The server and the place.
    pub fn name(&self) -> String {
        format!("{}/{}", self.server, self.place)
    }

    /// A segment, refused where it does not add up.
    pub fn segment(&self, number: u64) -> Result<SqliteLedger, Error> {
        open_segment(&self.folder, number, &self.origin, &self.key, true)
    }

    /// The proof of an entry, if a checkpoint is signed over it.
    fn proof(&self, segment: u64, seq: u64) -> Result<Option<(InclusionProof, LogVerifier)>, Error> {
        let ledger = self.segment(segment)?;
        let view = ledger.view()?;
        let note = view.checkpoint()?.unwrap_or_default();
        let checkpoint = Checkpoint::open(&note, ledger.verifier())?;
        if seq >= checkpoint.size {
            return Ok(None);
        }
        let entry = view.entry(seq)?.unwrap_or_default();
        let hashes = proof::inclusion(checkpoint.size, seq, &*view)?;
        Ok(Some((InclusionProof { entry, seq, hashes, checkpoint: note }, ledger.verifier().clone())))
    }

    /// What is in the journal, by call; some of it may be in the ledger, too.
    fn waiting(&self, problem: &mut dyn FnMut(String)) -> Result<HashMap<Uuid, NewReceipt>, Error> {
        let journal::Waiting { receipts, unreadable } = journal::read(&self.folder)?;
        if unreadable > 0 {
            problem(format!("{}: {unreadable} receipts in the journal cannot be read", self.name()));
        }
        for path in journal::damaged(&self.folder) {
            problem(format!(
                "{}: there are receipts in {} that cannot be read; without that file they count as never written",
                self.name(),
                path.display()
            ));
        }
        Ok(receipts.into_iter().map(|new| (new.receipt.call, new)).collect())
    }

    /// Everything that is wrong with the receipts of this guard, and how many were looked at.
    pub fn audit(&self) -> Result<(u64, Vec<String>), Error> {
        let mut findings = Vec::new();
        let mut receipts = 0;
        let mut waiting = self.waiting(&mut |finding| findings.push(finding))?;
        let mut before: Option<(u64, String)> = None;
        let mut calls = HashSet::new();
        for (segment, there) in segments(&self.folder)? {
            let here = format!("{}, segment {segment}", self.name());
            if !there {
                match kept(&self.folder, segment) {
                    Ok(kept) => before = Some((segment, audit_kept(&here, &kept, &mut findings))),
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
        self.audit_reach(&mut findings)?;
        waiting.retain(|call, _| !calls.contains(call));
        Ok((receipts + waiting.len() as u64, findings))
    }

    /// What was counted must still be there, or be among what was let go.
    fn audit_reach(&self, findings: &mut Vec<String>) -> Result<(), Error> {
        let place = self.folder.parent().unwrap_or(&self.folder);
        let Some((segment, entries)) = Tally::reach_of(place) else { return Ok(()) };
        let there = segments(&self.folder)?;
        for number in 1..=segment {
            if !there.iter().any(|(one, _)| *one == number) {
                findings.push(format!("{}: segment {number} is gone, and nothing was kept of it", self.name()));
            }
        }
        if there.contains(&(segment, true)) {
            let ledger = open_segment(&self.folder, segment, &self.origin, &self.key, false)?;
            let size = ledger.view()?.size()?;
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
        let ledger = open_segment(&self.folder, segment, &self.origin, &self.key, false)?;
        let view = ledger.view()?;
        for missing in view.missing_protections()? {
            findings.push(format!("{here}: the database does not refuse changes any more: {missing}"));
        }
        let note = view.checkpoint()?.unwrap_or_default();
        let checkpoint = Checkpoint::open(&note, ledger.verifier())?;
        let mut edge = credence_ledger::merkle::Edge::default();
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
                Kind::Canary => {}
                other => findings.push(format!("{here}: entry {seq} is a {}, which does not belong here", other.key())),
            }
            edge.extend(&[credence_ledger::merkle::leaf(bytes)]);
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

/// Checks what was kept of a segment; gives its checkpoint.
fn audit_kept(here: &str, kept: &Kept, findings: &mut Vec<String>) -> String {
    let checked = (|| {
        let log = credence_ledger::LogVerifier::parse(&kept.log_key)?;
        let checkpoint = Checkpoint::open(&kept.checkpoint, &log)?;
        let mut edge = credence_ledger::merkle::Edge::default();
        for (leaf, _) in kept.entries.iter().take(usize::try_from(checkpoint.size).unwrap_or(usize::MAX)) {
            let bytes = data_encoding::BASE64.decode(leaf.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
            let bytes: [u8; 32] = bytes.ok_or_else(|| Error::Receipts("a leaf is not one".to_owned()))?;
            edge.extend(&[credence_ledger::Hash(bytes)]);
        }
        Ok::<_, Error>(edge.size() == checkpoint.size && edge.root()? == checkpoint.root)
    })();
    match checked {
        Ok(true) => {}
        Ok(false) => findings.push(format!("{here}: what was kept of it does not add up to its checkpoint")),
        Err(error) => findings.push(format!("{here}: {error}")),
    }
    kept.checkpoint.clone()
}
