use std::{
    collections::{BTreeSet, HashMap},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use credence_engine::hcs25::output_verification::{CountedLine, Limits, Naming, Rated, RolledUp, Rollup};
use credence_pipeline::{Authority, query};
use credence_protocol::{
    Audience, EntityId, SecretKey, Statement, Timestamp,
    limits::{MAX_ALIAS_BYTES, MAX_CLOCK_SKEW_SECONDS},
};
use serde_json::{Value, json};

use super::{Done, answer};
use crate::{
    home::{Home, now},
    input,
    lines::Lines,
    output::{self, Output},
    statement,
    traces::{self, MAX_TRACE_BYTES},
};

#[derive(clap::Args)]
pub struct Args {
    /// Verdicts, one a line, as `credence verify` prints them; - for standard input
    #[arg(default_value = "-")]
    file: String,
    /// Who verified
    #[arg(long, value_name = "SOURCE")]
    provider: EntityId,
    /// Only verdicts on this agent; those that name none are taken for its own
    #[arg(long)]
    agent: Option<String>,
    /// The end of the windows [default: the time of the newest verdict]
    #[arg(long, value_name = "TIME")]
    end: Option<Timestamp>,
    /// Go on from what this file holds, if it exists, and keep there what is needed for the next time
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Sign the summaries as the provider and submit them to the authority
    #[arg(long)]
    submit: bool,
    /// Print the signed summaries, one a line, to be submitted elsewhere (`credence statement submit`)
    #[arg(long, conflicts_with = "submit")]
    sign_only: bool,
    /// Sign although some lines could not be read: what is in them is missing from the summaries
    #[arg(long)]
    despite_bad_lines: bool,
    /// The provider's private key [default: the environment's CREDENCE_SIGNING_KEY, else keys/PROVIDER.jwk]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The authority they are for: the origin of its log [default: that of the authority in --data, if there is one]
    #[arg(long, value_name = "ORIGIN")]
    aud: Option<Audience>,
}

/// Rows that people are shown.
const MAX_ROWS: usize = 300;
/// The state of as many agents as are kept is smaller.
const MAX_STATE_BYTES: u64 = 1024 * 1024 * 1024;

/// What was read.
#[derive(Default)]
struct Read {
    verdicts: u64,
    /// Lines that stand for a trace that could not be judged.
    unjudged: u64,
    /// Verdicts on other agents than the one asked for, or on none.
    others: u64,
    /// The first few that could not be read.
    bad: Vec<(u64, String)>,
    bad_count: u64,
}

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    if let Some(end) = args.end {
        ensure!(end <= now().plus_seconds(MAX_CLOCK_SKEW_SECONDS), "--end {end} is in the future");
    }
    let mut rollup = restored(args.state.as_deref())?;
    let authority = if args.submit { Some(home.authority()?) } else { None };
    let mut names = Names { authority: authority.as_ref(), known: HashMap::new() };
    let read = fill(&mut rollup, &mut names, out, &args)?;
    let end = match args.end.or_else(|| rollup.newest()) {
        Some(end) => end,
        None if read.bad_count > 0 => {
            bail!("{}: no line is a verdict; line {}: {}", args.file, read.bad[0].0, read.bad[0].1)
        }
        None if args.agent.is_some() => bail!("no verdict is on that agent: {} are on others", read.others),
        None => bail!("there are no verdicts on an agent: lines need an `agent`, or name one with --agent"),
    };
    let rolled: Vec<RolledUp> = rollup.summaries(end).map(|up| up.reported_by(&args.provider)).collect();
    ensure!(!rolled.is_empty(), "no verdict lies in a window that ends at {end}");
    let signs = args.submit || args.sign_only;
    if let Some((line, error)) = read.bad.first().filter(|_| signs && !args.despite_bad_lines) {
        bail!(
            "{} lines could not be read, the first of them line {line}: {error}. Nothing was signed, because what is in them would \
             be missing; --despite-bad-lines signs all the same",
            read.bad_count
        );
    }
    if args.sign_only {
        let key = statement::signing_key(home, &args.provider, args.key.as_ref())?;
        for up in &rolled {
            let agent = EntityId::new(&up.agent)
                .with_context(|| "agents are named by their id where there is no authority to ask")?;
            writeln!(io::stdout(), "{}", signed(home, &args, &key, &agent, up)?.canonical())?;
        }
        return keep(&args, &rollup).map(|()| answer(read.bad_count > 0));
    }
    let submitted = authority.as_ref().map(|authority| submit(home, out, &args, authority, &rolled)).transpose()?;
    keep(&args, &rollup)?;
    show(out, &args, &rollup, &read, &rolled, submitted.as_deref())?;
    let refused = submitted.iter().flatten().any(Result::is_err);
    Ok(answer(refused || read.bad_count > 0))
}

