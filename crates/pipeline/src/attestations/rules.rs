//! Which step may follow which, and what it must hold: asked when an entry is written, and again in an audit.

use std::collections::BTreeSet;

use credence_engine::assured;
use credence_ledger::{Appended, View};
use credence_output::attestation::{self as score_document, ScoreClaim};
use credence_protocol::{
    AUTHORITY_SOURCE, Canonical, EntityId, ExternalSubject, KeyId, ScoreStatus, SubjectKind, Timestamp,
};

use super::{
    AttestationRecord, AttestationRow, AttestationState as State, AttestationStep as Step, Inclusion, Intent,
    SentTransaction, SignedTransaction, open, row,
};
use crate::{
    Result, links,
    tables::{self, AgentRow, KeyRow},
};

/// Nonces that one attestation may use up: a node that denies what it included cannot make us write more than so often.
pub const MAX_NONCES: usize = 3;
/// Validation requests that one attestation answers: whoever makes more of them waits for the next attestation.
pub const MAX_ANSWERS: usize = 3;
/// Steps of one attestation: a node that changes its mind cannot fill the ledger.
pub const MAX_STEPS: usize = 96;
/// Characters of a transaction's bytes in text: of the order of a kilobyte, and never near an entry's limit.
const MAX_RAW: usize = 16 * 1024;
/// Characters of an address, an id, a hash.
const MAX_TEXT: usize = 128;
/// Characters of an endpoint or address of a document.
const MAX_URI: usize = 512;
/// Characters of a reason.
const MAX_REASON: usize = 300;
/// The largest whole number that JSON keeps everywhere.
const MAX_INTEGER: u64 = 1 << 53;

/// What is wrong with a step, given what was recorded before it.
pub(crate) fn wrong_with(
    view: &(impl View + ?Sized),
    record: &AttestationRecord,
    at: Appended,
) -> Result<Option<String>> {
    if let Some(why) = malformed(record) {
        return Ok(Some(format!("{}: {why}", record.step.key())));
    }
    let wrong = match row(view, record.attestation)? {
        None => wrong_beginning(view, record, at)?,
        Some(_) if record.step == Step::Intent => Some("the id was used before".to_owned()),
        Some(row) => wrong_step(view, &row, record)?,
    };
    let step = if record.step == Step::Intent { "begun" } else { record.step.key() };
    Ok(wrong.map(|why| format!("attestation {} cannot be {step}: {why}", record.attestation)))
}

/// What is wrong with a record by itself.
fn malformed(record: &AttestationRecord) -> Option<String> {
    let AttestationRecord { step, intent, transaction, inclusion, request, reason, .. } = record;
    let has = [intent.is_some(), transaction.is_some(), inclusion.is_some(), reason.is_some()];
    let wanted = match step {
        Step::Intent => [true, false, false, false],
        Step::Sent | Step::Replaced => [false, true, false, false],
        Step::Confirmed | Step::Final | Step::Reverted | Step::Revoked | Step::Validated => [false, false, true, false],
        Step::ValidationSent => [false, true, false, false],
        // With the place where it failed, if it did.
        Step::ValidationGivenUp => [false, false, inclusion.is_some(), true],
        Step::Reorganised | Step::GivenUp => [false, false, false, true],
        Step::RevocationSent => [false, true, false, true],
    };
    if has != wanted || request.is_some() != (*step == Step::ValidationSent) {
        return Some("the step has other members".to_owned());
    }
    if !is_of_chain(&record.subject, &record.chain) {
        return Some(format!("{} is not a registration on {}", record.subject.as_str(), record.chain));
    }
    let short =
        |text: &str, limit: usize| text.len() <= limit && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if request.as_deref().is_some_and(|request| !is_hash(request)) {
        return Some("a request is 32 bytes in hexadecimal".to_owned());
    }
    if reason.as_deref().is_some_and(|reason| reason.trim().is_empty() || !short(reason, MAX_REASON)) {
        return Some(format!("a reason is 1 to {MAX_REASON} printable ASCII characters"));
    }
    if let Some(SignedTransaction { id, nonce, valid_until, raw, .. }) = transaction {
        let base = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        if id.is_empty() || !short(id, MAX_TEXT) || raw.is_empty() || raw.len() > MAX_RAW || !raw.bytes().all(base) {
            return Some("the transaction is too long, or not in hexadecimal or base64".to_owned());
        }
        if nonce.is_some() == valid_until.is_some() || nonce.or(*valid_until) > Some(MAX_INTEGER) {
            return Some("a transaction has a nonce or a last block height, below 2^53".to_owned());
        }
    }
    if let Some(Inclusion { transaction, block, block_hash, fee, index }) = inclusion {
        let whole = [block.is_some(), block_hash.is_some(), fee.is_some()];
        let texts = transaction.iter().chain(block_hash);
        if whole != [transaction.is_some(); 3] || texts.into_iter().any(|text| !short(text, MAX_TEXT)) {
            return Some("a transaction that was included has a block, its hash and a fee".to_owned());
        }
        if *block > Some(MAX_INTEGER) || *index > Some(MAX_INTEGER) {
            return Some("a block's number and an index are below 2^53".to_owned());
        }
    }
    let Intent { by, value, decimals, endpoint, uri, hash, .. } = intent.as_ref()?;
    if by.is_empty() || !short(by, MAX_TEXT) || !short(endpoint, MAX_URI) || !short(uri, MAX_URI) || !is_hash(hash) {
        return Some("an address, endpoint, URI or hash is too long or not of its form".to_owned());
    }
    (*decimals != 0 || !(0..=100).contains(value))
        .then(|| "the value is a score of 0 to 100, without decimals".to_owned())
}

