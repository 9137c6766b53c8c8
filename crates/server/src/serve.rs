//! The service's life: connections, work in the background, and an end that loses nothing.

use std::{
    future::Future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

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

use crate::{app::App, edge::Peer, routes};

/// How often the ledger's end is looked at for listeners.
const FOLLOW_EVERY: Duration = Duration::from_millis(100);
/// How often answers that left are recorded.
const RECORD_EVERY: Duration = Duration::from_secs(1);
/// How often what time alone changes is looked at: windows pass, and what rests on them ends.
const SETTLE_EVERY: Duration = Duration::from_secs(60);
/// How often callers that are gone are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// How long requests under way may take to end.
const GRACE: Duration = Duration::from_secs(25);
/// A head larger than this is refused.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Told to whoever connects when there are too many connections.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 154\r\n\r\n{\"type\":\"urn:credence:problem:too_many_connections\",\"title\":\"Service Unavailable\",\"status\":503,\"code\":\"too_many_connections\",\"detail\":\"come back later\"}\r\n";

/// Serves until `stop` resolves, then ends in order: requests under way are answered, answers that left are recorded, what was
/// learned and scored is durable.
pub async fn serve(app: Arc<App>, listener: TcpListener, stop: impl Future<Output = ()>) {
    serve_with(app, Router::new(), listener, stop).await;
}

/// The same with `more` routes beside ours, behind the same edge.
pub async fn serve_with(app: Arc<App>, more: Router<Arc<App>>, listener: TcpListener, stop: impl Future<Output = ()>) {
    let router = routes::router(Arc::clone(&app), more);
    let background = Background::start(&app);
    let graceful = GracefulShutdown::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => connect(&app, &router, &graceful, stream, Peer(address)),
                Err(error) => {
                    // Out of file descriptors, most likely: some will be free in a moment.
                    tracing::warn!(%error, "a connection could not be accepted");
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
    background.stop().await;
    finish(&app).await;
}

fn connect(app: &Arc<App>, router: &Router, graceful: &GracefulShutdown, stream: TcpStream, peer: Peer) {
    if app.connections.fetch_add(1, Ordering::AcqRel) >= app.settings.max_connections {
        app.connections.fetch_sub(1, Ordering::AcqRel);
        app.metrics.turned_away("connections");
        tokio::spawn(refuse(stream));
        return;
    }
    // Small answers must not wait for more.
    let _ = stream.set_nodelay(true);
    let router = router.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(peer);
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(app.settings.idle_seconds))
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    let app = Arc::clone(app);
    tokio::spawn(async move {
        // A client that went away, or sent what is no HTTP.
        let _ = connection.await;
        app.connections.fetch_sub(1, Ordering::AcqRel);
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
                    // Said when it begins and when it ends, not every second.
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
        every(RECORD_EVERY, "recording answers that left", |app| {
            app.outbox.record(&app.authority).map(drop).map_err(|e| e.to_string())
        });
        every(RECORD_EVERY, "reading the tokens", |app| app.tokens.reload().map_err(|e| e.to_string()));
        every(SETTLE_EVERY, "scoring", |app| app.authority.settle_scores().map_err(|e| e.to_string()));
        every(FORGET_EVERY, "forgetting callers", |app| {
            app.limiter.forget();
            Ok(())
        });
        every(Duration::from_secs(app.settings.snapshot_seconds), "keeping what was learned", |app| {
            app.engines.save().map_err(|e| e.to_string())
        });
        Self { tasks, stop }
    }

    async fn stop(mut self) {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// What must be durable before the end.
async fn finish(app: &Arc<App>) {
    let theirs = Arc::clone(app);
    let done = tokio::task::spawn_blocking(move || -> Result<(), String> {
        let app = &*theirs;
        let mut first = Ok(());
        loop {
            match app.outbox.record(&app.authority) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    first = Err(format!("answers that left: {error}"));
                    break;
                }
            }
        }
        first
            .and(app.engines.save().map_err(|e| format!("what was learned: {e}")))
            .and(app.authority.settle_scores().map_err(|e| format!("scores: {e}")))
            .and(app.authority.flush().map_err(|e| format!("the checkpoint: {e}")))
    });
    match done.await.unwrap_or_else(|e| Err(e.to_string())) {
        Ok(()) => tracing::info!("stopped: everything is durable"),
        Err(error) => tracing::error!(%error, "stopped, and not everything could be kept"),
    }
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
