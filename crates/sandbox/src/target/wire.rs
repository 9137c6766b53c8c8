//! What all HTTP targets share: one pinned client, credentials, the promised rate, the budget, and consent that is asked for again.

use std::{
    fmt,
    net::SocketAddr,
    num::NonZeroU32,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use credence_egress::{
    Answer, Egress, EgressError, HeaderName, HeaderValue, Method, Rate, Request, Settings, StatusCode,
};
use serde_json::Value;
use tokio::{
    sync::{Mutex, Semaphore},
    time::Instant,
};
use url::Url;

use super::{TargetError, origin_lock::OriginLock};
use crate::{
    consent::{ConsentCheck, RECHECK},
    runner::{
        Cancel,
        pace::{Pace, Pacer},
    },
    suite::Identity,
    trial::Reason,
};

/// How often a request is made again after the target asked to wait.
const RETRIES: u32 = 2;

/// A header that proves who asks. Its value is shown nowhere.
#[derive(Clone)]
pub struct Credential {
    name: HeaderName,
    value: HeaderValue,
    secret: String,
}

impl Credential {
    /// `Authorization: Bearer …`.
    pub fn bearer(token: &str) -> Result<Self, String> {
        let token = token.trim();
        let sent = Self::header("authorization", &format!("Bearer {token}"))?;
        Ok(Self { secret: token.to_owned(), ..sent })
    }

    /// Any header.
    pub fn header(name: &str, value: &str) -> Result<Self, String> {
        let name: HeaderName = name.parse().map_err(|_| format!("'{name}' is not the name of a header"))?;
        let secret = value.trim().to_owned();
        let mut value =
            HeaderValue::from_str(value).map_err(|_| "the credential has characters that no header takes")?;
        value.set_sensitive(true);
        Ok(Self { name, value, secret })
    }

    /// What must not be shown.
    pub(super) fn secret(&self) -> &str {
        &self.secret
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({}: …)", self.name)
    }
}

/// How a target is asked.
#[derive(Debug, Clone)]
pub struct WireSettings {
    /// Allows targets on this machine, over http too.
    pub allow_loopback: bool,
    /// At most so many requests in any second.
    pub rate: NonZeroU32,
    /// At most so many requests under way.
    pub in_flight: usize,
    /// How long one answer may take.
    pub deadline: Duration,
    /// How long one answer may be.
    pub max_bytes: usize,
    /// How long a pause is kept that the target asks for; a longer one makes the trial inconclusive.
    pub patience: Duration,
    /// How often consent is asked for again.
    pub recheck: Duration,
    /// Who asks, for the User-Agent.
    pub contact: Option<Url>,
    /// Credentials of the first and second identity.
    pub credentials: [Option<Credential>; 2],
    /// Where locks are kept that allow one run at a time against an origin; `None`: the caller sees to that.
    pub locks: Option<PathBuf>,
}

impl Default for WireSettings {
    fn default() -> Self {
        Self {
            allow_loopback: false,
            rate: NonZeroU32::MIN.saturating_add(1),
            in_flight: 4,
            deadline: Duration::from_secs(60),
            max_bytes: 4 * 1024 * 1024,
            patience: Duration::from_secs(30),
            recheck: RECHECK,
            contact: None,
            credentials: [None, None],
            locks: None,
        }
    }
}

impl WireSettings {
    /// Settings of the client. The pacer keeps the rate; the client's own only has to stay out of its way.
    pub fn egress(&self) -> Settings {
        let rate = Rate { per_second: NonZeroU32::MAX, burst: NonZeroU32::MAX };
        let for_probe = Settings::for_purpose("probe");
        Settings { contact: self.contact.clone(), loopback: self.allow_loopback, rate, ..for_probe }
    }
}

/// The one connection of a run to its target.
pub struct Wire {
    egress: Egress,
    origin: String,
    address: SocketAddr,
    settings: WireSettings,
    pacer: Pacer,
    slots: Semaphore,
    requests: AtomicU64,
    most: AtomicU64,
    consent: Arc<dyn ConsentCheck>,
    last_consent: Mutex<Instant>,
    cancel: Cancel,
    _lock: Option<OriginLock>,
}

impl Wire {
    /// Resolves the target once and asks for consent; nothing is sent to it before.
    pub async fn open(
        url: &Url,
        settings: WireSettings,
        consent: Arc<dyn ConsentCheck>,
        cancel: Cancel,
    ) -> Result<Arc<Self>, String> {
        let anywhere = Egress::new(settings.egress()).map_err(|e| e.to_string())?;
        Self::open_with(anywhere, url, settings, consent, cancel).await
    }

    /// The same with a client of the caller's, which should be made with [`WireSettings::egress`].
    pub async fn open_with(
        anywhere: Egress,
        url: &Url,
        settings: WireSettings,
        consent: Arc<dyn ConsentCheck>,
        cancel: Cancel,
    ) -> Result<Arc<Self>, String> {
        let destination = anywhere.resolve(url).await.map_err(|e| e.to_string())?;
        if url.scheme() != "https" && !(url.scheme() == "http" && settings.allow_loopback && destination.is_loopback())
        {
            return Err(format!("{} is not an https address", url.origin().ascii_serialization()));
        }
        let mut pinned = destination;
        // One address for the whole run: the one that consent was given for.
        pinned.addresses.truncate(1);
        let address = *pinned.addresses.first().ok_or("the target has no address")?;
        let origin = url.origin().ascii_serialization();
        let lock = settings.locks.as_deref().map(|folder| OriginLock::take(folder, &origin)).transpose()?;
        let (pacer, slots) = (Pacer::new(settings.rate), Semaphore::new(settings.in_flight.max(1)));
        {
            // The target sees the fetch of the challenge as it sees any other request.
            let _pace = pacer.turn().await;
            consent.check(&origin, address).await?;
        }
        let egress = anywhere.pinned(pinned).map_err(|e| e.to_string())?;
        let last_consent = Mutex::new(Instant::now());
        let (requests, most) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Ok(Arc::new(Self {
            egress,
            origin,
            address,
            settings,
            pacer,
            slots,
            requests,
            most,
            consent,
            last_consent,
            cancel,
            _lock: lock,
        }))
    }

    /// Scheme, host and port of the target.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// How many requests were sent.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Sends at most so many requests from the beginning on.
    pub fn limit_requests(&self, most: u64) {
        self.most.store(most, Ordering::SeqCst);
    }

    /// Whether there are credentials of a second identity.
    pub fn has_second_identity(&self) -> bool {
        self.settings.credentials[1].is_some()
    }

    /// Whether there are credentials at all.
    pub fn has_credentials(&self) -> bool {
        self.settings.credentials[0].is_some()
    }

    /// Sends JSON and reads JSON, with how long it took.
    pub async fn json(&self, call: Call<'_>) -> Result<(Value, Duration), TargetError> {
        let answer = self.send(&call).await?;
        let (status, elapsed) = (answer.status, answer.elapsed);
        let parsed = serde_json::from_slice::<Value>(&answer.body);
        if !status.is_success() {
            // Errors of JSON-RPC come with any status; they are the protocol's business.
            return match parsed {
                Ok(value) if value.get("jsonrpc").is_some() => Ok((value, elapsed)),
                _ => Err(refused(status, &answer.body)),
            };
        }
        parsed.map(|value| (value, elapsed)).map_err(|e| {
            let why = if answer.body.is_empty() { "it is empty".to_owned() } else { e.to_string() };
            TargetError::new(Reason::NotJson, format!("the answer is not JSON: {why}"))
        })
    }

    /// Sends a request, waits for its turn before and through pauses that the target asks for, and gives back any answer but 429.
    pub async fn send(&self, call: &Call<'_>) -> Result<Answer, TargetError> {
        let mut retries = 0;
        loop {
            let pause = match self.once(call).await {
                Ok(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => {
                    self.egress.pause_left(&call.url).or(answer.retry_after()).unwrap_or_default()
                }
                Ok(answer) => return Ok(answer),
                Err(Failure::Paused(left)) => left,
                Err(Failure::Target(error)) => return Err(error),
            };
            if retries == RETRIES || pause > self.settings.patience {
                let why = format!("the target asked to wait for {} s", pause.as_secs().max(1));
                return Err(TargetError::new(Reason::RateLimited, why));
            }
            retries += 1;
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.cancel.cancelled() => return Err(self.ended("the run was stopped")),
            }
        }
    }

    async fn once(&self, call: &Call<'_>) -> Result<Answer, Failure> {
        let _slot = self.slots.acquire().await.map_err(|_| Failure::Target(self.ended("the run is over")))?;
        self.still_agreed().await.map_err(Failure::Target)?;
        let pace = self.turn().await.map_err(Failure::Target)?;
        let taken = self.requests.fetch_add(1, Ordering::SeqCst);
        if taken >= self.most.load(Ordering::SeqCst) {
            self.requests.fetch_sub(1, Ordering::SeqCst);
            return Err(Failure::Target(self.ended("the budget of requests is spent")));
        }
        let request = self.request(call).map_err(Failure::Target)?;
        let answer = self.egress.send(request).await;
        drop(pace);
        answer.map_err(|error| match error {
            EgressError::Paused { left, .. } => {
                self.requests.fetch_sub(1, Ordering::SeqCst);
                Failure::Paused(left)
            }
            other => Failure::Target(TargetError::new(reason_of(&other), other.to_string())),
        })
    }

    fn request(&self, call: &Call<'_>) -> Result<Request, TargetError> {
        let wrong = |e: EgressError| TargetError::new(Reason::Malformed, e.to_string());
        let url = call.url.as_str();
        // A card or a template may name any address; only the origin that consent is for is asked.
        if call.url.origin().ascii_serialization() != self.origin {
            let why = format!("{} is another origin than {}", call.url.origin().ascii_serialization(), self.origin);
            return Err(TargetError::new(Reason::Redirected, why));
        }
        let mut request = match &call.body {
            Some(body) => {
                let bytes = body.to_string().into_bytes();
                Request::post(url, HeaderValue::from_static("application/json"), bytes).map_err(wrong)?
            }
            None => Request::new(call.method.clone(), url).map_err(wrong)?,
        };
        request = request.deadline(self.settings.deadline).max_bytes(self.settings.max_bytes);
        for (name, value) in call.headers {
            request = request.header(name.clone(), value.clone());
        }
        let credential = match call.identity {
            Identity::First => self.settings.credentials[0].as_ref(),
            Identity::Second => self.settings.credentials[1].as_ref(),
            Identity::Anonymous => None,
        };
        if let Some(presented) = call.presented {
            let name = self.settings.credentials[0]
                .as_ref()
                .map_or(HeaderName::from_static("authorization"), |own| own.name.clone());
            if !presented.is_empty() {
                let value = HeaderValue::from_str(presented).map_err(|_| {
                    TargetError::new(Reason::Malformed, "the credential has characters that no header takes")
                })?;
                request = request.header(name, value);
            }
        } else if let Some(credential) = credential {
            request = request.secret(credential.name.clone(), credential.value.clone());
        }
        Ok(request)
    }

    /// Fails where the owner's consent is gone. At most one task asks at a time; the others wait for its answer.
    async fn still_agreed(&self) -> Result<(), TargetError> {
        let mut last = self.last_consent.lock().await;
        if last.elapsed() < self.settings.recheck {
            return Ok(());
        }
        let pace = self.turn().await?;
        let checked = self.consent.check(&self.origin, self.address).await;
        drop(pace);
        checked.map_err(|why| self.ended(&format!("consent is gone: {why}")))?;
        *last = Instant::now();
        Ok(())
    }

    /// Waits for a turn, unless the run is stopped.
    async fn turn(&self) -> Result<Pace, TargetError> {
        tokio::select! {
            pace = self.pacer.turn() => Ok(pace),
            () = self.cancel.cancelled() => Err(self.ended("the run was stopped")),
        }
    }

    fn ended(&self, why: &str) -> TargetError {
        TargetError { reason: Reason::Ended, why: why.to_owned(), ends_run: true }
    }
}

enum Failure {
    Paused(Duration),
    Target(TargetError),
}

/// One request.
#[derive(Debug)]
pub struct Call<'a> {
    /// The method, where there is no body; with one it is POST.
    pub method: Method,
    /// Where.
    pub url: Url,
    /// As whom.
    pub identity: Identity,
    /// Headers besides the credentials.
    pub headers: &'a [(HeaderName, HeaderValue)],
    /// The body.
    pub body: Option<Value>,
    /// What is presented in place of the identity's credentials; empty for nothing.
    pub presented: Option<&'a str>,
}

