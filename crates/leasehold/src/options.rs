//! The builders that `acquire` and `try_acquire` return: await them to run them.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::backoff::Backoff;
use crate::driver::{Driver, Names, Request, ResumeTerms};
use crate::error::{AcquireError, ResumeError};
use crate::grant::Grant;
use crate::lease::Lease;

/// The setters that both builders have.
macro_rules! lease_options {
    () => {
        /// How long the lease lasts without a renewal. Default 30 s.
        ///
        /// Shorter frees the lock of a crashed holder sooner, and tolerates shorter pauses of
        /// a living one: a process stopped, or cut off from the store, for longer than this
        /// loses its lease. 10 ms to 30 days.
        pub fn ttl(mut self, ttl: Duration) -> Self {
            self.request.ttl = ttl;
            self
        }

        /// What others see of the holder, such as a host name. Default: nothing. Up to 4 KiB
        /// of any bytes.
        ///
        /// It is stored behind the token in the lock's own value, where
        /// [`inspect`](crate::Client::inspect) and bsm/redislock find it; with an
        /// [`owner`](Self::owner), beside the lock.
        pub fn metadata(mut self, metadata: impl AsRef<[u8]>) -> Self {
            self.request.metadata = metadata.as_ref().into();
            self
        }

        /// Holds the lease on behalf of this owner: a request id, a trace id, a business id.
        /// Default: nobody's, and then not even the same task gets it twice.
        ///
        /// Whoever asks for the same name with the same owner enters, here or in another process,
        /// instead of waiting. All of them have the same [`fence`](Lease::fence), so storage has to
        /// [compare with `<=`](crate::manual::fencing#with-an-owner). (Another set of names, some of
        /// which are held already, draws a new fence for all of them, and what the earlier leases
        /// write is refused from then on.) Each acquisition is a lease with an end of its own, to be released by itself; the last one to go frees
        /// the lock. One that crashed runs out without freeing it for the others.
        ///
        /// The owner is compared as a whole, and is the value of the lock's key: it is no secret.
        /// Choose one that nobody else has by chance. See
        /// [waiting](crate::manual::waiting#entering-again-by-owner).
        pub fn owner(mut self, id: impl AsRef<str>) -> Self {
            self.request.owner = Some(id.as_ref().into());
            self
        }

        /// Does not renew the lease in the background: it ends after its TTL unless
        /// [`Lease::renew`] is called. Default: renewed.
        ///
        /// For those who want a hard end without a keeper. The price is that work which takes
        /// longer than expected loses its lease.
        pub fn fixed(mut self) -> Self {
            self.request.renewed = false;
            self
        }

        /// Ends the lease after this long even if its holder is alive. Default: no limit.
        ///
        /// A holder that hangs, and whose process lives on, would otherwise keep the lock for
        /// ever. At the end the lease is lost with [`LossReason::MaxHold`](crate::LossReason::MaxHold),
        /// and the store lets go of it by itself.
        pub fn max_hold(mut self, most: Duration) -> Self {
            self.request.max_hold = Some(most);
            self
        }
    };
}

/// An acquisition that waits its turn. Made by [`Client::acquire`](crate::Client::acquire) and
/// [`Client::acquire_all`](crate::Client::acquire_all); await it to get the [`Lease`].
///
/// ```
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = leasehold::connect("memory:").await?;
/// let lease = locks
///     .acquire("stock:1001")
///     .ttl(Duration::from_secs(10))
///     .wait(Duration::from_secs(2))
///     .metadata("pod-7")
///     .await?;
/// assert_eq!(lease.metadata(), b"pod-7");
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future at any point leaves no lease behind: what a claim under way may have
/// taken is released in the background.
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited"]
pub struct Acquire {
    driver: Arc<Driver>,
    request: Request,
}

impl Acquire {
    pub(crate) fn new(driver: Arc<Driver>, names: Names) -> Self {
        Self { driver, request: request(names, None) }
    }

    lease_options!();

    /// Waits at most this long for another holder. Default: without limit.
    ///
    /// A store that fails is asked again for this long or for the client's
    /// [`patience`](crate::Builder::patience), whichever ends first. The first request has its
    /// [`command_timeout`](crate::Builder::command_timeout) in any case.
    pub fn wait(mut self, at_most: Duration) -> Self {
        self.request.wait = Some(at_most);
        self
    }

