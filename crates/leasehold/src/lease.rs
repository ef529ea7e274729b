//! The lease a user holds.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::driver::Driver;
use crate::error::{Lost, ReleaseError, RemainingError, RenewError, RunError, Unreachable};
use crate::grant::Grant;
use crate::holding::{Holding, Renewed};
use crate::inspect::CLOCK_SLACK;
use crate::name::{Key, check_ttl};
use crate::proto::tenure::Ticket;
use crate::race::{First, first_of};
use crate::store::Kept;
use crate::token::Token;

/// A lock that is ours for a time.
///
/// It is renewed in the background until it is released, unless it was acquired
/// [`fixed`](crate::Acquire::fixed). Dropping it releases it in the background: on any thread,
/// inside a runtime or not, and without waiting. If the process dies, it is free after its TTL.
///
/// A lease can be *lost*: the process was stopped for too long, the store was out of reach, an
/// operator broke it. [`is_held`](Self::is_held) turns false then, [`lost`](Self::lost) wakes
/// up, and [`run`](Self::run) cancels its body. None of them can undo a write that is already
/// under way, so let storage compare the [`fence`](Self::fence).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = leasehold::connect("memory:").await?;
/// let lease = locks.acquire("order:42").await?;
/// assert!(lease.is_held());
/// // … UPDATE orders SET …, fence = $fence WHERE id = 42 AND fence < $fence
/// println!("working under fence {}", lease.fence());
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a lease that is dropped is released at once"]
pub struct Lease {
    driver: Arc<Driver>,
    holding: Arc<Holding>,
}

/// How a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its time ran out before it could be renewed.
    Expired,
    /// Somebody else has the lock.
    Taken,
    /// It was released: by an operator, by a client that deleted the key, or by a server that
    /// forgot everything.
    Released,
    /// [`Client::close`](crate::Client::close) released it.
    Closed,
    /// It was held for as long as [`max_hold`](crate::Acquire::max_hold) allows.
    MaxHold,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its time ran out before it could be renewed",
            Self::Taken => "somebody else has it",
            Self::Released => "it was released or deleted in the store",
            Self::Closed => "the client was closed, which released it",
            Self::MaxHold => "it was held for as long as max_hold allows",
        })
    }
}

impl Lease {
    pub(crate) fn new(driver: Arc<Driver>, holding: Arc<Holding>) -> Self {
        Self { driver, holding }
    }

    /// The name, as it was given to `acquire`; the first, if there are several.
    pub fn name(&self) -> &str {
        self.holding.keys().first().name()
    }

