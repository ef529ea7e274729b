//! The protocol as pure state machines: no IO and no clock, `now` is always an argument.
//!
//! ```text
//!  contest   one acquisition: claim, held by another, failed, wait, give up
//!  tenure    one lease: when to renew it, until when it counts, how it ended
//!  term      the arithmetic of validity that both rest on
//!  ledger    the lock table: what a store does with a claim, a renewal, a release
//!  model     every run of a few clients against the ledger, as far as a bound
//! ```

pub(crate) mod contest;
pub(crate) mod ledger;
pub(crate) mod tenure;
pub(crate) mod term;

#[cfg(test)]
mod model;
