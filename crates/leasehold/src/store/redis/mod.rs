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

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};

use crate::clock::Moment;
use crate::deed::Deed;
use crate::error::StoreError;
use crate::inspect::Inspection;
use crate::lobby::{Listening, Lobby};
use crate::name::{FENCE_KEY, Key};
use crate::store::{Call, Claim, Claimed, FACTS_TTLS, Kept, Note, Renewal, RenewalKind, Store};

pub(crate) mod address;
pub(crate) mod connect;
mod gather;
mod grants;
mod reply;
mod script;

use connect::Link;
use gather::Item;
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
        Box::pin(async move { read(&script.run(call, |command| link.send(command)).await?) })
    }

    fn gather<T, F>(&self, item: Item, read: F) -> Call<T>
    where
        F: FnOnce(&Value) -> Result<T, StoreError> + Send + 'static,
    {
        let reply = Arc::clone(&self.link).gather(item);
        Box::pin(async move { read(&reply.await?) })
    }

    /// One call for all of these, whatever the load.
    #[cfg(test)]
    pub(crate) fn claim_together(&self, claims: &[Claim]) -> Call<Vec<Claimed>> {
        let items = claims.iter().cloned().map(Item::Claim).collect();
        self.together(items, reply::claimed)
    }

    /// The same for leases whose facts were not noted down.
    #[cfg(test)]
    pub(crate) fn release_together(&self, deeds: &[Arc<Deed>]) -> Call<Vec<Kept>> {
        let item = |deed: &Arc<Deed>| Item::Release { deed: Arc::clone(deed), recorded: false };
        self.together(deeds.iter().map(item).collect(), reply::released)
    }

    #[cfg(test)]
    fn together<T: 'static>(
        &self,
        items: Vec<Item>,
        read: fn(&Value) -> Result<T, StoreError>,
    ) -> Call<Vec<T>> {
        let link = Arc::clone(&self.link);
        Box::pin(async move {
            let parts = gather::run(&items, |command| link.send(command)).await?;
            parts.iter().map(read).collect()
        })
    }

    /// A call of one of the scripts for owners, about one lease.
    fn owner_call(script: &Script, deed: &Deed, owner: &str) -> Cmd {
        let mut call = script.call(1 + 5 * deed.keys.len());
        call.arg(FENCE_KEY);
        for key in deed.keys.iter() {
            all_keys(&mut call, key);
        }
        call.arg(owner).arg(deed.tag());
        call
    }
}

/// All keys of a name, in the order in which scripts have them.
fn all_keys(call: &mut Cmd, key: &Key) {
    call.arg(key.lock()).arg(key.line()).arg(key.places()).arg(key.facts()).arg(key.holds());
}

impl Store for RedisStore {
    fn claim(&self, claim: &Claim) -> Call<Claimed> {
        let Claim { deed, ttl, seat } = claim;
        let Some(owner) = &deed.owner else {
            return self.gather(Item::Claim(claim.clone()), reply::claimed);
        };
        let mut call = Self::owner_call(&script::OWNER_CLAIM, deed, owner);
        call.arg(millis(*ttl));
        gather::add_seat(&mut call, seat.as_ref());
        self.run(&script::OWNER_CLAIM, call, |reply| reply::claimed(reply::first(reply)))
    }

    fn renew(&self, renewals: &[Renewal]) -> Call<Vec<Kept>> {
        let Some(first) = renewals.first() else { return Box::pin(ready(Ok(Vec::new()))) };
        let kind = first.kind();
        let names: Vec<usize> = renewals.iter().map(|one| one.deed.keys.len()).collect();
        let count = names.iter().sum::<usize>();
        let (script, keys) = match kind {
            RenewalKind::Plain => (&script::RENEW, count),
            RenewalKind::Noted => (&script::NOTE, 2 * count),
            RenewalKind::Owned => (&script::OWNER_RENEW, 1 + 5 * count),
        };
        let mut call = script.call(keys);
        if kind == RenewalKind::Owned {
            call.arg(FENCE_KEY);
        }
        for key in renewals.iter().flat_map(|one| one.deed.keys.iter()) {
            match kind {
                RenewalKind::Plain => _ = call.arg(key.lock()),
                RenewalKind::Noted => _ = call.arg(key.lock()).arg(key.facts()),
                RenewalKind::Owned => all_keys(&mut call, key),
            }
        }
        for Renewal { deed, ttl, note } in renewals {
            for _ in deed.keys.iter() {
                match (&deed.owner, note) {
                    (Some(owner), _) => {
                        call.arg(&**owner).arg(deed.tag()).arg(millis(*ttl));
                    }
                    (None, None) => {
                        call.arg(deed.token.as_bytes()).arg(millis(*ttl));
                    }
                    (None, Some(Note { fence, held_for })) => {
                        call.arg(deed.token.as_bytes()).arg(millis(*ttl)).arg(fence);
                        call.arg(millis(*held_for)).arg(millis(*ttl * FACTS_TTLS));
                    }
                }
            }
        }
        self.run(script, call, move |reply| reply::renewed(reply, &names))
    }

    fn release(&self, deed: &Arc<Deed>, recorded: bool) -> Call<Kept> {
        let Some(owner) = &deed.owner else {
            let item = Item::Release { deed: Arc::clone(deed), recorded };
            return self.gather(item, reply::released);
        };
        let call = Self::owner_call(&script::OWNER_RELEASE, deed, owner);
        self.run(&script::OWNER_RELEASE, call, |reply| reply::released(reply::first(reply)))
    }

    fn inspect(&self, key: &Key) -> Call<Inspection> {
        let mut call = script::INSPECT.call(6);
        all_keys(call.arg(FENCE_KEY), key);
        self.run(&script::INSPECT, call, reply::inspection)
    }

    fn evict(&self, key: &Key, value: &[u8]) -> Call<bool> {
        let mut call = script::EVICT.call(6);
        all_keys(call.arg(FENCE_KEY), key);
        call.arg(value);
        self.run(&script::EVICT, call, reply::evicted)
    }

    fn remaining(&self, deed: &Deed) -> Call<Result<Duration, Kept>> {
        if let Some(owner) = &deed.owner {
            let call = Self::owner_call(&script::OWNER_REMAINING, deed, owner);
            return self.run(&script::OWNER_REMAINING, call, reply::remaining);
        }
        let mut call = script::REMAINING.call(deed.keys.len());
        for key in deed.keys.iter() {
            call.arg(key.lock());
        }
        call.arg(deed.token.as_bytes());
        self.run(&script::REMAINING, call, reply::remaining)
    }

    fn listen(&self, lobby: &Arc<Lobby>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let listening = self.link.listen(lobby);
        if listening.is_none() {
            lobby.set_listening(Listening::Never);
        }
        listening
    }

    fn suspect(&self, sent_at: Moment) {
        self.link.suspect(sent_at);
    }

    fn prepare(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let link = Arc::clone(&self.link);
        Box::pin(async move {
            for script in [&script::NOTE, &script::RENEW] {
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
