//! Audit: trust nothing that is stored. Every entry's form, hash, time and weight; every signature by the strict rule;
//! every superseding link; the tree against its tiles, the checkpoint in the database and the one outside it; every
//! score event and every projection made again. Findings name the entry.

mod log;

use std::{collections::HashMap, ops::ControlFlow};

use credence_engine::mixture::is_weight;
use credence_ledger::{Appended, Checkpoint, Entry, Hash, Kind, LogVerifier, Scan, Table, View, merkle};
use credence_protocol::{Audience, EntityId, KeyId, PublicKey, Signal, TagRegistry, Timestamp, verify_batch};
pub(crate) use log::{LogAudit, is_canonical};
use rayon::prelude::*;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    Result,
    admit::rules as admission,
    attestations, credentials, due,
    filter::{self, Weights},
    links, outcomes, probes,
    receipts::{AuditedReceipts, GuardLogRow},
    record::{AgentRecord, CheckpointRecord, KeyRecord, KeyRevocationRecord, Record, SourceRecord},
    registry,
    replay::{Findings, Fold, for_each_chunk},
    reports, responses, schema,
    statements::{ParsedStatement, rules},
    tables::{self, AgentRow, CurrentRow, KeyRow, SourceRow},
    tags, times,
};

/// Signatures checked together in a quick audit.
const SIGNATURES_PER_BATCH: usize = 64;

/// What to audit against.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The log's public key.
    pub log: &'a LogVerifier,
    /// The checkpoint kept outside the database, or why there is none to go by. Read it before the view: the ledger may
    /// grow in between, never shrink.
    pub outside: &'a credence_ledger::Result<Checkpoint>,
    /// The registered tags.
    pub tags: &'a TagRegistry,
    /// The time of day: entries far ahead of it are a finding. `None` where it is not known.
    pub now: Option<Timestamp>,
    /// Check signatures in batches: twice as fast, by a rule a little less strict than admission's.
    pub quick: bool,
}

/// What an audit looked at and found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Audited {
    /// Entries read.
    pub entries: u64,
    /// Signatures verified.
    pub signatures: u64,
    /// Score events made again.
    pub score_events: u64,
    /// Rows of projections compared.
    pub rows: u64,
    /// Hashes of responses beside the log that were led to their roots.
    pub response_hashes: u64,
    /// The size of the checkpoint outside the database that the log was found to extend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside_size: Option<u64>,
    /// How often times were put right after entries in the future.
    #[serde(skip_serializing_if = "is_zero")]
    pub clock_corrections: u64,
    /// Receipts that guards handed in, where they were audited, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipts: Option<u64>,
    /// What is wrong.
    pub findings: Findings,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Audited {
    /// Takes in what an audit of the receipts found.
    pub fn add_receipts(&mut self, audited: AuditedReceipts) {
        self.receipts = Some(audited.receipts);
        self.findings.append(audited.findings.named("receipts.db"));
    }
}

/// Audits everything in `view`; `progress` is told how many entries are done.
pub fn audit(view: &dyn View, scope: Scope<'_>, progress: &mut dyn FnMut(u64)) -> Result<Audited> {
    let mut findings = Findings::default();
    let log = LogAudit::begin(view, scope.outside, &mut findings)?;
    let mut audit = Audit {
        view,
        scope,
        origin: Audience::new(scope.log.origin())?,
        fold: Fold::new(view, scope.tags)?,
        log,
        keys: HashMap::new(),
        last_recorded: None,
        last_change: None,
        report: Audited { findings, ..Audited::default() },
    };
    for_each_chunk(view, &mut |chunk| {
        audit.chunk(chunk)?;
        progress(audit.report.entries);
        Ok(())
    })?;
    audit.finish()
}

struct Audit<'a> {
    view: &'a dyn View,
    scope: Scope<'a>,
    origin: Audience,
    fold: Fold<'a>,
    log: LogAudit<'a>,
    keys: HashMap<KeyId, KeyRecord>,
    last_recorded: Option<Timestamp>,
    /// The last entry that was no score.
    last_change: Option<u64>,
    report: Audited,
}

