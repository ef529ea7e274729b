//! Replies that are lost, cut or late, and connections that break, between us and a real
//! server.

#![cfg(feature = "redis")]

use std::future::{Future, IntoFuture, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use leasehold::{AcquireError, Client, ErrorKind, LossReason, ReleaseError};
use leasehold_testing::{Fault, FaultProxy, RedisServer, eventually};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

/// A server, a proxy before it, and a client that knows only the proxy.
struct Setting {
    server: RedisServer,
    proxy: FaultProxy,
    client: Client,
}

impl Setting {
    async fn new() -> Self {
        Self::with(leasehold::builder()).await
    }

    async fn with(builder: leasehold::Builder) -> Self {
        let server = RedisServer::start();
        let proxy = FaultProxy::start(&server.address());
        let client = builder.connect(&proxy.url()).await.unwrap();
        Self { server, proxy, client }
    }

    fn stored(&self, name: &str) -> Option<String> {
        self.server.run(&["GET", name])
    }

    /// How many holds the owner of a lock has.
    async fn holds(&self, name: &str) -> usize {
        let seen = self.client.inspect(name).await.unwrap();
        seen.holder().map_or(0, |holder| holder.holds().count())
    }

    async fn becomes_free(&self, name: &str) {
        eventually("free again", async || self.stored(name).is_none()).await;
    }
}

/// Fault row 6.
#[tokio::test]
async fn a_claim_whose_reply_was_lost_is_asked_again_and_recognised_as_ours() {
    let setting = Setting::new().await;
    setting.proxy.strike_once("order:7", Fault::LoseReply);
    let lease = setting.client.acquire("order:7").ttl(LONG).no_wait().await.unwrap();
    assert_eq!(setting.proxy.struck(), 1);
    assert_eq!(setting.stored("order:7").as_deref(), Some(lease.token().as_str()));
    assert!(lease.is_held());
    lease.release().await.unwrap();
    assert_eq!(setting.stored("order:7"), None);
}

/// Fault row 6: whatever byte the connection breaks at, on the way there or back.
#[tokio::test]
async fn a_claim_cut_at_any_byte_is_granted_once() {
    let setting = Setting::new().await;
    let requests = (0..260).step_by(9).map(Fault::CutRequest);
    let replies = (0..32).step_by(3).map(Fault::CutReply);
    let mut last_fence = 0;
    for fault in requests.chain(replies) {
        setting.proxy.strike_once("order:7", fault);
        let lease = setting.client.acquire("order:7").ttl(LONG).no_wait().await.unwrap();
        assert!(lease.fence() > last_fence, "{fault:?}");
        last_fence = lease.fence();
        assert_eq!(setting.stored("order:7").as_deref(), Some(lease.token().as_str()), "{fault:?}");
        lease.release().await.unwrap();
        assert_eq!(setting.stored("order:7"), None, "{fault:?}");
    }
    assert!(setting.proxy.struck() > 35);
}

/// Fault row 11.
#[tokio::test]
async fn a_release_cut_at_any_byte_says_released() {
    let setting = Setting::new().await;
    let requests = (0..200).step_by(13).map(Fault::CutRequest);
    for fault in requests.chain([Fault::LoseReply, Fault::CutReply(3)]) {
        let lease = setting.client.acquire("order:7").ttl(LONG).no_wait().await.unwrap();
        setting.proxy.strike_once("order:7", fault);
        lease.release().await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(setting.stored("order:7"), None, "{fault:?}");
        setting.proxy.heal();
    }
}

/// Fault row 11, design rule 13.
#[tokio::test]
async fn a_release_without_an_answer_before_the_end_is_unknown_and_not_lost() {
    let setting = Setting::new().await;
    let lease = setting.client.acquire("order:7").ttl(3 * SECOND).fixed().await.unwrap();
    setting.proxy.strike("order:7", Fault::LoseReply, usize::MAX);
    let error = lease.release().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    let ReleaseError::Unreachable(unreachable) = error else { panic!() };
    assert!(unreachable.is_maybe_applied());
}

#[tokio::test]
async fn a_release_that_finds_no_store_goes_on_in_the_background() {
    let builder = leasehold::builder().patience(100 * MS);
    let setting = Setting::with(builder).await;
    let lease = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    setting.proxy.refuse();
    assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Unreachable);
    assert!(setting.stored("order:7").is_some());
    setting.proxy.heal();
    setting.becomes_free("order:7").await;
}

