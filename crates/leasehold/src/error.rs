//! What can go wrong, told apart: one error type for each verb, five kinds for all of them.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::inspect::{Holder, Remaining};
use crate::lease::LossReason;
use crate::name::{
    Key, Keys, MAX_METADATA_LEN, MAX_NAME_LEN, MAX_NAMES, MAX_OWNER_LEN, MAX_PREFIX_LEN, MAX_TTL,
    MIN_TTL, write_names,
};
use crate::store::LONGEST_LINE;

/// The five ways not to succeed. They ask for different answers, so they are never mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Somebody else holds the lock. Wait, or come back later.
    Busy,
    /// The lease was ours and is no more. Stop the work it protected.
    Lost,
    /// The store gave no answer, or cannot serve now. What was asked may have happened.
    Unreachable,
    /// The store answered no. Asking again changes nothing until somebody changes the store.
    Refused,
    /// What was asked for makes no sense. Nothing was sent.
    Invalid,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "busy",
            Self::Lost => "lost",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
        })
    }
}

/// Declares the error of one verb: its variants each carry an error that knows the details
/// and stand for one [`ErrorKind`], named alike.
macro_rules! verb_error {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $kind:ident($payload:ty),)+ }) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub enum $name {
            $($(#[$variant_doc])* $kind($payload),)+
        }

        impl $name {
            /// Which of the five kinds this is.
            pub fn kind(&self) -> ErrorKind {
                match self {
                    $(Self::$kind(_) => ErrorKind::$kind,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$kind(error) => fmt::Display::fmt(error, f),)+
                }
            }
        }

        /// The kind and the message: this is what a `main` that returns the error prints.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}: {self}", self.kind())
            }
        }

        impl Error for $name {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                match self {
                    $(Self::$kind(error) => error.source(),)+
                }
            }
        }

        $(impl From<$payload> for $name {
            fn from(error: $payload) -> Self {
                Self::$kind(error)
            }
        })+
    };
}

verb_error! {
    /// Why [`connect`](crate::connect) gave no client.
    ConnectError {
        /// Nobody answered at that address, or not in time.
        Unreachable(Unreachable),
        /// The server answered and does not want us: password, permission, TLS.
        Refused(Refused),
        /// The URL or an option makes no sense.
        Invalid(InvalidInput),
    }
}

verb_error! {
    /// Why [`Client::acquire`](crate::Client::acquire) gave no lease.
    ///
    /// [`Client::try_acquire`](crate::Client::try_acquire) answers `Ok(None)` where this says
    /// `Busy`.
    AcquireError {
        /// Somebody else held it until we stopped waiting.
        Busy(Box<Busy>),
        /// The store could not be asked. Whatever the claim may have taken is given back in
        /// the background.
        Unreachable(Unreachable),
        /// The store said no.
        Refused(Refused),
        /// The request makes no sense, or the client is closed. Nothing was sent.
        Invalid(InvalidInput),
    }
}

verb_error! {
    /// Why [`Lease::renew`](crate::Lease::renew) did not renew.
    RenewError {
        /// The lease is no longer ours.
        Lost(Lost),
        /// The store could not be asked. The lease is still held while
        /// [`is_held`](crate::Lease::is_held) says so, and the keeper goes on trying.
        Unreachable(Unreachable),
        /// The store said no.
        Refused(Refused),
        /// The TTL is out of range.
        Invalid(InvalidInput),
    }
}

verb_error! {
    /// Why [`Client::resume`](crate::Client::resume) gave no lease.
    ResumeError {
        /// The lease ran out, or somebody else has it. Resuming never brings it back.
        Lost(Lost),
        /// The store could not be asked. The grant is as good as before: try again.
        Unreachable(Unreachable),
        /// The store said no.
        Refused(Refused),
        /// The request makes no sense, or the client is closed. Nothing was sent.
        Invalid(InvalidInput),
    }
}

verb_error! {
    /// Why [`Lease::release`](crate::Lease::release) did not end well.
    ReleaseError {
        /// The lease had been lost before it was released.
        Lost(Lost),
        /// The store could not be asked, or its answer never came. The release goes on in
        /// the background until the lease's end.
        Unreachable(Unreachable),
        /// The store said no. The release goes on in the background until the lease's end.
        Refused(Refused),
    }
}

