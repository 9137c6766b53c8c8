//! Reviewing elsewhere: what guards report to an authority, read with a token of the same name and a reviewer's key.

use std::{os::unix::fs::PermissionsExt, path::PathBuf, process::ExitCode};

use anyhow::{Context, anyhow, bail, ensure};
use credence_guard::quarantine::{
    reporting::{self, ReportedGuard},
    reviewer::Reviewed,
    reviewer_key::{self, ReviewerSecretKey},
};
use credence_protocol::{Uuid, waiting_review::WaitingReview};
use serde_json::{Value, json};

use super::review::{full, short, show, visible, write_new};
use crate::{
    commands::Done,
    input,
    output::{self, Output},
};

/// Bytes of a key or token file.
const MAX_FILE_BYTES: u64 = 4096;

#[derive(clap::Args)]
pub struct Args {
    /// What guards reported to this authority, in place of what is kept here
    #[arg(long, value_name = "URL", conflicts_with_all = ["all", "one_by_one", "history", "server"])]
    pub authority: Option<url::Url>,
    /// A file with a token of scope `verify` for it, of the name under which the guards report [default: the environment's
    /// CREDENCE_GUARD_TOKEN]
    #[arg(long, value_name = "FILE", requires = "authority")]
    token_file: Option<PathBuf>,
    /// The private key that `credence guard reviewer-key` made: shows content that was encrypted to it
    #[arg(long, value_name = "FILE", requires = "authority")]
    reviewer_key: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct KeyArgs {
    /// A new file for the private key
    output: PathBuf,
}

/// Makes a key pair: the private half into a file, the public half is printed.
pub fn make_key(out: &Output, args: &KeyArgs) -> Done {
    let (secret, public) = reviewer_key::generate();
    let text = secret.to_text();
    write_new(&args.output, text.as_bytes()).with_context(|| format!("cannot make {}", args.output.display()))?;
    let shown = json!({ "public_key": public.to_string(), "private_key_file": args.output });
    out.show(&shown, || {
        format!("{public}\n\nGuards encrypt to it: credence guard … --send-reviews --report-content --reviewer-key {public}\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

fn secret_key(path: &std::path::Path) -> anyhow::Result<ReviewerSecretKey> {
    let mode = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.permissions().mode();
    let shown = path.display();
    ensure!(mode & 0o077 == 0, "{shown} can be read by others (mode {:o}): run `chmod 600 {shown}`", mode & 0o777);
    let text = String::from_utf8_lossy(&input::file(path, MAX_FILE_BYTES)?).into_owned();
    text.parse().map_err(|why: String| anyhow!("{shown}: {why}"))
}

/// Shows what waits at the guards that report under the token's name.
pub fn review(out: &Output, authority: &url::Url, args: &Args, call: Option<Uuid>) -> Done {
    let key = args.reviewer_key.as_deref().map(secret_key).transpose()?;
    let token = match &args.token_file {
        Some(path) => String::from_utf8(input::file(path, MAX_FILE_BYTES)?)?.trim().to_owned(),
        None => std::env::var("CREDENCE_GUARD_TOKEN").unwrap_or_default(),
    };
    ensure!(!token.is_empty(), "a token of scope `verify` is needed: --token-file FILE, or CREDENCE_GUARD_TOKEN");
    let guards = reporting::ask(authority, &token).map_err(|why| anyhow!("{authority}: {why}"))?;
    let all = || guards.iter().flat_map(|guard| guard.reviews.iter().map(move |review| (guard, review)));
    let chosen: Vec<(&ReportedGuard, &WaitingReview)> =
        all().filter(|(_, review)| call.is_none_or(|call| review.call == call)).collect();
    if let (Some(call), true) = (call, chosen.is_empty()) {
        bail!("no guard has reported that call {call} waits, under the name of this token");
    }
    let content = |review: &WaitingReview| key.as_ref().and_then(|key| reporting::open(review, key));
    let shown: Vec<Value> = chosen
        .iter()
        .map(|(guard, review)| {
            let names = json!({ "log": guard.log, "reported_at": guard.reported_at, "call": review.call, "tool": review.tool,
                "at": review.at, "verdict": review.verdict, "withheld": review.withheld, "checks": review.checks,
                "members": review.members, "sealed": review.sealed.is_some() });
            json!({ "review": names, "content": content(review) })
        })
        .collect();
    show(out, &json!({ "items": shown }), || {
        if let (Some(_), [(guard, review)]) = (call, chosen.as_slice()) {
            return match content(review) {
                Some(item) => full(&Reviewed { item, answer: None, running: true }),
                None => names(guard, review, key.is_some()),
            };
        }
        let rows = chosen.iter().map(|(guard, review)| {
            vec![
                review.call.to_string(),
                output::moment(review.at),
                visible(&guard.log),
                short(&review.tool),
                review.verdict.map_or_else(|| "unjudged".to_owned(), |verdict| verdict.to_string()),
                short(&review.checks.join(", ")),
                short(&review.members.join(", ")),
            ]
        });
        match chosen.is_empty() {
            true => "nothing waits for an answer\n".to_owned(),
            false => {
                output::table(&["call", "time", "guard", "tool", "verdict", "checks", "members"], &[], rows) + "\n"
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What is known without the content.
fn names(guard: &ReportedGuard, review: &WaitingReview, with_key: bool) -> String {
    let sealed = match review.sealed {
        Some(_) if with_key => "its content was encrypted to another key than this one",
        Some(_) => "its content was encrypted: --reviewer-key FILE shows it",
        None => "its content was not sent",
    };
    format!(
        "{}\n{} at {}, {}\n{}\nchecks: {}\nmembers: {}\n{sealed}\n",
        review.call,
        visible(&review.tool),
        visible(&guard.log),
        output::moment(review.at),
        review.verdict.map_or_else(|| "not judged".to_owned(), |verdict| verdict.to_string()),
        visible(&review.checks.join(", ")),
        visible(&review.members.join(", "))
    )
}
