//! How long a grant or a renewal counts.

use std::time::Duration;

use crate::clock::Moment;

/// Until when a request sent at `sent_at` for `ttl` makes a lease valid.
///
/// Counted from *before* sending: the store cannot have started its own count earlier.
pub(crate) fn valid_until(sent_at: Moment, ttl: Duration) -> Moment {
    sent_at + ttl.saturating_sub(drift(ttl))
}

/// What two clocks may drift apart over one TTL, and what a store rounds away.
pub(crate) fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

/// When to renew what was asked for at `sent_at`: early enough for two more tries.
pub(crate) fn renew_at(sent_at: Moment, ttl: Duration) -> Moment {
    sent_at + ttl / 3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{MAX_TTL, MIN_TTL};

    #[test]
    fn validity_ends_before_the_store_can_have_expired_it() {
        let sent_at = Moment::from_nanos(1_000_000_000);
        for ttl in [MIN_TTL, Duration::from_secs(30), MAX_TTL] {
            let end = valid_until(sent_at, ttl);
            assert!(end > sent_at, "even the shortest TTL leaves some time");
            assert_eq!(end + drift(ttl), sent_at + ttl);
            assert!(renew_at(sent_at, ttl) < end);
        }
    }
}
