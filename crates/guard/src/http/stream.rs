//! Streams of server-sent events: each event passes when it is whole.

use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use futures_util::StreamExt;

use super::{Proxy, exchange::Exchange};
use crate::{
    events::{Events, lines_of, split_events},
    pending::PendingRequests,
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
                let passed = tokio::task::spawn_blocking(move || to.pass_events(&of, &whole)).await;
                let passed = passed.map_err(std::io::Error::other);
                return Some((passed, (stream, events, proxy, exchange, ended)));
            }
        });
        Body::from_stream(stream)
    }

    /// Whole events; of those that answer a call the data is replaced.
    fn pass_events(&self, requests: &Mutex<PendingRequests>, bytes: &[u8]) -> Bytes {
        let text = String::from_utf8_lossy(bytes);
        let mut out = String::with_capacity(text.len() + 256);
        for event in split_events(&text) {
            let data: Vec<&str> = lines_of(event).filter_map(|line| line.0.strip_prefix("data:")).collect();
            let data: Vec<&str> = data.into_iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
            let message = data.join("\n");
            if data.is_empty() || message.trim().is_empty() {
                out.push_str(event);
                continue;
            }
            match self.messages(requests, &[&message]).into_iter().next().flatten() {
                Some(same) if same == message => out.push_str(event),
                Some(changed) => {
                    // The other lines as they were; the data where it began.
                    let mut written = false;
                    for (line, end) in lines_of(event) {
                        if !line.starts_with("data:") {
                            out.push_str(line);
                            out.push_str(end);
                        } else if !std::mem::replace(&mut written, true) {
                            let one_line = changed.replace(['\n', '\r'], " ");
                            out.push_str(&format!("data: {one_line}{end}"));
                        }
                    }
                }
                None => {}
            }
        }
        Bytes::from(out)
    }
}
