//! Many requests in one script call, where they pile up.
//!
//! ```text
//!   request ──► few calls under way? ── yes ──► sent at once, alone, by its caller
//!                      │ no
//!                      ▼
//!                    queue ──► a worker sends all that wait, round after round
//! ```
//!
//! A request that finds the way free is sent by its own caller and loses no time. Others wait for
//! a worker's next round, and go out together with all that came meanwhile. So calls grow with the
//! load, and nobody has to choose a delay. Claims go together with claims, and releases with
//! releases, two calls in one write.
//!
//! Workers are tasks of the connection's runtime and depend on no caller: one that is not polled,
//! or is dropped, holds up nobody. A caller whose time is up before its request was sent is left
//! out of the call. A connection that is given up lets go of all that had not been sent.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::redis::{Cmd, Value};
use tokio::sync::{Notify, oneshot};

use super::connect::{Connected, Outcome};
use super::reply::{self, LinkError};
use super::script::{self, Script};
use crate::clock::Clock;
use crate::deed::Deed;
use crate::name::FENCE_KEY;
use crate::race::{First, both, first_of};
use crate::store::redis::millis;
use crate::store::{Claim, Seat};
use crate::token::Token;

/// A request that can share a script call with others of its kind.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Claim(Claim),
    Release { deed: Arc<Deed>, recorded: bool },
}

/// What an item asks for. Those of one verb can share a call.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Claim,
    Release,
}

impl Item {
    fn verb(&self) -> Verb {
        match self {
            Self::Claim(_) => Verb::Claim,
            Self::Release { .. } => Verb::Release,
        }
    }

    fn deed(&self) -> &Deed {
        match self {
            Self::Claim(claim) => &claim.deed,
            Self::Release { deed, .. } => deed,
        }
    }

    /// The script of one call for all of these, which are of one verb, and the call. The answer
    /// has a part for each.
    fn call(items: &[Self]) -> (&'static Script, Cmd) {
        let keys = || items.iter().flat_map(|item| item.deed().keys.iter());
        let noted = || items.iter().filter(|item| item.is_noted());
        let names = keys().count();
        let facts = noted().map(|item| item.deed().keys.len()).sum::<usize>();
        let script = match items[0].verb() {
            Verb::Claim => &script::CLAIM,
            Verb::Release => &script::RELEASE,
        };
        let mut call = script.call(1 + 3 * names + facts);
        call.arg(FENCE_KEY);
        keys().for_each(|key| _ = call.arg(key.lock()));
        keys().for_each(|key| _ = call.arg(key.line()));
        keys().for_each(|key| _ = call.arg(key.places()));
        for key in noted().flat_map(|item| item.deed().keys.iter()) {
            call.arg(key.facts());
        }
        if let Verb::Release = items[0].verb() {
            call.arg(names);
        }
        for item in items {
            item.add_arguments(&mut call);
        }
        (script, call)
    }

    fn is_noted(&self) -> bool {
        matches!(self, Self::Release { recorded: true, .. })
    }

    fn add_arguments(&self, call: &mut Cmd) {
        call.arg(self.deed().keys.len());
        match self {
            Self::Claim(Claim { deed, ttl, seat }) => {
                call.arg(deed.tag()).arg(millis(*ttl));
                add_seat(call, seat.as_ref());
            }
            Self::Release { deed, recorded } => {
                call.arg(u8::from(*recorded)).arg(deed.token.as_bytes());
            }
        }
    }
}

/// How one who would wait is to be served; of one who would not, that it would not.
pub(super) fn add_seat(call: &mut Cmd, seat: Option<&Seat>) {
    match seat {
        Some(Seat { channel, accept, stale, replaces }) => {
            call.arg(&**channel).arg(millis(*accept)).arg(millis(*stale));
            call.arg(replaces.as_ref().map_or(&[][..], Token::as_bytes));
        }
        None => {
            call.arg("-").arg(0).arg(0).arg("");
        }
    }
}

/// What waits for its turn on one connection.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    state: Mutex<State>,
    over: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that their own callers send.
    alone: usize,
    workers: usize,
    claims: VecDeque<Waiting>,
    releases: VecDeque<Waiting>,
    /// The connection has been given up.
    is_over: bool,
}

#[derive(Debug)]
struct Waiting {
    item: Item,
    tell: oneshot::Sender<Outcome>,
}

impl Gathering {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that panics runs under this mutex.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection is given up: what has not been sent will not be, and nobody waits for the
    /// answer to what has.
    pub(super) fn abandon(&self, not_sent: &LinkError) {
        let [claims, releases] = self.lock().end();
        self.over.notify_waiters();
        for waiting in claims.into_iter().chain(releases) {
            let _ = waiting.tell.send(Err(not_sent.clone()));
        }
    }

    async fn over(&self) {
        let over = self.over.notified();
        if !self.lock().is_over {
            over.await;
        }
    }
}

impl State {
    fn push(&mut self, item: Item) -> oneshot::Receiver<Outcome> {
        let (tell, told) = oneshot::channel();
        let queue = match item.verb() {
            Verb::Claim => &mut self.claims,
            Verb::Release => &mut self.releases,
        };
        queue.push_back(Waiting { item, tell });
        told
    }

    /// Nothing more is sent. Those who wait, to be told outside of the lock.
    fn end(&mut self) -> [VecDeque<Waiting>; 2] {
        self.is_over = true;
        [std::mem::take(&mut self.claims), std::mem::take(&mut self.releases)]
    }
}

