//! How a report reads: its sections, in order. Words here are the authority's; everything else comes from [`Contents`].

use credence_engine::{assured::Dimension, tiers::Tier};
use credence_pipeline::reports::{ReportAction, ReportEvent, ReportState};
use credence_protocol::Timestamp;

use crate::{
    Contents,
    contents::SignalFact,
    page::{Block, Inline, Line, Row, code, column, text},
    states::Report,
};

/// The ten threats that probes are about, as tags begin.
const THREAT: &str = "asi";

/// A report as a page, with what became of it on top.
pub fn page(report: &Report, contents: &Contents) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(1, title(contents))];
    blocks.extend(notices(report).into_iter().map(Block::Notice));
    blocks.push(about(report, contents));
    summary(&mut blocks, contents);
    scores(&mut blocks, contents);
    evidence(&mut blocks, contents);
    outputs(&mut blocks, contents);
    reputation(&mut blocks, contents);
    incidents(&mut blocks, contents);
    held(&mut blocks, contents);
    method(&mut blocks);
    check(&mut blocks, contents);
    blocks
}

fn title(contents: &Contents) -> Line {
    vec![Inline::Text("Report on ".into()), Inline::Code(contents.agent.id.to_string())]
}

/// What a reader has to know before the rest.
fn notices(report: &Report) -> Vec<Line> {
    let said = |event: &ReportEvent, what: &str| {
        let mut line = vec![
            Inline::Strong(what.to_owned()),
            Inline::Text(format!(" on {} by {} (", day(event.at), event.by.name)),
            Inline::Entry(event.seq),
            Inline::Text(format!("): {}", event.reason.as_deref().unwrap_or_default())),
        ];
        if let Some(id) = event.replaced_by {
            line.push(Inline::Text(" See ".into()));
            line.push(Inline::Report(id.to_string()));
        }
        line
    };
    match report {
        Report::Draft(_) => vec![strong("Draft.", " Nobody has reviewed it. Do not pass it on.")],
        Report::Reviewed(_) => vec![strong("Approved, not published.", " Do not pass it on.")],
        Report::Rejected(rejected) => {
            rejected.row().newest(ReportAction::Rejected).map(|event| said(event, "Rejected")).into_iter().collect()
        }
        Report::Published(published) => {
            let row = published.row();
            let withdrawn = row.newest(ReportAction::Withdrawn).filter(|_| row.state == ReportState::Withdrawn);
            let corrections = row.events.iter().filter(|event| event.action == ReportAction::Corrected);
            let withdrawn = withdrawn.map(|event| said(event, "Withdrawn")).into_iter();
            withdrawn.chain(corrections.map(|event| said(event, "Corrected"))).collect()
        }
    }
}

fn about(report: &Report, contents: &Contents) -> Block {
    let agent = &contents.agent;
    let mut facts = vec![("Report", code(contents.report.to_string())), ("Agent", code(agent.id.as_str()))];
    if let Some(name) = &agent.name {
        facts.push(("Calls itself", text(format!("\u{201c}{name}\u{201d}"))));
    }
    if let Some(owner) = &agent.owner {
        facts.push(("Run by", code(owner.as_str())));
    }
    if !agent.aliases.is_empty() {
        let mut line = Line::new();
        for alias in &agent.aliases {
            if !line.is_empty() {
                line.push(Inline::Text(", ".into()));
            }
            line.push(Inline::Code(alias.clone()));
        }
        facts.push(("Also known as", line));
    }
    facts.push(("Registered", dated(agent.registered_at, agent.seq)));
    if let Some(seq) = agent.revoked {
        facts.push((
            "Standing",
            vec![Inline::Strong("revoked".into()), Inline::Text(" in ".into()), Inline::Entry(seq)],
        ));
    }
    facts.push(("Drafted", text(format!("{} by {}", minute(contents.drafted_at), contents.drafted_by.name))));
    let events = report.row().map(|row| row.events.as_slice()).unwrap_or_default();
    for (name, action) in [("Approved", ReportAction::Approved), ("Published", ReportAction::Published)] {
        if let Some(event) = events.iter().rev().find(|event| event.action == action) {
            let mut line = dated(event.at, event.seq);
            line.push(Inline::Text(format!(" by {}", event.by.name)));
            facts.push((name, line));
        }
    }
    facts.push((
        "Made from",
        vec![
            Inline::Text(format!("the first {} entries of the log ", contents.log.size)),
            Inline::Code(contents.log.origin.clone()),
        ],
    ));
    Block::Facts(facts)
}

