//! How requests reach a server: over connections of our own, made from a URL, or over those
//! that the user handed in.

use std::any::TypeId;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, RedisError, Value};
use tokio::runtime::{Handle, Id as RuntimeId};
use tokio::sync::oneshot;

use super::gather::{self, Gathering, Item};
use super::grants;
use super::reply::{LinkError, Stage};
use crate::clock::{Clock, Moment};
use crate::lobby::Lobby;

pub(crate) type Outcome = Result<Value, LinkError>;
pub(crate) type Reply = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Something that carries a command to a server and its reply back.
pub(crate) trait Link: Send + Sync + fmt::Debug {
    fn send(&self, command: Arc<Cmd>) -> Reply;

    /// Sends what can share a call with others, and does so where there are any. The part of
    /// the reply that is about it.
    fn gather(self: Arc<Self>, item: Item) -> Reply;

    /// What tells the lobby of hand-overs; `None` if there is no way to subscribe.
    fn listen(&self, _lobby: &Arc<Lobby>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        None
    }

    /// A command sent at that moment got no answer in time.
    fn suspect(&self, _sent_at: Moment) {}
}

/// Connections of our own, one for each runtime that sends through this link.
///
/// A connection is driven by the runtime it was made on: another runtime could not rely on
/// that one being polled, or outliving it. The keeper's runtime gets its own in the same way.
pub(crate) struct OwnConnections {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    address: Arc<str>,
    connect_timeout: Duration,
    command_timeout: Duration,
    lanes: Mutex<HashMap<RuntimeId, Arc<Lane>>>,
}

/// One runtime's connection.
struct Lane {
    state: Mutex<LaneState>,
    /// Ends the task that waits for the end of the runtime.
    _watched: oneshot::Sender<()>,
}

enum LaneState {
    Idle,
    /// A task of the runtime's connects, and tells these. It is nobody's own, so that one who
    /// gives up does not make the others begin again.
    Connecting(Vec<oneshot::Sender<Result<Arc<Connected>, LinkError>>>),
    Ready(Arc<Connected>),
    Failed(Moment, LinkError),
}

/// A connection, on the runtime that drives it.
pub(super) struct Connected {
    connection: MultiplexedConnection,
    pub(super) runtime: Handle,
    pub(super) gathering: Gathering,
    since: Moment,
    silence: Silence,
    /// After so long without an answer it is taken for dead, whoever waits or does not.
    pub(super) longest_silence: Duration,
    lane: Weak<Lane>,
    address: Arc<str>,
}

/// Since when a connection owes an answer: nanoseconds of a moment, zero if it does not.
#[derive(Default)]
struct Silence(AtomicU64);

impl OwnConnections {
    pub(crate) fn new(
        client: Client,
        connect_timeout: Duration,
        command_timeout: Duration,
    ) -> Self {
        let address = match client.get_connection_info().addr() {
            address @ ConnectionAddr::TcpTls { .. } => format!("{address} by TLS").into(),
            address => address.to_string().into(),
        };
        let lanes = Mutex::default();
        let shared = Shared { client, address, connect_timeout, command_timeout, lanes };
        Self { shared: Arc::new(shared) }
    }
}

impl Link for OwnConnections {
    fn send(&self, command: Arc<Cmd>) -> Reply {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let connected = shared.connected().await?;
            connected.send(command).await
        })
    }

    fn gather(self: Arc<Self>, item: Item) -> Reply {
        Box::pin(async move {
            let connected = self.shared.connected().await?;
            match gather::send(&connected, item.clone()).await {
                // Its connection was given up while it waited: it is nobody's fault but that one's.
                Err(failed) if failed.stage == Stage::NotSent => {
                    let connected = self.shared.connected().await?;
                    gather::send(&connected, item).await
                }
                outcome => outcome,
            }
        })
    }

    fn listen(&self, lobby: &Arc<Lobby>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let Shared { client, connect_timeout, .. } = &*self.shared;
        Some(grants::listen(client.clone(), *connect_timeout, lobby))
    }

    fn suspect(&self, sent_at: Moment) {
        let Ok(runtime) = Handle::try_current() else { return };
        let lane = lock(&self.shared.lanes).get(&runtime.id()).cloned();
        if let Some(lane) = lane {
            lane.forget(sent_at);
        }
    }
}

impl Shared {
    fn lane(self: &Arc<Self>, runtime: &Handle) -> Arc<Lane> {
        let (watched, unwatched) = oneshot::channel();
        let lane = {
            let mut lanes = lock(&self.lanes);
            if let Some(lane) = lanes.get(&runtime.id()) {
                return Arc::clone(lane);
            }
            let lane = Arc::new(Lane { state: Mutex::new(LaneState::Idle), _watched: watched });
            lanes.insert(runtime.id(), Arc::clone(&lane));
            lane
        };
        let watch = Watch {
            shared: Arc::downgrade(self),
            lane: Arc::downgrade(&lane),
            runtime: runtime.id(),
        };
        // Not under the lock: a runtime that is shutting down drops the task at once.
        runtime.spawn(watch.until(unwatched));
        lane
    }

