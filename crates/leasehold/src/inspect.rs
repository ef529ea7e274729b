//! What can be seen of a lock from outside.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::token::{Token, split_value};

/// What [`Client::inspect`](crate::Client::inspect) saw.
#[derive(Clone, Debug)]
pub struct Inspection {
    pub(crate) state: LockState,
    pub(crate) waiters: Box<[Waiter]>,
}

/// What a lock is at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LockState {
    /// Nobody holds it.
    Free,
    /// Somebody holds it.
    Held(Holder),
    /// The key under this name is not a lock: it has another type.
    Foreign {
        /// The store's word for the type, such as `hash`.
        type_name: Box<str>,
    },
}

impl Inspection {
    /// Whether nobody holds it.
    pub fn is_free(&self) -> bool {
        matches!(self.state, LockState::Free)
    }

    /// Whether it is free, held, or no lock at all.
    pub fn state(&self) -> &LockState {
        &self.state
    }

    /// Who holds it, if anybody.
    pub fn holder(&self) -> Option<&Holder> {
        match &self.state {
            LockState::Held(holder) => Some(holder),
            _ => None,
        }
    }

    /// Who waits for it in line, the next one first. A process with many tasks that wait has one
    /// place. Those who [poll](crate::Acquire::retry) are not in line.
    pub fn waiters(&self) -> &[Waiter] {
        &self.waiters
    }
}

/// One who waits for a lock.
#[derive(Clone, PartialEq, Eq)]
pub struct Waiter {
    pub(crate) tag: Box<[u8]>,
    pub(crate) owner: Option<Box<str>>,
}

impl Waiter {
    /// What it said of itself.
    pub fn metadata(&self) -> &[u8] {
        split_value(&self.tag).map_or(&[][..], |(_, metadata)| metadata)
    }

    /// The [owner](crate::Acquire::owner) on whose behalf it waits, if there is one.
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }
}

/// The token is left out.
impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metadata = String::from_utf8_lossy(self.metadata());
        f.debug_struct("Waiter")
            .field("metadata", &metadata)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// What [`Client::force_release`](crate::Client::force_release) did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ForceReleased {
    /// Nobody held it.
    AlreadyFree,
    /// This holder's lease was broken. (Or had just ended by itself: if the store's first answer
    /// was lost, the two cannot be told apart.)
    Broken(Holder),
    /// The holder changed between the look and the deed; nothing was done.
    Changed,
}

/// How long a lock stays taken if its holder does nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// This long.
    For(Duration),
    /// The key has no expiry: a client that sets none made it, or somebody removed it.
    Forever,
}

/// Who holds a lock, as far as the store can tell.
#[derive(Clone, PartialEq, Eq)]
pub struct Holder {
    pub(crate) value: Box<[u8]>,
    pub(crate) remaining: Remaining,
    pub(crate) facts: Option<Facts>,
    /// Of an owner: the tag of each hold, token and metadata. A plain client's has none.
    pub(crate) holds: Option<Box<[Box<[u8]>]>>,
}

/// What the holder's keeper has told the store, with its first renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) fence: u64,
    pub(crate) since: SystemTime,
    pub(crate) ttl: Duration,
}

impl Holder {
    /// How long the lock stays taken if the holder does nothing more.
    pub fn remaining(&self) -> Remaining {
        self.remaining
    }

    /// What the holder said of itself.
    ///
    /// `None` if the key's value does not start with a 22-character token, as leasehold and
    /// bsm/redislock write it: then all of the value is the other client's secret.
    /// With an [owner](Self::owner), that of the hold which ends first, and only from `inspect`;
    /// [`holds`](Self::holds) has all of them.
    pub fn metadata(&self) -> Option<&[u8]> {
        match &self.holds {
            Some(_) => self.holds().next(),
            None => split_value(&self.value).map(|(_, metadata)| metadata),
        }
    }

