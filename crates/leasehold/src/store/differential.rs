//! The ledger against Redis: random sequences of requests, compared reply for reply.
//!
//! Time passes on both sides when the sequence says so. In the ledger `now` is an argument;
//! on the server every key's expiry, and the end of every hold, is brought forward by as much. The little real time that
//! goes by meanwhile makes no difference: TTLs and pauses are chosen so that nothing ends
//! within seconds of a request.
//!
//! A sequence that fails is shrunk, and its seed kept in `proptest-regressions/`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold_testing::RedisServer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::redis::RedisStore;
use super::redis::address;
use super::redis::connect::OwnConnections;
use super::{Call, Claim, Claimed, Kept, Note, Renewal, Seat, Store};
use crate::deed::Deed;
use crate::inspect::{Holder, Inspection, LockState, Remaining, Waiter};
use crate::name::{Key, Keys, Prefix};
use crate::proto::ledger::{Ledger, StoreTime};
use crate::token::Token;

const NAMES: usize = 4;
const CLAIMANTS: usize = 7;

/// A lease that may or may not be: names, and who asks for it. Claimants 4 and 5 have one owner,
/// and 6 another.
#[derive(Clone, Debug)]
struct Lease {
    names: Vec<usize>,
    by: usize,
    ttl: Duration,
}

#[derive(Clone, Debug)]
enum Request {
    Claim(Lease),
    /// A claim that stands in line if it has to; or a look, if it stands there already. With
    /// `replaces`, of one that takes the place of another claimant.
    Wait(Lease, Option<usize>),
    /// Many in one call, no token twice and without owners.
    ClaimTogether(Vec<Lease>),
    ReleaseTogether(Vec<Lease>),
    Renew(Vec<Lease>),
    Note(Vec<Lease>),
    Release {
        lease: Lease,
        recorded: bool,
    },
    Inspect {
        name: usize,
    },
    Evict {
        name: usize,
        seen: usize,
    },
    Remaining(Lease),
    /// What a plain client does that has the owner's value.
    Set {
        name: usize,
    },
    Delete {
        name: usize,
    },
    Pass(Duration),
}

/// What came back, with what must differ taken out: the value of a fence and what a clock
/// showed.
#[derive(Debug, PartialEq)]
enum Reply {
    Granted,
    HeldAt(usize, Seen),
    Queued { which: usize, holder: Seen, before: usize, is_heard: bool },
    Kept(Vec<Kept>),
    Done(Vec<bool>),
    Seen(Option<Seen>, Box<[Waiter]>),
    Evicted(bool),
    Remaining(Result<Rough, Kept>),
    Nothing,
}

#[derive(Debug, PartialEq)]
struct Seen {
    value: Box<[u8]>,
    remaining: Rough,
    fence: Option<u64>,
    ttl: Option<Duration>,
    holds: Option<Vec<Box<[u8]>>>,
}

/// A duration that is equal to those within four seconds, which no run of a sequence takes.
#[derive(Debug)]
struct Rough(Duration);

impl PartialEq for Rough {
    fn eq(&self, other: &Self) -> bool {
        self.0.abs_diff(other.0) < Duration::from_secs(4)
    }
}

#[test]
fn the_ledger_and_the_scripts_agree() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = address::client(&server.url(), Duration::from_secs(9)).unwrap();
    let patience = Duration::from_secs(9);
    let store = RedisStore::new(OwnConnections::new(client, patience, patience));

    let mut runner =
        TestRunner::new(Config { cases: 2_000, source_file: Some(file!()), ..Config::default() });
    let sequences = prop::collection::vec(request(), 1..40);
    runner
        .run(&sequences, |sequence| {
            let mut both = Both::new(&server, &runtime, &store);
            for request in &sequence {
                let (here, there) = both.send(request);
                prop_assert_eq!(here, there, "after {:?}", request);
            }
            Ok(())
        })
        .unwrap();
}

