//! The service's life: connections, work in the background, and an end that loses nothing.

use std::{future::Future, sync::Arc, time::Duration};

use axum::{Router, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use tower::ServiceExt;

use crate::{
    app::App, bodies::Cut, edge::Peer, limiter::network, pace::Paced, routes, settings::Settings, shares::Owner,
};

/// File descriptors that are not for connections.
const RESERVED: usize = 256;

/// How often the ledger's end is looked at for listeners.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
/// How often answers that left are recorded.
const RECORD_EVERY: Duration = Duration::from_secs(1);
/// How often a change of the tokens is looked for: the store's contract says within a second.
const RELOAD_TOKENS_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked whether namespaces of the engine have to be closed.
const MAKE_ROOM_EVERY: Duration = Duration::from_secs(5);
/// How often totals are looked at, for rates.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// How often agents are rescored whose scores the passing of time alone changes.
const SCORE_EVERY: Duration = Duration::from_secs(60);
/// How often callers that are gone are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// How long requests under way may take to end.
const GRACE: Duration = Duration::from_secs(25);
/// A head larger than this is refused.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Told to whoever connects when there are too many connections.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 154\r\n\r\n{\"type\":\"urn:credence:problem:too_many_connections\",\"title\":\"Service Unavailable\",\"status\":503,\"code\":\"too_many_connections\",\"detail\":\"come back later\"}\r\n";

/// Serves until `stop` resolves, then ends in order: requests under way are answered, answers that left are recorded, what was
/// learned and scored is durable.
pub async fn serve(app: Arc<App>, listener: TcpListener, stop: impl Future<Output = ()>) -> Result<(), String> {
    serve_with(app, Router::new(), listener, stop).await
}

/// The same with `more` routes beside ours, behind the same edge.
pub async fn serve_with(
    app: Arc<App>,
    more: Router<Arc<App>>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> Result<(), String> {
    let most = room_for_connections(&app.settings);
    let router = routes::router(Arc::clone(&app), more);
    let background = Background::start(&app);
    let (version, url) = (env!("CARGO_PKG_VERSION"), &app.office.base_url);
    tracing::info!(version, url, entries = app.tail.seen(), connections = most, "serving");
    let graceful = GracefulShutdown::new();
    let mut refusing = false;
    tokio::pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    refusing = false;
                    connect(&app, &router, &graceful, stream, Peer(address));
                }
                Err(error) => {
                    // Out of file descriptors, most likely: some will be free in a moment.
                    if !std::mem::replace(&mut refusing, true) {
                        tracing::warn!(%error, "connections cannot be accepted");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    drop(listener);
    tracing::info!("stopping");
    app.closing.send_replace(true);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
    background.stop(&app).await;
    finish(&app).await
}

/// Runs `work` with all that goes on beside requests, and ends in the same order: for whoever serves without a socket.
pub(crate) async fn attended<T>(app: &Arc<App>, work: impl Future<Output = T>) -> (T, Result<(), String>) {
    let background = Background::start(app);
    let done = work.await;
    app.closing.send_replace(true);
    background.stop(app).await;
    (done, finish(app).await)
}

/// How many connections there is room for: files and the ledger need descriptors too.
pub(crate) fn room_for_connections(settings: &Settings) -> usize {
    let wanted = settings.max_connections;
    let limit = rlimit::increase_nofile_limit((wanted + RESERVED) as u64).unwrap_or(1024);
    let room = usize::try_from(limit).unwrap_or(usize::MAX).saturating_sub(RESERVED).max(1);
    if room < wanted {
        tracing::warn!(room, wanted, "the limit of open files allows fewer connections than max_connections");
    }
    wanted.min(room)
}

fn connect(app: &Arc<App>, router: &Router, graceful: &GracefulShutdown, stream: TcpStream, peer: Peer) {
    let settings = &app.settings;
    let address = Owner::Address(network(peer.0.ip()));
    // Behind a proxy all come from one address.
    let most_of_one = if settings.trust_forwarded_for { usize::MAX } else { settings.max_connections_per_address };
    let Ok(place) = app.connections.take(address, 1, most_of_one as u64) else {
        app.metrics.turned_away("connections");
        tokio::spawn(refuse(stream));
        return;
    };
    // Small answers must not wait for more.
    let _ = stream.set_nodelay(true);
    let stream = Paced::new(stream, Duration::from_secs(settings.idle_seconds));
    let router = router.clone();
    let cut = Cut::default();
    let to_cut = cut.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(to_cut.clone());
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(settings.idle_seconds))
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        // A client that went away, sent something that is not HTTP, or does not read what it asked for; or an address with more connections
        // than others whose place another needs.
        tokio::select! {
            _ = connection => {}
            () = place.revoked() => {}
            () = cut.0.notified() => {}
        }
    });
}

