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
/// How long a host that asked for a pause is asked more slowly than the caller would.
const CALM: Duration = Duration::from_secs(600);
/// What is left of the rate after each pause in that time, in percent.
const CALMER_PERCENT: u32 = 90;
/// Pauses that make it slower still.
const MAX_CALMER: u32 = 20;
/// A host that is asked more slowly gets at once what it would get in this part of a second: a burst may have been the reason.
const CALM_BURST: u32 = 50;

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
    turns: Arc<Turns>,
    paused_until: Option<Instant>,
    /// Pauses in a row whose length the host did not say.
    unsaid: u32,
    /// Pauses within [`CALM`] of each other, and when the last one began.
    pauses: Option<(u32, Instant)>,
}

/// Hands out turns one after the other: of many that wait, only the first looks at the clock.
struct Turns {
    first: tokio::sync::Mutex<()>,
    limiter: DefaultDirectRateLimiter,
}

impl Turns {
    async fn next(&self) {
        let _first = self.first.lock().await;
        self.limiter.until_ready().await;
    }
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
        let turns = {
            let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            let state = hosts.get_or_insert_mut(host.to_owned(), || HostState::fresh(self.rate));
            state.check(host)?;
            let rate = state.calmer(rate.unwrap_or(self.rate));
            match rate == self.rate {
                true => Arc::clone(&state.turns),
                // A space is in no host's name.
                false => {
                    let own = format!("{host} {} {}", rate.per_second, rate.burst);
                    Arc::clone(&hosts.get_or_insert_mut(own, || HostState::fresh(rate)).turns)
                }
            }
        };
        turns.next().await;
        // Another request may have been told to wait while this one waited for its turn.
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.get_mut(host).map_or(Ok(()), |state| state.check(host))
    }

    /// Leaves `host` alone for `pause`.
    pub(crate) fn pause(&self, host: &str, pause: Duration) {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let state = hosts.get_or_insert_mut(host.to_owned(), || HostState::fresh(self.rate));
        if state.check(host).is_ok() && !pause.is_zero() {
            state.pauses = Some((state.recent_pauses().saturating_add(1), Instant::now()));
        }
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
        let turns = Turns { first: tokio::sync::Mutex::default(), limiter: RateLimiter::direct(quota) };
        Self { turns: Arc::new(turns), paused_until: None, unsaid: 0, pauses: None }
    }

    fn recent_pauses(&self) -> u32 {
        self.pauses.filter(|(_, at)| at.elapsed() < CALM).map_or(0, |(pauses, _)| pauses)
    }

    /// `rate`, or less where the host asked for pauses not long ago: it allows less than the caller was told.
    fn calmer(&self, rate: Rate) -> Rate {
        let pauses = self.recent_pauses();
        if pauses == 0 {
            return rate;
        }
        let less = |left: u64, _| left * u64::from(CALMER_PERCENT) / 100;
        let slower = (0..pauses.min(MAX_CALMER)).fold(u64::from(rate.per_second.get()), less);
        let per_second = NonZeroU32::new(u32::try_from(slower).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN);
        let burst = NonZeroU32::new(per_second.get() / CALM_BURST).unwrap_or(NonZeroU32::MIN).min(rate.burst);
        Rate { per_second, burst }
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

/// `Retry-After`: seconds, or a date (RFC 9110, 10.2.3). A date that has passed is no pause; [`MAX_PAUSE`] is the longest.
pub(crate) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let pause = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number has room for: the longest pause.
        text.parse().map_or(MAX_PAUSE, Duration::from_secs)
    } else {
        httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default()
    };
    Some(pause.min(MAX_PAUSE))
}

/// `X-RateLimit-Reset`: seconds since 1970, or from now on where that would be in the year 2001 or before.
pub(crate) fn until_reset(reset: u64, now: SystemTime) -> Duration {
    const TIMES_FROM: u64 = 1_000_000_000;
    let reset = Duration::from_secs(reset);
    let pause = if reset.as_secs() < TIMES_FROM {
        reset
    } else {
        reset.saturating_sub(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    };
    pause.min(MAX_PAUSE)
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
        for long in ["99999999999999999999999", "18446744073709551615", "86401", "Fri, 31 Dec 9999 23:59:59 GMT"] {
            assert_eq!(seconds(long), Some(MAX_PAUSE.as_secs()), "{long}");
        }
        for text in ["", "soon", "-5", "1.5", "١٢"] {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_quota_is_new_at_a_time_or_after_some_seconds() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for (reset, seconds) in [(0, 0), (60, 60), (1_800_000_090, 90), (1_799_999_999, 0), (u64::MAX, 86_400)] {
            assert_eq!(until_reset(reset, now).as_secs(), seconds, "{reset}");
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
    async fn a_host_that_asked_for_a_pause_is_asked_more_slowly_for_ten_minutes() {
        let politeness = Politeness::new(Rate::default());
        let rate = |per_second, burst| Rate {
            per_second: NonZeroU32::new(per_second).unwrap(),
            burst: NonZeroU32::new(burst).unwrap(),
        };
        let asked = |wanted: Rate| {
            let hosts = politeness.hosts.lock().unwrap();
            hosts.peek("a.example").map_or(wanted, |state| state.calmer(wanted))
        };
        assert_eq!(asked(rate(2_000, 100)), rate(2_000, 100));
        politeness.pause_unsaid("a.example");
        politeness.pause_unsaid("a.example");
        politeness.pause("a.example", Duration::from_secs(2));
        assert_eq!(asked(rate(2_000, 100)), rate(1_800, 36), "answers of one moment count once");
        assert_eq!(asked(rate(1, 4)), rate(1, 1), "never not at all");
        tokio::time::advance(Duration::from_secs(3)).await;
        politeness.pause("a.example", Duration::ZERO);
        assert_eq!(asked(rate(2_000, 100)), rate(1_800, 36), "no pause");
        politeness.pause_unsaid("a.example");
        assert_eq!(asked(rate(2_000, 100)), rate(1_620, 32));
        for _ in 0..1_000 {
            tokio::time::advance(Duration::from_secs(100)).await;
            politeness.pause_unsaid("a.example");
        }
        let slowest = asked(rate(2_000, 100)).per_second.get();
        assert!((200..=260).contains(&slowest), "an eighth at least: {slowest}");
        tokio::time::advance(CALM).await;
        assert_eq!(asked(rate(2_000, 100)), rate(2_000, 100));
    }

    /// Sixty-four that wait get a turn each, in the time that the rate says.
    #[tokio::test(flavor = "multi_thread")]
    async fn many_that_wait_for_their_turn_all_get_one() {
        let politeness = Arc::new(Politeness::new(Rate::default()));
        let fast = Rate { per_second: NonZeroU32::new(200).unwrap(), burst: NonZeroU32::MIN };
        let mut waiting = tokio::task::JoinSet::new();
        let started = std::time::Instant::now();
        for _ in 0..64 {
            let politeness = Arc::clone(&politeness);
            waiting.spawn(async move { politeness.turn("a.example", Some(fast)).await });
        }
        let all = waiting.join_all().await;
        assert!(all.len() == 64 && all.iter().all(Result::is_ok), "{all:?}");
        assert!(started.elapsed() >= Duration::from_millis(310), "63 after the first, 5 ms each");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_can_silence_us_for_longer_than_a_day() {
        let politeness = Politeness::new(Rate::default());
        politeness.pause("a.example", Duration::MAX);
        tokio::time::advance(MAX_PAUSE + Duration::from_secs(1)).await;
        assert!(politeness.turn("a.example", None).await.is_ok());
    }
}
