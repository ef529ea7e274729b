//! Runtimes that are blocked, many, or gone; guards dropped where nobody expects it.

#![cfg(feature = "redis")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{Backoff, Client, ErrorKind};
use leasehold_testing::{Fault, FaultProxy, RedisServer, eventually};
use tokio::runtime::{Builder, Runtime};

const MS: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn connect(runtime: &Runtime, server: &RedisServer) -> Client {
    runtime.block_on(leasehold::connect(&server.url())).unwrap()
}

fn is_held(server: &RedisServer, name: &str) -> bool {
    server.run::<i64>(&["EXISTS", name]) == 1
}

fn becomes_free(server: &RedisServer, name: &str) {
    runtime().block_on(eventually("free again", async || !is_held(server, name)));
}

/// Fault row 9.
#[test]
fn a_runtime_blocked_for_three_ttls_keeps_its_leases() {
    let server = RedisServer::start();
    let runtime = runtime();
    let client = connect(&runtime, &server);
    let ttl = 1_200 * MS;
    runtime.block_on(async {
        let lease = client.acquire("a").ttl(ttl).await.unwrap();
        let start = Instant::now();
        let mut work = 0_u64;
        while start.elapsed() < 3 * ttl {
            for n in 0..100_000_u64 {
                work = std::hint::black_box(work.wrapping_mul(31).wrapping_add(n));
            }
            assert!(is_held(&server, "a"), "lost after {:?}", start.elapsed());
        }
        assert!(lease.is_held());
        lease.release().await.unwrap();
    });
}

/// Fault row 8.
#[test]
fn a_guard_dropped_after_its_runtime_shut_down_is_released() {
    let server = RedisServer::start();
    let runtime = runtime();
    let client = connect(&runtime, &server);
    let lease = runtime.block_on(client.acquire("a").ttl(LONG).into_future()).unwrap();
    drop(runtime);
    assert!(lease.is_held());
    drop(lease);
    becomes_free(&server, "a");
}

/// Fault row 8: tasks, and the guards in them, are dropped by the shutdown itself.
#[test]
fn guards_dropped_by_a_runtimes_shutdown_are_released() {
    let server = RedisServer::start();
    for workers in [1, 2] {
        let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
        let runtime = runtime.unwrap();
        let client = connect(&runtime, &server);
        for n in 0..20 {
            let client = client.clone();
            runtime.spawn(async move {
                let lease = client.acquire(format!("name {n}")).ttl(LONG).await.unwrap();
                lease.run(std::future::pending::<()>()).await.unwrap();
            });
        }
        runtime.block_on(eventually("all held", async || server.keys().len() == 21));
        drop(runtime);
        self::runtime().block_on(eventually("all free", async || server.keys().len() == 1));
    }
}

/// Fault row 8.
#[test]
fn a_guard_dropped_during_a_panic_is_released() {
    let server = RedisServer::start();
    let runtime = runtime();
    let client = connect(&runtime, &server);
    let lease = runtime.block_on(client.acquire("a").ttl(LONG).into_future()).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _lease = lease;
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    becomes_free(&server, "a");
}

/// Fault row 7, with the runtime gone while the claim was under way.
#[test]
fn an_acquisition_that_dies_with_its_runtime_leaves_nothing_behind() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(&server.address());
    let runtime = runtime();
    let client = runtime.block_on(leasehold::connect(&proxy.url())).unwrap();
    runtime.block_on(async {
        client.acquire("order:7").await.unwrap().release().await.unwrap();
        proxy.strike_once("order:7", Fault::DelayReply(300 * MS));
        let acquiring = client.acquire("order:7").ttl(LONG);
        tokio::spawn(async move { acquiring.await.map(drop) });
        eventually("the claim has run", async || is_held(&server, "order:7")).await;
    });
    drop(runtime);
    becomes_free(&server, "order:7");
}

