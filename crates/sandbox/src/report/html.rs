//! The report for the agent's owner: one file, no script, nothing fetched, every text of the target escaped.
//!
//! For each finding: what was sent, what the sensor saw, one command that tries it again, and what to do about it.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::Value;

use super::{FamilyResult, RunResult, ThreatResult, exchange};
use crate::{
    Threat,
    judge::Judged,
    suite::Suite,
    trial::{Outcome, TrialRecord},
};

/// Findings of one family that are shown with what was said.
const SHOWN_TRIALS: usize = 3;

/// In a command, where `--only` belongs if that is not its end.
pub const ONLY: &str = "{only}";

/// The command that tries one trial again.
pub fn again(command: &str, trial: &TrialRecord) -> String {
    let only = format!("--only {}:{}", trial.probe, trial.variant);
    if command.contains(ONLY) { command.replacen(ONLY, &only, 1) } else { format!("{command} {only}") }
}

/// What a report is made of.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    /// The result.
    pub result: &'a RunResult,
    /// The probes, for titles, gains and fixes.
    pub suite: &'a Suite,
    /// The trials.
    pub trials: &'a [TrialRecord],
    /// The lines of the transcript.
    pub transcripts: &'a [Value],
    /// The agent's id or name, where it has one.
    pub agent: Option<&'a str>,
    /// When the report was made.
    pub made_at: &'a str,
    /// The command that runs against this target, to which the choice of a probe is added.
    pub command: &'a str,
    /// What a judge model said, where one was asked.
    pub judged: Option<&'a Judged>,
}

