//! What happens, as it happens: server-sent events.

use std::{convert::Infallible, net::IpAddr, ops::ControlFlow, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{self, KeepAlive, Sse},
    },
};
use credence_ledger::{Entry, View};
use futures_util::stream;
use tokio::{
    sync::{
        OwnedSemaphorePermit,
        broadcast::{Receiver, error::RecvError},
        watch,
    },
    time::{Interval, interval},
};

use crate::{
    app::App,
    edge::{Caller, Counts},
    events::{self, Event},
    problem::Problem,
    schema::Errors,
    tokens::Scope,
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Entries looked at in one go for a listener who was away.
const LOOKED_AT: u64 = 4_096;
/// Streams of one address without a token.
const STREAMS_OF_ONE: u32 = 16;
/// How often it is asked whether the token still holds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
    let seat = Seat::take(&app, &caller)?;
    let size = app.authority.ledger().committed()?;
    let last = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    // Heard from here on; what came before is read from the ledger. An id beyond its end is from another ledger.
    let from = last.map_or(size, |last| last.saturating_add(1).min(size));
    let listener = Listener {
        scores: app.scores.subscribe(),
        verdicts: app.verdicts.subscribe(),
        closing: app.closing.subscribe(),
        looks: interval(LOOK_EVERY),
        missed: Vec::new().into_iter(),
        from,
        behind: last.is_some(),
        caller,
        app,
        _seat: seat,
    };
    let stream = stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok::<_, Infallible>(event), listener))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))).into_response())
}

/// A listener's place.
struct Seat {
    _permit: OwnedSemaphorePermit,
    of: Option<(Arc<Counts>, IpAddr)>,
}

impl Seat {
    fn take(app: &App, caller: &Caller) -> Result<Self, Problem> {
        let full = || {
            let detail = "as many clients listen as this service takes: come back later";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(30)
        };
        let (places, of) = match caller {
            Caller::Token(_) => (&app.token_listeners, None),
            Caller::Anyone(address) => {
                let counts = Arc::clone(&app.listeners_of);
                if !counts.take(*address, STREAMS_OF_ONE) {
                    return Err(full());
                }
                (&app.listeners, Some((counts, *address)))
            }
        };
        match Arc::clone(places).try_acquire_owned() {
            Ok(permit) => Ok(Self { _permit: permit, of }),
            Err(_) => {
                if let Some((counts, address)) = of {
                    counts.give_back(address);
                }
                Err(full())
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some((counts, address)) = &self.of {
            counts.give_back(*address);
        }
    }
}

struct Listener {
    app: Arc<App>,
    caller: Caller,
    scores: Receiver<Arc<Event>>,
    verdicts: Receiver<Arc<Event>>,
    closing: watch::Receiver<bool>,
    looks: Interval,
    /// Read from the ledger, to be told next.
    missed: std::vec::IntoIter<Event>,
    /// The first entry that was not told or passed over.
    from: u64,
    /// The ledger may hold scores that were not told.
    behind: bool,
    _seat: Seat,
}

impl Listener {
    /// The next event; none at the end.
    async fn next(&mut self) -> Option<sse::Event> {
        loop {
            if let Some(event) = self.missed.next() {
                return Some(shown(&event));
            }
            if self.behind {
                self.read_on().await?;
                continue;
            }
            tokio::select! {
                _ = self.closing.wait_for(|closing| *closing) => return None,
                _ = self.looks.tick() => {
                    if let Caller::Token(token) = &self.caller
                        && !self.app.tokens.holds(token, self.app.now())
                    {
                        return None;
                    }
                }
                score = self.scores.recv() => match score {
                    Ok(event) if event.seq.is_some_and(|seq| seq >= self.from) => {
                        self.from = event.seq.map_or(self.from, |seq| seq + 1);
                        return Some(shown(&event));
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => self.behind = true,
                    Err(RecvError::Closed) => return None,
                },
                verdict = self.verdicts.recv() => match verdict {
                    Ok(event) if hears(&self.caller, &event) => return Some(shown(&event)),
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

    /// Reads a stretch of the ledger.
    async fn read_on(&mut self) -> Option<()> {
        let from = self.from;
        let (events, until, size) = self.app.read(move |_, view| stretch(view, from)).await.ok()?;
        self.from = until;
        self.behind = until < size;
        self.missed = events.into_iter();
        Some(())
    }
}

/// Whether a verdict is the caller's to hear.
fn hears(caller: &Caller, verdict: &Event) -> bool {
    match caller {
        Caller::Token(token) => token.may(Scope::Admin) || verdict.namespace.as_deref() == Some(token.name.as_str()),
        Caller::Anyone(_) => false,
    }
}

fn shown(event: &Event) -> sse::Event {
    let shown = event.seq.map_or_else(sse::Event::default, |seq| sse::Event::default().id(seq.to_string()));
    shown.event(event.name).data(event.data.to_string())
}

/// The scores from entry `from` on, as far as was looked, and how many entries there are.
fn stretch(view: &dyn View, from: u64) -> Result<(Vec<Event>, u64, u64), Problem> {
    let (size, mut events) = (view.size()?, Vec::new());
    let until = from.saturating_add(LOOKED_AT).min(size);
    view.entries(from.min(size), &mut |seq, bytes| {
        if seq >= until {
            return ControlFlow::Break(());
        }
        events.extend(Entry::parse(seq, bytes).ok().and_then(|entry| events::of_entry(seq, &entry)));
        ControlFlow::Continue(())
    })?;
    Ok((events, until, size))
}