verb_error! {
    /// Why [`Lease::remaining`](crate::Lease::remaining) has no answer.
    RemainingError {
        /// The lease is no longer ours.
        Lost(Lost),
        /// The store could not be asked.
        Unreachable(Unreachable),
        /// The store said no.
        Refused(Refused),
    }
}

verb_error! {
    /// Why [`Client::inspect`](crate::Client::inspect) or
    /// [`Client::force_release`](crate::Client::force_release) has no answer.
    InspectError {
        /// The store could not be asked.
        Unreachable(Unreachable),
        /// The store said no.
        Refused(Refused),
        /// The name makes no sense.
        Invalid(InvalidInput),
    }
}

/// Why [`Lease::run`](crate::Lease::run) did not end well. The output of a body that had
/// finished is never thrown away.
#[derive(Clone, Debug)]
pub enum RunError<T> {
    /// The lease was lost. With `output`, the body had already finished when that was found.
    Lost {
        /// The name and the reason.
        lost: Lost,
        /// What the body returned, if it got that far. It may have run without protection.
        output: Option<T>,
    },
    /// The body finished under the lease, and then the release got no clear answer.
    Release {
        /// What went wrong.
        error: ReleaseError,
        /// What the body returned.
        output: T,
    },
}

impl<T> RunError<T> {
    /// Which of the five kinds this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Lost { .. } => ErrorKind::Lost,
            Self::Release { error, .. } => error.kind(),
        }
    }

    /// What the body returned, if it got that far.
    pub fn into_output(self) -> Option<T> {
        match self {
            Self::Lost { output, .. } => output,
            Self::Release { output, .. } => Some(output),
        }
    }
}

impl<T> fmt::Display for RunError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { lost, output: None } => write!(f, "cancelled: {lost}"),
            Self::Lost { lost, output: Some(_) } => {
                write!(f, "finished, but maybe without protection: {lost}")
            }
            Self::Release { error, .. } => write!(f, "finished under the lease, then: {error}"),
        }
    }
}

impl<T: fmt::Debug> Error for RunError<T> {}

/// What [`Client::close`](crate::Client::close) could not finish.
#[derive(Clone, Debug)]
pub struct CloseError {
    pub(crate) unreleased: usize,
}

impl CloseError {
    /// How many leases could not be released; each is free once its TTL has passed.
    pub fn unreleased(&self) -> usize {
        self.unreleased
    }

    /// Which of the five kinds this is.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Unreachable
    }
}

impl fmt::Display for CloseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "closed, but the store did not confirm that {} lease(s), or claims for one, are \
             given back; each is free once its TTL has passed",
            self.unreleased
        )
    }
}

impl Error for CloseError {}

/// Somebody else has the lock.
#[derive(Clone, Debug)]
pub struct Busy {
    pub(crate) name: Box<str>,
    pub(crate) waited: Duration,
    pub(crate) tries: u32,
    pub(crate) holder: Holder,
}

impl Busy {
    /// The name that was asked for; of several, one that is held.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long we waited.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How often we asked.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Who had it when we last asked.
    pub fn holder(&self) -> &Holder {
        &self.holder
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} not acquired", self.name)?;
        if self.tries > 1 {
            write!(f, " within {:?}", rounded(self.waited))?;
        }
        write!(f, ": held")?;
        if let Some(who) = self.holder.described() {
            write!(f, " by {who}")?;
        }
        match self.holder.remaining() {
            Remaining::For(left) => {
                write!(f, " for {:?} more; wait longer, or come back later", rounded(left))
            }
            Remaining::Forever => write!(
                f,
                " without an end: it is free only when its holder deletes it; if that holder is \
                 gone, force_release it"
            ),
        }
    }
}

impl Error for Busy {}

/// A lease that is no longer ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub(crate) keys: Keys,
    /// Which of several was found to be lost, and took the others along; `None` if all went
    /// together.
    pub(crate) which: Option<usize>,
    pub(crate) reason: LossReason,
}

impl Lost {
    /// The name that was held. Of several, the one that was found to be lost; the first, if
    /// all of them went together.
    pub fn name(&self) -> &str {
        self.keys.at(self.which.unwrap_or(0)).name()
    }

    /// All names that were held, in the order in which they were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(Key::name)
    }

    /// How it was lost.
    pub fn reason(&self) -> LossReason {
        self.reason
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.which {
            Some(_) if self.keys.is_several() => {
                let others = self.names().filter(|name| *name != self.name());
                write!(f, "the lease on {:?} was lost, and with it that on ", self.name())?;
                write_names(f, others)?;
            }
            _ => write!(f, "the lease on {} was lost", self.keys)?,
        }
        write!(f, ": {}; stop what it protected, then acquire again", self.reason)
    }
}

