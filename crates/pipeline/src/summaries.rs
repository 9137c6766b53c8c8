//! Output-verification summaries: what providers report on an agent, window by window, and what it comes to together
//! (DESIGN, *HCS-25*).

use std::ops::ControlFlow;

use credence_engine::hcs25::{
    output_verification::{DEFAULT_MIN_CHECKS, Parameters, ProviderRef, Report, Summary, Window},
    providers::{self, Combined, Measure, Party, ProviderReport, StakeJump},
};
use credence_ledger::{Appended, Scan, Transaction, View};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, Timestamp, records::SummaryRecord, strict::StrictValue};
use serde::{Deserialize, Serialize};

use crate::{
    Result, due, reputation,
    statements::{
        ParsedStatement, StatementBody,
        groups::{Group, Pass},
    },
    tables::{self, AgentRow, SourceRow},
};

/// The window that the authority's own signals speak of.
pub const SIGNAL_WINDOW: Window = Window::Week;

/// A provider's newest report on an agent's window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryRow {
    /// The entry.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// The end of the window.
    pub updated_at: Timestamp,
    /// The `outputVerificationSummary`.
    pub summary: StrictValue,
    /// Checks by stake in the provider's reports before, on any agent: all of them, and those high or critical.
    pub stakes_before: (u64, u64),
}

/// `agent/window/provider`.
pub fn place(agent: &EntityId, window: &str, provider: &EntityId) -> String {
    format!("{agent}/{window}/{provider}")
}

/// Folds a report in right after its entry was appended.
pub(crate) fn apply(
    tx: &mut dyn Transaction,
    pass: &Pass,
    provider: &EntityId,
    record: &SummaryRecord,
    report: &Report,
) -> Result<()> {
    let at = pass.at;
    // From now on the agent's praise does not carry those who stand behind its provider.
    let behind = agents_behind(tx, provider)?;
    let vouched = behind.iter().map(|one| vouches(tx, one, &record.agent)).collect::<Result<Vec<bool>>>()?;
    if counts_as_report(report) {
        for (one, vouched) in behind.iter().zip(&vouched) {
            // Every such report ends praise, also where an earlier one did: that one may stop counting.
            pass.bears_on(tx, &Group::Words { agent: one.clone(), peer: record.agent.clone() })?;
            if !vouched {
                reputation::end_praise(tx, one, &record.agent)?;
                due::rescore(tx, one, at.seq)?;
            }
        }
    }
    put_row(tx, pass, provider, record, report)?;
    for (one, vouched) in behind.iter().zip(vouched) {
        if vouched && !vouches(tx, one, &record.agent)? {
            due::rescore(tx, one, at.seq)?;
        }
    }
    due::derive(tx, record.agent.as_str(), at.seq)
}

fn put_row(
    tx: &mut dyn Transaction,
    pass: &Pass,
    provider: &EntityId,
    record: &SummaryRecord,
    report: &Report,
) -> Result<()> {
    let (agent, window) = (record.agent.clone(), record.window.clone());
    let group = Group::Summary { agent, window, provider: provider.clone() };
    // What is usual for the provider, over all agents it reports on.
    let stakes_before = pass.stakes_before(tx, &group, |tx| {
        let usual = format!("{provider}/{}", record.window);
        let before: (u64, u64) = tables::get(tx, tables::STAKES, &usual)?.unwrap_or_default();
        let (all, high) = counts(&record.summary);
        let total = (before.0.saturating_add(all), before.1.saturating_add(high));
        tables::put(tx, tables::STAKES, &usual, &total)?;
        Ok(before)
    })?;
    let updated_at = match report {
        Report::Applicable(summary) => summary.updated_at,
        _ => None,
    };
    let Appended { seq, recorded_at: at } = pass.at;
    let updated_at = updated_at.or_else(|| stated_time(&record.summary)).unwrap_or(at);
    let row = SummaryRow { seq, at, updated_at, summary: record.summary.clone(), stakes_before };
    tables::put(tx, tables::SUMMARIES, &place(&record.agent, &record.window, provider), &row)?;
    let window = Window::parse(&record.window).unwrap_or(SIGNAL_WINDOW);
    let due_to = format!("{}/{provider}", window.key());
    due::derive_at(tx, &record.agent, &due_to, lapses(updated_at, window), seq)
}

/// A provider's reports on a window, folded again: the newest that counts stands.
pub(crate) fn fold_again(tx: &mut dyn Transaction, place: &str, statements: &[(Pass, ParsedStatement)]) -> Result<()> {
    tx.delete(tables::SUMMARIES, place)?;
    let newest = statements.iter().rev().find(|(pass, _)| pass.counts);
    if let Some((pass, stated)) = newest
        && let StatementBody::Summary(record, report) = &stated.body
    {
        put_row(tx, pass, stated.statement.author(), record, report)?;
    }
    Ok(())
}

