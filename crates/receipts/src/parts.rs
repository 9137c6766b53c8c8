//! The parts of arguments and results: by their digests a claim that differs can be told where it differs.

use std::borrow::Cow;

use credence_protocol::{
    SecretKey,
    receipt::{Exact, Salt, arguments_form, cut_name},
};

/// Parts of a value of which digests are kept.
const MAX_PARTS: usize = 256;
/// Members that hold bytes in base64: their length says as much as they do.
pub const BINARY_MEMBERS: [&str; 2] = ["data", "blob"];

/// The part of a tool's result (an MCP `CallToolResult`) that is judged, and whose parts are compared: the structured content
/// where there is some; else the text, as JSON where it is JSON; else the list of content items, in which an image or a sound
/// stands for itself by its kind and its length.
pub fn judged_part<'a>(result: &'a Exact<'a>) -> Cow<'a, Exact<'a>> {
    if let Some(structured) = result.get("structuredContent").filter(|structured| !structured.is_null()) {
        return Cow::Borrowed(structured);
    }
    match result.get("content") {
        Some(Exact::List(items)) => match items.as_slice() {
            [only] if is_text(only) => match only.get("text") {
                Some(Exact::Text(text)) => match Exact::parse(text) {
                    Ok(json @ (Exact::Object(_) | Exact::List(_))) => Cow::Owned(json),
                    _ => Cow::Owned(Exact::Text(Cow::Borrowed(text.as_ref()))),
                },
                _ => Cow::Borrowed(only),
            },
            items => Cow::Owned(Exact::List(items.iter().map(summarised).collect())),
        },
        _ => Cow::Borrowed(result),
    }
}

fn is_text(item: &Exact<'_>) -> bool {
    item.get("type").and_then(Exact::as_text) == Some("text")
}

fn summarised<'a>(item: &'a Exact<'a>) -> Exact<'a> {
    let Exact::Object(members) = item else { return item.clone() };
    let members = members.iter().filter(|(name, _)| *name != "_meta").map(|(name, value)| {
        let value = match value {
            Exact::Text(bytes) if BINARY_MEMBERS.contains(&name.as_ref()) => {
                Exact::Number(bytes.len().to_string().into())
            }
            Exact::Object(_) => summarised(value),
            other => other.clone(),
        };
        (name.clone(), value)
    });
    Exact::Object(members.collect())
}

/// The parts of a value, with their forms: its leaves, or the lines of a text.
pub fn leaves(value: &Exact<'_>) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    if let Exact::Text(text) = value {
        let lines = text.lines().take(MAX_PARTS).enumerate();
        return lines.map(|(n, line)| (format!("line {}", n + 1), line.trim_end().to_owned())).collect();
    }
    value.leaves(&mut |path, form| {
        if parts.len() < MAX_PARTS {
            parts.push((cut_name(path), form.to_owned()));
        }
    });
    parts
}

/// The digests of a value's parts.
pub fn digests(value: &Exact<'_>, salt: &Salt) -> Vec<(String, String)> {
    leaves(value).into_iter().map(|(path, form)| (path.clone(), digest(salt, &path, &form))).collect()
}

/// Characters of a part's digest: 24 bits, enough to say where a claim differs. Whether it does, a receipt's commitments say.
pub const DIGEST_CHARS: usize = 4;

/// The digest of one part.
pub fn digest(salt: &Salt, path: &str, form: &str) -> String {
    let mut text = salt.commit(path, form).to_string();
    text.truncate(DIGEST_CHARS);
    text
}

/// Finds a receipt by its arguments. Keyed, so that it says nothing to others.
pub fn fingerprint(key: &SecretKey, arguments: Option<&Exact<'_>>) -> [u8; 16] {
    fingerprint_of_form(key, &arguments_form(arguments))
}

/// The same by the [form](arguments_form) of the arguments.
pub fn fingerprint_of_form(key: &SecretKey, form: &str) -> [u8; 16] {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    hash.update(b"credence/guard/fingerprint");
    hash.update(*key.seed());
    hash.update(form.as_bytes());
    let mut print = [0; 16];
    print.copy_from_slice(&hash.finalize()[..16]);
    print
}
