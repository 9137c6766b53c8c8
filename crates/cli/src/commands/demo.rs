//! `credence serve --demo`: a temporary authority with simulated agents, on loopback.

use std::{
    io,
    net::IpAddr,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use credence_demo::{Demo, Plan, live};
use credence_engine::universal::DEFAULT_COVERAGE_FLOOR;
use credence_server::{BLOCKING_THREADS, settings::Settings, telemetry};
use indicatif::ProgressBar;
use serde_json::json;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use super::Done;
use crate::{
    home::{Config, Home},
    output::Output,
};

/// What takes no longer needs no progress bar.
const SILENT: Duration = Duration::from_millis(500);

/// The flags of `credence serve` that the demo understands.
pub struct DemoArgs {
    /// Of everything random.
    pub seed: u64,
    /// Where to listen, if that was said.
    pub listen: Option<String>,
    /// An address for others, if that was said: there is none.
    pub public_url: Option<String>,
    /// Other settings.
    pub flags: Vec<(String, String)>,
}

pub fn run(home: &Home, out: &Output, args: DemoArgs) -> Done {
    let begun = Instant::now();
    let settings = settings(home, &args)?;
    let listener = listen(&settings.listen, args.listen.is_some())?;
    let local_url = format!("http://{}", listener.local_addr()?);
    let telemetry = telemetry::start(&settings).map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .context("the service could not start")?;
    // From here on an interruption ends in order, and the folder goes with it.
    let (mut terminate, mut interrupt) = {
        let _within = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    let folder = tempfile::Builder::new()
        .prefix("credence-demo-")
        .tempdir()
        .context("there is no place for a temporary folder")?;
    let done = runtime.block_on(async {
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        tokio::pin!(stop);
        let plan = Plan { seed: args.seed, ..Plan::default() };
        let (place, url, out_there) = (folder.path().to_owned(), local_url.clone(), Output { json: out.json });
        let building = tokio::task::spawn_blocking(move || {
            let mut bar = None;
            let mut lived = |day: u32| {
                if begun.elapsed() > SILENT {
                    let of = || out_there.progress(Some(plan.days.into()), "living through sixty days");
                    bar.get_or_insert_with(of).set_position(day.into());
                }
            };
            let built = Demo::build(&place, plan, settings, &url, &mut lived);
            bar.inspect(ProgressBar::finish_and_clear);
            built
        });
        let demo = tokio::select! {
            built = building => built.context("the history came to an end too soon")??,
            () = &mut stop => return Ok(()),
        };
        let here = Home::at(folder.path().to_owned());
        let config = Config {
            log_key: demo.log_key.clone(),
            coverage_floor: DEFAULT_COVERAGE_FLOOR,
            serve: toml::Table::new(),
            chain: Vec::new(),
        };
        std::fs::write(here.config_file(), toml::to_string(&config)?).context("cannot write credence.toml")?;
        let (agents, entries) = (demo.agents(), demo.entries()?);
        let seconds = begun.elapsed().as_secs_f64();
        let listener = TcpListener::from_std(listener)?;
        let said = json!({
            "url": local_url, "agents": agents, "entries": entries, "seconds": seconds, "token": demo.tokens.verify,
            "data": folder.path(), "log_key": demo.log_key, "seed": plan.seed,
        });
        let key = demo.key.did_key();
        out.show(&said, || welcome(&local_url, &key, agents, plan.days, entries, folder.path()))?;
        let (app, traffic) = live::of(demo, local_url.clone());
        let traffic = tokio::spawn(traffic);
        let ended = credence_server::serve(app, listener, stop).await;
        traffic.abort();
        let _ = traffic.await;
        ended.map_err(anyhow::Error::msg)
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    telemetry.stop();
    // Said where it fails: left to itself the folder would go, or stay, in silence.
    let path = folder.path().to_owned();
    folder.close().with_context(|| format!("the demo's folder could not be removed: {}", path.display()))?;
    done?;
    Ok(ExitCode::SUCCESS)
}

/// A demo is for whoever sits at this machine.
fn settings(home: &Home, args: &DemoArgs) -> anyhow::Result<Settings> {
    ensure!(args.public_url.is_none(), "--demo has no address for others: leave --public-url out");
    let mut flags = args.flags.clone();
    flags.extend(args.listen.clone().map(|address| ("listen".to_owned(), address)));
    let mut settings = home.settings(&toml::Table::new(), &flags)?;
    ensure!(settings.public_url.is_empty(), "--demo has no address for others: leave public_url out");
    if !flags.iter().any(|(key, _)| key == "log") && std::env::var_os("CREDENCE_LOG").is_none() {
        settings.log = credence_server::settings::LogLevel::Warn;
    }
    let host = settings.listen.rsplit_once(':').map_or(settings.listen.as_str(), |(host, _)| host);
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    if host != "localhost" && !address.is_ok_and(|address| address.is_loopback()) {
        bail!("--demo listens on this machine only, such as 127.0.0.1:8420, not on {}", settings.listen);
    }
    Ok(settings)
}

/// Listens at `address`. If that is the default and it is taken, any free port does.
fn listen(address: &str, was_given: bool) -> anyhow::Result<std::net::TcpListener> {
    let listener = match std::net::TcpListener::bind(address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !was_given => {
            eprintln!("note: {address} is taken: another port is used");
            std::net::TcpListener::bind("127.0.0.1:0")
        }
        bound => bound,
    };
    let listener = listener.with_context(|| format!("cannot listen on {address}: choose another with --listen"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn welcome(url: &str, key: &str, agents: usize, days: u32, entries: u64, folder: &std::path::Path) -> String {
    // As it was called here: it need not be on the path.
    let credence = std::env::args().next().unwrap_or_else(|| "credence".to_owned());
    let answer = "v1/entities/atlas-travel/trust-signals?url=https://atlas-travel.example/book&context=purchase";
    format!(
        "Credence demo: {agents} simulated agents, {days} days of history in {entries} entries, and live traffic.\n\
         Nothing here is real, and it is gone when you stop it (Ctrl-C).\n  \
         open   {url}/\n  \
         try    curl -s '{url}/{answer}' | {credence} check - --key {key}\n         \
         {credence} --data {} audit\n         \
         claude mcp add --transport http credence-demo {url}/mcp\n",
        folder.display()
    )
}
