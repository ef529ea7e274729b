//! What leasehold's tests and benchmarks stand on: real servers that they start and stop
//! themselves, a proxy that loses and delays what passes through it, a server clock that can
//! be set, and processes that can be stopped and killed.

mod clock;
mod processes;
mod proxy;
mod server;

pub use clock::ServerClock;
pub use processes::{Process, signal};
pub use proxy::{Fault, FaultProxy};
pub use server::{RedisServer, ServerOptions, free_port};

/// Waits until `condition` holds, looking every few milliseconds.
///
/// # Panics
///
/// After a minute, which no condition of ours takes: the message says what did not come.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = std::time::Instant::now();
    while !condition().await {
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "never came: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
}
