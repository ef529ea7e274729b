//! Locks within one process: the ledger behind a mutex.

use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::clock::{Clock, Moment};
use crate::deed::Deed;
use crate::inspect::Inspection;
use crate::name::Key;
use crate::proto::ledger::{Ledger, StoreTime};
use crate::store::{Call, Claim, Claimed, Kept, Renewal, Store};

pub(crate) struct MemoryStore {
    ledger: Mutex<Ledger>,
    clock: Clock,
    /// What the wall clock showed when our clock stood at `started`; from then on the store's
    /// time follows our clock alone, so that setting the wall clock does nothing to leases.
    wall_at_start: u64,
    started: Moment,
}

impl MemoryStore {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Arc::new(Self {
            ledger: Mutex::default(),
            wall_at_start: u64::try_from(wall.as_micros()).unwrap_or(0),
            started: clock.now(),
            clock,
        })
    }

    fn open(&self) -> (MutexGuard<'_, Ledger>, StoreTime) {
        // Nothing in the ledger panics half-way through a change.
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the mutex: the ledger's time must not go back.
        let elapsed = self.clock.now().as_micros() - self.started.as_micros();
        (ledger, StoreTime(self.wall_at_start + elapsed))
    }
}

/// The ledger is left out: its values are tokens.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    fn claim(&self, claim: &Claim) -> Call<Claimed> {
        let (mut ledger, now) = self.open();
        done(ledger.claim(now, claim))
    }

    fn renew(&self, renewals: &[Renewal]) -> Call<Vec<Kept>> {
        let (mut ledger, now) = self.open();
        done(renewals.iter().map(|renewal| ledger.renew(now, renewal)).collect())
    }

    fn release(&self, deed: &Arc<Deed>, recorded: bool) -> Call<Kept> {
        let (mut ledger, now) = self.open();
        done(ledger.release(now, deed, recorded))
    }

    fn inspect(&self, key: &Key) -> Call<Inspection> {
        let (mut ledger, now) = self.open();
        done(ledger.inspect(now, key))
    }

    fn evict(&self, key: &Key, value: &[u8]) -> Call<bool> {
        let (mut ledger, now) = self.open();
        done(ledger.evict(now, key, value))
    }

    fn remaining(&self, deed: &Deed) -> Call<Result<Duration, Kept>> {
        let (mut ledger, now) = self.open();
        done(ledger.remaining(now, deed))
    }

    fn is_inline(&self) -> bool {
        true
    }
}

fn done<T: Send + 'static>(answer: T) -> Call<T> {
    Box::pin(ready(Ok(answer)))
}
