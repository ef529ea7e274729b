//! A proxy between a client and a server that does what networks do.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// What happens to a connection once a request that was marked out passes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request arrives; then the connection is cut before anything of the reply passes.
    LoseReply,
    /// The connection is cut after this many bytes of the request.
    CutRequest(usize),
    /// The connection is cut after this many bytes of the reply.
    CutReply(usize),
    /// The request arrives, the reply comes this much later.
    DelayReply(Duration),
    /// The request arrives, nothing ever comes back, and the connection stays.
    Hang,
    /// The connection is held up for this long before the request goes on its way.
    DelayRequest(Duration),
}

/// A proxy on the loopback that hands everything through until told otherwise. It runs on a
/// thread of its own, so a test may block.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    cut: watch::Sender<u32>,
    _stop: oneshot::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    server: String,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    latency: Duration,
    fault: Option<(Vec<u8>, Fault)>,
    times: usize,
    struck: usize,
    refuse: bool,
}

impl FaultProxy {
    /// A proxy before the server at this address (host and port).
    pub fn start(server: &str) -> Self {
        let shared = Arc::new(Shared { server: server.to_owned(), plan: Mutex::default() });
        let (cut, cuts) = watch::channel(0);
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime for the proxy").block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                tell.send(listener.local_addr().expect("its address")).expect("the test waits");
                tokio::select! {
                    () = accept(listener, accepting, cuts) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = told.recv().expect("the proxy listens");
        Self { address, shared, cut, _stop: stop }
    }

    /// The URL that leads through the proxy.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Lets `fault` strike the connection of the next request that contains `marker`.
    pub fn strike_once(&self, marker: &str, fault: Fault) {
        self.strike(marker, fault, 1);
    }

    /// Lets `fault` strike the connections of the next so many requests that contain `marker`.
    pub fn strike(&self, marker: &str, fault: Fault, times: usize) {
        self.with_plan(|plan| {
            plan.fault = Some((marker.as_bytes().to_vec(), fault));
            plan.times = times;
        });
    }

    /// Lets every reply take this much longer, as a network far away does: those that follow
    /// one another do not add up.
    pub fn set_latency(&self, latency: Duration) {
        self.with_plan(|plan| plan.latency = latency);
    }

    /// No more faults for what comes.
    pub fn heal(&self) {
        self.with_plan(|plan| {
            plan.fault = None;
            plan.times = 0;
            plan.refuse = false;
        });
    }

    /// How often a fault has struck.
    pub fn struck(&self) -> usize {
        self.with_plan(|plan| plan.struck)
    }

    /// Cuts every connection there is.
    pub fn cut_all(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Cuts every connection, and every new one as soon as it is made, until healed.
    pub fn refuse(&self) {
        self.with_plan(|plan| plan.refuse = true);
        self.cut_all();
    }

    fn with_plan<T>(&self, change: impl FnOnce(&mut Plan) -> T) -> T {
        change(&mut self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shared {
    /// The fault that this request calls up, if any.
    fn fault_for(&self, request: &[u8]) -> Option<Fault> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let (marker, fault) = plan.fault.as_ref()?;
        let fault = *fault;
        let is_marked = request.windows(marker.len()).any(|window| window == marker.as_slice());
        if !is_marked || plan.times == 0 {
            return None;
        }
        plan.times -= 1;
        plan.struck += 1;
        Some(fault)
    }

    fn latency(&self) -> Duration {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).latency
    }

    fn refuses(&self) -> bool {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).refuse
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, cuts: watch::Receiver<u32>) {
    while let Ok((client, _)) = listener.accept().await {
        if shared.refuses() {
            continue;
        }
        let shared = Arc::clone(&shared);
        let mut cuts = cuts.clone();
        cuts.mark_unchanged();
        tokio::spawn(async move {
            tokio::select! {
                () = carry(client, &shared) => {}
                _ = cuts.changed() => {}
            }
        });
    }
}

/// Carries both ways until one side ends or a fault does. Returning cuts both.
async fn carry(client: TcpStream, shared: &Shared) {
    let Ok(server) = TcpStream::connect(&shared.server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let fault_here = Mutex::new(None);

    let requests = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
            let request = &buffer[..count];
            let fault = shared.fault_for(request);
            if let Some(Fault::CutRequest(bytes)) = fault {
                let _ = to_server.write_all(&request[..bytes.min(count)]).await;
                return;
            }
            if let Some(Fault::DelayRequest(time)) = fault {
                tokio::time::sleep(time).await;
            } else if fault.is_some() {
                *fault_here.lock().unwrap_or_else(PoisonError::into_inner) = fault;
            }
            if to_server.write_all(request).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = replies(from_server, to_client, &fault_here, shared) => {}
    }
}

/// What the server says, with the moment at which it is to be handed on.
fn arrivals(
    mut from_server: OwnedReadHalf,
    shared: &Shared,
) -> mpsc::UnboundedReceiver<(Instant, Vec<u8>)> {
    let (arrived, arrivals) = mpsc::unbounded_channel();
    let latency = shared.latency();
    tokio::spawn(async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
            if arrived.send((Instant::now() + latency, buffer[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    arrivals
}

async fn replies(
    from_server: OwnedReadHalf,
    mut to_client: OwnedWriteHalf,
    fault: &Mutex<Option<Fault>>,
    shared: &Shared,
) {
    let mut arrivals = arrivals(from_server, shared);
    while let Some((due, reply)) = arrivals.recv().await {
        tokio::time::sleep_until(due).await;
        let (reply, count) = (&reply[..], reply.len());
        let fault = fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        match fault {
            None | Some(Fault::CutRequest(_) | Fault::DelayRequest(_)) => {}
            Some(Fault::LoseReply) => return,
            Some(Fault::CutReply(bytes)) => {
                let _ = to_client.write_all(&reply[..bytes.min(count)]).await;
                return;
            }
            Some(Fault::DelayReply(time)) => tokio::time::sleep(time).await,
            Some(Fault::Hang) => std::future::pending().await,
        }
        if to_client.write_all(reply).await.is_err() {
            return;
        }
    }
}