fn request() -> impl Strategy<Value = Request> {
    // Pauses are whole tens of seconds and TTLs are not, nor are eight of them.
    let ttl = || prop::sample::select(vec![15_500, 25_500, 45_500]).prop_map(Duration::from_millis);
    let names = || prop::collection::vec(0..NAMES, 1..3);
    let lease =
        || (names(), 0..CLAIMANTS, ttl()).prop_map(|(names, by, ttl)| Lease { names, by, ttl });
    // All of one kind: with an owner, or without one.
    let leases = || {
        (prop::collection::vec(lease(), 1..5), any::<bool>()).prop_map(|(mut leases, owned)| {
            leases.iter_mut().for_each(|lease| lease.by %= if owned { 3 } else { 4 });
            leases.iter_mut().for_each(|lease| lease.by += if owned { 4 } else { 0 });
            leases
        })
    };
    let crowd = || {
        prop::collection::vec(lease(), 1..5).prop_map(|mut leases| {
            leases.iter_mut().enumerate().for_each(|(n, lease)| lease.by = n);
            leases
        })
    };
    prop_oneof![
        8 => lease().prop_map(Request::Claim),
        8 => (lease(), prop::option::weighted(0.2, 0..4usize))
            .prop_map(|(lease, replaces)| Request::Wait(lease, replaces)),
        3 => crowd().prop_map(Request::ClaimTogether),
        2 => crowd().prop_map(Request::ReleaseTogether),
        3 => leases().prop_map(Request::Renew),
        3 => leases().prop_map(Request::Note),
        4 => (lease(), any::<bool>())
            .prop_map(|(lease, recorded)| Request::Release { lease, recorded }),
        3 => (0..NAMES).prop_map(|name| Request::Inspect { name }),
        1 => (0..NAMES, 0..CLAIMANTS).prop_map(|(name, seen)| Request::Evict { name, seen }),
        2 => lease().prop_map(Request::Remaining),
        1 => (0..NAMES).prop_map(|name| Request::Set { name }),
        1 => (0..NAMES).prop_map(|name| Request::Delete { name }),
        3 => (1..7u64).prop_map(|tens| Request::Pass(Duration::from_secs(10 * tens))),
    ]
}

struct Both<'a> {
    server: &'a RedisServer,
    runtime: &'a tokio::runtime::Runtime,
    store: &'a RedisStore,
    connection: ::redis::Connection,
    ledger: Ledger,
    now: StoreTime,
    keys: Vec<Key>,
    /// One for each claimant and list of names, made when it is first asked for.
    tokens: RefCell<HashMap<(usize, Vec<usize>), Token>>,
    /// Those of the ledger and of the server, pair by pair.
    fences: Vec<(u64, u64)>,
}

impl<'a> Both<'a> {
    fn new(
        server: &'a RedisServer,
        runtime: &'a tokio::runtime::Runtime,
        store: &'a RedisStore,
    ) -> Self {
        let mut connection = server.connection();
        ::redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
        let key = |n: usize| Key::new(&Prefix::default(), ["a", "{b}", "c}{", "d{}"][n]).unwrap();
        Self {
            server,
            runtime,
            store,
            connection,
            ledger: Ledger::default(),
            now: StoreTime(1_000_000_000_000),
            keys: (0..NAMES).map(key).collect(),
            tokens: RefCell::default(),
            fences: Vec::new(),
        }
    }

