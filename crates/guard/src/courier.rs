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
use credence_protocol::{Audience, EntityId, Statement, strict::StrictValue};
use credence_receipts::{
    folder,
    handover::{Disclosure, Known},
    now,
};
use reqwest::{StatusCode, blocking::Client};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::{
    Error, Guard, innermost_cause,
    quarantine::reporting::{self, ReviewReporting},
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

/// Which authority is told, how often, and what.
#[derive(Debug, Clone)]
pub struct CourierSettings {
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
    /// What waits for review too.
    pub reviews: Option<ReviewReporting>,
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
    pub fn start(guard: Arc<Guard>, settings: CourierSettings) -> Result<Self, Error> {
        let authority = settings.authority.clone();
        let failed = |why: String| Error::Address(format!("--authority {authority}: {why}"));
        if !matches!(settings.authority.scheme(), "http" | "https") || settings.authority.host().is_none() {
            return Err(failed("an http or https URL is needed".to_owned()));
        }
        let spool = guard.place.folder.join("spool");
        folder::create_private(&spool)?;
        let client = Client::builder().timeout(PATIENCE).build().map_err(|e| failed(e.to_string()))?;
        let progress = Progress { authority: crate::http::without_secrets(&settings.authority), ..Progress::default() };
        let (stop, stopped) = mpsc::channel();
        let mut round = Round {
            guard,
            settings,
            spool,
            client,
            progress,
            failures: 0,
            not_before: Instant::now(),
            shown: std::cell::Cell::new(false),
            audience: std::cell::RefCell::default(),
        };
        let thread = std::thread::Builder::new().name("courier".to_owned()).spawn(move || {
            loop {
                let ended = stopped.recv_timeout(round.settings.every) != Err(RecvTimeoutError::Timeout);
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
    settings: CourierSettings,
    spool: PathBuf,
    client: Client,
    progress: Progress,
    failures: u32,
    not_before: Instant,
    /// The authority was shown this log since the start, and took it for the one it knows.
    shown: std::cell::Cell<bool>,
    /// What statements for the authority name, once it has said so.
    audience: std::cell::RefCell<Option<Option<Audience>>>,
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
        let (summaries, receipts, reviews) = (self.send_summaries(), self.send_receipts(), self.send_reviews());
        let sent = summaries.and(receipts).and(reviews);
        match sent {
            Ok(()) => {
                self.failures = 0;
                self.progress.sent_at = Some(now().to_string());
                self.progress.error = None;
            }
            Err(why) => {
                let why: String = why.chars().take(SHOWN).collect();
                if self.progress.error.as_deref() != Some(&why) {
                    warn(&format!(
                        "{}: {why}; kept, and tried again",
                        crate::http::without_secrets(&self.settings.authority)
                    ));
                }
                let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(10)).min(LONGEST_WAIT);
                self.failures += 1;
                self.not_before = Instant::now() + wait;
                self.progress.error = Some(why);
            }
        }
        self.progress.waiting = unsent_files(&self.spool).map_or(0, |files| files.len());
        let kept = serde_json::to_vec(&self.progress).map_err(credence_receipts::Error::from);
        // For people to look at; the next round writes it anew.
        let _ = kept.and_then(|bytes| folder::replace_file(&self.guard.place.folder.join("courier.json"), &bytes));
    }

    /// Puts the summaries of every agent that has new receipts on disk.
    fn write_summaries(&self) -> Result<(), Error> {
        self.guard.flush_journal_or_warn();
        let changed = self.guard.tally.lock().unwrap_or_else(PoisonError::into_inner).take_changed();
        if changed.is_empty() {
            return Ok(());
        }
        let written = self.write_summaries_of(&changed);
        if written.is_err() {
            let mut tally = self.guard.tally.lock().unwrap_or_else(PoisonError::into_inner);
            tally.mark_changed(changed);
        }
        written
    }

    fn write_summaries_of(&self, agents: &std::collections::BTreeSet<String>) -> Result<(), Error> {
        let checkpoint = match self.guard.book() {
            Some(book) => {
                book.seal()?;
                book.checkpoint()?
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
                let signed = up.statement(self.guard.provider(), None, &id, checkpoint.as_deref(), self.guard.key())?;
                // The newest of an agent's window is all that the authority wants.
                let file = self.spool.join(format!("{agent}.{}.json", window.key()));
                folder::replace_file(&file, signed.canonical().as_bytes())?;
            }
        }
        Ok(())
    }

    fn url(&self, path: &str) -> Result<Url, String> {
        let base = self.settings.authority.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}{path}")).map_err(|e| e.to_string())
    }

    fn post(&self, path: &str, body: Vec<u8>) -> Result<(StatusCode, Value), String> {
        let mut request = self.client.post(self.url(path)?).header("Content-Type", "application/json").body(body);
        if let Some(token) = &self.settings.token {
            request = request.bearer_auth(token);
        }
        answer(request)
    }

    /// Sends what is on disk. What is refused for good, because something newer is there, goes; all else stays.
    fn send_summaries(&self) -> Result<(), String> {
        let mut refused = None;
        for file in unsent_files(&self.spool).map_err(|e| e.to_string())? {
            let kept = fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let body = self.addressed(kept)?;
            let (status, answer) = self.post("/v1/statements", body)?;
            let code = answer["code"].as_str().unwrap_or_default();
            if status.is_success() || code == "older_summary" {
                fs::remove_file(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            } else if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                return Err(refusal(status, &answer));
            } else {
                // Somebody has to do something: register the agent, admit the provider, renew the token.
                refused.get_or_insert_with(|| refusal(status, &answer));
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// The same statement, signed for the authority that is told: who is bound to it has to name it.
    fn addressed(&self, kept: Vec<u8>) -> Result<Vec<u8>, String> {
        let words = |e: credence_protocol::Error| e.to_string();
        let aud = self.audience()?;
        let statement = Statement::parse(&kept).map_err(words)?;
        if aud.is_none() || statement.aud() == aud.as_ref() {
            return Ok(kept);
        }
        let (author, record) = (statement.author().clone(), StrictValue(statement.record().clone()));
        let signed = Statement::sign(author, aud, statement.kind(), record, self.guard.key()).map_err(words)?;
        Ok(signed.canonical().as_bytes().to_vec())
    }

    /// What statements for the authority name, as it says itself; none where it is too old to say.
    fn audience(&self) -> Result<Option<Audience>, String> {
        if let Some(known) = self.audience.borrow().clone() {
            return Ok(known);
        }
        let (status, answer) = answer(self.client.get(self.url("/v1/keys?limit=1")?))?;
        if !status.is_success() {
            return Err(refusal(status, &answer));
        }
        let aud = answer["aud"].as_str().map(Audience::new).transpose().map_err(|e| e.to_string())?;
        *self.audience.borrow_mut() = Some(aud.clone());
        Ok(aud)
    }

    /// Tells what waits for review. Sent again each time: the authority holds it in memory.
    fn send_reviews(&self) -> Result<(), String> {
        let (Some(reporting), Some(quarantine)) = (&self.settings.reviews, self.guard.quarantine()) else {
            return Ok(());
        };
        let report = quarantine.report(self.guard.log_name(), reporting).map_err(|e| e.to_string())?;
        let body = serde_json::to_vec(&report).map_err(|e| e.to_string())?;
        let (status, taken) = self.post(reporting::PATH, body)?;
        if status.is_success() { Ok(()) } else { Err(refusal(status, &taken)) }
    }

    /// Sends the checkpoint, and receipts that the authority does not have, segment by segment.
    fn send_receipts(&self) -> Result<(), String> {
        let Some(book) = self.guard.book() else { return Ok(()) };
        let words = |e: credence_receipts::Error| e.to_string();
        let disclosure =
            Disclosure { receipts: if self.settings.receipts { BATCH } else { 0 }, salts: self.settings.salts };
        let numbers = book.segments().map_err(words)?;
        let newest = numbers.last().copied();
        for number in numbers {
            // Without receipts, only how far the log has grown.
            if !self.settings.receipts && Some(number) != newest {
                continue;
            }
            let segment = book.open_checked(number).map_err(words)?;
            let mut url = self.url("/v1/receipts")?;
            url.query_pairs_mut().append_pair("log", segment.name());
            let (status, answer) = answer(self.client.get(url))?;
            if !status.is_success() {
                return Err(refusal(status, &answer));
            }
            let number = |name: &str| answer[name].as_u64().unwrap_or_default();
            let mut known = Known { size: number("size"), next: number("next") };
            while let Some(next) = segment.next_batch(self.guard.provider(), known, disclosure).map_err(words)? {
                if next.batch.receipts.is_empty() && known.size == next.size && self.shown.get() {
                    break;
                }
                let body = serde_json::to_vec(&next.batch).map_err(|e| e.to_string())?;
                let (status, taken) = self.post("/v1/receipts", body)?;
                if !status.is_success() {
                    return Err(refusal(status, &taken));
                }
                self.shown.set(true);
                known.size = next.size;
                known.next = taken["next"].as_u64().unwrap_or_default().max(known.next);
                if !next.more {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn answer(request: reqwest::blocking::RequestBuilder) -> Result<(StatusCode, Value), String> {
    // The URL is in the message already.
    let answer = request.send().map_err(|e| format!("it cannot be reached: {}", innermost_cause(&e.without_url())))?;
    let status = answer.status();
    let body = answer.bytes().unwrap_or_default();
    Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}

fn refusal(status: StatusCode, answer: &Value) -> String {
    let detail = answer["detail"].as_str().unwrap_or("no reason given");
    format!("it answered {}: {detail}", status.as_u16())
}

/// The files that are still to be sent, by name.
pub fn unsent_files(spool: &Path) -> std::io::Result<Vec<PathBuf>> {
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
