//! Signed answers: `trust-signals` and `badge`.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::ValueEnum;
use credence_engine::assessment::Rules;
use credence_ledger::View;
use credence_output::badge::Style;
use credence_pipeline::{
    answer::{Answers, Question, Refusal},
    query::Reading,
    responses::{ReaderClass, SentResponse},
};
use serde_json::json;

use super::Done;
use crate::{
    home::{Home, now},
    output::Output,
    traces,
};

#[derive(clap::Args)]
pub struct Args {
    /// An agent's id or alias
    agent: String,
    /// The page that the asking agent is on: it must be one of the agent's own
    #[arg(long)]
    url: String,
    /// What for: purchase, inquiry, high-value, or anything else for a general answer
    #[arg(long)]
    context: Option<String>,
    /// Do not record in the ledger that this answer left
    #[arg(long)]
    unrecorded: bool,
}

#[derive(clap::Args)]
pub struct BadgeArgs {
    /// An agent's id or alias
    agent: String,
    #[arg(long, value_enum, default_value_t = BadgeStyle::Flat)]
    style: BadgeStyle,
    /// Where to write the SVG [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum BadgeStyle {
    /// Square corners
    Flat,
    /// Round ends
    Pill,
}

pub fn trust_signals(home: &Home, args: Args) -> Done {
    let key = home.signer()?.context("the authority's key is not here: answers cannot be signed")?;
    let rules = Rules::standard()?;
    let question = Question { entity: &args.agent, url: &args.url, context: args.context.as_deref() };
    let answer = if args.unrecorded {
        signed(home, |reading, view, rescored| {
            Answers::new(reading, &rules, &key).on(rescored).answer(view, question, now())
        })?
    } else {
        let authority = home.authority()?;
        let answers = Answers::new(authority.reading(), &rules, &key);
        let answer = authority.up_to_date(|view, rescored| answers.on(rescored).answer(view, question, now()))?;
        let (hash, expires) = (answer.document.hash().to_owned(), answer.expires);
        authority.record_responses(vec![SentResponse { hash, expires, class: ReaderClass::Bearer }])?;
        authority.flush()?;
        answer
    };
    writeln!(std::io::stdout(), "{}", answer.document.as_str())?;
    Ok(ExitCode::SUCCESS)
}

pub fn badge(home: &Home, out: &Output, args: BadgeArgs) -> Done {
    let key = home.signer()?.context("the authority's key is not here: badges cannot be signed")?;
    let rules = Rules::standard()?;
    let style = match args.style {
        BadgeStyle::Flat => Style::Flat,
        BadgeStyle::Pill => Style::Pill,
    };
    let badge = signed(home, |reading, view, rescored| {
        Answers::new(reading, &rules, &key).on(rescored).badge(view, &args.agent, style, now())
    })?;
    let svg = badge.svg;
    match args.out.as_deref() {
        Some(path) => written(out, path, &svg)?,
        None => write!(std::io::stdout(), "{svg}")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes something signed from the ledger as it is; the ledger is opened for writing only where the agent has to be rescored
/// first.
fn signed<T>(home: &Home, make: impl Fn(Reading<'_>, &dyn View, bool) -> Result<T, Refusal>) -> anyhow::Result<T> {
    {
        let reader = home.reader()?;
        match make(reader.reading(), &*reader.view()?, false) {
            Err(Refusal::Behind(_)) => {}
            made => return Ok(made?),
        }
    }
    let authority = home.authority().context("rescoring is due before this can be signed")?;
    Ok(authority.up_to_date(|view, rescored| make(authority.reading(), view, rescored))?)
}

fn written(out: &Output, path: &Path, svg: &str) -> anyhow::Result<()> {
    traces::write(path, svg.as_bytes())?;
    out.show(&json!({ "file": path }), || format!("Badge in {}", path.display()))
}
