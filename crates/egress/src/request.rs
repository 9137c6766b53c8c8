//! What is asked, and what its answer may cost.

use std::time::Duration;

use reqwest::{
    Method,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use url::Url;

use crate::{Answer, EgressError, Rate};

/// Bytes of an answer, where the request says nothing else.
const DEFAULT_MAX_BYTES: usize = 1024 * 1024;
/// How long a whole exchange may take, where the request says nothing else.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(10);

/// Where a request follows when its host sends it elsewhere. Only requests without a body follow; secrets never do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redirects {
    /// Nowhere: a redirection is an error.
    #[default]
    Refuse,
    /// To another path of the same scheme, host and port, so many times.
    SameOrigin(u8),
    /// To any https address that could have been asked itself, so many times.
    Public(u8),
}

impl Redirects {
    /// For documents that people move about: three times, to any public address.
    pub const USUAL: Self = Self::Public(3);

    pub(crate) fn follows(self, from: &Url, to: &Url, hops: u8) -> bool {
        match self {
            Self::Refuse => false,
            Self::SameOrigin(most) => hops < most && from.origin() == to.origin(),
            Self::Public(most) => hops < most,
        }
    }
}

/// What an earlier answer said of itself, for asking whether it changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validators {
    /// `ETag`.
    pub etag: Option<HeaderValue>,
    /// `Last-Modified`.
    pub last_modified: Option<HeaderValue>,
}

impl Validators {
    /// Those of an answer.
    pub fn of(answer: &Answer) -> Self {
        let header = |name| answer.headers.get(name).cloned();
        Self { etag: header(reqwest::header::ETAG), last_modified: header(reqwest::header::LAST_MODIFIED) }
    }
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) max_bytes: usize,
    pub(crate) deadline: Duration,
    pub(crate) redirects: Redirects,
    pub(crate) rate: Option<Rate>,
}

impl Request {
    /// A request with any method.
    pub fn new(method: Method, url: &str) -> Result<Self, EgressError> {
        let parsed = Url::parse(url).map_err(|_| EgressError::InvalidUrl(url.to_owned()))?;
        // A password in an address ends up in logs.
        if !parsed.has_host() || !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(EgressError::InvalidUrl(without_user(parsed)));
        }
        Ok(Self {
            method,
            url: parsed,
            headers: HeaderMap::new(),
            body: None,
            max_bytes: DEFAULT_MAX_BYTES,
            deadline: DEFAULT_DEADLINE,
            redirects: Redirects::Refuse,
            rate: None,
        })
    }

    /// A GET request.
    pub fn get(url: &str) -> Result<Self, EgressError> {
        Self::new(Method::GET, url)
    }

    /// A POST request with a body of the given type.
    pub fn post(url: &str, content_type: HeaderValue, body: Vec<u8>) -> Result<Self, EgressError> {
        let mut request = Self::new(Method::POST, url)?.header(reqwest::header::CONTENT_TYPE, content_type);
        request.body = Some(body);
        Ok(request)
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Adds a header that holds a secret: it is shown in no error or log, and goes to no other address than this request's.
    #[must_use]
    pub fn secret(self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.header(name, value)
    }

    /// Asks for the document only if it changed since.
    #[must_use]
    pub fn if_changed(mut self, since: &Validators) -> Self {
        let pairs =
            [(reqwest::header::IF_NONE_MATCH, &since.etag), (reqwest::header::IF_MODIFIED_SINCE, &since.last_modified)];
        for (name, value) in pairs {
            if let Some(value) = value {
                self.headers.insert(name, value.clone());
            }
        }
        self
    }

    /// Takes an answer of at most so many bytes.
    #[must_use]
    pub fn max_bytes(mut self, limit: usize) -> Self {
        self.max_bytes = limit;
        self
    }

    /// Waits at most so long for the whole of the answer, redirections included.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Asks its host at this rate instead of the client's. Requests of the same rate to the same host take turns.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Follows redirections.
    #[must_use]
    pub fn redirects(mut self, redirects: Redirects) -> Self {
        self.redirects = redirects;
        self
    }

    /// The address.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The same request at the address it was sent on to, without its secrets. A redirection of a request with a body is not followed.
    pub(crate) fn moved(&self, to: Url) -> Self {
        let mut request = self.clone();
        request.url = to;
        let secret: Vec<HeaderName> = self
            .headers
            .iter()
            .filter(|(name, value)| value.is_sensitive() || is_secret(name))
            .map(|(name, _)| name.clone())
            .collect();
        for name in secret {
            request.headers.remove(name);
        }
        request
    }
}

/// Headers that hold a secret whatever the caller said.
fn is_secret(name: &HeaderName) -> bool {
    *name == reqwest::header::AUTHORIZATION
        || *name == reqwest::header::COOKIE
        || *name == reqwest::header::PROXY_AUTHORIZATION
}

fn without_user(mut url: Url) -> String {
    let cleared = url.set_username("").and_then(|()| url.set_password(None));
    if cleared.is_ok() { url.to_string() } else { format!("{}:…", url.scheme()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_refused_and_not_repeated() {
        for url in ["https://user:hunter2@a.example/", "https://hunter2@a.example/"] {
            let error = Request::get(url).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        for url in ["", "a.example", "/path", "mailto:a@b.example", "data:text/plain,x"] {
            assert!(Request::get(url).is_err(), "{url}");
        }
    }

    #[test]
    fn secrets_stay_behind_when_a_request_moves_on() {
        let request = Request::get("https://a.example/")
            .unwrap()
            .secret(HeaderName::from_static("x-api-key"), HeaderValue::from_static("k3y"))
            .header(reqwest::header::AUTHORIZATION, HeaderValue::from_static("Bearer two"))
            .header(reqwest::header::ACCEPT, HeaderValue::from_static("application/json"));
        let moved = request.moved("https://a.example/other".parse().unwrap());
        assert_eq!(moved.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
        assert!(!format!("{request:?}").contains("k3y"));
    }
}
