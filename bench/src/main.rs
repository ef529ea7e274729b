//! What a lease costs beside the bare `redis` crate doing the same work, as ratios within one
//! run on a private server; and what very many leases cost one process.
//!
//! ```text
//! cargo run --release -p leasehold-bench [-- COMMAND]
//! ```

mod bare;
mod flavour;
mod hot_name;
mod leases;
mod many_tasks;
mod process;
mod round_trip;
mod server_info;
mod server_time;
mod spread;
mod waiting;

use std::process::ExitCode;

use leasehold_testing::RedisServer;

use crate::flavour::Flavour;

const USAGE: &str = "usage: leasehold-bench [round-trip | many-tasks | server-time | hot-name | waiting | leases [COUNT] [SECONDS]]";

enum Command {
    /// Everything but the long one.
    All,
    RoundTrip,
    ManyTasks,
    ServerTime,
    Waiting,
    HotName,
    /// One of the processes of `HotName`.
    HotWaiters {
        url: String,
        waiters: usize,
    },
    Leases {
        count: u32,
        seconds: u32,
    },
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(command) = Command::parse(&words) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match &command {
        Command::HotName => {
            println!("One name that all want, held for no time. Medians of three rounds.\n");
            hot_name::run();
            return ExitCode::SUCCESS;
        }
        Command::HotWaiters { url, waiters } => {
            hot_name::wait(url, *waiters);
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let server = RedisServer::start();
    match command {
        Command::HotName | Command::HotWaiters { .. } => {}
        Command::All => {
            round_trip(&server);
            println!();
            many_tasks(&server);
            println!();
            server_time(&server);
        }
        Command::RoundTrip => round_trip(&server),
        Command::ManyTasks => many_tasks(&server),
        Command::ServerTime => server_time(&server),
        Command::Waiting => {
            println!("10,000 waiters of one client, each for a name of its own:\n");
            waiting::idle(&server);
            println!("\nA lock changes hands between two clients, two worker threads:\n");
            waiting::latency(&server);
        }
        Command::Leases { count, seconds } => {
            println!(
                "{count} leases of one client, TTL 30 s, held for {seconds} s. None may be lost.\n"
            );
            let lost = leases::run(&server, count, seconds);
            if lost > 0 {
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

impl Command {
    fn parse(words: &[&str]) -> Option<Self> {
        Some(match words {
            [] => Self::All,
            ["round-trip"] => Self::RoundTrip,
            ["many-tasks"] => Self::ManyTasks,
            ["server-time"] => Self::ServerTime,
            ["hot-name"] => Self::HotName,
            ["waiting"] => Self::Waiting,
            ["hot-waiters", url, waiters] => {
                Self::HotWaiters { url: (*url).to_owned(), waiters: waiters.parse().ok()? }
            }
            ["leases", rest @ ..] if rest.len() <= 2 => Self::Leases {
                count: number(rest.first(), 100_000)?,
                seconds: number(rest.get(1), 300)?,
            },
            _ => return None,
        })
    }
}

/// A number above zero, or what it is if nothing was said; `None` if it is neither.
fn number(word: Option<&&str>, default: u32) -> Option<u32> {
    word.map_or(Some(default), |word| word.parse().ok().filter(|number| *number > 0))
}

fn round_trip(server: &RedisServer) {
    println!("One acquire and one release, one task, fencing on: time beside the bare crate");
    println!("running the same two scripts on one multiplexed connection. Rounds alternate.\n");
    for flavour in Flavour::ALL {
        round_trip::run(server, flavour);
    }
}

fn many_tasks(server: &RedisServer) {
    println!("Many tasks at once that acquire and release, each a name of its own: rate beside");
    println!("the bare crate running the same two scripts from as many tasks on one multiplexed");
    println!("connection. Rounds alternate.\n");
    for flavour in Flavour::ALL {
        many_tasks::run(server, flavour);
    }
}

fn server_time(server: &RedisServer) {
    println!("Server time for each name (INFO commandstats), beside a minimal script that");
    println!("compares and deletes. 256 tasks, names all different. Rounds alternate.\n");
    server_time::run(server);
}
