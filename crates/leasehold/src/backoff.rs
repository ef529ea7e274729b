//! How to come back to a lock that is taken.

use std::time::Duration;

use crate::error::InvalidInput;

/// When to ask again for a lock that somebody else holds, and when to stop asking.
///
/// A plain value: make it once, share it, and use it for any number of acquisitions.
///
/// ```
/// use std::time::Duration;
/// use leasehold::Backoff;
///
/// // Every 50 ms, at most 20 tries, at most 2 s in all: whichever comes first.
/// let patient = Backoff::fixed(Duration::from_millis(50))
///     .max_tries(20)
///     .max_time(Duration::from_secs(2));
/// // 10 ms, 20 ms, 40 ms … up to 500 ms, each shortened by chance so that a crowd spreads out.
/// let polite = Backoff::exponential(Duration::from_millis(10), Duration::from_millis(500));
/// // One try.
/// let none = Backoff::none();
/// # let _ = (patient, polite, none);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    pace: Pace,
    max_tries: Option<u32>,
    max_time: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pace {
    Never,
    Fixed(Duration),
    Exponential { min: Duration, max: Duration },
}

impl Backoff {
    /// One try and no more.
    pub const fn none() -> Self {
        Self { pace: Pace::Never, max_tries: None, max_time: None }
    }

    /// Always the same pause between two tries.
    pub const fn fixed(pause: Duration) -> Self {
        Self { pace: Pace::Fixed(pause), max_tries: None, max_time: None }
    }

    /// A pause that starts at `min` and doubles with each try up to `max`.
    ///
    /// Each pause is shortened at random by up to half (not below `min`), so that those who
    /// met once do not meet again.
    pub const fn exponential(min: Duration, max: Duration) -> Self {
        Self { pace: Pace::Exponential { min, max }, max_tries: None, max_time: None }
    }

    /// At most this many tries, the first one included. Default: no limit.
    pub const fn max_tries(self, tries: u32) -> Self {
        Self { max_tries: Some(tries), ..self }
    }

    /// At most this long from the first try on. Default: no limit.
    pub const fn max_time(self, time: Duration) -> Self {
        Self { max_time: Some(time), ..self }
    }

    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        let wrong = |what| Err(InvalidInput::Backoff { what });
        match self.pace {
            Pace::Fixed(pause) if pause < SHORTEST => {
                wrong("a pause below 1 ms is a busy loop: choose a longer one")
            }
            Pace::Exponential { min, .. } if min < SHORTEST => {
                wrong("a pause below 1 ms is a busy loop: choose a longer lower bound")
            }
            Pace::Exponential { min, max } if max < min => {
                wrong("its upper bound is below its lower bound: swap them")
            }
            _ if self.max_tries == Some(0) => wrong("no try at all: allow one or more"),
            _ => Ok(()),
        }
    }

    pub(crate) fn limits_tries(&self) -> bool {
        self.max_tries.is_some()
    }

    pub(crate) fn longest(&self) -> Option<Duration> {
        self.max_time
    }

    /// The pause after try number `tried` (counted from 1), or `None` if that was the last.
    ///
    /// `chance` in `0.0..1.0` is the randomness, given from outside.
    pub(crate) fn pause_after(&self, tried: u32, chance: f64) -> Option<Duration> {
        if self.max_tries.is_some_and(|max| tried >= max) {
            return None;
        }
        match self.pace {
            Pace::Never => None,
            Pace::Fixed(pause) => Some(pause),
            Pace::Exponential { min, max } => {
                let doubled = min.saturating_mul(1 << (tried - 1).min(31)).min(max);
                Some(doubled.mul_f64(1.0 - chance / 2.0).max(min))
            }
        }
    }
}

const SHORTEST: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn none_means_one_try() {
        assert_eq!(Backoff::none().pause_after(1, 0.5), None);
    }

    #[test]
    fn tries_are_counted_with_the_first_one() {
        let backoff = Backoff::fixed(5 * MS).max_tries(3);
        assert_eq!(backoff.pause_after(1, 0.0), Some(5 * MS));
        assert_eq!(backoff.pause_after(2, 0.0), Some(5 * MS));
        assert_eq!(backoff.pause_after(3, 0.0), None);
    }

    #[test]
    fn exponential_doubles_between_its_bounds() {
        let backoff = Backoff::exponential(10 * MS, 100 * MS);
        let pauses: Vec<_> = (1..=6).map(|n| backoff.pause_after(n, 0.0).unwrap()).collect();
        assert_eq!(pauses, [10 * MS, 20 * MS, 40 * MS, 80 * MS, 100 * MS, 100 * MS]);
        assert_eq!(backoff.pause_after(4_000_000_000, 0.0), Some(100 * MS), "no overflow");
    }

    #[test]
    fn chance_shortens_by_half_at_most_and_never_below_the_minimum() {
        let backoff = Backoff::exponential(10 * MS, 100 * MS);
        for tried in 1..50 {
            for chance in [0.0, 0.3, 0.999] {
                let pause = backoff.pause_after(tried, chance).unwrap();
                let longest = backoff.pause_after(tried, 0.0).unwrap();
                assert!(pause <= longest && pause >= longest / 2 && pause >= 10 * MS);
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Backoff::fixed(Duration::ZERO).check().is_err());
        assert!(Backoff::exponential(Duration::ZERO, MS).check().is_err());
        assert!(Backoff::exponential(2 * MS, MS).check().is_err());
        assert!(Backoff::fixed(MS).max_tries(0).check().is_err());
        assert!(Backoff::none().check().is_ok());
        assert!(Backoff::exponential(MS, Duration::MAX).check().is_ok());
        assert!(Backoff::exponential(Duration::MAX, Duration::MAX).pause_after(9, 0.9).is_some());
    }
}
