//! What this process uses, as Linux accounts for it. Other systems do not tell.

use std::fs;

/// Linux reports CPU time in hundredths of a second, whatever the kernel's own tick.
const TICKS_PER_SECOND: f64 = 100.0;
/// Where user time stands among the fields behind the program's name; system time follows.
const USER_TIME: usize = 11;

/// User and system time so far.
pub(crate) fn cpu_seconds() -> Option<f64> {
    seconds_in(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn seconds_in(stat: &str) -> Option<f64> {
    // The program's name, in brackets, may hold spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(USER_TIME);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

/// The most memory that was resident at once.
pub(crate) fn peak_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_behind_a_name_with_spaces_and_brackets() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 30 10 20 0 1 0 99";
        assert_eq!(seconds_in(stat), Some(2.0));
        assert_eq!(seconds_in("7 (short) S 1"), None);
    }
}
