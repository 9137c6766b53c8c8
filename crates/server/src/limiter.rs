//! How much one caller may ask for: a rate per second, and how many requests at once.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::{edge::Caller, settings::Settings, tokens::Bearer};

/// How much one caller may ask (GCRA, twice a second's worth at once), and have under way.
pub(crate) struct Limiter {
    addresses: Option<DefaultKeyedRateLimiter<IpAddr>>,
    tokens: Option<DefaultKeyedRateLimiter<String>>,
    /// New signed answers: each is recorded for good.
    answers: Option<DefaultKeyedRateLimiter<IpAddr>>,
    /// Requests under way by address.
    busy: Counts,
    most_busy: u32,
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
            busy: Counts::default(),
            most_busy: u32::try_from(settings.max_in_flight_per_caller).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn address(&self, address: IpAddr) -> bool {
        self.addresses.as_ref().is_none_or(|limiter| limiter.check_key(&address).is_ok())
    }

    pub(crate) fn token(&self, token: &Bearer) -> bool {
        self.tokens.as_ref().is_none_or(|limiter| limiter.check_key(&token.id).is_ok())
    }

    /// Whether the caller may have one more new answer signed. Bearers of tokens are known to the operator.
    pub(crate) fn new_answer(&self, caller: &Caller) -> bool {
        match (caller, &self.answers) {
            (Caller::Anyone(address), Some(limiter)) => limiter.check_key(address).is_ok(),
            _ => true,
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

    /// One of the requests that a caller may have under way; none where it has as many already.
    pub(crate) fn slot(&self, caller: &Caller) -> Option<RequestSlot<'_>> {
        match caller {
            Caller::Anyone(address) => {
                self.busy.take(*address, self.most_busy).then_some(RequestSlot::Address(&self.busy, *address))
            }
            Caller::Token(token) => {
                // Counted before it is looked at: the slot gives it back either way.
                let before = token.busy.fetch_add(1, Ordering::AcqRel);
                Some(RequestSlot::Token(Arc::clone(token))).filter(|_| before < self.most_busy)
            }
        }
    }
}

/// One of the bulk submissions that a token may have under way: given back when dropped.
pub(crate) struct BulkSlot<'a>(&'a AtomicU32);

impl<'a> BulkSlot<'a> {
    pub(crate) fn take(count: &'a AtomicU32, most: u32) -> Option<Self> {
        // Counted before it is looked at: the slot gives it back either way.
        let before = count.fetch_add(1, Ordering::AcqRel);
        Some(Self(count)).filter(|_| before < most)
    }
}

impl Drop for BulkSlot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// One of the requests that a caller may have under way: given back when dropped.
pub(crate) enum RequestSlot<'a> {
    Address(&'a Counts, IpAddr),
    Token(Arc<Bearer>),
}

impl Drop for RequestSlot<'_> {
    fn drop(&mut self) {
        match self {
            RequestSlot::Address(counts, address) => counts.give_back(*address),
            RequestSlot::Token(token) => drop(token.busy.fetch_sub(1, Ordering::AcqRel)),
        }
    }
}

/// How many of something each address has.
#[derive(Default)]
pub(crate) struct Counts(Mutex<HashMap<IpAddr, u32>>);

impl Counts {
    /// One more, unless there are `most` already.
    pub(crate) fn take(&self, address: IpAddr, most: u32) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= most {
            return false;
        }
        *count += 1;
        true
    }

    /// One more until it is dropped, unless there are `most` already.
    pub(crate) fn slot(&self, address: IpAddr, most: u32) -> Option<RequestSlot<'_>> {
        self.take(address, most).then_some(RequestSlot::Address(self, address))
    }

    /// One less.
    pub(crate) fn give_back(&self, address: IpAddr) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&address);
            }
        }
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
    fn places_are_given_back() {
        let counts = Counts::default();
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert!(counts.take(address, 2) && counts.take(address, 2) && !counts.take(address, 2));
        counts.give_back(address);
        assert!(counts.take(address, 2));
        counts.give_back(address);
        counts.give_back(address);
        assert!(counts.0.lock().unwrap().is_empty());
    }
}
