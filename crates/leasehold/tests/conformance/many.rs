//! Many leases, and many tasks, at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use leasehold::{Client, LossReason};
use tokio::task::JoinSet;

use crate::SECOND;

/// The short form of what `bench/` does with a hundred thousand.
pub(crate) async fn ten_thousand_leases_are_kept_and_one_lost_is_told_alone(
    one: Client,
    other: Client,
) {
    const LEASES: usize = 10_000;
    let ttl = 9 * SECOND;
    let mut acquiring = JoinSet::new();
    for n in 0..LEASES {
        let client = one.clone();
        acquiring.spawn(async move { client.acquire(format!("name {n}")).ttl(ttl).await.unwrap() });
    }
    let mut held = acquiring.join_all().await;
    tokio::time::sleep(ttl + SECOND).await;
    assert_eq!(held.iter().filter(|lease| lease.is_held()).count(), LEASES);

    let victim = held.swap_remove(LEASES / 2);
    other.force_release(victim.name()).await.unwrap();
    assert_eq!(victim.lost().await, LossReason::Released);
    assert_eq!(held.iter().filter(|lease| lease.is_held()).count(), LEASES - 1);
    let closed = one.close().await;
    assert!(closed.is_ok() || closed.unwrap_err().unreleased() < LEASES);
    for lease in held {
        assert_eq!(lease.lost().await, LossReason::Closed);
    }
}

/// Requests of one client that go out together do not answer for each other.
pub(crate) async fn a_crowd_on_many_names_gets_all_and_leaves_nothing(one: Client, other: Client) {
    let kept = other.acquire("taken").await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..200 {
        let client = one.clone();
        tasks.spawn(async move {
            let mut last_fence = 0;
            for turn in 0..10 {
                let lease = client.try_acquire(format!("name {task}")).await.unwrap().unwrap();
                assert!(lease.fence() > last_fence);
                last_fence = lease.fence();
                match turn % 3 {
                    0 => assert!(client.try_acquire("taken").await.unwrap().is_none()),
                    1 => assert!(client.try_acquire(lease.name()).await.unwrap().is_none()),
                    _ => {}
                }
                lease.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    kept.release().await.unwrap();
}

/// The same name many times over in one call.
pub(crate) async fn a_crowd_on_one_name_excludes_itself(one: Client, other: Client) {
    let (inside, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..100 {
        let client = if task % 2 == 0 { one.clone() } else { other.clone() };
        let (inside, turns) = (Arc::clone(&inside), Arc::clone(&turns));
        tasks.spawn(async move {
            for _ in 0..10 {
                let Some(lease) = client.try_acquire("a").await.unwrap() else { continue };
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                turns.fetch_add(1, Ordering::SeqCst);
                lease.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    assert!(turns.load(Ordering::SeqCst) > 0);
}
