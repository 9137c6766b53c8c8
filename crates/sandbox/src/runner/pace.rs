//! The promised rate, kept: in no second does the target see more than so many requests.
//!
//! A request arrives some time between being sent and being answered. So the request that is `rate` places later waits until a second
//! after the earlier one was answered, or, where answers are slow, until a second and [`ARRIVAL`] after it was sent.

use std::{
    collections::VecDeque,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// A request that is not answered yet has arrived after so long.
const ARRIVAL: Duration = Duration::from_millis(250);
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Sent {
    at: Instant,
    answered: Mutex<Option<Instant>>,
}

impl Sent {
    /// When the request had arrived at the latest, and whether that may still become earlier.
    fn arrived(&self) -> (Instant, bool) {
        let answered = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let latest = self.at + ARRIVAL;
        answered.map_or((latest, true), |answered| (answered.min(latest), false))
    }
}

/// Hands out turns.
#[derive(Debug)]
pub struct Pacer {
    rate: usize,
    recent: tokio::sync::Mutex<VecDeque<Arc<Sent>>>,
}

/// A turn that was taken. Dropping it says that the request was answered, or failed.
#[derive(Debug)]
pub struct Pace(Arc<Sent>);

impl Drop for Pace {
    fn drop(&mut self) {
        *self.0.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

impl Pacer {
    /// At most `rate` requests in any second.
    pub fn new(rate: NonZeroU32) -> Self {
        Self { rate: rate.get() as usize, recent: tokio::sync::Mutex::new(VecDeque::new()) }
    }

    /// Waits for a turn, first come, first served.
    pub async fn turn(&self) -> Pace {
        let mut recent = self.recent.lock().await;
        if recent.len() >= self.rate
            && let Some(earlier) = recent.pop_front()
        {
            loop {
                let (arrived, may_change) = earlier.arrived();
                let free = arrived + SECOND;
                if Instant::now() >= free {
                    break;
                }
                // An answer would free the turn earlier, but never before a second has passed from now on.
                let soonest = if may_change { free.min(Instant::now() + SECOND) } else { free };
                sleep_until(soonest).await;
            }
        }
        let sent = Arc::new(Sent { at: Instant::now(), answered: Mutex::new(None) });
        recent.push_back(Arc::clone(&sent));
        Pace(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most requests that any second saw.
    fn busiest(times: &[Instant]) -> usize {
        let within = |from: Instant| times.iter().filter(|time| **time >= from && **time < from + SECOND).count();
        times.iter().map(|time| within(*time)).max().unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn no_second_sees_more_than_was_promised() {
        for (rate, delay_ms) in [(1, 0), (2, 30), (5, 200), (50, 3), (5, 4_000)] {
            let pacer = Arc::new(Pacer::new(NonZeroU32::new(rate).unwrap()));
            let arrivals = Arc::new(Mutex::new(Vec::new()));
            let start = Instant::now();
            let tasks: Vec<_> = (0..40)
                .map(|n: u64| {
                    let (pacer, arrivals) = (Arc::clone(&pacer), Arc::clone(&arrivals));
                    tokio::spawn(async move {
                        let pace = pacer.turn().await;
                        // Some requests are under way for long, others not at all.
                        tokio::time::sleep(Duration::from_millis(if n.is_multiple_of(3) { 200 } else { 0 })).await;
                        arrivals.lock().unwrap().push(Instant::now());
                        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
                        drop(pace);
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let mut arrivals = arrivals.lock().unwrap().clone();
            arrivals.sort();
            assert!(busiest(&arrivals) <= rate as usize, "{rate}: {}", busiest(&arrivals));
            // And the promise is used: slow answers do not stop the others.
            let needed = SECOND * 40 / rate * 3 / 2 + Duration::from_secs(5);
            assert!(start.elapsed() < needed, "{rate}: {:?}", start.elapsed());
        }
    }
}
