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

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use credence_protocol::{
    Decision, Timestamp, Uuid,
    receipt::{Receipt, cut_name},
};
use credence_receipts::{ReceiptBook, folder, now};
use credence_verify::{ChangeStage, Verdict};

use crate::{
    Error,
    alerts::{Alert, Alerts},
    config::{AlertKind, EnforceAfter, FlagAction, GuardConfig, effective::Flags},
    enforcement::{self, Wait},
    identity::{Launch, ServerIdentity},
    metrics::{Direction, Metrics, Sink, Snapshot},
    report::{self, GuardReport, Off},
    settings::GuardMode,
    switch::{self, Switch},
    warn,
};

/// Tools whose policies are remembered.
const MAX_POLICIES: usize = 10_000;
/// Results of one tool withheld in a row from which on somebody is told.
pub const LOCK_OUT: u32 = 5;

/// The configuration of a guard: the file, the flags, and which server it stands in front of.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The file.
    pub config: Arc<GuardConfig>,
    /// Flags of the command line.
    pub flags: Flags,
    /// How the server is started or reached; without it the label alone says which server it is.
    pub launch: Option<Launch>,
}

impl Rules {
    /// No file, and this mode.
    pub fn of_mode(mode: GuardMode) -> Self {
        Self { flags: Flags { mode: Some(mode), ..Flags::default() }, ..Self::default() }
    }
}

/// What holds for one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// What is done about a result that is not believed, once any wait is over.
    pub mode: GuardMode,
    /// How long before enforcing.
    pub enforce_after: Option<EnforceAfter>,
    /// The share of genuine results that may be blocked.
    pub block_rate: Option<f64>,
    /// Whether results are looked at for text that instructs the model.
    pub content_injection: bool,
    /// The share of accepted results of which a made-up variant is judged in shadow.
    pub canaries: f64,
    /// What is done about flags.
    pub flags: FlagAction,
}

/// What became of a call, as an operator sees it.
pub struct EndedCall<'a> {
    /// Its receipt.
    pub receipt: &'a Receipt,
    /// The client did not get the result.
    pub withheld: bool,
    /// The mode it was judged in.
    pub mode: GuardMode,
    /// The caller's trace.
    pub traceparent: Option<&'a str>,
    /// The caller's session, where it has one.
    pub session: Option<&'a str>,
}

/// See the module.
pub struct Oversight {
    rules: Rules,
    label: String,
    server: Arc<Policy>,
    /// Whether any section is about single tools of this server.
    by_tool: bool,
    tools: Mutex<HashMap<String, Arc<Policy>>>,
    possible: Vec<(GuardMode, Option<EnforceAfter>)>,
    switch: Switch,
    wait: ArcSwapOption<Wait>,
    /// When the longest wait is over, as it was told when the wait was opened.
    waits_until: Mutex<Option<Timestamp>>,
    alerts: Option<Alerts>,
    metrics: Option<Metrics>,
    sink: OnceLock<Sink>,
    #[cfg(feature = "otlp")]
    spans: Option<crate::spans::Spans>,
    in_a_row: Mutex<HashMap<String, u32>>,
    changes: AtomicU64,
    last_change: Mutex<Option<String>>,
    said: Mutex<Option<GuardReport>>,
    server_folder: PathBuf,
    place: PathBuf,
}

