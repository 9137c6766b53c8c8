//! Waiting for an answer without sleeping, for as long as being woken would take: an idle processor of a virtual machine is halted.

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

/// How long to look for an answer, from before the request is sent, before sleeping until it comes: about what being woken can cost.
const SPIN: Duration = Duration::from_micros(100);

/// Whether somebody looks for an answer: one is enough to keep the thread awake for all.
#[derive(Default)]
pub(super) struct Spinning(AtomicBool);

impl Spinning {
    /// Waits for `answer`; nothing else that the thread has to do is held up.
    pub async fn wait<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        if let Some(_turn) = self.turn() {
            let until = Instant::now() + SPIN;
            let passed = async {
                while Instant::now() < until {
                    // To other processes, which may have the answer to give, and to other tasks.
                    std::thread::yield_now();
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                () = passed => {}
            }
        }
        answer.await
    }

    fn turn(&self) -> Option<Turn<'_>> {
        (!self.0.swap(true, Relaxed)).then_some(Turn(&self.0))
    }
}

/// Given back when dropped: the caller may leave at any time.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_waited_for_however_late_it_comes_and_one_spins_at_a_time() {
        let spinning = Spinning::default();
        for late in [Duration::ZERO, SPIN / 4, SPIN * 50] {
            let answer = async {
                assert!(spinning.turn().is_none(), "it has its turn");
                tokio::time::sleep(late).await;
                late
            };
            assert_eq!(spinning.wait(answer).await, late);
            assert!(spinning.turn().is_some(), "and gave it back");
        }
        let turn = spinning.turn();
        assert_eq!(spinning.wait(async { 1 }).await, 1, "without a turn");
        drop(turn);
        let never = std::future::pending::<()>();
        assert!(tokio::time::timeout(SPIN * 10, spinning.wait(never)).await.is_err());
        assert!(spinning.turn().is_some(), "given up while it was waited for");
    }
}
