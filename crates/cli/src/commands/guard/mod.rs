mod config;
mod remote;
mod review;
mod schema;
mod servers;
mod setup;
mod status;
mod switch;
mod watch;

use std::{os::fd::AsFd, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use clap::{
    ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
};
use credence_guard::{
    Caller, Guard, GuardMode, Settings,
    config::{GuardConfig, Reviews, effective::Flags, file},
    courier::CourierSettings,
    http::HttpSettings,
    identity::Launch,
    isolation,
    oversight::Rules,
    quarantine::{QuarantineSettings, reporting::ReviewReporting, reviewer_key::ReviewerPublicKey},
    server_name, service,
    settings::{DEFAULT_MESSAGE_BYTES, DEFAULT_RECEIPT_BYTES},
    stdio::Upstream,
};
use credence_protocol::{EntityId, SecretKey, receipt::Vantage};
use credence_receipts::folder;
use credence_verify::{Calibrations, Stake};

use super::Done;
use crate::{input, keyfile, output::Output, traces};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(clap::Subcommand)]
pub enum Sub {
    /// Put the servers of an MCP client under guards
    Install(setup::InstallArgs),
    /// Take the guards away again
    Uninstall(setup::UninstallArgs),
    /// What guards have seen: calls and verdicts per tool, control charts
    Status(status::Args),
    /// Look at results that were flagged or withheld, one by one in a terminal, and answer
    Review(review::ReviewArgs),
    /// Say that a result that was flagged or withheld is genuine: the engine learns from it
    Accept(review::AnswerArgs),
    /// Say that it is not genuine: the engine learns from it
    Reject(review::AnswerArgs),
    /// Write a result that was withheld to standard output or a file
    Release(review::ReleaseArgs),
    /// Remove what is kept of a result, or of all
    Forget(review::ForgetArgs),
    /// Make a key pair for reviewing elsewhere what guards report to an authority
    ReviewerKey(remote::KeyArgs),
    /// Check guard.toml, or show what holds for a server or a tool
    #[command(subcommand)]
    Config(config::Command),
    /// Switch the guards of a server off: results pass unjudged, receipts go on
    Off(switch::Args),
    /// Switch them on again
    On(switch::Args),
    /// Accept an output schema by which a tool would be judged less strictly than before
    AcceptSchema(schema::Args),
    /// The public key that receipts and summaries are signed with, to be registered at an authority
    Key(StateArgs),
}

