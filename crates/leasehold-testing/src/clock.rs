//! A wall clock for one server, which a test can set.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The difference between a server's wall clock and the machine's.
///
/// The server is started with a small library preloaded that adds the difference to every
/// reading (`shim/clock.rs`). Linux only.
#[derive(Clone, Debug)]
pub struct ServerClock {
    file: Arc<OffsetFile>,
}

#[derive(Debug)]
struct OffsetFile(PathBuf);

impl ServerClock {
    /// A clock that shows the machine's time, for now.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("lh-clock-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let clock = Self { file: Arc::new(OffsetFile(std::env::temp_dir().join(name))) };
        clock.set(0);
        clock
    }

    /// Puts it that much ahead of the machine's.
    pub fn set_ahead(&self, by: Duration) {
        self.set(i64::try_from(by.as_micros()).expect("a reasonable time"));
    }

    /// Puts it that much behind the machine's.
    pub fn set_behind(&self, by: Duration) {
        self.set(-i64::try_from(by.as_micros()).expect("a reasonable time"));
    }

    fn set(&self, micros: i64) {
        // In one piece: the server reads it at any time.
        let new = self.file.0.with_extension("new");
        fs::write(&new, micros.to_ne_bytes()).expect("the offset is written");
        fs::rename(&new, &self.file.0).expect("the offset is put in place");
    }

    pub(crate) fn apply_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", shim()).env("LEASEHOLD_TEST_CLOCK", &self.file.0);
    }
}

impl Default for ServerClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for OffsetFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The library, compiled once for each test program.
fn shim() -> PathBuf {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    let compile = || {
        let directory = std::env::temp_dir();
        let source = directory.join(format!("lh-shim-{}.rs", std::process::id()));
        let library = directory.join(format!("lh-shim-{}.so", std::process::id()));
        fs::write(&source, include_str!("../shim/clock.rs")).expect("the source is written");
        let status = Command::new("rustc")
            .args(["--edition", "2024", "--crate-type", "cdylib", "-O", "-C", "panic=abort", "-o"])
            .args([&library, &source])
            .status();
        assert!(status.is_ok_and(|status| status.success()), "rustc compiles the clock shim");
        let _ = fs::remove_file(&source);
        library
    };
    SHIM.get_or_init(compile).clone()
}
