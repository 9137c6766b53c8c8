//! `credence guard review`, `accept`, `reject`, `release` and `forget`: a person looks at results that were flagged or withheld.
//!
//! What is shown comes from a server that may be hostile. Characters that a terminal obeys, that hide, or that turn a text around are
//! written out; lines of content begin with `│`, so that none passes for a line of ours.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, bail};
use credence_guard::quarantine::{
    KeptItem, Reviewer,
    reviewer::{DoneOperation, Forgotten, QuarantineCounts, Reviewed, name_of},
};
use credence_protocol::{Uuid, is_deceptive};
use credence_receipts::OperationAction;
use serde_json::{Value, json, value::RawValue};

use super::{StateArgs, remote, servers};
use crate::{
    commands::Done,
    output::{self, Output, escaped_json, is_joiner},
};

/// Characters of a text that are shown in a list.
const SHOWN_IN_LIST: usize = 60;
/// Bytes of arguments or of a result that are shown.
const SHOWN_CONTENT: usize = 8 * 1024;

#[derive(clap::Args)]
pub struct ReviewArgs {
    /// Show this one call in full
    #[arg(value_parser = call_id)]
    call: Option<Uuid>,
    #[command(flatten)]
    keeping: StateArgs,
    /// Only this server: its label, or the name of its folder
    #[arg(long)]
    server: Option<String>,
    /// Those that were answered, too
    #[arg(long)]
    all: bool,
    /// Only list them, also in a terminal
    #[arg(long, conflicts_with_all = ["call", "one_by_one"])]
    list: bool,
    /// Ask about one after the other, also where standard input is no terminal
    #[arg(long, conflicts_with_all = ["call", "all"])]
    one_by_one: bool,
    /// What was answered, released and forgotten so far, by whom and at which terminal
    #[arg(long, conflicts_with_all = ["call", "all", "list", "one_by_one"])]
    history: bool,
    #[command(flatten)]
    remote: remote::Args,
}

#[derive(clap::Args)]
pub struct AnswerArgs {
    /// The call's id, as the result's note and `credence guard review` show it
    #[arg(value_parser = call_id)]
    call: Uuid,
    #[command(flatten)]
    keeping: StateArgs,
    /// Answer although something else was answered before
    #[arg(long)]
    change: bool,
}

#[derive(clap::Args)]
pub struct ReleaseArgs {
    /// The call's id
    #[arg(value_parser = call_id)]
    call: Uuid,
    #[command(flatten)]
    keeping: StateArgs,
    /// A new file for it, readable by you alone [default: standard output]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct ForgetArgs {
    /// The call's id
    #[arg(required_unless_present = "all", conflicts_with_all = ["all", "server"], value_parser = call_id)]
    call: Option<Uuid>,
    #[command(flatten)]
    keeping: StateArgs,
    /// Everything that is kept
    #[arg(long)]
    all: bool,
    /// Everything of this server: its label, or the name of its folder
    #[arg(long, requires = "all")]
    server: Option<String>,
}

/// A call's id, as receipts and reviews show it.
fn call_id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| {
        "it is not a call's id, which looks like 01a1ecc0-3e84-71d0-8ca1-22f9d1cb9ab2; `credence guard review --list` shows those of \
         results that wait, `credence receipts list` those of all calls"
            .to_owned()
    })
}

fn open(keeping: &StateArgs) -> anyhow::Result<Reviewer> {
    let state = keeping.folder()?;
    if !state.try_exists().with_context(|| format!("cannot look into {}", state.display()))? {
        bail!(
            "no guard has run yet: there is no folder {}. `credence guard install --client NAME` puts the servers of a client under \
             guards; --state names another folder",
            state.display()
        );
    }
    // Before the key is asked for: that of another user cannot be read, and the reason would be lost.
    credence_guard::quarantine::reviewer::check_owner(&state)?;
    Ok(Reviewer::open(&state, &keeping.provider, &keeping.secret(false)?)?)
}

