use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use credence_pipeline::{Authority, query};
use credence_protocol::{
    EntityId, KeyId, SecretKey,
    jwk::{Jwk, Jwks},
};
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::Home,
    keyfile,
    output::{self, Output},
};

#[derive(Subcommand)]
pub enum Command {
    /// Make a key for a source or an agent and register it
    Generate {
        source: EntityId,
        /// Where to write the private key [default: keys/SOURCE.jwk in the authority's folder]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Register a public key of a source or an agent that was made elsewhere
    Add {
        source: EntityId,
        /// did:key:…, base64url, or a file with a JWK
        #[arg(allow_hyphen_values = true)]
        public_key: String,
    },
    /// Hand a source over to a new key: endorsed by the former, which is revoked from then on
    Rotate {
        source: EntityId,
        /// The former private key [default: keys/SOURCE.jwk]
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// Where to write the new private key [default: in place of the former, which is kept as SOURCE.KEYID.jwk]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Revoke a key: what it signed from a given entry on stops counting
    Revoke {
        #[arg(allow_hyphen_values = true)]
        key: KeyId,
        /// The first entry that no longer counts [default: the next one]
        #[arg(long, value_name = "SEQ")]
        from: Option<u64>,
        /// Why (public: it goes into the log)
        #[arg(long)]
        reason: Option<String>,
    },
    /// List keys
    List {
        /// As a JWK set of those not revoked
        #[arg(long)]
        jwks: bool,
    },
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    match command {
        Command::Generate { source, out: file } => {
            let path = file.unwrap_or_else(|| home.key_file(source.as_str()));
            let authority = home.authority()?;
            let key = unregistered(&authority, &path)?;
            let registered = authority.add_key(&key.public(), source.clone());
            if registered.is_err() {
                // A key that is registered nowhere helps nobody.
                let _ = fs::remove_file(&path);
            }
            let seq = registered?;
            authority.flush()?;
            let (id, did) = (key.public().id(), key.public().did_key());
            let aud = authority.origin()?;
            let shown = json!({ "source": source, "key_id": id, "did": did, "file": path, "aud": aud, "seq": seq });
            out.show(&shown, || {
                let private = path.display();
                format!("Key {id} for {source} (entry {seq})\n  private  {private}\n  public   {did}\n  aud      {aud}")
            })?;
        }
        Command::Add { source, public_key } => {
            let keys = keyfile::public_keys(&public_key)?;
            let [key] = keys.as_slice() else { bail!("{public_key} holds {} keys, one is needed", keys.len()) };
            let authority = home.authority()?;
            let seq = authority.add_key(key, source.clone())?;
            authority.flush()?;
            let id = key.id();
            let aud = authority.origin()?;
            out.show(&json!({ "source": source, "key_id": id, "aud": aud, "seq": seq }), || {
                format!("Key {id} for {source} (entry {seq}). What it signs names this authority: \"aud\": \"{aud}\".")
            })?;
        }
        Command::Rotate { source, key, out: file } => rotate(home, out, &source, key, file)?,
        Command::Revoke { key, from, reason } => {
            let authority = home.authority()?;
            let seq = authority.revoke_key(key, from, reason)?;
            authority.score_now()?;
            authority.flush()?;
            out.show(&json!({ "key_id": key, "seq": seq }), || {
                let from = from.map_or("now on".to_owned(), |from| format!("entry {from} on"));
                format!("Key {key} is revoked from {from} (entry {seq}). Agents it spoke of were scored again.")
            })?;
        }
        Command::List { jwks } => list(home, out, jwks)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The new key for `path`: made and written, or the one that an interrupted attempt left there.
fn unregistered(authority: &Authority, path: &Path) -> anyhow::Result<SecretKey> {
    if !path.exists() {
        let key = SecretKey::generate()?;
        keyfile::write(path, &key)?;
        return Ok(key);
    }
    let key = keyfile::read(path)?;
    ensure!(
        !is_registered(authority, &key)?,
        "key file {} exists already, and its key is registered: name another with --out",
        path.display()
    );
    Ok(key)
}

fn is_registered(authority: &Authority, key: &SecretKey) -> anyhow::Result<bool> {
    Ok(query::key(&*authority.ledger().view()?, key.public().id())?.is_some())
}

fn rotate(
    home: &Home,
    out: &Output,
    source: &EntityId,
    key: Option<PathBuf>,
    file: Option<PathBuf>,
) -> anyhow::Result<()> {
    let former_path = key.unwrap_or_else(|| home.key_file(source.as_str()));
    let former = keyfile::read(&former_path)?;
    let (in_place, staged) = match file {
        Some(file) => (false, file),
        None => (true, former_path.with_extension("jwk.next")),
    };
    let authority = home.authority()?;
    // The new key is on disk before anything is said of it; in place, it takes its name only afterwards. A rotation that
    // was interrupted in between is recorded already: only the names are left to change.
    let interrupted = in_place && staged.exists() && is_registered(&authority, &keyfile::read(&staged)?)?;
    let (new, seq) = if interrupted {
        (keyfile::read(&staged)?, None)
    } else {
        let new = unregistered(&authority, &staged)?;
        let rotated = authority.rotate_key(source.clone(), &former, &new.public());
        if rotated.is_err() {
            let _ = fs::remove_file(&staged);
        }
        (new, Some(rotated?))
    };
    authority.flush()?;
    let path = if in_place {
        let kept = former_path.with_extension(format!("{}.jwk", &former.public().id().to_string()[..8]));
        fs::rename(&former_path, &kept)
            .and_then(|()| fs::rename(&staged, &former_path))
            .with_context(|| format!("the rotation is recorded; the new key is in {}", staged.display()))?;
        former_path
    } else {
        staged
    };
    let (old, id) = (former.public().id(), new.public().id());
    out.show(&json!({ "source": source, "key_id": id, "replaces": old, "file": path, "seq": seq }), || {
        let entry = seq.map_or("recorded before".to_owned(), |seq| format!("entry {seq}"));
        format!("Key {id} for {source} ({entry}), endorsed by {old}, which is revoked\n  private  {}", path.display())
    })
}

fn list(home: &Home, out: &Output, jwks: bool) -> anyhow::Result<()> {
    let reader = home.reader()?;
    let rows = query::keys(&*reader.view()?)?;
    if jwks {
        let keys = rows
            .iter()
            .filter(|(_, row)| row.revoked_from.is_none())
            .map(|(_, row)| Jwk::public(&row.public_key))
            .collect();
        return Output { json: true }.show(&Jwks { keys }, String::new);
    }
    let json: Vec<Value> = rows
        .iter()
        .map(|(id, row)| json!({ "key_id": id, "source": row.source, "did": row.public_key.did_key(), "replaces": row.replaces, "revoked_from": row.revoked_from, "seq": row.seq }))
        .collect();
    out.show(&json, || {
        let lines = rows.iter().map(|(id, row)| {
            let revoked = row.revoked_from.map_or(String::new(), |from| format!("from entry {from}"));
            vec![id.clone(), row.source.to_string(), row.seq.to_string(), revoked]
        });
        output::table(&["key", "source", "entry", "revoked"], &["entry"], lines)
    })
}
