//! Who is meant: signals and statements name the authority they are for, and a name belongs to one alone, however it is spelled.

use std::sync::{Arc, atomic::AtomicI64};

use credence_ledger::{LogKey, NewEntry, memory::MemoryLedger, write};
use credence_pipeline::{Error, NewAgent, NewSource, Rejection, projection, query, record::Record};
use credence_protocol::{
    Alias, Audience, Canonical, SecretKey, SignalDraft, Statement, StatementKind, Timestamp, strict::StrictValue,
};
use serde_json::{Value, json};

use crate::common::{House, START, aud, id, key, ticking};

/// Another authority, which knows the same source and agent with the same keys.
fn elsewhere(unbound: bool) -> House {
    let clock = Arc::new(AtomicI64::new(START.parse::<Timestamp>().unwrap().micros()));
    let log = LogKey::new("example.com/other", &SecretKey::from_seed(&[4; 32])).unwrap();
    let house = House::over(MemoryLedger::new(log, ticking(&clock)), clock);
    house.authority.hold_scores(true);
    furnish(&house, unbound);
    house
}

fn furnish(house: &House, unbound: bool) {
    house.authority.add_source(NewSource { unbound, ..NewSource::new(id("lab"), 1.0) }).unwrap();
    house.authority.add_agent(NewAgent { unbound, ..NewAgent::new(id("bot")) }).unwrap();
    for name in ["lab", "bot"] {
        house.authority.add_key(&key(name).public(), id(name)).unwrap();
    }
}

fn identity(aud: Option<Audience>) -> Statement {
    let record = json!({"agent_id": "bot", "model_type": "llm", "capability_tags": ["x"], "risk_profile": "moderate",
        "transparency_level": "high", "version_hash": "v1", "signature_key": key("bot").public().did_key()});
    Statement::sign(id("bot"), aud, StatementKind::Identity, StrictValue(record), &key("bot")).unwrap()
}

fn code(refused: Rejection, expected: &str) -> &'static str {
    assert!(refused.to_string().contains(&format!("\"aud\": \"{expected}\"")), "it says what to sign: {refused}");
    refused.code()
}

#[test]
fn what_is_signed_for_one_authority_is_refused_by_another() {
    let here = House::new(&[("credence", 1.0)], &[]);
    furnish(&here, false);
    let there = elsewhere(false);
    let other = Some(Audience::new("example.com/other").unwrap());
    let draft = |aud| SignalDraft { aud, ..here.draft("bot", "lab", &["rel_uptime"], 90.0) }.sign(&key("lab")).unwrap();

    let ours = draft(aud());
    here.send(&ours).unwrap();
    assert_eq!(code(there.send(&ours).unwrap_err(), "example.com/other"), "other_audience");
    assert_eq!(code(there.send(&draft(None)).unwrap_err(), "example.com/other"), "no_audience");
    assert_eq!(code(here.send(&draft(None)).unwrap_err(), "example.org/log"), "no_audience");
    there.send(&draft(other.clone())).unwrap();

    let publish =
        |house: &House, statement: Statement| house.authority.publish(statement.canonical().as_bytes()).unwrap();
    publish(&here, identity(aud())).unwrap();
    assert_eq!(code(publish(&there, identity(aud())).unwrap_err(), "example.com/other"), "other_audience");
    assert_eq!(code(publish(&there, identity(None)).unwrap_err(), "example.com/other"), "no_audience");
    publish(&there, identity(other)).unwrap();

    // Taken out, or put in: then the signature does not hold.
    let text = ours.canonical().as_str();
    for forged in
        [text.replace("\"aud\":\"example.org/log\",", ""), text.replace("example.org/log", "example.com/other")]
    {
        let refused = there.authority.submit(forged.as_bytes()).unwrap().unwrap_err();
        assert_eq!(refused.code(), "bad_signature", "{refused}");
    }
    here.assert_sound();
}

