//! What callers share: places of which each may have some, and nobody all.
//!
//! Places go to every caller that comes, `most_of_one` to one of them. Beside them there is a reserve, which only callers with fewer than [`FEW`]
//! places get: where many have taken everything, the next who comes is still served.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A caller with fewer places gets one of the reserve.
const FEW: u64 = 2;
/// The reserve, in parts of what is there for all.
const RESERVE: u64 = 2;

/// Who takes: a network of addresses without a token, or a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// See [`network`](crate::limiter::network).
    Address(IpAddr),
    /// By the number that its id stands for.
    Token(u64),
}

/// Three of a kind: nobody in one is kept out by those in another.
pub(crate) struct Lanes<T> {
    /// Tokens with scope `admin`.
    pub admin: T,
    /// Other tokens.
    pub tokens: T,
    /// Callers without a token.
    pub anonymous: T,
}

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    Admin,
    Tokens,
    Anonymous,
}

impl<T> Lanes<T> {
    pub(crate) fn of(&self, lane: Lane) -> &T {
        match lane {
            Lane::Admin => &self.admin,
            Lane::Tokens => &self.tokens,
            Lane::Anonymous => &self.anonymous,
        }
    }
}

/// Why nothing was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The caller has its part.
    Own,
    /// Nothing is free.
    All,
}

/// Places that callers share.
pub(crate) struct Shares {
    most: u64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: u64,
    by: HashMap<Owner, u64>,
}

impl Shares {
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place, the caller's `most_of_one`th at most.
    pub(crate) fn take(self: &Arc<Self>, owner: Owner, most_of_one: u64) -> Result<Share, Refusal> {
        let mut held = self.lock();
        let (all, own) = (held.all, held.by.get(&owner).copied().unwrap_or_default());
        if own >= most_of_one {
            return Err(Refusal::Own);
        }
        let room = if own < FEW { self.most.saturating_mul(1 + RESERVE) } else { self.most };
        if all >= room {
            return Err(Refusal::All);
        }
        held.all += 1;
        held.by.insert(owner, own + 1);
        drop(held);
        Ok(Share { of: Arc::clone(self), owner })
    }

    /// What all have together.
    pub(crate) fn used(&self) -> u64 {
        self.lock().all
    }
}

/// A caller's place: given back when dropped.
pub(crate) struct Share {
    of: Arc<Shares>,
    owner: Owner,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.of.lock();
        held.all -= 1;
        if let Some(own) = held.by.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                held.by.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(shares: &Arc<Shares>, owner: u64, most: u64) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(Owner::Token(owner), most).ok()).collect()
    }

    #[test]
    fn however_many_are_greedy_the_next_gets_something() {
        for greedy in [1, 4, 60] {
            let shares = Shares::new(128);
            let held: Vec<Vec<Share>> = (0..greedy).map(|owner| take_all(&shares, owner, 100)).collect();
            let honest = take_all(&shares, 1_000, 100);
            assert!(honest.len() >= 2, "{greedy} took {}", shares.used());
            assert!(held[0].len() <= 100);
        }
    }

    #[test]
    fn what_is_dropped_is_free_again() {
        let shares = Shares::new(10);
        let held = take_all(&shares, 1, 5);
        assert_eq!((held.len(), shares.used()), (5, 5));
        assert_eq!(shares.take(Owner::Token(1), 5).err(), Some(Refusal::Own));
        let other = take_all(&shares, 2, 100);
        assert_eq!(other.len(), 5);
        assert_eq!(shares.take(Owner::Token(2), 100).err(), Some(Refusal::All));
        let third = shares.take(Owner::Address([127, 0, 0, 1].into()), 3);
        assert!(third.is_ok(), "of the reserve");
        drop((held, other, third));
        assert_eq!(shares.used(), 0);
        assert!(shares.lock().by.is_empty());
    }
}