#[derive(clap::Args)]
pub struct RunArgs {
    /// The server's name, by which its receipts are found [default: from the command]
    #[arg(long)]
    name: Option<String>,
    /// The guard's configuration; it must be yours and not writable by others [default: guard.toml in ~/.config/credence]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What is done about a result that is not believed [default: what guard.toml says, else flag]
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// The agent that calls; without it the request's _meta (credence/agent) or headers (Credence-Agent) may say
    #[arg(long, env = "CREDENCE_GUARD_AGENT")]
    agent: Option<EntityId>,
    /// The session; without it _meta (credence/session) or headers may say [default: one for each run]
    #[arg(long, env = "CREDENCE_GUARD_SESSION")]
    session: Option<String>,
    /// What is at stake; without it _meta (credence/stake) or headers may say
    #[arg(long, value_parser = stake_parser())]
    stake: Option<Stake>,
    /// How results are judged
    #[arg(long, value_enum, default_value_t = traces::Mode::Adaptive)]
    verify: traces::Mode,
    /// What is known of tools: a TOML file with a table for each (`credence learn` writes one). What a tool declares of its
    /// output is known by itself
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
    /// Prior, thresholds and ratios: a TOML file (`credence calibrate` writes one)
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Look for text in results that tries to instruct the model
    #[arg(long)]
    content_injection: bool,
    /// Share of accepted results of which a made-up variant is judged in shadow
    /// [default: what guard.toml says, else 0.02]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    canaries: Option<f64>,
    #[command(flatten)]
    keeping: StateArgs,
    /// Room for receipts in MiB; the oldest are let go beyond it
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_RECEIPT_BYTES / MIB, value_parser = clap::value_parser!(u64).range(1..))]
    max_receipts: u64,
    /// Keep nothing of results that are flagged or withheld: nobody can look at them later
    #[arg(long, conflicts_with_all = ["max_quarantine", "quarantine_days"])]
    no_quarantine: bool,
    /// Room for results that are flagged or withheld in MiB, kept for `credence guard review`; the oldest are let go beyond it
    /// [default: guard.toml, else 64]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1024 * 1024))]
    max_quarantine: Option<u64>,
    /// Days that they are kept [default: guard.toml, else 7]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u64).range(1..=3650))]
    quarantine_days: Option<u64>,
    /// The largest message that is passed on, in MiB
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_MESSAGE_BYTES as u64 / MIB, value_parser = clap::value_parser!(u64).range(1..=4096))]
    max_message: u64,
    /// Where a message of the client is not forwarded, show which byte it was refused for and the text around it, which may
    /// be secret
    #[arg(long)]
    explain_refusal: bool,
    /// Hand everything to the guard of this name that runs as a user of its own (`guard install --isolated`)
    #[arg(long, requires = "name", conflicts_with_all = ["upstream", "connect"])]
    attached: bool,
    /// Stand in front of a server that listens at this Unix socket, usually as another user
    #[arg(long, value_name = "SOCKET", requires = "name", conflicts_with_all = ["command", "upstream"])]
    connect: Option<PathBuf>,
    /// Take reports of calls from other programs at this Unix socket (`credence_trust.Guard(remote="unix:SOCKET")`), which its
    /// owner and group may open: their receipts say `reported`
    #[arg(long, value_name = "SOCKET", requires = "name", conflicts_with_all = ["command", "upstream", "connect", "attached"])]
    serve: Option<PathBuf>,
    /// Where the sockets of guards with users of their own are
    #[arg(long, value_name = "DIR", default_value = isolation::RUN_FOLDER)]
    run_folder: PathBuf,
    /// Stand in front of a server that speaks streamable HTTP, at this URL
    #[arg(long, value_name = "URL", requires = "listen", conflicts_with = "command")]
    upstream: Option<url::Url>,
    /// Where clients of that server reach it from now on, such as 127.0.0.1:8430
    #[arg(long, value_name = "ADDRESS", requires = "upstream")]
    listen: Option<String>,
    /// A web page's origin that may use that server; pages on this machine may; can be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    allowed_origins: Vec<String>,
    /// Send summaries and checkpoints to this authority
    #[arg(long, env = "CREDENCE_GUARD_AUTHORITY", value_name = "URL")]
    authority: Option<url::Url>,
    /// A file with a token of scope `ingest` for it [default: the environment's CREDENCE_GUARD_TOKEN]
    #[arg(long, value_name = "FILE", requires = "authority")]
    token_file: Option<PathBuf>,
    /// Send the receipts too: commitments, no arguments or results
    #[arg(long, requires = "authority")]
    send_receipts: bool,
    /// Send their salts too: whoever has a claim can check it at the authority
    #[arg(long, requires = "send_receipts")]
    send_salts: bool,
    /// Tell what waits for review too: calls, tools, verdicts and names of members, no arguments or results
    /// (guard.toml: send in [reviews])
    #[arg(long, requires = "authority", conflicts_with = "no_quarantine")]
    send_reviews: bool,
    /// Send arguments and results of what waits for review too, encrypted to --reviewer-key (guard.toml: report_content)
    #[arg(long, requires_all = ["send_reviews", "reviewer_key"])]
    report_content: bool,
    /// To whom that is encrypted: the public key that `credence guard reviewer-key` printed (guard.toml: reviewer_key)
    #[arg(long, value_name = "KEY", requires = "report_content")]
    reviewer_key: Option<ReviewerPublicKey>,
    /// Seconds between reports
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    report_every: u64,
    /// The tool server to run, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const MIB: u64 = 1024 * 1024;

/// A share, 0 for none.
fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(format!("{share} is not between 0 and 1")) }
}

/// Where guards keep their state, and whose receipts they are.
#[derive(clap::Args)]
pub struct StateArgs {
    /// Where guards keep what they learn and write [default: ~/.local/state/credence/guard]
    #[arg(long, env = "CREDENCE_GUARD_STATE", value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Under whose name receipts and summaries are signed
    #[arg(long, env = "CREDENCE_GUARD_PROVIDER", value_name = "SOURCE", default_value = "guard")]
    pub provider: EntityId,
    /// The provider's private key [default: the environment's CREDENCE_GUARD_KEY, else provider.jwk in the state's folder, made
    /// when missing]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}

impl StateArgs {
    /// The folder.
    pub fn folder(&self) -> anyhow::Result<PathBuf> {
        self.state.clone().map_or_else(|| Ok(folder::default_state()?), Ok)
    }

