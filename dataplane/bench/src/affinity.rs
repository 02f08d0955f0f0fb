//! Which processors a process runs on.

use std::{collections::HashSet, fs};

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};

/// Restricts all current threads of a process to these processors, counted from 0; threads that they
/// start later inherit that. `self` is this process.
///
/// # Errors
/// It has ended, or has no such processor.
pub fn pin(process: &str, processors: &[usize]) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("processors of {process}: {error}");
    let mut set = CpuSet::new();
    processors.iter().for_each(|&processor| set.set(processor));
    let mut seen = HashSet::new();
    loop {
        let before = seen.len();
        let tasks =
            fs::read_dir(format!("/proc/{process}/task")).map_err(|error| failed(&error))?;
        for task in tasks {
            let name = task.map_err(|error| failed(&error))?.file_name();
            let id = name.to_string_lossy().parse().ok().and_then(Pid::from_raw);
            let id = id.ok_or_else(|| failed(&"a thread without a number"))?;
            // A thread may end meanwhile.
            match sched_setaffinity(Some(id), &set) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => seen.insert(id.as_raw_nonzero()),
                Err(error) => return Err(failed(&error)),
            };
        }
        // One that has not been met may have started another meanwhile.
        if seen.len() == before {
            return Ok(());
        }
    }
}

/// How many processors this process may use: fewer once it is pinned.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
