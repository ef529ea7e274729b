//! What each script costs inside the server.

use std::sync::Arc;

use leasehold::{Client, Lease};
use leasehold_testing::RedisServer;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinSet;

use crate::bare;
use crate::flavour::Flavour;
use crate::server_info::ServerInfo;
use crate::spread::Spread;

const ROUNDS: usize = 21;
const TASKS: usize = 256;
/// By each task.
const NAMES: usize = 50;

pub(crate) fn run(server: &RedisServer) {
    Flavour::MultiThread.runtime().block_on(async {
        let locks = leasehold::connect(&server.url()).await.expect("our own server");
        let connection = bare::connect(&server.url()).await;
        let minimal = Arc::new(bare::Minimal::new());
        let (mut claims, mut releases, mut floor) = (Vec::new(), Vec::new(), Vec::new());
        let (mut claim_micros, mut release_micros) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let ((), least) = measured(server, set_and_delete(&connection, &minimal)).await;
            let (held, claim) = measured(server, acquire(&locks)).await;
            let ((), release) = measured(server, release(held)).await;
            // The first round warms everything up.
            if round > 0 {
                claims.push(claim / least);
                releases.push(release / least);
                floor.push(least);
                claim_micros.push(claim);
                release_micros.push(release);
            }
        }
        println!("  claim / minimal      {}   (goal: at most 2)", Spread::of(claims));
        println!("  release / minimal    {}   (goal: at most 1.1)", Spread::of(releases));
        println!("  minimal, µs          {}", Spread::of(floor));
        println!("  claim, µs            {}", Spread::of(claim_micros));
        println!("  release, µs          {}", Spread::of(release_micros));
    });
}

/// Does the work, and says how many microseconds the server spent in scripts for each name:
/// not for each call, which may be for many.
async fn measured<T>(server: &RedisServer, work: impl Future<Output = T>) -> (T, f64) {
    server.run::<()>(&["CONFIG", "RESETSTAT"]);
    let output = work.await;
    (output, ServerInfo::of(server).script_micros() / (TASKS * NAMES) as f64)
}

async fn set_and_delete(connection: &MultiplexedConnection, minimal: &Arc<bare::Minimal>) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (mut connection, minimal) = (connection.clone(), Arc::clone(minimal));
        tasks.spawn(async move {
            for n in 0..NAMES {
                minimal.run(&mut connection, &name(task, n)).await;
            }
        });
    }
    tasks.join_all().await;
}

async fn acquire(locks: &Client) -> Vec<Vec<Lease>> {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let locks = locks.clone();
        tasks.spawn(async move {
            let mut held = Vec::new();
            for n in 0..NAMES {
                // Fixed, so that no renewal is counted.
                held.push(locks.acquire(name(task, n)).fixed().await.expect("free"));
            }
            held
        });
    }
    tasks.join_all().await
}

async fn release(held: Vec<Vec<Lease>>) {
    let mut tasks = JoinSet::new();
    for leases in held {
        tasks.spawn(async move {
            for lease in leases {
                lease.release().await.expect("held");
            }
        });
    }
    tasks.join_all().await;
}

fn name(task: usize, n: usize) -> String {
    format!("bench:{task}:{n}")
}
