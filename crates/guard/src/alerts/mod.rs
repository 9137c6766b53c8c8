//! Alerts: somebody is told when a result is blocked, a tool has changed, several results in a row are withheld, or something was tampered
//! with. An alert holds call id, tool, verdict, server, time and kind; never arguments or results.
//!
//! ```text
//! guard ─▶ rate limit per kind ─▶ queue (256) ─▶ a thread for the webhook: POST, three tries
//!                                           └──▶ a thread for the command: one at a time, ten seconds each
//! ```
//!
//! Raising an alert never waits: what does not fit into a queue is counted as dropped. What became of alerts is in `guard status`.

mod command;
mod webhook;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, Receiver, SyncSender},
    },
    time::{Duration, Instant},
};

use credence_protocol::{Decision, Timestamp, Uuid};
use serde::{Deserialize, Serialize};

use crate::{
    Error,
    config::{AlertConfig, AlertKind},
    secrets::SecretVariables,
    warn,
};

/// Alerts that wait for one receiver.
const QUEUE: usize = 256;
/// How long the last ones may take when the guard ends.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// One alert.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alert {
    /// What it is about.
    pub kind: AlertKind,
    /// What happened, a fixed word: `blocked`, `withheld_in_a_row`, `server_renamed`, `journal_forged`, …
    pub reason: Cow<'static, str>,
    /// The client's label of the server.
    pub server: String,
    /// When.
    pub at: Timestamp,
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<Uuid>,
    /// The tool, without control characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The verdict on its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Decision>,
}

/// What became of alerts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertCounts {
    /// Delivered.
    pub sent: u64,
    /// Given up after the last try.
    pub failed: u64,
    /// No room in the queue.
    pub dropped: u64,
    /// More of one kind in a minute than there may be.
    pub suppressed: u64,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why a receiver has got nothing since the guard started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<String>,
}

#[derive(Default)]
struct Counters {
    sent: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    suppressed: AtomicU64,
    error: Mutex<Option<String>>,
}

impl Counters {
    fn done(&self, done: Result<(), String>) {
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(()) => {
                self.sent.fetch_add(1, Relaxed);
                *error = None;
            }
            Err(why) => {
                self.failed.fetch_add(1, Relaxed);
                // Once, not for each of a flood.
                if error.as_deref() != Some(why.as_str()) {
                    warn(&format!("an alert could not be delivered: {why}"));
                }
                *error = Some(why);
            }
        }
    }
}

/// Whom to tell, running.
pub struct Alerts {
    on: Vec<AlertKind>,
    queues: Mutex<Vec<SyncSender<Alert>>>,
    ended: Mutex<Vec<Receiver<()>>>,
    counters: Arc<Counters>,
    limits: Mutex<BTreeMap<AlertKind, (Instant, u32)>>,
    per_minute: u32,
    /// Why a receiver gets nothing.
    off: Option<String>,
}

/// Delivers one alert; the words say why it failed.
type Deliver = Box<dyn FnMut(&Alert) -> Result<(), String> + Send>;

