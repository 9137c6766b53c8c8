//! The desk: drafts come in, people decide, the ledger records it.
//!
//! A decision holds the database's write lock, reads where the report stands in the ledger, appends its entry, and then brings the
//! row up to it. Of two reviewers the second finds what the first decided. After a crash between entry and row the ledger is
//! ahead, and the next decision brings the row up to it.

use std::path::Path;

use credence_ledger::View;
use credence_pipeline::{Authority, derive, query, reports::TokenHolder};
use credence_protocol::{EntityId, SecretKey, Timestamp, Uuid};

use crate::{
    Contents, Error, Result, gather,
    states::{Actor, Draft, Published, Rejected, Report, Reviewed, Reviewer},
    store::{Deciding, Store, Stored},
};

/// Drafts of one name that nobody decided about.
const MAX_WAITING: u64 = 100;

/// Whether a token was not revoked.
pub type InForce<'a> = &'a dyn Fn(&TokenHolder) -> bool;

/// A report in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Which.
    pub report: Uuid,
    /// About whom.
    pub agent: EntityId,
    /// `draft`, `approved`, `rejected`, `published` or `withdrawn`.
    pub state: &'static str,
    /// The digest of its contents.
    pub digest: String,
    /// Who drafted it.
    pub drafted_by: TokenHolder,
    /// When it was drafted, or published where it is public.
    pub at: Timestamp,
    /// Whether it was corrected.
    pub corrected: bool,
}

/// The reports of an authority.
#[derive(Debug, Clone)]
pub struct Desk {
    store: Store,
}

