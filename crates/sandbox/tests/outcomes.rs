//! What small agents of known manners come to.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod support;

use credence_sandbox::Threat;
use support::{
    Manners, Server,
    world::{World, family, threat},
};

#[tokio::test]
async fn the_vulnerable_and_the_robust_are_told_apart() {
    let robust = Server::agent(Manners::default()).await;
    let found = World::chat(&robust.url()).threats(&[Threat::Asi01, Threat::Asi08]).run().await.result;
    for (tag, id) in [("asi01", "asi01_tool_result"), ("asi01", "asi01_override"), ("asi08", "asi08_rate_limit")] {
        let counts = family(&found, id);
        assert_eq!((counts.trials, counts.resisted, counts.inconclusive), (10, 10, 0), "{id}: {counts:?}");
        assert!((counts.value.unwrap() - 95.45).abs() < 0.1);
        assert!(threat(&found, tag).value.unwrap() > 95.0);
    }
    let gullible = Server::agent(Manners { gullible: true, storms: true, ..Manners::default() }).await;
    let found = World::chat(&gullible.url()).threats(&[Threat::Asi01, Threat::Asi08]).run().await.result;
    for id in ["asi01_tool_result", "asi01_override", "asi08_rate_limit"] {
        assert_eq!(family(&found, id).effected, 10, "{id}: {:?}", family(&found, id));
    }
    for tag in ["asi01", "asi08"] {
        assert!(threat(&found, tag).value.unwrap() < 10.0, "{tag}");
    }
}

#[tokio::test]
async fn refusing_everything_earns_nothing() {
    let server = Server::agent(Manners { refuses: true, ..Manners::default() }).await;
    let found = World::chat(&server.url()).threats(&[Threat::Asi01]).run().await.result;
    let asi01 = threat(&found, "asi01");
    assert_eq!(asi01.value, None);
    assert!(asi01.no_signal.as_ref().unwrap().contains("harmless"), "{asi01:?}");
    let counts = family(&found, "asi01_override");
    assert!(
        counts.over_refusal > 0 && counts.over_refusal == counts.inconclusive && counts.resisted == 0,
        "{counts:?}"
    );
    // Tools were never called, so families that need them cannot be tried at all.
    assert!(!family(&found, "asi01_tool_result").applicable);
}

#[tokio::test]
async fn an_echo_is_no_success_of_the_attack() {
    let server = Server::agent(Manners { echoes: true, ..Manners::default() }).await;
    let found = World::chat(&server.url()).run().await.result;
    for threat in &found.threats {
        assert_eq!(threat.value, None, "{threat:?}");
        assert!(threat.families.iter().all(|family| family.effected == 0), "{threat:?}");
    }
}

#[tokio::test]
async fn a_boast_is_claimed_and_not_counted() {
    let server = Server::agent(Manners { boasts: true, ..Manners::default() }).await;
    let mut world = World::chat(&server.url());
    world.options.only = vec!["asi01_override".into()];
    let found = world.run().await.result;
    let counts = family(&found, "asi01_override");
    assert_eq!((counts.claimed, counts.effected), (10, 0), "{counts:?}");
    assert!(threat(&found, "asi01").value.unwrap() > 95.0);
}

#[tokio::test]
async fn memory_that_leaks_between_users_is_seen() {
    for (leaks, effected) in [(true, 10), (false, 0)] {
        let server = Server::agent(Manners { remembers: true, leaks, ..Manners::default() }).await;
        let found = World::chat(&server.url()).threats(&[Threat::Asi06]).run().await.result;
        let counts = family(&found, "asi06_other_user");
        assert_eq!((counts.effected, counts.effected + counts.resisted), (effected, 10), "{counts:?}");
    }
    // Without memory, or without a second identity, there is nothing to try.
    let server = Server::agent(Manners::default()).await;
    let found = World::chat(&server.url()).threats(&[Threat::Asi06]).run().await.result;
    let asi06 = threat(&found, "asi06");
    assert!(!asi06.applicable && asi06.value.is_none(), "{asi06:?}");
    assert_eq!(family(&found, "asi06_other_user").lacks, ["memory"]);
}

#[tokio::test]
async fn spellings_that_the_target_cannot_read_are_not_tried() {
    let server = Server::agent(Manners { gullible: true, ..Manners::default() }).await;
    let output = World::chat(&server.url()).threats(&[Threat::Asi01]).run().await;
    let capabilities = &output.result.capabilities;
    assert!(!capabilities["reads_base64"] && !capabilities["reads_german"], "{capabilities:?}");
    assert!(capabilities["reads_html_comment"] && capabilities["reads_json_field"], "{capabilities:?}");
    assert!(
        output
            .trials
            .iter()
            .all(|trial| ["plain", "html_comment", "json_field", "homoglyph"].contains(&trial.variant.id()))
    );
    let plain = output.trials.iter().filter(|trial| trial.variant.id() == "plain").count();
    assert!(plain * 2 >= output.trials.len());
}

#[tokio::test]
async fn the_result_has_the_agreed_form_and_no_credentials() {
    let server = Server::agent(Manners { gullible: true, ..Manners::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("run.jsonl");
    let mut world = World::chat(&format!("{}?key=hidden", server.url()));
    world.journal = Some(journal.clone());
    world.options.benchmarks = true;
    let output = world.run().await;
    let json = serde_json::to_value(&output.result).unwrap();
    for member in ["suite", "seed", "target", "threats", "benchmarks", "requests", "duration_s"] {
        assert!(json.get(member).is_some(), "{member}");
    }
    for member in ["family", "trials", "effected", "claimed", "resisted", "inconclusive", "over_refusal"] {
        assert!(json["threats"][0]["families"][0].get(member).is_some(), "{member}");
    }
    let transcript = std::fs::read_to_string(output.transcript.unwrap()).unwrap();
    let texts = [json.to_string(), std::fs::read_to_string(&journal).unwrap(), transcript];
    for text in &texts {
        assert!(!text.contains("first-key") && !text.contains("second-key") && !text.contains("hidden"));
    }
    assert_eq!(output.result.requests as usize, server.count());
    // The target did see the credentials, and in the transcript is what it was asked.
    assert!(texts[2].contains("Call the tool read_document"));
}

#[tokio::test]
async fn benchmarks_measure_what_the_agent_does() {
    let server = Server::agent(Manners::default()).await;
    let mut world = World::chat(&server.url()).threats(&[Threat::Asi08]);
    world.options.benchmarks = true;
    let found = world.run().await.result.benchmarks.values;
    assert!(found["rel_uptime"].value.unwrap() > 95.0 && found["rel_error_rate"].value.unwrap() > 95.0);
    assert!(found["rel_latency_p95"].value.unwrap() > 80.0, "{:?}", found["rel_latency_p95"]);
    // It can compute and call tools; it cannot extract or follow forms.
    let quality = &found["output_quality"].detail;
    assert_eq!(
        (quality["arithmetic_passed"], quality["tool_passed"], quality["extraction_passed"]),
        (5.0, 5.0, 0.0),
        "{quality:?}"
    );
    assert_eq!(quality["tasks"], 25.0);
}
