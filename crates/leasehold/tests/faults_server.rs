//! Servers that forget, refuse, are full, are asleep, or hold something else than a lock.

#![cfg(feature = "redis")]

use std::future::IntoFuture;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::{
    AcquireError, Client, ConnectError, ErrorKind, ForceReleased, LockState, LossReason,
    RefusalCause, ReleaseError, Remaining,
};
use leasehold_testing::{RedisServer, ServerOptions, eventually, free_port};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

async fn connect(server: &RedisServer) -> Client {
    leasehold::connect(&server.url()).await.unwrap()
}

/// Fault row 15.
#[tokio::test]
async fn flushed_scripts_are_loaded_again_unseen() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    for _ in 0..3 {
        let lease = client.acquire("a").ttl(900 * MS).await.unwrap();
        for _ in 0..2 {
            server.run::<()>(&["SCRIPT", "FLUSH"]);
            lease.renew(900 * MS).await.unwrap();
            server.run::<()>(&["SCRIPT", "FLUSH"]);
            lease.remaining().await.unwrap();
            server.run::<()>(&["SCRIPT", "FLUSH"]);
            tokio::time::sleep(400 * MS).await;
            assert!(lease.is_held(), "the keeper loads them too");
        }
        server.run::<()>(&["SCRIPT", "FLUSH"]);
        lease.release().await.unwrap();
    }
}

/// Fault row 16.
#[tokio::test]
async fn a_server_that_forgot_everything_loses_leases_but_fences_go_on_growing() {
    let mut server = RedisServer::start();
    let client = connect(&server).await;
    let mut last_fence = 0;
    for _ in 0..3 {
        let lease = client.acquire("a").ttl(3 * SECOND).await.unwrap();
        assert!(lease.fence() > last_fence);
        last_fence = lease.fence();
        server.restart_empty();
        assert_eq!(lease.lost().await, LossReason::Released);
        assert!(!lease.is_held());
    }
}

#[tokio::test]
async fn fences_grow_although_the_counter_is_lost_or_spoilt() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let mut last_fence = 0;
    let counter = "leasehold:1:fence";
    let spoils: [&[&str]; 5] = [
        &["DEL", counter],
        &["SET", counter, "nonsense"],
        &["SET", counter, "-5"],
        &["FLUSHALL"],
        &["EVAL", "redis.call('DEL', KEYS[1]) redis.call('LPUSH', KEYS[1], 1)", "1", counter],
    ];
    for spoil in spoils {
        let lease = client.acquire("a").await.unwrap();
        assert!(lease.fence() > last_fence, "after {spoil:?}");
        last_fence = lease.fence();
        lease.release().await.unwrap();
        server.run::<redis::Value>(spoil);
    }
    // A server whose clock once was far ahead has a counter above its time.
    let ahead = last_fence + 1_000_000_000_000;
    server.run::<()>(&["SET", counter, &ahead.to_string()]);
    assert_eq!(client.acquire("a").await.unwrap().fence(), ahead + 1);
}

/// Fault rows 20 and 22: what cannot be exact is refused, and nothing is left behind.
#[tokio::test]
async fn a_counter_beyond_exact_numbers_is_refused_before_anything_is_written() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    server.run::<()>(&["SET", "leasehold:1:fence", "9007199254740992"]);
    let error = client.acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert!(error.to_string().contains("2^53"), "{error}");
    assert_eq!(server.keys(), ["leasehold:1:fence"]);
}

/// Fault row 20, invariant I6.
#[tokio::test]
async fn no_key_lives_for_ever_but_the_counter() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let _lease = client.acquire("a").ttl(SECOND).await.unwrap();
    eventually("facts are recorded", async || server.keys().len() == 3).await;
    for key in server.keys() {
        let left: i64 = server.run(&["PTTL", &key]);
        assert_eq!(left < 0, key == "leasehold:1:fence", "{key}: {left}");
    }
}

