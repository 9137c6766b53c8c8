//! What callers hold for as long as they like: connections, and memory for bodies on their way.
//!
//! Where all of it is taken and a caller needs some, the caller who has most loses a part, if it has more than the other would have
//! then. So a caller that takes much keeps nobody out, and a caller can use everything while nobody else needs it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::shares::{Owner, Refusal};

/// Something that callers hold.
pub(crate) struct Pool {
    most: u64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: u64,
    by: HashMap<Owner, Own>,
    /// Counts up with every part.
    number: u64,
}

#[derive(Default)]
struct Own {
    amount: u64,
    /// By number, so that the oldest is the first.
    parts: BTreeMap<u64, (u64, Arc<Notify>)>,
}

impl Held {
    /// What a part has; none where it was taken away.
    fn part(&mut self, owner: Owner, number: u64) -> Option<(&mut u64, &mut u64)> {
        let own = self.by.get_mut(&owner)?;
        own.parts.get_mut(&number).map(|(part, _)| (&mut own.amount, part))
    }

    fn remove(&mut self, owner: Owner, number: u64) -> Option<Arc<Notify>> {
        let own = self.by.get_mut(&owner)?;
        let (part, revoked) = own.parts.remove(&number)?;
        own.amount -= part;
        self.all -= part;
        if own.parts.is_empty() {
            self.by.remove(&owner);
        }
        Some(revoked)
    }

    /// Takes the largest part away from the caller who has most, the oldest of equal ones; whether anybody has more than `than`.
    fn revoke(&mut self, than: u64) -> bool {
        let largest = self.by.iter().max_by_key(|(_, own)| own.amount).filter(|(_, own)| own.amount > than);
        let Some((owner, number)) = largest.and_then(|(owner, own)| {
            let part = own.parts.iter().max_by_key(|(number, (amount, _))| (*amount, u64::MAX - **number))?;
            Some((*owner, *part.0))
        }) else {
            return false;
        };
        if let Some(revoked) = self.remove(owner, number) {
            revoked.notify_one();
        }
        true
    }
}

impl Pool {
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `amount`; the caller has `most_of_one` at most.
    pub(crate) fn take(self: &Arc<Self>, owner: Owner, amount: u64, most_of_one: u64) -> Result<Part, Refusal> {
        let mut held = self.lock();
        held.number += 1;
        let (number, revoked) = (held.number, Arc::new(Notify::new()));
        held.by.entry(owner).or_default().parts.insert(number, (0, Arc::clone(&revoked)));
        drop(held);
        let part = Part { of: Arc::clone(self), owner, number, most_of_one, revoked };
        part.grow(amount)?;
        Ok(part)
    }

    /// What all have together.
    pub(crate) fn used(&self) -> u64 {
        self.lock().all
    }
}

/// What a caller holds: given back when dropped.
pub(crate) struct Part {
    of: Arc<Pool>,
    owner: Owner,
    number: u64,
    most_of_one: u64,
    revoked: Arc<Notify>,
}

impl Part {
    /// Takes more.
    pub(crate) fn grow(&self, amount: u64) -> Result<(), Refusal> {
        let mut held = self.of.lock();
        let own = held.by.get(&self.owner).map_or(0, |own| own.amount);
        if own + amount > self.most_of_one {
            return Err(Refusal::Own);
        }
        while held.all + amount > self.of.most {
            if !held.revoke(own + amount) {
                return Err(if own > 0 { Refusal::Own } else { Refusal::All });
            }
        }
        let Some((own, part)) = held.part(self.owner, self.number) else { return Err(Refusal::All) };
        *own += amount;
        *part += amount;
        held.all += amount;
        Ok(())
    }

    /// Resolves when it was taken away, because another caller had less.
    pub(crate) async fn revoked(&self) {
        self.revoked.notified().await;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.of.lock().remove(self.owner, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_who_has_most_makes_room() {
        let pool = Pool::new(100);
        let take = |owner: u64, amount: u64| pool.take(Owner::Token(owner), amount, u64::MAX);
        let first: Vec<Part> = (0..10).map(|_| take(1, 10).unwrap()).collect();
        assert_eq!(take(1, 1).err(), Some(Refusal::Own), "it has everything itself");
        let others: Vec<Part> = (0..4).map(|_| take(2, 10).unwrap()).collect();
        let has = |owner: u64| pool.lock().by.get(&Owner::Token(owner)).map_or(0, |own| own.amount);
        assert_eq!((has(1), has(2), pool.used()), (60, 40, 100));
        assert_eq!(futures_util::FutureExt::now_or_never(first[0].revoked()), Some(()), "the oldest");
        assert_eq!(futures_util::FutureExt::now_or_never(first[9].revoked()), None);
        assert_eq!(first[0].grow(1), Err(Refusal::Own));
        // However many there are, the next gets as much as any of them.
        let crowd: Vec<Part> = (10..60).filter_map(|owner| take(owner, 2).ok()).collect();
        assert!(crowd.len() >= 40, "{}", crowd.len());
        assert!(take(99, 1).is_ok());
        assert_eq!(take(100, 101).err(), Some(Refusal::All), "more than there is");
        drop((first, others, crowd));
        assert_eq!(pool.used(), 0);
        assert!(pool.lock().by.is_empty());
    }
}