    /// This runtime's connection.
    async fn connected(self: &Arc<Self>) -> Result<Arc<Connected>, LinkError> {
        let runtime = Handle::try_current()
            .map_err(|error| self.failed(io::Error::other(error).into(), Stage::NoRuntime))?;
        let lane = self.lane(&runtime);
        let told = {
            let mut state = lock(&lane.state);
            let now = Clock::System.now();
            if let LaneState::Ready(connected) = &*state {
                if !connected.silence.is_longer_than(self.command_timeout, now) {
                    return Ok(Arc::clone(connected));
                }
                connected.gathering.abandon(&connected.not_sent());
                *state = LaneState::Idle;
            }
            if let LaneState::Failed(at, failed) = &*state {
                // A crowd shares the outcome of one try.
                if now.since(*at) < SHARED_FAILURE {
                    return Err(failed.clone());
                }
                *state = LaneState::Idle;
            }
            let (tell, told) = oneshot::channel();
            match &mut *state {
                LaneState::Connecting(waiting) => {
                    waiting.push(tell);
                    drop(state);
                }
                idle => {
                    *idle = LaneState::Connecting(vec![tell]);
                    drop(state);
                    let connecting = Connecting {
                        shared: Arc::clone(self),
                        lane: Arc::clone(&lane),
                        runtime: runtime.clone(),
                        is_over: false,
                    };
                    runtime.spawn(connecting.run());
                }
            }
            told
        };
        match told.await {
            Ok(outcome) => outcome,
            Err(_) => {
                let gone = io::Error::other("the runtime that was connecting has shut down");
                Err(self.failed(gone.into(), Stage::Connecting))
            }
        }
    }

    fn failed(&self, error: RedisError, stage: Stage) -> LinkError {
        LinkError { error, address: Arc::clone(&self.address), stage }
    }
}

impl Lane {
    /// Drops the connection if it was there at `seen`; a later one is not to blame.
    fn forget(&self, seen: Moment) {
        let mut state = lock(&self.state);
        if let LaneState::Ready(connected) = &*state
            && connected.since <= seen
        {
            connected.gathering.abandon(&connected.not_sent());
            *state = LaneState::Idle;
        }
    }
}

impl Connected {
    pub(super) async fn send(&self, command: Arc<Cmd>) -> Outcome {
        let mut connection = self.connection.clone();
        self.silence.begins(Clock::System.now());
        let reply = command.query_async(&mut connection).await;
        self.silence.ends();
        reply.map_err(|error| {
            let failed = self.failed(error, Stage::Sent);
            if failed.is_end_of_connection()
                && let Some(lane) = self.lane.upgrade()
            {
                lane.forget(self.since);
            }
            failed
        })
    }

    /// Nobody uses it any more, and nothing more is sent of what waits for its turn on it.
    pub(super) fn give_up(&self) {
        if let Some(lane) = self.lane.upgrade() {
            lane.forget(self.since);
        }
        self.gathering.abandon(&self.not_sent());
    }

    /// For what was not sent, and can be on another connection.
    pub(super) fn not_sent(&self) -> LinkError {
        let what = "the connection was given up before this was sent";
        self.failed(io::Error::other(what).into(), Stage::NotSent)
    }

    /// For what may have been sent.
    pub(super) fn unanswered(&self) -> LinkError {
        let what = "the connection was given up, or its runtime has shut down";
        self.failed(io::Error::other(what).into(), Stage::Sent)
    }

    fn failed(&self, error: RedisError, stage: Stage) -> LinkError {
        LinkError { error, address: Arc::clone(&self.address), stage }
    }
}

/// One try to connect, as a task of the lane's runtime.
struct Connecting {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
    runtime: Handle,
    /// Whether the lane has the outcome, and may be on to the next try.
    is_over: bool,
}

impl Connecting {
    async fn run(mut self) {
        // No response timeout: the caller has a deadline of its own, and a reply that comes
        // late must still be seen, to give back what it granted.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.shared.connect_timeout))
            .set_response_timeout(None);
        let outcome =
            self.shared.client.get_multiplexed_async_connection_with_config(&config).await;
        let now = Clock::System.now();
        let outcome = match outcome {
            Ok(connection) => Ok(Arc::new(Connected {
                connection,
                runtime: self.runtime.clone(),
                gathering: Gathering::default(),
                since: now,
                silence: Silence::default(),
                longest_silence: 2 * self.shared.command_timeout,
                lane: Arc::downgrade(&self.lane),
                address: Arc::clone(&self.shared.address),
            })),
            Err(error) => Err(self.shared.failed(error, Stage::Connecting)),
        };
        let next = match &outcome {
            Ok(connected) => LaneState::Ready(Arc::clone(connected)),
            Err(failed) => LaneState::Failed(now, failed.clone()),
        };
        let before = std::mem::replace(&mut *lock(&self.lane.state), next);
        self.is_over = true;
        if let LaneState::Connecting(waiting) = before {
            for tell in waiting {
                let _ = tell.send(outcome.clone());
            }
        }
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        // If the runtime has shut down half-way, those who wait learn it by their channels.
        if !self.is_over {
            *lock(&self.lane.state) = LaneState::Idle;
        }
    }
}