    /// The key that signs; made when there is none and `make`.
    pub fn secret(&self, make: bool) -> anyhow::Result<SecretKey> {
        const VARIABLE: &str = "CREDENCE_GUARD_KEY";
        let file = folder::key_file(&self.folder()?);
        match &self.key {
            Some(path) => keyfile::read(path),
            None if std::env::var_os(VARIABLE).is_some() => keyfile::from_environment_or(VARIABLE, &file),
            None if make || file.try_exists().with_context(|| format!("cannot look into {}", file.display()))? => {
                Ok(folder::read_or_create_key(&file)?)
            }
            None => bail!("no guard has run yet: there is nothing in {}", self.folder()?.display()),
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum ModeArg {
    /// Nothing; the result's _meta says what was thought of it
    Observe,
    /// The result carries a note that the model can read
    Flag,
    /// A result that is blocked is withheld, and an error explains
    Enforce,
}

/// The names are listed in the help.
fn stake_parser() -> impl TypedValueParser<Value = Stake> {
    PossibleValuesParser::new(Stake::ALL.map(Stake::name)).try_map(|name| name.parse())
}

pub fn run(out: &Output, args: Args) -> Done {
    match args.command {
        Some(Sub::Install(args)) => return setup::install(out, args),
        Some(Sub::Uninstall(args)) => return setup::uninstall(out, args),
        Some(Sub::Status(args)) => return status::run(out, args),
        Some(Sub::Review(args)) => return review::review(out, &args),
        Some(Sub::Accept(args)) => return review::answer(out, &args, true),
        Some(Sub::Reject(args)) => return review::answer(out, &args, false),
        Some(Sub::Release(args)) => return review::release(out, &args),
        Some(Sub::Forget(args)) => return review::forget(out, &args),
        Some(Sub::ReviewerKey(args)) => return remote::make_key(out, &args),
        Some(Sub::Config(command)) => return config::run(out, command),
        Some(Sub::Off(args)) => return switch::run(out, &args, true),
        Some(Sub::On(args)) => return switch::run(out, &args, false),
        Some(Sub::AcceptSchema(args)) => return schema::run(out, &args),
        Some(Sub::Key(args)) => return key(out, &args),
        None => {}
    }
    let run = args.run;
    if let (true, Some(name)) = (run.attached, &run.name) {
        folder::check_name(name)?;
        isolation::attach(&isolation::guard_socket(&run.run_folder, name))?;
        // A thread still waits for the client.
        std::process::exit(0);
    }
    if let Some(socket) = &run.serve {
        let mut settings = Settings { vantage: Vantage::Reported, ..run.settings()? };
        settings.rules.launch = None;
        let courier = run.courier(&settings.rules.config.reviews)?;
        service::run_reports(settings, run.keeping.secret(true)?, courier, socket)?;
        return Ok(ExitCode::SUCCESS);
    }
    let server = run.connect.as_deref().map(isolation::connect).transpose()?;
    let settings =
        Settings { vantage: isolation::vantage(std::io::stdin().as_fd(), server.as_ref()), ..run.settings()? };
    let key = run.keeping.secret(true)?;
    let courier = run.courier(&settings.rules.config.reviews)?;
    if let (Some(upstream), Some(listen)) = (&run.upstream, &run.listen) {
        let http = HttpSettings { upstream: upstream.clone(), allowed_origins: run.allowed_origins.clone() };
        service::run_http(&Guard::start(settings, key)?, courier, http, listen)?;
        return Ok(ExitCode::SUCCESS);
    }
    let upstream = match (server, run.command.split_first()) {
        (Some(server), _) => Upstream::Socket(server),
        (None, Some((command, rest))) => Upstream::Command(command.clone(), rest.to_vec()),
        (None, None) => bail!(
            "what should be guarded? `credence guard -- COMMAND ARGS…` runs a server, --upstream URL --listen ADDRESS proxies one, \
             --connect SOCKET --name NAME stands in front of one that runs elsewhere"
        ),
    };
    let code = service::run_stdio(&Guard::start(settings, key)?, courier, upstream)?;
    // A thread may still wait for a client that does not come back.
    std::process::exit(code);
}

/// Shows the public key.
fn key(out: &Output, args: &StateArgs) -> Done {
    let public = args.secret(true)?.public();
    let shown = serde_json::json!({ "provider": args.provider, "public_key": public, "did_key": public.did_key(), "key_id": public.id() });
    out.show(&shown, || {
        format!(
            "{}\n\nRegister it at an authority:\n  credence source add {provider}\n  credence keys add {provider} {}\n  credence source provider {provider} --methodology URL\n",
            public.did_key(), public.did_key(), provider = args.provider
        )
    })?;
    Ok(ExitCode::SUCCESS)
}

impl RunArgs {
    fn courier(&self, reviews: &Reviews) -> anyhow::Result<Option<CourierSettings>> {
        let Some(authority) = &self.authority else { return Ok(None) };
        let token = match &self.token_file {
            Some(path) => Some(String::from_utf8(input::file(path, 4096)?)?.trim().to_owned()),
            None => std::env::var("CREDENCE_GUARD_TOKEN").ok().filter(|token| !token.is_empty()),
        };
        Ok(Some(CourierSettings {
            authority: authority.clone(),
            token,
            every: Duration::from_secs(self.report_every),
            receipts: self.send_receipts,
            salts: self.send_salts,
            reviews: self.reviews(reviews)?,
        }))
    }

    /// What the authority is told of results that wait for an answer. The flags override guard.toml.
    fn reviews(&self, file: &Reviews) -> anyhow::Result<Option<ReviewReporting>> {
        if self.send_reviews {
            return Ok(Some(ReviewReporting { content: self.reviewer_key.clone().filter(|_| self.report_content) }));
        }
        if !file.send || self.no_quarantine {
            return Ok(None);
        }
        let key = file.reviewer_key.as_deref().filter(|_| file.report_content);
        let content = key.map(str::parse).transpose().map_err(|why| anyhow::anyhow!("reviewer_key: {why}"))?;
        Ok(Some(ReviewReporting { content }))
    }

    /// What guard.toml and the flags say, and which server it is.
    fn rules(&self) -> anyhow::Result<Rules> {
        let flags = Flags {
            mode: self.mode.map(|mode| match mode {
                ModeArg::Observe => GuardMode::Observe,
                ModeArg::Flag => GuardMode::Flag,
                ModeArg::Enforce => GuardMode::Enforce,
            }),
            content_injection: self.content_injection.then_some(true),
            canaries: self.canaries,
        };
        let launch = match (&self.upstream, &self.connect) {
            (Some(url), _) => Launch::Url(url.clone()),
            (None, Some(socket)) => Launch::Socket(socket.clone()),
            (None, None) => Launch::Command(self.command.clone()),
        };
        let config = Arc::new(GuardConfig::load(self.config.as_deref())?);
        let watched = self.config.clone().or_else(file::default_path);
        Ok(Rules { config, watched, flags, launch: Some(launch) })
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => match &self.upstream {
                Some(url) => server_name::from_url(url),
                None => server_name::from_command(&self.command),
            },
        };
        let calibrations: Calibrations = match &self.calibration {
            Some(path) => {
                let bytes = input::file(path, traces::MAX_SETTINGS_BYTES)?;
                toml::from_str(&String::from_utf8_lossy(&bytes))
                    .with_context(|| format!("{} is not a calibration file", path.display()))?
            }
            None => Calibrations::default(),
        };
        let of_tools = calibrations.tools.into_iter().map(|(tool, one)| (Some(tool), one));
        let session = self.session.clone().unwrap_or_else(|| credence_protocol::Uuid::now_v7().to_string());
        ensure!(!session.is_empty() && session.len() <= 256, "a session's name has 1 to 256 bytes");
        let rules = self.rules()?;
        // Flags override the file.
        let file = rules.config.quarantine;
        let asked = self.max_quarantine.is_some() || self.quarantine_days.is_some();
        let quarantine = match !self.no_quarantine && (file.enabled || asked) {
            true => QuarantineSettings {
                max_bytes: self.max_quarantine.unwrap_or(file.max_mib).saturating_mul(MIB),
                keep: Duration::from_secs(self.quarantine_days.unwrap_or(file.days) * 24 * 60 * 60),
            },
            false => QuarantineSettings::off(),
        };
        Ok(Settings {
            name,
            provider: self.keeping.provider.clone(),
            rules,
            caller: Caller { agent: self.agent.clone(), session: self.session.clone(), stake: self.stake },
            session,
            verify: self.verify.of_engine(),
            profiles: self.profiles.as_deref().map(traces::profiles).transpose()?.unwrap_or_default(),
            calibrations: std::iter::once((None, calibrations.all)).chain(of_tools).collect(),
            state: self.keeping.folder()?,
            max_receipt_bytes: self.max_receipts.saturating_mul(MIB),
            max_message_bytes: usize::try_from(self.max_message * MIB)?,
            quarantine,
            explain_refusal: self.explain_refusal,
            vantage: Vantage::SameUser,
        })
    }
}
