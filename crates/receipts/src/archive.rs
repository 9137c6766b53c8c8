//! Reading receipts: those of every guard that keeps its state in one folder, whether it is running or not.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, Instant},
};

use credence_ledger::{
    Checkpoint, Kind, LogVerifier,
    proof::{self, InclusionProof},
};
use credence_protocol::{EntityId, PublicKey, SecretKey, Timestamp, Uuid, receipt::Receipt};

use crate::{
    Error, OperationRecord, digest_rows,
    export::ExportedReceipt,
    folder,
    journal::{self, JournalContents, JournalKey},
    operation_journal::{self, OperationJournal},
    records::{CanaryRecord, NewReceipt, PartDigests, Private, unanswered},
    segments::{PRIVATE, SegmentLog, SegmentRemains, open_segment, origin, read_remains, segments, visit},
};

/// How long a receipt may wait for the checkpoint over it.
pub(crate) const SEAL_PATIENCE: Duration = Duration::from_secs(3);
/// Receipts that are collected before the newest of them are chosen.
const MIN_SORTED: usize = 10_000;

/// One guard's receipts.
#[derive(Clone)]
pub struct Source {
    /// The server's name.
    pub server: String,
    /// The guard's place.
    pub place: u32,
    /// Its folder.
    pub folder: PathBuf,
    /// The process that runs it, if one does.
    pub running: Option<String>,
    pub(crate) origin: String,
    pub(crate) key: PublicKey,
    pub(crate) journal_key: JournalKey,
    pub(crate) operation_key: JournalKey,
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
    /// Reported by this user id.
    pub uid: Option<u32>,
    /// From this time on.
    pub since: Option<Timestamp>,
    /// Up to this time.
    pub until: Option<Timestamp>,
}

/// A receipt and where it is.
#[derive(Debug, Clone)]
pub struct FoundReceipt {
    /// The receipt.
    pub receipt: Receipt,
    /// Which source.
    pub source: usize,
    /// In which segment, and which entry of it; `None` while it is in the journal alone.
    pub at: Option<(u64, u64)>,
}

/// A receipt that was dropped with its segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedReceipt {
    /// The guard that wrote it.
    pub guard: String,
    /// The segment.
    pub segment: u64,
    /// How many entries the segment's last checkpoint covers.
    pub entries: usize,
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
            && is(&self.uid, receipt.uid.as_ref())
            && self.since.is_none_or(|since| receipt.started_at >= since)
            && self.until.is_none_or(|until| receipt.started_at <= until)
    }
}

impl Archive {
    /// The guards in `state` whose receipts `provider` signs with `key`.
    pub fn open(state: &Path, provider: &EntityId, key: &SecretKey) -> Result<Self, Error> {
        let sources = folder::all_places(state)?.into_iter().map(|(server, place, folder)| {
            let origin = origin(provider, &server, place);
            Source {
                running: folder::running_process(&folder),
                journal_key: JournalKey::new(key, &origin),
                operation_key: operation_journal::key(key, &origin),
                origin,
                folder: folder.join("receipts"),
                key: key.public(),
                server,
                place,
            }
        });
        Ok(Self::of(sources.collect()))
    }

    /// The receipts of these guards.
    pub(crate) fn of(sources: Vec<Source>) -> Self {
        Self { sources, since: OnceLock::new() }
    }

    /// Calls `each` with the receipts that `filter` takes, guard by guard in the order they were written. What cannot be read is
    /// told to `problem`.
    pub fn visit(
        &self,
        filter: &Filter,
        each: &mut dyn FnMut(FoundReceipt, Option<Private>) -> Result<(), Error>,
        problem: &mut dyn FnMut(String),
    ) -> Result<(), Error> {
        for (number, source) in self.sources.iter().enumerate() {
            if filter.server.as_ref().is_some_and(|server| *server != source.server) {
                continue;
            }
            // Before the ledger: what moves there in the meantime is met twice rather than missed.
            let mut in_journal = source.in_journal(problem)?;
            for (segment, there) in segments(&source.folder)? {
                if !there {
                    continue;
                }
                let log = match source.segment(segment) {
                    Ok(log) => log,
                    Err(error) => {
                        problem(format!("{}, segment {segment}: {error}", source.name()));
                        continue;
                    }
                };
                let view = log.ledger().view()?;
                let visited = visit(&*view, 0, &mut |seq, _, entry| {
                    if entry.kind != Kind::Receipt {
                        return Ok(());
                    }
                    let receipt: Receipt = entry.record(seq)?;
                    in_journal.remove(&receipt.call);
                    if !filter.takes(&receipt) {
                        return Ok(());
                    }
                    let private = view.get(PRIVATE, &receipt.call.to_string())?;
                    let private = private.and_then(|bytes| serde_json::from_slice(&bytes).ok());
                    each(FoundReceipt { receipt, source: number, at: Some((segment, seq)) }, private)
                });
                if let Err(error) = visited {
                    problem(format!("{}, segment {segment}: {error}", source.name()));
                }
            }
            let mut unsealed: Vec<NewReceipt> = in_journal.into_values().collect();
            unsealed.retain(|new| filter.takes(&new.receipt));
            unsealed.sort_by_key(|new| (new.receipt.started_at, new.receipt.call));
            for NewReceipt { receipt, private } in unsealed {
                each(FoundReceipt { receipt, source: number, at: None }, Some(private))?;
            }
        }
        Ok(())
    }

