//! Contracts, verifications, challenges, resolutions, reviews, identities: who may say what, and what it does.

use credence_pipeline::{
    NewAgent, Rejection, query,
    reputation::{
        self,
        rows::{ChallengeRow, ChallengeState, ReputationRow},
    },
    statements::Published,
};
use credence_protocol::{ScoreStatus, Statement, StatementKind, records::ChallengeOutcome, strict::StrictValue};
use serde_json::{Value, json};

use crate::{
    common::{House, aud, id, key},
    tables,
};

pub const HASH: &str = "sha256:00";

impl House {
    /// With an authority's source, a verifier `judge`, and agents that have keys.
    pub fn network(agents: &[&str]) -> Self {
        Self::new(&[("credence", 1.0)], agents).networked(agents)
    }

    /// The same on a ledger in memory, where every unit of work runs twice.
    pub fn network_in_memory(agents: &[&str]) -> Self {
        Self::run_twice(&[("credence", 1.0)], agents).networked(agents)
    }

    fn networked(self, agents: &[&str]) -> Self {
        let house = self;
        house.provider("judge");
        for agent in agents {
            house.introduce(agent);
        }
        house
    }

    /// Gives an agent its key, and lets it say who it is.
    pub fn introduce(&self, agent: &str) {
        self.authority.add_key(&key(agent).public(), id(agent)).unwrap();
        let mut record = self.identity_record(agent, "v0", "sharpe");
        record.as_object_mut().unwrap().remove("rap_method");
        self.say(agent, StatementKind::Identity, record).unwrap();
    }

    /// Rests a contract of `agent` on another.
    pub fn take_up(&self, agent: &str, contract: &str) {
        let mut record = self.contract_record(agent, &format!("{agent}-on-{contract}-{}", self.size()));
        record["source_refs"] = json!([contract]);
        self.say(agent, StatementKind::Contract, record).unwrap();
    }

    pub fn say(&self, author: &str, kind: StatementKind, record: Value) -> Result<Published, Rejection> {
        let statement = Statement::sign(id(author), aud(), kind, StrictValue(record), &key(author)).unwrap();
        self.authority.publish(statement.canonical().as_bytes()).unwrap()
    }

    pub fn contract_record(&self, agent: &str, name: &str) -> Value {
        json!({"signal_id": name, "origin_agent": agent, "context_hash": HASH, "verification_hash": HASH,
            "confidence_metrics": {"probability": 0.9}, "risk_band": "low", "timestamp": self.now(),
            "reasoning_trace": ["because"], "source_refs": ["https://example.org/data"], "challenge_window_hours": 24})
    }

    pub fn contract(&self, agent: &str, name: &str) {
        self.say(agent, StatementKind::Contract, self.contract_record(agent, name)).unwrap();
    }

    pub fn verify(&self, contract: &str, outcome: f64) {
        self.say("judge", StatementKind::Verification, self.verification_record(contract, outcome)).unwrap();
    }

    pub fn verification_record(&self, contract: &str, outcome: f64) -> Value {
        json!({"verification_id": format!("v-{contract}"), "related_object_type": "signal", "related_object_id": contract,
            "context_hash": HASH, "verification_hash": HASH, "timestamp": self.now(), "status": "final", "outcome": outcome})
    }

    pub fn challenge_record(&self, challenger: &str, contract: &str, name: &str) -> Value {
        json!({"challenge_id": name, "original_signal_id": contract, "challenger_agent_id": challenger,
            "counter_claim": {"claim": name}, "timestamp": self.now()})
    }

    pub fn challenge(&self, challenger: &str, contract: &str, name: &str) {
        self.say(challenger, StatementKind::Challenge, self.challenge_record(challenger, contract, name)).unwrap();
    }

    pub fn resolution_record(&self, challenge: &str, outcome: &str) -> Value {
        json!({"resolution_id": format!("r-{challenge}"), "challenge_id": challenge, "outcome": outcome,
            "reason": "looked into", "timestamp": self.now()})
    }

