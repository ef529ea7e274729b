//! The contract between the protocol and whatever keeps the locks.
//!
//! A store answers single requests. It retries nothing that may have been carried out and has
//! no deadlines: those, retries and renewals belong to the driver and the keeper.
//!
//! What every store promises:
//!
//! - `claim` takes free names, all or none, with value and expiry in one step, and draws a
//!   fence above every earlier one. Asked again with the same token, it grants again, for a
//!   full TTL from then on and with a new fence.
//! - For an owner it also enters names that the owner has already, by the same fence. Each
//!   acquisition is a hold with an end of its own; asked again with the same token, it is still
//!   one. A name is free when its last hold has gone or run out.
//! - `renew` and `release` act only where the stored token is ours; `renew` never makes a
//!   key, nor a hold.
//! - A request that returned an error with
//!   [`is_maybe_applied`](crate::error::Unreachable::is_maybe_applied) may have been
//!   carried out, or be carried out later; one that returned another error was not.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::deed::Deed;
use crate::error::StoreError;
use crate::inspect::{Holder, Inspection};
use crate::lease::LossReason;
use crate::lobby::Lobby;
use crate::name::Key;
use crate::proto::ledger::StoreTime;
use crate::token::Token;

pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;

#[cfg(all(test, feature = "redis"))]
mod differential;

/// One request on its way. It needs no runtime of its own to be polled, so a request that
/// its caller has dropped can be brought to an end by the keeper.
pub(crate) type Call<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

pub(crate) trait Store: Send + Sync + fmt::Debug {
    fn claim(&self, claim: &Claim) -> Call<Claimed>;

    /// Renews each, and answers in the same order. All of them are of one [`RenewalKind`].
    fn renew(&self, renewals: &[Renewal]) -> Call<Vec<Kept>>;

    /// Gives the lease back. `recorded` says that the keeper has written facts, which go too.
    fn release(&self, deed: &Arc<Deed>, recorded: bool) -> Call<Kept>;

    fn inspect(&self, key: &Key) -> Call<Inspection>;

    /// Removes the lock if its value is still `value`. Answers whether it was.
    fn evict(&self, key: &Key, value: &[u8]) -> Call<bool>;

    /// How long the lease still has in the store; `Err` in the answer says why it has none.
    fn remaining(&self, deed: &Deed) -> Call<Result<Duration, Kept>>;

    /// Tells the lobby of hand-overs on its channel from now on. What is to be run for that, in
    /// the background; `None` if nothing is, or if there is no way.
    fn listen(&self, lobby: &Arc<Lobby>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>>;

    /// A request sent at that moment got no answer in time: the connection may be dead.
    fn suspect(&self, _sent_at: Moment) {}

    /// Makes ready what renewals from this runtime will need, such as a connection.
    fn prepare(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }

    /// Whether requests are carried out before `claim` and the others return, so that even a
    /// destructor can wait for them.
    fn is_inline(&self) -> bool {
        false
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) deed: Arc<Deed>,
    pub(crate) ttl: Duration,
    /// Of one who would wait in line; `None` of one who only asks.
    pub(crate) seat: Option<Seat>,
}

/// How one who waits in line is to be served.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    /// Where it hears of a hand-over; empty if it only looks.
    pub(crate) channel: Arc<str>,
    /// For how long a hand-over grants: time enough to confirm it, and no more.
    pub(crate) accept: Duration,
    /// After so long without a look it is taken for gone.
    pub(crate) stale: Duration,
    /// One who gave up, and whose place it takes, if that is still there. Not for owners.
    pub(crate) replaces: Option<Token>,
}

/// News of a hand-over, from the store to one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandOver {
    pub(crate) token: Token,
    pub(crate) fence: u64,
    /// The store's time when it was granted.
    pub(crate) granted: StoreTime,
    pub(crate) ttl: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    Granted {
        fence: u64,
    },
    /// Somebody else has one of the names; `which` is its place among them.
    Held {
        holder: Holder,
        which: usize,
    },
    /// The same, and we stand in its line.
    Queued {
        holder: Holder,
        which: usize,
        /// The store's time when it answered.
        seen: StoreTime,
        /// How many stand before us.
        before: usize,
        /// Whether anybody listens to our channel.
        is_heard: bool,
    },
    /// The line of one of the names has no room.
    LineFull {
        which: usize,
    },
    /// The key of one of the names is not a string and so not a lock.
    Foreign {
        type_name: Box<str>,
        which: usize,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) deed: Arc<Deed>,
    pub(crate) ttl: Duration,
    /// What to note down for an operator, if anything. An owner's claims have done so already.
    pub(crate) note: Option<Note>,
}

/// What the keeper tells an operator about a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) fence: u64,
    /// A duration and not a time: the store subtracts it from its own clock.
    pub(crate) held_for: Duration,
}

/// What goes to the store in one call is of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RenewalKind {
    Plain,
    Noted,
    Owned,
}

impl Renewal {
    pub(crate) fn kind(&self) -> RenewalKind {
        match (&self.deed.owner, self.note) {
            (Some(_), _) => RenewalKind::Owned,
            (None, Some(_)) => RenewalKind::Noted,
            (None, None) => RenewalKind::Plain,
        }
    }
}

/// Most who can stand in one line.
pub(crate) const LONGEST_LINE: usize = 100_000;

/// How long a line is kept when nobody looks any more.
pub(crate) const LINE_TTL: Duration = Duration::from_secs(60);

/// How many TTLs the facts of a lease live after they were written.
pub(crate) const FACTS_TTLS: u32 = 8;

/// What became of a lease that a renewal or a release was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It was ours, and was renewed or released.
    Ours,
    /// Nobody has this one of its names, or, with an owner, our hold on it is gone.
    Gone(usize),
    /// Somebody else has this one of its names.
    Taken(usize),
}

impl Kept {
    /// What this means for a lease that was thought to be ours.
    pub(crate) fn loss(self) -> LossReason {
        if matches!(self, Self::Taken(_)) { LossReason::Taken } else { LossReason::Released }
    }

    /// Which of the names it is about.
    pub(crate) fn which(self) -> usize {
        match self {
            Self::Ours => 0,
            Self::Gone(which) | Self::Taken(which) => which,
        }
    }

    /// The same at another place among the names.
    pub(crate) fn at(self, which: usize) -> Self {
        match self {
            Self::Ours => Self::Ours,
            Self::Gone(_) => Self::Gone(which),
            Self::Taken(_) => Self::Taken(which),
        }
    }

    /// What became of a lease as a whole: the first of its names that is not ours counts. Looks
    /// at all of them.
    pub(crate) fn of_all(each: impl IntoIterator<Item = Result<(), Self>>) -> Self {
        let mut whole = Self::Ours;
        for (which, one) in each.into_iter().enumerate() {
            if let (Self::Ours, Err(kept)) = (whole, one) {
                whole = kept.at(which);
            }
        }
        whole
    }
}
