//! One name, one lease.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use leasehold::{
    AcquireError, Backoff, Client, ErrorKind, ForceReleased, Grant, InvalidInput, LossReason,
    ReleaseError, Remaining, RenewError, ResumeError, RunError,
};
use leasehold_testing::eventually;

use crate::{MS, SECOND, SHORT};

pub(crate) async fn released_names_are_free(one: Client, other: Client) {
    let lease = one.acquire("a").await.unwrap();
    assert!(lease.is_held());
    assert_eq!(lease.name(), "a");
    assert_eq!(lease.token().as_str().len(), 22);
    lease.release().await.unwrap();
    other.acquire("a").no_wait().await.unwrap().release().await.unwrap();
}

pub(crate) async fn a_held_name_is_busy_and_tells_the_holder(one: Client, other: Client) {
    let lease = one.acquire("a").metadata("pod-7").await.unwrap();
    let error = other.acquire("a").no_wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let text = error.to_string();
    assert!(text.contains("pod-7") && text.contains("more"), "{text}");
    let AcquireError::Busy(busy) = error else { panic!() };
    assert_eq!(busy.name(), "a");
    assert_eq!(busy.holder().metadata(), Some(&b"pod-7"[..]));
    assert!(matches!(busy.holder().remaining(), Remaining::For(left) if left > SECOND));
    assert!(lease.is_held());
    lease.release().await.unwrap();
}

pub(crate) async fn trying_a_held_name_answers_none(one: Client, other: Client) {
    let lease = one.try_acquire("a").await.unwrap().unwrap();
    assert!(other.try_acquire("a").await.unwrap().is_none());
    assert!(one.try_acquire("a").await.unwrap().is_none(), "not re-entrant");
    lease.release().await.unwrap();
    assert!(other.try_acquire("a").await.unwrap().is_some());
}

pub(crate) async fn dropping_a_lease_releases_it(one: Client, other: Client) {
    drop(one.acquire("a").await.unwrap());
    other.acquire("a").await.unwrap().release().await.unwrap();
    // Also from a thread that has no runtime.
    let lease = one.acquire("a").await.unwrap();
    std::thread::spawn(move || drop(lease)).join().unwrap();
    other.acquire("a").await.unwrap().release().await.unwrap();
}

pub(crate) async fn names_do_not_block_each_other(one: Client, other: Client) {
    let mut leases = Vec::new();
    for n in 0..50 {
        leases.push(one.acquire(format!("name {n}")).no_wait().await.unwrap());
        assert!(other.try_acquire(format!("name {n}")).await.unwrap().is_none());
    }
    for lease in leases {
        lease.release().await.unwrap();
    }
}

pub(crate) async fn names_of_all_sorts_work(one: Client, other: Client) {
    let longest = "x".repeat(1_024);
    for name in
        ["a", "order:42", "two words", "日本 🦀", "{tag}:x", "{", "}", "a{}b", "*", &longest]
    {
        let lease = one.acquire(name).await.unwrap();
        assert_eq!(lease.name(), name);
        assert!(other.try_acquire(name).await.unwrap().is_none(), "{name}");
        lease.release().await.unwrap();
    }
}

