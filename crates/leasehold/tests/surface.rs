//! What the public types promise to the compiler, and that none of them shows a secret.

use std::error::Error;
use std::fmt::Debug;
use std::future::IntoFuture;

use leasehold::{
    Acquire, AcquireError, Backoff, Builder, Busy, Client, CloseError, ConnectError, ErrorKind,
    ForceReleased, Grant, Holder, InspectError, Inspection, InvalidInput, Lease, LossReason, Lost,
    ManualClock, RefusalCause, Refused, ReleaseError, Remaining, RemainingError, RenewError,
    Resume, ResumeError, RunError, Token, TryAcquire, Unreachable,
};

fn is_plain<T: Send + Sync + Unpin + Debug + 'static>() {}
fn is_error<T: Error + Send + Sync + Clone + 'static>() {}
fn is_future<T: IntoFuture<IntoFuture: Send + 'static>>() {}

#[test]
fn everything_can_cross_threads() {
    is_plain::<Acquire>();
    is_plain::<Backoff>();
    is_plain::<Builder>();
    is_plain::<Client>();
    is_plain::<ErrorKind>();
    is_plain::<ForceReleased>();
    is_plain::<Grant>();
    is_plain::<Holder>();
    is_plain::<Inspection>();
    is_plain::<Lease>();
    is_plain::<LossReason>();
    is_plain::<ManualClock>();
    is_plain::<RefusalCause>();
    is_plain::<Resume>();
    is_plain::<Remaining>();
    is_plain::<Token>();
    is_plain::<TryAcquire>();
}

#[test]
fn errors_are_errors() {
    is_error::<AcquireError>();
    is_error::<Busy>();
    is_error::<CloseError>();
    is_error::<ConnectError>();
    is_error::<InspectError>();
    is_error::<InvalidInput>();
    is_error::<Lost>();
    is_error::<Refused>();
    is_error::<ReleaseError>();
    is_error::<RemainingError>();
    is_error::<RenewError>();
    is_error::<ResumeError>();
    is_error::<RunError<()>>();
    is_error::<Unreachable>();
}

#[test]
fn builders_make_futures_that_own_what_they_need() {
    is_future::<Acquire>();
    is_future::<TryAcquire>();
    is_future::<Resume>();
}

#[tokio::test]
async fn futures_of_a_lease_can_be_spawned() {
    fn spawnable<T: Send>(future: T) -> T {
        future
    }
    let locks = leasehold::connect("memory:").await.unwrap();
    let lease = locks.acquire("a").await.unwrap();
    spawnable(lease.renew(std::time::Duration::from_secs(1))).await.unwrap();
    spawnable(lease.remaining()).await.unwrap();
    drop(spawnable(lease.lost()));
    spawnable(locks.inspect("a")).await.unwrap();
    spawnable(lease.run(async {})).await.unwrap();
    spawnable(locks.force_release("a")).await.unwrap();
    spawnable(locks.acquire("a").await.unwrap().release()).await.unwrap();
    spawnable(locks.close()).await.unwrap();
}

#[tokio::test]
async fn no_debug_output_shows_a_token() {
    let locks = leasehold::connect("memory:").await.unwrap();
    let lease = locks.acquire("a").metadata("who").await.unwrap();
    let busy = locks.acquire("a").no_wait().await.unwrap_err();
    let seen = locks.inspect("a").await.unwrap();
    let builder = locks.acquire("a");
    let shown =
        format!("{lease:?} {busy:?} {busy} {seen:?} {locks:?} {builder:?} {:?}", lease.token());
    assert!(!shown.contains(lease.token().as_str()), "{shown}");
    assert!(shown.contains("who"));
}