impl Desk {
    /// The reports in the authority's folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { store: Store::in_folder(folder) }
    }

    /// Keeps contents as a draft.
    pub fn draft(&self, contents: Contents) -> Result<Draft> {
        let draft = Draft::new(contents)?;
        self.store.add(draft.sheet(), MAX_WAITING)?;
        Ok(draft)
    }

    /// A report, for a reader who may see it.
    pub fn find(&self, view: &dyn View, id: Uuid, reader: Option<&Actor>) -> Result<Report> {
        let stored = self.store.find(id)?;
        let row = query::report(view, id)?;
        let Some(stored) = stored else {
            return Err(match row {
                Some(row) if row.is_public() => {
                    Error::Changed { report: id, why: "the text of a published report is gone".to_owned() }
                }
                _ => Error::Unknown(id),
            });
        };
        let is_public = row.as_ref().is_some_and(|row| row.is_public());
        let may_see =
            reader.is_some_and(|reader| reader.is_reviewer() || reader.holder().is_same_party(&stored.drafter));
        // A caller who may not see it does not hear either that something is wrong with it.
        if !is_public && !may_see {
            return Err(Error::Unknown(id));
        }
        let report = Report::restore(stored, row)?;
        if report.is_shown_to(reader) { Ok(report) } else { Err(Error::Unknown(id)) }
    }

    /// What `reader` may see: what is public, from the ledger, and drafts, newest first. About one agent where one is named.
    pub fn list(
        &self,
        view: &dyn View,
        agent: Option<&EntityId>,
        reader: Option<&Actor>,
        limit: usize,
    ) -> Result<Vec<Listed>> {
        let mut listed = self.waiting(view, agent, reader, limit)?;
        listed.extend(self.public(view, agent, limit)?);
        listed.truncate(limit);
        Ok(listed)
    }

    /// What was published.
    pub fn public(&self, view: &dyn View, agent: Option<&EntityId>, limit: usize) -> Result<Vec<Listed>> {
        let rows = match agent {
            Some(agent) => query::reports_of(view, agent, limit)?,
            None => query::published_reports(view, limit)?,
        };
        use credence_pipeline::reports::ReportAction::{Corrected, Published};
        let public = rows.into_iter().filter_map(|(report, row)| {
            let at = row.newest(Published)?.at;
            Some(Listed {
                report,
                state: row.state.key(),
                corrected: row.newest(Corrected).is_some(),
                agent: row.agent,
                digest: row.digest,
                drafted_by: row.drafted_by,
                at,
            })
        });
        Ok(public.collect())
    }

    /// Drafts, and what was decided about them, as far as `reader` may see them and they are not public.
    pub fn waiting(
        &self,
        view: &dyn View,
        agent: Option<&EntityId>,
        reader: Option<&Actor>,
        limit: usize,
    ) -> Result<Vec<Listed>> {
        let Some(actor) = reader else { return Ok(Vec::new()) };
        let drafter = (!actor.is_reviewer()).then(|| actor.holder());
        let mut listed = Vec::new();
        for stored in self.store.private(drafter, agent, limit)? {
            let row = query::report(view, stored.id)?;
            // What was changed by hand is found when somebody opens it.
            let Ok(report) = Report::restore(stored, row) else { continue };
            let sheet = report.sheet();
            let is_public = matches!(report, Report::Published(_));
            if is_public || !report.is_shown_to(reader) {
                continue;
            }
            listed.push(Listed {
                report: sheet.report(),
                agent: sheet.agent().clone(),
                state: report.state(),
                digest: sheet.digest().to_owned(),
                drafted_by: sheet.drafted_by().clone(),
                at: sheet.drafted_at(),
                corrected: false,
            });
        }
        Ok(listed)
    }

    /// Approves a draft; `digest` is that of the contents which the reviewer read, where it is named. A report whose approving
    /// token was revoked can be approved again, by somebody else.
    pub fn approve(
        &self,
        authority: &Authority,
        id: Uuid,
        by: &Reviewer,
        digest: Option<&str>,
        in_force: InForce<'_>,
    ) -> Result<Reviewed> {
        self.deciding(authority, id, |report, _| {
            let read = report.sheet();
            if digest.is_some_and(|digest| digest != read.digest()) {
                return Err(Error::OtherDigest(id));
            }
            gather::verify(&*authority.ledger().view()?, read.contents())?;
            match report {
                Report::Draft(draft) => draft.approve(by, authority).map(Report::Reviewed),
                Report::Reviewed(reviewed) if reviewed.approver().is_some_and(|(holder, _)| !in_force(holder)) => {
                    reviewed.approve_again(by, authority).map(Report::Reviewed)
                }
                other => Err(other.cannot_be("approved")),
            }
        })
        .and_then(|report| match report {
            Report::Reviewed(reviewed) => Ok(reviewed),
            other => Err(other.cannot_be("approved")),
        })
    }

    /// Rejects a draft, also one that was approved and is not public yet. The reason is public.
    pub fn reject(&self, authority: &Authority, id: Uuid, by: &Reviewer, reason: String) -> Result<Rejected> {
        let decided = self.deciding(authority, id, |report, _| match report {
            Report::Draft(draft) => draft.reject(by, reason, authority).map(Report::Rejected),
            Report::Reviewed(reviewed) => reviewed.reject(by, reason, authority).map(Report::Rejected),
            other => Err(other.cannot_be("rejected")),
        })?;
        match decided {
            Report::Rejected(rejected) => Ok(rejected),
            other => Err(other.cannot_be("rejected")),
        }
    }

    /// Signs and publishes a report that was approved, by a token that still is in force.
    pub fn publish(
        &self,
        authority: &Authority,
        key: &SecretKey,
        id: Uuid,
        by: &Reviewer,
        in_force: InForce<'_>,
    ) -> Result<Published> {
        // The document is kept in a transaction of its own: after its entry is written it must not be lost.
        self.deciding(authority, id, |report, row| {
            let Report::Reviewed(reviewed) = &report else { return Err(report.cannot_be("published")) };
            let view = authority.ledger().view()?;
            if let Some((holder, _)) = reviewed.approver()
                && !in_force(holder)
            {
                return Err(Error::ApprovalRevoked(holder.name.clone()));
            }
            if by.holder().is_same_party(reviewed.sheet().drafted_by()) {
                return Err(Error::OwnDraft(by.holder().name.clone()));
            }
            if let Some(why) = derive::unusable(&*view, key)? {
                return Err(Error::Key(why));
            }
            gather::verify(&*view, reviewed.sheet().contents())?;
            row.keep_document(id, reviewed.sign(key)?.as_str())?;
            Ok(report)
        })?;
        let decided = self.deciding_stored(authority, id, |report, stored, _| {
            let Report::Reviewed(reviewed) = report else { return Err(report.cannot_be("published")) };
            let changed = || Error::Changed { report: id, why: "the signed document is missing".to_owned() };
            let document = stored.document.clone().ok_or_else(changed)?;
            // Whatever happened to the row since: this is what the key signed, of these contents and this approval.
            let checked = credence_output::report::verify(document.as_bytes(), &[key.public()])?;
            let approval = reviewed.approver().map(|(_, seq)| seq);
            if checked.digest != reviewed.sheet().digest() || Some(checked.approval) != approval {
                return Err(changed());
            }
            reviewed.publish(by, authority, document).map(Report::Published)
        })?;
        published(decided)
    }

    /// Says what was wrong with a published report; `replaced_by` is a published one that takes its place.
    pub fn correct(
        &self,
        authority: &Authority,
        id: Uuid,
        by: &Reviewer,
        reason: String,
        replaced_by: Option<Uuid>,
    ) -> Result<Published> {
        published(self.deciding(authority, id, |report, _| match report {
            Report::Published(published) => {
                published.correct(by, reason, replaced_by, authority).map(Report::Published)
            }
            other => Err(other.cannot_be("corrected")),
        })?)
    }

    /// Takes a published report back; it stays readable, and says so.
    pub fn withdraw(&self, authority: &Authority, id: Uuid, by: &Reviewer, reason: String) -> Result<Published> {
        published(self.deciding(authority, id, |report, _| match report {
            Report::Published(published) => published.withdraw(by, reason, authority).map(Report::Published),
            other => Err(other.cannot_be("withdrawn")),
        })?)
    }

    fn deciding(
        &self,
        authority: &Authority,
        id: Uuid,
        decide: impl FnOnce(Report, &Deciding<'_>) -> Result<Report>,
    ) -> Result<Report> {
        self.deciding_stored(authority, id, |report, _, row| decide(report, row))
    }

    fn deciding_stored(
        &self,
        authority: &Authority,
        id: Uuid,
        decide: impl FnOnce(Report, &Stored, &Deciding<'_>) -> Result<Report>,
    ) -> Result<Report> {
        self.store.deciding(id, |stored, row| {
            let mut from = stored.state;
            let known = query::report(&*authority.ledger().view()?, id)?;
            let report = Report::restore(stored.clone(), known)?;
            if let Some(known) = report.row() {
                from = row.follow(id, from, known)?;
            }
            let decided = decide(report, &stored, row)?;
            if let Some(after) = decided.row() {
                row.follow(id, from, after)?;
            }
            Ok(decided)
        })
    }
}

fn published(report: Report) -> Result<Published> {
    match report {
        Report::Published(published) => Ok(published),
        other => Err(other.cannot_be("published")),
    }
}
