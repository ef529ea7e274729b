//! Server clocks that jump. Linux only: the server is started with a clock of its own by way
//! of a preloaded library.

#![cfg(all(feature = "redis", target_os = "linux"))]

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::LossReason;
use leasehold_testing::{ServerClock, ServerOptions, eventually};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// Fault row 4.
#[tokio::test]
async fn a_server_clock_set_ahead_may_end_leases_early_but_fences_grow() {
    let clock = ServerClock::new();
    let server = ServerOptions::default().clock(&clock).start();
    let client = leasehold::connect(&server.url()).await.unwrap();
    let lease = client.acquire("a").ttl(6 * SECOND).await.unwrap();
    clock.set_ahead(60 * SECOND);
    let next = client.acquire("a").await.unwrap();
    let highest = next.fence();
    assert!(highest > lease.fence());
    assert_eq!(lease.lost().await, LossReason::Taken, "told with the next renewal");
    next.release().await.unwrap();
    // Back again: time alone would give smaller fences than those given out.
    clock.set_ahead(Duration::ZERO);
    let after = client.acquire("a").await.unwrap();
    assert!(after.fence() > highest);
    after.release().await.unwrap();
}

/// Fault row 4.
#[tokio::test]
async fn a_server_clock_set_back_is_flagged_and_mended() {
    let clock = ServerClock::new();
    let server = ServerOptions::default().clock(&clock).start();
    let client = leasehold::connect(&server.url()).await.unwrap();
    let lease = client.acquire("a").ttl(6 * SECOND).await.unwrap();
    let holder = async || client.inspect("a").await.unwrap().holder().unwrap().clone();
    eventually("recorded", async || holder().await.fence().is_some()).await;
    assert!(!holder().await.outlasts_its_ttl());

    clock.set_behind(HOUR);
    assert!(lease.remaining().await.unwrap() > HOUR / 2);
    assert!(holder().await.outlasts_its_ttl());
    assert!(lease.valid_for() <= 6 * SECOND, "what counts here is not the server's clock");
    eventually("mended by the next renewal", async || !holder().await.outlasts_its_ttl()).await;

    let fence = lease.fence();
    lease.release().await.unwrap();
    let next = client.acquire("a").await.unwrap();
    assert!(next.fence() > fence, "fences grow although the clock went back");
    next.release().await.unwrap();
}

/// Fault row 4 with waiters: a hand-over whose times make no sense is confirmed before it is used.
#[tokio::test]
async fn a_clock_that_is_set_while_somebody_waits_gives_nobody_more_time() {
    for ahead in [true, false] {
        let clock = ServerClock::new();
        let server = ServerOptions::default().clock(&clock).start();
        let one = leasehold::connect(&server.url()).await.unwrap();
        let other = leasehold::connect(&server.url()).await.unwrap();
        let held = one.acquire("a").ttl(600 * SECOND).await.unwrap();
        let waiting = tokio::spawn(other.acquire("a").ttl(20 * SECOND).into_future());
        eventually("it waits", async || !one.inspect("a").await.unwrap().waiters().is_empty())
            .await;
        if ahead {
            clock.set_ahead(30 * SECOND);
        } else {
            clock.set_behind(30 * SECOND);
        }
        let fence = held.fence();
        held.release().await.unwrap();
        let lease = waiting.await.unwrap().unwrap();
        assert!(lease.fence() > fence, "ahead: {ahead}");
        let valid_for = lease.valid_for();
        assert!(valid_for <= lease.remaining().await.unwrap() + SECOND, "ahead: {ahead}");
        lease.release().await.unwrap();
    }
}
