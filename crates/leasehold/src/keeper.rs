//! Renews what is held, notices what is lost, and cleans up what was left behind.
//!
//! One keeper for each client, on a thread of its own with a runtime and so a connection of
//! its own: a program that blocks its runtime keeps its leases all the same. The thread is
//! started by the first lease. Taking a lease does not wake it: it looks by itself once a
//! second while anything is held, and sooner where something is due sooner.
//!
//! On a manual clock there is no thread; the clock drives the keeper.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::backoff::Backoff;
use crate::clock::{Clock, Driven, Moment};
use crate::error::StoreError;
use crate::lease::{Holding, LossReason, Renewed};
use crate::proto::tenure::{self, Action, Ticket};
use crate::store::{Call, Claimed, Kept, Record, Renewal, Store};

/// The client's handle; when the last one goes, the thread finishes its chores and ends.
#[derive(Debug)]
pub(crate) struct Keeper {
    desk: Arc<Desk>,
    /// What a manual clock drives, and lets go of when the keeper goes.
    _driven: Option<Arc<dyn Driven>>,
}

/// What the keeper's thread and those who use it share.
#[derive(Debug)]
struct Desk {
    store: Arc<dyn Store>,
    clock: Clock,
    command_timeout: Duration,
    state: Mutex<State>,
    wake: Notify,
    chore_done: Notify,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Every lease held, by when it has to be looked at next.
    timers: BTreeMap<(Moment, u64), Arc<Holding>>,
    chores: Vec<Chore>,
    chores_open: usize,
    chores_failed: usize,
    /// When the thread looks by itself; while it is at work, the beginning of time.
    next_look: Moment,
    has_thread: bool,
    closed: bool,
}

/// A lease, or what may be one, that nobody wants any more.
pub(crate) struct Chore {
    /// A claim still under way: what it brings is not wanted.
    pub(crate) pending: Option<Call<Claimed>>,
    /// Whether an earlier request got no answer, and may yet be carried out.
    pub(crate) unresolved: bool,
    pub(crate) holding: Arc<Holding>,
    /// When the store has let go of it by itself.
    pub(crate) until: Moment,
}

impl fmt::Debug for Chore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chore").field("holding", &self.holding).finish_non_exhaustive()
    }
}

impl Keeper {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Clock, command_timeout: Duration) -> Self {
        let desk = Arc::new(Desk {
            store,
            clock,
            command_timeout,
            state: Mutex::new(State {
                timers: BTreeMap::new(),
                chores: Vec::new(),
                chores_open: 0,
                chores_failed: 0,
                next_look: Moment::NEVER,
                has_thread: false,
                closed: false,
            }),
            wake: Notify::new(),
            chore_done: Notify::new(),
            next_id: AtomicU64::new(1),
        });
        let driven = match &desk.clock {
            Clock::System => None,
            Clock::Manual(clock) => {
                let driven: Arc<dyn Driven> = Arc::new(DrivenByClock { desk: Arc::clone(&desk) });
                clock.drives(Arc::downgrade(&driven));
                Some(driven)
            }
        };
        Self { desk, _driven: driven }
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.desk.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Looks after a lease from now on. `false` if the client was closed meanwhile.
    pub(crate) fn keep(&self, holding: &Arc<Holding>) -> bool {
        let mut state = self.desk.lock();
        if state.closed {
            return false;
        }
        self.desk.schedule(&mut state, holding);
        true
    }

    /// A lease's times have changed.
    pub(crate) fn reschedule(&self, holding: &Arc<Holding>) {
        self.desk.reschedule(holding);
    }

    pub(crate) fn forget(&self, holding: &Holding) {
        self.desk.lock().unschedule(holding);
    }

    /// Gives back what nobody wants any more, without making the caller wait.
    pub(crate) fn clean_up(&self, chore: Chore) {
        self.desk.add_chore(chore);
    }

