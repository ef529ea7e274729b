//! Medians, and how far the rounds lie apart.

use std::fmt;

/// The middle of some rounds' results, with the quartiles around it.
pub(crate) struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    pub(crate) fn of(mut results: Vec<f64>) -> Self {
        results.sort_by(f64::total_cmp);
        let at = |part: usize| results[(results.len() - 1) * part / 4];
        Self { low: at(1), median: at(2), high: at(3) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:6.2}  (half of the rounds: {:.2} to {:.2})", self.median, self.low, self.high)
    }
}
