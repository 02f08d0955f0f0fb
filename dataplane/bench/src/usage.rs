//! What a process used, as Linux accounts for it.

use std::{fs, time::Duration};

/// Linux reports CPU time in hundredths of a second, whatever the kernel's own tick.
const TICKS_PER_SECOND: u64 = 100;
/// Where a process's own user time stands among the fields behind its name; its system time
/// follows, and then those of the children that it has waited for.
const OWN_TIME: usize = 11;
const CHILDREN_TIME: usize = 13;
/// Written to `clear_refs`, sets the peak of the resident set back to what is resident now.
const RESET_PEAK: &str = "5";

/// CPU time of this process, all threads.
pub fn cpu_time() -> Duration {
    cpu_time_of("self").unwrap_or_default()
}

/// CPU time of a process, all threads; nothing where it has ended.
pub fn cpu_time_of(process: &str) -> Option<Duration> {
    stat_time(process, OWN_TIME)
}

/// CPU time of all children of this process that have ended and were waited for.
pub fn cpu_time_of_ended_children() -> Duration {
    stat_time("self", CHILDREN_TIME).unwrap_or_default()
}

/// CPU time of the threads of this process that run now and whose name begins with `prefix`.
pub fn cpu_time_of_threads(prefix: &str) -> Duration {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    let time_of = |task: fs::DirEntry| {
        let folder = task.path();
        let name = fs::read_to_string(folder.join("comm")).ok()?;
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        name.starts_with(prefix)
            .then(|| time_in_stat(&stat, OWN_TIME))?
    };
    tasks.filter_map(Result::ok).filter_map(time_of).sum()
}

/// Bytes that a process has handed to the system to write, to files and sockets, so far; nothing
/// where it has ended.
pub fn written_bytes(process: &str) -> Option<u64> {
    io_bytes(process, "wchar:")
}

/// Bytes that a process has read with system calls, from files and sockets, so far; nothing where it
/// has ended.
pub fn read_bytes(process: &str) -> Option<u64> {
    io_bytes(process, "rchar:")
}

fn io_bytes(process: &str, field: &str) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    let value = io.lines().find_map(|line| line.strip_prefix(field))?;
    value.trim().parse().ok()
}

fn stat_time(process: &str, first_field: usize) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    time_in_stat(&stat, first_field)
}

/// The sum of two neighbouring fields in ticks.
fn time_in_stat(stat: &str, first_field: usize) -> Option<Duration> {
    // The program's name, in brackets, may hold spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(first_field);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let millis = (user + system) * 1_000 / TICKS_PER_SECOND;
    Some(Duration::from_millis(millis))
}

/// The largest resident set of a process so far, in KiB; nothing where it has ended.
pub fn peak_memory_kib(process: &str) -> Option<u64> {
    status_kib(process, "VmHWM:")
}

/// The resident set of a process now, in KiB; nothing where it has ended.
pub fn resident_memory_kib(process: &str) -> Option<u64> {
    status_kib(process, "VmRSS:")
}

fn status_kib(process: &str, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with(field))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Lets the peak of a process's resident set begin anew.
///
/// # Errors
/// Where the process has ended or belongs to somebody else.
pub fn reset_peak_memory(process: &str) -> std::io::Result<()> {
    fs::write(format!("/proc/{process}/clear_refs"), RESET_PEAK)
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn times_stand_behind_a_name_with_spaces_and_brackets() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 150 50 30 10 20 0 1 0 99";
        assert_eq!(
            time_in_stat(stat, OWN_TIME),
            Some(Duration::from_millis(2_000))
        );
        assert_eq!(
            time_in_stat(stat, CHILDREN_TIME),
            Some(Duration::from_millis(400))
        );
        assert_eq!(time_in_stat("7 (short) S 1", OWN_TIME), None);
    }

    #[test]
    fn the_time_of_a_thread_is_found_by_its_name() {
        let (busy, done) = (AtomicBool::new(true), Duration::from_millis(100));
        std::thread::scope(|scope| {
            let work = || {
                while busy.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let named = std::thread::Builder::new().name("at-work-1".to_owned());
            named.spawn_scoped(scope, work).expect("a thread");
            while cpu_time_of_threads("at-work") < done {
                std::thread::yield_now();
            }
            busy.store(false, Ordering::Relaxed);
        });
        assert_eq!(cpu_time_of_threads("no-such-thread"), Duration::ZERO);
    }

    #[test]
    fn what_is_written_and_read_is_counted() {
        let before = written_bytes("self").expect("Linux");
        let read_before = read_bytes("self").expect("Linux");
        let path = std::env::temp_dir().join(format!("usage-{}", std::process::id()));
        fs::write(&path, vec![7; 100_000]).expect("a folder for such things");
        assert_eq!(fs::read(&path).expect("written").len(), 100_000);
        fs::remove_file(&path).expect("written");
        assert!(written_bytes("self").expect("Linux") >= before + 100_000);
        assert!(read_bytes("self").expect("Linux") >= read_before + 100_000);
    }

    #[test]
    fn this_process_has_a_peak_that_can_begin_anew() {
        let ballast = vec![1_u8; 64 << 20];
        let with_ballast = peak_memory_kib("self").expect("Linux");
        assert!(with_ballast >= 64 << 10);
        drop(ballast);
        reset_peak_memory("self").expect("one's own");
        assert!(peak_memory_kib("self").expect("Linux") < with_ballast);
    }
}
