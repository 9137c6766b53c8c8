use std::{
    cell::RefCell,
    collections::{BTreeMap, VecDeque},
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::mpsc::{self, TryRecvError},
};

use anyhow::{Context, bail};
use clap::Subcommand;
use credence_pipeline::{Feed, SIGNALS_PER_BATCH, admit::Verdict};
use credence_protocol::{Audience, EntityId, SignalDraft, Tag, TagRegistry, Timestamp, Uuid, limits, strict};
use serde_json::json;

use super::{Done, answer, link};
use crate::{
    home::{Home, now},
    keyfile,
    lines::Lines,
    output::{self, Output},
};

/// Holds the private key that signs, instead of a key file.
pub const SIGNING_KEY_VARIABLE: &str = "CREDENCE_SIGNING_KEY";
/// A line longer than this is not read whole: it is rejected as too large.
const MAX_LINE_BYTES: usize = 8 * limits::MAX_SIGNAL_INPUT_BYTES;

#[derive(Subcommand)]
pub enum Command {
    /// Sign a measurement: given by flags, or as JSON (one object, or one a line)
    Sign(SignArgs),
    /// Submit signed signals: a file with one, or one a line in a file or on standard input.
    /// Entries are public: evidence holds public facts or digests, nothing secret
    Submit {
        /// A file; - for standard input
        #[arg(default_value = "-")]
        file: String,
    },
    /// Dispute a signal that a crawler made, as the agent's owner; or decide such a dispute, as the operator
    Dispute(link::DisputeArgs),
}

#[derive(clap::Args)]
pub struct SignArgs {
    /// Measurements without key_id and signature, one a line; - for standard input
    #[arg(conflicts_with_all = ["agent", "tags", "value"])]
    file: Option<String>,
    /// The private key [default: the environment's CREDENCE_SIGNING_KEY, else keys/SOURCE.jwk]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// The authority it is for: the origin of its log [default: that of the authority in --data, if there is one]
    #[arg(long, value_name = "ORIGIN")]
    aud: Option<Audience>,
    /// Who measured
    #[arg(long)]
    source: Option<EntityId>,
    /// Whom
    #[arg(long, requires = "source")]
    agent: Option<EntityId>,
    /// What; may be repeated
    #[arg(long = "tag")]
    tags: Vec<Tag>,
    /// 0 to 100; 100 is always best
    #[arg(long, allow_negative_numbers = true)]
    value: Option<f64>,
    /// Its uncertainty, 0 to 50
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    stddev: f64,
    /// When it was measured [default: now]
    #[arg(long, value_name = "TIME")]
    observed_at: Option<Timestamp>,
    /// The id of the earlier signal that this one corrects
    #[arg(long, value_name = "ID")]
    supersedes: Option<Uuid>,
    /// Public facts or digests, as a JSON object
    #[arg(long, value_name = "JSON")]
    evidence: Option<String>,
}

pub fn run(home: &Home, out: &Output, command: Command) -> Done {
    match command {
        Command::Sign(args) => sign(home, out, args),
        Command::Submit { file } => submit(home, out, &file),
        Command::Dispute(args) => link::dispute(home, out, args),
    }
}

fn sign(home: &Home, out: &Output, args: SignArgs) -> Done {
    let drafts: Vec<SignalDraft> = match &args.file {
        Some(file) => {
            let lines = Lines::open(file, MAX_LINE_BYTES, limits::MAX_SIGNAL_INPUT_BYTES)?.enumerate();
            lines
                .map(|(n, line)| SignalDraft::parse(&line?.1).with_context(|| format!("{file}, measurement {}", n + 1)))
                .collect::<anyhow::Result<_>>()?
        }
        None => vec![draft(&args)?],
    };
    let registry = TagRegistry::standard()?;
    let origin = crate::statement::audience(home, args.aud.as_ref())?;
    let (mut keys, mut unnamed) = (BTreeMap::new(), false);
    let mut stdout = io::stdout().lock();
    for mut draft in drafts {
        draft.aud = draft.aud.or_else(|| origin.clone());
        unnamed |= draft.aud.is_none();
        if let Some(unknown) = draft.tags.iter().find(|tag| registry.find(tag.as_str()).is_none()) {
            let nearest =
                registry.nearest(unknown.as_str()).map(|tag| format!(": did you mean '{tag}'?")).unwrap_or_default();
            out.note(&format!("warning: '{unknown}' is not a registered tag and will be rejected{nearest}"));
        }
        let source = draft.source.clone();
        let key = match keys.get(&source) {
            Some(key) => key,
            None => {
                let key = match &args.key {
                    Some(path) => keyfile::read(path)?,
                    None => keyfile::from_environment_or(SIGNING_KEY_VARIABLE, &home.key_file(source.as_str()))?,
                };
                keys.entry(source).or_insert(key)
            }
        };
        writeln!(stdout, "{}", draft.sign(key)?.canonical())?;
    }
    if unnamed {
        crate::statement::note_without_audience(out, None);
    }
    Ok(ExitCode::SUCCESS)
}

fn draft(args: &SignArgs) -> anyhow::Result<SignalDraft> {
    let (Some(agent), Some(source), Some(value)) = (&args.agent, &args.source, args.value) else {
        bail!("give --source, --agent, --tag and --value, or a file with measurements");
    };
    let at = args.observed_at.unwrap_or_else(now);
    let mut draft = SignalDraft::new(agent.clone(), source.clone(), args.tags.clone(), value, args.stddev, at);
    draft.supersedes = args.supersedes;
    if let Some(evidence) = &args.evidence {
        draft.evidence = Some(strict::typed(evidence.as_bytes()).context("--evidence")?);
    }
    Ok(draft)
}

