//! A polite stop: no new request is sent, those under way are waited for, and the journal is complete.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// A handle that stops a run. Clones stop the same run.
#[derive(Debug, Clone, Default)]
pub struct Cancel {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    asked: AtomicBool,
    wake: Notify,
}

impl Cancel {
    /// Asks the run to stop.
    pub fn cancel(&self) {
        self.inner.asked.store(true, Ordering::SeqCst);
        self.inner.wake.notify_waiters();
    }

    /// Whether it was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.inner.asked.load(Ordering::SeqCst)
    }

    /// Waits until it is asked to stop.
    pub async fn cancelled(&self) {
        let woken = self.inner.wake.notified();
        tokio::pin!(woken);
        // Registered before the flag is read, so that a call in between is not missed.
        woken.as_mut().enable();
        if !self.is_cancelled() {
            woken.await;
        }
    }
}
