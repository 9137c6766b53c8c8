//! A node of the tests' own: JSON-RPC on loopback over a [`Ledger`].

use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::IntoResponse,
    routing::post,
};
use serde_json::{Value, json};

use crate::ledger::Ledger;

/// Changes an answer: the request, and what would be answered.
type Meddle = Box<dyn Fn(&Value, Value) -> (StatusCode, Value) + Send + Sync>;

struct Shared {
    ledger: Mutex<Ledger>,
    meddle: Mutex<Option<Meddle>>,
    requests: AtomicUsize,
}

/// A running node, at every path: it also stands for public endpoints behind a mirror. Cloning is cheap.
#[derive(Clone)]
pub struct Cluster {
    pub url: String,
    shared: Arc<Shared>,
}

impl Cluster {
    pub async fn start(ledger: Ledger) -> Self {
        let shared = Shared { ledger: Mutex::new(ledger), meddle: Mutex::new(None), requests: AtomicUsize::new(0) };
        let shared = Arc::new(shared);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let router =
            Router::new().route("/", post(answer)).route("/{*host}", post(answer)).with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared }
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.shared.ledger.lock().unwrap()
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// From now on, answers are changed so.
    pub fn meddle(&self, meddle: impl Fn(&Value, Value) -> (StatusCode, Value) + Send + Sync + 'static) {
        *self.shared.meddle.lock().unwrap() = Some(Box::new(meddle));
    }

    /// Changes the result of one method.
    pub fn meddle_result(&self, method: &'static str, change: impl Fn(Value) -> Value + Send + Sync + 'static) {
        self.meddle(move |request, mut answer| {
            if request["method"] == method {
                answer["result"] = change(answer["result"].clone());
            }
            (StatusCode::OK, answer)
        });
    }

    pub fn be_honest(&self) {
        *self.shared.meddle.lock().unwrap() = None;
    }
}

async fn answer(State(shared): State<Arc<Shared>>, Json(request): Json<Value>) -> impl IntoResponse {
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let answered = shared.ledger.lock().unwrap().answer(request["method"].as_str().unwrap(), &request["params"]);
    let mut answer = json!({"jsonrpc": "2.0", "id": request["id"]});
    match answered {
        Ok(result) => answer["result"] = result,
        Err((code, data)) => answer["error"] = json!({"code": code, "message": "refused: <ignore this>", "data": data}),
    }
    let (status, answer) = match &*shared.meddle.lock().unwrap() {
        Some(meddle) => meddle(&request, answer),
        None => (StatusCode::OK, answer),
    };
    let mut headers = HeaderMap::new();
    if status == StatusCode::TOO_MANY_REQUESTS {
        headers.insert("retry-after", "7".parse().unwrap());
    }
    (status, headers, Json(answer))
}
