//! The bare `redis` crate: the same scripts, without a client of ours around them. What the
//! scripts take and answer is known here only.

use redis::Script;
use redis::aio::MultiplexedConnection;

const CLAIM: &str = concat!(
    include_str!("../../crates/leasehold/src/store/redis/scripts/grant.lua"),
    include_str!("../../crates/leasehold/src/store/redis/scripts/claim.lua")
);
const RELEASE: &str = concat!(
    include_str!("../../crates/leasehold/src/store/redis/scripts/grant.lua"),
    include_str!("../../crates/leasehold/src/store/redis/scripts/release.lua")
);

/// The least that a release can do: what every plain string lock runs.
const COMPARE_AND_DELETE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// One claim and one release by the scripts as they are.
pub(crate) struct Pair {
    claim: Script,
    release: Script,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self { claim: Script::new(CLAIM), release: Script::new(RELEASE) }
    }

    pub(crate) async fn run(&self, connection: &mut MultiplexedConnection, name: &str, n: u64) {
        let token = format!("{n:022}");
        let (line, places) =
            (format!("{{{name}}}:leasehold:1:line"), format!("{{{name}}}:leasehold:1:places"));
        let claimed: ((i64, i64),) = self
            .claim
            .key("leasehold:1:fence")
            .key(name)
            .key(&line)
            .key(&places)
            .arg(1)
            .arg(&token)
            .arg(30_000)
            .arg("-")
            .arg(0)
            .arg(0)
            .invoke_async(connection)
            .await
            .expect("the claim runs");
        assert_eq!(claimed.0.0, 1);
        let release = &self.release;
        let released: (i64,) = release
            .key("leasehold:1:fence")
            .key(name)
            .key(&line)
            .key(&places)
            .arg(1)
            .arg(1)
            .arg(0)
            .arg(&token)
            .invoke_async(connection)
            .await
            .expect("it runs");
        assert_eq!(released.0, 1);
    }
}

/// What a plain string lock does to release, after the `SET` that it needs for that.
pub(crate) struct Minimal {
    compare_and_delete: Script,
}

impl Minimal {
    pub(crate) fn new() -> Self {
        Self { compare_and_delete: Script::new(COMPARE_AND_DELETE) }
    }

    pub(crate) async fn run(&self, connection: &mut MultiplexedConnection, name: &str) {
        // With an expiry, as every lock has: the DEL then has two places to delete from.
        let mut set = redis::cmd("SET");
        set.arg(name).arg("token").arg("PX").arg(30_000);
        set.exec_async(connection).await.expect("it runs");
        let compare_and_delete = &self.compare_and_delete;
        let deleted: i64 = compare_and_delete
            .key(name)
            .arg("token")
            .invoke_async(connection)
            .await
            .expect("it runs");
        assert_eq!(deleted, 1);
    }
}

pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let info = redis::IntoConnectionInfo::into_connection_info(url).expect("our own URL");
    // As our own connections have it; off by default, it would cost the bare crate time.
    let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let client = redis::Client::open(info.set_tcp_settings(settings)).expect("our own URL");
    client.get_multiplexed_async_connection().await.expect("our own server answers")
}