    pub fn resolve(&self, challenge: &str, outcome: &str) {
        self.say("credence", StatementKind::Resolution, self.resolution_record(challenge, outcome)).unwrap();
    }

    pub fn review_record(&self, reviewer: &str, subject: &str, contract: &str, rating: f64) -> Value {
        let name = format!("{reviewer}-{subject}-{}", self.size());
        json!({"review_id": name, "reviewer_agent_id": reviewer, "subject_agent_id": subject, "rating": rating,
            "interaction": {"contract": contract}, "timestamp": self.now()})
    }

    pub fn review(&self, reviewer: &str, subject: &str, contract: &str, rating: f64) -> Published {
        let record = self.review_record(reviewer, subject, contract, rating);
        self.say(reviewer, StatementKind::Review, record).unwrap()
    }

    pub fn identity_record(&self, agent: &str, version: &str, rap_method: &str) -> Value {
        json!({"agent_id": agent, "model_type": "llm+tools", "capability_tags": ["weather"], "risk_profile": "moderate",
            "transparency_level": "high", "version_hash": version, "signature_key": key(agent).public().did_key(),
            "rap_method": rap_method})
    }

    pub fn identify(&self, agent: &str, version: &str, rap_method: &str) {
        self.say(agent, StatementKind::Identity, self.identity_record(agent, version, rap_method)).unwrap();
    }

    pub fn reputation(&self, agent: &str) -> Option<ReputationRow> {
        let view = self.authority.ledger().view().unwrap();
        tables::get(&*view, tables::REPUTATIONS, agent)
    }

    /// A good track record: contracts that were borne out, under a declared method.
    pub fn establish(&self, agent: &str, contracts: usize) {
        self.identify(agent, "v1", "sharpe");
        for n in 0..contracts {
            let name = format!("{agent}-{n}");
            self.contract(agent, &name);
            self.verify(&name, 1.0);
            self.advance(3600);
        }
    }
}

#[test]
fn a_track_record_makes_a_reputation_and_a_signal() {
    let house = House::network(&["alice"]);
    house.contract("alice", "c-0");
    let new = house.reputation("alice").unwrap();
    assert_eq!((new.events, new.score), (0, 8.0), "the first is limited to Δmax, and what it says itself is no event");
    assert!((new.raw - 11.25).abs() < 1e-9);
    house.authority.score_now().unwrap();
    assert!(house.current().is_empty(), "nothing is said of a newborn");
    house.establish("alice", 20);
    let row = house.reputation("alice").unwrap();
    assert!(row.score > 15.0 && row.score < 22.5, "{row:?}");
    assert_eq!(row.basis["performance"]["method"], "sharpe");
    assert_eq!(row.basis["consistency"]["basis"], "outcomes");
    house.authority.score_now().unwrap();
    let (slot, signal) = house.current().pop().unwrap();
    assert_eq!(slot, "alice/credence/peer_reputation");
    assert!((signal.value - row.score).abs() < 1e-6);
    let live = house.score("alice");
    assert_eq!(live.inputs.len(), 1, "it moves the universal score");
    house.assert_sound();
}

