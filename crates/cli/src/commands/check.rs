use std::path::Path;

use anyhow::{Context, bail};
use credence_ledger::{
    LogVerifier,
    proof::{ConsistencyProof, InclusionProof},
};
use credence_protocol::{Signal, Statement};
use serde_json::{Value, json};

use super::{Done, answer};
use crate::{input, keyfile, output::Output};

/// The largest proof holds an entry of 64 KiB.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

#[derive(clap::Args)]
pub struct Args {
    /// A signed signal or statement, an inclusion proof or a consistency proof; - for standard input
    file: String,
    /// For a signal or statement its author's public key (did:key:…, base64url, a JWK or JWKS file); for a proof the log's key
    /// (name+hash+key, or a file with it)
    #[arg(long, allow_hyphen_values = true)]
    key: String,
}

/// Uses nothing but the file and the key.
pub fn run(out: &Output, args: Args) -> Done {
    let bytes = match args.file.as_str() {
        "-" => input::stdin(MAX_FILE_BYTES)?,
        path => input::file(Path::new(path), MAX_FILE_BYTES)?,
    };
    let text = String::from_utf8_lossy(&bytes);
    let (what, outcome) = if InclusionProof::recognises(&text) {
        ("inclusion proof", inclusion(&text, &log_key(&args.key)?))
    } else if ConsistencyProof::recognises(&text) {
        ("consistency proof", consistency(&text, &log_key(&args.key)?))
    } else if is_statement(&bytes) {
        ("statement", statement(&bytes, &args.key))
    } else if text.trim_start().starts_with('{') {
        ("signal", signal(&bytes, &args.key))
    } else {
        bail!("{} is neither a signed signal or statement nor a proof", args.file);
    };
    let bad = outcome.is_err();
    let shown = match &outcome {
        Ok((_, details)) => json!({ "kind": what, "valid": true, "details": details }),
        Err(error) => json!({ "kind": what, "valid": false, "error": format!("{error:#}") }),
    };
    out.show(&shown, || match &outcome {
        Ok((sentence, _)) => format!("valid {what}: {sentence}"),
        Err(error) => format!("NOT valid {what}: {error:#}"),
    })?;
    Ok(answer(bad))
}

type Checked = anyhow::Result<(String, Value)>;

fn log_key(text: &str) -> anyhow::Result<LogVerifier> {
    if let Ok(key) = LogVerifier::parse(text) {
        return Ok(key);
    }
    let line = input::file(Path::new(text), MAX_FILE_BYTES)
        .with_context(|| format!("'{text}' is neither a log key (name+hash+key) nor a readable file"))?;
    Ok(LogVerifier::parse(String::from_utf8_lossy(&line).trim())?)
}

fn inclusion(text: &str, log: &LogVerifier) -> Checked {
    let proof = InclusionProof::parse(text)?;
    let checkpoint = proof.verify(log)?;
    let entry: Value = serde_json::from_slice(&proof.entry).context("the entry is in the log but is not JSON")?;
    let sentence = format!(
        "entry {} is in log {} of {} entries\n{}",
        proof.seq,
        checkpoint.origin,
        checkpoint.size,
        serde_json::to_string_pretty(&entry)?
    );
    Ok((sentence, json!({ "seq": proof.seq, "origin": checkpoint.origin, "size": checkpoint.size, "entry": entry })))
}

fn consistency(text: &str, log: &LogVerifier) -> Checked {
    let (older, newer) = ConsistencyProof::parse(text)?.verify(log)?;
    let sentence = format!("log {} of {} entries extends itself at {}", newer.origin, newer.size, older.size);
    Ok((sentence, json!({ "origin": newer.origin, "older": older.size, "newer": newer.size })))
}

/// Whether it has the members that only a statement has.
fn is_statement(bytes: &[u8]) -> bool {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    value.is_some_and(|value| value.get("author").is_some() && value.get("record").is_some())
}

fn statement(bytes: &[u8], key: &str) -> Checked {
    let statement = Statement::parse(bytes)?;
    let keys = keyfile::public_keys(key)?;
    let named = statement.key_id();
    let key = keyfile::find(&keys, named)
        .with_context(|| format!("it is signed by key {named}, which is not the one given"))?;
    statement.verify(key)?;
    let (author, kind) = (statement.author(), statement.kind().key());
    let sentence = format!("{author} says, as {kind}:\n{}", serde_json::to_string_pretty(statement.record())?);
    Ok((sentence, json!({ "author": author, "kind": kind, "key_id": named })))
}

fn signal(bytes: &[u8], key: &str) -> Checked {
    let signal = Signal::parse(bytes)?;
    let keys = keyfile::public_keys(key)?;
    let named = signal.key_id();
    let key = keyfile::find(&keys, named)
        .with_context(|| format!("it is signed by key {named}, which is not the one given"))?;
    signal.verify(key)?;
    let draft = signal.draft();
    let tags: Vec<_> = draft.tags.iter().map(ToString::to_string).collect();
    let sentence = format!(
        "{} says {} of {} is {} ± {}, observed at {}",
        draft.source,
        tags.join(", "),
        draft.agent,
        draft.value,
        draft.stddev,
        draft.observed_at.at()
    );
    Ok((sentence, json!({ "id": draft.id, "source": draft.source, "agent": draft.agent, "key_id": named })))
}