    /// Sends to both; the ledger's reply and the server's.
    fn send(&mut self, request: &Request) -> (Reply, Reply) {
        // Who comes later arrives later, if only by a little.
        self.now = StoreTime(self.now.0 + 10);
        let now = self.now;
        match request {
            Request::Claim(lease) | Request::Wait(lease, _) => {
                let seat = match request {
                    Request::Wait(_, replaces) => {
                        // Of another, and of nobody's owner.
                        let replaces = replaces.filter(|by| *by != lease.by && lease.by < 4);
                        let replaced = replaces.map(|by| Lease { by, ..lease.clone() });
                        let replaces = replaced.map(|lease| self.deed(&lease).token);
                        Some(Seat { replaces, ..seat(lease.by) })
                    }
                    _ => None,
                };
                let claim = Claim { deed: self.deed(lease), ttl: lease.ttl, seat };
                let here = self.ledger.claim(now, &claim);
                let there = self.wait(self.store.claim(&claim));
                self.compare_fences(&here, &there, claim.deed.owner.is_some());
                (claimed(here), claimed(there))
            }
            Request::ClaimTogether(leases) => {
                let claim =
                    |lease: &Lease| Claim { deed: self.deed(lease), ttl: lease.ttl, seat: None };
                let claims: Vec<_> = leases.iter().map(claim).collect();
                let here: Vec<_> =
                    claims.iter().map(|claim| self.ledger.claim(now, claim)).collect();
                let there = self.wait(self.store.claim_together(&claims));
                for (here, there) in here.iter().zip(&there) {
                    self.compare_fences(here, there, false);
                }
                // Which of several that are held is told depends on what was looked at first.
                let is_granted = |answers: Vec<Claimed>| {
                    answers.iter().map(|one| matches!(one, Claimed::Granted { .. })).collect()
                };
                (Reply::Done(is_granted(here)), Reply::Done(is_granted(there)))
            }
            Request::ReleaseTogether(leases) => {
                let deeds: Vec<_> = leases.iter().map(|lease| self.deed(lease)).collect();
                let here = self.ledger.release_together(now, &deeds);
                let there = self.wait(self.store.release_together(&deeds));
                // Whether a lock that is not ours is another's, or just released, depends on
                // what was looked at first.
                let is_ours = |kept: Vec<Kept>| kept.iter().map(|one| *one == Kept::Ours).collect();
                (Reply::Done(is_ours(here)), Reply::Done(is_ours(there)))
            }
            Request::Renew(leases) => self.renew(leases, |_| None),
            Request::Note(leases) => self.renew(leases, |n| {
                let fence = 1_700_000_000_000_000 + u64::try_from(n).unwrap();
                Some(Note { fence, held_for: Duration::from_secs(3) })
            }),
            Request::Release { lease, recorded } => {
                let deed = self.deed(lease);
                let here = self.ledger.release(now, &deed, *recorded);
                let there = self.wait(self.store.release(&deed, *recorded));
                (Reply::Kept(vec![here]), Reply::Kept(vec![there]))
            }
            Request::Inspect { name } => {
                let here = self.ledger.inspect(now, &self.keys[*name]);
                let there = self.wait(self.store.inspect(&self.keys[*name]));
                (inspected(here), inspected(there))
            }
            Request::Evict { name, seen } => {
                let deed = self.deed(&Lease { names: vec![*name], by: *seen, ttl: Duration::ZERO });
                let value = deed.owner.as_ref().map_or(deed.tag(), |owner| owner.as_bytes().into());
                let here = self.ledger.evict(now, &self.keys[*name], &value);
                let there = self.wait(self.store.evict(&self.keys[*name], &value));
                (Reply::Evicted(here), Reply::Evicted(there))
            }
            Request::Remaining(lease) => {
                let deed = self.deed(lease);
                let here = self.ledger.remaining(now, &deed).map(Rough);
                let there = self.wait(self.store.remaining(&deed)).map(Rough);
                (Reply::Remaining(here), Reply::Remaining(there))
            }
            Request::Set { name } => {
                let key = &self.keys[*name];
                let end = StoreTime(now.0 + PLAIN_MS * 1_000);
                self.ledger.set(key.clone(), OWNER.as_bytes(), end);
                let mut set = ::redis::cmd("SET");
                set.arg(key.lock()).arg(OWNER).arg("PX").arg(PLAIN_MS);
                set.exec(&mut self.connection).unwrap();
                (Reply::Nothing, Reply::Nothing)
            }
            Request::Delete { name } => {
                let key = &self.keys[*name];
                self.ledger.delete(key);
                ::redis::cmd("DEL").arg(key.lock()).exec(&mut self.connection).unwrap();
                (Reply::Nothing, Reply::Nothing)
            }
            Request::Pass(time) => {
                self.now = StoreTime(self.now.0 + u64::try_from(time.as_micros()).unwrap());
                self.bring_expiries_forward(*time);
                (Reply::Nothing, Reply::Nothing)
            }
        }
    }

    fn renew(&mut self, leases: &[Lease], note: impl Fn(usize) -> Option<Note>) -> (Reply, Reply) {
        let renewal = |(n, lease): (usize, &Lease)| {
            let (deed, ttl) = (self.deed(lease), lease.ttl);
            let note = note(n).filter(|_| deed.owner.is_none());
            Renewal { deed, ttl, note }
        };
        let renewals: Vec<_> = leases.iter().enumerate().map(renewal).collect();
        let here = renewals.iter().map(|one| self.ledger.renew(self.now, one)).collect();
        (Reply::Kept(here), Reply::Kept(self.wait(self.store.renew(&renewals))))
    }

    /// Metadata differs from claimant to claimant, and one has none.
    fn deed(&self, lease: &Lease) -> Arc<Deed> {
        let metadata =
            ["", "one", "two words", "\0", "", "entered", "x"][lease.by].as_bytes().into();
        let names = lease.names.iter().map(|name| self.keys[*name].name());
        let keys = Keys::new(&Prefix::default(), names).unwrap();
        let owner = match lease.by {
            0..4 => None,
            6 => Some("request 7f3".into()),
            _ => Some(OWNER.into()),
        };
        let mut tokens = self.tokens.borrow_mut();
        let token = tokens.entry((lease.by, lease.names.clone())).or_insert_with(Token::generate);
        Arc::new(Deed { keys, token: *token, owner, metadata })
    }

