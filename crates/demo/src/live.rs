//! Live traffic: the same agents, sources and providers from now on, as an HTTP client like any other.

use std::{future::Future, sync::Arc, time::Duration};

use credence_engine::hcs25::output_verification::Window;
use credence_ledger::Clock;
use credence_server::App;
use fastrand::Rng;
use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::{
    Demo, Error, Tokens,
    cast::{CAST, Character, STORY_DAYS},
    clock::system_time,
    outside::Outside,
    providers::LATENCY_MS,
    sources::SOURCES,
    tools::{Tool, pick},
    world::{AgentCall, World},
};

/// Between two rounds of tool calls.
const ROUND: Duration = Duration::from_millis(500);
/// How long the service may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Rounds between two signals.
const SIGNAL_EVERY: u64 = 7;
/// Rounds between two outcomes.
const OUTCOME_EVERY: u64 = 21;
/// Rounds between two questions whether to go ahead.
const QUESTION_EVERY: u64 = 33;
/// Rounds between two reports of a provider.
const REPORT_EVERY: u64 = 15;
/// Rounds between two batches of receipts.
const RECEIPTS_EVERY: u64 = 27;
/// The share of verdicts that somebody later says something of.
const FEEDBACK: f64 = 0.04;

/// The service, and its traffic: to be run beside it, until it is dropped.
pub fn of(demo: Demo, url: String) -> (Arc<App>, impl Future<Output = ()> + Send) {
    let Demo { app, tokens, world, .. } = demo;
    let crawling = crawl(Arc::clone(&app), world.clock.clock());
    let traffic = async move {
        let Ok(client) = Client::builder().no_proxy().timeout(PATIENCE).build() else { return };
        let mut traffic = Traffic { world, client, url, tokens };
        let mut round = 0;
        if let Err(error) = traffic.profiles().await {
            tracing::warn!(error, "simulated traffic: the tools' profiles were not taken");
        }
        loop {
            tokio::time::sleep(ROUND).await;
            if let Err(error) = traffic.round(round).await {
                tracing::warn!(error, "simulated traffic: a round did not go through");
            }
            round += 1;
        }
    };
    (app, async move {
        tokio::join!(crawling, traffic);
    })
}

/// Links the agents and has the authority's crawler ask about them.
async fn crawl(app: Arc<App>, clock: Clock) {
    let crawling = async {
        let (outside, stand_in) = Outside::start(app, clock).await?;
        let asking = async {
            outside.link_agents(|_| true).await?;
            outside.crawl_on().await;
            Ok::<_, Error>(())
        };
        tokio::select! {
            asked = asking => asked,
            () = stand_in => Ok(()),
        }
    };
    if let Err(error) = crawling.await {
        tracing::warn!(%error, "the demo's crawler ended");
    }
}

struct Traffic {
    world: World,
    client: Client,
    url: String,
    tokens: Tokens,
}

type Sent = Result<(), String>;

impl Traffic {
    async fn round(&mut self, round: u64) -> Sent {
        self.calls().await?;
        let due = |every: u64| round % every == every - 1;
        if due(SIGNAL_EVERY) {
            self.signal().await?;
        }
        if due(OUTCOME_EVERY) {
            self.outcome().await?;
        }
        if due(QUESTION_EVERY) {
            self.question().await?;
        }
        if due(REPORT_EVERY) {
            self.report().await?;
        }
        if due(RECEIPTS_EVERY) {
            self.receipts().await?;
        }
        Ok(())
    }

    /// Some agents call tools: the service judges, and so do those who look at them.
    async fn calls(&mut self) -> Sent {
        let count = 1 + self.world.rng.usize(..2);
        let mut calls: Vec<AgentCall> = Vec::with_capacity(count);
        for _ in 0..count {
            let one = someone(&mut self.world.rng);
            calls.push(self.world.act(one, STORY_DAYS));
        }
        let traces: Vec<Value> = calls.iter().map(AgentCall::trace).collect();
        let token = self.tokens.verify.clone();
        let said = self.post("/v1/verify/batch", &token, &json!({ "traces": traces })).await?;
        for (one, verdict) in calls.iter().zip(said["results"].as_array().into_iter().flatten()) {
            let now = system_time();
            let checked = self.world.check(one, now).and_then(|said| self.world.receipt(one, said.as_ref(), now));
            checked.map_err(|e| e.to_string())?;
            if self.world.rng.f64() < FEEDBACK && verdict["posterior"].is_f64() {
                let told =
                    json!({ "tool": one.call.tool, "posterior": verdict["posterior"], "fabricated": !one.genuine });
                self.post("/v1/feedback", &token, &told).await?;
            }
        }
        Ok(())
    }

