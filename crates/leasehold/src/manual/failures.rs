//! What can go wrong, what you see, and what to do.
//!
//! Every error has a `kind()`, one of five:
//!
//! | [`ErrorKind`] | means | answer |
//! | --- | --- | --- |
//! | `Busy` | somebody else holds it | wait longer, come back later, or leave it to them |
//! | `Lost` | it was yours and is no more | stop the work; acquire again before going on |
//! | `Unreachable` | no answer; it may have happened | try again later |
//! | `Refused` | the store said no | somebody has to change something |
//! | `Invalid` | the request makes no sense | fix the program; nothing was sent |
//!
//! ```
//! use leasehold::{Client, ErrorKind};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! async fn status(locks: &Client, name: &str) -> u16 {
//!     match locks.acquire(name).no_wait().await {
//!         Ok(_lease) => 200,
//!         Err(error) => match error.kind() {
//!             ErrorKind::Busy => 409,
//!             ErrorKind::Invalid => 400,
//!             ErrorKind::Unreachable => 503,
//!             ErrorKind::Lost | ErrorKind::Refused => 500,
//!         },
//!     }
//! }
//! assert_eq!(status(&locks, "order:42").await, 200);
//! assert_eq!(status(&locks, "").await, 400);
//! # Ok(())
//! # }
//! ```
//!
//! # Connecting
//!
//! | situation | you see | do |
//! | --- | --- | --- |
//! | nobody listens, or no answer in time | [`ConnectError::Unreachable`] | check the address |
//! | wrong password, bad certificate | [`ConnectError::Refused`] | see [the causes](#refusals) |
//! | a URL or an option makes no sense | [`ConnectError::Invalid`] | fix it |
//!
//! `connect` tries once. If the server may start later than you, repeat it.
//!
//! # Acquiring
//!
//! | situation | you see | do |
//! | --- | --- | --- |
//! | somebody else has it, `try_acquire` | `Ok(None)` | leave it to them |
//! | somebody else has it, `acquire` | [`AcquireError::Busy`], after the wait | wait longer |
//! | the same, and it has no end | `Busy` with [`Remaining::Forever`] | find out whose it is |
//! | the store gives no answer | [`AcquireError::Unreachable`] | try again later |
//! | the grant comes after its own end | `Unreachable` | a longer TTL, or a faster store |
//! | the store says no | [`AcquireError::Refused`], at once | see [the causes](#refusals) |
//! | bad name, owner, TTL, metadata, backoff | [`AcquireError::Invalid`], at once | fix the program |
//! | the client was closed | `Invalid` with [`InvalidInput::Closed`] | stop |
//! | you drop the future | nothing | nothing |
//!
//! - `Busy` says who has it and for how much longer, how long you waited and how often you
//!   asked. If the holder of a lock without an end is gone, [`force_release`] removes it.
//! - `Unreachable` comes when the client's [`patience`] is over, or at the end of [`wait`].
//! - Whatever an acquisition that failed or was dropped may have taken is released in the
//!   background.
//!
//! # Holding
//!
//! A loss shows everywhere: [`is_held`](crate::Lease::is_held) is false,
//! [`lost`](crate::Lease::lost) returns, [`run`](crate::Lease::run) drops its body, and
//! [`renew`], [`remaining`] and [`release`](crate::Lease::release) answer `Lost`.
//!
//! | [`LossReason`] | what happened | find out |
//! | --- | --- | --- |
//! | `Expired` | no renewal came through in time, or a fixed lease is over | what froze it |
//! | `Taken` | a renewal found another holder | who deleted ours, and when |
//! | `Released` | a renewal found nothing | the same |
//! | `Closed` | the client was [closed](crate::Client::close) | nothing: you did it |
//! | `MaxHold` | it was held for as long as [`max_hold`] allows | why the work took so long |
//!
//! Whatever the reason: stop what the lease protected, acquire again, and look at the data
//! before going on.
//!
//! `Taken` and `Released` mean that the store let go early: an operator
//! broke the lease, a client deleted the key, the server lost its data, evicted the key, or had
//! its clock stepped forward. If `Expired` is frequent, choose a longer TTL.
//!
//! | situation | you see | do |
//! | --- | --- | --- |
//! | a renewal of the keeper's fails | a warning in the log | nothing: it is tried again |
//! | all of them fail, until the end | lost, as `Expired` | as above |
//! | [`renew`] gets no answer | [`RenewError::Unreachable`] | try again while `is_held()` |
//! | [`renew`] is refused | [`RenewError::Refused`] | the same; see [the causes](#refusals) |
//! | [`renew`] with a TTL out of range | [`RenewError::Invalid`] | 10 ms to 30 days |
//! | [`remaining`] gets no answer | [`RemainingError::Unreachable`] | ask [`valid_for`] |
//! | [`remaining`] is refused | [`RemainingError::Refused`] | see [the causes](#refusals) |
//!
//! # Running
//!
//! | situation | you see | the body |
//! | --- | --- | --- |
//! | lost while it ran | [`RunError::Lost`], without output | was dropped at an await |
//! | finished, then found lost | [`RunError::Lost`], with its output | maybe ran unprotected |
//! | finished, the release not confirmed | [`RunError::Release`], with its output | is fine |
//!
//! A body that was dropped may have done a part of its work; that stays done.
//! [`into_output`](crate::RunError::into_output) gives the output wherever there is one.
//!
//! ```
//! use leasehold::RunError;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! let lease = locks.acquire("report").await?;
//! let report = match lease.run(async { "42 orders" }).await {
//!     Ok(report) => report,
//!     // Finished while it was held. The lock is free a little later than it could be.
//!     Err(RunError::Release { output, .. }) => output,
//!     Err(error @ RunError::Lost { .. }) => return Err(error.into()),
//! };
//! # assert_eq!(report, "42 orders");
//! # Ok(())
//! # }
//! ```
//!
//! # Releasing
//!
//! | situation | you see | do |
//! | --- | --- | --- |
//! | released | `Ok(())` | |
//! | it had been lost | [`ReleaseError::Lost`], with the reason | check what ran since |
//! | the client was closed before | `ReleaseError::Lost`, as `Closed` | nothing |
//! | no answer | [`ReleaseError::Unreachable`] | nothing |
//! | the store says no | [`ReleaseError::Refused`] | see [the causes](#refusals) |
//! | an answer, but too late to tell | `Unreachable`, [`is_maybe_applied`] | see below |
//! | the lease is dropped instead | nothing | nothing |
//!
//! - After "no answer" and after "no" the keeper goes on trying for one more TTL. By then the
//!   store has let go by itself.
//! - "Too late to tell": the release was sent in time and got no answer; when one came, the
//!   lease was over and the key was not ours. The lock is not yours any more. The work was done
//!   within the lease's time, but a loss that the store alone knew of (an operator broke it, a
//!   client deleted it) can no longer be told from the release. If that matters, check the work.
//! - A dropped lease is released in the background. If the process ends right after the drop,
//!   that may not have been sent, and the lock is free after its TTL. So `release` it, or
//!   [`close`] the client, before you leave `main`.
//!
//! # Handing on
//!
//! [`detach`](crate::Lease::detach) makes a [`Grant`](crate::Grant) of a lease, and
//! [`resume`](crate::Client::resume) a lease of a grant, in any process that reaches the store.
//!
//! | situation | you see | do |
//! | --- | --- | --- |
//! | it was lost before `detach` | [`Lost`](crate::Lost) | as above |
//! | the text is no grant | `InvalidInput::Grant` from `parse` | hand it on whole |
//! | it ran out, or was released, before `resume` | [`ResumeError::Lost`], `Released` | acquire |
//! | somebody else has it by now | [`ResumeError::Lost`], `Taken` | acquire |
//! | no answer | [`ResumeError::Unreachable`] | again: the grant is as good as before |
//! | the process with the grant dies | nothing | nothing: it runs out after its TTL |
//! | it is resumed twice | two leases that do not exclude each other | do not |
//!
//! # Looking, breaking, closing
//!
//! | situation | you see | do |
//! | --- | --- | --- |
//! | `inspect`: no answer, or no | [`InspectError`] | as above |
//! | `inspect`: the key is no lock | [`LockState::Foreign`] | another name or prefix |
//! | `force_release`: the key is no lock | [`InspectError::Refused`], `ForeignKey` | the same |
//! | `force_release`: nobody has it | [`ForceReleased::AlreadyFree`] | nothing |
//! | `force_release`: the holder changed | [`ForceReleased::Changed`] | look again |
//! | `force_release`: the holder lives | [`ForceReleased::Broken`] | rely on fences |
//! | `close`: a release not confirmed | [`CloseError`], with how many | nothing |
//!
//! - A holder whose lease is broken learns of it with its next renewal, up to a third of its TTL
//!   later, and may write until then.
//! - What `close` could not release is free after its TTL.
//!
//! # Refusals
//!
//! [`Refused::cause`](crate::Refused::cause) says what it is about. The message has the
//! server's own words, where it has said any, and the next step.
//!
//! | [`RefusalCause`] | the server's word | look at |
//! | --- | --- | --- |
//! | `Credentials` | `NOAUTH`, `WRONGPASS` | user and password in the URL |
//! | `Permission` | `NOPERM` | the [rights](super::stores#setting-up-the-server) of that user |
//! | `Tls` | the handshake failed | port, certificate, trusted authorities |
//! | `OutOfMemory` | `OOM` | memory, `maxmemory` |
//! | `ForeignKey` | another type at the key, as Redisson's hash | the name, the prefix |
//! | `LineFull` | 100,000 wait for that name already | how the work is divided |
//! | `WrongServer` | `MOVED`, `ASK`, `CROSSSLOT`, no Redis | the URL: a standalone primary? |
//! | `Other` | anything else, such as `MISCONF` | the server's words, and its log |
//!
//! On a full server, leases that are held are still renewed and released.
//!
//! A server that is loading, demoted, without its primary or busy with a script (`LOADING`,
//! `READONLY`, `MASTERDOWN`, `CLUSTERDOWN`, `TRYAGAIN`, `NOREPLICAS`, `BUSY`) is *unreachable*
//! and not refused: it may serve again in a moment, and is asked again.
//!
//! # Was it done?
//!
//! [`Unreachable::is_maybe_applied`](crate::Unreachable::is_maybe_applied) is false if the
//! request certainly was not carried out: there was no connection, or the server said so. It is
//! true if the request was sent, or may have been, and no answer came. leasehold cleans up after
//! itself either way; the answer matters for what *you* told others.
//!
//! # Invalid input
//!
//! Found before anything is sent: [`InvalidInput`](crate::InvalidInput).
//!
//! | variant | allowed |
//! | --- | --- |
//! | `EmptyName`, `NameTooLong` | 1 to 1,024 bytes |
//! | `NoNames`, `TooManyNames` | 1 to 1,000 names |
//! | `EmptyOwner`, `OwnerTooLong` | 1 to 1,024 bytes |
//! | `ControlCharacter` | none in names, prefixes and owners |
//! | `ReservedName` | no name that ends like `leasehold:1:facts` |
//! | `PrefixTooLong` | up to 1,024 bytes |
//! | `Ttl` | 10 ms to 30 days |
//! | `MaxHold` | 10 ms or more |
//! | `MetadataTooLong` | up to 4,096 bytes |
//! | `Backoff` | pauses of 1 ms or more, bounds in order, one try or more |
//! | `Timeout` | `connect_timeout` and `command_timeout` above zero |
//! | `Grant` | what a grant prints, whole |
//! | `Url`, `UnknownScheme` | one of the [forms](super::stores#redis-and-valkey-by-url) |
//! | `FeatureMissing` | the crate feature `redis`, or `tls` |
//! | `Closed` | a client that is not closed |
//!
//! # What is logged
//!
//! By [`tracing`](https://docs.rs/tracing), under targets that start with `leasehold`. Tokens,
//! passwords and URLs are never in it; names, fences and metadata are.
//!
//! | level | event | fields |
//! | --- | --- | --- |
//! | error | no thread for the keeper: leases will not be renewed | `error` |
//! | error | no runtime for the keeper: leases will not be renewed | `error` |
//! | warn | lease lost | `name`, `fence`, `reason` |
//! | warn | renewed late | `name`, `fence` |
//! | warn | renewal failed, will try again | `leases`, `error` |
//! | warn | renewal got no answer within …, will try again | `leases` |
//! | warn | release not confirmed, goes on in the background | `name`, `fence`, `error` |
//! | warn | lease broken by force | `name`, `holder` |
//! | warn | the store keeps a lease for longer than asked: … | `name`, `left`, `ttl` |
//! | info | acquired after a wait | `name`, `fence`, `waited`, `tries` |
//! | debug | acquired | `name`, `fence` |
//! | debug | released | `name`, `fence` |
//! | debug | detached | `name`, `fence` |
//! | debug | resumed | `name`, `fence` |
//! | debug | claim failed | `name`, `error` |
//!
//! - `name` is the first of several; where one of them is lost, that one.
//! - `lease lost` comes once for each loss, whatever finds it out; only a release that finds the
//!   key gone or taken tells it to its caller alone.
//! - `renewed late`: more than half of the time between the planned renewal and the end had gone.
//! - `renewal failed` and `renewal got no answer` come once a second at most, for all leases of
//!   a client. `leases` is how many were in that call.
//! - `the store keeps a lease for longer than asked: was its clock set back?` comes from
//!   [`remaining`].
//! - `acquired after a wait`: somebody else had it at first.
//! - `released` is for `release` and `run`. Background releases are silent.
//! - `claim failed`: one claim got no answer, and is repeated.
//!
//! The spans `acquire`, `try_acquire` and `resume`, at debug level with the field `name`, are around each
//! acquisition.
//!
//! To be woken at night by: `lease lost`. To look at in the morning: `renewed late`.
//!
//! [`AcquireError::Busy`]: crate::AcquireError::Busy
//! [`AcquireError::Invalid`]: crate::AcquireError::Invalid
//! [`AcquireError::Refused`]: crate::AcquireError::Refused
//! [`AcquireError::Unreachable`]: crate::AcquireError::Unreachable
//! [`CloseError`]: crate::CloseError
//! [`ConnectError::Invalid`]: crate::ConnectError::Invalid
//! [`ConnectError::Refused`]: crate::ConnectError::Refused
//! [`ConnectError::Unreachable`]: crate::ConnectError::Unreachable
//! [`ErrorKind`]: crate::ErrorKind
//! [`ForceReleased::AlreadyFree`]: crate::ForceReleased::AlreadyFree
//! [`ForceReleased::Broken`]: crate::ForceReleased::Broken
//! [`ForceReleased::Changed`]: crate::ForceReleased::Changed
//! [`InspectError::Refused`]: crate::InspectError::Refused
//! [`InspectError`]: crate::InspectError
//! [`LockState::Foreign`]: crate::LockState::Foreign
//! [`InvalidInput::Closed`]: crate::InvalidInput::Closed
//! [`LossReason`]: crate::LossReason
//! [`RefusalCause`]: crate::RefusalCause
//! [`ReleaseError::Lost`]: crate::ReleaseError::Lost
//! [`ReleaseError::Refused`]: crate::ReleaseError::Refused
//! [`ResumeError::Lost`]: crate::ResumeError::Lost
//! [`ResumeError::Unreachable`]: crate::ResumeError::Unreachable
//! [`ReleaseError::Unreachable`]: crate::ReleaseError::Unreachable
//! [`Remaining::Forever`]: crate::Remaining::Forever
//! [`RemainingError::Refused`]: crate::RemainingError::Refused
//! [`RemainingError::Unreachable`]: crate::RemainingError::Unreachable
//! [`RenewError::Invalid`]: crate::RenewError::Invalid
//! [`RenewError::Refused`]: crate::RenewError::Refused
//! [`RenewError::Unreachable`]: crate::RenewError::Unreachable
//! [`RunError::Lost`]: crate::RunError::Lost
//! [`RunError::Release`]: crate::RunError::Release
//! [`close`]: crate::Client::close
//! [`force_release`]: crate::Client::force_release
//! [`is_maybe_applied`]: crate::Unreachable::is_maybe_applied
//! [`max_hold`]: crate::Acquire::max_hold
//! [`patience`]: crate::Builder::patience
//! [`remaining`]: crate::Lease::remaining
//! [`renew`]: crate::Lease::renew
//! [`valid_for`]: crate::Lease::valid_for
//! [`wait`]: crate::Acquire::wait
