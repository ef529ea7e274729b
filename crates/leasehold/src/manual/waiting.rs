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
