//! A clock that stands where the simulation puts it until it is released, and is the system's from then on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use credence_ledger::Clock;
use credence_protocol::Timestamp;

/// No point in time: the clock is released.
const RELEASED: i64 = i64::MIN;

/// The time of the simulated world.
#[derive(Clone)]
pub struct StoryClock(Arc<AtomicI64>);

impl StoryClock {
    /// Stands at `at`.
    pub fn standing_at(at: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(at.micros())))
    }

    /// What is handed to whoever asks for the time.
    pub fn clock(&self) -> Clock {
        let this = self.clone();
        Arc::new(move || this.now())
    }

    /// The time there.
    pub fn now(&self) -> Timestamp {
        match self.0.load(Ordering::Acquire) {
            RELEASED => system_time(),
            micros => Timestamp::from_micros(micros).unwrap_or_else(|_| system_time()),
        }
    }

    /// Puts it to `at`, if that is later: time does not go back.
    pub fn advance_to(&self, at: Timestamp) {
        self.0.fetch_max(at.micros(), Ordering::AcqRel);
    }

    /// From now on it is the system's.
    pub fn release(&self) {
        self.0.store(RELEASED, Ordering::Release);
    }
}

/// The time of day.
pub fn system_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    #[allow(clippy::expect_used, reason = "a system clock before the year 10000")]
    Timestamp::from_micros(micros).expect("the system clock is before the year 10000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_until_it_is_released() {
        let then = system_time().plus_seconds(-86_400);
        let story = StoryClock::standing_at(then);
        let clock = story.clock();
        assert_eq!(clock(), then);
        story.advance_to(then.plus_seconds(60));
        story.advance_to(then);
        assert_eq!(clock(), then.plus_seconds(60), "time does not go back");
        story.release();
        assert!(clock() >= then.plus_seconds(86_000));
    }
}
