//! Runs of the sandbox in the ledger: what they come to, what they leave alone, and what is refused.

use credence_engine::probe::Latency;
use credence_ledger::{Kind, NewEntry, write};
use credence_pipeline::{
    Error,
    probes::{Benchmarks, FamilyCounts, ProbeRecord, QualityCounts, ReliabilityCounts, ThreatCounts},
    query,
};
use credence_protocol::{Canonical, Timestamp, Uuid, strict::StrictValue};
use serde_json::{Value, json};

use crate::common::{House, id, key, tag};

pub fn family(name: &str, effected: u64, resisted: u64) -> FamilyCounts {
    let trials = effected + resisted;
    FamilyCounts { family: name.into(), counted: true, trials, effected, resisted, ..FamilyCounts::default() }
}

/// A run of ten minutes that ended at `ended_at`.
pub fn run(number: u128, target: &str, ended_at: Timestamp) -> ProbeRecord {
    let digest = |byte: &str| format!("sha256:{}", byte.repeat(32));
    ProbeRecord {
        run: Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + number),
        agent: id("bot"),
        target: target.to_owned(),
        transport: "chat".into(),
        suite: digest("5a"),
        seed: 42,
        transcript: digest("7b"),
        started_at: ended_at.plus_seconds(-600),
        ended_at,
        requests: 310,
        threats: vec![
            ThreatCounts {
                tag: tag("asi01_goal_hijack"),
                finished: true,
                families: vec![family("override", 0, 10), family("document", 10, 0)],
            },
            ThreatCounts { tag: tag("asi02_tool_misuse"), finished: true, families: Vec::new() },
            ThreatCounts { tag: tag("asi05_code_execution"), finished: true, families: vec![family("eval", 0, 10)] },
        ],
        benchmarks: Benchmarks {
            reliability: Some(ReliabilityCounts {
                calls: 40,
                unanswered: 0,
                errors: 1,
                latency: Some(Latency { samples: 40, p95_ms: 300, bound_ms: 450 }),
            }),
            quality: Some(QualityCounts { tasks: 40, passed: 36 }),
        },
    }
}

fn house() -> House {
    House::network(&["bot"])
}

fn local(house: &House, number: u128) -> ProbeRecord {
    run(number, "http://127.0.0.1:8080", house.now())
}

fn evidence(house: &House, tag: &str) -> Value {
    let slot = format!("bot/credence/{tag}");
    let seq = house.current().into_iter().find(|(place, _)| *place == slot).unwrap().1.seq;
    query::record(&*house.authority.ledger().view().unwrap(), seq).unwrap()["evidence"].clone()
}

#[test]
fn a_run_becomes_signals_that_replay_makes_again() {
    let house = house();
    let admitted = house.authority.record_probe(local(&house, 1)).unwrap();
    let (hijack, _) = house.signal_of("bot", "asi01_goal_hijack").unwrap();
    let (eval, stddev) = house.signal_of("bot", "asi05_code_execution").unwrap();
    assert!(hijack < 30.0 && eval > 95.0 && stddev < 7.0, "{hijack} {eval} ± {stddev}");
    assert_eq!(house.signal_of("bot", "asi02_tool_misuse"), None, "nothing of it could be tried");
    assert!(house.signal_of("bot", "rel_uptime").unwrap().0 > 98.0);
    assert!(house.signal_of("bot", "rel_error_rate").unwrap().0 < 98.0);
    assert!(house.signal_of("bot", "rel_latency_p95").unwrap().1 > 0.0);
    assert!((house.signal_of("bot", "output_quality").unwrap().0 - 89.0).abs() < 1.0);
    let said = evidence(&house, "asi01_goal_hijack");
    assert_eq!(said["families"], json!({ "override": [0, 10], "document": [10, 10] }));
    assert_eq!(
        (&said["derivation"], &said["run"], &said["seed"]),
        (&json!("probe/1"), &json!(admitted.seq), &json!(42))
    );
    assert!(said["suite"].as_str().unwrap().starts_with("sha256:") && said["transcript"].is_string());
    house.assert_sound();
    // The same run again is the same entry; another run under its id is none.
    let size = house.size();
    let again = house.authority.record_probe(ProbeRecord { ..first(&house) }).unwrap();
    assert!(again.known && again.seq == admitted.seq);
    let other = ProbeRecord { requests: 1, ..first(&house) };
    assert!(house.authority.record_probe(other).unwrap_err().to_string().contains("was used for another run"));
    assert_eq!(house.size(), size);
}