impl Error for Lost {}

/// The store gave no answer, or cannot serve for now.
#[derive(Clone, Debug)]
pub struct Unreachable {
    detail: Box<str>,
    advice: &'static str,
    source: Option<Arc<dyn Error + Send + Sync>>,
    maybe_applied: bool,
}

impl Unreachable {
    pub(crate) fn new(detail: impl Into<Box<str>>, advice: &'static str) -> Self {
        Self { detail: detail.into(), advice, source: None, maybe_applied: false }
    }

    pub(crate) fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    pub(crate) fn maybe_applied(mut self) -> Self {
        self.maybe_applied = true;
        self
    }

    /// Whether the request may have been carried out although no answer came.
    pub fn is_maybe_applied(&self) -> bool {
        self.maybe_applied
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store unreachable: {}; {}", self.detail, self.advice)
    }
}

impl Error for Unreachable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The store answered no.
#[derive(Clone, Debug)]
pub struct Refused {
    cause: RefusalCause,
    detail: Box<str>,
}

/// What a store's no is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalCause {
    /// Wrong or missing user or password.
    Credentials,
    /// The user may not do this.
    Permission,
    /// The TLS handshake failed.
    Tls,
    /// The server is full.
    OutOfMemory,
    /// The key under this name is not a lock.
    ForeignKey,
    /// So many wait for this name already that the line has no room.
    LineFull,
    /// The server is of a kind that this store does not speak to.
    WrongServer,
    /// Anything else; the message has the server's words.
    Other,
}

impl Refused {
    pub(crate) fn new(cause: RefusalCause, detail: impl Into<Box<str>>) -> Self {
        Self { cause, detail: detail.into() }
    }

    pub(crate) fn line_full(name: &str) -> Self {
        let detail = format!("{LONGEST_LINE} wait for {name:?} already");
        Self::new(RefusalCause::LineFull, detail)
    }

    pub(crate) fn foreign(key: &str, type_name: &str) -> Self {
        let detail = format!("the key {key:?} is a {type_name} and not a lock");
        Self::new(RefusalCause::ForeignKey, detail)
    }

    /// What the no is about.
    pub fn cause(&self) -> RefusalCause {
        self.cause
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = match self.cause {
            RefusalCause::Credentials => "check the user and the password in the URL",
            RefusalCause::Permission => "give this user the right it lacks (ACL SETUSER)",
            RefusalCause::Tls => {
                "check that the server speaks TLS on this port and that its certificate is trusted"
            }
            RefusalCause::OutOfMemory => "free memory on the server or raise its maxmemory",
            RefusalCause::ForeignKey => "choose another name or prefix, or remove that key",
            RefusalCause::LineFull => "come back later, or divide the work among more names",
            RefusalCause::WrongServer => "check host and port: it has to be a standalone primary",
            RefusalCause::Other => "see what the server says, and its log",
        };
        write!(f, "refused by the store: {}; {advice}", self.detail)
    }
}

impl Error for Refused {}

/// What was asked for makes no sense. Found before anything is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidInput {
    /// A name needs at least one character.
    EmptyName,
    /// A name is at most 1,024 bytes long.
    NameTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// Several names were asked for, and the list of them is empty.
    NoNames,
    /// A lease has at most 1,000 names.
    TooManyNames {
        /// How many, each counted once.
        count: usize,
    },
    /// An owner needs at least one character.
    EmptyOwner,
    /// An owner is at most 1,024 bytes long.
    OwnerTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// Names, prefixes and owners have no control characters: they would garble logs and
    /// terminals.
    ControlCharacter {
        /// `"name"`, `"prefix"` or `"owner"`.
        what: &'static str,
        /// The first one found.
        found: char,
    },
    /// The name reads like one of the keys that leasehold keeps beside a lock.
    ReservedName {
        /// The name.
        name: Box<str>,
    },
    /// A prefix is at most 1,024 bytes long.
    PrefixTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// A TTL is between 10 ms and 30 days.
    Ttl {
        /// What was given.
        given: Duration,
    },
    /// The longest hold is at least the shortest TTL.
    MaxHold {
        /// What was given.
        given: Duration,
    },
    /// Metadata is at most 4,096 bytes long.
    MetadataTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// The backoff has no pause, or its bounds are the wrong way round.
    Backoff {
        /// What is wrong with it.
        what: &'static str,
    },
    /// A time limit of zero would fail everything.
    Timeout {
        /// Which option.
        what: &'static str,
    },
    /// The URL could not be read. It is left out here, since it may carry a password.
    Url {
        /// What is wrong with it.
        what: Box<str>,
    },
    /// The URL's scheme is of no store we know.
    UnknownScheme {
        /// The scheme.
        scheme: Box<str>,
    },
    /// The store is known, but this build has it switched off.
    FeatureMissing {
        /// The crate feature to switch on.
        feature: &'static str,
    },
    /// The text is no grant. It is left out here, since it may carry a token.
    Grant,
    /// The client was closed.
    Closed,
}

