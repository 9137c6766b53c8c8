//! What an operator sets, sees and switches: rules per tool, the switch, the wait before enforcing, alerts, metrics, spans. The guard asks it
//! what to do about a tool and tells it what became of each call; nothing here judges.
//!
//! ```text
//! mode now = observe                    while the guard is switched off
//!          = flag                       while a wait before enforcing is not over
//!          = what guard.toml and flags say
//! ```
//!
//! Messages that belong to no call go by the strictest mode that any tool of the server can have.

mod policies;

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use credence_protocol::{
    Decision, SecretKey, Timestamp, is_deceptive,
    receipt::{Receipt, cut_name},
};
use credence_receipts::{OperationAction, OperationRecord, ReceiptBook, folder, now};

use crate::{
    Error,
    alerts::{Alert, Alerts},
    config::{AlertKind, ConfigError, EnforceAfter, GuardConfig, effective::Flags, watch::Watch},
    enforcement::{self, Wait},
    identity::{Launch, ServerIdentity},
    metrics::{Direction, Metrics, Sink, Snapshot},
    quarantine::KeptChange,
    report::{self, GuardReport, Off, ToldChange},
    secrets::SecretVariables,
    settings::GuardMode,
    switch::Switch,
    warn,
};
use policies::Policies;
pub use policies::Policy;

/// Tools whose results in a row are counted.
const MAX_COUNTED: usize = 10_000;
/// Changes that `guard status` shows.
const SHOWN_CHANGES: usize = 5;
/// Entries of changes that wait for the ledger; it gets them every half second.
const MAX_UNRECORDED: usize = 1_000;
/// Results of one tool withheld in a row from which on somebody is told.
pub const LOCK_OUT: u32 = 5;

/// The configuration of a guard: the file, the flags, and which server it stands in front of.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The file.
    pub config: Arc<GuardConfig>,
    /// Flags of the command line.
    pub flags: Flags,
    /// The file to read again when it changes; without it the guard goes by `config` as long as it runs.
    pub watched: Option<PathBuf>,
    /// How the server is started or reached; without it the label alone says which server it is.
    pub launch: Option<Launch>,
}

impl Rules {
    /// No file, and this mode.
    pub fn of_mode(mode: GuardMode) -> Self {
        Self { flags: Flags { mode: Some(mode), ..Flags::default() }, ..Self::default() }
    }
}

/// What became of a call, as an operator sees it.
pub struct EndedCall<'a> {
    /// Its receipt.
    pub receipt: &'a Receipt,
    /// The changes of the tool that its result shows.
    pub changes: &'a [KeptChange],
    /// The client did not get the result.
    pub withheld: bool,
    /// The mode it was judged in.
    pub mode: GuardMode,
    /// The caller's trace.
    pub traceparent: Option<&'a str>,
    /// The caller's session, where it has one.
    pub session: Option<&'a str>,
}

/// What has changed since the operator's side was looked at last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// Nothing that anyone else has to know.
    Nothing,
    /// What holds for tools.
    Policies,
}

/// See the module.
pub struct Oversight {
    rules: Rules,
    label: String,
    policies: ArcSwap<Policies>,
    watch: Option<Watch>,
    /// What is wrong with the newest version of the file, which does not hold.
    config_trouble: Mutex<Option<String>>,
    switch: Switch,
    wait: ArcSwapOption<Wait>,
    /// When the longest wait is over, as it was told when the wait was opened.
    waits_until: Mutex<Option<Timestamp>>,
    alerts: Option<Alerts>,
    metrics: Option<Metrics>,
    sink: OnceLock<Sink>,
    ended: AtomicBool,
    #[cfg(feature = "otlp")]
    spans: Option<crate::spans::Spans>,
    in_a_row: Mutex<HashMap<String, u32>>,
    changes: AtomicU64,
    /// The last of them, oldest first.
    last_changes: Mutex<VecDeque<ToldChange>>,
    /// Entries of changes that are not in the ledger yet: a call does not wait for it.
    unrecorded: Mutex<Vec<OperationRecord>>,
    said: Mutex<Option<GuardReport>>,
    server_folder: PathBuf,
    place: PathBuf,
}

