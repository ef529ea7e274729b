//! Entering again by owner. Fault row 13.

use leasehold::{
    AcquireError, Client, ErrorKind, ForceReleased, Grant, InvalidInput, LossReason, ReleaseError,
};
use leasehold_testing::eventually;

use crate::{MS, SECOND, SHORT, is_free};

pub(crate) async fn an_owner_enters_again_by_the_same_fence(one: Client, other: Client) {
    let outer = one.acquire("a").owner("request 7").await.unwrap();
    assert_eq!(outer.owner(), Some("request 7"));
    let inner = other.acquire("a").owner("request 7").await.unwrap();
    let third = one.try_acquire("a").owner("request 7").await.unwrap().unwrap();
    assert_eq!((inner.fence(), third.fence()), (outer.fence(), outer.fence()));
    assert_ne!(inner.token(), outer.token());
    let fence = outer.fence();

    // Whoever leaves last frees it, not whoever came first.
    outer.release().await.unwrap();
    assert!(one.try_acquire("a").await.unwrap().is_none());
    third.release().await.unwrap();
    assert!(inner.is_held());
    inner.renew(SECOND).await.unwrap();
    assert!(inner.remaining().await.unwrap() <= SECOND);
    inner.release().await.unwrap();
    let next = one.acquire("a").owner("request 7").no_wait().await.unwrap();
    assert!(next.fence() > fence, "a new stay has a new fence");
    next.release().await.unwrap();
    assert!(is_free(&one, "a").await);
}

pub(crate) async fn a_hundred_entries_of_one_owner_and_a_hundred_releases(
    one: Client,
    other: Client,
) {
    let enter = |n: usize| {
        let client = if n.is_multiple_of(2) { one.clone() } else { other.clone() };
        tokio::spawn(async move { client.acquire("a").owner("x").no_wait().await.unwrap() })
    };
    let entering: Vec<_> = (0..100).map(enter).collect();
    let mut held = Vec::new();
    for entered in entering {
        held.push(entered.await.unwrap());
    }
    assert!(held.iter().all(|lease| lease.is_held() && lease.fence() == held[0].fence()));
    let last = held.pop().unwrap();
    let leaving = held.into_iter().map(|lease| tokio::spawn(lease.release()));
    for left in leaving.collect::<Vec<_>>() {
        left.await.unwrap().unwrap();
    }
    assert!(one.try_acquire("a").await.unwrap().is_none(), "one is still inside");
    last.release().await.unwrap();
    one.acquire("a").no_wait().await.unwrap().release().await.unwrap();
}

pub(crate) async fn another_owner_is_kept_out_even_if_it_begins_alike(one: Client, other: Client) {
    let held = one.acquire("a").owner("request-1").await.unwrap();
    for owner in ["request-12", "request-", "REQUEST-1", "request-1 "] {
        let tried = other.try_acquire("a").owner(owner).await.unwrap();
        assert!(tried.is_none(), "{owner:?}");
    }
    assert!(other.try_acquire("a").await.unwrap().is_none(), "nor who has none");
    held.release().await.unwrap();
    let held = one.acquire("a").await.unwrap();
    assert!(one.try_acquire("a").owner("request-1").await.unwrap().is_none());
    held.release().await.unwrap();
}

pub(crate) async fn a_hold_that_runs_out_does_not_free_the_others(one: Client, other: Client) {
    let kept = one.acquire("a").owner("x").ttl(SHORT).await.unwrap();
    let crashed = other.acquire("a").owner("x").ttl(200 * MS).fixed().await.unwrap();
    assert_eq!(crashed.lost().await, LossReason::Expired);
    eventually("its hold is gone", async || {
        one.inspect("a").await.unwrap().holder().unwrap().holds().count() == 1
    })
    .await;
    assert_eq!(crashed.release().await.unwrap_err().kind(), ErrorKind::Lost);
    tokio::time::sleep(2 * SHORT).await;
    assert!(kept.is_held());
    assert!(other.try_acquire("a").await.unwrap().is_none());
    kept.release().await.unwrap();
    assert!(is_free(&other, "a").await, "no trace of the one that crashed");

    // The other way round: the one that stays is the short one.
    let long = one.acquire("a").owner("x").ttl(60 * SECOND).fixed().await.unwrap();
    let short = other.acquire("a").owner("x").ttl(300 * MS).fixed().await.unwrap();
    long.release().await.unwrap();
    assert!(short.remaining().await.unwrap() <= 300 * MS);
    eventually("free when the last hold has run out", async || is_free(&one, "a").await).await;
}

pub(crate) async fn a_dropped_hold_leaves_the_others(one: Client, other: Client) {
    let (kept, dropped) = (one.acquire("a").owner("x"), other.acquire("a").owner("x"));
    let kept = kept.await.unwrap();
    drop(dropped.await.unwrap());
    eventually("one hold is left", async || {
        one.inspect("a").await.unwrap().holder().unwrap().holds().count() == 1
    })
    .await;
    assert!(other.try_acquire("a").await.unwrap().is_none());
    drop(kept);
    eventually("free", async || is_free(&one, "a").await).await;
}

pub(crate) async fn closing_takes_away_the_holds_of_this_client_only(one: Client, other: Client) {
    let kept = one.acquire("a").owner("x").await.unwrap();
    let closed = other.acquire("a").owner("x").await.unwrap();
    other.close().await.unwrap();
    assert_eq!(closed.lost().await, LossReason::Closed);
    // In memory both are one client, which has no other to keep.
    let is_one_client = one.try_acquire("b").await.is_err();
    assert_eq!(kept.is_held(), !is_one_client);
    if !is_one_client {
        assert_eq!(one.inspect("a").await.unwrap().holder().unwrap().holds().count(), 1);
        kept.release().await.unwrap();
    }
    assert!(is_free(&one, "a").await);
}

