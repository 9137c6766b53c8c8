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
    forward::{self, Sender},
    pending::PendingRequests,
    proxy::{JudgedBatch, judge},
    settings::GuardMode,
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
        let Some(admitted) = forward::admit(guard, &mut requests, body, from, Instant::now()) else {
            return Ok(String::new());
        };
        let mut admitted = vec![admitted?];
        match forward::begin(guard, &mut requests, &mut admitted).pop() {
            Some(refused) => Err(refused),
            None => Ok(admitted.pop().map(|one| one.text.into_owned()).unwrap_or_default()),
        }
    }

    /// An answer that cannot be read: it is recorded as such, and passed on only where nothing is withheld.
    pub fn unreadable(&self, why: &'static str) -> Result<(), Refused> {
        let calls = lock(&self.requests).unanswered();
        let mut batch: JudgedBatch<'_> = Vec::new();
        for started in calls {
            judge(&self.proxy.guard, started, Answer::Ambiguous(why), Instant::now(), &mut batch);
        }
        if self.proxy.guard.record(&mut batch).is_none() {
            self.proxy.guard.after_delivery(&batch);
            super::flush_journal_soon(&self.proxy.guard);
        }
        let text = format!("the call was executed, and {why}: it cannot be verified; do not blindly retry");
        if self.proxy.guard.settings.mode == GuardMode::Enforce {
            return Err((StatusCode::BAD_GATEWAY, text));
        }
        warn(&text);
        Ok(())
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
