//! How requests reach a server: over connections of our own, made from a URL, or over those
//! that the user handed in.

use std::any::TypeId;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, RedisError, Value};
use tokio::runtime::{Handle, Id as RuntimeId};
use tokio::sync::oneshot;

use super::reply::{LinkError, Stage};
use crate::clock::{Clock, Moment};

pub(crate) type Reply = Pin<Box<dyn Future<Output = Result<Value, LinkError>> + Send>>;

/// Something that carries a command to a server and its reply back.
pub(crate) trait Link: Send + Sync + fmt::Debug {
    fn send(&self, command: Arc<Cmd>) -> Reply;

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
    address: Box<str>,
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
    Connecting(Vec<oneshot::Sender<Result<Ready, LinkError>>>),
    Ready(Ready),
    Failed(Moment, LinkError),
}

#[derive(Clone)]
struct Ready {
    connection: MultiplexedConnection,
    since: Moment,
    silence: Arc<Silence>,
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
            let (lane, ready) = shared.connected().await?;
            let Ready { mut connection, since, silence } = ready;
            silence.begins(Clock::System.now());
            let reply = command.query_async(&mut connection).await;
            silence.ends();
            reply.map_err(|error| {
                let failed = shared.failed(error, Stage::Sent);
                if failed.is_end_of_connection() {
                    lane.forget(since);
                }
                failed
            })
        })
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

    /// This runtime's lane and its connection.
    async fn connected(self: &Arc<Self>) -> Result<(Arc<Lane>, Ready), LinkError> {
        let runtime = Handle::try_current()
            .map_err(|error| self.failed(std::io::Error::other(error).into(), Stage::NoRuntime))?;
        let lane = self.lane(&runtime);
        let told = {
            let mut state = lock(&lane.state);
            let now = Clock::System.now();
            if let LaneState::Ready(ready) = &*state {
                if !ready.silence.is_longer_than(self.command_timeout, now) {
                    let ready = ready.clone();
                    drop(state);
                    return Ok((lane, ready));
                }
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
                        is_over: false,
                    };
                    runtime.spawn(connecting.run());
                }
            }
            told
        };
        match told.await {
            Ok(outcome) => outcome.map(|ready| (lane, ready)),
            Err(_) => {
                let gone = std::io::Error::other("the runtime that was connecting has shut down");
                Err(self.failed(gone.into(), Stage::Connecting))
            }
        }
    }

    fn failed(&self, error: RedisError, stage: Stage) -> LinkError {
        LinkError { error, address: self.address.clone(), stage }
    }
}

impl Lane {
    /// Drops the connection if it was there at `seen`; a later one is not to blame.
    fn forget(&self, seen: Moment) {
        let mut state = lock(&self.state);
        if matches!(&*state, LaneState::Ready(ready) if ready.since <= seen) {
            *state = LaneState::Idle;
        }
    }
}

/// One try to connect, as a task of the lane's runtime.
struct Connecting {
    shared: Arc<Shared>,
    lane: Arc<Lane>,
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
            Ok(connection) => Ok(Ready { connection, since: now, silence: Arc::default() }),
            Err(error) => Err(self.shared.failed(error, Stage::Connecting)),
        };
        let next = match &outcome {
            Ok(ready) => LaneState::Ready(ready.clone()),
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
        Err(other) => std::io::Error::other(other).into(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these guard is never left half-changed by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