#[test]
fn a_challenge_that_succeeds_costs_the_target_and_one_that_fails_its_author() {
    let house = House::network(&["alice", "bob"]);
    house.establish("alice", 10);
    house.establish("bob", 10);
    house.contract("alice", "claim");
    house.challenge("bob", "claim", "ch-1");
    let before = (house.reputation("alice").unwrap(), house.reputation("bob").unwrap());
    house.resolve("ch-1", "successful");
    let after = (house.reputation("alice").unwrap(), house.reputation("bob").unwrap());
    assert_eq!((after.0.events - before.0.events, after.1.events - before.1.events), (1, 1), "both, once");
    assert!(after.0.raw < before.0.raw && after.0.factors.v < before.0.factors.v);
    assert_eq!(after.0.basis["validation"]["survival"], 0.25);
    assert_eq!(after.0.cause, "refuted by a challenge");
    assert!(after.1.raw > before.1.raw, "bob's word was upheld against a peer whose word weighs");
    // And the other way round.
    house.contract("bob", "counter");
    house.challenge("alice", "counter", "ch-2");
    let before = (house.reputation("alice").unwrap(), house.reputation("bob").unwrap());
    house.resolve("ch-2", "failed");
    let after = (house.reputation("alice").unwrap(), house.reputation("bob").unwrap());
    assert!(after.0.raw <= before.0.raw && after.1.raw >= before.1.raw);
    // Nobody can tell: neither wins nor loses.
    house.contract("bob", "unclear");
    house.challenge("alice", "unclear", "ch-3");
    let survival = |agent: &str| house.reputation(agent).unwrap().basis["validation"]["survival"].clone();
    let before = (survival("alice"), survival("bob"));
    house.resolve("ch-3", "inconclusive");
    assert_eq!((survival("alice"), survival("bob")), before);
    house.assert_sound();
}

#[test]
fn a_resolution_can_rest_on_a_verification_and_must_say_what_that_says() {
    let house = House::network(&["alice", "bob"]);
    house.contract("alice", "claim");
    house.challenge("bob", "claim", "ch");
    house.verify("claim", -1.0);
    let with = |outcome: &str, evidence: &str| {
        let mut record = house.resolution_record("ch", outcome);
        record["evidence"] = evidence.into();
        house.say("credence", StatementKind::Resolution, record)
    };
    assert_eq!(with("failed", "v-claim").unwrap_err().code(), "not_supported");
    assert_eq!(with("successful", "v-other").unwrap_err().code(), "not_supported");
    with("successful", "v-claim").unwrap();
    let view = house.authority.ledger().view().unwrap();
    let row: ChallengeRow = tables::get(&*view, tables::CHALLENGES, "ch").unwrap();
    assert_eq!(row.state, ChallengeState::Settled(ChallengeOutcome::Successful));
    drop(view);
    house.assert_sound();
}

#[test]
fn newborns_and_kin_weigh_nothing() {
    let house = House::network(&["alice", "bob", "newborn"]);
    let kin = NewAgent { owner: Some(id("acme")), ..NewAgent::new(id("alice")) };
    house.authority.add_agent(kin).unwrap();
    let kin = NewAgent { owner: Some(id("acme")), ..NewAgent::new(id("kin")) };
    house.authority.add_agent(kin).unwrap();
    house.introduce("kin");
    for agent in ["alice", "bob", "kin"] {
        house.establish(agent, 15);
    }
    let helpfulness = || house.reputation("alice").unwrap().basis["validation"]["helpfulness"].as_f64().unwrap();
    let events = || house.reputation("alice").unwrap().events;
    for agent in ["newborn", "kin", "bob"] {
        house.take_up(agent, "alice-3");
    }
    let before = (helpfulness(), events());
    assert!(house.review("newborn", "alice", "alice-3", 1.0).remark.unwrap().contains("weighs nothing"));
    assert!(house.review("kin", "alice", "alice-3", 1.0).remark.is_some());
    assert_eq!((helpfulness(), events()), before);
    assert_eq!(house.review("bob", "alice", "alice-3", 1.0).remark, None);
    let once = helpfulness();
    assert!(once > 0.0);
    let events_then = events();
    house.review("bob", "alice", "alice-3", 1.0);
    assert_eq!((helpfulness(), events()), (once, events_then), "the same again is nothing new");
    house.review("bob", "alice", "alice-3", 0.0);
    assert!(helpfulness() < once, "the newest word of a pair counts");
    house.assert_sound();
}

