//! What a crawler does when an answer is none: clear reasons, no measurement, no secret where it does not belong.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failing unwrap is how a test says no")]

mod common;

use std::{sync::Arc, time::Duration};

use common::World;
use credence_egress::{Egress, Settings, Validators};
use credence_ingest::{Asked, Crawler, Failure, Reason, Source, builtin};
use credence_protocol::{ExternalSubject, Timestamp};

const PATH: &str = "api.github.com/repos/acme/weather";
/// A list that is the same for everyone who asks.
const LISTING: &str = include_str!("common/listing.toml");
const GOOD: &str = include_str!("../testdata/github/good.json");

fn github() -> &'static Source {
    builtin::find("crawler-github").unwrap().unwrap()
}

fn listing(text: &str) -> Source {
    Source::parse("listing.toml", text).unwrap()
}

fn subject() -> ExternalSubject {
    ExternalSubject::parse("repository:github.com/acme/weather").unwrap()
}

fn now() -> Timestamp {
    "2026-11-18T12:00:00Z".parse().unwrap()
}

async fn failure(world: &World) -> Failure {
    match world.crawler().await.ask(github(), &subject(), None, now()).await {
        Asked::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn answers_that_are_none_have_a_reason() {
    type Case = (u16, &'static [(&'static str, &'static str)], &'static str, Reason);
    let cases: [Case; 8] = [
        (404, &[], "{}", Reason::Absent),
        (410, &[], "{}", Reason::Absent),
        (401, &[], "{}", Reason::Refused),
        (429, &[], "{}", Reason::RateLimited),
        (503, &[], "{}", Reason::ServerError),
        (301, &[("location", "http://127.0.0.1:1/elsewhere")], "", Reason::Redirected),
        (302, &[("location", "http://169.254.169.254/latest/meta-data")], "", Reason::Redirected),
        (200, &[("content-encoding", "gzip")], "\u{1f}", Reason::TooLarge),
    ];
    for (status, headers, body, reason) in cases {
        let world = World::default();
        world.put_with(PATH, status, headers, body);
        assert_eq!(failure(&world).await.reason, reason, "{status} {headers:?}");
    }
}

#[tokio::test]
async fn a_source_that_asks_to_wait_is_left_alone() {
    let world = World::default();
    world.put_with(PATH, 429, &[("retry-after", "120")], "");
    let crawler = world.crawler().await;
    for _ in 0..2 {
        let Asked::Failed(failure) = crawler.ask(github(), &subject(), None, now()).await else { panic!() };
        assert_eq!(failure.reason, Reason::RateLimited);
        assert!(failure.retry_after.unwrap() > Duration::from_secs(100), "{failure:?}");
    }
    // The second time nothing was sent.
    assert_eq!(world.paths().len(), 1);
}

/// GitHub's way to say that the quota of an hour is used up.
#[tokio::test]
async fn a_quota_that_is_used_up_is_waited_for() {
    let world = World::default();
    world.put_with(PATH, 403, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1800")], "{}");
    let crawler = world.crawler().await;
    for unsent in [false, true] {
        let Asked::Failed(failure) = crawler.ask(github(), &subject(), None, now()).await else { panic!() };
        assert_eq!((failure.reason, failure.unsent), (Reason::RateLimited, unsent));
        assert!(failure.retry_after.unwrap() > Duration::from_secs(1_700), "{failure:?}");
    }
    assert_eq!(world.paths().len(), 1);
    let world = World::default();
    world.put_with(PATH, 403, &[("x-ratelimit-remaining", "17")], "{}");
    assert_eq!(failure(&world).await.reason, Reason::Refused, "and no other 403 is");
}

#[tokio::test]
async fn a_hundred_megabytes_are_not_read() {
    let world = World::default();
    world.put(PATH, 200, vec![b' '; 100 * 1024 * 1024]);
    assert_eq!(failure(&world).await.reason, Reason::TooLarge);
}

#[tokio::test]
async fn an_answer_that_has_not_changed_is_not_sent_again() {
    let world = World::default();
    world.put_with(PATH, 200, &[("etag", "\"one\""), ("x-ratelimit-remaining", "4998")], GOOD);
    let crawler = world.crawler().await;
    let Asked::Answered(first) = crawler.ask(github(), &subject(), None, now()).await else { panic!() };
    assert_eq!(first.quota, Some(4998));
    let since: Validators = first.validators;
    world.put(PATH, 304, "");
    assert!(matches!(crawler.ask(github(), &subject(), Some(&since), now()).await, Asked::Unchanged));
    let asked = world.asked.lock().unwrap();
    assert!(asked[1].1.contains(&("if-none-match".to_owned(), "\"one\"".to_owned())), "{asked:?}");
}

#[tokio::test]
async fn private_addresses_are_refused_without_a_mirror() {
    let settings = Settings::for_purpose("crawl");
    let crawler = Crawler::new(Egress::new(settings).unwrap(), None, Arc::new(|_| None));
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/sources/github.toml")).unwrap();
    for host in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]"] {
        let source = Source::parse("x.toml", &text.replace("api.github.com", host)).unwrap();
        let Asked::Failed(failure) = crawler.ask(&source, &subject(), None, now()).await else { panic!("{host}") };
        assert_eq!(failure.reason, Reason::Forbidden, "{host}");
    }
}

#[tokio::test]
async fn secrets_do_not_go_to_a_mirror_and_a_missing_one_is_told() {
    let world = World::default();
    world.put(PATH, 200, GOOD);
    let crawler = world.crawler().await;
    assert!(matches!(crawler.ask(github(), &subject(), None, now()).await, Asked::Answered(_)));
    assert!(
        world.asked.lock().unwrap().iter().all(|(_, headers)| headers.iter().all(|(name, _)| name != "authorization"))
    );
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/sources/github.toml")).unwrap();
    let needing = text.replace(r#"prefix = "Bearer " }"#, r#"prefix = "Bearer ", required = true }"#);
    let source = Source::parse("x.toml", &needing).unwrap();
    let alone = Crawler::new(Egress::new(Settings::for_purpose("crawl")).unwrap(), None, Arc::new(|_| None));
    let Asked::Failed(failure) = alone.ask(&source, &subject(), None, now()).await else { panic!() };
    assert_eq!((failure.reason, failure.why.as_str()), (Reason::NoSecret, "GITHUB_TOKEN is not set"));
    let broken =
        Crawler::new(Egress::new(Settings::for_purpose("crawl")).unwrap(), None, Arc::new(|_| Some("a\nb".into())));
    let Asked::Failed(failure) = broken.ask(&source, &subject(), None, now()).await else { panic!() };
    assert_eq!(failure.reason, Reason::NoSecret);
    assert!(!failure.why.contains("a\nb"));
}

#[tokio::test]
async fn pages_are_turned_until_the_subject_is_found() {
    let source = &listing(LISTING);
    let wallet = "0x8004a169fb4a3325136eb29fa0ceb6d2e539a432";
    let subject = ExternalSubject::parse(&format!("wallet:eip155:8453:{wallet}")).unwrap();
    let page = |pay: &str| {
        format!(
            r#"{{"items": [{{"resource": "https://a.example/x", "accepts": [{{"payTo": "{pay}"}}],
            "quality": {{"l30DaysUniquePayers": 7, "l30DaysTotalCalls": 9}}}}], "pagination": {{"total": 450}}}}"#
        )
    };
    let base = "api.cdp.coinbase.com/platform/v2/x402/discovery/resources?limit=100&offset=";
    let world = World::default();
    let other = "0x1111111111111111111111111111111111111111";
    for (offset, pay) in [(0, other), (100, other), (200, wallet), (300, wallet)] {
        world.put(&format!("{base}{offset}"), 200, page(pay));
    }
    let asked = world.crawler().await.ask(source, &subject, None, now()).await;
    let Asked::Answered(answered) = asked else { panic!("{asked:?}") };
    assert_eq!(answered.outcome.unwrap().numbers["payers"], 7.0);
    assert_eq!(world.paths().len(), 3, "the page after the subject's is not asked for");
}

