//! `credence guard config`: is guard.toml right, and what holds for a server or a tool.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use credence_guard::{
    config::{
        GuardConfig,
        check::{self, Seen},
        effective::{Flags, Setting},
        file,
    },
    identity::{ServerIdentity, model_folder},
    schemas::Schemas,
};
use credence_receipts::{
    archive::{Archive, Filter},
    folder,
};
use serde_json::json;

use super::StateArgs;
use crate::{
    commands::{Done, answer},
    output::{self, Output},
};

#[derive(clap::Subcommand)]
pub enum Command {
    /// Check the file, and warn about rules that can never match and about what is not there; exit code 2 where there are warnings
    Check(CheckArgs),
    /// What holds for a server, or one of its tools, and where each setting comes from
    Show(ShowArgs),
}

#[derive(clap::Args)]
pub struct CheckArgs {
    /// The file [default: guard.toml in ~/.config/credence]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    keeping: StateArgs,
}

#[derive(clap::Args)]
pub struct ShowArgs {
    /// The server's label
    server: String,
    /// The tool
    tool: Option<String>,
    /// The file [default: guard.toml in ~/.config/credence]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub fn run(out: &Output, command: Command) -> Done {
    match command {
        Command::Check(args) => check(out, &args),
        Command::Show(args) => show(out, &args),
    }
}

fn check(out: &Output, args: &CheckArgs) -> Done {
    let config = GuardConfig::load(args.config.as_deref())?;
    let seen = seen(&args.keeping).context("what guards have met cannot be read")?;
    let mut warnings = check::warnings(&config, &seen);
    warnings.extend(check::missing(&config));
    warnings.sort_by_key(|warning| warning.line);
    let shown = json!({ "file": config.path, "warnings": warnings });
    out.show(&shown, || match &config.path {
        None => {
            let path = file::default_path().map(|path| path.display().to_string()).unwrap_or_default();
            format!("there is no {path}: the defaults hold\n")
        }
        Some(path) => {
            let mut text = String::new();
            for warning in &warnings {
                text += &format!("{}, line {}: {}\n", path.display(), warning.line, warning.text);
            }
            let end = match warnings.len() {
                0 => "fine".to_owned(),
                1 => "valid, with 1 warning".to_owned(),
                n => format!("valid, with {n} warnings"),
            };
            text + &format!("{}: {end}\n", path.display())
        }
    })?;
    Ok(answer(!warnings.is_empty()))
}

/// The labels and tools that guards have met: by receipts, and by what servers declared.
fn seen(keeping: &StateArgs) -> anyhow::Result<Seen> {
    let state = keeping.folder()?;
    let mut seen = Seen::new();
    if !folder::key_file(&state).exists() && keeping.key.is_none() {
        return Ok(seen);
    }
    let archive = Archive::open(&state, &keeping.provider, &keeping.secret(false)?)?;
    for source in &archive.sources {
        let server = state.join(&source.server);
        let label = ServerIdentity::read(&server).map_or_else(|| source.server.clone(), |known| known.label);
        let tools = seen.entry(label).or_default();
        tools.extend(Schemas::read(&model_folder(&server)).unwrap_or_default().tools.into_keys());
    }
    archive.visit(
        &Filter::default(),
        &mut |found, _| {
            seen.entry(found.receipt.server.clone()).or_default().insert(found.receipt.tool.clone());
            Ok(())
        },
        &mut |_| (),
    )?;
    Ok(seen)
}

fn show(out: &Output, args: &ShowArgs) -> Done {
    let config = GuardConfig::load(args.config.as_deref())?;
    let effective = config.effective(&args.server, args.tool.as_deref(), &Flags::default());
    fn row<T>(name: &str, setting: &Setting<T>, value: impl ToString) -> (String, String, String) {
        (name.to_owned(), value.to_string(), setting.origin.to_string())
    }
    let or_default = |value: Option<String>, default: &str| value.unwrap_or_else(|| default.to_owned());
    let block_rate = or_default(effective.block_rate.value.map(|rate| rate.to_string()), "0.01");
    let after = or_default(effective.enforce_after.value.map(|after| after.to_string()), "at once");
    let rows = [
        row("mode", &effective.mode, effective.mode.value.name()),
        row("enforce_after", &effective.enforce_after, after),
        row("block_rate", &effective.block_rate, block_rate),
        row("flags", &effective.flags, effective.flags.value.name()),
        row("content_injection", &effective.content_injection, effective.content_injection.value),
        row("canaries", &effective.canaries, effective.canaries.value),
    ];
    let settings: serde_json::Map<String, serde_json::Value> =
        rows.iter().map(|(name, value, from)| (name.clone(), json!({ "value": value, "from": from }))).collect();
    let shown = json!({ "file": config.path, "server": args.server, "tool": args.tool, "settings": settings });
    out.show(&shown, || {
        let path =
            config.path.as_ref().map_or("no file: the defaults hold".to_owned(), |path| path.display().to_string());
        let cells = rows.iter().map(|(name, value, from)| vec![name.clone(), value.clone(), from.clone()]);
        format!(
            "{path}\n{}\nFlags of a guard (--mode, --content-injection, --canaries, --calibration) override these.\n",
            output::table(&["setting", "value", "from"], &[], cells)
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
