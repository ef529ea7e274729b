//! A log subscriber that is slow, or panics, on the keeper's thread.

#![cfg(feature = "redis")]

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use leasehold_testing::{RedisServer, eventually};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const MS: Duration = Duration::from_millis(1);

static MOOD: AtomicU8 = AtomicU8::new(CALM);
static AT_IT: AtomicBool = AtomicBool::new(false);
const CALM: u8 = 0;
const SLOW: u8 = 1;
const PANICKING: u8 = 2;

struct Moody;

impl Subscriber for Moody {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, _: &Event<'_>) {
        if std::thread::current().name() != Some("leasehold-keeper") {
            return;
        }
        match MOOD.load(Ordering::SeqCst) {
            SLOW => {
                AT_IT.store(true, Ordering::SeqCst);
                std::thread::sleep(500 * MS);
            }
            PANICKING => {
                AT_IT.store(true, Ordering::SeqCst);
                panic!("on purpose");
            }
            _ => {}
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// One test, since there is one subscriber for a program.
#[tokio::test]
async fn the_keeper_outlives_what_a_subscriber_does_to_it() {
    tracing::subscriber::set_global_default(Moody).unwrap();
    let server = RedisServer::start();

    // The end of a fixed lease is logged by the keeper, which panics over it.
    let client = leasehold::connect(&server.url()).await.unwrap();
    MOOD.store(PANICKING, Ordering::SeqCst);
    let _ends = client.acquire("ends").ttl(50 * MS).fixed().await.unwrap();
    let before = client.acquire("before").ttl(1_500 * MS).await.unwrap();
    eventually("it has panicked", async || AT_IT.load(Ordering::SeqCst)).await;
    MOOD.store(CALM, Ordering::SeqCst);
    let after = client.acquire("after").ttl(1_500 * MS).await.unwrap();
    tokio::time::sleep(2_500 * MS).await;
    assert!(before.is_held() && after.is_held(), "both are renewed");
    client.close().await.unwrap();

    // While the keeper is held up with one lease in hand, closing waits for the others.
    let client = leasehold::connect(&server.url()).await.unwrap();
    let _ends = client.acquire("ends").ttl(1_000 * MS).fixed().await.unwrap();
    let other = client.acquire("other").ttl(2_964 * MS).await.unwrap();
    AT_IT.store(false, Ordering::SeqCst);
    MOOD.store(SLOW, Ordering::SeqCst);
    eventually("it is held up", async || AT_IT.load(Ordering::SeqCst)).await;
    client.close().await.unwrap();
    MOOD.store(CALM, Ordering::SeqCst);
    assert!(!other.is_held());
    assert_eq!(server.run::<i64>(&["EXISTS", "other"]), 0);
}
