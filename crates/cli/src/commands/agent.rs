use std::{ops::ControlFlow, process::ExitCode};

use clap::Subcommand;
use credence_engine::tiers::Tier;
use credence_ledger::Scan;
use credence_pipeline::{
    NewAgent,
    tables::{self, AgentRow, ScoreRow},
};
use credence_protocol::{Alias, EntityId};
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::Home,
    output::{self, Output},
};

#[derive(Subcommand)]
pub enum Command {
    /// Register an agent, or add a name or aliases to one
    Add {
        agent: EntityId,
        /// A display name (public: it goes into the log)
        #[arg(long)]
        name: Option<String>,
        /// A name it has elsewhere: did:web:…, did:key:…, https://…, uaid:…, eip155:CHAIN:REGISTRY/TOKEN
        #[arg(long = "alias")]
        aliases: Vec<Alias>,
    },
    /// Show an agent by its id or an alias
    Show { agent: String },
    /// List agents, with their newest recorded scores
    List {
        /// Only ids that start with this
        #[arg(long, default_value = "")]
        prefix: String,
        /// Only ids after this one: the next page
        #[arg(long)]
        after: Option<String>,
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    match command {
        Command::Add { agent, name, aliases } => {
            let authority = home.authority()?;
            let seq = authority.add_agent(NewAgent { agent: agent.clone(), name, aliases: aliases.clone() })?;
            authority.flush()?;
            out.show(&json!({ "agent": agent, "aliases": aliases, "seq": seq }), || {
                format!("Agent {agent} (entry {seq}).")
            })?;
        }
        Command::Show { agent } => {
            let reader = home.reader()?;
            let view = reader.view()?;
            let id = reader.agent(&*view, &agent)?;
            let row: Option<AgentRow> = tables::get(&*view, tables::AGENTS, id.as_str())?;
            let row = row.ok_or_else(|| credence_pipeline::Error::UnknownAgent(agent))?;
            let live = reader.reading().live(&*view, &id)?;
            let shown = json!({ "agent": id, "name": row.name, "aliases": row.aliases, "registered_at": row.registered_at, "seq": row.seq, "score": live });
            out.show(&shown, || {
                let aliases: Vec<String> = row.aliases.iter().map(ToString::to_string).collect();
                format!(
                    "{id}{}\n  score       {}\n  registered  {} (entry {})\n  aliases     {}",
                    row.name.as_ref().map(|name| format!(" — {name}")).unwrap_or_default(),
                    live.outcome,
                    row.registered_at,
                    row.seq,
                    if aliases.is_empty() { "none".to_owned() } else { aliases.join("\n              ") },
                )
            })?;
        }
        Command::List { prefix, after, limit } => {
            let reader = home.reader()?;
            let view = reader.view()?;
            let mut rows: Vec<(String, AgentRow)> = Vec::new();
            if limit > 0 {
                let scan = Scan { prefix: &prefix, after: after.as_deref(), reverse: false };
                tables::scan(&*view, tables::AGENTS, scan, |key, row| {
                    rows.push((key.to_owned(), row));
                    Ok(if rows.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
                })?;
            }
            let mut list = Vec::new();
            for (agent, row) in rows {
                let score: Option<ScoreRow> = tables::get(&*view, tables::SCORES, &agent)?;
                list.push((agent, row, score.map(|score| score.recorded)));
            }
            let json: Vec<Value> = list
                .iter()
                .map(|(agent, row, score)| json!({ "agent": agent, "name": row.name, "aliases": row.aliases, "score": score }))
                .collect();
            out.show(&json, || {
                let lines = list.iter().map(|(agent, row, score)| {
                    let rated = score.as_ref().filter(|score| score.status != "unrated");
                    let score =
                        rated.map_or("–".into(), |s| format!("{} ± {:.1}", s.score, s.stddev.unwrap_or_default()));
                    let tier = match rated {
                        None => Tier::Unrated.to_string(),
                        Some(score) if score.status == "partial" => "partial: not published".to_owned(),
                        Some(score) => Tier::of(score.score).to_string(),
                    };
                    vec![agent.clone(), score, tier, row.name.clone().unwrap_or_default()]
                });
                output::table(&["agent", "score", "tier", "name"], &["score"], lines)
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
