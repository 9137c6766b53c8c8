//! Credentials: issued, checked elsewhere, taken back.

use credence_output::status_list::StatusList;
use credence_testing::{Service, Shell, independent};
use serde_json::{Value, json};

/// The bits of a credential: revoked, suspended.
fn bits(service: &Service, credential: &Value) -> (bool, bool) {
    let bit = |at: usize, purpose: &str| {
        let status = &credential["credentialStatus"][at];
        assert_eq!(status["statusPurpose"], purpose);
        let url = status["statusListCredential"].as_str().unwrap();
        let list = service.get(url.strip_prefix(&service.url).unwrap());
        assert_eq!(list.header("content-type"), "application/vc");
        let file = format!("{purpose}.json");
        std::fs::write(service.shell.path(&file), &list.body).unwrap();
        assert!(service.shell.ok(&["check", &file, "--key", &service.authority_key()]).contains("valid"));
        assert_eq!(list.json()["credentialSubject"]["statusPurpose"], purpose);
        let bits = StatusList::decode(list.json()["credentialSubject"]["encodedList"].as_str().unwrap()).unwrap();
        bits.is_revoked(status["statusListIndex"].as_str().unwrap().parse().unwrap()).unwrap()
    };
    (bit(0, "revocation"), bit(1, "suspension"))
}

#[test]
fn a_credential_holds_until_it_or_its_agent_is_revoked() {
    let service = Service::fresh(&[]);
    service.add_shop();
    service.add_agent("fresh", &[]);
    let issue = |agent: &str| service.post("/v1/credentials", &json!({ "agent": agent, "days": 7 })).created();
    let (first, second) = (issue("shop"), issue("https://shop.example/de"));
    assert_eq!(first["credentialSubject"]["agent"], "shop");
    assert!(first["credentialSubject"]["score"].as_u64().unwrap() > 0);
    let key = service.authority_key();
    std::fs::write(service.shell.path("vc.json"), first.to_string()).unwrap();
    assert!(service.shell.ok(&["check", "vc.json", "--key", &key]).contains("valid"));
    if let Some(said) = independent(&["credential", &key], &first.to_string()) {
        assert_eq!(said, "accepted, and no change is");
    }
    assert_eq!(
        (&first["credentialStatus"][0]["statusListIndex"], &second["credentialStatus"][0]["statusListIndex"]),
        (&json!("0"), &json!("1"))
    );
    assert_eq!((bits(&service, &first), bits(&service, &second)), ((false, false), (false, false)));

    let id = first["id"].as_str().unwrap().strip_prefix("urn:uuid:").unwrap();
    service.post(&format!("/v1/credentials/{id}/revocation"), &json!({ "reason": "a test" })).created();
    assert_eq!((bits(&service, &first), bits(&service, &second)), ((true, false), (false, false)));
    let checked = service.shell.run(&[
        "check",
        "vc.json",
        "--key",
        &key,
        "--status",
        "revocation.json",
        "--status",
        "suspension.json",
    ]);
    assert!(checked.code == Some(2) && checked.stdout.contains("taken back"), "{checked:?}");
    service.shell.fails(&["check", "vc.json", "--key", &key, "--status", "nowhere.json"], "nowhere.json");
    std::fs::write(service.shell.path("second.json"), second.to_string()).unwrap();
    assert!(
        service
            .shell
            .ok(&["check", "second.json", "--key", &key, "--status", "revocation.json", "--status", "suspension.json"])
            .contains("Not taken back")
    );
    assert_eq!(service.get(&format!("/v1/credentials/{id}")).ok()["revoked"], true);
    service.post(&format!("/v1/credentials/{id}/revocation"), &json!({})).refused(409, "already_revoked");

    service.post("/v1/agents/shop/standing", &json!({ "revoked": true })).created();
    assert_eq!((bits(&service, &first), bits(&service, &second)), ((true, true), (false, true)));
    let checked = service.shell.run(&["check", "second.json", "--key", &key, "--status", "suspension.json"]);
    assert!(checked.code == Some(2) && checked.stdout.contains("is suspended"), "{checked:?}");
    service.post("/v1/credentials", &json!({ "agent": "shop" })).refused(409, "agent_revoked");
    service.post("/v1/agents/shop/standing", &json!({ "revoked": true })).refused(409, "agent_revoked");
    service.post("/v1/agents/shop/standing", &json!({ "revoked": false })).created();
    assert_eq!((bits(&service, &first), bits(&service, &second)), ((true, false), (false, false)));

    service.post("/v1/credentials", &json!({ "agent": "fresh" })).refused(409, "not_rated");
    service.post("/v1/credentials", &json!({ "agent": "nobody" })).refused(404, "unknown_agent");
    service.post("/v1/credentials", &json!({ "agent": "shop", "days": 0 })).refused(422, "invalid_days");
    service.get("/v1/credentials/018f3c2e-0000-7000-8000-000000000001").refused(404, "unknown_credential");
    service.get("/v1/status-lists/1").refused(404, "no_such_list");
    let listed = service.get("/v1/agents/shop/credentials").ok();
    assert_eq!(listed["credentials"].as_array().unwrap().len(), 2);

    // The same on the command line.
    let shell = service.stop();
    shell.ok(&["credential", "shop", "--out", "third.json"]);
    let third: Value = serde_json::from_slice(&std::fs::read(shell.path("third.json")).unwrap()).unwrap();
    let id = third["id"].as_str().unwrap();
    assert!(shell.ok(&["revoke", id, "--reason", "again a test"]).contains("is revoked"));
    shell.fails(&["revoke", id], "is revoked already");
    shell.fails(&["revoke", id, "--lift"], "stays so");
    assert!(shell.ok(&["revoke", "shop"]).contains("every credential"));
    assert!(shell.ok(&["badge", "shop"]).contains(">revoked<"));
    assert!(shell.ok(&["revoke", "shop", "--lift"]).contains("given back"));
    shell.fails(&["revoke", "shop", "--lift"], "nothing to lift");
    shell.audit_passes();
}