#[test]
fn who_is_not_bound_need_not_name_the_authority_and_must_not_name_another() {
    let house = elsewhere(true);
    let draft =
        |aud| SignalDraft { aud, ..house.draft("bot", "lab", &["rel_uptime"], 90.0) }.sign(&key("lab")).unwrap();
    house.send(&draft(None)).unwrap();
    house.send(&draft(Some(Audience::new("example.com/other").unwrap()))).unwrap();
    assert_eq!(house.send(&draft(aud())).unwrap_err().code(), "other_audience");
    house.authority.publish(identity(None).canonical().as_bytes()).unwrap().unwrap();
    assert_eq!(
        house.authority.publish(identity(aud()).canonical().as_bytes()).unwrap().unwrap_err().code(),
        "other_audience"
    );
    // Saying more of it does not bind it.
    house.authority.set_weight(id("lab"), 2.0).unwrap();
    house.authority.add_agent(NewAgent { name: Some("Bot".into()), ..NewAgent::new(id("bot")) }).unwrap();
    house.send(&draft(None)).unwrap();
}

/// Appends an entry past every rule, as somebody with the database could.
fn planted(house: &House, entry: NewEntry) -> u64 {
    write(house.authority.ledger(), move |tx| {
        let at = tx.append(&entry)?;
        let stored = credence_ledger::Entry::parse(at.seq, &tx.entry(at.seq)?.unwrap())?;
        projection::apply(tx, at, &stored.subject, &Record::of(at.seq, &stored)?)?;
        Ok::<_, Error>(at.seq)
    })
    .unwrap()
}

#[test]
fn an_audit_asks_the_same_rules() {
    let entry = |kind, subject: &str, body: Canonical, weight| NewEntry { kind, subject: id(subject), body, weight };
    let body = |value: Value| Canonical::of(&value).unwrap();
    use credence_ledger::Kind;
    let house = House::new(&[("credence", 1.0)], &[]);
    furnish(&house, false);
    let alias = Alias::parse("https://shop.example").unwrap();
    house.authority.add_agent(NewAgent { aliases: vec![alias], ..NewAgent::new(id("shop")) }).unwrap();
    let signal =
        |aud| SignalDraft { aud, ..house.draft("bot", "lab", &["rel_uptime"], 90.0) }.sign(&key("lab")).unwrap();
    let other = Some(Audience::new("example.com/other").unwrap());
    for (forged, what) in [
        (entry(Kind::Signal, "bot", signal(None).canonical().clone(), Some(1.0)), "aud is missing"),
        (
            entry(Kind::Signal, "bot", signal(other.clone()).canonical().clone(), Some(1.0)),
            "it is for another authority",
        ),
        (entry(Kind::Identity, "bot", identity(None).canonical().clone(), None), "aud is missing"),
        (entry(Kind::Identity, "bot", identity(other).canonical().clone(), None), "it is for another authority"),
        (
            entry(Kind::Source, "x", body(json!({"source": "x", "weight": 1, "aud": "example.com/other"})), None),
            "is bound to",
        ),
        (entry(Kind::Agent, "lab", body(json!({"agent": "lab"})), None), "is taken by a source"),
        (entry(Kind::Source, "bot", body(json!({"source": "bot", "weight": 1})), None), "is taken by an agent"),
        (
            entry(Kind::Agent, "rival", body(json!({"agent": "rival", "aliases": ["did:web:shop.example"]})), None),
            "was an alias of 'shop'",
        ),
    ] {
        let seq = planted(&house, forged);
        let findings = house.audit(false).findings;
        assert!(findings.listed.iter().any(|f| f.seq == Some(seq) && f.what.contains(what)), "{what}: {findings:#?}");
    }
}

