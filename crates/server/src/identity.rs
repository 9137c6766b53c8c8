//! Callers that say who they are: a JWT signed by a key in the DID document of a did:web (the trust-signals protocol, request
//! identification).
//!
//! ```text
//! header { "alg": "EdDSA", "kid"? }   claims { "iss": "did:web:…", "aud": our host, "iat", "exp", "nbf"? }
//! ```
//!
//! An identified caller sees what everyone sees, under the limits of its address: a name costs nothing, so it buys nothing. Documents
//! are fetched as proofs of control are, from public addresses only, and kept for a minute.

use std::{
    collections::HashMap,
    net::IpAddr,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use credence_protocol::{PublicKey, Signature, Timestamp, jwk::Jwk, strict};
use credence_sandbox::domain::{Document, fetch};
use data_encoding::BASE64URL_NOPAD;
use lru::LruCache;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::{
    app::App,
    edge::refusal,
    problem::Problem,
    shares::{Owner, Shares},
};

/// Bytes of a token.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// Characters of a DID.
const MAX_DID: usize = 512;
/// Bytes of a DID document.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024;
/// Keys that are taken from a document.
const MAX_KEYS: usize = 32;
/// How long the whole of a resolution may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much another clock may differ.
const SKEW_SECONDS: i64 = 60;
/// How long a token may hold: an hour is usual.
const MAX_LIFE_SECONDS: i64 = 86_400;
/// How long a document is kept.
const KEPT: Duration = Duration::from_secs(60);
/// How long it is remembered that there was none.
const MISSING_KEPT: Duration = Duration::from_secs(10);
/// Documents that are kept.
const MAX_KEPT: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// Resolutions at once.
const RESOLUTIONS: u64 = 8;
/// Resolutions at once for one address.
const RESOLUTIONS_OF_ONE: u64 = 2;

/// Who the caller says it is, proved.
#[derive(Clone)]
pub(crate) struct Identity(pub Arc<str>);

/// Resolves DIDs, a few at once, and keeps what it found for a while.
pub(crate) struct Identities {
    kept: Mutex<LruCache<String, Kept>>,
    resolutions: Arc<Shares>,
}

/// What a resolution gave.
#[derive(Clone)]
struct Kept {
    until: Instant,
    keys: Result<Arc<DidKeys>, String>,
}

/// The keys in a DID document that may speak for it, by their ids.
type DidKeys = HashMap<String, PublicKey>;

impl Default for Identities {
    fn default() -> Self {
        Self { kept: Mutex::new(LruCache::new(MAX_KEPT)), resolutions: Shares::new(RESOLUTIONS) }
    }
}

fn unauthorized(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

impl Identities {
    /// Who a bearer token that is not ours identifies. Everything that is not a valid JWT of a did:web is refused.
    pub(crate) async fn identify(&self, app: &App, token: &str, address: IpAddr) -> Result<Identity, Problem> {
        let refused = |why: String| {
            unauthorized(format!(
                "the bearer token is neither one of this service's nor a valid JWT of a did:web: {why}"
            ))
        };
        let token = Token::parse(token).map_err(|why| refused(why.into()))?;
        token.claims.check(&audience(&app.office.base_url), app.now()).map_err(refused)?;
        let keys = self.keys(app, &token.claims.iss, address).await?.map_err(refused)?;
        token.verify(&keys).map_err(|why| refused(why.into()))?;
        Ok(Identity(token.claims.iss.into()))
    }

    /// The keys of a DID, kept or new, or why there are none.
    async fn keys(&self, app: &App, did: &str, address: IpAddr) -> Result<Result<Arc<DidKeys>, String>, Problem> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(did).cloned();
        if let Some(kept) = kept.filter(|kept| Instant::now() < kept.until) {
            return Ok(kept.keys);
        }
        let place = self.resolutions.take(Owner::Address(address), RESOLUTIONS_OF_ONE);
        let place = place.map_err(|why| refusal(app, why, "the DIDs resolved at once"))?;
        let keys = match place_of(did) {
            None => Err("iss is not a did:web that can be resolved".to_owned()),
            Some((host, path)) => {
                let allow_loopback = app.settings.allow_loopback_domains;
                let wanted = Document { host: &host, path: &path, allow_loopback, max_bytes: MAX_DOCUMENT_BYTES };
                let fetched = tokio::time::timeout(PATIENCE, fetch(wanted, place)).await;
                fetched
                    .unwrap_or_else(|_| Err("it took too long".to_owned()))
                    .and_then(|bytes| keys_in(did, &bytes).map_err(str::to_owned))
                    .map_err(|why| format!("https://{host}{path}: {why}"))
                    .map(Arc::new)
            }
        };
        let until = Instant::now() + if keys.is_ok() { KEPT } else { MISSING_KEPT };
        let kept = Kept { until, keys: keys.clone() };
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).put(did.to_owned(), kept);
        Ok(keys)
    }
}