    /// The [owner](crate::Acquire::owner) on whose behalf it is held, if there is one.
    pub fn owner(&self) -> Option<&str> {
        self.holds.as_ref().and_then(|_| std::str::from_utf8(&self.value).ok())
    }

    /// What each hold of the [owner](Self::owner) said of itself, the one that ends first first.
    /// Empty without an owner, and in a [`Busy`](crate::Busy): only
    /// [`inspect`](crate::Client::inspect) asks for them.
    pub fn holds(&self) -> impl Iterator<Item = &[u8]> {
        let tags = self.holds.iter().flatten();
        tags.map(|tag| split_value(tag).map_or(&[][..], |(_, metadata)| metadata))
    }

    /// What is stored behind a token of ours.
    pub(crate) fn metadata_of(&self, token: &Token) -> Option<&[u8]> {
        let mut tags = self.holds.iter().flatten().map(|tag| &**tag).chain([&*self.value]);
        tags.find_map(|tag| tag.strip_prefix(token.as_bytes()))
    }

    /// The holder's fence, once its keeper has renewed for the first time (a third of its
    /// TTL after the grant). Short and fixed leases never tell: it would cost each of them
    /// a write. Those with an owner tell at once.
    pub fn fence(&self) -> Option<u64> {
        self.facts.map(|facts| facts.fence)
    }

    /// Since when it is held, by the store's clock; known when the fence is.
    pub fn since(&self) -> Option<SystemTime> {
        self.facts.map(|facts| facts.since)
    }

    /// Whether the store says that more time is left than the holder ever asked for, which
    /// means that the store's clock was set back. The holder's next renewal mends it.
    ///
    /// Known when the fence is; `false` otherwise, and with an [owner](Self::owner), who has as
    /// many TTLs as holds.
    pub fn outlasts_its_ttl(&self) -> bool {
        match (self.remaining, self.facts.filter(|_| self.holds.is_none())) {
            (Remaining::For(left), Some(facts)) => left > facts.ttl + CLOCK_SLACK,
            _ => false,
        }
    }

    /// The owner or the metadata for a message: what can be printed of it, and not too much.
    pub(crate) fn described(&self) -> Option<String> {
        let owner = self.owner().map(str::as_bytes);
        let shown = owner.or_else(|| self.metadata()).filter(|shown| !shown.is_empty())?;
        let text = String::from_utf8_lossy(shown);
        let mut shown: String = text.chars().take(SHOWN).flat_map(printable).collect();
        if text.chars().nth(SHOWN).is_some() {
            shown.push('…');
        }
        Some(shown)
    }
}

/// The value is left out: its first part is the holder's token.
impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder")
            .field("remaining", &self.remaining)
            .field("who", &self.described())
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

/// How much more than its TTL a lease may seem to have, for a round trip between two clocks.
pub(crate) const CLOCK_SLACK: Duration = Duration::from_secs(1);

const SHOWN: usize = 80;

fn printable(c: char) -> Vec<char> {
    if c.is_control() { c.escape_default().collect() } else { vec![c] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(value: Vec<u8>) -> Holder {
        Holder { value: value.into(), remaining: Remaining::Forever, facts: None, holds: None }
    }

    #[test]
    fn metadata_in_messages_is_short_and_harmless() {
        let token = Token::generate();
        let with = |metadata: &[u8]| holder([token.as_bytes(), metadata].concat());
        assert_eq!(with(b"pod-7").described().unwrap(), "pod-7");
        assert_eq!(with(b"a\x1b[31m").described().unwrap(), "a\\u{1b}[31m");
        assert_eq!(with(b"").described(), None);
        assert_eq!(with(&[b'x'; 200]).described().unwrap().chars().count(), SHOWN + 1);
        assert!(with(&[0xff, 0xfe]).described().is_some());
    }

    #[test]
    fn a_foreign_value_is_a_secret_as_a_whole() {
        let foreign = holder(b"hunter2hunter2".to_vec());
        assert_eq!(foreign.metadata(), None);
        assert!(!format!("{foreign:?}").contains("hunter2"));
    }
}
