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
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{Clock, Driven, LONGEST_SLEEP, Moment};
use crate::holding::Holding;
use crate::lobby::Lobby;
use crate::proto::tenure::{self, Action};
use crate::store::Store;

mod chores;
mod renewals;

pub(crate) use chores::Chore;
use chores::clean_up;
use renewals::{Batch, Sent, renew};

/// The client's handle; when it goes, the thread finishes its chores and ends.
#[derive(Debug)]
pub(crate) struct Keeper {
    desk: Arc<Desk>,
    /// What a manual clock drives, and lets go of when the keeper goes.
    _driven: Option<Arc<dyn Driven>>,
}

/// What the keeper's thread and those who use it share.
struct Desk {
    store: Arc<dyn Store>,
    clock: Clock,
    command_timeout: Duration,
    state: Mutex<State>,
    wake: Notify,
    /// A chore has its outcome, or a lease in hand is put back.
    work_done: Notify,
    next_id: AtomicU64,
    /// When a failed renewal was last logged, in nanoseconds: once a second will do.
    complained_at: AtomicU64,
}

struct State {
    /// What else is to be run on the thread.
    tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Every lease held, by when it has to be looked at next.
    timers: BTreeMap<(Moment, u64), Arc<Holding>>,
    /// Leases taken out of the timers and not yet put back.
    in_hand: usize,
    chores: Vec<Chore>,
    /// Chores whose first outcome is not known yet, and those that failed.
    chores_open: usize,
    chores_failed: usize,
    /// Chores that still run, be it to look once more.
    chores_running: usize,
    /// When the thread looks by itself; while it is at work, the beginning of time.
    next_look: Moment,
    has_thread: bool,
    closed: bool,
}

impl Keeper {
    pub(crate) fn new(store: Arc<dyn Store>, clock: Clock, command_timeout: Duration) -> Self {
        let desk = Arc::new(Desk {
            store,
            clock,
            command_timeout,
            state: Mutex::new(State {
                tasks: Vec::new(),
                timers: BTreeMap::new(),
                in_hand: 0,
                chores: Vec::new(),
                chores_open: 0,
                chores_failed: 0,
                chores_running: 0,
                next_look: Moment::NEVER,
                has_thread: false,
                closed: false,
            }),
            wake: Notify::new(),
            work_done: Notify::new(),
            next_id: AtomicU64::new(1),
            complained_at: AtomicU64::new(0),
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

    /// Has the store tell the lobby of hand-overs, from the keeper's thread if need be.
    pub(crate) fn listen(&self, lobby: &Arc<Lobby>) {
        if let Some(task) = self.desk.store.listen(lobby) {
            let mut state = self.desk.lock();
            state.tasks.push(task);
            self.desk.expect_look_by(&mut state, self.desk.clock.now());
        }
    }

    /// Takes no more leases, and begins to release all that is held.
    pub(crate) fn begin_close(&self) {
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
            if let Some(chore) = holding.close(now) {
                desk.add_chore(chore);
            }
        }
    }

    /// Waits for what [`begin_close`](Self::begin_close) began. Answers how many could not be
    /// released by `deadline`.
    pub(crate) async fn drained(&self, deadline: Moment) -> usize {
        let desk = &self.desk;
        let drained = desk.clock.until(deadline, desk.all_done()).await;
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
        if let Some(chore) = holding.close(self.clock.now()) {
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
        state.chores_running += 1;
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

    /// Whether it is time to log a failed renewal again.
    fn may_complain(&self, now: Moment) -> bool {
        let last = self.complained_at.load(Ordering::Relaxed);
        let may = last == 0 || now.since(Moment::from_nanos(last)) >= COMPLAINTS;
        if may {
            self.complained_at.store(now.as_nanos(), Ordering::Relaxed);
        }
        may
    }

    async fn all_done(&self) {
        loop {
            let done = self.work_done.notified();
            {
                let state = self.lock();
                if state.chores_open == 0 && state.in_hand == 0 {
                    return;
                }
            }
            done.await;
        }
    }

    /// Takes out all that is due, and decides what to do about it.
    fn take_due(self: &Arc<Self>, now: Moment) -> (Vec<Batch>, Vec<Chore>) {
        let mut in_hand = {
            let mut state = self.lock();
            // With those that fall due in a moment, so that they go out in one call.
            let later = state.timers.split_off(&(now + GATHERING, u64::MAX));
            let due = std::mem::replace(&mut state.timers, later);
            due.values().for_each(|holding| holding.set_timer(None));
            state.in_hand += due.len();
            InHand { desk: self, leases: due.into_values().collect() }
        };
        let mut renewals = Vec::new();
        while let Some(holding) = in_hand.leases.last() {
            match holding.poll_action(now) {
                Action::Renew { ttl, record } => {
                    let (desk, holding) = (Arc::clone(self), Arc::clone(holding));
                    let (ticket, request) = holding.begin_renewal(now, ttl, record);
                    let ticket = Some(ticket);
                    renewals.push(Sent { desk, holding, ticket, request });
                }
                Action::Lost(_) | Action::Idle => {
                    if let Some(chore) = holding.loose_ends(now) {
                        self.add_chore(chore);
                    }
                }
            }
            in_hand.put_back_one();
        }
        drop(in_hand);
        let chores = std::mem::take(&mut self.lock().chores);
        (Batch::divide(now, renewals), chores)
    }
}

/// Leases that were due, until they are put back among the timers: also if a panic (a log
/// subscriber's) comes in between.
struct InHand<'a> {
    desk: &'a Arc<Desk>,
    leases: Vec<Arc<Holding>>,
}

impl InHand<'_> {
    fn put_back_one(&mut self) {
        if let Some(holding) = self.leases.pop() {
            let _put_back = PutBack(self.desk);
            self.desk.reschedule(&holding);
        }
    }
}

/// Counts a lease as put back, also if that panicked.
struct PutBack<'a>(&'a Desk);

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        self.0.lock().in_hand -= 1;
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        while !self.leases.is_empty() {
            self.put_back_one();
        }
        self.desk.work_done.notify_waiters();
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("store", &self.store).finish_non_exhaustive()
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

/// Notices when the thread ends by a panic, which only code of the user's can bring about (a
/// log subscriber, a connection factory), and lets another one take over.
struct OnDuty<'a>(&'a Arc<Desk>);

