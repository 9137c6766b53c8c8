use std::process::ExitCode;

use credence_engine::hcs25::output_verification::Window;
use credence_engine::hcs25::providers::Combined;
use credence_pipeline::query::{self, Stats};

use super::Done;
use crate::{
    home::{Home, now},
    output::{self, Output},
};

#[derive(clap::Args)]
pub struct Args {
    /// An agent's id or alias
    agent: String,
    /// Over what time: 1d, 7d or 30d
    #[arg(long, default_value = "7d", value_parser = window)]
    window: Window,
}

fn window(text: &str) -> Result<Window, String> {
    Window::parse(text).ok_or_else(|| format!("'{text}' is neither 1d, 7d nor 30d"))
}

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    let reader = home.reader()?;
    let view = reader.view()?;
    let agent = reader.agent(&*view, &args.agent)?;
    let stats = query::stats(&*view, &agent, args.window, now())?;
    out.show(&stats, || shown(&stats))?;
    Ok(ExitCode::SUCCESS)
}

fn shown(stats: &Stats) -> String {
    let Stats { agent, window, hcs25, signal, findings, summaries, .. } = stats;
    let mut text = format!("{agent}, output verification over {}", window.key());
    if !hcs25.applicable {
        text += &format!("\n  not applicable: {}", hcs25.reason.as_deref().unwrap_or_default());
    }
    let number = |value: Option<f64>| value.unwrap_or_default();
    let line = |name: &str, combined: &Combined| {
        let spread = combined.stddev.map(|stddev| format!(" ± {stddev:.1}")).unwrap_or_default();
        format!(
            "\n  {name}  quality {:.1}{spread} ({:.1} combined, {:.1} disagreement), coverage {:.1}, total {:.1}",
            number(combined.quality),
            number(combined.combined),
            number(combined.disagreement),
            number(combined.coverage),
            number(combined.total)
        )
    };
    if hcs25.applicable {
        text += &line("HCS-25 ", hcs25);
    }
    if signal.applicable {
        text += &line("signals", signal);
    } else if hcs25.applicable {
        text += &format!("\n  signals  none: {}", signal.reason.as_deref().unwrap_or_default());
    }
    if !summaries.is_empty() {
        let lines = summaries.iter().map(|reported| {
            let said = signal.providers.iter().find(|one| one.id == reported.provider);
            let number = |field: &str| reported.summary.0[field].as_f64().map_or(String::new(), |v| format!("{v:.3}"));
            vec![
                reported.provider.clone(),
                reported.summary.0["totalChecks"].to_string(),
                number("allowRate"),
                number("blockRate"),
                number("avgConfidence"),
                said.and_then(|one| one.quality).map_or(String::new(), |quality| format!("{quality:.1}")),
                match said {
                    Some(one) => one.reason.clone().unwrap_or_else(|| "counts".to_owned()),
                    None => "not admitted as a provider".to_owned(),
                },
            ]
        });
        let header = ["provider", "checks", "allow", "block", "confidence", "quality", ""];
        text += "\n\n";
        text += &output::table(&header, &header[1..6], lines);
    }
    for finding in findings {
        let jump = finding.stake_jump;
        text += &format!(
            "\n\nODD: {} now calls {:.0}% of its checks high or critical, before it were {:.0}% ({:.1} standard errors)",
            finding.provider,
            jump.now * 100.0,
            jump.before * 100.0,
            jump.sigmas
        );
    }
    text
}
