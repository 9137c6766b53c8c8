//! The listener: URLs with a nonce that only one trial knows. A fetch of a trap is seen; a page has a text to read.
//!
//! [`Hits`] is the memory, [`Hits::answer`] decides what a request gets. A run starts [`Listener`] on a port of its own, or a service
//! routes `/.well-known/credence-probe/{nonce}` to the memory of its runs. A nonce that nobody watches gets the answer of a trap, so that
//! nobody can find out which are watched.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use tokio::{net::TcpListener, sync::oneshot};

/// Paths that are watched at most, so that a run of any length stays small.
const MAX_PATHS: usize = 100_000;

/// Who fetched what.
#[derive(Debug, Clone, Default)]
pub struct Hits {
    paths: Arc<Mutex<HashMap<String, Watched>>>,
}

#[derive(Debug, Default)]
struct Watched {
    page: Option<String>,
    fails: bool,
    hits: u64,
}

/// What a fetch gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The text.
    pub text: String,
    /// It is an error: 503, with a pause asked for.
    pub fails: bool,
}

impl IntoResponse for Fetched {
    fn into_response(self) -> Response {
        let kind = [("content-type", "text/plain; charset=utf-8")];
        if self.fails {
            return (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "60")], kind, self.text).into_response();
        }
        (kind, self.text).into_response()
    }
}

impl Hits {
    /// Watches a path; with a page, its fetchers get that text.
    pub fn watch(&self, path: &str, page: Option<String>) {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        if paths.len() < MAX_PATHS || paths.contains_key(path) {
            paths.entry(path.to_owned()).or_default().page = page;
        }
    }

    /// Watches a path that answers every fetch with an error.
    pub fn watch_failing(&self, path: &str) {
        self.watch(path, Some("The service is not available.".to_owned()));
        if let Some(watched) = self.paths.lock().unwrap_or_else(PoisonError::into_inner).get_mut(path) {
            watched.fails = true;
        }
    }

    /// How often a path was fetched.
    pub fn count(&self, path: &str) -> u64 {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).get(path).map_or(0, |watched| watched.hits)
    }

    /// Forgets a path.
    pub fn forget(&self, path: &str) {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
    }

    /// Counts a fetch, and says what it gets.
    pub fn answer(&self, path: &str) -> Fetched {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = paths.get_mut(path.trim_matches('/')) else {
            return Fetched { text: "ok".to_owned(), fails: false };
        };
        watched.hits += 1;
        Fetched { text: watched.page.clone().unwrap_or_else(|| "ok".to_owned()), fails: watched.fails }
    }
}

/// A listener on a port of its own, which ends when it is dropped, or one that a service hosts.
#[derive(Debug)]
pub struct Listener {
    base: String,
    address: Option<SocketAddr>,
    hits: Hits,
    _stop: Option<oneshot::Sender<()>>,
}

impl Listener {
    /// Listens on `bind`. `base` is the URL under which targets reach it; by default the bound address.
    pub async fn start(bind: SocketAddr, base: Option<String>, router: Router) -> std::io::Result<Self> {
        let socket = TcpListener::bind(bind).await?;
        let address = socket.local_addr()?;
        let hits = Hits::default();
        let (stop, stopped) = oneshot::channel::<()>();
        let service = routes(hits.clone()).merge(router);
        tokio::spawn(async move {
            let ended = async {
                // Ends with an error when the listener is dropped, which is what is waited for.
                let _ = stopped.await;
            };
            // A listener that fails sees no more hits; the trials' own outcomes say the rest.
            let _ = axum::serve(socket, service).with_graceful_shutdown(ended).await;
        });
        let base = base.unwrap_or_else(|| format!("http://{address}"));
        Ok(Self { base, address: Some(address), hits, _stop: Some(stop) })
    }

    /// One of a service that is reached at `base` and answers with [`Hits::answer`].
    pub fn hosted(base: String, hits: Hits) -> Self {
        Self { base, address: None, hits, _stop: None }
    }

    /// The URL under which targets reach it.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The port of its own, where it has one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// What it saw.
    pub fn hits(&self) -> &Hits {
        &self.hits
    }
}

fn routes(hits: Hits) -> Router {
    Router::new().route("/{nonce}", axum::routing::any(fetched)).with_state(hits)
}

async fn fetched(State(hits): State<Hits>, Path(nonce): Path<String>) -> Response {
    hits.answer(&nonce).into_response()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = format!("GET /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn only_watched_paths_count() {
        let listener = Listener::start("127.0.0.1:0".parse().unwrap(), None, Router::new()).await.unwrap();
        let (address, hits) = (listener.address().unwrap(), listener.hits());
        hits.watch("t-abc", None);
        hits.watch("p-def", Some("Hello, reader".into()));
        let unknown = get(address, "t-other").await;
        assert_eq!(hits.count("t-abc"), 0);
        let without_date = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with("date:")).map(str::to_owned).collect()
        };
        assert_eq!(without_date(&get(address, "t-abc?x=1").await), without_date(&unknown));
        assert!(get(address, "p-def").await.contains("Hello, reader"));
        assert_eq!((hits.count("t-abc"), hits.count("p-def"), hits.count("t-other")), (1, 1, 0));
    }
}
