//! Holds a lock, tells what happens to it, and gives it back when its input ends.
//!
//! ```text
//! cargo run --example hold -- redis://127.0.0.1 order:42 5000 [OWNER]
//! ```
//!
//! Prints `held FENCE`, then `working TIME` (milliseconds since the epoch) every 10 ms, then
//! `lost REASON` or `released`. Stop it with Ctrl-Z for longer than its TTL and see what it
//! says after `fg`.

use std::error::Error;
use std::io::{Read, stdin};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[tokio::main]
async fn main() -> ExitCode {
    match hold().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hold: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn hold() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what| arguments.next().ok_or(format!("missing: {what} (URL NAME TTL_MS)"));
    let (url, name, ttl) = (next("URL")?, next("NAME")?, next("TTL_MS")?.parse()?);

    let locks = leasehold::connect(&url).await?;
    let acquiring = locks.acquire(name).ttl(Duration::from_millis(ttl));
    let lease = match arguments.next() {
        Some(owner) => acquiring.owner(owner).await?,
        None => acquiring.await?,
    };
    println!("held {}", lease.fence());

    let mut input_ends = tokio::task::spawn_blocking(|| stdin().read_to_end(&mut Vec::new()));
    loop {
        // The time first: a pause between it and the check makes the check fail.
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        if !lease.is_held() {
            println!("lost {:?}", lease.lost().await);
            return Ok(());
        }
        println!("working {now}");
        tokio::select! {
            _ = &mut input_ends => break,
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    }
    lease.release().await?;
    println!("released");
    Ok(())
}