#[test]
fn no_spelling_of_an_alias_leads_to_another_agent() {
    let house = House::new(&[("credence", 1.0)], &[]);
    let add = |agent: &str, alias: &str| {
        let aliases = vec![Alias::parse(alias).unwrap()];
        house.authority.add_agent(NewAgent { aliases, ..NewAgent::new(id(agent)) })
    };
    add("cafe", "https://café.example/a").unwrap();
    let spellings = [
        "https://CAFÉ.example./a",
        "https://xn--caf-dma.example:443/a",
        "https://cafe\u{301}.example/%61",
        "https://ca\u{200b}fé.example/a/",
        "https://c%61f%C3%A9.example/a",
        "did:web:café.example:a",
        "did:web:XN--CAF-DMA.example.%3A443:a",
    ];
    for spelling in spellings {
        let refused = add("rival", spelling).unwrap_err();
        assert!(matches!(&refused, Error::AliasTaken { agent, .. } if *agent == id("cafe")), "{spelling}: {refused}");
        let view = house.authority.ledger().view().unwrap();
        assert_eq!(query::resolve(&*view, spelling).unwrap(), id("cafe"), "{spelling}");
    }
    // Its own other spelling is kept beside: a credential names a DID where there is one.
    add("cafe", "did:web:café.example:a").unwrap();
    let aliases = query::agent(&*house.authority.ledger().view().unwrap(), &id("cafe")).unwrap().aliases;
    assert_eq!(aliases.len(), 2, "{aliases:?}");
    assert!(matches!(add("cafe", "https://CAFÉ.example/a").unwrap_err(), Error::NothingNew(_)));
    add("other", "https://café.example/b").unwrap();
    house.assert_sound();
}

#[test]
fn agents_sources_and_the_authority_share_one_namespace() {
    let house = House::new(&[("credence", 1.0), ("lab", 1.0)], &["bot"]);
    let taken = |result: credence_pipeline::Result<u64>| matches!(result, Err(Error::IdTaken { .. }));
    assert!(taken(house.authority.add_agent(NewAgent::new(id("lab")))));
    assert!(taken(house.authority.add_source(NewSource::new(id("bot"), 1.0))));
    for name in ["credence", "Credence", "CREDENCE"] {
        assert!(taken(house.authority.add_agent(NewAgent::new(id(name)))), "{name}");
    }
    assert!(taken(house.authority.add_source(NewSource::new(id("Credence"), 1.0))));
    house.authority.add_agent(NewAgent::new(id("credence-fan"))).unwrap();
    house.assert_sound();
}

#[test]
fn names_that_deceive_are_refused() {
    let house = House::new(&[("credence", 1.0)], &["bot"]);
    house.authority.add_key(&key("bot").public(), id("bot")).unwrap();
    for bad in
        ["two\nlines", "a\u{202e}b", "\u{2066}x", "a\u{200f}", "sho\u{200b}p", "x\u{e0041}", "a\u{85}b", "a\u{2028}b"]
    {
        let named = NewAgent { name: Some(bad.into()), ..NewAgent::new(id("new")) };
        assert!(matches!(house.authority.add_agent(named), Err(Error::Text { .. })), "{bad:?}");
        let described = NewSource { description: Some(bad.into()), ..NewSource::new(id("new"), 1.0) };
        assert!(matches!(house.authority.add_source(described), Err(Error::Text { .. })), "{bad:?}");
        let record = json!({"agent_id": "bot", "model_type": bad, "capability_tags": [], "risk_profile": "moderate",
            "transparency_level": "high", "version_hash": "v1", "signature_key": key("bot").public().did_key()});
        let said =
            Statement::sign(id("bot"), aud(), StatementKind::Identity, StrictValue(record), &key("bot")).unwrap();
        let refused = house.authority.publish(said.canonical().as_bytes()).unwrap().unwrap_err();
        assert_eq!(refused.code(), "schema_violation", "{bad:?}: {refused}");
    }
    // Scripts that need joiners, and those that run from right to left, are names like others.
    for good in ["נתן", "فارسی\u{200c}ها", "Zoë & Söhne", "👩\u{200d}💻"] {
        let named = NewAgent { name: Some(good.into()), ..NewAgent::new(id("bot")) };
        house.authority.add_agent(named).unwrap_or_else(|e| panic!("{good}: {e}"));
    }
    house.assert_sound();
}
