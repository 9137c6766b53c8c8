//! Output-verification summaries: from providers' reports to signals.

use credence_engine::hcs25::output_verification::Window;
use credence_pipeline::{NewAgent, NewSource, Rejection, query, statements::Published};
use credence_protocol::{ScoreStatus, StatementKind};
use serde_json::{Value, json};

use crate::common::{House, id, key, run_by, verifying_by};

impl House {
    pub fn provider(&self, name: &str) {
        let methodology = Some("https://example.org/how".to_owned());
        self.authority.add_source(NewSource { methodology, ..NewSource::new(id(name), 1.0) }).unwrap();
        // An agent of that name has it already.
        let _ = self.authority.add_key(&key(name).public(), id(name));
    }

    pub fn summary(&self, agent: &str, allow: f64, block: f64, checks: u64) -> Value {
        json!({"agent": agent, "window": "7d", "summary": {"allowRate": allow, "blockRate": block, "avgConfidence": 0.9,
            "totalChecks": checks, "windowDays": 7, "updatedAt": self.now(), "canaries": {"checks": 500, "caught": 480},
            "controls": {"checks": 500, "rejected": 5}}})
    }

    /// The same without anything that shows sight.
    pub fn blind_summary(&self, agent: &str, allow: f64, block: f64, checks: u64) -> Value {
        let mut record = self.summary(agent, allow, block, checks);
        let summary = record["summary"].as_object_mut().unwrap();
        summary.remove("canaries");
        summary.remove("controls");
        record
    }

    pub fn report(&self, provider: &str, record: Value) -> Result<Published, Rejection> {
        let published = self.say(provider, StatementKind::Summary, record);
        self.advance(60);
        published
    }

    pub fn stats(&self, agent: &str) -> query::Stats {
        let view = self.authority.ledger().view().unwrap();
        query::stats(&*view, &id(agent), Window::Week, self.now()).unwrap()
    }

    pub fn signal_of(&self, agent: &str, tag: &str) -> Option<(f64, f64)> {
        self.authority.score_now().unwrap();
        let slot = format!("{agent}/credence/{tag}");
        self.current().into_iter().find(|(place, _)| *place == slot).map(|(_, row)| (row.value, row.stddev))
    }
}

#[test]
fn reports_become_signals_that_move_the_score() {
    let house = House::network(&["bot"]);
    house.provider("lab");
    house.report("lab", house.summary("bot", 0.9, 0.1, 200)).unwrap();
    let (quality, stddev) = house.signal_of("bot", "output_quality").unwrap();
    // Of the tenth that was not accepted a little is false alarm, and a little more was missed.
    assert!((quality - 90.4).abs() < 0.1 && stddev > 1.0 && stddev < 6.0, "{quality} ± {stddev}");
    let (coverage, _) = house.signal_of("bot", "output_coverage").unwrap();
    assert!(coverage <= quality, "bounded by quality: {coverage}");
    assert_eq!(house.score("bot").inputs.len(), 2);
    // The same numbers again are no new signal.
    let size = house.size();
    house.report("lab", house.summary("bot", 0.9, 0.1, 200)).unwrap();
    house.authority.score_now().unwrap();
    assert_eq!(house.size(), size + 1);
    house.assert_sound();
}

#[test]
fn a_second_provider_that_disagrees_lowers_quality() {
    let house = House::network(&["bot"]);
    house.provider("lab");
    house.provider("friend");
    house.report("lab", house.summary("bot", 0.4, 0.6, 500)).unwrap();
    let (alone, _) = house.signal_of("bot", "output_quality").unwrap();
    house.report("friend", house.summary("bot", 0.95, 0.05, 500)).unwrap();
    let (both, stddev) = house.signal_of("bot", "output_quality").unwrap();
    let stats = house.stats("bot");
    let (combined, disagreement) = (stats.signal.combined.unwrap(), stats.signal.disagreement.unwrap());
    assert!((both - (combined - disagreement)).abs() < 1e-6 && disagreement > 20.0);
    assert!((both - alone).abs() < 2.0, "the friend gains the agent nothing: {alone} {both}");
    assert!(stddev > 15.0, "and it is published as uncertain: {stddev}");
    house.assert_sound();
}