/// Fault row 5: the reply comes after the caller has given up, long before the TTL ends.
#[tokio::test]
async fn a_grant_that_comes_too_late_is_given_back() {
    let builder = leasehold::builder().command_timeout(100 * MS).patience(150 * MS);
    let setting = Setting::with(builder).await;
    setting.proxy.strike("order:7", Fault::DelayReply(600 * MS), usize::MAX);
    let error = setting.client.acquire("order:7").ttl(LONG).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    setting.proxy.heal();
    setting.becomes_free("order:7").await;
}

/// Fault rows 5 and 24: what is left counts from sending.
#[tokio::test]
async fn a_slow_reply_leaves_only_the_rest_of_the_ttl() {
    let setting = Setting::new().await;
    setting.proxy.strike_once("order:7", Fault::DelayReply(400 * MS));
    let start = Instant::now();
    let lease = setting.client.acquire("order:7").ttl(10 * SECOND).fixed().await.unwrap();
    assert!(start.elapsed() >= 400 * MS);
    assert!(lease.valid_for() + start.elapsed() <= 10 * SECOND, "{lease:?}");
    assert!(lease.valid_for() + 400 * MS <= 10 * SECOND, "{lease:?}");
}

/// Fault row 5: a reply that takes longer than the TTL is no grant.
#[tokio::test]
async fn a_reply_slower_than_the_ttl_is_no_grant() {
    let setting = Setting::with(leasehold::builder().patience(700 * MS)).await;
    setting.proxy.strike("order:7", Fault::DelayReply(300 * MS), usize::MAX);
    let error = setting.client.acquire("order:7").ttl(100 * MS).fixed().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    setting.proxy.heal();
    setting.becomes_free("order:7").await;
}

#[tokio::test]
async fn a_connection_that_hangs_is_replaced() {
    let setting = Setting::with(leasehold::builder().command_timeout(300 * MS)).await;
    setting.proxy.strike_once("order:7", Fault::Hang);
    let lease = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    assert_eq!(setting.stored("order:7").as_deref(), Some(lease.token().as_str()));
    setting.proxy.strike_once("order:7", Fault::Hang);
    lease.release().await.unwrap();
    assert_eq!(setting.stored("order:7"), None);
}

