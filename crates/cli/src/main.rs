//! `credence`: the open trust authority for AI agents, on the command line.
//!
//! Exit codes: 0 done; 1 it could not be done, and nothing was; 2 done, and the answer is "no" (lines were rejected, an
//! audit has findings, a check failed); 64 the command line was wrong.

#[cfg(feature = "chain")]
mod chains;
mod commands;
mod home;
mod input;
mod keyfile;
mod lines;
mod output;
mod report;
mod statement;
mod traces;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, parser::ValueSource};

use crate::{commands as run, home::Home, output::Output};

/// Verdicts are many small allocations on several threads, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The open trust authority for AI agents: signed signals in, a replayable and provable trust score out.
#[derive(Parser)]
#[command(name = "credence", version, max_term_width = 110)]
struct Cli {
    /// The authority's folder
    #[arg(long, global = true, env = "CREDENCE_DATA", value_name = "DIR", default_value = "credence-data")]
    data: std::path::PathBuf,
    /// Print JSON for machines
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create an authority: its folder, keys and empty ledger
    Init(run::init::Args),
    /// Run the authority as a service: REST, signed answers, the log, over HTTP
    Serve(run::serve::Args),
    /// Stand in front of a tool server (MCP): judge its results, write receipts of its calls
    Guard(Box<run::guard::Args>),
    /// Receipts of tool calls: list, show, export, verify, and hold a transcript against them
    #[command(subcommand)]
    Receipts(run::receipts::Command),
    /// Run the authority as an MCP server on standard input and output, for one client
    Mcp(run::mcp::Args),
    /// Probe an agent: ten ASI threats and three benchmarks, decided by our own sensors
    Probe(Box<run::probe::Args>),
    /// Tokens for the service: make, list, revoke
    #[command(subcommand)]
    Token(run::token::Command),
    /// Keys: make, register, rotate, revoke, list
    #[command(subcommand)]
    Keys(run::keys::Command),
    /// Sources: who may send signals, and how much they count
    #[command(subcommand)]
    Source(run::source::Command),
    /// Agents: who is scored
    #[command(subcommand)]
    Agent(run::agent::Command),
    /// Crawlers: ask others about what is proved to be an agent's
    Crawl(Box<run::crawl::Args>),
    /// Signals: sign and submit measurements
    #[command(subcommand)]
    Signal(run::signal::Command),
    /// An agent's score, now or at a time
    Score(run::score::Args),
    /// Why an agent's score is what it is
    Explain(run::score::ExplainArgs),
    /// An agent's scores over time
    History(run::score::HistoryArgs),
    /// Score every agent again under the current weights
    Recompute,
    /// Rebuild every projection and score event from the first entry on, and compare
    Replay(run::audit::ReplayArgs),
    /// Check everything: signatures, hashes, links, checkpoints, scores
    Audit(run::audit::AuditArgs),
    /// The transparency log: checkpoints and proofs
    #[command(subcommand)]
    Log(run::log::Command),
    /// Should I go ahead? A signed trust-signals response, for a page and a purpose
    TrustSignals(run::answer::Args),
    /// An agent's score as an SVG that carries its own proof
    Badge(run::answer::BadgeArgs),
    /// A verifiable credential about an agent's score
    Credential(run::credential::Args),
    /// Take back an agent's standing, or one credential
    Revoke(run::credential::RevokeArgs),
    /// Write an agent's assured score to a chain, and see where that stands
    #[cfg(feature = "chain")]
    Attest(run::attest::Args),
    /// Reports on agents: drafted from the ledger, approved and published by people
    Report(run::report::Args),
    /// The score's own reliability: of agents rated so, how many outcomes were good
    Calibration(run::calibration::Args),
    /// Verify a signed document or a proof offline, with a public key alone
    Check(run::check::Args),
    /// The pure models: JSON on standard input, JSON on standard output, no ledger
    #[command(subcommand)]
    Compute(run::compute::Command),
    /// Judge tool results: traces as JSON Lines in, one verdict a line out
    Verify(run::verify::Args),
    /// Infer a profile for each tool from traces
    Learn(run::learn::Args),
    /// How well results made up from your own traces are told from the genuine ones
    Evaluate(run::evaluate::Args),
    /// Fit prior, thresholds and ratios to labelled traces
    Calibrate(run::calibrate::Args),
    /// Verdicts rolled up into output-verification summaries, per agent and window
    Rollup(run::rollup::Args),
    /// What verification providers say of an agent's outputs
    Stats(run::stats::Args),
    /// An agent's reputation among agents: the score, its five factors and what moved them last
    Reputation(run::reputation::Args),
    /// Contracts: claims that agents stand by
    #[command(subcommand)]
    Contract(run::contract::Command),
    /// Challenges: contracts disputed
    #[command(subcommand)]
    Challenge(run::challenge::Command),
    /// Reviews: what agents say of each other
    #[command(subcommand)]
    Review(run::review::Command),
    /// Statements: submit what was signed elsewhere
    #[command(subcommand)]
    Statement(run::statement::Command),
    /// Tags: what can be measured, and what of it counts in scores
    #[command(alias = "tags")]
    Tag {
        #[command(subcommand)]
        command: Option<run::tags::Command>,
    },
    /// The JSON Schemas of records
    Schema(run::schema::Args),
}

