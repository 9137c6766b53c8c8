//! What the authority is told: window summaries, signed as provider, and the checkpoint of the receipts they were counted from.
//! Where the operator asks for it also the receipts, which hold commitments and no arguments or results.
//!
//! What is to be sent is on disk before it is sent, and leaves the disk when the authority has it: it arrives at least once, and
//! twice is as good as once. While the authority is away the newest summary of a window takes the place of the one before.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, PoisonError,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use credence_engine::hcs25::output_verification::Window;
use credence_ledger::{Checkpoint, Kind, Ledger, View, proof};
use credence_protocol::{
    EntityId,
    receipt::{MAX_RECEIPT_BYTES, Receipt},
};
use data_encoding::BASE64;
use reqwest::{StatusCode, blocking::Client};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::Url;

use crate::{
    Error, Guard, folder,
    receipts::Private,
    segments::{PRIVATE, now, open_segment, origin, segment_origin, segments, visit},
    warn,
};

/// How long to wait after a failure, at first and at most.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// How long the authority may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take when the guard is about to end.
const LAST_PATIENCE: Duration = Duration::from_secs(3);
/// Receipts of one batch.
const BATCH: usize = 200;
/// Characters of an error that are kept.
const SHOWN: usize = 400;

/// Where to, and what.
#[derive(Debug, Clone)]
pub struct Route {
    /// The authority.
    pub authority: Url,
    /// A token with scope `ingest`.
    pub token: Option<String>,
    /// How often.
    pub every: Duration,
    /// Receipts too.
    pub receipts: bool,
    /// Their salts too, so that anyone with a claim can check it there.
    pub salts: bool,
}

/// How it went, in a file for `credence guard status`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Where to.
    pub authority: String,
    /// When everything was sent last.
    #[serde(default)]
    pub sent_at: Option<String>,
    /// What went wrong last, since then.
    #[serde(default)]
    pub error: Option<String>,
    /// What waits.
    #[serde(default)]
    pub waiting: usize,
}

/// The thread that sends.
pub struct Courier {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Courier {
    /// Begins to send, every now and then.
    pub fn start(guard: Arc<Guard>, route: Route) -> Result<Self, Error> {
        let authority = route.authority.clone();
        let failed = |why: String| Error::Address(format!("--authority {authority}: {why}"));
        if !matches!(route.authority.scheme(), "http" | "https") || route.authority.host().is_none() {
            return Err(failed("an http or https URL is needed".to_owned()));
        }
        let spool = guard.place.folder.join("spool");
        folder::make(&spool)?;
        let client = Client::builder().timeout(PATIENCE).build().map_err(|e| failed(e.to_string()))?;
        let progress = Progress { authority: crate::http::shown(&route.authority), ..Progress::default() };
        let (stop, stopped) = mpsc::channel();
        let mut round = Round {
            guard,
            route,
            spool,
            client,
            progress,
            failures: 0,
            not_before: Instant::now(),
            shown: std::cell::Cell::new(false),
        };
        let thread = std::thread::Builder::new().name("courier".to_owned()).spawn(move || {
            loop {
                let ended = stopped.recv_timeout(round.route.every) != Err(RecvTimeoutError::Timeout);
                round.go(ended);
                if ended {
                    return;
                }
            }
        });
        let thread = thread.map_err(|e| failed(e.to_string()))?;
        Ok(Self { stop, thread })
    }