impl Drop for OnDuty<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.0.lock();
            state.has_thread = false;
            if !state.timers.is_empty() || !state.chores.is_empty() {
                self.0.expect_look_by(&mut state, self.0.clock.now());
            }
        }
    }
}

fn run_thread(desk: &Arc<Desk>) {
    let _on_duty = OnDuty(desk);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "no runtime for the keeper: leases will not be renewed");
            desk.lock().has_thread = false;
            return;
        }
    };
    runtime.block_on(async {
        // The first renewal should not have to wait for a connection.
        tokio::spawn(desk.store.prepare());
        loop {
            let now = desk.clock.now();
            let (batches, chores) = desk.take_due(now);
            for batch in batches {
                tokio::spawn(renew(Arc::clone(desk), batch));
            }
            for chore in chores {
                tokio::spawn(clean_up(Arc::clone(desk), chore));
            }
            for task in std::mem::take(&mut desk.lock().tasks) {
                tokio::spawn(task);
            }
            let look_at = {
                let mut state = desk.lock();
                if state.closed && state.timers.is_empty() && state.chores_running == 0 {
                    state.has_thread = false;
                    return;
                }
                state.next_look = match state.timers.first_key_value() {
                    // Left while we were at work, when nobody wakes us.
                    _ if !state.chores.is_empty() || !state.tasks.is_empty() => now,
                    None => Moment::NEVER,
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

/// The outcome of a future that is ready at once, as all are on an inline store.
fn now_or_never<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Renewals that fall due within this time go out together, as far as their TTLs allow.
const GATHERING: Duration = tenure::MOST_EARLY;
/// How often failed renewals are logged, at the most.
const COMPLAINTS: Duration = Duration::from_secs(1);
