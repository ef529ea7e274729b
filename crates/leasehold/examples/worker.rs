//! Works under a lock in turns, and keeps a record of it, until its input ends.
//!
//! ```text
//! cargo run --example worker -- redis://127.0.0.1 order:42 1000 record.txt
//! ```
//!
//! Each turn reads a counter, thinks, and writes it back one higher, by a write that the fence
//! guards. The record has a line for each turn that was held from begin to end: its fence, when it
//! began and ended (microseconds since the epoch), and whether the write was taken.

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write, stdin};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::redis::{self, Script};

/// KEYS: the counter, the highest fence. ARGV: our fence, the value.
const FENCED_WRITE: &str = "
if tonumber(redis.call('GET', KEYS[2]) or 0) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
return 1";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, name, ttl, record] = &arguments[..] else {
        return Err("usage: worker URL NAME TTL_MS RECORD".into());
    };
    let ttl = Duration::from_millis(ttl.parse()?);
    let locks = leasehold::connect(url).await?;
    let mut storage = redis::Client::open(&**url)?.get_connection()?;
    let (write, mut record) = (Script::new(FENCED_WRITE), File::create(record)?);
    let input_ends = tokio::task::spawn_blocking(|| stdin().read_to_end(&mut Vec::new()));
    let mut turns = 0u64;
    while !input_ends.is_finished() {
        let Ok(lease) = locks.acquire(name).ttl(ttl).await else { continue };
        turns += 1;
        let began = now()?;
        // The connection to the storage may be cut as well.
        let Ok(count) = redis::cmd("GET").arg("counter").query::<Option<u64>>(&mut storage) else {
            storage = redis::Client::open(&**url)?.get_connection()?;
            continue;
        };
        tokio::time::sleep(Duration::from_micros(turns % 7 * 300)).await;
        if !lease.is_held() {
            continue;
        }
        let mut call = write.key("counter");
        call.key("fence").arg(lease.fence()).arg(count.unwrap_or(0) + 1);
        let written: i64 = call.invoke(&mut storage).unwrap_or(-1);
        let ended = now()?;
        let line = format!("{} {began} {ended} {written}\n", lease.fence());
        if lease.is_held() {
            record.write_all(line.as_bytes())?;
        } else {
            record.write_all(format!("lost {written}\n").as_bytes())?;
        }
        let _ = lease.release().await;
    }
    Ok(())
}

fn now() -> Result<u128, Box<dyn Error>> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros())
}