impl Call<'_> {
    /// A POST.
    pub fn post(url: Url, identity: Identity, body: Value) -> Self {
        Self { method: Method::POST, url, identity, headers: &[], body: Some(body), presented: None }
    }

    /// A GET.
    pub fn get(url: Url, identity: Identity) -> Self {
        Self { method: Method::GET, url, identity, headers: &[], body: None, presented: None }
    }
}

pub(crate) fn refused(status: StatusCode, body: &[u8]) -> TargetError {
    let start: String =
        String::from_utf8_lossy(&body[..body.len().min(120)]).chars().filter(|c| !c.is_control()).collect();
    let reason = match status {
        status if status.is_server_error() => Reason::ServerError,
        status if status.is_client_error() => Reason::Status,
        _ => Reason::Malformed,
    };
    TargetError::new(reason, format!("the target answered {}: {start}", status.as_u16()))
}

fn reason_of(error: &EgressError) -> Reason {
    match error {
        EgressError::Late { .. } => Reason::Late,
        EgressError::TooLarge { .. } | EgressError::Encoded { .. } => Reason::TooLarge,
        EgressError::Redirected { .. } | EgressError::OtherHost { .. } | EgressError::NotPublic { .. } => {
            Reason::Redirected
        }
        EgressError::Certificate { .. } => Reason::Certificate,
        _ => Reason::Transport,
    }
}