/// One entry after the checks that need nothing else.
struct Examined {
    seq: u64,
    leaf: Hash,
    parsed: std::result::Result<(Entry, Record), String>,
}

impl Examined {
    fn new(seq: u64, bytes: &[u8]) -> Self {
        let parsed = Entry::parse(seq, bytes)
            .and_then(|entry| Record::of(seq, &entry).map(|record| (entry, record)))
            .map_err(|error| error.to_string())
            .and_then(|parsed| if is_canonical(bytes) { Ok(parsed) } else { Err("not canonical JSON".to_owned()) });
        Self { seq, leaf: merkle::leaf(bytes), parsed }
    }
}

impl Audit<'_> {
    fn chunk(&mut self, chunk: &[(u64, Vec<u8>)]) -> Result<()> {
        let examined: Vec<Examined> = chunk.par_iter().map(|(seq, bytes)| Examined::new(*seq, bytes)).collect();
        for one in &examined {
            if let Ok((_, Record::Key(key))) = &one.parsed {
                self.keys.entry(key.key_id).or_insert_with(|| key.clone());
            }
        }
        self.signatures(&examined);
        for one in &examined {
            self.entry(one)?;
        }
        let leaves: Vec<(u64, Hash)> = examined.iter().map(|one| (one.seq, one.leaf)).collect();
        self.log.grow(&leaves, &mut self.report.findings)?;
        self.report.entries += chunk.len() as u64;
        Ok(())
    }

    fn signatures(&mut self, examined: &[Examined]) {
        let signed: Vec<(u64, &Signal, &PublicKey)> = examined
            .iter()
            .filter_map(|one| match &one.parsed {
                Ok((_, Record::Signal(signal))) => {
                    self.keys.get(&signal.key_id()).map(|key| (one.seq, &**signal, &key.public_key))
                }
                _ => None,
            })
            .collect();
        let bad: Vec<(u64, String)> = signed
            .par_chunks(SIGNATURES_PER_BATCH)
            .flat_map_iter(|batch| {
                let pairs: Vec<_> = batch.iter().map(|(_, signal, key)| (*signal, *key)).collect();
                let trusted = self.scope.quick && verify_batch(&pairs).is_ok();
                let strict = move |(seq, signal, key): &(u64, &Signal, &PublicKey)| {
                    signal.verify(key).err().map(|error| (*seq, error.to_string()))
                };
                batch.iter().filter(move |_| !trusted).filter_map(strict)
            })
            .collect();
        self.report.signatures += signed.len() as u64;
        for (seq, error) in bad {
            self.report.findings.add(seq, error);
        }
    }

    /// The checks that need what came before, then the fold.
    fn entry(&mut self, one: &Examined) -> Result<()> {
        self.log.reached(one.seq, &mut self.report.findings);
        let (entry, record) = match &one.parsed {
            Ok(parsed) => parsed,
            Err(damaged) => {
                self.report.findings.add(one.seq, damaged.clone());
                return Ok(());
            }
        };
        let back = self.last_recorded.is_some_and(|last| entry.recorded_at < last);
        if let Record::Clock(clock) = record {
            self.report.clock_corrections += 1;
            if !back || self.last_recorded != Some(clock.ahead) {
                self.report.findings.add(one.seq, "it puts times right that were not ahead, or not by that much");
            }
        } else if back {
            self.report.findings.add(one.seq, "recorded before the entry before it");
        }
        self.last_recorded = Some(entry.recorded_at);
        if (entry.kind == Kind::Signal) != entry.weight.is_some() {
            self.report.findings.add(one.seq, "a weight belongs on signals, and on signals only");
        }
        let subject = match record {
            Record::Signal(signal) => Some(&signal.draft().agent),
            Record::Agent(agent) => Some(&agent.agent),
            Record::Source(source) => Some(&source.source),
            Record::Key(key) => Some(&key.source),
            Record::KeyRevocation(revocation) => self.keys.get(&revocation.key_id).map(|key| &key.source),
            Record::Withdrawal(withdrawal) => Some(&withdrawal.agent),
            Record::Link(link) => Some(&link.agent),
            Record::Dispute(dispute) => Some(&dispute.agent),
            Record::Standing(standing) => Some(&standing.agent),
            Record::Credential(credential) => Some(&credential.agent),
            Record::CredentialRevocation(revocation) => Some(&revocation.agent),
            Record::Outcome(outcome) => Some(&outcome.agent),
            Record::Probe(run) => Some(&run.agent),
            Record::Report(report) => Some(&report.agent),
            Record::Attestation(attestation) => Some(&attestation.agent),
            Record::Checkpoint(checkpoint) => Some(&checkpoint.provider),
            Record::Score(_)
            | Record::Statement(_)
            | Record::Responses(_)
            | Record::Clock(_)
            | Record::Tag(_)
            | Record::Other(_) => None,
        };
        if subject.is_some_and(|subject| *subject != entry.subject) {
            self.report.findings.add(one.seq, format!("the subject '{}' is not whom the body is about", entry.subject));
        }
        let wrong = match record {
            Record::Signal(signal) => self.signal(entry, signal)?,
            Record::Key(key) => self.key(key)?,
            Record::Source(source) => self.source(source)?,
            Record::KeyRevocation(revocation) => self.revocation(one.seq, revocation)?,
            Record::Agent(agent) => self.aliases(agent)?,
            Record::Statement(stated) => self.statement(entry, stated)?,
            Record::Standing(_)
            | Record::Credential(_)
            | Record::CredentialRevocation(_)
            | Record::Outcome(_)
            | Record::Link(_)
            | Record::Dispute(_)
            | Record::Probe(_)
            | Record::Report(_)
            | Record::Attestation(_) => {
                let known = self.row::<AgentRow>(tables::AGENTS, entry.subject.as_str())?.is_some();
                let unknown = (!known).then(|| format!("'{}' was not registered", entry.subject));
                unknown.into_iter().chain(self.told(one.seq, entry, record)?).collect()
            }
            Record::Checkpoint(checkpoint) => self.checkpoint(checkpoint)?,
            Record::Tag(tag) => tags::wrong_with(&self.fold.scratch, tag, self.scope.tags)?.into_iter().collect(),
            Record::Score(score) if self.last_change.is_some_and(|change| score.as_of() <= change) => {
                vec![format!("the score saw {} entries, and something changed after those", score.as_of())]
            }
            _ => Vec::new(),
        };
        wrong.into_iter().for_each(|what| self.report.findings.add(one.seq, what));
        if entry.kind != Kind::Score {
            self.last_change = Some(one.seq);
        }
        self.fold.step(one.seq, entry, record)
    }

    /// A guard's checkpoint is signed by a key of its provider, and is of the size and root that are recorded.
    fn checkpoint(&self, record: &CheckpointRecord) -> Result<Vec<String>> {
        let mut keys = self.keys.values().filter(|key| key.source == record.provider);
        let signed = keys.any(|key| {
            let opened = LogVerifier::of(&record.log, &key.public_key)
                .and_then(|verifier| Checkpoint::open(&record.checkpoint, &verifier));
            opened.is_ok_and(|opened| {
                opened.size == record.size && data_encoding::BASE64.encode(&opened.root.0) == record.root
            })
        });
        let mut wrong = Vec::new();
        if !signed {
            wrong.push(format!("no key of '{}' has signed this checkpoint of '{}'", record.provider, record.log));
        }
        if let Some(known) = self.row::<GuardLogRow>(tables::GUARD_LOGS, &record.log)?
            && known.size > record.size
        {
            wrong.push(format!("the log '{}' had {} entries before", record.log, known.size));
        }
        Ok(wrong)
    }

    /// The rules of registration, as they were when the entry was written.
    fn key(&self, key: &KeyRecord) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        if key.public_key.id() != key.key_id {
            wrong.push("the key id is not the key's".to_owned());
        }
        if self.row::<KeyRow>(tables::KEYS, &key.key_id.to_string())?.is_some() {
            wrong.push("the key was registered before".to_owned());
        }
        if self.row::<SourceRow>(tables::SOURCES, key.source.as_str())?.is_none()
            && self.row::<AgentRow>(tables::AGENTS, key.source.as_str())?.is_none()
        {
            wrong.push(format!("'{}' was not registered, neither as a source nor as an agent", key.source));
        }
        let former = match key.replaces {
            Some(former) => self.row::<KeyRow>(tables::KEYS, &former.to_string())?,
            None => None,
        };
        let endorsed = match (&key.replaces, &former) {
            (None, _) => key.endorsement.is_none(),
            (Some(_), Some(former)) => {
                key.endorsement.is_some()
                    && former.source == key.source
                    && former.revoked_from.is_none()
                    && key.check_endorsement(&former.public_key).is_ok()
            }
            (Some(_), None) => false,
        };
        if !endorsed {
            wrong.push("a rotation that no counting key of the source endorsed".to_owned());
        }
        Ok(wrong)
    }

    fn revocation(&self, seq: u64, revocation: &KeyRevocationRecord) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        if self.row::<KeyRow>(tables::KEYS, &revocation.key_id.to_string())?.is_none() {
            wrong.push(format!("it revokes key {}, which was not registered", revocation.key_id));
        }
        if revocation.from_seq > seq {
            wrong.push(format!("it revokes from entry {}, which did not exist", revocation.from_seq));
        }
        Ok(wrong)
    }

    fn source(&self, source: &SourceRecord) -> Result<Vec<String>> {
        let weight = (!is_weight(source.weight)).then(|| format!("{} is no weight", source.weight));
        let wrong = weight.into_iter().chain(self.bound_elsewhere(source.aud.as_ref()));
        Ok(wrong.chain(registry::source_id_taken(&self.fold.scratch, &source.source)?.map(|e| e.to_string())).collect())
    }

    /// Sources and agents are bound to the authority whose log it is, or to none.
    fn bound_elsewhere(&self, aud: Option<&Audience>) -> Option<String> {
        let elsewhere = aud.filter(|aud| **aud != self.origin)?;
        Some(format!("it is bound to '{elsewhere}', and this log is '{}'", self.origin))
    }

    fn aliases(&self, agent: &AgentRecord) -> Result<Vec<String>> {
        let taken = registry::agent_id_taken(&self.fold.scratch, &agent.agent)?.map(|e| e.to_string());
        let mut wrong: Vec<String> = self.bound_elsewhere(agent.aud.as_ref()).into_iter().chain(taken).collect();
        for alias in &agent.aliases {
            match self.row::<EntityId>(tables::ALIASES, &alias.key())? {
                Some(owner) if owner != agent.agent => wrong.push(format!("{alias} was an alias of '{owner}'")),
                _ => {}
            }
        }
        Ok(wrong)
    }

    /// What was issued, taken back or reported, as the rules were when the entry was written.
    fn told(&self, seq: u64, entry: &Entry, record: &Record) -> Result<Vec<String>> {
        let scratch = &self.fold.scratch;
        let wrong = match record {
            Record::Credential(record) => credentials::wrong_with_issue(scratch, record)?,
            Record::CredentialRevocation(record) => credentials::wrong_with_revocation(scratch, record)?,
            Record::Outcome(record) => {
                outcomes::wrong_with(scratch, record, Appended { seq, recorded_at: entry.recorded_at })?
            }
            Record::Probe(record) => {
                probes::wrong_with(scratch, record, Appended { seq, recorded_at: entry.recorded_at })?
            }
            Record::Attestation(record) => {
                attestations::wrong_with(scratch, record, Appended { seq, recorded_at: entry.recorded_at })?
            }
            Record::Standing(record) => credentials::wrong_with_standing(scratch, record)?,
            Record::Report(record) => reports::wrong_with(scratch, record)?,
            Record::Link(record) => links::wrong_with(scratch, record, entry.recorded_at)?,
            Record::Dispute(record) => links::disputes::wrong_with(scratch, record)?,
            _ => None,
        };
        Ok(wrong.into_iter().collect())
    }

    /// Schema, author, signature and the rules, as they were when the entry was written.
    fn statement(&mut self, entry: &Entry, stated: &ParsedStatement) -> Result<Vec<String>> {
        let statement = &stated.statement;
        let mut wrong = Vec::new();
        if let Err(violation) = schema::validate(statement.kind(), statement.record()) {
            wrong.push(violation.to_string());
        }
        match self.row::<KeyRow>(tables::KEYS, &statement.key_id().to_string())? {
            None => wrong.push(format!("signed by key {}, which was not registered", statement.key_id())),
            Some(key) => {
                self.report.signatures += 1;
                if key.source != *statement.author() {
                    wrong.push(format!("signed by a key of '{}'", key.source));
                }
                if key.revoked_from.is_some() {
                    wrong.push("signed by a key that was revoked".into());
                }
                wrong.extend(statement.verify(&key.public_key).err().map(|error| error.to_string()));
            }
        }
        wrong.extend(admission::audience(statement.aud(), &self.origin).err().map(|rejection| rejection.to_string()));
        let scratch = &self.fold.scratch;
        wrong.extend(
            rules::examine(scratch, stated, rules::Moment::in_hindsight(entry.recorded_at))?
                .err()
                .map(|rejection| rejection.to_string()),
        );
        if stated.subject(scratch)?.is_some_and(|subject| subject != entry.subject) {
            wrong.push(format!("the subject '{}' is not whom the statement is about", entry.subject));
        }
        if stated.entry_kind() != entry.kind {
            wrong.push(format!(
                "a statement of kind {} in an entry of kind {}",
                statement.kind().key(),
                entry.kind.key()
            ));
        }
        Ok(wrong)
    }

    /// A row as it was before the entry at hand.
    fn row<T: DeserializeOwned>(&self, table: Table, key: &str) -> Result<Option<T>> {
        tables::get(&self.fold.scratch, table, key)
    }

    /// The rules of admission, as they were when the entry was written.
    fn signal(&self, entry: &Entry, signal: &Signal) -> Result<Vec<String>> {
        let mut wrong: Vec<String> = Vec::new();
        if let Some(key) = self.row::<KeyRow>(tables::KEYS, &signal.key_id().to_string())? {
            let formed = admission::form(self.scope.tags, &self.origin, signal, &key.source, entry.recorded_at);
            wrong.extend(formed.err().map(|rejection| rejection.to_string()));
        }
        match admission::state(&self.fold.scratch, signal)? {
            Err(rejection) => wrong.push(rejection.to_string()),
            Ok(weight) if Some(weight) != entry.weight => {
                wrong.push(format!("stamped with weight {:?}, the source had {weight}", entry.weight));
            }
            Ok(_) => {}
        }
        Ok(wrong)
    }

    /// Agents whose signals count, that have no score and wait for none: someone emptied the queue.
    fn never_scored(&mut self) -> Result<()> {
        if self.view.job(due::RECOMPUTE, due::EVERYONE)?.is_some() {
            return Ok(());
        }
        // Slots come in the order of agents: only the name before is kept, not a million of them.
        let (mut last, mut unscored) = (String::new(), Vec::new());
        let view = self.view;
        tables::scan(view, tables::CURRENT, Scan::all(), |slot, _: CurrentRow| {
            let agent = tables::split_slot(slot).map_or("", |(agent, ..)| agent);
            if agent != last {
                agent.clone_into(&mut last);
                let id = EntityId::new(agent)?;
                let known = tables::universal_of(view, &id)?.is_some() || view.job(due::RESCORE, agent)?.is_some();
                unscored.extend((!known).then(|| agent.to_owned()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let weights = Weights::read(view)?;
        for agent in unscored {
            let agent = EntityId::new(&agent)?;
            if !filter::inputs(self.view, &agent, &weights, self.scope.tags)?.is_empty() {
                self.report.findings.add(None, format!("agent '{agent}' has signals that count and was never scored"));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Audited> {
        self.log.finish(self.scope.log, &mut self.report.findings)?;
        self.report.outside_size = self.log.outside_size;
        if let (Some(last), Some(now)) = (self.last_recorded, self.scope.now)
            && let Some(ahead) = times::ahead(last, now)
        {
            self.report.findings.add(None, ahead);
        }
        self.never_scored()?;
        self.report.response_hashes = responses::audit(self.view, &mut self.report.findings)?;
        let replayed = self.fold.finish()?;
        self.report.score_events = replayed.score_events;
        self.report.rows = replayed.rows;
        self.report.findings.append(replayed.differences);
        Ok(self.report)
    }
}
