//! The clock that a lease's validity runs on, and the one that tests can drive.

use std::fmt;
use std::future::Future;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use crate::race::{First, first_of};

/// A point on a clock that counts suspended time too.
///
/// Moments of one clock can be compared; their distance from zero means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than everything: "no end".
    pub(crate) const NEVER: Self = Self(u64::MAX);

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    pub(crate) const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// How much later `self` is than `earlier`; zero if it is not later.
    pub(crate) const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

/// A clock for tests of code that uses leases: it moves only when told to.
///
/// Hand it to [`Builder::memory_with_clock`](crate::Builder::memory_with_clock), and
/// expiry, renewal and waiting follow it, with no sleeping in the test.
///
/// ```
/// use std::time::Duration;
/// use leasehold::{ManualClock, LossReason};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clock = ManualClock::new();
/// let locks = leasehold::builder().memory_with_clock(&clock)?;
///
/// let lease = locks.acquire("report").ttl(Duration::from_secs(10)).fixed().await?;
/// clock.advance(Duration::from_secs(11));
/// assert!(!lease.is_held());
/// assert_eq!(lease.lost().await, LossReason::Expired);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    shared: Arc<Manual>,
}

impl ManualClock {
    /// A clock that stands still.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets that much time pass: renewals that fall due on the way are done before this
    /// returns, each at its time, and everything that waited for a moment now past wakes up.
    pub fn advance(&self, by: Duration) {
        let end = self.now() + by;
        while let Some((due, driven)) = self.next_due().filter(|(due, _)| *due <= end) {
            self.set(due.max(self.now()));
            driven.drive();
        }
        self.set(end);
    }

    /// Moves the clock at one go, as a suspended machine or a stopped process sees it: what
    /// should have been renewed on the way was not.
    pub fn jump(&self, by: Duration) {
        self.set(self.now() + by);
        while let Some((_, driven)) = self.next_due().filter(|(due, _)| *due <= self.now()) {
            driven.drive();
        }
    }

    /// Adds something with deadlines of its own, for as long as it lives.
    pub(crate) fn drives(&self, driven: Weak<dyn Driven>) {
        let mut all = self.shared.driven.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(driven);
    }

    fn now(&self) -> Moment {
        Moment(self.shared.nanos.load(Ordering::SeqCst))
    }

    fn set(&self, now: Moment) {
        self.shared.nanos.store(now.0, Ordering::SeqCst);
        self.shared.moved.notify_waiters();
    }

    fn next_due(&self) -> Option<(Moment, Arc<dyn Driven>)> {
        let all = self.shared.driven.lock().unwrap_or_else(PoisonError::into_inner);
        let live = all.iter().filter_map(Weak::upgrade);
        live.filter_map(|driven| Some((driven.next_due()?, driven))).min_by_key(|(due, _)| *due)
    }

    /// How far the clock has been moved since it was made.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.shared.nanos.load(Ordering::SeqCst))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.elapsed()).finish()
    }
}

/// Something that a manual clock drives: what a thread with timers does on a real one.
pub(crate) trait Driven: fmt::Debug + Send + Sync {
    fn next_due(&self) -> Option<Moment>;

    /// Does what is due now, which moves `next_due` on.
    fn drive(&self);
}

#[derive(Default)]
struct Manual {
    nanos: AtomicU64,
    moved: Notify,
    driven: Mutex<Vec<Weak<dyn Driven>>>,
}

/// Where `now` comes from.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    System,
    Manual(ManualClock),
}

impl Clock {
    pub(crate) fn now(&self) -> Moment {
        match self {
            Self::System => Moment(system_nanos()),
            Self::Manual(clock) => clock.now(),
        }
    }

    /// Returns once `now` is at or past `moment`.
    pub(crate) async fn sleep_until(&self, moment: Moment) {
        match self {
            Self::System => loop {
                let left = moment.since(self.now());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LONGEST_SLEEP)).await;
            },
            Self::Manual(clock) => loop {
                let moved = clock.shared.moved.notified();
                if self.now() >= moment {
                    return;
                }
                moved.await;
            },
        }
    }

    /// The outcome of `future`, or `None` once `moment` has come.
    pub(crate) async fn until<F: Future>(&self, moment: Moment, future: F) -> Option<F::Output> {
        if moment == Moment::NEVER {
            return Some(future.await);
        }
        match first_of(future, self.sleep_until(moment)).await {
            First::Left(output) => Some(output),
            First::Right(()) => None,
        }
    }
}

/// The runtime's timers stand still while the machine is suspended; our clock does not. So
/// whoever sleeps looks at the clock at least this often.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(1);

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Linux: CLOCK_BOOTTIME. macOS: CLOCK_MONOTONIC, which goes on during sleep there (the
/// standard library's `Instant` does not).
#[cfg(unix)]
fn system_nanos() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;

    let time = clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Elsewhere the standard library's clock; on Windows it is the performance counter, which
/// goes on during sleep.
#[cfg(not(unix))]
fn system_nanos() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;

    static START: OnceLock<Instant> = OnceLock::new();
    // A second's head start, so that "now minus a little" stays representable.
    nanos(START.get_or_init(Instant::now).elapsed() + Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_saturate_instead_of_wrapping() {
        assert_eq!(Moment::NEVER + Duration::from_secs(1), Moment::NEVER);
        assert_eq!(Moment(5) - Duration::from_secs(1), Moment(0));
        assert_eq!(Moment(5).since(Moment(9)), Duration::ZERO);
        assert_eq!(Moment(0) + Duration::MAX, Moment::NEVER);
    }

    #[test]
    fn the_system_clock_does_not_go_back() {
        let clock = Clock::System;
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    /// Fault row 2: validity runs on a clock that counts suspended time.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_clock_is_the_one_that_counts_suspended_time() {
        use rustix::time::{ClockId, clock_gettime};
        let boot = clock_gettime(ClockId::Boottime);
        let ours = Duration::from_nanos(system_nanos());
        let boot = Duration::new(
            u64::try_from(boot.tv_sec).unwrap(),
            u32::try_from(boot.tv_nsec).unwrap(),
        );
        assert!(ours >= boot && ours - boot < Duration::from_secs(60));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_manual_clock_wakes_sleepers_when_it_passes_them() {
        let manual = ManualClock::new();
        let clock = Clock::Manual(manual.clone());
        let woken = clock.now() + Duration::from_secs(5);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(woken).await }
        });
        tokio::task::yield_now().await;
        manual.advance(Duration::from_secs(4));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        manual.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
    }
}
