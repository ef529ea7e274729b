//! The client, and how to make one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, ManualClock};
use crate::driver::{Asked, Driver, Names};
use crate::error::{CloseError, ConnectError, InspectError, InvalidInput, Refused};
use crate::grant::Grant;
use crate::inspect::{ForceReleased, Inspection, LockState};
use crate::name::Prefix;
use crate::options::{Acquire, Resume, TryAcquire};
use crate::store::Store;
use crate::store::memory::MemoryStore;

/// Connects to the store at `url`, with default options.
///
/// | URL | store |
/// | --- | --- |
/// | `memory:` | within this process; every call makes another one |
/// | `redis://[user:password@]host[:port][/database]` | a Redis or Valkey primary |
/// | `rediss://…` | the same by TLS |
/// | `redis+unix:///path/to/socket[?db=0&user=…&pass=…]` | the same by a socket |
///
/// `valkey://`, `valkeys://` and `valkey+unix://` mean the same. [`builder`] has the options.
///
/// # Errors
///
/// At once if nobody answers, the server refuses us, or the URL makes no sense.
pub async fn connect(url: &str) -> Result<Client, ConnectError> {
    builder().connect(url).await
}

/// Options for a client; finish with [`Builder::connect`].
pub fn builder() -> Builder {
    Builder::default()
}

/// Options for a [`Client`].
///
/// ```no_run
/// use std::time::Duration;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = leasehold::builder()
///     .prefix("shop:")
///     .command_timeout(Duration::from_secs(1))
///     .connect("redis://127.0.0.1")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "this makes no client until it is told where to connect"]
pub struct Builder {
    prefix: Box<str>,
    connect_timeout: Duration,
    command_timeout: Duration,
    patience: Duration,
    #[cfg(feature = "redis")]
    keeper_url: Option<Box<str>>,
}

/// The keeper's URL is left out: it may carry a password.
impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("prefix", &self.prefix)
            .field("connect_timeout", &self.connect_timeout)
            .field("command_timeout", &self.command_timeout)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            prefix: "".into(),
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_secs(2),
            patience: Duration::from_secs(5),
            #[cfg(feature = "redis")]
            keeper_url: None,
        }
    }
}

impl Builder {
    /// What to put before every name in the store. Default: nothing, so that the key is the
    /// name, and clients in other languages meet us under it.
    pub fn prefix(mut self, prefix: impl Into<Box<str>>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long making a connection may take. Default 2 s.
    ///
    /// Longer tolerates a slow network, and lets callers wait longer for the news that nobody
    /// is there. A request that finds its connection broken has its own
    /// [`command_timeout`](Self::command_timeout) for the new one too.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one request may take. Default 2 s.
    ///
    /// After it the request is repeated on a fresh connection. Longer tolerates a slower
    /// server; shorter notices a dead one sooner.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// How long a store may fail without a break before the answer is "unreachable". Default
    /// 5 s, enough for a server to be restarted.
    ///
    /// Zero passes every failure on at once. A request under way is not cut short by it: that
    /// is what [`command_timeout`](Self::command_timeout) does.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Connects to the store at `url`; [`connect`] lists the forms.
    ///
    /// # Errors
    ///
    /// At once if nobody answers, the server refuses us, or the URL makes no sense.
    pub async fn connect(self, url: &str) -> Result<Client, ConnectError> {
        let Some((scheme, rest)) = url.split_once(':') else {
            let what = "it has no scheme";
            return Err(InvalidInput::Url { what: what.into() }.into());
        };
        match scheme {
            "memory" if rest.is_empty() => Ok(self.memory()?),
            "memory" => {
                let what = "nothing comes behind \"memory:\"";
                Err(InvalidInput::Url { what: what.into() }.into())
            }
            #[cfg(feature = "redis")]
            scheme if crate::store::redis::address::is_redis_scheme(scheme) => {
                self.connect_redis(url).await
            }
            #[cfg(not(feature = "redis"))]
            "redis" | "rediss" | "redis+unix" | "valkey" | "valkeys" | "valkey+unix" => {
                Err(InvalidInput::FeatureMissing { feature: "redis" }.into())
            }
            // localhost:6379, as other clients take it.
            _ if rest.split('/').next().is_some_and(|port| port.parse::<u16>().is_ok()) => {
                let what = "it has no scheme: put redis:// before the host";
                Err(InvalidInput::Url { what: what.into() }.into())
            }
            // What stands before the first colon need not be a scheme, but a user's secret.
            scheme if scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) => {
                Err(InvalidInput::UnknownScheme { scheme: scheme.into() }.into())
            }
            _ => Err(InvalidInput::Url { what: "it has no scheme".into() }.into()),
        }
    }

