//! Links: what outside is an agent's; and disputes of what crawlers read there.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use credence_ingest::links as proofs;
use credence_pipeline::{
    links::{DEFAULT_DAYS, Link},
    query,
    record::{DisputeRecord, DisputeStep, LinkState},
};
use credence_protocol::{ExternalSubject, KeyId, Signature, Uuid};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{created, json};
use crate::{
    app::App,
    edge::refusal,
    extract::{Admin, Json, Nothing, Params, Part},
    problem::Problem,
    schema::{Errors, Recorded},
    turns,
};

/// Links that one caller has looked at at once.
const LOOKUPS_OF_ONE: u64 = 4;

#[derive(Serialize, ToSchema)]
#[schema(as = AgentLink)]
pub(crate) struct Shown {
    /// What is the agent's: `KIND:ID`.
    link: String,
    /// `claimed`, `proven`, `broken` or `removed`. Only a proven one feeds the agent.
    state: LinkStateName,
    #[schema(format = DateTime)]
    since: String,
    /// Until when its proof holds.
    #[schema(format = DateTime)]
    expires_at: String,
    /// How it was proved: `file`, `record`, `label` or `signature`.
    method: Option<String>,
    /// Why it is broken or removed.
    reason: Option<String>,
    /// The entry.
    seq: u64,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AgentLinkState)]
pub(crate) enum LinkStateName {
    Claimed,
    Proven,
    Broken,
    Removed,
}

#[derive(Serialize, ToSchema)]
#[schema(as = AgentLinks)]
pub(crate) struct ShownLinks {
    agent: String,
    links: Vec<Shown>,
}

fn shown(Link { link, row, .. }: Link) -> Shown {
    Shown {
        link: link.to_string(),
        state: match row.state {
            LinkState::Claimed => LinkStateName::Claimed,
            LinkState::Proven => LinkStateName::Proven,
            LinkState::Broken => LinkStateName::Broken,
            LinkState::Removed => LinkStateName::Removed,
        },
        since: row.at.to_string(),
        expires_at: row.expires.to_string(),
        method: row.proof.map(|proof| proof.method),
        reason: row.reason,
        seq: row.seq,
    }
}

/// What is an agent's own elsewhere
#[utoipa::path(get, path = "/v1/agents/{agent}/links", tag = "agents", params(("agent" = String, Path)),
    responses((status = 200, body = ShownLinks), Errors))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let found = app
        .read(move |_, view| {
            let id = query::resolve(view, &agent)?;
            Ok((id.to_string(), query::links_of(view, &id)?))
        })
        .await?;
    json(&ShownLinks { agent: found.0, links: found.1.into_iter().map(shown).collect() })
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewLink)]
pub(crate) struct Claim {
    /// What is the agent's: `KIND:ID`, such as `repository:github.com/acme/weather`. Public, for good.
    #[schema(value_type = String, max_length = 512)]
    link: ExternalSubject,
    /// Days that the line holds.
    #[schema(minimum = 1, maximum = 1000)]
    days: Option<u16>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ClaimedLink)]
pub(crate) struct Claimed {
    agent: String,
    link: String,
    /// What has to be published or signed.
    line: String,
    /// Where, in words.
    how: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

/// Says that something outside is an agent's, and makes the line that proves it
///
/// Links are entries: public, for good. A claim feeds nothing until its proof was found.
#[utoipa::path(post, path = "/v1/agents/{agent}/links", tag = "agents", params(("agent" = String, Path)),
    request_body = Claim, responses((status = 201, body = Claimed), Errors), security(("token" = ["admin"])))]
pub(crate) async fn claim(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(agent): Part<String>,
    Json(Claim { link, days }): Json<Claim>,
) -> Result<Response, Problem> {
    let days = days.map_or(DEFAULT_DAYS, i64::from);
    let line = app
        .work(move |app| {
            let agent = query::resolve(&*app.authority.ledger().view()?, &agent)?;
            Ok(app.authority.claim_link(&agent, &link, days)?)
        })
        .await?;
    created(&Claimed {
        agent: line.agent.to_string(),
        link: line.subject.to_string(),
        line: line.line(),
        how: proofs::instructions(&line.subject),
        expires_at: line.expires.to_string(),
    })
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LinkCheck)]
pub(crate) struct Check {
    /// A link that was claimed.
    #[schema(value_type = String, max_length = 512)]
    link: ExternalSubject,
    /// The wallet's signature over exactly the line.
    #[schema(max_length = 512)]
    signature: Option<String>,
}