    /// Sends what there is once more, and ends.
    pub fn finish(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

struct Round {
    guard: Arc<Guard>,
    route: Route,
    spool: PathBuf,
    client: Client,
    progress: Progress,
    failures: u32,
    not_before: Instant,
    /// The authority was shown this log since the start, and took it for the one it knows.
    shown: std::cell::Cell<bool>,
}

impl Round {
    fn go(&mut self, last: bool) {
        if let Err(error) = self.write_summaries() {
            warn(&format!("a summary could not be written down, and is made again later: {error}"));
        }
        if !last && Instant::now() < self.not_before {
            return;
        }
        if last {
            let quick = Client::builder().timeout(LAST_PATIENCE).build();
            self.client = quick.unwrap_or_else(|_| self.client.clone());
        }
        // What one of them is refused for does not hold up the other.
        let (summaries, receipts) = (self.send_summaries(), self.send_receipts());
        let sent = summaries.and(receipts);
        match sent {
            Ok(()) => {
                self.failures = 0;
                self.progress.sent_at = Some(now().to_string());
                self.progress.error = None;
            }
            Err(why) => {
                let why: String = why.chars().take(SHOWN).collect();
                if self.progress.error.as_deref() != Some(&why) {
                    warn(&format!("{}: {why}; kept, and tried again", crate::http::shown(&self.route.authority)));
                }
                let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(10)).min(LONGEST_WAIT);
                self.failures += 1;
                self.not_before = Instant::now() + wait;
                self.progress.error = Some(why);
            }
        }
        self.progress.waiting = waiting(&self.spool).map_or(0, |files| files.len());
        let kept = serde_json::to_vec(&self.progress).map_err(|e| Error::Receipts(e.to_string()));
        // For people to look at; the next round writes it anew.
        let _ = kept.and_then(|bytes| folder::replace(&self.guard.place.folder.join("courier.json"), &bytes));
    }

    /// Puts the summaries of every agent that has new receipts on disk.
    fn write_summaries(&self) -> Result<(), Error> {
        self.guard.settle_or_warn();
        let changed = self.guard.tally.lock().unwrap_or_else(PoisonError::into_inner).take_changed();
        if changed.is_empty() {
            return Ok(());
        }
        let written = self.write_summaries_of(&changed);
        if written.is_err() {
            let mut tally = self.guard.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.changed_again(changed);
        }
        written
    }

    fn write_summaries_of(&self, agents: &std::collections::BTreeSet<String>) -> Result<(), Error> {
        let checkpoint = match self.guard.recorder() {
            Some(recorder) => {
                recorder.flush()?;
                recorder.current().1.view()?.checkpoint()?
            }
            None => None,
        };
        let end = now();
        let together = {
            let tally = self.guard.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.together(&self.guard.settings.state, &self.guard.place.folder)
        };
        for agent in agents {
            for window in Window::ALL {
                let Some(up) = together.summary(agent, window, end) else { continue };
                let id = EntityId::new(agent)?;
                let signed = up.statement(self.guard.provider(), &id, checkpoint.as_deref(), self.guard.key())?;
                // The newest of an agent's window is all that the authority wants.
                let file = self.spool.join(format!("{agent}.{}.json", window.key()));
                folder::replace(&file, signed.canonical().as_bytes())?;
            }
        }
        Ok(())
    }

    fn url(&self, path: &str) -> Result<Url, String> {
        let base = self.route.authority.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{path}")).map_err(|e| e.to_string())
    }

    fn post(&self, path: &str, body: Vec<u8>) -> Result<(StatusCode, Value), String> {
        let mut request = self.client.post(self.url(path)?).header("Content-Type", "application/json").body(body);
        if let Some(token) = &self.route.token {
            request = request.bearer_auth(token);
        }
        answer(request)
    }

    /// Sends what is on disk. What is refused for good, because something newer is there, goes; all else stays.
    fn send_summaries(&self) -> Result<(), String> {
        let mut refused = None;
        for file in waiting(&self.spool).map_err(|e| e.to_string())? {
            let body = fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let (status, answer) = self.post("/v1/statements", body)?;
            let code = answer["code"].as_str().unwrap_or_default();
            if status.is_success() || code == "older_summary" {
                fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            } else if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                return Err(told(status, &answer));
            } else {
                // Somebody has to do something: register the agent, admit the provider, renew the token.
                refused.get_or_insert_with(|| told(status, &answer));
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Sends the checkpoint, and receipts that the authority does not have, segment by segment.
    fn send_receipts(&self) -> Result<(), String> {
        if self.guard.recorder().is_none() {
            return Ok(());
        }
        let words = |e: &dyn std::fmt::Display| e.to_string();
        let folder = self.guard.place.folder.join("receipts");
        let log = origin(self.guard.provider(), &self.guard.settings.name, self.guard.place.number);
        let key = self.guard.key().public();
        let there = segments(&folder).map_err(|e| words(&e))?;
        let newest = there.last().map(|(number, _)| *number);
        for (number, _) in there.into_iter().filter(|(_, there)| *there) {
            // Without receipts, only how far the log has grown.
            if !self.route.receipts && Some(number) != newest {
                continue;
            }
            let ledger = open_segment(&folder, number, &log, &key, true).map_err(|e| words(&e))?;
            let log = segment_origin(&log, number);
            let mut url = self.url("/v1/receipts")?;
            url.query_pairs_mut().append_pair("log", &log);
            let (status, known) = answer(self.client.get(url))?;
            if !status.is_success() {
                return Err(told(status, &known));
            }
            let (mut size, mut next) =
                (known["size"].as_u64().unwrap_or_default(), known["next"].as_u64().unwrap_or_default());
            loop {
                let view = ledger.view().map_err(|e| words(&e))?;
                let batch = self.batch(&*view, &log, &ledger, size, next).map_err(|e| words(&e))?;
                let Some((body, reached, more)) = batch else { break };
                let (status, taken) = self.post("/v1/receipts", body)?;
                if !status.is_success() {
                    return Err(told(status, &taken));
                }
                self.shown.set(true);
                size = reached;
                next = taken["next"].as_u64().unwrap_or(next).max(next);
                if !more {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The next batch: its body, the size of its checkpoint, and whether there is more after it.
    fn batch(
        &self,
        view: &dyn View,
        log: &str,
        ledger: &credence_ledger::SqliteLedger,
        known_size: u64,
        next: u64,
    ) -> Result<Option<(Vec<u8>, u64, bool)>, Error> {
        let Some(note) = view.checkpoint()? else { return Ok(None) };
        let checkpoint = Checkpoint::open(&note, ledger.verifier())?;
        let encode = |hashes: Vec<credence_ledger::Hash>| -> Vec<String> {
            hashes.iter().map(|hash| BASE64.encode(&hash.0)).collect()
        };
        let consistency = match known_size {
            0 => Vec::new(),
            known if known < checkpoint.size => encode(proof::consistency(known, checkpoint.size, view)?),
            _ => Vec::new(),
        };
        let mut receipts = Vec::new();
        let mut more = false;
        if self.route.receipts {
            visit(view, next, &mut |seq, bytes, entry| {
                if seq >= checkpoint.size || entry.kind != Kind::Receipt || more {
                    return Ok(());
                }
                // What the authority would not take must not keep back the rest.
                if bytes.len() > MAX_RECEIPT_BYTES {
                    return Ok(());
                }
                if receipts.len() == BATCH {
                    more = true;
                    return Ok(());
                }
                let mut one = json!({
                    "seq": seq,
                    "entry": String::from_utf8_lossy(bytes),
                    "proof": encode(proof::inclusion(checkpoint.size, seq, view)?),
                });
                if self.route.salts {
                    let receipt: Receipt = entry.record(seq)?;
                    let row = view.get(PRIVATE, &receipt.call.to_string())?.unwrap_or_default();
                    if let Ok(private) = serde_json::from_slice::<Private>(&row) {
                        one["salts"] = json!(private.salts);
                    }
                }
                receipts.push(one);
                Ok(())
            })?;
        }
        if known_size > checkpoint.size || next > checkpoint.size {
            return Err(Error::Receipts(format!(
                "the authority knows {known_size} entries of the log '{log}', and here are {}: another guard signs under the same \
                 provider and name (choose another --name or --provider), or receipts are gone here",
                checkpoint.size
            )));
        }
        if receipts.is_empty() && known_size == checkpoint.size && self.shown.get() {
            return Ok(None);
        }
        let body = json!({
            "provider": self.guard.provider(), "log": log, "checkpoint": note, "consistency": consistency, "receipts": receipts,
        });
        Ok(Some((body.to_string().into_bytes(), checkpoint.size, more)))
    }
}

fn answer(request: reqwest::blocking::RequestBuilder) -> Result<(StatusCode, Value), String> {
    // The URL is in the message already.
    let answer = request.send().map_err(|e| format!("it cannot be reached: {}", cause(&e.without_url())))?;
    let status = answer.status();
    let body = answer.bytes().unwrap_or_default();
    Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

/// The innermost reason: what a person can act on.
fn cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn told(status: StatusCode, answer: &Value) -> String {
    let detail = answer["detail"].as_str().unwrap_or("no reason given");
    format!("it answered {}: {detail}", status.as_u16())
}

/// What waits to be sent, the oldest first.
pub fn waiting(spool: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(spool)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// How it went last, for one guard.
pub fn progress(place: &Path) -> Option<Progress> {
    serde_json::from_slice(&fs::read(place.join("courier.json")).ok()?).ok()
}