    /// All names, in the order in which they were given, none twice.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.holding.keys().iter().map(Key::name)
    }

    /// The [`owner`](crate::Acquire::owner) on whose behalf it is held, if there is one.
    pub fn owner(&self) -> Option<&str> {
        self.holding.deed().owner.as_deref()
    }

    /// What proves to the store that the lease is ours. Keep it secret.
    pub fn token(&self) -> &Token {
        &self.holding.deed().token
    }

    /// A number above that of every earlier holder of this name.
    ///
    /// Send it along with every write that the lease protects, and let the storage refuse a
    /// write whose fence is below the highest it has seen: that stops a holder which was
    /// stopped for too long and does not know it yet. Fits an `i64`.
    pub fn fence(&self) -> u64 {
        self.holding.fence()
    }

    /// What `acquire` was told to store beside the token.
    pub fn metadata(&self) -> &[u8] {
        &self.holding.deed().metadata
    }

    /// Whether the lease is certainly still ours, by what is known here. Asks nobody.
    ///
    /// False from the end of the TTL on, counted from before the last successful request was
    /// sent, whatever else happens.
    pub fn is_held(&self) -> bool {
        self.holding.notice_loss(self.driver.clock.now()).is_none()
    }

    /// For how long the lease is certainly ours, if no further renewal succeeds. Asks nobody.
    pub fn valid_for(&self) -> Duration {
        self.holding.valid_for(self.driver.clock.now())
    }

    /// For how long the store will keep the lease, if no further renewal reaches it.
    ///
    /// This asks the store, so it is older than [`valid_for`](Self::valid_for) by half a round
    /// trip, and it is the store's clock that counts. `Duration::MAX` if somebody took the
    /// key's expiry away. A store that says more than was ever asked for (its clock was set
    /// back) is logged as a warning; the next renewal mends it.
    ///
    /// # Errors
    ///
    /// [`RemainingError::Lost`] if the lease is not ours, otherwise why the store has no answer.
    pub async fn remaining(&self) -> Result<Duration, RemainingError> {
        if let Some(reason) = self.holding.notice_loss(self.driver.clock.now()) {
            return Err(self.holding.lost_for(reason).into());
        }
        let deed = self.holding.deed();
        let asked = self.driver.ask(|| self.driver.store.remaining(deed)).await?;
        let ttl = self.holding.ttl();
        match asked.answer {
            Ok(left) => {
                if left > ttl + CLOCK_SLACK {
                    tracing::warn!(
                        name = self.name(),
                        ?left,
                        ?ttl,
                        "the store keeps a lease for longer than asked: was its clock set back?"
                    );
                }
                Ok(left)
            }
            Err(kept) => {
                let (lost, chore) = self.holding.end(self.driver.clock.now(), kept);
                self.driver.keeper.forget(&self.holding);
                if let Some(chore) = chore {
                    self.driver.keeper.clean_up(chore);
                }
                Err(lost.into())
            }
        }
    }

    /// Returns once the lease is lost, and says how. Pending for ever while it is held.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LossReason {
        self.holding.lost(&self.driver).await
    }

    /// Runs `body` while the lease is held, then releases it.
    ///
    /// If the lease is lost, `body` is dropped at its next await and the error says so. If it
    /// had finished by the time the loss was found, the error carries its output: you decide
    /// what work without protection is worth.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = leasehold::connect("memory:").await?;
    /// let total = locks.acquire("stock:1001").await?.run(async { 40 + 2 }).await?;
    /// assert_eq!(total, 42);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`RunError::Lost`] if the lease was lost, [`RunError::Release`] if it was not and the
    /// release got no clear answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases the lease in the background.
    pub async fn run<F: Future>(self, body: F) -> Result<F::Output, RunError<F::Output>> {
        // The clock before every poll of the body: after a pause, nothing of it runs before the
        // loss is noticed, whatever wakes us first.
        let mut body = pin!(body);
        let guarded = poll_fn(|context| match self.holding.notice_loss(self.driver.clock.now()) {
            Some(reason) => Poll::Ready(Err(reason)),
            None => body.as_mut().poll(context).map(Ok),
        });
        let outcome = match first_of(self.lost(), guarded).await {
            First::Left(reason) => Err(reason),
            First::Right(outcome) => outcome,
        };
        match outcome {
            Err(reason) => {
                Err(RunError::Lost { lost: self.holding.lost_for(reason), output: None })
            }
            Ok(output) => match self.release().await {
                Ok(()) => Ok(output),
                Err(ReleaseError::Lost(lost)) => Err(RunError::Lost { lost, output: Some(output) }),
                Err(error) => Err(RunError::Release { error, output }),
            },
        }
    }

    /// Renews the lease now, for `ttl` from now on; it may be shorter than before. The keeper
    /// goes on with this TTL.
    ///
    /// If an earlier renewal with a shorter TTL got no answer, it may still be carried out, and
    /// cut the lease to that TTL. For a minute, [`valid_for`](Self::valid_for) counts on that.
    ///
    /// For a [`fixed`](crate::Acquire::fixed) lease this is the only renewal. It never goes
    /// beyond what [`max_hold`](crate::Acquire::max_hold) allows.
    ///
    /// # Errors
    ///
    /// [`RenewError::Lost`] if the lease is not ours: a renewal never brings a lease back.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lease was renewed; what counts as held
    /// stays on the safe side.
    pub async fn renew(&self, ttl: Duration) -> Result<(), RenewError> {
        let ttl = check_ttl(ttl)?;
        let driver = &self.driver;
        let mut effort = driver.effort();
        loop {
            let now = driver.clock.now();
            let renewal = match self.holding.begin_hand_renewal(now, ttl) {
                Ok(renewal) => renewal,
                Err(reason) => return Err(self.holding.lost_for(reason).into()),
            };
            let mut under_way = HandRenewal { lease: self, ticket: Some(renewal.ticket) };
            // It may shorten the lease from now on: then the loss is due sooner.
            driver.keeper.reschedule(&self.holding);
            let call = driver.store.renew(&[renewal.request]);
            let outcome = driver.call(call, now + driver.command_timeout).await;
            let ticket = under_way.ticket.take().expect("taken once");
            let now = driver.clock.now();
            match outcome.map(|kept| kept[0]) {
                Ok(Kept::Ours) => {
                    let renewed = self.holding.handle_hand_renewed(ticket, now, ttl);
                    driver.keeper.reschedule(&self.holding);
                    match renewed {
                        Renewed::Held => return Ok(()),
                        Renewed::Released => {}
                        Renewed::TooLate => driver.keeper.clean_up(self.holding.remains(now)),
                    }
                }
                Ok(kept) => {
                    let chore = self.holding.handle_gone(ticket, now, kept);
                    driver.keeper.forget(&self.holding);
                    if let Some(chore) = chore {
                        driver.keeper.clean_up(chore);
                    }
                }
                Err(error) => {
                    self.holding.handle_failed(ticket, now, error.is_maybe_applied());
                    driver.keeper.reschedule(&self.holding);
                    if !effort.goes_on_after(&error).await {
                        return Err(error.into());
                    }
                }
            }
        }
    }

    /// Gives the lease out of hand without releasing it: what is left can be sent to another
    /// process, and [resumed](crate::Client::resume) there before its TTL is over.
    ///
    /// Nobody renews it meanwhile. A lease that was about to be renewed, or that was handed over a
    /// moment ago and is not confirmed yet (then it has two seconds), has little time left:
    /// [`renew`](Self::renew) it first. If a shorter renewal got no answer, the grant has that
    /// one's TTL.
    ///
    /// # Errors
    ///
    /// If it is lost already.
    pub fn detach(self) -> Result<Grant, Lost> {
        let holding = &self.holding;
        if let Err(reason) = holding.begin_release(self.driver.clock.now()) {
            return Err(holding.lost_for(reason));
        }
        // It has ended here, so neither the keeper nor our drop touches it any more.
        tracing::debug!(name = self.name(), fence = self.fence(), "detached");
        Ok(Grant {
            names: self.names().map(Box::from).collect(),
            owner: self.owner().map(Box::from),
            token: holding.deed().token,
            fence: holding.fence(),
            ttl: holding.ttl_to_hand_on(),
        })
    }

    /// Lets the keeper look after it from now on. `false` if the client was closed.
    pub(crate) fn keep(&self) -> bool {
        self.driver.keeper.keep(&self.holding)
    }

    /// Gives the lock back, and says if the lease had been lost before.
    ///
    /// # Errors
    ///
    /// - [`ReleaseError::Lost`]: it was not ours any more. What ran since the loss ran
    ///   without protection.
    /// - [`ReleaseError::Unreachable`], [`ReleaseError::Refused`]: the store did not confirm.
    ///   The release goes on in the background until the lease's end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future after its first poll leaves the release to the background.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let (driver, holding) = (&self.driver, &self.holding);
        let now = driver.clock.now();
        let valid_until = holding.valid_until();
        let begun = holding.begin_release(now);
        driver.keeper.forget(holding);
        if let Err(reason) = begun {
            return Err(holding.lost_for(reason).into()); // the drop sees to loose ends
        }
        let mut under_way = UnderWay { lease: &self, unresolved: false, done: false };
        let mut effort = driver.effort();
        loop {
            let sent_at = driver.clock.now();
            let call = driver.store.release(holding.deed(), holding.is_recorded());
            match driver.call(call, sent_at + driver.command_timeout).await {
                Ok(kept) => {
                    under_way.done = true;
                    if holding.has_unresolved_claim() {
                        // It may be carried out yet, and take the lock for nobody.
                        driver.keeper.clean_up(holding.remains(driver.clock.now()));
                    }
                    let in_time = driver.clock.now() < valid_until;
                    return match kept {
                        Kept::Ours => {
                            tracing::debug!(name = self.name(), fence = self.fence(), "released");
                            Ok(())
                        }
                        // An earlier try got no answer, and it was that one which released.
                        _ if under_way.unresolved && in_time => Ok(()),
                        _ if under_way.unresolved => Err(unknown_release().into()),
                        _ if !in_time => Err(holding.lost_for(LossReason::Expired).into()),
                        kept => Err(holding.found_lost(kept).into()),
                    };
                }
                Err(error) => {
                    under_way.unresolved |= error.is_maybe_applied();
                    if driver.clock.now() >= valid_until || !effort.goes_on_after(&error).await {
                        tracing::warn!(
                            name = self.name(), fence = self.fence(), %error,
                            "release not confirmed, goes on in the background"
                        );
                        return Err(error.into());
                    }
                }
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // In this order: once it has ended, the keeper does not take it up again.
        let now = self.driver.clock.now();
        let chore = self.holding.give_up(now).or_else(|| self.holding.loose_ends(now));
        self.driver.keeper.forget(&self.holding);
        if let Some(chore) = chore {
            self.driver.keeper.clean_up(chore);
        }
    }
}

/// The token is left out.
impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("names", &format_args!("{}", self.holding.keys()))
            .field("owner", &self.owner())
            .field("fence", &self.fence())
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}

/// A release that was begun: if its caller drops it, the keeper brings it to an end.
struct UnderWay<'a> {
    lease: &'a Lease,
    unresolved: bool,
    done: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.done {
            let Lease { driver, holding } = self.lease;
            driver.keeper.clean_up(holding.remains(driver.clock.now()));
        }
    }
}

/// A renewal by hand: if its caller drops it, its outcome is unknown.
struct HandRenewal<'a> {
    lease: &'a Lease,
    ticket: Option<Ticket>,
}

impl Drop for HandRenewal<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let Lease { driver, holding } = self.lease;
            holding.handle_failed(ticket, driver.clock.now(), true);
            driver.keeper.reschedule(holding);
        }
    }
}

fn unknown_release() -> Unreachable {
    Unreachable::new(
        "the release was sent in time, but no answer came before the lease ended",
        "the lock is not ours any more; whether it was to the end is not known",
    )
    .maybe_applied()
}
