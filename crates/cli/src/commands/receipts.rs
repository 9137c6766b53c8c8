use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use credence_guard::rollup::Tally;
use credence_ledger::{LogVerifier, proof::InclusionProof};
use credence_protocol::{EntityId, SecretKey, Timestamp, Uuid, receipt::Receipt};
use credence_receipts::{
    Archive, Filter, FoundReceipt, Private,
    claims::{CheckOptions, ClaimFinding, ClaimReport, ClaimStatus},
    export::{ExportedReceipt, TrustedKey},
    transcript::{self, Transcript},
};
use serde_json::{Value, json};

use super::{Done, answer, guard::StateArgs};
use crate::{
    input,
    output::{self, Output},
};

/// Rows that people are shown.
const DEFAULT_ROWS: usize = 50;
/// Unclaimed receipts that people are shown.
const SHOWN_UNCLAIMED: usize = 20;
/// Unrecognised parts that people are shown.
const SHOWN_UNRECOGNISED: usize = 50;
/// Bytes of an exported receipt, many times over.
const MAX_EXPORT_BYTES: u64 = 64 * 1024 * 1024;

#[derive(clap::Subcommand)]
pub enum Command {
    /// The newest receipts
    List {
        #[command(flatten)]
        which: Which,
        /// How many
        #[arg(long, default_value_t = DEFAULT_ROWS)]
        limit: usize,
    },
    /// One receipt, and the proof that it is in its guard's log
    Show {
        /// The call's id
        call: Uuid,
        #[command(flatten)]
        keeping: StateArgs,
    },
    /// Receipts with everything to check them elsewhere: one JSON object a line
    Export {
        #[command(flatten)]
        which: Which,
        /// Only this call
        #[arg(long)]
        call: Option<Uuid>,
        /// With the salts: whoever has them and a claim can check it, or guess at what was said
        #[arg(long)]
        disclose: bool,
        /// Where to [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Check receipts that were exported, or all that are kept here
    Verify {
        /// What `receipts export` wrote; - for standard input [default: everything kept here]
        file: Option<String>,
        /// What is trusted beforehand: a log's key (NAME+HASH+KEY), or the provider's public key for all its logs; without it the
        /// keys in the file are shown, not trusted
        #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
        log_key: Option<String>,
        #[command(flatten)]
        keeping: StateArgs,
    },
    /// Hold an agent's transcript against the receipts: what was executed, what was altered, what never happened
    Check {
        /// Of OpenAI, Anthropic, Bedrock, Gemini, LangChain, Vercel's AI SDK or MCP: JSON or JSON Lines; - for standard input
        transcript: String,
        #[command(flatten)]
        which: Which,
        /// A tool that runs elsewhere, without a guard; can be repeated
        #[arg(long = "ignore-tool", value_name = "TOOL")]
        ignored: Vec<String>,
        /// A member of the transcript's objects, outside of calls and results, that holds no results; can be repeated
        #[arg(long = "ignore-member", value_name = "MEMBER")]
        ignored_members: Vec<String>,
        /// What the client calls a server, and what its guard does; can be repeated
        #[arg(long = "server-alias", value_name = "NAME=SERVER", value_parser = alias)]
        aliases: Vec<(String, String)>,
        /// With --json: the proof of every receipt
        #[arg(long)]
        proofs: bool,
        /// A transcript in which nothing is recognised as a tool call or a result is fine
        #[arg(long)]
        allow_empty: bool,
    },
}

/// Which receipts.
#[derive(clap::Args)]
pub struct Which {
    #[command(flatten)]
    keeping: StateArgs,
    /// Only of this server
    #[arg(long)]
    server: Option<String>,
    /// Only of this agent
    #[arg(long)]
    agent: Option<EntityId>,
    /// Only of this session
    #[arg(long)]
    session: Option<String>,
    /// Only of this tool
    #[arg(long)]
    tool: Option<String>,
    /// Only from this time on
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// Only up to this time
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
}

impl Which {
    fn filter(&self) -> Filter {
        Filter {
            uid: None,
            server: self.server.clone(),
            agent: self.agent.clone(),
            session: self.session.clone(),
            tool: self.tool.clone(),
            since: self.since,
            until: self.until,
        }
    }
}

fn open(keeping: &StateArgs) -> anyhow::Result<(Archive, SecretKey)> {
    let key = keeping.secret(false)?;
    Ok((Archive::open(&keeping.folder()?, &keeping.provider, &key)?, key))
}

pub fn run(out: &Output, command: Command) -> Done {
    match command {
        Command::List { which, limit } => list(out, &which, limit),
        Command::Show { call, keeping } => show(out, call, &keeping),
        Command::Export { which, call, disclose, out: file } => export(&which, call, disclose, file.as_deref()),
        Command::Verify { file: Some(file), log_key, .. } => verify_file(out, &file, log_key.as_deref()),
        Command::Verify { file: None, keeping, .. } => verify_all(out, &keeping),
        Command::Check { transcript, which, ignored, ignored_members, aliases, proofs, allow_empty } => {
            let options =
                CheckOptions { filter: which.filter(), ignored_tools: ignored, server_aliases: aliases, proofs };
            check(out, &transcript, &which, &options, &ignored_members, allow_empty)
        }
    }
}

fn list(out: &Output, which: &Which, limit: usize) -> Done {
    let (archive, _) = open(&which.keeping)?;
    let mut problems = Vec::new();
    let found = archive.newest(&which.filter(), limit, &mut |problem| problems.push(problem))?;
    let shown: Vec<&Receipt> = found.iter().map(|one| &one.receipt).collect();
    out.show(&json!({ "receipts": shown, "problems": problems }), || {
        let rows = found.iter().map(|one| {
            let receipt = &one.receipt;
            vec![
                receipt.started_at.to_string(),
                archive.sources[one.source].name(),
                receipt.tool.clone(),
                receipt.agent.as_ref().map(ToString::to_string).unwrap_or_default(),
                words(receipt),
                receipt.posterior.map(|posterior| format!("{posterior:.3}")).unwrap_or_default(),
                receipt.execution_ms.map(|ms| format!("{ms:.1}")).unwrap_or_default(),
                receipt.call.to_string(),
            ]
        });
        let header = ["time", "guard", "tool", "agent", "verdict", "P(fabricated)", "ms", "call"];
        let mut text = output::table(&header, &header[5..7], rows);
        for problem in &problems {
            text += &format!("\ncannot be read: {problem}");
        }
        text
    })?;
    Ok(answer(!problems.is_empty()))
}

/// The verdict, or why there is none.
fn words(receipt: &Receipt) -> String {
    match (&receipt.verdict, &receipt.unjudged) {
        (Some(verdict), _) => verdict.to_string(),
        (None, Some(why)) => why.clone(),
        (None, None) => String::new(),
    }
}

/// What a verdict rests on.
fn because(receipt: &Receipt) -> String {
    let Some(posterior) = receipt.posterior else { return String::new() };
    let checks = if receipt.checks.is_empty() { "no check fired".to_owned() } else { receipt.checks.join(", ") };
    format!("{checks}; P(fabricated) {posterior:.3}")
}

fn show(out: &Output, call: Uuid, keeping: &StateArgs) -> Done {
    let (archive, _) = open(keeping)?;
    let Some((found, private)) = archive.find(call)? else {
        if let Some(dropped) = archive.dropped(call)? {
            bail!(
                "the receipt of call {call} was let go with segment {} of {}: its leaf under the checkpoint of {} entries is \
                 all that is kept",
                dropped.segment,
                dropped.guard,
                dropped.entries
            );
        }
        bail!("there is no receipt of call {call} in {}", keeping.folder()?.display());
    };
    let exported = archive.export(&found, private.as_ref(), false)?;
    let proof = InclusionProof::parse(&exported.proof)?;
    let checked = proof.verify(&LogVerifier::parse(&exported.log_key)?)?;
    let shown = json!({
        "receipt": exported.receipt, "guard": archive.sources[found.source].name(), "log_key": exported.log_key,
        "seq": proof.seq, "checkpoint_size": checked.size, "proof": exported.proof,
    });
    out.show(&shown, || {
        let receipt = &exported.receipt;
        let mut rows = vec![
            ("call", receipt.call.to_string()),
            ("tool", format!("{} ({})", receipt.tool, archive.sources[found.source].name())),
            ("time", receipt.started_at.to_string()),
            ("took", receipt.execution_ms.map(|ms| format!("{ms:.3} ms")).unwrap_or_default()),
            ("outcome", json!(receipt.outcome).as_str().unwrap_or_default().to_owned()),
            ("verdict", words(receipt)),
            ("because", because(receipt)),
        ];
        rows.retain(|(_, value)| !value.is_empty());
        let optional = [
            ("agent", receipt.agent.as_ref().map(ToString::to_string)),
            ("session", receipt.session.clone()),
            ("client", receipt.client.clone()),
        ];
        rows.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
        rows.push((
            "proof",
            format!("entry {} under a signed checkpoint of {} entries: verified", proof.seq, checked.size),
        ));
        rows.push(("log key", exported.log_key.clone()));
        rows.into_iter().map(|(name, value)| format!("{name:<9} {value}\n")).collect()
    })?;
    Ok(answer(false))
}

fn export(which: &Which, call: Option<Uuid>, disclose: bool, file: Option<&Path>) -> Done {
    let (archive, _) = open(&which.keeping)?;
    let mut sink: Box<dyn Write> = match file {
        Some(path) => Box::new(io::BufWriter::new(
            fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
        )),
        None => Box::new(io::BufWriter::new(io::stdout().lock())),
    };
    let mut all: Vec<(FoundReceipt, Option<Private>)> = Vec::new();
    let mut problems = Vec::new();
    match call {
        Some(call) => all.extend(archive.find(call)?),
        None => archive.visit(
            &which.filter(),
            &mut |found, private| {
                all.push((found, private));
                Ok(())
            },
            &mut |problem| problems.push(problem),
        )?,
    }
    ensure!(!all.is_empty() || call.is_none(), "there is no such receipt");
    for (found, private) in &all {
        match archive.export(found, private.as_ref(), disclose) {
            Ok(one) => writeln!(sink, "{}", serde_json::to_string(&one)?)?,
            Err(error) => problems.push(format!("call {}: {error}", found.receipt.call)),
        }
    }
    sink.flush()?;
    problems.iter().for_each(|problem| eprintln!("left out: {problem}"));
    Ok(answer(!problems.is_empty()))
}

fn verify_file(out: &Output, file: &str, log_key: Option<&str>) -> Done {
    let trusted = log_key.map(TrustedKey::parse).transpose().context("--log-key")?;
    let text = String::from_utf8(input::file_or_stdin(file, MAX_EXPORT_BYTES)?).context("it is not text")?;
    let mut keys = std::collections::BTreeSet::new();
    let mut failed: Vec<String> = Vec::new();
    let mut good = 0_u64;
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let read = ExportedReceipt::parse(line);
        match read.and_then(|one| one.verify(trusted.as_ref()).map(|()| one.log_key)) {
            Ok(key) => {
                good += 1;
                keys.insert(key);
            }
            Err(error) => failed.push(format!("line {}: {error}", n + 1)),
        }
    }
    ensure!(good > 0 || !failed.is_empty(), "{file} holds no receipts");
    let shown = json!({ "verified": good, "failed": failed, "log_keys": keys, "trusted": trusted.is_some() });
    out.show(&shown, || {
        let mut text = format!("{} verified, {} failed\n", output::count(good as usize, "receipt"), failed.len());
        failed.iter().for_each(|why| text += &format!("  {why}\n"));
        if trusted.is_none() && good > 0 {
            text += "Signed by, which only whoever trusts these keys can rely on:\n";
            keys.iter().for_each(|key| text += &format!("  {key}\n"));
        }
        text
    })?;
    Ok(answer(!failed.is_empty()))
}

