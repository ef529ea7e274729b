//! Waiting in line while servers, connections, processes and other clients misbehave.

#![cfg(all(feature = "redis", unix))]

use std::future::IntoFuture;
use std::time::Duration;

use leasehold::{Acquire, AcquireError, Client, Lease, LossReason, RefusalCause};
use leasehold_testing::{Fault, FaultProxy, Process, RedisServer, eventually};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

async fn connect(server: &RedisServer) -> Client {
    leasehold::connect(&server.url()).await.unwrap()
}

fn waiters(server: &RedisServer, name: &str) -> usize {
    server.run::<usize>(&["ZCARD", &format!("{{{name}}}:leasehold:1:line")])
}

/// Waits until so many stand in line.
async fn stand_in_line(
    server: &RedisServer,
    acquiring: Acquire,
    count: usize,
) -> JoinHandle<Lease> {
    let task = tokio::spawn(async move { acquiring.await.unwrap() });
    eventually("it stands in line", async || waiters(server, "order") == count).await;
    task
}

/// Fault row 26: what was told while nobody heard is found by looking.
#[tokio::test]
async fn a_subscription_that_is_cut_is_repaired() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    for _ in 0..5 {
        let held = one.acquire("order").await.unwrap();
        let next = stand_in_line(&server, other.acquire("order"), 1).await;
        server.run::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        held.release().await.unwrap();
        next.await.unwrap().release().await.unwrap();
    }
    let held = one.acquire("order").await.unwrap();
    let next = stand_in_line(&server, other.acquire("order"), 1).await;
    server.run::<i64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let channels = || server.run::<Vec<String>>(&["PUBSUB", "CHANNELS"]).len();
    eventually("subscribed again", async || channels() >= 1).await;
    held.release().await.unwrap();
    next.await.unwrap().release().await.unwrap();
}

/// Fault row 16 with waiters.
#[tokio::test]
async fn a_server_that_forgot_everything_has_its_line_again() {
    let mut server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let held = one.acquire("order").ttl(2 * SECOND).await.unwrap();
    let first = stand_in_line(&server, one.acquire("order").ttl(3 * SECOND), 1).await;
    let second = stand_in_line(&server, other.acquire("order"), 2).await;
    server.restart_empty();
    let (first, second) = tokio::join!(async { first.await.unwrap().release().await }, async {
        second.await.unwrap().release().await
    },);
    first.unwrap();
    second.unwrap();
    assert!(matches!(held.lost().await, LossReason::Released | LossReason::Taken));
}

/// Fault row 30.
#[tokio::test]
async fn a_foreign_client_that_deletes_or_takes_the_key_is_noticed() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    server.run::<()>(&["SET", "order", "foreign", "PX", "600000"]);
    let waiting = stand_in_line(&server, client.acquire("order"), 1).await;
    server.run::<()>(&["DEL", "order"]);
    let lease = waiting.await.unwrap();

    let waiting = stand_in_line(&server, client.acquire("order").ttl(9 * SECOND), 1).await;
    lease.release().await.unwrap();
    let lease = waiting.await.unwrap();
    let waiting = stand_in_line(&server, client.acquire("order").ttl(9 * SECOND), 1).await;
    server.run::<()>(&["SET", "order", "foreign", "PX", "500"]);
    drop(lease);
    waiting.await.unwrap().release().await.unwrap();
}

/// Fault row 19 with waiters: releases, hand-overs and looks go on.
#[tokio::test]
async fn on_a_full_server_the_line_moves_on() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let held = one.acquire("order").await.unwrap();
    let first = stand_in_line(&server, other.acquire("order").ttl(31 * SECOND), 1).await;
    let second = stand_in_line(&server, one.acquire("order").ttl(32 * SECOND), 2).await;
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = one.acquire("other").no_wait().await.unwrap_err();
    let AcquireError::Refused(refused) = &error else { panic!("{error}") };
    assert_eq!(refused.cause(), RefusalCause::OutOfMemory);
    tokio::time::sleep(2 * SECOND).await; // a look or two
    held.release().await.unwrap();
    first.await.unwrap().release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}

fn process(server: &RedisServer, ttl: &str) -> Process {
    Process::start_example("hold", [&*server.url(), "order", ttl], &[])
}

