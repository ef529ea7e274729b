//! What an operator finds in the log, and that no secret is in it.

#![cfg(feature = "redis")]

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_testing::{Fault, FaultProxy, ServerOptions, eventually};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

const MS: Duration = Duration::from_millis(1);

/// Writes everything down, as one line for each event and span.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn has(&self, level: Level, parts: &[&str]) -> bool {
        let level = level.to_string();
        let lines = self.0.lock().unwrap();
        lines
            .iter()
            .any(|line| line.starts_with(&level) && parts.iter().all(|part| line.contains(part)))
    }

    fn note(&self, metadata: &Metadata<'_>, record: impl FnOnce(&mut Line)) {
        let mut line = Line(format!("{} {}", metadata.level(), metadata.name()));
        record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note(span.metadata(), |line| span.record(line));
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        self.note(event.metadata(), |line| event.record(line));
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn the_log_tells_what_happened_and_no_secrets() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let server = ServerOptions::default().start();
    server.run::<()>(&["ACL", "SETUSER", "clerk", "on", ">hunter2", "~*", "+@all"]);
    let proxy = FaultProxy::start(&server.address());
    let url = proxy.url().replace("redis://", "redis://clerk:hunter2@");
    let locks = leasehold::connect(&url).await.unwrap();
    let mut tokens = Vec::new();

    let lease = locks.acquire("a").await.unwrap();
    tokens.push(lease.token().as_str().to_owned());
    assert!(log.has(Level::DEBUG, &["acquire", "name=\"a\""]), "the span: {log:?}");
    assert!(log.has(Level::DEBUG, &["acquired", "name=\"a\"", "fence="]), "{log:?}");

    let waiter = tokio::spawn(locks.acquire("a").into_future());
    eventually("the waiter has been told that it is held", async || {
        server.run::<String>(&["INFO", "commandstats"]).contains("cmdstat_persist")
    })
    .await;
    tokio::time::sleep(20 * MS).await;
    lease.release().await.unwrap();
    let lease = waiter.await.unwrap().unwrap();
    tokens.push(lease.token().as_str().to_owned());
    assert!(log.has(Level::INFO, &["acquired after a wait", "waited=", "tries="]), "{log:?}");

    lease.renew(1_000 * MS).await.unwrap();
    locks.force_release("a").await.unwrap();
    assert!(log.has(Level::WARN, &["broken by force"]), "{log:?}");
    lease.lost().await;
    assert!(log.has(Level::WARN, &["lease lost", "name=\"a\"", "released"]), "{log:?}");

    // Renewals fail for most of the lease's time, and then one gets through.
    let lease = locks.acquire("late").ttl(4_000 * MS).await.unwrap();
    tokens.push(lease.token().as_str().to_owned());
    proxy.strike("late", Fault::LoseReply, usize::MAX);
    eventually("failed renewals", async || log.has(Level::WARN, &["renewal failed"])).await;
    eventually("most of the time is over", async || lease.valid_for() < 800 * MS).await;
    proxy.heal();
    eventually("renewed late", async || log.has(Level::WARN, &["renewed late", "late"])).await;

    proxy.refuse();
    let error = lease.release().await.unwrap_err();
    assert!(log.has(Level::WARN, &["release not confirmed", "late"]), "{log:?} {error}");

    for line in log.0.lock().unwrap().iter() {
        assert!(!line.contains("hunter2"), "a password: {line}");
        assert!(!tokens.iter().any(|token| line.contains(token)), "a token: {line}");
    }
}

impl Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.lock().unwrap().iter()).finish()
    }
}
