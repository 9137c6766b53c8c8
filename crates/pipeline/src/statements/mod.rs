//! Statements: from bytes to an entry, or a [`Rejection`] with nothing written.
//!
//! Like admission of signals, two steps: form, schema and signature need nothing but keys; [`rules`] need what came before
//! and run in the writer, and again in every audit.

pub(crate) mod groups;
pub(crate) mod rules;

pub use rules::outcome_of;

use credence_engine::hcs25::output_verification::{DEFAULT_MIN_CHECKS, Report, Summary};
use credence_ledger::{Appended, Entry, Kind, Transaction, View, write};
use credence_protocol::{
    EntityId, Statement, StatementKind, Timestamp,
    limits::MAX_CLOCK_SKEW_SECONDS,
    records::{
        ChallengeRecord, ContractRecord, IdentityRecord, ResolutionRecord, ReviewRecord, SummaryRecord,
        VerificationRecord,
    },
};
use data_encoding::HEXLOWER;
use rayon::prelude::*;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::{
    Authority, Rejection, Result,
    admit::rules as admission,
    projection,
    record::Record,
    reputation::{
        self, Tone, Word,
        rows::{ChallengeRow, ChallengeState, ContractRow},
    },
    schema,
    summaries::{self, SummaryRow},
    tables::{self, KeyRow},
};

/// A statement with what it says.
#[derive(Debug, Clone)]
pub struct ParsedStatement {
    /// As signed.
    pub statement: Statement,
    /// What it says.
    pub body: StatementBody,
}

/// What a statement says, typed.
#[derive(Debug, Clone)]
pub enum StatementBody {
    /// Who an agent is.
    Identity(IdentityRecord),
    /// A claim.
    Contract(ContractRecord),
    /// What it came to.
    Verification(VerificationRecord),
    /// A dispute.
    Challenge(ChallengeRecord),
    /// What it came to.
    Resolution(ResolutionRecord),
    /// What one agent says of another.
    Review(ReviewRecord),
    /// An output-verification window.
    Summary(SummaryRecord, Box<Report>),
}

impl ParsedStatement {
    /// Parses a statement and its record. The schema is checked at the door and by audits, not here.
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, Rejection> {
        let statement = Statement::parse(bytes)?;
        Self::of(statement)
    }

    fn of(statement: Statement) -> std::result::Result<Self, Rejection> {
        let body = match statement.kind() {
            StatementKind::Identity => StatementBody::Identity(statement.typed()?),
            StatementKind::Contract => StatementBody::Contract(statement.typed()?),
            StatementKind::Verification => StatementBody::Verification(statement.typed()?),
            StatementKind::Challenge => StatementBody::Challenge(statement.typed()?),
            StatementKind::Resolution => StatementBody::Resolution(statement.typed()?),
            StatementKind::Review => StatementBody::Review(statement.typed()?),
            StatementKind::Summary => {
                let record: SummaryRecord = statement.typed()?;
                let report = Summary::from_value(&record.summary.0, DEFAULT_MIN_CHECKS)?;
                StatementBody::Summary(record, Box::new(report))
            }
        };
        Ok(Self { statement, body })
    }

    /// Whom the entry is about. `of` finds the agent of a contract or challenge.
    pub(crate) fn subject(&self, view: &(impl View + ?Sized)) -> Result<Option<EntityId>> {
        let of_contract = |id: &str| -> Result<Option<EntityId>> {
            let row: Option<ContractRow> = tables::get(view, tables::CONTRACTS, id)?;
            Ok(row.map(|row| row.agent))
        };
        Ok(match &self.body {
            StatementBody::Identity(record) => Some(record.agent_id.clone()),
            StatementBody::Contract(record) => Some(record.origin_agent.clone()),
            StatementBody::Verification(record) if record.related_object_type == "signal" => {
                of_contract(&record.related_object_id)?
            }
            StatementBody::Verification(_) => Some(self.statement.author().clone()),
            StatementBody::Challenge(record) => of_contract(&record.original_signal_id)?,
            StatementBody::Resolution(record) => {
                let row: Option<ChallengeRow> = tables::get(view, tables::CHALLENGES, &record.challenge_id)?;
                row.map(|row| row.target)
            }
            StatementBody::Review(record) => Some(record.subject_agent_id.clone()),
            StatementBody::Summary(record, _) => Some(record.agent.clone()),
        })
    }

