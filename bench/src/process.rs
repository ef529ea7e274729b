//! What this process takes, from `/proc`: Linux only.

use std::fs;

/// Memory that is really there, in bytes.
pub(crate) fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc, so Linux");
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .and_then(|number| number.parse::<u64>().ok());
    kilobytes.expect("a line VmRSS") * 1024
}

/// Processor time of all threads so far, in user mode and in the kernel.
pub(crate) fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("/proc, so Linux");
    // The program's name comes second, in brackets, and may have spaces in it; the third
    // field is the first one behind it.
    let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
    let ticks = fields.split_whitespace().skip(UTIME - 3).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().expect("a number")).sum::<f64>() / TICKS_PER_SECOND
}

/// Where `utime` stands, counted from one as proc(5) does; `stime` is next.
const UTIME: usize = 14;
/// What `getconf CLK_TCK` says on every Linux that is in use.
const TICKS_PER_SECOND: f64 = 100.0;
