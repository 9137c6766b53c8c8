//! The guard: has the answer to a call judged (`judging`), writes the receipt, and keeps what was learned and counted.

mod answers;
mod controls;
mod delivering;
pub mod embedded;
mod instructions;
mod judging;
mod keeping;
mod model;

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use credence_protocol::{EntityId, SecretKey, Uuid, receipt::Exact};
use credence_receipts::{
    BookSettings, Intent, PartDigests, Private, ReceiptBook,
    folder::{self, Place},
    now,
    parts::fingerprint,
};
use credence_verify::Engine;
use serde_json::{Value, value::RawValue};

use crate::{
    Error,
    agreement::Habits,
    answer::Answer,
    config::AlertKind,
    content,
    identity::{self, Launch, ServerFolder},
    oversight::Oversight,
    pending::StartedCall,
    quarantine::Quarantine,
    rollup::Tally,
    schemas::{SchemaBook, What, is_too_large},
    settings::{GuardMode, Settings},
    warn,
};
use answers::TakenAnswers;
use controls::Controls;
pub use delivering::Delivery;
use instructions::Instructions;
pub use judging::JudgedCall;

/// Tasks under way that are remembered.
const MAX_TASKS: usize = 10_000;
/// Receipts that wait in the journal at most while calls come one upon the other.
const MAX_IN_JOURNAL: usize = 256;

/// One guard, shared by the threads that move its messages.
pub struct Guard {
    /// Its configuration.
    pub settings: Settings,
    /// Where it keeps its state.
    pub place: Place,
    engine: ArcSwap<Engine>,
    /// What the model's files have in their names: a server that declares another name has another model.
    suffix: Mutex<String>,
    /// Tools whose block rate the engine knows.
    calibrated: Mutex<HashSet<String>>,
    oversight: Arc<Oversight>,
    /// The receipts; `None` where they could not be opened.
    book: Option<ReceiptBook>,
    pub(crate) tally: Mutex<Tally>,
    /// What tools declare of their output.
    schemas: Mutex<SchemaBook>,
    /// What the texts of each tool usually do.
    habits: Mutex<Habits>,
    /// Text that instructs the model.
    instructions: Instructions,
    /// Digests of parts that go into the ledger with the next flush of the journal.
    part_digests: Mutex<Vec<(Uuid, PartDigests)>>,
    canaries_owed: Mutex<f64>,
    /// Results that were flagged or withheld; `None` where they are not kept.
    quarantine: Option<Quarantine>,
    /// What people answered.
    answers: Mutex<TakenAnswers>,
    /// Results that were accepted and will be judged again as controls.
    controls: Mutex<Controls>,
    /// Calls that go on as tasks: whichever connection asks for their results.
    tasks: Mutex<HashMap<String, StartedCall>>,
    counts: Counts,
    /// The folder that was found for the server.
    found: Option<ServerFolder>,
    /// The server has sent a message.
    heard: AtomicBool,
    key: SecretKey,
}

#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    since_saved: AtomicU64,
}

impl Guard {
    /// Takes a place, reads what was learned, and opens the receipts. Where these cannot be opened an enforcing guard does not
    /// start; the others go on without, and say so.
    pub fn start(settings: Settings, key: SecretKey) -> Result<Arc<Self>, Error> {
        let launch = settings.rules.launch.clone();
        let found =
            launch.as_ref().map(|launch| identity::find(&settings.state, &settings.name, launch)).transpose()?;
        let state = settings.state.clone();
        let started = Self::start_in(settings, key, found.clone());
        if let (Err(_), Some(found), Some(launch)) = (&started, &found, &launch) {
            give_back(found, &state, launch);
        }
        started
    }

