//! The stores: how to reach them, how to set them up, what they keep.
//!
//! | store | how | for |
//! | --- | --- | --- |
//! | memory | [`connect("memory:")`], [`Builder::memory`] | one process |
//! | memory with a clock of yours | [`Builder::memory_with_clock`] | unit tests |
//! | Redis or Valkey, by URL | [`connect("redis://…")`] | many machines |
//! | Redis or Valkey, on your connection | `Builder::with_connection` | programs that have one |
//! | Redis or Valkey, on connections you make | `Builder::with_factory` | pools |
//!
//! All behave alike: what works in memory works on a server.
//!
//! # Memory
//!
//! Every call of `connect("memory:")` makes a store of its own. Clones of one client share it.
//! It is gone when the last client and the last lease are.
//!
//! ## In your unit tests
//!
//! A [`ManualClock`](crate::ManualClock) moves only when told to, so a test of what happens
//! after 30 s takes no 30 s:
//!
//! - [`advance`](crate::ManualClock::advance) lets time pass as on a healthy machine: leases
//!   are renewed on the way.
//! - [`jump`](crate::ManualClock::jump) moves the clock at one go, as a frozen process sees
//!   it: nothing is renewed on the way.
//!
//! ```
//! use std::time::Duration;
//! use leasehold::{AcquireError, Client, ManualClock, RunError};
//!
//! /// The code under test: does the nightly work unless another machine does it.
//! async fn nightly(locks: &Client, work: impl Future<Output = ()>) -> &'static str {
//!     match locks.try_acquire("cron:nightly").await {
//!         Ok(Some(lease)) => match lease.run(work).await {
//!             Ok(()) => "done",
//!             Err(RunError::Lost { .. }) => "lost",
//!             Err(RunError::Release { .. }) => "done, not released",
//!         },
//!         Ok(None) => "somebody else does it",
//!         Err(_) => "failed",
//!     }
//! }
//!
//! // #[tokio::test]
//! async fn only_one_machine_does_it() {
//!     let locks = leasehold::builder().memory().unwrap();
//!     let other = locks.acquire("cron:nightly").await.unwrap();
//!     assert_eq!(nightly(&locks, async {}).await, "somebody else does it");
//!     other.release().await.unwrap();
//!     assert_eq!(nightly(&locks, async {}).await, "done");
//! }
//!
//! // #[tokio::test]
//! async fn long_work_keeps_its_lease() {
//!     let clock = ManualClock::new();
//!     let locks = leasehold::builder().memory_with_clock(&clock).unwrap();
//!     let hours = async { clock.advance(Duration::from_secs(3 * 3600)) };
//!     assert_eq!(nightly(&locks, hours).await, "done");
//! }
//!
//! // #[tokio::test]
//! async fn a_frozen_machine_notices_that_it_is_too_late() {
//!     let clock = ManualClock::new();
//!     let locks = leasehold::builder().memory_with_clock(&clock).unwrap();
//!     let frozen = async {
//!         clock.jump(Duration::from_secs(3600));
//!         std::future::pending().await
//!     };
//!     assert_eq!(nightly(&locks, frozen).await, "lost");
//! }
//!
//! // #[tokio::test]
//! async fn waiting_follows_the_clock_too() {
//!     let clock = ManualClock::new();
//!     let locks = leasehold::builder().memory_with_clock(&clock).unwrap();
//!     let _other = locks.acquire("stock").await.unwrap();
//!     let two_seconds = Duration::from_secs(2);
//!     let (waited, ()) = tokio::join!(
//!         async { locks.acquire("stock").wait(two_seconds).await },
//!         async { clock.advance(two_seconds) },
//!     );
//!     assert!(matches!(waited, Err(AcquireError::Busy(busy)) if busy.waited() == two_seconds));
//! }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! #     only_one_machine_does_it().await;
//! #     long_work_keeps_its_lease().await;
//! #     a_frozen_machine_notices_that_it_is_too_late().await;
//! #     waiting_follows_the_clock_too().await;
//! # }
//! ```
//!
//! A waiter on a manual clock waits until somebody moves it. Awaiting it alone hangs the test.
//!
//! # Redis and Valkey by URL
//!
//! Redis 6.2 or Valkey 7.2, or later. One standalone primary: not a Cluster, not a replica.
//!
//! | form | means |
//! | --- | --- |
//! | `redis://host` | port 6379, database 0 |
//! | `redis://host:7000/3` | another port, database 3 |
//! | `redis://[::1]:6379` | IPv6 |
//! | `redis://:password@host` | password of the default user |
//! | `redis://user:p%40ss@host` | a user; special characters percent-encoded |
//! | `redis://host?protocol=resp3` | RESP3 instead of RESP2 |
//! | `rediss://host:6380` | TLS; feature `tls` |
//! | `redis+unix:///run/redis.sock` | a socket |
//! | `redis+unix:///run/redis.sock?db=3&user=u&pass=p` | with database, user and password |
//! | `valkey://`, `valkeys://`, `valkey+unix://` | the same as the three above |
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = leasehold::connect("redis://locks:secret@cache.internal:6379/0").await?;
//! # Ok(())
//! # }
//! ```
//!
//! - `connect` talks to the server and fails at once if nobody answers or the password is
//!   wrong. After that, connections that break are made again by themselves.
//! - Each runtime that uses the client has one connection, shared by all its tasks. The keeper
//!   has one of its own, on its own thread.
//! - A server's certificate is checked against the system's trusted ones. `#insecure` is
//!   refused.
//! - No error, no log line and no `Debug` output of a client shows the URL, since it may carry
//!   a password. They show the host and the port.
//!
//! # Your own connection
//!
//! Anything of the [`redis`](https://docs.rs/redis) crate that is cheap to clone, in the
//! version that leasehold re-exports as `leasehold::redis`. A `ConnectionManager` reconnects by
//! itself; a plain `MultiplexedConnection` works until it breaks once, and the errors then say
//! that it never reconnects.
//!
//! ```no_run
//! # #[cfg(feature = "redis")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::redis;
//! use leasehold::redis::aio::{ConnectionManager, ConnectionManagerConfig};
//!
//! // The redis crate gives up on a reply after 500 ms. leasehold has deadlines of its own.
//! let config = ConnectionManagerConfig::new().set_response_timeout(None);
//! let client = redis::Client::open("redis://127.0.0.1")?;
//! let connection = ConnectionManager::new_with_config(client, config).await?;
//!
//! let locks = leasehold::builder()
//!     .keeper_url("redis://127.0.0.1")
//!     .with_connection(connection)?;
//! # Ok(())
//! # }
//! ```
//!
//! Nothing is sent before the first acquisition, so a wrong address shows up there. The limits
//! that your connection has of its own count as well: a reply that it gives up on is a request
//! without an answer.
//!
//! # A pool, or any way to make connections
//!
//! The factory is called for each request, and the connection is dropped after it:
//!
//! ```no_run
//! # #[cfg(feature = "redis")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::redis;
//!
//! // With a pool: move || { let pool = pool.clone(); async move { pool.get().await } }
//! let client = redis::Client::open("redis://127.0.0.1")?;
//! let locks = leasehold::builder()
//!     .keeper_url("redis://127.0.0.1")
//!     .with_factory(move || {
//!         let client = client.clone();
//!         async move { client.get_multiplexed_async_connection().await }
//!     })?;
//! # Ok(())
//! # }
//! ```
//!
//! # The keeper's connection
//!
//! | | with `keeper_url` | without |
//! | --- | --- | --- |
//! | renewals and background releases go over | a connection of the keeper's own | yours |
//! | your runtime is blocked for longer than the TTL | leases are kept | leases may be lost |
//! | your connection is flooded or broken | leases are kept | leases may be lost |
//! | a factory is called | on your runtime | on the keeper's thread and runtime too |
//!
//! Give one. It must lead to the same server and the same database. With `connect(url)` it is
//! not needed: the keeper has a connection of its own there anyway.
//!
//! # Prefix
//!
//! [`Builder::prefix`](crate::Builder::prefix) puts something before every name, so that two
//! programs, or two environments, on one server do not meet. It is part of the key and not of
//! the name: [`Lease::name`](crate::Lease::name) and messages about busy and lost leases show
//! what you gave to `acquire`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = leasehold::builder().prefix("shop:").connect("redis://127.0.0.1").await?;
//! let lease = locks.acquire("stock:1001").await?; // the key is shop:stock:1001
//! assert_eq!(lease.name(), "stock:1001");
//! # Ok(())
//! # }
//! ```
//!
//! # Setting up the server
//!
//! | setting | value | why |
//! | --- | --- | --- |
//! | `maxmemory-policy` | `noeviction` | every other policy may drop locks that are held |
//! | `appendonly` | `yes` | or a restarted server has forgotten who holds what |
//! | `appendfsync` | `always`, if you can | `everysec` may forget the last second |
//! | the clock | NTP that slews, no steps | expiries follow the wall clock: see [`timing`] |
//! | `timeout` | 0, or above your TTLs | a closed connection costs a request that is repeated |
//!
//! A server that is a cache for other things is a bad place for locks: it evicts. With
//! `noeviction`, a full server refuses new locks, and renewals and releases go on.
//!
//! A user for locks needs no more than this, here with the prefix `shop:`:
//!
//! ```text
//! ACL SETUSER locks on >secret ~shop:* ~*:leasehold:1:* ~leasehold:1:* &leasehold:1:grants:*
//!     +eval +evalsha +ping +subscribe +publish +pubsub|numsub +time +type +exists +del
//!     +mget +set +pexpire +pexpireat +persist +pttl +hget +hset +hdel
//!     +zadd +zrem +zcard +zcount +zrank +zscore +zrange +zrevrange +zrangebyscore
//!     +zrevrangebyscore +zremrangebyscore
//! ```
//!
//! # The keys
//!
//! | key | type | value | lives |
//! | --- | --- | --- | --- |
//! | prefix and name | string | token, then metadata; or the owner | the TTL, from the last renewal |
//! | `leasehold:1:fence` | string | the last fence | for ever; one for each database |
//! | `{prefix and name}:leasehold:1:facts` | string | fence, since, TTL, token | eight TTLs |
//! | `{prefix and name}:leasehold:1:holds` | sorted set | of an owner: its tokens and their ends | the last end |
//! | `{prefix and name}:leasehold:1:line` | sorted set | tokens of those who wait, by arrival | a minute after the last look |
//! | `{prefix and name}:leasehold:1:places` | hash | what each of them wants | the same |
//!
//! - The lock key is exactly what you gave. Where it carries a hash tag of its own, as
//!   `{user}:7` does, the facts are at `{user}:7:leasehold:1t:facts`.
//! - The facts are written by the keeper's first renewal and now and then after it. They are
//!   what [`inspect`](crate::Client::inspect) tells beyond the metadata. A release removes
//!   them. Short leases write none. With an owner the claim writes them, and they end with the
//!   lock.
//! - `1` is the version of the layout.
//! - A name that ends like one of these side keys (`leasehold:`, digits, `:`, lower-case
//!   letters) is refused.
//! - Whoever can read these keys can read tokens, and a token is all it takes to release a
//!   lease.
//!
//! Names and owners are 1 to 1,024 bytes of any text without control characters. A lease has up to
//! 1,000 names. Metadata is up to 4,096 bytes of anything.
//!
//! # Together with locks of other languages
//!
//! The lock is a plain string at a plain key, set if absent, with an expiry. So is that of many
//! libraries. Use the same key, and they and leasehold exclude one another:
//!
//! | library | its key | its value | seen from leasehold |
//! | --- | --- | --- | --- |
//! | bsm/redislock (Go) | as given | 22-character token, metadata | a holder, with metadata |
//! | go-zero RedisLock (Go) | as given | 16 characters | a holder |
//! | redis_lock (Go) | `REDIS_LOCK_PREFIX_` and the name | process and goroutine | a holder |
//! | redsync (Go) | as given | 24 characters | a holder; the padding may look like metadata |
//! | redis-py, node-redlock | as given | random | a holder |
//! | Redisson (Java) | as given, a hash | | refused: [`ForeignKey`] |
//!
//! The layout of our value is that of bsm/redislock: the first 22 characters are the token, and
//! the rest is the metadata, for a Go program to read as well.
//!
//! What to know about such company:
//!
//! - They draw no fence.
//! - A key that they set without an expiry is [reported, not waited for in
//!   silence](super::waiting#locks-without-an-end).
//! - If one of them deletes our key, the lease is lost with the next renewal, as
//!   [`Released`](crate::LossReason::Released).
//! - Their value is their secret: [`Holder`](crate::Holder) shows its metadata only if it
//!   begins like a token of ours.
//!
//! [`Builder::memory_with_clock`]: crate::Builder::memory_with_clock
//! [`Builder::memory`]: crate::Builder::memory
//! [`ForeignKey`]: crate::RefusalCause::ForeignKey
//! [`connect("memory:")`]: crate::connect
//! [`connect("redis://…")`]: crate::connect
//! [`timing`]: super::timing#the-servers-clock
