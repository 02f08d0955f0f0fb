//! What a process used, as Linux accounts for it.

use std::{fs, time::Duration};

/// Linux reports CPU time in hundredths of a second, whatever the kernel's own tick.
const TICKS_PER_SECOND: u64 = 100;

/// CPU time of this process, all threads.
pub fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in brackets, may hold spaces; user and system time are the 12th and
    // 13th fields after it.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 = fields
        .split_ascii_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND)
}

/// The largest resident set of a process so far, in KiB; nothing where it has ended.
pub fn peak_memory_kib(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Busy and total CPU time of the machine, in ticks.
pub fn machine_ticks() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|field| field.parse().ok())
        .collect();
    let total = fields.iter().sum();
    // Idle, and idle while a disk works.
    let idle: u64 = fields.iter().skip(3).take(2).sum();
    (total - idle, total)
}
