//! Many requests in one call: what goes wrong for one of them, or for the call, reaches just
//! those that it concerns.

#![cfg(feature = "redis")]

use std::future::{Future, IntoFuture, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use leasehold::{AcquireError, Client, ErrorKind, RefusalCause};
use leasehold_testing::{Fault, FaultProxy, RedisServer, eventually};
use tokio::task::JoinSet;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Tasks that acquire and release, each a name of its own, until told to stop.
struct Crowd {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicUsize>,
}

impl Crowd {
    fn start(client: &Client, size: usize) -> Self {
        let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for task in 0..size {
            let (client, stop, turns) = (client.clone(), Arc::clone(&stop), Arc::clone(&turns));
            tasks.spawn(async move {
                let name = format!("order:{task}");
                while !stop.load(Ordering::SeqCst) {
                    let lease = client.acquire(&name).no_wait().await.unwrap();
                    assert_eq!(lease.name(), name);
                    lease.release().await.unwrap();
                    turns.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        Self { tasks, stop, turns }
    }

    /// Waits until every task has had a few more turns.
    async fn goes_on(&self) {
        let enough = self.turns.load(Ordering::SeqCst) + 5 * self.tasks.len();
        eventually("the crowd goes on", async || self.turns.load(Ordering::SeqCst) > enough).await;
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.tasks.join_all().await;
    }
}

fn calls(server: &RedisServer) -> usize {
    let stats: String = server.run(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    line.split(['=', ',']).nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_crowd_shares_calls_and_one_alone_does_not_wait() {
    let server = RedisServer::start();
    let client = leasehold::connect(&server.url()).await.unwrap();
    client.acquire("a").await.unwrap().release().await.unwrap();
    server.run::<()>(&["CONFIG", "RESETSTAT"]);
    client.acquire("a").await.unwrap().release().await.unwrap();
    assert_eq!(calls(&server), 2, "one call for each request");

    server.run::<()>(&["CONFIG", "RESETSTAT"]);
    let crowd = Crowd::start(&client, 200);
    crowd.goes_on().await;
    let turns = Arc::clone(&crowd.turns);
    crowd.stop().await;
    let turns = turns.load(Ordering::SeqCst);
    assert!(calls(&server) * 4 < 2 * turns, "{} calls for {turns} turns", calls(&server));
}

/// Fault row 15.
#[tokio::test]
async fn scripts_flushed_under_a_crowd_are_not_noticed() {
    let server = RedisServer::start();
    let client = leasehold::connect(&server.url()).await.unwrap();
    let crowd = Crowd::start(&client, 100);
    for _ in 0..20 {
        crowd.goes_on().await;
        server.run::<()>(&["SCRIPT", "FLUSH"]);
    }
    crowd.stop().await;
}

#[tokio::test]
async fn a_name_that_may_not_be_touched_is_refused_alone() {
    let server = RedisServer::start();
    let rule = ["ACL", "SETUSER", "clerk", "on", ">secret", "~order:*", "~*leasehold:1:*", "+@all"];
    server.run::<()>(&rule);
    let url = format!("redis://clerk:secret@{}", server.address());
    let client = leasehold::connect(&url).await.unwrap();
    let crowd = Crowd::start(&client, 100);
    for _ in 0..20 {
        let error = client.acquire("secret").await.unwrap_err();
        let AcquireError::Refused(refused) = &error else { panic!("{error}") };
        assert_eq!(refused.cause(), RefusalCause::Permission);
    }
    crowd.goes_on().await;
    crowd.stop().await;
}

/// Fault row 23.
#[tokio::test]
async fn a_key_of_another_type_is_refused_alone() {
    let server = RedisServer::start();
    let client = leasehold::connect(&server.url()).await.unwrap();
    server.run::<()>(&["HSET", "a hash", "a", "b"]);
    let crowd = Crowd::start(&client, 100);
    for _ in 0..20 {
        for names in [&["a hash"][..], &["free", "a hash", "free too"]] {
            let error = client.acquire_all(names).await.unwrap_err();
            let AcquireError::Refused(refused) = &error else { panic!("{error}") };
            assert_eq!(refused.cause(), RefusalCause::ForeignKey, "{error}");
            assert!(error.to_string().contains("a hash"), "{error}");
        }
    }
    crowd.stop().await;
    assert_eq!(server.run::<i64>(&["EXISTS", "free", "free too"]), 0);
}

/// Fault row 6.
#[tokio::test]
async fn a_crowd_outlives_connections_that_are_cut_again_and_again() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(&server.address());
    let client = leasehold::connect(&proxy.url()).await.unwrap();
    let crowd = Crowd::start(&client, 100);
    for _ in 0..20 {
        crowd.goes_on().await;
        proxy.cut_all();
    }
    crowd.goes_on().await;
    crowd.stop().await;
    client.close().await.unwrap();
    eventually("nothing is left", async || server.keys() == ["leasehold:1:fence"]).await;
}

/// Fault row 6: answers that are lost, to calls for many.
#[tokio::test]
async fn a_crowd_outlives_answers_that_are_lost() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(&server.address());
    let client = leasehold::connect(&proxy.url()).await.unwrap();
    let crowd = Crowd::start(&client, 100);
    for fault in [Fault::LoseReply, Fault::CutReply(40), Fault::CutRequest(300)] {
        for _ in 0..5 {
            crowd.goes_on().await;
            proxy.strike_once("order:5", fault);
        }
    }
    crowd.goes_on().await;
    crowd.stop().await;
    client.close().await.unwrap();
    eventually("nothing is left", async || server.keys() == ["leasehold:1:fence"]).await;
}

/// A caller whose time is up is told so, whatever the call that it shares is waiting for.
#[tokio::test]
async fn a_time_limit_in_a_crowd_is_each_callers_own() {
    let server = RedisServer::start();
    let builder = leasehold::builder().command_timeout(60 * SECOND).patience(Duration::ZERO);
    let client = builder.connect(&server.url()).await.unwrap();
    client.acquire("warm").await.unwrap().release().await.unwrap();
    server.run::<()>(&["CLIENT", "PAUSE", "600000", "WRITE"]);
    let mut waiting = JoinSet::new();
    for n in 0..50 {
        let client = client.clone();
        let name = format!("patient {n}");
        waiting.spawn(async move { client.acquire(name).ttl(60 * SECOND).await.unwrap() });
    }
    tokio::task::yield_now().await;
    // The TTL leaves a claim no more time than this.
    for n in 0..3 {
        let hasty = client.acquire(format!("hasty {n}")).ttl(20 * MS);
        assert_eq!(hasty.await.unwrap_err().kind(), ErrorKind::Unreachable);
    }
    assert!(waiting.try_join_next().is_none(), "the server still pauses");
    server.run::<()>(&["CLIENT", "UNPAUSE"]);
    assert_eq!(waiting.join_all().await.len(), 50);
}

/// The connection hangs with calls under way and requests behind them.
#[tokio::test]
async fn a_crowd_on_a_connection_that_hangs_goes_on_with_another() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(&server.address());
    let builder = leasehold::builder().command_timeout(300 * MS);
    let client = builder.connect(&proxy.url()).await.unwrap();
    let crowd = Crowd::start(&client, 100);
    for _ in 0..3 {
        crowd.goes_on().await;
        proxy.strike_once("order:5", Fault::Hang);
    }
    crowd.goes_on().await;
    crowd.stop().await;
}

/// Fault row 7: acquisitions dropped while their requests wait to be gathered, or are.
#[tokio::test]
async fn acquisitions_dropped_in_a_crowd_leave_nothing_behind() {
    let server = RedisServer::start();
    let client = leasehold::connect(&server.url()).await.unwrap();
    for round in 0..40u32 {
        let mut tasks = JoinSet::new();
        for task in 0..100u32 {
            let client = client.clone();
            tasks.spawn(async move {
                let patience = Duration::from_micros(u64::from(round * 40 + task));
                let acquiring = client.acquire(format!("order:{task}")).ttl(60 * SECOND);
                drop(tokio::time::timeout(patience, acquiring.into_future()).await);
            });
        }
        tasks.join_all().await;
    }
    eventually("nothing is left", async || {
        server.keys().iter().all(|key| key == "leasehold:1:fence")
    })
    .await;
}

/// Fault row 8: a runtime that shuts down in the midst of it.
#[test]
fn a_crowd_that_dies_with_its_runtime_leaves_nothing_behind() {
    let server = RedisServer::start();
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let keeper = runtime();
    let client = keeper.block_on(leasehold::connect(&server.url())).unwrap();
    for _ in 0..10 {
        let dying = runtime();
        let crowd = dying.block_on(async {
            let crowd = Crowd::start(&client, 100);
            crowd.goes_on().await;
            crowd
        });
        dying.shutdown_background();
        drop(crowd);
    }
    keeper.block_on(async {
        client.acquire("order:1").await.unwrap().release().await.unwrap();
        client.close().await.unwrap();
        eventually("nothing is left", async || server.keys() == ["leasehold:1:fence"]).await;
    });
}

/// Futures that were begun and that nobody polls: whatever they have sent holds up nobody else.
#[tokio::test]
async fn acquisitions_that_nobody_polls_hold_up_nobody() {
    let server = RedisServer::start();
    let builder = leasehold::builder().patience(Duration::ZERO);
    let client = builder.connect(&server.url()).await.unwrap();
    client.acquire("warm").await.unwrap().release().await.unwrap();
    let mut begun: Vec<_> =
        (0..10).map(|n| Box::pin(client.acquire(format!("begun {n}")).into_future())).collect();
    for acquiring in &mut begun {
        poll_fn(|context| {
            assert!(acquiring.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    for n in 0..20 {
        let lease = client.try_acquire(format!("other {n}")).await.unwrap().unwrap();
        lease.release().await.unwrap();
    }
    for acquiring in begun {
        acquiring.await.unwrap().release().await.unwrap();
    }
}

/// Connections that hung are closed, whether anybody asks again or not.
#[tokio::test]
async fn outages_leave_no_connections_behind() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(&server.address());
    let builder = leasehold::builder().command_timeout(100 * MS).patience(100 * MS);
    let client = builder.connect(&proxy.url()).await.unwrap();
    client.acquire("warm").await.unwrap().release().await.unwrap();
    for _ in 0..5 {
        proxy.strike("order:", Fault::Hang, 1_000);
        let mut tasks = JoinSet::new();
        for n in 0..20 {
            let client = client.clone();
            let name = format!("order:{n}");
            tasks.spawn(async move { drop(client.try_acquire(name).ttl(SECOND).await) });
        }
        tasks.join_all().await;
        proxy.heal();
    }
    let clients = || server.run::<String>(&["CLIENT", "LIST"]).lines().count();
    // Ours for asking, one for the callers, one for the keeper.
    eventually("dead connections are closed", async || clients() <= 3).await;
    // Its patience is too short to see what is left of the outages cleaned up.
    let _ = client.close().await;
    drop(client);
    eventually("all are closed", async || clients() <= 2).await;
}