/// Whether a registration is on a chain.
pub(super) fn is_of_chain(subject: &ExternalSubject, chain: &str) -> bool {
    match subject.kind() {
        SubjectKind::Erc8004 => {
            chain.starts_with("eip155:") && subject.id().strip_prefix(chain).is_some_and(|rest| rest.starts_with(':'))
        }
        SubjectKind::Solana8004 => chain.strip_prefix("solana:").is_some_and(|genesis| {
            (1..=64).contains(&genesis.len()) && genesis.bytes().all(|b| b.is_ascii_alphanumeric())
        }),
        _ => false,
    }
}

/// What is wrong with an intent.
fn wrong_beginning(view: &(impl View + ?Sized), record: &AttestationRecord, at: Appended) -> Result<Option<String>> {
    let Some(intent) = record.intent.as_ref().filter(|_| record.step == Step::Intent) else {
        return Ok(Some("it was not intended".to_owned()));
    };
    let agent: Option<AgentRow> = tables::get(view, tables::AGENTS, record.agent.as_str())?;
    if agent.is_some_and(|agent| agent.revoked.is_some()) {
        return Ok(Some(format!("the standing of '{}' is revoked", record.agent)));
    }
    // Otherwise an agent's score could be hung on somebody else's registration.
    if !is_linked(view, &record.agent, &record.subject, at.recorded_at)? {
        return Ok(Some(format!("{} is not proven to be of '{}'", record.subject.as_str(), record.agent)));
    }
    for (id, other) in open(view, &record.chain)? {
        if other.subject == record.subject {
            let state = other.state.key();
            return Ok(Some(format!("attestation {id} of the same registration is under way ({state})")));
        }
    }
    wrong_with_document(view, record, intent, at.seq)
}

fn is_linked(view: &(impl View + ?Sized), agent: &EntityId, subject: &ExternalSubject, at: Timestamp) -> Result<bool> {
    Ok(links::link(view, agent, subject)?.is_some_and(|link| link.feeds(at)))
}

/// The document is the authority's, about this attestation, and says what the newest score event says.
fn wrong_with_document(
    view: &(impl View + ?Sized),
    record: &AttestationRecord,
    intent: &Intent,
    seq: u64,
) -> Result<Option<String>> {
    let bytes = Canonical::of(&intent.document)?;
    if score_document::keccak(bytes.as_bytes()) != intent.hash {
        return Ok(Some("the hash is not the document's".to_owned()));
    }
    let kid = intent.document.get("kid").and_then(|kid| kid.as_str()).and_then(|kid| kid.parse::<KeyId>().ok());
    let key: Option<KeyRow> = match kid {
        Some(kid) => tables::get(view, tables::KEYS, &kid.to_string())?,
        None => None,
    };
    let Some(key) = key.filter(|key| key.source.as_str() == AUTHORITY_SOURCE && key.counts_at(seq)) else {
        return Ok(Some("the document is not signed by a key of the authority".to_owned()));
    };
    let claim: ScoreClaim = match score_document::verify(bytes.as_bytes(), &[key.public_key]) {
        Ok(claim) => claim,
        Err(error) => return Ok(Some(format!("the document: {error}"))),
    };
    let about = claim.attestation == record.attestation
        && claim.agent == record.agent
        && claim.chain == record.chain
        && claim.subject == record.subject;
    if !about {
        return Ok(Some("the document is about something else".to_owned()));
    }
    let newest = tables::assured_of(view, &record.agent)?;
    // Compared in their one spelling: 100.0 is 100 there.
    let said = Canonical::of(&claim.assured);
    let says = newest.is_some_and(|newest| {
        claim.formula == assured::FORMULA
            && newest.recorded.assured.status == ScoreStatus::Published
            && newest.seq == claim.event
            && newest.recorded.evaluated_at == claim.evaluated_at
            && newest.recorded.parameters == claim.parameters
            && said.as_ref().is_ok_and(|said| Canonical::of(&newest.recorded.assured).is_ok_and(|told| told == *said))
            && i64::from(newest.recorded.assured.score) == intent.value
    });
    Ok((!says).then(|| "the document does not say what the newest score event says".to_owned()))
}

