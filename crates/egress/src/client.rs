//! The client.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::{Response, StatusCode, header};
use url::Url;

use crate::{
    Answer, Destination, EgressError, Rate, Request,
    politeness::Politeness,
    resolve::{CheckedResolver, Names, SystemNames, check, literal},
};

/// How long a connection may take.
const CONNECTING: Duration = Duration::from_secs(5);

/// How a client asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What for, in the User-Agent: `crawl`, `probe`, `domain`.
    pub purpose: &'static str,
    /// Where the people behind it can be reached, in the User-Agent: the authority's public address.
    pub contact: Option<Url>,
    /// Allows addresses of this machine, and http there. Only an operator may say so.
    pub loopback: bool,
    /// How often one host may be asked.
    pub rate: Rate,
}

impl Settings {
    /// The defaults: public addresses, and few requests a second.
    pub fn for_purpose(purpose: &'static str) -> Self {
        Self { purpose, contact: None, loopback: false, rate: Rate::default() }
    }

    fn user_agent(&self) -> String {
        let contact = self.contact.as_ref().map_or_else(String::new, |url| format!("; +{url}"));
        format!("credence/{} ({}{contact})", env!("CARGO_PKG_VERSION"), self.purpose)
    }
}

/// The client. Cloning is cheap, and clones share connections, rates and pauses.
#[derive(Clone)]
pub struct Egress {
    client: reqwest::Client,
    settings: Arc<Settings>,
    politeness: Arc<Politeness>,
    names: Arc<dyn Names>,
    /// The one host that a pinned client asks.
    only: Option<Arc<Destination>>,
}

impl Egress {
    /// A client for any public host.
    pub fn new(settings: Settings) -> Result<Self, EgressError> {
        Self::with_names(settings, Arc::new(SystemNames))
    }

    /// The same with another resolver than the machine's. Its answers are checked like any other.
    pub fn with_names(settings: Settings, names: Arc<dyn Names>) -> Result<Self, EgressError> {
        let politeness = Arc::new(Politeness::new(settings.rate));
        Self::build(Arc::new(settings), politeness, names, None)
    }

    /// A client for one host, which asks only the addresses in `destination`, whatever name servers say later. It shares rates and
    /// pauses with this one.
    pub fn pinned(&self, destination: Destination) -> Result<Self, EgressError> {
        let (settings, politeness) = (Arc::clone(&self.settings), Arc::clone(&self.politeness));
        Self::build(settings, politeness, Arc::clone(&self.names), Some(destination))
    }

