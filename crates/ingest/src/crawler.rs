//! Asks a source about a subject: request, pages, keys for a verification, and what came of it.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use credence_egress::{Answer, Egress, EgressError, HeaderValue, Redirects, Request, Validators};
use credence_protocol::{ExternalSubject, Timestamp};
use lru::LruCache;
use serde_json::Value;
use url::Url;

use crate::{
    NoReading, Reading, Source,
    jws::KeySet,
    links::{Registries, RegistryReader},
    listing::Shared,
    reading::{Document, Page},
    source::VerifyRule,
    template::{self, Parts},
    verification::{self, Needed},
};

/// How long keys and registries of services are kept.
const KEPT: Duration = Duration::from_secs(3600);
/// Sets of keys kept.
const MAX_KEPT: NonZeroUsize = NonZeroUsize::new(512).unwrap();
const MAX_KEYS_BYTES: usize = 256 * 1024;
const MAX_SERVICES_BYTES: usize = 1024 * 1024;

/// Gives the value of an environment variable.
pub type Secrets = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Asks sources. Cloning is cheap; clones share connections, rates, pauses and keys.
#[derive(Clone)]
pub struct Crawler {
    egress: Egress,
    /// Everything is asked of this address instead: `https://mirror/HOST/PATH`.
    mirror: Option<Url>,
    secrets: Secrets,
    registries: Registries,
    kept: Arc<Mutex<LruCache<String, (Instant, Kept)>>>,
    /// By the digest of the source file.
    pub(crate) lists: Arc<Mutex<HashMap<String, Shared>>>,
}

#[derive(Clone)]
enum Kept {
    Keys(Arc<KeySet>),
    Services(Arc<Value>),
}

/// What came of a request.
#[derive(Debug)]
pub enum Asked {
    /// There is an answer.
    Answered(Box<Answered>),
    /// The answer is the one of last time.
    Unchanged,
    /// There is none.
    Failed(Failure),
}

/// An answer.
#[derive(Debug)]
pub struct Answered {
    /// What it measures, or why nothing.
    pub outcome: Result<Reading, NoReading>,
    /// For asking whether it has changed.
    pub validators: Validators,
    /// How many requests the source still allows, where it says so.
    pub quota: Option<u64>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Failure {
    /// For counting.
    pub reason: Reason,
    /// In words, without any of the answer.
    pub why: String,
    /// How long the source asks to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether nothing was sent, because the host asked for a pause before. Such a question is asked when the pause is over.
    pub unsent: bool,
}

/// Why nothing was measured, for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The source has no number for the subject.
    Absent,
    /// The source's list is longer than what is read of it.
    Beyond,
    /// The answer has another form than required.
    WrongShape,
    /// The answer is about somebody else.
    OtherSubject,
    /// A signature does not hold.
    BadSignature,
    /// The host could not be reached.
    Unreachable,
    /// No whole answer in time.
    Late,
    /// Larger than allowed, or compressed.
    TooLarge,
    /// The host leads to a private address, or is not https.
    Forbidden,
    /// The host sends elsewhere.
    Redirected,
    /// The source asked to wait.
    RateLimited,
    /// The source says no: 4xx.
    Refused,
    /// The source is broken: 5xx.
    ServerError,
    /// A secret that the source needs is not in the environment.
    NoSecret,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Absent,
        Self::Beyond,
        Self::WrongShape,
        Self::OtherSubject,
        Self::BadSignature,
        Self::Unreachable,
        Self::Late,
        Self::TooLarge,
        Self::Forbidden,
        Self::Redirected,
        Self::RateLimited,
        Self::Refused,
        Self::ServerError,
        Self::NoSecret,
    ];

    /// As in metrics.
    pub fn key(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Beyond => "beyond_list",
            Self::WrongShape => "wrong_shape",
            Self::OtherSubject => "other_subject",
            Self::BadSignature => "bad_signature",
            Self::Unreachable => "unreachable",
            Self::Late => "late",
            Self::TooLarge => "too_large",
            Self::Forbidden => "forbidden",
            Self::Redirected => "redirected",
            Self::RateLimited => "rate_limited",
            Self::Refused => "refused",
            Self::ServerError => "server_error",
            Self::NoSecret => "no_secret",
        }
    }

    /// The reason of an answer that measures nothing.
    pub fn of(no: &NoReading) -> Self {
        match no {
            NoReading::Absent(_) => Self::Absent,
            NoReading::Beyond(_) | NoReading::Partial(_) => Self::Beyond,
            NoReading::WrongShape(_) => Self::WrongShape,
            NoReading::OtherSubject => Self::OtherSubject,
            NoReading::BadSignature(_) => Self::BadSignature,
        }
    }

    /// Whether somebody has to look: the source has changed, or lies.
    pub fn is_alarming(self) -> bool {
        matches!(self, Self::WrongShape | Self::BadSignature | Self::Forbidden)
    }

    /// Whether it is an answer: the source was reached, and says so until its time to live is over.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Absent | Self::Beyond | Self::OtherSubject)
    }
}

