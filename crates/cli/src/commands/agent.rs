use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Subcommand;
use credence_engine::tiers::Tier;
use credence_pipeline::{
    NewAgent,
    query::{self, AgentFilter, ListedAgent},
};
use credence_protocol::{Alias, EntityId, ScoreStatus, StatementKind};
use credence_sandbox::domain::{self, ExpectedLine};
use serde_json::{Value, json};

use super::{Done, link};
use crate::{
    home::{AUTHORITY_KEY_VARIABLE, Home, now},
    output::{self, Output},
    statement::{self, Draft, PublishedNote, SignArgs},
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
        /// Who runs it: what has the same owner vouches for nothing
        #[arg(long)]
        owner: Option<EntityId>,
        /// What a new agent signs need not name this authority (aud)
        #[arg(long)]
        unbound: bool,
    },
    /// Say who an agent is, in its own words: given by flags, or as a JSON file
    Identify(Box<IdentifyArgs>),
    /// Prove that an agent's owner controls a host: prints the line to serve, and records the proof once it is served
    ProveDomain {
        /// The agent's id or an alias
        agent: String,
        /// One of its aliases: https://… or did:web:…
        address: String,
        /// The host may be this machine, where it is asked without a certificate
        #[arg(long)]
        allow_loopback: bool,
    },
    /// Say that something outside is an agent's own, and prove it. Links are public, for good
    Link(Box<link::LinkArgs>),
    /// List what is an agent's own: claimed, proven, broken
    Links { agent: String },
    /// Take a link back; what came over it is withdrawn
    Unlink(link::UnlinkArgs),
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

#[derive(clap::Args)]
pub struct IdentifyArgs {
    /// The agent; or a file with the identity, or with one signed elsewhere (- for standard input)
    agent: String,
    /// What it runs on
    #[arg(long, value_name = "TEXT", requires = "version_hash")]
    model: Option<String>,
    /// Changes with every change of what it runs on and how it is measured
    #[arg(long, value_name = "HASH", requires = "model")]
    version_hash: Option<String>,
    /// What it can do; may be repeated
    #[arg(long = "capability", value_name = "TAG")]
    capabilities: Vec<String>,
    /// How it deals with risk
    #[arg(long, default_value = "moderate")]
    risk_profile: String,
    /// How much it shows
    #[arg(long, default_value = "high")]
    transparency: String,
    /// How its risk-adjusted performance is measured: sharpe or calibration
    #[arg(long)]
    rap_method: Option<String>,
    /// What its volatility is measured against: outcomes or confidence_bands
    #[arg(long)]
    consistency_method: Option<String>,
    #[command(flatten)]
    sign: SignArgs,
}

fn identify(home: &Home, out: &Output, args: IdentifyArgs) -> Done {
    let draft = match (&args.model, &args.version_hash) {
        (Some(model), Some(version)) => {
            let agent = EntityId::new(&args.agent)?;
            let key = args.sign.key(home, &agent)?;
            let mut record = json!({
                "agent_id": agent, "model_type": model, "capability_tags": args.capabilities, "risk_profile": args.risk_profile,
                "transparency_level": args.transparency, "version_hash": version, "signature_key": key.public().did_key(),
            });
            let methods = [("rap_method", &args.rap_method), ("consistency_method", &args.consistency_method)];
            for (field, method) in methods {
                if let Some(method) = method {
                    record[field] = json!(method);
                }
            }
            Draft::new(agent, StatementKind::Identity, record)
        }
        _ => Draft::read(&args.agent, StatementKind::Identity, "agent_id")
            .context("give --model and --version-hash with an agent, or a file with the identity")?,
    };
    let who = draft.text("agent_id");
    statement::publish(home, out, draft, &args.sign, |_| {
        Ok(PublishedNote { what: format!("Identity of {who}"), details: json!({ "agent": who }) })
    })
}

