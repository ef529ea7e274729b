//! What a server says of itself.

use leasehold_testing::RedisServer;

/// An answer to `INFO everything`.
pub(crate) struct ServerInfo(String);

impl ServerInfo {
    pub(crate) fn of(server: &RedisServer) -> Self {
        Self(server.run(&["INFO", "everything"]))
    }

    /// Processor time so far, in user mode and in the kernel.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.number("used_cpu_sys") + self.number("used_cpu_user")
    }

    /// All commands so far; those that scripts run count too.
    pub(crate) fn commands(&self) -> f64 {
        self.number("total_commands_processed")
    }

    /// Calls of scripts since the statistics were reset.
    pub(crate) fn script_calls(&self) -> f64 {
        self.script_stat("calls=")
    }

    /// Microseconds within scripts since the statistics were reset.
    pub(crate) fn script_micros(&self) -> f64 {
        self.script_stat("usec=")
    }

    fn number(&self, field: &str) -> f64 {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).expect("a field with a number")
    }

    /// The sum over both ways to call a script; one that was not used has no line.
    fn script_stat(&self, field: &str) -> f64 {
        let stats = self.0.lines().filter_map(|line| {
            let stats = line.strip_prefix("cmdstat_evalsha:");
            stats.or_else(|| line.strip_prefix("cmdstat_eval:"))
        });
        let values = stats.map(|stats| {
            let value = stats.split(',').find_map(|stat| stat.strip_prefix(field));
            value.and_then(|value| value.parse::<f64>().ok()).expect("a field with a number")
        });
        values.sum()
    }
}