/// What an earlier run kept.
fn restored(path: Option<&Path>) -> anyhow::Result<Rollup> {
    match path.filter(|path| path.exists()) {
        None => Ok(Rollup::new(Limits::default())),
        Some(path) => {
            let kept: Rollup = serde_json::from_slice(&input::file(path, MAX_STATE_BYTES)?)
                .with_context(|| format!("--state {} is not a file that `rollup` kept", path.display()))?;
            Ok(kept.restored(Limits::default()))
        }
    }
}

fn keep(args: &Args, rollup: &Rollup) -> anyhow::Result<()> {
    match &args.state {
        Some(path) => traces::write(path, &serde_json::to_vec(rollup)?),
        None => Ok(()),
    }
}

/// The agents' ids, where there is an authority that knows them by any name.
struct Names<'a> {
    authority: Option<&'a Authority>,
    known: HashMap<String, String>,
}

impl Names<'_> {
    /// The id of whoever has this name; the name itself where nobody knows it.
    fn id(&mut self, name: String) -> anyhow::Result<String> {
        ensure!(
            !name.is_empty() && name.len() <= MAX_ALIAS_BYTES,
            "the agent's name is empty or longer than {MAX_ALIAS_BYTES} bytes"
        );
        let Some(authority) = self.authority else { return Ok(name) };
        if let Some(id) = self.known.get(&name) {
            return Ok(id.clone());
        }
        let id = query::resolve(&*authority.ledger().view()?, &name).map_or_else(|_| name.clone(), |id| id.to_string());
        self.known.insert(name, id.clone());
        Ok(id)
    }
}

fn fill(rollup: &mut Rollup, names: &mut Names<'_>, out: &Output, args: &Args) -> anyhow::Result<Read> {
    const EXAMPLES: usize = 5;
    let bar = out.progress(None, "verdicts");
    let mut read = Read::default();
    let started = now();
    let only = args.agent.clone().map(|asked| names.id(asked)).transpose()?;
    let mut id_of = |name| names.id(name).map_err(|error| format!("{error:#}"));
    let mut naming = Naming { only, id_of: &mut id_of };
    for line in Lines::open(&args.file, MAX_TRACE_BYTES, 0)? {
        let (number, bytes) = line?;
        bar.inc(1);
        match rollup.add_line(&bytes, started, &mut naming) {
            Ok(CountedLine::Verdict) => read.verdicts += 1,
            Ok(CountedLine::Unjudged) => read.unjudged += 1,
            Ok(CountedLine::OtherAgent) => read.others += 1,
            Err(error) => {
                read.bad_count += 1;
                if read.bad.len() < EXAMPLES {
                    read.bad.push((number, error.to_string()));
                }
            }
        }
    }
    bar.finish_and_clear();
    Ok(read)
}

type Submitted = Result<u64, String>;

fn signed(home: &Home, args: &Args, key: &SecretKey, agent: &EntityId, up: &RolledUp) -> anyhow::Result<Statement> {
    let aud = statement::audience(home, args.aud.as_ref())?;
    Ok(up.clone().statement(&args.provider, aud, agent, None, key)?)
}

fn submit(
    home: &Home,
    out: &Output,
    args: &Args,
    authority: &Authority,
    rolled: &[RolledUp],
) -> anyhow::Result<Vec<Submitted>> {
    let key = statement::signing_key(home, &args.provider, args.key.as_ref())?;
    let mut submitted = Vec::with_capacity(rolled.len());
    for up in rolled {
        let agent = query::resolve(&*authority.ledger().view()?, &up.agent);
        let published = match agent {
            Err(error) => Err(error.to_string()),
            Ok(agent) => {
                let published = authority.publish(signed(home, args, &key, &agent, up)?.canonical().as_bytes())?;
                published.map(|published| published.seq).map_err(|rejection| rejection.to_string())
            }
        };
        submitted.push(published);
    }
    statement::score_and_flush(authority, out)?;
    Ok(submitted)
}

