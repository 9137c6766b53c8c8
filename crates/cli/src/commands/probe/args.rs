//! What can be said to `credence probe`.

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf};

use credence_sandbox::{
    Threat,
    runner::{DEFAULT_TIGHT, DEFAULT_TRIALS},
    target::Transport,
};

/// The target's bearer token, and that of a second identity.
pub const TOKENS: [&str; 2] = ["CREDENCE_PROBE_TOKEN", "CREDENCE_PROBE_TOKEN_2"];
/// The judge's bearer token.
pub const JUDGE_TOKEN: &str = "CREDENCE_JUDGE_TOKEN";

/// Requests a second, and seconds for an answer, where nothing else is said.
pub const DEFAULT_RATE: u32 = 2;
pub const DEFAULT_DEADLINE: u64 = 60;

/// Exit codes: 0 measured; 1 it could not be measured, or the run ended early (`--resume` continues it); 2 measured, and below
/// `--fail-below`; 64 the command line was wrong. Tokens for the target come from CREDENCE_PROBE_TOKEN and, for a second identity,
/// CREDENCE_PROBE_TOKEN_2; that of the judge from CREDENCE_JUDGE_TOKEN.
#[derive(clap::Args)]
#[command(next_line_help = false)]
#[group(skip)]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true).args(["agent", "target", "command"])))]
pub struct ProbeArgs {
    /// A registered agent: its owner's consent is looked up, and the run is recorded
    pub agent: Option<String>,
    /// The agent's address [default: its first https alias]
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// How it is spoken to: chat, responses, a2a, mcp or http
    #[arg(long, default_value = "chat")]
    pub transport: Transport,
    /// The model to name (chat, responses)
    #[arg(long)]
    pub model: Option<String>,
    /// The body to send as JSON, with $INPUT and maybe $CONVERSATION in it (http)
    #[arg(long, value_name = "JSON")]
    pub body: Option<String>,
    /// Where the answer is in the reply, as a JSON pointer (http)
    #[arg(long, value_name = "POINTER")]
    pub answer: Option<String>,
    /// The header that carries the token [default: authorization, as a bearer token]
    #[arg(long, value_name = "NAME")]
    pub token_header: Option<String>,
    /// Threats to try [default: all ten]
    #[arg(long, value_delimiter = ',', value_name = "asi01,asi05")]
    pub threats: Vec<Threat>,
    /// Only these families or probes, maybe with a spelling (asi01_document_footer:base64); may be repeated
    #[arg(long, value_delimiter = ',', value_name = "ID")]
    pub only: Vec<String>,
    /// Conclusive trials of each family
    #[arg(long, default_value_t = DEFAULT_TRIALS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub trials: u32,
    /// End a family early when its 90 % interval is at most this wide, from 0 (never) to 1
    #[arg(long, default_value_t = DEFAULT_TIGHT, value_name = "WIDTH", value_parser = width)]
    pub stop_width: f64,
    /// Requests at most; whole threats are left out to keep to it
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub budget: Option<u64>,
    /// Seconds at most
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub time_limit: Option<u64>,
    /// Where the target's people reach you, for the User-Agent [default: the authority's public_url]
    #[arg(long, value_name = "URL")]
    pub contact: Option<url::Url>,
    /// Requests a second at most
    #[arg(long, default_value_t = NonZeroU32::MIN.saturating_add(DEFAULT_RATE - 1))]
    pub rate: NonZeroU32,
    /// Requests under way at most
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub in_flight: u16,
    /// Seconds that one answer may take
    #[arg(long, default_value_t = DEFAULT_DEADLINE, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub deadline: u64,
    /// Makes order and values: the same seed makes the same run [default: a new one]
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=1 << 53))]
    pub seed: Option<u64>,
    /// Skip reliability and output quality
    #[arg(long)]
    pub no_benchmarks: bool,
    /// Seconds over which the calls of the reliability benchmark are spread
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub spread: u64,
    /// Where to record the run as it goes [default: a new file in the authority's folder]
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Continue the run of --journal
    #[arg(long, requires = "journal")]
    pub resume: bool,
    /// Print what would be sent, how many requests that is and how long it takes; send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Write a report for the agent's owner
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Exit with 2 where a threat's value is below this, or none could be measured
    #[arg(long, value_name = "VALUE", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub fail_below: Option<u8>,
    /// The journal of an earlier run to compare with
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,
    /// A folder with probe files: one of a shipped name replaces it, others are added
    #[arg(long, value_name = "DIR")]
    pub probes: Option<PathBuf>,
    /// Allow a target on this machine, over http too
    #[arg(long)]
    pub allow_loopback: bool,
    /// Listen here for URLs that the agent fetches [default: a port of this machine, for a target on it]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where the agent reaches that listener
    #[arg(long, value_name = "URL", requires = "listen")]
    pub listener_url: Option<String>,
    /// Serve the honey tools as an MCP server of the listener, for agents that take no tools with a request
    #[arg(long, requires = "listen")]
    pub mount: bool,
    /// Leave the run out of the ledger. A run with --only, --probes or fewer trials than usual is recorded without a value for its threats
    #[arg(long)]
    pub no_record: bool,
    /// An OpenAI-compatible endpoint that reads the transcripts; its word is shown apart and decides nothing
    #[arg(long, value_name = "URL")]
    pub judge: Option<String>,
    /// The judge's model
    #[arg(long, value_name = "NAME", requires = "judge")]
    pub judge_model: Option<String>,
    /// A tool server to start and probe over standard input and output (with --transport mcp)
    #[arg(last = true, conflicts_with = "target")]
    pub command: Vec<String>,
}

fn width(text: &str) -> Result<f64, String> {
    let width: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if (0.0..=1.0).contains(&width) { Ok(width) } else { Err("from 0 to 1".to_owned()) }
}
