//! How requests reach a server: over connections of our own, made from a URL, or over those
//! that the user handed in.

use std::any::TypeId;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use ::redis::aio::{ConnectionLike, MultiplexedConnection};
use ::redis::{AsyncConnectionConfig, Client, Cmd, ConnectionAddr, RedisError, RedisResult, Value};
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
#[derive(Clone)]
pub(crate) struct OwnConnections {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    address: Box<str>,
    connect_timeout: Duration,
    lanes: Mutex<HashMap<RuntimeId, Arc<Lane>>>,
}

/// One runtime's connection.
struct Lane {
    state: Mutex<LaneState>,
    /// Held while connecting, so that a crowd makes one connection and not a thousand.
    connecting: tokio::sync::Mutex<()>,
    /// Ends the task that waits for the end of the runtime.
    _watched: oneshot::Sender<()>,
}

#[derive(Default)]
struct LaneState {
    ready: Option<Ready>,
    failed: Option<(Moment, LinkError)>,
}

#[derive(Clone)]
struct Ready {
    connection: MultiplexedConnection,
    since: Moment,
}

impl OwnConnections {
    pub(crate) fn new(client: Client, connect_timeout: Duration) -> Self {
        let address = match client.get_connection_info().addr() {
            address @ ConnectionAddr::TcpTls { .. } => format!("{address} by TLS").into(),
            address => address.to_string().into(),
        };
        let lanes = Mutex::default();
        Self { shared: Arc::new(Shared { client, address, connect_timeout, lanes }) }
    }
}

impl Link for OwnConnections {
    fn send(&self, command: Arc<Cmd>) -> Reply {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let lane = shared.lane()?;
            let Ready { mut connection, since } = shared.connected(&lane).await?;
            command.query_async(&mut connection).await.map_err(|error| {
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
    fn lane(self: &Arc<Self>) -> Result<Arc<Lane>, LinkError> {
        let runtime = Handle::try_current()
            .map_err(|error| self.failed(std::io::Error::other(error).into(), Stage::NoRuntime))?;
        if let Some(lane) = lock(&self.lanes).get(&runtime.id()) {
            return Ok(Arc::clone(lane));
        }
        let (watched, unwatched) = oneshot::channel();
        let lane = Arc::new(Lane {
            state: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            _watched: watched,
        });
        let lane = Arc::clone(lock(&self.lanes).entry(runtime.id()).or_insert(lane));
        // Not under the lock: a runtime that is shutting down drops the task at once.
        runtime
            .spawn(Watch { shared: Arc::downgrade(self), runtime: runtime.id() }.until(unwatched));
        Ok(lane)
    }

    async fn connected(&self, lane: &Lane) -> Result<Ready, LinkError> {
        if let Some(ready) = &lock(&lane.state).ready {
            return Ok(ready.clone());
        }
        let _alone = lane.connecting.lock().await;
        {
            let state = lock(&lane.state);
            if let Some(ready) = &state.ready {
                return Ok(ready.clone());
            }
            // Those who queued up behind a failed try share its outcome.
            if let Some((at, failed)) = &state.failed
                && Clock::System.now().since(*at) < SHARED_FAILURE
            {
                return Err(failed.clone());
            }
        }
        let outcome = self.connect().await;
        let now = Clock::System.now();
        let mut state = lock(&lane.state);
        match outcome {
            Ok(connection) => {
                let ready = Ready { connection, since: now };
                *state = LaneState { ready: Some(ready.clone()), failed: None };
                Ok(ready)
            }
            Err(error) => {
                let failed = self.failed(error, Stage::Connecting);
                state.failed = Some((now, failed.clone()));
                Err(failed)
            }
        }
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        // No response timeout: the caller has a deadline of its own, and a reply that comes
        // late must still be seen, to give back what it granted.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(None);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    fn failed(&self, error: RedisError, stage: Stage) -> LinkError {
        LinkError { error, address: self.address.clone(), stage }
    }
}

impl Lane {
    /// Drops the connection if it was there at `seen`; a later one is not to blame.
    fn forget(&self, seen: Moment) {
        let mut state = lock(&self.state);
        if state.ready.as_ref().is_some_and(|ready| ready.since <= seen) {
            state.ready = None;
        }
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
    runtime: RuntimeId,
}

impl Watch {
    async fn until(self, lane_gone: oneshot::Receiver<()>) {
        let _ = lane_gone.await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            lock(&shared.lanes).remove(&self.runtime);
        }
    }
}

/// A connection that the user made, shared by all requests.
#[derive(Clone)]
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
#[derive(Clone)]
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
