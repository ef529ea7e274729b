//! Very many leases of one process, held for minutes.

use std::time::{Duration, Instant};

use leasehold::{Client, Lease};
use leasehold_testing::RedisServer;
use tokio::task::JoinSet;

use crate::flavour::Flavour;
use crate::process;
use crate::server_info::ServerInfo;

const TTL: Duration = Duration::from_secs(30);
/// How many acquire at once.
const TASKS: u32 = 256;
/// For how long the server is watched while nobody uses it.
const IDLE: Duration = Duration::from_secs(5);

/// Answers how many were lost.
pub(crate) fn run(server: &RedisServer, count: u32, seconds: u32) -> usize {
    let idle = Watch::start(server);
    std::thread::sleep(IDLE);
    let idle = idle.stop(server);
    Flavour::MultiThread.runtime().block_on(async {
        let locks = leasehold::connect(&server.url()).await.expect("our own server");
        // So that the keeper's thread and the connections are there before we weigh.
        locks.acquire("bench:first").await.expect("free").release().await.expect("held");
        let before = process::resident_bytes();
        let added = || process::resident_bytes().saturating_sub(before);
        let bytes_each = || added() as f64 / f64::from(count);

        let start = Instant::now();
        let leases = acquire(&locks, count).await;
        let acquiring = start.elapsed();
        let watch = Watch::start(server);
        let rate = f64::from(count) / acquiring.as_secs_f64() / 1e3;
        println!("  acquired in            {acquiring:.1?}, {rate:.1} thousand a second");
        println!("  client, bytes each     {:.0}   (goal: at most 1,024)", bytes_each());

        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        let used = watch.stop(server);
        let lost = leases.iter().flatten().filter(|lease| !lease.is_held()).count();
        println!("  the same at the end    {:.0}   (goal: at most 1,024)", bytes_each());
        println!("  lost                   {lost}   (goal: none)");
        println!("  client, % of a core    {:.2}   (goal: at most 10)", used.client_percent);
        println!("  server, % of a core    {:.2}   (goal: at most 5)", used.server_percent);
        println!("  the same before, idle  {:.2}", idle.server_percent);
        println!("  script calls a second  {:.1}", used.scripts_per_second);
        println!("  commands a second      {:.0}, in scripts or not", used.commands_per_second);

        let start = Instant::now();
        let closed = locks.close().await;
        let closing = start.elapsed();
        match closed {
            Ok(()) => println!("  closed in              {closing:.1?}"),
            Err(error) => println!("  NOT closed in          {closing:.1?}: {error}"),
        }
        lost
    })
}

async fn acquire(locks: &Client, count: u32) -> Vec<Vec<Lease>> {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let locks = locks.clone();
        tasks.spawn(async move {
            let mine = (task..count).step_by(TASKS as usize);
            let mut leases = Vec::with_capacity(mine.len());
            for n in mine {
                leases.push(locks.acquire(format!("bench:{n}")).ttl(TTL).await.expect("free"));
            }
            leases
        });
    }
    tasks.join_all().await
}

/// What both processes had used when we began to look.
struct Watch {
    since: Instant,
    client_cpu: f64,
    server: ServerInfo,
}

/// What they used while we looked.
struct Used {
    client_percent: f64,
    server_percent: f64,
    scripts_per_second: f64,
    commands_per_second: f64,
}

impl Watch {
    fn start(server: &RedisServer) -> Self {
        let server = ServerInfo::of(server);
        Self { since: Instant::now(), client_cpu: process::cpu_seconds(), server }
    }

    fn stop(self, server: &RedisServer) -> Used {
        let seconds = self.since.elapsed().as_secs_f64();
        let client_cpu = process::cpu_seconds() - self.client_cpu;
        let server = ServerInfo::of(server);
        let per_second =
            |count: fn(&ServerInfo) -> f64| (count(&server) - count(&self.server)) / seconds;
        Used {
            client_percent: client_cpu / seconds * 100.0,
            server_percent: per_second(ServerInfo::cpu_seconds) * 100.0,
            scripts_per_second: per_second(ServerInfo::script_calls),
            commands_per_second: per_second(ServerInfo::commands),
        }
    }
}
