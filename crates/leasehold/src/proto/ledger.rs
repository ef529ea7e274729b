//! The lock table: what a store does with each request.
//!
//! The memory store is this and a mutex. The Lua scripts say the same in Lua, and
//! `store/differential.rs` runs random sequences against both and compares every reply.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::deed::Deed;
use crate::inspect::{Facts, Holder, Inspection, LockState, Remaining, Waiter};
use crate::name::Key;
use crate::store::{
    Claim, Claimed, FACTS_TTLS, HandOver, Kept, LINE_TTL, LONGEST_LINE, Note, Renewal, Seat,
};
use crate::token::Token;

/// The store's own time, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoreTime(pub(crate) u64);

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    locks: HashMap<Key, Lock>,
    /// What holders have told of themselves. They say whose they are: those of a holder who
    /// crashed stay until they run out, and are not taken for the next one's.
    facts: HashMap<Key, KeptFacts>,
    /// Of locks that have an owner. Those that somebody broke stay until they run out, or until
    /// an owner takes the lock anew.
    holds: HashMap<Key, Holds>,
    /// Who waits, in the order of their arrival.
    lines: HashMap<Key, Line>,
    /// The channels that somebody listens to, and what has been told on them.
    listeners: HashSet<Arc<str>>,
    told: Vec<(Arc<str>, HandOver)>,
    last_fence: u64,
    /// What has run out is swept out when there is this much of all, so nothing is kept for
    /// ever.
    sweep_at: usize,
}

#[derive(Clone, Debug)]
struct Lock {
    value: Vec<u8>,
    expires_at: StoreTime,
}

#[derive(Clone, Debug)]
struct KeptFacts {
    of: FactsOf,
    facts: Facts,
    expires_at: StoreTime,
}

#[derive(Clone, Debug, PartialEq)]
enum FactsOf {
    Token(Token),
    Owner(Arc<str>),
}

/// The acquisitions of one owner on one lock, each with its own end.
#[derive(Clone, Debug, Default)]
struct Holds {
    ends: HashMap<Vec<u8>, StoreTime>,
    /// Whether a plain client has it too, for as long as the lock lasts.
    plain: bool,
    expires_at: StoreTime,
}

#[derive(Clone, Debug, Default)]
struct Line {
    places: Vec<Place>,
    expires_at: StoreTime,
}

/// One who waits, and what is to be granted to it.
#[derive(Clone, Debug)]
struct Place {
    arrival: u64,
    deed: Arc<Deed>,
    seat: Seat,
    seen: StoreTime,
}

impl Place {
    /// Whether it has not been seen of late.
    fn is_stale(&self, now: StoreTime) -> bool {
        now.since(self.seen) > self.seat.stale
    }
}

impl Ledger {
    /// Somebody listens to a channel from now on, or does not any more.
    pub(crate) fn listen(&mut self, channel: &Arc<str>, listens: bool) {
        if listens {
            self.listeners.insert(Arc::clone(channel));
        } else {
            self.listeners.remove(channel);
        }
    }

    /// What is to be told, and on which channel, since this was last asked.
    pub(crate) fn take_told(&mut self) -> Vec<(Arc<str>, HandOver)> {
        std::mem::take(&mut self.told)
    }

    pub(crate) fn claim(&mut self, now: StoreTime, claim: &Claim) -> Claimed {
        self.sweep(now);
        let Claim { deed, ttl, .. } = claim;
        let tag = deed.tag();
        let value = deed.owner.as_deref().map_or(&*tag, str::as_bytes);
        let replaces = claim.seat.as_ref().and_then(|seat| seat.replaces);
        if let (Some(replaced), Some(seat)) = (replaces, &claim.seat)
            && deed.owner.is_none()
        {
            // What the one who gave up has is ours: its place, or the lock, if that was on its way.
            for key in deed.keys.iter() {
                let mut places = self.line(now, key).places.iter();
                let place = places.find(|place| place.deed.token == replaced);
                let arrival = place.map(|place| place.arrival);
                self.leave(now, key, &replaced);
                if let Some(arrival) = arrival {
                    let (deed, seat) = (Arc::clone(deed), seat.clone());
                    self.stand(now, key, Place { arrival, deed, seat, seen: now });
                }
                if let Some(lock) = self.live(now, key)
                    && lock.value.starts_with(replaced.as_bytes())
                {
                    *lock = Lock { value: tag.clone(), expires_at: now.after(*ttl) };
                }
            }
        }
        for key in deed.keys.iter() {
            // Those who stand in line go first.
            self.serve_if_free(now, key, Some(&deed.token));
        }
        for (which, key) in deed.keys.iter().enumerate() {
            if let Some(lock) = self.live(now, key)
                && lock.value != value
            {
                let holder = lock.holder(now);
                let holder = self.described(now, key, holder);
                return self.blocked(now, claim, holder, which);
            }
        }
        for key in deed.keys.iter() {
            self.leave(now, key, &deed.token);
        }
        if let Some(owner) = &deed.owner {
            let fence = self.enter(now, deed, owner, *ttl);
            return Claimed::Granted { fence };
        }
        let expires_at = now.after(*ttl);
        for key in deed.keys.iter() {
            self.locks.insert(key.clone(), Lock { value: value.into(), expires_at });
        }
        Claimed::Granted { fence: self.draw(now) }
    }