#[test]
fn a_lease_can_be_used_on_another_runtime_when_its_own_is_gone() {
    let server = RedisServer::start();
    let first = runtime();
    let client = connect(&first, &server);
    let lease = first.block_on(client.acquire("a").ttl(LONG).into_future()).unwrap();
    drop(first);
    let second = runtime();
    second.block_on(async {
        lease.renew(LONG).await.unwrap();
        assert!(lease.remaining().await.unwrap() > MS);
        lease.release().await.unwrap();
        client.acquire("b").await.unwrap().release().await.unwrap();
    });
    assert!(!is_held(&server, "a"));
}

/// A runtime that nobody polls must not hold up the others.
#[test]
fn a_client_made_on_an_idle_runtime_works_on_another() {
    let server = RedisServer::start();
    let idle = runtime();
    let client = connect(&idle, &server);
    drop(idle.block_on(client.acquire("warm").into_future()).unwrap());
    runtime().block_on(async {
        client.acquire("a").no_wait().await.unwrap().release().await.unwrap();
    });
    drop(idle);
}

#[test]
fn one_client_serves_many_runtimes_and_keeps_no_connection_of_those_gone() {
    let server = RedisServer::start();
    let first = runtime();
    let client = connect(&first, &server);
    let counter = Arc::new(AtomicU64::new(0));
    let pace = Backoff::exponential(MS, 10 * MS);
    for _ in 0..3 {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (client, counter) = (client.clone(), Arc::clone(&counter));
                thread::spawn(move || {
                    runtime().block_on(async {
                        for _ in 0..25 {
                            let lease = client.acquire("a").retry(pace).await.unwrap();
                            let seen = counter.load(Ordering::SeqCst);
                            tokio::task::yield_now().await;
                            counter.store(seen + 1, Ordering::SeqCst);
                            lease.release().await.unwrap();
                        }
                    });
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    }
    assert_eq!(counter.load(Ordering::SeqCst), 300);
    // The first runtime's, the keeper's, and the one that asks.
    first.block_on(eventually("the connections of the others are closed", async || {
        server.run::<String>(&["CLIENT", "LIST"]).lines().count() <= 3
    }));
}

/// However many tasks come first, a runtime has one connection.
#[test]
fn a_crowd_on_a_new_runtime_makes_one_connection() {
    let server = RedisServer::start();
    let connections = || {
        let stats: String = server.run(&["INFO", "stats"]);
        let count = stats.lines().find_map(|l| l.strip_prefix("total_connections_received:"));
        count.unwrap().trim().parse::<u64>().unwrap()
    };
    for _ in 0..10 {
        let client = connect(&runtime(), &server);
        let many = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        let before = connections();
        many.block_on(async {
            let crowd: Vec<_> = (0..32)
                .map(|n| {
                    let client = client.clone();
                    tokio::spawn(async move {
                        for _ in 0..20 {
                            client.inspect(format!("name {n}")).await.unwrap();
                        }
                    })
                })
                .collect();
            for task in crowd {
                task.await.unwrap();
            }
        });
        // One for the runtime, and one for each of our two looks at the statistics.
        assert!(connections() - before <= 2, "{} connections", connections() - before);
    }
}

/// Fault row 8: the runtime goes while it is connecting.
#[test]
fn a_runtime_that_shuts_down_while_connecting_brings_down_nobody_else() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(&server.address());
    let first = runtime();
    let client = first.block_on(leasehold::connect(&proxy.url())).unwrap();
    proxy.set_latency(50 * MS);
    for _ in 0..20 {
        let other = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let acquiring = client.acquire("a").ttl(LONG);
        other.spawn(async move { acquiring.await.map(drop) });
        thread::sleep(5 * MS);
        other.shutdown_background();
    }
    becomes_free(&server, "a");
    let lease = first.block_on(client.acquire("a").ttl(1_500 * MS).into_future()).unwrap();
    thread::sleep(2_000 * MS);
    assert!(lease.is_held(), "the keeper is still there");
}

#[test]
fn without_a_runtime_an_acquisition_on_redis_is_an_error_and_not_a_panic() {
    let server = RedisServer::start();
    let client = connect(&runtime(), &server);
    let mut acquiring = client.acquire("a").no_wait().into_future();
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Err(error)) = acquiring.as_mut().poll(&mut context) else { panic!() };
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}
