//! Named verifications of a whole answer.
//!
//! - `a2a_card`: an agent card's `signatures` (A2A, *Agent Card Signing*): each a JWS over the canonical JSON (RFC 8785) of the card
//!   without `signatures`. The keys stand where `jku` says, and that has to be the card's own host.
//! - `envelope`: `{"signed": {…}, "sig": "…", "kid": "…", "alg": "ES256"}`, the signature over the text of `signed` as it was sent,
//!   without white space, in the order it was sent.
//!
//! A signature that is there and does not hold measures nothing at all. A card without signatures is not signed, which is no fault.

use std::collections::BTreeMap;

use credence_protocol::Canonical;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use url::Url;

use crate::{
    NoReading, Source,
    jws::{Header, KeySet, any_base64, signing_input},
    pointer::Pointer,
    source::VerifyRule,
    template::Parts,
};

/// Signatures of one card that are looked at.
const MAX_SIGNATURES: usize = 8;

/// What has to be fetched before a verification.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    /// The file asks for none.
    Nothing,
    /// There is no signature.
    Unsigned,
    /// The keys at this address.
    Keys(String),
}

#[derive(Deserialize)]
struct CardSignature {
    protected: String,
    signature: String,
}

fn card_signatures(card: &Value) -> Option<Vec<CardSignature>> {
    let list = card.get("signatures")?.as_array().filter(|list| !list.is_empty())?;
    let read = |value: &Value| serde_json::from_value(value.clone()).ok();
    Some(list.iter().take(MAX_SIGNATURES).filter_map(read).collect())
}

/// Where the keys are.
pub(crate) fn needed(source: &Source, parts: &Parts, document: &Value) -> Result<Needed, NoReading> {
    match &source.verify {
        None => Ok(Needed::Nothing),
        Some(VerifyRule::Envelope { jwks, .. }) => Ok(Needed::Keys(jwks.clone())),
        Some(VerifyRule::A2aCard) => {
            let Some(signatures) = card_signatures(document) else { return Ok(Needed::Unsigned) };
            let host = parts.get("host").map_or("", String::as_str);
            let jku = signatures.iter().filter_map(|one| Header::parse(&one.protected)?.jku).find(|jku| {
                let url = Url::parse(jku).ok().filter(|url| url.scheme() == "https" && url.fragment().is_none());
                url.is_some_and(|url| authority(&url) == host)
            });
            jku.map(Needed::Keys).ok_or(NoReading::BadSignature("it names no keys on the card's own host (jku)"))
        }
    }
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Whether the answer is signed by one of `keys`.
pub(crate) fn check(source: &Source, bytes: &[u8], document: &Value, keys: &KeySet) -> Result<bool, NoReading> {
    match &source.verify {
        None => Ok(false),
        Some(VerifyRule::A2aCard) => card(document, keys),
        Some(VerifyRule::Envelope { pointer, at, .. }) => envelope(bytes, document, pointer, at, keys),
    }
}

fn card(document: &Value, keys: &KeySet) -> Result<bool, NoReading> {
    let mut unsigned = document.clone();
    if let Some(members) = unsigned.as_object_mut() {
        members.remove("signatures");
    }
    let payload = Canonical::of(&unsigned).map_err(|_| NoReading::BadSignature("the card has no canonical form"))?;
    let holds = |one: &CardSignature| {
        let header = Header::parse(&one.protected)?;
        let signature = any_base64(&one.signature)?;
        let message = signing_input(&one.protected, payload.as_bytes());
        Some(keys.verify(&header.alg, header.kid.as_deref(), &message, &signature))
    };
    let signatures = card_signatures(document).unwrap_or_default();
    if signatures.iter().any(|one| holds(one) == Some(true)) {
        Ok(true)
    } else {
        Err(NoReading::BadSignature("no key of the card's host made it over this card"))
    }
}

fn envelope(
    bytes: &[u8],
    document: &Value,
    pointer: &Pointer,
    at: &[String],
    keys: &KeySet,
) -> Result<bool, NoReading> {
    let found = pointer.find(document).into_iter().flatten().next();
    let envelope = found.ok_or_else(|| NoReading::Absent("there is no attestation".into()))?;
    let member = |name: &str| envelope.get(name).and_then(Value::as_str);
    let (alg, kid) = (member("alg").unwrap_or("ES256"), member("kid"));
    let signature = member("sig").and_then(any_base64).ok_or(NoReading::BadSignature("there is no signature"))?;
    let text = raw_text(bytes, at, "signed").ok_or(NoReading::BadSignature("nothing is signed"))?;
    let without_space = compact(&text);
    if keys.verify(alg, kid, without_space.as_bytes(), &signature) {
        Ok(true)
    } else {
        Err(NoReading::BadSignature("no key of the source made it over this text"))
    }
}

/// The text of a member as it was sent.
fn raw_text(bytes: &[u8], at: &[String], member: &str) -> Option<String> {
    let mut text: Box<RawValue> = serde_json::from_slice(bytes).ok()?;
    for step in at.iter().map(String::as_str).chain([member]) {
        let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text.get()).ok()?;
        text = members.into_iter().find(|(name, _)| name == step)?.1;
    }
    Some(text.get().to_owned())
}

/// JSON without white space between its tokens.
fn compact(json: &str) -> String {
    let (mut out, mut in_text, mut escaped) = (String::with_capacity(json.len()), false, false);
    for c in json.chars() {
        if in_text {
            out.push(c);
            (in_text, escaped) = (escaped || c != '"', !escaped && c == '\\');
        } else if !matches!(c, ' ' | '\t' | '\r' | '\n') {
            out.push(c);
            in_text = c == '"';
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_goes_and_texts_stay() {
        let json = "{ \"b\" : \"a \\\" \\\\\" ,\n\t\"a\": [1, 2.50 , \"x  y\"] }";
        assert_eq!(compact(json), r#"{"b":"a \" \\","a":[1,2.50,"x  y"]}"#);
    }

    #[test]
    fn the_text_is_that_of_the_sender() {
        let json = br#"{"x": {"signed": {"z": 1.0, "a": 2}, "sig": "s"}}"#;
        assert_eq!(raw_text(json, &["x".to_owned()], "signed").unwrap(), r#"{"z": 1.0, "a": 2}"#);
        assert_eq!(raw_text(json, &["y".to_owned()], "signed"), None);
    }
}
