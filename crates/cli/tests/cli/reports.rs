//! Reports on the command line: the token decides, here too.

use credence_testing::{Ran, Shell};
use serde_json::Value;

struct Desk {
    shell: Shell,
}

impl Desk {
    fn new() -> Self {
        let shell = Shell::new();
        shell.ok(&["init", "--origin", "example.org/log"]);
        shell.ok(&["agent", "add", "shop", "--name", "The <b>Shop</b>"]);
        Self { shell }
    }

    /// A token of `name`, in a file of that name; its id.
    fn token(&self, name: &str, scope: &str) -> String {
        let made = self.shell.json(&["token", "create", name, "--scope", scope]);
        std::fs::write(self.shell.path(name), made["token"].as_str().unwrap()).unwrap();
        made["id"].as_str().unwrap().to_owned()
    }

    /// `credence report …` as the person who has the file.
    fn report(&self, who: &str, args: &[&str]) -> Ran {
        let mut all = vec!["report"];
        all.extend(args);
        if !who.is_empty() {
            all.extend(["--token-file", who]);
        }
        self.shell.run(&all)
    }

    fn json(&self, who: &str, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.push("--json");
        let ran = self.report(who, &all);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    fn refuses(&self, who: &str, args: &[&str], why: &str) {
        let ran = self.report(who, args);
        assert!(ran.code == Some(1) && ran.stderr.contains(why), "{args:?}: {ran:?}");
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn a_report_is_drafted_reviewed_and_published_on_the_command_line() {
    let desk = Desk::new();
    desk.token("writer", "ingest");
    desk.token("boss", "admin");
    let rita = desk.token("rita", "review");
    desk.token("sam", "review");
    desk.refuses("", &["draft", "shop"], "CREDENCE_TOKEN");
    desk.refuses("rita", &["draft", "shop"], "scope 'ingest'");
    desk.refuses("writer", &["draft", "nobody"], "no agent has the id or alias 'nobody'");
    let size = desk.shell.size();
    let drafted = desk.json("writer", &["draft", "shop", "--summary", "pangolin"]);
    assert_eq!(desk.shell.size(), size);
    let report = drafted["report"].as_str().unwrap();

    // Who may see it.
    for who in ["", "boss"] {
        desk.refuses(who, &["show", report], "there is no report");
        assert_eq!(desk.json(who, &["list"]), Value::Array(Vec::new()));
    }
    for who in ["writer", "rita"] {
        let shown = desk.report(who, &["show", report]);
        assert!(
            shown.code == Some(0) && shown.stdout.contains("pangolin") && shown.stdout.contains("**Draft.**"),
            "{shown:?}"
        );
        assert_eq!(desk.json(who, &["list"])[0]["state"], "draft");
    }
    // Who decides.
    for args in [vec!["approve", report], vec!["publish", report], vec!["reject", report, "--reason", "x"]] {
        desk.refuses("", &args, "scope 'review'");
        desk.refuses("boss", &args, "scope 'review'");
        desk.refuses("writer", &args, "scope 'review'");
    }
    desk.refuses("rita", &["publish", report], "it is draft");
    std::fs::write(desk.shell.path("wrong"), "crd_000000000000_nonsense").unwrap();
    desk.refuses("wrong", &["approve", report], "unknown, revoked or expired");
    // In the environment as well.
    let token = std::fs::read_to_string(desk.shell.path("rita")).unwrap();
    let ran = desk.shell.command(&["report", "approve", report]).env("CREDENCE_TOKEN", token).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert!(String::from_utf8(ran.stdout).unwrap().contains("is approved by rita (entry"));
    desk.shell.ok(&["token", "revoke", &rita]);
    desk.refuses("rita", &["publish", report], "unknown, revoked or expired");
    desk.refuses("sam", &["publish", report], "was revoked since");
    desk.json("sam", &["approve", report]);
    assert_eq!(desk.json("sam", &["publish", report])["state"], "published");

    // Everybody reads it, in every form; the signed one is checked offline.
    let html = desk.report("", &["show", report, "--format", "html"]).stdout;
    assert!(html.starts_with("<!doctype html>") && html.contains("pangolin") && !html.contains("<b>"), "{html}");
    assert!(html.contains("@media print") && html.contains("default-src 'none'"));
    assert_eq!(desk.json("", &["show", report])["contents"]["summary"], "pangolin");
    let signed = desk.report("", &["show", report, "--format", "signed", "--out", "report.json"]);
    assert_eq!(signed.code, Some(0), "{signed:?}");
    let keys = desk.shell.json(&["keys", "list"]);
    let own = keys.as_array().unwrap().iter().find(|key| key["source"] == "credence").unwrap();
    let key = ["did", "public_key"].iter().find_map(|name| own[*name].as_str()).unwrap();
    let checked = desk.shell.ok(&["check", "report.json", "--key", key]);
    assert!(checked.starts_with("valid report") && checked.contains("drafted by writer, approved by sam"), "{checked}");

    desk.refuses("sam", &["correct", report, "--reason", " "], "for a reason");
    desk.json("sam", &["correct", report, "--reason", "it was March"]);
    assert_eq!(desk.json("sam", &["withdraw", report, "--reason", "wrong agent"])["state"], "withdrawn");
    let shown = desk.report("", &["show", report]).stdout;
    assert!(shown.contains("**Withdrawn** on") && shown.contains("it was March"), "{shown}");
    assert_eq!(desk.json("", &["list"])[0]["corrected"], true);
    desk.shell.audit_passes();
    desk.shell.ok(&["replay"]);
}
