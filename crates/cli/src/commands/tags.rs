//! `credence tag`: what can be measured, and what of it counts in scores.

use std::process::ExitCode;

use clap::Subcommand;
use credence_pipeline::query::Deferral;
use credence_protocol::{Tag, TagRegistry};
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::Home,
    output::{self, Output},
};

#[derive(Subcommand)]
pub enum Command {
    /// List the registered tags, and whether they count
    List,
    /// Let a tag count in scores, or defer it. Everyone is scored again
    Set {
        tag: Tag,
        /// Admit its signals and leave them out of scores
        #[arg(long, conflicts_with = "counted", required_unless_present = "counted")]
        deferred: bool,
        /// Count its signals
        #[arg(long)]
        counted: bool,
    },
}

pub fn run(home: &Home, out: &Output, command: Option<Command>) -> Done {
    match command {
        None | Some(Command::List) => list(home, out),
        Some(Command::Set { tag, deferred, .. }) => set(home, out, &tag, deferred),
    }
}

fn list(home: &Home, out: &Output) -> Done {
    let registry = TagRegistry::standard()?;
    let deferral = match home.config_file().exists() {
        true => Deferral::read(&*home.reader()?.view()?)?,
        false => Deferral::default(),
    };
    let mut tags: Vec<Value> = Vec::new();
    for tag in registry.iter() {
        let mut shown = serde_json::to_value(tag)?;
        shown["deferred"] = json!(deferral.is_deferred(tag.name.as_str(), &registry));
        if let Some(row) = deferral.row(tag.name.as_str()) {
            shown["entry"] = json!(row.seq);
        }
        tags.push(shown);
    }
    out.show(&tags, || {
        let lines = tags.iter().map(|tag| {
            let text = |member: &str| tag[member].as_str().unwrap_or_default().to_owned();
            let remark = if tag["deferred"] == true { " (deferred: admitted, not scored)" } else { "" };
            vec![text("name"), format!("{}{remark}", text("meaning"))]
        });
        output::table(&["tag", "meaning: 100 is always best"], &[], lines)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn set(home: &Home, out: &Output, tag: &Tag, deferred: bool) -> Done {
    let authority = home.authority()?;
    let seq = authority.set_tag(tag, deferred)?;
    crate::statement::score_and_flush(&authority, out)?;
    let state = if deferred { "is deferred" } else { "counts" };
    out.show(&json!({ "tag": tag, "deferred": deferred, "entry": seq }), || match seq {
        Some(seq) => format!("{tag} {state} from entry {seq} on."),
        None => format!("{tag} {state} already."),
    })?;
    Ok(ExitCode::SUCCESS)
}
