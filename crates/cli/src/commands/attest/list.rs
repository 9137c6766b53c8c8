//! `credence attest list`.

use std::process::ExitCode;

use credence_pipeline::query::{self, AttestationRow};
use credence_protocol::Uuid;
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::Home,
    output::{self, Output},
};

#[derive(clap::Args)]
pub struct Args {
    /// Only those of this agent (an id or an alias)
    #[arg(long)]
    agent: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

pub fn run(home: &Home, out: &Output, args: &Args) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let agent = args.agent.as_deref().map(|name| reader.agent(&*view, name)).transpose()?;
    let rows = query::attestations_of(&*view, agent.as_ref(), args.limit)?;
    let listed: Vec<Value> = rows.iter().map(|(id, row)| shown(*id, row)).collect();
    out.show(&listed, || {
        if rows.is_empty() {
            return "No score was written to a chain.".to_owned();
        }
        let lines = rows.iter().map(|(id, row)| {
            let at = row.steps.last().map(|step| step.at.to_string()).unwrap_or_default();
            let fee = row.inclusion.as_ref().and_then(|inclusion| inclusion.fee);
            vec![
                id.to_string(),
                row.agent.to_string(),
                row.chain.clone(),
                row.value.to_string(),
                row.state.key().to_owned(),
                fee.map(|fee| fee.to_string()).unwrap_or_default(),
                at,
            ]
        });
        output::table(&["attestation", "agent", "chain", "score", "state", "fee", "since"], &["score", "fee"], lines)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// An attestation for machines.
pub fn shown(id: Uuid, row: &AttestationRow) -> Value {
    let transactions: Vec<&str> = row.transactions.iter().map(|sent| sent.transaction.id.as_str()).collect();
    json!({ "attestation": id, "agent": row.agent, "chain": row.chain, "subject": row.subject, "state": row.state,
        "value": row.value, "event": row.event, "by": row.by, "uri": row.uri, "hash": row.hash, "transactions": transactions,
        "inclusion": row.inclusion, "revocation": row.revocation, "reason": row.reason, "steps": row.steps })
}
