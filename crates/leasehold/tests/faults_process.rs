//! Whole processes that are stopped or killed while they hold a lease.

#![cfg(all(feature = "redis", unix))]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::{Client, Remaining};
use leasehold_testing::{Process, RedisServer, eventually};

const TTL: Duration = Duration::from_millis(1_500);

async fn start(server: &RedisServer) -> (Client, Process, u64) {
    let client = leasehold::connect(&server.url()).await.unwrap();
    let ttl = TTL.as_millis().to_string();
    let mut holder = Process::start_example("hold", [&*server.url(), "order", &ttl], &[]);
    let fence = holder.expect_line("held").parse().unwrap();
    (client, holder, fence)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// Fault row 1.
#[tokio::test]
async fn a_process_stopped_past_its_ttl_knows_before_it_goes_on() {
    let server = RedisServer::start();
    let (client, mut holder, old_fence) = start(&server).await;
    holder.expect_line("working");
    holder.signal("STOP");
    let stopped_at = now();

    let lease = client.acquire("order").await.unwrap();
    assert!(lease.fence() > old_fence, "what it still writes can be told from what we write");
    let taken_at = now();
    holder.signal("CONT");

    let mut worked_until = Duration::ZERO;
    let reason = loop {
        let line = holder.next_line().expect("it says how it ended");
        match line.split_once(' ').unwrap() {
            ("working", at) => worked_until = Duration::from_millis(at.parse().unwrap()),
            ("lost", reason) => break reason.to_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reason, "Expired");
    assert!(worked_until < taken_at, "it worked on after waking up");
    assert!(worked_until < stopped_at + TTL);
    assert!(lease.is_held());
    lease.release().await.unwrap();
}

/// A crash frees the lock within one TTL.
#[tokio::test]
async fn a_killed_process_leaves_its_lease_to_run_out() {
    let server = RedisServer::start();
    let (client, mut holder, old_fence) = start(&server).await;
    holder.kill();
    let seen = client.inspect("order").await.unwrap();
    if let Some(holder) = seen.holder() {
        assert!(matches!(holder.remaining(), Remaining::For(left) if left <= TTL));
    }
    let lease = client.acquire("order").await.unwrap();
    assert!(lease.fence() > old_fence);
    lease.release().await.unwrap();
}

/// Fault row 13: an entry that dies runs out by itself, and frees nothing for the others.
#[tokio::test]
async fn a_killed_entry_of_an_owner_runs_out_and_the_others_stay() {
    let server = RedisServer::start();
    let client = leasehold::connect(&server.url()).await.unwrap();
    let ttl = TTL.as_millis().to_string();
    let enter = || Process::start_example("hold", [&*server.url(), "order", &ttl, "x"], &[]);
    let holds = async || {
        client.inspect("order").await.unwrap().holder().map_or(0, |holder| holder.holds().count())
    };
    let (mut killed, mut alive) = (enter(), enter());
    let fence = killed.expect_line("held");
    assert_eq!(alive.expect_line("held"), fence, "one owner, one fence");
    let ours = client.acquire("order").owner("x").ttl(TTL).no_wait().await.unwrap();
    assert_eq!(ours.fence().to_string(), fence);
    assert_eq!(holds().await, 3);

    killed.kill();
    eventually("its hold has run out", async || holds().await == 2).await;
    ours.release().await.unwrap();
    assert!(client.try_acquire("order").await.unwrap().is_none(), "one is still inside");
    alive.close_input();
    alive.expect_line("released");
    assert!(client.try_acquire("order").await.unwrap().is_some());
}

#[tokio::test]
async fn a_process_that_ends_well_releases() {
    let server = RedisServer::start();
    let (client, mut holder, _) = start(&server).await;
    assert!(client.try_acquire("order").await.unwrap().is_none());
    holder.close_input();
    holder.expect_line("released");
    client.acquire("order").no_wait().await.unwrap().release().await.unwrap();
}
