//! Clients on connections that the user made.

#![cfg(feature = "redis")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{ErrorKind, redis};
use leasehold_testing::{FaultProxy, RedisServer, eventually};

const MS: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_multiplexed_connection_works_until_it_breaks_and_then_says_so() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(&server.address());
    let client = redis::Client::open(proxy.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let locks = leasehold::builder().patience(100 * MS).with_connection(connection).unwrap();
    let lease = locks.acquire("a").await.unwrap();
    assert!(locks.try_acquire("a").await.unwrap().is_none());
    lease.release().await.unwrap();

    proxy.cut_all();
    let error = locks.acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("never reconnects"), "{error}");
}

#[tokio::test]
async fn a_connection_manager_recovers_by_itself() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(&server.address());
    let client = redis::Client::open(proxy.url()).unwrap();
    let manager = client.get_connection_manager().await.unwrap();
    let locks = leasehold::builder().with_connection(manager).unwrap();
    for _ in 0..3 {
        let lease = locks.acquire("a").await.unwrap();
        proxy.cut_all();
        lease.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_factory_is_asked_for_each_request() {
    let server = RedisServer::start();
    let client = redis::Client::open(server.url()).unwrap();
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let locks = leasehold::builder()
        .with_factory(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let client = client.clone();
            async move { client.get_multiplexed_async_connection().await }
        })
        .unwrap();
    let lease = locks.acquire("a").ttl(900 * MS).await.unwrap();
    let before = made.load(Ordering::SeqCst);
    eventually("renewed by way of the factory", async || made.load(Ordering::SeqCst) > before + 1)
        .await;
    assert!(lease.is_held());
    lease.release().await.unwrap();
    assert!(locks.inspect("a").await.unwrap().is_free());
}

#[tokio::test]
async fn a_factory_that_fails_is_an_unreachable_store() {
    let locks = leasehold::builder()
        .patience(50 * MS)
        .with_factory(|| async { Err::<redis::aio::MultiplexedConnection, _>("the pool is empty") })
        .unwrap();
    let error = locks.acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("the pool is empty"), "{error}");
}

/// With a URL for the keeper, renewals do not depend on the user's connection.
#[tokio::test]
async fn a_keeper_of_its_own_outlives_the_given_connection() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(&server.address());
    let client = redis::Client::open(proxy.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let locks = leasehold::builder()
        .keeper_url(server.url())
        .patience(100 * MS)
        .with_connection(connection)
        .unwrap();
    let lease = locks.acquire("a").ttl(900 * MS).await.unwrap();
    proxy.refuse();
    tokio::time::sleep(2_000 * MS).await;
    assert!(lease.is_held(), "renewed all the while");
    drop(lease);
    eventually("released by the keeper", async || server.run::<i64>(&["EXISTS", "a"]) == 0).await;
}

/// A factory that panics on the keeper's thread costs a try, and not the lease.
#[tokio::test]
async fn a_factory_that_panics_once_does_not_end_the_renewing() {
    let server = RedisServer::start();
    let client = redis::Client::open(server.url()).unwrap();
    let panics = Arc::new(AtomicUsize::new(2));
    let left = Arc::clone(&panics);
    let locks = leasehold::builder()
        .with_factory(move || {
            let (client, panics) = (client.clone(), Arc::clone(&panics));
            async move {
                let on_keeper = std::thread::current().name() == Some("leasehold-keeper");
                if on_keeper && panics.load(Ordering::SeqCst) > 0 {
                    panics.fetch_sub(1, Ordering::SeqCst);
                    panic!("on purpose");
                }
                client.get_multiplexed_async_connection().await
            }
        })
        .unwrap();
    let lease = locks.acquire("a").ttl(1_500 * MS).await.unwrap();
    tokio::time::sleep(3_500 * MS).await;
    assert_eq!(left.load(Ordering::SeqCst), 0);
    assert!(lease.is_held());
    lease.release().await.unwrap();
}

#[tokio::test]
async fn bad_options_are_refused() {
    let server = RedisServer::start();
    let client = redis::Client::open(server.url()).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let with = |builder: leasehold::Builder| builder.with_connection(connection.clone());
    assert!(with(leasehold::builder().keeper_url("redis://")).is_err());
    assert!(with(leasehold::builder().prefix("a\nb")).is_err());
    assert!(with(leasehold::builder().command_timeout(Duration::ZERO)).is_err());
    assert!(with(leasehold::builder().connect_timeout(Duration::ZERO)).is_err());
}