/// Fault rows 27 and 29: the head dies.
#[tokio::test]
async fn a_killed_waiter_is_passed_over_at_once() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let held = client.acquire("order").await.unwrap();
    let mut killed = process(&server, "60000");
    eventually("it stands in line", async || waiters(&server, "order") == 1).await;
    let next = stand_in_line(&server, client.acquire("order").ttl(31 * SECOND), 2).await;
    killed.kill();
    eventually("its subscription is gone", async || {
        server.run::<Vec<String>>(&["PUBSUB", "CHANNELS"]).len() == 1
    })
    .await;
    held.release().await.unwrap();
    assert_eq!(server.run::<i64>(&["EXISTS", "order"]), 1, "handed over in the same step");
    next.await.unwrap().release().await.unwrap();
}

/// Fault rows 1, 27 and 28: those who are frozen at the head do not cost a TTL each.
#[tokio::test]
async fn frozen_waiters_cost_far_less_than_a_ttl_each() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let held = client.acquire("order").await.unwrap();
    let mut frozen = Vec::new();
    for n in 1..=3 {
        let waiter = process(&server, "600000");
        eventually("it stands in line", async || waiters(&server, "order") == n).await;
        waiter.signal("STOP");
        frozen.push(waiter);
    }
    let next = stand_in_line(&server, client.acquire("order").ttl(31 * SECOND), 4).await;
    held.release().await.unwrap();
    // Their TTL is ten minutes; if even one of them had it for that long, this would not end.
    let lease = next.await.unwrap();
    for waiter in &frozen {
        waiter.signal("CONT");
    }
    // What woke up neither believes in a lease that it had while it slept, nor takes ours.
    tokio::time::sleep(500 * MS).await;
    lease.renew(31 * SECOND).await.unwrap();
    lease.release().await.unwrap();
    frozen.iter_mut().for_each(Process::close_input);
    for mut waiter in frozen {
        waiter.expect_line("held");
        waiter.expect_line("released");
    }
}

/// A process dies right after it was handed the lock: free after the time to accept it, or its TTL.
#[tokio::test]
async fn a_holder_killed_after_a_hand_over_is_followed_by_the_next() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let held = client.acquire("order").await.unwrap();
    let mut killed = process(&server, "2000");
    eventually("it stands in line", async || waiters(&server, "order") == 1).await;
    let next = stand_in_line(&server, client.acquire("order").ttl(31 * SECOND), 2).await;
    held.release().await.unwrap();
    let fence: u64 = killed.expect_line("held").parse().unwrap();
    killed.kill();
    let next = next.await.unwrap();
    assert!(next.fence() > fence);
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_line_has_an_end() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let _held = client.acquire("order").await.unwrap();
    let crowd = "for n = 1, 100000 do redis.call('ZADD', KEYS[1], n, n) end";
    server.run::<()>(&["EVAL", crowd, "1", "{order}:leasehold:1:line"]);
    let error = client.acquire("order").await.unwrap_err();
    let AcquireError::Refused(refused) = &error else { panic!("{error}") };
    assert_eq!(refused.cause(), RefusalCause::LineFull, "{error}");
    assert!(error.to_string().contains("come back later"), "{error}");
}

/// Over a connection that the user made nobody can subscribe: waiters look, and keep their order.
#[tokio::test]
async fn without_a_subscription_waiters_look_and_keep_their_order() {
    let server = RedisServer::start();
    let redis = redis::Client::open(server.url()).unwrap();
    let connection = redis.get_connection_manager().await.unwrap();
    let client = leasehold::builder().with_connection(connection).unwrap();
    let held = client.acquire("order").await.unwrap();
    let first = stand_in_line(&server, client.acquire("order").ttl(31 * SECOND), 1).await;
    let second = stand_in_line(&server, client.acquire("order").ttl(32 * SECOND), 2).await;
    held.release().await.unwrap();
    let lease = first.await.unwrap();
    assert!(!second.is_finished());
    lease.release().await.unwrap();
    second.await.unwrap().release().await.unwrap();
}

/// Fault row 31.
#[tokio::test]
async fn an_operator_who_listens_to_everything_changes_nothing() {
    let server = RedisServer::start();
    let mut listener = server.connection();
    let mut everything = listener.as_pubsub();
    everything.psubscribe("*").unwrap();
    let client = connect(&server).await;
    let held = client.acquire("order").await.unwrap();
    let mut killed = process(&server, "60000");
    eventually("it stands in line", async || waiters(&server, "order") == 1).await;
    killed.kill();
    let next = stand_in_line(&server, client.acquire("order").ttl(31 * SECOND), 2).await;
    held.release().await.unwrap();
    next.await.unwrap().release().await.unwrap();
}

