use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Subcommand, ValueEnum};
use credence_pipeline::query::{self, ChallengeRow, ChallengeState};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, StatementKind, strict};
use serde_json::{Value, json};

use super::{Done, contract};
use crate::{
    home::{Home, now},
    output::{self, Output},
    statement::{self, Draft, PublishedNote, SignArgs},
};

#[derive(Subcommand)]
pub enum Command {
    /// Dispute a contract within its window: given by flags, or as a JSON file
    Open(OpenArgs),
    /// Settle a challenge, as the authority: by the contract's verification, or as you say
    Resolve(ResolveArgs),
    /// Show a challenge
    Show { id: String },
    /// List challenges that involve an agent, newest last
    List {
        /// An agent's id or alias
        agent: String,
    },
}

#[derive(clap::Args)]
pub struct OpenArgs {
    /// The contract; or a file with the challenge, or with one signed elsewhere (- for standard input)
    contract: String,
    /// Who disputes it
    #[arg(long, value_name = "AGENT", requires = "claim")]
    by: Option<EntityId>,
    /// What is claimed instead, as a JSON object
    #[arg(long, value_name = "JSON", requires = "by")]
    claim: Option<String>,
    /// Its id [default: a fresh one]
    #[arg(long)]
    id: Option<String>,
    /// A step of the reasoning; may be repeated
    #[arg(long = "reason", value_name = "TEXT")]
    reasons: Vec<String>,
    #[command(flatten)]
    sign: SignArgs,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Outcome {
    /// The contract is refuted
    Successful,
    /// It is not
    Failed,
    /// Nobody can tell; say why
    Inconclusive,
}

#[derive(clap::Args)]
pub struct ResolveArgs {
    /// The challenge
    id: String,
    /// What became of it [default: what the contract's final verification says]
    #[arg(long, value_enum)]
    outcome: Option<Outcome>,
    /// Why (public: it goes into the log)
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    sign: SignArgs,
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    match command {
        Command::Open(args) => open(home, out, args),
        Command::Resolve(args) => resolve(home, out, args),
        Command::Show { id } => {
            let reader = home.reader()?;
            let view = reader.view()?;
            let row = find(&*view, &id)?;
            let mut details = described(&id, &row);
            details["record"] = statement::record_at(&*view, row.seq)?;
            if let Some(seq) = row.resolution {
                details["resolution"] = statement::record_at(&*view, seq)?;
            }
            out.show(&details, || {
                let ChallengeRow { contract, target, challenger, seq, .. } = &row;
                format!(
                    "challenge {id} by {challenger} (entry {seq})\n  contract  {contract} of {target}\n  state     {}",
                    state(&row)
                ) + &["record", "resolution"]
                    .iter()
                    .filter_map(|part| {
                        Some(format!("\n{part} {}", serde_json::to_string_pretty(details.get(*part)?).ok()?))
                    })
                    .collect::<String>()
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Command::List { agent } => list(home, out, &agent),
    }
}

fn open(home: &Home, out: &Output, args: OpenArgs) -> Done {
    let draft = match (&args.by, &args.claim) {
        (Some(by), Some(claim)) => {
            let claim = strict::value(claim.as_bytes()).context("--claim")?;
            let mut record = json!({
                "challenge_id": args.id.unwrap_or_else(|| statement::fresh_id("challenge")),
                "original_signal_id": args.contract, "challenger_agent_id": by, "counter_claim": claim, "timestamp": now(),
            });
            if !args.reasons.is_empty() {
                record["reasoning_trace"] = json!(args.reasons);
            }
            Draft::new(by.clone(), StatementKind::Challenge, record)
        }
        _ => Draft::read(&args.contract, StatementKind::Challenge, "challenger_agent_id")
            .context("give --by and --claim with a contract, or a file with the challenge")?,
    };
    let id = draft.text("challenge_id");
    statement::publish(home, out, draft, &args.sign, |_| {
        Ok(PublishedNote { what: format!("Challenge {id}"), details: json!({ "challenge": id }) })
    })
}

fn resolve(home: &Home, out: &Output, args: ResolveArgs) -> Done {
    let (row, contract) = {
        let reader = home.reader()?;
        let view = reader.view()?;
        let row = find(&*view, &args.id)?;
        let contract = contract::find(&*view, &row.contract)?;
        (row, contract)
    };
    let mut record = json!({
        "resolution_id": statement::fresh_id("resolution"), "challenge_id": args.id, "timestamp": now(),
    });
    record["outcome"] = match args.outcome {
        Some(outcome) => {
            ensure!(args.reason.is_some(), "say why with --reason: what an operator decides is documented");
            match outcome {
                Outcome::Successful => json!("successful"),
                Outcome::Failed => json!("failed"),
                Outcome::Inconclusive => json!("inconclusive"),
            }
        }
        None => {
            let verified = contract.verification.as_ref().zip(contract.outcome.map(|(outcome, _)| outcome));
            let (verification, outcome) = verified.with_context(|| {
                format!("contract '{}' has no final verification yet: settle it with --outcome", row.contract)
            })?;
            record["evidence"] = json!(verification);
            record["reason"] = json!(format!("verified as {outcome}"));
            json!(credence_pipeline::statements::outcome_of(outcome))
        }
    };
    if let Some(reason) = &args.reason {
        record["reason"] = json!(reason);
    }
    let outcome = record["outcome"].as_str().unwrap_or_default().to_owned();
    let draft = Draft::new(EntityId::new(AUTHORITY_SOURCE)?, StatementKind::Resolution, record);
    statement::publish(home, out, draft, &args.sign, |authority| {
        let view = authority.ledger().view()?;
        let score = |agent: &EntityId| -> anyhow::Result<f64> {
            Ok(query::reputation(&*view, agent, now())?.map_or(0.0, |reputation| reputation.row.score))
        };
        let (target, challenger) = (score(&row.target)?, score(&row.challenger)?);
        let what = format!(
            "Challenge {} {outcome}: {} has {target:.1} now, {} {challenger:.1}",
            args.id, row.target, row.challenger
        );
        let details = json!({ "challenge": args.id, "outcome": outcome, "target": row.target, "target_score": target,
            "challenger": row.challenger, "challenger_score": challenger });
        Ok(PublishedNote { what, details })
    })
}

fn find(view: &dyn credence_ledger::View, id: &str) -> anyhow::Result<ChallengeRow> {
    query::challenge(view, id)?.with_context(|| format!("no challenge '{id}' is known"))
}

fn state(row: &ChallengeRow) -> String {
    match row.state {
        ChallengeState::Open => "open".to_owned(),
        ChallengeState::Resubmitted => "not opened: the same claim had been put before".to_owned(),
        ChallengeState::Void => "void: the key that signed it was revoked".to_owned(),
        ChallengeState::Settled(outcome) => format!("{outcome:?}").to_lowercase(),
    }
}

fn described(id: &str, row: &ChallengeRow) -> Value {
    let state = match row.state {
        ChallengeState::Open => json!("open"),
        ChallengeState::Resubmitted => json!("resubmitted"),
        ChallengeState::Void => json!("void"),
        ChallengeState::Settled(outcome) => json!(outcome),
    };
    json!({ "challenge": id, "contract": row.contract, "target": row.target, "challenger": row.challenger, "state": state, "seq": row.seq })
}

fn list(home: &Home, out: &Output, agent: &str) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let agent = reader.agent(&*view, agent)?;
    let rows = query::challenges_of(&*view, &agent)?;
    let json: Vec<Value> = rows.iter().map(|(id, row)| described(id, row)).collect();
    out.show(&json, || {
        if rows.is_empty() {
            return format!("{agent} is in no challenge");
        }
        let line = |(id, row): &(String, ChallengeRow)| {
            vec![id.clone(), row.contract.clone(), row.target.to_string(), row.challenger.to_string(), state(row)]
        };
        output::table(&["challenge", "contract", "of", "by", "state"], &[], rows.iter().map(line))
    })?;
    Ok(ExitCode::SUCCESS)
}
