use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use credence_pipeline::query::{self, ReviewRow};
use credence_protocol::{EntityId, StatementKind};
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::{Home, now},
    output::{self, Output},
    statement::{self, Draft, PublishedNote, SignArgs},
};

#[derive(Subcommand)]
pub enum Command {
    /// Say how helpful another agent was: given by flags, or as a JSON file
    Add(AddArgs),
    /// List the reviews of an agent that weigh anything, of the last 30 days
    List {
        /// An agent's id or alias
        agent: String,
    },
}

#[derive(clap::Args)]
pub struct AddArgs {
    /// The agent that is reviewed; or a file with the review, or with one signed elsewhere (- for standard input)
    subject: String,
    /// Who reviews it
    #[arg(long, value_name = "AGENT", requires_all = ["rating", "contract"])]
    by: Option<EntityId>,
    /// How helpful it was, 0 to 1
    #[arg(long, allow_negative_numbers = true, requires = "by")]
    rating: Option<f64>,
    /// The contract of the reviewed agent that they had to do with each other about
    #[arg(long, value_name = "ID")]
    contract: Option<String>,
    /// In words (public: it goes into the log)
    #[arg(long)]
    comment: Option<String>,
    #[command(flatten)]
    sign: SignArgs,
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    match command {
        Command::Add(args) => add(home, out, args),
        Command::List { agent } => list(home, out, &agent),
    }
}

fn add(home: &Home, out: &Output, args: AddArgs) -> Done {
    let draft = match (&args.by, args.rating, &args.contract) {
        (Some(by), Some(rating), Some(contract)) => {
            let mut record = json!({
                "review_id": statement::fresh_id("review"), "reviewer_agent_id": by, "subject_agent_id": args.subject,
                "rating": rating, "interaction": { "contract": contract }, "timestamp": now(),
            });
            if let Some(comment) = &args.comment {
                record["comment"] = json!(comment);
            }
            Draft::new(by.clone(), StatementKind::Review, record)
        }
        _ => Draft::read(&args.subject, StatementKind::Review, "reviewer_agent_id")
            .context("give --by, --rating and --contract with an agent, or a file with the review")?,
    };
    let (subject, reviewer) = (draft.text("subject_agent_id"), draft.text("reviewer_agent_id"));
    let what = format!("Review of {subject} by {reviewer}");
    let details = json!({ "subject": subject, "reviewer": reviewer });
    statement::publish(home, out, draft, &args.sign, |_| Ok(PublishedNote { what, details }))
}

fn list(home: &Home, out: &Output, agent: &str) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let agent = reader.agent(&*view, agent)?;
    let rows = query::reviews(&*view, &agent, now())?;
    let json: Vec<Value> = rows.iter().map(|(reviewer, row)| json!({ "reviewer": reviewer, "review": row })).collect();
    out.show(&json, || {
        if rows.is_empty() {
            return format!("{agent} has no reviews of the last 30 days that weigh anything");
        }
        let line = |(reviewer, row): &(String, ReviewRow)| {
            vec![reviewer.clone(), row.rating.to_string(), format!("{:.3}", row.weight), row.at.to_string()]
        };
        output::table(&["reviewer", "rating", "weight", "at"], &["rating", "weight"], rows.iter().map(line))
    })?;
    Ok(ExitCode::SUCCESS)
}
