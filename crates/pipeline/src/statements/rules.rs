//! Who may say what, given what was said before. The same rules decide at the door and in an audit.

use std::ops::ControlFlow;

use credence_engine::hcs25::output_verification::{Report, Window};
use credence_ledger::{Scan, View};
use credence_protocol::{
    AUTHORITY_SOURCE, EntityId, PublicKey, Timestamp, is_deceptive,
    limits::MAX_CLOCK_SKEW_SECONDS,
    records::{
        ChallengeOutcome, ChallengeRecord, ContractRecord, IdentityRecord, Interaction, ResolutionRecord, ReviewRecord,
        SummaryRecord, VerificationRecord,
    },
};

use super::{ParsedStatement, StatementBody};
use crate::{
    Rejection, Result,
    admit::rules as admission,
    reputation,
    reputation::rows::{ChallengeRow, ChallengeState, ContractRow},
    summaries::{self, SummaryRow},
    tables::{self, AgentRow, SourceRow},
};

/// Challenges that one agent may have open at a time.
pub const MAX_OPEN_CHALLENGES: usize = 10;

type Examined = std::result::Result<(), Rejection>;

/// When a statement is looked at: at the door, or later by an audit, which knows the time only to some seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    now: Timestamp,
    slack_seconds: i64,
}

impl Moment {
    pub(crate) fn at_the_door(now: Timestamp) -> Self {
        Self { now, slack_seconds: 0 }
    }

    pub(crate) fn in_hindsight(recorded_at: Timestamp) -> Self {
        Self { now: recorded_at, slack_seconds: MAX_CLOCK_SKEW_SECONDS }
    }

    /// The latest time that a statement can give of itself.
    fn latest(self) -> Timestamp {
        self.now.plus_seconds(MAX_CLOCK_SKEW_SECONDS + self.slack_seconds)
    }

    /// The earliest that it can have been.
    fn earliest(self) -> Timestamp {
        self.now.plus_seconds(-self.slack_seconds)
    }
}

/// Propagates a rejection out of a function that can also fail.
macro_rules! allow {
    ($examined:expr) => {
        if let Err(rejection) = $examined {
            return Ok(Err(rejection));
        }
    };
}

/// Whether the statement may be recorded.
pub(crate) fn examine(view: &(impl View + ?Sized), stated: &ParsedStatement, moment: Moment) -> Result<Examined> {
    if let Some(at) = stated.time().filter(|at| *at > moment.latest()) {
        return Ok(Err(Rejection::FutureStatement { at, now: moment.now }));
    }
    if let Some(place) = stated.id_place()
        && let Some(seq) = tables::get::<u64>(view, tables::RECORDS, &place)?
    {
        let (kind, id) = (stated.statement.kind(), stated.id().unwrap_or_default().to_owned());
        return Ok(Err(Rejection::DuplicateRecord { kind, id, seq }));
    }
    let author = stated.statement.author();
    let aud = match tables::get::<AgentRow>(view, tables::AGENTS, author.as_str())? {
        Some(AgentRow { aud: Some(aud), .. }) => Some(aud),
        _ => tables::get::<SourceRow>(view, tables::SOURCES, author.as_str())?.and_then(|row| row.aud),
    };
    allow!(admission::bound(author, stated.statement.aud(), aud));
    match &stated.body {
        StatementBody::Identity(record) => identity(view, stated, record),
        StatementBody::Contract(record) => contract(view, author, record),
        StatementBody::Verification(record) => verification(view, author, record),
        StatementBody::Challenge(record) => challenge(view, author, record, moment),
        StatementBody::Resolution(record) => resolution(view, author, record),
        StatementBody::Review(record) => review(view, author, record),
        StatementBody::Summary(record, report) => summary(view, author, record, report, moment),
    }
}

fn speaks_for_itself(field: &'static str, named: &EntityId, author: &EntityId) -> Examined {
    if named == author {
        return Ok(());
    }
    Err(Rejection::NotAuthor { field, named: named.clone(), author: author.clone() })
}

