//! What happens, as it happens: server-sent events.

use std::{convert::Infallible, ops::ControlFlow, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{self, KeepAlive, Sse},
    },
};
use credence_ledger::Entry;
use futures_util::stream;
use tokio::sync::broadcast::error::RecvError;

use crate::{
    app::App,
    edge::Caller,
    events::{self, Event},
    problem::Problem,
    schema::Errors,
    tokens::Scope,
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Scores that a listener who was away gets at once.
const MAX_MISSED: usize = 1_000;
/// Entries looked at for them.
const MAX_LOOKED_AT: u64 = 100_000;

/// New scores, for everyone; new verdicts, for the token that asked for them (an admin sees all)
///
/// `id` of a score is its entry: a client that reconnects with `Last-Event-ID` gets the scores it missed. A client too slow
/// to keep up gets `event: lagged` with the number of events it missed.
#[utoipa::path(get, path = "/v1/events", tag = "service", responses((status = 200, body = String, content_type = "text/event-stream"), Errors))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let permit = Arc::clone(&app.event_clients).try_acquire_owned().map_err(|_| {
        let detail = "as many clients listen as this service takes: come back later";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(30)
    })?;
    // Heard from here on; what came before is read from the ledger, and told once.
    let receiver = app.events.subscribe();
    let last: Option<u64> = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse().ok());
    let missed = match last {
        Some(last) => app.work(move |app| missed(app, last)).await?,
        None => Vec::new(),
    };
    let told = missed.last().and_then(|event| event.seq).or(last);
    let hears = move |event: &Event| match (&event.namespace, &caller) {
        (None, _) => event.seq.is_none_or(|seq| told.is_none_or(|told| seq > told)),
        (Some(namespace), Caller::Token(token)) => token.may(Scope::Admin) || token.id == *namespace,
        (Some(_), Caller::Anyone) => false,
    };
    let closing = app.closing.subscribe();
    let state = (missed.into_iter(), receiver, closing, permit, hears);
    let stream = stream::unfold(state, |(mut missed, mut receiver, mut closing, permit, hears)| async move {
        if let Some(event) = missed.next() {
            return Some((Ok::<_, Infallible>(shown(&event)), (missed, receiver, closing, permit, hears)));
        }
        let next = loop {
            tokio::select! {
                _ = closing.wait_for(|closing| *closing) => return None,
                received = receiver.recv() => match received {
                    Ok(event) if hears(&event) => break shown(&event),
                    Ok(_) => {}
                    Err(RecvError::Lagged(count)) => {
                        break sse::Event::default().event("lagged").data(format!("{{\"missed\":{count}}}"));
                    }
                    Err(RecvError::Closed) => return None,
                },
            }
        };
        Some((Ok(next), (missed, receiver, closing, permit, hears)))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response())
}

fn shown(event: &Event) -> sse::Event {
    let shown = event.seq.map_or_else(sse::Event::default, |seq| sse::Event::default().id(seq.to_string()));
    shown.event(event.name).data(event.data.to_string())
}

/// The scores after entry `last`.
fn missed(app: &App, last: u64) -> Result<Vec<Event>, Problem> {
    let mut events = Vec::new();
    let Some(from) = last.checked_add(1).filter(|from| i64::try_from(*from).is_ok()) else { return Ok(events) };
    let view = app.authority.ledger().view()?;
    view.entries(from, &mut |seq, bytes| {
        let event = Entry::parse(seq, bytes).ok().and_then(|entry| events::of_entry(seq, &entry));
        events.extend(event);
        if events.len() == MAX_MISSED || seq - from >= MAX_LOOKED_AT {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(events)
}
