//! The memory store under a clock that tests drive: no sleeping, and the same every time.

use std::time::Duration;

use leasehold::{AcquireError, Backoff, Client, ErrorKind, LossReason, ManualClock, Remaining};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn setting() -> (ManualClock, Client) {
    let clock = ManualClock::new();
    let locks = leasehold::builder().memory_with_clock(&clock).unwrap();
    (clock, locks)
}

#[tokio::test]
async fn a_lease_is_renewed_for_as_long_as_time_passes_steadily() {
    let (clock, locks) = setting();
    let lease = locks.acquire("a").await.unwrap();
    clock.advance(24 * HOUR);
    assert!(lease.is_held());
    assert!(locks.try_acquire("a").await.unwrap().is_none());
    let seen = locks.inspect("a").await.unwrap();
    let holder = seen.holder().unwrap();
    assert_eq!(holder.fence(), Some(lease.fence()), "still told after a day");
    assert!(matches!(holder.remaining(), Remaining::For(left) if left >= 20 * SECOND));
    lease.release().await.unwrap();
}

/// Fault rows 1 and 2.
#[tokio::test]
async fn a_jump_past_the_ttl_loses_the_lease() {
    let (clock, locks) = setting();
    let lease = locks.acquire("a").await.unwrap();
    clock.jump(31 * SECOND);
    assert!(!lease.is_held());
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(locks.try_acquire("a").await.unwrap().is_some());
}

#[tokio::test]
async fn a_jump_within_the_ttl_does_not() {
    let (clock, locks) = setting();
    let lease = locks.acquire("a").await.unwrap();
    for _ in 0..100 {
        clock.jump(25 * SECOND);
        assert!(lease.is_held());
    }
}

#[tokio::test]
async fn validity_ends_a_little_before_the_ttl_and_the_store_follows() {
    let (clock, locks) = setting();
    let lease = locks.acquire("a").ttl(10 * SECOND).fixed().await.unwrap();
    // One per cent and two milliseconds of drift.
    clock.advance(Duration::from_millis(9_897));
    assert!(lease.is_held());
    clock.advance(Duration::from_millis(1));
    assert!(!lease.is_held());
    assert!(locks.try_acquire("a").await.unwrap().is_none(), "not free before the TTL is over");
    clock.advance(Duration::from_millis(102));
    assert!(locks.try_acquire("a").await.unwrap().is_some());
}

#[tokio::test]
async fn max_hold_ends_a_lease_to_the_moment() {
    let (clock, locks) = setting();
    let lease = locks.acquire("a").max_hold(HOUR).await.unwrap();
    clock.advance(HOUR - SECOND);
    assert!(lease.is_held());
    clock.advance(SECOND);
    assert_eq!(lease.lost().await, LossReason::MaxHold);
    assert!(locks.try_acquire("a").await.unwrap().is_some(), "the store has let go too");
}

#[tokio::test]
async fn a_waiter_wakes_when_the_clock_says_so() {
    let (clock, locks) = setting();
    let lease = locks.acquire("a").ttl(10 * SECOND).fixed().await.unwrap();
    let pace = Backoff::fixed(HOUR);
    let waiter = tokio::spawn(locks.acquire("a").retry(pace).into_future());
    let limited = tokio::spawn(locks.acquire("a").retry(pace).wait(5 * SECOND).into_future());
    tokio::task::yield_now().await;
    clock.advance(6 * SECOND);
    let AcquireError::Busy(busy) = limited.await.unwrap().unwrap_err() else { panic!() };
    assert_eq!(busy.waited(), 6 * SECOND);
    clock.advance(5 * SECOND);
    assert!(waiter.await.unwrap().unwrap().fence() > lease.fence());
}

#[tokio::test]
async fn a_renewal_by_hand_shortens_what_the_keeper_goes_on_with() {
    let (clock, locks) = setting();
    let lease = locks.acquire("a").await.unwrap();
    lease.renew(3 * SECOND).await.unwrap();
    clock.advance(HOUR);
    assert!(lease.is_held());
    assert!(lease.valid_for() <= 3 * SECOND);
    clock.jump(3 * SECOND);
    assert!(!lease.is_held());
    assert_eq!(lease.renew(SECOND).await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn stores_on_one_clock_are_apart() {
    let (clock, one) = setting();
    let two = leasehold::builder().memory_with_clock(&clock).unwrap();
    let (a, b) = (one.acquire("a").await.unwrap(), two.acquire("a").await.unwrap());
    clock.advance(HOUR);
    assert!(a.is_held() && b.is_held());
    drop(one);
    drop(a);
    clock.advance(HOUR);
    assert!(b.is_held());
}

/// Fault row 1: whatever wakes the task first, nothing of the body runs after the pause.
#[tokio::test]
async fn run_polls_nothing_of_its_body_after_a_pause_past_the_ttl() {
    let (clock, locks) = setting();
    let lease = locks.acquire("a").await.unwrap();
    let mut polls = 0;
    let body = std::future::poll_fn(|context| {
        polls += 1;
        clock.jump(31 * SECOND);
        context.waker().wake_by_ref();
        std::task::Poll::<()>::Pending
    });
    assert_eq!(lease.run(body).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(polls, 1);
}