    /// Canaries by what was made up: how many there were, and how many were caught.
    pub fn canaries(&self, source: &Source) -> Result<HashMap<String, (u64, u64)>, Error> {
        let mut counts: HashMap<String, (u64, u64)> = HashMap::new();
        for (segment, _) in segments(&source.folder)?.into_iter().filter(|(_, there)| *there) {
            let Ok(log) = source.segment(segment) else { continue };
            visit(&*log.ledger().view()?, 0, &mut |seq, _, entry| {
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

    /// What people did to a guard, in order, and whether it is in its ledger: what is not, the guard has not taken up yet. What
    /// cannot be read is told to `problem`.
    pub fn operations(
        &self,
        source: &Source,
        problem: &mut dyn FnMut(String),
    ) -> Result<Vec<(OperationRecord, bool)>, Error> {
        let mut found: Vec<(OperationRecord, bool)> = Vec::new();
        // Before the ledger: what moves there in the meantime is met twice rather than missed.
        let waiting = source.operation_journal().read()?;
        for (segment, _) in segments(&source.folder)?.into_iter().filter(|(_, there)| *there) {
            let read = source.segment(segment).and_then(|log| {
                visit(&*log.ledger().view()?, 0, &mut |seq, _, entry| {
                    if entry.kind == Kind::Operation {
                        found.push((entry.record(seq)?, true));
                    }
                    Ok(())
                })
            });
            if let Err(error) = read {
                problem(format!("{}, segment {segment}: {error}", source.name()));
            }
        }
        if let Some(text) = waiting.trouble() {
            problem(format!("{}: {text}", source.name()));
        }
        for copy in source.operation_journal().copies() {
            problem(format!(
                "{}: there are lines in {} that this guard's commands did not write: they count for nothing",
                source.name(),
                copy.display()
            ));
        }
        let known: HashSet<Uuid> = found.iter().map(|(one, _)| one.id).collect();
        found.extend(waiting.operations.into_iter().filter(|one| !known.contains(&one.id)).map(|one| (one, false)));
        Ok(found)
    }

    /// The receipt of one call.
    pub fn find(&self, call: Uuid) -> Result<Option<(FoundReceipt, Option<Private>)>, Error> {
        for (number, source) in self.sources.iter().enumerate() {
            let in_journal = source.in_journal(&mut |_| ())?.remove(&call);
            for (segment, there) in segments(&source.folder)?.into_iter().rev() {
                if !there {
                    continue;
                }
                let Ok(log) = source.segment(segment) else { continue };
                let view = log.ledger().view()?;
                let Some(private) = view.get(PRIVATE, &call.to_string())? else { continue };
                let mut found = None;
                visit(&*view, 0, &mut |seq, _, entry| {
                    if entry.kind == Kind::Receipt && found.is_none() {
                        let receipt: Receipt = entry.record(seq)?;
                        if receipt.call == call {
                            found = Some(FoundReceipt { receipt, source: number, at: Some((segment, seq)) });
                        }
                    }
                    Ok(())
                })?;
                if let Some(found) = found {
                    return Ok(Some((found, serde_json::from_slice(&private).ok())));
                }
            }
            if let Some(NewReceipt { receipt, private }) = in_journal {
                return Ok(Some((FoundReceipt { receipt, source: number, at: None }, Some(private))));
            }
        }
        Ok(None)
    }

    /// The proof that a receipt is in its guard's log, and whose signature it rests on. A receipt of this very second may have to
    /// wait for its checkpoint.
    pub fn proof(&self, found: &FoundReceipt) -> Result<(InclusionProof, LogVerifier), Error> {
        let source = &self.sources[found.source];
        // A caller that asks for many waits once.
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
                return Err(Error::Unsealed(why));
            }
            if since.elapsed() > SEAL_PATIENCE {
                let why =
                    "no checkpoint is signed over it yet, although its guard runs: see what that says of its receipts";
                return Err(Error::Unsealed(why));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The digests of a call's parts, as far as they are there.
    pub fn parts(&self, found: &FoundReceipt) -> PartDigests {
        let read = || {
            let log = self.sources[found.source].segment(found.at?.0).ok()?;
            digest_rows::read(&*log.ledger().view().ok()?, found.receipt.call)
        };
        read().unwrap_or_default()
    }

    /// The newest receipts that `filter` takes, the newest last.
    pub fn newest(
        &self,
        filter: &Filter,
        limit: usize,
        problem: &mut dyn FnMut(String),
    ) -> Result<Vec<FoundReceipt>, Error> {
        let mut found = Vec::new();
        let keep_newest = |found: &mut Vec<FoundReceipt>| {
            found.sort_by_key(|one| (one.receipt.started_at, one.receipt.call));
            found.drain(..found.len().saturating_sub(limit));
        };
        let each = &mut |one: FoundReceipt, _| {
            found.push(one);
            // Not all of them are held at once.
            if found.len() >= limit.saturating_mul(2).max(MIN_SORTED) {
                keep_newest(&mut found);
            }
            Ok(())
        };
        self.visit(filter, each, problem)?;
        keep_newest(&mut found);
        Ok(found)
    }

    /// A receipt with everything to check it elsewhere; `disclose` adds the salts.
    pub fn export(
        &self,
        found: &FoundReceipt,
        private: Option<&Private>,
        disclose: bool,
    ) -> Result<ExportedReceipt, Error> {
        let (proof, log) = self.proof(found)?;
        Ok(ExportedReceipt {
            receipt: found.receipt.clone(),
            log_key: log.as_str().to_owned(),
            proof: proof.to_text(),
            salts: private.filter(|_| disclose).map(|private| private.salts),
        })
    }

    /// Why the receipt of a call is not here, where its segment was dropped.
    pub fn dropped(&self, call: Uuid) -> Result<Option<DroppedReceipt>, Error> {
        let remains = self.remains()?.into_iter();
        let mut with_call = remains.filter(|(_, _, one)| one.entries.iter().any(|(_, of)| *of == Some(call)));
        Ok(with_call.next().map(|(source, segment, remains)| DroppedReceipt {
            guard: self.sources[source].name(),
            segment,
            entries: remains.entries.len(),
        }))
    }

    /// What is left of segments that were dropped, with the source they belong to.
    pub fn remains(&self) -> Result<Vec<(usize, u64, SegmentRemains)>, Error> {
        let mut all = Vec::new();
        for (number, source) in self.sources.iter().enumerate() {
            for (segment, there) in segments(&source.folder)? {
                if !there {
                    all.push((number, segment, read_remains(&source.folder, segment)?));
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

    /// The guard's place, in which its receipts are.
    pub fn place_folder(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// What people did to this guard and it has not taken up yet.
    pub fn operation_journal(&self) -> OperationJournal {
        OperationJournal::new(self.place_folder(), self.operation_key.clone())
    }

    /// A segment, refused where it does not add up.
    pub fn segment(&self, number: u64) -> Result<SegmentLog, Error> {
        open_segment(&self.folder, number, &self.origin, &self.key, true)
    }

    /// The proof of an entry, if a checkpoint is signed over it.
    fn proof(&self, segment: u64, seq: u64) -> Result<Option<(InclusionProof, LogVerifier)>, Error> {
        let log = self.segment(segment)?;
        let view = log.ledger().view()?;
        let note = view.checkpoint()?.unwrap_or_default();
        let checkpoint = Checkpoint::open(&note, &log.verifier)?;
        if seq >= checkpoint.size {
            return Ok(None);
        }
        let entry = view.entry(seq)?.unwrap_or_default();
        let hashes = proof::inclusion(checkpoint.size, seq, &*view)?;
        Ok(Some((InclusionProof { entry, seq, hashes, checkpoint: note }, log.verifier.clone())))
    }

    /// The receipts in the journal, by call; some of them may be in the ledger, too.
    pub(crate) fn in_journal(&self, problem: &mut dyn FnMut(String)) -> Result<HashMap<Uuid, NewReceipt>, Error> {
        let JournalContents { intents, mut receipts, unreadable, forged, .. } =
            journal::read(&self.folder, &self.journal_key)?;
        if unreadable > 0 {
            problem(format!("{}: {unreadable} receipts in the journal cannot be read", self.name()));
        }
        if forged > 0 {
            problem(format!(
                "{}: {forged} lines in the journal were not written by the guard, or were changed: they count for nothing",
                self.name()
            ));
        }
        let why = match self.running {
            Some(_) => "no answer has come yet",
            None => "the guard ended before an answer came",
        };
        receipts.extend(unanswered(intents, &receipts, why));
        for path in journal::damaged(&self.folder) {
            problem(format!(
                "{}: there are lines in {} that cannot be read or that the guard did not write; without that file they count as never \
                 written",
                self.name(),
                path.display()
            ));
        }
        Ok(receipts.into_iter().map(|new| (new.receipt.call, new)).collect())
    }
}
