//! Addresses and bodies of requests, with places for the parts of a subject: `https://api.example/repos/{owner}/{name}`.
//!
//! A part goes into a path or query percent-encoded, all but the unreserved characters of RFC 3986, so that no part can add a
//! segment, a parameter or a fragment. Only the part `host` can be a host, and then it is the whole of it.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use url::Url;

use crate::secrets;

/// The values of places, by their names.
pub(crate) type Parts = BTreeMap<String, String>;

/// All but letters, digits, `-._~`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Text with places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    text: String,
}

impl Template {
    pub fn new(text: &str) -> Result<Self, String> {
        let template = Self { text: text.to_owned() };
        template.pieces()?;
        Ok(template)
    }

    /// The names of its places.
    pub fn places(&self) -> Vec<&str> {
        let pieces = self.pieces().unwrap_or_default();
        pieces.into_iter().filter_map(|piece| if let Piece::Place(name) = piece { Some(name) } else { None }).collect()
    }

    /// The text with `parts` as they are.
    pub fn plain(&self, parts: &Parts) -> String {
        self.filled(parts, str::to_owned)
    }

    fn filled(&self, parts: &Parts, write: impl Fn(&str) -> String) -> String {
        let pieces = self.pieces().unwrap_or_default();
        let text = |piece: &Piece<'_>| match piece {
            Piece::Text(text) => (*text).to_owned(),
            Piece::Place(name) => parts.get(*name).map(|value| write(value)).unwrap_or_default(),
        };
        pieces.iter().map(text).collect()
    }

    fn pieces(&self) -> Result<Vec<Piece<'_>>, String> {
        let (mut pieces, mut rest) = (Vec::new(), self.text.as_str());
        while let Some(open) = rest.find(['{', '}']) {
            if rest.as_bytes()[open] == b'}' {
                return Err("a '}' without '{'".into());
            }
            pieces.push(Piece::Text(&rest[..open]));
            let close = rest[open..].find('}').ok_or("a '{' without '}'")? + open;
            let name = &rest[open + 1..close];
            let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            if name.is_empty() || !name.bytes().all(legal) {
                return Err(format!("'{{{name}}}' is no place: a place is a name of a-z 0-9 _"));
            }
            pieces.push(Piece::Place(name));
            rest = &rest[close + 1..];
        }
        pieces.push(Piece::Text(rest));
        Ok(pieces)
    }
}

