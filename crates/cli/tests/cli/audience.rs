//! What is signed for one authority is refused by another, on the command line.

use credence_testing::{Shell, authority};

/// Another authority that knows the same source, agent and keys.
fn other(of: &Shell, unbound: &[&str]) -> Shell {
    let shell = Shell::new();
    shell.ok(&["init", "--origin", "example.com/other"]);
    shell.ok(&[&["source", "add", "lab"], unbound].concat());
    shell.ok(&[&["agent", "add", "bot"], unbound].concat());
    for name in ["lab", "bot"] {
        let keys = of.json(&["keys", "list"]);
        let key = keys.as_array().unwrap().iter().find(|key| key["source"] == name).unwrap()["did"]
            .as_str()
            .unwrap()
            .to_owned();
        let added = shell.ok(&["keys", "add", name, &key]);
        assert!(added.contains("example.com/other"), "it says what to sign: {added}");
    }
    shell
}

#[test]
fn a_signal_and_a_statement_name_the_authority_of_the_folder() {
    let here = authority(&[], &["bot"]);
    here.ok(&["source", "add", "lab"]);
    for name in ["lab", "bot"] {
        let made = here.json(&["keys", "generate", name]);
        assert_eq!(made["aud"], "example.org/log");
    }
    let sign = ["signal", "sign", "--source", "lab", "--agent", "bot", "--tag", "rel_uptime", "--value", "90"];
    let signal = here.ok(&sign);
    assert!(signal.contains(r#""aud":"example.org/log""#), "{signal}");
    assert_eq!(here.run_with(&["signal", "submit"], &signal).code, Some(0));
    let said = here.ok(&["agent", "identify", "bot", "--model", "llm", "--version-hash", "v1", "--sign-only"]);
    assert!(said.contains(r#""aud":"example.org/log""#), "{said}");
    std::fs::write(here.path("said.json"), &said).unwrap();
    here.ok(&["statement", "submit", "said.json"]);

    for unbound in [&[][..], &["--unbound"]] {
        let there = other(&here, unbound);
        let refused = there.run_with(&["signal", "submit"], &signal);
        assert!(refused.code == Some(2) && refused.stdout.contains("other_audience"), "{refused:?}");
        assert!(refused.stdout.contains("example.com/other"), "{refused:?}");
        std::fs::write(there.path("said.json"), &said).unwrap();
        let refused = there.run(&["statement", "submit", "said.json"]);
        assert!(refused.code != Some(0) && format!("{refused:?}").contains("example.com/other"), "{refused:?}");
        // Signed for it, with the same key, it is taken.
        let key = here.path("credence-data/keys/lab.jwk");
        let addressed = there.ok(&[&sign[..], &["--key", key.to_str().unwrap()]].concat());
        assert!(addressed.contains(r#""aud":"example.com/other""#), "{addressed}");
        assert_eq!(there.run_with(&["signal", "submit"], &addressed).code, Some(0));
        let elsewhere = there.ok(&[&sign[..], &["--key", key.to_str().unwrap(), "--aud", "example.org/log"]].concat());
        assert_eq!(there.run_with(&["signal", "submit"], &elsewhere).code, Some(2));
        there.audit_passes();
    }
    here.audit_passes();
}