#[test]
fn a_public_address_makes_a_did_web() {
    let service = Service::fresh(&["public_url=https://trust.example"]);
    service.add_shop();
    let credential = service.post("/v1/credentials", &json!({ "agent": "shop" })).created();
    assert_eq!(credential["issuer"], "did:web:trust.example");
    assert_eq!(credential["credentialStatus"][0]["statusListCredential"], "https://trust.example/v1/status-lists/0");
    let did = service.get("/.well-known/did.json").ok();
    assert_eq!(did["id"], "did:web:trust.example");
    assert_eq!(did["assertionMethod"][0], credential["proof"]["verificationMethod"]);
}

/// What a command issues beside a service is of the same issuer, and is looked up in the same lists.
#[test]
fn the_command_issues_as_the_service_does() {
    let shell = Shell::new();
    let service = Service::start(shell, &["public_url=https://trust.example/"]);
    service.add_shop();
    let theirs = service.post("/v1/credentials", &json!({ "agent": "shop" })).created();
    let shell = service.stop();
    let ours: Value = serde_json::from_str(&shell.ok(&["credential", "shop"])).unwrap();
    assert_eq!(ours["issuer"], "did:web:trust.example");
    let places = |vc: &Value| (vc["issuer"].clone(), vc["credentialStatus"][0]["statusListCredential"].clone());
    assert_eq!(places(&ours), places(&theirs));
    assert_eq!(ours["proof"]["verificationMethod"], theirs["proof"]["verificationMethod"]);

    // Another address in the settings than the service had: refused, not silently another issuer.
    let ran =
        shell.command(&["credential", "shop"]).env("CREDENCE_PUBLIC_URL", "https://other.example").output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.code() == Some(1) && said.contains("https://trust.example"), "{said}");
    let service = Service::start(shell, &["public_url=https://other.example"]);
    let shell = service.stop();
    let moved: Value = serde_json::from_str(&shell.ok(&["credential", "shop"])).unwrap();
    assert_eq!(moved["issuer"], "did:web:other.example");
}

#[test]
fn a_retired_key_verifies_and_asserts_nothing() {
    let service = Service::fresh(&["public_url=https://trust.example"]);
    let before = service.get("/.well-known/did.json").ok();
    let shell = service.stop();
    shell.ok(&["keys", "rotate", "credence"]);
    let service = Service::start(shell, &["public_url=https://trust.example"]);
    let after = service.get("/.well-known/did.json").ok();
    let ids: Vec<&Value> = after["verificationMethod"].as_array().unwrap().iter().map(|method| &method["id"]).collect();
    let (former, present) = (&before["assertionMethod"][0], &after["assertionMethod"][0]);
    assert_ne!(former, present);
    assert_eq!(ids, [present, former]);
    for relation in ["assertionMethod", "authentication"] {
        assert_eq!(after[relation], json!([present]), "{relation}");
    }
    assert_eq!(service.get("/.well-known/jwks.json").ok()["keys"].as_array().unwrap().len(), 2);
}
