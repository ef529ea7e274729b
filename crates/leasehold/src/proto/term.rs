//! How long a grant or a renewal counts.

use std::time::Duration;

use crate::clock::Moment;
use crate::proto::ledger::StoreTime;

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

/// From when on a hand-over counts: `granted` and `seen` are the store's times of the hand-over
/// and of its answer to the request that was sent at `sent_at`. `None` if that makes no sense, as
/// when the store's clock was set in between: then the hand-over has to be confirmed first.
pub(crate) fn handed_over_at(
    sent_at: Moment,
    seen: StoreTime,
    granted: StoreTime,
    heard_at: Moment,
) -> Option<Moment> {
    let after = Duration::from_micros(granted.0.checked_sub(seen.0)?);
    (after <= heard_at.since(sent_at)).then(|| (sent_at + after).min(heard_at))
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
    fn a_hand_over_counts_from_no_later_than_it_happened() {
        let (sent, heard) = (Moment::from_nanos(1_000_000), Moment::from_nanos(9_000_000));
        let at = |granted| handed_over_at(sent, StoreTime(500), StoreTime(granted), heard);
        assert_eq!(at(500), Some(sent));
        assert_eq!(at(2_500), Some(Moment::from_nanos(3_000_000)));
        assert_eq!(at(8_500), Some(heard));
        assert_eq!(at(499), None, "the store's clock was set back");
        assert_eq!(at(8_501), None, "or ahead");
    }

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