impl fmt::Display for InvalidInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyName => write!(f, "the name is empty: give it at least one character"),
            Self::NameTooLong { len } => {
                write!(f, "the name has {len} bytes: shorten it to {MAX_NAME_LEN} at most")
            }
            Self::NoNames => write!(f, "the list of names is empty: give it at least one"),
            Self::TooManyNames { count } => {
                write!(f, "{count} names are too many for one lease: give {MAX_NAMES} at most")
            }
            Self::EmptyOwner => write!(f, "the owner is empty: give it at least one character"),
            Self::OwnerTooLong { len } => {
                write!(f, "the owner has {len} bytes: shorten it to {MAX_OWNER_LEN} at most")
            }
            Self::ControlCharacter { what, found } => {
                write!(f, "the {what} has a control character ({found:?}): leave it out")
            }
            Self::ReservedName { name } => write!(
                f,
                "the name {name:?} reads like a key that leasehold keeps beside a lock \
                 (…leasehold:<version>:<kind>): choose another"
            ),
            Self::PrefixTooLong { len } => {
                write!(f, "the prefix has {len} bytes: shorten it to {MAX_PREFIX_LEN} at most")
            }
            Self::Ttl { given } => {
                let days = MAX_TTL.as_secs() / 86_400;
                write!(f, "a TTL of {given:?} is out of range: choose {MIN_TTL:?} to {days} days")
            }
            Self::MaxHold { given } => {
                write!(f, "a longest hold of {given:?} is too short: choose {MIN_TTL:?} or more")
            }
            Self::MetadataTooLong { len } => {
                write!(f, "the metadata has {len} bytes: shorten it to {MAX_METADATA_LEN} at most")
            }
            Self::Backoff { what } => write!(f, "the backoff makes no sense: {what}"),
            Self::Timeout { what } => {
                write!(f, "a {what} of zero would fail every request: choose a longer one")
            }
            Self::Url { what } => {
                let like = "redis://host:6379/0, or memory:";
                write!(f, "the store URL cannot be read: {what}; write it like {like}")
            }
            Self::UnknownScheme { scheme } => write!(
                f,
                "no store has the URL scheme {scheme:?}: use memory:, redis://, rediss:// or \
                 redis+unix:// (or valkey:// and valkeys://)"
            ),
            Self::FeatureMissing { feature } => write!(
                f,
                "this build of leasehold lacks the feature {feature:?}: switch it on in Cargo.toml"
            ),
            Self::Grant => write!(
                f,
                "the text is no grant: give what a Grant prints, leasehold:1:…, whole and unchanged"
            ),
            Self::Closed => write!(f, "the client was closed: connect again"),
        }
    }
}

impl Error for InvalidInput {}

/// What a single request to a store can end in, besides an answer.
#[derive(Clone, Debug)]
pub(crate) enum StoreError {
    Unreachable(Unreachable),
    Refused(Refused),
}

impl StoreError {
    /// Whether the request may have been carried out all the same.
    pub(crate) fn is_maybe_applied(&self) -> bool {
        matches!(self, Self::Unreachable(error) if error.is_maybe_applied())
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

macro_rules! from_store_error {
    ($($name:ident),+) => {
        $(impl From<StoreError> for $name {
            fn from(error: StoreError) -> Self {
                match error {
                    StoreError::Unreachable(error) => Self::Unreachable(error),
                    StoreError::Refused(error) => Self::Refused(error),
                }
            }
        })+
    };
}

from_store_error!(
    ConnectError,
    AcquireError,
    RenewError,
    ResumeError,
    ReleaseError,
    RemainingError,
    InspectError
);

/// Durations in messages: nobody wants the microseconds.
fn rounded(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
