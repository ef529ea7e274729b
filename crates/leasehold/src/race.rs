//! Two futures at once: the first of them, or both.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

pub(crate) enum First<L, R> {
    Left(L),
    Right(R),
}

/// The first of two futures to finish; `left` if both are ready. The other is dropped.
pub(crate) async fn first_of<L: Future, R: Future>(
    left: L,
    right: R,
) -> First<L::Output, R::Output> {
    let mut left = pin!(left);
    let mut right = pin!(right);
    poll_fn(|context| {
        if let Poll::Ready(output) = left.as_mut().poll(context) {
            return Poll::Ready(First::Left(output));
        }
        right.as_mut().poll(context).map(First::Right)
    })
    .await
}

/// Runs two futures until both have finished.
#[cfg(feature = "redis")]
pub(crate) async fn both(left: impl Future<Output = ()>, right: impl Future<Output = ()>) {
    let mut left = pin!(left);
    let mut right = pin!(right);
    let (mut left_done, mut right_done) = (false, false);
    poll_fn(|context| {
        left_done = left_done || left.as_mut().poll(context).is_ready();
        right_done = right_done || right.as_mut().poll(context).is_ready();
        if left_done && right_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
