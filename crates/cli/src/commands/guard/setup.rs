mod isolated;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::builder::PossibleValuesParser;
use credence_clients::{Change, Client, Environment, Guarding, Plan, Scope, plan_install, plan_uninstall};
use serde_json::json;

use crate::{
    commands::{Done, answer},
    output::Output,
};

#[derive(clap::Args)]
pub struct InstallArgs {
    #[command(flatten)]
    which: Which,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Have guards run as a user of their own: write systemd units for them and their servers, and connect the client to those
    #[arg(long)]
    isolated: bool,
    /// Where the units are written, for you to look at and install
    #[arg(long, value_name = "DIR", default_value = "credence-units", requires = "isolated")]
    units: PathBuf,
    /// The `credence` that guards run. An agent that can write it can take the guard's place: it belongs to root [default: this
    /// program where only root can write it, else /usr/local/bin/credence]
    #[arg(long, value_name = "FILE", requires = "isolated")]
    program: Option<PathBuf>,
    /// The user of the guards
    #[arg(long, value_name = "USER", default_value = "credence-guard", requires = "isolated")]
    guard_user: String,
    /// The user of the tool servers [default: you]
    #[arg(long, value_name = "USER", requires = "isolated")]
    tool_user: Option<String>,
    /// Flags of the guards, such as --mode enforce --agent my-agent
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
}

#[derive(clap::Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    which: Which,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
struct Which {
    /// The MCP client whose servers are meant
    #[arg(long, value_parser = PossibleValuesParser::new(Client::ALL.iter().map(|client| client.name())))]
    client: String,
    /// Its configuration file [default: where the client keeps it for this user]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also files of the project in this folder, which others may share
    #[arg(long, conflicts_with = "config")]
    project: bool,
}

impl Which {
    fn client(&self) -> anyhow::Result<Client> {
        Ok(self.client.parse()?)
    }

    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        if let Some(file) = &self.config {
            return Ok(vec![file.clone()]);
        }
        let found = self.client()?.find(&Environment::current()?);
        let found = match (found, self.older_file()?) {
            (Err(error), Some(older)) => return Err(error).context(not_rewritten(&older)),
            (found, _) => found?,
        };
        let some: Vec<PathBuf> =
            found.iter().filter(|one| self.project || one.scope == Scope::User).map(|one| one.path.clone()).collect();
        if some.is_empty() {
            let there: Vec<String> = found.iter().map(|one| one.path.display().to_string()).collect();
            bail!("there are only files of a project ({}): --project takes them too", there.join(", "));
        }
        Ok(some)
    }

    /// A file that the client reads and that is left alone.
    fn older_file(&self) -> anyhow::Result<Option<PathBuf>> {
        match self.config {
            Some(_) => Ok(None),
            None => Ok(self.client()?.older_file(&Environment::current()?)),
        }
    }
}

fn not_rewritten(older: &Path) -> String {
    format!(
        "{} is of an older form and is left alone: move its servers to config.yaml (mcpServers), then install again",
        older.display()
    )
}

pub fn install(out: &Output, args: InstallArgs) -> Done {
    let executable = std::env::current_exe().context("where this program is cannot be told")?;
    check_flags(&args.flags)?;
    let client = args.which.client()?;
    let flags = if args.isolated { vec!["--attached".to_owned()] } else { args.flags.clone() };
    let guarding = Guarding::new(&executable, flags)?;
    let plan = |file: &Path| Ok(plan_install(file, client.servers_at(), &guarding)?);
    if args.isolated {
        isolated::write_units(&executable, &args, &plan)?;
    }
    go(out, &args.which, args.dry_run, &plan)
}

/// What a guard would not start with is told now, not when the client starts it.
fn check_flags(flags: &[String]) -> anyhow::Result<()> {
    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        _run: super::RunArgs,
    }
    let line = std::iter::once("guard").chain(flags.iter().map(String::as_str)).chain(["--", "server"]);
    let parsed = <Alone as clap::Parser>::try_parse_from(line);
    parsed
        .map(drop)
        .map_err(|error| anyhow::anyhow!("the guards' flags: {}", error.kind()))
        .with_context(|| format!("`credence guard {}` would not start", flags.join(" ")))
}

pub fn uninstall(out: &Output, args: UninstallArgs) -> Done {
    let executable = std::env::current_exe().context("where this program is cannot be told")?;
    let client = args.which.client()?;
    let plan = |file: &Path| Ok(plan_uninstall(file, client.servers_at(), &executable)?);
    go(out, &args.which, args.dry_run, &plan)
}

fn go(out: &Output, which: &Which, dry_run: bool, plan: &dyn Fn(&Path) -> anyhow::Result<Plan>) -> Done {
    let mut shown = Vec::new();
    let mut text = String::new();
    let mut unsupported = false;
    let files = which.files()?;
    let mut failed = Vec::new();
    for file in &files {
        // A file that cannot be read or written does not keep the others from being guarded.
        let planned = plan(file).and_then(|plan| {
            let applied = if dry_run || !plan.changes() { None } else { Some(plan.apply()?) };
            Ok((plan, applied))
        });
        let (plan, applied) = match planned {
            Ok(planned) => planned,
            Err(error) => {
                failed.push((file, error));
                continue;
            }
        };
        text += &format!("{}\n", plan.path.display());
        for one in &plan.servers {
            unsupported |= matches!(one.change, Change::Unsupported(_));
            text += &format!("  {:<24} {}\n", one.name, word(&one.change, dry_run));
        }
        if let Some(backup) = applied.as_ref().and_then(|applied| applied.backup.as_ref()) {
            text += &format!("  before: {}\n", backup.display());
        }
        if dry_run {
            text += &plan.diff();
        } else if applied.is_some() {
            text += "  restart the client for it to notice\n";
        }
        let servers =
            plan.servers.iter().map(|one| json!({ "server": one.name, "change": word(&one.change, dry_run) }));
        shown.push(json!({
            "file": plan.path, "changed": applied.is_some(), "servers": servers.collect::<Vec<_>>(),
            "backup": applied.and_then(|applied| applied.backup), "diff": dry_run.then(|| plan.diff()),
        }));
    }
    if failed.len() == files.len()
        && let Some((_, error)) = failed.pop()
    {
        return Err(error);
    }
    for (file, error) in &failed {
        text += &format!("{}\n  left alone: {error:#}\n", file.display());
        shown.push(json!({ "file": file, "changed": false, "error": format!("{error:#}") }));
    }
    let older = which.older_file()?;
    if let Some(older) = &older {
        text += &format!("{}\n", not_rewritten(older));
        shown.push(json!({ "file": older, "changed": false, "error": not_rewritten(older) }));
    }
    out.show(&json!({ "files": shown }), || text)?;
    Ok(answer(unsupported || older.is_some() || !failed.is_empty()))
}

fn word(change: &Change, dry_run: bool) -> String {
    match change {
        Change::Guarded { slug } if dry_run => format!("would run under a guard named '{slug}'"),
        Change::Guarded { slug } => format!("runs under a guard named '{slug}'"),
        Change::Unguarded if dry_run => "would run without a guard again".to_owned(),
        Change::Unguarded => "runs without a guard again".to_owned(),
        Change::AlreadyGuarded => {
            "runs under a guard already, with the flags it has: uninstall first to change them".to_owned()
        }
        Change::NotGuarded => "has no guard".to_owned(),
        Change::Remote { url } => {
            format!(
                "left alone: it is at {url}; `credence guard --upstream URL --listen ADDRESS` stands in front of such"
            )
        }
        Change::Unsupported(why) => format!("left alone: {why}"),
        _ => "left alone".to_owned(),
    }
}
