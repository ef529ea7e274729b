//! Several names, one lease.

use leasehold::{AcquireError, Client, ErrorKind, Grant, InvalidInput, LossReason, ReleaseError};
use leasehold_testing::eventually;

use crate::{SECOND, SHORT, is_free};

pub(crate) async fn several_names_are_one_lease(one: Client, other: Client) {
    let both = one.acquire_all(["a", "b"]).metadata("pod-7").await.unwrap();
    assert_eq!(both.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(both.name(), "a");
    for name in ["a", "b"] {
        assert!(other.try_acquire(name).await.unwrap().is_none());
        let seen = other.inspect(name).await.unwrap();
        assert_eq!(seen.holder().unwrap().metadata(), Some(&b"pod-7"[..]));
    }
    both.renew(2 * SECOND).await.unwrap();
    assert!(both.remaining().await.unwrap() <= 2 * SECOND);
    let fence = both.fence();
    both.release().await.unwrap();
    for name in ["a", "b"] {
        let next = other.acquire(name).no_wait().await.unwrap();
        assert!(next.fence() > fence);
        next.release().await.unwrap();
    }
}

pub(crate) async fn several_names_are_taken_all_or_none(one: Client, other: Client) {
    let held = one.acquire("b").metadata("pod-7").await.unwrap();
    assert!(other.try_acquire_all(["a", "b", "c"]).await.unwrap().is_none());
    let error = other.acquire_all(["a", "b", "c"]).no_wait().await.unwrap_err();
    let AcquireError::Busy(busy) = &error else { panic!("{error}") };
    assert_eq!(busy.name(), "b");
    assert!(error.to_string().contains("pod-7"), "{error}");
    assert!(is_free(&one, "a").await && is_free(&one, "c").await);
    held.release().await.unwrap();
    let all = other.try_acquire_all(["a", "b", "c"]).await.unwrap().unwrap();
    drop(all);
    eventually("all are given back", async || {
        is_free(&one, "a").await && is_free(&one, "b").await && is_free(&one, "c").await
    })
    .await;
}

pub(crate) async fn names_given_twice_count_once_and_none_are_refused(one: Client, _: Client) {
    let lease = one.acquire_all(["b", "a", "b"].map(String::from)).await.unwrap();
    assert_eq!(lease.names().collect::<Vec<_>>(), ["b", "a"]);
    lease.release().await.unwrap();
    let none: [&str; 0] = [];
    for error in
        [one.acquire_all(none).await.unwrap_err(), one.try_acquire_all(none).await.unwrap_err()]
    {
        assert!(matches!(error, AcquireError::Invalid(InvalidInput::NoNames)), "{error}");
    }
    let error = one.acquire_all(["a", ""]).await.unwrap_err();
    assert!(matches!(error, AcquireError::Invalid(InvalidInput::EmptyName)), "{error}");
    let most: Vec<String> = (0..leasehold::MAX_NAMES).map(|n| format!("name {n}")).collect();
    one.acquire_all(&most).await.unwrap().release().await.unwrap();
    let error = one.acquire_all(most.iter().map(String::as_str).chain(["x"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

/// The keeper finds out, says which, and gives the others back.
pub(crate) async fn losing_one_of_several_names_is_losing_all(one: Client, other: Client) {
    let lease = one.acquire_all(["a", "b", "c"]).ttl(SHORT).await.unwrap();
    other.force_release("b").await.unwrap();
    assert_eq!(lease.lost().await, LossReason::Released);
    eventually("the others are given back", async || {
        is_free(&other, "a").await && is_free(&other, "c").await
    })
    .await;
    let ReleaseError::Lost(lost) = lease.release().await.unwrap_err() else { panic!() };
    assert_eq!((lost.name(), lost.names().count()), ("b", 3));
    let text = lost.to_string();
    assert!(text.contains("\"b\" was lost, and with it that on \"a\", \"c\""), "{text}");
}

/// The same when the holder itself is first to find out.
pub(crate) async fn finding_one_of_several_names_lost_gives_the_others_back(
    one: Client,
    other: Client,
) {
    let lose_b = async || {
        let lease = one.acquire_all(["a", "b"]).await.unwrap();
        other.force_release("b").await.unwrap();
        (lease, other.acquire("b").await.unwrap())
    };
    let (lease, taken) = lose_b().await;
    assert_eq!(lease.renew(SECOND).await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(!lease.is_held());
    eventually("given back", async || is_free(&other, "a").await).await;
    taken.release().await.unwrap();

    let (lease, taken) = lose_b().await;
    assert_eq!(lease.remaining().await.unwrap_err().kind(), ErrorKind::Lost);
    eventually("given back", async || is_free(&other, "a").await).await;
    taken.release().await.unwrap();

    let (lease, taken) = lose_b().await;
    let ReleaseError::Lost(lost) = lease.release().await.unwrap_err() else { panic!() };
    assert_eq!((lost.name(), lost.reason()), ("b", LossReason::Taken));
    assert!(is_free(&other, "a").await);
    taken.release().await.unwrap();

    let (lease, taken) = lose_b().await;
    let grant = lease.detach().unwrap();
    assert_eq!(other.resume(&grant).await.unwrap_err().kind(), ErrorKind::Lost);
    eventually("given back", async || is_free(&other, "a").await).await;
    taken.release().await.unwrap();
}

pub(crate) async fn several_names_the_other_way_round_do_not_deadlock(one: Client, other: Client) {
    let work = async |client: Client, names: [&'static str; 2]| {
        for _ in 0..20 {
            client.acquire_all(names).await.unwrap().release().await.unwrap();
        }
    };
    let there = tokio::spawn(work(one, ["a", "b"]));
    work(other, ["b", "a"]).await;
    there.await.unwrap();
}

pub(crate) async fn several_names_are_renewed_as_one(one: Client, other: Client) {
    let lease = one.acquire_all(["a", "b", "c"]).ttl(SHORT).await.unwrap();
    tokio::time::sleep(2 * SHORT).await;
    assert!(lease.is_held());
    for name in ["a", "b", "c"] {
        let seen = other.inspect(name).await.unwrap();
        assert_eq!(seen.holder().unwrap().fence(), Some(lease.fence()), "{name}");
    }
    lease.release().await.unwrap();
}

pub(crate) async fn several_names_can_be_handed_on(one: Client, other: Client) {
    let lease = one.acquire_all(["order:42", "two words", "c"]).metadata("m").await.unwrap();
    let fence = lease.fence();
    let grant: Grant = lease.detach().unwrap().to_string().parse().unwrap();
    assert_eq!(grant.names().collect::<Vec<_>>(), ["order:42", "two words", "c"]);
    let lease = other.resume(&grant).await.unwrap();
    assert_eq!((lease.fence(), lease.metadata()), (fence, &b"m"[..]));
    assert!(one.try_acquire("two words").await.unwrap().is_none());
    lease.release().await.unwrap();
    assert!(one.try_acquire("two words").await.unwrap().is_some());
}