/// Fault row 19.
#[tokio::test]
async fn a_full_server_refuses_claims_and_lets_renewals_and_releases_pass() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let lease = client.acquire("a").ttl(1_500 * MS).await.unwrap();
    let other = client.acquire("b").await.unwrap();
    server.run::<()>(&["CONFIG", "SET", "maxmemory", "1"]);

    let error = client.acquire("c").await.unwrap_err();
    let AcquireError::Refused(refused) = &error else { panic!("{error}") };
    assert_eq!(refused.cause(), RefusalCause::OutOfMemory);
    assert!(error.to_string().contains("maxmemory"), "the server's words: {error}");

    lease.renew(1_500 * MS).await.unwrap();
    // The keeper's first renewal also writes the facts.
    eventually("recorded", async || {
        client.inspect("a").await.unwrap().holder().unwrap().fence() == Some(lease.fence())
    })
    .await;
    assert!(lease.is_held());
    lease.release().await.unwrap();
    drop(other);
    eventually("released", async || client.inspect("b").await.unwrap().is_free()).await;
}

/// Fault row 23.
#[tokio::test]
async fn a_key_of_another_type_is_foreign_and_not_busy() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    server.run::<()>(&["HSET", "a", "owner", "1"]);
    for error in
        [client.acquire("a").await.unwrap_err(), client.try_acquire("a").await.unwrap_err()]
    {
        let AcquireError::Refused(refused) = &error else { panic!("{error}") };
        assert_eq!(refused.cause(), RefusalCause::ForeignKey);
        assert!(error.to_string().contains("hash"), "{error}");
    }
    let seen = client.inspect("a").await.unwrap();
    assert!(matches!(seen.state(), LockState::Foreign { type_name } if &**type_name == "hash"));
    assert_eq!(client.force_release("a").await.unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(server.run::<i64>(&["EXISTS", "a"]), 1, "left alone");
}

/// Fault row 23, for a lease that is overwritten while it is held.
#[tokio::test]
async fn a_lease_overwritten_by_another_type_is_taken() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let lease = client.acquire("a").ttl(SECOND).await.unwrap();
    server.run::<i64>(&["DEL", "a"]);
    server.run::<()>(&["HSET", "a", "owner", "1"]);
    assert_eq!(lease.lost().await, LossReason::Taken);
    assert_eq!(server.run::<i64>(&["PTTL", "a"]), -1, "left alone");

    server.run::<i64>(&["DEL", "a"]);
    let (one, two) = (client.acquire("a").await.unwrap(), client.acquire("b").await.unwrap());
    let seen = client.inspect("b").await.unwrap();
    for name in ["a", "b"] {
        server.run::<i64>(&["DEL", name]);
        server.run::<()>(&["HSET", name, "owner", "1"]);
    }
    let ReleaseError::Lost(lost) = one.release().await.unwrap_err() else { panic!() };
    assert_eq!(lost.reason(), LossReason::Taken);
    let outcome = client.force_release_seen("b", &seen).await.unwrap();
    assert!(matches!(outcome, ForceReleased::Changed));
    assert_eq!(two.remaining().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(two.lost().await, LossReason::Taken);
}

/// Fault row 23.
#[tokio::test]
async fn a_key_without_an_end_is_not_waited_for_in_silence() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    server.run::<()>(&["SET", "a", "0123456789abcdef"]);
    let error = client.acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("without an end"), "{error}");
    assert!(!error.to_string().contains("0123456789abcdef"), "a foreign value may be a secret");
    let error = client.acquire("a").wait(50 * MS).await.unwrap_err();
    assert!(error.to_string().contains("without an end"), "{error}");
    let seen = client.inspect("a").await.unwrap();
    assert_eq!(seen.holder().unwrap().remaining(), Remaining::Forever);
    assert_eq!(seen.holder().unwrap().metadata(), None);

    let waiting = tokio::spawn(client.acquire("a").wait(LONG).into_future());
    tokio::time::sleep(20 * MS).await;
    server.run::<i64>(&["DEL", "a"]);
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// Plain string locks of other clients exclude us and we exclude them.
#[tokio::test]
async fn plain_string_locks_of_others_count() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    for value in ["AbCdEfGh01234567", "Zm9vYmFyYmF6cXV4MTIzNA==", "4711_1", "x"] {
        server.run::<()>(&["SET", "a", value, "NX", "PX", "60000"]);
        assert!(client.try_acquire("a").await.unwrap().is_none(), "{value}");
        server.run::<i64>(&["DEL", "a"]);
        let lease = client.acquire("a").no_wait().await.unwrap();
        let theirs: Option<String> = server.run(&["SET", "a", value, "NX", "PX", "60000"]);
        assert_eq!(theirs, None, "{value}");
        lease.release().await.unwrap();
    }
    // What bsm/redislock writes: its token, then metadata.
    let value = format!("{}host-3", "A".repeat(22));
    server.run::<()>(&["SET", "a", &value, "PX", "60000"]);
    let seen = client.inspect("a").await.unwrap();
    assert_eq!(seen.holder().unwrap().metadata(), Some(&b"host-3"[..]));
    // A prefix of somebody's value is not theirs to take over.
    assert!(client.try_acquire("a").await.unwrap().is_none());
    server.run::<i64>(&["DEL", "a"]);
}