    /// Starts in the folder that was found for the server.
    fn start_in(settings: Settings, key: SecretKey, found: Option<ServerFolder>) -> Result<Arc<Self>, Error> {
        let name = found.as_ref().map_or_else(|| settings.name.clone(), |found| found.name.clone());
        let place = folder::take_place(&settings.state, &name)?;
        let server = settings.state.join(&name);
        let oversight =
            Oversight::open(settings.rules.clone(), &settings.name, server.clone(), place.folder.clone(), &key)?;
        let oversight = Arc::new(oversight);
        let enforce = oversight.strictest_configured() == GuardMode::Enforce;
        if place.number > 1 {
            warn(&format!(
                "another guard of '{}' is running: this one keeps its own state, in {}",
                settings.name,
                place.folder.display()
            ));
        }
        let suffix = identity::ServerIdentity::read(&server).map(|known| known.suffix()).unwrap_or_default();
        let model = identity::folder_of_suffix(&server, &suffix);
        let engine = model::engine(&settings, &server, &place, &suffix, &oversight)?;
        let book = BookSettings {
            max_bytes: settings.max_receipt_bytes,
            warn: Arc::new(warn),
            ..BookSettings::new(&place, &name, settings.provider.clone(), key.clone())
        };
        let book = match ReceiptBook::open(book) {
            Ok(book) => Some(book),
            Err(error) if enforce => {
                oversight.alert(AlertKind::Tampering, "receipts_unusable", None);
                oversight.finish();
                return Err(error.into());
            }
            Err(error) => {
                oversight.alert(AlertKind::Tampering, "receipts_unusable", None);
                warn(&format!("no receipts are written: {error}"));
                None
            }
        };
        if let Some(book) = &book {
            model::alert_of_recovery(&oversight, book.recovered());
        }
        oversight.open_wait(&model, book.as_ref())?;
        let tally = Tally::open(&place.folder, book.as_ref())?;
        let schemas = match SchemaBook::open(&model) {
            Err(error) if !enforce => {
                warn(&format!("what tools declared before is not known: {error}"));
                SchemaBook::empty(&model)
            }
            opened => opened?,
        };
        let habits = model::habits(&place, &suffix);
        let instructions = Instructions::open(&server, &place, &suffix);
        let quarantine = keeping::open(&settings, &place);
        let answers = TakenAnswers::open(&place, &suffix);
        let guard = Arc::new(Self {
            settings,
            place,
            engine: ArcSwap::from_pointee(engine),
            suffix: Mutex::new(suffix),
            calibrated: Mutex::default(),
            oversight,
            book,
            tally: Mutex::new(tally),
            schemas: Mutex::new(schemas),
            habits: Mutex::new(habits),
            instructions,
            part_digests: Mutex::default(),
            canaries_owed: Mutex::new(0.0),
            quarantine,
            answers: Mutex::new(answers),
            controls: Mutex::default(),
            tasks: Mutex::default(),
            counts: Counts::default(),
            found,
            heard: AtomicBool::new(false),
            key,
        });
        // Known before the server says anything.
        let known: Vec<String> =
            guard.schemas.lock().unwrap_or_else(PoisonError::into_inner).known().tools.keys().cloned().collect();
        guard.register_schemas(&known);
        guard.take_up_answers_or_warn();
        Ok(guard)
    }

    /// The server has sent a message: it is what its label leads to.
    pub(crate) fn hear(&self) {
        self.heard.store(true, Relaxed);
    }

    /// Gives the label of a server back that could not be started, or never sent a message.
    pub(crate) fn give_back_unheard(&self) {
        if let (false, Some(found), Some(launch)) = (self.heard.load(Relaxed), &self.found, self.oversight.launch()) {
            give_back(found, &self.settings.state, launch);
        }
    }

    /// The key that signs receipts and summaries.
    pub fn key(&self) -> &SecretKey {
        &self.key
    }

    /// The receipts; `None` where they could not be opened.
    pub fn book(&self) -> Option<&ReceiptBook> {
        self.book.as_ref()
    }

