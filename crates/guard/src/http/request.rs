//! Which requests go on to the server, and with which headers: no second reader may find another message in them.
//!
//! - Methods are GET, HEAD, POST, DELETE and OPTIONS; only POST has a body. Headers that name another method are dropped.
//! - A body is not encoded (`Content-Encoding`), and its text is UTF-8: the guard reads the bytes that the server reads.
//! - No message stands in the address, and the headers that repeat a message's method and name (`Mcp-Method`, `Mcp-Name`) agree with it.
//! - A POST to the server's own path is a message. Elsewhere (authorization) forms and JSON documents pass, unless the document is
//!   a message: then it is treated as one.

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL_NOPAD};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{HttpSettings, Refused};
use crate::strict::{self, Framing};

/// Headers by which some servers read another method into a request.
const METHOD_OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// Headers that repeat what stands in a message, for servers and gateways that route by headers.
const METHOD_HEADER: &str = "mcp-method";
const NAME_HEADER: &str = "mcp-name";

/// What a request carries.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Carries {
    /// Nothing.
    Nothing,
    /// A message of the protocol.
    Message,
    /// Something else, for another path of the server.
    Document,
}

impl HttpSettings {
    /// Refuses what another reader could read otherwise.
    pub(super) fn check_request(&self, parts: &Parts, body: &[u8]) -> Result<Carries, Refused> {
        let refused = |status, why: &str| Err((status, format!("not forwarded: {why}")));
        if ![Method::GET, Method::HEAD, Method::POST, Method::DELETE, Method::OPTIONS].contains(&parts.method) {
            return refused(StatusCode::METHOD_NOT_ALLOWED, "the methods are GET, HEAD, POST, DELETE and OPTIONS");
        }
        if parts.headers.get_all(header::CONTENT_ENCODING).iter().any(|value| value != "identity") {
            return refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body is encoded (Content-Encoding); send it plain",
            );
        }
        let address = parts.uri.path_and_query().map_or("", |address| address.as_str());
        if holds_message(address) {
            return refused(StatusCode::BAD_REQUEST, "a message stands in the address; send it as the body");
        }
        if parts.method != Method::POST {
            return match body {
                [] => Ok(Carries::Nothing),
                _ => refused(StatusCode::BAD_REQUEST, "only POST has a body"),
            };
        }
        let own_path = self.is_own_path(parts.uri.path());
        let kind = media_type(&parts.headers);
        match kind.as_deref() {
            Some("application/json") if own_path || is_message(body) => match headers_agree(&parts.headers, body) {
                true => Ok(Carries::Message),
                false => refused(StatusCode::BAD_REQUEST, "Mcp-Method or Mcp-Name is not what the message says"),
            },
            Some("application/json") => match strict::read(body, Framing::Document) {
                Ok(_) => Ok(Carries::Document),
                Err(refusal) => refused(StatusCode::BAD_REQUEST, &refusal.to_string()),
            },
            Some("application/x-www-form-urlencoded") if !own_path && !is_json_like(body) => Ok(Carries::Document),
            None if body.is_empty() && !own_path => Ok(Carries::Nothing),
            _ => refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a message is sent as application/json in UTF-8"),
        }
    }

    /// Whether a path is the server's own, however it is written.
    pub(super) fn is_own_path(&self, path: &str) -> bool {
        if path == "/" || path == self.upstream.path() {
            return true;
        }
        // As it will be sent: with `..` taken out.
        let mut sent = self.upstream.clone();
        sent.set_path(path);
        path_key(sent.path()) == path_key(self.upstream.path())
    }
}

/// One form for all spellings that a lenient server may take for one path.
fn path_key(path: &str) -> Vec<String> {
    let decoded = percent_decode_str(path).decode_utf8_lossy().to_lowercase();
    let parts = decoded.split(['/', '\\']).map(|part| part.split(';').next().unwrap_or_default());
    parts.filter(|part| !matches!(*part, "" | ".")).map(str::to_owned).collect()
}

/// The media type, in small letters; `None` where there is none, several, or a charset other than UTF-8.
fn media_type(headers: &HeaderMap) -> Option<String> {
    let mut all = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(only), None) = (all.next(), all.next()) else { return None };
    let text = only.to_str().ok()?.to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let kind = parts.next()?.to_owned();
    let mut charsets =
        parts.filter_map(|part| part.strip_prefix("charset")).map(|rest| rest.trim_start_matches([' ', '=', '"']));
    charsets.all(|charset| matches!(charset.trim_end_matches('"'), "utf-8" | "utf8")).then_some(kind)
}

