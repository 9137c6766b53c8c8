//! How often one caller may ask. How much it may have under way is in `shares`.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::{edge::Caller, settings::Settings, tokens::Bearer};

/// How often one caller may ask (GCRA, twice a second's worth at once).
pub(crate) struct Limiter {
    addresses: Option<DefaultKeyedRateLimiter<IpAddr>>,
    tokens: Option<DefaultKeyedRateLimiter<String>>,
    /// New signed answers: each is recorded for good.
    answers: Option<DefaultKeyedRateLimiter<IpAddr>>,
    /// The same for all addresses together.
    all_answers: Option<SecondShares>,
}

impl Limiter {
    pub(crate) fn new(settings: &Settings) -> Self {
        fn quota(per_second: u32) -> Option<Quota> {
            let rate = NonZeroU32::new(per_second)?;
            Some(Quota::per_second(rate).allow_burst(rate.saturating_add(per_second)))
        }
        Self {
            addresses: quota(settings.requests_per_second).map(RateLimiter::keyed),
            tokens: quota(settings.token_requests_per_second).map(RateLimiter::keyed),
            answers: quota(settings.new_answers_per_second).map(RateLimiter::keyed),
            all_answers: NonZeroU32::new(settings.anonymous_answers_per_second)
                .map(|most| SecondShares::new(most.get(), Duration::from_secs(1))),
        }
    }

    pub(crate) fn address(&self, address: IpAddr) -> bool {
        self.addresses.as_ref().is_none_or(|limiter| limiter.check_key(&address).is_ok())
    }

    pub(crate) fn token(&self, token: &Bearer) -> bool {
        self.tokens.as_ref().is_none_or(|limiter| limiter.check_key(&token.id).is_ok())
    }

    /// Whether the caller may have one more new answer signed; if not, the setting that forbids it. Bearers of tokens are known to
    /// the operator.
    pub(crate) fn new_answer(&self, caller: &Caller) -> Result<(), &'static str> {
        let Caller::Anyone(address) = caller else { return Ok(()) };
        if self.answers.as_ref().is_some_and(|limiter| limiter.check_key(address).is_err()) {
            return Err("new_answers_per_second");
        }
        match &self.all_answers {
            Some(shares) if !shares.take(*address, Instant::now()) => Err("anonymous_answers_per_second"),
            _ => Ok(()),
        }
    }

    /// Forgets callers that have not asked for a while.
    pub(crate) fn forget(&self) {
        if let Some(limiter) = &self.addresses {
            limiter.retain_recent();
        }
        if let Some(limiter) = &self.tokens {
            limiter.retain_recent();
        }
        if let Some(limiter) = &self.answers {
            limiter.retain_recent();
        }
    }
}

/// What all addresses together may have in a period, shared as in `shares`: an address gets one more while it had fewer than are
/// left, so that the last ones are for those who had none.
struct SecondShares {
    most: u32,
    period: Duration,
    now: Mutex<Period>,
}

struct Period {
    since: Instant,
    left: u32,
    had: HashMap<IpAddr, u32>,
}

impl SecondShares {
    fn new(most: u32, period: Duration) -> Self {
        Self { most, period, now: Mutex::new(Period { since: Instant::now(), left: most, had: HashMap::new() }) }
    }

    fn take(&self, address: IpAddr, at: Instant) -> bool {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if at.saturating_duration_since(now.since) >= self.period {
            *now = Period { since: at, left: self.most, had: HashMap::new() };
        }
        let left = now.left;
        let had = now.had.entry(address).or_default();
        let more = *had < left;
        *had += u32::from(more);
        now.left -= u32::from(more);
        more
    }
}

/// A caller with one address of an IPv6 network has them all.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
        },
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_not_addresses() {
        let network = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(network("192.0.2.1"), "192.0.2.1");
    }

    #[test]
    fn a_flood_from_many_addresses_leaves_answers_for_one_more() {
        let shares = SecondShares::new(400, Duration::from_secs(1));
        let (start, address) = (Instant::now(), |n: u32| IpAddr::from(n.to_be_bytes()));
        let given = (0..100_000).filter(|n| shares.take(address(n % 250), start)).count();
        assert!((250..400).contains(&given), "{given}");
        assert!(shares.take(address(1_000), start), "who had none");
        assert!(!shares.take(address(7), start));
        assert!(shares.take(address(7), start + Duration::from_secs(1)), "in the next second");
    }
}