impl Oversight {
    /// For the guard of the server with this label, whose folder and place these are.
    pub fn open(
        rules: Rules,
        label: &str,
        server_folder: PathBuf,
        place: PathBuf,
        key: &SecretKey,
    ) -> Result<Self, Error> {
        let config = &rules.config;
        let alerts = config.alerts.as_ref().map(Alerts::start).transpose()?;
        #[cfg(feature = "otlp")]
        let spans = {
            let endpoint = config.otlp_endpoint.as_ref();
            endpoint.map(|endpoint| crate::spans::Spans::start(endpoint, rules.launch.as_ref())).transpose()?
        };
        #[cfg(not(feature = "otlp"))]
        if config.otlp_endpoint.is_some() {
            return Err(Error::Content("telemetry.otlp_endpoint: this program was built without OpenTelemetry".into()));
        }
        Ok(Self {
            policies: ArcSwap::from_pointee(Policies::new(&rules, Arc::clone(config), label)),
            watch: rules.watched.clone().map(|path| Watch::new(path, config.path.is_some())),
            config_trouble: Mutex::default(),
            switch: Switch::open(&server_folder, &place, key),
            wait: ArcSwapOption::empty(),
            waits_until: Mutex::default(),
            alerts,
            metrics: config.metrics.is_some().then(|| Metrics::new(label, &place_name(&place))),
            sink: OnceLock::new(),
            ended: AtomicBool::new(false),
            #[cfg(feature = "otlp")]
            spans,
            in_a_row: Mutex::default(),
            changes: AtomicU64::new(0),
            last_changes: Mutex::default(),
            unrecorded: Mutex::default(),
            said: Mutex::default(),
            label: label.to_owned(),
            server_folder,
            place,
            rules,
        })
    }

    /// How the server is started or reached.
    pub fn launch(&self) -> Option<&Launch> {
        self.rules.launch.as_ref()
    }

    /// Variables of the environment that nobody else gets.
    pub(crate) fn secrets(&self) -> SecretVariables {
        SecretVariables::new(self.rules.config.alerts.as_ref())
    }