    fn build(
        settings: Arc<Settings>,
        politeness: Arc<Politeness>,
        names: Arc<dyn Names>,
        pinned: Option<Destination>,
    ) -> Result<Self, EgressError> {
        let only = pinned.map(Arc::new);
        let resolver = CheckedResolver { loopback: settings.loopback, pinned: only.clone(), names: Arc::clone(&names) };
        let client = reqwest::Client::builder()
            .dns_resolver(Arc::new(resolver))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECTING)
            .user_agent(settings.user_agent())
            .build()
            .map_err(|e| EgressError::Setup(causes(&e)))?;
        Ok(Self { client, settings, politeness, names, only })
    }

    /// Resolves and checks a host once, for [`Self::pinned`].
    pub async fn resolve(&self, url: &Url) -> Result<Destination, EgressError> {
        Ok(Destination::resolve_by(Arc::clone(&self.names), url, self.settings.loopback, ()).await?.0)
    }

    /// Sends a request and reads the whole answer. Waits for the host's turn first; the deadline counts from then on.
    pub async fn send(&self, request: Request) -> Result<Answer, EgressError> {
        let (mut request, mut hops) = (request, 0);
        loop {
            self.admit(&request.url)?;
            let host = host_of(&request.url);
            self.politeness.turn(&host, request.rate).await?;
            let started = Instant::now();
            let seconds = request.deadline.as_secs();
            let late = || EgressError::Late { host: host.clone(), seconds };
            let answer =
                tokio::time::timeout(request.deadline, self.exchange(&request)).await.map_err(|_| late())??;
            // As long as the host says, and after 429 also where it does not say.
            match answer.pause() {
                Some(pause) => self.politeness.pause(&host, pause),
                None if answer.status == StatusCode::TOO_MANY_REQUESTS => self.politeness.pause_unsaid(&host),
                None => self.politeness.answered(&host),
            }
            let Some(target) = redirection(&answer) else { return Ok(answer) };
            if !request.redirects.follows(&request.url, &target, hops) || request.body.is_some() {
                let to = target.origin().ascii_serialization();
                return Err(EgressError::Redirected { host, to });
            }
            let left = request.deadline.saturating_sub(started.elapsed());
            request = request.moved(target).deadline(left);
            hops += 1;
        }
    }

    /// How long the host of an address is still left alone, after it asked for that.
    pub fn pause_left(&self, url: &Url) -> Option<Duration> {
        self.host_pause_left(&host_of(url))
    }

    /// How long a host, in lower case, is still left alone.
    pub fn host_pause_left(&self, host: &str) -> Option<Duration> {
        self.politeness.pause_left(host)
    }

    /// Fails where an address must not be asked. Names are checked when they are resolved, addresses here.
    fn admit(&self, url: &Url) -> Result<(), EgressError> {
        let host = host_of(url);
        if let Some(only) = self.only.as_ref().filter(|only| !only.host.eq_ignore_ascii_case(&host)) {
            return Err(EgressError::OtherHost { host, only: only.host.clone() });
        }
        if let Some(ip) = literal(url) {
            check(&host, &[(ip, 0).into()], self.settings.loopback)?;
        }
        let local = literal(url).is_some_and(|ip| ip.is_loopback())
            || host == "localhost"
            || self.only.as_ref().is_some_and(|only| only.is_loopback());
        match url.scheme() {
            "https" => Ok(()),
            "http" if self.settings.loopback && local => Ok(()),
            _ => Err(EgressError::NotHttps(origin_of(url))),
        }
    }

    async fn exchange(&self, request: &Request) -> Result<Answer, EgressError> {
        let host = host_of(&request.url);
        let started = Instant::now();
        let mut sent = self
            .client
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone())
            .header(header::ACCEPT_ENCODING, "identity");
        if let Some(body) = &request.body {
            sent = sent.body(body.clone());
        }
        let response = sent.send().await.map_err(|e| explain(&host, e))?;
        let encoding = response.headers().get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
        if let Some(encoding) = encoding.filter(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
            return Err(EgressError::Encoded { host, encoding: encoding.chars().take(40).collect() });
        }
        let (status, headers, address) = (response.status(), response.headers().clone(), response.remote_addr());
        let body = read(response, &host, request.max_bytes).await?;
        Ok(Answer { status, headers, body, url: request.url.clone(), address, elapsed: started.elapsed() })
    }
}

async fn read(mut response: Response, host: &str, limit: usize) -> Result<Vec<u8>, EgressError> {
    let too_large = || EgressError::TooLarge { host: host.to_owned(), limit };
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|e| explain(host, e))? {
        if body.len() + part.len() > limit {
            return Err(too_large());
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// Where an answer sends the request on to.
fn redirection(answer: &Answer) -> Option<Url> {
    let moved = [301, 302, 303, 307, 308].contains(&answer.status.as_u16());
    let target = answer.headers.get(header::LOCATION).filter(|_| moved)?.to_str().ok()?;
    answer.url.join(target).ok()
}

/// Why an exchange failed. Nothing of the address but its host is repeated: a path or query may hold a secret of the caller.
fn explain(host: &str, error: reqwest::Error) -> EgressError {
    let error = error.without_url();
    let mut cause: Option<&dyn Error> = Some(&error);
    while let Some(inner) = cause {
        if let Some(ours) = inner.downcast_ref::<EgressError>() {
            return ours.clone();
        }
        cause = inner.source();
    }
    let why = causes(&error);
    let host = host.to_owned();
    if why.to_ascii_lowercase().contains("certificate") {
        return EgressError::Certificate { host, why };
    }
    EgressError::Unreachable { host, why }
}

/// What caused an error: the innermost cause with the one around it. The layers outside of these name the HTTP client's parts.
fn causes(error: &dyn Error) -> String {
    let mut texts = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if texts.last().is_none_or(|outer| !outer.contains(&text)) {
            texts.push(text);
        }
        cause = inner.source();
    }
    texts[texts.len().saturating_sub(2)..].join(": ")
}

fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_ascii_lowercase()
}

fn origin_of(url: &Url) -> String {
    format!("{}://{}", url.scheme(), host_of(url))
}