    /// The record's own id, where it has one.
    pub(crate) fn id(&self) -> Option<&str> {
        match &self.body {
            StatementBody::Contract(record) => Some(&record.signal_id),
            StatementBody::Verification(record) => Some(&record.verification_id),
            StatementBody::Challenge(record) => Some(&record.challenge_id),
            StatementBody::Resolution(record) => Some(&record.resolution_id),
            StatementBody::Review(record) => Some(&record.review_id),
            StatementBody::Identity(_) | StatementBody::Summary(..) => None,
        }
    }

    /// The time its author gives.
    fn time(&self) -> Option<Timestamp> {
        match &self.body {
            StatementBody::Identity(_) => None,
            StatementBody::Contract(record) => record.timestamp,
            StatementBody::Verification(record) => Some(record.timestamp),
            StatementBody::Challenge(record) => Some(record.timestamp),
            StatementBody::Resolution(record) => Some(record.timestamp),
            StatementBody::Review(record) => Some(record.timestamp),
            StatementBody::Summary(record, _) => summaries::stated_time(&record.summary),
        }
    }

    /// The kind of its entry.
    pub fn entry_kind(&self) -> Kind {
        match self.statement.kind() {
            StatementKind::Identity => Kind::Identity,
            StatementKind::Contract => Kind::Contract,
            StatementKind::Verification => Kind::Verification,
            StatementKind::Challenge => Kind::Challenge,
            StatementKind::Resolution => Kind::Resolution,
            StatementKind::Review => Kind::Review,
            StatementKind::Summary => Kind::Summary,
        }
    }

    /// Where the record's id is kept.
    pub(crate) fn id_place(&self) -> Option<String> {
        let kind = self.statement.kind().key();
        match &self.body {
            // It has no id: the same words again are the same identity, not a new declaration.
            StatementBody::Identity(_) => {
                let digest = Sha256::digest(self.statement.canonical().as_bytes());
                Some(format!("{kind}/{}", HEXLOWER.encode(&digest)))
            }
            _ => self.id().map(|id| format!("{kind}/{id}")),
        }
    }
}

/// A statement in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Published {
    /// Its entry.
    pub seq: u64,
    /// It was there before, with the same bytes: nothing was appended.
    pub known: bool,
    /// What its author should know of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}

/// What became of a statement.
pub type Outcome = std::result::Result<Published, Rejection>;