fn show(
    out: &Output,
    args: &Args,
    rollup: &Rollup,
    read: &Read,
    rolled: &[RolledUp],
    submitted: Option<&[Submitted]>,
) -> anyhow::Result<()> {
    let entry = |n: usize| submitted.and_then(|all| all.get(n));
    let item = |n: usize, up: &RolledUp| {
        let mut item = json!({ "agent": up.agent, "window": up.window, "summary": up.summary });
        if let Some(Rated { standard, quality }) = up.rated() {
            item["hcs25"] = json!(standard);
            match quality {
                Ok(quality) => item["output_quality"] = json!(quality),
                Err(reason) => item["no_output_quality"] = json!(reason),
            }
        }
        match entry(n) {
            Some(Ok(seq)) => item["seq"] = json!(seq),
            Some(Err(error)) => item["error"] = json!(error),
            None => {}
        }
        item
    };
    let bad: Vec<Value> = read.bad.iter().map(|(line, error)| json!({ "line": line, "error": error })).collect();
    if out.json {
        // One at a time: there may be a million of them.
        let head = json!({
            "provider": args.provider, "verdicts": read.verdicts, "unjudged": read.unjudged, "others": read.others,
            "bad_lines": read.bad_count, "bad": bad, "late": rollup.late(), "forgotten_agents": rollup.forgotten(),
        });
        let head = head.to_string();
        let mut stdout = io::BufWriter::new(io::stdout().lock());
        write!(stdout, "{},\"summaries\":[", head.trim_end_matches('}'))?;
        for (n, up) in rolled.iter().enumerate() {
            write!(stdout, "{}{}", if n > 0 { "," } else { "" }, item(n, up))?;
        }
        writeln!(stdout, "]}}")?;
        return Ok(stdout.flush()?);
    }
    out.show(&Value::Null, || {
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let lines = rolled.iter().enumerate().take(MAX_ROWS).map(|(n, up)| {
            let s = &up.summary;
            let (standard, quality) =
                up.rated().map_or(("too few".to_owned(), String::new()), |Rated { standard, quality }| {
                    let quality =
                        quality.map_or("no power shown".to_owned(), |q| format!("{:.1} ± {:.1}", q.value, q.stddev));
                    (standard.quality.to_string(), quality)
                });
            let canaries = s.canaries.map_or(String::new(), |c| format!("{} of {}", c.caught, c.checks));
            let mut line = vec![
                up.agent.clone(),
                up.window.key().to_owned(),
                s.total_checks.to_string(),
                percent(s.allow_rate),
                percent(s.block_rate),
                percent(s.uncertain_rate.unwrap_or_default()),
                format!("{:.3}", s.avg_confidence),
                canaries,
                standard,
                quality,
            ];
            line.extend(entry(n).map(|entry| match entry {
                Ok(seq) => format!("entry {seq}"),
                Err(_) => "refused".to_owned(),
            }));
            line
        });
        let mut header = vec![
            "agent",
            "window",
            "checks",
            "allowed",
            "blocked",
            "uncertain",
            "confidence",
            "canaries",
            "HCS-25",
            "output_quality",
        ];
        header.extend(submitted.map(|_| "submitted"));
        let mut text = output::table(&header, &header[2..9], lines);
        if rolled.len() > MAX_ROWS {
            text += &format!("\n… and {} more: see --json", rolled.len() - MAX_ROWS);
        }
        text += &format!("\n\n{} by {}", output::count(read.verdicts as usize, "verdict"), args.provider);
        for (count, what) in [
            (read.unjudged, "traces could not be judged"),
            (read.others, "verdicts on other agents, or on none"),
            (rollup.late(), "verdicts older than every window"),
            (rollup.forgotten(), "agents were forgotten to bound memory"),
            (read.bad_count, "lines could not be read"),
        ] {
            if count > 0 {
                text += &format!("; {count} {what}");
            }
        }
        for (line, error) in &read.bad {
            text += &format!("\n  line {line}: {error}");
        }
        if read.bad_count as usize > read.bad.len() {
            text += &format!("\n  and {} more", read.bad_count as usize - read.bad.len());
        }
        let refusals: BTreeSet<&String> =
            submitted.iter().copied().flatten().filter_map(|one| one.as_ref().err()).collect();
        for refusal in refusals {
            text += &format!("\nrefused: {refusal}");
        }
        text
    })
}