/// Fault row 18: READONLY, and then MASTERDOWN.
#[tokio::test]
async fn a_replica_is_unreachable_and_used_again_once_it_is_a_primary() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let impatient = leasehold::builder().patience(100 * MS).connect(&server.url()).await.unwrap();
    let nobody = free_port().to_string();
    let held = client.acquire("held").ttl(LONG).await.unwrap();
    server.run::<()>(&["REPLICAOF", "127.0.0.1", &nobody]);
    for stale in ["yes", "no"] {
        server.run::<()>(&["CONFIG", "SET", "replica-serve-stale-data", stale]);
        for name in ["a", "held"] {
            let error = impatient.try_acquire(name).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unreachable, "{name}: {error}");
        }
    }
    let waiting = tokio::spawn(client.acquire("a").into_future());
    tokio::time::sleep(200 * MS).await;
    server.run::<()>(&["REPLICAOF", "NO", "ONE"]);
    waiting.await.unwrap().unwrap().release().await.unwrap();
    held.release().await.unwrap();
}

/// Fault row 18: LOADING.
#[tokio::test]
async fn a_server_that_is_loading_is_waited_for() {
    let server = ServerOptions::default()
        .arguments(["--enable-debug-command", "yes", "--key-load-delay", "1000"])
        .arguments(["--loading-process-events-interval-bytes", "1024"])
        .start();
    let fill = "for i = 1, 1500 do redis.call('SET', 'filler' .. i, string.rep('x', 99)) end";
    server.run::<()>(&["EVAL", fill, "0"]);
    let client = connect(&server).await;
    let impatient = leasehold::builder().patience(MS).connect(&server.url()).await.unwrap();
    let mut connection = server.connection();
    let loading = thread::spawn(move || {
        redis::cmd("DEBUG").arg("RELOAD").exec(&mut connection).unwrap();
    });
    let mut said_loading = false;
    while !loading.is_finished() {
        if let Err(error) = impatient.try_acquire("b").await {
            assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
            said_loading |= error.to_string().contains("LOADING");
            client.acquire("a").await.unwrap().release().await.unwrap();
        }
    }
    loading.join().unwrap();
    assert!(said_loading, "the server was never seen loading");
}

/// Fault row 18: a server busy with somebody's endless script.
#[tokio::test]
async fn a_server_busy_with_a_script_is_waited_for() {
    let server = ServerOptions::default().arguments(["--lua-time-limit", "50"]).start();
    let client = connect(&server).await;
    let mut connection = server.connection();
    let script = thread::spawn(move || {
        let _ = redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut connection);
    });
    let mut asking = server.connection();
    eventually("the server says that it is busy", async || {
        let answer = redis::cmd("GET").arg("a").query::<Option<String>>(&mut asking);
        answer.is_err_and(|error| error.code() == Some("BUSY"))
    })
    .await;
    let waiting = tokio::spawn(client.acquire("a").into_future());
    tokio::time::sleep(100 * MS).await;
    assert!(!waiting.is_finished());
    server.run::<()>(&["SCRIPT", "KILL"]);
    script.join().unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

