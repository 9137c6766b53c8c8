use std::{path::PathBuf, process::ExitCode};

use credence_engine::reliability::Bin;
use credence_pipeline::query::{self, Reliability};
use credence_server::score_charts;

use super::Done;
use crate::{
    home::Home,
    output::{self, Output, count},
    traces,
};

/// Characters of a full bar.
const BAR: usize = 30;

#[derive(clap::Args)]
pub struct Args {
    /// One agent only, by its id or alias
    #[arg(long)]
    agent: Option<String>,
    /// Draw the curve into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let agent = args.agent.map(|name| reader.agent(&*view, &name)).transpose()?;
    let reliability = query::reliability(&*view, agent.as_ref())?;
    if let Some(path) = &args.plot {
        let (chart, _) = score_charts::reliability("Reliability of the scores", &reliability.curve);
        traces::write(path, chart.file().as_bytes())?;
    }
    out.show(&reliability, || shown(&reliability) + &output::drawn(args.plot.as_deref()))?;
    Ok(ExitCode::SUCCESS)
}

fn shown(reliability: &Reliability) -> String {
    let Reliability { unrated, curve, .. } = reliability;
    if curve.outcomes == 0 {
        let rest =
            if *unrated > 0 { format!(" ({unrated} of agents that had no published score)") } else { String::new() };
        return format!("No outcomes of rated agents yet{rest}: report them with POST /v1/outcomes");
    }
    let lines = curve.bins.iter().map(|bin| {
        let Bin { from, to, outcomes, good, rate, low, high, .. } = bin;
        vec![
            format!("{from}–{to}"),
            outcomes.to_string(),
            good.to_string(),
            format!("{:.1}%", rate * 100.0),
            format!("{:.1}–{:.1}%", low * 100.0, high * 100.0),
            bar(*rate, *low, *high),
        ]
    });
    let head = ["score", "outcomes", "good", "rate", "95%", "0%                        100%"];
    let table = output::table(&head, &head[..5], lines);
    let order = match curve.concordance {
        Some(chance) => {
            format!("The better outcome was rated higher in {:.1}% of pairs (50% says nothing).", chance * 100.0)
        }
        None => "All outcomes are alike: they say nothing of the order yet.".to_owned(),
    };
    let left = if *unrated > 0 {
        format!("\n{} of agents without a published score left out.", count(*unrated as usize, "outcome"))
    } else {
        String::new()
    };
    format!("{table}\n\n{order}{left}")
}

/// The rate as a point within its interval.
fn bar(rate: f64, low: f64, high: f64) -> String {
    let at = |share: f64| ((share * (BAR - 1) as f64).round() as usize).min(BAR - 1);
    let (low, high, rate) = (at(low), at(high), at(rate));
    (0..BAR)
        .map(|x| match x {
            x if x == rate => '●',
            x if (low..=high).contains(&x) => '─',
            _ => '·',
        })
        .collect()
}