    /// A store within this process, which is gone with the client.
    ///
    /// # Errors
    ///
    /// If an option makes no sense.
    pub fn memory(self) -> Result<Client, InvalidInput> {
        self.memory_on(Clock::System)
    }

    /// A store within this process whose time is driven by the test that uses it.
    ///
    /// # Errors
    ///
    /// If an option makes no sense.
    pub fn memory_with_clock(self, clock: &ManualClock) -> Result<Client, InvalidInput> {
        self.memory_on(Clock::Manual(clock.clone()))
    }

    fn memory_on(self, clock: Clock) -> Result<Client, InvalidInput> {
        let store = MemoryStore::new(clock.clone());
        self.finish(Arc::clone(&store) as _, store, clock)
    }

    fn finish(
        self,
        store: Arc<dyn Store>,
        keeper_store: Arc<dyn Store>,
        clock: Clock,
    ) -> Result<Client, InvalidInput> {
        let prefix = Prefix::new(&self.prefix)?;
        for (what, timeout) in
            [("connect timeout", self.connect_timeout), ("command timeout", self.command_timeout)]
        {
            if timeout.is_zero() {
                return Err(InvalidInput::Timeout { what });
            }
        }
        let (command_timeout, patience) = (self.command_timeout, self.patience);
        let driver = Driver::new(store, keeper_store, clock, prefix, command_timeout, patience);
        Ok(Client { driver })
    }
}

/// A way to make and use leases on one store.
///
/// It is cheap to clone, and all clones are the same client: one keeper, one connection for
/// each runtime. Thousands of tasks may use it at once, from any number of runtimes.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = leasehold::connect("memory:").await?;
/// match locks.try_acquire("cron:nightly").await? {
///     Some(lease) => {
///         // … the nightly work …
///         lease.release().await?;
///     }
///     None => println!("another machine does it"),
/// }
/// locks.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    driver: Arc<Driver>,
}

impl Client {
    /// Acquires the lock on `name`, waiting as long as it takes. Await what this returns, or
    /// set options on it first.
    ///
    /// # Errors
    ///
    /// [`AcquireError`](crate::AcquireError). `Refused` and `Invalid` come at once, `Busy` at the
    /// end of the [`wait`](Acquire::wait), `Unreachable` once the store has failed for the
    /// client's [`patience`](Builder::patience), by default 5 s.
    pub fn acquire(&self, name: impl AsRef<str>) -> Acquire {
        Acquire::new(Arc::clone(&self.driver), Names::One(name.as_ref().into()))
    }

    /// Acquires the lock on `name` if nobody has it. Await what this returns, or set options
    /// on it first; the answer is `None` if somebody has it.
    ///
    /// # Errors
    ///
    /// [`AcquireError`](crate::AcquireError), but never `Busy`. A store that fails is asked again
    /// for the client's [`patience`](Builder::patience), by default 5 s: not waiting for a holder
    /// does not mean not waiting for a server that restarts.
    pub fn try_acquire(&self, name: impl AsRef<str>) -> TryAcquire {
        TryAcquire::new(Arc::clone(&self.driver), Names::One(name.as_ref().into()))
    }