fn main() -> ExitCode {
    let parsed = Cli::command().try_get_matches().and_then(|matches| {
        // A folder that was named here, not in the environment.
        let source = matches.subcommand().and_then(|(_, given)| given.value_source("data"));
        Ok((Cli::from_arg_matches(&matches)?, source == Some(ValueSource::CommandLine)))
    });
    let (cli, names_folder) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(64) } else { ExitCode::SUCCESS };
        }
    };
    let out = Output { json: cli.json };
    let home = Home::at(cli.data);
    let done = match cli.command {
        Command::Init(args) => run::init::run(&home, &out, args),
        Command::Serve(args) => run::serve::run(&home, &out, args, names_folder),
        Command::Guard(args) => run::guard::run(&out, *args),
        Command::Receipts(command) => run::receipts::run(&out, command),
        Command::Mcp(args) => run::mcp::run(&home, args),
        Command::Probe(args) => run::probe::run(&home, &out, *args),
        Command::Token(command) => run::token::run(&home, &out, command),
        Command::Keys(command) => run::keys::run(&home, &out, command),
        Command::Source(command) => run::source::run(&home, &out, command),
        Command::Agent(command) => run::agent::run(&home, &out, command),
        Command::Crawl(args) => run::crawl::run(&home, &out, *args),
        Command::Signal(command) => run::signal::run(&home, &out, command),
        Command::Score(args) => run::score::score(&home, &out, args),
        Command::Explain(args) => run::score::explain(&home, &out, args),
        Command::History(args) => run::score::history(&home, &out, args),
        Command::Recompute => run::audit::recompute(&home, &out),
        Command::Replay(args) => run::audit::replay(&home, &out, args),
        Command::Audit(args) => run::audit::audit(&home, &out, args),
        Command::Log(command) => run::log::run(&home, &out, command),
        Command::TrustSignals(args) => run::answer::trust_signals(&home, args),
        Command::Badge(args) => run::answer::badge(&home, &out, args),
        Command::Credential(args) => run::credential::issue(&home, &out, args),
        Command::Revoke(args) => run::credential::revoke(&home, &out, args),
        #[cfg(feature = "chain")]
        Command::Attest(args) => run::attest::run(&home, &out, args),
        Command::Report(args) => run::report::run(&home, &out, args),
        Command::Calibration(args) => run::calibration::run(&home, &out, args),
        Command::Check(args) => run::check::run(&out, args),
        Command::Compute(command) => run::compute::run(command),
        Command::Verify(args) => run::verify::run(args),
        Command::Learn(args) => run::learn::run(&out, args),
        Command::Evaluate(args) => run::evaluate::run(&out, args),
        Command::Calibrate(args) => run::calibrate::run(&out, args),
        Command::Rollup(args) => run::rollup::run(&home, &out, args),
        Command::Stats(args) => run::stats::run(&home, &out, args),
        Command::Reputation(args) => run::reputation::run(&home, &out, args),
        Command::Contract(command) => run::contract::run(&home, &out, command),
        Command::Challenge(command) => run::challenge::run(&home, &out, command),
        Command::Review(command) => run::review::run(&home, &out, command),
        Command::Statement(command) => run::statement::run(&home, &out, command),
        Command::Tag { command } => run::tags::run(&home, &out, command),
        Command::Schema(args) => run::schema::run(&out, args),
    };
    match done {
        Ok(code) => code,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            out.error(&error);
            ExitCode::FAILURE
        }
    }
}