#[derive(Debug)]
enum Piece<'a> {
    Text(&'a str),
    Place(&'a str),
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    start: Start,
    /// From the first slash on.
    rest: Template,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Start {
    /// `https://` and a host that the file names.
    Fixed(Url),
    /// The subject's own host.
    SubjectHost,
    /// What the registry of services says (RFC 9224).
    Base,
}

impl Address {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (start, rest) = if let Some(rest) = text.strip_prefix("https://{host}") {
            (Start::SubjectHost, rest)
        } else if let Some(rest) = text.strip_prefix("{base}") {
            (Start::Base, rest)
        } else {
            let after = text.strip_prefix("https://").ok_or("an address starts with https://")?;
            let end = after.find('/').ok_or("an address has a path after its host")?;
            let (host, rest) = after.split_at(end);
            if host.contains(['{', '}']) {
                return Err("a host is named in full, or is {host}, the subject's own".into());
            }
            let url = Url::parse(&format!("https://{host}/")).map_err(|e| format!("'{host}' is no host: {e}"))?;
            if !url.username().is_empty() || url.password().is_some() {
                return Err("a user name or password in an address: put secrets into request.secret".into());
            }
            (Start::Fixed(url), rest)
        };
        if !rest.starts_with('/') {
            return Err("an address has a path after its host".into());
        }
        if rest.contains('#') {
            return Err("an address without a fragment".into());
        }
        if let Some((_, query)) = rest.split_once('?') {
            for parameter in query.split('&') {
                let name = parameter.split('=').next().unwrap_or_default();
                if secrets::is_name(name) {
                    return Err(format!(
                        "the parameter '{name}' holds a secret: addresses end up in logs, use request.secret"
                    ));
                }
            }
        }
        if secrets::is_in(rest) {
            return Err("a part of it looks like a secret: addresses end up in logs, use request.secret".into());
        }
        Ok(Self { start, rest: Template::new(rest)? })
    }

    /// The same path on a server of a test, which speaks no TLS.
    #[cfg(test)]
    pub fn at_test_server(self, server: Url) -> Self {
        Self { start: Start::Fixed(server), ..self }
    }

    /// The host that the file names, if it names one.
    pub fn fixed_host(&self) -> Option<&str> {
        if let Start::Fixed(url) = &self.start { url.host_str() } else { None }
    }

    /// Whether it goes to the subject's own host.
    pub fn asks_the_subject(&self) -> bool {
        self.start == Start::SubjectHost
    }

    /// Whether a registry of services says where it goes.
    pub fn needs_base(&self) -> bool {
        self.start == Start::Base
    }

    pub fn places(&self) -> Vec<&str> {
        let host = (self.start == Start::SubjectHost).then_some("host");
        host.into_iter().chain(self.rest.places()).collect()
    }

    /// The address for these parts. `base` is what the registry of services says.
    pub fn url(&self, parts: &Parts, base: Option<&Url>) -> Result<Url, String> {
        let escape = |value: &str| utf8_percent_encode(value, ESCAPED).to_string();
        let rest = self.rest.filled(parts, escape);
        let start = match &self.start {
            Start::Fixed(url) => url.as_str().trim_end_matches('/').to_owned(),
            Start::SubjectHost => format!("https://{}", parts.get("host").map_or("", String::as_str)),
            Start::Base => {
                base.map(|url| url.as_str().trim_end_matches('/').to_owned()).ok_or("no service is known")?
            }
        };
        let url = Url::parse(&format!("{start}{rest}")).map_err(|e| e.to_string())?;
        // A part that is `.` or `..` would be eaten by normalisation.
        let segments = url.path().split('/').count();
        let wanted = Url::parse(&start).map_err(|e| e.to_string())?.path().trim_end_matches('/').split('/').count()
            + rest.split('?').next().unwrap_or_default().split('/').count()
            - 1;
        if segments != wanted { Err("a part of the subject changes the path".into()) } else { Ok(url) }
    }
}

/// A body with places in its texts, filled.
pub(crate) fn body(template: &Value, parts: &Parts) -> Result<Value, String> {
    Ok(match template {
        Value::String(text) => Value::String(Template::new(text)?.plain(parts)),
        Value::Array(elements) => Value::Array(elements.iter().map(|one| body(one, parts)).collect::<Result<_, _>>()?),
        Value::Object(members) => {
            let filled = members.iter().map(|(name, value)| Ok((name.clone(), body(value, parts)?)));
            Value::Object(filled.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// The names of all places in a body.
pub(crate) fn body_places(template: &Value) -> Result<Vec<String>, String> {
    Ok(match template {
        Value::String(text) => Template::new(text)?.places().into_iter().map(str::to_owned).collect(),
        Value::Array(elements) => elements.iter().map(body_places).collect::<Result<Vec<_>, _>>()?.concat(),
        Value::Object(members) => members.values().map(body_places).collect::<Result<Vec<_>, _>>()?.concat(),
        _ => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn parts(pairs: &[(&str, &str)]) -> Parts {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn parts_are_escaped() {
        let address = Address::parse("https://api.example/v1/{name}/x?q={name}").unwrap();
        let url = address.url(&parts(&[("name", "@acme/a?b#c&d=e f")]), None).unwrap();
        assert_eq!(
            url.as_str(),
            "https://api.example/v1/%40acme%2Fa%3Fb%23c%26d%3De%20f/x?q=%40acme%2Fa%3Fb%23c%26d%3De%20f"
        );
        assert!(address.url(&parts(&[("name", "..")]), None).is_err());
        assert!(address.url(&parts(&[("name", ".")]), None).is_err());
    }

    #[test]
    fn a_host_is_named_or_the_subjects() {
        let own = Address::parse("https://{host}/.well-known/security.txt").unwrap();
        assert_eq!(
            own.url(&parts(&[("host", "shop.example:8443")]), None).unwrap().as_str(),
            "https://shop.example:8443/.well-known/security.txt"
        );
        for bad in [
            "http://a.example/",
            "https://{name}.example/",
            "https://a.example",
            "https://{host}.evil.example/",
            "https://user:pass@a.example/",
            "https://a.example/x#y",
            "https://a.example/?api_key=abc",
            "https://a.example/?x=1&TOKEN={name}",
            "https://a.example/?access_key={name}",
            "https://a.example/?api-token={name}",
            "https://a.example/?X-Api-Key={name}",
            "https://a.example/?sig={name}",
            "https://a.example/?q=ghp_0123456789abcdef",
            "https://a.example/0123456789abcdef0123456789abcdef/{name}",
            "https://a.example/{na me}",
            "https://a.example/{name",
            "https://a.example/name}",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bodies_are_filled_in_their_texts() {
        let template = json!({"package": {"purl": "{purl}"}, "n": 1});
        assert_eq!(body_places(&template).unwrap(), ["purl"]);
        let filled = body(&template, &parts(&[("purl", "pkg:npm/a\"}@1")])).unwrap();
        assert_eq!(filled, json!({"package": {"purl": "pkg:npm/a\"}@1"}, "n": 1}));
    }

    proptest! {
        #[test]
        fn no_part_leaves_its_place(part in "\\PC{0,40}") {
            let address = Address::parse("https://api.example/v1/{name}/end?q={name}").unwrap();
            if let Ok(url) = address.url(&parts(&[("name", &part)]), None) {
                prop_assert_eq!(url.host_str(), Some("api.example"));
                let segments: Vec<&str> = url.path_segments().unwrap().collect();
                prop_assert_eq!(segments.len(), 3);
                prop_assert_eq!(segments[2], "end");
                prop_assert_eq!(url.query_pairs().count(), 1);
                prop_assert_eq!(url.query_pairs().next().unwrap().1.into_owned(), part);
            }
        }
    }
}