    /// What holds for tools that no section is about.
    pub fn server_policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policies.load().server)
    }

    /// What holds for a tool.
    pub fn policy(&self, tool: &str) -> Arc<Policy> {
        self.policies.load().of(tool)
    }

    /// The mode that holds now for a tool with this policy.
    pub fn mode_of(&self, policy: &Policy) -> GuardMode {
        self.mode_now(policy.mode, policy.enforce_after)
    }

    fn mode_now(&self, mode: GuardMode, after: Option<EnforceAfter>) -> GuardMode {
        if self.switch.is_off() {
            return GuardMode::Observe;
        }
        match (mode, after) {
            (GuardMode::Enforce, Some(after)) if !self.is_over(after) => GuardMode::Flag,
            _ => mode,
        }
    }

    /// Where nothing is known of a wait, it is not over.
    fn is_over(&self, after: EnforceAfter) -> bool {
        self.wait.load().as_ref().is_some_and(|wait| wait.is_over(after))
    }

    /// The strictest mode that holds now for any tool.
    pub fn strictest(&self) -> GuardMode {
        self.policies.load().possible().map(|(mode, after)| self.mode_now(mode, after)).max().unwrap_or_default()
    }

    /// The strictest mode of any tool, as configured.
    pub fn strictest_configured(&self) -> GuardMode {
        self.policies.load().strictest()
    }

    /// Whether it is switched off.
    pub fn is_off(&self) -> bool {
        self.switch.is_off()
    }

    /// Begins, or goes on with, the wait of the model in `folder`; none where no rule has one.
    pub fn open_wait(&self, folder: &std::path::Path, book: Option<&ReceiptBook>) -> Result<(), Error> {
        let waits = self.policies.load().waits();
        if waits.is_empty() {
            return Ok(());
        }
        let opened = Wait::open(folder, waits.clone(), book)?;
        let left = |after: EnforceAfter| match opened.wait.left(after)? {
            EnforceAfter::Time(time) => i64::try_from(time.as_micros()).ok(),
            EnforceAfter::Calls(_) => None,
        };
        let longest = waits.into_iter().filter_map(left).max();
        let until = longest.and_then(|left| Timestamp::from_micros(now().micros().saturating_add(left)).ok());
        *self.waits_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        if let Some(trouble) = &opened.trouble {
            warn(trouble);
            self.alert(AlertKind::Tampering, "wait_file_gone", None);
        }
        self.wait.store(Some(Arc::new(opened.wait)));
        Ok(())
    }

    /// What is looked at every half second.
    pub fn tick(&self, book: Option<&ReceiptBook>) -> Changed {
        if let Some(trouble) = self.switch.refresh(book) {
            warn(&trouble);
            self.alert(AlertKind::Tampering, "switch_forged", None);
        }
        let changed = self.watch.as_ref().and_then(Watch::poll).map(|read| self.take_config(read, book));
        if let Some(wait) = self.wait.load().as_ref() {
            wait.tick();
        }
        self.record_changes(book);
        self.say();
        changed.unwrap_or(Changed::Nothing)
    }

    /// Goes by what the file says now. One that is wrong does not hold: the former one does.
    fn take_config(&self, read: Result<GuardConfig, ConfigError>, book: Option<&ReceiptBook>) -> Changed {
        let mut trouble = self.config_trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let config = match read {
            Ok(config) => config,
            Err(error) => {
                warn(&format!("the former configuration still holds: {error}"));
                *trouble = Some(error.to_string());
                return Changed::Nothing;
            }
        };
        *trouble = None;
        drop(trouble);
        let former = self.policies.load_full();
        if *former.config == config {
            return Changed::Nothing;
        }
        let next = Policies::new(&self.rules, Arc::new(config), &self.label);
        let differences = former.differences(&next);
        let later: Vec<&str> = former.config.restart_for(&next.config);
        self.policies.store(Arc::new(next));
        if !later.is_empty() {
            warn(&format!("what guard.toml says of {} holds when this guard starts again", later.join(", ")));
        }
        if differences.is_empty() {
            return Changed::Nothing;
        }
        let detail = differences.join(", ");
        warn(&format!("guard.toml was read again: {detail}"));
        let operation = OperationRecord::by_guard(OperationAction::Configured, Some(detail));
        if let Some(Err(error)) = book.map(|book| book.record_operation(&operation)) {
            warn(&format!("that guard.toml was read again could not be recorded: {error}"));
        }
        Changed::Policies
    }

    /// What is kept now and then, and at the end.
    pub fn keep(&self, book: Option<&ReceiptBook>) {
        if let Some(wait) = self.wait.load().as_ref()
            && let Err(error) = wait.keep(book)
        {
            warn(&format!("how much of the wait before enforcing has passed is not kept: {error}"));
        }
    }

    /// Raises an alert that is about no call.
    pub fn alert(&self, kind: AlertKind, reason: &'static str, tool: Option<&str>) {
        if kind == AlertKind::Change {
            let told =
                ToldChange { at: now(), reason: reason.into(), tool: tool.map(plain), call: None, sightings: None };
            self.count_change();
            self.note_change(told);
        }
        let Some(alerts) = &self.alerts else { return };
        let (server, tool) = (self.label.clone(), tool.map(plain));
        alerts.raise(&Alert { kind, reason: reason.into(), server, at: now(), call: None, tool, verdict: None });
    }

    fn count_change(&self) {
        self.changes.fetch_add(1, Relaxed);
        if let Some(metrics) = &self.metrics {
            metrics.changed();
        }
    }

    fn note_change(&self, told: ToldChange) {
        let mut last = self.last_changes.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= SHOWN_CHANGES {
            last.pop_front();
        }
        last.push_back(told);
    }

    /// Takes in what a result shows of a change of its tool.
    fn change_of(&self, receipt: &Receipt, change: &KeptChange) {
        let kind = if change.is_lock_out() { AlertKind::LockOut } else { AlertKind::Change };
        let (tool, call) = (Some(plain(&receipt.tool)), Some(receipt.call));
        let mut entry = OperationRecord::by_guard(OperationAction::Changed, Some(change.progress()));
        (entry.tool, entry.call) = (tool.clone(), call);
        if kind == AlertKind::Change {
            self.count_change();
        }
        self.note_change(ToldChange {
            at: entry.at,
            reason: change.reason.clone(),
            tool: tool.clone(),
            call,
            sightings: Some(change.sightings),
        });
        if let Some(alerts) = &self.alerts {
            let (reason, server, verdict) = (change.reason.clone().into(), self.label.clone(), receipt.verdict);
            alerts.raise(&Alert { kind, reason, server, at: entry.at, call, tool, verdict });
        }
        let mut unrecorded = self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner);
        if unrecorded.len() < MAX_UNRECORDED {
            unrecorded.push(entry);
        }
    }

    /// Writes what was told of changes into the ledger.
    pub fn record_changes(&self, book: Option<&ReceiptBook>) {
        let entries = std::mem::take(&mut *self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner));
        if entries.is_empty() {
            return;
        }
        if let Some(Err(error)) = book.map(|book| book.record_operations(&entries)) {
            warn(&format!("changes of tools that were told could not be recorded: {error}"));
            let mut unrecorded = self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner);
            let room = MAX_UNRECORDED.saturating_sub(unrecorded.len());
            unrecorded.extend(entries.into_iter().take(room));
        }
    }

    /// Takes in calls that have ended.
    pub fn ended(&self, calls: &[EndedCall<'_>]) {
        if let Some(wait) = self.wait.load().as_ref() {
            wait.count(calls.len() as u64);
        }
        for call in calls {
            call.changes.iter().for_each(|change| self.change_of(call.receipt, change));
            self.alert_of(call);
            if let Some(metrics) = &self.metrics {
                metrics.call(call.receipt, call.withheld);
            }
            #[cfg(feature = "otlp")]
            if let Some(spans) = &self.spans {
                spans.call(&crate::spans::SpanOfCall {
                    receipt: call.receipt,
                    traceparent: call.traceparent,
                    session: call.session,
                    withheld: call.withheld,
                    mode: call.mode.name(),
                });
            }
        }
    }

    fn alert_of(&self, call: &EndedCall<'_>) {
        let receipt = call.receipt;
        let raise = |kind: AlertKind, reason: &'static str| {
            let Some(alerts) = &self.alerts else { return };
            let (server, tool) = (self.label.clone(), Some(plain(&receipt.tool)));
            let (call, verdict) = (Some(receipt.call), receipt.verdict);
            alerts.raise(&Alert { kind, reason: reason.into(), server, at: now(), call, tool, verdict });
        };
        if receipt.verdict == Some(Decision::Block) {
            raise(AlertKind::Block, if call.withheld { "withheld" } else { "blocked" });
        }
        let mut in_a_row = self.in_a_row.lock().unwrap_or_else(PoisonError::into_inner);
        if !call.withheld {
            in_a_row.remove(&receipt.tool);
            return;
        }
        if in_a_row.len() >= MAX_COUNTED {
            in_a_row.clear();
        }
        let count = in_a_row.entry(receipt.tool.clone()).or_default();
        *count = count.saturating_add(1);
        if *count == LOCK_OUT {
            raise(AlertKind::LockOut, "withheld_in_a_row");
        }
    }

    /// How long a message was in the guard.
    pub fn added(&self, direction: Direction, time: Duration) {
        if let Some(metrics) = &self.metrics {
            metrics.added(direction, time);
        }
    }

    /// Opens the file or socket of the metrics. `in_journal` gives how many records wait there; `None` ends the socket.
    pub fn open_metrics(
        self: &Arc<Self>,
        name: &str,
        number: u32,
        in_journal: Arc<dyn Fn() -> Option<usize> + Send + Sync>,
    ) -> Result<(), Error> {
        let Some(config) = &self.rules.config.metrics else { return Ok(()) };
        let weak = Arc::downgrade(self);
        let text = move || Some(weak.upgrade()?.metrics_text(in_journal()?));
        let sink = Sink::open(config, name, number, Arc::new(text))?;
        let _ = self.sink.set(sink);
        Ok(())
    }

    fn metrics_text(&self, in_journal: usize) -> String {
        let Some(metrics) = &self.metrics else { return String::new() };
        metrics.text(&Snapshot {
            in_journal,
            alerts: self.alerts.as_ref().map(Alerts::counts).unwrap_or_default(),
            quarantine_bytes: folder_bytes(&self.place.join("quarantine")),
            off: self.is_off(),
            enforcing: self.strictest() == GuardMode::Enforce,
            ended: self.ended.load(Relaxed),
        })
    }

    /// Writes the last metrics: the guard ends, and its file stays.
    pub fn end_metrics(&self, in_journal: usize) {
        self.ended.store(true, Relaxed);
        self.write_metrics(in_journal);
    }

    /// Replaces the file of the metrics.
    pub fn write_metrics(&self, in_journal: usize) {
        if let Some(sink) = self.sink.get() {
            sink.write(&|| self.metrics_text(in_journal));
        }
    }

    /// Tells `credence guard status`, where anything is new.
    pub fn say(&self) {
        let report = self.report();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.as_ref() == Some(&report) {
            return;
        }
        let kept = serde_json::to_vec_pretty(&report).map_err(|e| Error::Content(e.to_string()));
        let kept = kept.and_then(|bytes| Ok(folder::replace_file(&self.place.join(report::FILE), &bytes)?));
        if let Err(error) = kept {
            warn(&format!("what `guard status` shows is not kept: {error}"));
        }
        *said = Some(report);
    }

    fn report(&self) -> GuardReport {
        let identity = ServerIdentity::read(&self.server_folder);
        let off = self.switch.off_since();
        let policies = self.policies.load();
        let wait = self.wait.load();
        let left = |after: EnforceAfter| wait.as_ref()?.left(after);
        let waits: Vec<EnforceAfter> = policies.waits().into_iter().filter_map(left).collect();
        let folder = crate::identity::model_folder(&self.server_folder);
        let progress = wait.as_ref().and_then(|_| enforcement::Progress::read(&folder));
        let current = identity.as_ref().and_then(|one| one.declared_name().map(str::to_owned));
        GuardReport {
            label: self.label.clone(),
            server: identity.as_ref().map(|one| one.description.clone()),
            follows: identity.as_ref().and_then(|one| one.follows.clone()),
            former_names: identity
                .map(|one| one.declared.into_iter().map(|one| one.name).filter(|name| Some(name) != current.as_ref()))
                .map(Iterator::collect)
                .unwrap_or_default(),
            declared: current,
            mode: self.strictest_configured().name().to_owned(),
            mode_now: self.strictest().name().to_owned(),
            config: policies.config.path.as_ref().map(|path| path.display().to_string()),
            config_trouble: self.config_trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            restart_for: self.rules.config.restart_for(&policies.config).into_iter().map(str::to_owned).collect(),
            off: off.map(|record| Off { since: record.at, by: record.by.clone() }),
            // Whole minutes: a file that is written twice a second helps nobody.
            waits: waits.iter().map(|left| about(*left)).collect(),
            waits_until: self.waits_until.lock().unwrap_or_else(PoisonError::into_inner).filter(|_| !waits.is_empty()),
            wait_restarted: progress.is_some_and(|progress| progress.restarted),
            alerts: self.alerts.as_ref().map(Alerts::counts),
            changes: self.changes.load(Relaxed),
            last_changes: self.last_changes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect(),
        }
    }

    /// Delivers what is still to be told, and ends.
    pub fn finish(&self) {
        if let Some(alerts) = &self.alerts {
            alerts.finish();
        }
        #[cfg(feature = "otlp")]
        if let Some(spans) = &self.spans {
            spans.finish();
        }
        self.say();
    }
}

/// A tool's name that no terminal or receiver can stumble over.
fn plain(tool: &str) -> String {
    cut_name(&tool.chars().filter(|c| !is_deceptive(*c)).collect::<String>())
}

/// What is left, in minutes where it is a time.
fn about(left: EnforceAfter) -> String {
    match left {
        EnforceAfter::Time(time) if time >= Duration::from_secs(60) => {
            let minutes = time.as_secs().div_ceil(60);
            crate::config::words_of(Duration::from_secs(minutes * 60))
        }
        EnforceAfter::Time(_) => "less than a minute".to_owned(),
        EnforceAfter::Calls(calls) => format!("{calls} calls"),
    }
}

/// The last two parts of a guard's place: the server's folder and the guard's number.
fn place_name(place: &std::path::Path) -> String {
    let parts = [place.parent().and_then(std::path::Path::file_name), place.file_name()];
    parts.map(|part| part.unwrap_or_default().to_string_lossy()).join("/")
}

fn folder_bytes(folder: &std::path::Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(std::fs::Metadata::is_file).map(|meta| meta.len()).sum()
}
