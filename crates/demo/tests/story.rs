//! The story, told through the real paths.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is how a test says no")]

use std::collections::BTreeMap;

use credence_demo::{Plan, Stage};
use credence_pipeline::query::Reading;
use credence_protocol::EntityId;
use credence_server::settings::Settings;

fn build(folder: &std::path::Path, seed: u64, days: u32) -> Stage {
    Stage::build(folder, Plan { seed, days }, Settings::default(), "http://127.0.0.1:1", &mut |_| {}).unwrap()
}

#[test]
fn shown() {
    let folder = tempfile::tempdir().unwrap();
    let start = std::time::Instant::now();
    let stage = build(folder.path(), 7, 60);
    println!("{:?} {}", start.elapsed(), stage.entries().unwrap());
    let authority = stage.app.authority();
    let scoring = authority.scoring();
    let reading =
        Reading { tags: &scoring.tags, requirements: authority.requirements(), coverage_floor: scoring.coverage_floor };
    let view = authority.ledger().view().unwrap();
    for one in credence_demo::cast::CAST {
        let live = reading.live(&*view, &EntityId::new(one.id).unwrap()).unwrap();
        let of: BTreeMap<String, String> = live
            .inputs
            .iter()
            .filter(|i| i.source.as_str() == "credence")
            .map(|i| (i.tag.to_string(), format!("{:.1}±{:.1}", i.value, i.stddev)))
            .collect();
        println!(
            "{} {:?} {:?} {} {:?}",
            one.id,
            live.outcome.rated().map(|s| (s.score, (s.stddev * 10.0).round() / 10.0, s.sources)),
            live.certification.tier,
            live.inputs.len(),
            of
        );
    }
    for one in credence_demo::cast::CAST {
        let row: Option<credence_pipeline::reputation::rows::ReputationRow> =
            credence_pipeline::tables::get(&*view, credence_pipeline::tables::REPUTATIONS, one.id).unwrap();
        if let Some(row) = row {
            println!("{} {} {:.1} {:?}", one.id, row.events, row.score, row.factors);
        }
    }
    let curve = credence_pipeline::outcomes::reliability(&*view, None).unwrap();
    println!("{curve:?}");
}
