//! How often a host is asked, and for how long it is left alone after it asked for that.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use lru::LruCache;
use tokio::time::Instant;

use crate::EgressError;

/// Hosts that are remembered. One that is forgotten may be asked at once again.
const MAX_HOSTS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// The longest pause that a host can ask for.
const MAX_PAUSE: Duration = Duration::from_secs(24 * 3600);
/// The first pause of a host that says 429 and not for how long. Each one in a row is twice as long, up to [`MAX_UNSAID_PAUSE`].
const UNSAID_PAUSE: Duration = Duration::from_secs(1);
const MAX_UNSAID_PAUSE: Duration = Duration::from_secs(64);

/// How often one host may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests a second, on average.
    pub per_second: NonZeroU32,
    /// Requests at once, after a time of silence.
    pub burst: NonZeroU32,
}

impl Default for Rate {
    /// Two a second, four at once.
    fn default() -> Self {
        Self {
            per_second: NonZeroU32::new(2).unwrap_or(NonZeroU32::MIN),
            burst: NonZeroU32::new(4).unwrap_or(NonZeroU32::MIN),
        }
    }
}

struct HostState {
    limiter: Arc<DefaultDirectRateLimiter>,
    paused_until: Option<Instant>,
    /// Pauses in a row whose length the host did not say.
    unsaid: u32,
}

/// The memory of all hosts.
pub(crate) struct Politeness {
    rate: Rate,
    hosts: Mutex<LruCache<String, HostState>>,
}

impl Politeness {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, hosts: Mutex::new(LruCache::new(MAX_HOSTS)) }
    }

    /// Waits until `host` may be asked, at `rate` where the request has one of its own; fails at once where the host asked for a pause.
    pub(crate) async fn turn(&self, host: &str, rate: Option<Rate>) -> Result<(), EgressError> {
        let limiter = {
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            let state = hosts.get_or_insert_mut(host.to_owned(), || HostState::fresh(self.rate));
            state.check(host)?;
            match rate.filter(|rate| *rate != self.rate) {
                None => Arc::clone(&state.limiter),
                // A space is in no host's name.
                Some(rate) => {
                    let own = format!("{host} {} {}", rate.per_second, rate.burst);
                    Arc::clone(&hosts.get_or_insert_mut(own, || HostState::fresh(rate)).limiter)
                }
            }
        };
        limiter.until_ready().await;
        // Another request may have been told to wait while this one waited for its turn.
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.get_mut(host).map_or(Ok(()), |state| state.check(host))
    }

    /// Leaves `host` alone for `pause`.
    pub(crate) fn pause(&self, host: &str, pause: Duration) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let state = hosts.get_or_insert_mut(host.to_owned(), || HostState::fresh(self.rate));
        let until = Instant::now() + pause.min(MAX_PAUSE);
        state.paused_until = Some(state.paused_until.map_or(until, |before| before.max(until)));
    }

    /// Leaves `host` alone after a 429 that does not say for how long. Answers to requests that were under way together count once.
    pub(crate) fn pause_unsaid(&self, host: &str) {
        let pause = {
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            let state = hosts.get_or_insert_mut(host.to_owned(), || HostState::fresh(self.rate));
            if state.check(host).is_err() {
                return;
            }
            let pause = UNSAID_PAUSE.saturating_mul(1 << state.unsaid.min(16)).min(MAX_UNSAID_PAUSE);
            state.unsaid += 1;
            pause
        };
        self.pause(host, pause);
    }

    /// `host` answered as usual: its next unsaid pause is short again.
    pub(crate) fn answered(&self, host: &str) {
        if let Some(state) = self.hosts.lock().unwrap_or_else(PoisonError::into_inner).peek_mut(host) {
            state.unsaid = 0;
        }
    }

    /// How long `host` is still left alone.
    pub(crate) fn pause_left(&self, host: &str) -> Option<Duration> {
        let hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let until = hosts.peek(host)?.paused_until?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }
}

