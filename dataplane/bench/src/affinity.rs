//! Which processors a process runs on.

use std::fs;

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};

/// Lets all threads of a process that there are run on these processors only; those that they start
/// later do so, too. `self` is this process.
///
/// # Errors
/// It has ended, or has no such processor.
pub fn pin(process: &str, processors: &[usize]) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("processors of {process}: {error}");
    let mut set = CpuSet::new();
    processors.iter().for_each(|&processor| set.set(processor));
    let tasks = fs::read_dir(format!("/proc/{process}/task")).map_err(|error| failed(&error))?;
    for task in tasks {
        let task = task.map_err(|error| failed(&error))?;
        let id = task.file_name().to_string_lossy().parse().ok();
        // A thread may end meanwhile.
        match sched_setaffinity(id.and_then(Pid::from_raw), &set) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    Ok(())
}

/// How many processors there are.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