/// OSV tells very many vulnerabilities in pages, whose token goes into the body.
#[tokio::test]
async fn a_list_that_is_the_subjects_as_a_whole_is_read_to_its_end() {
    let source = builtin::find("crawler-osv").unwrap().unwrap();
    let subject: ExternalSubject = "package:pkg:npm/@acme/weather@1.2.0".parse().unwrap();
    let path = "api.osv.dev/v1/query";
    let vulns = |word: &str| format!(r#""vulns": [{{"id": "GHSA-1", "database_specific": {{"severity": "{word}"}}}}]"#);
    let purl = r#""purl":"pkg:npm/%40acme/weather@1.2.0""#;
    let world = World::default();
    // The second page was late, and says nothing but where it goes on.
    world.put_for(path, r#""page_token":"two""#, r#"{"next_page_token": "three"}"#);
    world.put_for(path, r#""page_token":"three""#, format!("{{{}}}", vulns("LOW")));
    world.put_for(path, purl, format!(r#"{{{}, "next_page_token": "two"}}"#, vulns("HIGH")));
    let asked = world.crawler().await.ask(source, &subject, None, now()).await;
    let Asked::Answered(answered) = asked else { panic!("{asked:?}") };
    let reading = answered.outcome.unwrap();
    assert_eq!((reading.measured[0].value, reading.numbers["vulnerabilities"]), (65.0, 2.0));
    assert_eq!(world.paths(), [path; 3]);

    // A page of another form, and a list without an end, say nothing.
    let world = World::default();
    world.put_for(path, r#""page_token":"two""#, r#"{"error": "quota"}"#);
    world.put_for(path, purl, format!(r#"{{{}, "next_page_token": "two"}}"#, vulns("HIGH")));
    let asked = world.crawler().await.ask(source, &subject, None, now()).await;
    assert!(
        matches!(&asked, Asked::Answered(one) if Reason::of(one.outcome.as_ref().unwrap_err()) == Reason::WrongShape)
    );
    let world = World::default();
    world.put_for(path, purl, format!(r#"{{{}, "next_page_token": "again"}}"#, vulns("HIGH")));
    let asked = world.crawler().await.ask(source, &subject, None, now()).await;
    assert!(matches!(&asked, Asked::Answered(one) if Reason::of(one.outcome.as_ref().unwrap_err()) == Reason::Beyond));
    assert_eq!(world.paths().len(), 10);
}

#[tokio::test]
async fn a_list_is_read_once_for_all_and_what_is_not_read_of_it_is_not_known() {
    let source = &listing(LISTING);
    let wallet = |n: u64| format!("0x{n:040x}");
    let subject = |n: u64| ExternalSubject::parse(&format!("wallet:eip155:8453:{}", wallet(n))).unwrap();
    let page = |from: u64, total: u64| {
        let items: Vec<String> = (from..(from + 100).min(total))
            .map(|n| {
                format!(
                    r#"{{"resource": "https://a.example/x", "accepts": [{{"payTo": "{}"}}],
                "quality": {{"l30DaysUniquePayers": {}, "l30DaysTotalCalls": 9}}}}"#,
                    wallet(n),
                    n + 1
                )
            })
            .collect();
        format!(r#"{{"items": [{}], "pagination": {{"total": {total}}}}}"#, items.join(","))
    };
    let base = "api.cdp.coinbase.com/platform/v2/x402/discovery/resources?limit=100&offset=";
    let fill = |total: u64| {
        let world = World::default();
        for from in (0..total).step_by(100) {
            world.put(&format!("{base}{from}"), 200, page(from, total));
        }
        world
    };
    let payers = |asked: Asked| match asked {
        Asked::Answered(answered) => answered.outcome.map(|reading| reading.numbers["payers"]),
        other => panic!("{other:?}"),
    };
    let world = fill(250);
    let crawler = world.crawler().await;
    let (last, first, none) = (subject(240), subject(7), subject(999));
    let (a, b, c) = tokio::join!(
        crawler.ask(source, &last, None, now()),
        crawler.ask(source, &first, None, now()),
        crawler.ask(source, &none, None, now()),
    );
    assert_eq!((payers(a), payers(b)), (Ok(241.0), Ok(8.0)));
    assert!(matches!(payers(c), Err(credence_ingest::NoReading::Absent(_))), "read to its end, and not on it");
    assert_eq!(world.paths().len(), 3, "three pages for three wallets: {:?}", world.paths());
    // A page that fails is not asked for again for each wallet, and says nothing.
    let world = fill(150);
    world.put(&format!("{base}100"), 500, "");
    let crawler = world.crawler().await;
    for n in [120, 121, 122] {
        let asked = crawler.ask(source, &subject(n), None, now()).await;
        assert!(matches!(&asked, Asked::Failed(failure) if failure.reason == Reason::ServerError), "{asked:?}");
    }
    assert_eq!(world.paths().len(), 2);
}

#[tokio::test]
async fn a_subject_beyond_the_pages_that_are_read_is_not_absent() {
    let source = listing(&LISTING.replace("most = 20", "most = 2"));
    let base = "api.cdp.coinbase.com/platform/v2/x402/discovery/resources?limit=100&offset=";
    let world = World::default();
    for from in [0, 100, 200] {
        world.put(&format!("{base}{from}"), 200, r#"{"items": [], "pagination": {"total": 300}}"#);
    }
    let subject: ExternalSubject = "wallet:eip155:1:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432".parse().unwrap();
    let asked = world.crawler().await.ask(&source, &subject, None, now()).await;
    let Asked::Answered(answered) = asked else { panic!("{asked:?}") };
    let no = answered.outcome.unwrap_err();
    assert_eq!((Reason::of(&no), world.paths().len()), (Reason::Beyond, 2), "{no}");
}

/// What is read again at a later time is what a new answer of the same text would be.
#[test]
fn an_unchanged_answer_goes_on_ageing() {
    let later = now().plus_seconds(40 * 86_400);
    let mut aged = 0;
    for (name, subject) in [
        ("github", "repository:github.com/acme/weather"),
        ("scorecard", "repository:github.com/acme/weather"),
        ("security-txt", "host:shop.example"),
        ("mnemom", "mnemom:agent-7f3a"),
        ("rdap", "host:shop.example"),
    ] {
        let source = builtin::find(&format!("crawler-{name}")).unwrap().unwrap();
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name);
        let file = ["good.json", "good.txt"].iter().find_map(|file| std::fs::read(folder.join(file)).ok()).unwrap();
        let cases: toml::Table = std::fs::read_to_string(folder.join("cases.toml")).unwrap().parse().unwrap();
        let subject: ExternalSubject = cases["subject"].as_str().unwrap_or(subject).parse().unwrap();
        let at = |time| credence_ingest::reading::read(source, &subject, std::slice::from_ref(&file), None, time);
        let first = at(now()).unwrap();
        assert!(first.can_age(source), "{name}");
        let (again, fresh) = (first.later(source, later).unwrap(), at(later).unwrap());
        assert_eq!(again, fresh, "{name}");
        aged += usize::from(again.measured != first.measured);
    }
    assert!(aged >= 4, "{aged}");
}

/// The contract of a subject is whatever the attacker deployed, with a token 22 of its own in it.
#[tokio::test]
async fn a_token_of_another_contract_does_not_inherit_the_real_tokens_score() {
    let good = include_bytes!("../testdata/rnwy/good.json");
    let scan = include_bytes!("../testdata/8004scan/good.json");
    let evil = "0x66600000000000000000000000000000000000aa";
    let world = World::default();
    world.put("rnwy.com/api/trust-check?id=22&chain=base", 200, &good[..]);
    world.put("rnwy.com/.well-known/jwks.json", 200, &include_bytes!("../testdata/rnwy/keys.json")[..]);
    world.put(&format!("api.8004scan.io/api/v1/agents/8453/{evil}/22"), 200, &scan[..]);
    let crawler = world.crawler().await;
    let subject = |contract: &str| ExternalSubject::parse(&format!("erc8004:eip155:8453:{contract}/22")).unwrap();
    for id in ["crawler-rnwy", "crawler-8004scan"] {
        let source = builtin::find(id).unwrap().unwrap();
        assert!(!source.speaks_of(&subject(evil)), "{id}");
        let asked = crawler.ask(source, &subject(evil), None, now()).await;
        assert!(matches!(&asked, Asked::Failed(failure) if failure.reason == Reason::Absent), "{id}: {asked:?}");
    }
    assert!(world.paths().is_empty(), "nobody is asked");
    let real = subject("0x8004a169fb4a3325136eb29fa0ceb6d2e539a432");
    let asked = crawler.ask(builtin::find("crawler-rnwy").unwrap().unwrap(), &real, None, now()).await;
    assert!(matches!(&asked, Asked::Answered(answered) if answered.outcome.is_ok()), "{asked:?}");
}

/// A port of a host can be another's than the host.
#[test]
fn third_parties_are_not_asked_about_a_port() {
    for id in ["crawler-rdap", "crawler-observatory"] {
        let source = builtin::find(id).unwrap().unwrap();
        assert!(source.speaks_of(&"host:shop.example".parse().unwrap()), "{id}");
        assert!(!source.speaks_of(&"host:shop.example:8443".parse().unwrap()), "{id}");
    }
    let own = builtin::find("crawler-security-txt").unwrap().unwrap();
    assert!(own.speaks_of(&"host:shop.example:8443".parse().unwrap()));
}
