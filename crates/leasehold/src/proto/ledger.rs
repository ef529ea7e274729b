//! The lock table: what a store does with each request.
//!
//! The memory store is this and a mutex. The Lua scripts say the same in Lua, and
//! `store/differential.rs` runs random sequences against both and compares every reply.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use crate::inspect::{Facts, Holder, Inspection, Remaining};
use crate::name::Key;
use crate::store::{Claim, Claimed, FACTS_TTLS, Kept, Record, Renewal};
use crate::token::Token;

/// The store's own time, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoreTime(pub(crate) u64);

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    locks: HashMap<Key, Lock>,
    /// What holders have told of themselves. They say whose they are: those of a holder who
    /// crashed stay until they run out, and are not taken for the next one's.
    facts: HashMap<Key, KeptFacts>,
    last_fence: u64,
    /// What has run out is swept out when there is this much of both, so nothing is kept for
    /// ever.
    sweep_at: usize,
}

#[derive(Debug)]
struct Lock {
    value: Vec<u8>,
    expires_at: StoreTime,
}

#[derive(Debug)]
struct KeptFacts {
    of: Token,
    facts: Facts,
    expires_at: StoreTime,
}

impl Ledger {
    pub(crate) fn claim(&mut self, now: StoreTime, claim: &Claim) -> Claimed {
        self.sweep(now);
        let value = claim.value();
        if let Some(lock) = self.live(now, &claim.key) {
            if lock.value != value {
                return Claimed::Held(lock.holder(now, None));
            }
            lock.expires_at = now.after(claim.ttl);
        } else {
            let lock = Lock { value, expires_at: now.after(claim.ttl) };
            self.locks.insert(claim.key.clone(), lock);
        }
        self.last_fence = (self.last_fence + 1).max(now.0);
        Claimed::Granted { fence: self.last_fence }
    }

    pub(crate) fn renew(&mut self, now: StoreTime, renewal: &Renewal) -> Kept {
        match self.owned(now, &renewal.key, &renewal.token) {
            Ok(lock) => {
                lock.expires_at = now.after(renewal.ttl);
                Kept::Ours
            }
            Err(kept) => kept,
        }
    }

    pub(crate) fn record(&mut self, now: StoreTime, record: &Record) -> Kept {
        let Record { renewal, fence, held_for } = record;
        match self.owned(now, &renewal.key, &renewal.token) {
            Ok(lock) => {
                lock.expires_at = now.after(renewal.ttl);
                let since = now.before(*held_for).to_system_time();
                let kept = KeptFacts {
                    of: renewal.token,
                    facts: Facts { fence: *fence, since, ttl: renewal.ttl },
                    expires_at: now.after(renewal.ttl * FACTS_TTLS),
                };
                self.facts.insert(renewal.key.clone(), kept);
                Kept::Ours
            }
            Err(kept) => kept,
        }
    }

    pub(crate) fn release(
        &mut self,
        now: StoreTime,
        key: &Key,
        token: &Token,
        recorded: bool,
    ) -> Kept {
        match self.owned(now, key, token) {
            Ok(_) => {
                self.locks.remove(key);
                if recorded {
                    self.facts.remove(key);
                }
                Kept::Ours
            }
            Err(kept) => kept,
        }
    }

    pub(crate) fn inspect(&mut self, now: StoreTime, key: &Key) -> Inspection {
        let facts = self.facts.get(key).filter(|kept| kept.expires_at > now);
        let facts = facts.map(|kept| (kept.of, kept.facts));
        let Some(lock) = self.live(now, key) else { return Inspection::Free };
        let is_its = |(of, _): &(Token, Facts)| lock.value.starts_with(of.as_bytes());
        Inspection::Held(lock.holder(now, facts.filter(is_its).map(|(_, facts)| facts)))
    }

    pub(crate) fn evict(&mut self, now: StoreTime, key: &Key, value: &[u8]) -> bool {
        let is_it = self.live(now, key).is_some_and(|lock| lock.value == value);
        if is_it {
            self.locks.remove(key);
            self.facts.remove(key);
        }
        is_it
    }

    pub(crate) fn remaining(
        &mut self,
        now: StoreTime,
        key: &Key,
        token: &Token,
    ) -> Result<Duration, Kept> {
        self.owned(now, key, token).map(|lock| lock.expires_at.since(now))
    }

    fn live(&mut self, now: StoreTime, key: &Key) -> Option<&mut Lock> {
        self.locks.get_mut(key).filter(|lock| lock.expires_at > now)
    }

    fn owned(&mut self, now: StoreTime, key: &Key, token: &Token) -> Result<&mut Lock, Kept> {
        match self.live(now, key) {
            Some(lock) if lock.value.starts_with(token.as_bytes()) => Ok(lock),
            Some(_) => Err(Kept::Taken),
            None => Err(Kept::Gone),
        }
    }