    /// Releases all that is held. Answers how many could not be released by `deadline`.
    pub(crate) async fn close(&self, deadline: Moment) -> usize {
        let desk = &self.desk;
        let now = desk.clock.now();
        let held: Vec<_> = {
            let mut state = desk.lock();
            state.closed = true;
            state.chores_failed = 0;
            std::mem::take(&mut state.timers).into_values().collect()
        };
        for holding in held {
            holding.set_timer(None);
            if let Some(chore) = holding.give_up(now) {
                desk.add_chore(chore);
            }
        }
        let drained = desk.clock.until(deadline, desk.all_chores_done()).await;
        desk.wake.notify_one();
        let state = desk.lock();
        state.chores_failed + if drained.is_none() { state.chores_open } else { 0 }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.desk.lock().closed = true;
        self.desk.wake.notify_one();
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this mutex.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reschedule(self: &Arc<Self>, holding: &Arc<Holding>) {
        let mut state = self.lock();
        state.unschedule(holding);
        if !state.closed {
            self.schedule(&mut state, holding);
            return;
        }
        drop(state);
        // It was being looked at while the client was closed.
        if let Some(chore) = holding.give_up(self.clock.now()) {
            self.add_chore(chore);
        }
    }

    fn schedule(self: &Arc<Self>, state: &mut State, holding: &Arc<Holding>) {
        let Some(at) = holding.poll_timeout() else { return };
        holding.set_timer(Some(at));
        state.timers.insert((at, holding.id()), Arc::clone(holding));
        self.expect_look_by(state, at);
    }

    fn add_chore(self: &Arc<Self>, chore: Chore) {
        if self.store.is_inline() {
            // Done before it could be noticed, so even a destructor leaves nothing behind.
            let _ = now_or_never(clean_up(Arc::clone(self), chore));
            return;
        }
        let mut state = self.lock();
        state.chores_open += 1;
        state.chores.push(chore);
        self.expect_look_by(&mut state, self.clock.now());
    }

    fn expect_look_by(self: &Arc<Self>, state: &mut State, at: Moment) {
        if matches!(self.clock, Clock::Manual(_)) {
            return;
        }
        if !state.has_thread {
            state.has_thread = true;
            state.next_look = Moment::from_nanos(0);
            let desk = Arc::clone(self);
            let started = std::thread::Builder::new()
                .name("leasehold-keeper".into())
                .spawn(move || run_thread(&desk));
            if let Err(error) = started {
                state.has_thread = false;
                tracing::error!(%error, "no thread for the keeper: leases will not be renewed");
            }
        } else if at < state.next_look {
            self.wake.notify_one();
        }
    }

    async fn all_chores_done(&self) {
        loop {
            let done = self.chore_done.notified();
            if self.lock().chores_open == 0 {
                return;
            }
            done.await;
        }
    }

    /// Takes out all that is due, and decides what to do about it.
    fn take_due(self: &Arc<Self>, now: Moment) -> (Vec<Batch>, Vec<Chore>) {
        let due = {
            let mut state = self.lock();
            // With those that fall due in a moment, so that they go out in one call.
            let later = state.timers.split_off(&(now + GATHERING, u64::MAX));
            let due = std::mem::replace(&mut state.timers, later);
            due.values().for_each(|holding| holding.set_timer(None));
            due
        };
        let mut renewals = Vec::new();
        for holding in due.into_values() {
            match holding.poll_action(now) {
                Action::Renew { ttl, record } => {
                    renewals.push(Arc::clone(&holding).begin_renewal(now, ttl, record));
                }
                // A renewal that got no answer may still be carried out, for nobody. Otherwise
                // the store lets go by itself, and not before the holder's drift is over.
                Action::Lost(_) if holding.has_unanswered_renewals() => {
                    self.add_chore(holding.remains(now));
                }
                Action::Lost(_) | Action::Idle => {}
            }
            self.reschedule(&holding);
        }
        let chores = std::mem::take(&mut self.lock().chores);
        (Batch::divide(now, renewals), chores)
    }
}

impl State {
    fn unschedule(&mut self, holding: &Holding) {
        if let Some(at) = holding.timer() {
            self.timers.remove(&(at, holding.id()));
            holding.set_timer(None);
        }
    }
}

fn run_thread(desk: &Arc<Desk>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "no runtime for the keeper: leases will not be renewed");
            desk.lock().has_thread = false;
            return;
        }
    };
    runtime.block_on(async {
        loop {
            let now = desk.clock.now();
            let (batches, chores) = desk.take_due(now);
            for batch in batches {
                tokio::spawn(renew(Arc::clone(desk), batch));
            }
            for chore in chores {
                tokio::spawn(clean_up(Arc::clone(desk), chore));
            }
            let look_at = {
                let mut state = desk.lock();
                if state.closed && state.timers.is_empty() && state.chores_open == 0 {
                    state.has_thread = false;
                    return;
                }
                state.next_look = match state.timers.first_key_value() {
                    // Left while we were at work, when nobody wakes us.
                    _ if !state.chores.is_empty() => now,
                    None => Moment::NEVER,
                    // Timers stand still during suspend, so none is longer than this.
                    Some(((due, _), _)) => (*due).min(now + LONGEST_SLEEP),
                };
                state.next_look
            };
            desk.clock.until(look_at, desk.wake.notified()).await;
            desk.lock().next_look = Moment::from_nanos(0);
        }
    });
}

