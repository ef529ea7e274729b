//! A shop with 100 items and 1,000 buyers, without a lock and with a lease.
//!
//! ```text
//! ./demo                        # in memory, no server needed
//! ./demo redis://127.0.0.1      # the same on a server
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::Client;

const ITEMS: i64 = 100;
const BUYERS: usize = 1_000;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "memory:".into());
    if url.starts_with('-') || arguments.next().is_some() {
        eprintln!("usage: demo [STORE URL]      for example: demo redis://127.0.0.1");
        return ExitCode::from(64);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.expect("a runtime").block_on(run(&url)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let locks = leasehold::connect(url).await?;
    let store = if url == "memory:" { "memory" } else { "a server" };
    println!("{BUYERS} buyers want one of {ITEMS} items each. Locks are kept in: {store}.\n");

    let start = Instant::now();
    let shop = Arc::new(Shop::default());
    all_buyers(|| buy(Arc::clone(&shop))).await;
    report("without a lock", &shop, start);

    let start = Instant::now();
    let shop = Arc::new(Shop::default());
    all_buyers(|| buy_under_a_lease(locks.clone(), Arc::clone(&shop))).await;
    report("with a lease", &shop, start);

    locks.close().await?;
    Ok(())
}

/// Stock that a buyer reads, thinks about, and writes back, as a program does with a database.
struct Shop {
    stock: AtomicI64,
    sold: AtomicI64,
    /// The highest fence that wrote: a shop refuses a write from a holder of long ago.
    last_fence: AtomicU64,
    refused: AtomicI64,
}

impl Default for Shop {
    fn default() -> Self {
        Self {
            stock: AtomicI64::new(ITEMS),
            sold: AtomicI64::new(0),
            last_fence: AtomicU64::new(0),
            refused: AtomicI64::new(0),
        }
    }
}

async fn buy(shop: Arc<Shop>) {
    let stock = shop.stock.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_micros(200)).await;
    if stock > 0 {
        shop.stock.store(stock - 1, Ordering::SeqCst);
        shop.sold.fetch_add(1, Ordering::SeqCst);
    }
}

async fn buy_under_a_lease(locks: Client, shop: Arc<Shop>) {
    let lease = locks.acquire("stock:1001").await.expect("the store is there");
    if shop.last_fence.fetch_max(lease.fence(), Ordering::SeqCst) < lease.fence() {
        buy(Arc::clone(&shop)).await;
    } else {
        shop.refused.fetch_add(1, Ordering::SeqCst);
    }
    lease.release().await.expect("it was held to the end");
}

async fn all_buyers<F: Future<Output = ()> + Send + 'static>(buyer: impl Fn() -> F) {
    let buyers: Vec<_> = (0..BUYERS).map(|_| tokio::spawn(buyer())).collect();
    for buyer in buyers {
        buyer.await.expect("no buyer panics");
    }
}

fn report(how: &str, shop: &Shop, start: Instant) {
    let sold = shop.sold.load(Ordering::SeqCst);
    let verdict = match sold - ITEMS {
        0 => "every item once".to_owned(),
        over if over > 0 => format!("OVERSOLD by {over}"),
        under => format!("{} items left over", -under),
    };
    let refused = shop.refused.load(Ordering::SeqCst);
    println!(
        "{how:>15}: {sold:4} sold, {:4} left in stock, {refused} late writes refused: {verdict}  ({:.1?})",
        shop.stock.load(Ordering::SeqCst),
        start.elapsed()
    );
}