impl Failure {
    pub(crate) fn new(reason: Reason, why: impl Into<String>) -> Self {
        Self { reason, why: why.into(), retry_after: None, unsent: false }
    }

    pub(crate) fn of(error: &EgressError) -> Self {
        let (reason, retry_after) = match error {
            EgressError::Late { .. } => (Reason::Late, None),
            EgressError::TooLarge { .. } | EgressError::Encoded { .. } => (Reason::TooLarge, None),
            EgressError::NotPublic { .. } | EgressError::NotHttps(_) | EgressError::OtherHost { .. } => {
                (Reason::Forbidden, None)
            }
            EgressError::Redirected { .. } => (Reason::Redirected, None),
            EgressError::Paused { left, .. } => (Reason::RateLimited, Some(*left)),
            _ => (Reason::Unreachable, None),
        };
        // Where it leads, and why a connection broke, is said by others.
        let why = match error {
            EgressError::Redirected { host, .. } => format!("{host} redirects elsewhere"),
            EgressError::Unreachable { host, .. } => format!("{host} could not be reached"),
            EgressError::Encoded { host, .. } => format!("the answer of {host} is compressed"),
            other => other.to_string(),
        };
        Self { reason, why, retry_after, unsent: matches!(error, EgressError::Paused { .. }) }
    }

    /// Why an answer of `url` is none. The host is the one that was meant, also where a mirror answered.
    pub(crate) fn of_status(answer: &Answer, url: &Url) -> Option<Self> {
        let host = url.host_str().unwrap_or_default();
        let status = answer.status.as_u16();
        let reason = match status {
            200..=299 => return None,
            404 | 410 => Reason::Absent,
            429 => Reason::RateLimited,
            // GitHub says so where a quota is used up.
            403 if answer.pause().is_some() => Reason::RateLimited,
            400..=499 => Reason::Refused,
            _ => Reason::ServerError,
        };
        let retry_after = answer.pause().or_else(|| answer.retry_after());
        Some(Self { reason, why: format!("{host} answered {status}"), retry_after, unsent: false })
    }
}

impl Crawler {
    /// A crawler over `egress`. With a `mirror` everything is asked of it, without secrets.
    pub fn new(egress: Egress, mirror: Option<Url>, secrets: Secrets) -> Self {
        let kept = Arc::new(Mutex::new(LruCache::new(MAX_KEPT)));
        Self { egress, mirror, secrets, registries: Arc::default(), kept, lists: Arc::default() }
    }

    /// The same, reading on-chain registries through the operator's nodes where there are such.
    pub fn with_registries(self, registries: Registries) -> Self {
        Self { registries, ..self }
    }

    /// What reads the registry of a registration, where the operator has a node of its chain.
    pub(crate) fn registry(&self, registration: &ExternalSubject) -> Option<&dyn RegistryReader> {
        self.registries.iter().find(|one| one.reads(registration)).map(|one| &**one)
    }

    /// Asks `source` about `subject`. With `since`, only whether the answer has changed.
    pub async fn ask(
        &self,
        source: &Source,
        subject: &ExternalSubject,
        since: Option<&Validators>,
        now: Timestamp,
    ) -> Asked {
        match self.try_ask(source, subject, since, now).await {
            Ok(asked) => asked,
            Err(failure) => Asked::Failed(failure),
        }
    }

