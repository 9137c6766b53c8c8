//! What happens, as it happens: server-sent events.

use std::{convert::Infallible, ops::ControlFlow, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderName},
    response::{
        IntoResponse, Response,
        sse::{self, KeepAlive, Sse},
    },
};
use credence_ledger::{Entry, View};
use futures_util::stream;
use tokio::{
    sync::{
        broadcast::{Receiver, error::RecvError},
        watch,
    },
    time::{Interval, interval},
};

use crate::{
    app::App,
    edge::{Caller, refusal},
    events::{self, Event},
    problem::Problem,
    schema::Errors,
    shares::Share,
    tokens::Scope,
    turns::PAYER,
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Entries looked at in one go for a listener who was away.
const MAX_SCANNED_ENTRIES: u64 = 4_096;
/// Streams of one address without a token, or of one token.
const STREAMS_OF_ONE: u64 = 16;
/// How often it is asked whether the token still holds.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// New scores and standings, for everyone; new verdicts, for the token that asked for them (an admin sees all)
///
/// `id` of both is the entry: a client that reconnects with `Last-Event-ID` gets everything it missed. A client too slow to
/// keep up gets `event: lagged` and what it missed of the scores; verdicts are not kept.
#[utoipa::path(get, path = "/v1/events", tag = "service", responses((status = 200, body = String, content_type = "text/event-stream"), Errors),
    security((), ("token" = ["verify"])))]
pub(crate) async fn events(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    listen(app, caller, &headers, VerdictScope::Allowed)
}

/// Which verdicts a listener hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerdictScope {
    /// All that its token may.
    Allowed,
    /// Those of its own namespace.
    Own,
}

/// A stream of what `caller` may hear.
pub(crate) fn listen(
    app: Arc<App>,
    caller: Caller,
    headers: &HeaderMap,
    which: VerdictScope,
) -> Result<Response, Problem> {
    let slot = app.listeners.of(caller.lane()).take(caller.owner(), STREAMS_OF_ONE);
    let slot = slot.map_err(|why| refusal(&app, why, "max_event_clients").retry_after(30))?;
    // First heard, then looked: what comes in between is heard twice and told once.
    let (scores, verdicts) = (app.scores.subscribe(), app.verdicts.subscribe());
    let size = app.authority.ledger().committed()?;
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    // Heard from here on; what came before is read from the ledger. An id beyond its end is from another ledger.
    let from = last.map_or(size, |last| last.saturating_add(1).min(size));
    let listener = Listener {
        scores,
        verdicts,
        closing: app.closing.subscribe(),
        token_checks: interval(TOKEN_CHECK_INTERVAL),
        missed: Vec::new().into_iter(),
        from,
        behind: last.is_some(),
        which,
        caller,
        app,
        _slot: slot,
    };
    let stream = stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok::<_, Infallible>(event), listener))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response())
}

struct Listener {
    app: Arc<App>,
    caller: Caller,
    scores: Receiver<Arc<Event>>,
    verdicts: Receiver<Arc<Event>>,
    closing: watch::Receiver<bool>,
    token_checks: Interval,
    /// Read from the ledger, to be told next.
    missed: std::vec::IntoIter<Event>,
    /// The first entry that was not told or passed over.
    from: u64,
    /// The ledger may hold scores that were not told.
    behind: bool,
    which: VerdictScope,
    _slot: Share,
}

impl Listener {
    /// The next event; none at the end.
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if *self.closing.borrow() || !self.may_listen() {
                return None;
            }
            if let Some(event) = self.missed.next() {
                return Some(to_sse(&event));
            }
            if self.behind {
                self.read_on().await?;
                continue;
            }
            tokio::select! {
                _ = self.closing.wait_for(|closing| *closing) => return None,
                _ = self.token_checks.tick() => {}
                score = self.scores.recv() => match score {
                    Ok(event) if event.seq.is_some_and(|seq| seq >= self.from) => {
                        self.from = event.seq.map_or(self.from, |seq| seq + 1);
                        return Some(to_sse(&event));
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => self.behind = true,
                    Err(RecvError::Closed) => return None,
                },
                verdict = self.verdicts.recv() => match verdict {
                    Ok(event) if may_hear(&self.caller, self.which, &event) => return Some(to_sse(&event)),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) if matches!(self.caller, Caller::Token(_)) => {
                        return Some(sse::Event::default().event("lagged").data("{}"));
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                },
            }
        }
    }

    fn may_listen(&self) -> bool {
        match &self.caller {
            Caller::Token(token) => self.app.tokens.holds(token, self.app.now()),
            Caller::Anyone(_) => true,
        }
    }

    /// Reads a stretch of the ledger.
    async fn read_on(&mut self) -> Option<()> {
        let from = self.from;
        let app = Arc::clone(&self.app);
        let _turn = app.catch_ups.acquire().await.ok()?;
        // The stream is read when its handler is long done: whose turn it is, is said again.
        let payer = (self.caller.lane(), self.caller.owner());
        let read = PAYER.scope(payer, self.app.read(move |_, view| read_scores(view, from)));
        let (events, until, size) = read.await.ok()?;
        self.from = until;
        self.behind = until < size;
        self.missed = events.into_iter();
        Some(())
    }
}

/// Whether a verdict is the caller's to hear.
fn may_hear(caller: &Caller, which: VerdictScope, verdict: &Event) -> bool {
    match caller {
        Caller::Token(token) => {
            (which == VerdictScope::Allowed && token.may(Scope::Admin))
                || verdict.namespace.as_deref() == Some(token.name.as_str())
        }
        Caller::Anyone(_) => false,
    }
}

fn to_sse(event: &Event) -> sse::Event {
    let shown = event.seq.map_or_else(sse::Event::default, |seq| sse::Event::default().id(seq.to_string()));
    shown.event(event.name).data(event.data.to_string())
}

/// The scores from entry `from` on, as far as was looked, and how many entries there are.
fn read_scores(view: &dyn View, from: u64) -> Result<(Vec<Event>, u64, u64), Problem> {
    let (size, mut events) = (view.size()?, Vec::new());
    let until = from.saturating_add(MAX_SCANNED_ENTRIES).min(size);
    view.entries(from.min(size), &mut |seq, bytes| {
        if seq >= until {
            return ControlFlow::Break(());
        }
        events.extend(Entry::parse(seq, bytes).ok().and_then(|entry| events::of_entry(seq, &entry)));
        ControlFlow::Continue(())
    })?;
    Ok((events, until, size))
}