/// Whether a lenient server could read JSON in a form.
fn is_json_like(body: &[u8]) -> bool {
    is_message(body) || matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Whether a JSON document has a member by which a lenient server could take it for a message.
fn is_message(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_lowercase();
    let first = text.trim_start().bytes().next();
    first == Some(b'[') || text.contains("jsonrpc") || text.contains("\"method\"") || text.contains("\\u")
}

/// Whether something in an address could be taken for a message: as it is, percent-decoded, or as base64.
fn holds_message(address: &str) -> bool {
    let told = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        ["jsonrpc", "\"method\"", "'method'", "\\u", "tools/call"].iter().any(|word| text.contains(word))
    };
    let decoded: Vec<u8> = percent_decode_str(address).collect();
    let in_base64 = |part: &[u8]| {
        let part: Vec<u8> = part.iter().filter(|byte| **byte != b'=').copied().collect();
        let plain = BASE64_NOPAD.decode(&part).ok().or_else(|| BASE64URL_NOPAD.decode(&part).ok());
        plain.is_some_and(|plain| told(&plain))
    };
    told(&decoded) || decoded.split(|byte| b"?&;= /".contains(byte)).any(in_base64)
}

/// Whether the headers that repeat parts of a message (protocol 2026-07-28) are those of this one: a server may go by either.
fn headers_agree(headers: &HeaderMap, body: &[u8]) -> bool {
    let all = |name: &str| headers.get_all(name).iter().map(HeaderValue::to_str).collect::<Result<Vec<_>, _>>().ok();
    let (Some(methods), Some(names)) = (all(METHOD_HEADER), all(NAME_HEADER)) else { return false };
    if methods.is_empty() && names.is_empty() {
        return true;
    }
    let Ok(message) = serde_json::from_slice::<Value>(body) else { return false };
    let method = message["method"].as_str();
    let params = &message["params"];
    let named = |name: &str| {
        let encoded = name.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
        let decoded = encoded.and_then(|text| BASE64.decode(text.as_bytes()).ok());
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let name = decoded.as_deref().unwrap_or(name);
        // A call goes by its tool's name alone.
        let keys: &[&str] = if method == Some("tools/call") { &["name"] } else { &["name", "uri", "taskId"] };
        keys.iter().any(|key| params[*key].as_str() == Some(name))
    };
    methods.iter().all(|said| Some(*said) == method) && names.into_iter().all(named)
}

