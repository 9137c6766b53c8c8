//! Sources that the authority crawls itself, read by its real crawler.
//!
//! Nothing outside this machine is asked. A server on loopback stands in for GitHub and for the agents' own hosts and answers in their
//! shapes; the crawler asks it as its mirror. Links are claimed, proved by a line that the stand-in serves, and recorded like any other.
//! How many stars a repository has and what a host discloses follow from the agent's merit, or from what it bought.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    extract::{Request, State},
    http::StatusCode,
};
use credence_ingest::{Source, builtin};
use credence_ledger::Clock;
use credence_pipeline::{Authority, NewSource};
use credence_protocol::{EntityId, ExternalSubject, LinkStatement, SecretKey, Timestamp};
use credence_server::{
    App,
    crawl::{CrawlSettings, Installed, Runner, Totals},
};
use serde_json::json;
use tokio::{net::TcpListener, sync::watch};

use crate::{
    Error,
    cast::{CAST, Character, STORY_DAYS},
};

/// The built-in sources that are asked.
const ASKED: [&str; 2] = ["github", "security-txt"];
/// Stars at which GitHub's source gives 100.
const STARS_AT_BEST: f64 = 100_000.0;
/// Agents above this merit say how to report a vulnerability; above the second one they have a policy too.
const DISCLOSES: f64 = 45.0;
const HAS_POLICY: f64 = 70.0;
const DAY_SECONDS: i64 = 86_400;

/// Bodies by the path that the mirror is asked for: `/HOST/PATH`.
type Answers = Arc<Mutex<BTreeMap<String, String>>>;

/// The crawler of the demo, and what it asks.
pub struct Outside {
    runner: Runner<App>,
    answers: Answers,
    app: Arc<App>,
    clock: Clock,
}

impl Outside {
    /// Adds the crawled sources to the authority. The second part is the stand-in, to be run beside the crawler.
    pub async fn start(app: Arc<App>, clock: Clock) -> Result<(Self, impl Future<Output = ()> + Send), Error> {
        let answers = Answers::default();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mirror = format!("http://{}/", listener.local_addr()?);
        let mirror = mirror.parse().map_err(|e| refused("the address of the stand-in", format!("{e}")))?;
        let settings = CrawlSettings {
            contact: None,
            mirror: Some(mirror),
            secrets: Arc::new(|_| None),
            registries: Arc::default(),
            clock: Arc::clone(&clock),
        };
        let installed = blocking(&app, |app| ASKED.iter().map(|name| install(app.authority(), name)).collect()).await?;
        let runner =
            Runner::new(Arc::clone(&app), installed, &settings).map_err(|e| refused("a crawler", e.to_string()))?;
        let router = Router::new().fallback(answer).with_state(Arc::clone(&answers));
        let stand_in = async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the stand-in for outside sources ended");
            }
        };
        Ok((Self { runner, answers, app, clock }, stand_in))
    }

    /// Claims and proves the repository and the host of the chosen agents, as far as they have a host and are registered. Gives how
    /// many links are proven.
    pub async fn link_agents(&self, chosen: impl Fn(&Character) -> bool) -> Result<usize, Error> {
        let mut proven = 0;
        for one in CAST.iter().filter(|one| one.is_active(STORY_DAYS) && chosen(one)) {
            let Some(host) = one.host else { continue };
            self.publish(one, host);
            let repository = format!("repository:github.com/{}/{}", one.owner, one.id);
            for (subject, path) in [
                (
                    repository,
                    format!("/raw.githubusercontent.com/{}/{}/HEAD/.well-known/credence-link", one.owner, one.id),
                ),
                (format!("host:{host}"), format!("/{host}/.well-known/credence-link")),
            ] {
                let Some(statement) = self.claim(one, &subject).await? else { continue };
                self.put(path, statement.line());
                let found = self.runner.prove(&statement, None).await.map_err(|e| refused("a link", e.to_string()))?;
                found.map_err(|why| refused("the proof of a link", why.to_string()))?;
                proven += 1;
            }
        }
        Ok(proven)
    }

    /// Asks everything that is due, once.
    pub async fn crawl(&self) -> Result<Totals, Error> {
        let (_stop, stopped) = watch::channel(false);
        let done = self.runner.run(&Default::default(), &stopped, &mut |_| {}).await;
        done.map_err(|e| refused("what was crawled", e.to_string()))
    }

    /// Asks what becomes due, until it is dropped.
    pub async fn crawl_on(&self) {
        let (_stop, stopped) = watch::channel(false);
        self.runner.run_until(stopped).await;
    }

    /// None for an agent that this story has not registered.
    async fn claim(&self, one: &'static Character, subject: &str) -> Result<Option<LinkStatement>, Error> {
        let subject = ExternalSubject::parse(subject)?;
        let agent = EntityId::new(one.id)?;
        blocking(&self.app, move |app| match app.authority().claim_link(&agent, &subject, 365) {
            Ok(statement) => Ok(Some(statement)),
            Err(credence_pipeline::Error::UnknownAgent(_)) => Ok(None),
            Err(error) => Err(error.into()),
        })
        .await
    }

    /// What others would answer about an agent.
    fn publish(&self, one: &Character, host: &str) {
        let now = (self.clock)();
        self.put(format!("/api.github.com/repos/{}/{}", one.owner, one.id), repository(one, now));
        if let Some(text) = security_txt(one, host, now) {
            self.put(format!("/{host}/.well-known/security.txt"), text);
        }
    }

    fn put(&self, path: String, body: String) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(path, body);
    }
}

