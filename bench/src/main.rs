//! What a lease costs beside the bare `redis` crate doing the same work, as ratios within one
//! run on a private server.
//!
//! ```text
//! cargo run --release -p leasehold-bench
//! ```

mod bare;
mod round_trip;
mod server_time;
mod spread;

use leasehold_testing::RedisServer;

fn main() {
    let server = RedisServer::start();
    println!("One acquire and one release, one task, fencing on: time beside the bare crate");
    println!("running the same two scripts on one multiplexed connection. Rounds alternate.\n");
    for flavour in round_trip::Flavour::ALL {
        round_trip::run(&server, flavour);
    }
    println!("\nServer time for each name (INFO commandstats), beside a minimal script that");
    println!("compares and deletes. 64 tasks, names all different. Rounds alternate.\n");
    server_time::run(&server);
}
