//! `credence agent link`, `links`, `unlink`: what outside is an agent's; and disputes of what crawlers say.

use std::{
    io::{self, BufRead, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use anyhow::{bail, ensure};
use credence_ingest::links as proofs;
use credence_pipeline::{
    Authority,
    links::{DEFAULT_DAYS, Link, MAX_DAYS},
    query,
    record::{DisputeRecord, DisputeStep, LinkState},
};
use credence_protocol::{EntityId, ExternalSubject, LinkStatement, SubjectKind, Uuid};
use credence_server::crawl::Runner;
use serde_json::json;
use url::Url;

use super::{ANSWER_IS_NO, Done, crawl};
use crate::{
    home::Home,
    keyfile,
    output::{self, Output},
};

#[derive(clap::Args)]
pub struct LinkArgs {
    agent: EntityId,
    /// What is its own: repository:github.com/acme/weather, host:shop.example, wallet:eip155:1:0x…, container:docker.io/acme/x,
    /// model:huggingface.co/acme/x, package:pkg:npm/x@1.0.0, erc8004:eip155:8453:0x…/22, solana8004:ASSET, mcp:io.github.acme/x, a2a:HOST, uaid:…, mnemom:ID
    #[arg(value_name = "KIND:ID")]
    link: ExternalSubject,
    /// Look for the proof, and record it
    #[arg(long)]
    check: bool,
    /// The wallet's signature over exactly the line; checks at once
    #[arg(long, value_name = "TEXT")]
    signature: Option<String>,
    /// Days that the line holds
    #[arg(long, default_value_t = DEFAULT_DAYS, value_parser = clap::value_parser!(i64).range(1..=MAX_DAYS))]
    days: i64,
    /// Do not ask: links are public, for good
    #[arg(long)]
    yes: bool,
    /// Ask this address instead of the host itself, as URL/HOST/PATH [default: crawl_mirror of [serve]]
    #[arg(long, value_name = "URL")]
    mirror: Option<Url>,
}

#[derive(clap::Args)]
pub struct UnlinkArgs {
    agent: EntityId,
    #[arg(value_name = "KIND:ID")]
    link: ExternalSubject,
    /// Why (public: it goes into the log)
    #[arg(long)]
    reason: String,
}

#[derive(clap::Args)]
pub struct DisputeArgs {
    agent: EntityId,
    /// The signal's id
    signal: Uuid,
    /// What is wrong with it, or why it is kept or withdrawn (public: it goes into the log)
    #[arg(long)]
    text: String,
    /// The agent's key, which signs the statement; without it the operator records it for the owner
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keep", "withdraw", "lift"])]
    key: Option<PathBuf>,
    /// The operator keeps the signal
    #[arg(long, conflicts_with = "withdraw")]
    keep: bool,
    /// The operator withdraws the signal: what the source says there is not recorded until that is lifted
    #[arg(long)]
    withdraw: bool,
    /// The operator lifts a withdrawal: what the source says from now on counts
    #[arg(long, conflicts_with_all = ["keep", "withdraw"])]
    lift: bool,
}

pub fn link(home: &Home, out: &Output, args: LinkArgs) -> Done {
    let authority = Arc::new(home.authority()?);
    query::agent(&*authority.ledger().view()?, &args.agent)?;
    if args.check || args.signature.is_some() {
        return check(home, out, &authority, args);
    }
    confirm(&args)?;
    let line = authority.claim_link(&args.agent, &args.link, args.days)?;
    authority.flush()?;
    let (how, signs) = (proofs::instructions(&args.link), proofs::needs_signature(&args.link));
    let again = if signs { "--signature SIGNATURE" } else { "--check" };
    let (agent, link) = (&args.agent, &args.link);
    out.show(&json!({ "agent": agent, "link": link, "state": "claimed", "line": line.line(), "expires": line.expires, "how": how }), || {
        format!(
            "Claimed, and not proved: it feeds nothing yet. {how}:\n\n{}\n\nThen: credence agent link {agent} {link} {again}",
            line.line()
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Links stay in the log: the person who makes one confirms it.
fn confirm(args: &LinkArgs) -> anyhow::Result<()> {
    if args.yes {
        return Ok(());
    }
    let text = format!(
        "'{}' will be linked to {} in the public log, for good: it can be taken back, not erased.",
        args.agent, args.link
    );
    ensure!(io::stdin().is_terminal(), "{text} Say --yes if that is meant");
    eprint!("{text} Go on? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { bail!("nothing was recorded") }
}

fn check(home: &Home, out: &Output, authority: &Arc<Authority>, args: LinkArgs) -> Done {
    let statement: LinkStatement = authority.link_statement(&args.agent, &args.link)?;
    let mut settings = crawl::usual_settings(home, args.mirror)?;
    // Only then a wrong setting of a chain is in the way.
    if matches!(args.link.kind(), SubjectKind::Erc8004 | SubjectKind::Solana8004) {
        settings = crawl::with_registries(home, settings)?;
    }
    let runner = Runner::new(Arc::clone(authority), Vec::new(), &settings)?;
    let found = crawl::runtime()?.block_on(runner.prove(&statement, args.signature.as_deref()))?;
    authority.flush()?;
    let (agent, link) = (&args.agent, &args.link);
    match found {
        Ok(proof) => {
            out.show(&json!({ "agent": agent, "link": link, "state": "proven", "proof": proof, "expires": statement.expires }), || {
                format!("Proved: {link} is {agent}'s until {}. `credence crawl` asks the sources that were added.", statement.expires)
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            let how = proofs::instructions(link);
            // A link that was proven before stays so here: `credence crawl` breaks it, and `serve`.
            let state = query::link(&*authority.ledger().view()?, agent, link)?.map(|row| row.state);
            out.show(&json!({ "agent": agent, "link": link, "state": state, "why": why.to_string(), "line": statement.line() }), || {
                format!("Not proved: {why}.\n{how}:\n\n{}", statement.line())
            })?;
            Ok(ExitCode::from(ANSWER_IS_NO))
        }
    }
}

pub fn list(home: &Home, out: &Output, agent: &str) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let id = reader.agent(&*view, agent)?;
    let all = query::links_of(&*view, &id)?;
    out.show(&all, || {
        let rows = all.iter().map(|Link { link, row, .. }| {
            let state = match row.state {
                LinkState::Claimed => "claimed: feeds nothing".to_owned(),
                LinkState::Proven => {
                    format!("proven by {}", row.proof.as_ref().map_or("", |proof| proof.method.as_str()))
                }
                LinkState::Broken => format!("broken: {}", row.reason.clone().unwrap_or_default()),
                LinkState::Removed => format!("removed: {}", row.reason.clone().unwrap_or_default()),
            };
            vec![link.to_string(), state, row.at.to_string(), row.expires.to_string(), row.seq.to_string()]
        });
        output::table(&["link", "state", "since", "until", "entry"], &["entry"], rows)
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn unlink(home: &Home, out: &Output, args: &UnlinkArgs) -> Done {
    let authority = home.authority()?;
    let seq = authority.remove_link(&args.agent, &args.link, &args.reason)?;
    crate::statement::score_and_flush(&authority, out)?;
    let UnlinkArgs { agent, link, .. } = args;
    out.show(&json!({ "agent": agent, "link": link, "state": "removed", "seq": seq }), || match seq {
        Some(seq) => format!("{link} is no longer {agent}'s (entry {seq}). What came over the link is withdrawn."),
        None => format!("{link} was removed before."),
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn dispute(home: &Home, out: &Output, args: DisputeArgs) -> Done {
    let step = match (args.keep, args.withdraw, args.lift) {
        (true, ..) => DisputeStep::Kept,
        (_, true, _) => DisputeStep::Withdrawn,
        (.., true) => DisputeStep::Lifted,
        _ => DisputeStep::Opened,
    };
    let DisputeArgs { agent, signal, text, key, .. } = args;
    let mut record = DisputeRecord { agent: agent.clone(), signal, step, text, key_id: None, signature: None };
    if let Some(path) = key {
        record = record.signed_by(&keyfile::read(&path)?)?;
    }
    let authority = home.authority()?;
    let seq = authority.dispute(record)?;
    crate::statement::score_and_flush(&authority, out)?;
    out.show(&json!({ "agent": agent, "signal": signal, "step": step, "seq": seq }), || match step {
        DisputeStep::Opened => format!(
            "Signal {signal} is disputed (entry {seq}). It counts until the operator decides: --keep or --withdraw."
        ),
        DisputeStep::Kept => format!("Signal {signal} is kept (entry {seq})."),
        DisputeStep::Withdrawn => format!(
            "Signal {signal} is withdrawn (entry {seq}). What its source says there is not recorded until --lift."
        ),
        DisputeStep::Lifted => {
            format!("The withdrawal of {signal} is lifted (entry {seq}): its source is asked again.")
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
