//! The canonical bytes of every kind of entry that an authority records, held by vectors in `testdata/entries/`.

use std::collections::BTreeMap;

use credence_engine::assured::{self, Model};
use credence_ledger::{Entry, Kind, NewEntry, merkle};
use credence_pipeline::{
    attestations::{Amount, AttestationStep, SignedTransaction},
    receipts::{HandedReceipt, Held},
    record::{
        AgentRecord, AssuredRecord, AttestationRecord, CheckpointRecord, CitedResponse, ClockRecord, CredentialRecord,
        CredentialRevocationRecord, DisputeRecord, DisputeStep, Input, KeyRecord, KeyRevocationRecord, LinkRecord,
        LinkState, OutcomeRecord, Record, ResponsesRecord, ScoreEvent, ScoreRecord, SourceRecord, StandingRecord,
        TagRecord, WithdrawalRecord,
    },
    reports::{ReportAction, ReportRecord, TokenHolder},
    statements::ParsedStatement,
};
use credence_protocol::{
    Canonical, EntityId, LinkProof, Signal, SignalDraft, Statement, StatementKind, Timestamp, Uuid, strict::StrictValue,
};
use credence_testing::assert_vector;
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::common::{START, aud, id, key, log_key, tag};

fn at() -> Timestamp {
    START.parse().unwrap()
}

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + n)
}

fn statement(author: &str, kind: StatementKind, record: Value) -> Record {
    let statement = Statement::sign(id(author), aud(), kind, StrictValue(record), &key(author)).unwrap();
    Record::Statement(Box::new(ParsedStatement::parse(statement.canonical().as_bytes()).unwrap()))
}

fn input() -> Input {
    let (source, observed_at, tag) = (id("lab"), at().micros(), tag("rel_uptime"));
    Input { seq: 7, source, observed_at, tag, value: 99.2, stddev: 0.5, weight: 0.8 }
}

fn statements() -> Vec<(&'static str, Record)> {
    let (hash, now) = ("sha256:00", START);
    let did = key("bot").public().did_key();
    vec![
        (
            "bot",
            statement(
                "bot",
                StatementKind::Identity,
                json!({"agent_id": "bot", "model_type": "llm+tools",
            "capability_tags": ["weather"], "risk_profile": "moderate", "transparency_level": "high", "version_hash": "v1",
            "signature_key": did, "rap_method": "sharpe"}),
            ),
        ),
        (
            "bot",
            statement(
                "bot",
                StatementKind::Contract,
                json!({"signal_id": "c-1", "origin_agent": "bot",
            "context_hash": hash, "verification_hash": hash, "confidence_metrics": {"probability": 0.9}, "risk_band": "low",
            "timestamp": now, "reasoning_trace": ["because"], "source_refs": ["https://example.org/data"],
            "challenge_window_hours": 24}),
            ),
        ),
        (
            "bot",
            statement(
                "lab",
                StatementKind::Verification,
                json!({"verification_id": "v-1",
            "related_object_type": "signal", "related_object_id": "c-1", "context_hash": hash, "verification_hash": hash,
            "timestamp": now, "status": "final", "outcome": 1.0}),
            ),
        ),
        (
            "bot",
            statement(
                "peer",
                StatementKind::Challenge,
                json!({"challenge_id": "ch-1", "original_signal_id": "c-1",
            "challenger_agent_id": "peer", "counter_claim": {"claim": "no"}, "timestamp": now}),
            ),
        ),
        (
            "bot",
            statement(
                "credence",
                StatementKind::Resolution,
                json!({"resolution_id": "r-1", "challenge_id": "ch-1",
            "outcome": "failed", "reason": "looked into", "timestamp": now}),
            ),
        ),
        (
            "bot",
            statement(
                "peer",
                StatementKind::Review,
                json!({"review_id": "rv-1", "reviewer_agent_id": "peer",
            "subject_agent_id": "bot", "rating": 0.8, "interaction": {"contract": "c-1"}, "timestamp": now}),
            ),
        ),
        (
            "bot",
            statement(
                "lab",
                StatementKind::Summary,
                json!({"agent": "bot", "window": "7d", "summary": {
            "totalChecks": 100, "allowRate": 0.9, "blockRate": 0.06, "uncertainRate": 0.04, "avgConfidence": 0.95,
            "windowDays": 7, "updatedAt": now}}),
            ),
        ),
    ]
}

