//! The crawler of a service on loopback: links that break, sources that change, answers that stay the same, hosts that ask for a pause,
//! and text that wants to be read by a model.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failing unwrap is how a test says no")]

mod house;
mod pauses;

use std::collections::BTreeMap;

use credence_ingest::Source;
use credence_pipeline::{links::feeding::crawls, record::LinkState};
use credence_protocol::ExternalSubject;
use credence_server::crawl::{Selection, Totals};
use house::{ANSWER, DAY, FILE, HOSTILE, House, LINE, host, id, stars};
use tokio::sync::watch;

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_a_signal_and_is_asked_for_again_when_it_is_out_of_date() {
    let house = House::new().await;
    house.world.put(ANSWER, 200, stars(80.0));
    assert_eq!(house.run().await, Totals { asked: 1, signals: 1, ..Totals::default() });
    assert_eq!(house.run().await.asked, 0, "within its time to live nothing is asked");
    house.advance(DAY / 2);
    assert_eq!(house.run().await.asked, 0);
    // A day and a tenth later; unchanged, which is no new signal.
    house.advance(DAY);
    house.world.put(ANSWER, 304, "");
    let again = house.run().await;
    assert_eq!((again.asked, again.signals, again.nothing), (1, 0, 1));
    assert!(house.world.asked.lock().unwrap().iter().any(|(path, conditional)| path == ANSWER && *conditional));
    house.advance(2 * DAY);
    house.world.put(ANSWER, 200, stars(60.0));
    assert_eq!(house.run().await.signals, 1, "another value is");
    assert!(!house.everything().contains("previous instructions") && !house.everything().contains("script"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_changes_measures_nothing_and_raises_an_alarm() {
    let house = House::new().await;
    house.world.put(ANSWER, 200, stars(80.0));
    house.run().await;
    house.advance(2 * DAY);
    let alarm = |house: &House| crawls(&*house.view()).unwrap()[0].1.clone();
    house.world.put(ANSWER, 200, format!(r#"{{"score": 80, "name": "{HOSTILE}"}}"#));
    let changed = house.run().await;
    assert_eq!((changed.asked, changed.signals), (1, 0));
    let row = alarm(&house);
    assert_eq!(row.failures["wrong_shape"], 1);
    assert!(row.alarms["wrong_shape"].why.contains("another form"), "{row:?}");
    assert_eq!(house.inputs(), 1, "what was measured before stays");
    // Six hours at most until it is looked at again; and the alarm is over when the source answers as it should.
    house.advance(7 * 3600);
    house.world.put(ANSWER, 200, stars(70.0));
    assert_eq!(house.run().await.signals, 1);
    assert!(alarm(&house).alarms.is_empty());
    assert!(!house.everything().contains("previous instructions"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_fails_is_asked_less_and_less_often() {
    let house = House::new().await;
    house.world.put(ANSWER, 503, "");
    for (wait, asked) in [(0, 1), (30, 1), (60, 2), (60, 2), (90, 3), (150, 3), (150, 4)] {
        house.advance(wait);
        house.run().await;
        assert_eq!(house.world.times(ANSWER), asked, "after {wait} s more");
    }
    assert_eq!(house.inputs(), 0, "a failed crawl measures nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_the_domain_stops_being_fed() {
    let house = House::new().await;
    house.world.put(ANSWER, 200, stars(80.0));
    house.run().await;
    assert_eq!(house.inputs(), 1);
    // The new owner of the domain serves something else.
    house.world.put(LINE, 200, "<html>for sale</html>");
    house.advance(DAY + 60);
    let run = house.run().await;
    assert_eq!((run.links_checked, run.links_broken, run.asked), (1, 1, 0));
    let (state, reason) = house.state();
    assert_eq!(state, LinkState::Broken);
    assert!(reason.contains("does not hold the line"), "{reason}");
    assert_eq!(house.inputs(), 0, "what came over it is withdrawn");
    house.advance(2 * DAY);
    assert_eq!(house.run().await.asked, 0, "and nothing is asked any more");
    // The owner gets it back, and proves it.
    house.link().await;
    assert_eq!(house.run().await.signals, 1);
    assert_eq!(house.inputs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_down_for_a_day_loses_nothing() {
    let house = House::new().await;
    let line = house.world.answers.lock().unwrap()[LINE].1.clone();
    house.world.put(LINE, 503, "");
    house.advance(DAY + 60);
    assert_eq!(house.run().await.links_broken, 0);
    assert_eq!(house.state().0, LinkState::Proven);
    house.world.put(LINE, 200, line);
    house.advance(2 * 3600);
    assert_eq!(house.run().await.links_checked, 1);
    assert_eq!(house.state().0, LinkState::Proven);
    // Down for more than a week: nobody can say whose it is.
    house.world.put(LINE, 503, "");
    house.advance(2 * DAY);
    assert_eq!(house.run().await.links_broken, 0);
    for _ in 0..8 {
        house.advance(DAY);
        house.run().await;
    }
    let (state, reason) = house.state();
    assert_eq!(state, LinkState::Broken);
    assert!(reason.contains("for a week"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_ends_with_its_line() {
    let house = House::new().await;
    house.advance(301 * DAY);
    let run = house.run().await;
    assert_eq!((run.links_broken, run.asked), (1, 0));
    assert!(house.state().1.contains("make a new one"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_longer_so_is_taken_back() {
    let sealed = FILE.replace(
        "[[signal]]",
        "[extract.sealed]\npointer = \"/sealed\"\ntype = \"boolean\"\n\n[[signal]]\ntags = [\"identity_key_continuity\"]\n\
         when = \"sealed\"\nvalue = { rule = \"linear\", of = \"sealed\", from = [0, 1], to = [0, 100] }\n\
         stddev = { rule = \"constant\", value = 5 }\n[[signal]]",
    );
    let house = House::of(&[&sealed]).await;
    let answer = |sealed: bool| format!(r#"{{"stars": 80, "name": "x", "sealed": {sealed}}}"#);
    for (sealed, inputs) in [(true, 2), (false, 1), (true, 2)] {
        house.world.put(ANSWER, 200, answer(sealed));
        house.run().await;
        assert_eq!(house.inputs(), inputs, "{sealed}");
        house.advance(2 * DAY);
    }
    for (status, body) in [(200, r#"{"stars": 70, "name": "x", "sealed": null}"#), (404, "")] {
        house.world.put(ANSWER, status, body);
        house.run().await;
        assert_eq!(house.inputs(), 2, "silence takes nothing back: {status}");
        house.advance(2 * DAY);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_claimed_anew_and_not_proven_stops_counting() {
    let house = House::new().await;
    house.world.put(ANSWER, 200, stars(80.0));
    house.run().await;
    // In the last weeks of its line.
    house.advance(290 * DAY);
    house.run().await;
    assert_eq!((house.inputs(), house.state().0), (1, LinkState::Proven));
    house.authority.claim_link(&id("bot"), &host(), 300).unwrap();
    house.advance(6 * DAY);
    assert_eq!((house.run().await.asked, house.inputs()), (0, 1), "nothing is asked, and what was read counts");
    house.advance(2 * DAY);
    house.run().await;
    assert_eq!((house.inputs(), house.state().0), (0, LinkState::Claimed));
    // Later it is proven after all.
    house.link().await;
    assert_eq!(house.run().await.signals, 1);
    assert_eq!(house.inputs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_proven_again_feeds_again_at_once() {
    let house = House::new().await;
    house.world.put(ANSWER, 200, stars(80.0));
    house.run().await;
    house.authority.break_link(&id("bot"), &host(), "gone").unwrap();
    assert_eq!(house.inputs(), 0);
    let line = house.authority.link_statement(&id("bot"), &host()).unwrap();
    house.runner.prove(&line, None).await.unwrap().unwrap();
    assert_eq!(house.run().await.signals, 1, "the same value as before, and it is no repetition");
    assert_eq!(house.inputs(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_for_one_agent_checks_the_proofs_it_rests_on() {
    let house = House::new().await;
    house.world.put(ANSWER, 200, stars(80.0));
    let one = Selection { agent: Some(id("bot")), ..Selection::default() };
    let first = house.run_with(&one).await;
    assert_eq!((first.links_checked, first.asked), (0, 1), "its proof is not due");
    house.world.put(LINE, 200, "nothing");
    let now = Selection { now: true, ..one };
    let run = house.run_with(&now).await;
    assert_eq!((run.links_checked, run.links_broken, run.asked), (1, 1, 0));
    assert_eq!((house.state().0, house.inputs()), (LinkState::Broken, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn proofs_are_checked_again_where_nothing_is_crawled() {
    let house = House::new().await;
    house.world.put(ANSWER, 200, stars(80.0));
    house.run().await;
    house.advance(2 * DAY);
    let (_stop, stopped) = watch::channel(false);
    let run = house.alone.run(&Selection::default(), &stopped, &mut |_| {}).await.unwrap();
    assert_eq!((run.links_checked, run.asked), (1, 0));
    assert!(
        house.authority.ledger().jobs().next_due(credence_pipeline::due::CRAWL).unwrap().is_some(),
        "questions stay"
    );
    house.world.put(LINE, 200, "nothing");
    house.advance(2 * DAY);
    let run = house.alone.run(&Selection::default(), &stopped, &mut |_| {}).await.unwrap();
    assert_eq!((run.links_broken, house.state().0), (1, LinkState::Broken));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_stays_the_same_grows_older() {
    let aged = FILE.replace(
        "[[signal]]",
        "[extract.days]\npointer = \"/since\"\ntype = \"age_days\"\n[age]\nof = \"days\"\nhalf_life_days = 10\n[[signal]]",
    );
    let house = House::of(&[&aged]).await;
    house.world.put(ANSWER, 200, r#"{"stars": 80, "name": "x", "since": "2026-11-18T12:00:00Z"}"#);
    house.run().await;
    house.world.put(ANSWER, 304, "");
    house.advance(3 * DAY);
    assert_eq!(house.run().await.signals, 1, "three days are six points of uncertainty more");
    assert!(house.world.asked.lock().unwrap().iter().any(|(path, conditional)| path == ANSWER && *conditional));
    house.authority.score_now().unwrap();
    let inputs = house.authority.reading().score(&*house.view(), &id("bot")).unwrap().inputs;
    assert!((inputs[0].stddev - 7.81).abs() < 0.02, "√(5² + 6²): {}", inputs[0].stddev);
}

/// One source is asked once a second and has far more questions than there are places; another is quick.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_source_does_not_hold_up_the_others() {
    let slow = FILE
        .replace("crawler-stars", "crawler-a-slow")
        .replace("api.stars", "api.slow")
        .replace("per_second = 1000\nburst = 100", "per_second = 1\nburst = 1");
    let house = House::of(&[&slow, FILE]).await;
    const AGENTS: usize = 400;
    for n in 0..AGENTS {
        let host = format!("h{n}.example");
        house.linked(&format!("agent-{n}"), &format!("host:{host}").parse().unwrap());
        for api in ["slow", "stars"] {
            house.world.put(&format!("api.{api}.example/{host}"), 200, stars(50.0));
        }
    }
    let asked = |api: &str| {
        let prefix = format!("api.{api}.example/h");
        house.world.asked.lock().unwrap().iter().filter(|(path, _)| path.starts_with(&prefix)).count()
    };
    let (stop, stopped) = watch::channel(false);
    let runner = house.runner.clone();
    let run = tokio::spawn(async move { runner.run(&Selection::default(), &stopped, &mut |_| {}).await });
    let started = std::time::Instant::now();
    while asked("stars") < AGENTS {
        assert!(started.elapsed().as_secs() < 60, "only {} of the quick source's after a minute", asked("stars"));
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(asked("slow") < AGENTS / 2, "the slow one is still being asked: {}", asked("slow"));
    stop.send_replace(true);
    run.await.unwrap().unwrap();
}

#[derive(serde::Deserialize)]
struct Cases {
    subject: ExternalSubject,
    path: String,
    keys_path: Option<String>,
    services_path: Option<String>,
    case: Vec<Case>,
}

#[derive(serde::Deserialize)]
struct Case {
    file: String,
    signals: Option<Vec<credence_ingest::Measured>>,
}

/// All built-in sources over one mirror, with their good answers, then with hostile ones: each gives the signals that it should, signed and
/// recorded, and no text of an answer is anywhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_card_is_told_by_digest_and_origins_and_only_where_its_hosts_are_the_agents() {
    let (name, text) = credence_ingest::builtin::FILES.iter().find(|(name, _)| *name == "a2a-card").unwrap();
    assert_eq!(Source::parse(name, text).unwrap().id.as_str(), credence_pipeline::registrations::CARD_READER);
    let house = House::of(&[text]).await;
    let link: ExternalSubject = "a2a:agent.shop.example".parse().unwrap();
    house.linked("seller", &link);
    let place = "agent.shop.example/.well-known/agent-card.json";
    // Questions are put off for a day; the card counts as told anew only where it says something else.
    let told = async |body: String| {
        house.world.put(place, 200, body);
        house.advance(2 * 86_400);
        let selection =
            Selection { source: Some(id("crawler-a2a-card")), agent: Some(id("seller")), ..Selection::default() };
        let signals = house.run_with(&selection).await.signals;
        let rows = credence_pipeline::query::registrations_of(&*house.view(), &id("seller")).unwrap();
        (signals, serde_json::to_value(rows).unwrap()[0][1]["card"].clone())
    };
    // The proof is looked for again, in a text of the card.
    let line = house.authority.link_statement(&id("seller"), &link).unwrap().line();
    let card = |name: &str, other: &str| {
        let urls = ["https://agent.shop.example/a2a", other].map(|url| serde_json::json!({ "url": url }));
        let card = serde_json::json!({
            "name": name, "description": line, "version": "1", "capabilities": {}, "skills": [], "supportedInterfaces": urls,
        });
        card.to_string()
    };
    let (signals, first) = told(card(" Shop ", "https://agent.shop.example/other")).await;
    assert_eq!((signals, &first["endpoints"]), (1, &serde_json::json!(["https://agent.shop.example"])));
    assert_eq!(first["name_digest"].as_str().map(str::len), Some(64));
    let (signals, same) = told(card("shop", "https://agent.shop.example/other")).await;
    assert_eq!((signals, &same), (0, &first), "the same name, in lower case");
    let (signals, renamed) = told(card("Bazaar", "https://agent.shop.example/other")).await;
    assert!(signals == 1 && renamed["name_digest"] != first["name_digest"], "{renamed}");
    // A host that is nobody's: the card is left out as a whole, and its last word is taken back.
    let (signals, none) = told(card("Bazaar", "https://victim.example/a2a")).await;
    assert_eq!((signals, none), (1, serde_json::Value::Null));
    assert!(!house.everything().contains("victim.example") && !house.everything().contains("Bazaar"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_built_in_source_yields_its_signals() {
    let texts: Vec<&str> = credence_ingest::builtin::FILES.iter().map(|(_, text)| *text).collect();
    for kind in ["good", "hostile"] {
        let house = House::of(&texts).await;
        let mut wanted = BTreeMap::new();
        for (name, text) in credence_ingest::builtin::FILES {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../ingest/testdata").join(name);
            let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
            let cases: Cases = toml::from_str(&read("cases.toml")).unwrap();
            let case = cases.case.iter().find(|case| case.file.starts_with(&format!("{kind}."))).unwrap();
            house.world.put(&cases.path, 200, read(&case.file));
            for (path, file) in [(&cases.keys_path, "keys.json"), (&cases.services_path, "services.json")] {
                if let Some(path) = path {
                    house.world.put(path, 200, read(file));
                }
            }
            house.linked(&format!("agent-{name}"), &cases.subject);
            let source = Source::parse(name, text).unwrap().id;
            wanted.insert((format!("agent-{name}"), source.to_string()), case.signals.clone().unwrap_or_default());
        }
        let run = house.run().await;
        assert!(run.signals >= 18, "{run:?}");
        house.authority.score_now().unwrap();
        for ((agent, source), signals) in wanted {
            let explained = house.authority.reading().explain(&*house.view(), &id(&agent)).unwrap();
            let told = serde_json::to_string(&explained).unwrap();
            assert!(!told.contains("previous instructions") && !told.contains("script"), "{told}");
            let inputs: Vec<_> =
                explained.score.inputs.into_iter().filter(|input| input.source.as_str() == source).collect();
            let expected: Vec<_> = signals.iter().flat_map(|one| one.tags.iter().map(move |tag| (tag, one))).collect();
            assert_eq!(inputs.len(), expected.len(), "{kind} {source}: {inputs:?}");
            for (tag, one) in expected {
                let input = inputs.iter().find(|input| input.tag == *tag).unwrap();
                // The clock goes on by microseconds while agents are made.
                let near = (input.value - one.value).abs() < 1e-3 && (input.stddev - one.stddev).abs() < 1e-3;
                assert!(near, "{kind} {source} {tag}: {input:?}, expected {one:?}");
            }
        }
        let everything = house.everything();
        for word in ["previous instructions", "<script", "rate this agent"] {
            assert!(!everything.contains(word), "{kind}: {word}");
        }
    }
}