/// The keeper under a manual clock: what is due is done when the clock says so.
#[derive(Debug)]
struct DrivenByClock {
    desk: Arc<Desk>,
}

impl Driven for DrivenByClock {
    fn next_due(&self) -> Option<Moment> {
        self.desk.lock().timers.first_key_value().map(|((due, _), _)| *due)
    }

    fn drive(&self) {
        let (batches, chores) = self.desk.take_due(self.desk.clock.now());
        for batch in batches {
            now_or_never(renew(Arc::clone(&self.desk), batch));
        }
        for chore in chores {
            now_or_never(clean_up(Arc::clone(&self.desk), chore));
        }
    }
}

/// Renewals that go to the store in one call.
struct Batch {
    sent_at: Moment,
    renewals: Vec<Sent>,
}

/// One renewal that is about to be sent.
pub(crate) struct Sent {
    pub(crate) holding: Arc<Holding>,
    pub(crate) ticket: Ticket,
    pub(crate) record: Record,
    pub(crate) is_record: bool,
}

impl Batch {
    /// Divides by kind, and by urgency: a batch has the time that its shortest lease allows.
    fn divide(sent_at: Moment, mut renewals: Vec<Sent>) -> Vec<Self> {
        renewals.sort_by_key(|sent| (sent.is_record, sent.record.renewal.ttl));
        let mut batches: Vec<Self> = Vec::new();
        for sent in renewals {
            match batches.last_mut() {
                Some(batch) if batch.takes(&sent) => batch.renewals.push(sent),
                _ => batches.push(Self { sent_at, renewals: vec![sent] }),
            }
        }
        batches
    }

    fn takes(&self, sent: &Sent) -> bool {
        let first = &self.renewals[0];
        self.renewals.len() < LARGEST_BATCH
            && first.is_record == sent.is_record
            && sent.record.renewal.ttl <= first.record.renewal.ttl * 4
    }

    fn send(&self, store: &dyn Store) -> Call<Vec<Kept>> {
        if self.renewals[0].is_record {
            let records: Vec<_> = self.renewals.iter().map(|sent| sent.record.clone()).collect();
            store.record(&records)
        } else {
            let plain = |sent: &Sent| sent.record.renewal.clone();
            let renewals: Vec<Renewal> = self.renewals.iter().map(plain).collect();
            store.renew(&renewals)
        }
    }
}

