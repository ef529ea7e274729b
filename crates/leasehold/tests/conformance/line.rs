//! Waiting in line.

use std::future::IntoFuture;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Acquire, Backoff, Client, Lease, LossReason};
use leasehold_testing::eventually;
use tokio::task::{JoinHandle, JoinSet};

use crate::{MS, SECOND, SHORT, is_free};

/// A TTL of its own for each: only waiters with the same TTL share a place.
fn ttl(n: u64) -> Duration {
    Duration::from_secs(30 + n)
}

async fn stand_in_line(
    seen_by: &Client,
    acquiring: Acquire,
    name: &str,
    waiters: usize,
) -> JoinHandle<Lease> {
    let task = tokio::spawn(async move { acquiring.await.unwrap() });
    eventually("it stands in line", async || {
        seen_by.inspect(name).await.unwrap().waiters().len() == waiters
    })
    .await;
    task
}

pub(crate) async fn waiters_are_served_in_the_order_in_which_they_came(one: Client, other: Client) {
    let held = one.acquire("a").await.unwrap();
    let mut waiting = Vec::new();
    for n in 0..6u64 {
        let client = if n.is_multiple_of(2) { &one } else { &other };
        let acquiring = client.acquire("a").ttl(ttl(n));
        let waiters = usize::try_from(n).unwrap() + 1;
        waiting.push(stand_in_line(&one, acquiring, "a", waiters).await);
    }
    let mut last_fence = held.fence();
    held.release().await.unwrap();
    for next in waiting {
        let lease = next.await.unwrap();
        assert!(lease.fence() > last_fence);
        last_fence = lease.fence();
        lease.release().await.unwrap();
    }
}