async fn refuse(mut stream: TcpStream) {
    let told = async {
        stream.write_all(FULL).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
}

/// What runs beside the requests.
struct Background {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Background {
    fn start(app: &Arc<App>) -> Self {
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        let mut every = |period: Duration, what: &'static str, work: fn(&App) -> Result<(), String>| {
            let (app, mut stopped) = (Arc::clone(app), stop.subscribe());
            tasks.spawn(async move {
                let mut ticks = interval(period);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                ticks.tick().await;
                let mut failing = false;
                loop {
                    tokio::select! {
                        _ = stopped.wait_for(|stop| *stop) => return,
                        _ = ticks.tick() => {}
                    }
                    let app = Arc::clone(&app);
                    let done = tokio::task::spawn_blocking(move || work(&app)).await;
                    let done = done.unwrap_or_else(|e| Err(e.to_string()));
                    // Logged when it begins and when it ends, not every second.
                    match (&done, failing) {
                        (Err(error), false) => tracing::error!(%error, "{what} failed: it will be tried again"),
                        (Ok(()), true) => tracing::info!("{what} works again"),
                        _ => {}
                    }
                    failing = done.is_err();
                }
            });
        };
        every(FOLLOW_EVERY, "following the ledger", |app| {
            if app.is_current() { Ok(()) } else { app.follow().map_err(|e| e.to_string()) }
        });
        every(RECORD_EVERY, "recording answers that left", |app| app.record_answers().map_err(|e| e.to_string()));
        every(MAKE_ROOM_EVERY, "closing namespaces of the engine", |app| {
            app.engines.close_idle().map_err(|e| e.to_string())
        });
        every(SAMPLE_EVERY, "counting", |app| {
            app.samples.take(app);
            Ok(())
        });
        every(RELOAD_TOKENS_EVERY, "reading the tokens", |app| app.tokens.reload().map_err(|e| e.to_string()));
        every(SCORE_EVERY, "scoring", |app| app.authority.score_due().map_err(|e| e.to_string()));
        every(FORGET_EVERY, "forgetting callers", |app| {
            app.limiter.forget();
            Ok(())
        });
        every(Duration::from_secs(app.settings.snapshot_seconds), "keeping what was learned", |app| {
            app.engines.save().map_err(|e| e.to_string())
        });
        tasks.spawn(crate::probing::schedule::run(Arc::clone(app)));
        // Once, beside everything else: on a large ledger it takes minutes.
        let checked = Arc::clone(app);
        tasks.spawn(async move { drop(tokio::task::spawn_blocking(move || checked.check_ledger()).await) });
        Self { tasks, stop }
    }

    /// Ends what runs; answers that left are recorded first, for the end of the rest may take long.
    async fn stop(mut self, app: &Arc<App>) {
        self.stop.send_replace(true);
        let theirs = Arc::clone(app);
        let recorded = tokio::task::spawn_blocking(move || theirs.record_answers()).await;
        if let Ok(Err(error)) = recorded {
            tracing::error!(%error, "answers that left are not recorded yet");
        }
        while self.tasks.join_next().await.is_some() {}
    }
}

/// What must be durable before the end.
async fn finish(app: &Arc<App>) -> Result<(), String> {
    let theirs = Arc::clone(app);
    let done = tokio::task::spawn_blocking(move || -> Result<(), String> {
        let app = &*theirs;
        let recorded = app.record_answers().map_err(|error| format!("answers that left: {error}"));
        recorded
            .and(app.engines.save().map_err(|e| format!("what was learned: {e}")))
            .and(app.authority.score_now().map_err(|e| format!("scores: {e}")))
            .and(app.authority.flush().map_err(|e| format!("the checkpoint: {e}")))
    });
    let done = done.await.unwrap_or_else(|e| Err(e.to_string()));
    match &done {
        Ok(()) => tracing::info!("stopped: everything is durable"),
        Err(error) => tracing::error!(%error, "stopped, and not everything could be kept"),
    }
    done
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_refusal_is_well_formed() {
        let text = std::str::from_utf8(super::FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["code"], "too_many_connections");
    }
}
