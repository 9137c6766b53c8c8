//! The demo's crawled sources are read by the real crawler.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is how a test says no")]

use std::sync::Arc;

use credence_demo::{Demo, Plan, clock::system_time, outside::Outside};
use credence_ledger::{LogVerifier, OutsideCheckpoint};
use credence_pipeline::audit::{Scope, audit};
use credence_protocol::EntityId;
use credence_server::settings::Settings;

#[tokio::test(flavor = "multi_thread")]
async fn stars_and_disclosures_come_through_the_crawler() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_owned();
    let plan = Plan { seed: 7, days: 10 };
    let build = move || Demo::build(&place, plan, Settings::default(), "http://127.0.0.1:1", &mut |_| {}).unwrap();
    let demo = tokio::task::spawn_blocking(build).await.unwrap();
    let (outside, stand_in) = Outside::start(Arc::clone(&demo.app), Arc::new(system_time)).await.unwrap();
    let stand_in = tokio::spawn(stand_in);
    // All of them take half a minute: the sources are asked politely.
    let links =
        outside.link_agents(|one| ["atlas-travel", "popstar-pal", "wildcat-ops"].contains(&one.id)).await.unwrap();
    assert_eq!(links, 6);
    let totals = outside.crawl().await.unwrap();
    assert_eq!((totals.asked, totals.signals), (6, 5), "one host discloses nothing: {totals:?}");
    assert_eq!(outside.crawl().await.unwrap().asked, 0, "nothing is asked again before its time");
    stand_in.abort();

    let authority = demo.app.authority();
    authority.score_now().unwrap();
    let view = authority.ledger().view().unwrap();
    let stars = |agent: &str| {
        let score = authority.reading().score(&*view, &EntityId::new(agent).unwrap()).unwrap();
        let mut inputs = score.inputs.iter();
        inputs.find(|input| input.source.as_str() == "crawler-github").map(|input| input.value).unwrap()
    };
    assert!(stars("popstar-pal") > stars("atlas-travel"), "bought popularity is popularity");
    assert!(stars("atlas-travel") > stars("wildcat-ops"));

    let log = LogVerifier::parse(&demo.log_key).unwrap();
    let checkpoint = OutsideCheckpoint::at(folder.path().join("checkpoint")).read(&log);
    let tags = &authority.scoring().tags;
    let scope = Scope { log: &log, outside: &checkpoint, tags, now: None, quick: false };
    let audited = audit(&*view, scope, &mut |_| {}).unwrap();
    assert_eq!(audited.findings.count, 0, "{:?}", audited.findings);
}