fn registered(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Examined> {
    let row: Option<AgentRow> = tables::get(view, tables::AGENTS, agent.as_str())?;
    Ok(row.map(drop).ok_or_else(|| Rejection::UnknownAgent(agent.clone())))
}

fn identity(view: &(impl View + ?Sized), stated: &ParsedStatement, record: &IdentityRecord) -> Result<Examined> {
    allow!(speaks_for_itself("agent_id", &record.agent_id, stated.statement.author()));
    allow!(registered(view, &record.agent_id)?);
    let labels = [&record.model_type, &record.risk_profile, &record.transparency_level, &record.version_hash];
    if labels.into_iter().chain(&record.capability_tags).any(|label| label.chars().any(is_deceptive)) {
        let why = "a label has a character that changes the direction of text, or is not shown".to_owned();
        return Ok(Err(Rejection::Schema { kind: stated.statement.kind(), path: "/".to_owned(), why }));
    }
    let key_id = stated.statement.key_id();
    let named = PublicKey::parse(&record.signature_key).ok().map(|key| key.id());
    Ok(if named == Some(key_id) { Ok(()) } else { Err(Rejection::IdentityKey(key_id)) })
}

fn contract(view: &(impl View + ?Sized), author: &EntityId, record: &ContractRecord) -> Result<Examined> {
    allow!(speaks_for_itself("origin_agent", &record.origin_agent, author));
    allow!(registered(view, author)?);
    // Who it is precedes what it claims.
    Ok(match view.get(tables::IDENTITIES, author.as_str())? {
        Some(_) => Ok(()),
        None => Err(Rejection::NoIdentity(author.clone())),
    })
}

fn contract_row(view: &(impl View + ?Sized), id: &str) -> Result<std::result::Result<ContractRow, Rejection>> {
    let row: Option<ContractRow> = tables::get(view, tables::CONTRACTS, id)?;
    Ok(row.filter(|row| !row.void).ok_or_else(|| Rejection::UnknownContract(id.to_owned())))
}

fn verification(view: &(impl View + ?Sized), author: &EntityId, record: &VerificationRecord) -> Result<Examined> {
    let source: Option<SourceRow> = tables::get(view, tables::SOURCES, author.as_str())?;
    let not = |why| Ok(Err(Rejection::NotVerifier { author: author.clone(), why }));
    let Some(source) = source.filter(|source| summaries::is_provider(author.as_str(), source)) else {
        return not("an operator admits verifiers by where they publish their method (`credence source provider`)");
    };
    if record.related_object_type != "signal" {
        return Ok(Ok(()));
    }
    let contract = match contract_row(view, &record.related_object_id)? {
        Ok(contract) => contract,
        Err(rejection) => return Ok(Err(rejection)),
    };
    let verifier = summaries::source_party(author.as_str(), &source);
    if verifier.is(&reputation::party(view, &contract.agent)?) {
        return not("nobody verifies itself, or an agent of the same owner");
    }
    let settled = contract.verification.or(contract.refuted_by.map(|challenge| format!("challenge {challenge}")));
    if let (Some(verification), true) = (settled, record.outcome.is_some()) {
        let contract = record.related_object_id.clone();
        return Ok(Err(Rejection::AlreadyVerified { contract, verification }));
    }
    Ok(Ok(()))
}

fn challenge(
    view: &(impl View + ?Sized),
    author: &EntityId,
    record: &ChallengeRecord,
    moment: Moment,
) -> Result<Examined> {
    allow!(speaks_for_itself("challenger_agent_id", &record.challenger_agent_id, author));
    allow!(registered(view, author)?);
    let contract = match contract_row(view, &record.original_signal_id)? {
        Ok(contract) => contract,
        Err(rejection) => return Ok(Err(rejection)),
    };
    if contract.agent == *author {
        return Ok(Err(Rejection::OwnContract(author.clone())));
    }
    let id = || record.original_signal_id.clone();
    if moment.earliest() > contract.closes {
        return Ok(Err(Rejection::WindowClosed { contract: id(), closed: contract.closes }));
    }
    let contrary = match (&contract.refuted_by, &contract.verification, contract.outcome) {
        (Some(challenge), ..) => Some(format!("challenge {challenge}")),
        (None, Some(verification), Some((outcome, _))) if outcome < 0.0 => Some(verification.clone()),
        _ => None,
    };
    if let Some(why) = contrary {
        return Ok(Err(Rejection::AlreadyRefuted { contract: id(), why }));
    }
    if tables::get::<u32>(view, tables::CLAIMS, &reputation::claim_place(record)?)?.is_some_and(|times| times > 1) {
        return Ok(Err(Rejection::Resubmitted(id())));
    }
    let mut open = 0;
    view.scan(tables::OPEN_CHALLENGES, Scan::prefix(&format!("{author}/")), &mut |_, _| {
        open += 1;
        if open == MAX_OPEN_CHALLENGES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(if open < MAX_OPEN_CHALLENGES {
        Ok(())
    } else {
        Err(Rejection::TooManyOpen { challenger: author.clone(), limit: MAX_OPEN_CHALLENGES })
    })
}

fn resolution(view: &(impl View + ?Sized), author: &EntityId, record: &ResolutionRecord) -> Result<Examined> {
    if author.as_str() != AUTHORITY_SOURCE {
        return Ok(Err(Rejection::NotAuthority(author.clone())));
    }
    let id = &record.challenge_id;
    let Some(row) = tables::get::<ChallengeRow>(view, tables::CHALLENGES, id)? else {
        return Ok(Err(Rejection::UnknownChallenge(id.clone())));
    };
    // A contract that its agent did not publish has nothing to be resolved.
    if let Err(unknown) = contract_row(view, &row.contract)? {
        return Ok(Err(unknown));
    }
    let outcome = match row.state {
        ChallengeState::Open => return supported(view, &row.contract, record),
        ChallengeState::Void => "it was signed by a key that was revoked".to_owned(),
        ChallengeState::Resubmitted => "never opened, because the same claim had been put before".to_owned(),
        ChallengeState::Settled(outcome) => format!("{outcome:?}").to_lowercase(),
    };
    Ok(Err(Rejection::AlreadyResolved { id: id.clone(), outcome }))
}

/// A resolution must not contradict the contract's final verification, and may name none but that.
fn supported(view: &(impl View + ?Sized), contract: &str, record: &ResolutionRecord) -> Result<Examined> {
    let not = |evidence: String| Ok(Err(Rejection::NotSupported { outcome: record.outcome, evidence }));
    let row: Option<ContractRow> = tables::get(view, tables::CONTRACTS, contract)?;
    if row.as_ref().is_none_or(|row| row.void) {
        return Ok(Err(Rejection::UnknownContract(contract.to_owned())));
    }
    let verified = row.and_then(|row| row.verification.zip(row.outcome.map(|(outcome, _)| outcome_of(outcome))));
    match (&record.evidence, verified) {
        (Some(named), Some((final_one, _))) if *named != final_one => {
            not(format!("'{named}', which is not the final verification of contract '{contract}'"))
        }
        (Some(named), None) => not(format!("'{named}': contract '{contract}' has no final verification")),
        (_, Some((final_one, says))) if says != record.outcome => not(format!("'{final_one}', which says {says:?}")),
        _ => Ok(Ok(())),
    }
}

/// What a verified outcome makes of a challenge.
pub fn outcome_of(outcome: f64) -> ChallengeOutcome {
    if outcome > 0.0 {
        ChallengeOutcome::Failed
    } else if outcome < 0.0 {
        ChallengeOutcome::Successful
    } else {
        ChallengeOutcome::Inconclusive
    }
}

fn review(view: &(impl View + ?Sized), author: &EntityId, record: &ReviewRecord) -> Result<Examined> {
    allow!(speaks_for_itself("reviewer_agent_id", &record.reviewer_agent_id, author));
    allow!(registered(view, author)?);
    let subject = &record.subject_agent_id;
    allow!(registered(view, subject)?);
    if subject == author {
        return Ok(Err(Rejection::OwnReview(author.clone())));
    }
    let none = |why: String| Ok(Err(Rejection::NoInteraction { subject: subject.clone(), why }));
    match &record.interaction {
        Interaction::Contract(id) => match contract_row(view, id)? {
            Ok(contract) if contract.agent == *subject => {
                match view.get(tables::DEALINGS, &format!("{id}/{author}"))? {
                    Some(_) => Ok(Ok(())),
                    None => none(format!("'{author}' has neither taken contract '{id}' up nor disputed it")),
                }
            }
            Ok(contract) => none(format!("contract '{id}' is of '{}'", contract.agent)),
            Err(_) => none(format!("no contract '{id}' is known")),
        },
        Interaction::Receipt(id) => none(format!("no receipt '{id}' is held here")),
    }
}

fn summary(
    view: &(impl View + ?Sized),
    author: &EntityId,
    record: &SummaryRecord,
    report: &Report,
    moment: Moment,
) -> Result<Examined> {
    let source: Option<SourceRow> = tables::get(view, tables::SOURCES, author.as_str())?;
    let Some(source) = source.filter(|source| summaries::is_provider(author.as_str(), source)) else {
        return Ok(Err(Rejection::NotProvider(author.clone())));
    };
    allow!(registered(view, &record.agent)?);
    let provider = summaries::source_party(author.as_str(), &source);
    if provider.is(&reputation::party(view, &record.agent)?) {
        return Ok(Err(Rejection::SelfReported { provider: author.clone(), agent: record.agent.clone() }));
    }
    let malformed = |why: String| Ok(Err(Rejection::Summary(credence_engine::hcs25::Error::Summary(why))));
    if *report == Report::None {
        return malformed("totalChecks is missing".into());
    }
    let Some(updated_at) = summaries::stated_time(&record.summary) else {
        return malformed("updatedAt is missing: it is the window's end".into());
    };
    let days = Window::parse(&record.window).map(|window| window.days() as f64);
    if record.summary.0.get("windowDays").and_then(serde_json::Value::as_f64) != days {
        return malformed(format!("windowDays is not that of the window, {}", record.window));
    }
    if let Report::Applicable(summary) = report {
        if let Err(error) = summary.not_from_the_future(moment.now) {
            return Ok(Err(error.into()));
        }
        if summary.is_stale(moment.earliest()) {
            return malformed(format!("its window ended at {updated_at} and is past: it says nothing of now"));
        }
    }
    let place = summaries::place(&record.agent, &record.window, author);
    match tables::get::<SummaryRow>(view, tables::SUMMARIES, &place)? {
        Some(row) if row.updated_at >= updated_at => Ok(Err(Rejection::OlderSummary {
            provider: author.clone(),
            window: record.window.clone(),
            newest: row.updated_at,
            given: updated_at,
        })),
        _ => Ok(Ok(())),
    }
}
