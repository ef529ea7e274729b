//! Many who want one name: turns, commands for each turn, waits, and who was luckiest.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_testing::RedisServer;
use tokio::task::JoinSet;

use crate::server_info::ServerInfo;

const WARM_UP: Duration = Duration::from_millis(500);
const MEASURED: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

/// Waiters, and over how many processes.
const LOADS: [(usize, usize); 10] = [
    (2, 1),
    (2, 2),
    (32, 1),
    (32, 2),
    (32, 8),
    (256, 1),
    (256, 8),
    (1_024, 1),
    (1_024, 2),
    (1_024, 8),
];

pub(crate) fn run() {
    println!(
        "  waiters  processes  turns/s  commands a turn  wait p50, ms  p99/p50  least/most turns"
    );
    for (waiters, processes) in LOADS {
        let mut rounds: Vec<Round> = (0..ROUNDS).map(|_| round(waiters, processes)).collect();
        rounds.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let Round { rate, commands, p50, p99, least, most } = rounds.swap_remove(ROUNDS / 2);
        println!(
            "  {waiters:7}  {processes:9}  {rate:7.0}  {commands:15.2}  {p50:12.2}  {:7.2}  {:16.2}",
            p99 / p50,
            least as f64 / most as f64,
        );
    }
}

struct Round {
    rate: f64,
    commands: f64,
    p50: f64,
    p99: f64,
    least: u64,
    most: u64,
}

fn round(waiters: usize, processes: usize) -> Round {
    let server = RedisServer::start();
    let mut children: Vec<Child> = (0..processes)
        .map(|_| {
            Command::new(std::env::current_exe().expect("this program"))
                .args(["hot-waiters", &server.url(), &(waiters / processes).to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a process")
        })
        .collect();
    let mut outputs: Vec<_> = children
        .iter_mut()
        .map(|child| BufReader::new(child.stdout.take().expect("piped")))
        .collect();
    std::thread::sleep(WARM_UP);
    let tell = |children: &mut [Child], what: &str| {
        for child in children {
            child.stdin.as_mut().expect("piped").write_all(what.as_bytes()).expect("it listens");
        }
    };
    server.run::<()>(&["CONFIG", "RESETSTAT"]);
    tell(&mut children, "go\n");
    std::thread::sleep(MEASURED);
    let calls = ServerInfo::of(&server).script_calls();
    tell(&mut children, "stop\n");
    let (mut turns, mut waits) = (Vec::new(), Vec::new());
    for output in &mut outputs {
        for line in output.lines() {
            let line = line.expect("text");
            let mut numbers =
                line.split(' ').map(|number| number.parse::<u64>().expect("a number"));
            turns.push(numbers.next().expect("how many"));
            waits.extend(numbers);
        }
    }
    for child in &mut children {
        child.wait().expect("it ends");
    }
    waits.sort_unstable();
    let at = |percent: usize| waits[(waits.len() - 1) * percent / 100] as f64 / 1e3;
    let all = turns.iter().sum::<u64>() as f64;
    Round {
        rate: all / MEASURED.as_secs_f64(),
        commands: calls / all,
        p50: at(50),
        p99: at(99),
        least: turns.iter().copied().min().unwrap_or(0),
        most: turns.iter().copied().max().unwrap_or(0),
    }
}

/// One of the processes: after `go` on its input, counts; after `stop`, tells for each waiter how
/// many turns it had and how long it waited for each, in microseconds.
pub(crate) fn wait(url: &str, waiters: usize) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let (counts, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let listener = (Arc::clone(&counts), Arc::clone(&stop));
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            match line.as_deref() {
                Ok("go") => listener.0.store(true, Ordering::SeqCst),
                _ => break,
            }
        }
        listener.0.store(false, Ordering::SeqCst);
        listener.1.store(true, Ordering::SeqCst);
    });
    runtime.expect("a runtime").block_on(async {
        let locks = leasehold::connect(url).await.expect("our own server");
        let mut tasks = JoinSet::new();
        for _ in 0..waiters {
            let (locks, counts, stop) = (locks.clone(), Arc::clone(&counts), Arc::clone(&stop));
            tasks.spawn(async move {
                let mut waits = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let start = Instant::now();
                    let lease = locks.acquire("hot").await.expect("in the end");
                    if counts.load(Ordering::SeqCst) {
                        waits.push(start.elapsed().as_micros());
                    }
                    lease.release().await.expect("held");
                }
                waits
            });
        }
        for waits in tasks.join_all().await {
            let waits: Vec<String> = waits.iter().map(u128::to_string).collect();
            println!("{} {}", waits.len(), waits.join(" "));
        }
    });
}
