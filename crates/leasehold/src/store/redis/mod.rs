//! Locks on one Redis or Valkey primary.
//!
//! ```text
//!  RedisStore ── script: call ──► connect: Link ──► server
//!      ▲                                              │
//!      └──────── reply: what it means ◄───────────────┘
//! ```
//!
//! Every request is one script, run by its hash; `scripts/*.lua` say what each does and
//! answers. `docs/design.md` describes the keys.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};

use crate::clock::Moment;
use crate::error::StoreError;
use crate::inspect::Inspection;
use crate::name::{FENCE_KEY, Key};
use crate::store::{Call, Claim, Claimed, FACTS_TTLS, Kept, Record, Renewal, Store};
use crate::token::Token;

pub(crate) mod address;
pub(crate) mod connect;
mod reply;
mod script;

use connect::Link;
use script::Script;

#[derive(Clone, Debug)]
pub(crate) struct RedisStore {
    link: Arc<dyn Link>,
}

impl RedisStore {
    pub(crate) fn new(link: impl Link + 'static) -> Self {
        Self { link: Arc::new(link) }
    }

    /// Whether somebody is there who lets us in and understands us.
    pub(crate) fn ping(&self) -> Call<()> {
        let reply = self.link.send(Arc::new(::redis::cmd("PING")));
        Box::pin(async move {
            match reply.await {
                // Somebody is there; that this user may not say PING does not matter.
                Err(failed) if failed.error.code() == Some("NOPERM") => Ok(()),
                Err(failed) => Err(failed.into()),
                Ok(_) => Ok(()),
            }
        })
    }

    fn run<T, F>(&self, script: &'static Script, call: Cmd, read: F) -> Call<T>
    where
        F: FnOnce(&Value) -> Result<T, StoreError> + Send + 'static,
    {
        let link = Arc::clone(&self.link);
        Box::pin(async move {
            let call = Arc::new(call);
            let mut reply = link.send(Arc::clone(&call)).await;
            if reply.as_ref().is_err_and(|failed| failed.is_unknown_script()) {
                // The server has been restarted or its scripts flushed. Nothing has run.
                reply = link.send(Arc::new(script.with_code(&call))).await;
            }
            match reply {
                Ok(reply) => read(&reply),
                // The lock's key has another type, so it is not ours.
                Err(failed) if failed.is_wrong_type() => read(&reply::taken()),
                Err(failed) => Err(failed.into()),
            }
        })
    }
}

impl Store for RedisStore {
    fn claim(&self, claim: &Claim) -> Call<Claimed> {
        let mut call = script::CLAIM.call(2);
        call.arg(claim.key.lock()).arg(FENCE_KEY).arg(claim.value()).arg(millis(claim.ttl));
        self.run(&script::CLAIM, call, reply::claimed)
    }

    fn renew(&self, renewals: &[Renewal]) -> Call<Vec<Kept>> {
        let count = renewals.len();
        let mut call = script::RENEW.call(count);
        for renewal in renewals {
            call.arg(renewal.key.lock());
        }
        for renewal in renewals {
            call.arg(renewal.token.as_bytes()).arg(millis(renewal.ttl));
        }
        self.run(&script::RENEW, call, move |reply| reply::kept_each(reply, count))
    }

    fn record(&self, records: &[Record]) -> Call<Vec<Kept>> {
        let count = records.len();
        let mut call = script::RECORD.call(2 * count);
        for Record { renewal, .. } in records {
            call.arg(renewal.key.lock()).arg(renewal.key.facts());
        }
        for Record { renewal, fence, held_for } in records {
            call.arg(renewal.token.as_bytes()).arg(millis(renewal.ttl));
            call.arg(fence).arg(millis(*held_for)).arg(millis(renewal.ttl * FACTS_TTLS));
        }
        self.run(&script::RECORD, call, move |reply| reply::kept_each(reply, count))
    }

    fn release(&self, key: &Key, token: &Token, recorded: bool) -> Call<Kept> {
        let mut call = script::RELEASE.call(if recorded { 2 } else { 1 });
        call.arg(key.lock());
        if recorded {
            call.arg(key.facts());
        }
        call.arg(token.as_bytes());
        self.run(&script::RELEASE, call, reply::kept_one)
    }

    fn inspect(&self, key: &Key) -> Call<Inspection> {
        let mut call = script::INSPECT.call(2);
        call.arg(key.lock()).arg(key.facts());
        self.run(&script::INSPECT, call, reply::inspection)
    }

    fn evict(&self, key: &Key, value: &[u8]) -> Call<bool> {
        let mut call = script::EVICT.call(2);
        call.arg(key.lock()).arg(key.facts()).arg(value);
        self.run(&script::EVICT, call, |reply| Ok(reply::kept_one(reply)? == Kept::Ours))
    }

    fn remaining(&self, key: &Key, token: &Token) -> Call<Result<Duration, Kept>> {
        let mut call = script::REMAINING.call(1);
        call.arg(key.lock()).arg(token.as_bytes());
        self.run(&script::REMAINING, call, reply::remaining)
    }

    fn suspect(&self, sent_at: Moment) {
        self.link.suspect(sent_at);
    }

    fn prepare(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let link = Arc::clone(&self.link);
        Box::pin(async move {
            for script in [&script::RECORD, &script::RENEW] {
                // Without a lock it does nothing, but the server knows the script from then on,
                // and the connection is made. A failure is for whoever needs it to hear.
                let _ = link.send(Arc::new(script.with_code(&script.call(0)))).await;
            }
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