/// Looks whether the line is served. If so the proof is recorded; if not the line is printed, and the exit code is 1.
fn prove_domain(home: &Home, out: &Output, agent: &str, address: &str, allow_loopback: bool) -> Done {
    let authority = home.authority()?;
    let Some(key) = home.signer()? else {
        bail!("the authority's private key is not here: it is in keys/credence.jwk or {AUTHORITY_KEY_VARIABLE}");
    };
    let (id, host) = {
        let view = authority.ledger().view()?;
        let id = query::resolve(&*view, agent)?;
        let host = domain::host_of(&query::agent(&*view, &id)?.aliases, address).map_err(anyhow::Error::msg)?;
        (id, host)
    };
    let (now, public) = (now(), key.public());
    let expected = ExpectedLine { key: &public, agent: &id, host: &host, now: Some(now) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(domain::check_domain(expected, allow_loopback, ())) {
        Ok(()) => {
            let recorded = authority.record_domain(&id, &host, &key)?.map_err(|why| anyhow!("{why}"))?;
            authority.flush()?;
            let shown =
                json!({ "agent": id, "host": host, "proved": true, "seq": recorded.seq, "known": recorded.known });
            out.show(&shown, || format!("Control of {host} is proved for {id} (entry {}).", recorded.seq))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            let expires = now.plus_seconds(domain::HOLDS_SECONDS);
            let content = domain::line(&key, &id, &host, expires);
            let url = format!("https://{host}{}", domain::PATH);
            let shown = json!({ "agent": id, "host": host, "proved": false, "why": why, "url": url, "content": content, "expires_at": expires });
            out.show(&shown, || {
                format!("Not proved yet: {why}\n\nServe this line at {url}, then run the command again (until {expires}):\n\n{content}")
            })?;
            Ok(ExitCode::from(1))
        }
    }
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    match command {
        Command::Identify(args) => return identify(home, out, *args),
        Command::ProveDomain { agent, address, allow_loopback } => {
            return prove_domain(home, out, &agent, &address, allow_loopback);
        }
        Command::Link(args) => return link::link(home, out, *args),
        Command::Links { agent } => return link::list(home, out, &agent),
        Command::Unlink(args) => return link::unlink(home, out, &args),
        Command::Add { agent, name, aliases, owner, unbound } => {
            let authority = home.authority()?;
            let new = NewAgent { agent: agent.clone(), name, aliases: aliases.clone(), owner, unbound };
            let seq = authority.add_agent(new)?;
            authority.flush()?;
            out.show(&json!({ "agent": agent, "aliases": aliases, "seq": seq }), || {
                format!("Agent {agent} (entry {seq}).")
            })?;
        }
        Command::Show { agent } => {
            let reader = home.reader()?;
            let view = reader.view()?;
            let id = reader.agent(&*view, &agent)?;
            let row = query::agent(&*view, &id)?;
            let score = reader.reading().score(&*view, &id)?;
            let shown = json!({ "agent": id, "name": row.name, "aliases": row.aliases, "owner": row.owner, "aud": row.aud, "registered_at": row.registered_at, "seq": row.seq, "score": score });
            out.show(&shown, || {
                let aliases: Vec<String> = row.aliases.iter().map(ToString::to_string).collect();
                format!(
                    "{id}{}\n  score       {}\n  registered  {} (entry {})\n  owner       {}\n  aliases     {}",
                    row.name.as_ref().map(|name| format!(" — {name}")).unwrap_or_default(),
                    score.outcome,
                    row.registered_at,
                    row.seq,
                    row.owner.as_ref().map_or("not said".to_owned(), ToString::to_string),
                    if aliases.is_empty() { "none".to_owned() } else { aliases.join("\n              ") },
                )
            })?;
        }
        Command::List { prefix, after, limit } => {
            let reader = home.reader()?;
            let view = reader.view()?;
            let filter = AgentFilter { prefix, after, search: None };
            let list = if limit > 0 { query::agents(&*view, &filter, limit)?.agents } else { Vec::new() };
            let recorded = |agent: &ListedAgent| agent.score.as_ref().map(|score| score.recorded.clone());
            let json: Vec<Value> = list
                .iter()
                .map(|agent| json!({ "agent": agent.id, "name": agent.row.name, "aliases": agent.row.aliases, "score": recorded(agent) }))
                .collect();
            out.show(&json, || {
                let lines = list.iter().map(|agent| {
                    let score = agent.score.as_ref().map(|score| &score.recorded);
                    let rated = score.filter(|score| score.status != ScoreStatus::Unrated);
                    let score =
                        rated.map_or("–".into(), |s| format!("{} ± {:.1}", s.score, s.stddev.unwrap_or_default()));
                    let tier = match rated {
                        None => Tier::Unrated.to_string(),
                        Some(score) if score.status == ScoreStatus::Partial => "partial: not published".to_owned(),
                        Some(score) => Tier::of(score.score).to_string(),
                    };
                    vec![agent.id.clone(), score, tier, agent.row.name.clone().unwrap_or_default()]
                });
                output::table(&["agent", "score", "tier", "name"], &["score"], lines)
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
