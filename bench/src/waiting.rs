//! What waiting costs: how long a lock takes to change hands, and what idle waiters need.

use std::time::{Duration, Instant};

use leasehold::Lease;
use leasehold_testing::RedisServer;
use redis::AsyncCommands;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::flavour::Flavour;
use crate::process;
use crate::server_info::ServerInfo;
use crate::spread::Spread;

const ROUNDS: usize = 301;
const IDLE: usize = 10_000;
const WATCHED: Duration = Duration::from_secs(10);

/// From just before a release to the next holder running, beside one PING and one message to a
/// subscriber. Rounds alternate.
pub(crate) fn latency(server: &RedisServer) {
    Flavour::MultiThread.runtime().block_on(async {
        let holder = leasehold::connect(&server.url()).await.expect("our own server");
        let waiter = leasehold::connect(&server.url()).await.expect("our own server");
        let client = redis::Client::open(server.url()).expect("our own URL");
        let mut connection = client.get_multiplexed_async_connection().await.expect("it answers");
        let (told, mut messages) = tokio::sync::mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut subscriber = client.get_connection().expect("it answers");
            let mut subscription = subscriber.as_pubsub();
            subscription.subscribe("bench").expect("it may");
            while subscription.get_message().is_ok() && told.send(Instant::now()).is_ok() {}
        });
        let (mut ours, mut floor, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let held = holder.acquire("hot").await.expect("free");
            let (running, runs) = oneshot::channel();
            let next = waiter.acquire("hot");
            tokio::spawn(async move {
                let lease: Lease = next.await.expect("in the end");
                let _ = running.send(Instant::now());
                lease.release().await.expect("held");
            });
            while holder.inspect("hot").await.expect("it answers").waiters().is_empty() {}
            let start = Instant::now();
            held.release().await.expect("held");
            let handed_over = runs.await.expect("it runs") - start;

            let start = Instant::now();
            redis::cmd("PING").exec_async(&mut connection).await.expect("it answers");
            let ping = start.elapsed();
            let start = Instant::now();
            let heard: usize = connection.publish("bench", "").await.expect("it may");
            if heard == 0 {
                continue; // not subscribed yet
            }
            let message = messages.recv().await.expect("it comes") - start;
            if round > 0 {
                let least = ping + message;
                ratios.push(handed_over.as_secs_f64() / least.as_secs_f64());
                ours.push(handed_over.as_secs_f64() * 1e6);
                floor.push(least.as_secs_f64() * 1e6);
            }
        }
        println!("  handed over / (ping + message)  {}   (goal: at most 1.5)", Spread::of(ratios));
        println!("  handed over, µs                 {}", Spread::of(ours));
        println!("  ping + message, µs              {}", Spread::of(floor));
    });
}

/// Many waiters, each for a name of its own that nobody releases.
pub(crate) fn idle(server: &RedisServer) {
    Flavour::MultiThread.runtime().block_on(async {
        let holder = leasehold::connect(&server.url()).await.expect("our own server");
        let waiter = leasehold::connect(&server.url()).await.expect("our own server");
        let mut tasks = JoinSet::new();
        for n in 0..IDLE {
            let acquiring =
                holder.acquire(format!("idle:{n}")).ttl(Duration::from_secs(600)).fixed();
            tasks.spawn(async move { acquiring.await.expect("free") });
        }
        let held = tasks.join_all().await;
        // The first waiter brings the subscription about.
        waiter.acquire("idle:0").wait(Duration::from_millis(300)).await.expect_err("held");
        let before = process::resident_bytes();
        let waiting: Vec<_> = (0..IDLE)
            .map(|n| {
                let acquiring = waiter.acquire(format!("idle:{n}"));
                tokio::spawn(async move { drop(acquiring.await) })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let bytes = process::resident_bytes().saturating_sub(before) as f64 / IDLE as f64;
        server.run::<()>(&["CONFIG", "RESETSTAT"]);
        tokio::time::sleep(WATCHED).await;
        let calls = ServerInfo::of(server).script_calls();
        let each = calls / IDLE as f64 / WATCHED.as_secs_f64();
        let channels: Vec<String> = server.run(&["PUBSUB", "CHANNELS"]);
        println!("  client, bytes for each waiter   {bytes:.0}   (goal: at most 2,048)");
        println!("  calls for each waiter a beat    {each:.3}   (goal: at most 1)");
        println!("  subscriptions                   {}   (goal: 1)", channels.len());
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        drop(held);
    });
}
