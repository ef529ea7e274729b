//! Many tasks that acquire and release at once, each a name of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testing::RedisServer;
use redis::aio::MultiplexedConnection;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::bare;
use crate::flavour::Flavour;
use crate::spread::Spread;

const ROUNDS: usize = 41;

/// So many tasks, with so many pairs each in a round.
struct Load {
    tasks: usize,
    pairs: usize,
    goal: &'static str,
}

const LOADS: [Load; 3] = [
    // 1.15 times as long; round_trip looks at it more closely.
    Load { tasks: 1, pairs: 400, goal: "at least 0.87" },
    Load { tasks: 64, pairs: 48, goal: "at least 1.0" },
    Load { tasks: 256, pairs: 16, goal: "at least 1.5" },
];

pub(crate) fn run(server: &RedisServer, flavour: Flavour) {
    flavour.runtime().block_on(async {
        let locks = leasehold::connect(&server.url()).await.expect("our own server");
        let connection = bare::connect(&server.url()).await;
        let pair = Arc::new(bare::Pair::new());
        for load in &LOADS {
            compare(flavour, load, &locks, &connection, &pair).await;
        }
    });
}

async fn compare(
    flavour: Flavour,
    load: &Load,
    locks: &Client,
    connection: &MultiplexedConnection,
    pair: &Arc<bare::Pair>,
) {
    let (mut ratios, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (leasehold, bare);
        // Whoever goes first finds the machine as the other left it: so they take turns.
        if round % 2 == 0 {
            leasehold = leasehold_round(load, locks).await;
            bare = bare_round(load, connection, pair).await;
        } else {
            bare = bare_round(load, connection, pair).await;
            leasehold = leasehold_round(load, locks).await;
        }
        // The first round warms both up.
        if round > 0 {
            ratios.push(bare.as_secs_f64() / leasehold.as_secs_f64());
            ours.push(load.thousands_per_second(leasehold));
            theirs.push(load.thousands_per_second(bare));
        }
    }
    let Load { tasks, pairs, goal } = load;
    println!("Tasks: {tasks}, {flavour}, {ROUNDS} rounds of {pairs} pairs by each task:");
    println!("  leasehold / bare, rates      {}   (goal: {goal})", Spread::of(ratios));
    println!("  leasehold, 1000 pairs/s      {}", Spread::of(ours));
    println!("  bare crate, 1000 pairs/s     {}", Spread::of(theirs));
}

impl Load {
    fn thousands_per_second(&self, elapsed: Duration) -> f64 {
        (self.tasks * self.pairs) as f64 / elapsed.as_secs_f64() / 1e3
    }
}

async fn leasehold_round(load: &Load, locks: &Client) -> Duration {
    let pairs = load.pairs;
    timed(load.tasks, |task| {
        let (locks, name) = (locks.clone(), name(task));
        async move {
            for _ in 0..pairs {
                let lease = locks.acquire(&name).await.expect("free");
                lease.release().await.expect("held");
            }
        }
    })
    .await
}

async fn bare_round(
    load: &Load,
    connection: &MultiplexedConnection,
    pair: &Arc<bare::Pair>,
) -> Duration {
    let pairs = load.pairs;
    timed(load.tasks, |task| {
        let (mut connection, pair, name) = (connection.clone(), Arc::clone(pair), name(task));
        async move {
            for n in 0..pairs {
                pair.run(&mut connection, &name, n as u64).await;
            }
        }
    })
    .await
}

fn name(task: usize) -> String {
    format!("bench:{task}")
}

/// From the first task's first step to the last one's end, once all are there.
async fn timed<Work>(tasks: usize, work: impl Fn(usize) -> Work) -> Duration
where
    Work: Future<Output = ()> + Send + 'static,
{
    let all_there = Arc::new(Barrier::new(tasks));
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (all_there, work) = (Arc::clone(&all_there), work(task));
        running.spawn(async move {
            all_there.wait().await;
            let start = Instant::now();
            work.await;
            (start, Instant::now())
        });
    }
    let times = running.join_all().await;
    let start = times.iter().map(|(start, _)| *start).min().expect("a task");
    let end = times.iter().map(|(_, end)| *end).max().expect("a task");
    end - start
}