pub(crate) async fn an_owner_and_its_holds_can_be_seen(one: Client, other: Client) {
    let first = one.acquire("a").owner("order 42").metadata("pod-1").await.unwrap();
    let second = other.acquire("a").owner("order 42").await.unwrap();
    let seen = other.inspect("a").await.unwrap();
    let holder = seen.holder().unwrap();
    assert_eq!(holder.owner(), Some("order 42"));
    assert_eq!(holder.fence(), Some(first.fence()));
    assert!(holder.since().is_some());
    let mut holds: Vec<_> = holder.holds().collect();
    holds.sort_unstable();
    assert_eq!(holds, [&b""[..], b"pod-1"]);
    assert!(format!("{holder:?}").contains("order 42"));
    let error = other.acquire("a").no_wait().await.unwrap_err();
    assert!(error.to_string().contains("held by order 42"), "{error}");
    assert!(!format!("{holder:?}").contains(first.token().as_str()));
    first.release().await.unwrap();
    second.release().await.unwrap();
}

/// An id of 22 and more letters reads like a token with metadata behind it, and is not.
pub(crate) async fn an_owner_is_not_taken_for_a_token(one: Client, other: Client) {
    let id = "01ARZ3NDEKTSV4RRFFQ69QSAFAV";
    let lease = one.acquire("a").owner(id).await.unwrap();
    let AcquireError::Busy(busy) = other.acquire("a").no_wait().await.unwrap_err() else {
        panic!()
    };
    assert_eq!((busy.holder().owner(), busy.holder().metadata()), (Some(id), None));
    lease.release().await.unwrap();
}

pub(crate) async fn a_hold_can_be_handed_on(one: Client, other: Client) {
    let kept = one.acquire("a").owner("x: y").metadata("kept").await.unwrap();
    let handed = one.acquire("a").owner("x: y").metadata("handed").ttl(SHORT).await.unwrap();
    let grant: Grant = handed.detach().unwrap().to_string().parse().unwrap();
    assert_eq!(grant.owner(), Some("x: y"));
    let handed = other.resume(&grant).await.unwrap();
    assert_eq!((handed.owner(), handed.metadata()), (Some("x: y"), &b"handed"[..]));
    assert_eq!(handed.fence(), kept.fence());
    kept.release().await.unwrap();
    tokio::time::sleep(2 * SHORT).await;
    assert!(handed.is_held(), "it is renewed by itself");
    handed.release().await.unwrap();
    assert!(is_free(&one, "a").await);
    assert_eq!(other.resume(&grant).await.unwrap_err().kind(), ErrorKind::Lost);
}

pub(crate) async fn an_owner_can_have_several_names(one: Client, other: Client) {
    let held = other.acquire("c").await.unwrap();
    let tried = one.acquire_all(["a", "b", "c"]).owner("x").no_wait().await.unwrap_err();
    let AcquireError::Busy(busy) = tried else { panic!() };
    assert_eq!(busy.name(), "c");
    assert!(is_free(&one, "a").await);
    held.release().await.unwrap();

    let both = one.acquire_all(["a", "b"]).owner("x").await.unwrap();
    let again = other.acquire_all(["b", "a"]).owner("x").await.unwrap();
    assert_eq!(again.fence(), both.fence());
    let wider = other.acquire_all(["b", "c"]).owner("x").await.unwrap();
    assert!(wider.fence() > both.fence(), "not all of it was held under one fence");
    for lease in [both, again, wider] {
        lease.release().await.unwrap();
    }
    for name in ["a", "b", "c"] {
        assert!(is_free(&one, name).await, "{name}");
    }
}

pub(crate) async fn breaking_an_owners_lock_tells_every_hold(one: Client, other: Client) {
    let holds = [
        one.acquire("a").owner("x").ttl(SHORT).await.unwrap(),
        other.acquire("a").owner("x").ttl(SHORT).await.unwrap(),
    ];
    assert!(matches!(one.force_release("a").await.unwrap(), ForceReleased::Broken(_)));
    // The same owner enters anew: that is another stay, and those before do not belong to it.
    let anew = one.acquire("a").owner("x").no_wait().await.unwrap();
    for hold in holds {
        assert_eq!(hold.lost().await, LossReason::Released);
        let ReleaseError::Lost(_) = hold.release().await.unwrap_err() else { panic!() };
    }
    assert!(anew.remaining().await.is_ok());
    anew.release().await.unwrap();
}

pub(crate) async fn bad_owners_are_refused(one: Client, _: Client) {
    for (owner, expected) in [
        (String::new(), InvalidInput::EmptyOwner),
        ("x".repeat(1_025), InvalidInput::OwnerTooLong { len: 1_025 }),
        ("a\nb".into(), InvalidInput::ControlCharacter { what: "owner", found: '\n' }),
    ] {
        let error = one.acquire("a").owner(&owner).await.unwrap_err();
        let AcquireError::Invalid(found) = error else { panic!("{error}") };
        assert_eq!(found, expected);
    }
    for owner in ["ü 🦀", "%d(.*)", "=", " "] {
        let outer = one.acquire("a").owner(owner).await.unwrap();
        let inner = one.acquire("a").owner(owner).no_wait().await.unwrap();
        assert_eq!(inner.fence(), outer.fence(), "{owner}");
        let seen = one.inspect("a").await.unwrap();
        assert_eq!(seen.holder().unwrap().owner(), Some(owner));
        inner.release().await.unwrap();
        outer.release().await.unwrap();
    }
}