fn submit(home: &Home, out: &Output, file: &str) -> Done {
    let authority = home.authority()?;
    let feed = RefCell::new(SignalFeed::start(Lines::open(file, MAX_LINE_BYTES, limits::MAX_SIGNAL_INPUT_BYTES)?));
    let bar = out.progress(None, "signals");
    let mut summary = Summary::default();
    let mut stdout = io::stdout().lock();
    let mut broken = None;
    authority.submit_feed(&mut |wait| feed.borrow_mut().next(wait), &mut |_, verdict| {
        let line = feed.borrow_mut().numbers.pop_front().unwrap_or_default();
        bar.inc(1);
        if let Err(error) = summary.add(out, &mut stdout, line, verdict) {
            broken.get_or_insert(error);
        }
    })?;
    bar.finish_and_clear();
    if let Some(error) = feed.into_inner().failed.or(broken.map(anyhow::Error::from)) {
        return Err(error);
    }
    crate::statement::score_and_flush(&authority, out)?;
    summary.show(out)?;
    Ok(answer(summary.rejected > 0))
}

/// Lines read ahead by a thread, so that what has come can be acknowledged while more is awaited.
struct SignalFeed {
    lines: mpsc::Receiver<anyhow::Result<(u64, Vec<u8>)>>,
    /// Where the signals that were fed but not yet heard of came from.
    numbers: VecDeque<u64>,
    failed: Option<anyhow::Error>,
}

impl SignalFeed {
    fn start(lines: Lines) -> Self {
        let (sender, receiver) = mpsc::sync_channel(2 * SIGNALS_PER_BATCH);
        // Not joined: at the end it is done, or waits for input that nobody wants any more.
        std::thread::spawn(move || lines.into_iter().try_for_each(|line| sender.send(line)));
        Self { lines: receiver, numbers: VecDeque::new(), failed: None }
    }

    fn next(&mut self, wait: bool) -> Feed {
        let first =
            if wait { self.lines.recv().map_err(|_| TryRecvError::Disconnected) } else { self.lines.try_recv() };
        let mut line = match first {
            Ok(line) => line,
            Err(TryRecvError::Empty) => return Feed::NothingYet,
            Err(TryRecvError::Disconnected) => return Feed::End,
        };
        let mut batch = Vec::new();
        loop {
            match line {
                Ok((number, bytes)) => {
                    self.numbers.push_back(number);
                    batch.push(bytes);
                }
                Err(error) => {
                    // The reader ends here; what came before is still good.
                    self.failed = Some(error);
                    return Feed::Batch(batch);
                }
            }
            if batch.len() == SIGNALS_PER_BATCH {
                return Feed::Batch(batch);
            }
            line = match self.lines.try_recv() {
                Ok(line) => line,
                Err(_) => return Feed::Batch(batch),
            };
        }
    }
}

/// What became of the signals.
#[derive(Default)]
struct Summary {
    admitted: u64,
    known: u64,
    rejected: u64,
    by_reason: BTreeMap<&'static str, Reason>,
    last_seq: Option<u64>,
}

#[derive(Default)]
struct Reason {
    count: u64,
    /// The first few, with their line.
    examples: Vec<(u64, String)>,
}

impl Summary {
    fn add(&mut self, out: &Output, stdout: &mut impl Write, line: u64, verdict: Verdict) -> io::Result<()> {
        const EXAMPLES: usize = 3;
        let shown = match verdict {
            Ok(admitted) => {
                *(if admitted.known { &mut self.known } else { &mut self.admitted }) += 1;
                self.last_seq = Some(admitted.seq);
                json!({ "line": line, "seq": admitted.seq, "known": admitted.known })
            }
            Err(rejection) => {
                self.rejected += 1;
                let reason = self.by_reason.entry(rejection.code()).or_default();
                reason.count += 1;
                if reason.examples.len() < EXAMPLES {
                    reason.examples.push((line, rejection.to_string()));
                }
                json!({ "line": line, "error": rejection.to_string(), "code": rejection.code() })
            }
        };
        if out.json {
            // Each is durable by now: whoever reads this line may rely on it.
            writeln!(stdout, "{shown}")?;
            stdout.flush()?;
        }
        Ok(())
    }

    fn show(&self, out: &Output) -> anyhow::Result<()> {
        let Self { admitted, known, rejected, by_reason, last_seq } = self;
        let reasons: BTreeMap<_, _> = by_reason.iter().map(|(code, reason)| (code, reason.count)).collect();
        let json =
            json!({ "summary": { "admitted": admitted, "known": known, "rejected": rejected, "by_reason": reasons } });
        out.show(&json, || {
            if let (1, 0, 0, Some(seq)) = (*admitted, *known, *rejected, *last_seq) {
                return format!("Admitted as entry {seq}.");
            }
            let mut text = format!("{admitted} admitted, {known} known already, {rejected} rejected");
            if !by_reason.is_empty() {
                let rows = by_reason.iter().flat_map(|(code, reason)| {
                    reason.examples.iter().enumerate().map(|(n, (line, why))| {
                        let head = if n == 0 {
                            [(*code).to_owned(), reason.count.to_string()]
                        } else {
                            [String::new(), String::new()]
                        };
                        let [code, count] = head;
                        vec![code, count, line.to_string(), why.clone()]
                    })
                });
                text += "\n\n";
                text += &output::table(&["reason", "count", "line", "for example"], &["count", "line"], rows);
            }
            text
        })
    }
}
