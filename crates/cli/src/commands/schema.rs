use std::process::ExitCode;

use anyhow::Context;
use credence_protocol::schemas;

use super::Done;
use crate::output::Output;

#[derive(clap::Args)]
pub struct Args {
    /// Which [default: list their names]
    name: Option<String>,
}

pub fn run(out: &Output, args: Args) -> Done {
    let names: Vec<&str> = schemas::ALL.iter().map(|(name, _)| *name).collect();
    match args.name {
        None => out.show(&names, || names.join("\n"))?,
        Some(wanted) => {
            let found = schemas::ALL.iter().find(|(name, _)| *name == wanted);
            let (_, text) = found.with_context(|| format!("no schema '{wanted}': there are {}", names.join(", ")))?;
            out.show(&serde_json::from_str::<serde_json::Value>(text)?, || (*text).to_owned())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