pub fn review(out: &Output, args: &ReviewArgs) -> Done {
    if let Some(authority) = &args.remote.authority {
        return remote::review(out, authority, &args.remote, args.call);
    }
    let reviewer = open(&args.keeping)?;
    if let Some(call) = args.call {
        let reviewed = reviewer.show(call)?;
        return show(out, &json_of(&reviewed), || full(&reviewed)).map(|()| ExitCode::SUCCESS);
    }
    let servers = servers::meant_by(&args.keeping.folder()?, args.server.as_deref())?;
    if args.history {
        return history(out, &reviewer, servers.as_deref());
    }
    let mut review = reviewer.review(servers.as_deref())?;
    review.items.retain(|one| args.all || one.answer.is_none());
    let in_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if args.one_by_one || in_terminal && !args.list && !out.json && !args.all {
        return one_by_one(&reviewer, &review.items, &review.problems);
    }
    let items: Vec<Value> = review.items.iter().map(json_of).collect();
    show(out, &json!({ "items": items, "problems": review.problems }), || {
        let rows = review.items.iter().map(|one| {
            let item = &one.item;
            let changes = item.changes.iter().map(|change| format!("change: {}", change.reason));
            let found = item.findings.iter().map(|found| found.check.clone());
            let why = changes.chain(found).collect::<Vec<_>>().join(", ");
            let why = item.unjudged.as_deref().filter(|_| why.is_empty()).map_or(why.clone(), str::to_owned);
            let mut row = vec![
                item.call.to_string(),
                output::moment(item.started_at),
                visible(&item.server),
                short(&item.tool),
                item.verdict.map_or_else(|| "unjudged".to_owned(), |verdict| verdict.to_string()),
                if item.withheld { "withheld" } else { "delivered" }.to_owned(),
                short(&why),
            ];
            if args.all {
                row.push(one.answer.as_ref().map_or("", |answer| answer.action.name()).to_owned());
            }
            row
        });
        let header = ["call", "time", "server", "tool", "verdict", "the client", "why", "answer"];
        let header = if args.all { &header[..] } else { &header[..7] };
        let mut text = match review.items.is_empty() {
            true => "nothing waits for an answer\n".to_owned(),
            false => output::table(header, &[], rows) + "\n",
        };
        if !review.items.is_empty() {
            text += "\n`credence guard review CALL` shows one in full; `accept`, `reject`, `release` and `forget` take its id.\n";
        }
        review.problems.iter().for_each(|problem| text += &format!("\n{}\n", visible(problem)));
        text
    })?;
    Ok(super::super::answer(!review.problems.is_empty()))
}

pub fn answer(out: &Output, args: &AnswerArgs, genuine: bool) -> Done {
    let reviewed = open(&args.keeping)?.answer(args.call, genuine, args.change)?;
    show(out, &json_of(&reviewed), || answered(&reviewed))?;
    Ok(ExitCode::SUCCESS)
}