fn records() -> Vec<(&'static str, Record)> {
    let former = key("lab");
    let rotated = KeyRecord::new(&key("lab-2").public(), id("lab")).endorsed_by(&former).unwrap();
    let note = log_key().sign(3, merkle::leaf(b"leaf")).unwrap();
    let mut records = vec![
        (
            "lab",
            Record::Source(SourceRecord {
                source: id("lab"),
                weight: 0.8,
                description: Some("probes every minute".into()),
                owner: Some(id("example-org")),
                roots: Some(vec!["erc8004:eip155:8453".parse().unwrap(), "npm".parse().unwrap()]),
                methodology: Some("https://example.org/how".into()),
                aud: aud(),
            }),
        ),
        (
            "bot",
            Record::Agent(AgentRecord {
                agent: id("bot"),
                name: Some("Bot".into()),
                aliases: vec!["did:web:bot.example".parse().unwrap()],
                owner: Some(id("example-com")),
                aud: aud(),
            }),
        ),
        ("lab", Record::Key(rotated)),
        (
            "lab",
            Record::KeyRevocation(KeyRevocationRecord {
                key_id: former.public().id(),
                from_seq: 7,
                reason: Some("rotated".into()),
            }),
        ),
        (
            "bot",
            Record::Withdrawal(WithdrawalRecord {
                signal: uuid(1),
                agent: id("bot"),
                tag: tag("output_quality"),
                source: None,
            }),
        ),
        (
            "bot",
            Record::Link(LinkRecord {
                agent: id("bot"),
                link: "repository:github.com/acme/weather".parse().unwrap(),
                state: LinkState::Proven,
                nonce: uuid(5),
                expires: at().plus_seconds(86_400),
                proof: Some(LinkProof {
                    method: "file".into(),
                    url: Some("https://raw.githubusercontent.com/acme/weather/HEAD/.well-known/credence-link".into()),
                    digest: Some(format!("sha256:{}", "ef".repeat(32))),
                    signature: None,
                }),
                reason: None,
            }),
        ),
        (
            "bot",
            Record::Dispute(
                DisputeRecord {
                    agent: id("bot"),
                    signal: uuid(4),
                    step: DisputeStep::Opened,
                    text: "the repository moved in May".into(),
                    key_id: None,
                    signature: None,
                }
                .signed_by(&key("bot"))
                .unwrap(),
            ),
        ),
        ("bot", Record::Standing(StandingRecord { agent: id("bot"), revoked: true, reason: Some("fraud".into()) })),
        (
            "bot",
            Record::Credential(CredentialRecord {
                credential: uuid(2),
                agent: id("bot"),
                index: 4,
                digest: "ab".repeat(32),
                valid_until: at().plus_seconds(86_400),
            }),
        ),
        (
            "bot",
            Record::CredentialRevocation(CredentialRevocationRecord {
                credential: uuid(2),
                agent: id("bot"),
                reason: None,
            }),
        ),
        (
            "bot",
            Record::Outcome(OutcomeRecord {
                id: uuid(3),
                agent: id("bot"),
                good: false,
                relied_at: at(),
                reporter: id("reader"),
                response: Some(CitedResponse {
                    hash: "cd".repeat(32),
                    entry: 12,
                    index: 1,
                    path: vec![BASE64.encode(&[7; 32])],
                }),
            }),
        ),
        (
            "bot",
            Record::Report(ReportRecord {
                report: uuid(5),
                agent: id("bot"),
                action: ReportAction::Corrected,
                digest: "ef".repeat(32),
                drafted_by: TokenHolder { name: id("writer"), token: "0123456789ab".into() },
                by: TokenHolder { name: id("rita"), token: "ba9876543210".into() },
                document: None,
                replaced_by: Some(uuid(6)),
                reason: Some("another agent's probes".into()),
            }),
        ),
        (
            "bot",
            Record::Attestation(Box::new(AttestationRecord {
                attestation: uuid(7),
                agent: id("bot"),
                chain: "eip155:8453".into(),
                subject: "erc8004:eip155:8453:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432/22".parse().unwrap(),
                step: AttestationStep::Sent,
                intent: None,
                transaction: Some(SignedTransaction {
                    id: format!("0x{}", "ab".repeat(32)),
                    nonce: Some(7),
                    valid_until: None,
                    max_fee: Amount(12_345_678_901_234_567_890),
                    raw: "02f8".into(),
                }),
                inclusion: None,
                request: None,
                reason: None,
            })),
        ),
        ("credence", Record::Responses(ResponsesRecord { root: BASE64.encode(&[9; 32]), count: 2 })),
        ("credence", Record::Tag(TagRecord { tag: tag("cross_chain_consistency"), deferred: false })),
        ("credence", Record::Clock(ClockRecord { ahead: at().plus_seconds(86_400) })),
        (
            "lab",
            Record::Checkpoint(CheckpointRecord {
                provider: id("lab"),
                log: "example.org/log".into(),
                size: 3,
                root: "AA==".into(),
                checkpoint: note,
            }),
        ),
    ];
    records.push(("bot", Record::Probe(Box::new(crate::probes::run(1, "https://bot.example", at())))));
    records.extend(statements());
    records
}

