//! Other processes, to be stopped and killed.

use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A program that tells what it does line by line on its standard output.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts an example program of the crate under test, which `cargo test` has built.
    pub fn start_example<'a>(
        name: &str,
        arguments: impl IntoIterator<Item = &'a str>,
        environment: &[(&str, &str)],
    ) -> Self {
        let mut child = Command::new(example_path(name))
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines }
    }

    /// The next line it prints; `None` once it has ended.
    pub fn next_line(&mut self) -> Option<String> {
        self.lines.next()?.ok()
    }

    /// Reads on until a line starts with `start`, and returns the rest of that line.
    pub fn expect_line(&mut self, start: &str) -> String {
        let mut seen = Vec::new();
        while let Some(line) = self.next_line() {
            if let Some(rest) = line.strip_prefix(start) {
                return rest.trim().to_owned();
            }
            seen.push(line);
        }
        panic!("it ended without a line {start:?}; it said {seen:?}");
    }

    /// Sends a signal by its name, such as `"STOP"`.
    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Ends it at once (SIGKILL).
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.child.stdin = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process that is ours.
pub fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    let status = Command::new("kill").args([format!("-{name}"), pid]).status();
    assert!(status.is_ok_and(|status| status.success()), "kill -{name} did not work");
}

/// `target/<profile>/examples/<name>`, beside the `deps` that the running test is in.
fn example_path(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the running test");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("target/<profile>");
    let path = profile.join("examples").join(name);
    assert!(path.exists(), "{} is missing: run `cargo test`, or build it", path.display());
    path
}
