//! The memory pool of one query: its own limit, and one for all queries of its user, within the pool that all queries share. A query that
//! exceeds a limit fails or spills; other queries continue. Results that are not read keep their memory, so without the limit of a user
//! two of them could take all of it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use parking_lot::Mutex;

/// What the queries of each user have reserved together. A user is a name or, if there is no login, an address.
#[derive(Debug)]
pub struct Shares {
    limit: usize,
    used: Mutex<HashMap<Arc<str>, Weak<AtomicUsize>>>,
}

impl Shares {
    /// One user has at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            used: Mutex::default(),
        }
    }

    /// The share of `user`.
    pub fn of(&self, user: &Arc<str>) -> Share {
        let mut all = self.used.lock();
        let used = all.get(user).and_then(Weak::upgrade).unwrap_or_else(|| {
            all.retain(|_, used| used.strong_count() > 0);
            let used = Arc::default();
            all.insert(Arc::clone(user), Arc::downgrade(&used));
            used
        });
        Share {
            limit: self.limit,
            used,
        }
    }
}

/// What the queries of one user have reserved.
#[derive(Debug)]
pub struct Share {
    limit: usize,
    used: Arc<AtomicUsize>,
}

/// Adds to a number of reserved bytes, up to a limit; the number if that would exceed it.
fn add(used: &AtomicUsize, additional: usize, limit: usize) -> std::result::Result<(), usize> {
    let more = |used: usize| used.checked_add(additional).filter(|used| *used <= limit);
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        .map(drop)
}

/// A pool of `limit` bytes that also reserves every byte in `share` and `shared`.
#[derive(Debug)]
pub struct QueryPool {
    shared: Arc<dyn MemoryPool>,
    share: Share,
    limit: usize,
    used: AtomicUsize,
}

impl QueryPool {
    /// An empty pool.
    pub fn new(shared: Arc<dyn MemoryPool>, share: Share, limit: usize) -> Self {
        Self {
            shared,
            share,
            limit,
            used: AtomicUsize::new(0),
        }
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.shared.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.shared.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.used.fetch_add(additional, Ordering::Relaxed);
        self.share.used.fetch_add(additional, Ordering::Relaxed);
        self.shared.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.used.fetch_sub(shrink, Ordering::Relaxed);
        self.share.used.fetch_sub(shrink, Ordering::Relaxed);
        self.shared.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let name = reservation.consumer().name();
        add(&self.used, additional, self.limit).map_err(|used| {
            resources_datafusion_err!(
                "the query needs more memory than the {} bytes that this server gives one query: {name} asked for {additional} \
                 when {used} were taken",
                self.limit
            )
        })?;
        if let Err(used) = add(&self.share.used, additional, self.share.limit) {
            self.used.fetch_sub(additional, Ordering::Relaxed);
            return Err(resources_datafusion_err!(
                "the query needs more memory than is left of the {} bytes that this server gives all queries of one user: {name} \
                 asked for {additional} when {used} were taken. Read or cancel the results of other queries",
                self.share.limit
            ));
        }
        self.shared
            .try_grow(reservation, additional)
            .inspect_err(|_| {
                self.used.fetch_sub(additional, Ordering::Relaxed);
                self.share.used.fetch_sub(additional, Ordering::Relaxed);
            })
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query({} of {} bytes)", self.reserved(), self.limit)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn both_limits_hold() {
        let shared: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100));
        let (shares, user) = (Shares::new(1000), Arc::from("ada"));
        let query = |limit| -> Arc<dyn MemoryPool> {
            let share = shares.of(&user);
            Arc::new(QueryPool::new(Arc::clone(&shared), share, limit))
        };
        let (small, large) = (query(60), query(90));
        let one = MemoryConsumer::new("one").register(&small);
        let two = MemoryConsumer::new("two").register(&large);
        one.try_grow(50).unwrap();
        let error = one.try_grow(20).unwrap_err().to_string();
        assert!(
            error.contains("60 bytes that this server gives one query"),
            "{error}"
        );
        two.try_grow(40).unwrap();
        assert!(two.try_grow(40).is_err(), "the server's memory is used up");
        assert_eq!(
            (small.reserved(), large.reserved(), shared.reserved()),
            (50, 40, 90)
        );
        one.free();
        two.try_grow(40).unwrap();
        drop((one, two));
        assert_eq!(
            (small.reserved(), large.reserved(), shared.reserved()),
            (0, 0, 0)
        );
    }

    #[test]
    fn a_user_leaves_memory_to_others() {
        let shared: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100));
        let shares = Shares::new(75);
        let query = |user: &str| -> Arc<dyn MemoryPool> {
            let share = shares.of(&Arc::from(user));
            Arc::new(QueryPool::new(Arc::clone(&shared), share, 50))
        };
        let pools = [query("ada"), query("ada"), query("bob")];
        let [one, two, his] =
            [0, 1, 2].map(|at: usize| MemoryConsumer::new("x").register(&pools[at]));
        one.try_grow(50).unwrap();
        let error = two.try_grow(40).unwrap_err().to_string();
        assert!(
            error.contains("75 bytes that this server gives all queries of one user"),
            "{error}"
        );
        two.try_grow(25).unwrap();
        his.try_grow(25).unwrap();
        one.free();
        two.try_grow(25).unwrap();
        assert_eq!(pools.each_ref().map(|pool| pool.reserved()), [0, 50, 25]);
        drop((one, two, his, pools));
        assert_eq!(shares.of(&Arc::from("ada")).used.load(Ordering::Relaxed), 0);
        // Users without queries are forgotten.
        shares.of(&Arc::from("eve"));
        assert_eq!(shares.used.lock().len(), 1);
    }
}