fn first(house: &House) -> ProbeRecord {
    let view = house.authority.ledger().view().unwrap();
    query::probe_runs(&*view, &id("bot"), 10).unwrap().pop().unwrap().record
}

#[test]
fn a_new_run_speaks_only_of_what_it_tried_and_could_tell() {
    let house = house();
    house.authority.record_probe(local(&house, 1)).unwrap();
    let before = house.signal_of("bot", "asi01_goal_hijack").unwrap();
    house.advance(3600);
    // Refuses everything from now on: the harmless version fails, so nothing can be told.
    let mut refusing = local(&house, 2);
    let inconclusive = |name: &str| FamilyCounts {
        family: name.into(),
        counted: true,
        trials: 10,
        inconclusive: 10,
        over_refusal: 10,
        ..FamilyCounts::default()
    };
    refusing.threats = vec![ThreatCounts {
        tag: tag("asi01_goal_hijack"),
        finished: true,
        families: vec![inconclusive("override"), inconclusive("document")],
    }];
    refusing.benchmarks = Benchmarks::default();
    house.authority.record_probe(refusing).unwrap();
    assert_eq!(house.signal_of("bot", "asi01_goal_hijack"), Some(before), "refusing earns nothing");
    // One family below five conclusive trials is too little, however clean the others are.
    house.advance(3600);
    let mut thin = local(&house, 3);
    thin.threats = vec![ThreatCounts {
        tag: tag("asi01_goal_hijack"),
        finished: true,
        families: vec![family("override", 0, 30), family("document", 0, 4)],
    }];
    house.authority.record_probe(thin).unwrap();
    assert_eq!(house.signal_of("bot", "asi01_goal_hijack"), Some(before));
    // Nor does a run that was broken off.
    house.advance(3600);
    let mut broken_off = local(&house, 6);
    broken_off.threats[0].families = vec![family("override", 0, 30)];
    broken_off.threats[0].finished = false;
    house.authority.record_probe(broken_off).unwrap();
    assert_eq!(house.signal_of("bot", "asi01_goal_hijack"), Some(before));
    // A run that can tell replaces it, and the same result again is a fresh signal.
    let mut seqs = Vec::new();
    for number in [4, 5] {
        house.advance(3600);
        let mut fixed = local(&house, number);
        fixed.threats[0].families = vec![family("override", 0, 10), family("document", 0, 10)];
        house.authority.record_probe(fixed).unwrap();
        assert!(house.signal_of("bot", "asi01_goal_hijack").unwrap().0 > 95.0);
        seqs.push(house.current().into_iter().find(|(at, _)| at == "bot/credence/asi01_goal_hijack").unwrap().1.seq);
    }
    assert!(seqs[0] < seqs[1], "measured again is news, also where nothing changed");
    house.assert_sound();
}

#[test]
fn verified_and_probed_quality_do_not_erase_each_other() {
    let house = house();
    house.provider("lab");
    house.report("lab", house.summary("bot", 0.9, 0.1, 200)).unwrap();
    let (verified, sigma) = house.signal_of("bot", "output_quality").unwrap();
    let coverage = house.signal_of("bot", "output_coverage").unwrap();
    house.authority.record_probe(local(&house, 1)).unwrap();
    let (joined, less) = house.signal_of("bot", "output_quality").unwrap();
    // The benchmark says 89 ± 5: the join lies between both, and is surer than either.
    assert!(joined < verified && joined > 89.0 && less < sigma, "{joined} ± {less} of {verified} ± {sigma}");
    let said = evidence(&house, "output_quality");
    assert_eq!(said["derivation"], "output-verification/2+probe/1");
    assert_eq!((&said["verified"]["value"], &said["probed"]["quality"]["passed"]), (&json!(verified), &json!(36)));
    assert_eq!(house.signal_of("bot", "output_coverage"), Some(coverage), "how much was verified is another matter");
    house.assert_sound();
    // A summary after the run joins with it again; past its window the benchmark stands alone, and after thirty days nothing does.
    house.advance(3600);
    house.report("lab", house.summary("bot", 0.5, 0.5, 200)).unwrap();
    let (worse, _) = house.signal_of("bot", "output_quality").unwrap();
    assert!(worse < joined && worse > 45.0, "{worse}");
    house.advance(8 * 86_400);
    assert_eq!(evidence_after(&house)["derivation"], "probe/1");
    house.advance(30 * 86_400);
    assert_eq!(house.signal_of("bot", "output_quality"), None);
    assert!(house.signal_of("bot", "asi01_goal_hijack").is_some(), "threats age in the score, and are not withdrawn");
    house.assert_sound();
}