/// What is wrong with a step after the first.
fn wrong_step(view: &(impl View + ?Sized), row: &AttestationRow, record: &AttestationRecord) -> Result<Option<String>> {
    if (&row.agent, &row.chain, &row.subject) != (&record.agent, &record.chain, &record.subject) {
        return Ok(Some(format!("it is about '{}' on {}", row.agent, row.chain)));
    }
    if row.steps.len() >= MAX_STEPS {
        return Ok(Some(format!("it has {MAX_STEPS} steps: the node contradicts itself, use another")));
    }
    let included_by = |sent: &[SentTransaction]| {
        let id = record.inclusion.as_ref().and_then(|inclusion| inclusion.transaction.as_deref());
        let known = id.is_none_or(|id| sent.iter().any(|sent| sent.transaction.id == id));
        (!known).then(|| "no such transaction was sent for it".to_owned())
    };
    let wrong = match (record.step, row.state) {
        (Step::Sent, State::Intent | State::Sent) => wrong_new_nonce(&row.transactions, record),
        (Step::Replaced, State::Sent) => wrong_replacement(&row.transactions, record),
        (Step::Confirmed, State::Sent) => included_by(&row.transactions).or_else(|| {
            let index = record.inclusion.as_ref().and_then(|inclusion| inclusion.index);
            index.is_none().then(|| "a feedback that was written has an index".to_owned())
        }),
        (Step::Reverted, State::Sent) => included_by(&row.transactions).or_else(|| {
            let named = record.inclusion.as_ref().is_some_and(|inclusion| inclusion.transaction.is_some());
            (!named).then(|| "it names no transaction".to_owned())
        }),
        (Step::Final, State::Confirmed) => {
            let same = row.inclusion == record.inclusion;
            (!same).then(|| "it was confirmed elsewhere".to_owned())
        }
        (Step::Reorganised, State::Confirmed) | (Step::GivenUp, State::Intent | State::Sent) => None,
        (Step::ValidationSent, State::Final) => wrong_request(row, record),
        (Step::ValidationSent, State::ValidationSent) if row.request != record.request => {
            Some("another request is being answered".to_owned())
        }
        (Step::ValidationSent, State::ValidationSent) => match wrong_replacement(&row.validations, record) {
            None => None,
            Some(_) => wrong_new_nonce(&row.validations, record),
        },
        (Step::Validated | Step::ValidationGivenUp, State::ValidationSent) => included_by(&row.validations),
        (Step::RevocationSent, State::Final) => wrong_new_nonce(&row.revocations, record),
        (Step::RevocationSent, State::RevocationSent) => match wrong_replacement(&row.revocations, record) {
            None => None,
            Some(_) => wrong_new_nonce(&row.revocations, record),
        },
        // Without a transaction of ours: another program took it back.
        (Step::Revoked, State::Final | State::RevocationSent) => included_by(&row.revocations),
        (_, state) => Some(format!("it is {}", state.key())),
    };
    if wrong.is_some() || record.transaction.is_none() {
        return Ok(wrong);
    }
    wrong_turn(view, record)
}

/// A request that this attestation may answer.
fn wrong_request(row: &AttestationRow, record: &AttestationRecord) -> Option<String> {
    if row.subject.kind() != SubjectKind::Erc8004 {
        return Some("only ERC-8004 has a validation registry".to_owned());
    }
    if row.answers.len() >= MAX_ANSWERS {
        return Some(format!("it answered {MAX_ANSWERS} requests"));
    }
    let again = row.answers.iter().any(|answer| Some(&answer.request) == record.request.as_ref());
    again.then(|| "it answered this request before".to_owned())
}

/// One transaction of a chain waits for inclusion at a time.
fn wrong_turn(view: &(impl View + ?Sized), record: &AttestationRecord) -> Result<Option<String>> {
    for (id, other) in open(view, &record.chain)? {
        if id != record.attestation && other.state.waits_for_inclusion() {
            return Ok(Some(format!("attestation {id} waits for inclusion on {}", record.chain)));
        }
    }
    Ok(None)
}

/// A transaction in its own right: another nonce than all before.
fn wrong_new_nonce(sent: &[SentTransaction], record: &AttestationRecord) -> Option<String> {
    let new = record.transaction.as_ref()?;
    let slot = |transaction: &SignedTransaction| (transaction.nonce, transaction.valid_until);
    let mut used: BTreeSet<_> = sent.iter().map(|sent| slot(&sent.transaction)).collect();
    if !used.insert(slot(new)) {
        return Some("its nonce was used before: it could only replace".to_owned());
    }
    (used.len() > MAX_NONCES).then(|| format!("{MAX_NONCES} nonces were used for it: the node contradicts itself"))
}

/// A transaction in place of the newest: the same nonce, another id, no lower fee.
fn wrong_replacement(sent: &[SentTransaction], record: &AttestationRecord) -> Option<String> {
    let (new, Some(old)) = (record.transaction.as_ref()?, sent.last()) else {
        return Some("there is nothing to replace".to_owned());
    };
    let old = &old.transaction;
    let same_nonce = new.nonce.is_some() && new.nonce == old.nonce;
    let fresh = sent.iter().all(|sent| sent.transaction.id != new.id) && new.max_fee >= old.max_fee;
    (!same_nonce || !fresh).then(|| "a replacement has the same nonce and no lower fee".to_owned())
}