#[test]
fn taking_up_a_contract_is_adoption_once_for_each_agent() {
    let house = House::network(&["alice", "bob"]);
    house.establish("alice", 12);
    house.establish("bob", 12);
    let adoption = || house.reputation("alice").unwrap().basis["validation"]["adoption"].as_f64().unwrap();
    assert_eq!(adoption(), 0.0);
    for _ in 0..3 {
        house.take_up("bob", "alice-11");
    }
    let adopted = adoption();
    assert!(adopted > 0.0 && adopted < 0.02, "{adopted}");
    // Many at once are one event for one agent.
    let before = house.reputation("alice").unwrap();
    house.advance(31 * 86_400);
    for n in 0..12 {
        house.contract("bob", &format!("later-{n}"));
        house.verify(&format!("later-{n}"), 1.0);
    }
    let mut record = house.contract_record("bob", "rests-on-all");
    record["source_refs"] = json!((0..12).map(|n| format!("alice-{n}")).collect::<Vec<_>>());
    // Thirty-one silent days have moved it meanwhile, a step at every midnight.
    let view = house.authority.ledger().view().unwrap();
    let silent = query::reputation(&*view, &id("alice"), house.now()).unwrap().unwrap().row;
    drop(view);
    assert!(silent.score < before.score && silent.events == before.events && silent.seq == before.seq);
    house.say("bob", StatementKind::Contract, record).unwrap();
    let after = house.reputation("alice").unwrap();
    assert_eq!(after.events, before.events + 1);
    assert!((after.score - silent.score).abs() <= 8.0);
    house.assert_sound();
}

#[test]
fn a_changed_method_without_a_new_version_is_penalised() {
    let house = House::network(&["alice"]);
    house.establish("alice", 3);
    house.identify("alice", "v2", "calibration");
    assert_eq!(house.reputation("alice").unwrap().basis["penalty"]["abuse"], 0.0);
    house.identify("alice", "v2", "sharpe");
    assert_eq!(house.reputation("alice").unwrap().basis["penalty"]["abuse"], 0.25);
    house.advance(31 * 86_400);
    house.contract("alice", "later");
    assert_eq!(house.reputation("alice").unwrap().basis["penalty"]["abuse"], 0.0, "the window has passed");
    house.assert_sound();
}

#[test]
fn spam_is_penalised() {
    let house = House::network(&["alice", "bob"]);
    let spam = || house.reputation("bob").unwrap().basis["penalty"]["spam"].as_f64().unwrap();
    for n in 0..5 {
        let (contract, challenge) = (format!("c-{n}"), format!("ch-{n}"));
        house.contract("alice", &contract);
        house.challenge("bob", &contract, &challenge);
        house.resolve(&challenge, "failed");
        assert_eq!(spam(), if n < 3 { 0.0 } else { 0.25 * f64::from(n - 2) });
    }
    let mut again = house.challenge_record("bob", "c-0", "ch-0");
    again["challenge_id"] = "ch-0-again".into();
    let published = house.say("bob", StatementKind::Challenge, again).unwrap();
    assert!(published.remark.unwrap().contains("spam"));
    assert_eq!(spam(), 0.75);
    house.assert_sound();
}

