//! Files that a chain names: `https:`, `data:`, and `ipfs:` through the operator's gateway.
//!
//! Anyone can write any address into a registry. So a host is asked only where the caller knows a proven link with the agent, and
//! redirections stay on it. A gateway is the operator's choice and needs no link; that it returns the file of the CID is taken on trust.

use credence_egress::{Egress, EgressError, Redirects, Request, StatusCode};
use data_encoding::{BASE64, BASE64_NOPAD};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::reading::Note;

/// Bytes of a file.
const MAX_FILE_BYTES: usize = 256 * 1024;
/// Bytes of an address, `data:` apart.
const MAX_URI_BYTES: usize = 2048;
const MOVES: u8 = 3;

/// Tells whether a host (`shop.example`, with a port where it is not 443) has a proven link with the agent that is read.
pub type Hosts<'a> = &'a (dyn Fn(&str) -> bool + Send + Sync);

/// A file, and the host it was read from.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    /// The origin, where the file has one of its own.
    pub(super) origin: Option<Url>,
}

/// Reads the file at `uri`.
pub(crate) async fn fetch(egress: &Egress, gateway: Option<&Url>, uri: &str, hosts: Hosts<'_>) -> Result<File, Note> {
    if uri.is_empty() {
        return Err(Note::NoUri);
    }
    if let Some(data) = uri.strip_prefix("data:") {
        let bytes = decode_data(data).ok_or(Note::NotARegistration)?;
        return Ok(File { bytes, origin: None });
    }
    if uri.len() > MAX_URI_BYTES {
        return Err(Note::UriNotSupported);
    }
    if let Some(path) = uri.strip_prefix("ipfs://") {
        let url = gateway.and_then(|gateway| behind(gateway, path)).ok_or(Note::UriNotSupported)?;
        return Ok(File { bytes: get(egress, &url).await?.ok_or(Note::FileUnreachable)?, origin: None });
    }
    let url = Url::parse(uri).map_err(|_| Note::UriNotSupported)?;
    let host = host_of(&url).ok_or(Note::UriNotSupported)?;
    if !hosts(&host) {
        return Err(Note::UriHostNotProven);
    }
    let bytes = get(egress, &url).await?.ok_or(Note::FileUnreachable)?;
    Ok(File { bytes, origin: url.join("/").ok() })
}

/// Reads a document. `Ok(None)`: the host says that there is none (404, 410).
pub(super) async fn get(egress: &Egress, url: &Url) -> Result<Option<Vec<u8>>, Note> {
    let request = Request::get(url.as_str()).map_err(|_| Note::UriNotSupported)?;
    let request = request.max_bytes(MAX_FILE_BYTES).redirects(Redirects::SameOrigin(MOVES));
    match egress.send(request).await {
        Ok(answer) if answer.status == StatusCode::OK => Ok(Some(answer.body)),
        Ok(answer) if [StatusCode::NOT_FOUND, StatusCode::GONE].contains(&answer.status) => Ok(None),
        Err(EgressError::NotHttps(_) | EgressError::InvalidUrl(_)) => Err(Note::UriNotSupported),
        Ok(_) | Err(_) => Err(Note::FileUnreachable),
    }
}

/// The host of an address that may be asked: https or, on this machine alone, http. With its port where that is not the scheme's own.
pub(super) fn host_of(url: &Url) -> Option<String> {
    let local = match url.host()? {
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
        Host::Domain(name) => name == "localhost",
    };
    if url.scheme() != "https" && !(url.scheme() == "http" && local) {
        return None;
    }
    let host = url.host_str()?.to_ascii_lowercase();
    Some(url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
}

/// What follows `data:` (RFC 2397).
fn decode_data(data: &str) -> Option<Vec<u8>> {
    if data.len() > 2 * MAX_FILE_BYTES {
        return None;
    }
    let (kind, body) = data.split_once(',')?;
    let body: Vec<u8> = percent_decode_str(body).collect();
    let bytes = if kind.ends_with(";base64") {
        BASE64.decode(&body).or_else(|_| BASE64_NOPAD.decode(&body)).ok()?
    } else {
        body
    };
    (bytes.len() <= MAX_FILE_BYTES).then_some(bytes)
}

/// The address of `CID/path` behind a gateway.
fn behind(gateway: &Url, path: &str) -> Option<Url> {
    let path = path.strip_prefix("ipfs/").unwrap_or(path);
    let mut parts = path.split('/');
    let cid =
        parts.next().filter(|cid| (1..=128).contains(&cid.len()) && cid.bytes().all(|b| b.is_ascii_alphanumeric()))?;
    let rest: Vec<&str> = parts.collect();
    let legal = |part: &&str| {
        !part.is_empty()
            && *part != "."
            && *part != ".."
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-~".contains(&b))
    };
    if !rest.iter().all(legal) {
        return None;
    }
    let mut url = gateway.clone();
    url.path_segments_mut().ok()?.pop_if_empty().push("ipfs").push(cid).extend(rest);
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_decoded_within_its_bounds() {
        let decoded = |text: &str| decode_data(text).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(decoded("application/json;base64,eyJhIjoxfQ==").as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(decoded("application/json;base64,eyJhIjoxfQ").as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(decoded("application/json,%7B%22a%22:1%7D").as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(decoded(",x").as_deref(), Some("x"));
        for bad in ["application/json", "a;base64,***", &format!(",{}", "x".repeat(MAX_FILE_BYTES + 1))] {
            assert_eq!(decode_data(bad), None);
        }
    }

    #[test]
    fn a_cid_stays_below_its_gateway() {
        let gateway = Url::parse("https://gate.example/base/").unwrap();
        let url = |path| behind(&gateway, path).map(|url| url.to_string());
        assert_eq!(url("bafy1/agent.json").as_deref(), Some("https://gate.example/base/ipfs/bafy1/agent.json"));
        assert_eq!(url("ipfs/Qm1").as_deref(), Some("https://gate.example/base/ipfs/Qm1"));
        for bad in ["", "../admin", "Qm1/../../admin", "Qm1/a?x=1", "Qm1//a", "a.b", "Qm1/%2e%2e"] {
            assert_eq!(url(bad), None, "{bad}");
        }
    }

    #[test]
    fn hosts_are_those_of_https() {
        let host = |text: &str| host_of(&Url::parse(text).unwrap());
        assert_eq!(host("https://Shop.Example/a").as_deref(), Some("shop.example"));
        assert_eq!(host("https://shop.example:8443/a").as_deref(), Some("shop.example:8443"));
        assert_eq!(host("http://127.0.0.1:80/a").as_deref(), Some("127.0.0.1"));
        for other in ["http://shop.example/", "ftp://shop.example/", "mailto:a@shop.example"] {
            assert_eq!(host(other), None, "{other}");
        }
    }
}