    /// The answer to a claim that somebody is in the way of: it stands in line, if it would wait.
    fn blocked(&mut self, now: StoreTime, claim: &Claim, holder: Holder, which: usize) -> Claimed {
        let Claim { deed, seat, .. } = claim;
        let Some(seat) = seat else { return Claimed::Held { holder, which } };
        let mut stands_at = deed.keys.at(which);
        let mut arrival = None;
        for key in deed.keys.iter() {
            let line = self.line(now, key);
            let place = line.places.iter().find(|place| place.deed.token == deed.token);
            let Some(place) = place else { continue };
            arrival = Some(place.arrival);
            // It may wait for several names: then in the line of one that is taken.
            if self.is_taken(now, key, deed.owner.as_ref()) {
                stands_at = key;
            } else {
                self.leave(now, key, &deed.token);
            }
        }
        if arrival.is_none() && self.line(now, stands_at).places.len() >= LONGEST_LINE {
            return Claimed::LineFull { which };
        }
        let place = Place {
            arrival: arrival.unwrap_or(0),
            deed: Arc::clone(deed),
            seat: seat.clone(),
            seen: now,
        };
        self.stand(now, stands_at, place);
        let before = self.standing(now, stands_at, &deed.token);
        let is_heard = seat.channel.is_empty() || self.listeners.contains(&seat.channel);
        Claimed::Queued { holder, which, seen: now, before, is_heard }
    }

    /// How many are before one in line. On the way it takes out whoever is right before it and has
    /// not been seen of late.
    fn standing(&mut self, now: StoreTime, key: &Key, token: &Token) -> usize {
        let rank = |ledger: &mut Self| {
            let mut places = ledger.line(now, key).places.iter();
            places.position(|place| place.deed.token == *token).unwrap_or(0)
        };
        let before = rank(self);
        let close = self.line(now, key).places[before.saturating_sub(2)..before].to_vec();
        for place in close {
            if place.is_stale(now) {
                self.leave(now, key, &place.deed.token);
            }
        }
        rank(self)
    }

    /// Whether somebody else has a lock; an owner's own locks do not stand in its way.
    fn is_taken(&mut self, now: StoreTime, key: &Key, owner: Option<&Arc<str>>) -> bool {
        let owner = owner.map(|owner| owner.as_bytes());
        self.live(now, key).is_some_and(|lock| Some(&*lock.value) != owner)
    }

    fn serve_if_free(&mut self, now: StoreTime, key: &Key, asking: Option<&Token>) {
        if self.live(now, key).is_none() && !self.line(now, key).places.is_empty() {
            self.serve(now, key, asking);
        }
    }

    /// Hands a free lock to the first in its line who can take it. Nobody listening is passed
    /// over; nobody seen for long is taken out; who waits for several names and cannot have all
    /// of them moves on to the line of one that is taken.
    fn serve(&mut self, now: StoreTime, key: &Key, asking: Option<&Token>) {
        let mut passed_over = 0;
        while let Some(place) = self.line(now, key).places.get(passed_over).cloned() {
            let token = place.deed.token;
            let is_asking = asking == Some(&token);
            let channel = &place.seat.channel;
            if place.is_stale(now) {
                self.leave(now, key, &token);
            } else if !is_asking && !channel.is_empty() && !self.listeners.contains(channel) {
                passed_over += 1;
            } else {
                self.leave(now, key, &token);
                let owner = place.deed.owner.as_ref();
                let taken = place.deed.keys.iter().find(|key| self.is_taken(now, key, owner));
                if let Some(taken) = taken.cloned() {
                    self.stand(now, &taken, place);
                } else {
                    self.hand_over(now, &place, is_asking);
                    return;
                }
            }
        }
    }

