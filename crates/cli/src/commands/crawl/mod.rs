//! `credence crawl`: ask others about what is proved to be an agent's.

mod add;
#[cfg(feature = "chain")]
mod chains;
mod files;
mod known;
mod list;

use std::{process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Subcommand;
use credence_pipeline::query::{self, CrawlRow};
use credence_protocol::{EntityId, Timestamp};
use credence_server::crawl::{CrawlSettings, Runner, Selection, Totals, TriedSource};
use serde_json::{Value, json};
use tokio::sync::watch;
use url::Url;

use super::Done;
use crate::{
    home::{Home, clock},
    output::{self, Output},
};
pub use known::installed;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only about this agent (an id or an alias)
    #[arg(long)]
    agent: Option<String>,
    /// Only of this source
    #[arg(long)]
    source: Option<EntityId>,
    /// Also what is not due yet
    #[arg(long)]
    now: bool,
    /// Ask and print what would be recorded; record nothing
    #[arg(long)]
    dry_run: bool,
    /// Ask this address instead of each source's own, as URL/HOST/PATH [default: crawl_mirror of [serve]]
    #[arg(long, value_name = "URL")]
    mirror: Option<Url>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Add sources: built-in ones by their names, source files, or configured chains. Each gets a key, and the weight in its file
    Add(add::AddArgs),
    /// List the sources that are built in and those that were added
    List,
    /// Check source files: what is wrong, and on which line
    Lint {
        #[arg(required = true)]
        files: Vec<String>,
    },
    /// Read a recorded response with a source file, without asking anyone
    Test(files::TestArgs),
    /// How each source is doing: last success, failures by reason, signals, quota
    Status,
}

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    match args.command {
        Some(Command::Add(args)) => add::add(home, out, &args),
        Some(Command::List) => list::list(home, out),
        Some(Command::Lint { files }) => files::lint(out, &files),
        Some(Command::Test(args)) => files::test(out, &args),
        Some(Command::Status) => status(home, out),
        None => crawl(home, out, args),
    }
}

/// How crawlers ask, for this folder.
pub fn settings(home: &Home, mirror: Option<Url>, contact: &str, set: &str) -> anyhow::Result<CrawlSettings> {
    let mirror = match mirror {
        Some(mirror) => Some(mirror),
        None if set.is_empty() => None,
        None => Some(Url::parse(set).with_context(|| format!("crawl_mirror in {}", home.config_file().display()))?),
    };
    Ok(CrawlSettings {
        contact: Url::parse(contact).ok(),
        mirror,
        secrets: Arc::new(|name| std::env::var(name).ok()),
        registries: Arc::default(),
        clock: clock(),
    })
}

/// The same, with the operator's nodes: they are asked for proofs of on-chain registrations.
pub fn with_registries(home: &Home, settings: CrawlSettings) -> anyhow::Result<CrawlSettings> {
    #[cfg(feature = "chain")]
    let settings = CrawlSettings { registries: chains::registries(home)?, ..settings };
    #[cfg(not(feature = "chain"))]
    let _ = home;
    Ok(settings)
}

/// The same, from the settings of the service.
pub fn usual_settings(home: &Home, mirror: Option<Url>) -> anyhow::Result<CrawlSettings> {
    let serve = home.settings(&home.config()?.serve, &[])?;
    settings(home, mirror, &serve.public_url, &serve.crawl_mirror)
}

/// A runtime for a command that asks others.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("no runtime")
}

