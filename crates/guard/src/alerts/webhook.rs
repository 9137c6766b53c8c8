//! A POST of JSON for each alert: three tries, each with a time limit, with growing waits between them. Redirects are not followed.

use std::time::Duration;

use reqwest::{
    blocking::Client,
    header::{HeaderMap, HeaderName, HeaderValue},
};

use super::Deliver;
use crate::{
    Error,
    config::{ConfigError, SecretFrom, Webhook, file::read_secret},
    innermost_cause,
};

/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before the next try.
const WAITS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

/// Sends each alert to `webhook`. The secret is read once, now.
pub fn deliverer(webhook: &Webhook) -> Result<Deliver, Error> {
    let mut headers = HeaderMap::new();
    if let Some(header) = &webhook.header {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|e| Error::Content(e.to_string()))?;
        let secret = match &header.from {
            SecretFrom::Environment(variable) => std::env::var(variable).map_err(|_| {
                Error::Content(format!("the environment has no {variable}, where the webhook's header should be"))
            })?,
            SecretFrom::File(path) => read_secret(path).map_err(|e: ConfigError| Error::Content(e.to_string()))?,
        };
        let mut value = HeaderValue::from_str(&secret)
            .map_err(|_| Error::Content(format!("the value of {} cannot be a header", header.name)))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let client = Client::builder()
        .timeout(PATIENCE)
        .redirect(reqwest::redirect::Policy::none())
        .default_headers(headers)
        .build()
        .map_err(|e| Error::Content(e.to_string()))?;
    let url = webhook.url.clone();
    let shown = crate::http::without_secrets(&url);
    Ok(Box::new(move |alert| {
        let body = serde_json::to_vec(alert).map_err(|e| e.to_string())?;
        let mut waits = WAITS.iter();
        loop {
            let failed = match post(&client, &url, &body) {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            match waits.next().filter(|_| failed.again) {
                Some(wait) => std::thread::sleep(*wait),
                None => return Err(format!("{shown}: {}", failed.why)),
            }
        }
    }))
}

struct Failed {
    why: String,
    /// Another try may succeed.
    again: bool,
}

fn post(client: &Client, url: &url::Url, body: &[u8]) -> Result<(), Failed> {
    let request = client.post(url.clone()).header("Content-Type", "application/json").body(body.to_vec());
    let answer = request.send().map_err(|error| Failed {
        why: format!("it cannot be reached: {}", innermost_cause(&error.without_url())),
        again: true,
    })?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let again = status.is_server_error() || status.as_u16() == 429;
    Err(Failed { why: format!("it answered {}", status.as_u16()), again })
}