    fn hand_over(&mut self, now: StoreTime, place: &Place, is_asking: bool) {
        let Place { deed, seat, .. } = place;
        let fence = if let Some(owner) = &deed.owner {
            self.enter(now, deed, owner, seat.accept)
        } else {
            let expires_at = now.after(seat.accept);
            for key in deed.keys.iter() {
                self.locks.insert(key.clone(), Lock { value: deed.tag(), expires_at });
            }
            self.draw(now)
        };
        if !is_asking && !seat.channel.is_empty() {
            let hand_over = HandOver { token: deed.token, fence, granted: now, ttl: seat.accept };
            self.told.push((Arc::clone(&seat.channel), hand_over));
        }
    }

    /// Puts a place into a line: at its end, or, if it has waited in another one, where its
    /// arrival belongs.
    fn stand(&mut self, now: StoreTime, key: &Key, mut place: Place) {
        let line = self.line(now, key);
        line.places.retain(|other| other.deed.token != place.deed.token);
        if place.arrival == 0 {
            place.arrival = line.places.last().map_or(0, |last| last.arrival + 1).max(now.0);
        }
        let order = |place: &Place| {
            (place.arrival, *place.deed.token.as_bytes().first_chunk::<22>().unwrap())
        };
        let at = line.places.partition_point(|other| order(other) <= order(&place));
        line.places.insert(at, place);
        line.expires_at = now.after(LINE_TTL);
    }

    fn leave(&mut self, now: StoreTime, key: &Key, token: &Token) {
        let line = self.line(now, key);
        line.places.retain(|place| place.deed.token != *token);
        if line.places.is_empty() {
            self.lines.remove(key);
        }
    }

    fn line(&mut self, now: StoreTime, key: &Key) -> &mut Line {
        let line = self.lines.entry(key.clone()).or_default();
        if line.expires_at <= now {
            line.places.clear();
        }
        line
    }

    /// A claim for an owner, when nobody else is in the way. The fence.
    fn enter(&mut self, now: StoreTime, deed: &Deed, owner: &Arc<str>, ttl: Duration) -> u64 {
        let keys = &deed.keys;
        let notes: Vec<_> = keys.iter().map(|key| self.entered(now, key, owner)).collect();
        // Unless all of them are entered under one fence, a new one for all.
        let first = notes[0].map(|facts| facts.fence);
        let is_same = notes.iter().all(|note| note.map(|facts| facts.fence) == first);
        let fence = first.filter(|_| is_same).unwrap_or_else(|| self.draw(now));
        let end = now.after(ttl);
        for (key, note) in keys.iter().zip(notes) {
            if self.live(now, key).is_some() {
                self.prune(now, key);
                let holds = self.holds.entry(key.clone()).or_default();
                holds.plain |= holds.ends.is_empty();
            } else {
                let lock = Lock { value: owner.as_bytes().into(), expires_at: end };
                self.locks.insert(key.clone(), lock);
                self.holds.remove(key);
            }
            self.holds.entry(key.clone()).or_default().ends.insert(deed.tag(), end);
            let since = note.map_or(now.to_system_time(), |facts| facts.since);
            let facts = Facts { fence, since, ttl };
            let of = FactsOf::Owner(Arc::clone(owner));
            self.facts.insert(key.clone(), KeptFacts { of, facts, expires_at: end });
            self.settle(key);
        }
        fence
    }

    /// What is known of the holds that the owner has already. A plain client's has no fence.
    fn entered(&mut self, now: StoreTime, key: &Key, owner: &Arc<str>) -> Option<Facts> {
        self.live(now, key)?;
        self.prune(now, key);
        self.holds.get(key).filter(|holds| !holds.ends.is_empty())?;
        let kept = self.facts.get(key).filter(|kept| kept.expires_at > now)?;
        matches!(&kept.of, FactsOf::Owner(of) if of == owner).then_some(kept.facts)
    }

    fn draw(&mut self, now: StoreTime) -> u64 {
        self.last_fence = (self.last_fence + 1).max(now.0);
        self.last_fence
    }