    /// Acquires the locks on all of `names` or on none, waiting until they are all free at once.
    /// Await what this returns, or set options on it first.
    ///
    /// They are one lease: one TTL, one fence, renewed and released together; losing one is losing
    /// all. A name given twice counts once, and their order does not matter: two who ask for the
    /// same names the other way round do not block each other for ever.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = leasehold::connect("memory:").await?;
    /// let both = locks.acquire_all(["account:7", "account:12"]).await?;
    /// // … move money from one to the other …
    /// both.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire); `Busy` tells one name that is held, and by whom. An
    /// empty list is `Invalid`.
    pub fn acquire_all<I>(&self, names: I) -> Acquire
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        Acquire::new(Arc::clone(&self.driver), Names::all(names))
    }

    /// Acquires the locks on all of `names` if nobody has any of them; otherwise takes none, and
    /// the answer is `None`. See [`acquire_all`](Self::acquire_all).
    ///
    /// # Errors
    ///
    /// As for [`try_acquire`](Self::try_acquire). An empty list is `Invalid`.
    pub fn try_acquire_all<I>(&self, names: I) -> TryAcquire
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        TryAcquire::new(Arc::clone(&self.driver), Names::all(names))
    }

    /// Makes a lease again of what [`Lease::detach`](crate::Lease::detach) left, here or in
    /// another process: renews it first, and says if it is lost. Await what this returns, or
    /// set options on it first.
    pub fn resume(&self, grant: &Grant) -> Resume {
        Resume::new(Arc::clone(&self.driver), grant.clone())
    }

    /// Looks who holds the lock on `name`, without touching it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = leasehold::connect("memory:").await?;
    /// let _lease = locks.acquire("report").metadata("pod-7").await?;
    /// let seen = locks.inspect("report").await?;
    /// assert_eq!(seen.holder().unwrap().metadata(), Some(&b"pod-7"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the name makes no sense or the store has no answer.
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Inspection, InspectError> {
        let key = self.driver.key(name.as_ref())?;
        Ok(self.driver.ask(|| self.driver.store.inspect(&key)).await?.answer)
    }

    /// Breaks whatever lease is on `name`: looks, then deletes it if the value is still the
    /// one it saw, so that a holder who came in between is not hit.
    ///
    /// The holder learns of it with its next renewal, and may write until then: this is for
    /// operators who know that the holder is gone. If it is one of several names of a lease, that
    /// ends the whole lease then. (A foreign client that uses the same value
    /// for every acquisition cannot be told from its later self.)
    ///
    /// # Errors
    ///
    /// If the name makes no sense, the store has no answer, or the key under this name is not
    /// a lock.
    pub async fn force_release(
        &self,
        name: impl AsRef<str>,
    ) -> Result<ForceReleased, InspectError> {
        let name = name.as_ref();
        let seen = self.inspect(name).await?;
        self.force_release_seen(name, &seen).await
    }

    /// Breaks the lease that `seen` shows, and no other: for a person who was shown it and
    /// said yes.
    ///
    /// # Errors
    ///
    /// As for [`force_release`](Self::force_release).
    pub async fn force_release_seen(
        &self,
        name: impl AsRef<str>,
        seen: &Inspection,
    ) -> Result<ForceReleased, InspectError> {
        let key = self.driver.key(name.as_ref())?;
        let holder = match seen.state() {
            LockState::Free => return Ok(ForceReleased::AlreadyFree),
            LockState::Held(holder) => holder,
            LockState::Foreign { type_name } => {
                return Err(Refused::foreign(key.lock(), type_name).into());
            }
        };
        let evict = || self.driver.store.evict(&key, &holder.value);
        let Asked { answer: evicted, after_unanswered } = self.driver.ask(evict).await?;
        // If an earlier try got no answer, it may have been that one which did it.
        Ok(if evicted || after_unanswered {
            tracing::warn!(name = key.name(), holder = ?holder, "lease broken by force");
            ForceReleased::Broken(holder.clone())
        } else {
            ForceReleased::Changed
        })
    }

    /// Releases every lease of this client, ends every wait, and stops the keeper.
    ///
    /// Leases still around are lost with [`LossReason::Closed`](crate::LossReason::Closed);
    /// whoever waits for a lease, and whoever asks for one later, gets
    /// [`InvalidInput::Closed`]. This goes for all clones. Looking and breaking still work.
    ///
    /// # Errors
    ///
    /// If the store did not confirm every release within the client's
    /// [`patience`](Builder::patience). What is left is free after its TTL.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the rest to the background.
    pub async fn close(&self) -> Result<(), CloseError> {
        // Even the most impatient give the releases the time that one request may take.
        let patience = self.driver.patience.max(self.driver.command_timeout);
        let deadline = self.driver.clock.now() + patience;
        match self.driver.close(deadline).await {
            0 => Ok(()),
            unreleased => Err(CloseError { unreleased }),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("store", &self.driver.store)
            .field("prefix", &self.driver.prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "redis")]
mod redis {
    use std::error::Error;
    use std::future::Future;
    use std::sync::Arc;

    use ::redis::aio::ConnectionLike;

    use super::{Builder, Client};
    use crate::clock::Clock;
    use crate::error::{ConnectError, InvalidInput};
    use crate::store::redis::RedisStore;
    use crate::store::redis::address;
    use crate::store::redis::connect::{Factory, GivenConnection, OwnConnections};

    impl Builder {
        /// Where the keeper connects to. Default: to the same server by a connection of its
        /// own, or, for a client on a connection or a factory that you give, by yours.
        ///
        /// With it, renewals have a connection, and a runtime, of their own: a program that
        /// blocks the runtime your connection lives on, or that floods it, keeps its leases.
        /// Without it that is not promised.
        pub fn keeper_url(mut self, url: impl Into<Box<str>>) -> Self {
            self.keeper_url = Some(url.into());
            self
        }

        /// A client on a connection of your own from the [`redis`](crate::redis) crate: a
        /// `ConnectionManager`, or anything else that is cheap to clone.
        ///
        /// A plain `MultiplexedConnection` works until it breaks: it never reconnects, and then
        /// the errors say so. Give a [`keeper_url`](Self::keeper_url) too.
        ///
        /// ```no_run
        /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
        /// use leasehold::redis;
        ///
        /// let connection = redis::Client::open("redis://127.0.0.1")?
        ///     .get_multiplexed_async_connection()
        ///     .await?;
        /// let locks = leasehold::builder()
        ///     .keeper_url("redis://127.0.0.1")
        ///     .with_connection(connection)?;
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// If an option makes no sense. Nothing is sent yet.
        pub fn with_connection<C>(self, connection: C) -> Result<Client, InvalidInput>
        where
            C: ConnectionLike + Clone + Send + Sync + 'static,
        {
            self.with_store(RedisStore::new(GivenConnection::new(connection)))
        }

        /// A client on connections that you make, such as those of a pool: `factory` is called
        /// for each request, and the connection dropped after it.
        ///
        /// ```no_run
        /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
        /// use leasehold::redis;
        ///
        /// // With a pool: || async { pool.get().await }
        /// let client = redis::Client::open("redis://127.0.0.1")?;
        /// let locks = leasehold::builder().with_factory(move || {
        ///     let client = client.clone();
        ///     async move { client.get_multiplexed_async_connection().await }
        /// })?;
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// If an option makes no sense. Nothing is sent yet.
        pub fn with_factory<F, Making, C, E>(self, factory: F) -> Result<Client, InvalidInput>
        where
            F: Fn() -> Making + Send + Sync + 'static,
            Making: Future<Output = Result<C, E>> + Send + 'static,
            C: ConnectionLike + Send + 'static,
            E: Into<Box<dyn Error + Send + Sync>> + Send + 'static,
        {
            self.with_store(RedisStore::new(Factory::new(factory)))
        }

        fn with_store(self, store: RedisStore) -> Result<Client, InvalidInput> {
            let keeper_store = match &self.keeper_url {
                Some(url) => RedisStore::new(self.own_connections(url)?),
                // If the connections are ours, the keeper's runtime gets one of its own.
                None => store.clone(),
            };
            self.finish(Arc::new(store), Arc::new(keeper_store), Clock::System)
        }

        pub(super) async fn connect_redis(self, url: &str) -> Result<Client, ConnectError> {
            let longest = self.connect_timeout.saturating_add(self.command_timeout);
            let store = RedisStore::new(self.own_connections(url)?);
            let client = self.with_store(store.clone())?;
            let driver = &client.driver;
            driver.call(store.ping(), driver.clock.now() + longest).await?;
            Ok(client)
        }

        fn own_connections(&self, url: &str) -> Result<OwnConnections, InvalidInput> {
            let client = address::client(url, self.command_timeout)?;
            Ok(OwnConnections::new(client, self.connect_timeout, self.command_timeout))
        }
    }
}
