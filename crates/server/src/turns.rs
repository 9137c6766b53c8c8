//! Work off the threads that answer: so many pieces at once, and callers take turns.
//!
//! A queue in the order of arrival serves the caller who asks most. Here each caller has a queue of its own and those who wait are
//! served in turn, first between tokens and addresses, then among each; a caller waits for one piece of work of every other at
//! most. Addresses have some of the places at most, `admin` has places of its own.

use std::{
    collections::{HashMap, VecDeque},
    net::Ipv4Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::shares::{Lane, Owner};

tokio::task_local! {
    /// For whom the present request is worked on.
    pub(crate) static PAYER: (Lane, Owner);
}

/// For whom the present request is worked on.
pub(crate) fn payer() -> (Lane, Owner) {
    PAYER.try_with(|payer| *payer).unwrap_or((Lane::Anonymous, Owner::Address(Ipv4Addr::UNSPECIFIED.into())))
}

/// Places for work.
pub(crate) struct Turns {
    shared: Arc<Queue>,
    admin: Arc<Queue>,
}

impl Turns {
    /// `places`, of which addresses have `anonymous` at most, and `admin` more for the operator.
    pub(crate) fn new(places: usize, anonymous: usize, admin: usize) -> Self {
        let queue = |free: usize| {
            let most = [free, anonymous.clamp(1, free)];
            Arc::new(Queue { most, inner: Mutex::new(Inner { free, ..Inner::default() }) })
        };
        Self { shared: queue(places), admin: queue(admin) }
    }

    /// Waits for a place.
    pub(crate) async fn wait(&self, (lane, owner): (Lane, Owner)) -> Place {
        match lane {
            Lane::Admin => self.admin.wait(TOKENS, owner).await,
            Lane::Tokens => self.shared.wait(TOKENS, owner).await,
            Lane::Anonymous => self.shared.wait(ANONYMOUS, owner).await,
        }
    }
}

const TOKENS: usize = 0;
const ANONYMOUS: usize = 1;

struct Queue {
    /// Places of each class, at most.
    most: [usize; 2],
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    free: usize,
    taken: [usize; 2],
    waiting: [CallersByTurn; 2],
    /// Whose turn it is.
    next: usize,
}

/// Calls that wait for a place, by caller; callers take turns.
#[derive(Default)]
struct CallersByTurn {
    turns: VecDeque<Owner>,
    of: HashMap<Owner, VecDeque<oneshot::Sender<Place>>>,
}

impl CallersByTurn {
    fn push(&mut self, owner: Owner, waiter: oneshot::Sender<Place>) {
        let queue = self.of.entry(owner).or_default();
        if queue.is_empty() {
            self.turns.push_back(owner);
        }
        queue.push_back(waiter);
    }

    fn pop(&mut self) -> Option<oneshot::Sender<Place>> {
        let owner = self.turns.pop_front()?;
        let queue = self.of.get_mut(&owner)?;
        let waiter = queue.pop_front();
        if queue.is_empty() {
            self.of.remove(&owner);
        } else {
            self.turns.push_back(owner);
        }
        waiter
    }
}

/// A place: given to the next when dropped.
pub(crate) struct Place {
    /// None once it was given back.
    queue: Option<Arc<Queue>>,
    class: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait(self: &Arc<Self>, class: usize, owner: Owner) -> Place {
        loop {
            let waiter = {
                let mut inner = self.lock();
                if inner.waiting[class].turns.is_empty() && inner.take(class, self.most[class]) {
                    return Place { queue: Some(Arc::clone(self)), class };
                }
                let (sender, waiter) = oneshot::channel();
                inner.waiting[class].push(owner, sender);
                waiter
            };
            // Senders are dropped with the queue only, which this call holds.
            if let Ok(place) = waiter.await {
                return place;
            }
        }
    }

    fn give_back(self: &Arc<Self>, class: usize) {
        let mut inner = self.lock();
        inner.free += 1;
        inner.taken[class] -= 1;
        let mut without = 0;
        while without < 2 {
            let class = inner.next;
            inner.next = 1 - class;
            if inner.waiting[class].turns.is_empty() || !inner.take(class, self.most[class]) {
                without += 1;
                continue;
            }
            without = 0;
            let given = match inner.waiting[class].pop() {
                Some(waiter) => waiter.send(Place { queue: Some(Arc::clone(self)), class }),
                None => Err(Place { queue: None, class }),
            };
            if let Err(mut place) = given {
                // Nobody waits for it any more.
                place.queue = None;
                inner.free += 1;
                inner.taken[class] -= 1;
            }
        }
    }
}

impl Inner {
    /// Takes a place, if there is one for this class.
    fn take(&mut self, class: usize, most: usize) -> bool {
        let room = self.free > 0 && self.taken[class] < most;
        if room {
            self.free -= 1;
            self.taken[class] += 1;
        }
        room
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.give_back(self.class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn callers_take_turns_however_much_one_asks() {
        let turns = Arc::new(Turns::new(1, 1, 1));
        let held = turns.wait((Lane::Tokens, Owner::Token(0))).await;
        let order: Arc<Mutex<Vec<u64>>> = Arc::default();
        let mut tasks = Vec::new();
        for owner in [1, 1, 1, 1, 1, 2, 3] {
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let _place = turns.wait((Lane::Tokens, Owner::Token(owner))).await;
                order.lock().unwrap().push(owner);
            }));
            // Each has to be in the queue before the next.
            tokio::task::yield_now().await;
        }
        // Nobody waits for this one any more when its turn comes.
        let gone = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move { drop(turns.wait((Lane::Tokens, Owner::Token(9))).await) }
        });
        tokio::task::yield_now().await;
        gone.abort();
        let _ = gone.await;
        drop(turns.wait((Lane::Admin, Owner::Token(7))).await);
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, 1, 1, 1, 1]);
        let inner = turns.shared.lock();
        assert_eq!((inner.free, inner.taken, inner.waiting[0].of.len()), (1, [0, 0], 0));
    }

    #[tokio::test]
    async fn addresses_have_some() {
        let turns = Turns::new(4, 2, 1);
        let address = |n: u8| (Lane::Anonymous, Owner::Address([127, 0, 0, n].into()));
        let _held = (turns.wait(address(1)).await, turns.wait(address(2)).await);
        let third = turns.wait(address(3));
        tokio::pin!(third);
        assert!(futures_util::poll!(&mut third).is_pending());
        let tokens =
            (turns.wait((Lane::Tokens, Owner::Token(1))).await, turns.wait((Lane::Tokens, Owner::Token(1))).await);
        drop(tokens);
        assert!(futures_util::poll!(&mut third).is_pending());
        drop(_held.0);
        assert!(futures_util::poll!(&mut third).is_ready());
    }
}