    /// How long the host of `source` is still left alone, after it asked for that. Unknown where each subject has a host of its own.
    pub fn pause_left(&self, source: &Source) -> Option<Duration> {
        let host = match &self.mirror {
            Some(mirror) => mirror.host_str()?,
            None => source.host()?,
        };
        self.egress.host_pause_left(host)
    }

    /// Why an answer of `url` is none. A 429 need not say for how long: then it is the pause that this client makes.
    pub(crate) fn failure_of(&self, answer: &Answer, url: &Url) -> Option<Failure> {
        let mut failure = Failure::of_status(answer, url)?;
        if failure.reason == Reason::RateLimited {
            let said = failure.retry_after.filter(|pause| !pause.is_zero());
            failure.retry_after = said.or_else(|| self.egress.pause_left(&answer.url));
        }
        Some(failure)
    }

    async fn try_ask(
        &self,
        source: &Source,
        subject: &ExternalSubject,
        since: Option<&Validators>,
        now: Timestamp,
    ) -> Result<Asked, Failure> {
        let Some(parts) = source.parts(subject) else {
            return Err(Failure::new(Reason::Absent, format!("{} has nothing to say of this subject", source.id)));
        };
        let base = match &source.request.services {
            None => None,
            Some(services) => Some(self.service(services, &parts).await?),
        };
        let url = source.request.address.url(&parts, base.as_ref());
        let url = url.map_err(|why| Failure::new(Reason::Forbidden, why))?;
        if let Some(rule) = &source.page {
            return self.ask_list(source, rule, subject, &parts, &url, now).await;
        }
        let first = self.send(source, &parts, &url, since, None).await?;
        if first.is_unchanged() {
            return Ok(Asked::Unchanged);
        }
        if let Some(failure) = self.failure_of(&first, &url) {
            return Err(failure);
        }
        let (validators, quota) = (Validators::of(&first), quota(&first));
        let outcome = self.read(source, subject, &parts, &first.body, now).await?;
        Ok(Asked::Answered(Box::new(Answered { outcome, validators, quota })))
    }

    /// Sends the request of a source. `page` is a member of the body that says which page is meant.
    pub(crate) async fn send(
        &self,
        source: &Source,
        parts: &Parts,
        url: &Url,
        since: Option<&Validators>,
        page: Option<(&str, &str)>,
    ) -> Result<Answer, Failure> {
        let rule = &source.request;
        let url = self.mirrored(url)?;
        let made = match &rule.body {
            None => Request::new(rule.method.clone(), url.as_str()),
            Some(template) => {
                let mut body = template::body(template, parts).map_err(|why| Failure::new(Reason::Forbidden, why))?;
                if let (Some((name, value)), Some(members)) = (page, body.as_object_mut()) {
                    members.insert(name.to_owned(), value.into());
                }
                Request::post(url.as_str(), HeaderValue::from_static("application/json"), body.to_string().into_bytes())
            }
        };
        let mut request = made.map_err(|e| Failure::of(&e))?;
        for (name, value) in &rule.headers {
            request = request.header(name.clone(), value.clone());
        }
        if let Some(secret) = &rule.secret {
            let value = (self.secrets)(&secret.env).filter(|_| self.mirror.is_none());
            match value.map(|value| HeaderValue::from_str(&format!("{}{}", secret.prefix, value.trim()))) {
                Some(Ok(value)) => request = request.secret(secret.header.clone(), value),
                Some(Err(_)) => {
                    return Err(Failure::new(Reason::NoSecret, format!("{} is no value of a header", secret.env)));
                }
                None if secret.required && self.mirror.is_none() => {
                    return Err(Failure::new(Reason::NoSecret, format!("{} is not set", secret.env)));
                }
                None => {}
            }
        }
        if let Some(since) = since {
            request = request.if_changed(since);
        }
        let limits = &source.limits;
        let request = request
            .rate(limits.rate)
            .max_bytes(limits.max_bytes)
            .deadline(limits.timeout)
            .redirects(if self.mirror.is_some() { Redirects::Refuse } else { rule.redirects });
        self.egress.send(request).await.map_err(|e| Failure::of(&e))
    }

