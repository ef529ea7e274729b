//! The ledger against Redis: random sequences of requests, compared reply for reply.
//!
//! Time passes on both sides when the sequence says so. In the ledger `now` is an argument;
//! on the server every key's expiry is brought forward by as much. The little real time that
//! goes by meanwhile makes no difference: TTLs and pauses are chosen so that nothing ends
//! within seconds of a request.
//!
//! A sequence that fails is shrunk, and its seed kept in `proptest-regressions/`.

use std::time::{Duration, SystemTime};

use leasehold_testing::RedisServer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::redis::RedisStore;
use super::redis::address;
use super::redis::connect::OwnConnections;
use super::{Call, Claim, Claimed, Kept, Record, Renewal, Store};
use crate::inspect::{Holder, Inspection, Remaining};
use crate::name::{Key, Prefix};
use crate::proto::ledger::{Ledger, StoreTime};
use crate::token::Token;

const NAMES: usize = 3;
const CLAIMANTS: usize = 4;

#[derive(Clone, Debug)]
enum Request {
    Claim { name: usize, by: usize, ttl: Duration },
    Renew(Vec<(usize, usize, Duration)>),
    Record(Vec<(usize, usize, Duration)>),
    Release { name: usize, by: usize, recorded: bool },
    Inspect { name: usize },
    Evict { name: usize, seen: usize },
    Remaining { name: usize, by: usize },
    Pass(Duration),
}

/// What came back, with what must differ taken out: the value of a fence (only its growth is
/// comparable) and what a clock showed.
#[derive(Debug, PartialEq)]
enum Reply {
    Granted,
    Held(Seen),
    Kept(Vec<Kept>),
    Free,
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
    let lease = || (0..NAMES, 0..CLAIMANTS, ttl());
    let leases = || prop::collection::vec(lease(), 1..5);
    prop_oneof![
        6 => lease().prop_map(|(name, by, ttl)| Request::Claim { name, by, ttl }),
        3 => leases().prop_map(Request::Renew),
        3 => leases().prop_map(Request::Record),
        3 => (0..NAMES, 0..CLAIMANTS, any::<bool>())
            .prop_map(|(name, by, recorded)| Request::Release { name, by, recorded }),
        3 => (0..NAMES).prop_map(|name| Request::Inspect { name }),
        1 => (0..NAMES, 0..CLAIMANTS).prop_map(|(name, seen)| Request::Evict { name, seen }),
        2 => (0..NAMES, 0..CLAIMANTS).prop_map(|(name, by)| Request::Remaining { name, by }),
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
    tokens: Vec<Token>,
    last_fences: (u64, u64),
}

impl<'a> Both<'a> {
    fn new(
        server: &'a RedisServer,
        runtime: &'a tokio::runtime::Runtime,
        store: &'a RedisStore,
    ) -> Self {
        let mut connection = server.connection();
        ::redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
        let key = |n: usize| Key::new(&Prefix::default(), ["a", "{b}", "c}{"][n]).unwrap();
        Self {
            server,
            runtime,
            store,
            connection,
            ledger: Ledger::default(),
            now: StoreTime(1_000_000_000_000),
            keys: (0..NAMES).map(key).collect(),
            tokens: (0..CLAIMANTS).map(|_| Token::generate()).collect(),
            last_fences: (0, 0),
        }
    }

