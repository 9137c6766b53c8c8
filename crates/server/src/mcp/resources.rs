//! Scores and histories as resources: `credence://agents/{id}/score`, `credence://agents/{id}/history`.

use std::sync::Arc;

use credence_pipeline::query;
use percent_encoding::percent_decode_str;
use rmcp::{
    ErrorData,
    model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate},
};
use serde_json::{Value, json};

use crate::{
    app::App,
    problem::Problem,
    routes::{
        agents::{self, Page},
        scores,
    },
};

const SCHEME: &str = "credence://agents/";
const JSON: &str = "application/json";
/// Agents on one page of the list.
const PAGE: usize = 50;
/// Scores in a history.
const HISTORY: usize = 50;

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |name: &str, title: &str, says: &str| {
        ResourceTemplate::new(format!("{SCHEME}{{id}}/{name}"), name)
            .with_title(title)
            .with_description(says)
            .with_mime_type(JSON)
    };
    vec![
        template(
            "score",
            "An agent's score now",
            "The newest recorded score, 0 to 100, with its standard deviation, tier, coverage, certification and ledger entry. \
             Not signed: check_trust gives a signed answer. {id} is an id, or an address in percent-encoding.",
        ),
        template(
            "history",
            "An agent's scores over time",
            "The newest recorded scores, newest first, each with the ledger entry that holds it.",
        ),
    ]
}

/// The scores of registered agents, by id.
pub(super) async fn list(app: &Arc<App>, cursor: Option<String>) -> Result<ListResourcesResult, ErrorData> {
    let page = Page { after: cursor, ..Page::default() };
    let found = app.read(move |_, view| agents::find(view, &page, PAGE)).await.map_err(|problem| failed(&problem))?;
    let resources = found.agents.iter().map(|agent| {
        Resource::new(format!("{SCHEME}{}/score", agent.agent), format!("{}/score", agent.agent))
            .with_title(format!("Score of {}", agent.agent))
            .with_mime_type(JSON)
    });
    let mut list = ListResourcesResult::with_all_items(resources.collect());
    list.next_cursor = found.next;
    Ok(list)
}

pub(super) async fn read(app: &Arc<App>, uri: String) -> Result<ReadResourceResult, ErrorData> {
    let unknown = |uri: &str, why: &str| {
        let uri: String = uri.chars().take(200).collect();
        ErrorData::resource_not_found(format!("{why}: {uri}"), Some(json!({ "uri": uri })))
    };
    let Some((id, part)) = uri.strip_prefix(SCHEME).and_then(|rest| rest.split_once('/')) else {
        return Err(unknown(&uri, "resources are credence://agents/{id}/score and credence://agents/{id}/history"));
    };
    let Ok(id) = percent_decode_str(id).decode_utf8().map(std::borrow::Cow::into_owned) else {
        return Err(unknown(&uri, "the id is no text"));
    };
    let found: Result<Value, Problem> = match part {
        "score" => {
            app.read(move |app, view| {
                let score = app.score(view, &query::resolve(view, &id)?)?;
                serde_json::to_value(score).map_err(|e| Problem::internal(&e))
            })
            .await
        }
        "history" => {
            app.read(move |_, view| {
                serde_json::to_value(scores::history_of(view, &id, HISTORY)?).map_err(|e| Problem::internal(&e))
            })
            .await
        }
        _ => return Err(unknown(&uri, "an agent has a score and a history")),
    };
    match found {
        Ok(value) => {
            Ok(ReadResourceResult::new(vec![ResourceContents::text(value.to_string(), uri).with_mime_type(JSON)]))
        }
        Err(problem) if problem.code == "unknown_agent" => Err(unknown(&uri, "no such agent")),
        Err(problem) => Err(failed(&problem)),
    }
}

fn failed(problem: &Problem) -> ErrorData {
    ErrorData::internal_error(problem.detail().to_owned(), None)
}
