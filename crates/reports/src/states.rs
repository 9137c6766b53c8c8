//! Where a report stands, as types. Each is made by consuming the one before, and a decision needs a [`Reviewer`]:
//!
//! | from | by | to |
//! |---|---|---|
//! | [`Draft`] | `approve` | [`Reviewed`] |
//! | [`Draft`], [`Reviewed`] | `reject` | [`Rejected`] |
//! | [`Reviewed`] | `publish` | [`Published`] |
//!
//! Nothing else makes one of them: their members are private, and what is read back from the database is held against the ledger
//! first. A draft cannot be published:
//!
//! ```compile_fail,E0599
//! fn release(draft: credence_reports::Draft, by: &credence_reports::Reviewer, authority: &credence_pipeline::Authority) {
//!     draft.publish(by, authority, String::new());
//! }
//! ```
//!
//! and nobody outside this crate can make a [`Reviewed`] or read the contents of a draft without saying to whom they are shown:
//!
//! ```compile_fail,E0616
//! fn approve_by_itself(draft: credence_reports::Draft) -> credence_reports::Reviewed {
//!     let sheet = draft.sheet;
//!     credence_reports::Reviewed { sheet, ..todo!() }
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn leak(draft: &credence_reports::Draft) -> &credence_reports::Contents {
//!     draft.contents()
//! }
//! ```

use credence_output::{document::Document, report::Claim};
use credence_pipeline::{
    Authority, query,
    reports::{ReportAction, ReportRecord, ReportRow, ReportState, TokenHolder},
};
use credence_protocol::{Canonical, EntityId, SecretKey, Timestamp, Uuid};
use serde_json::Value;

use crate::{
    Contents, Error, Result,
    contents::FORMAT,
    layout,
    page::Block,
    store::{Stored, StoredState},
};

/// The bearer of a token, as far as reports go. Made by the code that checked that the token is in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Actor {
    holder: TokenHolder,
    reviews: bool,
}

impl Actor {
    /// The holder of a token in force; `reviews` says whether the token has scope `review`.
    pub fn new(name: EntityId, token: &str, reviews: bool) -> Self {
        Self { holder: TokenHolder { name, token: token.to_owned() }, reviews }
    }

    /// Whose token it is.
    pub fn holder(&self) -> &TokenHolder {
        &self.holder
    }

    /// Whether it may decide about drafts of others.
    pub fn is_reviewer(&self) -> bool {
        self.reviews
    }

    /// As somebody who decides; refused without scope `review`.
    pub fn reviewer(&self) -> Result<Reviewer> {
        if !self.reviews {
            return Err(Error::NeedsReview(self.holder.name.clone()));
        }
        Ok(Reviewer(self.holder.clone()))
    }
}

/// The holder of a token with scope `review`.
#[derive(Debug, Clone, PartialEq)]
pub struct Reviewer(TokenHolder);

impl Reviewer {
    /// Whose token.
    pub fn holder(&self) -> &TokenHolder {
        &self.0
    }
}

/// The paper that goes from state to state: contents and what names them. It does not change.
#[derive(Debug, Clone, PartialEq)]
pub struct Sheet {
    contents: Contents,
    /// The contents as they were drafted: what the digest is of, whatever a later version of this program reads out of them.
    value: Value,
    digest: String,
}

impl Sheet {
    /// New contents.
    pub(crate) fn new(contents: Contents) -> Result<Self> {
        Ok(Self { value: contents.value()?, digest: contents.digest()?, contents })
    }

    /// Contents that were kept; none where they are not the canonical JSON of contents.
    fn restore(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let contents: Contents = serde_json::from_value(value.clone()).ok()?;
        let is_canonical = Canonical::of(&value).ok()?.as_str() == text;
        let digest = credence_output::report::digest(&value).ok()?;
        (is_canonical && contents.format == FORMAT).then_some(Self { contents, value, digest })
    }