    pub(crate) fn renew(&mut self, now: StoreTime, renewal: &Renewal) -> Kept {
        let deed = &renewal.deed;
        Kept::of_all(deed.keys.iter().map(|key| self.renew_one(now, key, renewal)))
    }

    fn renew_one(&mut self, now: StoreTime, key: &Key, renewal: &Renewal) -> Result<(), Kept> {
        let Renewal { deed, ttl, note } = renewal;
        let expires_at = now.after(*ttl);
        if deed.owner.is_some() {
            let (hold, holds) = self.held(now, key, deed)?;
            holds.ends.insert(hold, expires_at);
            self.settle(key);
            return Ok(());
        }
        self.owned(now, key, deed)?.expires_at = expires_at;
        if let Some(Note { fence, held_for }) = *note {
            let since = now.before(held_for).to_system_time();
            let kept = KeptFacts {
                of: FactsOf::Token(deed.token),
                facts: Facts { fence, since, ttl: *ttl },
                expires_at: now.after(*ttl * FACTS_TTLS),
            };
            self.facts.insert(key.clone(), kept);
        }
        Ok(())
    }

    pub(crate) fn release(&mut self, now: StoreTime, deed: &Deed, recorded: bool) -> Kept {
        let kept = self.give_back(now, deed, recorded);
        self.serve_all(now, deed);
        kept
    }

    /// Many in one step: whoever waits is served when all have left.
    #[cfg(test)]
    pub(crate) fn release_together(&mut self, now: StoreTime, deeds: &[Arc<Deed>]) -> Vec<Kept> {
        let kept = deeds.iter().map(|deed| self.give_back(now, deed, false)).collect();
        deeds.iter().for_each(|deed| self.serve_all(now, deed));
        kept
    }

    fn give_back(&mut self, now: StoreTime, deed: &Deed, recorded: bool) -> Kept {
        Kept::of_all(deed.keys.iter().map(|key| self.release_one(now, key, deed, recorded)))
    }

    fn serve_all(&mut self, now: StoreTime, deed: &Deed) {
        for key in deed.keys.iter() {
            self.serve_if_free(now, key, None);
        }
    }

    fn release_one(
        &mut self,
        now: StoreTime,
        key: &Key,
        deed: &Deed,
        recorded: bool,
    ) -> Result<(), Kept> {
        self.leave(now, key, &deed.token);
        if deed.owner.is_some() {
            let (hold, holds) = self.held(now, key, deed)?;
            holds.ends.remove(&hold);
            self.settle(key);
            return Ok(());
        }
        self.owned(now, key, deed)?;
        self.locks.remove(key);
        if recorded {
            self.facts.remove(key);
        }
        Ok(())
    }

    pub(crate) fn inspect(&mut self, now: StoreTime, key: &Key) -> Inspection {
        let waiter = |place: &Place| Waiter {
            tag: place.deed.tag().into(),
            owner: place.deed.owner.as_deref().map(Box::from),
        };
        let places = self.line(now, key).places.iter();
        let waiters = places.filter(|place| !place.is_stale(now)).map(waiter).collect();
        let Some(lock) = self.live(now, key) else {
            return Inspection { state: LockState::Free, waiters };
        };
        let holder = lock.holder(now);
        let mut holder = self.described(now, key, holder);
        if holder.holds.is_some() {
            self.prune(now, key);
            holder.holds = Some(self.holds.get(key).map_or_else(Box::default, Holds::tags));
        }
        Inspection { state: LockState::Held(holder), waiters }
    }

    /// The holder with what it has told of itself; if it is an owner, without its holds.
    fn described(&self, now: StoreTime, key: &Key, mut holder: Holder) -> Holder {
        let kept = self.facts.get(key).filter(|kept| kept.expires_at > now);
        let Some(KeptFacts { of, facts, .. }) = kept else { return holder };
        let (is_its, is_owners) = match of {
            FactsOf::Token(token) => (holder.value.starts_with(token.as_bytes()), false),
            FactsOf::Owner(owner) => (*holder.value == *owner.as_bytes(), true),
        };
        holder.facts = is_its.then_some(*facts);
        holder.holds = (is_its && is_owners).then(Box::default);
        holder
    }

    pub(crate) fn evict(&mut self, now: StoreTime, key: &Key, value: &[u8]) -> bool {
        let is_it = self.live(now, key).is_some_and(|lock| lock.value == value);
        if is_it {
            self.locks.remove(key);
            self.facts.remove(key);
            self.holds.remove(key);
            self.serve_if_free(now, key, None);
        }
        is_it
    }

