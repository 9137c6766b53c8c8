//! What came back.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use reqwest::{StatusCode, header::HeaderMap};
use url::Url;

use crate::politeness::{retry_after, until_reset};

/// A whole answer, within the request's limits. Any status: what an error means is the caller's business.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers, as the host sent them.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    /// Where it came from, after redirections.
    pub url: Url,
    /// The address of the host that answered.
    pub address: Option<SocketAddr>,
    /// From the request to the last byte.
    pub elapsed: Duration,
}

impl Answer {
    /// Whether the document is as it was when the validators of the request were made.
    pub fn is_unchanged(&self) -> bool {
        self.status == StatusCode::NOT_MODIFIED
    }

    /// What `Retry-After` says, a day at most.
    pub fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(reqwest::header::RETRY_AFTER)?.to_str().ok()?;
        retry_after(text, SystemTime::now())
    }

    /// How long the host asks to be left alone: `Retry-After` of a 429, a 503 or a 403; without one, of a 429 or a 403, the end of a quota
    /// that is used up (`X-RateLimit-Remaining: 0`, `X-RateLimit-Reset`). A pause of no length is none.
    pub fn pause(&self) -> Option<Duration> {
        let is_quota = [StatusCode::TOO_MANY_REQUESTS, StatusCode::FORBIDDEN].contains(&self.status);
        if !is_quota && self.status != StatusCode::SERVICE_UNAVAILABLE {
            return None;
        }
        let number = |name: &str| self.headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
        let reset = || {
            let reset =
                number("x-ratelimit-reset").filter(|_| is_quota && number("x-ratelimit-remaining") == Some(0))?;
            Some(until_reset(reset, SystemTime::now()))
        };
        self.retry_after().filter(|pause| !pause.is_zero()).or_else(reset).filter(|pause| !pause.is_zero())
    }

    /// The body's type, without parameters, in lower case.
    pub fn content_type(&self) -> Option<String> {
        let text = self.headers.get(reqwest::header::CONTENT_TYPE)?.to_str().ok()?;
        Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }
}