    /// Does not wait for another holder: the answer is then [`AcquireError::Busy`] at once. A
    /// store that fails is asked again for the client's [`patience`](crate::Builder::patience).
    pub fn no_wait(self) -> Self {
        self.wait(Duration::ZERO)
    }

    /// Polls instead of waiting in line: asks again and again, at this pace. Default: in line.
    ///
    /// Whoever stands in line goes first; so under load this may never get its turn. Asking more
    /// often finds a free lock sooner and costs the store more.
    pub fn retry(mut self, backoff: Backoff) -> Self {
        self.request.backoff = Some(backoff);
        self
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Lease, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { driver, request } = self;
        let span = tracing::debug_span!("acquire", name = request.name());
        let acquiring = async move {
            match driver.acquire(request).await? {
                Ok(lease) => Ok(lease),
                Err(busy) => Err(AcquireError::Busy(Box::new(busy))),
            }
        };
        Box::pin(acquiring.instrument(span))
    }
}

/// An acquisition that does not wait. Made by
/// [`Client::try_acquire`](crate::Client::try_acquire) and
/// [`Client::try_acquire_all`](crate::Client::try_acquire_all); await it to get the [`Lease`],
/// or `None` if somebody else has it.
///
/// # Cancel safety
///
/// As for [`Acquire`].
#[derive(Debug)]
#[must_use = "nothing is acquired until this is awaited"]
pub struct TryAcquire {
    driver: Arc<Driver>,
    request: Request,
}

impl TryAcquire {
    pub(crate) fn new(driver: Arc<Driver>, names: Names) -> Self {
        Self { driver, request: request(names, Some(Duration::ZERO)) }
    }

    lease_options!();
}

impl IntoFuture for TryAcquire {
    type Output = Result<Option<Lease>, AcquireError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { driver, request } = self;
        let span = tracing::debug_span!("try_acquire", name = request.name());
        let acquiring = async move { Ok(driver.acquire(request).await?.ok()) };
        Box::pin(acquiring.instrument(span))
    }
}

/// A lease to be made of a [`Grant`]. Made by [`Client::resume`](crate::Client::resume); await
/// it to get the [`Lease`], which has the grant's fence.
///
/// # Cancel safety
///
/// Dropping the future leaves the grant as good as before.
#[derive(Debug)]
#[must_use = "nothing is resumed until this is awaited"]
pub struct Resume {
    driver: Arc<Driver>,
    grant: Grant,
    terms: ResumeTerms,
}

impl Resume {
    pub(crate) fn new(driver: Arc<Driver>, grant: Grant) -> Self {
        let terms = ResumeTerms { ttl: grant.ttl, renewed: true, max_hold: None };
        Self { driver, grant, terms }
    }

    /// How long the lease lasts without a renewal. Default: as it was.
    ///
    /// A longer one counts from the second minute on, since a renewal of the lease that it was
    /// may still be on its way. If resuming with a *shorter* one got no answer, do not try again
    /// with a longer one: the first may be carried out yet.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.terms.ttl = ttl;
        self
    }

    /// Does not renew the lease in the background. Default: renewed, also if it was not before.
    pub fn fixed(mut self) -> Self {
        self.terms.renewed = false;
        self
    }

    /// Ends the lease this long after it was resumed. Default: no limit; that of the lease it
    /// was is not carried over, since no clock is shared to count it on.
    pub fn max_hold(mut self, most: Duration) -> Self {
        self.terms.max_hold = Some(most);
        self
    }
}

impl IntoFuture for Resume {
    type Output = Result<Lease, ResumeError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { driver, grant, terms } = self;
        let span = tracing::debug_span!("resume", name = grant.name());
        Box::pin(async move { driver.resume(&grant, terms).await }.instrument(span))
    }
}

/// The default TTL. Long enough for the pauses that healthy processes have (garbage
/// collection, a busy disk, a live migration), short enough to wait out after a crash.
const DEFAULT_TTL: Duration = Duration::from_secs(30);

fn request(names: Names, wait: Option<Duration>) -> Request {
    Request {
        names,
        owner: None,
        ttl: DEFAULT_TTL,
        metadata: Arc::default(),
        renewed: true,
        max_hold: None,
        wait,
        backoff: None,
    }
}
