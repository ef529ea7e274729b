//! How time counts.
//!
//! # Validity
//!
//! A grant or a renewal that was *sent* at `t` makes the lease valid until
//!
//! ```text
//! t + TTL − (1 % of the TTL + 2 ms)
//! ```
//!
//! `t` is read before the request leaves. The store cannot have begun to count earlier, so
//! the lease ends here before it ends there. The 1 % is for clocks that run at different
//! rates, the 2 ms for rounding.
//!
//! | TTL | valid for, from sending |
//! | --- | --- |
//! | 10 ms, the shortest | 7.9 ms |
//! | 1 s | 988 ms |
//! | 30 s, the default | 29.698 s |
//! | 30 days, the longest | 29 days, 16 h and 48 min |
//!
//! A TTL is cut to whole milliseconds. One out of range is refused before anything is sent.
//!
//! Three answers to "for how long":
//!
//! | call | whose clock | asks the store |
//! | --- | --- | --- |
//! | [`is_held`] | ours | no |
//! | [`valid_for`] | ours | no |
//! | [`remaining`] | the store's | yes |
//!
//! Decide by the first two. The third is for people who look at a store.
//!
//! # Which clock
//!
//! | system | clock |
//! | --- | --- |
//! | Linux, Android | `CLOCK_BOOTTIME` |
//! | macOS and other Unix | `CLOCK_MONOTONIC` |
//! | Windows | the performance counter |
//!
//! None of them is the wall clock: setting the date on a client changes nothing. Those of
//! Linux, macOS and Windows go on while the machine is suspended.
//!
//! # Renewal
//!
//! The keeper renews at a third of the TTL, counted from when the last successful request was
//! sent. Renewals that fall due together go to the store together, up to 100 in one call. A
//! renewal that fails is tried again: after a twentieth of the TTL, but not sooner than 5 ms
//! and not later than 500 ms, for as long as the lease is valid. One try may take a quarter of
//! the TTL, or [`command_timeout`](crate::Builder::command_timeout) if that is shorter.
//!
//! | TTL | first renewal | one try may take | pause after a failure |
//! | --- | --- | --- | --- |
//! | 300 ms | 100 ms | 75 ms | 15 ms |
//! | 3 s | 1 s | 750 ms | 150 ms |
//! | 30 s | 10 s | 2 s | 500 ms |
//!
//! So a store may be out of reach for about two thirds of the TTL at any time, and no lease is
//! lost.
//!
//! A renewal does not change the fence or the token.
//!
//! # Late replies
//!
//! - **To a claim.** A claim is given up at the end of the lease that it would bring, even if
//!   `command_timeout` is longer: a grant that comes later is worth nothing. It is asked again
//!   with the same token, or released in the background.
//! - **To a renewal.** It does not bring back a lease that has ended. What the store keeps for
//!   nobody is released in the background.
//! - **None at all.** What was sent may still be carried out. A claim is repeated with the same
//!   token, so it is recognised as ours. A renewal without an answer limits how long those
//!   sent in the next minute are trusted: it may yet overtake them, and cut the lease to its TTL.
//!
//! A TTL near the round trip to the store never works: with 10 ms, an answer that takes 8 ms
//! is too late.
//!
//! # A longest hold
//!
//! A holder that hangs while its process lives on is renewed for ever. `max_hold` ends that:
//!
//! ```
//! use std::time::Duration;
//! use leasehold::{LossReason, ManualClock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = ManualClock::new();
//! let locks = leasehold::builder().memory_with_clock(&clock)?;
//!
//! let lease = locks
//!     .acquire("report")
//!     .ttl(Duration::from_secs(30))
//!     .max_hold(Duration::from_secs(600))
//!     .await?;
//! clock.advance(Duration::from_secs(590)); // renewed all the way
//! assert!(lease.is_held());
//! clock.advance(Duration::from_secs(10));
//! assert_eq!(lease.lost().await, LossReason::MaxHold);
//! # Ok(())
//! # }
//! ```
//!
//! No renewal, by the keeper or by hand, asks for more than what is left of it, so the store
//! lets go by itself too. The lease ends up to 1 % of the TTL + 2 ms before it. A TTL above
//! `max_hold` is cut to it. `max_hold` counts from the grant, not from when waiting began.
//!
//! # Fixed leases
//!
//! [`fixed`](crate::Acquire::fixed) leaves the lease to you: it ends after its TTL unless you
//! renew it.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let lease = locks.acquire("import").ttl(Duration::from_secs(60)).fixed().await?;
//! for chunk in ["a", "b", "c"] {
//!     lease.renew(Duration::from_secs(60)).await?; // an error: stop here
//!     println!("importing {chunk}");
//! }
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`renew`](crate::Lease::renew) works on every lease. Its TTL may be shorter than before,
//! and the keeper goes on with it.
//!
//! # Limits on a request
//!
//! | option | default | limits |
//! | --- | --- | --- |
//! | [`connect_timeout`] | 2 s | making one connection |
//! | [`command_timeout`] | 2 s | one request and its reply, with a new connection if it needs one |
//! | [`patience`] | 5 s | failing without a break, before the answer is "unreachable" |
//! | [`wait`] | none | one `acquire`, from its first try |
//!
//! - `connect` tries once. It takes `connect_timeout` and `command_timeout` together at most.
//! - A request without an answer after `command_timeout` is repeated, on a fresh connection if
//!   the connection is ours. The answer to `acquire`, `try_acquire`, `release`, `renew` and
//!   `inspect` is "unreachable" only when `patience` is over. The first repetition comes at
//!   once, since a connection that broke while idle is found out by using it; after that there
//!   are 20 to 200 ms between two tries.
//! - `patience` counts from the first failure and does not cut short a request under way.
//!   So on a server that is silent, `try_acquire` answers after `patience` and two
//!   `command_timeout`s at the latest.
//! - An answer, also "held by another", ends the failing: `patience` begins anew.
//! - `wait` limits how long a *holder* is waited for. The first request always has the time that
//!   a request may take, however short the wait: a store that is far away is not unreachable.
//!   Later ones are cut short at the end of the wait, and then the last answer stands. If there
//!   was none, the outcome is "unreachable" and not "busy".
//! - `acquire` without `wait` waits without limit for a *holder*, and `patience` long for a
//!   *store*.
//! - A refusal (a wrong password, a full server) is passed on at once.
//!
//! # Choosing a TTL
//!
//! The TTL is how long everybody waits after a holder crashed. It is also how long a holder
//! may be frozen, or cut off, and keep its lease. Both at once.
//!
//! - **30 s**, the default, is right for most: it outlasts garbage collection, a live
//!   migration and a server that restarts.
//! - **Shorter**, 2 to 10 s, where a crash must not hold up the others. Stay well above the
//!   slowest answer of your store: four of them should fit into the TTL with ease.
//! - **Longer**, minutes, for fixed leases, where it has to outlast the work.
//! - The length of the work does not matter for a lease that is renewed.
//!
//! # Pauses
//!
//! | what happens | what a lease does |
//! | --- | --- |
//! | the async runtime is blocked by CPU work | renewals go on, on the keeper's own thread |
//! | SIGSTOP, a debugger, a frozen container, shorter than what is left | it is renewed on waking |
//! | the same, for longer | `is_held()` is false from the first instruction after it |
//! | the machine is suspended | the same: the clock goes on |
//! | the process is killed | the store frees it after the TTL |
//! | the client's wall clock is set | nothing |
//!
//! After a long pause `is_held()` is right at once, since it reads the clock. `run` reads it
//! before every poll of its body, so nothing of the body runs on; it is dropped then, or when a
//! timer notices, whichever is first. `lost()` hears of it by a timer or from the keeper, a
//! moment later; timers stand still while a machine is suspended, so after that the moment may
//! last up to a second. A pause in the middle of a poll is nobody's to notice: there, compare
//! the [fence](super::fencing).
//!
//! While their runtime is blocked, `lost()` and `run` cannot notice anything.
//!
//! # The server's clock
//!
//! Redis keeps expiries by its wall clock.
//!
//! - **Stepped forward**: leases vanish early. The next renewal finds them gone, and they are
//!   lost as [`Released`] or [`Taken`]. Until then two may believe in the lock.
//! - **Stepped back**: keys stay longer. [`Holder::outlasts_its_ttl`] says so, and
//!   [`remaining`] logs a warning. The holder's next renewal mends it. The lock of a holder
//!   that crashed stays for as much longer.
//! - **Slewed**, as NTP does: nothing, up to 1 %.
//!
//! Fences grow in all three cases.
//!
//! [`Holder::outlasts_its_ttl`]: crate::Holder::outlasts_its_ttl
//! [`Released`]: crate::LossReason::Released
//! [`Taken`]: crate::LossReason::Taken
//! [`command_timeout`]: crate::Builder::command_timeout
//! [`connect_timeout`]: crate::Builder::connect_timeout
//! [`is_held`]: crate::Lease::is_held
//! [`patience`]: crate::Builder::patience
//! [`remaining`]: crate::Lease::remaining
//! [`valid_for`]: crate::Lease::valid_for
//! [`wait`]: crate::Acquire::wait
