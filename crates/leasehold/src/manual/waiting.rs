//! Waiting for a lock.
//!
//! Two verbs:
//!
//! | call | somebody else has it | answer |
//! | --- | --- | --- |
//! | [`try_acquire`] | returns at once | `Ok(Some(lease))` or `Ok(None)` |
//! | [`acquire`] | waits | `Ok(lease)` or [`AcquireError::Busy`] |
//!
//! "Somebody else has it" is not a failure for `try_acquire`, and is one for `acquire` only
//! when it has waited for as long as you said. A store that does not answer is another matter:
//! both ask it again for the client's [`patience`](crate::Builder::patience).
//!
//! **Waiting is polling, today.** A waiter asks, pauses, asks again. There is no queue: who
//! asks first after a release has the lock. Since pauses grow, a newcomer asks more often than
//! somebody who has waited for long, and may overtake. If order matters to you, do not rely on
//! this.
//!
//! # Not waiting
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! match locks.try_acquire("cron:nightly").await? {
//!     Some(lease) => {
//!         // … the nightly work …
//!         lease.release().await?;
//!     }
//!     None => println!("another machine does it"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`no_wait`](crate::Acquire::no_wait) asks once as well, and answers an error that says who
//! has it:
//!
//! ```
//! use leasehold::AcquireError;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let _other = locks.acquire("stock:1001").metadata("pod-7").await?;
//! match locks.acquire("stock:1001").no_wait().await {
//!     Ok(lease) => lease.release().await?,
//!     Err(AcquireError::Busy(busy)) => {
//!         assert_eq!(busy.holder().metadata(), Some(&b"pod-7"[..]));
//!         println!("{busy}"); // "stock:1001" not acquired: held by pod-7 for 29.999s more; …
//!     }
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Waiting without limit
//!
//! The default. It ends with the lease, with a store that fails for longer than `patience`, or
//! with [`Client::close`](crate::Client::close):
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let lease = locks.acquire("order:42").await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Waiting for so long
//!
//! [`wait`](crate::Acquire::wait) limits how long a holder is waited for, and how long a store
//! that fails is asked again. The last try is at the end of it:
//!
//! ```
//! use std::time::Duration;
//! use leasehold::ErrorKind;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let _other = locks.acquire("order:42").await?;
//! let error = locks.acquire("order:42").wait(Duration::from_millis(50)).await.unwrap_err();
//! assert_eq!(error.kind(), ErrorKind::Busy);
//! # Ok(())
//! # }
//! ```
//!
//! Any other way to give up works too: `tokio::time::timeout`, `select!`, dropping the future.
//! What a claim under way may have taken is then released in the background. `wait` is better
//! than a timeout around it in one way: it tells "busy" from "unreachable".
//!
//! # How often to ask
//!
//! [`retry`](crate::Acquire::retry) takes a [`Backoff`](crate::Backoff). The default starts at
//! 5 ms and doubles up to 250 ms. Whatever you give, a waiter that was told "held for 30 ms
//! more" asks again then, if its pause would be longer.
//!
//! Always the same pause:
//!
//! ```
//! use std::time::Duration;
//! use leasehold::Backoff;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let lease = locks.acquire("a").retry(Backoff::fixed(Duration::from_millis(50))).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A pause that doubles from a lower to an upper bound, each shortened at random by up to half
//! so that a crowd spreads out:
//!
//! ```
//! use std::time::Duration;
//! use leasehold::Backoff;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let pace = Backoff::exponential(Duration::from_millis(16), Duration::from_secs(1));
//! let lease = locks.acquire("a").retry(pace).await?;
//! # Ok(())
//! # }
//! ```
//!
//! One try:
//!
//! ```
//! use leasehold::Backoff;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let lease = locks.acquire("a").retry(Backoff::none()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! At most so many tries, the first one included; or for at most so long:
//!
//! ```
//! use std::time::Duration;
//! use leasehold::{AcquireError, Backoff};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let _other = locks.acquire("a").await?;
//! let pace = Backoff::fixed(Duration::from_millis(5));
//!
//! let counted = locks.acquire("a").retry(pace.max_tries(3)).await;
//! assert!(matches!(counted, Err(AcquireError::Busy(busy)) if busy.tries() == 3));
//!
//! let timed = locks.acquire("a").retry(pace.max_time(Duration::from_millis(20))).await;
//! assert!(matches!(timed, Err(AcquireError::Busy(_))));
//! # Ok(())
//! # }
//! ```
//!
//! All of them together: the first limit to be reached counts.
//!
//! ```
//! use std::time::Duration;
//! use leasehold::Backoff;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! const PACE: Backoff =
//!     Backoff::exponential(Duration::from_millis(10), Duration::from_millis(500))
//!         .max_tries(20)
//!         .max_time(Duration::from_secs(5));
//!
//! let lease = locks.acquire("a").retry(PACE).wait(Duration::from_secs(2)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! | limit | counts | a store that fails |
//! | --- | --- | --- |
//! | [`wait`], [`max_time`] | time from the first try; the shorter one | is cut short by them too |
//! | [`max_tries`] | answers "held by another" | does not count as a try |
//!
//! A `Backoff` is a plain value: make it once, use it anywhere, as often as you like. A pause
//! below 1 ms, an upper bound below the lower one, or no try at all is refused before anything
//! is sent.
//!
//! A strategy of your own is a loop:
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let mut pauses = [1, 1, 2, 3, 5, 8].into_iter().map(Duration::from_millis);
//! let lease = loop {
//!     if let Some(lease) = locks.try_acquire("a").await? {
//!         break Some(lease);
//!     }
//!     match pauses.next() {
//!         Some(pause) => tokio::time::sleep(pause).await,
//!         None => break None,
//!     }
//! };
//! # assert!(lease.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Several names
//!
//! [`acquire_all`](crate::Client::acquire_all) takes all of its names or none, in one step, when
//! they are all free at once. While it waits it holds none of them, so those who ask for the same
//! names in another order do not block each other. The price: with many who want a single one of
//! them, a moment in which all are free may be long in coming. Give it a `wait`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let both = locks.acquire_all(["account:7", "account:12"]).await?;
//! assert_eq!(both.names().count(), 2);
//! // … one fence for the writes to both …
//! both.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! They are one lease. It is renewed and released as one, [`remaining`](crate::Lease::remaining)
//! is what the first of them to end has, and losing one of them is losing all:
//! [`Lost::name`](crate::Lost::name) says which it was, and the others are given back at once. A
//! busy answer names one that is held ([`Busy::name`](crate::Busy::name)). Up to 1,000 names;
//! one that is given twice counts once.
//!
//! # Entering again, by owner
//!
//! A lease excludes everybody, also the task that has it. A function that needs a lock which its
//! caller may hold already is better off with a `&Lease` in its arguments. Where that does not
//! go (the caller is another process, or there are layers between that know nothing of locks), give
//! both the same [`owner`](crate::Acquire::owner): a request id, an order number, whatever names
//! the work they do together.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let outer = locks.acquire("order:42").owner("request 7f3a").await?;
//! let inner = locks.acquire("order:42").owner("request 7f3a").await?; // enters, does not wait
//! assert_eq!(inner.fence(), outer.fence());
//! assert!(locks.try_acquire("order:42").owner("request 7f3b").await?.is_none());
//!
//! outer.release().await?;
//! assert!(locks.try_acquire("order:42").await?.is_none()); // one is still inside
//! inner.release().await?; // the last one to go frees it
//! # Ok(())
//! # }
//! ```
//!
//! - Each acquisition is a lease of its own, with its own token, TTL and end. One that crashed
//!   runs out by itself, and frees nothing for the others, who go on.
//! - All have the same fence: to storage they are one writer. Let it compare with `<=`
//!   ([why](super::fencing#with-an-owner)). What they do at the same time is theirs to order.
//! - A claim or a release that is repeated because its answer was lost counts once.
//! - `inspect` tells the [owner](crate::Holder::owner) and its [holds](crate::Holder::holds).
//! - With several names, some of which the owner holds already under another fence, there is a new
//!   fence for all of them, above the old one. Storage then refuses what the earlier leases on those
//!   names still write: enter with the same names, or release first.
//! - The key's value is exactly the owner, so a plain client of another language that uses the same
//!   value is the same owner. Its lock counts as one more hold, and is left to it: if it has died,
//!   for as long as the longest TTL of those who entered. But it knows nothing of the others:
//!   deleting its key frees the lock for anybody while they believe in it until their next renewal,
//!   and an expiry that it sets shorter than theirs cuts all of them. Let it release last.
//!
//! # Locks without an end
//!
//! A client of another library may have set the key without an expiry. Nobody knows when that
//! is free, so `acquire` without any limit does not hang: it answers
//! [`Busy`](crate::AcquireError::Busy) at once, the holder's
//! [`remaining`](crate::Holder::remaining) is [`Forever`](crate::Remaining::Forever), and the
//! message says so. With `wait`, `max_time` or `max_tries` it is waited for like any other.
//!
//! If its holder is gone, [`force_release`](crate::Client::force_release) removes it.
//!
//! # What it costs
//!
//! | | default pace, once the pause has grown |
//! | --- | --- |
//! | requests for each waiter | about five a second: pauses of 125 to 250 ms |
//! | a free lock is found | up to 250 ms late by one waiter, sooner by many |
//! | 1,000 waiters | about 5,000 small scripts a second |
//!
//! - A shorter pause finds a free lock sooner and costs the server more, for each waiter.
//! - Many tasks of one process that want the same lock need not all ask the server: let them
//!   queue up before a `tokio::sync::Mutex`, and acquire the lease inside it. They are then
//!   served in order, too, within the process.
//! - Holding shorter helps more than asking faster.
//!
//! [`AcquireError::Busy`]: crate::AcquireError::Busy
//! [`acquire`]: crate::Client::acquire
//! [`max_time`]: crate::Backoff::max_time
//! [`max_tries`]: crate::Backoff::max_tries
//! [`try_acquire`]: crate::Client::try_acquire
//! [`wait`]: crate::Acquire::wait
