//! Sources: who may send signals, and how much they count.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use credence_pipeline::{
    NewSource, SourceChange,
    query::{self, SourceRow},
};
use credence_protocol::{EntityId, Root};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{created, json};
use crate::{
    app::App,
    extract::{Admin, Json, Nothing, Params, Part},
    problem::Problem,
    schema::{Errors, Recorded},
};

#[derive(Serialize, ToSchema)]
pub(crate) struct Source {
    source: String,
    weight: f64,
    description: Option<String>,
    owner: Option<String>,
    /// The registries that it re-reads: sources that share one count as one voice.
    roots: Vec<String>,
    /// Where it says how it verifies outputs: with it the source is a verification provider.
    methodology: Option<String>,
    /// What it signs must have this as its `aud`; none where it is not bound to this authority.
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<String>,
    seq: u64,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Sources {
    sources: Vec<Source>,
}

/// All sources
#[utoipa::path(get, path = "/v1/sources", tag = "registry", responses((status = 200, body = Sources), Errors))]
pub(crate) async fn list(State(app): State<Arc<App>>, _: Params<Nothing>) -> Result<Response, Problem> {
    let rows = app.read(|_, view| Ok(query::sources(view)?)).await?;
    let shown = |(source, row): (String, SourceRow)| Source {
        source,
        weight: row.weight,
        description: row.description,
        owner: row.owner.map(|owner| owner.to_string()),
        roots: row.roots.iter().map(ToString::to_string).collect(),
        methodology: row.methodology,
        aud: row.aud.map(|aud| aud.to_string()),
        seq: row.seq,
    };
    json(&Sources { sources: rows.into_iter().map(shown).collect() })
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSource)]
pub(crate) struct Registration {
    #[schema(value_type = String, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._~-]+$")]
    source: EntityId,
    /// How much its signals count, relative to others; 1 when not given.
    #[schema(minimum = 0, maximum = 1000000)]
    weight: Option<f64>,
    /// Who it is (public: it goes into the log).
    #[schema(max_length = 256)]
    description: Option<String>,
    /// Who runs it: it has no say on agents of the same owner.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._~-]+$")]
    owner: Option<EntityId>,
    /// The registries that it re-reads, such as npm or erc8004:eip155:8453: sources that share one count as one voice.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 16)]
    roots: Vec<Root>,
    /// Where it says how it verifies outputs.
    #[schema(max_length = 256)]
    methodology: Option<String>,
    /// What it signs need not name this authority in `aud`: it can then be replayed to another one that knows its key.
    #[serde(default)]
    unbound: bool,
}

/// Registers a source
#[utoipa::path(post, path = "/v1/sources", tag = "registry", request_body = Registration,
    responses((status = 201, body = Recorded), Errors), security(("token" = ["admin"])))]
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    _: Admin,
    Json(new): Json<Registration>,
) -> Result<Response, Problem> {
    let Registration { source, weight, description, owner, roots, methodology, unbound } = new;
    let new = NewSource { source, weight: weight.unwrap_or(1.0), description, owner, roots, methodology, unbound };
    let seq = app.work(move |app| Ok(app.authority.add_source(new)?)).await?;
    created(&Recorded { seq })
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SourceChange)]
pub(crate) struct Change {
    /// Its weight from now on; 0 silences it. Every agent is scored again.
    #[schema(minimum = 0, maximum = 1000000)]
    weight: Option<f64>,
    /// Admits it as a verification provider; an empty text takes that back.
    #[schema(max_length = 256)]
    methodology: Option<String>,
    /// Who runs it.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._~-]+$")]
    owner: Option<EntityId>,
    /// The registries that it re-reads, instead of those named before; an empty list for none.
    #[schema(value_type = Option<Vec<String>>, max_items = 16)]
    roots: Option<Vec<Root>>,
}

/// Changes what a source counts for, from now on
#[utoipa::path(patch, path = "/v1/sources/{source}", tag = "registry", params(("source" = String, Path)), request_body = Change,
    responses((status = 200, body = Recorded), Errors), security(("token" = ["admin"])))]
pub(crate) async fn change(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(source): Part<String>,
    Json(Change { weight, methodology, owner, roots }): Json<Change>,
) -> Result<Response, Problem> {
    let source = EntityId::new(&source).map_err(|_| credence_pipeline::Error::UnknownSource(source))?;
    let change = SourceChange { weight, methodology, owner, roots };
    if change == SourceChange::default() {
        return Err(Problem::unprocessable("nothing_new", "say at least one of weight, methodology, owner and roots"));
    }
    let seq = app.work(move |app| Ok(app.authority.change_source(source, change)?)).await?;
    json(&Recorded { seq })
}
