//! Reports on agents: drafted from the ledger, released by a person.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail, ensure};
use clap::{Subcommand, ValueEnum};
use credence_ledger::LogVerifier;
use credence_pipeline::reports::{ReportAction, ReportRow, TokenHolder};
use credence_protocol::Uuid;
use credence_reports::{
    Actor, Desk, Listed, Report,
    gather::{Request, gather},
    html, markdown,
    page::Links,
};
use credence_server::tokens::{self, Scope, Token};
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::{Home, now},
    input,
    output::{self, Output},
    traces,
};

/// Holds a token in place of `--token-file`.
const TOKEN_VARIABLE: &str = "CREDENCE_TOKEN";
/// Bytes of a file with a token, or with a summary.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// Reports in a list.
const LISTED: usize = 200;

#[derive(clap::Args)]
pub struct Args {
    /// A file with a token [default: the environment's CREDENCE_TOKEN]. Drafting needs scope `ingest`, deciding scope `review`
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Draft a report from the ledger; only you and reviewers see it
    Draft {
        /// An agent's id or alias
        agent: String,
        /// What you add in words of your own; shown as such
        #[arg(long, value_name = "TEXT", conflicts_with = "summary_file")]
        summary: Option<String>,
        /// The same from a file; - for standard input
        #[arg(long, value_name = "FILE")]
        summary_file: Option<String>,
    },
    /// List what was published, and the drafts that you may see
    List {
        /// About this agent alone: its id or alias
        #[arg(long)]
        agent: Option<String>,
    },
    /// Print a report
    Show {
        /// Its id
        report: Uuid,
        /// As what
        #[arg(long, value_enum, default_value = "markdown")]
        format: Format,
        /// Where to write it [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Approve a draft of somebody else (scope `review`)
    Approve {
        /// Its id
        report: Uuid,
        /// The digest of what you read, as `report show` gives it: other contents are not approved
        #[arg(long, value_name = "HEX")]
        digest: Option<String>,
    },
    /// Reject a draft of somebody else, for good (scope `review`)
    Reject {
        /// Its id
        report: Uuid,
        /// Why (public: it goes into the log)
        #[arg(long)]
        reason: String,
    },
    /// Sign and publish a report that was approved (scope `review`)
    Publish {
        /// Its id
        report: Uuid,
    },
    /// Say what is wrong in a published report (scope `review`); its page shows it
    Correct {
        /// Its id
        report: Uuid,
        /// What was wrong (public: it goes into the log)
        #[arg(long)]
        reason: String,
        /// The published report that takes its place
        #[arg(long, value_name = "REPORT")]
        replaced_by: Option<Uuid>,
    },
    /// Take a published report back (scope `review`); it stays readable, and its page says so
    Withdraw {
        /// Its id
        report: Uuid,
        /// Why (public: it goes into the log)
        #[arg(long)]
        reason: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text with tables
    Markdown,
    /// A page that needs nothing else and prints on A4
    Html,
    /// State, decisions and contents as JSON
    Json,
    /// The signed document of a published report, for `credence check`
    Signed,
}

/// The person who runs the command, by the token that was given.
struct Caller {
    token: Token,
    actor: Actor,
}

impl Caller {
    /// The token that was given, if one was; refused where it is not in force.
    fn of(home: &Home, file: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let text = match file {
            Some(path) => String::from_utf8(input::file(path, MAX_FILE_BYTES)?).context("a token is text")?,
            None => std::env::var(TOKEN_VARIABLE).unwrap_or_default(),
        };
        if text.trim().is_empty() {
            ensure!(file.is_none(), "there is no token in the file");
            return Ok(None);
        }
        let found = tokens::find(home.tokens(), text.trim(), now())?;
        let token =
            found.context("the token is unknown, revoked or expired: `credence token list` shows those there are")?;
        let actor = Actor::new(token.name.clone(), &token.id, token.may(Scope::Review));
        Ok(Some(Self { token, actor }))
    }

    fn required(home: &Home, file: Option<&Path>, scope: Scope) -> anyhow::Result<Self> {
        let key = scope.key();
        let caller = Self::of(home, file)?.with_context(|| {
            format!("this needs a token with scope '{key}', in --token-file or {TOKEN_VARIABLE}: `credence token create NAME --scope {key}` makes one")
        })?;
        ensure!(caller.token.may(scope), "this needs a token with scope '{key}', and '{}' has none", caller.token.name);
        Ok(caller)
    }
}

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    let config = home.config()?;
    let desk = Desk::in_folder(home.path());
    let file = args.token_file.as_deref();
    match args.command {
        Command::Draft { agent, summary, summary_file } => {
            let caller = Caller::required(home, file, Scope::Ingest)?;
            let summary = match summary_file {
                Some(name) => {
                    Some(String::from_utf8(input::file_or_stdin(&name, MAX_FILE_BYTES)?).context("a summary is text")?)
                }
                None => summary,
            };
            let reader = home.reader()?;
            let view = reader.view()?;
            let agent = reader.agent(&*view, &agent)?;
            let log = LogVerifier::parse(&config.log_key)?;
            let request = Request {
                reading: reader.reading(),
                log: &log,
                agent: &agent,
                drafter: caller.actor.holder().clone(),
                summary,
                now: now(),
            };
            let draft = desk.draft(gather(&*view, request)?)?;
            let (report, digest) = (draft.sheet().report(), draft.sheet().digest());
            out.show(&json!({ "report": report, "agent": agent, "state": "draft", "digest": digest }), || {
                format!("Draft {report} on {agent}\nSomebody else with a token of scope 'review' decides: credence report show {report}, then approve or reject")
            })?;
        }
        Command::List { agent } => {
            let caller = Caller::of(home, file)?;
            let reader = home.reader()?;
            let view = reader.view()?;
            let agent = agent.map(|agent| reader.agent(&*view, &agent)).transpose()?;
            let actor = caller.as_ref().map(|caller| &caller.actor);
            let listed = desk.list(&*view, agent.as_ref(), actor, LISTED)?;
            list(out, &listed)?;
        }
        Command::Show { report, format, out: to } => {
            let caller = Caller::of(home, file)?;
            let reader = home.reader()?;
            let actor = caller.as_ref().map(|caller| &caller.actor);
            let found = desk.find(&*reader.view()?, report, actor)?;
            show(home, out, &found, actor, format, to.as_deref())?;
        }
        Command::Approve { report, digest } => decide(home, out, file, report, |desk, authority, by, in_force| {
            Ok(desk.approve(authority, report, by, digest.as_deref(), in_force)?.row().clone())
        })?,
        Command::Reject { report, reason } => decide(home, out, file, report, |desk, authority, by, _| {
            Ok(desk.reject(authority, report, by, reason)?.row().clone())
        })?,
        Command::Publish { report } => {
            let key = home.signer()?.context("the authority's key is not here: reports cannot be signed")?;
            decide(home, out, file, report, |desk, authority, by, in_force| {
                Ok(desk.publish(authority, &key, report, by, in_force)?.row().clone())
            })?;
        }
        Command::Correct { report, reason, replaced_by } => {
            decide(home, out, file, report, |desk, authority, by, _| {
                Ok(desk.correct(authority, report, by, reason, replaced_by)?.row().clone())
            })?
        }
        Command::Withdraw { report, reason } => decide(home, out, file, report, |desk, authority, by, _| {
            Ok(desk.withdraw(authority, report, by, reason)?.row().clone())
        })?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes a decision with a token of scope `review`.
fn decide(
    home: &Home,
    out: &Output,
    file: Option<&Path>,
    report: Uuid,
    take: impl FnOnce(
        &Desk,
        &credence_pipeline::Authority,
        &credence_reports::Reviewer,
        credence_reports::InForce<'_>,
    ) -> credence_reports::Result<ReportRow>,
) -> anyhow::Result<()> {
    let caller = Caller::required(home, file, Scope::Review)?;
    let by = caller.actor.reviewer()?;
    let known: Vec<String> = home.tokens().list()?.into_iter().map(|token| token.id).collect();
    let in_force = |holder: &TokenHolder| known.contains(&holder.token);
    let authority = home.authority()?;
    let row = take(&Desk::in_folder(home.path()), &authority, &by, &in_force)?;
    authority.flush()?;
    let Some(event) = row.events.last() else { bail!("nothing was recorded") };
    let (seq, state, action) = (event.seq, row.state.key(), event.action);
    out.show(
        &json!({ "report": report, "agent": row.agent, "state": state, "seq": seq, "by": event.by.name }),
        || {
            let next = match action {
                ReportAction::Approved => format!("\nPublish it: credence report publish {report}"),
                ReportAction::Published => {
                    format!("\nSigned: credence report show {report} --format signed --out report.json")
                }
                _ => String::new(),
            };
            format!("Report {report} on {} is {} by {} (entry {seq}).{next}", row.agent, action.key(), event.by.name)
        },
    )?;
    Ok(())
}

fn list(out: &Output, listed: &[Listed]) -> anyhow::Result<()> {
    let shown: Vec<Value> = listed
        .iter()
        .map(|one| {
            json!({ "report": one.report, "agent": one.agent, "state": one.state, "digest": one.digest,
                "drafted_by": one.drafted_by.name, "at": one.at, "corrected": one.corrected })
        })
        .collect();
    out.show(&shown, || {
        if listed.is_empty() {
            return "No report that you may see.".to_owned();
        }
        let rows = listed.iter().map(|one| {
            let state = if one.corrected { format!("{}, corrected", one.state) } else { one.state.to_owned() };
            vec![
                one.report.to_string(),
                one.agent.to_string(),
                state,
                one.drafted_by.name.to_string(),
                one.at.to_string(),
            ]
        });
        output::table(&["report", "agent", "state", "drafted by", "at"], &[], rows)
    })?;
    Ok(())
}

fn show(
    home: &Home,
    out: &Output,
    report: &Report,
    reader: Option<&Actor>,
    format: Format,
    to: Option<&Path>,
) -> anyhow::Result<()> {
    let id = report.sheet().report();
    let unknown = || credence_reports::Error::Unknown(id);
    let page = report.page_for(reader).ok_or_else(unknown)?;
    let links = links(home)?;
    let text = match (format, report) {
        (_, _) if out.json && format == Format::Markdown => json_of(report, reader)?,
        (Format::Markdown, _) => markdown::render(&page, &links),
        (Format::Html, _) => html::document(&report.title(), &page, &links),
        (Format::Json, _) => json_of(report, reader)?,
        (Format::Signed, Report::Published(published)) => format!("{}\n", published.document()),
        (Format::Signed, other) => bail!("report {id} is {}: only a published one is signed", other.state()),
    };
    match to {
        Some(path) => {
            traces::write(path, text.as_bytes())?;
            out.note(&format!("Report {id} in {}", path.display()));
        }
        None => write!(std::io::stdout(), "{text}")?,
    }
    Ok(())
}

/// To the service on this folder, as it is or will be reached.
fn links(home: &Home) -> anyhow::Result<Links> {
    let settings = home.settings(&home.config()?.serve, &[])?;
    let local = match home.served_at()? {
        Some(kept) => kept,
        None => format!("http://{}", settings.listen),
    };
    Ok(Links::to(settings.base_url(&local)))
}

fn json_of(report: &Report, reader: Option<&Actor>) -> anyhow::Result<String> {
    let sheet = report.sheet();
    let contents = report.json_for(reader).ok_or(credence_reports::Error::Unknown(sheet.report()))?;
    let events = report.row().map(|row| row.events.clone()).unwrap_or_default();
    let shown = json!({ "report": sheet.report(), "agent": sheet.agent(), "state": report.state(), "digest": sheet.digest(),
        "drafted_by": sheet.drafted_by(), "drafted_at": sheet.drafted_at(), "events": events, "contents": contents });
    Ok(format!("{shown}\n"))
}