pub(crate) async fn tasks_of_one_process_are_served_in_order_and_have_one_place(
    one: Client,
    other: Client,
) {
    let held = other.acquire("a").await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for n in 0..20 {
        let (client, served) = (one.clone(), Arc::clone(&served));
        tasks.spawn(async move {
            let lease = client.acquire("a").await.unwrap();
            served.lock().unwrap().push(n);
            lease.release().await.unwrap();
        });
        tokio::task::yield_now().await;
    }
    eventually("they wait", async || !other.inspect("a").await.unwrap().waiters().is_empty()).await;
    assert_eq!(other.inspect("a").await.unwrap().waiters().len(), 1, "one place for all of them");
    held.release().await.unwrap();
    tasks.join_all().await;
    assert_eq!(*served.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

/// Nobody overtakes by being many: for each turn of ours, another process has one at the most.
pub(crate) async fn two_processes_take_turns(one: Client, other: Client) {
    let turns = Arc::new(Mutex::new(Vec::new()));
    let held = one.acquire("a").await.unwrap();
    let mut tasks = JoinSet::new();
    // In memory both are one client; a TTL of its own makes it another place.
    for (client, ttl, name) in [(&one, ttl(1), 'x'), (&other, ttl(2), 'y')] {
        for _ in 0..10 {
            let (client, turns) = (client.clone(), Arc::clone(&turns));
            tasks.spawn(async move {
                let lease = client.acquire("a").ttl(ttl).await.unwrap();
                turns.lock().unwrap().push(name);
                // Time enough for the next of the same process to stand in line.
                tokio::time::sleep(20 * MS).await;
                lease.release().await.unwrap();
            });
        }
    }
    eventually("both wait", async || one.inspect("a").await.unwrap().waiters().len() == 2).await;
    held.release().await.unwrap();
    tasks.join_all().await;
    let turns: String = turns.lock().unwrap().iter().collect();
    assert!(!turns[..18].contains("xxx") && !turns[..18].contains("yyy"), "{turns}");
}

pub(crate) async fn waiters_can_be_seen(one: Client, other: Client) {
    let held = one.acquire("a").metadata("holder").await.unwrap();
    let first = one.acquire("a").metadata("pod-1").ttl(ttl(1));
    let first = stand_in_line(&other, first, "a", 1).await;
    let second = other.acquire("a").metadata("pod-2").owner("request 7");
    let second = stand_in_line(&other, second, "a", 2).await;
    let seen = one.inspect("a").await.unwrap();
    assert_eq!(seen.holder().unwrap().metadata(), Some(&b"holder"[..]));
    let waiters: Vec<_> =
        seen.waiters().iter().map(|waiter| (waiter.metadata(), waiter.owner())).collect();
    assert_eq!(waiters, [(&b"pod-1"[..], None), (b"pod-2", Some("request 7"))]);
    held.release().await.unwrap();
    first.await.unwrap().release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_waiter_that_gives_up_leaves_no_trace(one: Client, other: Client) {
    let held = one.acquire("a").await.unwrap();
    other.acquire("a").wait(50 * MS).await.unwrap_err();
    other.acquire("a").owner("x").wait(50 * MS).await.unwrap_err();
    other.acquire_all(["b", "a"]).wait(50 * MS).await.unwrap_err();
    for drop_after in [1, 5, 20, 50] {
        let acquiring = other.acquire("a").into_future();
        drop(tokio::time::timeout(drop_after * MS, acquiring).await);
    }
    eventually("nobody waits", async || {
        let seen = one.inspect("a").await.unwrap();
        seen.waiters().is_empty() && one.inspect("b").await.unwrap().waiters().is_empty()
    })
    .await;
    assert!(held.is_held());
    held.release().await.unwrap();
    assert!(is_free(&one, "a").await);
}

pub(crate) async fn a_waiter_dropped_as_it_is_served_passes_it_on(one: Client, other: Client) {
    for round in 0..20u64 {
        let held = one.acquire("a").await.unwrap();
        let dropped = one.acquire("a").ttl(ttl(1));
        let dropped = stand_in_line(&one, dropped, "a", 1).await;
        let next = stand_in_line(&other, other.acquire("a").ttl(ttl(2)), "a", 2).await;
        held.release().await.unwrap();
        tokio::time::sleep(Duration::from_micros(50 * round)).await;
        dropped.abort();
        drop(dropped.await);
        next.await.unwrap().release().await.unwrap();
    }
}

pub(crate) async fn whoever_polls_does_not_overtake_the_line(one: Client, other: Client) {
    let held = one.acquire("a").await.unwrap();
    let waiting = stand_in_line(&one, one.acquire("a").ttl(ttl(1)), "a", 1).await;
    let polling = other.acquire("a").retry(Backoff::fixed(MS));
    let polling = tokio::spawn(async move { polling.await.unwrap() });
    tokio::time::sleep(20 * MS).await;
    held.release().await.unwrap();
    let lease = waiting.await.unwrap();
    assert!(!polling.is_finished());
    assert!(other.try_acquire("a").await.unwrap().is_none());
    lease.release().await.unwrap();
    polling.await.unwrap().release().await.unwrap();
}

pub(crate) async fn the_line_moves_on_when_the_holder_runs_out(one: Client, other: Client) {
    let _crashed = one.acquire("a").ttl(400 * MS).fixed().await.unwrap();
    let first = stand_in_line(&one, other.acquire("a").ttl(ttl(1)), "a", 1).await;
    let second = stand_in_line(&one, one.acquire("a").ttl(ttl(2)), "a", 2).await;
    let lease = first.await.unwrap();
    assert!(!second.is_finished(), "nobody overtakes");
    lease.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}

pub(crate) async fn the_line_moves_on_when_the_lock_is_broken(one: Client, other: Client) {
    let broken = one.acquire("a").ttl(SHORT).await.unwrap();
    let next = stand_in_line(&one, other.acquire("a"), "a", 1).await;
    one.force_release("a").await.unwrap();
    let next = next.await.unwrap();
    assert!(matches!(broken.lost().await, LossReason::Taken | LossReason::Released));
    assert!(next.fence() > broken.fence());
    next.release().await.unwrap();
}

pub(crate) async fn waiters_for_several_names_get_through(one: Client, other: Client) {
    let mut tasks = JoinSet::new();
    let inside = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let kinds: [(&[&str], &[usize]); 4] =
        [(&["a", "b"], &[0, 1]), (&["b", "a"], &[0, 1]), (&["a"], &[0]), (&["b"], &[1])];
    for (n, (names, guarded)) in kinds.into_iter().cycle().take(16).enumerate() {
        let client = if n.is_multiple_of(3) { one.clone() } else { other.clone() };
        let inside = Arc::clone(&inside);
        tasks.spawn(async move {
            for _ in 0..5 {
                let lease = client.acquire_all(names).await.unwrap();
                for n in guarded {
                    assert_eq!(inside[*n].fetch_add(1, Ordering::SeqCst), 0, "two inside");
                }
                tokio::task::yield_now().await;
                for n in guarded {
                    inside[*n].fetch_sub(1, Ordering::SeqCst);
                }
                lease.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

pub(crate) async fn an_owner_does_not_wait_behind_strangers_who_wait_for_it(
    one: Client,
    other: Client,
) {
    let outer = one.acquire("a").owner("x").await.unwrap();
    let stranger = stand_in_line(&one, other.acquire("a"), "a", 1).await;
    let inner = other.acquire("a").owner("x").await.unwrap();
    assert_eq!(inner.fence(), outer.fence());
    outer.release().await.unwrap();
    inner.release().await.unwrap();
    stranger.await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_waiting_owner_is_served_in_its_turn(one: Client, other: Client) {
    let held = one.acquire("a").await.unwrap();
    let first = stand_in_line(&one, other.acquire("a").owner("x").metadata("m"), "a", 1).await;
    let behind = stand_in_line(&one, one.acquire("a"), "a", 2).await;
    held.release().await.unwrap();
    let first = first.await.unwrap();
    assert_eq!(one.inspect("a").await.unwrap().holder().unwrap().owner(), Some("x"));
    let inner = one.acquire("a").owner("x").await.unwrap();
    assert_eq!(inner.fence(), first.fence());
    tokio::time::sleep(3 * SECOND).await;
    assert!(first.is_held() && inner.is_held(), "confirmed, and kept");
    first.release().await.unwrap();
    inner.release().await.unwrap();
    behind.await.unwrap().release().await.unwrap();
}

/// A hand-over grants for a short while only; the keeper makes a whole lease of it.
pub(crate) async fn leases_from_the_line_are_kept_like_any_other(one: Client, other: Client) {
    let held = one.acquire("a").await.unwrap();
    let renewed = stand_in_line(&one, other.acquire("a").metadata("m"), "a", 1).await;
    held.release().await.unwrap();
    let renewed = renewed.await.unwrap();
    eventually("confirmed", async || renewed.valid_for() > 20 * SECOND).await;
    tokio::time::sleep(3 * SECOND).await;
    assert!(renewed.is_held());
    assert_eq!(other.inspect("a").await.unwrap().holder().unwrap().metadata(), Some(&b"m"[..]));

    let fixed = one.acquire("a").ttl(SHORT).fixed();
    let fixed = stand_in_line(&one, fixed, "a", 1).await;
    renewed.release().await.unwrap();
    let fixed = fixed.await.unwrap();
    assert_eq!(fixed.lost().await, LossReason::Expired);
}

pub(crate) async fn a_storm_of_waiters_leaves_nothing_behind(one: Client, other: Client) {
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..200u64 {
        let client = if n.is_multiple_of(2) { one.clone() } else { other.clone() };
        let inside = Arc::clone(&inside);
        tasks.spawn(async move {
            for turn in 0..3 {
                let acquiring = client.acquire("a").ttl(ttl(n % 3));
                if (n + turn) % 5 == 0 {
                    let patience = Duration::from_micros(n * 37);
                    drop(tokio::time::timeout(patience, acquiring.into_future()).await);
                    continue;
                }
                let lease = acquiring.await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                lease.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    eventually("it is free", async || {
        let seen = one.inspect("a").await.unwrap();
        seen.is_free() && seen.waiters().is_empty()
    })
    .await;
}

/// It holds one of them already, and is served when the other is free.
pub(crate) async fn an_owner_does_not_wait_behind_itself_for_several_names(
    one: Client,
    other: Client,
) {
    let b = one.acquire("b").owner("x").await.unwrap();
    let held = other.acquire("a").await.unwrap();
    let both = one.acquire_all(["a", "b"]).owner("x");
    let both = stand_in_line(&other, both, "a", 1).await;
    let behind = stand_in_line(&other, other.acquire("a").ttl(ttl(1)), "a", 2).await;
    held.release().await.unwrap();
    let both = both.await.unwrap();
    assert!(both.fence() > b.fence() && !behind.is_finished());
    b.release().await.unwrap();
    both.release().await.unwrap();
    behind.await.unwrap().release().await.unwrap();
    assert!(is_free(&one, "b").await);
}

/// The next task of the same process stands where the one that gave up stood.
pub(crate) async fn a_place_passes_to_the_next_task_when_one_gives_up(one: Client, other: Client) {
    let held = other.acquire("a").ttl(ttl(9)).await.unwrap();
    let gives_up = tokio::spawn(one.acquire("a").ttl(ttl(1)).wait(600 * MS).into_future());
    eventually("it stands", async || one.inspect("a").await.unwrap().waiters().len() == 1).await;
    let next = tokio::spawn(one.acquire("a").ttl(ttl(1)).into_future());
    let behind = stand_in_line(&one, other.acquire("a").ttl(ttl(2)), "a", 2).await;
    gives_up.await.unwrap().unwrap_err();
    // Another look of the one behind, and of the one that has taken over.
    tokio::time::sleep(1_200 * MS).await;
    assert_eq!(one.inspect("a").await.unwrap().waiters().len(), 2);
    held.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(!behind.is_finished(), "it was behind the place that passed on");
    next.release().await.unwrap();
    behind.await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_lease_detached_before_it_is_confirmed_says_how_long_it_lasts(
    one: Client,
    other: Client,
) {
    let held = one.acquire("a").await.unwrap();
    let next = stand_in_line(&one, other.acquire("a"), "a", 1).await;
    held.release().await.unwrap();
    let grant = next.await.unwrap().detach().unwrap();
    assert!(grant.ttl() == 2 * SECOND || grant.ttl() == 30 * SECOND, "{grant:?}");
    let lease = one.resume(&grant).ttl(30 * SECOND).await.unwrap();
    lease.release().await.unwrap();
}
