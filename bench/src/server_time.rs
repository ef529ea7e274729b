//! What each script costs inside the server.

use std::sync::Arc;

use leasehold::Lease;
use leasehold_testing::RedisServer;
use redis::Script;
use tokio::task::JoinSet;

use crate::bare;
use crate::spread::Spread;

const ROUNDS: usize = 21;
const TASKS: usize = 64;
const NAMES: usize = 200;

pub(crate) fn run(server: &RedisServer) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let locks = leasehold::connect(&server.url()).await.expect("our own server");
        let connection = bare::connect(&server.url()).await;
        let minimal = Arc::new(Script::new(bare::COMPARE_AND_DELETE));
        let (mut claims, mut releases, mut floor) = (Vec::new(), Vec::new(), Vec::new());
        let (mut claim_micros, mut release_micros) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let mut tasks = JoinSet::new();
            for task in 0..TASKS {
                let (mut connection, minimal) = (connection.clone(), Arc::clone(&minimal));
                tasks.spawn(async move {
                    for n in 0..NAMES {
                        let key = format!("bench:{task}:{n}");
                        let set = redis::cmd("SET").arg(&key).arg("token").to_owned();
                        set.exec_async(&mut connection).await.expect("it runs");
                        let deleted: i64 = minimal
                            .key(&key)
                            .arg("token")
                            .invoke_async(&mut connection)
                            .await
                            .expect("it runs");
                        assert_eq!(deleted, 1);
                    }
                });
            }
            server.run::<()>(&["CONFIG", "RESETSTAT"]);
            tasks.join_all().await;
            let least = script_micros(server);

            server.run::<()>(&["CONFIG", "RESETSTAT"]);
            let mut tasks = JoinSet::new();
            for task in 0..TASKS {
                let locks = locks.clone();
                tasks.spawn(async move {
                    let mut held: Vec<Lease> = Vec::new();
                    for n in 0..NAMES {
                        let name = format!("bench:{task}:{n}");
                        held.push(locks.acquire(name).fixed().await.expect("free"));
                    }
                    held
                });
            }
            let held = tasks.join_all().await;
            let claim = script_micros(server);

            server.run::<()>(&["CONFIG", "RESETSTAT"]);
            let mut tasks = JoinSet::new();
            for leases in held {
                tasks.spawn(async move {
                    for lease in leases {
                        lease.release().await.expect("held");
                    }
                });
            }
            tasks.join_all().await;
            let release = script_micros(server);

            if round > 0 {
                claims.push(claim / least);
                releases.push(release / least);
                floor.push(least);
                claim_micros.push(claim);
                release_micros.push(release);
            }
        }
        println!("  claim / minimal      {}   (goal: at most 5)", Spread::of(claims));
        println!("  release / minimal    {}   (goal: at most 1.8)", Spread::of(releases));
        println!("  minimal, µs          {}", Spread::of(floor));
        println!("  claim, µs            {}", Spread::of(claim_micros));
        println!("  release, µs          {}", Spread::of(release_micros));
    });
}

/// Microseconds for each call of a script since the statistics were reset.
fn script_micros(server: &RedisServer) -> f64 {
    let stats: String = server.run(&["INFO", "commandstats"]);
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("it ran");
    let field = line.split(',').find_map(|field| field.strip_prefix("usec_per_call="));
    field.and_then(|micros| micros.parse().ok()).expect("a number")
}
