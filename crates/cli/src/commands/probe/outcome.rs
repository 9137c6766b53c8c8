//! What people see of a run, and the exit code.

use std::{fmt::Write as _, process::ExitCode};

use credence_sandbox::{
    report::{self, Change, Comparison, RunResult},
    runner::RunOutput,
    trial::{Outcome, TrialRecord},
};

use super::{Shown, args::ProbeArgs};
use crate::output::{self, count};

/// Findings that are listed with the command that tries them again.
const SHOWN_FINDINGS: usize = 12;

/// See [`ProbeArgs`].
pub fn exit_code(args: &ProbeArgs, result: &RunResult) -> ExitCode {
    if !result.complete {
        return ExitCode::from(1);
    }
    let Some(least) = args.fail_below else { return ExitCode::SUCCESS };
    super::super::answer(failure(least, result).is_some())
}

/// Why the run does not pass `--fail-below`.
fn failure(least: u8, result: &RunResult) -> Option<String> {
    let measured: Vec<(&str, f64)> =
        result.threats.iter().filter_map(|threat| Some((threat.tag.as_str(), threat.value?))).collect();
    if measured.is_empty() {
        return Some(format!("failed: --fail-below {least} needs a value, and no threat could be measured"));
    }
    let below = measured.iter().filter(|(_, value)| *value < f64::from(least));
    let below: Vec<String> = below.map(|(tag, value)| format!("{tag} ({value:.1})")).collect();
    (!below.is_empty()).then(|| format!("failed: below {least}: {}", below.join(", ")))
}

pub fn human(args: &ProbeArgs, output: &RunOutput, shown: &Shown<'_>) -> String {
    let result = &output.result;
    let mut text = threats(result);
    findings(&mut text, output, shown);
    benchmarks(&mut text, result);
    if let Some(comparison) = &shown.comparison {
        compared(&mut text, comparison);
    }
    if let Some(judged) = &shown.judged {
        let _ = write!(text, "\n\nThe judge ({}) decides nothing. {}", judged.model, judged.in_words());
    }
    if let Some(why) = &shown.judge_error {
        let _ = write!(text, "\n\nThere is no word of the judge: {why}");
    }
    let _ = write!(
        text,
        "\n\n{} requests in {:.0} s, seed {}, suite {}",
        result.requests, result.duration_s, result.seed, result.suite
    );
    for dropped in result.left_out() {
        let _ = write!(text, "\nleft out: {} ({})", dropped.tag, dropped.why);
    }
    if let Some(why) = &result.ended {
        let journal = shown.journal.display();
        let _ = write!(
            text,
            "\nThe run ended early: {why}. The same command with --journal {journal} --resume continues it."
        );
    } else if let Some(why) = args.fail_below.and_then(|least| failure(least, result)) {
        let _ = write!(text, "\n{why}");
    }
    if let Some(seq) = shown.recorded {
        let _ = write!(text, "\nrecorded as entry {seq}");
        // All threats of a run have the same reason, or one that names their files.
        if let Some(why) = result.threats.iter().find_map(|threat| threat.partial.as_ref()) {
            let _ = write!(text, ", without a value for threats of which this is no full measurement: {why}");
        }
    }
    if let Some(path) = &args.html {
        let _ = write!(text, "\nreport: {}", path.display());
    }
    text
}

fn threats(result: &RunResult) -> String {
    let rows = result.threats.iter().map(|threat| {
        let value = match (threat.value, threat.stddev) {
            (Some(value), Some(stddev)) => format!("{value:.0} ± {stddev:.0}"),
            _ => "–".to_owned(),
        };
        let tried: Vec<_> = threat.families.iter().filter(|family| family.applicable).collect();
        let sum = |of: &dyn Fn(&credence_sandbox::report::FamilyResult) -> u64| -> u64 {
            tried.iter().map(|family| of(family)).sum()
        };
        let conclusive = sum(&|family| family.effected + family.claimed + family.resisted);
        vec![
            threat.tag.clone(),
            value,
            format!("{} of {}", tried.len(), threat.families.len()),
            format!("{} of {conclusive}", sum(&|family| family.effected)),
            sum(&|family| family.claimed).to_string(),
            sum(&|family| family.inconclusive).to_string(),
            threat.no_signal.clone().unwrap_or_default(),
        ]
    });
    let header = ["threat", "value", "families tried", "took effect", "only claimed", "inconclusive", ""];
    output::table(&header, &header[1..6], rows)
}

fn findings(text: &mut String, output: &RunOutput, shown: &Shown<'_>) {
    let mut seen: Vec<&str> = Vec::new();
    let found: Vec<&TrialRecord> = output
        .trials
        .iter()
        .filter(|trial| trial.outcome == Outcome::Effected && !trial.repeat)
        .filter(|trial| {
            let first = !seen.contains(&trial.family.as_str());
            seen.push(&trial.family);
            first
        })
        .collect();
    if found.is_empty() {
        return;
    }
    let _ = write!(
        text,
        "\n\n{}, each with one of its trials and the command that tries it again:",
        count(found.len(), "finding")
    );
    for trial in found.iter().take(SHOWN_FINDINGS) {
        let family = shown.suite.family(&trial.family).map(|found| found.family);
        let title = family.map_or(trial.family.as_str(), |family| family.title.as_str());
        let _ = write!(text, "\n\n  {title} ({})", trial.family);
        for seen in &trial.sensor {
            let _ = write!(text, "\n    saw   {seen}");
        }
        if let Some(family) = family {
            let _ = write!(text, "\n    fix   {}", family.fix);
        }
        let _ = write!(text, "\n    again {}", report::again(shown.command, trial));
    }
    if found.len() > SHOWN_FINDINGS {
        let _ = write!(text, "\n\n  and {} more: --html writes them all", found.len() - SHOWN_FINDINGS);
    }
}

fn benchmarks(text: &mut String, result: &RunResult) {
    let values = &result.benchmarks.values;
    if values.is_empty() {
        return;
    }
    let rows = values.iter().map(|(tag, value)| {
        let shown = match (value.value, value.stddev) {
            (Some(value), Some(stddev)) => format!("{value:.0} ± {stddev:.0}"),
            _ => "–".to_owned(),
        };
        vec![tag.clone(), shown, value.samples.to_string(), value.no_signal.clone().unwrap_or_default()]
    });
    let _ = write!(text, "\n\n{}", output::table(&["benchmark", "value", "samples", ""], &["value", "samples"], rows));
}

fn compared(text: &mut String, comparison: &Comparison) {
    let rows = comparison.families.iter().filter(|family| family.change != Change::Unclear).map(|family| {
        let counts = |trials: Option<credence_engine::probe::Trials>| {
            trials.map_or("–".to_owned(), |trials| format!("{} of {}", trials.effected, trials.conclusive))
        };
        let change = match family.change {
            Change::Better => "better",
            Change::Worse => "worse",
            Change::Unclear => "no clear change",
            Change::Gone => "not measured now",
            Change::New => "not measured before",
        };
        vec![family.family.clone(), counts(family.before), counts(family.after), change.to_owned()]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        text.push_str("\n\nCompared with the earlier run nothing changed by more than chance.");
    } else {
        let table = output::table(&["family", "before", "now", "change"], &["before", "now"], rows);
        let _ = write!(text, "\n\nCompared with the earlier run:\n{table}");
    }
    for caveat in &comparison.caveats {
        let _ = write!(text, "\nnote: {caveat}");
    }
}
