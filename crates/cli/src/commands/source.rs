use std::process::ExitCode;

use clap::Subcommand;
use credence_pipeline::{
    NewSource, SourceChange,
    query::{self, SourceRow},
};
use credence_protocol::{EntityId, Root};
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
        /// The registries that it re-reads, such as npm or erc8004:eip155:8453: sources that share one count as one voice
        #[arg(long, value_name = "ROOT", value_delimiter = ',')]
        roots: Vec<Root>,
        /// Where it says how it verifies outputs: with it the source is admitted as a verification provider
        #[arg(long, value_name = "URL")]
        methodology: Option<String>,
        /// What it signs need not name this authority (aud): it can then be replayed to another that knows its key
        #[arg(long)]
        unbound: bool,
    },
    /// Say who runs a source and which registries it re-reads, from now on
    Change {
        source: EntityId,
        /// Who runs it
        #[arg(long, required_unless_present_any = ["roots", "no_roots"])]
        owner: Option<EntityId>,
        /// The registries that it re-reads, instead of those named before
        #[arg(long, value_name = "ROOT", value_delimiter = ',')]
        roots: Option<Vec<Root>>,
        /// It re-reads no registry
        #[arg(long, conflicts_with = "roots")]
        no_roots: bool,
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
        Command::Add { source, weight, description, owner, roots, methodology, unbound } => {
            let authority = home.authority()?;
            let new = NewSource { source: source.clone(), weight, description, owner, roots, methodology, unbound };
            let seq = authority.add_source(new)?;
            authority.flush()?;
            out.show(&json!({ "source": source, "weight": weight, "seq": seq }), || {
                format!("Source {source} with weight {weight} (entry {seq}). Next: `credence keys generate {source}`.")
            })?;
        }
        Command::Change { source, owner, roots, no_roots } => {
            let authority = home.authority()?;
            let roots = if no_roots { Some(Vec::new()) } else { roots };
            let change = SourceChange { owner: owner.clone(), roots: roots.clone(), ..SourceChange::default() };
            let seq = authority.change_source(source.clone(), change)?;
            crate::statement::score_and_flush(&authority, out)?;
            out.show(&json!({ "source": source, "owner": owner, "roots": roots, "seq": seq }), || {
                format!("Source {source} is as said from entry {seq} on. Agents were scored again.")
            })?;
        }
        Command::Provider { source, methodology, withdraw, owner } => {
            let authority = home.authority()?;
            let methodology = if withdraw { Some(String::new()) } else { methodology };
            let seq = authority.change_source(
                source.clone(),
                SourceChange { methodology: methodology.clone(), owner, ..SourceChange::default() },
            )?;
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
                .map(|(source, row)| json!({ "source": source, "weight": row.weight, "description": row.description, "owner": row.owner, "roots": row.roots, "methodology": row.methodology, "aud": row.aud, "seq": row.seq }))
                .collect();
            out.show(&list, || {
                let described = |row: &SourceRow| row.description.clone().unwrap_or_default();
                let lines = rows.iter().map(|(source, row)| {
                    let owner = row.owner.as_ref().map(ToString::to_string).unwrap_or_default();
                    let provider = row.methodology.clone().unwrap_or_default();
                    let roots: Vec<&str> = row.roots.iter().map(Root::as_str).collect();
                    vec![source.clone(), row.weight.to_string(), owner, roots.join(", "), provider, described(row)]
                });
                output::table(&["source", "weight", "owner", "roots", "verifies as", "description"], &["weight"], lines)
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
