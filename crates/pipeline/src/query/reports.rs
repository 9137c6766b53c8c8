//! Reports that people decided about, and everything that was recorded about an agent.

use std::ops::ControlFlow;

use credence_ledger::{Entry, Scan, Table, View};
use credence_protocol::{EntityId, Uuid};

use crate::{Result, reports::ReportRow, tables};

/// What was decided about a report; nothing while it is a draft.
pub fn report(view: &(impl View + ?Sized), id: Uuid) -> Result<Option<ReportRow>> {
    tables::get(view, tables::REPORTS, &id.to_string())
}

/// Reports that were published, also those that were withdrawn since; newest first.
pub fn published_reports(view: &(impl View + ?Sized), limit: usize) -> Result<Vec<(Uuid, ReportRow)>> {
    listed(view, tables::PUBLISHED_REPORTS, "", limit)
}

/// The same about one agent.
pub fn reports_of(view: &(impl View + ?Sized), agent: &EntityId, limit: usize) -> Result<Vec<(Uuid, ReportRow)>> {
    listed(view, tables::AGENT_REPORTS, &format!("{agent}/"), limit)
}

fn listed(view: &(impl View + ?Sized), table: Table, prefix: &str, limit: usize) -> Result<Vec<(Uuid, ReportRow)>> {
    let mut ids: Vec<Uuid> = Vec::new();
    if limit > 0 {
        tables::scan(view, table, Scan { reverse: true, ..Scan::prefix(prefix) }, |_, id| {
            ids.push(id);
            Ok(if ids.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    let mut rows = Vec::new();
    for id in ids {
        rows.extend(report(view, id)?.map(|row| (id, row)));
    }
    Ok(rows)
}

/// Visits every entry whose subject is `agent`, in order. Reads the whole ledger: for work that a person waits for.
pub fn entries_about(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    visit: &mut dyn FnMut(u64, &Entry) -> Result<()>,
) -> Result<()> {
    // Entries are canonical JSON, in which the subject comes last: others need not be parsed.
    let end = format!("\"subject\":\"{agent}\"}}");
    let mut failed = None;
    view.entries(0, &mut |seq, bytes| {
        if !bytes.ends_with(end.as_bytes()) {
            return ControlFlow::Continue(());
        }
        let visited = Entry::parse(seq, bytes).map_err(Into::into).and_then(|entry| match entry.subject == *agent {
            true => visit(seq, &entry),
            false => Ok(()),
        });
        match visited {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}
