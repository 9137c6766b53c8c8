use std::process::ExitCode;

use anyhow::Context;
use clap::{
    Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use credence_pipeline::query::{self, ContractRow};
use credence_protocol::{EntityId, RiskBand, StatementKind};
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::{Home, now},
    output::{self, Output},
    statement::{self, Draft, PublishedNote, SignArgs},
};

#[derive(Subcommand)]
pub enum Command {
    /// Publish a claim that an agent stands by: given by flags, or as a JSON file
    Publish(Box<PublishArgs>),
    /// Say what a contract came to, as a source that the operator admitted
    Verify(VerifyArgs),
    /// Show a contract and what became of it
    Show { id: String },
    /// List an agent's contracts, newest first
    List {
        /// An agent's id or alias
        agent: String,
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
}

#[derive(clap::Args)]
pub struct PublishArgs {
    /// A contract, or one signed elsewhere; - for standard input
    #[arg(conflicts_with_all = ["agent", "risk"])]
    file: Option<String>,
    /// Whose claim it is
    #[arg(long, required_unless_present = "file")]
    agent: Option<EntityId>,
    /// Its id [default: a fresh one]
    #[arg(long)]
    id: Option<String>,
    /// How risky it is
    #[arg(long, value_parser = risk_parser(), required_unless_present = "file")]
    risk: Option<RiskBand>,
    /// How probable, 0 to 1
    #[arg(long, allow_negative_numbers = true)]
    probability: Option<f64>,
    /// A digest of the context it was made in
    #[arg(long, value_name = "HASH")]
    context_hash: Option<String>,
    /// A digest of what it can be verified by
    #[arg(long, value_name = "HASH")]
    verification_hash: Option<String>,
    /// A step of the reasoning; may be repeated
    #[arg(long = "reason", value_name = "TEXT")]
    reasons: Vec<String>,
    /// What it rests on; may be repeated. The id of another agent's contract counts as adoption
    #[arg(long = "ref", value_name = "REF")]
    refs: Vec<String>,
    /// How long it can be challenged [default: 72]
    #[arg(long, value_name = "HOURS")]
    window_hours: Option<u32>,
    #[command(flatten)]
    sign: SignArgs,
}

fn risk_parser() -> impl TypedValueParser<Value = RiskBand> {
    PossibleValuesParser::new(RiskBand::ALL.map(RiskBand::name)).try_map(|name| name.parse())
}

#[derive(clap::Args)]
pub struct VerifyArgs {
    /// The contract
    id: String,
    /// How far it was borne out: 1 wholly, -1 the contrary
    #[arg(long, allow_negative_numbers = true)]
    outcome: f64,
    /// The source that verified it
    #[arg(long, value_name = "SOURCE")]
    by: EntityId,
    /// A digest of what it was verified by [default: the one that the contract promised]
    #[arg(long, value_name = "HASH")]
    verification_hash: Option<String>,
    #[command(flatten)]
    sign: SignArgs,
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    match command {
        Command::Publish(args) => publish(home, out, *args),
        Command::Verify(args) => verify(home, out, args),
        Command::Show { id } => {
            let reader = home.reader()?;
            let view = reader.view()?;
            let row = find(&*view, &id)?;
            let mut details = described(&id, &row);
            details["record"] = statement::record_at(&*view, row.seq)?;
            out.show(&details, || {
                format!(
                    "{}\n{}",
                    shown(&id, &row),
                    serde_json::to_string_pretty(&details["record"]).unwrap_or_default()
                )
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Command::List { agent, limit } => list(home, out, &agent, limit as usize),
    }
}

fn publish(home: &Home, out: &Output, args: PublishArgs) -> Done {
    let draft = match (&args.file, &args.agent, args.risk) {
        (Some(file), ..) => Draft::read(file, StatementKind::Contract, "origin_agent")?,
        (None, Some(agent), Some(risk)) => {
            Draft::new(agent.clone(), StatementKind::Contract, record(&args, agent, risk))
        }
        _ => anyhow::bail!("give --agent and --risk, or a file with the contract"),
    };
    let id = draft.text("signal_id");
    statement::publish(home, out, draft, &args.sign, |_| {
        Ok(PublishedNote { what: format!("Contract {id}"), details: json!({ "contract": id }) })
    })
}

fn record(args: &PublishArgs, agent: &EntityId, risk: RiskBand) -> Value {
    let id = args.id.clone().unwrap_or_else(|| statement::fresh_id("contract"));
    let mut record = json!({
        "signal_id": id, "origin_agent": agent, "risk_band": risk, "timestamp": now(),
        "confidence_metrics": args.probability.map_or_else(|| json!({}), |p| json!({ "probability": p })),
    });
    let optional = [("context_hash", &args.context_hash), ("verification_hash", &args.verification_hash)];
    for (field, value) in optional {
        if let Some(value) = value {
            record[field] = json!(value);
        }
    }
    for (field, list) in [("reasoning_trace", &args.reasons), ("source_refs", &args.refs)] {
        if !list.is_empty() {
            record[field] = json!(list);
        }
    }
    if let Some(hours) = args.window_hours {
        record["challenge_window_hours"] = json!(hours);
    }
    record
}

fn verify(home: &Home, out: &Output, args: VerifyArgs) -> Done {
    anyhow::ensure!(args.outcome.abs() <= 1.0, "--outcome {} is not from -1 to 1", args.outcome);
    // Signed elsewhere, the contract is known by its id alone.
    let row = match home.reader().and_then(|reader| find(&*reader.view()?, &args.id)) {
        Ok(row) => Some(row),
        Err(_) if args.sign.sign_only => None,
        Err(error) => return Err(error),
    };
    let promised = row.as_ref().and_then(|row| row.verification_hash.clone());
    let context = row.as_ref().and_then(|row| row.facts.context.clone());
    let record = json!({
        "verification_id": statement::fresh_id("verification"), "related_object_type": "signal",
        "related_object_id": args.id, "context_hash": context.unwrap_or_else(|| "none".to_owned()),
        "verification_hash": args.verification_hash.or(promised).unwrap_or_else(|| "none".to_owned()),
        "timestamp": now(), "status": "final", "outcome": args.outcome,
    });
    let draft = Draft::new(args.by.clone(), StatementKind::Verification, record);
    let agent = row.map_or_else(String::new, |row| row.agent.to_string());
    statement::publish(home, out, draft, &args.sign, |_| {
        let what = format!("{} verified contract {} of {agent}: {}", args.by, args.id, args.outcome);
        Ok(PublishedNote { what, details: json!({ "contract": args.id, "agent": agent, "outcome": args.outcome }) })
    })
}

/// The contract with this id.
pub fn find(view: &dyn credence_ledger::View, id: &str) -> anyhow::Result<ContractRow> {
    query::contract(view, id)?.with_context(|| format!("no contract '{id}' is known"))
}

fn shown(id: &str, row: &ContractRow) -> String {
    let ContractRow { agent, at, closes, facts, seq, .. } = row;
    let outcome = match (row.outcome.map(|(outcome, _)| outcome), &row.verification, &row.refuted_by) {
        (Some(outcome), Some(verification), _) => format!("{outcome} by {verification}"),
        (Some(outcome), None, by) => format!("{outcome}: refuted by {}", by.as_deref().unwrap_or("a challenge")),
        (None, ..) => "not known yet".to_owned(),
    };
    let probability = facts.probability.map_or("none given".to_owned(), |p| p.to_string());
    format!(
        "contract {id} of {agent} (entry {seq})\n  published    {at}\n  challenges   until {closes}\n  risk         {}\n  probability  {probability}\n  transparency {:.2}\n  outcome      {outcome}",
        facts.band,
        facts.checklist.score(),
    )
}

fn described(id: &str, row: &ContractRow) -> Value {
    let outcome = row.outcome.map(|(value, entry)| json!({ "value": value, "entry": entry }));
    json!({
        "contract": id, "agent": row.agent, "seq": row.seq, "published": row.at, "challenges_until": row.closes,
        "risk_band": row.facts.band, "probability": row.facts.probability,
        "transparency": row.facts.checklist.score(), "outcome": outcome, "verification": row.verification,
        "refuted_by": row.refuted_by,
    })
}

fn list(home: &Home, out: &Output, agent: &str, limit: usize) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let agent = reader.agent(&*view, agent)?;
    let rows = query::contracts_of(&*view, &agent, limit)?;
    let json: Vec<Value> = rows.iter().map(|(id, row)| described(id, row)).collect();
    out.show(&json, || {
        if rows.is_empty() {
            return format!("{agent} has no contracts");
        }
        let line = |(id, row): &(String, ContractRow)| {
            let outcome = row.outcome.map_or(String::new(), |(outcome, _)| outcome.to_string());
            let t = format!("{:.2}", row.facts.checklist.score());
            vec![id.clone(), row.at.to_string(), row.facts.band.to_string(), t, outcome, row.closes.to_string()]
        };
        let header = ["contract", "published", "risk", "t", "outcome", "challenges until"];
        output::table(&header, &["t", "outcome"], rows.iter().map(line))
    })?;
    Ok(ExitCode::SUCCESS)
}
