//! What came back.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use reqwest::{StatusCode, header::HeaderMap};
use url::Url;

use crate::politeness::retry_after;

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

    /// How long the host asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(reqwest::header::RETRY_AFTER)?.to_str().ok()?;
        retry_after(text, SystemTime::now())
    }

    /// The body's type, without parameters, in lower case.
    pub fn content_type(&self) -> Option<String> {
        let text = self.headers.get(reqwest::header::CONTENT_TYPE)?.to_str().ok()?;
        Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }
}
