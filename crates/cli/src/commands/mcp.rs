use std::process::ExitCode;

use anyhow::Context;
use credence_ledger::{Clock, LogVerifier};
use credence_pipeline::Authority;
use credence_server::{App, BLOCKING_THREADS, Setup, mcp, settings::Settings, steady::SteadyClock, telemetry};
use tokio::signal::unix::{SignalKind, signal};

use super::{Done, serve};
use crate::home::{Home, clock};

#[derive(clap::Args)]
pub struct Args {
    /// Any setting of [serve] in credence.toml that is not about HTTP, such as verify_mode=fixed; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = serve::pair)]
    settings: Vec<(String, String)>,
}

/// Standard output is the protocol's: whatever else there is to say goes to standard error.
pub fn run(home: &Home, args: Args) -> Done {
    let config = home.config()?;
    let settings = home.settings(&config.serve, &args.settings)?;
    let steady = SteadyClock::new(clock());
    let authority = open(home, &settings, steady.clock())?;
    let key = home.signer()?.context("the authority's key is not here: answers cannot be signed")?;
    let telemetry = telemetry::start(&settings).map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .context("the server could not start")?;
    let done = runtime.block_on(async {
        let setup = Setup {
            authority,
            log: LogVerifier::parse(&config.log_key)?,
            key,
            tokens: home.tokens(),
            folder: home.path().to_owned(),
            clock: steady.clock(),
            local_url: format!("http://{}", settings.listen),
            receipts: Some(home.receipts_key(&config)?),
            demo: None,
            steady: Some(steady),
            settings,
        };
        let app = App::new(setup)?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        mcp::stdio(app, stop).await.map_err(anyhow::Error::msg)
    });
    // A read of standard input that nobody waits for any more must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    telemetry.stop();
    done?;
    Ok(ExitCode::SUCCESS)
}

/// One process writes at a time. A service that runs answers MCP clients itself.
fn open(home: &Home, settings: &Settings, clock: Clock) -> anyhow::Result<Authority> {
    home.authority_at(clock).map_err(|error| match error.downcast_ref::<credence_ledger::Error>() {
        Some(credence_ledger::Error::Locked { pid, .. }) => {
            let url = match settings.public_url.trim_end_matches('/') {
                "" => format!("http://{}", settings.listen),
                public => public.to_owned(),
            };
            anyhow::anyhow!(
                "another process ({pid}) has this authority open: if that is `credence serve`, connect to its /mcp instead, which is \
                 the same; by the settings here that is {url}/mcp"
            )
        }
        _ => error,
    })
}