fn summary(blocks: &mut Vec<Block>, contents: &Contents) {
    let Some(summary) = &contents.summary else { return };
    blocks.push(heading("What the drafter adds"));
    blocks.push(Block::Paragraph(text(format!(
        "Words of {}, who drafted this report. They rest on no entry; the person who approves a report reads them.",
        contents.drafted_by.name
    ))));
    let paragraphs = summary.lines().map(str::trim).filter(|line| !line.is_empty());
    blocks.push(Block::Quote(paragraphs.map(str::to_owned).collect()));
}

fn scores(blocks: &mut Vec<Block>, contents: &Contents) {
    blocks.push(heading("Scores"));
    let mut rows = Vec::new();
    if let Some(one) = &contents.assured {
        rows.push(Row::of_entry(
            one.seq,
            vec![
                text("assured (uts/2)"),
                strong_only(one.score.to_string()),
                text(format!("estimate {}, {} to {}", number(one.estimate), number(one.low), number(one.high))),
                text(format!("{} of the estimate is evidence", percent(one.known))),
                text(tier(one.tier)),
            ],
        ));
    }
    if let Some(one) = &contents.universal {
        rows.push(Row::of_entry(
            one.seq,
            vec![
                text("universal (uts/1)"),
                strong_only(one.score.to_string()),
                text(format!("{} ± {}", number(one.mean), number(one.stddev))),
                text(format!(
                    "{} independent {}, coverage {}",
                    one.sources,
                    plural(one.sources, "source"),
                    percent(one.coverage)
                )),
                text(format!("{} ({} of the curve)", tier(one.tier), percent(one.tier_confidence))),
            ],
        ));
    }
    if rows.is_empty() {
        blocks.push(Block::Paragraph(text(
            "It has no published score: nothing that counts is measured, or by too few independent sources. That is no bad sign and no good one.",
        )));
        return;
    }
    if contents.assured.is_none() {
        blocks.push(Block::Paragraph(text("It has no assured score: nothing that counts for it is measured.")));
    }
    if contents.universal.is_none() {
        blocks.push(Block::Paragraph(text("It has no universal score: too few independent sources measure it.")));
    }
    let columns = vec![
        column("Formula", false),
        column("Score", true),
        column("Uncertainty", false),
        column("Rests on", false),
        column("Tier", false),
    ];
    blocks.push(Block::Table { caption: "Scores, 0 to 100", columns, rows });
    if let Some(one) = &contents.assured {
        let rows = one.dimensions.iter().map(|(dimension, score)| {
            Row::of_entry(
                one.seq,
                vec![
                    text(if *dimension == Dimension::Adoption { "adoption (not counted)" } else { dimension.name() }),
                    text(number(score.estimate)),
                    text(number(score.sd)),
                    text(percent(score.known)),
                    score.weakest.as_ref().map_or_else(Line::new, code),
                ],
            )
        });
        let columns = vec![
            column("Dimension", false),
            column("Estimate", true),
            column("±", true),
            column("Evidence", true),
            column("Worst", false),
        ];
        blocks.push(Block::Table { caption: "The assured score by dimension", columns, rows: rows.collect() });
        blocks.push(Block::Paragraph(vec![
            Inline::Text(format!(
                "Left out one voice at a time, the assured score changes by at most {} {} (",
                one.fragility,
                plural(usize::from(one.fragility), "point")
            )),
            Inline::Entry(one.seq),
            Inline::Text(").".into()),
        ]));
    }
    if contents.history.len() > 1 {
        let rows = contents.history.iter().map(|one| {
            Row::of_entry(
                one.seq,
                vec![
                    text(minute(one.recorded_at)),
                    text(one.score.to_string()),
                    text(number(one.estimate)),
                    text(format!("{} to {}", number(one.low), number(one.high))),
                ],
            )
        });
        let columns =
            vec![column("Recorded", false), column("Assured", true), column("Estimate", true), column("Range", false)];
        blocks.push(Block::Table { caption: "Newest assured scores", columns, rows: rows.collect() });
    }
}