fn verify_all(out: &Output, keeping: &StateArgs) -> Done {
    let (archive, _) = open(keeping)?;
    let mut findings: Vec<String> = Vec::new();
    let mut receipts = 0;
    let bar = out.progress(Some(archive.sources.len() as u64), "guards");
    for source in &archive.sources {
        let (count, found) = source.audit(Tally::reach_of(source.place_folder()))?;
        receipts += count;
        findings.extend(found);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let shown = json!({ "guards": archive.sources.len(), "receipts": receipts, "findings": findings });
    out.show(&shown, || {
        let mut text = format!(
            "{} of {}: {}\n",
            output::count(receipts as usize, "receipt"),
            output::count(archive.sources.len(), "guard"),
            if findings.is_empty() { "nothing is wrong".to_owned() } else { output::count(findings.len(), "finding") }
        );
        findings.iter().for_each(|finding| text += &format!("  {finding}\n"));
        text
    })?;
    Ok(answer(!findings.is_empty()))
}

fn alias(text: &str) -> Result<(String, String), String> {
    let (name, server) = text.split_once('=').filter(|(name, server)| !name.is_empty() && !server.is_empty()).ok_or(
        "write what the client calls the server, then '=', then what its guard does (files=server-filesystem)",
    )?;
    Ok((name.to_owned(), server.to_owned()))
}

fn check(
    out: &Output,
    file: &str,
    which: &Which,
    options: &CheckOptions,
    ignored_members: &[String],
    allow_empty: bool,
) -> Done {
    let bytes = input::file_or_stdin(file, transcript::MAX_BYTES as u64)?;
    let read = transcript::read_without(&bytes, ignored_members).with_context(|| format!("transcript {file}"))?;
    ensure!(
        allow_empty || !read.is_unrecognised(),
        "nothing in {file} is recognised as a tool call or a result (those of OpenAI, Anthropic, Bedrock, Gemini, LangChain, Pydantic AI, Vercel's AI \
         SDK, OpenTelemetry and MCP are); --allow-empty says that this is fine"
    );
    let (archive, key) = open(&which.keeping)?;
    let report = archive.check(&key, &read, options)?;
    let unreadable: Vec<String> = read.problems.iter().map(ToString::to_string).collect();
    let formats: Vec<String> = read.formats.iter().map(ToString::to_string).collect();
    let mut shown = serde_json::to_value(&report)?;
    shown["summary"] = summary(&report);
    shown["formats"] = json!(formats);
    shown["transcript_problems"] = json!(unreadable);
    shown["unrecognised"] = json!(read.unrecognised);
    out.show(&shown, || text(&report, &read, &unreadable))?;
    Ok(answer(!report.is_clean() || !report.problems.is_empty() || read.may_hide_claims()))
}

const STATUSES: [(ClaimStatus, &str); 10] = [
    (ClaimStatus::Executed, "executed"),
    (ClaimStatus::Failed, "failed"),
    (ClaimStatus::Altered, "altered"),
    (ClaimStatus::NeverHappened, "never happened"),
    (ClaimStatus::Unknown, "unknown"),
    (ClaimStatus::Unproven, "unproven"),
    (ClaimStatus::OutOfOrder, "out of order"),
    (ClaimStatus::Ambiguous, "ambiguous"),
    (ClaimStatus::Repeated, "repeated"),
    (ClaimStatus::NoResult, "without a result"),
];

fn summary(report: &ClaimReport) -> Value {
    let counts = STATUSES
        .iter()
        .map(|(status, _)| (json!(status).as_str().unwrap_or_default().to_owned(), json!(report.count(*status))));
    let mut all: serde_json::Map<String, Value> = counts.collect();
    all.insert("claims".to_owned(), json!(report.claims.len()));
    all.insert("unclaimed".to_owned(), json!(report.unclaimed.len()));
    Value::Object(all)
}

fn text(report: &ClaimReport, read: &Transcript, unreadable: &[String]) -> String {
    let word = |status: ClaimStatus| STATUSES.iter().find(|(one, _)| *one == status).map_or("", |(_, word)| *word);
    let mut text = String::new();
    for claim in &report.claims {
        text +=
            &format!("{:<16} {} {}\n", word(claim.status), claim.tool.as_deref().unwrap_or("(no call)"), place(claim));
        if let Some(receipt) = &claim.receipt {
            let proof = match (receipt.seq, receipt.checkpoint_size) {
                (Some(seq), Some(size)) => format!("entry {seq} of {} under a checkpoint of {size}", receipt.log),
                (Some(seq), None) => format!("entry {seq} of {}", receipt.log),
                (None, _) => format!("in the journal of {}", receipt.log),
            };
            text += &format!("{:<16} call {} at {}, {proof}\n", "", receipt.call, receipt.at);
        }
        for differs in &claim.differs {
            text += &format!("{:<16} differs: {differs}\n", "");
        }
        if let Some(remark) = &claim.remark {
            text += &format!("{:<16} {remark}\n", "");
        }
    }
    let counts: Vec<String> = STATUSES
        .iter()
        .filter(|(status, _)| report.count(*status) > 0)
        .map(|(status, word)| format!("{} {word}", report.count(*status)))
        .collect();
    let counts = if counts.is_empty() { "no tool results are claimed".to_owned() } else { counts.join(", ") };
    text += &format!("\n{}: {counts}\n", output::count(report.claims.len(), "claim"));
    if !report.unclaimed.is_empty() {
        text += &format!("{} that no claim speaks of:\n", output::count(report.unclaimed.len(), "receipt"));
        for one in report.unclaimed.iter().take(SHOWN_UNCLAIMED) {
            text += &format!("  {} {} {}\n", one.at, one.tool, one.call);
        }
        if report.unclaimed.len() > SHOWN_UNCLAIMED {
            text += &format!("  … and {} more: see --json\n", report.unclaimed.len() - SHOWN_UNCLAIMED);
        }
    }
    if report.ignored > 0 {
        text += &format!("{} of tools that were left out: not checked\n", output::count(report.ignored, "claim"));
    }
    if report.equal > 0 {
        let claims = output::count(report.equal, "claim");
        text += &format!("{claims} equal to another in tool, arguments and result: their order cannot be checked\n");
    }
    if !read.unrecognised.is_empty() {
        let parts = output::count(read.unrecognised.len(), "part");
        text +=
            &format!("{parts} that can be a result and was not recognised, so that the transcript does not pass:\n");
        for one in read.unrecognised.iter().take(SHOWN_UNRECOGNISED) {
            text += &format!("  {one}\n");
        }
        if read.unrecognised.len() > SHOWN_UNRECOGNISED {
            text += &format!("  … and {} more: see --json\n", read.unrecognised.len() - SHOWN_UNRECOGNISED);
        }
    }
    for line in &report.isolation {
        text += &format!("{line}\n");
    }
    if let Some(before) = report.gone_before {
        text += &format!("Receipts before {before} were let go: what is older cannot be told.\n");
    }
    for problem in report.problems.iter().chain(unreadable) {
        text += &format!("note: {problem}\n");
    }
    text
}

fn place(claim: &ClaimFinding) -> String {
    match &claim.call {
        Some(call) => format!("({}, {call})", claim.at),
        None => format!("({})", claim.at),
    }
}
