use std::process::ExitCode;

use anyhow::bail;
use credence_guard::{quarantine::reviewer::check_owner, schemas};
use serde_json::{Value, json};

use super::{StateArgs, servers};
use crate::{commands::Done, output::Output};

#[derive(clap::Args)]
pub struct Args {
    /// The server: its label, or the name of its folder as `credence guard status` shows it
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
    let state = args.keeping.folder()?;
    let meant = servers::meant(&state, &args.name)?;
    check_owner(&state)?;
    let mut offers = Vec::new();
    for server in meant {
        offers.extend(schemas::accept(&state, &server, &args.tool, true)?.map(|_| server));
    }
    let server = match offers.as_slice() {
        [server] => server,
        [] => bail!("'{}' of '{}' offers no other output schema than the one that holds", args.tool, args.name),
        several => bail!(
            "'{}' is the label of several servers whose schemas changed: name one of {}",
            args.name,
            several.join(", ")
        ),
    };
    let Some(schemas::Acceptance { former, new }) = schemas::accept(&state, server, &args.tool, args.dry_run)? else {
        bail!("'{}' of '{server}' has just been accepted by somebody else", args.tool);
    };
    let shown = json!({ "server": server, "tool": args.tool, "former": former, "new": new, "accepted": !args.dry_run });
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