/// What a token for this service names as its audience: the host, with its port when it has one.
fn audience(base_url: &str) -> String {
    let url = Url::parse(base_url).ok();
    let host = url.as_ref().and_then(|url| Some((url.host_str()?, url.port())));
    host.map_or_else(String::new, |(host, port)| port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// A JWT, taken apart.
struct Token<'a> {
    signed: &'a str,
    key_id: Option<String>,
    claims: Claims,
    signature: Signature,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: Audience,
    iat: f64,
    exp: f64,
    nbf: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl<'a> Token<'a> {
    fn parse(text: &'a str) -> Result<Self, &'static str> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err("it is longer than 8 KiB");
        }
        let (signed, signature) = text.rsplit_once('.').ok_or("it is not a JWT")?;
        let (header, claims) = signed.split_once('.').ok_or("it is not a JWT")?;
        let decode = |part: &str| BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| "it is not a JWT");
        let header: Header = strict::object(&decode(header)?).map_err(|_| "its header cannot be read")?;
        if header.alg != "EdDSA" {
            return Err("alg: EdDSA (Ed25519) is the algorithm that is taken");
        }
        if header.crit.is_some() {
            return Err("crit: no extension is understood");
        }
        let claims: Claims =
            strict::object(&decode(claims)?).map_err(|_| "iss, aud, iat and exp are needed in its claims")?;
        if claims.iss.len() > MAX_DID {
            return Err("iss is longer than 512 characters");
        }
        let signature = signature.parse().map_err(|_| "its signature is not one of Ed25519")?;
        Ok(Self { signed, key_id: header.kid, claims, signature })
    }

    fn verify(&self, keys: &DidKeys) -> Result<(), &'static str> {
        let holds = |key: &PublicKey| key.verify(self.signed.as_bytes(), &self.signature).is_ok();
        let did = &self.claims.iss;
        let verified = match &self.key_id {
            Some(kid) => {
                let whole = if kid.starts_with('#') { format!("{did}{kid}") } else { kid.clone() };
                let key = keys.get(&whole).or_else(|| keys.get(&format!("{did}#{kid}")));
                holds(key.ok_or("kid names no Ed25519 key that the DID document authenticates with")?)
            }
            None => keys.values().any(holds),
        };
        verified.then_some(()).ok_or("its signature does not hold")
    }
}

impl Claims {
    fn check(&self, audience: &str, now: Timestamp) -> Result<(), String> {
        if !self.iss.starts_with("did:web:") {
            return Err("iss is not a did:web".into());
        }
        let named = match &self.aud {
            Audience::One(one) => one == audience,
            Audience::Many(all) => all.iter().any(|one| one == audience),
        };
        if !named {
            return Err(format!("aud is not '{audience}'"));
        }
        let (now, skew) = (now.micros() as f64 / 1e6, SKEW_SECONDS as f64);
        if self.exp + skew < now {
            return Err("it has expired".into());
        }
        if self.iat - skew > now || self.nbf.is_some_and(|from| from - skew > now) {
            return Err("it is of the future: check the clock that signed it".into());
        }
        if self.exp - self.iat > MAX_LIFE_SECONDS as f64 {
            return Err("it holds for more than a day: an hour is usual".into());
        }
        Ok(())
    }
}