fn evidence(blocks: &mut Vec<Block>, contents: &Contents) {
    let columns = || {
        vec![
            column("Measures", false),
            column("Source", false),
            column("Value", true),
            column("±", true),
            column("Observed", false),
        ]
    };
    let row = |fact: &SignalFact| {
        Row::of_entry(
            fact.seq,
            vec![
                code(fact.tag.as_str()),
                code(fact.source.as_str()),
                text(number(fact.value)),
                text(number(fact.stddev)),
                match fact.disputed {
                    None => text(minute(fact.observed_at)),
                    Some(seq) => vec![
                        Inline::Text(format!("{} · ", minute(fact.observed_at))),
                        Inline::Strong("disputed by the agent's owner".into()),
                        Inline::Text(" in ".into()),
                        Inline::Entry(seq),
                    ],
                },
            ],
        )
    };
    let is_probe = |fact: &&SignalFact| fact.tag.as_str().starts_with(THREAT);
    blocks.push(heading("Probes by threat (OWASP ASI)"));
    let probes: Vec<Row> = contents.evidence.iter().filter(is_probe).map(row).collect();
    if probes.is_empty() {
        blocks.push(Block::Paragraph(text(
            "No probe counts for its scores. What was not probed is not known to be safe.",
        )));
    } else {
        blocks.push(Block::Table { caption: "Probes: 100 is best", columns: columns(), rows: probes });
    }
    probe_runs(blocks, contents);
    blocks.push(heading("Evidence"));
    let others: Vec<Row> = contents.evidence.iter().filter(|fact| !is_probe(fact)).map(row).collect();
    if others.is_empty() {
        blocks.push(Block::Paragraph(text("No other signal counts for its scores.")));
    } else {
        blocks.push(Block::Table {
            caption: "Signals that the scores were made of: 100 is best",
            columns: columns(),
            rows: others,
        });
    }
    if contents.more_evidence > 0
        && let Some(universal) = &contents.universal
    {
        blocks.push(Block::Paragraph(vec![
            Inline::Text(format!("{} older signals count too: they are inputs of ", contents.more_evidence)),
            Inline::Entry(universal.seq),
            Inline::Text(".".into()),
        ]));
    }
}

fn probe_runs(blocks: &mut Vec<Block>, contents: &Contents) {
    if contents.probe_runs.is_empty() {
        return;
    }
    let count = |count: u64| text(count.to_string());
    let rows = contents.probe_runs.iter().flat_map(|run| {
        run.threats.iter().map(|one| {
            let tried = if one.trials == 0 { text("not applicable") } else { count(one.trials) };
            let cells = vec![
                text(minute(run.ended_at)),
                code(one.tag.as_str()),
                tried,
                count(one.effected),
                count(one.claimed),
                count(one.resisted),
                count(one.inconclusive),
            ];
            Row::of_entry(run.seq, cells)
        })
    });
    let columns = vec![
        column("Ended", false),
        column("Threat", false),
        column("Trials", true),
        column("Harm seen", true),
        column("Harm claimed", true),
        column("Resisted", true),
        column("Inconclusive", true),
    ];
    blocks.push(Block::Table { caption: "Newest runs of probes, oldest first", columns, rows: rows.collect() });
}

fn outputs(blocks: &mut Vec<Block>, contents: &Contents) {
    blocks.push(heading("Verified outputs"));
    if contents.outputs.is_empty() {
        blocks.push(Block::Paragraph(text("No provider reports on its outputs.")));
        return;
    }
    let share = |share: Option<f64>| text(share.map_or_else(|| "–".to_owned(), percent));
    let rows = contents.outputs.iter().map(|one| {
        let canaries = one.canaries.map_or_else(|| "none".to_owned(), |(caught, made)| format!("{caught} of {made}"));
        Row::of_entry(
            one.seq,
            vec![
                vec![
                    Inline::Code(one.provider.clone()),
                    Inline::Text(if one.counted { String::new() } else { " (not counted)".to_owned() }),
                ],
                text(one.window.clone()),
                text(one.checks.map_or_else(|| "–".to_owned(), |checks| checks.to_string())),
                share(one.allowed),
                share(one.uncertain),
                share(one.blocked),
                text(canaries),
            ],
        )
    });
    let columns = vec![
        column("Provider", false),
        column("Window", false),
        column("Checks", true),
        column("Allowed", true),
        column("Uncertain", true),
        column("Blocked", true),
        column("Canaries caught", true),
    ];
    blocks.push(Block::Table { caption: "What verification providers reported", columns, rows: rows.collect() });
}

fn reputation(blocks: &mut Vec<Block>, contents: &Contents) {
    let Some(one) = &contents.reputation else { return };
    blocks.push(heading("Reputation among agents"));
    let row = Row::of_entry(
        one.seq,
        vec![
            text(number(one.score)),
            text(number(one.stddev)),
            text(one.events.to_string()),
            text(one.standing.clone()),
            text(minute(one.at)),
        ],
    );
    let columns = vec![
        column("R", true),
        column("±", true),
        column("Events by others", true),
        column("Standing", false),
        column("Newest event", false),
    ];
    blocks.push(Block::Table { caption: "Reputation, 0 to 100", columns, rows: vec![row] });
}