impl Report<'_> {
    /// The page.
    pub fn page(&self) -> String {
        let result = self.result;
        let title = format!("Probe report: {}", self.agent.unwrap_or(&result.target));
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n",
            escape(&title),
            escape(&title)
        );
        self.summary(&mut page);
        page.push_str("</header>\n<main>\n");
        self.overview(&mut page);
        self.findings(&mut page);
        self.untold(&mut page);
        self.benchmarks(&mut page);
        self.judge(&mut page);
        self.method(&mut page);
        page.push_str("</main>\n</body>\n</html>\n");
        page
    }

    fn summary(&self, page: &mut String) {
        let RunResult { target, transport, requests, duration_s, .. } = self.result;
        let effected: Vec<&FamilyResult> = self.families().filter(|family| family.effected > 0).collect();
        let tried = self.families().filter(|family| family.applicable).count();
        let verdict = match effected.len() {
            0 if tried == 0 => "Nothing could be tried on this target.".to_owned(),
            0 => "No attack took effect.".to_owned(),
            1 => "One kind of attack took effect.".to_owned(),
            n => format!("{n} kinds of attack took effect."),
        };
        let class = if effected.is_empty() { "calm" } else { "alarm" };
        let _ = write!(
            page,
            "<p class=\"verdict {class}\">{verdict}</p>\n<p>{tried} kinds of attack were tried on <code>{}</code> over {transport}, with \
             {requests} requests in {} on {}.</p>\n",
            escape(target),
            minutes(*duration_s),
            escape(&moment(self.made_at))
        );
        if let Some(why) = &self.result.ended {
            let _ = writeln!(
                page,
                "<p class=\"note\">The run ended early: {}. What follows is what was measured until then.</p>",
                escape(why)
            );
        }
        for dropped in self.result.left_out() {
            let _ = writeln!(
                page,
                "<p class=\"note\">{} was left out: {}.</p>",
                escape(&name(&dropped.tag)),
                escape(&dropped.why)
            );
        }
    }

    fn overview(&self, page: &mut String) {
        page.push_str(
            "<section>\n<h2>Overview</h2>\n<p>A value of 100 means that no attack takes effect. The bar spans the middle 90 % of what the \
             trials say about the rate of attacks that do: few trials make a long bar.</p>\n<table class=\"overview\">\n<thead><tr><th>Threat</th>\
             <th>Value</th><th>Family</th><th>Took effect</th><th class=\"scale-head\">Rate of effect, 0 to 100 %</th></tr></thead>\n",
        );
        for threat in &self.result.threats {
            self.threat_rows(page, threat);
        }
        page.push_str("</table>\n</section>\n");
    }

    fn threat_rows(&self, page: &mut String, threat: &ThreatResult) {
        let value = match (threat.value, threat.stddev) {
            (Some(value), Some(stddev)) => format!("<b>{value:.0}</b> ± {stddev:.0}"),
            _ => "–".to_owned(),
        };
        let tried: Vec<&FamilyResult> = threat.families.iter().filter(|family| family.applicable).collect();
        let _ = write!(
            page,
            "<tbody>\n<tr><th rowspan=\"{}\">{}</th><td rowspan=\"{0}\" class=\"number\">{value}</td>",
            tried.len().max(1),
            escape(&name(&threat.tag))
        );
        if tried.is_empty() {
            let why = threat.no_signal.as_deref().unwrap_or("nothing of it can be tried on this target");
            let _ = write!(page, "<td colspan=\"3\" class=\"quiet\">{}</td></tr>\n</tbody>\n", escape(why));
            return;
        }
        for (n, family) in tried.into_iter().enumerate() {
            let start = if n == 0 { "" } else { "<tr>" };
            let title = self.suite.family(&family.family).map_or(family.family.as_str(), |found| &found.family.title);
            let conclusive = family.effected + family.claimed + family.resisted;
            let _ = writeln!(
                page,
                "{start}<td>{}{}</td><td class=\"number\">{} of {conclusive}</td><td>{}</td></tr>",
                // What has a finding below leads there.
                match family.effected + family.claimed {
                    0 => escape(title),
                    _ => format!("<a href=\"#{}\">{}</a>", escape(&family.family), escape(title)),
                },
                remarks(family),
                family.effected,
                family.interval.map_or_else(
                    || "<span class=\"quiet\">no conclusive trial</span>".to_owned(),
                    |interval| { bar(interval, family.effected as f64 / conclusive.max(1) as f64) }
                )
            );
        }
        page.push_str("</tbody>\n");
    }

    fn findings(&self, page: &mut String) {
        let mut found: Vec<&FamilyResult> =
            self.families().filter(|family| family.effected + family.claimed > 0).collect();
        found.sort_by_key(|family| (std::cmp::Reverse(family.effected), std::cmp::Reverse(family.claimed)));
        if found.is_empty() {
            return;
        }
        page.push_str("<section>\n<h2>Findings</h2>\n");
        for family in found {
            self.finding(page, family);
        }
        page.push_str("</section>\n");
    }

    fn finding(&self, page: &mut String, result: &FamilyResult) {
        let found = self.suite.family(&result.family);
        let (title, gain, fix) = found.map_or((result.family.as_str(), "", ""), |found| {
            (found.family.title.as_str(), found.family.gain.as_str(), found.family.fix.as_str())
        });
        let conclusive = result.effected + result.claimed + result.resisted;
        let took = if result.effected > 0 {
            format!("The attack took effect in {} of {conclusive} trials.", result.effected)
        } else {
            format!(
                "The agent says in {} of {conclusive} trials that it complied; no sensor saw it happen.",
                result.claimed
            )
        };
        let _ = write!(
            page,
            "<article id=\"{}\">\n<h3>{}</h3>\n<p class=\"family\">{} · <code>{0}</code></p>\n<p>{took}</p>\n<dl>\n",
            escape(&result.family),
            escape(title),
            escape(found.map_or("", |found| found.threat.tag())),
        );
        for (term, text) in [("What an attacker gains", gain), ("What to do", fix)] {
            if !text.is_empty() {
                let _ = writeln!(page, "<dt>{term}</dt><dd>{}</dd>", escape(text));
            }
        }
        page.push_str("</dl>\n");
        let counts = |trial: &&&TrialRecord| {
            trial.family == result.family && matches!(trial.outcome, Outcome::Effected | Outcome::Claimed)
        };
        let mut trials: Vec<&TrialRecord> = self.trials.iter().filter(|trial| counts(&trial)).collect();
        trials.sort_by_key(|trial| (trial.outcome, trial.repeat));
        for trial in trials.into_iter().take(SHOWN_TRIALS) {
            self.trial(page, trial);
        }
        page.push_str("</article>\n");
    }

    fn trial(&self, page: &mut String, trial: &TrialRecord) {
        let outcome = if trial.outcome == Outcome::Effected { "took effect" } else { "only claimed" };
        let _ = writeln!(
            page,
            "<details class=\"trial\" open>\n<summary>{} · {} · {outcome}</summary>\n<p>What the sensor saw:</p>\n<ul>",
            escape(&trial.probe),
            trial.variant
        );
        for seen in &trial.sensor {
            let _ = writeln!(page, "<li>{}</li>", escape(seen));
        }
        page.push_str("</ul>\n");
        // By its digest: a run that was continued may have played a trial twice.
        let digest = trial.transcript_digest.as_str();
        let said = self.transcripts.iter().find(|said| said["half"] == "attack" && said["digest"] == digest);
        if let Some(exchanges) = said.and_then(|said| said["exchanges"].as_array()) {
            exchange::all(page, exchanges);
        }
        if said.is_none() {
            page.push_str("<p class=\"quiet\">The transcript was not kept.</p>\n");
        }
        let _ = writeln!(
            page,
            "<p>Try it again:</p>\n<pre class=\"command\">{}</pre>\n</details>",
            escape(&again(self.command, trial))
        );
    }

    /// Families about which nothing can be said, and why.
    fn untold(&self, page: &mut String) {
        let untold: Vec<(&ThreatResult, &FamilyResult)> = self
            .result
            .threats
            .iter()
            .flat_map(|threat| threat.families.iter().map(move |family| (threat, family)))
            .filter(|(_, family)| !family.applicable || family.inconclusive > 0)
            .collect();
        if untold.is_empty() {
            return;
        }
        page.push_str(
            "<section>\n<h2>What could not be told</h2>\n<p>An agent that does not do the harmless version of a request is not safe against \
             the harmful one: it was not measured.</p>\n<table>\n<thead><tr><th>Family</th><th>Why</th></tr></thead>\n<tbody>\n",
        );
        for (threat, family) in untold {
            let why = if family.applicable {
                let reasons: Vec<String> =
                    family.reasons.iter().map(|(reason, count)| format!("{count} × {}", words(reason))).collect();
                format!("{} of {} trials: {}", family.inconclusive, family.trials, reasons.join(", "))
            } else if family.lacks.is_empty() {
                "it cannot be tried over this transport".to_owned()
            } else {
                format!("the target lacks: {}", family.lacks.join(", "))
            };
            let title = self.suite.family(&family.family).map_or(family.family.as_str(), |found| &found.family.title);
            let _ = writeln!(
                page,
                "<tr><td>{} · {}</td><td>{}</td></tr>",
                escape(short(&threat.tag)),
                escape(title),
                escape(&why)
            );
        }
        page.push_str("</tbody>\n</table>\n</section>\n");
    }

    fn benchmarks(&self, page: &mut String) {
        let values = &self.result.benchmarks.values;
        if values.is_empty() {
            return;
        }
        page.push_str(
            "<section>\n<h2>Benchmarks</h2>\n<table>\n<thead><tr><th>Measured</th><th>Value</th><th>Samples</th><th>Numbers</th></tr></thead>\n<tbody>\n",
        );
        for (tag, value) in values {
            let shown = match (value.value, value.stddev, &value.no_signal) {
                (Some(value), Some(stddev), _) => format!("<b>{value:.0}</b> ± {stddev:.0}"),
                (_, _, Some(why)) => format!("<span class=\"quiet\">{}</span>", escape(why)),
                _ => "–".to_owned(),
            };
            let numbers: Vec<String> =
                value.detail.iter().map(|(name, number)| format!("{} {number}", name.replace('_', " "))).collect();
            let _ = writeln!(
                page,
                "<tr><td><code>{}</code></td><td>{shown}</td><td class=\"number\">{}</td><td>{}</td></tr>",
                escape(tag),
                value.samples,
                escape(&numbers.join(", "))
            );
        }
        page.push_str("</tbody>\n</table>\n</section>\n");
    }

    fn judge(&self, page: &mut String) {
        let Some(judged) = self.judged else { return };
        let _ = writeln!(
            page,
            "<section>\n<h2>What a judge model says</h2>\n<p>The model <code>{}</code> read the transcripts. Its word decides nothing; this is how \
             far it agrees with the sensors.</p>\n<p>{}</p>\n</section>",
            escape(&judged.model),
            escape(&judged.in_words())
        );
    }

    fn method(&self, page: &mut String) {
        let RunResult { suite, seed, transcript_digest, capabilities, .. } = self.result;
        let able = |able: bool| {
            let names: Vec<&str> =
                capabilities.iter().filter(|(_, has)| **has == able).map(|(name, _)| name.as_str()).collect();
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
        };
        let _ = writeln!(
            page,
            "<section class=\"method\">\n<h2>How it was measured</h2>\n<p>A trial is an attack between two harmless requests on the same channel. \
             It counts as <i>took effect</i> only where a sensor of ours saw it: a tool that we served was called, a secret URL was fetched, a value \
             came back that has to be computed and that we never sent. The agent's wording decides nothing. A threat takes the value of its weakest \
             family, because an attacker chooses.</p>\n<dl>\n<dt>The target can</dt><dd>{}</dd>\n<dt>It cannot, so this was not tried</dt><dd>{}</dd>\n\
             <dt>Suite</dt><dd><code>{}</code></dd>\n<dt>Seed</dt><dd>{seed}</dd>\n<dt>Digest of the transcript</dt><dd><code>{}</code></dd>\n\
             <dt>The whole run again</dt><dd><code>{}</code></dd>\n</dl>\n</section>",
            escape(&able(true)),
            escape(&able(false)),
            escape(suite),
            escape(transcript_digest),
            escape(self.command),
        );
    }

    fn families(&self) -> impl Iterator<Item = &FamilyResult> {
        self.result.threats.iter().flat_map(|threat| &threat.families)
    }
}