    /// A source measures an agent.
    async fn signal(&mut self) -> Sent {
        let one = someone(&mut self.world.rng);
        let watching: Vec<_> = SOURCES
            .iter()
            .filter(|source| one.watched_by.contains(&source.id))
            .flat_map(|source| source.measures.iter().map(move |measure| (source, measure)))
            .collect();
        let (source, measure) = pick(&mut self.world.rng, &watching);
        let measured =
            self.world.measured(one, source, measure, STORY_DAYS, system_time()).map_err(|e| e.to_string())?;
        match measured {
            Some(signal) => self.post_bytes("/v1/signals", signal).await,
            // The run could not tell.
            None => Ok(()),
        }
    }

    /// Somebody relied on an agent.
    async fn outcome(&mut self) -> Sent {
        let one = someone(&mut self.world.rng);
        let good = self.world.rng.f64() < one.goes_well(STORY_DAYS);
        let token = self.tokens.ingest.clone();
        self.post("/v1/outcomes", &token, &json!({ "agent": one.id, "good": good })).await.map(drop)
    }

    /// Somebody asks whether to go ahead, on a page of the agent's.
    async fn question(&mut self) -> Sent {
        let one = someone(&mut self.world.rng);
        let Some(host) = one.host else { return Ok(()) };
        let purpose = pick(&mut self.world.rng, &["purchase", "inquiry", "high-value"]);
        let path = format!("/v1/entities/{}/trust-signals?url=https://{host}/&context={purpose}", one.id);
        self.send(Method::GET, &path, "", Vec::new()).await.map(drop)
    }

    /// A provider reports on an agent.
    async fn report(&mut self) -> Sent {
        let one = someone(&mut self.world.rng);
        let provider = self.world.rng.usize(..self.world.providers.len());
        let aud = self.world.authority().origin().map_err(|e| e.to_string())?;
        let report = self.world.providers[provider].report(&aud, one.id, Window::Week, system_time());
        match report.map_err(|e| e.to_string())? {
            Some(report) => self.post_bytes("/v1/statements", report.canonical().as_bytes().to_vec()).await,
            None => Ok(()),
        }
    }

    /// The guard hands in what went through it since.
    async fn receipts(&mut self) -> Sent {
        let Some(batch) = self.world.guard.batch().map_err(|e| e.to_string())? else { return Ok(()) };
        self.post_bytes("/v1/receipts", serde_json::to_vec(&batch).map_err(|e| e.to_string())?).await
    }

    /// The gateway says what it knows of its tools: they answer over a network.
    async fn profiles(&self) -> Sent {
        let profile = json!({ "expected_latency_ms": LATENCY_MS, "has_network_io": true });
        for tool in Tool::ALL {
            let path = format!("/v1/tools/{}/profile", tool.name());
            self.send(Method::PUT, &path, &self.tokens.verify, profile.to_string().into_bytes()).await?;
        }
        Ok(())
    }

    async fn post(&self, path: &str, token: &str, body: &Value) -> Result<Value, String> {
        self.send(Method::POST, path, token, body.to_string().into_bytes()).await
    }

    /// What was signed is sent as it was signed.
    async fn post_bytes(&self, path: &str, body: Vec<u8>) -> Sent {
        self.send(Method::POST, path, &self.tokens.ingest, body).await.map(drop)
    }

    async fn send(&self, method: Method, path: &str, token: &str, body: Vec<u8>) -> Result<Value, String> {
        let failed = |why: String| format!("{path}: {why}");
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if !body.is_empty() {
            request = request.bearer_auth(token).header("Content-Type", "application/json").body(body);
        }
        let response = request.send().await.map_err(|e| failed(e.to_string()))?;
        let (status, bytes) = (response.status(), response.bytes().await.map_err(|e| failed(e.to_string()))?);
        if !status.is_success() {
            return Err(failed(format!("{status} {}", String::from_utf8_lossy(&bytes))));
        }
        serde_json::from_slice(&bytes).map_err(|e| failed(e.to_string()))
    }
}

/// An agent that is there today.
fn someone(rng: &mut Rng) -> &'static Character {
    loop {
        let one = &CAST[rng.usize(..CAST.len())];
        if one.is_active(STORY_DAYS) {
            return one;
        }
    }
}
