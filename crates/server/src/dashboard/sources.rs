//! *Sources and keys*: who measures, how much each counts, and with which keys they sign.

use std::{collections::BTreeMap, sync::Arc};

use askama::Template;
use axum::{extract::State, http::StatusCode, response::Response};
use credence_pipeline::query;
use credence_protocol::AUTHORITY_SOURCE;

use super::{
    Frame, Viewer,
    format::{count, encoded, short},
    html,
};
use crate::{app::App, problem::Problem};

struct Source {
    id: String,
    anchor: String,
    weight: String,
    silenced: bool,
    description: String,
    owner: Option<String>,
    methodology: Option<String>,
    own: bool,
    signals: String,
    agents: String,
    seq: u64,
    keys: Vec<Key>,
}

struct Key {
    id: String,
    did: String,
    seq: u64,
    replaces: Option<String>,
    revoked_from: Option<u64>,
}

#[derive(Template)]
#[template(path = "sources.html")]
struct SourcesPage {
    frame: Frame,
    sources: Vec<Source>,
    issuer: String,
    log_key: String,
}

pub(super) async fn page(State(app): State<Arc<App>>, viewer: Viewer) -> Response {
    let frame = Frame::new(&app, &viewer, "sources");
    let made = app.work(read).await;
    super::page(frame, made, |frame, page| html(StatusCode::OK, &SourcesPage { frame, ..page }))
}

fn read(app: &App) -> Result<SourcesPage, Problem> {
    let counts = app.rankings.with(app, super::ranking::Ranking::by_source)?;
    let view = app.authority.ledger().view()?;
    let mut keys: BTreeMap<String, Vec<Key>> = BTreeMap::new();
    for (id, row) in query::keys(&*view)? {
        let key = Key {
            id,
            did: row.public_key.did_key(),
            seq: row.seq,
            replaces: row.replaces.map(|key| key.to_string()),
            revoked_from: row.revoked_from,
        };
        keys.entry(row.source.to_string()).or_default().push(key);
    }
    let mut rows = query::sources(&*view)?;
    rows.sort_by(|a, b| b.1.weight.total_cmp(&a.1.weight).then_with(|| a.0.cmp(&b.0)));
    let sources = rows.into_iter().map(|(id, row)| {
        let (signals, agents) = counts.get(id.as_str()).copied().unwrap_or_default();
        let mut keys = keys.remove(&id).unwrap_or_default();
        keys.sort_by_key(|key| key.seq);
        Source {
            anchor: encoded(&id),
            weight: short(row.weight),
            silenced: row.weight == 0.0,
            description: row.description.unwrap_or_default(),
            owner: row.owner.map(|owner| owner.to_string()),
            methodology: row.methodology,
            own: id == AUTHORITY_SOURCE,
            signals: count(signals),
            agents: count(agents),
            seq: row.seq,
            keys,
            id,
        }
    });
    Ok(SourcesPage {
        frame: Frame::bare(),
        sources: sources.collect(),
        issuer: app.office.issuer.did().to_owned(),
        log_key: app.log.as_str().to_owned(),
    })
}
