//! Streams of server-sent events: each event passes when it is whole.

use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use futures_util::StreamExt;

use super::{Proxy, exchange::Exchange, here_or_aside};
use crate::{
    events::{Event, Events, split_events},
    pending::PendingRequests,
    received::{Received, receive_text},
    settings::GuardMode,
    warn,
};

impl Proxy {
    /// A stream of events, each passed on when it is whole.
    pub(super) fn events(self: &Arc<Self>, upstream: reqwest::Response, exchange: Exchange) -> Body {
        let most = self.guard.settings.max_message_bytes;
        let state = (upstream.bytes_stream(), Events::default(), Arc::clone(self), exchange, false);
        let stream = futures_util::stream::unfold(state, move |state| async move {
            let (mut stream, mut events, proxy, exchange, done) = state;
            if done {
                return None;
            }
            loop {
                let (whole, ended) = match events.whole() {
                    Some(whole) => (whole, false),
                    None => match stream.next().await {
                        Some(Ok(part)) => {
                            events.push(&part);
                            if events.buffer.len() > most {
                                warn(&format!(
                                    "the server sent an event beyond the limit of {most} bytes (--max-message): the stream ends"
                                ));
                                let error = std::io::Error::other("[credence] an event beyond the limit of the guard");
                                return Some((Err(error), (stream, Events::default(), proxy, exchange, true)));
                            }
                            continue;
                        }
                        Some(Err(error)) => {
                            let error = std::io::Error::other(error.without_url());
                            return Some((Err(error), (stream, events, proxy, exchange, true)));
                        }
                        // The last event may lack the line that ends it.
                        None => (std::mem::take(&mut events.buffer), true),
                    },
                };
                let (to, of) = (Arc::clone(&proxy), Arc::clone(&exchange.requests));
                let passed = here_or_aside(whole.len(), move || to.pass_events(&of, &whole)).await;
                let passed = passed.map_err(|(_, why)| std::io::Error::other(why));
                return Some((passed, (stream, events, proxy, exchange, ended)));
            }
        });
        Body::from_stream(stream)
    }

    /// Whole events, each written anew from its fields: what is written no reader can split in another place.
    fn pass_events(&self, requests: &Mutex<PendingRequests>, bytes: &[u8]) -> Bytes {
        // The messages in them are bytes again: whether those are UTF-8 is for the mode to say.
        let valid = std::str::from_utf8(bytes).is_ok();
        let text = String::from_utf8_lossy(bytes);
        let mut out = String::with_capacity(text.len() + 256);
        for event in split_events(&text) {
            let event = Event::parse(event);
            let data = match &event.data {
                Some(data) if !data.trim().is_empty() => {
                    let received = match receive_text(data) {
                        _ if !valid && self.guard.mode() == GuardMode::Enforce => invalid(data),
                        received => received,
                    };
                    let passed = self.messages(requests, &[received]).into_iter().next().flatten();
                    let Some(message) = passed else { continue };
                    Some(message)
                }
                Some(_) => Some(String::new()),
                None => None,
            };
            event.write(data.as_deref(), &mut out);
        }
        Bytes::from(out)
    }
}

/// An event that is not UTF-8.
fn invalid(data: &str) -> Received<'static> {
    match receive_text(&format!("{data}\u{0}")) {
        Received::Unreadable { ids, shown, .. } => {
            Received::Unreadable { why: "it is not UTF-8".to_owned(), ids, shown }
        }
        _ => Received::Nothing,
    }
}