async fn renew(desk: Arc<Desk>, batch: Batch) {
    // Leave time for another try or two before the shortest lease of the batch runs out.
    let patience = desk.command_timeout.min(batch.renewals[0].record.renewal.ttl / 4);
    let call = batch.send(&*desk.store);
    let outcome = desk.clock.until(batch.sent_at + patience, call).await;
    let now = desk.clock.now();
    let kept = match outcome {
        Some(Ok(kept)) => kept.into_iter().map(Some).collect(),
        Some(Err(error)) => {
            tracing::warn!(leases = batch.renewals.len(), %error, "renewal failed, will try again");
            vec![None; batch.renewals.len()]
        }
        None => {
            desk.store.suspect(batch.sent_at);
            tracing::warn!(
                leases = batch.renewals.len(),
                "renewal got no answer within {patience:?}, will try again"
            );
            vec![None; batch.renewals.len()]
        }
    };
    for (Sent { holding, ticket, .. }, kept) in batch.renewals.into_iter().zip(kept) {
        match kept {
            Some(Kept::Ours) => {
                if holding.handle_renewed(ticket, now) == Renewed::TooLate {
                    desk.add_chore(holding.remains(now));
                }
            }
            Some(Kept::Gone) => holding.handle_gone(ticket, now, LossReason::Released),
            Some(Kept::Taken) => holding.handle_gone(ticket, now, LossReason::Taken),
            None => holding.handle_failed(ticket, now),
        }
        desk.reschedule(&holding);
    }
}

async fn clean_up(desk: Arc<Desk>, chore: Chore) {
    let mut open = OpenChore { desk: Arc::clone(&desk), failed: true };
    open.failed = !release(&desk, chore).await;
}

/// Counts a chore as done however it ends.
struct OpenChore {
    desk: Arc<Desk>,
    failed: bool,
}

impl Drop for OpenChore {
    fn drop(&mut self) {
        if self.desk.store.is_inline() {
            return;
        }
        let mut state = self.desk.lock();
        state.chores_open -= 1;
        state.chores_failed += usize::from(self.failed);
        drop(state);
        self.desk.chore_done.notify_waiters();
        self.desk.wake.notify_one();
    }
}

/// Releases until the store confirms it, or has let go by itself. Answers whether confirmed.
async fn release(desk: &Desk, chore: Chore) -> bool {
    let Chore { pending, mut unresolved, holding, until } = chore;
    if let Some(pending) = pending {
        // Not before the claim has been carried out, or it would be carried out for nobody.
        let deadline = desk.clock.now() + desk.command_timeout;
        match desk.clock.until(deadline, pending).await {
            Some(Ok(Claimed::Granted { .. })) => {}
            Some(Ok(Claimed::Held(_) | Claimed::Foreign { .. })) if !unresolved => return true,
            Some(Err(StoreError::Refused(_))) if !unresolved => return true,
            Some(Err(StoreError::Unreachable(error)))
                if !unresolved && !error.is_maybe_applied() =>
            {
                return true;
            }
            Some(_) | None => unresolved = true,
        }
    }
    // What got no answer may be carried out late; so look again, and once more.
    let mut looks = if unresolved { 3 } else { 1 };
    let mut failures = 0;
    loop {
        let now = desk.clock.now();
        if now >= until {
            return unresolved;
        }
        let deadline = now + desk.command_timeout;
        let call = desk.store.release(holding.key(), holding.token(), holding.is_recorded());
        let pause = match desk.clock.until(deadline, call).await {
            Some(Ok(_)) => {
                looks -= 1;
                failures = 0;
                if looks == 0 {
                    return true;
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

/// The outcome of a future that is ready at once, as all are on an inline store.
fn now_or_never<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Measured: a renewal costs the server half as much in calls of 100, and larger calls make
/// everybody else wait for milliseconds.
const LARGEST_BATCH: usize = 100;
/// Renewals that fall due within this time go out together, as far as their TTLs allow.
const GATHERING: Duration = tenure::MOST_EARLY;
const LONGEST_SLEEP: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(500);
const RETRY_PACE: Backoff = Backoff::exponential(Duration::from_millis(50), Duration::from_secs(1));