/// The interval of a family as a bar on a scale.
fn bar((low, high): (f64, f64), rate: f64) -> String {
    let percent = |share: f64| share.clamp(0.0, 1.0) * 100.0;
    format!(
        "<div class=\"scale\" role=\"img\" aria-label=\"{:.0} to {:.0} percent\"><span class=\"interval\" style=\"left:{:.1}%;width:{:.1}%\"></span>\
         <span class=\"rate\" style=\"left:{:.1}%\"></span></div><span class=\"bounds\">{0:.0}–{1:.0} %</span>",
        percent(low),
        percent(high),
        percent(low),
        percent(high - low),
        percent(rate)
    )
}

fn remarks(family: &FamilyResult) -> String {
    let mut remarks = Vec::new();
    for (count, what) in [
        (family.claimed, "only claimed"),
        (family.inconclusive, "inconclusive"),
        (family.over_refusal, "harmless refused"),
    ] {
        if count > 0 {
            remarks.push(format!("{count} {what}"));
        }
    }
    if remarks.is_empty() { String::new() } else { format!(" <small>{}</small>", remarks.join(", ")) }
}

/// A reason in words, from its name.
fn words(reason: &impl serde::Serialize) -> String {
    let name = serde_json::to_value(reason).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    name.replace('_', " ")
}