/// Fault row 7: dropped while queued, also just as it is granted, in numbers.
#[tokio::test]
async fn waiters_that_come_and_go_leave_no_key() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    for round in 0..30u64 {
        let held = one.acquire("order").await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..100u64 {
            let client = if n.is_multiple_of(2) { one.clone() } else { other.clone() };
            tasks.spawn(async move {
                let acquiring = client.acquire("order").ttl(Duration::from_secs(30 + n % 7));
                let patience = Duration::from_micros(n * 50 + round * 31);
                drop(tokio::time::timeout(patience, acquiring.into_future()).await);
            });
        }
        tokio::time::sleep(Duration::from_micros(round * 150)).await;
        held.release().await.unwrap();
        tasks.join_all().await;
    }
    eventually("nothing is left", async || server.keys() == ["leasehold:1:fence"]).await;
}

/// A future that was begun and that nobody polls holds up neither its own process nor others.
#[tokio::test]
async fn a_waiter_that_nobody_polls_holds_up_nobody() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let held = client.acquire("order").await.unwrap();
    let mut asleep = Box::pin(client.acquire("order").ttl(3 * SECOND).into_future());
    let begun = tokio::time::timeout(300 * MS, asleep.as_mut()).await;
    assert!(begun.is_err(), "it waits");
    held.release().await.unwrap();
    client.acquire("order").ttl(3 * SECOND).await.unwrap().release().await.unwrap();
    asleep.await.unwrap().release().await.unwrap();
}

/// Whoever may not tell the next one frees the lock for it all the same.
#[tokio::test]
async fn a_user_who_may_not_publish_hands_over_in_silence() {
    let server = RedisServer::start();
    let rule = "ACL SETUSER clerk on >secret ~* resetchannels +@all";
    server.run::<()>(&rule.split(' ').collect::<Vec<_>>());
    let url = format!("redis://clerk:secret@{}", server.address());
    let clerk = leasehold::connect(&url).await.unwrap();
    let held = clerk.acquire("order").await.unwrap();
    let client = connect(&server).await;
    let next = stand_in_line(&server, client.acquire("order"), 1).await;
    held.release().await.unwrap();
    let next = next.await.unwrap();
    // Nor may it subscribe: it looks.
    let last = stand_in_line(&server, clerk.acquire("order"), 1).await;
    next.release().await.unwrap();
    last.await.unwrap().release().await.unwrap();
}

/// What dead waiters leave in a line is gone when those behind them look.
#[tokio::test]
async fn places_of_the_dead_do_not_pile_up() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let _held = client.acquire("order").await.unwrap();
    for n in 1..=3 {
        let mut killed = process(&server, "60000");
        eventually("it stands in line", async || waiters(&server, "order") == n).await;
        killed.kill();
    }
    let _waiting = stand_in_line(&server, client.acquire("order").ttl(31 * SECOND), 4).await;
    eventually("only the living are left", async || waiters(&server, "order") == 1).await;
    assert_eq!(client.inspect("order").await.unwrap().waiters().len(), 1);
}

/// Fault rows 6, 11 and 26: whatever message of a turn is lost or cut, at whatever byte, the waiter
/// is served once and gives back once.
#[tokio::test]
async fn a_turn_cut_at_any_message_is_had_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(&server.address());
    let direct = connect(&server).await;
    let client = leasehold::connect(&proxy.url()).await.unwrap();
    client.acquire("order").await.unwrap().release().await.unwrap();
    let requests = (0..330).step_by(41).map(Fault::CutRequest);
    let replies = (0..120).step_by(23).map(Fault::CutReply);
    let mut last_fence = 0;
    for fault in requests.chain(replies).chain([Fault::LoseReply, Fault::DelayReply(300 * MS)]) {
        // What stands in line, looks, or is granted.
        let held = direct.acquire("order").await.unwrap();
        proxy.strike_once("order", fault);
        let waiting = tokio::spawn(client.acquire("order").into_future());
        eventually("it stands in line", async || waiters(&server, "order") == 1).await;
        held.release().await.unwrap();
        let lease = waiting.await.unwrap().unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert!(lease.fence() > last_fence, "{fault:?}");
        last_fence = lease.fence();
        let behind = stand_in_line(&server, direct.acquire("order"), 1).await;
        // What confirms it, or gives it back.
        proxy.strike_once("order", fault);
        tokio::time::sleep(60 * MS).await;
        lease.release().await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        behind.await.unwrap().release().await.unwrap();
        proxy.heal();
    }
    eventually("nothing is left", async || server.keys() == ["leasehold:1:fence"]).await;
}
