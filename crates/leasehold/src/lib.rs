//! Distributed locks that are leases: a holder, an end, and a fence.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = leasehold::connect("memory:").await?; // or "redis://127.0.0.1"
//!
//! let lease = locks.acquire("order:42").await?; // waits its turn, renews itself
//! // … the work, with lease.fence() in every write …
//! lease.release().await?; // says if it was lost before
//! # Ok(())
//! # }
//! ```
//!
//! - [`connect`] gives a [`Client`]; [`Client::acquire`] and [`Client::try_acquire`] give a
//!   [`Lease`].
//! - Every error has a [`kind`](ErrorKind): busy, lost, unreachable, refused or invalid.
//! - [`manual`] says what is promised and what is not, how time counts, how to use the
//!   fence, and what to do in each failure. Coming from go-zero's RedisLock, redis_lock,
//!   LockHelper or bsm/redislock? See [`manual::coming_from`].
//!
//! # Features
//!
//! Features only add.
//!
//! | feature | default | what it adds |
//! | --- | --- | --- |
//! | `redis` | on | the store on a Redis or Valkey primary; without it there is memory only |
//! | `tls` | on | `rediss://`, by rustls |
//! | `serde` | off | a [`Grant`] as a string in serde's formats |
//!
//! # Requirements
//!
//! Rust 1.88. A tokio runtime with time enabled (and IO, for Redis) wherever a lease is
//! acquired; leases may be dropped anywhere. Redis 6.2 or Valkey 7.2. Linux and macOS are
//! fully supported, the library on Windows too.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "redis"),
    expect(dead_code, reason = "some answers and keys are a server's only")
)]

mod backoff;
mod client;
mod clock;
mod deed;
mod driver;
mod error;
mod grant;
mod holding;
mod inspect;
mod keeper;
mod lease;
mod lobby;
pub mod manual;
mod name;
mod options;
mod proto;
mod race;
mod store;
mod token;

pub use backoff::Backoff;
pub use client::{Builder, Client, builder, connect};
pub use clock::ManualClock;
pub use error::{
    AcquireError, Busy, CloseError, ConnectError, ErrorKind, InspectError, InvalidInput, Lost,
    RefusalCause, Refused, ReleaseError, RemainingError, RenewError, ResumeError, RunError,
    Unreachable,
};
pub use grant::Grant;
pub use inspect::{ForceReleased, Holder, Inspection, LockState, Remaining, Waiter};
pub use lease::{Lease, LossReason};
pub use name::{
    MAX_METADATA_LEN, MAX_NAME_LEN, MAX_NAMES, MAX_OWNER_LEN, MAX_PREFIX_LEN, MAX_TTL, MIN_TTL,
};
pub use options::{Acquire, Resume, TryAcquire};
pub use token::Token;

/// The examples of the README, so that they keep compiling.
#[cfg(all(doctest, feature = "redis"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The `redis` crate whose connections [`Builder::with_connection`] and
/// [`Builder::with_factory`] take. A new major version of it is a new major version of this
/// crate.
#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub use ::redis;