fn incidents(blocks: &mut Vec<Block>, contents: &Contents) {
    blocks.push(heading("Incidents"));
    if contents.incidents.is_empty() {
        blocks.push(Block::Paragraph(text("The ledger has none.")));
        return;
    }
    if contents.more_incidents > 0 {
        let first = contents.incidents.first().map_or(0, |incident| incident.seq);
        blocks.push(Block::Paragraph(vec![
            Inline::Text(format!("{} older ones are not listed: they were recorded before ", contents.more_incidents)),
            Inline::Entry(first),
            Inline::Text(".".into()),
        ]));
    }
    let rows = contents
        .incidents
        .iter()
        .map(|one| Row::of_entry(one.seq, vec![text(minute(one.at)), text(one.kind.name()), text(one.what.clone())]));
    let columns = vec![column("When", false), column("Sort", false), column("What", false)];
    blocks.push(Block::Table { caption: "In the order in which they were recorded", columns, rows: rows.collect() });
}

fn held(blocks: &mut Vec<Block>, contents: &Contents) {
    blocks.push(heading("What the ledger holds about it"));
    let rows = contents
        .entries
        .iter()
        .map(|one| Row::of_entries(one.first, one.last, vec![code(one.kind.clone()), text(one.count.to_string())]));
    let columns = vec![column("Kind", false), column("Entries", true)];
    blocks.push(Block::Table {
        caption: "Entries whose subject it is: the first and the newest",
        columns,
        rows: rows.collect(),
    });
}

fn method(blocks: &mut Vec<Block>) {
    blocks.push(heading("Method"));
    let points = [
        "Sources sign what they measure; each signal is an entry of an append-only log. The operator gives each source a weight.",
        "The universal score (uts/1) is the weighted mean of the current signals times coverage, which grows with the number of independent sources. Its ± is the spread of the signals, and no probability.",
        "The assured score (uts/2) is what can be vouched for: the lower bound (one-sided, 95 %) of an estimate that starts at 50 without evidence, lets evidence age, counts dependent sources once, and is capped by the worst hole in security.",
        "A score event names its inputs and formula; anybody with the log can compute it again. Every number here stands beside the entry that it was recorded in.",
        "An incident is an entry: a standing, credential or key that was revoked, a claim that was refuted, an outcome reported as bad, a score that fell by ten points or more between two events, a link to something outside that broke, a report that was corrected or withdrawn.",
        "A program drafts a report from the log. A person who did not draft it approves it before it is published.",
    ];
    blocks.push(Block::List(points.iter().map(|point| text(*point)).collect()));
    blocks.push(heading("Limits"));
    let limits = [
        "It is about the past: what was recorded until the checkpoint that it names. Agents change without notice.",
        "It is no audit of the agent's code, no certification, no legal advice and no declaration of conformity with any law.",
        "What nobody measured is not known. No incident here means that none was recorded, not that none happened.",
        "Signals are as good as their sources: a signature shows who said something, not that it is true. Outcomes are what a token's holder reports.",
        "Verdicts on outputs are estimates of a verifier that errs; canaries show how often it catches what is made up.",
        "Names and addresses of the agent are what its registration says.",
    ];
    blocks.push(Block::List(limits.iter().map(|limit| text(*limit)).collect()));
}

fn check(blocks: &mut Vec<Block>, contents: &Contents) {
    blocks.push(heading("Check it yourself"));
    blocks.push(Block::Paragraph(vec![
        Inline::Text("The signed document of a published report is at ".into()),
        Inline::Code(format!("/v1/reports/{}/document", contents.report)),
        Inline::Text("; ".into()),
        Inline::Code("credence check FILE --key JWKS".into()),
        Inline::Text(" verifies it offline. It was made from the log at this checkpoint:".into()),
    ]));
    blocks.push(Block::Preformatted(contents.log.checkpoint.clone()));
}

fn heading(name: &str) -> Block {
    Block::Heading(2, text(name))
}

fn strong(word: &str, rest: &str) -> Line {
    vec![Inline::Strong(word.to_owned()), Inline::Text(rest.to_owned())]
}

fn strong_only(word: String) -> Line {
    vec![Inline::Strong(word)]
}

fn dated(at: Timestamp, seq: u64) -> Line {
    vec![Inline::Text(format!("{} in ", minute(at))), Inline::Entry(seq)]
}

/// `2026-11-16`
fn day(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

/// `2026-11-16 12:51 UTC`
fn minute(at: Timestamp) -> String {
    let iso = at.to_string();
    format!("{} {} UTC", iso.get(..10).unwrap_or(&iso), iso.get(11..16).unwrap_or_default())
}

fn number(number: f64) -> String {
    format!("{number:.1}")
}

fn percent(share: f64) -> String {
    format!("{:.0}\u{a0}%", share * 100.0)
}

fn plural(n: usize, noun: &str) -> String {
    if n == 1 { noun.to_owned() } else { format!("{noun}s") }
}

fn tier(tier: Tier) -> String {
    tier.to_string()
}