    /// Their values differ, their growth must not: both draw a new one, or neither does.
    fn compare_fences(&mut self, here: &Claimed, there: &Claimed, is_owners: bool) {
        let (Claimed::Granted { fence: here }, Claimed::Granted { fence: there }) = (here, there)
        else {
            return;
        };
        let pairs = &mut self.fences;
        let last = pairs.iter().max().copied().unwrap_or_default();
        if is_owners && pairs.contains(&(*here, *there)) {
            return; // entered again
        }
        // An owner may enter by the fence of a hand-over that nobody has asked for yet.
        let (is_new_here, is_new_there) = (*here > last.0, *there > last.1);
        assert!(is_new_here == is_new_there, "{here} and {there} after {last:?}");
        assert!(is_new_here || is_owners, "{here} and {there} after {last:?}");
        pairs.push((*here, *there));
    }

    fn wait<T>(&self, call: Call<T>) -> T {
        self.runtime.block_on(call).unwrap_or_else(|error| panic!("{}: {error}", self.server.url()))
    }

    fn bring_expiries_forward(&mut self, time: Duration) {
        let time_ms = i64::try_from(time.as_millis()).unwrap();
        let mut look_back = ::redis::cmd("EVAL");
        look_back.arg(SEEN_EARLIER).arg(self.keys.len());
        self.keys.iter().for_each(|key| _ = look_back.arg(key.places()));
        look_back.arg(time_ms).exec(&mut self.connection).unwrap();
        for key in &self.keys {
            let holds: Vec<Vec<u8>> = ::redis::cmd("ZRANGEBYSCORE")
                .arg(key.holds())
                .arg("-inf")
                .arg("(+inf")
                .query(&mut self.connection)
                .unwrap();
            for hold in holds {
                let mut command = ::redis::cmd("ZINCRBY");
                command
                    .arg(key.holds())
                    .arg(-time_ms)
                    .arg(hold)
                    .exec(&mut self.connection)
                    .unwrap();
            }
            let keys = [key.lock().to_owned(), key.facts(), key.holds(), key.line(), key.places()];
            for key in keys {
                let left: i64 = ::redis::cmd("PTTL").arg(&key).query(&mut self.connection).unwrap();
                assert_ne!(left, -1, "{key} would live for ever");
                if left > 0 {
                    let mut command = ::redis::cmd("PEXPIRE");
                    command.arg(&key).arg(left - time_ms).exec(&mut self.connection).unwrap();
                }
            }
        }
    }
}

fn claimed(claimed: Claimed) -> Reply {
    match claimed {
        Claimed::Granted { .. } => Reply::Granted,
        Claimed::Held { holder, which } => Reply::HeldAt(which, seen(holder)),
        Claimed::Queued { holder, which, before, is_heard, .. } => {
            Reply::Queued { which, holder: seen(holder), before, is_heard }
        }
        Claimed::LineFull { .. } => panic!("so many?"),
        Claimed::Foreign { type_name, .. } => panic!("a foreign {type_name}"),
    }
}

fn inspected(inspection: Inspection) -> Reply {
    let state = match inspection.state {
        LockState::Free => None,
        LockState::Held(holder) => Some(seen(holder)),
        LockState::Foreign { type_name } => panic!("a foreign {type_name}"),
    };
    Reply::Seen(state, inspection.waiters)
}

fn seen(holder: Holder) -> Seen {
    // An owner's fence is drawn, and so its value differs.
    let is_owners = holder.owner().is_some();
    if let Some(facts) = &holder.facts {
        assert!(facts.since > SystemTime::UNIX_EPOCH);
    }
    let Remaining::For(remaining) = holder.remaining else { panic!("no expiry") };
    // Those that end at one time come in an order of the store's own.
    let mut holds = holder.holds.map(Vec::from);
    holds.iter_mut().for_each(|holds| holds.sort());
    Seen {
        value: holder.value,
        remaining: Rough(remaining),
        fence: holder.facts.map(|facts| if is_owners { 0 } else { facts.fence }),
        ttl: holder.facts.map(|facts| facts.ttl),
        holds,
    }
}

/// Claimants 1 and 5 are deaf: nobody listens to their channel.
fn seat(by: usize) -> Seat {
    let channel = if by % 4 == 1 { "deaf" } else { "" };
    let (accept, stale) = (Duration::from_millis(15_500), Duration::from_secs(25));
    Seat { channel: channel.into(), accept, stale, replaces: None }
}

/// Makes all who wait have been seen earlier.
const SEEN_EARLIER: &str = "
for _, places in ipairs(KEYS) do
  for _, token in ipairs(redis.call('HKEYS', places)) do
    local place = cmsgpack.unpack(redis.call('HGET', places, token))
    place.seen = place.seen - ARGV[1]
    redis.call('HSET', places, token, cmsgpack.pack(place))
  end
end";

const OWNER: &str = "request 7f3a";

/// How long a plain client's lock lasts; not a whole number of tens of seconds either.
const PLAIN_MS: u64 = 35_500;