impl Oversight {
    /// For the guard of the server with this label, whose folder and place these are.
    pub fn open(rules: Rules, label: &str, server_folder: PathBuf, place: PathBuf) -> Result<Self, Error> {
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
        let fitting = || config.servers.iter().filter(|section| section.servers.matches(label));
        Ok(Self {
            server: Arc::new(policy(&rules, label, None)),
            by_tool: fitting().any(|section| !section.tools.is_empty()),
            tools: Mutex::default(),
            possible: config.possible(label, &rules.flags),
            switch: Switch::open(&server_folder, &place),
            wait: ArcSwapOption::empty(),
            waits_until: Mutex::default(),
            alerts,
            metrics: config.metrics.is_some().then(|| Metrics::new(label)),
            sink: OnceLock::new(),
            #[cfg(feature = "otlp")]
            spans,
            in_a_row: Mutex::default(),
            changes: AtomicU64::new(0),
            last_change: Mutex::default(),
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

    /// What holds for tools that no section is about.
    pub fn server_policy(&self) -> &Policy {
        &self.server
    }

    /// What holds for a tool.
    pub fn policy(&self, tool: &str) -> Arc<Policy> {
        if !self.by_tool {
            return Arc::clone(&self.server);
        }
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tools.get(tool) {
            return Arc::clone(known);
        }
        if tools.len() >= MAX_POLICIES {
            tools.clear();
        }
        let made = Arc::new(policy(&self.rules, &self.label, Some(tool)));
        tools.insert(tool.to_owned(), Arc::clone(&made));
        made
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
        let all = self.possible.iter().map(|(mode, after)| self.mode_now(*mode, *after));
        all.max().unwrap_or_default()
    }

    /// The strictest mode of any tool, as configured.
    pub fn strictest_configured(&self) -> GuardMode {
        self.possible.iter().map(|(mode, _)| *mode).max().unwrap_or_default()
    }

    /// Whether it is switched off.
    pub fn is_off(&self) -> bool {
        self.switch.is_off()
    }

    /// Begins, or goes on with, the wait of the model in `folder`; none where no rule has one.
    pub fn open_wait(&self, folder: &std::path::Path, book: Option<&ReceiptBook>) -> Result<(), Error> {
        let waits = self.waits();
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

    /// Every wait that a tool can have: one section may set the mode and another the wait.
    fn waits(&self) -> Vec<EnforceAfter> {
        if self.strictest_configured() != GuardMode::Enforce {
            return Vec::new();
        }
        let mut waits: Vec<EnforceAfter> = self.possible.iter().filter_map(|(_, after)| *after).collect();
        waits.dedup();
        waits
    }

    /// What is looked at every half second.
    pub fn tick(&self, book: Option<&ReceiptBook>) {
        self.switch.refresh(book);
        if let Some(wait) = self.wait.load().as_ref() {
            wait.tick();
        }
        self.say();
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
        self.raise(kind, reason, tool, None);
    }

    fn raise(&self, kind: AlertKind, reason: &'static str, tool: Option<&str>, call: Option<(Uuid, Decision)>) {
        if kind == AlertKind::Change {
            self.changes.fetch_add(1, Relaxed);
            let what = tool.map_or_else(|| reason.to_owned(), |tool| format!("{reason}: {}", plain(tool)));
            *self.last_change.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{} {what}", now()));
            if let Some(metrics) = &self.metrics {
                metrics.changed();
            }
        }
        let Some(alerts) = &self.alerts else { return };
        let (server, tool) = (self.label.clone(), tool.map(plain));
        let (call, verdict) = call.unzip();
        alerts.raise(&Alert { kind, reason, server, at: now(), call, tool, verdict });
    }

    /// Takes in what the engine says of a change of the tool.
    pub fn changed(&self, call: Uuid, tool: &str, verdict: &Verdict) {
        for change in &verdict.changes {
            let (kind, reason) = match change.stage {
                ChangeStage::Believed => (AlertKind::Change, "believed_again"),
                ChangeStage::Learned => (AlertKind::Change, "learned"),
                ChangeStage::LockedOut => (AlertKind::LockOut, "blocked_for_a_while"),
                // A lie that is told again and again looks the same: somebody has to look before it is believed.
                _ => (AlertKind::Change, "recurring"),
            };
            self.raise(kind, reason, Some(tool), Some((call, verdict.decision)));
        }
    }

    /// Takes in calls that have ended.
    pub fn ended(&self, calls: &[EndedCall<'_>]) {
        if let Some(wait) = self.wait.load().as_ref() {
            wait.count(calls.len() as u64);
        }
        for call in calls {
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
            alerts.raise(&Alert { kind, reason, server, at: now(), call, tool, verdict });
        };
        if receipt.verdict == Some(Decision::Block) {
            raise(AlertKind::Block, if call.withheld { "withheld" } else { "blocked" });
        }
        let mut in_a_row = self.in_a_row.lock().unwrap_or_else(PoisonError::into_inner);
        if !call.withheld {
            in_a_row.remove(&receipt.tool);
            return;
        }
        if in_a_row.len() >= MAX_POLICIES {
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
        })
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
        let off = self.is_off().then(|| switch::off_since(&self.server_folder)).flatten();
        let wait = self.wait.load();
        let left = |after: EnforceAfter| wait.as_ref()?.left(after);
        let waits: Vec<EnforceAfter> = self.waits().into_iter().filter_map(left).collect();
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
            config: self.rules.config.path.as_ref().map(|path| path.display().to_string()),
            off: off.map(|record| Off { since: record.at, by: record.by }),
            // Whole minutes: a file that is written twice a second helps nobody.
            waits: waits.iter().map(|left| about(*left)).collect(),
            waits_until: self.waits_until.lock().unwrap_or_else(PoisonError::into_inner).filter(|_| !waits.is_empty()),
            wait_restarted: progress.is_some_and(|progress| progress.restarted),
            alerts: self.alerts.as_ref().map(Alerts::counts),
            changes: self.changes.load(Relaxed),
            last_change: self.last_change.lock().unwrap_or_else(PoisonError::into_inner).clone(),
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

fn policy(rules: &Rules, label: &str, tool: Option<&str>) -> Policy {
    let effective = rules.config.effective(label, tool, &rules.flags);
    Policy {
        mode: effective.mode.value,
        enforce_after: effective.enforce_after.value,
        block_rate: effective.block_rate.value,
        content_injection: effective.content_injection.value,
        canaries: effective.canaries.value,
        flags: effective.flags.value,
    }
}

/// A tool's name that no terminal or receiver can stumble over.
fn plain(tool: &str) -> String {
    cut_name(&tool.chars().filter(|c| !c.is_control()).collect::<String>())
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

fn folder_bytes(folder: &std::path::Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(std::fs::Metadata::is_file).map(|meta| meta.len()).sum()
}
