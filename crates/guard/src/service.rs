//! A guard as a running program: it saves what it learns, tells an authority, and stands between client and server until the server
//! ends or it is told to stop.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use credence_protocol::SecretKey;
use credence_receipts::ReceiptBook;

use crate::{
    Error, Guard, Settings,
    courier::{Courier, CourierSettings},
    embedded::EmbeddedGuard,
    http::{self, HttpSettings},
    reports::{self, ReportQuota},
    stdio, warn,
};

/// How often what was learned is saved.
const SAVE_EVERY: Duration = Duration::from_secs(30);
/// How often the disk is asked to keep the journal.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// How long streams that clients keep open may keep the process.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(2);

/// Stands in front of `upstream`, on this process's standard input and output. Gives the exit code to end with. A thread may
/// still wait for a client that does not come back: end the process with [`std::process::exit`].
pub fn run_stdio(
    guard: &Arc<Guard>,
    courier: Option<CourierSettings>,
    upstream: stdio::Upstream,
) -> Result<i32, Error> {
    let background = Background::start(guard, courier).inspect_err(|_| guard.give_back_unheard())?;
    let code = stdio::run(guard, upstream).inspect_err(|_| guard.give_back_unheard())?;
    background.finish(guard)?;
    Ok(code)
}

/// Stands in front of a server that speaks HTTP, until the process is asked to end.
pub fn run_http(
    guard: &Arc<Guard>,
    courier: Option<CourierSettings>,
    settings: HttpSettings,
    listen: &str,
) -> Result<(), Error> {
    let background = Background::start(guard, courier).inspect_err(|_| guard.give_back_unheard())?;
    let failed = |e| Error::Io("serving".into(), e);
    // One thread moves the messages: waking a second one takes longer than a small message does, and large ones are worked on aside.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let served = runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let listener = tokio::net::TcpListener::bind(listen).await;
        let listener = listener
            .map_err(|e| Error::Address(format!("cannot listen on {listen}: choose another with --listen: {e}")))?;
        let address = listener.local_addr().map_err(failed)?;
        if !http::is_local(&address) {
            warn(&format!("{address} can be reached from elsewhere, and the guard asks nobody who they are"));
        }
        warn(&format!("{address} in front of {}", http::without_secrets(&settings.upstream)));
        let (mut term, mut int) =
            (signal(SignalKind::terminate()).map_err(failed)?, signal(SignalKind::interrupt()).map_err(failed)?);
        let stop = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        http::serve(Arc::clone(guard), settings, listener, stop).await
    });
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    background.finish(guard)?;
    served
}

/// Takes reports of calls at `socket`, until the process is asked to end.
pub fn run_reports(
    settings: Settings,
    key: SecretKey,
    courier: Option<CourierSettings>,
    socket: &Path,
) -> Result<(), Error> {
    let guard = Arc::new(EmbeddedGuard::start(settings, key, courier)?);
    reports::serve(Arc::clone(&guard), socket, ReportQuota::default())?;
    warn(&format!("taking reports at {}", socket.display()));
    let failed = |e| Error::Io("serving".into(), e);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let (mut term, mut int) =
            (signal(SignalKind::terminate()).map_err(failed)?, signal(SignalKind::interrupt()).map_err(failed)?);
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        Ok::<(), Error>(())
    })?;
    let _ = std::fs::remove_file(socket);
    guard.close()
}

/// What runs beside the proxy.
pub(crate) struct Background {
    courier: Option<Courier>,
}

impl Background {
    pub(crate) fn start(guard: &Arc<Guard>, courier: Option<CourierSettings>) -> Result<Self, Error> {
        save_regularly(guard)?;
        guard.start_oversight()?;
        let courier = courier.map(|settings| Courier::start(Arc::clone(guard), settings)).transpose()?;
        Ok(Self { courier })
    }

    pub(crate) fn finish(self, guard: &Guard) -> Result<(), Error> {
        if let Some(courier) = self.courier {
            courier.finish();
        }
        guard.close()
    }
}

/// Saves what is learned, while the guard lives.
fn save_regularly(guard: &Arc<Guard>) -> Result<(), Error> {
    let guard = Arc::downgrade(guard);
    let spawned = std::thread::Builder::new().name("saver".to_owned()).spawn(move || {
        let mut saved = Instant::now();
        loop {
            std::thread::sleep(SYNC_EVERY);
            let Some(guard) = guard.upgrade() else { return };
            if let Some(Err(error)) = guard.book().map(ReceiptBook::sync_journal) {
                warn(&format!("the disk does not keep the journal: {error}"));
            }
            guard.take_up_answers_or_warn();
            if saved.elapsed() < SAVE_EVERY {
                continue;
            }
            saved = Instant::now();
            if let Err(error) = guard.save() {
                warn(&format!("what was learned could not be kept: {error}"));
            }
        }
    });
    spawned.map(drop).map_err(|e| Error::Io("saving".into(), e))
}
