//! A clock that does not jump ahead (docs/adr/0022).
//!
//! Within a process the time of day is compared with a clock that only counts. Where the time of day runs ahead of it by more than
//! [`MAX_STEP`], the process goes on counting from the last time it believed, and says so; when the time of day comes back, it is
//! believed again. A step back is believed at once: the ledger keeps its own order. A start takes the clock as it is, because a
//! machine may have been off for months.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use credence_ledger::Clock;
use credence_protocol::Timestamp;

/// How far the time of day may run ahead of the time that passed.
pub const MAX_STEP: Duration = Duration::from_secs(3600);

/// How much time has passed since some moment.
type Counter = Box<dyn Fn() -> Duration + Send + Sync>;

/// A clock that does not jump ahead.
pub struct SteadyClock {
    wall: Clock,
    counter: Counter,
    state: Mutex<State>,
}

struct State {
    /// The last time of day that was believed, and when that was.
    believed: Timestamp,
    counted: Duration,
    /// What the clock would show, had it never been set back: putting it right again is no jump ahead.
    unset: Timestamp,
    /// How far the time of day is ahead, while it is not believed.
    held: Option<Duration>,
}

impl SteadyClock {
    /// Steadies `wall` from now on.
    pub fn new(wall: Clock) -> Arc<Self> {
        Self::with_counter(wall, Box::new(time_passed))
    }

    fn with_counter(wall: Clock, counter: Counter) -> Arc<Self> {
        let state = State { believed: wall(), counted: counter(), unset: wall(), held: None };
        Arc::new(Self { wall, counter, state: Mutex::new(state) })
    }

    /// As a ledger takes it.
    pub fn clock(self: &Arc<Self>) -> Clock {
        let steady = Arc::clone(self);
        Arc::new(move || steady.now())
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (wall, counted) = ((self.wall)(), (self.counter)());
        let passed = counted.saturating_sub(state.counted);
        let (expected, unset) = (state.believed.plus(passed), state.unset.plus(passed));
        let ahead = u64::try_from(wall.micros().saturating_sub(expected.max(unset).micros()))
            .map_or(Duration::ZERO, Duration::from_micros);
        if ahead > MAX_STEP {
            if state.held.is_none() {
                tracing::error!(%wall, %expected, "the clock jumped ahead: time goes on as it was");
            }
            state.held = Some(ahead);
            return expected;
        }
        if state.held.take().is_some() {
            tracing::info!(%wall, "the clock is believed again");
        }
        (state.believed, state.counted, state.unset) = (wall, counted, unset.max(wall));
        wall
    }

    /// How far the time of day is ahead of the time that passed, where it is not believed.
    pub fn held(&self) -> Option<Duration> {
        self.now();
        self.state.lock().unwrap_or_else(PoisonError::into_inner).held
    }
}

/// Time passed, that of a suspended machine included: after a night's sleep the time of day is right.
#[cfg(target_os = "linux")]
fn time_passed() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), u32::try_from(now.tv_nsec).unwrap_or_default())
}

#[cfg(not(target_os = "linux"))]
fn time_passed() -> Duration {
    use std::{sync::OnceLock, time::Instant};
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

    /// Seconds of the time of day, and seconds that passed.
    fn clock(wall: &Arc<AtomicI64>, passed: &Arc<AtomicU64>) -> Arc<SteadyClock> {
        let (wall, passed) = (Arc::clone(wall), Arc::clone(passed));
        SteadyClock::with_counter(
            Arc::new(move || Timestamp::from_micros(wall.load(SeqCst) * 1_000_000).unwrap()),
            Box::new(move || Duration::from_secs(passed.load(SeqCst))),
        )
    }

    #[test]
    fn a_jump_ahead_is_held_until_the_clock_comes_back() {
        let (wall, passed) = (Arc::new(AtomicI64::new(1_000_000)), Arc::new(AtomicU64::new(0)));
        let clock = clock(&wall, &passed);
        let now = || clock.now().micros() / 1_000_000;
        let pass = |seconds: u32| {
            wall.fetch_add(i64::from(seconds), SeqCst);
            passed.fetch_add(u64::from(seconds), SeqCst);
        };
        pass(86_400);
        assert_eq!((now(), clock.held()), (1_086_400, None), "time that passes is no jump, however long");
        wall.fetch_add(3_600, SeqCst);
        assert_eq!((now(), clock.held()), (1_090_000, None), "a small step is believed");
        wall.fetch_add(150_000_000, SeqCst);
        assert_eq!(now(), 1_090_000);
        pass(100);
        assert_eq!((now(), clock.held()), (1_090_100, Some(Duration::from_secs(150_000_000))));
        wall.fetch_sub(150_000_000, SeqCst);
        assert_eq!((now(), clock.held()), (1_090_100, None));
        wall.fetch_sub(7_200, SeqCst);
        assert_eq!((now(), clock.held()), (1_082_900, None), "a step back is believed");
        wall.fetch_add(7_200, SeqCst);
        assert_eq!((now(), clock.held()), (1_090_100, None), "putting it right again is no jump ahead");
        wall.fetch_add(3_601, SeqCst);
        assert_eq!(now(), 1_090_100, "and is where the next step is measured from");
    }

    #[test]
    fn time_passes() {
        let before = time_passed();
        assert!(before > Duration::ZERO || cfg!(not(target_os = "linux")));
        assert!(time_passed() >= before);
    }
}