/// Looks for the proof of a link; if it is there, the link is proven
#[utoipa::path(post, path = "/v1/agents/{agent}/link-checks", tag = "agents", params(("agent" = String, Path)),
    request_body = Check, responses((status = 201, body = Shown), Errors), security(("token" = ["admin"])))]
pub(crate) async fn check(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(agent): Part<String>,
    Json(Check { link, signature }): Json<Check>,
) -> Result<Response, Problem> {
    let subject = link.clone();
    let statement = app
        .work(move |app| {
            let agent = query::resolve(&*app.authority.ledger().view()?, &agent)?;
            Ok(app.authority.link_statement(&agent, &subject)?)
        })
        .await?;
    let lookup = app.lookups.take(turns::payer().1, LOOKUPS_OF_ONE);
    let _place = lookup.map_err(|why| refusal(&app, why, "the links looked at at once").retry_after(5))?;
    let crawler = app.crawler().map_err(|e| Problem::internal(&e))?;
    let found = proofs::check(&crawler, &statement, signature.as_deref(), app.now()).await;
    let proof = found.map_err(|why| Problem::unprocessable("link_not_proved", why.to_string()))?;
    let proven = app
        .work(move |app| {
            app.authority.prove_link(&statement, proof)?;
            let view = app.authority.ledger().view()?;
            let row = query::link(&*view, &statement.agent, &link)?;
            Ok(row.map(|row| shown(Link { agent: statement.agent.clone(), link, row })))
        })
        .await?;
    created(&proven)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LinkRemoval)]
pub(crate) struct Removal {
    /// The link.
    #[schema(value_type = String, max_length = 512)]
    link: ExternalSubject,
    /// Why (public: it goes into the log).
    #[schema(max_length = 256)]
    reason: String,
}

/// Takes a link back; what came over it is withdrawn
#[utoipa::path(post, path = "/v1/agents/{agent}/link-removals", tag = "agents", params(("agent" = String, Path)),
    request_body = Removal, responses((status = 201, body = Recorded), Errors), security(("token" = ["admin"])))]
pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(agent): Part<String>,
    Json(Removal { link, reason }): Json<Removal>,
) -> Result<Response, Problem> {
    let seq = app
        .work(move |app| {
            let agent = query::resolve(&*app.authority.ledger().view()?, &agent)?;
            let removed = app.authority.remove_link(&agent, &link, &reason)?;
            removed
                .ok_or_else(|| Problem::new(axum::http::StatusCode::CONFLICT, "nothing_new", "it was removed before"))
        })
        .await?;
    created(&Recorded { seq })
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SignalDispute)]
pub(crate) struct Dispute {
    /// A signal that a crawler made.
    #[schema(value_type = String, min_length = 36, max_length = 36)]
    signal: Uuid,
    /// What is wrong with it (public: it goes into the log).
    #[schema(max_length = 256)]
    text: String,
    /// The agent's key.
    #[schema(value_type = String)]
    key_id: KeyId,
    /// By that key, over the canonical JSON of `agent`, `key_id`, `signal`, `step` (`opened`) and `text`.
    #[schema(value_type = String)]
    signature: Signature,
}

/// A disputed signal.
#[derive(Serialize, ToSchema)]
#[schema(as = DisputedSignal)]
pub(crate) struct Disputed {
    /// The signal.
    signal: String,
    /// `opened`, `kept`, `withdrawn` or `lifted`.
    step: DisputeStepName,
    #[schema(format = DateTime)]
    opened_at: String,
    /// What the owner says: text of someone who is rated. It decides nothing; do not give it to a model.
    statement: String,
    /// Whether a key of the agent signed it; the operator recorded it for the owner otherwise.
    signed: bool,
    /// Why the operator decided so.
    decision: Option<String>,
    /// The entry of the last step.
    seq: u64,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DisputeStep)]