    /// Results that were flagged or withheld; `None` where they are not kept.
    pub fn quarantine(&self) -> Option<&Quarantine> {
        self.quarantine.as_ref()
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.counts.calls.load(Relaxed)
    }

    /// Takes in what the tools of a `tools/list` result declare of their output. A schema that loosens does not hold until a person
    /// accepts it.
    pub fn learn_tools(&self, result: &RawValue) {
        let declared = content::output_schemas(result).into_iter().filter(|(tool, schema)| {
            self.instructions.learn_tool(tool);
            let large = is_too_large(tool, schema.map_or("", RawValue::get));
            if large {
                warn("a tool's output schema, or its name, is too large to be used");
            }
            !large && !self.settings.profiles.contains_key(tool)
        });
        // One that cannot be used is as good as none.
        let usable = |tool: &str, schema: &RawValue| {
            let schema: Value = serde_json::from_str(schema.get()).ok()?;
            match content::profile(schema.clone(), true) {
                Ok(_) => Some(schema),
                Err(error) => {
                    warn(&format!("the output schema of '{tool}' cannot be used: {error}"));
                    None
                }
            }
        };
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        // Compiled only where it is not known already: lists come often.
        let known = |tool: &str| schemas.known().tools.get(tool).and_then(|one| one.accepted.clone());
        let declared: Vec<(String, Option<Value>)> = declared
            .map(|(tool, schema)| {
                let same = known(&tool).filter(|known| schema.is_some_and(|raw| is_same(raw, known)));
                let schema = same.or_else(|| schema.and_then(|schema| usable(&tool, schema)));
                (tool, schema)
            })
            .collect();
        let changed = schemas.refresh().and_then(|mut changed| {
            let changes = schemas.declare(&declared)?;
            for (tool, what) in &changes {
                if *what == What::Loosened {
                    self.oversight.alert(AlertKind::Tampering, "schema_loosened", Some(tool));
                    warn(&format!(
                        "'{tool}' declares an output schema that accepts more than before, or none: results are judged by the former \
                         one until `credence guard accept-schema {} {tool}`",
                        self.settings.name
                    ));
                }
            }
            changed.extend(changes.into_iter().map(|(tool, _)| tool));
            Ok(changed)
        });
        drop(schemas);
        match changed {
            Ok(changed) => self.register_schemas(&changed),
            Err(error) => warn(&format!("what tools declare could not be kept: {error}")),
        }
    }

    /// Has the engine judge these tools by their accepted schemas.
    fn register_schemas(&self, tools: &[String]) {
        for tool in tools.iter().filter(|tool| !self.settings.profiles.contains_key(*tool)) {
            let schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
            let known = schemas.known().tools.get(tool).cloned().unwrap_or_default();
            drop(schemas);
            let profile = content::profile(known.accepted.unwrap_or(Value::Bool(true)), known.offered.is_none());
            if let Err(error) = profile.and_then(|profile| Ok(self.engine.load().register(tool, profile)?)) {
                warn(&format!("the output schema of '{tool}' cannot be used: {error}"));
            }
        }
    }

    /// Takes in what a person has accepted meanwhile.
    fn refresh_schemas(&self) {
        let changed = self.schemas.lock().unwrap_or_else(PoisonError::into_inner).refresh();
        match changed {
            Ok(changed) => self.register_schemas(&changed),
            Err(error) => warn(&format!("what tools declare cannot be read: {error}")),
        }
    }

    /// The call goes on as a task.
    pub fn became_task(&self, task: String, started: StartedCall) {
        let mut forgotten = Vec::new();
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.len() >= MAX_TASKS {
            warn(&format!("{MAX_TASKS} tasks are under way: one is forgotten"));
            let oldest = tasks.iter().min_by_key(|(_, one)| one.instant).map(|(task, _)| task.clone());
            forgotten.extend(oldest.and_then(|oldest| tasks.remove(&oldest)));
        }
        // A server that gives two calls one task: the former ends without an answer.
        forgotten.extend(tasks.insert(task, started));
        drop(tasks);
        self.record_unanswered(forgotten);
    }