/// A request may be cut short by its caller before the connection is known to be dead, again
/// and again; what counts is for how long nothing at all has come back.
impl Silence {
    fn begins(&self, now: Moment) {
        let _ = self.0.compare_exchange(0, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed);
    }

    fn ends(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn is_longer_than(&self, time: Duration, now: Moment) -> bool {
        let since = self.0.load(Ordering::Relaxed);
        since != 0 && now.since(Moment::from_nanos(since)) >= time
    }
}

impl fmt::Debug for OwnConnections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnConnections").field("address", &self.shared.address).finish()
    }
}

/// Lives in a runtime as a task; dropped with the runtime, it takes the lane along.
struct Watch {
    shared: Weak<Shared>,
    lane: Weak<Lane>,
    runtime: RuntimeId,
}

impl Watch {
    async fn until(self, lane_gone: oneshot::Receiver<()>) {
        let _ = lane_gone.await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut lanes = lock(&shared.lanes);
        // The identity of a runtime may come again: only if it is our lane.
        let is_ours = |lane: &Arc<Lane>| std::ptr::eq(Arc::as_ptr(lane), self.lane.as_ptr());
        if lanes.get(&self.runtime).is_some_and(is_ours) {
            lanes.remove(&self.runtime);
        }
    }
}

/// A connection that the user made, shared by all requests.
pub(crate) struct GivenConnection<C> {
    connection: C,
}

impl<C> GivenConnection<C> {
    pub(crate) fn new(connection: C) -> Self {
        Self { connection }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync + 'static> Link for GivenConnection<C> {
    fn send(&self, command: Arc<Cmd>) -> Reply {
        let mut connection = self.connection.clone();
        Box::pin(async move {
            command.query_async(&mut connection).await.map_err(|error| {
                let is_plain = TypeId::of::<C>() == TypeId::of::<MultiplexedConnection>();
                let is_over = is_plain && error.is_unrecoverable_error();
                let stage = if is_over { Stage::SentOnMortal } else { Stage::Sent };
                LinkError { error, address: GIVEN.into(), stage }
            })
        })
    }

    fn gather(self: Arc<Self>, item: Item) -> Reply {
        send_alone(self, item)
    }
}

impl<C> fmt::Debug for GivenConnection<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenConnection")
    }
}

/// The user's way to get a connection, such as a pool: asked for each request.
pub(crate) struct Factory<F> {
    make: Arc<F>,
}

impl<F> Factory<F> {
    pub(crate) fn new(make: F) -> Self {
        Self { make: Arc::new(make) }
    }
}

impl<F, Making, C, E> Link for Factory<F>
where
    F: Fn() -> Making + Send + Sync + 'static,
    Making: Future<Output = Result<C, E>> + Send + 'static,
    C: ConnectionLike + Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    fn send(&self, command: Arc<Cmd>) -> Reply {
        let make = Arc::clone(&self.make);
        Box::pin(async move {
            let failed = |error, stage| LinkError { error, address: GIVEN.into(), stage };
            let made = make().await.map_err(|error| as_redis_error(error.into()));
            let mut connection = made.map_err(|error| failed(error, Stage::Connecting))?;
            let reply = command.query_async(&mut connection).await;
            reply.map_err(|error| failed(error, Stage::Sent))
        })
    }

    fn gather(self: Arc<Self>, item: Item) -> Reply {
        send_alone(self, item)
    }
}

/// Over connections that are not ours nothing is gathered: when one of them hangs, only its
/// maker can tell, and whatever waited for it would hang along.
fn send_alone(link: Arc<dyn Link>, item: Item) -> Reply {
    Box::pin(async move { gather::alone(item, |command| link.send(command)).await })
}

impl<F> fmt::Debug for Factory<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Factory")
    }
}

/// What a failed try to connect is the answer for, to those who came meanwhile.
const SHARED_FAILURE: Duration = Duration::from_millis(10);

const GIVEN: &str = "the connection given to leasehold";

fn as_redis_error(error: Box<dyn Error + Send + Sync>) -> RedisError {
    match error.downcast::<RedisError>() {
        Ok(error) => *error,
        Err(other) => io::Error::other(other).into(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is never left half-changed by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
