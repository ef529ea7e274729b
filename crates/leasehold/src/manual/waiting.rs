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
//! **Waiting is in line.** First come, first served: whoever releases a lock hands it, in the same
//! step in the store, to whoever has waited longest. Nobody polls, and nobody overtakes.
//!
//! # The line
//!
//! - The order is that of arrival at the store. A process has one place in the line of a name,
//!   however many of its tasks wait for it; among those, the order is that of asking. When one of
//!   them is served, the process takes a new place at the end, so processes take turns.
//! - So the bound on overtaking is: between two turns of one process, every other process that
//!   waits has at most one. Within a process, none.
//! - Only tasks that ask for the same single name with the same TTL share a place. One with another
//!   TTL, an [owner](crate::Acquire::owner), several names or a [`fixed`](crate::Acquire::fixed)
//!   lease stands for itself.
//! - The store sends the next one a message, and it has the lock when that arrives. If the message is
//!   lost, it finds out by *looking*: everybody in line looks once in a *beat*, which is a second, or
//!   a third of the TTL if that is less, and when the holder's time runs out. No correctness rests on
//!   messages.
//! - A holder that crashed is followed within what was left of its TTL, and a beat.
//! - A waiter that crashed is passed over at once: the store sees that nobody listens for it. One
//!   that is frozen, or cut off, is handed the lock for two seconds to accept it; if it does not, the
//!   next one is served. After three beats without a look it has lost its place.
//! - A waiter that gives up (its `wait` is over, its future is dropped, the client is closed) leaves
//!   the line; if the lock was on its way to it, it is passed on. If other tasks of its process wait
//!   behind it, the next of them has its place.
//! - A waiter whose future nobody polls holds up nobody: tasks behind it go past it after three beats.
//! - A client of another library does not know the line: it may take the lock in the moment when
//!   nobody has it. With a hand-over there is no such moment; after a crash there is. That one of
//!   them released or took the lock is noticed within a beat, since nothing tells us.
//! - A line has room for 100,000; the next one is [`Refused`](crate::AcquireError::Refused).
//! - [`inspect`](crate::Client::inspect) tells who waits, in order:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let held = locks.acquire("report").metadata("pod-1").await?;
//! let waiting = tokio::spawn(locks.acquire("report").metadata("pod-2").into_future());
//! # tokio::task::yield_now().await;
//! let seen = locks.inspect("report").await?;
//! assert_eq!(seen.holder().unwrap().metadata(), Some(&b"pod-1"[..]));
//! assert_eq!(seen.waiters()[0].metadata(), b"pod-2");
//! held.release().await?; // pod-2 has it now
//! waiting.await??.release().await?;
//! # Ok(())
//! # }
//! ```
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
//! [`retry`](crate::Acquire::retry) polls instead of waiting in line: it takes a
//! [`Backoff`](crate::Backoff), and asks again and again at that pace. Whatever you give, one that
//! was told "held for 30 ms more" asks again then, if its pause would be longer. **Whoever polls is
//! not in line, and those in line go first**: under load it may never get its turn. It is there for
//! those who want a strategy of their own, or tries that are counted.
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
//! names in another order do not block each other. It stands in the line of one name that is taken;
//! when that one's turn comes and another of its names is taken, it moves on to the line of that one,
//! to the place that its arrival gives it there, and the next in line is served. So it does not starve
//! behind those who came later, but it may have to wait for several turns.
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
//! - A turn costs the store two requests, one to stand in line and one to release, whatever the
//!   number of those who wait. Waiting costs one request in a beat.
//! - The lock changes hands in about one round trip and one message.
//! - A client that waits has one more connection, for messages. On a connection or a factory of your
//!   own there is none, unless you give a `keeper_url`: then waiters
//!   only look, and a lock that is free may be found a beat late. The order is the same.
//! - Holding shorter helps more than anything else.
//!
//! [`AcquireError::Busy`]: crate::AcquireError::Busy
//! [`acquire`]: crate::Client::acquire
//! [`max_time`]: crate::Backoff::max_time
//! [`max_tries`]: crate::Backoff::max_tries
//! [`try_acquire`]: crate::Client::try_acquire
//! [`wait`]: crate::Acquire::wait
