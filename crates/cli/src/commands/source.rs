use std::process::ExitCode;

use clap::Subcommand;
use credence_pipeline::{
    NewSource,
    query::{self, SourceRow},
};
use credence_protocol::EntityId;
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::Home,
    output::{self, Output},
};

#[derive(Subcommand)]
pub enum Command {
    /// Register a source
    Add {
        source: EntityId,
        /// How much its signals count, relative to others
        #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
        weight: f64,
        /// Who it is (public: it goes into the log)
        #[arg(long)]
        description: Option<String>,
        /// Who runs it: it has no say on agents of the same owner
        #[arg(long)]
        owner: Option<EntityId>,
        /// Where it says how it verifies outputs: with it the source is admitted as a verification provider
        #[arg(long, value_name = "URL")]
        methodology: Option<String>,
        /// What it signs need not name this authority (aud): it can then be replayed to another that knows its key
        #[arg(long)]
        unbound: bool,
    },
    /// Admit a source as an output-verification provider, from now on
    Provider {
        source: EntityId,
        /// Where it says how it verifies
        #[arg(long, value_name = "URL", required_unless_present_any = ["withdraw", "owner"])]
        methodology: Option<String>,
        /// Take the admission back
        #[arg(long, conflicts_with = "methodology")]
        withdraw: bool,
        /// Who runs it
        #[arg(long)]
        owner: Option<EntityId>,
    },
    /// Give a source another weight, from now on; 0 silences it
    Weight {
        source: EntityId,
        #[arg(allow_negative_numbers = true)]
        weight: f64,
    },
    /// List sources and their weights
    List,
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    match command {
        Command::Add { source, weight, description, owner, methodology, unbound } => {
            let authority = home.authority()?;
            let new = NewSource { source: source.clone(), weight, description, owner, methodology, unbound };
            let seq = authority.add_source(new)?;
            authority.flush()?;
            out.show(&json!({ "source": source, "weight": weight, "seq": seq }), || {
                format!("Source {source} with weight {weight} (entry {seq}). Next: `credence keys generate {source}`.")
            })?;
        }
        Command::Provider { source, methodology, withdraw, owner } => {
            let authority = home.authority()?;
            let methodology = if withdraw { Some(String::new()) } else { methodology };
            let seq = authority.describe_source(source.clone(), methodology.clone(), owner)?;
            crate::statement::score_and_flush(&authority, out)?;
            out.show(&json!({ "source": source, "methodology": methodology, "seq": seq }), || {
                let what = if withdraw { "is no verification provider" } else { "is as said" };
                format!("Source {source} {what} from entry {seq} on.")
            })?;
        }
        Command::Weight { source, weight } => {
            let authority = home.authority()?;
            let seq = authority.set_weight(source.clone(), weight)?;
            authority.score_now()?;
            authority.flush()?;
            out.show(&json!({ "source": source, "weight": weight, "seq": seq }), || {
                format!("Source {source} has weight {weight} from entry {seq} on. Agents were scored again.")
            })?;
        }
        Command::List => {
            let reader = home.reader()?;
            let rows = query::sources(&*reader.view()?)?;
            let list: Vec<Value> = rows
                .iter()
                .map(|(source, row)| json!({ "source": source, "weight": row.weight, "description": row.description, "owner": row.owner, "methodology": row.methodology, "aud": row.aud, "seq": row.seq }))
                .collect();
            out.show(&list, || {
                let described = |row: &SourceRow| row.description.clone().unwrap_or_default();
                let lines = rows.iter().map(|(source, row)| {
                    let owner = row.owner.as_ref().map(ToString::to_string).unwrap_or_default();
                    let provider = row.methodology.clone().unwrap_or_default();
                    vec![source.clone(), row.weight.to_string(), owner, provider, described(row)]
                });
                output::table(&["source", "weight", "owner", "verifies as", "description"], &["weight"], lines)
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