fn refused(what: &str, why: String) -> Error {
    Error::Refused { what: what.to_owned(), why }
}

async fn blocking<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let app = Arc::clone(app);
    let done = tokio::task::spawn_blocking(move || work(&app)).await;
    done.map_err(|e| refused("a thread of the demo", e.to_string()))?
}

/// Registers a built-in source with a key of its own.
fn install(authority: &Authority, name: &str) -> Result<Installed, Error> {
    let file = builtin::FILES.iter().find(|(known, _)| *known == name);
    let (_, text) = file.ok_or_else(|| refused("a crawler", format!("{name} is not built in")))?;
    let source = Source::parse(&format!("{name}.toml"), text).map_err(|e| refused("a crawler", e.to_string()))?;
    authority.add_source(NewSource {
        description: Some(format!("{}: a crawler of this authority", source.title)),
        owner: Some(source.owner.clone()),
        roots: source.roots.clone(),
        ..NewSource::new(source.id.clone(), source.weight)
    })?;
    let key = SecretKey::generate()?;
    authority.add_key(&key.public(), source.id.clone())?;
    Ok(Installed::file(source, key))
}

async fn answer(State(answers): State<Answers>, request: Request) -> Result<String, StatusCode> {
    let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
    answers.get(request.uri().path()).cloned().ok_or(StatusCode::NOT_FOUND)
}

/// A repository as GitHub tells of it, in the members that the source requires.
fn repository(one: &Character, now: Timestamp) -> String {
    let popularity = one.shown("oss_popularity", 15.0 + 0.6 * one.merit.at(STORY_DAYS));
    let stars = ((popularity / 100.0 * STARS_AT_BEST.ln_1p()).exp_m1()).round();
    json!({
        "full_name": format!("{}/{}", one.owner, one.id), "private": false, "archived": false, "stargazers_count": stars as u64,
        "pushed_at": now.plus_seconds(-3 * DAY_SECONDS).to_string(),
    })
    .to_string()
}

/// RFC 9116; careless agents have none.
fn security_txt(one: &Character, host: &str, now: Timestamp) -> Option<String> {
    let merit = one.merit.at(STORY_DAYS);
    let expires = now.plus_seconds(180 * DAY_SECONDS);
    let policy = if merit > HAS_POLICY { format!("Policy: https://{host}/security-policy\n") } else { String::new() };
    (merit > DISCLOSES).then(|| format!("Contact: mailto:security@{host}\nExpires: {expires}\n{policy}"))
}