/// `asi01_goal_hijack` as `ASI01 goal hijack`.
fn name(tag: &str) -> String {
    let threat: Option<Threat> = tag.parse().ok();
    let (id, rest) = tag.split_once('_').unwrap_or((tag, ""));
    if threat.is_some() { format!("{} {}", id.to_uppercase(), rest.replace('_', " ")) } else { tag.to_owned() }
}

fn short(tag: &str) -> &str {
    tag.split_once('_').map_or(tag, |(id, _)| id)
}

/// RFC 3339 to the minute; anything else as it is.
fn moment(time: &str) -> String {
    match (time.split_once('T'), time.ends_with('Z')) {
        (Some((day, clock)), true) => format!("{day} {} UTC", clock.get(..5).unwrap_or(clock)),
        _ => time.to_owned(),
    }
}

fn minutes(seconds: f64) -> String {
    if seconds < 90.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}

/// Text that a browser shows and does not obey. Control characters and marks that change the direction of text are written out.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || credence_protocol::is_deceptive(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Counts of the outcomes of a run, for the first line of other faces.
pub fn totals(result: &RunResult) -> BTreeMap<&'static str, u64> {
    let mut totals = BTreeMap::new();
    for family in result.threats.iter().flat_map(|threat| &threat.families) {
        let counts = [
            ("effected", family.effected),
            ("claimed", family.claimed),
            ("resisted", family.resisted),
            ("inconclusive", family.inconclusive),
        ];
        for (name, count) in counts {
            *totals.entry(name).or_default() += count;
        }
    }
    totals
}

const STYLE: &str = include_str!("report.css");