    /// Which report.
    pub fn report(&self) -> Uuid {
        self.contents.report
    }

    /// About whom.
    pub fn agent(&self) -> &EntityId {
        &self.contents.agent.id
    }

    /// What the ledger calls its contents by.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Who drafted it.
    pub fn drafted_by(&self) -> &TokenHolder {
        &self.contents.drafted_by
    }

    /// When.
    pub fn drafted_at(&self) -> Timestamp {
        self.contents.drafted_at
    }

    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Canonical JSON, as it is kept.
    pub(crate) fn canonical(&self) -> Result<Canonical> {
        Ok(Canonical::of(&self.value)?)
    }

    /// Drafts are seen by their drafter and by reviewers.
    fn is_shown_to(&self, reader: Option<&Actor>) -> bool {
        reader.is_some_and(|reader| reader.reviews || reader.holder.is_same_party(self.drafted_by()))
    }

    /// Records a decision, by somebody else than the drafter.
    fn decide(&self, decision: Decision, by: &Reviewer, authority: &Authority) -> Result<ReportRow> {
        if by.0.is_same_party(self.drafted_by()) {
            return Err(Error::OwnDraft(by.0.name.clone()));
        }
        let Decision { action, document, replaced_by, reason } = decision;
        authority.decide_report(ReportRecord {
            report: self.report(),
            agent: self.agent().clone(),
            action,
            digest: self.digest.clone(),
            drafted_by: self.drafted_by().clone(),
            by: by.0.clone(),
            document,
            replaced_by,
            reason,
        })?;
        let row = query::report(&*authority.ledger().view()?, self.report())?;
        row.ok_or(Error::Unknown(self.report()))
    }
}

/// What is decided beside by whom.
struct Decision {
    action: ReportAction,
    document: Option<String>,
    replaced_by: Option<Uuid>,
    reason: Option<String>,
}

impl Decision {
    fn new(action: ReportAction) -> Self {
        Self { action, document: None, replaced_by: None, reason: None }
    }

    fn because(action: ReportAction, reason: String) -> Self {
        Self { reason: Some(reason), ..Self::new(action) }
    }
}

/// A draft: private.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    sheet: Sheet,
}

/// A draft that a person approved: private still.
#[derive(Debug, Clone, PartialEq)]
pub struct Reviewed {
    sheet: Sheet,
    row: ReportRow,
}

/// A draft that a person rejected: private for good.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejected {
    sheet: Sheet,
    row: ReportRow,
}

/// A report that a person published: public for good, also where it was withdrawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    sheet: Sheet,
    row: ReportRow,
    document: String,
}

impl Draft {
    pub(crate) fn new(contents: Contents) -> Result<Self> {
        Ok(Self { sheet: Sheet::new(contents)? })
    }

    /// What it is on.
    pub fn sheet(&self) -> &Sheet {
        &self.sheet
    }

    /// Records the approval of a reviewer.
    pub(crate) fn approve(self, by: &Reviewer, authority: &Authority) -> Result<Reviewed> {
        let row = self.sheet.decide(Decision::new(ReportAction::Approved), by, authority)?;
        Ok(Reviewed { sheet: self.sheet, row })
    }

    /// Records the rejection of a reviewer.
    pub(crate) fn reject(self, by: &Reviewer, reason: String, authority: &Authority) -> Result<Rejected> {
        let row = self.sheet.decide(Decision::because(ReportAction::Rejected, reason), by, authority)?;
        Ok(Rejected { sheet: self.sheet, row })
    }
}

impl Reviewed {
    /// What it is on.
    pub fn sheet(&self) -> &Sheet {
        &self.sheet
    }

    /// What was decided.
    pub fn row(&self) -> &ReportRow {
        &self.row
    }

    /// The id of the token that approved it last.
    pub fn approving_token(&self) -> Option<&str> {
        self.approver().map(|(holder, _)| holder.token.as_str())
    }