    pub(crate) fn remaining(&mut self, now: StoreTime, deed: &Deed) -> Result<Duration, Kept> {
        let mut least = Duration::MAX;
        for (which, key) in deed.keys.iter().enumerate() {
            let left = self.remaining_one(now, key, deed).map_err(|kept| kept.at(which))?;
            least = least.min(left);
        }
        Ok(least)
    }

    fn remaining_one(&mut self, now: StoreTime, key: &Key, deed: &Deed) -> Result<Duration, Kept> {
        if deed.owner.is_some() {
            let (hold, holds) = self.held(now, key, deed)?;
            return Ok(holds.ends[&hold].since(now));
        }
        self.owned(now, key, deed).map(|lock| lock.expires_at.since(now))
    }

    fn live(&mut self, now: StoreTime, key: &Key) -> Option<&mut Lock> {
        self.locks.get_mut(key).filter(|lock| lock.expires_at > now)
    }

    fn owned(&mut self, now: StoreTime, key: &Key, deed: &Deed) -> Result<&mut Lock, Kept> {
        match self.live(now, key) {
            Some(lock) if lock.value.starts_with(deed.token.as_bytes()) => Ok(lock),
            Some(_) => Err(Kept::Taken(0)),
            None => Err(Kept::Gone(0)),
        }
    }

    /// The tag of our hold as it is stored (whoever resumes a lease may not know the metadata),
    /// and all holds.
    fn held(
        &mut self,
        now: StoreTime,
        key: &Key,
        deed: &Deed,
    ) -> Result<(Vec<u8>, &mut Holds), Kept> {
        let owner = deed.owner.as_deref().unwrap_or_default();
        match self.live(now, key) {
            None => return Err(Kept::Gone(0)),
            Some(lock) if lock.value != owner.as_bytes() => return Err(Kept::Taken(0)),
            Some(_) => {}
        }
        self.prune(now, key);
        let holds = self.holds.get_mut(key).ok_or(Kept::Gone(0))?;
        let tag = deed.tag();
        let hold = if holds.ends.contains_key(&tag) {
            tag
        } else {
            let by_token = |hold: &&Vec<u8>| tag.len() == Token::LEN && hold.starts_with(&tag);
            holds.ends.keys().find(by_token).cloned().ok_or(Kept::Gone(0))?
        };
        Ok((hold, holds))
    }

    /// Forgets holds that have run out.
    fn prune(&mut self, now: StoreTime, key: &Key) {
        let Some(holds) = self.holds.get_mut(key) else { return };
        let over = now.before(HOLD_SLACK);
        holds.ends.retain(|_, end| *end > over);
        if holds.expires_at <= now {
            self.holds.remove(key);
        }
    }

    /// Lets a lock end with the last hold that is left, or now if there is none.
    fn settle(&mut self, key: &Key) {
        let (Some(lock), Some(holds)) = (self.locks.get_mut(key), self.holds.get_mut(key)) else {
            return;
        };
        let latest = holds.ends.values().max().copied();
        if let Some(latest) = latest {
            // A plain client's lock is never shortened.
            lock.expires_at = if holds.plain { lock.expires_at.max(latest) } else { latest };
            holds.expires_at = latest;
            if let Some(kept) = self.facts.get_mut(key) {
                kept.expires_at = latest;
            }
            return;
        }
        if !holds.plain {
            self.locks.remove(key);
        }
        self.holds.remove(key);
        self.facts.remove(key);
    }

    /// What is there at a name, but for fences and the times of arrival, of which only the order
    /// matters.
    #[cfg(test)]
    pub(crate) fn fingerprint(&self, key: &Key, number: &dyn Fn(&Token) -> usize) -> String {
        let lock = self.locks.get(key).map(|lock| (&lock.value, lock.expires_at));
        let line = self.lines.get(key).map(|line| {
            let place = |place: &Place| (number(&place.deed.token), place.seen);
            (line.places.iter().map(place).collect::<Vec<_>>(), line.expires_at)
        });
        format!("{lock:?} {line:?}")
    }

    /// What a plain client does, and this store never.
    #[cfg(test)]
    pub(crate) fn set(&mut self, key: Key, value: &[u8], expires_at: StoreTime) {
        self.locks.insert(key, Lock { value: value.into(), expires_at });
    }

