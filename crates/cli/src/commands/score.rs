use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use anyhow::Context;
use credence_engine::{certification::Certification, tiers::Tier, universal::Outcome};
use credence_pipeline::{
    query::{self, CurrentScore, Explanation, ScoreRow},
    record::RecordedScore,
};
use credence_protocol::{ScoreStatus, Timestamp, strict};
use credence_server::score_charts;
use serde::Serialize;
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::Home,
    input,
    output::{self, Output},
    traces,
};

/// Some ten thousand sources.
const MAX_WEIGHTS_BYTES: u64 = 1024 * 1024;

#[derive(clap::Args)]
pub struct Args {
    /// An agent's id or alias
    agent: String,
    /// The score in force at this time (RFC 3339), with the weights of then
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Your own source weights: a JSON or TOML file such as {"lab": 1, "*": 0.2}; nothing is recorded
    #[arg(long, value_name = "FILE", conflicts_with = "at")]
    weights: Option<PathBuf>,
}

#[derive(clap::Args)]
pub struct ExplainArgs {
    /// An agent's id or alias
    agent: String,
}

#[derive(clap::Args)]
pub struct HistoryArgs {
    /// An agent's id or alias
    agent: String,
    /// The newest so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Draw them into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub fn score(home: &Home, out: &Output, args: Args) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let agent = reader.agent(&*view, &args.agent)?;
    if let Some(at) = args.at {
        let recorded = query::score_at(&*view, &agent, at)?;
        let numbers: RecordedScore = serde_json::from_value(recorded.event.clone())?;
        let listed = &recorded.event["inputs"];
        let inputs = listed.as_array().map_or_else(|| listed["count"].to_string(), |list| list.len().to_string());
        let sources = output::count(numbers.sources, "source");
        out.show(&recorded, || {
            let mut text = format!("{agent}  {}", display(&numbers));
            text += &format!("\n  recorded   {} (entry {})", recorded.recorded_at, recorded.seq);
            text +=
                &format!("\n  made from  {inputs} inputs of {sources}, when the ledger had {} entries", numbers.as_of);
            text + &format!("\n  formula    {}", numbers.formula)
        })?;
    } else if let Some(file) = args.weights {
        let weights = read_weights(&file)?;
        let custom = reader.reading().custom(&*view, &agent, &weights)?;
        let shown = json!({ "agent": agent, "custom": custom, "weights": weights });
        out.show(&shown, || match &custom {
            None => format!("{agent}  nothing counts under these weights"),
            Some(view) => {
                let sources = output::count(view.sources, "source");
                let mut text =
                    format!("{agent}  {:.1} ± {:.1} under your weights, from {sources}", view.mean, view.stddev);
                if !view.left_out.is_empty() {
                    text += &format!("; left out: {}", view.left_out.join(", "));
                }
                text + "\n  (your own view, not the universal score; nothing was recorded)"
            }
        })?;
    } else {
        let score = reader.reading().score(&*view, &agent)?;
        let behind = reader.reading().is_behind(&*view, &agent)?;
        out.show(&marked(&score, behind)?, || current_score(&score, behind))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// As JSON, with a mark where the newest score event is behind the signals.
fn marked(score: &impl Serialize, behind: bool) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(score)?;
    if behind {
        value["rescoring_due"] = json!(true);
    }
    Ok(value)
}

fn current_score(score: &CurrentScore, behind: bool) -> String {
    let CurrentScore { agent, outcome, certification, as_of, seq, .. } = score;
    let event = seq.map_or(String::new(), |seq| format!(", recorded as entry {seq}"));
    let due = if behind { "; rescoring is due: other signals or weights count by now" } else { "" };
    let Outcome::Rated(score) = outcome else {
        return format!(
            "{agent}  {outcome}{}",
            if behind { format!("\n  as of  {as_of} entries{event}{due}") } else { String::new() }
        );
    };
    let unpublished = if score.status == ScoreStatus::Partial {
        "\n  partial: coverage is below the floor, so this score is not published"
    } else {
        ""
    };
    format!(
        "{agent}  {score}{unpublished}\n  certification  {}\n  coverage       {:.3} from {}; weighted mean {:.2}\n  as of          {as_of} entries{event}{due}",
        certified(certification),
        score.coverage,
        output::count(score.sources, "source"),
        score.weighted_mean
    )
}

fn certified(certification: &Certification) -> String {
    let name = if certification.tier == Tier::Unrated { "none yet".to_owned() } else { certification.tier.to_string() };
    match (certification.next, certification.missing.len()) {
        (Some(next), missing) => format!("{name}; {missing} missing for {next}"),
        (None, _) => name,
    }
}

/// The recorded score in the display form.
fn display(recorded: &RecordedScore) -> String {
    match (recorded.stddev, recorded.tier_confidence) {
        (Some(stddev), Some(confidence)) => {
            let tier = Tier::of(recorded.score);
            let unpublished = if recorded.status == ScoreStatus::Partial { ", partial: not published" } else { "" };
            format!("{} ± {stddev:.1} ({tier}, {:.0}% confidence){unpublished}", recorded.score, confidence * 100.0)
        }
        _ => "unrated".to_owned(),
    }
}

fn read_weights(path: &std::path::Path) -> anyhow::Result<BTreeMap<String, f64>> {
    let bytes = input::file(path, MAX_WEIGHTS_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    if text.trim_start().starts_with('{') {
        // Strictly: a source named twice must not be weighed by whichever comes last.
        let value = strict::value(&bytes).with_context(|| path.display().to_string())?;
        return serde_json::from_value(value).with_context(|| path.display().to_string());
    }
    toml::from_str(&text).with_context(|| format!("{} is neither JSON nor TOML", path.display()))
}

pub fn explain(home: &Home, out: &Output, args: ExplainArgs) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let agent = reader.agent(&*view, &args.agent)?;
    let explanation = reader.reading().explain(&*view, &agent)?;
    let behind = reader.reading().is_behind(&*view, &agent)?;
    out.show(&marked(&explanation, behind)?, || explained(&explanation, behind))?;
    Ok(ExitCode::SUCCESS)
}

fn explained(explanation: &Explanation, behind: bool) -> String {
    let Explanation { score, contributions } = explanation;
    let mut text = current_score(score, behind);
    if score.outcome.rated().is_some() {
        let lines = contributions.iter().map(|part| {
            let measured: Vec<String> = part.signals.iter().map(|s| format!("{} {}", s.tag, s.value)).collect();
            vec![
                part.source.clone(),
                part.weight.to_string(),
                format!("{:.0}%", part.share * 100.0),
                format!("{:.1}", part.mean),
                format!("{:+.1}", part.pull),
                part.without.rated().map_or("unrated".into(), |s| s.score.to_string()),
                measured.join(", "),
            ]
        });
        let header = ["source", "weight", "share", "mean", "pull", "without it", "signals"];
        text += "\n\n";
        text += &output::table(&header, &header[1..6], lines);
        text += "\n\npull: points by which the source moves the score; without it: the score if it had said nothing";
    }
    let Certification { next, missing, .. } = &score.certification;
    if let Some(next) = next {
        text += &format!("\n\nMissing for {next} certification:");
        for unmet in missing {
            text += &format!("\n  {}: needs {}, has {}", unmet.requirement, unmet.needed, unmet.have);
        }
    }
    text
}

pub fn history(home: &Home, out: &Output, args: HistoryArgs) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let agent = reader.agent(&*view, &args.agent)?;
    let rows = query::history(&*view, &agent, args.limit as usize)?;
    if let Some(path) = &args.plot {
        traces::write(path, score_charts::history(&format!("Score of {agent}"), &rows).file().as_bytes())?;
    }
    let json: Vec<Value> = rows.iter().map(|row| json!(row)).collect();
    out.show(&json, || {
        if rows.is_empty() {
            return format!("{agent} has no score yet");
        }
        let line = |row: &ScoreRow| {
            vec![
                row.recorded_at.to_string(),
                display(&row.recorded),
                row.recorded.sources.to_string(),
                row.seq.to_string(),
            ]
        };
        let table =
            output::table(&["recorded", "score", "sources", "entry"], &["sources", "entry"], rows.iter().map(line));
        table + &output::drawn(args.plot.as_deref())
    })?;
    Ok(ExitCode::SUCCESS)
}