fn crawl(home: &Home, out: &Output, args: Args) -> Done {
    let settings = with_registries(home, usual_settings(home, args.mirror)?)?;
    let authority = Arc::new(home.authority()?);
    let agent = match &args.agent {
        Some(name) => Some(query::resolve(&*authority.ledger().view()?, name)?),
        None => None,
    };
    let installed = installed(home, &authority)?;
    anyhow::ensure!(
        !installed.is_empty(),
        "no source was added: `credence crawl list` shows those built in, `credence crawl add` adds them"
    );
    if let Some(source) = &args.source {
        let known = |id: &str| installed.iter().any(|one| one.id().as_str() == id);
        let crawler = format!("crawler-{source}");
        anyhow::ensure!(
            known(source.as_str()),
            "source '{source}' was not added: {}",
            if known(&crawler) {
                format!("did you mean '{crawler}'?")
            } else {
                "add it with `credence crawl add`".into()
            }
        );
    }
    let runner = Runner::new(Arc::clone(&authority), installed, &settings)?;
    let selection = Selection { agent, source: args.source, now: args.now };
    let runtime = runtime()?;
    if args.dry_run {
        let tried = runtime.block_on(async {
            let mut tried: Vec<TriedSource> = Vec::new();
            for target in runner.targets(selection).await? {
                tried.push(runner.try_source(target).await);
            }
            anyhow::Ok(tried)
        })?;
        out.show(&tried, || tried_table(&tried))?;
        return Ok(ExitCode::SUCCESS);
    }
    // Scores are made once, at the end: each agent is measured by several sources.
    authority.hold_scores(true);
    let due = runtime.block_on(runner.targets(selection.clone()))?.len();
    let bar = out.progress(Some(due as u64), "asking");
    let (stop, stopped) = watch::channel(false);
    let totals = runtime.block_on(async {
        // The run ends by itself once what is under way is recorded.
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.send_replace(true);
            }
            stop.closed().await;
        });
        let mut heard = |totals: &Totals| bar.set_position(totals.asked as u64);
        runner.run(&selection, &stopped, &mut heard).await
    })?;
    bar.finish_and_clear();
    drop(runner);
    authority.hold_scores(false);
    crate::statement::score_and_flush(&authority, out)?;
    out.show(&totals, || {
        let broken =
            if totals.links_broken > 0 { format!(", {} links broke", totals.links_broken) } else { String::new() };
        let left = match totals.put_off {
            0 => String::new(),
            n => format!(" {n} questions were left for a later run: their hosts asked for a longer pause."),
        };
        format!(
            "Asked {} times: {} signals recorded, {} answers without one. {} links checked{broken}.{left}",
            totals.asked, totals.signals, totals.nothing, totals.links_checked
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

fn tried_table(tried: &[TriedSource]) -> String {
    let rows = tried.iter().flat_map(|one| {
        let start = vec![one.agent.to_string(), one.source.to_string(), one.link.to_string()];
        let row = |rest: [String; 3]| [start.clone(), rest.to_vec()].concat();
        match (&one.reading, &one.nothing) {
            (Some(reading), _) => reading
                .measured
                .iter()
                .map(|measured| {
                    let tags: Vec<&str> = measured.tags.iter().map(credence_protocol::Tag::as_str).collect();
                    row([tags.join(", "), format!("{:.1} ± {:.1}", measured.value, measured.stddev), String::new()])
                })
                .collect::<Vec<_>>(),
            (None, why) => vec![row([String::new(), "–".into(), why.clone().unwrap_or_default()])],
        }
    });
    output::table(&["agent", "source", "link", "tags", "value", "why not"], &["value"], rows)
}

fn status(home: &Home, out: &Output) -> Done {
    let reader = home.reader()?;
    let rows = query::crawls(&*reader.view()?)?;
    let list: Vec<Value> = rows.iter().map(|(source, row)| json!({ "source": source, "status": row })).collect();
    out.show(&list, || {
        let time = |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| at.to_string());
        let lines = rows.iter().map(|(source, row): &(String, CrawlRow)| {
            let failures: Vec<String> = row.failures.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
            let alarms: Vec<String> =
                row.alarms.values().map(|alarm| format!("{} (agents: {})", alarm.why, alarm.agents)).collect();
            vec![
                source.clone(),
                time(row.last_success),
                row.signals.to_string(),
                failures.join(", "),
                row.quota.map(|quota| quota.to_string()).unwrap_or_default(),
                alarms.join("; "),
            ]
        });
        output::table(
            &["source", "last success", "signals", "no measurement", "quota", "alarm"],
            &["signals", "quota"],
            lines,
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