    /// The same.
    #[cfg(test)]
    pub(crate) fn delete(&mut self, key: &Key) {
        self.locks.remove(key);
    }

    fn sweep(&mut self, now: StoreTime) {
        let count = |ledger: &Self| {
            ledger.locks.len() + ledger.facts.len() + ledger.holds.len() + ledger.lines.len()
        };
        if count(self) < self.sweep_at.max(SMALLEST_SWEEP) {
            return;
        }
        self.locks.retain(|_, lock| lock.expires_at > now);
        self.facts.retain(|_, kept| kept.expires_at > now);
        self.holds.retain(|_, holds| holds.expires_at > now);
        self.lines.retain(|_, line| line.expires_at > now && !line.places.is_empty());
        self.facts.shrink_to_fit();
        self.holds.shrink_to_fit();
        self.sweep_at = count(self) * 2;
        self.locks.shrink_to(self.sweep_at);
    }
}

impl Holds {
    /// Those that end first first; that of a plain client, which is empty, last.
    fn tags(&self) -> Box<[Box<[u8]>]> {
        let mut tags: Vec<_> = self.ends.iter().collect();
        tags.sort_by_key(|(tag, end)| (**end, *tag));
        let tags = tags.into_iter().map(|(tag, _)| tag.as_slice());
        tags.chain(self.plain.then_some(&[][..])).map(Box::from).collect()
    }
}