#[test]
fn what_may_not_be_said_is_refused_and_nothing_is_written() {
    let house = House::network(&["alice", "bob", "carol"]);
    house.contract("alice", "open");
    house.contract("alice", "closed");
    house.contract("bob", "bobs");
    house.challenge("carol", "open", "settled");
    house.resolve("settled", "failed");
    house.advance(25 * 3600);
    house.contract("alice", "fresh");
    house.verify("fresh", 1.0);
    house.contract("alice", "wrong");
    house.verify("wrong", -1.0);
    house.take_up("bob", "fresh");
    house.challenge("carol", "fresh", "pending");
    let stranger = house.authority.add_agent(NewAgent::new(id("stranger")));
    stranger.and_then(|_| house.authority.add_key(&key("stranger").public(), id("stranger"))).unwrap();
    let size = house.size();
    use StatementKind::{Challenge, Contract, Identity, Resolution, Review, Verification};
    let changed = |mut record: Value, field: &str, value: Value| {
        record[field] = value;
        record
    };
    let removed = |mut record: Value, field: &str| {
        record.as_object_mut().unwrap().remove(field);
        record
    };
    let challenge = |by: &str, of: &str| house.challenge_record(by, of, "new");
    let review = || house.review_record("bob", "alice", "fresh", 0.5);
    let second = changed(house.verification_record("fresh", 0.5), "verification_id", "v2".into());
    let receipt = changed(review(), "interaction", json!({"receipt": "x"}));
    let identity =
        changed(house.identity_record("alice", "v1", "sharpe"), "signature_key", key("bob").public().did_key().into());
    for (author, kind, record, code) in [
        ("bob", Challenge, challenge("bob", "closed"), "window_closed"),
        ("alice", Challenge, challenge("alice", "fresh"), "own_contract"),
        ("bob", Challenge, challenge("bob", "nowhere"), "unknown_contract"),
        ("bob", Challenge, challenge("bob", "wrong"), "already_refuted"),
        ("carol", Review, house.review_record("carol", "alice", "wrong", 0.5), "no_interaction"),
        ("stranger", Contract, house.contract_record("stranger", "who"), "no_identity"),
        ("credence", Resolution, house.resolution_record("pending", "successful"), "not_supported"),
        (
            "alice",
            Contract,
            changed(house.contract_record("alice", "x"), "timestamp", "2026-13-45T00:00:00Z".into()),
            "schema_violation",
        ),
        ("bob", Challenge, challenge("carol", "fresh"), "not_author"),
        ("bob", Challenge, removed(challenge("bob", "fresh"), "challenger_agent_id"), "schema_violation"),
        ("bob", Challenge, changed(challenge("bob", "fresh"), "timestamp", "2031-01-01T00:00:00Z".into()), "in_future"),
        ("bob", Review, changed(review(), "subject_agent_id", "bob".into()), "own_review"),
        ("bob", Review, changed(review(), "interaction", json!({"contract": "nowhere"})), "no_interaction"),
        ("bob", Review, changed(review(), "interaction", json!({"contract": "bobs"})), "no_interaction"),
        ("bob", Review, receipt, "no_interaction"),
        ("bob", Review, removed(review(), "interaction"), "schema_violation"),
        ("bob", Review, changed(review(), "rating", json!(1.5)), "schema_violation"),
        ("bob", Review, changed(review(), "subject_agent_id", "nobody".into()), "unknown_agent"),
        ("credence", Resolution, house.resolution_record("nowhere", "failed"), "unknown_challenge"),
        (
            "credence",
            Resolution,
            changed(house.resolution_record("settled", "failed"), "resolution_id", "r2".into()),
            "already_resolved",
        ),
        ("judge", Resolution, house.resolution_record("pending", "failed"), "not_authority"),
        ("alice", Verification, house.verification_record("open", 1.0), "not_verifier"),
        ("judge", Verification, second, "already_verified"),
        ("judge", Verification, house.verification_record("nowhere", 1.0), "unknown_contract"),
        ("bob", Contract, house.contract_record("alice", "theirs"), "not_author"),
        ("judge", Contract, house.contract_record("judge", "sources-do-not"), "unknown_agent"),
        (
            "alice",
            Contract,
            changed(house.contract_record("alice", "fresh"), "risk_band", "high".into()),
            "duplicate_id",
        ),
        (
            "alice",
            Contract,
            changed(house.contract_record("alice", "x"), "risk_band", "none".into()),
            "schema_violation",
        ),
        (
            "alice",
            Contract,
            changed(house.contract_record("alice", "x"), "challenge_window_hours", json!(0)),
            "schema_violation",
        ),
        ("alice", Identity, identity, "identity_key"),
    ] {
        let rejection = house.say(author, kind, record.clone()).expect_err(&record.to_string());
        assert_eq!(rejection.code(), code, "{record}: {rejection}");
    }
    let stranger =
        Statement::sign(id("bob"), aud(), Contract, StrictValue(house.contract_record("bob", "x")), &key("mallory"))
            .unwrap();
    let refused = house.authority.publish(stranger.canonical().as_bytes()).unwrap().unwrap_err();
    assert_eq!(refused.code(), "unknown_key");
    let borrowed =
        Statement::sign(id("bob"), aud(), Contract, StrictValue(house.contract_record("bob", "x")), &key("alice"))
            .unwrap();
    let refused = house.authority.publish(borrowed.canonical().as_bytes()).unwrap().unwrap_err();
    assert_eq!(refused.code(), "key_not_of_source");
    let polished =
        Statement::sign(id("bob"), aud(), Contract, StrictValue(house.contract_record("bob", "x")), &key("bob"))
            .unwrap();
    let polished = polished.canonical().as_str().replace("0.9", "0.8");
    assert_eq!(house.authority.publish(polished.as_bytes()).unwrap().unwrap_err().code(), "bad_signature");
    let schema = house.say("bob", Review, json!({"review_id": "x"})).unwrap_err().to_string();
    assert!(schema.contains("at /") && schema.contains("reviewer_agent_id"), "{schema}");
    assert_eq!(house.size(), size);
    house.assert_sound();
}