    /// Who approved it last.
    pub(crate) fn approver(&self) -> Option<(&TokenHolder, u64)> {
        self.row.newest(ReportAction::Approved).map(|event| (&event.by, event.seq))
    }

    /// Records a second approval: the first token was revoked.
    pub(crate) fn approve_again(self, by: &Reviewer, authority: &Authority) -> Result<Self> {
        let row = self.sheet.decide(Decision::new(ReportAction::Approved), by, authority)?;
        Ok(Self { sheet: self.sheet, row })
    }

    /// Records the rejection of a reviewer.
    pub(crate) fn reject(self, by: &Reviewer, reason: String, authority: &Authority) -> Result<Rejected> {
        let row = self.sheet.decide(Decision::because(ReportAction::Rejected, reason), by, authority)?;
        Ok(Rejected { sheet: self.sheet, row })
    }

    /// The document that publication makes public.
    pub(crate) fn sign(&self, key: &SecretKey) -> Result<Document> {
        let (approver, approval) = self.approver().ok_or(Error::Unknown(self.sheet.report()))?;
        let claim = Claim {
            report: self.sheet.report(),
            agent: self.sheet.agent(),
            contents: &self.sheet.value,
            drafted_by: &self.sheet.drafted_by().name,
            approved_by: &approver.name,
            approval,
            checkpoint: &self.sheet.contents.log.checkpoint,
        };
        Ok(credence_output::report::sign(&claim, key)?)
    }

    /// Records the publication of `document`, which [`sign`](Self::sign) made.
    pub(crate) fn publish(self, by: &Reviewer, authority: &Authority, document: String) -> Result<Published> {
        let hash = credence_output::document::hash(document.as_bytes())?;
        let decision = Decision { document: Some(hash), ..Decision::new(ReportAction::Published) };
        let row = self.sheet.decide(decision, by, authority)?;
        Ok(Published { sheet: self.sheet, row, document })
    }
}

impl Rejected {
    /// What it is on.
    pub fn sheet(&self) -> &Sheet {
        &self.sheet
    }

    /// What was decided.
    pub fn row(&self) -> &ReportRow {
        &self.row
    }
}

impl Published {
    /// What it is on.
    pub fn sheet(&self) -> &Sheet {
        &self.sheet
    }

    /// What was decided, corrections and withdrawal included.
    pub fn row(&self) -> &ReportRow {
        &self.row
    }

    /// What it says.
    pub fn contents(&self) -> &Contents {
        &self.sheet.contents
    }

    /// The signed document.
    pub fn document(&self) -> &str {
        &self.document
    }

    pub(crate) fn correct(
        self,
        by: &Reviewer,
        reason: String,
        replaced_by: Option<Uuid>,
        authority: &Authority,
    ) -> Result<Self> {
        let decision = Decision { replaced_by, ..Decision::because(ReportAction::Corrected, reason) };
        Ok(Self { row: self.sheet.decide(decision, by, authority)?, ..self })
    }

    pub(crate) fn withdraw(self, by: &Reviewer, reason: String, authority: &Authority) -> Result<Self> {
        let row = self.sheet.decide(Decision::because(ReportAction::Withdrawn, reason), by, authority)?;
        Ok(Self { row, ..self })
    }
}

/// A report, wherever it stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// Nobody decided.
    Draft(Draft),
    /// Approved.
    Reviewed(Reviewed),
    /// Rejected.
    Rejected(Rejected),
    /// Public.
    Published(Published),
}

