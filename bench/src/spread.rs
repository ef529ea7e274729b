//! Medians, and how far the rounds lie apart.

use std::fmt;

/// The middle of some rounds' results, with the lowest and the highest.
pub(crate) struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    pub(crate) fn of(mut results: Vec<f64>) -> Self {
        results.sort_by(f64::total_cmp);
        Self {
            low: results[0],
            median: results[results.len() / 2],
            high: results[results.len() - 1],
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}–{:.2})", self.median, self.low, self.high)
    }
}
