use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, ensure};
use clap::Subcommand;
use credence_ledger::{
    Checkpoint, Restored, SqliteLedger, View, merkle,
    proof::{self, ConsistencyProof, InclusionProof},
    tiles::Resource,
};
use credence_pipeline::{receipts::ReceiptStore, responses::ResponseProof, times::AcceptedClock};
use serde_json::json;

use super::Done;
use crate::{
    home::{Home, Reader, clock},
    output::Output,
};

/// A response has at most some hundred facts of 4 KiB.
const MAX_RESPONSE_BYTES: u64 = 1024 * 1024;

#[derive(Subcommand)]
pub enum Command {
    /// The newest signed checkpoint
    Checkpoint,
    /// Prove that an entry is in the log, or that a response left; the proof holds the entry
    Prove {
        /// The entry; or a signed response that left, whose hash is proved
        #[arg(value_name = "SEQ|FILE")]
        what: String,
        /// Write the proof here instead of printing it
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Prove that the log extends an earlier state of itself
    Consistency {
        /// An earlier signed checkpoint (a file), or an earlier size (signed anew; needs the log's private key)
        older: String,
        /// Write the proof here instead of printing it
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Write the whole log as static files at C2SP tlog-tiles paths
    Export { folder: PathBuf },
    /// Take a restored, older database for the truth although the checkpoint outside says otherwise
    AcceptRestore {
        /// The receipts that guards handed in (receipts.db), not the ledger
        #[arg(long)]
        receipts: bool,
    },
    /// Go on from the clock's time, where entries were recorded in the future because the clock was wrong
    AcceptClock,
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    if let Command::AcceptRestore { receipts } = command {
        return accept_restore(home, out, receipts);
    }
    if matches!(command, Command::AcceptClock) {
        return accept_clock(home, out);
    }
    let reader = home.reader()?;
    let view = reader.view()?;
    match command {
        Command::Checkpoint => {
            let newest = newest(&reader, &*view)?;
            let root = data_encoding::BASE64.encode(&newest.root.0);
            let shown = json!({ "origin": newest.origin, "size": newest.size, "root": root, "note": newest.note, "log_key": reader.ledger.verifier().as_str() });
            out.show(&shown, || newest.note.clone())?;
        }
        Command::Prove { what, out: file } => {
            let Ok(seq) = what.parse::<u64>() else {
                let proof = response_proof(&reader, &*view, &what)?;
                let size = proof.verify(reader.ledger.verifier())?.size;
                let sentence = format!("that the response in {what} left, by the log of {size}");
                deliver(out, file.as_deref(), &proof.to_text(), &sentence)?;
                return Ok(ExitCode::SUCCESS);
            };
            let checkpoint = newest(&reader, &*view)?;
            let hashes = proof::inclusion(checkpoint.size, seq, &*view)?;
            let entry = view.entry(seq)?.with_context(|| format!("there is no entry {seq}"))?;
            let text = InclusionProof { entry, seq, hashes, checkpoint: checkpoint.note }.to_text();
            deliver(out, file.as_deref(), &text, &format!("that entry {seq} is in the log of {}", checkpoint.size))?;
        }
        Command::Consistency { older, out: file } => {
            let newer = newest(&reader, &*view)?;
            let older = match older.parse::<u64>() {
                Ok(size) => {
                    ensure!(
                        (1..=newer.size).contains(&size),
                        "size {size} is not between 1 and the log's {}",
                        newer.size
                    );
                    home.log_key(&home.config()?)?.sign(size, merkle::root(size, &*view)?)?
                }
                Err(_) => fs::read_to_string(&older)
                    .with_context(|| format!("'{older}' is neither a size nor a readable checkpoint"))?,
            };
            let opened = Checkpoint::open(&older, reader.ledger.verifier())?;
            let hashes = proof::consistency(opened.size, newer.size, &*view)?;
            proof::check_consistency(&hashes, (newer.size, newer.root), (opened.size, opened.root))?;
            let text = ConsistencyProof { hashes, older, newer: newer.note }.to_text();
            deliver(
                out,
                file.as_deref(),
                &text,
                &format!("that the log of {} entries extends the one of {}", newer.size, opened.size),
            )?;
        }
        Command::Export { folder } => export(out, &*view, &folder)?,
        Command::AcceptRestore { .. } | Command::AcceptClock => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// The proof that the response in a file left.
fn response_proof(reader: &Reader, view: &dyn View, what: &str) -> anyhow::Result<ResponseProof> {
    let bytes = crate::input::file(Path::new(what), MAX_RESPONSE_BYTES)
        .with_context(|| format!("'{what}' is neither an entry's number nor a readable file"))?;
    let hash = credence_output::document::hash(&bytes).with_context(|| format!("{what} is not a signed response"))?;
    ResponseProof::make(view, reader.ledger.verifier(), &hash)?.with_context(|| {
        format!("the response in {what} is not recorded, or its hash is no longer kept (it is {hash})")
    })
}

fn newest(reader: &Reader, view: &dyn View) -> anyhow::Result<Checkpoint> {
    let note = view.checkpoint()?.context("the log is empty")?;
    Ok(Checkpoint::open(&note, reader.ledger.verifier())?)
}

fn deliver(out: &Output, file: Option<&Path>, proof: &str, what: &str) -> anyhow::Result<()> {
    match file {
        Some(path) => {
            fs::write(path, proof).with_context(|| format!("cannot write {}", path.display()))?;
            out.show(&json!({ "file": path }), || format!("Proof {what}, in {}", path.display()))
        }
        None => out.show(&json!({ "proof": proof }), || proof.to_owned()),
    }
}

fn export(out: &Output, view: &dyn View, folder: &Path) -> anyhow::Result<()> {
    let resources = Resource::all(view.size()?);
    let bar = out.progress(Some(resources.len() as u64), "export");
    // The checkpoint last: it promises the tiles.
    for resource in resources.iter().chain([&Resource::Checkpoint]) {
        let path = folder.join(resource.path());
        let bytes = resource.read(view)?.with_context(|| format!("{} is missing", resource.path()))?;
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, bytes))
            .with_context(|| format!("cannot write {}", path.display()))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    out.show(&json!({ "folder": folder, "files": resources.len() + 1 }), || {
        format!("Wrote {} files to {}", resources.len() + 1, folder.display())
    })
}

fn accept_clock(home: &Home, out: &Output) -> Done {
    let authority = home.authority()?;
    let accepted = authority.accept_clock()?;
    authority.score_now()?;
    authority.flush()?;
    let (seq, ahead) = match accepted {
        AcceptedClock::NothingToAccept => (None, None),
        AcceptedClock::Returned { seq, ahead, .. } => (Some(seq), Some(ahead)),
    };
    out.show(&json!({ "accepted": seq.is_some(), "seq": seq, "ahead": ahead }), || match accepted {
        AcceptedClock::NothingToAccept => {
            "Nothing to accept: no entry is ahead of the clock. Nothing was changed.".into()
        }
        AcceptedClock::Returned { seq, ahead, now } => {
            format!(
                "Entries were recorded until {ahead}. From entry {seq} on times are the clock's again: it is {now}."
            )
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn accept_restore(home: &Home, out: &Output, receipts: bool) -> Done {
    let config = home.config()?;
    let restored = if receipts {
        ReceiptStore::accept_restore(home.path(), &home.receipts_key(&config)?, clock())?
    } else {
        SqliteLedger::accept_restore(&home.options(), &home.log_key(&config)?)?
    };
    let (accepted, size, promised) = match restored {
        Restored::NothingToAccept { size } => (false, size, None),
        Restored::Shorter { size, promised } | Restored::Rewritten { size, promised } => (true, size, Some(promised)),
        Restored::Unknown { size } => (true, size, None),
    };
    out.show(&json!({ "accepted": accepted, "size": size, "promised": promised }), || {
        const PROVABLE: &str = "Whoever kept that checkpoint can prove it.";
        match restored {
            Restored::NothingToAccept { size } => {
                format!("Nothing to accept: the ledger of {size} entries extends its checkpoint. Nothing was changed.")
            }
            Restored::Shorter { size, promised } => {
                let lost = promised - size;
                format!("The log is taken to have {size} entries. {lost} that a signed checkpoint promised are gone. {PROVABLE}")
            }
            Restored::Rewritten { size, promised } => format!(
                "The log is taken to have {size} entries, though the first {promised} are not those that a signed \
                 checkpoint promised: history was rewritten. {PROVABLE}"
            ),
            Restored::Unknown { size } => {
                format!("The log is taken to have {size} entries. There was no usable checkpoint to compare with.")
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
