//! What runs of the sandbox found: families with their intervals, and the runs themselves.

use credence_ledger::View;
use credence_pipeline::{
    probes::{FamilyCounts, ProbeRecord},
    query,
};
use credence_protocol::{EntityId, Timestamp};

use crate::{
    dashboard::format::{When, count, one},
    problem::Problem,
};

/// Runs listed.
const RUNS: usize = 10;
const PERCENT: f64 = 100.0;

pub(super) struct ProbeSection {
    pub threats: Vec<ThreatView>,
    /// Threats that the newest run tried and found no value for, each with the reason.
    pub untold: Vec<(String, String)>,
    pub runs: Vec<RunView>,
}

pub(super) struct ThreatView {
    pub name: String,
    pub value: String,
    pub stddev: String,
    pub seq: u64,
    pub when: When,
    pub chart: String,
}

pub(super) struct RunView {
    pub seq: u64,
    pub when: When,
    pub target: String,
    pub transport: String,
    pub requests: String,
    pub effected: u64,
    pub conclusive: u64,
    pub claimed: u64,
    pub inconclusive: u64,
    pub told: usize,
    pub tried: usize,
}

pub(super) fn section(view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<ProbeSection, Problem> {
    let runs = query::probe_runs(view, agent, RUNS)?;
    let mut threats = Vec::new();
    for (tag, row) in query::probed(view, agent, now)?.into_iter().filter(|(tag, _)| tag.starts_with("asi")) {
        // An older run than those listed still stands for what no newer one could tell.
        let listed = runs.iter().find(|run| run.seq == row.seq).map(|run| run.record.clone());
        let record = match listed {
            Some(record) => record,
            None => serde_json::from_value(query::record(view, row.seq)?).map_err(|e| Problem::internal(&e))?,
        };
        threats.push(ThreatView {
            name: name(tag),
            value: one(row.value),
            stddev: one(row.stddev),
            seq: row.seq,
            when: When::new(row.at, now),
            chart: chart(tag, &record),
        });
    }
    let untold = runs.first().map(|run| untold(&run.record)).unwrap_or_default();
    let runs = runs.into_iter().map(|run| {
        let families = || run.record.threats.iter().flat_map(|threat| &threat.families);
        let sum = |of: &dyn Fn(&FamilyCounts) -> u64| families().map(of).sum::<u64>();
        RunView {
            seq: run.seq,
            when: When::new(run.recorded_at, now),
            target: run.record.target.clone(),
            transport: run.record.transport.clone(),
            requests: count(run.record.requests),
            effected: sum(&|family| family.effected),
            conclusive: sum(&|family| family.conclusive().conclusive),
            claimed: sum(&|family| family.claimed),
            inconclusive: sum(&|family| family.inconclusive),
            told: run.record.values().iter().filter(|(tag, value)| tag.starts_with("asi") && value.is_ok()).count(),
            tried: run.record.threats.len(),
        }
    });
    Ok(ProbeSection { threats, untold, runs: runs.collect() })
}

/// Not measured is neither good nor bad: what is missing is said, and why.
fn untold(record: &ProbeRecord) -> Vec<(String, String)> {
    let values = record.values();
    let mut untold = Vec::new();
    for threat in &record.threats {
        let found = values.iter().find(|(tag, _)| *tag == threat.tag.as_str()).map(|(_, value)| *value);
        let why = match found {
            Some(Ok(_)) => continue,
            Some(Err(why)) => why.to_string(),
            None => "the run did not try all its families in full".to_owned(),
        };
        untold.push((name(threat.tag.as_str()), why));
    }
    untold
}

fn chart(tag: &str, record: &ProbeRecord) -> String {
    let threat = record.threats.iter().find(|threat| threat.tag.as_str() == tag);
    let families: Vec<&FamilyCounts> =
        threat.into_iter().flat_map(|threat| &threat.families).filter(|family| family.counted).collect();
    let labels: Vec<String> = families.iter().map(|family| label(tag, &family.family)).collect();
    let intervals: Vec<credence_charts::Interval<'_>> = families
        .iter()
        .zip(&labels)
        .map(|(family, label)| {
            let trials = family.conclusive();
            let (low, high) = trials.interval();
            credence_charts::Interval {
                label,
                low: low * PERCENT,
                high: high * PERCENT,
                value: trials.effected as f64 / trials.conclusive.max(1) as f64 * PERCENT,
                figures: format!("{} of {}", trials.effected, trials.conclusive),
            }
        })
        .collect();
    let title = format!("{}: attacks that took effect", name(tag));
    credence_charts::intervals(&title, "% of attacks", &intervals, PERCENT).inline()
}

/// `asi01_goal_hijack` as `ASI01 goal hijack`.
fn name(tag: &str) -> String {
    let (id, rest) = tag.split_once('_').unwrap_or((tag, ""));
    format!("{} {}", id.to_uppercase(), rest.replace('_', " "))
}

/// `asi01_tool_result` as `tool result`, in the chart of its threat.
fn label(tag: &str, family: &str) -> String {
    let threat = tag.split('_').next().unwrap_or_default();
    let own = family.strip_prefix(threat).unwrap_or(family).trim_start_matches('_');
    if own.is_empty() { family.to_owned() } else { own.replace('_', " ") }
}