impl Report {
    /// What is stored, as far as it agrees with the ledger. A state that the ledger does not know is not believed.
    pub(crate) fn restore(stored: Stored, row: Option<ReportRow>) -> Result<Self> {
        let report = stored.id;
        let changed = |why: &str| Error::Changed { report, why: why.to_owned() };
        let sheet = Sheet::restore(&stored.contents).ok_or_else(|| changed("the contents cannot be read"))?;
        let is_same = sheet.report() == stored.id
            && sheet.digest == stored.digest
            && sheet.agent().as_str() == stored.agent
            && *sheet.drafted_by() == stored.drafter;
        if !is_same {
            return Err(changed("the contents are not those that were drafted"));
        }
        let state = stored.state;
        let Some(row) = row else {
            return match state {
                StoredState::Draft => Ok(Self::Draft(Draft { sheet })),
                _ => Err(changed("the ledger has no decision about it")),
            };
        };
        if row.digest != sheet.digest || row.agent != *sheet.agent() || row.drafted_by != *sheet.drafted_by() {
            return Err(changed("the contents are not those that were approved"));
        }
        // The database may be one step behind the ledger, after a crash between the two; never ahead of it.
        let behind: &[StoredState] = match row.state {
            ReportState::Approved => &[StoredState::Draft],
            ReportState::Rejected => &[StoredState::Draft, StoredState::Approved],
            ReportState::Published => &[StoredState::Approved],
            ReportState::Withdrawn => &[StoredState::Published],
        };
        if state != StoredState::of(row.state) && !behind.contains(&state) {
            return Err(changed("the ledger says that it stands elsewhere"));
        }
        Ok(match row.state {
            ReportState::Approved => Self::Reviewed(Reviewed { sheet, row }),
            ReportState::Rejected => Self::Rejected(Rejected { sheet, row }),
            ReportState::Published | ReportState::Withdrawn => {
                let document = stored.document.ok_or_else(|| changed("the signed document is missing"))?;
                let hash = credence_output::document::hash(document.as_bytes()).ok();
                if hash.is_none() || hash != row.document {
                    return Err(changed("the signed document is not the one that was published"));
                }
                Self::Published(Published { sheet, row, document })
            }
        })
    }

    /// What it is on.
    pub fn sheet(&self) -> &Sheet {
        match self {
            Self::Draft(draft) => &draft.sheet,
            Self::Reviewed(reviewed) => &reviewed.sheet,
            Self::Rejected(rejected) => &rejected.sheet,
            Self::Published(published) => &published.sheet,
        }
    }

    /// Its title, as plain text.
    pub fn title(&self) -> String {
        format!("Report on {}", self.sheet().agent())
    }

    /// What was decided about it.
    pub fn row(&self) -> Option<&ReportRow> {
        match self {
            Self::Draft(_) => None,
            Self::Reviewed(reviewed) => Some(&reviewed.row),
            Self::Rejected(rejected) => Some(&rejected.row),
            Self::Published(published) => Some(&published.row),
        }
    }

    /// `draft`, `approved`, `rejected`, `published` or `withdrawn`.
    pub fn state(&self) -> &'static str {
        self.row().map_or("draft", |row| row.state.key())
    }

    /// Whether a reader may see it.
    pub fn is_shown_to(&self, reader: Option<&Actor>) -> bool {
        matches!(self, Self::Published(_)) || self.sheet().is_shown_to(reader)
    }

    /// What it says, for a reader who may see it.
    pub fn contents_for(&self, reader: Option<&Actor>) -> Option<&Contents> {
        self.is_shown_to(reader).then(|| self.sheet().contents())
    }

    /// The same as JSON.
    pub fn json_for(&self, reader: Option<&Actor>) -> Option<&Value> {
        self.is_shown_to(reader).then(|| &self.sheet().value)
    }

    /// As a page, for a reader who may see it.
    pub fn page_for(&self, reader: Option<&Actor>) -> Option<Vec<Block>> {
        self.contents_for(reader).map(|contents| layout::page(self, contents))
    }

    /// The error of something that cannot be done from here.
    pub(crate) fn cannot_be(&self, wanted: &'static str) -> Error {
        Error::State { report: self.sheet().report(), state: self.state(), wanted }
    }
}