fn signal() -> Signal {
    let draft = SignalDraft {
        id: uuid(4),
        aud: aud(),
        evidence: Some(StrictValue(json!({"probes": 40}))),
        ..SignalDraft::new(id("bot"), id("lab"), vec![tag("rel_uptime")], 99.2, 0.5, at())
    };
    draft.sign(&key("lab")).unwrap()
}

fn entries() -> BTreeMap<Kind, NewEntry> {
    let mut entries: BTreeMap<Kind, NewEntry> = BTreeMap::new();
    for (subject, record) in records() {
        let entry = record.entry(&id(subject)).unwrap();
        assert!(entries.insert(entry.kind, entry).is_none(), "one vector a kind");
    }
    let mut add =
        |kind, subject: EntityId, body, weight| entries.insert(kind, NewEntry { kind, subject, body, weight });
    add(Kind::Signal, id("bot"), signal().canonical().clone(), Some(0.8));
    let score = ScoreRecord::compute(id("bot"), 8, &[input()], 1, 0.1).unwrap();
    add(Kind::Score, id("bot"), Canonical::of(&score).unwrap(), None);
    let held = Held {
        provider: id("lab"),
        log: "example.org/guard".into(),
        log_key: log_key().verifier().as_str().to_owned(),
        sent: HandedReceipt { seq: 1, entry: "{}".into(), proof: vec!["AA==".into()], salts: None },
        checkpoint: "note".into(),
    };
    add(Kind::HeldReceipt, id("bot"), Canonical::of(&held).unwrap(), None);
    entries
}

#[test]
fn the_bytes_of_every_kind_are_as_kept() {
    for (kind, entry) in entries() {
        let bytes = entry.encode(at()).unwrap();
        assert_vector(&format!("entries/{}.json", kind.key()), &bytes);
        let stored = Entry::parse(0, &bytes).unwrap();
        assert_eq!((stored.kind, &stored.subject, stored.recorded_at), (kind, &entry.subject, at()));
        Record::of(0, &stored).unwrap_or_else(|e| panic!("{}: {e}", kind.key()));
    }
}

/// The second formula's event is of the same kind, and told apart by its `formula`.
#[test]
fn the_bytes_of_an_assured_score_are_as_kept() {
    let model = Model::standard().unwrap();
    let Input { value, stddev, weight, .. } = input();
    let signal = assured::Signal {
        source: "lab",
        owner: Some("example-org"),
        roots: &[],
        tag: "rel_uptime",
        value,
        stddev,
        weight,
        age_days: 3.5,
    };
    let record = AssuredRecord {
        agent: id("bot"),
        as_of: 8,
        formula: assured::FORMULA.to_owned(),
        parameters: model.digest().to_owned(),
        inputs_of: 8,
        evaluated_at: at(),
        assured: model.score(&[signal]).unwrap(),
    };
    let body = Canonical::of(&record).unwrap();
    let bytes = NewEntry { kind: Kind::Score, subject: id("bot"), body, weight: None }.encode(at()).unwrap();
    assert_vector("entries/score_assured.json", &bytes);
    let read = Record::of(0, &Entry::parse(0, &bytes).unwrap()).unwrap();
    assert!(matches!(read, Record::Score(ScoreEvent::Assured(read)) if *read == record));
    let unknown = String::from_utf8(bytes).unwrap().replace("uts/2", "uts/9");
    let error = Record::of(0, &Entry::parse(0, unknown.as_bytes()).unwrap()).unwrap_err().to_string();
    assert!(error.contains("unknown formula 'uts/9'"), "{error}");
}

/// A kind without a vector is a format that nothing holds. Those of a guard's own ledger are held by the receipts' tests.
#[test]
fn every_kind_has_a_vector() {
    let here: Vec<Kind> = entries().into_keys().collect();
    let of_a_guard = [Kind::Receipt, Kind::Canary, Kind::Control, Kind::Operation, Kind::Segment];
    for kind in Kind::ALL {
        assert!(here.contains(&kind) != of_a_guard.contains(&kind), "{}", kind.key());
        let path = credence_testing::project_root().join(format!("testdata/entries/{}.json", kind.key()));
        assert!(path.exists(), "{}", path.display());
    }
}

/// One kind, one body: the body of one kind is not taken for that of another.
#[test]
fn no_body_passes_for_another_kind() {
    for (kind, entry) in entries() {
        for other in Kind::ALL.into_iter().filter(|other| *other != kind && *other != Kind::Score) {
            let forged = NewEntry { kind: other, ..entry.clone() }.encode(at()).unwrap();
            let read = Record::of(0, &Entry::parse(0, &forged).unwrap());
            let wrong = match read {
                Err(_) | Ok(Record::Other(_)) => continue,
                // A statement says its own kind, which the audit compares with the entry's.
                Ok(Record::Statement(stated)) => stated.entry_kind() == other,
                Ok(_) => true,
            };
            assert!(!wrong, "the body of {} passes for {}", kind.key(), other.key());
        }
    }
}
