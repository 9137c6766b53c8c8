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

    /// Waits until `host` may be asked; fails at once where the host asked for a pause.
    pub(crate) async fn turn(&self, host: &str) -> Result<(), EgressError> {
        let limiter = {
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            let state = hosts.get_or_insert_mut(host.to_owned(), || self.fresh());
            let now = Instant::now();
            if let Some(until) = state.paused_until.filter(|until| *until > now) {
                return Err(EgressError::Paused { host: host.to_owned(), left: until - now });
            }
            Arc::clone(&state.limiter)
        };
        limiter.until_ready().await;
        Ok(())
    }

    /// Leaves `host` alone for `pause`.
    pub(crate) fn pause(&self, host: &str, pause: Duration) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let state = hosts.get_or_insert_mut(host.to_owned(), || self.fresh());
        let until = Instant::now() + pause.min(MAX_PAUSE);
        state.paused_until = Some(state.paused_until.map_or(until, |before| before.max(until)));
    }

    fn fresh(&self) -> HostState {
        let quota = Quota::per_second(self.rate.per_second).allow_burst(self.rate.burst);
        HostState { limiter: Arc::new(RateLimiter::direct(quota)), paused_until: None }
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
        let refused = politeness.turn("a.example").await;
        assert!(matches!(&refused, Err(EgressError::Paused { left, .. }) if left.as_secs() > 20), "{refused:?}");
        assert!(politeness.turn("b.example").await.is_ok());
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(politeness.turn("a.example").await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_can_silence_us_for_longer_than_a_day() {
        let politeness = Politeness::new(Rate::default());
        politeness.pause("a.example", Duration::MAX);
        tokio::time::advance(MAX_PAUSE + Duration::from_secs(1)).await;
        assert!(politeness.turn("a.example").await.is_ok());
    }
}