pub fn release(out: &Output, args: &ReleaseArgs) -> Done {
    if let Some(path) = args.output.as_deref().filter(|path| path.exists()) {
        bail!("{} exists already: choose another file", path.display());
    }
    let reviewed = open(&args.keeping)?.release(args.call)?;
    let result = reviewed.item.result.as_deref().map_or("", RawValue::get);
    let Some(path) = &args.output else {
        // JSON means the same with escapes in its strings; a program gets the server's own bytes.
        let text = if io::stdout().is_terminal() { escaped_json(result) } else { result.to_owned() };
        io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().write_all(b"\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    write_new(path, result.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    let shown = json!({ "call": args.call, "output": path, "bytes": result.len() });
    show(out, &shown, || format!("{} bytes into {}\n", result.len(), path.display()))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn write_new(path: &std::path::Path, bytes: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

pub fn forget(out: &Output, args: &ForgetArgs) -> Done {
    let reviewer = open(&args.keeping)?;
    let forgotten = match args.call {
        Some(call) => reviewer.forget(call)?,
        None => {
            let servers = servers::meant_by(&args.keeping.folder()?, args.server.as_deref())?;
            reviewer.forget_all(servers.as_deref())?
        }
    };
    let Forgotten { removed, unlearned } = forgotten;
    show(out, &json!({ "forgotten": removed, "unlearned": unlearned }), || {
        let mut text = format!("{} forgotten\n", output::count(removed, "kept result"));
        if unlearned > 0 {
            let answers = output::count(unlearned, "answer");
            text += &format!(
                "{answers} waited for the guard to start: without the result the engine learns nothing from it\n"
            );
        }
        text
    })?;
    Ok(ExitCode::SUCCESS)
}

fn history(out: &Output, reviewer: &Reviewer, servers: Option<&[String]>) -> Done {
    let mut problems = Vec::new();
    let all = reviewer.operations(servers, &mut |problem| problems.push(problem))?;
    let row = |DoneOperation { guard, operation: one, taken_up }: &DoneOperation| {
        vec![
            output::moment(one.at),
            visible(guard),
            one.action.name().to_owned(),
            one.call.map(|call| call.to_string()).unwrap_or_default(),
            visible(one.tool.as_deref().unwrap_or_default()),
            visible(&one.by.as_ref().map_or_else(|| "the guard".to_owned(), name_of)),
            visible(one.detail.as_deref().unwrap_or_default()),
            if *taken_up { "yes" } else { "not yet" }.to_owned(),
        ]
    };
    show(out, &json!({ "operations": all, "problems": problems }), || {
        let mut text = output::table(
            &["time", "guard", "action", "call", "tool", "by", "detail", "in the ledger"],
            &[],
            all.iter().map(row),
        );
        text.push('\n');
        problems.iter().for_each(|problem| text += &format!("\n{}\n", visible(problem)));
        text
    })?;
    Ok(super::super::answer(!problems.is_empty()))
}

/// Asks about one after the other.
fn one_by_one(reviewer: &Reviewer, items: &[Reviewed], problems: &[String]) -> Done {
    let mut stdout = io::stdout().lock();
    let mut answers = io::stdin().lock().lines();
    for problem in problems {
        writeln!(stdout, "{}", visible(problem))?;
    }
    if items.is_empty() {
        writeln!(stdout, "nothing waits for an answer")?;
    }
    'items: for (number, reviewed) in items.iter().enumerate() {
        writeln!(stdout, "── {} of {} ──\n{}", number + 1, items.len(), full(reviewed))?;
        let call = reviewed.item.call;
        loop {
            write!(stdout, "[a]ccept  [r]eject  [s]kip  re[l]ease  [q]uit > ")?;
            stdout.flush()?;
            let Some(line) = answers.next().transpose()? else { break 'items };
            let done = match line.trim() {
                "a" | "accept" => reviewer.answer(call, true, false).map(|reviewed| answered(&reviewed)),
                "r" | "reject" => reviewer.answer(call, false, false).map(|reviewed| answered(&reviewed)),
                "l" | "release" => {
                    let released = reviewer.release(call);
                    match released {
                        Ok(one) => {
                            writeln!(stdout, "{}", escaped_json(one.item.result.as_deref().map_or("", RawValue::get)))?;
                        }
                        Err(error) => writeln!(stdout, "{}", visible(&error.to_string()))?,
                    }
                    continue;
                }
                "s" | "skip" | "" => break,
                "q" | "quit" => break 'items,
                _ => continue,
            };
            match done {
                Ok(text) => writeln!(stdout, "{text}")?,
                // Somebody else was quicker, or it is gone: that is for the person to know, and the next one waits.
                Err(error) => writeln!(stdout, "{}\n", visible(&error.to_string()))?,
            }
            break;
        }
    }
    Ok(super::super::answer(!problems.is_empty()))
}

fn answered(reviewed: &Reviewed) -> String {
    let genuine = reviewed.answer.as_ref().is_some_and(|answer| answer.action == OperationAction::Accept);
    if let Some(why) = reviewed.item.why_nothing_to_learn() {
        let answer = if genuine { "accepted" } else { "rejected" };
        return format!("{answer}, which is recorded; the engine learns nothing from it: {}\n", visible(&why));
    }
    let when = if reviewed.running { "within a few seconds" } else { "when its guard starts" };
    let changed = !reviewed.item.is_doubted() && !reviewed.item.changes.is_empty();
    if changed {
        let what = match genuine {
            true => "accepted: the change is genuine, and results like it are believed",
            false => "rejected: results that show what changed in it are doubted",
        };
        return format!("{what}; the engine learns it {when}\n");
    }
    let what = match (genuine, reviewed.item.is_doubted()) {
        (true, true) => "accepted: results like it will be believed more; the engine",
        (false, true) => "rejected: results like it will be doubted more; the engine",
        (true, false) => "accepted: orders in this member of this tool are usual from now on; the guard",
        (false, false) => "rejected: orders in this member stay unusual; the guard",
    };
    format!("{what} learns it {when}\n")
}

/// Everything about one.
pub(super) fn full(reviewed: &Reviewed) -> String {
    let KeptItem { call, server, tool, started_at, explanation, findings, changes, arguments, result, .. } =
        &reviewed.item;
    let item = &reviewed.item;
    let started = output::moment(*started_at);
    let mut text = format!("{call}\n{} on {}, {started}\n{}\n", visible(tool), visible(server), item.headline());
    let who = [("agent", item.agent.as_ref().map(ToString::to_string)), ("session", item.session.clone())];
    for (what, who) in who {
        if let Some(who) = who {
            text += &format!("{what}: {}\n", visible(&who));
        }
    }
    if let Some(why) = &item.unjudged {
        text += &format!("not judged: {}\n", visible(why));
    }
    if !explanation.is_empty() {
        text += &format!("why: {}\n", visible(explanation));
    }
    for change in changes {
        text += &format!("change {}: {}\n", change.progress(), visible(&change.what));
    }
    for found in findings {
        let ratio = found.likelihood_ratio.map_or_else(String::new, |ratio| format!(" ({})", strength(ratio)));
        let detail = found.detail.as_ref().map_or_else(String::new, |detail| format!(": {}", visible(detail)));
        text += &format!("  {}{detail}{ratio}\n", visible(&found.check));
    }
    for (name, value) in [("arguments", arguments), ("result", result)] {
        match value {
            Some(value) => text += &format!("{name}:\n{}", shown_content(value.get())),
            None if name == "result" => text += &format!("result: not kept: {}\n", visible(&item.why_no_content())),
            None => {}
        }
    }
    if let Some(answer) = &reviewed.answer {
        let at = output::moment(answer.at);
        text += &format!("{}ed at {at} by {}\n", answer.action.name(), visible(&name_of(&answer.by)));
    }
    text
}

/// A likelihood ratio, in words.
fn strength(ratio: f64) -> &'static str {
    match ratio {
        ratio if ratio >= 100.0 => "strong evidence",
        ratio if ratio >= 10.0 => "clear evidence",
        ratio if ratio >= 2.0 => "weak evidence",
        _ => "counts for next to nothing",
    }
}

/// JSON of a server or client, for people: each line begins with a bar, and nothing in it is obeyed.
fn shown_content(json: &str) -> String {
    let pretty = serde_json::from_str::<Value>(json).ok().and_then(|value| serde_json::to_string_pretty(&value).ok());
    let pretty = pretty.unwrap_or_else(|| json.to_owned());
    let end = (0..=SHOWN_CONTENT.min(pretty.len())).rev().find(|end| pretty.is_char_boundary(*end)).unwrap_or_default();
    let mut text: String = pretty[..end].lines().map(|line| format!("  │ {}\n", visible(line))).collect();
    if end < pretty.len() {
        text += &format!("  … {} bytes more: `credence guard release` writes all of it\n", pretty.len() - end);
    }
    text
}

fn json_of(reviewed: &Reviewed) -> Value {
    let item = serde_json::to_value(&reviewed.item).unwrap_or_default();
    json!({ "item": item, "answer": reviewed.answer, "guard_running": reviewed.running })
}

/// JSON or text, either without characters that deceive.
pub(super) fn show(out: &Output, value: &Value, human: impl FnOnce() -> String) -> anyhow::Result<()> {
    let text = if out.json { escaped_json(&serde_json::to_string(value)?) + "\n" } else { human() };
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Text that a terminal shows as it is: what it would obey, hide or turn around is written out.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) || is_joiner(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

pub(super) fn short(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_IN_LIST).collect();
    visible(&cut) + if cut.len() < text.len() { "…" } else { "" }
}

/// For `credence guard status`.
pub fn waiting_text(waiting: &QuarantineCounts) -> String {
    let mut text = match waiting.waiting {
        0 => String::new(),
        n => format!(
            "; {} for review (`credence guard review`)",
            if n == 1 { "1 waits".to_owned() } else { format!("{n} wait") }
        ),
    };
    match &waiting.status {
        Some(status) if status.max_bytes == 0 => text += "; flagged results are not kept (--no-quarantine)",
        Some(status) => {
            if let Some(trouble) = status.trouble() {
                text += &format!("; {trouble}");
            }
        }
        None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colours, the clipboard (OSC 52), the window's title, C1 controls, right-to-left overrides, line separators, tags.
    const HOSTILE: &str = "\u{1b}[2J\u{1b}]52;c;cm0gLXJm\u{7}\u{9b}31m\u{202e}gpj\u{2066}\u{2028}\u{e0041}\u{200b}\u{200d}\r\n[a]ccept > a\u{7f}\u{85}";

    #[test]
    fn nothing_that_a_server_writes_is_obeyed() {
        let shown = visible(HOSTILE);
        assert!(shown.chars().all(|c| !is_deceptive(c) && !is_joiner(c)), "{shown}");
        assert!(shown.contains("\\u{1b}]52;c;cm0gLXJm\\u{7}") && shown.contains("\\u{202e}gpj"), "{shown}");
        let json = serde_json::to_string(&json!({ "text": HOSTILE, "tool": "näme 天気" })).unwrap();
        let content = shown_content(&json);
        assert!(content.lines().all(|line| line.starts_with("  │ ")), "{content}");
        assert!(content.lines().all(|line| line.chars().all(|c| !is_deceptive(c))), "{content}");
    }

    #[test]
    fn escaped_json_is_the_same_json() {
        let value = json!({ "text": HOSTILE, "emoji": "👩\u{200d}🚀 天気", "n": 1.5 });
        for json in [serde_json::to_string(&value).unwrap(), serde_json::to_string_pretty(&value).unwrap()] {
            let escaped = escaped_json(&json);
            assert!(escaped.chars().all(|c| !is_deceptive(c) && !is_joiner(c)), "{escaped}");
            assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), value);
        }
    }
}
