//! Locks within one process: the ledger behind a mutex.

use std::collections::HashMap;
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use crate::clock::{Clock, Moment};
use crate::deed::Deed;
use crate::inspect::Inspection;
use crate::lobby::{Listening, Lobby};
use crate::name::Key;
use crate::proto::ledger::{Ledger, StoreTime};
use crate::store::{Call, Claim, Claimed, Kept, Renewal, Store};

pub(crate) struct MemoryStore {
    ledger: Mutex<Ledger>,
    lobbies: Mutex<HashMap<Arc<str>, Weak<Lobby>>>,
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
            lobbies: Mutex::default(),
            wall_at_start: u64::try_from(wall.as_micros()).unwrap_or(0),
            started: clock.now(),
            clock,
        })
    }

    /// Passes on what the ledger has to tell, and answers.
    fn done<T: Send + 'static>(&self, mut ledger: MutexGuard<'_, Ledger>, answer: T) -> Call<T> {
        let told = ledger.take_told();
        drop(ledger);
        if !told.is_empty() {
            let heard_at = self.clock.now();
            let lobbies = self.lobbies.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for (channel, hand_over) in told {
                if let Some(lobby) = lobbies.get(&channel).and_then(Weak::upgrade) {
                    lobby.deliver(hand_over, heard_at);
                }
            }
        }
        Box::pin(ready(Ok(answer)))
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
        let answer = ledger.claim(now, claim);
        self.done(ledger, answer)
    }

    fn renew(&self, renewals: &[Renewal]) -> Call<Vec<Kept>> {
        let (mut ledger, now) = self.open();
        let answer = renewals.iter().map(|renewal| ledger.renew(now, renewal)).collect();
        self.done(ledger, answer)
    }

    fn release(&self, deed: &Arc<Deed>, recorded: bool) -> Call<Kept> {
        let (mut ledger, now) = self.open();
        let answer = ledger.release(now, deed, recorded);
        self.done(ledger, answer)
    }

    fn inspect(&self, key: &Key) -> Call<Inspection> {
        let (mut ledger, now) = self.open();
        let answer = ledger.inspect(now, key);
        self.done(ledger, answer)
    }

    fn evict(&self, key: &Key, value: &[u8]) -> Call<bool> {
        let (mut ledger, now) = self.open();
        let answer = ledger.evict(now, key, value);
        self.done(ledger, answer)
    }

    fn remaining(&self, deed: &Deed) -> Call<Result<Duration, Kept>> {
        let (mut ledger, now) = self.open();
        let answer = ledger.remaining(now, deed);
        self.done(ledger, answer)
    }

    fn listen(&self, lobby: &Arc<Lobby>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let channel = lobby.channel();
        let mut lobbies = self.lobbies.lock().unwrap_or_else(PoisonError::into_inner);
        lobbies.insert(Arc::clone(channel), Arc::downgrade(lobby));
        drop(lobbies);
        self.open().0.listen(channel, true);
        lobby.set_listening(Listening::Yes);
        None
    }

    fn is_inline(&self) -> bool {
        true
    }
}
