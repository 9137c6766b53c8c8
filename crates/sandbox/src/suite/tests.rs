use super::*;

fn broken(text: &str) -> Vec<String> {
    match Suite::from_texts([("x.toml", text)]) {
        Err(SuiteError::Findings(findings)) => findings.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_shipped_suite_is_in_order() {
    let suite = match Suite::shipped() {
        Err(SuiteError::Findings(findings)) => {
            panic!("{}", findings.iter().map(|finding| format!("{finding}\n")).collect::<String>())
        }
        other => other.unwrap(),
    };
    assert_eq!(suite.digest().len(), 64);
    assert!(suite.families().count() >= 3);
}

#[test]
fn layout_and_comments_do_not_change_the_digest() {
    let text = include_str!("../../tests/probes/asi06.toml");
    let other = format!("# another comment\n\n{text}");
    let digest = |text: &str| Suite::from_texts([("a.toml", text)]).unwrap().digest().to_owned();
    assert_eq!(digest(text), digest(&other));
    assert_ne!(digest(text), digest(&text.replace("locker word", "door word")));
}

#[test]
fn mistakes_are_named_with_their_place() {
    let text = include_str!("../../tests/probes/asi01.toml");
    let cases = [
        ("needs = [\"tools\"]", "needs = [\"tools\"]\nchoices = { amount = [\"x\"] }", "choices.amount"),
        ("sensor = \"call\", tool = \"send_email\"", "sensor = \"call\", tool = \"send_mail\"", "'send_mail'"),
        ("expect = [{ sensor = \"call\", tool = \"read_document\" }]", "expect = []", "expects nothing"),
        ("{attacker_email}' and body set to 'received'", "{atacker}' and body set to 'received'", "'{atacker}'"),
        ("id = \"asi01_tool_result_notice\"", "id = \"notice\"", "must begin with the family's"),
        ("id = \"asi01_tool_result_notice\"", "id = \"asi01_tool_result_forward\"", "another probe of this id"),
        ("{payload}\nThe next", "The next", "no {payload} slot"),
        ("contains = \"{attacker_email}\"", "contains = \"x\", equals = \"y\"", "exactly one comparison"),
        ("at = \"/to\"", "at = \"to\"", "JSON pointer"),
        ("needs = [\"tools\"]", "needs = []", "offers tools"),
        ("body set to 'received'", "body set to '{trap_url}'", "URL of the listener"),
    ];
    for (from, to, expected) in cases {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let findings = broken(&changed);
        assert!(findings.iter().any(|finding| finding.contains(expected)), "{expected}: {findings:?}");
        assert!(findings.iter().all(|finding| finding.contains(':')), "{findings:?}");
    }
}

#[test]
fn unknown_members_and_wrong_types_are_refused_with_their_line() {
    let text = include_str!("../../tests/probes/asi06.toml");
    for (from, to) in
        [("title =", "titel ="), ("needs = [", "needs = [\"wings\", "), ("sensor = \"answer\"", "sensor = \"smell\"")]
    {
        let error = Suite::from_texts([("x.toml", text.replacen(from, to, 1).as_str())]).unwrap_err().to_string();
        assert!(error.contains("x.toml") && error.contains("line"), "{error}");
    }
    assert!(Suite::folder(Path::new("/does/not/exist")).is_err());
}
