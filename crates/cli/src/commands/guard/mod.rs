mod setup;
mod status;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use credence_guard::{
    Caller, Guard, GuardMode, Settings,
    courier::{self, Courier},
    folder, http,
    settings::{DEFAULT_CANARIES, DEFAULT_MESSAGE_BYTES, DEFAULT_RECEIPT_BYTES},
    stdio,
};
use credence_protocol::{EntityId, SecretKey};
use credence_verify::{Calibrations, Stake};

use super::Done;
use crate::{input, keyfile, output::Output, traces};

/// What was learned is kept this often.
const SAVE_EVERY: Duration = Duration::from_secs(30);
/// Programs whose first argument says what they run.
const RUNNERS: [&str; 15] = [
    "env",
    "sudo",
    "mcp-remote",
    "npx",
    "npm",
    "node",
    "bun",
    "bunx",
    "deno",
    "python",
    "python3",
    "uv",
    "uvx",
    "pipx",
    "docker",
];

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
    /// The public key that receipts and summaries are signed with, to be registered at an authority
    Key(StateArgs),
}

#[derive(clap::Args)]
pub struct RunArgs {
    /// The server's name, by which its receipts are found [default: from the command]
    #[arg(long)]
    name: Option<String>,
    /// What is done about a result that is not believed
    #[arg(long, value_enum, default_value_t = ModeArg::Flag)]
    mode: ModeArg,
    /// The agent that calls; without it the request's _meta (credence/agent) or headers (Credence-Agent) may say
    #[arg(long, env = "CREDENCE_GUARD_AGENT")]
    agent: Option<EntityId>,
    /// The session; without it _meta (credence/session) or headers may say [default: one for each run]
    #[arg(long, env = "CREDENCE_GUARD_SESSION")]
    session: Option<String>,
    /// What is at stake; without it _meta (credence/stake) or headers may say
    #[arg(long, value_enum)]
    stake: Option<StakeArg>,
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
    #[arg(long, value_name = "SHARE", value_parser = share, default_value_t = DEFAULT_CANARIES)]
    canaries: f64,
    #[command(flatten)]
    keeping: StateArgs,
    /// Room for receipts in MiB; the oldest are let go beyond it
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_RECEIPT_BYTES / MIB, value_parser = clap::value_parser!(u64).range(1..))]
    max_receipts: u64,
    /// The largest message that is passed on, in MiB
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_MESSAGE_BYTES as u64 / MIB, value_parser = clap::value_parser!(u64).range(1..=4096))]
    max_message: u64,
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
        if let Some(folder) = &self.state {
            return Ok(folder.clone());
        }
        let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = of("XDG_STATE_HOME").or_else(|| Some(of("HOME")?.join(".local").join("state")));
        Ok(base
            .context("neither XDG_STATE_HOME nor HOME is set: name a folder with --state")?
            .join("credence")
            .join("guard"))
    }

    /// The key that signs; made when there is none and `make`.
    pub fn secret(&self, make: bool) -> anyhow::Result<SecretKey> {
        const VARIABLE: &str = "CREDENCE_GUARD_KEY";
        let file = self.folder()?.join("provider.jwk");
        match &self.key {
            Some(path) => keyfile::read(path),
            None if std::env::var_os(VARIABLE).is_some() => keyfile::from_environment_or(VARIABLE, &file),
            None if make || file.try_exists().with_context(|| format!("cannot look into {}", file.display()))? => {
                Ok(folder::key(&file)?)
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

#[derive(Clone, Copy, ValueEnum)]
enum StakeArg {
    Low,
    Medium,
    High,
    Critical,
}

pub fn run(out: &Output, args: Args) -> Done {
    match args.command {
        Some(Sub::Install(args)) => return setup::install(out, args),
        Some(Sub::Uninstall(args)) => return setup::uninstall(out, args),
        Some(Sub::Status(args)) => return status::run(out, args),
        Some(Sub::Key(args)) => return key(out, &args),
        None => {}
    }
    let run = args.run;
    let settings = run.settings()?;
    let key = run.keeping.secret(true)?;
    let courier = run.courier()?;
    if let (Some(upstream), Some(listen)) = (&run.upstream, &run.listen) {
        let route = http::Route { upstream: upstream.clone(), allowed_origins: run.allowed_origins.clone() };
        return proxy(Guard::start(settings, key)?, route, listen, courier);
    }
    let Some((command, rest)) = run.command.split_first() else {
        bail!(
            "what should be guarded? `credence guard -- COMMAND ARGS…` runs a server, --upstream URL --listen ADDRESS proxies one"
        );
    };
    let guard = Guard::start(settings, key)?;
    keep_saving(&guard)?;
    let courier = courier.map(|route| Courier::start(Arc::clone(&guard), route)).transpose()?;
    let code = stdio::run(&guard, command, rest)?;
    if let Some(courier) = courier {
        courier.finish();
    }
    guard.close()?;
    // A thread may still wait for a client that does not come back.
    std::process::exit(code);
}

/// Stands in front of a server that speaks HTTP, until it is asked to end.
fn proxy(guard: Arc<Guard>, route: http::Route, listen: &str, courier: Option<courier::Route>) -> Done {
    keep_saving(&guard)?;
    let courier = courier.map(|route| Courier::start(Arc::clone(&guard), route)).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let listener = tokio::net::TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("cannot listen on {listen}: choose another with --listen"))?;
        let address = listener.local_addr()?;
        if !http::is_local(&address) {
            eprintln!(
                "credence guard: {address} can be reached from elsewhere, and the guard asks nobody who they are"
            );
        }
        eprintln!("credence guard: {} in front of {}", address, http::shown(&route.upstream));
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let stop = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        Ok::<_, anyhow::Error>(http::serve(Arc::clone(&guard), route, listener, stop).await?)
    });
    // Streams that clients keep open must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(2));
    if let Some(courier) = courier {
        courier.finish();
    }
    guard.close()?;
    served?;
    Ok(ExitCode::SUCCESS)
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

/// Keeps what is learned, now and then.
fn keep_saving(guard: &Arc<Guard>) -> anyhow::Result<()> {
    let guard = Arc::downgrade(guard);
    std::thread::Builder::new().name("saver".to_owned()).spawn(move || {
        loop {
            std::thread::sleep(SAVE_EVERY);
            let Some(guard) = guard.upgrade() else { return };
            if let Err(error) = guard.save() {
                eprintln!("credence guard: what was learned could not be kept: {error}");
            }
        }
    })?;
    Ok(())
}

impl RunArgs {
    fn courier(&self) -> anyhow::Result<Option<courier::Route>> {
        let Some(authority) = &self.authority else { return Ok(None) };
        let token = match &self.token_file {
            Some(path) => Some(String::from_utf8(input::file(path, 4096)?)?.trim().to_owned()),
            None => std::env::var("CREDENCE_GUARD_TOKEN").ok().filter(|token| !token.is_empty()),
        };
        Ok(Some(courier::Route {
            authority: authority.clone(),
            token,
            every: Duration::from_secs(self.report_every),
            receipts: self.send_receipts,
            salts: self.send_salts,
        }))
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => match &self.upstream {
                Some(url) => named_after_url(url),
                None => named_after(&self.command),
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
        Ok(Settings {
            name,
            provider: self.keeping.provider.clone(),
            mode: match self.mode {
                ModeArg::Observe => GuardMode::Observe,
                ModeArg::Flag => GuardMode::Flag,
                ModeArg::Enforce => GuardMode::Enforce,
            },
            caller: Caller {
                agent: self.agent.clone(),
                session: self.session.clone(),
                stake: self.stake.map(|stake| match stake {
                    StakeArg::Low => Stake::Low,
                    StakeArg::Medium => Stake::Medium,
                    StakeArg::High => Stake::High,
                    StakeArg::Critical => Stake::Critical,
                }),
            },
            session,
            verify: self.verify.of_engine(),
            profiles: self.profiles.as_deref().map(traces::profiles).transpose()?.unwrap_or_default(),
            calibrations: std::iter::once((None, calibrations.all)).chain(of_tools).collect(),
            content_injection: self.content_injection,
            canaries: self.canaries,
            state: self.keeping.folder()?,
            max_receipt_bytes: self.max_receipts.saturating_mul(MIB),
            max_message_bytes: usize::try_from(self.max_message * MIB)?,
        })
    }
}

/// Flags of runners whose value follows.
const WITH_VALUE: [&str; 18] = [
    "-e",
    "--env",
    "--env-file",
    "-v",
    "--volume",
    "--mount",
    "--name",
    "--network",
    "-p",
    "--publish",
    "-w",
    "--workdir",
    "-u",
    "--user",
    "--with",
    "--from",
    "--python",
    "--directory",
];
/// Words of runners that are no program.
const VERBS: [&str; 6] = ["run", "exec", "x", "dlx", "tool", "start"];
/// Names that say nothing: the folder's says more.
const GENERIC: [&str; 10] = ["index", "main", "server", "app", "cli", "mod", "dist", "build", "src", "bin"];

/// A name from a command: `npx -y @scope/server-files /tmp` is `server-files`. Values of flags and of variables may be secrets, and
/// never become part of it.
fn named_after(command: &[String]) -> String {
    let Some((program, rest)) = command.split_first() else { return "server".to_owned() };
    let name = name_of(program);
    if RUNNERS.contains(&name.as_str()) {
        let mut args = rest.iter().enumerate();
        while let Some((n, arg)) = args.next() {
            if WITH_VALUE.contains(&arg.as_str()) {
                args.next();
            } else if !arg.starts_with('-') && !arg.contains('=') && !VERBS.contains(&arg.as_str()) {
                return named_after(&rest[n..]);
            }
        }
    }
    if let Ok(url) = program.parse::<url::Url>()
        && url.host().is_some()
    {
        return named_after_url(&url);
    }
    if name.is_empty() { "server".to_owned() } else { name }
}

/// The last part of a path or package that says something.
fn name_of(path: &str) -> String {
    let mut parts = path.rsplit(['/', '\\']).filter(|part| !part.is_empty()).map(|part| {
        let stem = match part.rsplit_once('.') {
            Some((stem, ending))
                if !stem.is_empty() && ending.len() <= 3 && !ending.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                stem
            }
            _ => part,
        };
        let unversioned = stem.split(['@', ':']).find(|part| !part.is_empty()).unwrap_or_default();
        safe(unversioned)
    });
    let last = parts.next().unwrap_or_default();
    if !GENERIC.contains(&last.as_str()) {
        return last;
    }
    parts.find(|part| !part.is_empty() && !GENERIC.contains(&part.as_str())).unwrap_or(last)
}

fn named_after_url(url: &url::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    safe(&url.port().map_or_else(|| host.to_owned(), |port| format!("{host}-{port}")))
}

fn safe(text: &str) -> String {
    let one = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = text.chars().map(one).take(64).collect();
    name.trim_start_matches(['.', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_after_what_they_run() {
        let name = |command: &str| named_after(&command.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for (command, expected) in [
            ("npx -y @modelcontextprotocol/server-filesystem /tmp", "server-filesystem"),
            ("npx -y some-server@1.2.3", "some-server"),
            ("/usr/bin/python3 ./my_server.py --x", "my_server"),
            ("python -m weather", "weather"),
            ("uvx mcp-server-git", "mcp-server-git"),
            ("./target/release/thing", "thing"),
            ("node", "node"),
            ("node /x/node_modules/server-everything/dist/index.js stdio", "server-everything"),
            ("python3 /a/weather/server.py", "weather"),
            ("docker run -i --rm -e TOKEN=abc123secret mcp/github", "github"),
            ("docker run -i -e TOKEN mcp/github:latest", "github"),
            ("env SECRET=1 node x.js", "x"),
            ("npx -y mcp-remote https://tools.example:8443/mcp", "tools.example-8443"),
            ("uv run --with mcp my-server", "my-server"),
            ("ümlaut", "-mlaut".trim_start_matches('-')),
        ] {
            assert_eq!(name(command), expected, "{command}");
            assert!(folder::check_name(&name(command)).is_ok());
        }
    }
}