pub(crate) async fn bad_input_is_refused_before_anything_is_sent(one: Client, _: Client) {
    let too_long = "x".repeat(1_025);
    for name in ["", "a\nb", "\0", &too_long, "{a}:leasehold:1:facts", "leasehold:1:fence"] {
        let error = one.acquire(name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{name:?}");
        assert_eq!(one.try_acquire(name).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(one.inspect(name).await.unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(one.force_release(name).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    for ttl in [Duration::ZERO, 9 * MS, 31 * 24 * 3_600 * SECOND, Duration::MAX] {
        let error = one.acquire("a").ttl(ttl).await.unwrap_err();
        assert!(matches!(error, AcquireError::Invalid(InvalidInput::Ttl { .. })), "{ttl:?}");
        assert!(error.to_string().contains("10ms"), "the message gives the range: {error}");
    }
    let error = one.acquire("a").metadata(vec![0; 4_097]).await.unwrap_err();
    assert!(matches!(error, AcquireError::Invalid(InvalidInput::MetadataTooLong { len: 4_097 })));
    let error = one.acquire("a").max_hold(MS).await.unwrap_err();
    assert!(matches!(error, AcquireError::Invalid(InvalidInput::MaxHold { .. })));
    let error = one.acquire("a").retry(Backoff::fixed(Duration::ZERO)).await.unwrap_err();
    assert!(matches!(error, AcquireError::Invalid(InvalidInput::Backoff { .. })));
    assert!(one.inspect("a").await.unwrap().is_free());
}

pub(crate) async fn metadata_can_be_any_bytes(one: Client, other: Client) {
    let all: Vec<u8> = (0..=255).collect();
    for metadata in [&b""[..], b"\0", b"==", &[0xff; 4_096], &all] {
        let lease = one.acquire("a").metadata(metadata).await.unwrap();
        assert_eq!(lease.metadata(), metadata);
        let seen = other.inspect("a").await.unwrap();
        assert_eq!(seen.holder().unwrap().metadata(), Some(metadata));
        lease.renew(SECOND).await.unwrap();
        lease.release().await.unwrap();
    }
}

pub(crate) async fn fences_grow_from_holder_to_holder(one: Client, other: Client) {
    let mut last = 0;
    for n in 0..200 {
        let client = if n % 2 == 0 { &one } else { &other };
        let lease = client.acquire("a").await.unwrap();
        assert!(lease.fence() > last, "{} after {last}", lease.fence());
        assert!(lease.fence() < 1 << 53, "exact in JSON and in Lua");
        last = lease.fence();
        lease.release().await.unwrap();
    }
}

pub(crate) async fn fences_are_unique_across_names(one: Client, other: Client) {
    let mut tasks = Vec::new();
    for n in 0..200 {
        let client = if n % 2 == 0 { one.clone() } else { other.clone() };
        tasks.push(tokio::spawn(async move {
            let lease = client.acquire(format!("name {n}")).await.unwrap();
            let fence = lease.fence();
            lease.release().await.unwrap();
            fence
        }));
    }
    let mut fences = HashSet::new();
    for task in tasks {
        assert!(fences.insert(task.await.unwrap()));
    }
}

pub(crate) async fn a_lease_outlives_its_ttl_by_renewal(one: Client, other: Client) {
    let lease = one.acquire("a").ttl(SHORT).await.unwrap();
    let start = Instant::now();
    while start.elapsed() < 3 * SHORT {
        assert!(other.try_acquire("a").await.unwrap().is_none());
        assert!(lease.is_held() && lease.valid_for() <= SHORT);
        tokio::time::sleep(20 * MS).await;
    }
    lease.release().await.unwrap();
}

pub(crate) async fn a_fixed_lease_runs_out_and_says_so(one: Client, _: Client) {
    let lease = one.acquire("a").ttl(100 * MS).fixed().await.unwrap();
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(!lease.is_held());
    assert_eq!(lease.valid_for(), Duration::ZERO);
    assert_eq!(lease.remaining().await.unwrap_err().kind(), ErrorKind::Lost);
}

pub(crate) async fn an_expired_lease_is_free_for_others(one: Client, other: Client) {
    let old = one.acquire("a").ttl(50 * MS).fixed().await.unwrap();
    let new = other.acquire("a").await.unwrap();
    assert!(!old.is_held(), "lost here before it is free there");
    assert!(new.fence() > old.fence());
    drop(old);
    assert!(other.inspect("a").await.unwrap().holder().is_some(), "not released by the old one");
    new.release().await.unwrap();
}

pub(crate) async fn releasing_a_lost_lease_says_lost(one: Client, other: Client) {
    let old = one.acquire("a").ttl(50 * MS).fixed().await.unwrap();
    let new = other.acquire("a").await.unwrap();
    let error = old.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    let ReleaseError::Lost(lost) = error else { panic!() };
    assert_eq!((lost.name(), lost.reason()), ("a", LossReason::Expired));
    assert!(new.is_held());
    new.release().await.unwrap();
}

pub(crate) async fn renewal_by_hand_extends_and_shortens(one: Client, _: Client) {
    let lease = one.acquire("a").ttl(SECOND).fixed().await.unwrap();
    lease.renew(60 * SECOND).await.unwrap();
    assert!(lease.valid_for() > 50 * SECOND && lease.remaining().await.unwrap() > 50 * SECOND);
    lease.renew(5 * SECOND).await.unwrap();
    assert!(lease.valid_for() <= 5 * SECOND && lease.remaining().await.unwrap() <= 5 * SECOND);
    // On a machine that takes its time, the answer may come after the end.
    let _ = lease.renew(50 * MS).await;
    assert_eq!(lease.lost().await, LossReason::Expired);
}

pub(crate) async fn renewal_by_hand_never_brings_a_lease_back(one: Client, other: Client) {
    let lease = one.acquire("a").ttl(50 * MS).fixed().await.unwrap();
    lease.lost().await;
    assert!(matches!(lease.renew(SECOND).await, Err(RenewError::Lost(_))));
    eventually("free", async || other.inspect("a").await.unwrap().is_free()).await;

    let lease = one.acquire("a").await.unwrap();
    assert!(matches!(other.force_release("a").await.unwrap(), ForceReleased::Broken(_)));
    let Err(RenewError::Lost(lost)) = lease.renew(SECOND).await else { panic!() };
    assert_eq!(lost.reason(), LossReason::Released);
    assert!(!lease.is_held());
    assert!(other.inspect("a").await.unwrap().is_free());
}

pub(crate) async fn renewal_by_hand_checks_its_ttl(one: Client, _: Client) {
    let lease = one.acquire("a").await.unwrap();
    for ttl in [Duration::ZERO, MS, Duration::MAX] {
        assert_eq!(lease.renew(ttl).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
    assert!(lease.is_held());
    lease.release().await.unwrap();
}

pub(crate) async fn max_hold_ends_a_renewed_lease(one: Client, other: Client) {
    let start = Instant::now();
    let lease = one.acquire("a").ttl(SHORT).max_hold(3 * SHORT).await.unwrap();
    assert_eq!(lease.lost().await, LossReason::MaxHold);
    assert!(start.elapsed() >= 2 * SHORT, "renewed until then");
    eventually("free", async || other.inspect("a").await.unwrap().is_free()).await;
    assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

pub(crate) async fn max_hold_limits_renewal_by_hand(one: Client, _: Client) {
    let lease = one.acquire("a").ttl(SECOND).max_hold(2 * SECOND).fixed().await.unwrap();
    lease.renew(60 * SECOND).await.unwrap();
    assert!(lease.valid_for() < 2 * SECOND && lease.remaining().await.unwrap() <= 2 * SECOND);
    let short = one.acquire("b").ttl(60 * SECOND).max_hold(SECOND).await.unwrap();
    assert!(short.remaining().await.unwrap() <= SECOND, "not even the first TTL goes beyond it");
}

pub(crate) async fn remaining_is_asked_from_the_store(one: Client, other: Client) {
    let lease = one.acquire("a").ttl(20 * SECOND).fixed().await.unwrap();
    let remaining = lease.remaining().await.unwrap();
    assert!(remaining <= 20 * SECOND && remaining > 10 * SECOND, "{remaining:?}");
    other.force_release("a").await.unwrap();
    let later = other.acquire("a").await.unwrap();
    assert!(lease.is_held(), "nothing here has heard of it yet");
    assert_eq!(lease.remaining().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(!lease.is_held(), "now it has");
    assert_eq!(lease.lost().await, LossReason::Taken);
    later.release().await.unwrap();
}

pub(crate) async fn waiting_ends_when_the_holder_releases(one: Client, other: Client) {
    let lease = one.acquire("a").await.unwrap();
    let waiter = tokio::spawn({
        let other = other.clone();
        async move { other.acquire("a").await.unwrap().fence() }
    });
    tokio::time::sleep(30 * MS).await;
    assert!(!waiter.is_finished());
    let fence = lease.fence();
    lease.release().await.unwrap();
    assert!(waiter.await.unwrap() > fence);
}

pub(crate) async fn waiting_ends_when_the_holder_runs_out(one: Client, other: Client) {
    let lease = one.acquire("a").ttl(100 * MS).fixed().await.unwrap();
    let slow = Backoff::fixed(3_600 * SECOND);
    let next = other.acquire("a").retry(slow).await.unwrap();
    assert!(next.fence() > lease.fence(), "looked again when the holder's time was up");
}

pub(crate) async fn waiting_gives_up_in_time(one: Client, other: Client) {
    let lease = one.acquire("a").await.unwrap();
    let start = Instant::now();
    let error = other.acquire("a").wait(100 * MS).await.unwrap_err();
    assert!(start.elapsed() >= 100 * MS);
    let AcquireError::Busy(busy) = error else { panic!("{error}") };
    assert!(busy.waited() >= 100 * MS && busy.tries() > 0);
    assert!(lease.is_held());
}

pub(crate) async fn tries_are_limited(one: Client, other: Client) {
    let _lease = one.acquire("a").await.unwrap();
    let attempts = [
        (Backoff::none(), 1),
        (Backoff::fixed(MS).max_tries(4), 4),
        (Backoff::exponential(MS, 4 * MS).max_tries(5).max_time(60 * SECOND), 5),
    ];
    for (backoff, tries) in attempts {
        let AcquireError::Busy(busy) = other.acquire("a").retry(backoff).await.unwrap_err() else {
            panic!()
        };
        assert_eq!(busy.tries(), tries);
    }
    let in_time = Backoff::fixed(5 * MS).max_time(30 * MS);
    assert_eq!(other.acquire("a").retry(in_time).await.unwrap_err().kind(), ErrorKind::Busy);
}

pub(crate) async fn inspection_tells_what_is_known(one: Client, other: Client) {
    assert!(other.inspect("a").await.unwrap().is_free());
    let before = SystemTime::now();
    let lease = one.acquire("a").ttl(SHORT).metadata("pod-7").await.unwrap();
    let seen = other.inspect("a").await.unwrap();
    let early = seen.holder().unwrap();
    assert_eq!(early.metadata(), Some(&b"pod-7"[..]));
    assert!(matches!(early.remaining(), Remaining::For(left) if left <= SHORT));
    assert!(!format!("{early:?}").contains(lease.token().as_str()), "no secrets");
    // The keeper tells the rest with its first renewal.
    eventually("the fence is known", async || {
        let seen = other.inspect("a").await.unwrap();
        let holder = seen.holder().expect("still held");
        assert!(!holder.outlasts_its_ttl());
        if let Some(since) = holder.since() {
            assert!(since <= SystemTime::now(), "held since the future");
            assert!(since + SECOND >= before, "held since before it was acquired");
        }
        holder.since().is_some() && holder.fence() == Some(lease.fence())
    })
    .await;
    lease.release().await.unwrap();
    let next = one.acquire("a").await.unwrap();
    let seen = other.inspect("a").await.unwrap();
    assert_eq!(seen.holder().unwrap().fence(), None, "not the last holder's");
    next.release().await.unwrap();
}

pub(crate) async fn breaking_a_lease_tells_its_holder(one: Client, other: Client) {
    assert!(matches!(other.force_release("a").await.unwrap(), ForceReleased::AlreadyFree));
    let lease = one.acquire("a").ttl(SHORT).metadata("pod-7").await.unwrap();
    let ForceReleased::Broken(holder) = other.force_release("a").await.unwrap() else { panic!() };
    assert_eq!(holder.metadata(), Some(&b"pod-7"[..]));
    assert_eq!(lease.lost().await, LossReason::Released);
    assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Lost);

    let lease = one.acquire("a").ttl(SHORT).await.unwrap();
    other.force_release("a").await.unwrap();
    let next = other.acquire("a").no_wait().await.unwrap();
    assert_eq!(lease.lost().await, LossReason::Taken);
    next.release().await.unwrap();
}

pub(crate) async fn breaking_hits_only_the_holder_that_was_seen(one: Client, other: Client) {
    let first = one.acquire("a").await.unwrap();
    let seen = other.inspect("a").await.unwrap();
    first.release().await.unwrap();
    let second = one.acquire("a").await.unwrap();
    let outcome = other.force_release_seen("a", &seen).await.unwrap();
    assert!(matches!(outcome, ForceReleased::Changed));
    second.renew(SECOND).await.unwrap();
    second.release().await.unwrap();
}

pub(crate) async fn run_gives_the_output_and_releases(one: Client, other: Client) {
    let output = one.acquire("a").await.unwrap().run(async { 42 }).await.unwrap();
    assert_eq!(output, 42);
    assert!(other.inspect("a").await.unwrap().is_free());
}

pub(crate) async fn run_is_cancelled_when_the_lease_is_lost(one: Client, other: Client) {
    struct Told(Arc<AtomicU64>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicU64::new(0));
    let told = Told(Arc::clone(&dropped));
    let lease = one.acquire("a").ttl(SHORT).await.unwrap();
    let running = tokio::spawn(lease.run(async move {
        let _told = told;
        std::future::pending::<()>().await;
    }));
    other.force_release("a").await.unwrap();
    let Err(RunError::Lost { lost, output: None }) = running.await.unwrap() else { panic!() };
    assert_eq!(lost.reason(), LossReason::Released);
    assert_eq!(dropped.load(Ordering::SeqCst), 1, "the body was dropped");
}

pub(crate) async fn run_keeps_the_output_of_a_body_that_outlived_the_lease(
    one: Client,
    other: Client,
) {
    let lease = one.acquire("a").await.unwrap();
    let error = lease
        .run(async {
            other.force_release("a").await.unwrap();
            "paid"
        })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.into_output(), Some("paid"));
}

pub(crate) async fn every_listener_hears_of_the_loss(one: Client, other: Client) {
    let lease = Arc::new(one.acquire("a").ttl(SHORT).await.unwrap());
    let listeners: Vec<_> = (0..20)
        .map(|_| {
            let lease = Arc::clone(&lease);
            tokio::spawn(async move { lease.lost().await })
        })
        .collect();
    other.force_release("a").await.unwrap();
    for listener in listeners {
        assert_eq!(listener.await.unwrap(), LossReason::Released);
    }
}

/// Fault row 7. Drives the future poll by poll, and drops it after each number of polls.
pub(crate) async fn dropping_an_acquisition_at_any_await_leaves_nothing_behind(
    one: Client,
    other: Client,
) {
    let mut polls = 0;
    loop {
        let mut acquiring = one.acquire("a").into_future();
        let mut acquired = false;
        for _ in 0..polls {
            let poll = std::future::poll_fn(|context| {
                std::task::Poll::Ready(acquiring.as_mut().poll(context))
            });
            if let std::task::Poll::Ready(lease) = poll.await {
                lease.unwrap().release().await.unwrap();
                acquired = true;
                break;
            }
            // Let whatever it waits for happen before the next poll.
            tokio::time::sleep(MS).await;
        }
        drop(acquiring);
        eventually("free again", async || other.inspect("a").await.unwrap().is_free()).await;
        if acquired {
            break;
        }
        polls += 1;
    }
}

pub(crate) async fn a_lease_outlives_its_client(one: Client, other: Client) {
    let lease = one.acquire("a").ttl(SHORT).await.unwrap();
    drop(one);
    tokio::time::sleep(2 * SHORT).await;
    assert!(lease.is_held(), "renewed all the while");
    assert!(other.try_acquire("a").await.unwrap().is_none());
    lease.release().await.unwrap();
}

pub(crate) async fn closing_releases_ends_waits_and_refuses(one: Client, other: Client) {
    let (renewed, fixed) =
        (one.acquire("a").await.unwrap(), one.acquire("b").fixed().await.unwrap());
    let waiter = tokio::spawn({
        let one = one.clone();
        async move { one.acquire("a").await }
    });
    tokio::time::sleep(20 * MS).await;
    one.close().await.unwrap();
    let closed = waiter.await.unwrap().unwrap_err();
    assert!(matches!(closed, AcquireError::Invalid(InvalidInput::Closed)));
    for lease in [renewed, fixed] {
        assert_eq!(lease.lost().await, LossReason::Closed);
        assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Lost);
    }
    let closed = one.acquire("c").await.unwrap_err();
    assert!(matches!(closed, AcquireError::Invalid(InvalidInput::Closed)));
    one.close().await.unwrap();
    for name in ["a", "b", "c"] {
        assert!(other.inspect(name).await.unwrap().is_free());
    }
}

pub(crate) async fn a_guarded_counter_loses_nothing(one: Client, other: Client) {
    let counter = Arc::new(AtomicU64::new(0));
    let pace = Backoff::exponential(MS, 20 * MS);
    let workers: Vec<_> = (0..40)
        .map(|n| {
            let client = if n % 2 == 0 { one.clone() } else { other.clone() };
            let counter = Arc::clone(&counter);
            tokio::spawn(async move {
                for _ in 0..10 {
                    let lease = client.acquire("a").retry(pace).await.unwrap();
                    let seen = counter.load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    counter.store(seen + 1, Ordering::SeqCst);
                    lease.release().await.unwrap();
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), 400);
}

pub(crate) async fn leases_and_builders_can_cross_tasks(one: Client, _: Client) {
    let builder = one.acquire("a").ttl(SECOND);
    let lease = tokio::spawn(async move { builder.await.unwrap() }).await.unwrap();
    tokio::spawn(async move { lease.release().await.unwrap() }).await.unwrap();
}

pub(crate) async fn a_detached_lease_is_resumed_elsewhere(one: Client, other: Client) {
    let lease = one.acquire("order: 42").metadata("pod-7").await.unwrap();
    let (fence, token) = (lease.fence(), *lease.token());
    let text = lease.detach().unwrap().to_string();
    assert!(other.try_acquire("order: 42").await.unwrap().is_none(), "it is still taken");

    let grant: Grant = text.parse().unwrap();
    let lease = other.resume(&grant).await.unwrap();
    assert_eq!((lease.name(), lease.fence(), *lease.token()), ("order: 42", fence, token));
    assert_eq!(lease.metadata(), b"pod-7");
    assert!(lease.is_held());
    lease.release().await.unwrap();
    assert!(one.inspect("order: 42").await.unwrap().is_free());
}

pub(crate) async fn a_grant_that_ran_out_or_was_taken_is_lost(one: Client, other: Client) {
    let lost = |error: ResumeError| match error {
        ResumeError::Lost(lost) => lost.reason(),
        other => panic!("{other}"),
    };
    let grant = one.acquire("a").ttl(50 * MS).await.unwrap().detach().unwrap();
    eventually("it has run out", async || other.inspect("a").await.unwrap().is_free()).await;
    assert_eq!(lost(other.resume(&grant).await.unwrap_err()), LossReason::Released);
    assert!(other.inspect("a").await.unwrap().is_free(), "resuming made nothing");

    let taken = other.acquire("a").await.unwrap();
    assert_eq!(lost(other.resume(&grant).await.unwrap_err()), LossReason::Taken);
    assert!(taken.is_held());

    let expired = one.acquire("b").ttl(50 * MS).fixed().await.unwrap();
    expired.lost().await;
    assert_eq!(expired.detach().unwrap_err().reason(), LossReason::Expired);

    let grant = taken.detach().unwrap();
    assert_eq!(other.resume(&grant).ttl(MS).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(other.resume(&grant).max_hold(MS).await.unwrap_err().kind(), ErrorKind::Invalid);
    other.resume(&grant).await.unwrap().release().await.unwrap();
    other.close().await.unwrap();
    assert_eq!(other.resume(&grant).await.unwrap_err().kind(), ErrorKind::Invalid);
}

/// Fault row 11.
pub(crate) async fn a_resumed_lease_is_kept_and_released_once(one: Client, other: Client) {
    let grant = one.acquire("a").ttl(SHORT).await.unwrap().detach().unwrap();
    let first = other.resume(&grant).await.unwrap();
    tokio::time::sleep(2 * SHORT).await;
    // Not renewed: so it is its release that finds out.
    let second = other.resume(&grant).fixed().await.unwrap();
    assert!(first.is_held(), "renewed all the while");
    first.release().await.unwrap();
    let next = one.acquire("a").no_wait().await.unwrap();
    let ReleaseError::Lost(lost) = second.release().await.unwrap_err() else { panic!() };
    assert_eq!(lost.reason(), LossReason::Taken, "the second release does nothing");
    next.renew(SECOND).await.unwrap();
    next.release().await.unwrap();
    let fixed = one.acquire("b").await.unwrap().detach().unwrap();
    let fixed = other.resume(&fixed).ttl(50 * MS).fixed().await.unwrap();
    assert_eq!(fixed.lost().await, LossReason::Expired);
}