impl Lock {
    fn holder(&self, now: StoreTime) -> Holder {
        let remaining = Remaining::For(self.expires_at.since(now));
        Holder { value: self.value.as_slice().into(), remaining, facts: None, holds: None }
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

/// For so long a hold that has run out counts while its lock is there, as in `owner.lua`: a
/// server's clocks for the two may differ a little.
const HOLD_SLACK: Duration = Duration::from_millis(100);

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{Keys, Prefix};

    const TTL: Duration = Duration::from_secs(10);
    const NOW: StoreTime = StoreTime(1_000_000_000);

    fn claim(name: &str) -> Claim {
        claim_all(&[name], None)
    }

    fn claim_all(names: &[&str], owner: Option<&str>) -> Claim {
        let keys = Keys::new(&Prefix::default(), names.iter().copied()).unwrap();
        let (token, metadata) = (Token::generate(), b"who"[..].into());
        let deed = Deed { keys, token, owner: owner.map(Arc::from), metadata };
        Claim { deed: Arc::new(deed), ttl: TTL, seat: None }
    }

    fn renewal(claim: &Claim) -> Renewal {
        Renewal { deed: Arc::clone(&claim.deed), ttl: claim.ttl, note: None }
    }

    fn key(claim: &Claim) -> &Key {
        claim.deed.keys.first()
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
        let Claimed::Held { holder, which: 0 } = ledger.claim(NOW.after(TTL / 2), &claim("a"))
        else {
            panic!()
        };
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
        assert_eq!(ledger.remaining(later, &claim.deed), Ok(TTL));
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
        assert_eq!(ledger.renew(end, &renewal(&ours)), Kept::Gone(0));
        assert!(ledger.inspect(end, key(&ours)).is_free());
    }

    #[test]
    fn nobody_renews_or_releases_anothers_lease() {
        let mut ledger = Ledger::default();
        let (ours, theirs) = (claim("a"), claim("a"));
        fence(ledger.claim(NOW, &theirs));
        assert_eq!(ledger.renew(NOW, &renewal(&ours)), Kept::Taken(0));
        assert_eq!(ledger.release(NOW, &ours.deed, false), Kept::Taken(0));
        assert_eq!(ledger.remaining(NOW, &ours.deed), Err(Kept::Taken(0)));
        assert_eq!(ledger.release(NOW, &theirs.deed, true), Kept::Ours);
        assert_eq!(ledger.release(NOW, &theirs.deed, true), Kept::Gone(0));
    }

    #[test]
    fn eviction_hits_only_the_value_that_was_seen() {
        let mut ledger = Ledger::default();
        let (seen, later) = (claim("a"), claim("a"));
        fence(ledger.claim(NOW, &seen));
        ledger.release(NOW, &seen.deed, false);
        fence(ledger.claim(NOW, &later));
        assert!(!ledger.evict(NOW, key(&seen), &seen.deed.tag()));
        assert!(ledger.evict(NOW, key(&later), &later.deed.tag()));
        assert!(ledger.inspect(NOW, key(&later)).is_free());
    }

    #[test]
    fn several_names_are_taken_all_or_none_and_lost_as_one() {
        let mut ledger = Ledger::default();
        fence(ledger.claim(NOW, &claim("b")));
        let both = claim_all(&["a", "b"], None);
        assert!(matches!(ledger.claim(NOW, &both), Claimed::Held { which: 1, .. }));
        let ours = claim_all(&["a", "c"], None);
        fence(ledger.claim(NOW, &ours));
        assert_eq!(ledger.renew(NOW, &renewal(&ours)), Kept::Ours);
        let c = ours.deed.keys.at(1);
        assert!(ledger.evict(NOW, c, &ours.deed.tag()));
        assert_eq!(ledger.renew(NOW, &renewal(&ours)), Kept::Gone(1));
        assert_eq!(ledger.remaining(NOW, &ours.deed), Err(Kept::Gone(1)));
        assert_eq!(ledger.release(NOW, &ours.deed, false), Kept::Gone(1));
        assert!(ledger.inspect(NOW, key(&ours)).is_free(), "the rest is released all the same");
    }

    #[test]
    fn an_owner_enters_by_one_fence_and_the_last_hold_frees_the_lock() {
        let mut ledger = Ledger::default();
        let [one, two] = [claim_all(&["a"], Some("x")), claim_all(&["a"], Some("x"))];
        let first = fence(ledger.claim(NOW, &one));
        assert_eq!(fence(ledger.claim(NOW, &two)), first);
        assert_eq!(fence(ledger.claim(NOW, &two)), first, "asked again, it is still one hold");
        for other in [claim("a"), claim_all(&["a"], Some("xx")), claim_all(&["a"], Some("X"))] {
            assert!(matches!(ledger.claim(NOW, &other), Claimed::Held { .. }));
        }
        assert_eq!(ledger.release(NOW, &two.deed, true), Kept::Ours);
        assert_eq!(ledger.release(NOW, &two.deed, true), Kept::Gone(0), "released once");
        assert_eq!(ledger.renew(NOW, &renewal(&two)), Kept::Gone(0), "nor brought back");
        assert_eq!(ledger.renew(NOW, &renewal(&one)), Kept::Ours);
        assert_eq!(ledger.release(NOW, &one.deed, true), Kept::Ours);
        assert!(ledger.inspect(NOW, key(&one)).is_free());
        assert!(fence(ledger.claim(NOW, &two)) > first);
    }

    #[test]
    fn a_hold_that_ran_out_frees_nothing_and_does_not_come_back() {
        let mut ledger = Ledger::default();
        let [crashed, alive] = [claim_all(&["a"], Some("x")), claim_all(&["a"], Some("x"))];
        fence(ledger.claim(NOW, &crashed));
        fence(ledger.claim(NOW.after(TTL / 2), &alive));
        let later = NOW.after(TTL + TTL / 4);
        assert_eq!(ledger.renew(later, &renewal(&crashed)), Kept::Gone(0));
        assert_eq!(ledger.remaining(later, &alive.deed), Ok(TTL / 4));
        let end = NOW.after(TTL + TTL / 2);
        assert!(ledger.inspect(end, key(&alive)).is_free(), "the lock ends with the last hold");
    }

    #[test]
    fn entering_some_of_several_names_anew_draws_a_new_fence_for_all() {
        let mut ledger = Ledger::default();
        let first = fence(ledger.claim(NOW, &claim_all(&["a"], Some("x"))));
        let both = fence(ledger.claim(NOW, &claim_all(&["a", "b"], Some("x"))));
        assert!(both > first);
        assert_eq!(fence(ledger.claim(NOW, &claim_all(&["b", "a"], Some("x")))), both);
        assert_eq!(fence(ledger.claim(NOW, &claim_all(&["a"], Some("x")))), both);
    }

    #[test]
    fn a_plain_clients_lock_with_the_owners_value_outlives_our_hold() {
        let mut ledger = Ledger::default();
        let ours = claim_all(&["a"], Some("x"));
        ledger.set(key(&ours).clone(), b"x", NOW.after(2 * TTL));
        fence(ledger.claim(NOW, &ours));
        assert_eq!(ledger.release(NOW, &ours.deed, true), Kept::Ours);
        let seen = ledger.inspect(NOW, key(&ours));
        let holder = seen.holder().unwrap();
        assert_eq!(holder.remaining(), Remaining::For(2 * TTL));
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
