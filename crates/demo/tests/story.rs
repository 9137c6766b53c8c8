//! The story, told through the real paths, holds what it promises.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is how a test says no")]

use std::{collections::BTreeMap, path::Path};

use credence_demo::{
    Demo, Plan,
    cast::{CAST, PRAISED, REVOKED},
    sources::PRAISE,
};
use credence_engine::{assured::Dimension, universal};
use credence_ledger::{LogVerifier, OutsideCheckpoint, View};
use credence_pipeline::{
    audit::{Scope, audit},
    query::{self, CurrentScore},
    replay::replay,
};
use credence_protocol::EntityId;
use credence_server::settings::Settings;

fn build(folder: &Path, seed: u64, days: u32) -> Demo {
    Demo::build(folder, Plan { seed, days }, Settings::default(), "http://127.0.0.1:1", &mut |_| {}).unwrap()
}

fn id(agent: &str) -> EntityId {
    EntityId::new(agent).unwrap()
}

fn newest(demo: &Demo, view: &dyn View, agent: &str) -> CurrentScore {
    demo.app.authority().reading().score(view, &id(agent)).unwrap()
}

fn score(demo: &Demo, view: &dyn View, agent: &str) -> u8 {
    newest(demo, view, agent).outcome.rated().unwrap().score
}

fn measured(score: &CurrentScore, tag: &str) -> Option<f64> {
    score
        .inputs
        .iter()
        .find(|input| input.source.as_str() == "credence" && input.tag.as_str() == tag)
        .map(|one| one.value)
}

#[test]
fn everyone_shows_what_it_is_there_to_show() {
    let folder = tempfile::tempdir().unwrap();
    let demo = build(folder.path(), 7, 30);
    let authority = demo.app.authority();

    // Whoever distrusts the demo can check it like any other ledger.
    let log = LogVerifier::parse(&demo.log_key).unwrap();
    let outside = OutsideCheckpoint::at(folder.path().join("checkpoint")).read(&log);
    let view = authority.ledger().view().unwrap();
    let tags = &authority.scoring().tags;
    let audited =
        audit(&*view, Scope { log: &log, outside: &outside, tags, now: None, quick: false }, &mut |_| {}).unwrap();
    assert_eq!(audited.findings.count, 0, "{:?}", audited.findings);
    let replayed = replay(&*view, tags, &mut |_| {}).unwrap();
    assert_eq!(replayed.differences.count, 0, "{:?}", replayed.differences);
    assert!(replayed.score_events > 200);

    // Steady against fabricating.
    let [steady, fabricating] = ["atlas-travel", "marlow-research"].map(|agent| newest(&demo, &*view, agent));
    let quality = |score: &CurrentScore| measured(score, "output_quality").unwrap();
    assert!(quality(&fabricating) + 15.0 < quality(&steady), "{} {}", quality(&fabricating), quality(&steady));
    let of = |agent: &str| score(&demo, &*view, agent);
    assert!(of("marlow-research") + 20 < of("atlas-travel"));

    // Rubber-stamped: a verifier that shows no power says nothing, and one source is little.
    let stamped = newest(&demo, &*view, "polished-concierge");
    assert_eq!(measured(&stamped, "output_quality"), None);
    assert!(of("polished-concierge") < 40 && of("sprout-helper") < 40);

    // Praise by newborns and by a site that counts for little gains little.
    let praised = newest(&demo, &*view, PRAISED);
    let unpraised: Vec<_> = praised.inputs.iter().filter(|input| input.source.as_str() != PRAISE).cloned().collect();
    let weighted: Vec<_> = credence_pipeline::filter::weighted(&unpraised).collect();
    let plain = universal::score(&weighted, 0.1).unwrap().rated().unwrap().score;
    assert!(of(PRAISED) <= plain + 8, "{} {plain}", of(PRAISED));
    assert!(measured(&praised, "peer_reputation").is_none_or(|value| value < 10.0));

    // Drift and recovery.
    let course = |agent: &str| -> Vec<u8> {
        let mut all: Vec<u8> =
            query::history(&*view, &id(agent), 1_000).unwrap().iter().map(|row| row.recorded.score).collect();
        all.reverse();
        all
    };
    let (drifting, recovering) = (course("quanta-fx"), course("phoenix-desk"));
    let best = drifting[..drifting.len() / 2].iter().max().unwrap();
    assert!(of("quanta-fx") + 15 < *best, "{drifting:?}");
    assert!(recovering[3] + 15 < of("phoenix-desk"), "{recovering:?}");

    // What silence, a hole in security, bought popularity and cheap sources do to either score.
    let both = |agent: &str| {
        let score = newest(&demo, &*view, agent);
        let assured = score.assured.as_ref().unwrap().numbers.clone();
        (score.outcome.rated().unwrap().score, assured)
    };
    let (universal, silent) = both("lighthouse-archive");
    assert!(universal >= 75 && silent.score < 50 && silent.known < 0.45, "{universal} {silent:?}");
    let first = query::assured_history(&*view, &id("lighthouse-archive"), 1_000).unwrap();
    let best = first.iter().map(|row| row.recorded.assured.score).max().unwrap();
    assert!(silent.score + 15 <= best && first[0].aged_at.is_some(), "{best} {silent:?}");
    let (universal, holed) = both("gearbox-runner");
    assert!(universal >= 70 && holed.cap < 45.0 && f64::from(holed.score) <= holed.cap + 0.5, "{universal} {holed:?}");
    let (universal, bought) = both("popstar-pal");
    assert!(bought.dimensions[&Dimension::Adoption].estimate > 75.0, "{bought:?}");
    assert!(bought.steps.iter().all(|step| step.name != "adoption" || step.value == 0.0), "{bought:?}");
    assert!(universal > bought.score + 5, "{universal} {bought:?}");
    let cheap = newest(&demo, &*view, "echo-chamber");
    assert_eq!(cheap.outcome.rated().unwrap().sources, 1, "four sites of weight 0.02 are no independent sources");

    // Taken back, with a reason; and a name as it was given.
    let row = |agent: &str| query::agent(&*view, &id(agent)).unwrap();
    assert!(row(REVOKED).revoked.is_some());
    assert_eq!(row("zoe-soehne").name.as_deref(), Some("<b>Zoë & Söhne</b> \"Tools\""));

    // The score puts good outcomes above bad ones.
    let reliability = query::reliability(&*view, None).unwrap();
    assert!(reliability.curve.concordance.unwrap() > 0.55, "{reliability:?}");
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let told = |seed: u64| {
        let folder = tempfile::tempdir().unwrap();
        let demo = build(folder.path(), seed, 8);
        let view = demo.app.authority().ledger().view().unwrap();
        let scores: BTreeMap<&str, String> =
            CAST.iter().map(|one| (one.id, format!("{:?}", newest(&demo, &*view, one.id).outcome))).collect();
        (demo.entries().unwrap(), scores)
    };
    let once = told(3);
    assert_eq!(told(3), once);
    assert_ne!(told(4).1, once.1);
}