/// Whose praise counts for a provider has changed: the agents behind it are scored again.
pub(crate) fn vouching_changed(tx: &mut dyn Transaction, provider: &EntityId, seq: u64) -> Result<()> {
    agents_behind(tx, provider)?.iter().try_for_each(|agent| due::rescore(tx, agent, seq))
}

/// The agents that a provider is a part of: the one that runs it, and the one of its own id in a log of before agents and sources
/// shared a namespace.
pub(crate) fn agents_behind(view: &(impl View + ?Sized), provider: &EntityId) -> Result<Vec<EntityId>> {
    let source: Option<SourceRow> = tables::get(view, tables::SOURCES, provider.as_str())?;
    let mut behind = Vec::new();
    for name in [Some(provider.clone()), source.and_then(|source| source.owner)].into_iter().flatten() {
        if !behind.contains(&name) && tables::get::<AgentRow>(view, tables::AGENTS, name.as_str())?.is_some() {
            behind.push(name);
        }
    }
    Ok(behind)
}

/// When a window that ended at `updated_at` is wholly past.
fn lapses(updated_at: Timestamp, window: Window) -> Timestamp {
    updated_at.plus_seconds(window.days() * reputation::DAY_SECONDS + 1)
}

fn counts_as_report(report: &Report) -> bool {
    matches!(report, Report::Applicable(_))
}

/// Puts every agent that `provider` reports on into the queue: what its reports are worth has changed.
pub(crate) fn reconsider(tx: &mut dyn Transaction, provider: &EntityId, seq: u64) -> Result<()> {
    let mut agents = std::collections::BTreeSet::new();
    tx.scan(tables::SUMMARIES, Scan::all(), &mut |key, _| {
        if let Some((agent, window_and_provider)) = key.split_once('/')
            && window_and_provider.split_once('/').is_some_and(|(_, name)| name == provider.as_str())
        {
            agents.insert(agent.to_owned());
        }
        ControlFlow::Continue(())
    })?;
    agents.iter().try_for_each(|agent| due::derive(tx, agent, seq))
}

/// The end of the window that a summary names.
pub(crate) fn stated_time(summary: &StrictValue) -> Option<Timestamp> {
    summary.0.get("updatedAt")?.as_str()?.parse().ok()
}

fn counts(summary: &StrictValue) -> (u64, u64) {
    match Summary::from_value(&summary.0, 0) {
        Ok(Report::Applicable(summary)) => providers::stake_counts(&summary),
        _ => (0, 0),
    }
}