    /// The call that went on as this task.
    pub fn task(&self, task: &str) -> Option<StartedCall> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).remove(task)
    }

    /// Writes into the journal that these calls are about to be forwarded.
    pub fn begin(&self, calls: &[&(Intent, Private)]) -> Result<(), Error> {
        if calls.is_empty() {
            return Ok(());
        }
        let Some(book) = &self.book else { return Err(Error::NoReceipts) };
        if book.is_behind() {
            self.flush_journal()?;
        }
        Ok(book.begin(calls.iter().map(|(intent, private)| (intent, private)))?)
    }

    /// Writes the receipts of `judged`; where that fails, what the clients get says so, or is withheld. Gives the reason.
    pub fn record(&self, judged: &mut [(JudgedCall, Answer<'_>)]) -> Option<String> {
        if judged.is_empty() {
            return None;
        }
        let outcome = match &self.book {
            Some(book) => {
                // Earlier receipts that did not fit into the ledger must, before there are more of them.
                let flushed = if book.is_behind() { self.flush_journal() } else { Ok(()) };
                flushed.and_then(|()| Ok(book.record(judged.iter().map(|(judged, _)| &judged.new))?))
            }
            None => Err(Error::NoReceipts),
        };
        self.counts.calls.fetch_add(judged.len() as u64, Relaxed);
        self.counts.since_saved.fetch_add(judged.len() as u64, Relaxed);
        let why = outcome.err()?.to_string();
        warn(&format!("a receipt could not be written: {why}"));
        for (one, answer) in judged.iter_mut() {
            self.deliver_without_receipt(one, *answer, &why);
            self.keep_for_review(one, *answer, Some(&why));
        }
        self.tell_oversight(judged.iter().map(|(judged, _)| judged));
        Some(why)
    }

    /// What is left to do once the client has its answer: results kept for review, digests of parts, canaries and controls.
    pub fn after_delivery(&self, judged: &[(JudgedCall, Answer<'_>)]) {
        self.keep_batch_for_review(judged);
        self.after_review(judged.iter().map(|(judged, _)| judged));
    }

    /// The part of [`Self::after_delivery`] that needs the answers.
    pub(crate) fn keep_batch_for_review(&self, judged: &[(JudgedCall, Answer<'_>)]) {
        for (judged, answer) in judged {
            self.keep_for_review(judged, *answer, None);
        }
    }

    /// And the part that does not.
    pub(crate) fn finish_delivered(&self, judged: &[JudgedCall]) {
        self.after_review(judged.iter());
    }

    /// The same but for results kept for review.
    fn after_review<'a>(&self, judged: impl Iterator<Item = &'a JudgedCall> + Clone) {
        self.tell_oversight(judged.clone());
        let (mut canaries, mut controls) = (Vec::new(), Vec::new());
        for judged in judged.clone().filter(|judged| judged.is_accepted()) {
            if !self.owes_shadow(judged) {
                continue;
            }
            match self.canary(judged) {
                Ok(canary) => canaries.extend(canary),
                Err(error) => warn(&format!("a canary could not be judged: {error}")),
            }
            match self.control(judged) {
                Ok(control) => controls.extend(control),
                Err(error) => warn(&format!("a control could not be judged: {error}")),
            }
        }
        if let Some(book) = self.book.as_ref().filter(|_| !canaries.is_empty() || !controls.is_empty())
            && let Err(error) = book.record_shadow(&canaries, &controls)
        {
            warn(&format!("what was judged in shadow could not be written: {error}"));
        }
        let mut digests = self.part_digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.extend(judged.map(|judged| (judged.new.receipt.call, judged.part_digests())));
        let many = digests.len() >= MAX_IN_JOURNAL;
        drop(digests);
        if many {
            self.flush_journal_or_warn();
        }
    }

    /// Calls whose parts have digests that are not in the ledger yet.
    #[cfg(test)]
    pub(crate) fn digests_waiting(&self) -> usize {
        self.part_digests.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// For how long receipts have waited in the journal; `None` where none do, or where [flushing](Self::flush_journal) failed.
    pub fn in_journal_for(&self) -> Option<Duration> {
        self.book.as_ref()?.in_journal_for()
    }

    /// Moves the receipts that are in the journal into the ledger, with the digests of their parts. Where that fails they stay in
    /// the journal; only the digests are lost, which tell which part of a claim differs.
    pub fn flush_journal(&self) -> Result<(), Error> {
        let Some(book) = &self.book else { return Ok(()) };
        let digests = std::mem::take(&mut *self.part_digests.lock().unwrap_or_else(PoisonError::into_inner));
        if digests.is_empty() && book.in_journal() == 0 {
            return Ok(());
        }
        // Written and counted under one lock: a count that is kept reaches exactly as far as it says.
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let flushed = book.flush_journal(digests)?;
        flushed.calls.into_iter().for_each(|counted| tally.add(counted));
        flushed.canaries.iter().for_each(|canary| tally.add_canary(canary, now()));
        flushed.controls.iter().for_each(|control| tally.add_control(control, now()));
        Ok(())
    }

    /// As [`Self::flush_journal`], for callers that cannot do anything about a failure.
    pub fn flush_journal_or_warn(&self) {
        if let Err(error) = self.flush_journal() {
            warn(&format!("nothing can be written into the ledger, and no receipt is until it can: {error}"));
        }
    }

    /// Keeps what was learned and counted, if there was anything since the last time.
    pub fn save(&self) -> Result<(), Error> {
        let flushed = self.flush_journal();
        self.refresh_schemas();
        self.oversight.record_changes(self.book.as_ref());
        self.oversight.keep(self.book.as_ref());
        if self.counts.since_saved.swap(0, Relaxed) == 0 {
            return flushed;
        }
        self.save_model()?;
        let (book, tally) = (self.book.as_ref(), self.tally.lock().unwrap_or_else(PoisonError::into_inner));
        tally.save(&self.place.folder, book)?;
        flushed
    }

    /// Signs a checkpoint over all receipts, those of tasks whose results nobody asked for included, and keeps everything else.
    pub fn close(&self) -> Result<(), Error> {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        self.record_unanswered(tasks.into_values().collect());
        self.take_up_answers_or_warn();
        let saved = self.save();
        // Those that are kept now leave their journal.
        self.take_up_answers_or_warn();
        if let Some(quarantine) = &self.quarantine {
            quarantine.finish();
        }
        self.tick();
        self.oversight.end_metrics(self.book.as_ref().map_or(0, ReceiptBook::in_journal));
        self.oversight.finish();
        self.give_back_unheard();
        let sealed = self.book.as_ref().map_or(Ok(()), ReceiptBook::seal);
        saved.and(sealed.map_err(Error::from))
    }

    /// How a session of the protocol is called in receipts: its own id is what resumes it, and is nobody else's business.
    pub fn session_name(&self, session: &str) -> String {
        let print = fingerprint(&self.key, Some(&Exact::Text(session.into())));
        data_encoding::BASE64URL_NOPAD.encode(&print)
    }

    /// Under whose name receipts and summaries are signed.
    pub fn provider(&self) -> &EntityId {
        &self.settings.provider
    }
}

fn give_back(found: &ServerFolder, state: &Path, launch: &Launch) {
    if let Err(error) = found.give_back(state, launch) {
        warn(&format!("the label of a server that did not start is not free again: {error}"));
    }
}

fn is_same(raw: &RawValue, known: &Value) -> bool {
    serde_json::from_str::<Value>(raw.get()).is_ok_and(|value| value == *known)
}
