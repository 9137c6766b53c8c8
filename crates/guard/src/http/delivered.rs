//! What is left to do with calls once their client has the answer: digests of parts, canaries, controls, counts. It is done after the
//! answer was sent; who waits for the answer does not wait for it.

use std::sync::Arc;

use super::SMALL;
use crate::{Guard, guard::JudgedCall, proxy::JudgedBatch};

/// Calls with which something is left to do. It is done when this is dropped, also where the runtime ends before its turn comes.
struct Unfinished {
    guard: Arc<Guard>,
    calls: Vec<JudgedCall>,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.guard.finish_delivered(&self.calls);
    }
}

/// Has the rest done with calls whose receipts are written. The task comes to its turn after the one that writes the answer, and works
/// aside where the messages, of so many bytes, are large.
pub(super) fn finish_after_answer(guard: &Arc<Guard>, batch: JudgedBatch<'_>, bytes: usize) {
    if batch.is_empty() {
        return;
    }
    guard.keep_batch_for_review(&batch);
    let calls = batch.into_iter().map(|(judged, _)| judged).collect();
    let unfinished = Unfinished { guard: Arc::clone(guard), calls };
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if bytes > SMALL {
        drop(runtime.spawn_blocking(move || drop(unfinished)));
    } else {
        drop(runtime.spawn(async move { drop(unfinished) }));
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Instant};

    use credence_protocol::{EntityId, SecretKey, receipt::Vantage};

    use super::*;
    use crate::{
        Caller, GuardMode, Settings,
        message::{Parsed, parse},
        oversight::Rules,
        pending::PendingRequests,
        proxy::{from_server, take_in},
        settings::{DEFAULT_MESSAGE_BYTES, DEFAULT_RECEIPT_BYTES},
    };

    fn guard(state: &Path) -> Arc<Guard> {
        let settings = Settings {
            name: "s".to_owned(),
            provider: EntityId::new("p").unwrap(),
            rules: Rules::of_mode(GuardMode::Flag),
            caller: Caller::default(),
            session: "own".to_owned(),
            verify: credence_verify::Mode::Adaptive,
            profiles: Default::default(),
            calibrations: Vec::new(),
            state: state.to_owned(),
            max_receipt_bytes: DEFAULT_RECEIPT_BYTES,
            quarantine: Default::default(),
            max_message_bytes: DEFAULT_MESSAGE_BYTES,
            explain_refusal: false,
            vantage: Vantage::SameUser,
        };
        Guard::start(settings, SecretKey::generate().unwrap()).unwrap()
    }

    /// A call is answered and its receipt written; the rest is left to be done.
    fn answered(guard: &Arc<Guard>, bytes: usize) {
        let mut requests = PendingRequests::default();
        let asked = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":1}}}"#;
        let Parsed::One(asked) = parse(asked) else { panic!("{asked}") };
        requests.request(&asked, &Caller::default(), "own", Instant::now());
        let answer = br#"{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"a":1}}}"#;
        let received = take_in(guard, answer);
        let mut batch: JudgedBatch<'_> = Vec::new();
        from_server(guard, &mut requests, &received, Instant::now(), &mut batch);
        assert_eq!((batch.len(), guard.record(&mut batch)), (1, None));
        finish_after_answer(guard, batch, bytes);
    }

    #[test]
    fn the_rest_is_done_after_the_answer_and_always() {
        let state = tempfile::tempdir().unwrap();
        let guard = guard(state.path());
        let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime().block_on(async {
            answered(&guard, 10);
            assert_eq!((guard.calls(), guard.digests_waiting()), (1, 0), "the answer is not sent yet");
            tokio::task::yield_now().await;
            assert_eq!(guard.digests_waiting(), 1);
        });
        // A runtime that ends before the task's turn comes.
        runtime().block_on(async { answered(&guard, 10) });
        assert_eq!(guard.digests_waiting(), 2);
        runtime().block_on(async { answered(&guard, SMALL + 1) });
        assert_eq!(guard.digests_waiting(), 3, "aside");
        answered(&guard, 10);
        assert_eq!(guard.digests_waiting(), 4, "without a runtime");
    }
}
