use std::{process::ExitCode, sync::Arc};

use anyhow::{Context, ensure};
use credence_engine::universal::DEFAULT_COVERAGE_FLOOR;
use credence_protocol::EntityId;
use credence_server::{
    App, BLOCKING_THREADS, Setup,
    crawl::Runner,
    steady::SteadyClock,
    telemetry,
    tokens::{NewToken, Scope},
};
use serde_json::json;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use super::{Done, crawl, demo, init};
use crate::{
    home::{Home, clock, now},
    output::Output,
};

/// How long questions under way may take to end.
const CRAWL_GRACE: std::time::Duration = std::time::Duration::from_secs(15);

#[derive(clap::Args)]
pub struct Args {
    /// Where to listen [default: 127.0.0.1:8420]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where others reach it, such as https://trust.example [default: where it listens]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Any setting of [serve] in credence.toml, such as max_in_flight=100; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair)]
    settings: Vec<(String, String)>,
    /// A temporary authority with simulated agents, a history and live traffic, to look at and try; gone when it ends
    #[arg(long)]
    demo: bool,
    /// Another story: of everything that is random in the demo
    #[arg(long, value_name = "N", default_value_t = 7, requires = "demo")]
    demo_seed: u64,
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("KEY=VALUE is needed")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `names_folder`: the authority's folder was named on the command line.
pub fn run(home: &Home, out: &Output, args: Args, names_folder: bool) -> Done {
    if args.demo {
        ensure!(!names_folder, "--demo has a folder of its own, which goes when it ends: leave --data out");
        let Args { demo_seed: seed, listen, public_url, settings: flags, .. } = args;
        return demo::run(home, out, demo::DemoArgs { seed, listen, public_url, flags });
    }
    let mut flags = args.settings;
    flags.extend(args.listen.map(|address| ("listen".to_owned(), address)));
    flags.extend(args.public_url.map(|url| ("public_url".to_owned(), url)));
    let exists = home.config_file().exists();
    let set = if exists { home.config()?.serve } else { toml::Table::new() };
    let settings = home.settings(&set, &flags)?;
    // Whatever can be wrong is wrong before anything is made.
    let listener = std::net::TcpListener::bind(&settings.listen)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .with_context(|| format!("cannot listen on {}: choose another with --listen", settings.listen))?;
    let telemetry = telemetry::start(&settings).map_err(anyhow::Error::msg)?;
    let created = if exists { None } else { Some(init::create(home, None, DEFAULT_COVERAGE_FLOOR)?) };
    let config = home.config()?;
    let tokens = home.tokens();
    let steady = SteadyClock::new(clock());
    let authority = home.authority_at(steady.clock())?;
    let key = home.signer()?.context("the authority's key is not here: answers cannot be signed")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .context("the service could not start")?;
    let done = runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        let local_url = format!("http://{}", listener.local_addr()?);
        // Once, when there is no token at all: whoever reads this now is the operator. Not before the service can start, lest
        // it be made and never shown.
        let first = if tokens.list()?.is_empty() {
            let new = NewToken { name: EntityId::new("admin")?, scopes: vec![Scope::Admin], expires_at: None };
            Some(tokens.create(new, now())?.1)
        } else {
            None
        };
        let public_url = settings.public_url.clone();
        let crawls = settings.crawl;
        let crawling = crawl::settings(home, None, &public_url, &settings.crawl_mirror)?;
        let crawling = crawl::with_registries(home, crawling)?;
        home.keep_served_at(settings.base_url(&local_url))?;
        let setup = Setup {
            authority,
            log: credence_ledger::LogVerifier::parse(&config.log_key)?,
            key,
            tokens,
            folder: home.path().to_owned(),
            clock: steady.clock(),
            settings,
            local_url: local_url.clone(),
            receipts: Some(home.receipts_key(&config)?),
            demo: None,
            steady: Some(steady),
        };
        let app = App::new(setup)?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let data = home.path();
        let shown = json!({ "listening": local_url, "data": data, "log_key": config.log_key, "admin_token": first });
        out.show(&shown, || {
            let mut text = String::new();
            if let Some(init::Created { origin, .. }) = &created {
                text += &format!("Created an authority in {}\n  log      {origin}\n", data.display());
            }
            if let Some(token) = &first {
                text += &format!("Admin token, shown once and not kept: keep it\n  {token}\n");
            }
            text += &format!("Listening on {local_url}\n  open     {local_url}/\n  try it   {local_url}/docs/\n  log key  {}\n", config.log_key);
            if local_url.starts_with("http://127.") && public_url.is_empty() {
                text += "Others cannot reach it there: set public_url before you issue credentials\n";
            }
            if first.is_some() {
                text += &format!(
                    "Next: curl -H \"Authorization: Bearer TOKEN\" -H \"Content-Type: application/json\" -d '{{\"agent\":\"my-agent\"}}' {local_url}/v1/agents\n"
                );
            }
            text
        })?;
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        let (ending, ended) = watch::channel(false);
        let crawlers = if crawls { crawl::installed(home, app.authority())? } else { Vec::new() };
        // Proofs of links are checked again also where nothing is crawled.
        app.read_registries_with(Arc::clone(&crawling.registries));
        let runner = Runner::new(Arc::clone(&app), crawlers, &crawling)?;
        let crawling = tokio::spawn(async move { runner.run_until(ended).await });
        #[cfg(feature = "chain")]
        let attesting = super::attest::beside_service(home, &app)?.map(|attester| {
            let ended = ending.subscribe();
            tokio::spawn(async move { attester.run_until(ended).await })
        });
        let stop = async {
            stop.await;
            ending.send_replace(true);
        };
        let ended = credence_server::serve(Arc::clone(&app), listener, stop).await;
        // What is under way is recorded first.
        let _ = tokio::time::timeout(CRAWL_GRACE, crawling).await;
        #[cfg(feature = "chain")]
        if let Some(attesting) = attesting {
            let _ = tokio::time::timeout(CRAWL_GRACE, attesting).await;
        }
        app.authority().flush()?;
        ended.map_err(anyhow::Error::msg).context("the service ended, and not everything could be kept")
    });
    // Whatever still waits (a client that never ends its request) must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    telemetry.stop();
    done?;
    Ok(ExitCode::SUCCESS)
}