    fn sweep(&mut self, now: StoreTime) {
        if self.locks.len() + self.facts.len() < self.sweep_at.max(SMALLEST_SWEEP) {
            return;
        }
        self.locks.retain(|_, lock| lock.expires_at > now);
        self.facts.retain(|_, kept| kept.expires_at > now);
        self.facts.shrink_to_fit();
        self.sweep_at = (self.locks.len() + self.facts.len()) * 2;
        self.locks.shrink_to(self.sweep_at);
    }
}

impl Lock {
    fn holder(&self, now: StoreTime, facts: Option<Facts>) -> Holder {
        let remaining = Remaining::For(self.expires_at.since(now));
        Holder { value: self.value.as_slice().into(), remaining, facts }
    }
}

impl StoreTime {
    fn after(self, duration: Duration) -> Self {
        Self(self.0 + micros(duration))
    }

    fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// In whole milliseconds, which is how precise stores are about it.
    fn to_system_time(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.0 / 1_000)
    }
}

const SMALLEST_SWEEP: usize = 1_024;

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Prefix;

    const TTL: Duration = Duration::from_secs(10);
    const NOW: StoreTime = StoreTime(1_000_000_000);

    fn claim(name: &str) -> Claim {
        let key = Key::new(&Prefix::default(), name).unwrap();
        Claim { key, token: Token::generate(), metadata: b"who"[..].into(), ttl: TTL }
    }

    fn renewal(claim: &Claim) -> Renewal {
        Renewal { key: claim.key.clone(), token: claim.token, ttl: claim.ttl }
    }

    fn fence(claimed: Claimed) -> u64 {
        match claimed {
            Claimed::Granted { fence } => fence,
            other => panic!("not granted: {other:?}"),
        }
    }

    #[test]
    fn a_claim_on_a_held_name_tells_the_holder() {
        let mut ledger = Ledger::default();
        fence(ledger.claim(NOW, &claim("a")));
        let Claimed::Held(holder) = ledger.claim(NOW.after(TTL / 2), &claim("a")) else { panic!() };
        assert_eq!(holder.remaining(), Remaining::For(TTL / 2));
        assert_eq!(holder.metadata(), Some(&b"who"[..]));
    }

    #[test]
    fn the_same_token_is_granted_again_with_a_new_fence_and_a_full_ttl() {
        let mut ledger = Ledger::default();
        let claim = claim("a");
        let first = fence(ledger.claim(NOW, &claim));
        let later = NOW.after(TTL / 2);
        assert!(fence(ledger.claim(later, &claim)) > first);
        assert_eq!(ledger.remaining(later, &claim.key, &claim.token), Ok(TTL));
    }

    #[test]
    fn fences_grow_even_if_the_clock_goes_back() {
        let mut ledger = Ledger::default();
        let mut last = 0;
        for (n, now) in
            [NOW, NOW.after(TTL), StoreTime(5), StoreTime(5), NOW].into_iter().enumerate()
        {
            let next = fence(ledger.claim(now, &claim(&format!("name {n}"))));
            assert!(next > last && next >= now.0);
            last = next;
        }
    }

    #[test]
    fn renewal_never_recreates_a_lock() {
        let mut ledger = Ledger::default();
        let ours = claim("a");
        fence(ledger.claim(NOW, &ours));
        let end = NOW.after(TTL);
        assert_eq!(ledger.renew(end, &renewal(&ours)), Kept::Gone);
        assert!(ledger.inspect(end, &ours.key).is_free());
    }

    #[test]
    fn nobody_renews_or_releases_anothers_lease() {
        let mut ledger = Ledger::default();
        let (ours, theirs) = (claim("a"), claim("a"));
        fence(ledger.claim(NOW, &theirs));
        assert_eq!(ledger.renew(NOW, &renewal(&ours)), Kept::Taken);
        assert_eq!(ledger.release(NOW, &ours.key, &ours.token, false), Kept::Taken);
        assert_eq!(ledger.remaining(NOW, &ours.key, &ours.token), Err(Kept::Taken));
        assert_eq!(ledger.release(NOW, &theirs.key, &theirs.token, true), Kept::Ours);
        assert_eq!(ledger.release(NOW, &theirs.key, &theirs.token, true), Kept::Gone);
    }

    #[test]
    fn eviction_hits_only_the_value_that_was_seen() {
        let mut ledger = Ledger::default();
        let (seen, later) = (claim("a"), claim("a"));
        fence(ledger.claim(NOW, &seen));
        ledger.release(NOW, &seen.key, &seen.token, false);
        fence(ledger.claim(NOW, &later));
        assert!(!ledger.evict(NOW, &seen.key, &seen.value()));
        assert!(ledger.evict(NOW, &later.key, &later.value()));
        assert!(ledger.inspect(NOW, &later.key).is_free());
    }

    #[test]
    fn abandoned_locks_do_not_pile_up() {
        let mut ledger = Ledger::default();
        let mut now = NOW;
        for n in 0..100_000 {
            fence(ledger.claim(now, &claim(&format!("name {n}"))));
            now = now.after(TTL / 100);
        }
        assert!(ledger.locks.len() <= SMALLEST_SWEEP, "{} locks kept", ledger.locks.len());
    }
}