/// Host and path of the document of a did:web.
fn place_of(did: &str) -> Option<(String, String)> {
    let rest = did.strip_prefix("did:web:")?;
    let (host, path) = rest.split_once(':').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.replace("%3A", ":").replace("%3a", ":");
    let plain = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c) || more.contains(c))
    };
    if !plain(&host, ":") {
        return None;
    }
    let path = match path {
        None => "/.well-known/did.json".to_owned(),
        Some(path) => {
            let climbs = |part: &str| part == "." || part == "..";
            if !path.split(':').all(|part| plain(part, "~%") && !climbs(part)) {
                return None;
            }
            format!("/{}/did.json", path.replace(':', "/"))
        }
    };
    Some((host, path))
}

/// The Ed25519 keys that a DID document authenticates or asserts with, by their ids. Keys that it only lists are retired.
fn keys_in(did: &str, bytes: &[u8]) -> Result<DidKeys, &'static str> {
    let document = strict::value(bytes).map_err(|_| "what is there is not a DID document")?;
    if document["id"] != did {
        return Err("the document that is there is of another DID");
    }
    let whole = |id: &str| if id.starts_with('#') { format!("{did}{id}") } else { id.to_owned() };
    let members = |name: &str| document[name].as_array().cloned().unwrap_or_default();
    let mut methods = members("verificationMethod");
    let mut in_force = Vec::new();
    for relation in members("authentication").into_iter().chain(members("assertionMethod")) {
        match relation {
            Value::String(id) => in_force.push(whole(&id)),
            embedded => {
                in_force.extend(embedded["id"].as_str().map(whole));
                methods.push(embedded);
            }
        }
    }
    let mut keys = DidKeys::new();
    for method in methods.iter().take(MAX_KEYS) {
        let Some(id) = method["id"].as_str().map(whole).filter(|id| in_force.contains(id)) else { continue };
        let multibase = method["publicKeyMultibase"].as_str();
        let key = match multibase {
            Some(multibase) => PublicKey::parse(&format!("did:key:{multibase}")).ok(),
            None => {
                Jwk::parse(method["publicKeyJwk"].to_string().as_bytes()).ok().and_then(|jwk| jwk.public_key().ok())
            }
        };
        keys.extend(key.map(|key| (id, key)));
    }
    if keys.is_empty() { Err("the document names no Ed25519 key to authenticate with") } else { Ok(keys) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn where_documents_are() {
        let of = |did: &str| place_of(did);
        let place = |host: &str, path: &str| Some((host.to_owned(), path.to_owned()));
        assert_eq!(of("did:web:shop.example"), place("shop.example", "/.well-known/did.json"));
        assert_eq!(of("did:web:shop.example%3A8443:agents:a"), place("shop.example:8443", "/agents/a/did.json"));
        for bad in [
            "did:web:",
            "did:key:z6Mk",
            "did:web:a@b",
            "did:web:a/b",
            "did:web:a:..",
            "did:web:a::b",
            "did:web:a?x",
            "did:web:a%2fb",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_keys_in_force_count() {
        let key = |seed| credence_protocol::SecretKey::from_seed(&[seed; 32]).public();
        let multibase = |seed| key(seed).did_key().replace("did:key:", "");
        let did = "did:web:shop.example";
        let document = json!({
            "id": did,
            "verificationMethod": [
                { "id": "#a", "type": "Multikey", "publicKeyMultibase": multibase(1) },
                { "id": "did:web:shop.example#b", "publicKeyJwk": { "kty": "OKP", "crv": "Ed25519", "x": key(2).to_base64url() } },
                { "id": "#retired", "publicKeyMultibase": multibase(3) },
                { "id": "#p256", "publicKeyJwk": { "kty": "EC", "crv": "P-256", "x": "x", "y": "y" } },
            ],
            "authentication": ["did:web:shop.example#a", { "id": "#c", "publicKeyMultibase": multibase(4) }, "#p256"],
            "assertionMethod": ["#b"],
        });
        let keys = keys_in(did, document.to_string().as_bytes()).unwrap();
        let mut ids: Vec<&str> = keys.keys().map(String::as_str).collect();
        ids.sort_unstable();
        assert_eq!(ids, ["did:web:shop.example#a", "did:web:shop.example#b", "did:web:shop.example#c"]);
        assert!(keys_in("did:web:other.example", document.to_string().as_bytes()).is_err());
        assert!(keys_in(did, br#"{"id":"did:web:shop.example"}"#).is_err());
    }
}
