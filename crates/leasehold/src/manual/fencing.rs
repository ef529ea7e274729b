//! The fence: how storage refuses a holder who came too late.
//!
//! # What it is
//!
//! [`Lease::fence`](crate::Lease::fence) is a number. Every grant has a higher one than the
//! grants before it (but see [owners](#with-an-owner)). It stays the same for as long as the lease is held. Send it along with
//! every write that the lease protects, and let the storage keep the highest it has seen and
//! refuse what is below.
//!
//! # Why `is_held()` is not enough
//!
//! ```text
//! A: acquire, fence 33
//! A: is_held()? yes
//! A: ............ frozen for a minute: SIGSTOP, suspend, a page fault, a slow network ......
//!                 B: acquire, fence 34
//!                 B: write, with 34: the row says 34
//! A: write, with 33                      ◄── is_held() was true when A last looked
//! ```
//!
//! However close to the write A looks, it can be frozen after the look; or the write itself
//! is what is late, on its way through the network. Only the storage sees both writes. It
//! compares 33 with 34 and refuses A's.
//!
//! Use `is_held()` to stop early. Use the fence to be safe.
//!
//! # In SQL
//!
//! One column beside the data:
//!
//! ```sql
//! CREATE TABLE account (
//!     id      bigint PRIMARY KEY,
//!     balance bigint NOT NULL,
//!     fence   bigint NOT NULL DEFAULT 0
//! );
//! ```
//!
//! One write for each lease, computed by the database, needs no more than a condition:
//!
//! ```sql
//! -- $1 the fence, $2 the amount, $3 the account
//! UPDATE account
//!    SET balance = balance - $2, fence = $1
//!  WHERE id = $3 AND fence < $1;
//! ```
//!
//! One row changed: done. No row changed: another holder has been here since (or there is no
//! such account). Stop; do not repeat it. With `<`, a statement that is sent again by mistake
//! under the same lease is refused as well.
//!
//! If the program reads, thinks and writes, raise the fence *before* reading. Otherwise an
//! older holder's late write can slip in between your read and your write, and you overwrite
//! it without having seen it:
//!
//! ```sql
//! -- 1. Shut the door behind us. No row: we are too late ourselves.
//! UPDATE account SET fence = $1 WHERE id = $2 AND fence <= $1;
//! -- 2. Read. From here on no older fence can write.
//! SELECT balance FROM account WHERE id = $2;
//! -- 3. Write, as often as needed. No row: a younger holder has been here. Stop.
//! UPDATE account SET balance = $3 WHERE id = $2 AND fence = $1;
//! ```
//!
//! # With an owner
//!
//! Leases of one [owner](crate::Acquire::owner) that are held together have the *same* fence: to
//! storage they are one writer. With `fence < $1` the second of them to write a row would be told
//! that somebody has been there, and that was the first. So compare with `<=` where leases have an
//! owner, or shut the door first as above:
//!
//! ```sql
//! UPDATE account
//!    SET balance = balance - $2, fence = $1
//!  WHERE id = $3 AND fence <= $1;
//! ```
//!
//! What the leases of one owner do to the same row is theirs to order, and a statement that is sent
//! twice is carried out twice: the fence keeps out strangers, not oneself.
//!
//! # Inserting
//!
//! An insert needs the same care. In PostgreSQL and SQLite:
//!
//! ```sql
//! INSERT INTO report (day, body, fence) VALUES ($2, $3, $1)
//! ON CONFLICT (day) DO UPDATE SET body = excluded.body, fence = excluded.fence
//!  WHERE report.fence < excluded.fence;
//! ```
//!
//! # The same as a program
//!
//! ```
//! use std::time::Duration;
//! use leasehold::ManualClock;
//!
//! #[derive(Default)]
//! struct Account {
//!     balance: i64,
//!     fence: u64,
//! }
//!
//! impl Account {
//!     /// UPDATE account SET balance = $2, fence = $1 WHERE fence < $1
//!     fn update(&mut self, fence: u64, balance: i64) -> bool {
//!         let accepted = self.fence < fence;
//!         if accepted {
//!             (self.balance, self.fence) = (balance, fence);
//!         }
//!         accepted
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = ManualClock::new();
//! let locks = leasehold::builder().memory_with_clock(&clock)?;
//! let mut account = Account::default();
//!
//! let old = locks.acquire("account:7").ttl(Duration::from_secs(10)).await?;
//! clock.jump(Duration::from_secs(60)); // the old holder's machine is suspended
//! let new = locks.acquire("account:7").await?;
//!
//! assert!(new.fence() > old.fence());
//! assert!(account.update(new.fence(), 100));
//! assert!(!account.update(old.fence(), 200), "too late");
//! assert_eq!(account.balance, 100);
//! # Ok(())
//! # }
//! ```
//!
//! # Storage that cannot compare
//!
//! Object stores with conditional writes can: keep the fence in the object or its metadata,
//! and write on the condition that the version is the one you read it from. An interface that
//! takes an idempotency key or a version number can often carry the fence there. A system that
//! can do none of this, such as a mail server, cannot be fenced: a lease makes double work
//! unlikely there, not impossible.
//!
//! # How it is made
//!
//! ```text
//! fence = max(last + 1, the store's time in microseconds since 1970)
//! ```
//!
//! - The store draws it in the same step that grants the lock. A Redis server uses its own
//!   `TIME`, never a client's clock.
//! - `last` is one counter for the whole database of the server, in the key
//!   `leasehold:1:fence`. So fences are unique across all names of it, and a gap between two
//!   means nothing.
//! - Time is the floor, so that the counter may be lost: after a restart without data, the
//!   next fence is above the last one all the same, unless the server's clock went back as
//!   well.
//! - It is per store. Do not compare fences of two servers, two databases of one server, or a
//!   server and memory.
//! - A claim that was repeated because its reply got lost may draw twice. The lease has the
//!   later one.
//!
//! # What it fits into
//!
//! It is a `u64` below 2^53 until the year 2255: an `i64` holds it, a `bigint` column too, and
//! so do JSON numbers in JavaScript, without losing a digit. A server refuses to grant rather
//! than go beyond 2^53.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let locks = leasehold::connect("memory:").await?;
//! # let lease = locks.acquire("account:7").await?;
//! let parameter: i64 = lease.fence().try_into()?; // for drivers that know no u64
//! # assert!(parameter > 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Seeing it from outside
//!
//! [`Client::inspect`](crate::Client::inspect) shows a holder's fence once its keeper has
//! renewed for the first time, a third of the TTL after the grant. Until then, and for fixed
//! leases, it is `None`: writing it down at once would cost every short lease a write. Leases with
//! an owner tell it at once.