#[test]
fn the_same_statement_again_is_the_same_statement() {
    let house = House::network(&["alice"]);
    let record = house.contract_record("alice", "c");
    let first = house.say("alice", StatementKind::Contract, record.clone()).unwrap();
    let again = house.say("alice", StatementKind::Contract, record).unwrap();
    assert_eq!((again.seq, again.known, first.known), (first.seq, true, false));
    let identity = house.identity_record("alice", "v1", "sharpe");
    let first = house.say("alice", StatementKind::Identity, identity.clone()).unwrap();
    assert_eq!(house.say("alice", StatementKind::Identity, identity).unwrap().seq, first.seq);
}

#[test]
fn open_challenges_are_limited() {
    let house = House::network(&["alice", "bob"]);
    house.contract("alice", "c");
    for n in 0..10 {
        house.challenge("bob", "c", &format!("ch-{n}"));
    }
    let record = house.challenge_record("bob", "c", "ch-10");
    assert_eq!(house.say("bob", StatementKind::Challenge, record.clone()).unwrap_err().code(), "too_many_open");
    house.resolve("ch-0", "failed");
    house.say("bob", StatementKind::Challenge, record).unwrap();
    house.assert_sound();
}

#[test]
fn an_agents_key_signs_no_signals_unless_it_is_a_source_too() {
    let house = House::network(&["alice", "bob"]);
    let draft = house.draft("bob", "alice", &["rel_uptime"], 99.0);
    let rejection = house.send(&draft.sign(&key("alice")).unwrap()).unwrap_err();
    assert_eq!(rejection.code(), "unknown_source");
}

