//! Signed answers: `trust-signals` and `badge`.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::ValueEnum;
use credence_engine::assessment::Rules;
use credence_output::badge::Style;
use credence_pipeline::answer::{Answers, Question};
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
    let answer = {
        let reader = home.reader()?;
        let answers = Answers { reading: reader.reading(), rules: &rules, key: &key };
        answers.answer(&*reader.view()?, question, now())?
    };
    if !args.unrecorded {
        let authority = home.authority()?;
        authority.record_responses(vec![answer.document.hash().to_owned()], 0)?;
        authority.flush()?;
    }
    writeln!(std::io::stdout(), "{}", answer.document.as_str())?;
    Ok(ExitCode::SUCCESS)
}

pub fn badge(home: &Home, out: &Output, args: BadgeArgs) -> Done {
    let key = home.signer()?.context("the authority's key is not here: badges cannot be signed")?;
    let rules = Rules::standard()?;
    let reader = home.reader()?;
    let answers = Answers { reading: reader.reading(), rules: &rules, key: &key };
    let style = match args.style {
        BadgeStyle::Flat => Style::Flat,
        BadgeStyle::Pill => Style::Pill,
    };
    let svg = answers.badge(&*reader.view()?, &args.agent, style, now())?.svg;
    match args.out.as_deref() {
        Some(path) => written(out, path, &svg)?,
        None => write!(std::io::stdout(), "{svg}")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn written(out: &Output, path: &Path, svg: &str) -> anyhow::Result<()> {
    traces::write(path, svg.as_bytes())?;
    out.show(&json!({ "file": path }), || format!("Badge in {}", path.display()))
}
