//! The manual: what is promised, how time counts, and what to do when something fails.
//!
//! | page | what it answers |
//! | --- | --- |
//! | [`guarantees`] | what each store promises, and what none of them does |
//! | [`timing`] | how long a lease counts, when it is renewed, which TTL to choose |
//! | [`fencing`] | how storage refuses the write of a holder who came too late |
//! | [`waiting`] | how to wait for a lock, for how long, and what that costs |
//! | [`stores`] | memory and Redis: addresses, own connections, server settings, keys |
//! | [`failures`] | every way not to succeed: what you see, what to do; and what is logged |
//! | [`coming_from`] | go-zero's RedisLock, redis_lock, LockHelper, bsm/redislock: call by call |
//!
//! In a hurry? Three rules cover most programs:
//!
//! 1. Put the work into [`Lease::run`](crate::Lease::run), or end it with
//!    [`Lease::release`](crate::Lease::release), and look at the error: it says whether the
//!    work was protected to its end.
//! 2. Send [`Lease::fence`](crate::Lease::fence) along with every write, and let the storage
//!    compare it. Nothing else stops a holder that was frozen and wakes up late.
//! 3. Call [`Client::close`](crate::Client::close) before the process ends, so that nobody
//!    waits out a TTL for a lock that nobody has any more.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = leasehold::connect("memory:").await?; // or "redis://127.0.0.1"
//!
//! let lease = locks.acquire("order:42").wait(Duration::from_secs(2)).await?;
//! let fence = lease.fence();
//! let placed = lease
//!     .run(async move {
//!         // … UPDATE orders SET …, fence = $fence WHERE id = 42 AND fence < $fence …
//!         format!("order 42 placed under fence {fence}")
//!     })
//!     .await?;
//! println!("{placed}");
//!
//! locks.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Words
//!
//! - A **lease** is a lock with an end. Whoever holds it renews it, or it runs out.
//! - The **TTL** is how long a lease lasts without a renewal.
//! - The **token** is the secret that makes a lease yours in the store.
//! - The **fence** is a number that grows from one holder of a name to the next.
//! - An **owner** is a name for work that several tasks or processes do together: they enter a lock
//!   again instead of excluding each other. Each of their leases is a **hold**.
//! - The **keeper** is the thread, one for each client, that renews leases and cleans up.
//! - A lease is **lost** when it was yours and is no more, though you did not release it.

pub mod coming_from;
pub mod failures;
pub mod fencing;
pub mod guarantees;
pub mod stores;
pub mod timing;
pub mod waiting;
