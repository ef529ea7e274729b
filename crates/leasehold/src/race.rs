//! Whichever of two futures is ready first.

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