#[test]
fn bad_reports_are_refused_and_nothing_is_written() {
    let house = House::network(&["bot", "front"]);
    house.provider("lab");
    house.authority.change_source(id("lab"), run_by("front")).unwrap();
    house.authority.add_source(NewSource::new(id("unadmitted"), 1.0)).unwrap();
    house.authority.add_key(&key("unadmitted").public(), id("unadmitted")).unwrap();
    let kin = NewAgent { owner: Some(id("lab")), ..NewAgent::new(id("kin")) };
    house.authority.add_agent(kin).unwrap();
    let old = house.summary("bot", 0.9, 0.1, 100);
    house.advance(60);
    house.report("lab", house.summary("bot", 0.9, 0.1, 100)).unwrap();
    let size = house.size();
    let with = |path: &str, value: Value| {
        let mut record = house.summary("bot", 0.9, 0.1, 100);
        *record.pointer_mut(path).unwrap() = value;
        record
    };
    let stakes = |level: Value| {
        let mut record = house.summary("bot", 0.9, 0.1, 100);
        record["summary"]["stakeDistribution"] = json!({ "high": level });
        record
    };
    for (provider, record, code) in [
        ("unadmitted", house.summary("bot", 0.9, 0.1, 100), "not_provider"),
        ("lab", house.summary("front", 0.9, 0.1, 100), "self_reported"),
        ("lab", house.summary("kin", 0.9, 0.1, 100), "self_reported"),
        ("lab", house.summary("nobody", 0.9, 0.1, 100), "unknown_agent"),
        ("lab", old, "older_summary"),
        ("lab", with("/summary/allowRate", json!(1.5)), "invalid_summary"),
        ("lab", with("/summary/blockRate", json!(0.5)), "invalid_summary"),
        ("lab", with("/summary/totalChecks", json!(-3)), "invalid_summary"),
        ("lab", with("/summary/totalChecks", json!(10.5)), "invalid_summary"),
        ("lab", stakes(json!({"checks": 101})), "invalid_summary"),
        ("lab", stakes(json!({"checks": -1})), "invalid_summary"),
        ("lab", with("/summary/windowDays", json!(30)), "invalid_summary"),
        ("lab", with("/summary/updatedAt", json!("2031-01-01T00:00:00Z")), "in_future"),
        ("lab", with("/summary/updatedAt", json!("2020-01-01T00:00:00Z")), "invalid_summary"),
        ("lab", with("/window", json!("90d")), "schema_violation"),
    ] {
        let rejection = house.report(provider, record.clone()).expect_err(&record.to_string());
        assert_eq!(rejection.code(), code, "{record}: {rejection}");
    }
    assert_eq!(house.size(), size);
    // Fewer than ten checks is no error: recorded, and it does not count.
    let mut few = stakes(json!({"checks": 50}));
    few["summary"]["totalChecks"] = json!(9);
    assert!(house.report("lab", few).unwrap().remark.unwrap().contains("too few"));
    assert!(!house.stats("bot").hcs25.applicable);
    house.assert_sound();
}

#[test]
fn a_report_counts_until_its_window_has_passed() {
    let house = House::network(&["bot"]);
    house.provider("lab");
    house.report("lab", house.summary("bot", 0.9, 0.1, 100)).unwrap();
    assert!(house.stats("bot").hcs25.applicable && house.signal_of("bot", "output_quality").is_some());
    house.advance(8 * 86_400);
    let stats = house.stats("bot");
    assert!(!stats.hcs25.applicable && stats.hcs25.reason.unwrap().starts_with("stale"));
    assert_eq!(house.signal_of("bot", "output_quality"), None, "withdrawn");
    assert_eq!(house.recorded("bot").unwrap().status, ScoreStatus::Unrated);
    house.assert_sound();
}

/// Whatever makes a report count no more takes the signals with it.
#[test]
fn signals_end_with_what_they_rest_on() {
    type End = fn(&House) -> u64;
    let silence: [(&str, End); 5] = [
        ("weight 0", |house| house.authority.set_weight(id("lab"), 0.0).unwrap()),
        ("no longer admitted", |house| house.authority.change_source(id("lab"), verifying_by("")).unwrap()),
        ("same owner", |house| house.authority.change_source(id("lab"), run_by("bot")).unwrap()),
        ("key revoked", |house| house.authority.revoke_key(key("lab").public().id(), Some(0), None).unwrap()),
        ("rubber stamp", |house| house.report("lab", house.blind_summary("bot", 1.0, 0.0, 500)).unwrap().seq),
    ];
    for (why, end) in silence {
        let house = House::network(&["bot"]);
        house.provider("lab");
        house.report("lab", house.summary("bot", 0.9, 0.1, 100)).unwrap();
        assert!(house.signal_of("bot", "output_quality").is_some());
        // An earlier value must not come back either.
        house.report("lab", house.summary("bot", 0.3, 0.7, 100)).unwrap();
        assert!(house.signal_of("bot", "output_quality").unwrap().0 < 30.0);
        end(&house);
        assert_eq!(house.signal_of("bot", "output_quality"), None, "{why}");
        assert_eq!(house.signal_of("bot", "output_coverage"), None, "{why}");
        house.assert_sound();
        let size = house.size();
        credence_pipeline::replay::rebuild(house.authority.ledger()).unwrap();
        house.assert_sound();
        assert_eq!(house.size(), size, "{why}: a rebuild changes nothing");
    }
}

