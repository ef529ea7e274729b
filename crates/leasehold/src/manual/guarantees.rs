//! What is promised, and what is not.
//!
//! There are two stores today: memory, within one process, and one Redis or Valkey primary.
//!
//! # Side by side
//!
//! | | memory | one Redis or Valkey primary |
//! | --- | --- | --- |
//! | excludes | those who share a client and its clones | all who use the same key on that server |
//! | one holder at a time | yes | yes, for as long as the server forgets nothing |
//! | nobody renews or releases another's lease | yes | yes |
//! | free within one TTL after a crash | gone with the process | yes |
//! | [`is_held`] is false from the end of the TTL on | yes | yes |
//! | fences grow | yes, for one store | yes, also after a restart with nothing on disk |
//! | renewals go on while your runtime is blocked | yes | yes, on connections of ours: [`stores`] |
//! | first come, first served | yes: [`waiting`] has the bound | yes |
//!
//! # What we promise
//!
//! - **One recorded holder.** While the store has a lease under a name, nobody else is
//!   granted that name.
//! - **Only the holder acts.** A renewal or a release does something only where the stored
//!   token is ours. A renewal never makes a key, so a lease that is gone stays gone.
//! - **An end.** Every lease has an expiry in the store, set in the same command as its
//!   value. A holder that dies is replaced after one TTL at the latest.
//! - **Honest time.** A lease counts from the moment *before* its request was sent, and a
//!   little less than its TTL: it ends here before it ends in the store. [`timing`](super::timing)
//!   has the arithmetic.
//! - **Several names as one.** All are taken or none; losing one is losing all, and you are told
//!   which.
//! - **An owner's entries are counted exactly.** The same owner enters again, under the same fence;
//!   the last live entry to go frees the lock; one that crashed runs out by itself.
//! - **Growing fences.** If A was granted before B asked, B's fence is above A's. No two
//!   grants of one store have the same fence, but those of one owner that are held together.
//!   [`fencing`](super::fencing) shows how to use it.
//! - **First come, first served.** A release hands the lock to whoever has waited longest; between
//!   two turns of one process, every other process that waits has at most one. Nobody is passed over
//!   but who does not listen any more. See [`waiting`](super::waiting#the-line).
//! - **No outcome in disguise.** Busy, lost, unreachable, refused and invalid are five
//!   different answers. "I do not know" is never reported as "busy".
//! - **Nothing left behind.** Dropping a future or a lease at any point releases, in the
//!   background, what it may have taken. If that cannot be done, the TTL ends it.
//! - **News of a loss.** A loss is announced at the local end of the lease at the latest, even
//!   while a renewal hangs: [`lost`](crate::Lease::lost) wakes up, and
//!   [`run`](crate::Lease::run) drops its body.
//!
//! # What we assume
//!
//! - The server does not evict lock keys (`maxmemory-policy noeviction`).
//! - Nobody but leasehold, and lock clients that compare before they delete, writes to these
//!   keys.
//! - The server's clock and ours run at about the same *rate*: within 1 % over one TTL. What
//!   time they show does not matter.
//! - The server's clock is not stepped forward by more than what is left of a lease. If it
//!   is, the server forgets the lease early.
//! - For fences: the clock of a server that was restarted with nothing on disk is not behind
//!   the last grant.
//! - For fences: your storage compares and writes in one step.
//!
//! # What we do not promise
//!
//! - **That an old holder stops by itself.** A process can be frozen between checking
//!   `is_held()` and writing. No lock service can prevent that; the fence can.
//! - **Exclusion by a server that forgets.** If the server restarts without its data, or a
//!   replica without the last writes is made the primary, the next client is granted the lock
//!   at once, while the old holder believes in its lease until its next renewal: a third of
//!   the TTL, usually. The fences of the two are in the right order.
//! - **Exclusion beyond the key.** A client that deletes the key without looking, or that uses
//!   another key for the same thing, is not stopped.
//! - **Fences from others.** A client of another library draws no fence. Fencing protects
//!   among users of leasehold.
//! - **Order among those who poll.** [`retry`](crate::Acquire::retry) asks again and again, and is
//!   not in line.
//! - **Order across a server that forgets.** A line that was lost forms again in the order in which
//!   its waiters find out.
//! - **Exactly once.** A lock makes two things not happen *at the same time*. That a job
//!   which was done is not done again is for your own records to say.
//!
//! # Not yet
//!
//! These are planned, and are not there: Sentinel, Cluster, a quorum of servers, a store in a local file, a command line. The URLs of stores that do not exist are refused as unknown.
//!
//! # Which one for what
//!
//! | you want | use |
//! | --- | --- |
//! | unit tests of your own code | memory, with a [`ManualClock`] |
//! | exclusion within one process | memory; or a plain `tokio::sync::Mutex`, which is faster |
//! | a job that runs on one machine of many | Redis, [`try_acquire`] |
//! | one writer for one row | Redis, and the fence in the row |
//! | money | Redis, the fence in the row, and a constraint in the database |
//!
//! [`ManualClock`]: crate::ManualClock
//! [`is_held`]: crate::Lease::is_held
//! [`stores`]: super::stores
//! [`try_acquire`]: crate::Client::try_acquire
//! [`waiting`]: super::waiting
