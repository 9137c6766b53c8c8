//! A server on loopback that stands for every host: `/HOST/PATH?QUERY`.
#![allow(dead_code, reason = "each test uses a part")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::Response,
};
use credence_egress::Egress;
use credence_ingest::Crawler;

pub type Answer = (u16, Vec<(&'static str, String)>, Vec<u8>);

/// A path, and the headers of the request.
pub type Asked = (String, Vec<(String, String)>);

/// What is answered, and what was asked.
#[derive(Clone, Default)]
pub struct World {
    answers: Arc<Mutex<BTreeMap<String, Answer>>>,
    /// Path, what the body of the request holds, and the answer: before those by path alone.
    by_body: Arc<Mutex<Vec<(String, String, String)>>>,
    pub asked: Arc<Mutex<Vec<Asked>>>,
}

impl World {
    pub fn put(&self, path: &str, status: u16, body: impl Into<Vec<u8>>) {
        self.answers.lock().unwrap().insert(path.to_owned(), (status, Vec::new(), body.into()));
    }

    pub fn put_with(&self, path: &str, status: u16, headers: &[(&'static str, &str)], body: impl Into<Vec<u8>>) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.answers.lock().unwrap().insert(path.to_owned(), (status, headers, body.into()));
    }

    pub fn put_for(&self, path: &str, body: &str, answer: impl Into<String>) {
        self.by_body.lock().unwrap().push((path.to_owned(), body.to_owned(), answer.into()));
    }

    pub fn remove(&self, path: &str) {
        self.answers.lock().unwrap().remove(path);
    }

    pub fn paths(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }

    /// A crawler that takes this world for the net.
    pub async fn crawler(&self) -> Crawler {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let settings = credence_egress::Settings { loopback: true, ..credence_egress::Settings::for_purpose("crawl") };
        Crawler::new(Egress::new(settings).unwrap(), Some(url.parse().unwrap()), Arc::new(|_| None))
    }
}

async fn answer(State(world): State<World>, request: Request) -> Response<Body> {
    let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
    let path = format!("{}{query}", request.uri().path().trim_start_matches('/'));
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap_or("?").to_owned();
    let headers = request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    world.asked.lock().unwrap().push((path.clone(), headers));
    let asked = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap();
    let asked = String::from_utf8_lossy(&asked).into_owned();
    let by_body = world.by_body.lock().unwrap().clone();
    if let Some((_, _, answer)) = by_body.into_iter().find(|(at, holds, _)| *at == path && asked.contains(holds)) {
        return Response::new(Body::from(answer));
    }
    let found = world.answers.lock().unwrap().get(&path).cloned();
    let (status, headers, body) = found.unwrap_or((404, Vec::new(), Vec::new()));
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Body::from(body)).unwrap()
}