#[test]
fn a_key_that_is_not_the_authoritys_stops_nothing_but_its_own_signals() {
    let house = House::new(&[("judge", 1.0)], &["bot"]);
    house.provider("lab");
    house.report("lab", house.summary("bot", 0.9, 0.1, 100)).unwrap();
    house.measure("bot", "judge", "rel_uptime", 99.0);
    assert!(house.recorded("bot").is_some());
    assert!(house.authority.own_signals_refused().unwrap().contains("is not registered"));
    house.add_source("credence", 1.0);
    assert!(house.signal_of("bot", "output_quality").is_some(), "and then it goes on");
    house.assert_sound();
}

#[test]
fn odd_stakes_are_found() {
    let house = House::network(&["bot"]);
    house.provider("lab");
    let with = |high: u64| {
        let mut record = house.summary("bot", 0.9, 0.1, 100);
        record["summary"]["stakeDistribution"] = json!({"low": {"checks": 100 - high}, "critical": {"checks": high}});
        record
    };
    for _ in 0..3 {
        house.report("lab", with(5)).unwrap();
    }
    assert!(house.stats("bot").findings.is_empty());
    house.report("lab", with(90)).unwrap();
    let findings = house.stats("bot").findings;
    assert_eq!(findings.len(), 1);
    assert!(findings[0].stake_jump.now == 0.9 && findings[0].provider == "lab");
    // It is the provider's usual share that counts, also for an agent it never spoke of before.
    house.authority.add_agent(NewAgent::new(id("other"))).unwrap();
    let mut record = with(100);
    record["agent"] = "other".into();
    house.report("lab", record).unwrap();
    assert_eq!(house.stats("other").findings.len(), 1);
    house.assert_sound();
}

/// The agent's influence on its provider's own trust is left out, not the provider's report.
#[test]
fn an_agent_does_not_carry_whoever_vouches_for_it() {
    let house = House::network(&["bot", "lab"]);
    house.provider("lab-eye");
    house.authority.change_source(id("lab-eye"), run_by("lab")).unwrap();
    house.add_source("bot-eye", 1.0);
    house.authority.change_source(id("bot-eye"), run_by("bot")).unwrap();
    house.add_source("outsider", 1.0);
    house.measure("lab", "bot-eye", "user_feedback", 100.0);
    house.measure("lab", "outsider", "user_feedback", 40.0);
    assert_eq!(house.score("lab").inputs.len(), 2);
    let before = house.recorded("lab").unwrap();
    house.report("lab-eye", house.summary("bot", 0.9, 0.1, 100)).unwrap();
    let live = house.score("lab");
    assert_eq!(live.inputs.iter().map(|input| input.source.as_str()).collect::<Vec<_>>(), ["outsider"]);
    assert!(house.recorded("lab").unwrap().mean < before.mean);
    assert!(house.signal_of("bot", "output_quality").is_some(), "the report itself counts");
    // Its complaints stay: a provider must not silence its critics by reporting on them.
    house.measure("lab", "bot-eye", "user_feedback", 5.0);
    assert_eq!(house.score("lab").inputs.len(), 2);
    house.assert_sound();
}

#[test]
fn without_a_key_in_order_own_signals_wait_and_everything_else_goes_on() {
    let house = House::network(&["bot"]);
    house.provider("lab");
    house.authority.revoke_key(key("credence").public().id(), None, None).unwrap();
    house.report("lab", house.summary("bot", 0.9, 0.1, 100)).unwrap();
    house.measure("bot", "judge", "rel_uptime", 99.0);
    assert!(house.recorded("bot").is_some());
    assert!(house.authority.own_signals_refused().unwrap().contains("is revoked"));
    assert_eq!(house.signal_of("bot", "output_quality"), None);
    house.assert_sound();
}
