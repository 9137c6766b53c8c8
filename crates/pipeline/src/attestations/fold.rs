//! What a step does to the tables.

use credence_ledger::{Appended, NewJob, Transaction};
use credence_protocol::Timestamp;

use super::{
    Amount, Answer, AttestationRecord, AttestationRow, AttestationState, AttestationStep as Step, RecordedStep,
    SentTransaction, Total,
};
use crate::{Result, due, tables};

/// `chain/seq` of the intent, in a form that sorts.
pub(super) fn open_place(chain: &str, seq: u64) -> String {
    format!("{chain}/{seq:016}")
}

/// `chain/time/seq`, in a form that sorts.
pub(super) fn fee_place(chain: &str, at: Timestamp, seq: u64) -> String {
    format!("{chain}/{:020}/{seq:016}", at.micros().max(0))
}

/// Folds a step in.
pub(crate) fn apply(tx: &mut dyn Transaction, at: Appended, record: &AttestationRecord) -> Result<()> {
    let id = record.attestation.to_string();
    let known: Option<AttestationRow> = tables::get(tx, tables::ATTESTATIONS, &id)?;
    let Some(mut row) = known.or_else(|| first(record)) else { return Ok(()) };
    let step = record.step;
    row.steps.push(RecordedStep { seq: at.seq, at: at.recorded_at, step });
    row.state = state_after(step);
    if record.reason.is_some() {
        row.reason.clone_from(&record.reason);
    }
    if let Some(transaction) = record.transaction.clone() {
        let sent = SentTransaction { seq: at.seq, at: at.recorded_at, transaction };
        match step {
            Step::RevocationSent => row.revocations.push(sent),
            Step::ValidationSent => row.validations.push(sent),
            _ => row.transactions.push(sent),
        }
    }
    match step {
        Step::Revoked => row.revocation.clone_from(&record.inclusion),
        Step::ValidationSent => row.request.clone_from(&record.request),
        Step::Validated | Step::ValidationGivenUp => {
            row.validations.clear();
            let answered = step == Step::Validated;
            row.answers.extend(row.request.take().map(|request| Answer { request, answered }));
        }
        Step::Reorganised => row.inclusion = None,
        Step::Confirmed | Step::Final | Step::Reverted => row.inclusion.clone_from(&record.inclusion),
        _ => {}
    }
    let settled =
        matches!(step, Step::Final | Step::Reverted | Step::Revoked | Step::Validated | Step::ValidationGivenUp);
    let fee = record.inclusion.as_ref().and_then(|inclusion| inclusion.fee).filter(|_| settled);
    if let Some(fee) = fee {
        tables::put(tx, tables::ATTESTATION_FEES, &fee_place(&row.chain, at.recorded_at, at.seq), &fee)?;
    }
    count(tx, &row.chain, step, fee.unwrap_or_default())?;
    let place = open_place(&row.chain, row.intent_seq());
    if step == Step::Intent {
        tables::put(tx, tables::AGENT_ATTESTATIONS, &tables::agent_seq(&row.agent, at.seq), &record.attestation)?;
    }
    if row.state.is_open() {
        tables::put(tx, tables::OPEN_ATTESTATIONS, &place, &record.attestation)?;
        tx.put_jobs(&[NewJob::now(due::ATTEST, row.chain.clone(), at.seq.to_string())])?;
    } else {
        tx.delete(tables::OPEN_ATTESTATIONS, &place)?;
    }
    Ok(tables::put(tx, tables::ATTESTATIONS, &id, &row)?)
}

fn count(tx: &mut dyn Transaction, chain: &str, step: Step, fee: Amount) -> Result<()> {
    let place = format!("{chain}/{}", step.key());
    let known: Option<Total> = tables::get(tx, tables::ATTESTATION_TOTALS, &place)?;
    let mut total =
        known.unwrap_or_else(|| Total { chain: chain.to_owned(), step: step.key().to_owned(), ..Total::default() });
    total.steps += 1;
    total.fees = Amount(total.fees.0.saturating_add(fee.0));
    Ok(tables::put(tx, tables::ATTESTATION_TOTALS, &place, &total)?)
}

/// The row of an intent.
pub(super) fn first(record: &AttestationRecord) -> Option<AttestationRow> {
    let intent = record.intent.clone()?;
    Some(AttestationRow {
        agent: record.agent.clone(),
        chain: record.chain.clone(),
        subject: record.subject.clone(),
        state: AttestationState::Intent,
        event: intent.document.get("event")?.as_u64()?,
        formula: intent.document.get("formula")?.as_str()?.to_owned(),
        by: intent.by,
        value: intent.value,
        decimals: intent.decimals,
        endpoint: intent.endpoint,
        uri: intent.uri,
        hash: intent.hash,
        transactions: Vec::new(),
        revocations: Vec::new(),
        request: None,
        validations: Vec::new(),
        answers: Vec::new(),
        inclusion: None,
        revocation: None,
        reason: None,
        steps: Vec::new(),
    })
}

fn state_after(step: Step) -> AttestationState {
    match step {
        Step::Intent => AttestationState::Intent,
        Step::Sent | Step::Replaced | Step::Reorganised => AttestationState::Sent,
        Step::Confirmed => AttestationState::Confirmed,
        Step::Final | Step::Validated | Step::ValidationGivenUp => AttestationState::Final,
        Step::ValidationSent => AttestationState::ValidationSent,
        Step::Reverted => AttestationState::Reverted,
        Step::GivenUp => AttestationState::GivenUp,
        Step::RevocationSent => AttestationState::RevocationSent,
        Step::Revoked => AttestationState::Revoked,
    }
}