/// Invariant I10.
#[tokio::test]
async fn loss_is_announced_at_the_deadline_while_renewals_hang() {
    let setting = Setting::new().await;
    let lease = setting.client.acquire("order:7").ttl(SECOND).await.unwrap();
    setting.proxy.strike("order:7", Fault::Hang, usize::MAX);
    assert_eq!(lease.lost().await, LossReason::Expired);
    assert!(!lease.is_held());
    assert_eq!(lease.release().await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test]
async fn a_lease_survives_a_connection_that_is_cut_again_and_again() {
    let setting = Setting::new().await;
    let lease = setting.client.acquire("order:7").ttl(2 * SECOND).await.unwrap();
    let start = Instant::now();
    while start.elapsed() < 5 * SECOND {
        setting.proxy.cut_all();
        tokio::time::sleep(100 * MS).await;
        assert!(lease.is_held(), "after {:?}", start.elapsed());
    }
    assert_eq!(setting.stored("order:7").as_deref(), Some(lease.token().as_str()));
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_survives_an_outage_shorter_than_its_ttl() {
    let setting = Setting::new().await;
    let lease = setting.client.acquire("order:7").ttl(4 * SECOND).await.unwrap();
    setting.proxy.refuse();
    tokio::time::sleep(2 * SECOND).await;
    setting.proxy.heal();
    let before = lease.valid_for();
    eventually("renewed again", async || lease.valid_for() > before).await;
    assert!(lease.is_held());
    lease.release().await.unwrap();
}

/// Invariant I4.
#[tokio::test]
async fn an_unreachable_store_is_never_busy() {
    let setting = Setting::with(leasehold::builder().patience(200 * MS)).await;
    let held = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    setting.proxy.refuse();
    for error in [
        setting.client.try_acquire("order:7").await.unwrap_err(),
        setting.client.acquire("order:7").await.unwrap_err(),
        setting.client.acquire("order:7").wait(50 * MS).await.unwrap_err(),
    ] {
        assert!(matches!(error, AcquireError::Unreachable(_)), "{error}");
        assert!(error.to_string().contains("127.0.0.1"), "says where: {error}");
    }
    assert_eq!(setting.client.inspect("order:7").await.unwrap_err().kind(), ErrorKind::Unreachable);
    assert!(held.is_held(), "still, by what is known here");
    setting.proxy.heal();
}

#[tokio::test]
async fn waiters_outlast_an_outage() {
    let setting = Setting::new().await;
    setting.proxy.refuse();
    let waiter = tokio::spawn(setting.client.acquire("order:7").into_future());
    tokio::time::sleep(300 * MS).await;
    setting.proxy.heal();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

/// Fault row 7: dropped while the reply is on its way.
#[tokio::test]
async fn dropping_an_acquisition_under_way_gives_back_what_it_takes() {
    let setting = Setting::new().await;
    // So that the server knows the script, and one poll is one request.
    setting.client.acquire("order:7").await.unwrap().release().await.unwrap();
    for delay in [0, 1, 5, 30] {
        setting.proxy.strike_once("order:7", Fault::DelayReply(delay * MS));
        let mut acquiring = setting.client.acquire("order:7").ttl(LONG).into_future();
        let first = poll_fn(|context| Poll::Ready(acquiring.as_mut().poll(context))).await;
        assert!(first.is_pending());
        eventually("the claim has run", async || setting.stored("order:7").is_some()).await;
        drop(acquiring);
        setting.becomes_free("order:7").await;
        setting.proxy.heal();
    }
}

/// Fault row 7: dropped at moments of chance, also just as it is granted.
#[tokio::test]
async fn dropping_acquisitions_at_any_time_leaves_nothing_behind() {
    let setting = Setting::new().await;
    for n in 0..300_u32 {
        let time = Duration::from_micros(u64::from(n * 7_919 % 600));
        let acquiring = setting.client.acquire("order:7").ttl(LONG);
        let _ = tokio::time::timeout(time, acquiring.into_future()).await;
    }
    setting.becomes_free("order:7").await;
    let lease = setting.client.acquire("order:7").await.unwrap();
    let waiting = tokio::time::timeout(30 * MS, setting.client.acquire("order:7").into_future());
    assert!(waiting.await.is_err(), "dropped while another one held it");
    assert!(lease.is_held());
    lease.release().await.unwrap();
    assert_eq!(setting.stored("order:7"), None);
}

#[tokio::test]
async fn a_dropped_release_is_finished_in_the_background() {
    let setting = Setting::new().await;
    let lease = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    setting.proxy.strike_once("order:7", Fault::Hang);
    let mut releasing = Box::pin(lease.release());
    let first = poll_fn(|context| Poll::Ready(releasing.as_mut().poll(context))).await;
    assert!(first.is_pending());
    drop(releasing);
    setting.becomes_free("order:7").await;
}

/// Closing says what it could not do.
#[tokio::test]
async fn closing_without_a_store_counts_what_is_left() {
    let builder = leasehold::builder().patience(100 * MS).command_timeout(200 * MS);
    let setting = Setting::with(builder).await;
    let lease = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    setting.proxy.refuse();
    let error = setting.client.close().await.unwrap_err();
    assert_eq!(error.unreleased(), 1, "{error}");
    assert_eq!(lease.lost().await, LossReason::Closed);
    setting.proxy.heal();
    setting.becomes_free("order:7").await;
}

async fn poll_once<F: Future>(future: &mut std::pin::Pin<Box<F>>) {
    let polled = poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await;
    assert!(polled, "it is under way");
}

/// The shortening may have been carried out or not: either way the keeper goes on in time.
#[tokio::test]
async fn a_shorter_renewal_that_was_dropped_does_not_cost_the_lease() {
    let setting = Setting::new().await;
    let lease = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    poll_once(&mut Box::pin(lease.renew(SECOND))).await;
    assert!(lease.valid_for() <= SECOND, "it may be carried out yet");
    tokio::time::sleep(2_500 * MS).await;
    assert!(lease.is_held(), "renewed by the keeper all the while");
}

/// Fault row 9, while a renewal by hand hangs together with the runtime.
#[tokio::test(flavor = "current_thread")]
async fn a_renewal_by_hand_under_way_does_not_stop_the_keeper() {
    let setting = Setting::new().await;
    let lease = setting.client.acquire("order:7").ttl(1_500 * MS).await.unwrap();
    let mut renewing = Box::pin(lease.renew(1_500 * MS));
    poll_once(&mut renewing).await;
    std::thread::sleep(4_000 * MS);
    assert!(lease.is_held());
    renewing.await.unwrap();
}

/// A connection that hangs for good is replaced even if no single request waits for long.
#[tokio::test]
async fn a_hung_connection_is_replaced_although_every_request_is_cut_short() {
    let setting = Setting::with(leasehold::builder().command_timeout(SECOND)).await;
    setting.proxy.strike_once("order:7", Fault::Hang);
    let lease = setting.client.acquire("order:7").ttl(300 * MS).fixed().await.unwrap();
    assert_eq!(setting.proxy.struck(), 1);
    drop(lease);
}

/// Invariant I4, on a network where an answer takes its time.
#[tokio::test]
async fn a_wait_shorter_than_the_round_trip_still_tells_busy_from_unreachable() {
    let setting = Setting::new().await;
    setting.proxy.set_latency(40 * MS);
    setting.proxy.cut_all();
    let lease = setting.client.acquire("order:7").wait(10 * MS).await.unwrap();
    for wait in [10, 60, 100, 130, 200] {
        let error = setting.client.acquire("order:7").wait(wait * MS).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{wait} ms: {error}");
    }
    lease.release().await.unwrap();
}

#[tokio::test]
async fn a_short_lease_survives_a_slow_network_from_its_first_renewal_on() {
    let setting = Setting::new().await;
    setting.proxy.set_latency(100 * MS);
    setting.proxy.cut_all();
    let lease = setting.client.acquire("order:7").ttl(1_500 * MS).await.unwrap();
    tokio::time::sleep(3_500 * MS).await;
    assert!(lease.is_held());
    lease.release().await.unwrap();
}

/// A claim that was stuck in a dead connection is carried out after the release.
#[tokio::test]
async fn a_claim_carried_out_after_the_release_is_given_back() {
    let setting = Setting::with(leasehold::builder().command_timeout(500 * MS)).await;
    setting.client.acquire("order:7").await.unwrap().release().await.unwrap();
    setting.proxy.strike_once("order:7", Fault::DelayRequest(1_200 * MS));
    let lease = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    lease.release().await.unwrap();
    assert_eq!(setting.stored("order:7"), None);
    eventually("the late claim is carried out", async || setting.stored("order:7").is_some()).await;
    setting.becomes_free("order:7").await;
}

/// Renewals arrive, their replies do not. Whoever notices the end first, nothing is left.
#[tokio::test]
async fn a_lost_lease_that_was_renewed_unheard_is_cleaned_up() {
    let setting = Setting::new().await;
    let client = redis::Client::open(setting.server.url()).unwrap();
    let direct = client.get_multiplexed_async_connection().await.unwrap();
    let locks =
        leasehold::builder().keeper_url(setting.proxy.url()).with_connection(direct).unwrap();
    let lease = locks.acquire("order:7").ttl(10 * SECOND).await.unwrap();
    lease.renew(2 * SECOND).await.unwrap();
    setting.proxy.strike("order:7", Fault::Hang, usize::MAX);
    // The user's own look at the clock is likely to come before the keeper's.
    while lease.is_held() {
        tokio::time::sleep(MS).await;
    }
    let left: i64 = setting.server.run(&["PTTL", "order:7"]);
    assert!(left > 200, "renewed, and nobody heard of it: {left} ms");
    setting.proxy.heal();
    drop(lease);
    setting.becomes_free("order:7").await;
}

#[tokio::test]
async fn closing_counts_a_confirmed_release_as_done_although_it_looks_again() {
    let builder = leasehold::builder().command_timeout(300 * MS).patience(400 * MS);
    let setting = Setting::with(builder).await;
    setting.proxy.strike_once("order:7", Fault::LoseReply);
    let lease = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    setting.client.close().await.unwrap();
    assert_eq!(setting.stored("order:7"), None);
    assert_eq!(lease.lost().await, LossReason::Closed);
}

/// A claim under way when the client is closed is waited for, and given back.
#[tokio::test]
async fn closing_waits_for_claims_under_way() {
    let setting = Setting::new().await;
    setting.client.acquire("order:7").await.unwrap().release().await.unwrap();
    setting.proxy.strike_once("order:7", Fault::DelayReply(400 * MS));
    let acquiring = tokio::spawn(setting.client.acquire("order:7").ttl(LONG).into_future());
    eventually("the claim has run", async || setting.stored("order:7").is_some()).await;
    setting.client.close().await.unwrap();
    assert_eq!(setting.stored("order:7"), None);
    assert_eq!(acquiring.await.unwrap().unwrap_err().kind(), ErrorKind::Invalid);
}

/// A renewal that the server refused, or that was never sent, changes nothing.
#[tokio::test]
async fn a_renewal_that_was_certainly_not_carried_out_costs_no_validity() {
    let setting = Setting::with(leasehold::builder().patience(Duration::ZERO)).await;
    let lease = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    setting.server.run::<()>(&["ACL", "SETUSER", "default", "-pexpire"]);
    assert_eq!(lease.renew(SECOND).await.unwrap_err().kind(), ErrorKind::Refused);
    assert!(lease.valid_for() > LONG / 2, "{lease:?}");
    setting.server.run::<()>(&["ACL", "SETUSER", "default", "+pexpire"]);
    lease.renew(2 * LONG).await.unwrap();
    assert!(lease.valid_for() > LONG, "{lease:?}");
    lease.release().await.unwrap();
}

/// A claim that was held up arrives after a longer renewal by hand, and sets its TTL again.
#[tokio::test]
async fn a_late_claim_that_cuts_a_longer_renewal_was_counted_on() {
    let setting = Setting::with(leasehold::builder().command_timeout(500 * MS)).await;
    setting.client.acquire("order:7").await.unwrap().release().await.unwrap();
    setting.proxy.strike_once("order:7", Fault::DelayRequest(2_500 * MS));
    let lease = setting.client.acquire("order:7").ttl(2 * SECOND).fixed().await.unwrap();
    lease.renew(LONG).await.unwrap();
    assert!(lease.valid_for() <= 2 * SECOND, "{lease:?}");
    eventually("the late claim has cut it", async || {
        setting.server.run::<i64>(&["PTTL", "order:7"]) <= 2_000
    })
    .await;
    setting.becomes_free("order:7").await;
    assert!(!lease.is_held());
}

/// A shorter renewal that was held up arrives after the lease was handed on.
#[tokio::test]
async fn a_late_renewal_that_cuts_a_resumed_lease_was_counted_on() {
    let setting = Setting::new().await;
    let lease = setting.client.acquire("order:7").ttl(LONG).fixed().await.unwrap();
    setting.proxy.strike_once("order:7", Fault::DelayRequest(1_500 * MS));
    poll_once(&mut Box::pin(lease.renew(2 * SECOND))).await;
    let grant = lease.detach().unwrap();
    assert_eq!(grant.ttl(), 2 * SECOND);
    let other = leasehold::connect(&setting.server.url()).await.unwrap();
    let lease = other.resume(&grant).ttl(LONG).fixed().await.unwrap();
    assert!(lease.valid_for() <= 2 * SECOND, "{lease:?}");
    setting.becomes_free("order:7").await;
    assert!(!lease.is_held());
}

/// Invariant I10: the end comes sooner than was planned, and is announced then.
#[tokio::test]
async fn loss_is_announced_although_the_renewal_that_shortens_the_lease_hangs() {
    let setting = Setting::new().await;
    let lease = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    setting.server.pause();
    let mut renewing = Box::pin(lease.renew(300 * MS));
    tokio::select! {
        reason = lease.lost() => assert_eq!(reason, LossReason::Expired),
        outcome = &mut renewing => panic!("the renewal ended first: {outcome:?}"),
    }
    setting.server.resume();
}

/// The store may keep a lease for as long as the longest renewal that got no answer.
#[tokio::test]
async fn what_a_longer_renewal_without_an_answer_leaves_is_cleaned_up() {
    let builder = leasehold::builder().command_timeout(300 * MS).patience(Duration::ZERO);
    let setting = Setting::with(builder).await;
    let lease = setting.client.acquire("order:7").ttl(SECOND).fixed().await.unwrap();
    lease.renew(SECOND).await.unwrap(); // the server knows the script from here on
    setting.proxy.strike_once("order:7", Fault::Hang);
    assert_eq!(lease.renew(LONG).await.unwrap_err().kind(), ErrorKind::Unreachable);
    let left: i64 = setting.server.run(&["PTTL", "order:7"]);
    assert!(left > 30_000, "it was carried out: {left}");
    setting.server.pause();
    drop(lease);
    tokio::time::sleep(1_600 * MS).await;
    setting.server.resume();
    setting.becomes_free("order:7").await;
}

/// Cancel safety of closing, with an acquisition that nobody polls any more.
#[tokio::test]
async fn a_closing_that_was_dropped_has_closed_all_the_same() {
    let setting = Setting::new().await;
    let lease = setting.client.acquire("order:7").ttl(LONG).await.unwrap();
    let mut stuck = setting.client.acquire("order:8").into_future();
    let first = poll_fn(|context| Poll::Ready(stuck.as_mut().poll(context))).await;
    assert!(first.is_pending());
    poll_once(&mut Box::pin(setting.client.close())).await;
    assert_eq!(lease.lost().await, LossReason::Closed);
    setting.becomes_free("order:7").await;
    drop(stuck);
    setting.client.close().await.unwrap();
    setting.becomes_free("order:8").await;
}

/// Fault row 13: retried after whatever loss, an entry counts once.
#[tokio::test]
async fn an_owners_claim_cut_at_any_byte_enters_once() {
    let setting = Setting::new().await;
    let outer = setting.client.acquire("order:7").owner("x").ttl(LONG).await.unwrap();
    let requests = (0..400).step_by(23).map(Fault::CutRequest);
    let replies = (0..32).step_by(5).map(Fault::CutReply);
    for fault in requests.chain(replies).chain([Fault::LoseReply]) {
        setting.proxy.strike_once("order:7", fault);
        let inner = setting.client.acquire("order:7").owner("x").ttl(LONG).no_wait();
        let inner = inner.await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(inner.fence(), outer.fence(), "{fault:?}");
        assert_eq!(setting.holds("order:7").await, 2, "{fault:?}");
        inner.release().await.unwrap();
        assert_eq!(setting.holds("order:7").await, 1, "{fault:?}");
    }
    assert!(setting.proxy.struck() > 20);
    outer.release().await.unwrap();
    assert_eq!(setting.stored("order:7"), None);
}

/// Fault row 13: a release that is sent twice does not take another's hold away.
#[tokio::test]
async fn an_owners_release_cut_at_any_byte_leaves_once() {
    let setting = Setting::new().await;
    let outer = setting.client.acquire("order:7").owner("x").ttl(LONG).await.unwrap();
    let requests = (0..300).step_by(29).map(Fault::CutRequest);
    for fault in requests.chain([Fault::LoseReply, Fault::CutReply(3)]) {
        let inner = setting.client.acquire("order:7").owner("x").ttl(LONG).await.unwrap();
        setting.proxy.strike_once("order:7", fault);
        inner.release().await.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        setting.proxy.heal();
        assert_eq!(setting.holds("order:7").await, 1, "{fault:?}");
    }
    assert!(outer.is_held());
    outer.release().await.unwrap();
    assert_eq!(setting.stored("order:7"), None);
}

#[tokio::test]
async fn a_claim_for_several_names_cut_at_any_byte_is_granted_once() {
    let setting = Setting::new().await;
    let requests = (0..330).step_by(31).map(Fault::CutRequest);
    for fault in requests.chain([Fault::LoseReply, Fault::CutReply(9)]) {
        setting.proxy.strike_once("order:7", fault);
        let names = ["order:7", "order:8", "order:9"];
        let lease = setting.client.acquire_all(names).ttl(LONG).no_wait().await.unwrap();
        for name in names {
            assert_eq!(setting.stored(name).as_deref(), Some(lease.token().as_str()), "{fault:?}");
        }
        lease.release().await.unwrap();
        assert!(names.iter().all(|name| setting.stored(name).is_none()), "{fault:?}");
    }
}
