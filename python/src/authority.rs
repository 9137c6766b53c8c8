//! Answers of an authority, checked without asking anyone: the native part of `credence_trust.Authority`.

use credence_output::response;
use credence_protocol::{PublicKey, jwk::Jwk};
use pyo3::prelude::*;
use serde_json::{Value, json};
use url::Url;

use crate::{engine::refused, guard::timestamp};

/// The keys in a text: `did:key:…`, base64url, a JWK or a JWKS.
fn keys_in(text: &str) -> PyResult<Vec<PublicKey>> {
    if let Ok(key) = PublicKey::parse(text) {
        return Ok(vec![key]);
    }
    let wrong = || refused("a key is a did:key:…, a key in base64url, a JWK or a JWKS");
    let value: Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let single = [value.clone()];
    let listed = value.get("keys").and_then(Value::as_array).map_or(&single[..], Vec::as_slice);
    let key =
        |jwk: &Value| Jwk::parse(jwk.to_string().as_bytes()).and_then(|jwk| jwk.public_key()).map_err(|_| wrong());
    listed.iter().map(key).collect()
}

/// The keys in texts, each as `did:key:…`: refused where one cannot be read.
#[pyfunction]
pub fn parse_keys(texts: Vec<String>) -> PyResult<Vec<String>> {
    let mut all = Vec::new();
    for text in &texts {
        all.extend(keys_in(text)?.iter().map(PublicKey::did_key));
    }
    Ok(all)
}

/// Checks a trust-signals response: signature, expiry, whom and which page it is about. Gives what it says, as JSON; raises `ValueError`
/// where it does not hold at `now`, in seconds since 1970.
#[pyfunction]
pub fn check_response(document: &[u8], keys: Vec<String>, entity: &str, url: &str, now: f64) -> PyResult<String> {
    let mut pinned = Vec::new();
    for key in &keys {
        pinned.extend(keys_in(key)?);
    }
    let checked = response::verify(document, &pinned).map_err(refused)?;
    let now = timestamp(now)?;
    if now > checked.expires {
        return Err(refused(format!("its signature holds, but it expired at {}", checked.expires)));
    }
    if checked.entity != entity {
        let found = &checked.entity;
        return Err(refused(format!("its signature holds, but it is about '{found}', not about '{entity}'")));
    }
    // Addresses are compared as browsers read them, without their fragment, which no server sees.
    let plain = |text: &str| {
        Url::parse(text).map(|mut url| {
            url.set_fragment(None);
            url
        })
    };
    if plain(&checked.url).ok() != Some(plain(url).map_err(refused)?) {
        return Err(refused(format!("its signature holds, but it is about the page {}, not about {url}", checked.url)));
    }
    let response::Checked { entity, url, context, status, action, expires, hash } = checked;
    let seconds = (expires.micros() - now.micros()) as f64 / 1e6;
    let shown = json!({
        "entity": entity, "url": url, "context": context, "status": status, "action": action, "expires": expires, "hash": hash,
        "seconds_left": seconds,
    });
    Ok(shown.to_string())
}
