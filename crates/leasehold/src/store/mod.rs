//! The contract between the protocol and whatever keeps the locks.
//!
//! A store answers single requests. It retries nothing that may have been carried out and has
//! no deadlines: those, retries and renewals belong to the driver and the keeper.
//!
//! What every store promises:
//!
//! - `claim` takes a free name, with value and expiry in one step, and draws a fence above
//!   every earlier one. Asked again with the same token, it grants again, for a full TTL
//!   from then on and with a new fence.
//! - `renew` and `release` act only where the stored token is ours; `renew` never makes a
//!   key.
//! - A request that returned an error with
//!   [`is_maybe_applied`](crate::error::Unreachable::is_maybe_applied) may have been
//!   carried out, or be carried out later; one that returned another error was not.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Moment;
use crate::error::StoreError;
use crate::inspect::{Holder, Inspection};
use crate::lease::LossReason;
use crate::name::Key;
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

    /// Renews each, and answers in the same order.
    fn renew(&self, renewals: &[Renewal]) -> Call<Vec<Kept>>;

    /// The same, and notes down what an operator may ask for.
    fn record(&self, records: &[Record]) -> Call<Vec<Kept>>;

    /// Gives the lease back. `recorded` says that the keeper has written facts, which go too.
    fn release(&self, key: &Key, token: &Token, recorded: bool) -> Call<Kept>;

    fn inspect(&self, key: &Key) -> Call<Inspection>;

    /// Removes the lock if its value is still `value`. Answers whether it was.
    fn evict(&self, key: &Key, value: &[u8]) -> Call<bool>;

    /// How long our token still has in the store; `Err` in the answer says why it has none.
    fn remaining(&self, key: &Key, token: &Token) -> Call<Result<Duration, Kept>>;

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
    pub(crate) key: Key,
    pub(crate) token: Token,
    pub(crate) metadata: Arc<[u8]>,
    pub(crate) ttl: Duration,
}

impl Claim {
    /// What is stored under the name: the token, and behind it the metadata.
    pub(crate) fn value(&self) -> Vec<u8> {
        [self.token.as_bytes(), &self.metadata].concat()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    Granted {
        fence: u64,
    },
    Held(Holder),
    /// The key is not a string and so not a lock.
    Foreign {
        type_name: Box<str>,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) key: Key,
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
}

/// A renewal with which the keeper tells an operator about the lease.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) renewal: Renewal,
    pub(crate) fence: u64,
    /// A duration and not a time: the store subtracts it from its own clock.
    pub(crate) held_for: Duration,
}

/// How many TTLs the facts of a lease live after they were written.
pub(crate) const FACTS_TTLS: u32 = 8;

/// What became of a lease that a renewal or a release was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It was ours, and was renewed or released.
    Ours,
    /// Nobody has it.
    Gone,
    /// Somebody else has it.
    Taken,
}

impl Kept {
    /// What this means for a lease that was thought to be ours.
    pub(crate) fn loss(self) -> LossReason {
        if self == Self::Taken { LossReason::Taken } else { LossReason::Released }
    }
}
