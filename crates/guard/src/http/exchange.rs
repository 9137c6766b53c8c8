//! One request over HTTP and what answers it.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use axum::http::StatusCode;

use super::{Proxy, Refused, lock};
use crate::{
    Caller,
    answer::Answer,
    deliver::error_answer,
    forward::{self, Sender},
    metrics::Direction,
    pending::PendingRequests,
    proxy::{JudgedBatch, Piece, judge, render},
    strict::Framing,
    warn,
};

/// One request and what answers it. When it is over, however it ends, calls without an answer get their receipts, or wait with
/// their session for a stream that is resumed.
pub(super) struct Exchange {
    pub proxy: Arc<Proxy>,
    pub requests: Arc<Mutex<PendingRequests>>,
    pub session: Option<Arc<Mutex<PendingRequests>>>,
    /// An answer may still come by another stream.
    pub resumable: bool,
    /// The client asks for a stream.
    pub streams: bool,
}

impl Exchange {
    /// Reads a message, remembers what it asks for, and has its calls written down. Gives what the server gets.
    pub fn begin(&self, body: &[u8], caller: &Caller, session: &str) -> Result<String, forward::Refused> {
        let guard = &self.proxy.guard;
        let client = self.session.as_ref().and_then(|of| lock(of).client().map(str::to_owned));
        let mut requests = lock(&self.requests);
        if let Some(client) = client {
            requests.set_client(&client);
        }
        let from = Sender { caller, session, framing: Framing::Document };
        let read = Instant::now();
        let Some(admitted) = forward::admit(guard, &mut requests, body, from, read) else {
            return Ok(String::new());
        };
        let mut admitted = vec![admitted?];
        let refused = forward::begin(guard, &mut requests, &mut admitted).pop();
        guard.oversight().added(Direction::ToServer, read.elapsed());
        match refused {
            Some(refused) => Err(refused),
            None => Ok(admitted.pop().map(|one| one.text.into_owned()).unwrap_or_default()),
        }
    }

    /// Whether any request waits for an answer.
    pub fn expects_answer(&self) -> bool {
        let requests = lock(&self.requests);
        requests.has_calls() || !requests.unanswered_requests().is_empty()
    }

    /// An answer that cannot be read: it is recorded as such, and what the callers get in its place is given.
    pub fn unreadable(&self, why: &'static str) -> Result<String, Refused> {
        let calls = lock(&self.requests).unanswered();
        let mut batch: JudgedBatch<'_> = Vec::new();
        for started in calls {
            judge(&self.proxy.guard, started, Answer::Ambiguous(why), Instant::now(), &mut batch);
        }
        if self.proxy.guard.record(&mut batch).is_none() {
            self.proxy.guard.after_delivery(&batch);
            self.proxy.flush_journal_soon();
        }
        warn(&format!("the tool server answered, and {why}: it cannot be verified and is withheld"));
        let call = |number| Piece::Call { number, message: "", result: None };
        let pieces: Vec<Piece<'_>> = (0..batch.len()).map(call).collect();
        let answers: Vec<String> = pieces.iter().filter_map(|piece| render(piece, &batch)).collect();
        match answers.as_slice() {
            [] => Err((StatusCode::BAD_GATEWAY, format!("the tool server answered, and {why}: it cannot be verified"))),
            [one] => Ok(one.clone()),
            several => Ok(format!("[{}]", several.join(","))),
        }
    }

    /// What callers get in place of what a server says of a failure outside of the protocol. The calls have their receipts when the
    /// exchange ends.
    pub fn failed(&self, status: StatusCode) -> String {
        let text = format!(
            "[credence] the tool server answered with HTTP status {status}; what it says of it is not verified, and withheld"
        );
        let ids = lock(&self.requests).awaited_calls();
        let answers: Vec<String> = ids.iter().map(|id| error_answer(id, &text)).collect();
        match answers.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(",")),
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        match &self.session {
            // The stream of a session: what it did not answer, the next may.
            Some(session) if Arc::ptr_eq(session, &self.requests) => {}
            Some(session) if self.resumable => {
                let mut left = std::mem::take(&mut *lock(&self.requests));
                lock(session).take_over(&mut left);
            }
            _ => self.proxy.unanswered(&self.requests),
        }
    }
}