impl Alerts {
    /// Starts a thread for each receiver. One that cannot be told anything is left out, which [`AlertCounts::off`] says.
    pub fn start(config: &AlertConfig) -> Result<Self, Error> {
        let (mut receivers, mut off): (Vec<(&str, Deliver)>, Option<String>) = (Vec::new(), None);
        if let Some(webhook) = &config.webhook {
            match webhook::deliverer(webhook) {
                Ok(deliver) => receivers.push(("alerts-webhook", deliver)),
                // A guard that did not start would take the client's tools away.
                Err(error) => {
                    warn(&format!("alerts are not sent to the webhook: {error}"));
                    off = Some(format!("the webhook gets nothing: {error}"));
                }
            }
        }
        if let Some(command) = &config.command {
            receivers.push(("alerts-command", command::deliverer(command.clone(), SecretVariables::new(Some(config)))));
        }
        let counters = Arc::new(Counters::default());
        let (mut queues, mut ended) = (Vec::new(), Vec::new());
        for (name, mut deliver) in receivers {
            let (queue, waiting) = mpsc::sync_channel::<Alert>(QUEUE);
            let (end, has_ended) = mpsc::sync_channel(1);
            let counters = Arc::clone(&counters);
            let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                for alert in waiting {
                    counters.done(deliver(&alert));
                }
                let _ = end.send(());
            });
            spawned.map_err(|e| Error::Io("alerts".into(), e))?;
            queues.push(queue);
            ended.push(has_ended);
        }
        let (queues, ended) = (Mutex::new(queues), Mutex::new(ended));
        Ok(Self {
            on: config.on.clone(),
            queues,
            ended,
            counters,
            limits: Mutex::default(),
            per_minute: config.per_minute,
            off,
        })
    }

    /// Sends alerts of this kind to those that are configured. Never waits.
    pub fn raise(&self, alert: &Alert) {
        if !self.on.contains(&alert.kind) {
            return;
        }
        if !self.within_limit(alert.kind) {
            self.counters.suppressed.fetch_add(1, Relaxed);
            return;
        }
        for queue in self.queues.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if queue.try_send(alert.clone()).is_err() {
                self.counters.dropped.fetch_add(1, Relaxed);
            }
        }
    }

    /// A flood of one kind takes nothing from the others.
    fn within_limit(&self, kind: AlertKind) -> bool {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = limits.entry(kind).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= Duration::from_secs(60) {
            (*since, *count) = (Instant::now(), 0);
        }
        *count = count.saturating_add(1);
        *count <= self.per_minute
    }

    /// What became of them so far.
    pub fn counts(&self) -> AlertCounts {
        let Counters { sent, failed, dropped, suppressed, error } = &*self.counters;
        let error = error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let [sent, failed, dropped, suppressed] = [sent, failed, dropped, suppressed].map(|count| count.load(Relaxed));
        AlertCounts { sent, failed, dropped, suppressed, error, off: self.off.clone() }
    }

    /// Takes no more, and waits a little for what is in the queues.
    pub fn finish(&self) {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let until = Instant::now() + LAST_PATIENCE;
        for ended in self.ended.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = ended.recv_timeout(until.saturating_duration_since(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(kind: AlertKind) -> Alert {
        let at = credence_receipts::now();
        Alert { kind, reason: "blocked".into(), server: "s".into(), at, call: None, tool: None, verdict: None }
    }

    fn told(script: &str) -> AlertConfig {
        let command = Some(["sh", "-c", script].map(str::to_owned).to_vec());
        AlertConfig { on: AlertKind::ALL.to_vec(), webhook: None, command, per_minute: 1000 }
    }

    #[test]
    fn a_receiver_that_hangs_holds_up_nobody_and_what_has_no_room_is_counted() {
        let alerts = Alerts::start(&told("cat > /dev/null; sleep 20")).unwrap();
        let began = Instant::now();
        for _ in 0..QUEUE + 50 {
            alerts.raise(&alert(AlertKind::Block));
        }
        assert!(began.elapsed() < Duration::from_secs(5), "nobody waits for the receiver");
        assert!(alerts.counts().dropped >= 49, "{:?}", alerts.counts());
    }

    #[test]
    fn a_flood_of_one_kind_leaves_room_for_the_others() {
        let alerts = Alerts::start(&AlertConfig { per_minute: 3, ..told("exit 0") }).unwrap();
        (0..10).for_each(|_| alerts.raise(&alert(AlertKind::Block)));
        alerts.raise(&alert(AlertKind::Tampering));
        alerts.finish();
        let counts = alerts.counts();
        assert_eq!((counts.sent, counts.suppressed), (4, 7), "{counts:?}");
    }

    #[test]
    fn what_nobody_asked_for_is_not_told_and_failures_are_counted() {
        let alerts = Alerts::start(&AlertConfig { on: vec![AlertKind::Tampering], ..told("exit 7") }).unwrap();
        alerts.raise(&alert(AlertKind::Block));
        alerts.raise(&alert(AlertKind::Tampering));
        alerts.finish();
        let counts = alerts.counts();
        assert_eq!((counts.sent, counts.failed), (0, 1), "{counts:?}");
        assert!(counts.error.unwrap().contains("exit status: 7"));
    }
}