    /// Sends to both; the ledger's reply and the server's.
    fn send(&mut self, request: &Request) -> (Reply, Reply) {
        let now = self.now;
        match request {
            Request::Claim { name, by, ttl } => {
                let claim = self.claim(*name, *by, *ttl);
                let here = self.ledger.claim(now, &claim);
                let there = self.wait(self.store.claim(&claim));
                let (last_here, last_there) = &mut self.last_fences;
                (claimed(here, last_here), claimed(there, last_there))
            }
            Request::Renew(leases) => {
                let renewals: Vec<_> = leases.iter().map(|lease| self.renewal(*lease)).collect();
                let here = renewals.iter().map(|one| self.ledger.renew(now, one)).collect();
                (Reply::Kept(here), Reply::Kept(self.wait(self.store.renew(&renewals))))
            }
            Request::Record(leases) => {
                let record = |(n, lease): (usize, &(usize, usize, Duration))| Record {
                    renewal: self.renewal(*lease),
                    fence: 1_700_000_000_000_000 + u64::try_from(n).unwrap(),
                    held_for: Duration::from_secs(3),
                };
                let records: Vec<_> = leases.iter().enumerate().map(record).collect();
                let here = records.iter().map(|one| self.ledger.record(now, one)).collect();
                (Reply::Kept(here), Reply::Kept(self.wait(self.store.record(&records))))
            }
            Request::Release { name, by, recorded } => {
                let (key, token) = (&self.keys[*name], &self.tokens[*by]);
                let here = self.ledger.release(now, key, token, *recorded);
                let there = self.wait(self.store.release(key, token, *recorded));
                (Reply::Kept(vec![here]), Reply::Kept(vec![there]))
            }
            Request::Inspect { name } => {
                let here = self.ledger.inspect(now, &self.keys[*name]);
                let there = self.wait(self.store.inspect(&self.keys[*name]));
                (inspected(here), inspected(there))
            }
            Request::Evict { name, seen } => {
                let value = self.claim(*name, *seen, Duration::ZERO).value();
                let here = self.ledger.evict(now, &self.keys[*name], &value);
                let there = self.wait(self.store.evict(&self.keys[*name], &value));
                (Reply::Evicted(here), Reply::Evicted(there))
            }
            Request::Remaining { name, by } => {
                let (key, token) = (&self.keys[*name], &self.tokens[*by]);
                let here = self.ledger.remaining(now, key, token).map(Rough);
                let there = self.wait(self.store.remaining(key, token)).map(Rough);
                (Reply::Remaining(here), Reply::Remaining(there))
            }
            Request::Pass(time) => {
                self.now = StoreTime(self.now.0 + u64::try_from(time.as_micros()).unwrap());
                self.bring_expiries_forward(*time);
                (Reply::Nothing, Reply::Nothing)
            }
        }
    }

    /// Metadata differs from claimant to claimant, and one has none.
    fn claim(&self, name: usize, by: usize, ttl: Duration) -> Claim {
        let metadata = ["", "one", "two words", "\0"][by].as_bytes().into();
        Claim { key: self.keys[name].clone(), token: self.tokens[by], metadata, ttl }
    }

    fn renewal(&self, (name, by, ttl): (usize, usize, Duration)) -> Renewal {
        Renewal { key: self.keys[name].clone(), token: self.tokens[by], ttl }
    }

    fn wait<T>(&self, call: Call<T>) -> T {
        self.runtime.block_on(call).unwrap_or_else(|error| panic!("{}: {error}", self.server.url()))
    }

    fn bring_expiries_forward(&mut self, time: Duration) {
        for key in &self.keys {
            for key in [key.lock().to_owned(), key.facts()] {
                let left: i64 = ::redis::cmd("PTTL").arg(&key).query(&mut self.connection).unwrap();
                assert_ne!(left, -1, "{key} would live for ever");
                if left > 0 {
                    let left = left - i64::try_from(time.as_millis()).unwrap();
                    let mut command = ::redis::cmd("PEXPIRE");
                    command.arg(&key).arg(left).exec(&mut self.connection).unwrap();
                }
            }
        }
    }
}

fn claimed(claimed: Claimed, last_fence: &mut u64) -> Reply {
    match claimed {
        Claimed::Granted { fence } => {
            assert!(fence > *last_fence, "fence {fence} after {last_fence}");
            *last_fence = fence;
            Reply::Granted
        }
        Claimed::Held(holder) => Reply::Held(seen(holder)),
        Claimed::Foreign { type_name } => panic!("a foreign {type_name}"),
    }
}

fn inspected(inspection: Inspection) -> Reply {
    match inspection {
        Inspection::Free => Reply::Free,
        Inspection::Held(holder) => Reply::Held(seen(holder)),
        Inspection::Foreign { type_name } => panic!("a foreign {type_name}"),
    }
}

fn seen(holder: Holder) -> Seen {
    if let Some(facts) = &holder.facts {
        assert!(facts.since > SystemTime::UNIX_EPOCH);
    }
    let Remaining::For(remaining) = holder.remaining else { panic!("no expiry") };
    Seen {
        value: holder.value,
        remaining: Rough(remaining),
        fence: holder.facts.map(|facts| facts.fence),
        ttl: holder.facts.map(|facts| facts.ttl),
    }
}
