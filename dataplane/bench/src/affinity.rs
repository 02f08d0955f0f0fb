//! Which processors a process runs on.

use std::{
    collections::HashSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{major, minor},
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

/// Lets the kernel complete the requests to a disk on the processors that made them, until this is dropped. By default it
/// may complete them on any processor in the same cache domain, such as the one that handles the disk's interrupts. Its workers
/// compete with whatever else runs there, and on a full processor durable writes waited for seconds.
#[derive(Debug)]
pub struct CompletionsAtRequester {
    setting: PathBuf,
    former: String,
}

impl CompletionsAtRequester {
    /// Of the disk that the file or folder at `path` is on.
    ///
    /// # Errors
    /// It is on no disk, or this is not root.
    pub fn of_disk_at(path: &Path) -> io::Result<Self> {
        let device = fs::metadata(path)?.dev();
        let device = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        let disk = Path::new(&device);
        // A partition's queue is its disk's.
        let queue = match disk.join("queue").exists() {
            true => disk.join("queue"),
            false => disk.canonicalize()?.join("../queue"),
        };
        let setting = queue.join("rq_affinity");
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", setting.display()))
        };
        let former = fs::read_to_string(&setting).map_err(named)?;
        fs::write(&setting, "2").map_err(named)?;
        Ok(Self { setting, former })
    }
}

impl Drop for CompletionsAtRequester {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.setting, &self.former) {
            eprintln!("{} stays 2: {error}", self.setting.display());
        }
    }
}

/// How many processors this process may use: fewer once it is pinned.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
