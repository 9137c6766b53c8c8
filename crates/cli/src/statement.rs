//! Statements: a record signed by its author, made here or elsewhere, and submitted.

use std::path::PathBuf;

use anyhow::{Context, bail};
use credence_pipeline::{Authority, Rejection, statements::Published};
use credence_protocol::{
    AUTHORITY_SOURCE, Audience, EntityId, SecretKey, Statement, StatementKind, Uuid, limits::MAX_STATEMENT_INPUT_BYTES,
    strict,
};
use serde_json::{Value, json};

use crate::{
    commands::{Done, answer, signal::SIGNING_KEY_VARIABLE},
    home::{AUTHORITY_KEY_VARIABLE, Home},
    input, keyfile,
    output::Output,
};

/// How a statement gets its signature.
#[derive(clap::Args)]
pub struct SignArgs {
    /// The author's private key [default: the environment's CREDENCE_SIGNING_KEY, else keys/AUTHOR.jwk]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The authority it is for: the origin of its log [default: that of the authority in --data, if there is one]
    #[arg(long, value_name = "ORIGIN")]
    aud: Option<Audience>,
    /// Print the signed statement instead of submitting it
    #[arg(long)]
    pub sign_only: bool,
}

impl SignArgs {
    /// The key that signs for `author`.
    pub fn key(&self, home: &Home, author: &EntityId) -> anyhow::Result<SecretKey> {
        signing_key(home, author, self.key.as_ref())
    }
}

/// A record to be signed, or a statement that was.
pub enum Draft {
    Record { author: EntityId, kind: StatementKind, record: Value },
    Signed { bytes: Vec<u8>, record: Value },
}

impl Draft {
    /// A record of `author`.
    pub fn new(author: EntityId, kind: StatementKind, record: Value) -> Self {
        Self::Record { author, kind, record }
    }

    /// From a file: a record, whose author is named by `author_field`, or a statement signed already.
    pub fn read(file: &str, kind: StatementKind, author_field: &str) -> anyhow::Result<Self> {
        let limit = MAX_STATEMENT_INPUT_BYTES as u64;
        let bytes = match file {
            "-" => input::stdin(limit)?,
            path => input::file(std::path::Path::new(path), limit)?,
        };
        let value = strict::value(&bytes).with_context(|| format!("{file} is not a {}", kind.key()))?;
        if value.get("signature").is_some() && value.get("record").is_some() {
            let found = &value["kind"];
            if *found != kind.key() {
                bail!("{file} is a signed statement of kind {found}, not {}", kind.key());
            }
            return Ok(Self::Signed { bytes, record: value["record"].clone() });
        }
        let named = value.get(author_field).and_then(Value::as_str);
        let author = named.with_context(|| format!("{file} has no {author_field}: whose {} is it?", kind.key()))?;
        Ok(Self::new(EntityId::new(author).with_context(|| author_field.to_owned())?, kind, value))
    }

    /// A member of the record that is text.
    pub fn text(&self, field: &str) -> String {
        let (Draft::Record { record, .. } | Draft::Signed { record, .. }) = self;
        record[field].as_str().unwrap_or_default().to_owned()
    }

    fn signed(self, home: &Home, args: &SignArgs) -> anyhow::Result<Vec<u8>> {
        match self {
            Draft::Signed { bytes, .. } => Ok(bytes),
            Draft::Record { author, kind, record } => {
                let key = args.key(home, &author)?;
                let statement = Statement::sign(
                    author,
                    audience(home, args.aud.as_ref())?,
                    kind,
                    strict::StrictValue(record),
                    &key,
                )?;
                Ok(statement.canonical().as_bytes().to_vec())
            }
        }
    }
}

/// The authority that something is signed for: the one named, else the one in the folder.
pub fn audience(home: &Home, named: Option<&Audience>) -> anyhow::Result<Option<Audience>> {
    named.cloned().map_or_else(|| home.origin(), |aud| Ok(Some(aud)))
}

/// Says so where what was signed names no authority: most refuse it.
pub fn note_without_audience(out: &Output, aud: Option<&Audience>) {
    if aud.is_none() {
        out.note("note: it names no authority: one that its author is bound to refuses it; name it with --aud");
    }
}

/// The key that signs for `author`.
pub fn signing_key(home: &Home, author: &EntityId, file: Option<&PathBuf>) -> anyhow::Result<SecretKey> {
    match file {
        Some(path) => keyfile::read(path),
        None if author.as_str() == AUTHORITY_SOURCE => {
            keyfile::from_environment_or(AUTHORITY_KEY_VARIABLE, &home.key_file(author.as_str()))
        }
        None => keyfile::from_environment_or(SIGNING_KEY_VARIABLE, &home.key_file(author.as_str()))
            .with_context(|| format!("no key to sign for '{author}': `credence keys generate {author}` makes one")),
    }
}

/// The record of the statement in entry `seq`.
pub fn record_at(view: &dyn credence_ledger::View, seq: u64) -> anyhow::Result<Value> {
    Ok(credence_pipeline::query::record(view, seq)?["record"].take())
}

/// An id for a record, in the order of time.
pub fn fresh_id(prefix: &str) -> String {
    format!("{prefix}-{}", Uuid::now_v7())
}

/// What to print of what was published.
pub struct PublishedNote {
    pub what: String,
    pub details: Value,
}

/// Signs, submits, settles and says what became of it.
pub fn publish(
    home: &Home,
    out: &Output,
    draft: Draft,
    args: &SignArgs,
    note: impl FnOnce(&Authority) -> anyhow::Result<PublishedNote>,
) -> Done {
    let bytes = draft.signed(home, args)?;
    if args.sign_only {
        note_without_audience(out, audience(home, args.aud.as_ref())?.as_ref());
        println!("{}", String::from_utf8_lossy(&bytes).trim_end());
        return Ok(answer(false));
    }
    let authority = home.authority()?;
    let published = match authority.publish(&bytes)? {
        Ok(published) => published,
        Err(rejection) => return Err(refused(&rejection)),
    };
    score_and_flush(&authority, out)?;
    let PublishedNote { what, mut details } = note(&authority)?;
    let Published { seq, known, remark } = &published;
    details["seq"] = json!(seq);
    details["known"] = json!(known);
    if let Some(remark) = remark {
        details["remark"] = json!(remark);
    }
    out.show(&details, || {
        let again = if *known { ", known already" } else { "" };
        let remark = remark.as_ref().map(|remark| format!("\n  note: {remark}")).unwrap_or_default();
        format!("{what} (entry {seq}{again}).{remark}")
    })?;
    Ok(answer(false))
}

/// A refusal as the error it is for whoever asked.
pub fn refused(rejection: &Rejection) -> anyhow::Error {
    anyhow::anyhow!("{rejection} [{}]", rejection.code())
}

/// Makes the authority's own signals and scores that follow, and warns where it cannot.
pub fn score_and_flush(authority: &Authority, out: &Output) -> anyhow::Result<()> {
    authority.score_now()?;
    authority.flush()?;
    if let Some(rejection) = authority.own_signals_refused() {
        out.note(&format!("warning: signals of the authority's own wait: {rejection}"));
    }
    Ok(())
}