impl Authority {
    /// Admits a statement; returns when it is durable.
    pub fn publish(&self, bytes: &[u8]) -> Result<std::result::Result<Published, Rejection>> {
        let now = self.now();
        let stated = match self.examine_statement(bytes, now)? {
            Ok(stated) => stated,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let published = write(self.ledger(), move |tx| record_statement(tx, &stated))?;
        self.wake_scorer();
        Ok(published)
    }

    /// Admits statements that are all at hand, in order and in one transaction: each has its own outcome, and each sees those before
    /// it. Returns when they are durable.
    pub fn publish_all(&self, statements: &[impl AsRef<[u8]> + Sync]) -> Result<Vec<Outcome>> {
        let now = self.now();
        let examine = |bytes| self.examine_statement(AsRef::as_ref(bytes), now);
        let examined: Vec<_> = statements.par_iter().map(examine).collect::<Result<_>>()?;
        let published = write(self.ledger(), move |tx| {
            let recorded = examined.iter().map(|stated| match stated {
                Ok(stated) => record_statement(tx, stated),
                Err(rejection) => Ok(Err(rejection.clone())),
            });
            recorded.collect::<Result<Vec<_>>>()
        })?;
        self.wake_scorer();
        Ok(published)
    }

    /// Form, schema, signature.
    fn examine_statement(
        &self,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<std::result::Result<ParsedStatement, Rejection>> {
        let checked = (|| {
            let statement = Statement::parse(bytes)?;
            schema::validate(statement.kind(), statement.record())?;
            ParsedStatement::of(statement)
        })();
        let stated = match checked {
            Ok(stated) => stated,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let (author, key_id) = (stated.statement.author(), stated.statement.key_id());
        let Some((owner, key)) = self.gate().key(self.ledger(), key_id)? else {
            return Ok(Err(Rejection::UnknownKey(key_id)));
        };
        if owner != *author {
            let claimed = author.clone();
            return Ok(Err(Rejection::KeyNotOfSource { key: key_id, owner, claimed }));
        }
        if let Some(at) = stated.time().filter(|at| *at > now.plus_seconds(MAX_CLOCK_SKEW_SECONDS)) {
            return Ok(Err(Rejection::FutureStatement { at, now }));
        }
        if let Err(rejection) = admission::audience(stated.statement.aud(), self.gate().origin()) {
            return Ok(Err(rejection));
        }
        Ok(stated.statement.verify(&key).map_err(Rejection::from).map(|()| stated))
    }
}

/// The second step, in the writer.
fn record_statement(
    tx: &mut dyn Transaction,
    stated: &ParsedStatement,
) -> Result<std::result::Result<Published, Rejection>> {
    if let Some(seq) = known(tx, stated)? {
        return Ok(Ok(Published { seq, known: true, remark: None }));
    }
    let key: Option<KeyRow> = tables::get(tx, tables::KEYS, &stated.statement.key_id().to_string())?;
    if let Some(from) = key.and_then(|key| key.revoked_from) {
        return Ok(Err(Rejection::RevokedKey { key: stated.statement.key_id(), from }));
    }
    let moment = rules::Moment::at_the_door(tx.stamp()?);
    if let Err(rejection) = rules::examine(tx, stated, moment)? {
        return Ok(Err(rejection));
    }
    let Some(subject) = stated.subject(tx)? else {
        return Ok(Err(Rejection::UnknownContract(stated.id().unwrap_or_default().to_owned())));
    };
    let at = append(tx, &subject, stated)?;
    let remark = remark(tx, stated)?;
    Ok(Ok(Published { seq: at.seq, known: false, remark }))
}

fn append(tx: &mut dyn Transaction, subject: &EntityId, stated: &ParsedStatement) -> Result<Appended> {
    let record = Record::Statement(Box::new(stated.clone()));
    let at = tx.append(&record.entry(subject)?)?;
    projection::apply(tx, at, subject, &record)?;
    Ok(at)
}

/// Where the same statement already is, byte for byte.
fn known(tx: &dyn Transaction, stated: &ParsedStatement) -> Result<Option<u64>> {
    let seq = match (&stated.body, stated.id_place()) {
        (_, Some(place)) => tables::get::<u64>(tx, tables::RECORDS, &place)?,
        (StatementBody::Summary(record, _), None) => {
            let place = summaries::place(&record.agent, &record.window, stated.statement.author());
            tables::get::<SummaryRow>(tx, tables::SUMMARIES, &place)?.map(|row| row.seq)
        }
        _ => None,
    };
    let Some(seq) = seq else { return Ok(None) };
    let bytes = tx.entry(seq)?.unwrap_or_default();
    let same = Entry::parse(seq, &bytes)?.body() == stated.statement.canonical().as_str();
    Ok(same.then_some(seq))
}

fn remark(tx: &dyn Transaction, stated: &ParsedStatement) -> Result<Option<String>> {
    Ok(match &stated.body {
        StatementBody::Challenge(record) => {
            let row: Option<ChallengeRow> = tables::get(tx, tables::CHALLENGES, &record.challenge_id)?;
            row.filter(|row| row.state == ChallengeState::Resubmitted).map(|_| {
                "the same claim was put before: it was not opened again, and counts as spam against its author"
                    .to_owned()
            })
        }
        StatementBody::Review(record) => {
            let (peer, about) = (&record.reviewer_agent_id, &record.subject_agent_id);
            let why = match reputation::word(tx, peer, about, Tone::of(record.rating), tx.stamp()?)? {
                Word::Weighs(_) => return Ok(None),
                Word::New => "its author has too little reputation of its own yet",
                Word::SameOwner => "both are run by the same owner",
                Word::OwnProvider => "it praises whoever verifies its author",
            };
            Some(format!("it is recorded and weighs nothing: {why}"))
        }
        StatementBody::Verification(record) => {
            let row: Option<ContractRow> = tables::get(tx, tables::CONTRACTS, &record.related_object_id)?;
            let promised = row.and_then(|row| row.verification_hash);
            let named = stated.statement.record()["verification_hash"].as_str().map(str::to_owned);
            promised
                .filter(|promised| named.as_ref() != Some(promised))
                .map(|promised| format!("it was verified by something else than the contract promised, {promised}"))
        }
        StatementBody::Summary(_, report) => match &**report {
            Report::TooFew { checks, needed } => {
                Some(format!("{checks} checks are too few to count: at least {needed} are needed"))
            }
            _ => None,
        },
        _ => None,
    })
}