impl HostState {
    fn fresh(rate: Rate) -> Self {
        let quota = Quota::per_second(rate.per_second).allow_burst(rate.burst);
        Self { limiter: Arc::new(RateLimiter::direct(quota)), paused_until: None, unsaid: 0 }
    }

    /// Fails while the host is left alone.
    fn check(&self, host: &str) -> Result<(), EgressError> {
        let now = Instant::now();
        match self.paused_until.filter(|until| *until > now) {
            Some(until) => Err(EgressError::Paused { host: host.to_owned(), left: until - now }),
            None => Ok(()),
        }
    }
}

/// `Retry-After`: seconds, or a date (RFC 9110, 10.2.3). A date that has passed is no pause.
pub(crate) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has room for: the longest pause.
        return Some(text.parse().map_or(MAX_PAUSE, Duration::from_secs));
    }
    httpdate::parse_http_date(text).ok().map(|date| date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_seconds_or_dates() {
        let now = httpdate::parse_http_date("Wed, 18 Nov 2026 08:00:00 GMT").unwrap();
        let seconds = |text| retry_after(text, now).map(|pause| pause.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds(" 0 "), Some(0));
        assert_eq!(seconds("Wed, 18 Nov 2026 08:01:00 GMT"), Some(60));
        assert_eq!(seconds("Wed, 18 Nov 2026 07:00:00 GMT"), Some(0));
        assert_eq!(seconds("99999999999999999999999"), Some(MAX_PAUSE.as_secs()));
        for text in ["", "soon", "-5", "1.5", "١٢"] {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_host_is_left_alone_and_others_are_not() {
        let politeness = Politeness::new(Rate::default());
        politeness.pause("a.example", Duration::from_secs(30));
        politeness.pause("a.example", Duration::from_secs(5));
        let refused = politeness.turn("a.example", None).await;
        assert!(matches!(&refused, Err(EgressError::Paused { left, .. }) if left.as_secs() > 20), "{refused:?}");
        assert!(politeness.turn("b.example", None).await.is_ok());
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(politeness.turn("a.example", None).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_at_every_rate() {
        let politeness = Politeness::new(Rate::default());
        let fast = NonZeroU32::new(2_000).map(|n| Rate { per_second: n, burst: n });
        assert!(politeness.turn("a.example", fast).await.is_ok());
        politeness.pause("a.example", Duration::from_secs(30));
        assert!(matches!(politeness.turn("a.example", fast).await, Err(EgressError::Paused { .. })));
    }

    #[tokio::test]
    async fn a_pause_that_begins_while_a_request_waits_for_its_turn_holds_for_it() {
        let slow = Rate { per_second: NonZeroU32::new(4).unwrap(), burst: NonZeroU32::MIN };
        let politeness = Politeness::new(slow);
        politeness.turn("a.example", None).await.unwrap();
        let (waited, ()) = tokio::join!(politeness.turn("a.example", None), async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            politeness.pause("a.example", Duration::from_secs(30));
        });
        assert!(matches!(waited, Err(EgressError::Paused { .. })), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_that_are_not_said_grow_until_the_host_answers() {
        let politeness = Politeness::new(Rate::default());
        let left = || politeness.pause_left("a.example").map(|left| left.as_secs());
        for seconds in [1, 2, 4, 8, 16, 32, 64, 64] {
            politeness.pause_unsaid("a.example");
            // Others that were under way get the same answer.
            politeness.pause_unsaid("a.example");
            assert_eq!(left(), Some(seconds));
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(left(), None);
        }
        politeness.answered("a.example");
        politeness.pause_unsaid("a.example");
        assert_eq!(left(), Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_can_silence_us_for_longer_than_a_day() {
        let politeness = Politeness::new(Rate::default());
        politeness.pause("a.example", Duration::MAX);
        tokio::time::advance(MAX_PAUSE + Duration::from_secs(1)).await;
        assert!(politeness.turn("a.example", None).await.is_ok());
    }
}
