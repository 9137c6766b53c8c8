use std::process::ExitCode;

use credence_engine::reputation::{
    Tier,
    readable::{ClaimsHeld, Percentile, Readable},
};
use credence_pipeline::{
    query::{self, Reputation, ReputationRow},
    reputation as model,
};
use serde_json::{Value, json};

use super::Done;
use crate::{
    home::{self, Home},
    output::{self, Output},
};

#[derive(clap::Args)]
pub struct Args {
    /// An agent's id or alias
    agent: String,
    /// The newest so many events
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let agent = reader.agent(&*view, &args.agent)?;
    let limit = args.limit as usize;
    let rows = query::reputation_history(&*view, &agent, limit + 1)?;
    let Some(reputation) = query::reputation(&*view, &agent, home::now())? else {
        let shown = json!({ "agent": agent, "reputation": null, "standing": "new", "events": 0 });
        out.show(&shown, || {
            format!("{agent}  new: nothing is known of its dealings yet, which says nothing against it")
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let needed = model::parameters().established_events;
    let established_scores = query::established_reputations(&*view)?;
    let Reputation { row, readable, established, lapsed } = &reputation;
    let readable = readable.clone().among(&established_scores);
    let events: Vec<Value> = rows.iter().take(limit).map(|row| json!(row)).collect();
    let shown = json!({
        "agent": agent, "reputation": reputation.published(&agent), "standing": reputation.standing(),
        "events": row.events, "stddev": reputation.stddev(), "readable": readable, "raw": row.raw, "basis": row.basis, "last": events,
    });
    out.show(&shown, || {
        let head = if lapsed.is_some() {
            format!(
                "{agent}  {:.1} (lapsed: its last event was at {}, more than 30 days ago, so this says nothing of now)",
                row.score, row.at
            )
        } else if *established {
            let tier = Tier::of(row.score);
            format!(
                "{agent}  {:.1} ± {:.1} (tier {tier}, {}; {} events)",
                row.score,
                reputation.stddev(),
                tier.meaning(),
                row.events
            )
        } else {
            format!(
                "{agent}  {:.1} (new: {} of {needed} events; a low score means unknown, not bad)",
                row.score, row.events
            )
        };
        format!("{head}\n  {}\n\n{}\n\n{}", read(&readable), factors(row), moves(&rows, limit))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What makes R readable: `58 on the scale of one factor; 1 of 1 claims held (15–100 %)`.
fn read(readable: &Readable) -> String {
    let mut text = format!("{:.0} on the scale of one factor", readable.geometric_mean);
    if let Some(ClaimsHeld { held, of, low, high }) = readable.claims {
        text += &format!(
            "; {held} of {} held ({:.0}–{:.0} %)",
            output::count(of as usize, "claim"),
            low * 100.0,
            high * 100.0
        );
    }
    if let Some(Percentile { percentile, among }) = readable.percentile {
        text += &format!("; above {percentile:.0} % of {among} established agents");
    }
    text
}

fn factors(row: &ReputationRow) -> String {
    let b = &row.basis;
    let number = |part: &str, field: &str| b[part][field].as_f64().unwrap_or_default();
    let count = |part: &str, field: &str| b[part][field].as_u64().unwrap_or_default();
    let c = match b["consistency"]["basis"].as_str().unwrap_or_default() {
        "nothing" => "fewer than two outcomes".to_owned(),
        basis => format!(
            "volatility {:.2}, drawdown {:.2}, from {} {}",
            number("consistency", "volatility"),
            number("consistency", "drawdown"),
            count("consistency", "samples"),
            basis.replace('_', " ")
        ),
    };
    let method = b["performance"]["method"].as_str().unwrap_or("no method declared, so it can only cost");
    let outcomes = output::count(count("performance", "samples") as usize, "outcome");
    let p = format!("risk-adjusted {:.2} from {outcomes} ({method})", number("performance", "rap"));
    let v = format!(
        "adoption {:.2}, survival {:.2} (held out against {:.2}; {} refuted, on either side), helpfulness {:.2} ({})",
        number("validation", "adoption"),
        number("validation", "survival"),
        number("validation", "upheld"),
        output::times(count("validation", "refuted")),
        number("validation", "helpfulness"),
        output::count(count("validation", "reviews") as usize, "review")
    );
    let q = format!(
        "instability {:.2}, abuse {:.2}, spam {:.2}",
        number("penalty", "instability"),
        number("penalty", "abuse"),
        number("penalty", "spam")
    );
    let f = row.factors;
    let lines = [
        ("C consistency", f.c, c),
        (
            "T transparency",
            f.t,
            format!("over {}", output::count(count("transparency", "contracts") as usize, "contract")),
        ),
        ("P performance", f.p, p),
        ("V validation", f.v, v),
        ("Q penalty", f.q, q),
    ];
    let rows = lines.map(|(name, value, what)| vec![name.to_owned(), format!("{value:.3}"), what]);
    let table = output::table(&["factor", "value", "rests on"], &["value"], rows);
    format!("{table}\n\n100·C·T·P·V/(1+Q) = {:.1}, towards which each event moves the score", row.raw)
}

/// The newest events, and which factor each moved.
fn moves(rows: &[ReputationRow], limit: usize) -> String {
    let lines = rows.iter().take(limit).enumerate().map(|(n, row)| {
        let before = rows.get(n + 1);
        let change = before.map_or(row.score, |before| row.score - before.score);
        let moved = before.map_or_else(String::new, |before| moved(before, row));
        vec![
            row.at.to_string(),
            row.cause.clone(),
            format!("{:.1}", row.score),
            format!("{change:+.1}"),
            moved,
            row.seq.to_string(),
        ]
    });
    output::table(&["at", "event", "score", "change", "moved", "entry"], &["score", "change", "entry"], lines)
}

fn moved(before: &ReputationRow, after: &ReputationRow) -> String {
    let (a, b) = (before.factors, after.factors);
    let pairs = [("C", a.c, b.c), ("T", a.t, b.t), ("P", a.p, b.p), ("V", a.v, b.v), ("Q", a.q, b.q)];
    let parts: Vec<String> = pairs
        .iter()
        .filter(|(_, from, to)| (to - from).abs() >= 0.0005)
        .map(|(name, from, to)| format!("{name} {:+.3}", to - from))
        .collect();
    parts.join(", ")
}
