use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use credence_verify::infer::{Findings, Inference};
use serde_json::json;

use super::{Done, answer};
use crate::{
    output::{Output, count},
    traces,
};

#[derive(clap::Args)]
pub struct Args {
    /// Traces, one a line; those labelled 1 (fabricated) are passed over; - for standard input
    #[arg(default_value = "-")]
    file: String,
    /// Where to write the profiles, as TOML, for `credence verify --profiles`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(out: &Output, args: Args) -> Done {
    let mut tools: BTreeMap<String, Inference> = BTreeMap::new();
    for trace in traces::read(out, &args.file)? {
        if trace.fabricated()? != Some(true) && trace.learn {
            tools.entry(trace.tool).or_default().observe(&trace.result, trace.execution_time_ms);
        }
    }
    anyhow::ensure!(!tools.is_empty(), "{} has no genuine traces to learn from", args.file);
    let mut text = String::from(
        "# Profiles inferred from traces. Edit them: what is written here is taken as known.\n# Latencies and lengths have room for twice, and half, of what was seen.\n",
    );
    let mut found = BTreeMap::new();
    for (tool, inference) in &tools {
        let (findings, profile) = (inference.findings(), inference.profile());
        profile.clone().build()?;
        let table = toml::to_string(&BTreeMap::from([(tool, &profile)]))?;
        write!(text, "\n# {}\n{table}", describe(&findings))?;
        found.insert(tool, json!({ "found": findings, "profile": profile }));
    }
    if let Some(path) = &args.out {
        traces::write(path, text.as_bytes())?;
    }
    out.show(&json!({ "tools": found, "file": args.out }), || match &args.out {
        None => text.clone(),
        Some(path) => {
            let lines = tools.iter().map(|(tool, inference)| format!("{tool}: {}", describe(&inference.findings())));
            let lines: Vec<String> = lines.collect();
            format!("{}\n\n{} in {}", lines.join("\n"), count(tools.len(), "profile"), path.display())
        }
    })?;
    Ok(answer(false))
}

/// What was found about a tool, in a line.
fn describe(findings: &Findings) -> String {
    let mut text = format!("{} results", findings.results);
    let types: Vec<String> = findings.types.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let _ = write!(text, " ({})", types.join(", "));
    if let Some((least, most)) = findings.latency_ms {
        let _ = write!(text, ", {least} to {most} ms");
    }
    if let Some((least, most)) = findings.length {
        let _ = write!(text, ", {least} to {most} characters");
    }
    let _ = write!(text, ", {} in every result", count(findings.required_fields.len(), "field"));
    text
}