    async fn read(
        &self,
        source: &Source,
        subject: &ExternalSubject,
        parts: &Parts,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<Result<Reading, NoReading>, Failure> {
        let document = match Page::parse(source, bytes).and_then(|page| Document::of(source, subject, &[page])) {
            Ok(document) => document,
            Err(no) => return Ok(Err(no)),
        };
        let signed = match verification::needed(source, parts, &document.first) {
            Err(no) => return Ok(Err(no)),
            Ok(Needed::Nothing) => None,
            Ok(Needed::Unsigned) => Some(false),
            Ok(Needed::Keys(url)) => {
                let keys = self.keys(source, &url).await?;
                match verification::check(source, bytes, &document.first, &keys) {
                    Ok(signed) => Some(signed),
                    Err(no) => return Ok(Err(no)),
                }
            }
        };
        Ok(document.read(source, signed, now))
    }

    async fn keys(&self, source: &Source, url: &str) -> Result<Arc<KeySet>, Failure> {
        if let Some(Kept::Keys(keys)) = self.kept(url) {
            return Ok(keys);
        }
        let bytes = self.document(url, MAX_KEYS_BYTES).await?;
        let keys = KeySet::parse(&bytes).ok_or_else(|| {
            let whose = if matches!(source.verify, Some(VerifyRule::A2aCard)) { "card" } else { "source" };
            Failure::new(Reason::BadSignature, format!("the keys of the {whose} are no JWK set"))
        })?;
        let keys = Arc::new(keys);
        self.keep(url, Kept::Keys(Arc::clone(&keys)));
        Ok(keys)
    }

    /// The service for the subject's host, by the registry of services (RFC 9224).
    async fn service(&self, registry: &str, parts: &Parts) -> Result<Url, Failure> {
        let services = match self.kept(registry) {
            Some(Kept::Services(services)) => services,
            _ => {
                let bytes = self.document(registry, MAX_SERVICES_BYTES).await?;
                let wrong = |_| Failure::new(Reason::WrongShape, "the registry of services is not JSON");
                let services = Arc::new(serde_json::from_slice::<Value>(&bytes).map_err(wrong)?);
                self.keep(registry, Kept::Services(Arc::clone(&services)));
                services
            }
        };
        let host = parts.get("host").map_or("", String::as_str);
        let top = host.split(':').next().unwrap_or_default().rsplit('.').next().unwrap_or_default();
        service_of(&services, top)
            .ok_or_else(|| Failure::new(Reason::Absent, "the registry of services knows none for this domain"))
    }

    /// A document that is read often: small, and at an address that a file or a host names.
    pub(crate) async fn document(&self, url: &str, max_bytes: usize) -> Result<Vec<u8>, Failure> {
        let url = Url::parse(url).map_err(|_| Failure::new(Reason::Forbidden, "not an address"))?;
        let request = Request::get(self.mirrored(&url)?.as_str()).map_err(|e| Failure::of(&e))?;
        let answer = self.egress.send(request.max_bytes(max_bytes)).await.map_err(|e| Failure::of(&e))?;
        match self.failure_of(&answer, &url) {
            None => Ok(answer.body),
            Some(failure) => Err(failure),
        }
    }

    /// Sends a request of a link's check, to the mirror where there is one.
    pub(crate) async fn send_checked(
        &self,
        build: impl FnOnce(&Url) -> Result<Request, EgressError>,
        url: &Url,
    ) -> Result<Answer, Failure> {
        let request = build(&self.mirrored(url)?).map_err(|e| Failure::of(&e))?;
        let answer = self.egress.send(request).await.map_err(|e| Failure::of(&e))?;
        match Failure::of_status(&answer, url) {
            None => Ok(answer),
            Some(failure) => Err(failure),
        }
    }

    /// The same document at the mirror.
    fn mirrored(&self, url: &Url) -> Result<Url, Failure> {
        let Some(mirror) = &self.mirror else { return Ok(url.clone()) };
        let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
        let host = url.host_str().unwrap_or_default();
        let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
        let text = format!("{}/{host}{port}{}{query}", mirror.as_str().trim_end_matches('/'), url.path());
        Url::parse(&text).map_err(|e| Failure::new(Reason::Forbidden, format!("the mirror: {e}")))
    }

    fn kept(&self, url: &str) -> Option<Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(url).filter(|(at, _)| at.elapsed() < KEPT).map(|(_, kept)| kept.clone())
    }