#[test]
fn reputations_replay_to_the_same_bytes_and_a_forged_one_is_found() {
    let house = House::network(&["alice", "bob"]);
    house.establish("alice", 12);
    house.contract("alice", "c");
    house.challenge("bob", "c", "ch");
    house.resolve("ch", "failed");
    house.authority.score_now().unwrap();
    let replayed = house.replay();
    assert_eq!(replayed.differences.count, 0, "{:?}", replayed.differences);
    let dump = |house: &House| {
        let view = house.authority.ledger().view().unwrap();
        let mut rows = Vec::new();
        for table in [tables::REPUTATIONS, tables::REPUTATION_EVENTS, tables::CONTRACTS] {
            view.scan(tables::table(table), credence_ledger::Scan::all(), &mut |key, value| {
                rows.push((key.to_owned(), value.to_vec()));
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        }
        rows
    };
    let before = dump(&house);
    credence_pipeline::replay::rebuild(house.authority.ledger()).unwrap();
    assert_eq!(dump(&house), before);
    // A reputation that someone polished in the database.
    let polished = house.reputation("alice").map(|row| ReputationRow { score: 90.0, ..row }).unwrap();
    credence_ledger::write(house.authority.ledger(), move |tx| {
        tables::put(tx, tables::REPUTATIONS, "alice", &polished).map_err(credence_pipeline::Error::from)
    })
    .unwrap();
    let audited = house.audit(false);
    assert!(
        audited.findings.listed.iter().any(|finding| finding.what.contains("table reputations, row 'alice'")),
        "{audited:?}"
    );
    assert_eq!(reputation::history(&*house.authority.ledger().view().unwrap(), &id("alice"), 2).unwrap().len(), 2);
}

#[test]
fn an_own_signal_that_does_not_follow_is_found() {
    let house = House::network(&["alice"]);
    house.establish("alice", 12);
    house.authority.score_now().unwrap();
    let mut draft = house.draft("alice", "credence", &["peer_reputation"], 95.0);
    house.admit(draft.clone());
    draft.id = house.draft("alice", "credence", &["peer_reputation"], 95.0).id;
    draft.evidence = Some(StrictValue(json!({"derivation": "reputation/1", "as_of": house.size()})));
    house.admit(draft);
    let audited = house.audit(false);
    let found = |what: &str| audited.findings.listed.iter().any(|finding| finding.what.contains(what));
    assert!(found("does not say what it was derived from") && found("does not come out again"), "{audited:?}");
}

#[test]
fn a_contract_is_refuted_once_whoever_joins_in() {
    let agents = ["alice", "a", "b", "c"];
    let house = House::network(&agents);
    house.establish("alice", 10);
    house.contract("alice", "claim");
    for challenger in &agents[1..] {
        house.challenge(challenger, "claim", &format!("by-{challenger}"));
    }
    for challenger in &agents[1..] {
        house.resolve(&format!("by-{challenger}"), "successful");
    }
    assert_eq!(house.reputation("alice").unwrap().basis["validation"]["refuted"], 1);
    let verified =
        house.say("judge", StatementKind::Verification, house.verification_record("claim", 1.0)).unwrap_err();
    assert_eq!(verified.code(), "already_verified", "and stays refuted");
    house.assert_sound();
}

#[test]
fn an_identity_said_again_by_someone_who_read_the_log_changes_nothing() {
    let house = House::network(&["alice"]);
    house.establish("alice", 3);
    let old = Statement::sign(
        id("alice"),
        aud(),
        StatementKind::Identity,
        StrictValue(house.identity_record("alice", "v2", "sharpe")),
        &key("alice"),
    )
    .unwrap();
    house.authority.publish(old.canonical().as_bytes()).unwrap().unwrap();
    house.identify("alice", "v3", "calibration");
    let size = house.size();
    assert!(house.authority.publish(old.canonical().as_bytes()).unwrap().unwrap().known);
    assert_eq!(house.size(), size);
}

#[test]
fn a_reputation_without_news_says_nothing_any_more() {
    let house = House::network(&["alice"]);
    house.establish("alice", 12);
    house.authority.score_now().unwrap();
    assert_eq!(house.current().len(), 1);
    house.advance(31 * 86_400);
    house.authority.score_now().unwrap();
    assert!(house.current().is_empty(), "withdrawn");
    assert_eq!(house.recorded("alice").unwrap().status, ScoreStatus::Unrated);
    house.contract("alice", "back");
    house.verify("back", 1.0);
    house.authority.score_now().unwrap();
    assert_eq!(house.current().len(), 1);
    house.assert_sound();
}

/// Publishing both sides of a coin, and having the right one verified, is no skill.
#[test]
fn claims_that_nobody_settles_come_to_nothing() {
    let house = House::network(&["honest", "both"]);
    house.identify("both", "v1", "sharpe");
    for n in 0..20 {
        let (heads, tails) = (format!("h-{n}"), format!("t-{n}"));
        house.contract("both", &heads);
        house.contract("both", &tails);
        house.verify(if n % 2 == 0 { &heads } else { &tails }, 1.0);
        house.advance(86_400);
    }
    house.establish("honest", 20);
    let (both, honest) = (house.reputation("both").unwrap(), house.reputation("honest").unwrap());
    assert!(both.raw < 0.6 * honest.raw, "{} {}", both.raw, honest.raw);
    house.assert_sound();
}