/// What a `main` that returns the error prints is the message.
#[tokio::test]
async fn errors_read_well_in_debug_too() {
    let error = leasehold::connect("redis://127.0.0.1:1").await.unwrap_err();
    let shown = format!("{error:?}");
    assert!(shown.starts_with("unreachable: store unreachable: 127.0.0.1:1: "), "{shown}");
    assert!(shown.ends_with("check that the server runs, and its address"), "{shown}");
}

/// Fault row 24.
#[tokio::test]
async fn a_paused_server_leaves_only_the_rest_of_the_ttl() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    server.run::<()>(&["CLIENT", "PAUSE", "500", "ALL"]);
    let start = Instant::now();
    let lease = client.acquire("a").ttl(10 * SECOND).fixed().await.unwrap();
    assert!(lease.valid_for() + start.elapsed() <= 10 * SECOND);
}

/// Fault rows 5 and 24, with the whole server frozen past the TTL.
#[tokio::test]
async fn a_frozen_server_loses_the_lease_here_before_it_is_free_there() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let lease = client.acquire("a").ttl(SECOND).await.unwrap();
    server.pause();
    assert_eq!(lease.lost().await, LossReason::Expired);
    server.resume();
    eventually("free", async || client.inspect("a").await.unwrap().is_free()).await;
    assert!(!lease.is_held(), "a lease does not come back");
    client.acquire("a").await.unwrap().release().await.unwrap();
}

