//! One task that acquires and releases, over and over.

use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testing::RedisServer;

use crate::bare;
use crate::flavour::Flavour;
use crate::spread::Spread;

const ROUNDS: usize = 201;
const PAIRS: u64 = 200;

pub(crate) fn run(server: &RedisServer, flavour: Flavour) {
    let runtime = flavour.runtime();
    let work = async {
        let locks = leasehold::connect(&server.url()).await.expect("our own server");
        let mut connection = bare::connect(&server.url()).await;
        let pair = bare::Pair::new();
        let mut ratios = Vec::new();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let start = Instant::now();
            for n in 0..PAIRS {
                pair.run(&mut connection, "bench", n).await;
            }
            let bare = start.elapsed();
            let start = Instant::now();
            for _ in 0..PAIRS {
                one_pair(&locks).await;
            }
            let leasehold = start.elapsed();
            // The first round warms both up.
            if round > 0 {
                ratios.push(leasehold.as_secs_f64() / bare.as_secs_f64());
                ours.push(micros_each(leasehold));
                theirs.push(micros_each(bare));
            }
        }
        println!("One task, {flavour}, {ROUNDS} rounds of {PAIRS} pairs:");
        println!("  leasehold / bare   {}   (goal: at most 1.15)", Spread::of(ratios));
        println!("  leasehold, µs      {}", Spread::of(ours));
        println!("  bare crate, µs     {}", Spread::of(theirs));
    };
    runtime.block_on(work);
}

async fn one_pair(locks: &Client) {
    let lease = locks.acquire("bench").await.expect("free");
    lease.release().await.expect("held");
}

fn micros_each(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1e6 / PAIRS as f64
}