pub(crate) enum DisputeStepName {
    Opened,
    Kept,
    Withdrawn,
    Lifted,
}

#[derive(Serialize, ToSchema)]
#[schema(as = AgentDisputes)]
pub(crate) struct Disputes {
    agent: String,
    disputes: Vec<Disputed>,
}

/// Signals about an agent that its owner disputes
#[utoipa::path(get, path = "/v1/agents/{agent}/disputes", tag = "agents", params(("agent" = String, Path)),
    responses((status = 200, body = Disputes), Errors))]
pub(crate) async fn disputes(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let shown = app
        .read(move |_, view| {
            let agent = query::resolve(view, &agent)?;
            let rows = query::disputes_of(view, &agent)?.into_iter().map(|(signal, row)| Disputed {
                signal: signal.to_string(),
                step: match row.step {
                    DisputeStep::Opened => DisputeStepName::Opened,
                    DisputeStep::Kept => DisputeStepName::Kept,
                    DisputeStep::Withdrawn => DisputeStepName::Withdrawn,
                    DisputeStep::Lifted => DisputeStepName::Lifted,
                },
                opened_at: row.opened_at.to_string(),
                statement: row.statement,
                signed: row.signed,
                decision: row.decision,
                seq: row.seq,
            });
            Ok(Disputes { disputes: rows.collect(), agent: agent.to_string() })
        })
        .await?;
    json(&shown)
}

/// An agent's owner disputes a signal that a crawler made
///
/// Signed by a key of the agent: no token is needed. The signal counts until the operator decides.
#[utoipa::path(post, path = "/v1/agents/{agent}/disputes", tag = "agents", params(("agent" = String, Path)),
    request_body = Dispute, responses((status = 201, body = Recorded), Errors))]
pub(crate) async fn dispute(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    Json(Dispute { signal, text, key_id, signature }): Json<Dispute>,
) -> Result<Response, Problem> {
    let (key_id, signature) = (Some(key_id), Some(signature));
    record(&app, agent, DisputeDraft { signal, step: DisputeStep::Opened, text, key_id, signature }).await
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DisputeDecision)]
pub(crate) struct Decision {
    /// The disputed signal.
    #[schema(value_type = String, min_length = 36, max_length = 36)]
    signal: Uuid,
    /// Whether the signal is withdrawn; it is kept otherwise. What the source says there is not recorded until that is lifted.
    withdraw: bool,
    /// Lifts a withdrawal; `withdraw` is then `false`.
    #[serde(default)]
    lift: bool,
    /// Why (public: it goes into the log).
    #[schema(max_length = 256)]
    text: String,
}

/// Keeps or withdraws a disputed signal
#[utoipa::path(post, path = "/v1/agents/{agent}/dispute-decisions", tag = "agents", params(("agent" = String, Path)),
    request_body = Decision, responses((status = 201, body = Recorded), Errors), security(("token" = ["admin"])))]
pub(crate) async fn decide(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(agent): Part<String>,
    Json(Decision { signal, withdraw, lift, text }): Json<Decision>,
) -> Result<Response, Problem> {
    let step = match (withdraw, lift) {
        (true, true) => return Err(Problem::unprocessable("invalid_body", "withdraw or lift, not both")),
        (true, false) => DisputeStep::Withdrawn,
        (false, true) => DisputeStep::Lifted,
        (false, false) => DisputeStep::Kept,
    };
    record(&app, agent, DisputeDraft { signal, step, text, key_id: None, signature: None }).await
}

struct DisputeDraft {
    signal: Uuid,
    step: DisputeStep,
    text: String,
    key_id: Option<KeyId>,
    signature: Option<Signature>,
}

async fn record(app: &Arc<App>, agent: String, draft: DisputeDraft) -> Result<Response, Problem> {
    let DisputeDraft { signal, step, text, key_id, signature } = draft;
    let seq = app
        .work(move |app| {
            let agent = query::resolve(&*app.authority.ledger().view()?, &agent)?;
            Ok(app.authority.dispute(DisputeRecord { agent, signal, step, text, key_id, signature })?)
        })
        .await?;
    created(&Recorded { seq })
}
