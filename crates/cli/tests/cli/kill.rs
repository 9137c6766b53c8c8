//! SIGKILL in the middle of an import: what was acknowledged is there, nothing is half there, and the end result is that
//! of an undisturbed import.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::Stdio,
};

use credence_testing::{Shell, authority, draft, key};
use serde_json::{Value, json};

const KILLS: u32 = 20;
const SIGNALS: usize = 6_000;
const AGENTS: usize = 40;

/// The current signals and newest scores, without what depends on when scores were taken (seq, times).
fn outcome(shell: &Shell) -> BTreeMap<String, Value> {
    let database = rusqlite::Connection::open(shell.path("credence-data/ledger.db")).unwrap();
    let mut rows = BTreeMap::new();
    for (table, fields) in [
        ("p_current", &["observed_at", "value", "stddev"][..]),
        (
            "p_scores",
            &["status", "score", "tier", "coverage", "sources", "mean", "weighted_mean", "stddev", "tier_confidence"],
        ),
    ] {
        let mut statement = database.prepare(&format!("SELECT key, value FROM {table}")).unwrap();
        let found = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
        for row in found {
            let (key, value) = row.unwrap();
            let value: Value = serde_json::from_str(&value).unwrap();
            let kept: Vec<&Value> = fields.iter().map(|field| &value[*field]).collect();
            rows.insert(format!("{table}/{key}"), json!(kept));
        }
    }
    rows
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn acknowledged(output: &str) -> BTreeMap<u64, u64> {
    // The last line may be cut off by the kill.
    let lines = output.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    lines
        .filter_map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            Some((value["line"].as_u64()?, value["seq"].as_u64()?))
        })
        .collect()
}

#[test]
fn twenty_kills_lose_nothing() {
    let sources = ["lab", "rival", "third"];
    let agents: Vec<String> = (0..AGENTS).map(|n| format!("agent-{n}")).collect();
    let base = authority(&sources, &agents.iter().map(String::as_str).collect::<Vec<_>>());
    let tags = ["rel_uptime", "rel_error_rate", "user_feedback"];
    let start: credence_protocol::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut lines = String::new();
    for n in 0..SIGNALS {
        let source = sources[n / AGENTS % 3];
        let mut draft = draft(&agents[n % AGENTS], source, tags[n / AGENTS / 3 % 3], (n * 13 % 101) as f64);
        draft.observed_at = start.plus_seconds((n * 7919 % 10_000) as i64).into();
        lines += &format!("{}\n", draft.sign(&key(source)).unwrap().canonical());
    }
    fs::write(base.path("signals.jsonl"), lines).unwrap();

    let undisturbed = Shell::new();
    copy(base.folder.path(), undisturbed.folder.path());
    undisturbed.ok(&["signal", "submit", "--json", "signals.jsonl"]);
    let expected = outcome(&undisturbed);
    assert_eq!(expected.len(), AGENTS * 3 * 3 + AGENTS);

    let (mut interrupted, mut acked_in_all) = (0, 0);
    for round in 0..KILLS {
        let shell = Shell::new();
        copy(base.folder.path(), shell.folder.path());
        let mut child = shell
            .command(&["signal", "submit", "--json", "signals.jsonl"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        // After so many acknowledgements, spread over the whole import by the golden ratio: as good as random, and all
        // different. Nobody reads on, so that the import waits with what the pipe does not hold (some 1,000 of the 6,000):
        // how quick the machine is does not decide whether it is interrupted.
        let enough = (f64::from(round) * 0.618_034).fract() * SIGNALS as f64;
        let mut text = String::new();
        for _ in 0..enough as usize {
            assert!(stdout.read_line(&mut text).unwrap() > 0, "round {round}: the import ended by itself: {text}");
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        stdout.read_to_string(&mut text).unwrap();
        let acked = acknowledged(&text);
        interrupted += u32::from(status.code().is_none());
        acked_in_all += acked.len();

        shell.audit_passes();
        let again = shell.ok(&["signal", "submit", "--json", "signals.jsonl"]);
        let seqs = acknowledged(&again);
        assert!(
            acked.iter().all(|(line, seq)| seqs.get(line) == Some(seq)),
            "round {round}: an acknowledged signal moved"
        );
        shell.audit_passes();
        assert_eq!(outcome(&shell), expected, "round {round}");
        let size = shell.size();
        let once_more = shell.ok(&["signal", "submit", "--json", "signals.jsonl"]);
        assert!(
            once_more.contains(&format!("\"admitted\":0,\"by_reason\":{{}},\"known\":{SIGNALS}")),
            "{}",
            once_more.lines().last().unwrap()
        );
        assert_eq!(shell.size(), size, "importing again appends nothing");
    }
    // The test would prove nothing if every import had finished or none had begun.
    assert!(
        interrupted >= KILLS / 2 && acked_in_all > 0,
        "{interrupted} of {KILLS} interrupted, {acked_in_all} acknowledged"
    );
}