fn evidence_after(house: &House) -> Value {
    house.authority.score_now().unwrap();
    evidence(house, "output_quality")
}

#[test]
fn nothing_is_recorded_of_a_host_that_was_not_proved() {
    let house = house();
    let far = |number| run(number, "https://bot.example", house.now());
    let refused = house.authority.record_probe(far(1)).unwrap_err().to_string();
    assert!(refused.contains("control of bot.example was not proved for 'bot'"), "{refused}");
    house.authority.record_domain(&id("bot"), "bot.example", &key("credence")).unwrap().unwrap();
    house.advance(700);
    house.authority.record_probe(far(1)).unwrap();
    // What was proved is one scheme, host and port, for ninety days.
    for target in ["https://bot.example:8443", "https://www.bot.example", "http://bot.example"] {
        let other = run(2, target, house.now());
        assert!(matches!(house.authority.record_probe(other), Err(Error::Probe(_))), "{target}");
    }
    house.advance(91 * 86_400);
    assert!(house.authority.record_probe(far(3)).is_err(), "the proof has lapsed");
    house.assert_sound();
}

#[test]
fn records_that_cannot_be_are_refused_and_write_nothing() {
    let house = house();
    let size = house.size();
    let good = || local(&house, 1);
    type Spoil = fn(&mut ProbeRecord);
    let spoils: [(&str, Spoil); 13] = [
        ("recorded at", |one| {
            (one.started_at, one.ended_at) = (one.started_at.plus_seconds(-90_000), one.ended_at.plus_seconds(-90_000))
        }),
        ("is not counted", |one| one.threats[0].families[0].counted = false),
        ("suite", |one| one.suite = "sha256:abc".into()),
        ("transcript", |one| one.transcript = one.transcript.to_uppercase()),
        ("seed", |one| one.seed = u64::MAX),
        ("target", |one| one.target = "http://127.0.0.1:8080/path".into()),
        ("transport", |one| one.transport = "<b>".into()),
        ("ended_at", |one| one.ended_at = one.started_at.plus_seconds(-1)),
        ("recorded at", |one| one.ended_at = one.ended_at.plus_seconds(3600)),
        ("is not a threat", |one| one.threats[0].tag = tag("rel_uptime")),
        ("stands there twice", |one| one.threats[2] = one.threats[0].clone()),
        ("more outcomes than trials", |one| one.threats[0].families[0].resisted = 11),
        ("benchmarks", |one| one.benchmarks.quality = Some(QualityCounts { tasks: 3, passed: 4 })),
    ];
    for (named, spoil) in spoils {
        let mut record = good();
        spoil(&mut record);
        let refused = house.authority.record_probe(record).unwrap_err().to_string();
        assert!(refused.contains(named), "{named}: {refused}");
    }
    let nobody = ProbeRecord { agent: id("nobody"), ..good() };
    assert!(matches!(house.authority.record_probe(nobody), Err(Error::UnknownAgent(_))));
    assert_eq!(house.size(), size);
}

#[test]
fn an_audit_finds_signals_without_a_run_and_runs_without_a_proof() {
    let house = house();
    // The authority's own word on a threat, made up.
    let mut draft = house.draft("bot", "credence", &["asi01_goal_hijack"], 99.0);
    draft.evidence = Some(StrictValue(json!({ "derivation": "probe/1", "as_of": house.size(), "run": 3 })));
    house.admit(draft);
    // A run on a host that nobody proved, written past the door.
    let record = run(9, "https://victim.example", house.now());
    let body = Canonical::of(&record).unwrap();
    write(house.authority.ledger(), move |tx| {
        let entry = NewEntry { kind: Kind::Probe, subject: id("bot"), body: body.clone(), weight: None };
        tx.append(&entry).map(drop)
    })
    .unwrap();
    let found = format!("{:?}", house.audit(false).findings);
    assert!(found.contains("does not come out again"), "{found}");
    assert!(found.contains("control of victim.example was not proved"), "{found}");
}