    fn keep(&self, url: &str, what: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.put(url.to_owned(), (Instant::now(), what));
    }
}

/// `{"services": [[["com"], ["https://rdap.example/"]]]}`
fn service_of(services: &Value, top: &str) -> Option<Url> {
    let list = services.get("services")?.as_array()?;
    let entry = list.iter().find(|entry| {
        let names = entry.get(0).and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|name| name.as_str().is_some_and(|n| n.eq_ignore_ascii_case(top))))
    })?;
    let urls = entry.get(1)?.as_array()?;
    urls.iter().filter_map(Value::as_str).filter_map(|url| Url::parse(url).ok()).find(|url| url.scheme() == "https")
}

/// How many requests are left, by the headers that sources use.
pub(crate) fn quota(answer: &Answer) -> Option<u64> {
    let names = ["x-ratelimit-remaining", "ratelimit-remaining"];
    names.iter().find_map(|name| answer.headers.get(*name)?.to_str().ok()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use axum::{
        Router,
        extract::Request as Received,
        http::{StatusCode, header},
        response::{IntoResponse, Response},
    };
    use credence_egress::Settings;

    use super::*;

    /// A source file with a secret, of a host that sends on: to another place of its own, then to another host.
    #[tokio::test]
    async fn the_secret_of_a_source_file_does_not_follow_a_redirection() {
        let seen: Arc<Mutex<Vec<(String, bool)>>> = Arc::default();
        let mut servers = Vec::new();
        for _ in 0..2 {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
            let (seen, other) = (Arc::clone(&seen), servers.first().cloned());
            servers.push(url.clone());
            let answer = move |request: Received| async move {
                let path = request.uri().path().to_owned();
                let secret = request.headers().values().any(|value| value.as_bytes() == b"Bearer s3cret");
                seen.lock().unwrap().push((format!("{}{path}", url.port().unwrap()), secret));
                let moved = |to: String| -> Response { (StatusCode::FOUND, [(header::LOCATION, to)]).into_response() };
                match (path.as_str(), other) {
                    ("/repos/acme/weather", _) => moved("/moved".into()),
                    ("/moved", Some(other)) => moved(format!("{other}elsewhere")),
                    _ => "{}".into_response(),
                }
            };
            let router = Router::new().fallback(answer);
            tokio::spawn(async move { axum::serve(listener, router).await });
        }
        let text = include_str!("../sources/github.toml");
        let settings = Settings { loopback: true, ..Settings::for_purpose("crawl") };
        let crawler = Crawler::new(Egress::new(settings).unwrap(), None, Arc::new(|_| Some("s3cret".into())));
        let subject = "repository:github.com/acme/weather".parse().unwrap();
        let now: Timestamp = "2026-11-18T12:00:00Z".parse().unwrap();
        for (redirects, server, wanted) in [
            ("same_origin", 0, vec![("/repos/acme/weather", true), ("/moved", false)]),
            ("public", 1, vec![("/repos/acme/weather", true), ("/moved", false), ("/elsewhere", false)]),
            ("refuse", 1, vec![("/repos/acme/weather", true)]),
        ] {
            let text = text.replace("[request]", &format!("[request]\nredirects = \"{redirects}\""));
            let mut source = Source::parse("github.toml", &text).unwrap();
            source.request.address = source.request.address.at_test_server(servers[server].clone());
            seen.lock().unwrap().clear();
            let _ = crawler.ask(&source, &subject, None, now).await;
            let asked = seen.lock().unwrap().clone();
            let port = |path: &str| servers[if path == "/elsewhere" { 0 } else { server }].port().unwrap();
            let wanted: Vec<_> =
                wanted.into_iter().map(|(path, told)| (format!("{}{path}", port(path)), told)).collect();
            assert_eq!(asked, wanted, "{redirects}");
        }
    }
}
