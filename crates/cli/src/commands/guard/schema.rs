use std::process::ExitCode;

use anyhow::bail;
use credence_guard::schemas;
use serde_json::{Value, json};

use super::StateArgs;
use crate::{commands::Done, output::Output};

#[derive(clap::Args)]
pub struct Args {
    /// The server's name, as `credence guard status` shows it
    name: String,
    /// The tool whose new output schema is accepted
    tool: String,
    #[command(flatten)]
    keeping: StateArgs,
    /// Only show the two schemas
    #[arg(long)]
    dry_run: bool,
}

/// A person accepts an output schema that accepts more than the former one.
pub fn run(out: &Output, args: &Args) -> Done {
    let accepted = schemas::accept(&args.keeping.folder()?, &args.name, &args.tool, args.dry_run)?;
    let Some(schemas::Acceptance { former, new }) = accepted else {
        bail!("'{}' of '{}' offers no other output schema than the one that holds", args.tool, args.name);
    };
    let shown =
        json!({ "server": args.name, "tool": args.tool, "former": former, "new": new, "accepted": !args.dry_run });
    out.show(&shown, || {
        let text =
            |schema: &Option<Value>| schema.as_ref().map_or_else(|| "none".to_owned(), |schema| format!("{schema:#}"));
        let end = match args.dry_run {
            true => "nothing was changed",
            false => "results are judged by the new one within half a minute",
        };
        format!("before: {}\nnew: {}\n\n{end}\n", text(&former), text(&new))
    })?;
    Ok(ExitCode::SUCCESS)
}