/// Whether `about`, or a provider of the same owner, has a report on `agent` that can count: then the agent's praise counts for
/// nothing. A report too small to count must not silence anyone.
pub(crate) fn vouches(view: &(impl View + ?Sized), about: &EntityId, agent: &EntityId) -> Result<bool> {
    let party = reputation::party(view, about)?;
    for provider in providers_of(view, agent.as_str())? {
        let source: Option<SourceRow> = tables::get(view, tables::SOURCES, &provider)?;
        if provider == about.as_str() || source.is_some_and(|source| source_party(&provider, &source).is(&party)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whoever reports on `agent`.
pub(crate) fn providers_of(view: &(impl View + ?Sized), agent: &str) -> Result<Vec<String>> {
    let mut providers = Vec::new();
    tables::scan(view, tables::SUMMARIES, Scan::prefix(&format!("{agent}/")), |key, row: SummaryRow| {
        providers.extend(key.rsplit('/').next().filter(|_| is_large_enough(&row)).map(str::to_owned));
        Ok(ControlFlow::Continue(()))
    })?;
    providers.sort_unstable();
    providers.dedup();
    Ok(providers)
}

fn is_large_enough(row: &SummaryRow) -> bool {
    row.summary.0.get("totalChecks").and_then(serde_json::Value::as_f64).is_some_and(|n| n >= DEFAULT_MIN_CHECKS as f64)
}

/// What is odd about a provider's report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Oddity {
    /// Whose.
    pub provider: String,
    /// What: the share of checks called high or critical jumped.
    pub stake_jump: StakeJump,
}

/// What providers say of an agent over a window.
#[derive(Debug, Serialize)]
pub struct Stats {
    /// The reports that count as one `outputVerificationSummary`, in the standard's own fields, for others to collect.
    #[serde(flatten)]
    pub published: Summary,
    /// The agent.
    pub agent: EntityId,
    /// The window.
    pub window: Window,
    /// As the standard has it, profile `spec`.
    pub hcs25: Combined,
    /// As the authority's own signals have it.
    pub signal: Combined,
    /// What is odd.
    pub findings: Vec<Oddity>,
    /// What each provider reported.
    pub summaries: Vec<Reported>,
}

/// What was checked, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Checks by admitted providers whose reports are not stale.
    pub checks: u64,
    /// How many of them were blocked.
    pub blocked: u64,
    /// The providers.
    pub providers: usize,
}

impl Stats {
    /// What was checked by providers whose reports count as the standard has it.
    pub fn checked(&self) -> Checked {
        let mut all = Checked::default();
        for provider in self.hcs25.providers.iter().filter(|provider| provider.counted) {
            let report = self.summaries.iter().find(|report| report.provider == provider.id);
            let share = report.and_then(|report| report.summary.0.get("blockRate")?.as_f64()).unwrap_or(0.0);
            all.checks = all.checks.saturating_add(provider.checks);
            all.blocked = all.blocked.saturating_add((share * provider.checks as f64).round() as u64);
            all.providers += 1;
        }
        all
    }
}

/// What a provider reported.
#[derive(Debug, Clone, Serialize)]
pub struct Reported {
    /// Who.
    pub provider: String,
    /// The entry.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// The `outputVerificationSummary`.
    pub summary: StrictValue,
}

/// What providers say of `agent` over `window`, as of `now`. Only those that the operator admits now count.
pub(crate) fn stats(view: &(impl View + ?Sized), agent: &EntityId, window: Window, now: Timestamp) -> Result<Stats> {
    let mut rows: Vec<(String, SummaryRow)> = Vec::new();
    let prefix = format!("{agent}/{}/", window.key());
    tables::scan(view, tables::SUMMARIES, Scan::prefix(&prefix), |key, row| {
        rows.push((key[prefix.len()..].to_owned(), row));
        Ok(ControlFlow::Continue(()))
    })?;
    // A clock that was set back must not make what was admitted a report from the future.
    let now = rows.iter().map(|(_, row)| row.at).fold(now, Timestamp::max);
    let (mut reports, mut findings, mut summaries) = (Vec::new(), Vec::new(), Vec::new());
    for (provider, row) in rows {
        let source: Option<SourceRow> = tables::get(view, tables::SOURCES, &provider)?;
        summaries.push(Reported {
            provider: provider.clone(),
            seq: row.seq,
            recorded_at: row.at,
            summary: row.summary.clone(),
        });
        let Some(source) = source.filter(|source| is_provider(&provider, source)) else { continue };
        let report = Summary::from_value(&row.summary.0, DEFAULT_MIN_CHECKS).unwrap_or(Report::None);
        if let Some(stake_jump) = providers::stake_jump(row.stakes_before, counts(&row.summary)) {
            findings.push(Oddity { provider: provider.clone(), stake_jump });
        }
        reports.push(ProviderReport { provider: source_party(&provider, &source), report });
    }
    let agent_party = reputation::party(view, agent)?;
    let parameters = Parameters::default();
    let combine = |measure| providers::combine(&reports, Some(&agent_party), Some(now), &parameters, measure);
    let admitted = !reports.is_empty() || summaries.is_empty();
    let told = |mut combined: Combined| {
        if !admitted {
            combined.reason = Some("no provider that reports on this agent is admitted".to_owned());
        }
        combined
    };
    let standard = combine(Measure::Standard(credence_engine::hcs25::Profile::Spec)).map_err(crate::Error::Hcs25)?;
    let signal = combine(Measure::Signal).map_err(crate::Error::Hcs25)?;
    let published = published(view, window, &standard, &reports, &summaries)?;
    Ok(Stats {
        published,
        agent: agent.clone(),
        window,
        hcs25: told(standard),
        signal: told(signal),
        findings,
        summaries,
    })
}

/// The reports that count, merged, with who signed them and where each method is published.
fn published(
    view: &(impl View + ?Sized),
    window: Window,
    standard: &Combined,
    reports: &[ProviderReport],
    summaries: &[Reported],
) -> Result<Summary> {
    let mut parts = Vec::new();
    for outcome in standard.providers.iter().filter(|outcome| outcome.counted) {
        let report = reports.iter().find(|report| report.provider.id == outcome.id).map(|report| &report.report);
        let (Some(Report::Applicable(summary)), Some(reported)) =
            (report, summaries.iter().find(|reported| reported.provider == outcome.id))
        else {
            continue;
        };
        let source: Option<SourceRow> = tables::get(view, tables::SOURCES, &outcome.id)?;
        let statement = crate::query::record(view, reported.seq)?;
        let provider = ProviderRef {
            id: outcome.id.clone(),
            signer_address: statement["key_id"].as_str().map(str::to_owned),
            methodology_url: source.and_then(|source| source.methodology),
            checks_contributed: None,
        };
        parts.push((summary, provider));
    }
    Ok(Summary::merged(&parts, window.days() as f64))
}

/// A source, and who runs it.
pub(crate) fn source_party(id: &str, source: &SourceRow) -> Party {
    Party { id: id.to_owned(), owner: source.owner.as_ref().map(ToString::to_string), key: None }
}

/// Whether a source is admitted as a provider. The authority is one by nature.
pub(crate) fn is_provider(id: &str, source: &SourceRow) -> bool {
    source.weight > 0.0 && (source.methodology.is_some() || id == AUTHORITY_SOURCE)
}
