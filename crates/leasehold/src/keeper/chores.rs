//! What was left behind: leases dropped, acquisitions dropped, releases that found no store.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::Desk;
use crate::backoff::Backoff;
use crate::clock::Moment;
use crate::error::StoreError;
use crate::holding::Holding;
use crate::store::{Call, Claimed};

/// A lease, or what may be one, that nobody wants any more.
pub(crate) struct Chore {
    /// A claim still under way: what it brings is not wanted.
    pub(crate) pending: Option<Call<Claimed>>,
    /// Whether an earlier request got no answer, and may yet be carried out.
    pub(crate) unresolved: bool,
    /// Whether it may have a place in line.
    pub(crate) stands: bool,
    pub(crate) holding: Arc<Holding>,
    /// When the store has let go of it by itself.
    pub(crate) until: Moment,
}

impl fmt::Debug for Chore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chore").field("holding", &self.holding).finish_non_exhaustive()
    }
}

pub(super) async fn clean_up(desk: Arc<Desk>, chore: Chore) {
    let mut open = OpenChore { desk, confirmed: false };
    release(&mut open, chore).await;
}

/// Counts a chore as done however it ends.
struct OpenChore {
    desk: Arc<Desk>,
    confirmed: bool,
}

impl OpenChore {
    /// The store has confirmed it; what follows is to make doubly sure.
    fn confirm(&mut self) {
        if !std::mem::replace(&mut self.confirmed, true) && !self.desk.store.is_inline() {
            self.desk.lock().chores_open -= 1;
            self.desk.work_done.notify_waiters();
        }
    }
}

impl Drop for OpenChore {
    fn drop(&mut self) {
        if self.desk.store.is_inline() {
            return;
        }
        let mut state = self.desk.lock();
        state.chores_running -= 1;
        if !self.confirmed {
            state.chores_open -= 1;
            state.chores_failed += 1;
        }
        drop(state);
        self.desk.work_done.notify_waiters();
        self.desk.wake.notify_one();
    }
}

/// Releases until the store confirms it, or has let go by itself.
async fn release(open: &mut OpenChore, chore: Chore) {
    let desk = Arc::clone(&open.desk);
    let Chore { pending, mut unresolved, stands, holding, until } = chore;
    if let Some(pending) = pending {
        // Not before the claim has been carried out, or it would be carried out for nobody.
        let deadline = desk.clock.now() + desk.command_timeout;
        match desk.clock.until(deadline, caught(pending)).await.flatten() {
            Some(Ok(Claimed::Granted { .. } | Claimed::Queued { .. })) => {}
            Some(Ok(_) | Err(StoreError::Refused(_))) if !unresolved && !stands => {
                return open.confirm();
            }
            Some(Err(StoreError::Unreachable(error)))
                if !unresolved && !stands && !error.is_maybe_applied() =>
            {
                return open.confirm();
            }
            Some(Ok(_) | Err(StoreError::Refused(_))) => {}
            Some(_) | None => unresolved = true,
        }
    }
    // A claim that got no answer may be carried out late; so look again, and once more.
    let mut looks = if unresolved { 3 } else { 1 };
    let mut failures = 0;
    loop {
        let now = desk.clock.now();
        if now >= until {
            return;
        }
        let deadline = now + desk.command_timeout;
        let call = desk.store.release(holding.deed(), holding.is_recorded());
        let pause = match desk.clock.until(deadline, call).await {
            Some(Ok(_)) => {
                open.confirm();
                looks -= 1;
                failures = 0;
                if looks == 0 {
                    return;
                }
                LOOK_AGAIN
            }
            outcome => {
                if outcome.is_none() {
                    desk.store.suspect(now);
                }
                failures += 1;
                RETRY_PACE.pause_after(failures, 0.0).unwrap_or_default()
            }
        };
        desk.clock.sleep_until((desk.clock.now() + pause).min(until)).await;
    }
}

/// The outcome of a request that began on another runtime; `None` if it panics, as timers of a
/// runtime that has shut down do. Those would be in a connection factory of the user's.
async fn caught<T>(mut call: Call<T>) -> Option<Result<T, StoreError>> {
    poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
        match polled {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

const LOOK_AGAIN: Duration = Duration::from_millis(500);
const RETRY_PACE: Backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(1));
