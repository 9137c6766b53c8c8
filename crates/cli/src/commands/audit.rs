use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use credence_ledger::{Checkpoint, Ledger, View};
use credence_pipeline::{
    audit::{self, Scope},
    query,
    receipts::{self, ReceiptStore},
    replay::{self, Findings},
};
use serde_json::json;

use super::{Done, answer};
use crate::{
    home::{Home, Reader, now},
    output::{self, Output},
};

/// How long entries may wait for the checkpoint over them.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
pub struct ReplayArgs {
    /// Replace the projections by what the entries give
    #[arg(long)]
    rebuild: bool,
}

#[derive(clap::Args)]
pub struct AuditArgs {
    /// Check signatures in batches: faster, by a rule slightly less strict than admission's
    #[arg(long)]
    quick: bool,
}

pub fn recompute(home: &Home, out: &Output) -> Done {
    let authority = home.authority()?;
    let bar = out.progress(None, "agents scored");
    let done = authority.recompute(&mut |agents| bar.set_position(agents as u64))?;
    authority.score_now()?;
    authority.flush()?;
    bar.finish_and_clear();
    out.show(&done, || {
        format!(
            "Scored {} from {}; {} changed and recorded.",
            output::count(done.agents, "agent"),
            output::count(done.signals, "signal"),
            output::count(done.events, "score")
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn replay(home: &Home, out: &Output, args: ReplayArgs) -> Done {
    if args.rebuild {
        let entries = home.rebuild()?;
        // Opening scores whoever is due.
        home.authority()?.flush()?;
        out.show(&json!({ "rebuilt_from": entries }), || format!("Rebuilt every projection from {entries} entries."))?;
        return Ok(ExitCode::SUCCESS);
    }
    let reader = home.auditor()?;
    let view = reader.view()?;
    let bar = out.progress(Some(view.size()?), "replay");
    let done = replay::replay(&*view, &reader.tags, &mut |entries| bar.set_position(entries))?;
    bar.finish_and_clear();
    out.show(&done, || {
        let summary = format!(
            "Replayed {} entries: {} score events and {} rows compared",
            done.entries, done.score_events, done.rows
        );
        verdict(summary, "all the same, byte for byte", &done.differences)
    })?;
    Ok(answer(done.differences.count > 0))
}

pub fn audit(home: &Home, out: &Output, args: AuditArgs) -> Done {
    let reader = home.auditor()?;
    // The receipts first: what they rest on is in the ledger before them.
    let (held, receipts_log) = home.held_receipts()?;
    let receipts_outside = ReceiptStore::options(home.path()).outside.read(&receipts_log);
    let receipts = held.as_ref().map(Ledger::view).transpose()?;
    let outside = home.options().outside.read(reader.ledger.verifier());
    let view = sealed(&reader)?;
    let bar = out.progress(Some(view.size()?), "audit");
    let (log, tags, quick) = (reader.ledger.verifier(), &reader.tags, args.quick);
    let scope = Scope { log, outside: &outside, tags, now: Some(now()), quick };
    let mut done = audit::audit(&*view, scope, &mut |entries| bar.set_position(entries))?;
    bar.finish_and_clear();
    match receipts {
        Some(receipts) => {
            done.add_receipts(receipts::audit(&*receipts, &receipts_log, &receipts_outside, &*view)?);
        }
        None => {
            let handed_in = query::guard_logs(&*view)? > 0;
            done.findings.extend(ReceiptStore::missing(home.path(), handed_in));
        }
    }
    out.show(&done, || {
        let outside = done.outside_size.map_or("no checkpoint outside the database".to_owned(), |size| {
            format!("extends the checkpoint kept outside at {size}")
        });
        let summary = format!(
            "Audited {} entries: {} signatures, {} score events, {} rows; {outside}{}",
            done.entries,
            done.signatures,
            done.score_events,
            done.rows,
            done.receipts.map_or(String::new(), |held| format!("; {} held", output::count(held as usize, "receipt")))
        );
        verdict(summary, "nothing is wrong", &done.findings)
    })?;
    Ok(answer(done.findings.count > 0))
}

/// The ledger at a moment when a checkpoint covers all of it. One that is sealed in batches while it grows, a demo's, has such
/// moments; where none comes, the audit says what is not covered.
fn sealed(reader: &Reader) -> anyhow::Result<Box<dyn View + '_>> {
    let until = Instant::now() + PATIENCE;
    loop {
        let view = reader.view()?;
        let note = view.checkpoint()?.and_then(|note| Checkpoint::open(&note, reader.ledger.verifier()).ok());
        let size = view.size()?;
        // Anything else than a tail that waits is the audit's business.
        if note.is_none_or(|checkpoint| checkpoint.size >= size) || Instant::now() >= until {
            return Ok(view);
        }
        drop(view);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn verdict(summary: String, all_well: &str, findings: &Findings) -> String {
    if findings.count == 0 {
        return format!("{summary}; {all_well}.");
    }
    let mut text = format!("{summary}; {} findings:", findings.count);
    for finding in &findings.listed {
        let place = finding.seq.map_or(String::new(), |seq| format!("entry {seq}: "));
        text += &format!("\n  {place}{}", finding.what);
    }
    if findings.count > findings.listed.len() {
        text += &format!("\n  and {} more", findings.count - findings.listed.len());
    }
    text
}