/// Sends the item, alone or in company. Its part of the answer.
pub(super) async fn send(connected: &Arc<Connected>, item: Item) -> Outcome {
    let queued = {
        let mut state = connected.gathering.lock();
        if state.is_over {
            return Err(connected.not_sent());
        }
        if state.alone + state.workers < MOST_SENDERS {
            state.alone += 1;
            Err(item)
        } else {
            let is_worker_needed = state.workers < MOST_SENDERS;
            state.workers += usize::from(is_worker_needed);
            Ok((state.push(item), is_worker_needed))
        }
    };
    let (told, is_worker_needed) = match queued {
        Ok(queued) => queued,
        Err(item) => {
            let _turn = Alone(connected);
            return alone(item, |command| connected.send(command)).await;
        }
    };
    if is_worker_needed {
        let worker = Worker { connected: Arc::clone(connected), is_done: false };
        connected.runtime.spawn(worker.run());
    }
    // Dropped with the connection or its runtime: whether it was sent is not known.
    told.await.unwrap_or_else(|_| Err(connected.unanswered()))
}

/// A request that its own caller sends.
struct Alone<'a>(&'a Connected);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.gathering.lock().alone -= 1;
    }
}

/// Sends what waits, round after round, until nothing does.
struct Worker {
    connected: Arc<Connected>,
    is_done: bool,
}

impl Worker {
    async fn run(mut self) {
        let connected = Arc::clone(&self.connected);
        while let Some((claims, releases)) = self.next_round() {
            let round = both(serve(&connected, claims), serve(&connected, releases));
            let deadline = Clock::System.now() + connected.longest_silence;
            let in_time =
                Clock::System.until(deadline, first_of(round, connected.gathering.over()));
            if !matches!(in_time.await, Some(First::Left(()))) {
                return; // the connection is of no more use, and our end says so
            }
        }
    }

    /// All that wait, as far as two calls take them; `None` when there are none.
    fn next_round(&mut self) -> Option<(Vec<Waiting>, Vec<Waiting>)> {
        let mut state = self.connected.gathering.lock();
        let (claims, releases) = (take(&mut state.claims), take(&mut state.releases));
        if claims.is_empty() && releases.is_empty() {
            state.workers -= 1;
            self.is_done = true;
            return None;
        }
        Some((claims, releases))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // No answer, or the runtime shuts down, and the connection with it.
        if !self.is_done {
            self.connected.give_up();
        }
    }
}

/// The first of those that wait, as many as one call takes.
fn take(queue: &mut VecDeque<Waiting>) -> Vec<Waiting> {
    let mut batch = Vec::new();
    let mut names = 0;
    while let Some(next) = queue.front() {
        let more = if next.tell.is_closed() { 0 } else { next.item.deed().keys.len() };
        if names + more > LARGEST_CALL && !batch.is_empty() {
            break;
        }
        names += more;
        // For one whose time is up, nothing is to be taken. (Of one that was dropped the keeper
        // waits for the answer, to give back what it brings.)
        batch.extend(queue.pop_front().filter(|next| !next.tell.is_closed()));
    }
    batch
}

/// Sends a batch as one call, and tells each its part of the answer.
async fn serve(connected: &Arc<Connected>, batch: Vec<Waiting>) {
    if batch.is_empty() {
        return;
    }
    let (items, tells): (Vec<_>, Vec<_>) =
        batch.into_iter().map(|Waiting { item, tell }| (item, tell)).unzip();
    match run(&items, |command| connected.send(command)).await {
        Ok(parts) => {
            for (tell, part) in tells.into_iter().zip(parts) {
                let _ = tell.send(Ok(part));
            }
        }
        // One of them may be to blame, such as a name that the user may not touch, and the
        // others are not: each for itself. Asking again is harmless: a script that fails has
        // done nothing, or nothing that the same token could not ask for again.
        Err(failed) if items.len() > 1 && !failed.is_about_the_server() => {
            for (item, tell) in items.into_iter().zip(tells) {
                let connected = Arc::clone(connected);
                if tell.is_closed() {
                    continue;
                }
                tokio::spawn(async move {
                    let outcome = alone(item, |command| connected.send(command)).await;
                    let _ = tell.send(outcome);
                });
            }
        }
        Err(failed) => {
            for tell in tells {
                let _ = tell.send(Err(failed.clone()));
            }
        }
    }
}

/// One call; its answer in parts, one for each item.
pub(super) async fn run<S, R>(items: &[Item], send: S) -> Result<Vec<Value>, LinkError>
where
    S: Fn(Arc<Cmd>) -> R,
    R: Future<Output = Outcome>,
{
    let (script, call) = Item::call(items);
    let reply = script.run(call, send).await?;
    Ok(reply::each(reply, items.len()))
}

/// A call for one item.
pub(super) async fn alone<S, R>(item: Item, send: S) -> Outcome
where
    S: Fn(Arc<Cmd>) -> R,
    R: Future<Output = Outcome>,
{
    let mut parts = run(&[item], send).await?;
    Ok(parts.pop().unwrap_or(Value::Nil))
}

/// How many send at once before requests are gathered. Fewer leave the server idle between two
/// rounds; more make the rounds small.
const MOST_SENDERS: usize = 2;

/// Names in one call at the most, unless one request alone has more. Larger calls hardly cost
/// less for each name, and make everybody else wait.
const LARGEST_CALL: usize = 100;
