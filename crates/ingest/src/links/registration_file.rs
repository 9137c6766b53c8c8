//! The file that a registration names: it must name the registration back, and hold the line.

use credence_egress::Redirects;
use credence_protocol::{LinkProof, LinkStatement};
use data_encoding::BASE64;
use serde_json::Value;

use super::{CheckFailure, fetch, record};
use crate::{Crawler, source::digest};

const MAX_BYTES: usize = 256 * 1024;

/// Checks the file at `uri`, an https address or a `data:` URI, of the registration `id` in `registry`.
pub(super) async fn check(
    crawler: &Crawler,
    statement: &LinkStatement,
    uri: &str,
    registry: &str,
    id: &str,
) -> Result<LinkProof, CheckFailure> {
    let (bytes, shown) = match uri.strip_prefix("data:application/json;base64,") {
        Some(data) => {
            let bytes = BASE64.decode(data.as_bytes()).ok().filter(|bytes| bytes.len() <= MAX_BYTES);
            (bytes.ok_or_else(|| CheckFailure::not("the registration's data: URI is not base64"))?, "data:".to_owned())
        }
        None if uri.starts_with("https://") => {
            (fetch(crawler, uri, Redirects::SameOrigin(3)).await?, "its file".into())
        }
        None => {
            return Err(CheckFailure::not("the registration's file is neither at an https address nor a data: URI"));
        }
    };
    let file: Value =
        serde_json::from_slice(&bytes).map_err(|_| CheckFailure::not("the registration file is not JSON"))?;
    let names_it = |one: &Value| {
        let agent = one.get("agentId").map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
        let at = one.get("agentRegistry").and_then(Value::as_str);
        agent.as_deref() == Some(id) && at.is_some_and(|at| at.eq_ignore_ascii_case(registry))
    };
    let named = file.get("registrations").and_then(Value::as_array).is_some_and(|list| list.iter().any(names_it));
    if !named {
        return Err(CheckFailure::not("the registration file does not name this registration back"));
    }
    record::found(&[&file], "the registration file", statement)?;
    Ok(LinkProof { method: "record".into(), url: Some(shown), digest: Some(digest(&bytes)), signature: None })
}
