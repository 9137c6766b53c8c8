use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use anyhow::Context;
use credence_engine::{
    assured::{Dimension, DimensionScore},
    certification::Certification,
    tiers::Tier,
    universal::Outcome,
};
use credence_pipeline::{
    query::{self, CurrentAssured, CurrentScore, Explanation},
    record::{AssuredRecord, DisputeStep, RecordedScore},
};
use credence_protocol::{ScoreStatus, Timestamp, strict};
use credence_server::score_charts;
use serde::Serialize;
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::{self, Home},
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
        let numbers: RecordedScore = serde_json::from_value(recorded.universal.event.clone())?;
        let assured = recorded.assured.as_ref().map(|one| serde_json::from_value(one.event.clone())).transpose()?;
        let assured: Option<AssuredRecord> = assured;
        let listed = &recorded.universal.event["inputs"];
        let inputs = listed.as_array().map_or_else(|| listed["count"].to_string(), |list| list.len().to_string());
        let sources = output::count(numbers.sources, "source");
        out.show(&recorded, || {
            let assured_line =
                assured.as_ref().map_or(String::new(), |one| format!("{} · ", query::headline(&one.assured)));
            let mut text = format!("{agent}  {assured_line}universal {}", display(&numbers));
            text += &format!("\n  recorded   {} (entry {})", recorded.universal.recorded_at, recorded.universal.seq);
            if let (Some(event), Some(one)) = (&recorded.assured, &assured) {
                text +=
                    &format!("\n  assured    {} (entry {}), for {}", event.recorded_at, event.seq, one.evaluated_at);
            }
            text +=
                &format!("\n  made from  {inputs} inputs of {sources}, when the ledger had {} entries", numbers.as_of);
            let formulas =
                assured.as_ref().map_or(String::new(), |one| format!(", {} {}", one.formula, one.parameters));
            text + &format!("\n  formula    {}{formulas}", numbers.formula)
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
        let behind = reader.reading().is_behind(&*view, &agent, home::now())?;
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
    let CurrentScore { agent, outcome, assured, certification, as_of, seq, .. } = score;
    let event = seq.map_or(String::new(), |seq| format!(", recorded as entry {seq}"));
    let due = if behind { "; rescoring is due: other signals, weights or ages count by now" } else { "" };
    let Outcome::Rated(rated) = outcome else {
        let line = if assured.is_some() { score.to_string() } else { outcome.to_string() };
        return format!(
            "{agent}  {line}{}",
            if behind { format!("\n  as of  {as_of} entries{event}{due}") } else { String::new() }
        );
    };
    let unpublished = if rated.status == ScoreStatus::Partial {
        "\n  partial: coverage is below the floor, so the universal score is not published"
    } else {
        ""
    };
    format!(
        "{agent}  {score}{unpublished}\n  certification  {}\n  universal      {rated}\n  coverage       {:.3} from {}; weighted mean {:.2}{}\n  as of          {as_of} entries{event}{due}",
        certified(certification),
        rated.coverage,
        output::count(rated.sources, "independent source"),
        rated.weighted_mean,
        assured.as_ref().map_or(String::new(), assured_lines),
    )
}

/// The dimensions of an assured score, and for when it holds.
fn assured_lines(assured: &CurrentAssured) -> String {
    let numbers = &assured.numbers;
    let dimension = |(name, one): (&Dimension, &DimensionScore)| {
        let weakest = one.weakest.as_ref().map_or(String::new(), |tag| format!("; weakest {tag}"));
        format!(
            "\n    {:<12} {:>3.0} ± {:<4.1} evidence {:>3.0} %{weakest}",
            name.name(),
            one.estimate,
            one.sd,
            one.known * 100.0
        )
    };
    let dimensions: String = numbers.dimensions.iter().map(dimension).collect();
    let capped = if numbers.cap < numbers.low {
        format!("; capped at {:.1} by the weakest of security", numbers.cap)
    } else {
        String::new()
    };
    let fragile = format!("one voice less moves it by up to {}", output::count(numbers.fragility.into(), "point"));
    format!("\n  assured        at {}, entry {}; {fragile}{capped}{dimensions}", assured.evaluated_at, assured.seq)
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
    let behind = reader.reading().is_behind(&*view, &agent, home::now())?;
    out.show(&marked(&explanation, behind)?, || explained(&explanation, behind))?;
    Ok(ExitCode::SUCCESS)
}

fn explained(explanation: &Explanation, behind: bool) -> String {
    let Explanation { score, contributions, advice } = explanation;
    let mut text = current_score(score, behind);
    if let Some(assured) = &score.assured {
        text += &format!("\n\nAssured: {}", assured.numbers.sum());
        if !advice.is_empty() {
            text += "\n\nWhat would raise it most:";
            advice.iter().for_each(|one| text += &format!("\n  {one}"));
        }
    }
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
        text += "\n\npull: points by which the source moves the universal score; without it: that score if it had said nothing";
    }
    for one in &score.disputed {
        let step = if one.step == DisputeStep::Kept { "kept by the operator" } else { "open" };
        text += &format!("\n\nDisputed by the agent's owner ({step}): signal {}, entry {}", one.signal, one.dispute);
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
    let assured = query::assured_history(&*view, &agent, args.limit as usize)?;
    let mut events: Vec<(u64, Value, Vec<String>)> = Vec::with_capacity(rows.len() + assured.len());
    for row in &rows {
        let cells = [row.recorded_at.to_string(), format!("universal {}", display(&row.recorded)), row.seq.to_string()];
        events.push((row.seq, json!(row), cells.to_vec()));
    }
    for (n, row) in assured.iter().enumerate() {
        let by_age = assured.get(n + 1).is_some_and(|before| before.recorded.inputs_of == row.recorded.inputs_of);
        let age = if by_age { " (by age)" } else { "" };
        let line = format!("{}{age}", query::headline(&row.recorded.assured));
        events.push((row.seq, json!(row), vec![row.recorded_at.to_string(), line, row.seq.to_string()]));
    }
    events.sort_by_key(|(seq, ..)| std::cmp::Reverse(*seq));
    events.truncate(args.limit as usize);
    let json: Vec<&Value> = events.iter().map(|(_, value, _)| value).collect();
    out.show(&json, || {
        if events.is_empty() {
            return format!("{agent} has no score yet");
        }
        let lines = events.iter().map(|(.., cells)| cells.clone());
        let table = output::table(&["recorded", "score", "entry"], &["entry"], lines);
        table + &output::drawn(args.plot.as_deref())
    })?;
    Ok(ExitCode::SUCCESS)
}