/// Fault row 25.
#[tokio::test]
async fn wrong_credentials_fail_at_once_and_are_not_shown() {
    let server = ServerOptions::default().arguments(["--requirepass", "right"]).start();
    let with = |user: &str| format!("redis://{user}@{}", server.address());
    for url in [server.url(), with(":hunter2"), with("nobody:hunter2")] {
        let error = leasehold::connect(&url).await.unwrap_err();
        let ConnectError::Refused(refused) = &error else { panic!("{error}") };
        assert_eq!(refused.cause(), RefusalCause::Credentials, "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
    let client = leasehold::connect(&with(":right")).await.unwrap();
    client.acquire("a").await.unwrap().release().await.unwrap();
    assert!(!format!("{client:?}").contains("right"), "{client:?}");
    let builder = leasehold::builder().keeper_url(with(":right"));
    assert!(!format!("{builder:?}").contains("right"), "{builder:?}");
}

/// Fault row 25.
#[tokio::test]
async fn missing_permissions_are_refused_at_once() {
    let server = RedisServer::start();
    server.run::<()>(&["ACL", "SETUSER", "clerk", "on", ">secret", "~*", "+ping"]);
    let url = format!("redis://clerk:secret@{}", server.address());
    let client = leasehold::connect(&url).await.unwrap();
    let error = client.acquire("a").await.unwrap_err();
    let AcquireError::Refused(refused) = &error else { panic!("{error}") };
    assert_eq!(refused.cause(), RefusalCause::Permission, "{error}");

    // Keys that the user may not touch: refused before anything is written.
    server.run::<()>(&["ACL", "SETUSER", "clerk", "resetkeys", "~other:*", "+@all"]);
    let error = client.acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(server.keys().is_empty());

    // A command inside the script that the user may not run.
    server.run::<()>(&["ACL", "SETUSER", "clerk", "allkeys", "-time"]);
    let error = client.acquire("a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(server.keys().is_empty());
}

/// An operator's convenience costs nobody a lease.
#[tokio::test]
async fn facts_that_may_not_be_written_are_left_out() {
    let server = RedisServer::start();
    let rule = "ACL SETUSER clerk on >secret ~order:* ~leasehold:1:fence ~*:line ~*:places +@all";
    server.run::<()>(&rule.split(' ').collect::<Vec<_>>());
    let url = format!("redis://clerk:secret@{}", server.address());
    let client = leasehold::connect(&url).await.unwrap();
    let lease = client.acquire("order:1").ttl(1_200 * MS).await.unwrap();
    tokio::time::sleep(3_000 * MS).await;
    assert!(lease.is_held());
    lease.renew(LONG).await.unwrap();
    let grant = lease.detach().unwrap();
    client.resume(&grant).await.unwrap().release().await.unwrap();
    assert_eq!(server.run::<i64>(&["EXISTS", "order:1"]), 0);
}

/// Fault row 20: a script that fails half-way undoes what it has done, since the server does not.
#[tokio::test]
async fn an_owners_claim_that_is_refused_leaves_nothing_behind() {
    let server = RedisServer::start();
    let rights = "ACL SETUSER clerk on >secret ~* +@all -@sortedset";
    server.run::<()>(&rights.split(' ').collect::<Vec<_>>());
    let url = format!("redis://clerk:secret@{}", server.address());
    let clerk = leasehold::connect(&url).await.unwrap();
    for change in ["-zadd", "+@sortedset -pexpireat"] {
        let words = ["ACL", "SETUSER", "clerk"].into_iter().chain(change.split(' '));
        server.run::<()>(&words.collect::<Vec<_>>());
        let error = clerk.acquire_all(["a", "b"]).owner("x").await.unwrap_err();
        let AcquireError::Refused(refused) = &error else { panic!("{error}") };
        assert_eq!(refused.cause(), RefusalCause::Permission, "{error}");
        assert!(server.keys().iter().all(|key| key == "leasehold:1:fence"), "{:?}", server.keys());
    }

    // Where a plain client of the same owner is in already.
    server.run::<()>(&["SET", "b", "x", "PX", "60000"]);
    clerk.acquire_all(["a", "b"]).owner("x").await.unwrap_err();
    assert_eq!(server.keys(), ["b", "leasehold:1:fence"]);

    let client = leasehold::connect(&server.url()).await.unwrap();
    server.run::<()>(&["SET", "{b}:leasehold:1:holds", "no set"]);
    let error = client.acquire_all(["a", "b"]).owner("x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(server.run::<i64>(&["EXISTS", "a", "{a}:leasehold:1:holds"]), 0);
}

/// One lock whose side keys somebody spoilt does not cost its neighbours their renewal.
#[tokio::test]
async fn a_spoilt_lock_of_an_owner_is_lost_alone() {
    let server = RedisServer::start();
    let client = leasehold::connect(&server.url()).await.unwrap();
    let spoilt = client.acquire("spoilt").owner("x").ttl(1_200 * MS).await.unwrap();
    let other = client.acquire("other").owner("y").ttl(1_200 * MS).await.unwrap();
    server.run::<()>(&["SET", "{spoilt}:leasehold:1:holds", "no set"]);
    assert_eq!(spoilt.lost().await, LossReason::Released);
    tokio::time::sleep(2_400 * MS).await;
    assert!(other.is_held());
}

/// A counter that somebody spoilt is no number: fences go on from the clock.
#[tokio::test]
async fn a_spoilt_counter_does_not_stop_owners() {
    let server = RedisServer::start();
    let client = leasehold::connect(&server.url()).await.unwrap();
    server.run::<()>(&["SET", "leasehold:1:fence", "junk"]);
    client.acquire("a").owner("x").await.unwrap().release().await.unwrap();
}

/// The rights that the manual names are enough.
#[tokio::test]
async fn the_rights_in_the_manual_are_enough() {
    let server = RedisServer::start();
    let manual = include_str!("../src/manual/stores.rs");
    let (_, rule) = manual.split_once("ACL SETUSER locks").unwrap();
    let (rule, _) = rule.split_once("```").unwrap();
    let mut words = vec!["ACL", "SETUSER", "locks"];
    words.extend(rule.split_whitespace().filter(|word| *word != "//!"));
    server.run::<()>(&words);
    server.run::<()>(&["ACL", "SETUSER", "default", "-@all", "+acl", "+auth", "+hello"]);

    let url = format!("redis://locks:secret@{}", server.address());
    let locks = leasehold::builder().prefix("shop:").connect(&url).await.unwrap();
    let lease = locks.acquire("stock").ttl(SECOND).await.unwrap();
    assert!(locks.try_acquire("stock").await.unwrap().is_none());
    let next = tokio::spawn(locks.acquire("stock").ttl(SECOND).into_future());
    eventually("it waits", async || !locks.inspect("stock").await.unwrap().waiters().is_empty())
        .await;
    lease.release().await.unwrap();
    let lease = next.await.unwrap().unwrap();
    lease.renew(SECOND).await.unwrap();
    lease.remaining().await.unwrap();
    eventually("recorded", async || {
        locks.inspect("stock").await.unwrap().holder().unwrap().fence().is_some()
    })
    .await;
    lease.release().await.unwrap();
    drop(locks.acquire("stock").await.unwrap());
    eventually("released", async || locks.inspect("stock").await.unwrap().is_free()).await;
    let _lease = locks.acquire("stock").await.unwrap();
    locks.force_release("stock").await.unwrap();
    let [one, other] = [(); 2].map(|()| locks.acquire_all(["till", "stock"]).owner("x"));
    let (one, other) = (one.await.unwrap(), other.ttl(SECOND).await.unwrap());
    other.renew(SECOND).await.unwrap();
    other.remaining().await.unwrap();
    assert!(locks.inspect("till").await.unwrap().holder().unwrap().fence().is_some());
    one.release().await.unwrap();
    other.release().await.unwrap();
    assert_eq!(locks.inspect("other").await.unwrap().holder(), None);
}

#[tokio::test]
async fn nobody_there_is_unreachable_at_once() {
    let error = leasehold::connect(&format!("redis://127.0.0.1:{}", free_port())).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn somebody_who_does_not_speak_redis_is_refused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.try_write(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            tokio::spawn(async move {
                let _stream = stream;
                std::future::pending::<()>().await
            });
        }
    });
    let error = leasehold::connect(&format!("redis://{address}")).await.unwrap_err();
    let ConnectError::Refused(refused) = &error else { panic!("{error}") };
    assert_eq!(refused.cause(), RefusalCause::WrongServer);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(error.to_string().contains("does not speak"), "{error}");
}

#[tokio::test]
async fn bad_urls_are_invalid_before_anything_is_sent() {
    for url in ["", "nonsense", "http://host", "redis:/host", "redis://", "memory:x", "redis://h/x"]
    {
        let error = leasehold::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url:?}: {error}");
    }
    for url in ["localhost:6379", "127.0.0.1:6379/0"] {
        let error = leasehold::connect(url).await.unwrap_err().to_string();
        assert!(error.contains("put redis:// before the host"), "{url}: {error}");
    }
    let error = leasehold::connect("ftp://host").await.unwrap_err();
    assert!(error.to_string().contains("ftp") && error.to_string().contains("redis://"), "{error}");
}

#[tokio::test]
async fn databases_sockets_and_valkey_urls_work() {
    let server = RedisServer::start();
    let (address, socket) = (server.address(), server.socket());
    let zero = connect(&server).await;
    let _held = zero.acquire("a").await.unwrap();
    let three = leasehold::connect(&format!("redis://{address}/3")).await.unwrap();
    let other = three.acquire("a").no_wait().await.unwrap();
    let socket = format!("redis+unix://{}", socket.display());
    for url in [format!("valkey://{address}"), format!("redis://{address}?protocol=resp3"), socket]
    {
        let same = leasehold::connect(&url).await.unwrap();
        assert!(same.try_acquire("a").await.unwrap().is_none(), "{url}");
        same.acquire("b").await.unwrap().release().await.unwrap();
    }
    other.release().await.unwrap();
}

#[tokio::test]
async fn prefixes_keep_clients_apart_and_name_the_key() {
    let server = RedisServer::start();
    let shop = leasehold::builder().prefix("shop:").connect(&server.url()).await.unwrap();
    let plain = connect(&server).await;
    let lease = shop.acquire("stock").await.unwrap();
    assert_eq!(lease.name(), "stock");
    assert_eq!(server.keys(), ["leasehold:1:fence", "shop:stock"]);
    assert!(plain.inspect("stock").await.unwrap().is_free());
    assert!(plain.try_acquire("shop:stock").await.unwrap().is_none(), "one key, one lock");
    lease.release().await.unwrap();
}
