//! A Redis server of a test's own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};

use crate::clock::ServerClock;
use crate::processes::signal;

/// A `redis-server` on a free port of the loopback, with nothing on disk, gone when dropped.
#[derive(Debug)]
pub struct RedisServer {
    child: Child,
    port: u16,
    directory: PathBuf,
    options: ServerOptions,
}

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    arguments: Vec<String>,
    clock: Option<ServerClock>,
    tls: bool,
}

impl ServerOptions {
    /// Adds arguments of the server's own, such as `["--maxmemory", "10mb"]`.
    #[must_use]
    pub fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments.extend(arguments.into_iter().map(str::to_owned));
        self
    }

    /// Lets the server see this clock in place of the machine's.
    #[must_use]
    pub fn clock(mut self, clock: &ServerClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Speaks TLS, with these files in PEM form.
    #[must_use]
    pub fn tls(mut self, certificate: &Path, key: &Path, authority: &Path) -> Self {
        self.tls = true;
        let path = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
        self.arguments.extend([
            "--tls-cert-file".into(),
            path(certificate),
            "--tls-key-file".into(),
            path(key),
            "--tls-ca-cert-file".into(),
            path(authority),
            "--tls-auth-clients".into(),
            "no".into(),
        ]);
        self
    }

    /// Starts the server.
    pub fn start(self) -> RedisServer {
        RedisServer::start_with(self)
    }
}

impl RedisServer {
    /// Starts a server with default options.
    pub fn start() -> Self {
        ServerOptions::default().start()
    }

    fn start_with(options: ServerOptions) -> Self {
        let directory = new_directory();
        // Another process may take the port between our look and the server's bind.
        for _ in 0..20 {
            let port = free_port();
            if let Some(child) = spawn(port, &directory, &options) {
                return Self { child, port, directory, options };
            }
        }
        panic!("redis-server did not start on any of 20 free ports");
    }

    /// The URL of the server.
    pub fn url(&self) -> String {
        let scheme = if self.options.tls { "rediss" } else { "redis" };
        format!("{scheme}://{}", self.address())
    }

    /// Host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The path of the socket that it listens on as well.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("redis.sock")
    }

    /// A plain connection, for what a test wants to see or do behind a client's back.
    pub fn connection(&self) -> Connection {
        let client = redis::Client::open(format!("redis+unix://{}", self.socket().display()));
        client.and_then(|client| client.get_connection()).expect("the test's own server answers")
    }

    /// Runs one command, given as words.
    pub fn run<T: FromRedisValue>(&self, words: &[&str]) -> T {
        try_run(&mut self.connection(), words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The names of all keys.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.run(&["KEYS", "*"]);
        keys.sort();
        keys
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it in its tracks (SIGSTOP): connections stay, answers do not come.
    pub fn pause(&self) {
        signal(self.pid(), "STOP");
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        signal(self.pid(), "CONT");
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same port, with nothing in it.
    pub fn restart_empty(&mut self) {
        self.kill();
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match spawn(self.port, &self.directory, &self.options) {
                Some(child) => break self.child = child,
                None => assert!(Instant::now() < deadline, "the old port stays taken"),
            }
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

fn try_run<T: FromRedisValue>(
    connection: &mut Connection,
    words: &[&str],
) -> redis::RedisResult<T> {
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query(connection)
}

/// Starts a server and waits until it serves; `None` if the port was taken meanwhile.
fn spawn(port: u16, directory: &Path, options: &ServerOptions) -> Option<Child> {
    let port = port.to_string();
    let (plain, tls) = if options.tls { ("0", &*port) } else { (&*port, "0") };
    let mut command = Command::new("redis-server");
    command
        .args(["--port", plain, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--daemonize", "no", "--unixsocket", "redis.sock", "--dir"])
        .arg(directory)
        .args(&options.arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if options.tls {
        command.args(["--tls-port", tls]);
    }
    if let Some(clock) = &options.clock {
        clock.apply_to(&mut command);
    }
    let mut child = command.spawn().unwrap_or_else(|error| {
        panic!("cannot start redis-server ({error}): install it, or run ./test, which does")
    });
    let log = BufReader::new(child.stdout.take().expect("its log"));
    let mut seen = Vec::new();
    let mut lines = log.lines().map_while(Result::ok);
    let is_ready = lines.by_ref().any(|line| {
        let is_ready = line.contains("eady to accept connections");
        seen.push(line);
        is_ready
    });
    if is_ready {
        // With TLS it says so once for each listener; either way the sockets are bound by now.
        // Somebody has to read the rest of the log, or the server would block on a full pipe.
        thread::spawn(move || lines.for_each(drop));
        return Some(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    let log = seen.join("\n");
    assert!(log.contains("Address already in use"), "redis-server does not start:\n{log}");
    None
}

fn new_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // A socket's path has a length limit, so keep it short.
    let name = format!("lh-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let directory = std::env::temp_dir().join(name);
    fs::create_dir_all(&directory).expect("a directory of the test's own");
    directory
}