/// Drops headers by which the server could read another message than the guard did.
pub(super) fn clean_headers(headers: &mut HeaderMap, carries: &Carries) {
    for name in METHOD_OVERRIDES {
        headers.remove(name);
    }
    headers.remove(header::CONTENT_ENCODING);
    headers.remove(HeaderName::from_static("content-transfer-encoding"));
    if *carries != Carries::Message {
        headers.remove(METHOD_HEADER);
        headers.remove(NAME_HEADER);
    }
    match carries {
        Carries::Message => drop(headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))),
        Carries::Nothing => drop(headers.remove(header::CONTENT_TYPE)),
        // Without parameters, in which a lenient server could find another type.
        Carries::Document => {
            if let Some(kind) = media_type(headers).and_then(|kind| HeaderValue::try_from(kind).ok()) {
                headers.insert(header::CONTENT_TYPE, kind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn check(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Result<Carries, StatusCode> {
        let upstream = "http://127.0.0.1:1/mcp?key=1".parse().unwrap();
        let settings = HttpSettings { upstream, allowed_origins: Vec::new() };
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        settings.check_request(&parts, body.as_bytes()).map_err(|(status, _)| status)
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=UTF-8");

    #[test]
    fn a_message_is_plain_json_in_utf_8() {
        assert_eq!(check("POST", "/mcp", &[JSON], "{}"), Ok(Carries::Message));
        assert_eq!(check("POST", "/", &[JSON], "{}"), Ok(Carries::Message));
        assert_eq!(check("GET", "/mcp", &[], ""), Ok(Carries::Nothing));
        let unsupported = Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        for encoding in ["gzip", "br", "deflate", "identity, gzip", "GZIP"] {
            assert_eq!(check("POST", "/mcp", &[JSON, ("content-encoding", encoding)], "{}"), unsupported, "{encoding}");
        }
        for kind in
            ["application/json; charset=utf-16", "text/plain", "multipart/form-data", "application/json;charset=utf-7"]
        {
            assert_eq!(check("POST", "/mcp", &[("content-type", kind)], "{}"), unsupported, "{kind}");
        }
        assert_eq!(check("POST", "/mcp", &[JSON, ("content-type", "text/plain")], "{}"), unsupported);
        assert_eq!(check("POST", "/mcp", &[], "{}"), unsupported);
        assert_eq!(check("GET", "/mcp", &[JSON], "{}"), Err(StatusCode::BAD_REQUEST));
        assert_eq!(check("PUT", "/mcp", &[JSON], "{}"), Err(StatusCode::METHOD_NOT_ALLOWED));
    }

    #[test]
    fn the_servers_own_path_is_known_in_every_spelling() {
        for path in ["/x/../mcp", "/x/%2e%2e/mcp", "/mcp/", "//mcp", "/%6dcp", "/MCP", "/./mcp", "/mcp;x=1", "/mcp?a=b"]
        {
            let form = ("content-type", "application/x-www-form-urlencoded");
            assert_eq!(check("POST", path, &[form], "a=b"), Err(StatusCode::UNSUPPORTED_MEDIA_TYPE), "{path}");
        }
        let form = ("content-type", "application/x-www-form-urlencoded");
        assert_eq!(check("POST", "/token", &[form], "a=b"), Ok(Carries::Document));
        for json in [r#"{"a":1}"#, " [1]", r#"m={"jsonrpc":"2.0"}"#] {
            assert_eq!(check("POST", "/token", &[form], json), Err(StatusCode::UNSUPPORTED_MEDIA_TYPE), "{json}");
        }
        assert_eq!(check("POST", "/register", &[JSON], r#"{"client_name":"c"}"#), Ok(Carries::Document));
        assert_eq!(check("POST", "/register", &[JSON], r#"{"a":1,"a":2}"#), Err(StatusCode::BAD_REQUEST));
        for message in [r#"{"jsonrpc":"2.0"}"#, r#"{"Method":"tools/call"}"#, r#"{"meth\u006fd":"x"}"#, "[]"] {
            assert_eq!(check("POST", "/other", &[JSON], message), Ok(Carries::Message), "{message}");
        }
    }

    #[test]
    fn no_message_stands_in_the_address() {
        for address in [
            "/mcp?m=%7B%22jsonrpc%22%3A1%7D",
            "/mcp?m={%22method%22:1}",
            "/call?tools%2Fcall",
            "/%7B%22method%22%3A%22x%22%7D",
            "/mcp?m=eyJtZXRob2QiOiJ0b29scy9jYWxsIn0=",
            "/mcp?m=%7B%22meth%5Cu006fd%22%3A1%7D",
        ] {
            assert_eq!(check("GET", address, &[], ""), Err(StatusCode::BAD_REQUEST), "{address}");
            assert_eq!(check("POST", address, &[JSON], "{}"), Err(StatusCode::BAD_REQUEST), "{address}");
        }
        for address in ["/mcp?key=abc", "/authorize?response_type=code&code_challenge_method=S256&state=eyJhIjoxfQ"] {
            assert_eq!(check("GET", address, &[], ""), Ok(Carries::Nothing), "{address}");
        }
    }

    #[test]
    fn headers_say_what_the_message_says() {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"é","uri":"u"}}"#;
        let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "=?base64?w6k=?="));
        assert_eq!(check("POST", "/mcp", &[JSON, method, name], call), Ok(Carries::Message));
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        for (headers, body) in [
            (&[JSON, method], ping),
            (&[JSON, ("mcp-method", "ping")], call),
            (&[JSON, ("mcp-name", "other")], call),
            (&[JSON, ("mcp-name", "u")], call),
            (&[JSON, method], "[]"),
        ] {
            assert_eq!(check("POST", "/mcp", headers, body), Err(StatusCode::BAD_REQUEST), "{headers:?} {body}");
        }
        assert_eq!(check("POST", "/mcp", &[JSON, method, ("mcp-method", "ping")], call), Err(StatusCode::BAD_REQUEST));
    }

    #[test]
    fn headers_that_change_the_meaning_are_dropped() {
        let mut headers = HeaderMap::new();
        for name in METHOD_OVERRIDES.into_iter().chain(["content-encoding", "content-type", "authorization"]) {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("x"));
        }
        clean_headers(&mut headers, &Carries::Message);
        let left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left.contains(&("content-type", "application/json")) && left.contains(&("authorization", "x")));
    }
}
