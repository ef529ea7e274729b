//! Coming from another lock library: every call and option, and what it is here.
//!
//! - [go-zero's RedisLock](#go-zeros-redislock)
//! - [redis_lock](#redis_lock): watchdog and Redlock
//! - [LockHelper](#lockhelper): re-entrant
//! - [bsm/redislock](#bsmredislock)
//!
//! All four keep a plain string at a plain key, as leasehold does. On the same key they and
//! leasehold exclude one another: you can move one service after the other.
//! [`stores`](super::stores#together-with-locks-of-other-languages) has the details.
//!
//! What to know first, wherever you come from:
//!
//! - A lease is renewed by default, for as long as the process lives and you hold it. Say
//!   [`fixed`](crate::Acquire::fixed) for one that ends after its TTL.
//! - Losing it is told: [`lost`](crate::Lease::lost), [`run`](crate::Lease::run), and the error
//!   of [`release`](crate::Lease::release).
//! - There is a [fence](super::fencing).
//! - An acquisition is not a lock object that is locked and unlocked, but a value that you get
//!   and give back. Dropping it releases it, so there is no `defer`.
//! - Cancelling is dropping the future. There is no context parameter.
//! - [Five kinds](super::failures) of errors, never folded together.
//!
//! From **Redisson**, in short: an `RLock` belongs to a thread, which may lock it again; here it is
//! the [owner](crate::Acquire::owner) that you name who may, in any task or process, and without
//! one even the same task waits for itself. `lockWatchdogTimeout` is the TTL. A `MultiLock` over
//! locks of one server is [`acquire_all`](crate::Client::acquire_all). Its keys are hashes, which
//! we refuse, so the two do not exclude one another.
//!
//! # go-zero's RedisLock
//!
//! `core/stores/redis/redislock.go`
//!
//! | there | here |
//! | --- | --- |
//! | `redis.MustNewRedis(conf)` | [`connect(url)`] |
//! | `NewRedisLock(store, key)` | nothing to make: the key is given to `acquire` |
//! | the random id of the lock object | [`Lease::token`], a fresh one for each acquisition |
//! | `SetExpire(seconds)` | [`.ttl(…)`](crate::TryAcquire::ttl) |
//! | `Acquire()` | [`try_acquire(key)`] with [`.fixed()`] |
//! | `true, nil` | `Ok(Some(lease))` |
//! | `false, nil` | `Ok(None)` |
//! | `false, err` | `Err(error)`; its `kind()` says which way it failed |
//! | `AcquireCtx(ctx)` | the same; drop the future to cancel it, or `tokio::time::timeout` |
//! | `Acquire()` again on the same object, to extend | [`Lease::renew(ttl)`]; or no `.fixed()` |
//! | `Release()` | [`Lease::release`] |
//! | `true, nil` | `Ok(())` |
//! | `false, nil` | [`ReleaseError::Lost`], with the reason |
//! | `ReleaseCtx(ctx)` | the same; dropped half-way, it is finished in the background |
//! | a loop around `Acquire` | [`acquire`], which waits |
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let url = "memory:";
//! let locks = leasehold::connect(url).await?;
//!
//! let lease = locks.try_acquire("order:42").ttl(Duration::from_secs(5)).fixed().await?;
//! let Some(lease) = lease else {
//!     return Ok(()); // another one has it
//! };
//! // … the work …
//! lease.release().await?; // an error: it had run out before
//! # Ok(())
//! # }
//! ```
//!
//! Deliberate differences:
//!
//! - **The expiry is what you say.** There 500 ms are added to it, so that 5 s are 5.5 s. Here
//!   5 s are 5 s in the store, and a little less for you.
//! - **There is a default, 30 s.** There it is 0 s, which means the 500 ms.
//! - **A TTL of zero is refused**, as is any out of range. There a negative one wraps around to
//!   more than a hundred years.
//! - **Two tasks exclude each other**, whatever they share. There two tasks with the same lock
//!   object both get it.
//! - **Extending is not acquiring.** There `Acquire` on the same object takes the lock anew if
//!   it has run out meanwhile, and says `true` either way. Here `renew` answers
//!   [`Lost`](crate::RenewError::Lost): another one may have been in between.
//! - **Releasing takes the lease away.** A second release does not compile; there it answers
//!   `false`.
//! - **The token comes from the operating system's generator**, with 128 bits.
//!
//! # redis_lock
//!
//! `github.com/xiaoxuxiansheng/redis_lock`
//!
//! | there | here |
//! | --- | --- |
//! | `NewClient(network, address, password)` | [`connect("redis://:password@address")`] |
//! | `WithMaxIdle`, `WithMaxActive` | not needed: one connection for each runtime, shared |
//! | `WithIdleTimeoutSeconds`, `WithWaitMode` | not needed; with a pool, they are the pool's |
//! | a `LockClient` of your own | `Builder::with_connection`, `Builder::with_factory` |
//! | the client's `SetNEX`, `Eval` | what leasehold sends by itself |
//! | its `GetConn`, `Get`, `Set`, `SetNX`, `Del`, `Incr` | not here: use the `redis` crate |
//! | `RedisLockKeyPrefix` | [`.prefix("REDIS_LOCK_PREFIX_")`] meets the same keys |
//! | `NewRedisLock(key, client, …)` | nothing to make: the key is given to `acquire` |
//! | `Lock(ctx)` | [`acquire(key).no_wait()`], or [`try_acquire(key)`] |
//! | `WithBlock()` | `acquire(key).wait(Duration::from_secs(5))`: 5 s is its default |
//! | `WithBlockWaitingSeconds(n)` | [`.wait(Duration::from_secs(n))`] |
//! | its pause of 50 ms | [`.retry(Backoff::fixed(Duration::from_millis(50)))`] |
//! | `WithExpireSeconds(n)` | `.ttl(Duration::from_secs(n)).fixed()` |
//! | no expiry given: watchdog mode | the default: 30 s, renewed |
//! | `DefaultLockExpireSeconds` = 30 | the default TTL |
//! | `WatchDogWorkStepSeconds` = 10 | a third of the TTL |
//! | `DelayExpire(ctx, n)` | [`Lease::renew(Duration::from_secs(n))`] |
//! | its error without ownership | [`RenewError::Lost`] |
//! | `Unlock(ctx)` | [`Lease::release`] |
//! | its error without ownership | [`ReleaseError::Lost`] |
//! | `ErrLockAcquiredByOthers` | [`AcquireError::Busy`] |
//! | `IsRetryableErr(err)` | `error.kind() == ErrorKind::Busy` |
//! | `ErrNil` | does not exist |
//! | `NewRedLock(key, confs)`, its `Lock`, `Unlock` | **not yet**: there is no quorum of servers |
//! | `SingleNodeConf` | **not yet** |
//! | `WithSingleNodesTimeout(d)` | **not yet**; for one server it is [`command_timeout`] |
//! | `WithRedLockExpireDuration(d)` | **not yet**; for one server it is `.ttl(d).fixed()` |
//!
//! ```
//! use std::time::Duration;
//! use leasehold::Backoff;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::builder().prefix("REDIS_LOCK_PREFIX_").memory()?;
//! // let locks = leasehold::builder().prefix("REDIS_LOCK_PREFIX_").connect(url).await?;
//!
//! // NewRedisLock("job", client, WithBlock(), WithBlockWaitingSeconds(2)), in watchdog mode
//! let lease = locks
//!     .acquire("job")
//!     .wait(Duration::from_secs(2))
//!     .retry(Backoff::fixed(Duration::from_millis(50)))
//!     .await?;
//! lease.run(async { /* the work */ }).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Deliberate differences:
//!
//! - **Blocking blocks.** There the answer of a taken lock comes back as another error than the
//!   one that is retried, so that blocking mode gives up at once.
//! - **The token is random**, for each acquisition. There it is the process and the goroutine,
//!   which are the same in two containers often enough.
//! - **An expiry and renewal go together.** There an expiry switches the watchdog off. Here a
//!   TTL says how long, and `fixed` says not to renew.
//! - **A renewal that fails is told.** There the watchdog's errors are dropped. It also ends
//!   with the context that was given to `Lock`; here the keeper renews until you release.
//! - **Waiting has no limit by default**; there it is 5 s.
//! - **No seconds.** Everything is a `Duration`, down to 10 ms.
//! - **No Redlock for now.** When it comes, a claim that fails will not leave its keys behind.
//!
//! # LockHelper
//!
//! The re-entrant helper with an injected value, as it is passed around in Go services:
//! `GenLockHelper`, `LockOption`, `Lock`, `Unlock`.
//!
//! | there | here |
//! | --- | --- |
//! | `GenLockHelper(key, "")` | nothing to make; the random value is the [token] |
//! | `GenLockHelper(key, uniqueID)`, an id as the owner | [`.owner(id)`], at each `acquire` |
//! | the same, an id for people to read | [`.metadata(id)`] |
//! | local re-entry: the count goes up | another `acquire` with the same owner, another lease |
//! | re-entry in another process with the same id | the same |
//! | `DefaultLockOption()` | `.ttl(Duration::from_secs(10)).no_wait()` |
//! | `LockExpire` (10 s by default; 100 ms if zero) | [`.ttl(…)`](crate::Acquire::ttl) |
//! | `RetryInterval` (100 ms by default) | [`Backoff::fixed(…)`] |
//! | `MaxElapsedTime` | [`.max_time(…)`], or [`.wait(…)`] |
//! | `MaxRetry` = n | [`.max_tries(n + 1)`]: the first try counts |
//! | both zero: no retry | [`.no_wait()`], or [`try_acquire`] |
//! | `Lock(opt)` | [`acquire(key)`] with options |
//! | its error "lock timeout" | [`AcquireError::Busy`] |
//! | its error from Redis | [`AcquireError::Unreachable`], or [`Refused`] |
//! | renewal at 0.4 of the expiry | renewal at a third of the TTL |
//! | three failures end the renewal | it is tried for as long as the lease is valid |
//! | renewal that ends in silence | [`Lease::lost`], [`Lease::is_held`] |
//! | `Unlock()`, count above zero | [`Lease::release`] of one lease; others are still inside |
//! | `Unlock()`, count at zero | [`Lease::release`] of the last one, whichever it is |
//! | its error "unlock invalid" | does not compile |
//! | its error "unlock failed" | [`ReleaseError::Lost`] |
//! | `SafeChan` | not needed |
//!
//! ```
//! use std::time::Duration;
//! use leasehold::{Backoff, Client};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! // LockOption{RetryInterval: 100ms, MaxElapsedTime: 3s, MaxRetry: 20, LockExpire: 10s}
//! let pace = Backoff::fixed(Duration::from_millis(100))
//!     .max_time(Duration::from_secs(3))
//!     .max_tries(21);
//! let lease = locks
//!     .acquire("order:42")
//!     .ttl(Duration::from_secs(10))
//!     .retry(pace)
//!     .owner("request 7f3a")
//!     .await?;
//! place_order(&locks, "request 7f3a").await?;
//! lease.release().await?;
//!
//! /// Needs the lock, and does not know whether its caller has it: enters again.
//! async fn place_order(locks: &Client, request: &str) -> Result<(), Box<dyn std::error::Error>> {
//!     let lease = locks.acquire("order:42").owner(request).await?;
//!     // … the work …
//!     Ok(lease.release().await?)
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Deliberate differences:
//!
//! - **Re-entry is a set, not a count.** Each entry has a token and an end of its own. One that
//!   crashed runs out without freeing the others', a retry counts once, and an entry that was
//!   left is left once. There a count lives in one process: the first process whose count is
//!   zero frees the lock for all.
//! - **All entries have one fence.**
//! - **The value is exactly the id, as there**: on the same key its clients and ours with the same id
//!   are one owner, see [waiting](super::waiting#entering-again-by-owner).
//! - **A failing store is asked again** for the client's patience. There the first error ends
//!   the attempt.
//! - **Losing the lock tells you.** There the renewal ends, and the work goes on.
//! - **The renewal renews for the TTL.** There a duration is handed to a command that counts in
//!   seconds.
//! - **An expiry of zero is refused.** There it means 100 ms.
//! - **Cancelling works**, at any await. There `Lock` takes no context.
//! - **Waiting has no limit by default.** There the default is one try.
//!
//! # bsm/redislock
//!
//! `github.com/bsm/redislock`, up to v0.10
//!
//! | there | here |
//! | --- | --- |
//! | `New(client)`, `RedisClient` | [`connect(url)`], `with_connection`, `with_factory` |
//! | `Obtain(ctx, key, ttl, nil)` | `acquire(key).ttl(ttl).no_wait().fixed()` |
//! | the same, where busy is no error | [`try_acquire`], which answers `None` |
//! | the package's `Obtain(ctx, client, …)` | the same |
//! | `ObtainMulti(ctx, keys, ttl, nil)`, the client's and the package's | [`acquire_all(keys)`]`.ttl(ttl).no_wait().fixed()` |
//! | `Options.RetryStrategy` | [`.retry(…)`] |
//! | `NoRetry()` | [`Backoff::none()`], or [`.no_wait()`] |
//! | `LinearBackoff(d)` | [`Backoff::fixed(d)`] |
//! | `ExponentialBackoff(min, max)` | [`Backoff::exponential(min, max)`] |
//! | `LimitRetry(s, n)` | [`s.max_tries(n + 1)`]: the first try counts |
//! | a `RetryStrategy` of your own, `NextBackoff` | [a loop] around `try_acquire` |
//! | `Options.Metadata` | [`.metadata(…)`], bytes |
//! | `Options.Token` | not here: every acquisition has a fresh one |
//! | the same, to obtain it again elsewhere | [`Lease::detach`] and [`Client::resume`] |
//! | a deadline in `ctx` | [`.wait(…)`] |
//! | no deadline in `ctx`: the TTL limits the wait | `.wait(ttl)` |
//! | cancelling `ctx` | dropping the future |
//! | `Lock.Key()` | [`Lease::name`], without the prefix |
//! | `Lock.Keys()` | [`Lease::names`] |
//! | `Lock.Token()` | [`Lease::token`]`.as_str()` |
//! | `Lock.Metadata()` | [`Lease::metadata`] |
//! | `Lock.TTL(ctx)`, the smallest of several | [`Lease::remaining`]; or [`valid_for`], which asks nobody |
//! | `TTL` answers 0 | [`RemainingError::Lost`]; `valid_for` answers zero |
//! | `Lock.Refresh(ctx, ttl, nil)` | [`Lease::renew(ttl)`]; or leave out `.fixed()` |
//! | `Refresh` with a `RetryStrategy` | the client's [`patience`] |
//! | `Lock.Release(ctx)` | [`Lease::release`], or drop it |
//! | `Release` of a nil lock | does not exist |
//! | `ErrNotObtained` from `Obtain` | [`AcquireError::Busy`] |
//! | `ErrNotObtained` from `Refresh` | [`RenewError::Lost`] |
//! | `ErrNotObtained` joined with `ctx.Err()` | `Busy`; `Unreachable` if there was no answer |
//! | `ErrLockNotHeld` | [`ReleaseError::Lost`] |
//! | a watchdog of your own around `Refresh` | leave out `.fixed()` |
//!
//! ```
//! use std::time::Duration;
//! use leasehold::{AcquireError, Backoff};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! // Obtain(ctx, "my-key", 10s, &Options{
//! //     RetryStrategy: LimitRetry(ExponentialBackoff(16ms, 300ms), 5), Metadata: "pod-7"})
//! let ttl = Duration::from_secs(10);
//! let pace = Backoff::exponential(Duration::from_millis(16), Duration::from_millis(300));
//! let obtained = locks
//!     .acquire("my-key")
//!     .ttl(ttl)
//!     .fixed()
//!     .wait(ttl)
//!     .retry(pace.max_tries(6))
//!     .metadata("pod-7")
//!     .await;
//!
//! let lock = match obtained {
//!     Ok(lock) => lock,
//!     Err(AcquireError::Busy(busy)) => return Ok(println!("{busy}")), // ErrNotObtained
//!     Err(error) => return Err(error.into()),
//! };
//! lock.renew(ttl).await?; // Refresh
//! assert!(lock.remaining().await? > Duration::ZERO); // TTL
//! lock.release().await?; // an error of kind Lost: ErrLockNotHeld
//! # Ok(())
//! # }
//! ```
//!
//! Deliberate differences:
//!
//! - **No takeover by a prefix.** There a token of your own that is a *prefix* of the stored
//!   value takes that lock over. Here a claim is recognised as ours only by the whole value.
//! - **A TTL of zero or less is refused.** There it "succeeds" and leaves no key.
//! - **Busy, lost, cancelled and unreachable are told apart.**
//! - **A key given twice counts once**, and an empty list is refused.
//! - **Losing one of several is losing all**, announced by name, and the others are given back.
//! - **Waiting has no limit by default** in `acquire`. There it is one try, and never longer
//!   than the TTL unless the context has a deadline.
//! - **A failing store is asked again** for the client's patience while acquiring; there the
//!   first error ends it.
//! - **A `Backoff` is a plain value.** There a strategy counts inside, and one that is used
//!   again goes on where it stopped.
//! - **The first pause is `min`**, and each is shortened at random by up to half, but not below
//!   `min`. There it is 4 ms, 8 ms, 16 ms …, kept within `min` and `max`. An upper bound of
//!   zero is no "without bound" here; it is refused.
//! - **A key of another type is refused as such**, and a key without an expiry is reported.
//! - **The lease counts from before sending.** There the time on the way is yours to subtract.
//!
//! [`.fixed()`]: crate::TryAcquire::fixed
//! [`.max_time(…)`]: crate::Backoff::max_time
//! [`.max_tries(n + 1)`]: crate::Backoff::max_tries
//! [`.metadata(id)`]: crate::Acquire::metadata
//! [`.metadata(…)`]: crate::Acquire::metadata
//! [`.no_wait()`]: crate::Acquire::no_wait
//! [`.owner(id)`]: crate::Acquire::owner
//! [`.prefix("REDIS_LOCK_PREFIX_")`]: crate::Builder::prefix
//! [`.retry(Backoff::fixed(Duration::from_millis(50)))`]: crate::Acquire::retry
//! [`.retry(…)`]: crate::Acquire::retry
//! [`.wait(Duration::from_secs(n))`]: crate::Acquire::wait
//! [`.wait(…)`]: crate::Acquire::wait
//! [`AcquireError::Busy`]: crate::AcquireError::Busy
//! [`AcquireError::Unreachable`]: crate::AcquireError::Unreachable
//! [`Backoff::exponential(min, max)`]: crate::Backoff::exponential
//! [`Backoff::fixed(d)`]: crate::Backoff::fixed
//! [`Backoff::fixed(…)`]: crate::Backoff::fixed
//! [`Backoff::none()`]: crate::Backoff::none
//! [`Client::resume`]: crate::Client::resume
//! [`Lease::detach`]: crate::Lease::detach
//! [`Lease::is_held`]: crate::Lease::is_held
//! [`Lease::lost`]: crate::Lease::lost
//! [`Lease::metadata`]: crate::Lease::metadata
//! [`Lease::name`]: crate::Lease::name
//! [`Lease::names`]: crate::Lease::names
//! [`Lease::release`]: crate::Lease::release
//! [`Lease::remaining`]: crate::Lease::remaining
//! [`Lease::renew(Duration::from_secs(n))`]: crate::Lease::renew
//! [`Lease::renew(ttl)`]: crate::Lease::renew
//! [`Lease::token`]: crate::Lease::token
//! [`Refused`]: crate::AcquireError::Refused
//! [`ReleaseError::Lost`]: crate::ReleaseError::Lost
//! [`RemainingError::Lost`]: crate::RemainingError::Lost
//! [`RenewError::Lost`]: crate::RenewError::Lost
//! [`acquire_all(keys)`]: crate::Client::acquire_all
//! [`acquire(key).no_wait()`]: crate::Acquire::no_wait
//! [`acquire(key)`]: crate::Client::acquire
//! [`acquire`]: crate::Client::acquire
//! [`command_timeout`]: crate::Builder::command_timeout
//! [`connect("redis://:password@address")`]: crate::connect
//! [`connect(url)`]: crate::connect
//! [`patience`]: crate::Builder::patience
//! [`s.max_tries(n + 1)`]: crate::Backoff::max_tries
//! [`try_acquire(key)`]: crate::Client::try_acquire
//! [`try_acquire`]: crate::Client::try_acquire
//! [`valid_for`]: crate::Lease::valid_for
//! [a loop]: super::waiting#how-often-to-ask
//! [token]: crate::Lease::token
