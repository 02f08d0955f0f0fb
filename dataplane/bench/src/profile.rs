//! Where a process spends its CPU time, by stage: `perf record` on it, a table and a flame graph.
//!
//! Needs `perf`, root or `kernel.perf_event_paranoid` ≤ 1, and a program with symbols and frame
//! pointers: Cargo's profile `profiling`.

mod stages;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{BufReader, BufWriter},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use inferno::{
    collapse::{Collapse, perf::Folder},
    flamegraph,
};

use self::stages::stage_of;
use crate::usage::cpu_time_of;

/// Odd, so that samples do not keep step with what happens periodically.
const SAMPLES_PER_S: u32 = 997;
const COUNTERS: [(&str, &str); 3] = [
    ("context-switches", "context switches"),
    ("page-faults", "page faults"),
    ("raw_syscalls:sys_enter", "system calls"),
];

/// Samples a process until [`finish`](Self::finish).
#[derive(Debug)]
pub struct Profiler {
    record: Child,
    count: Child,
    /// Whose samples these are, and its CPU time before.
    process: (String, Duration),
    /// Of all files of this profile.
    path: PathBuf,
}

/// What a process did per GiB.
#[derive(Debug)]
pub struct Profile {
    /// CPU seconds by stage, the largest first.
    pub stages: Vec<(&'static str, f64)>,
    /// How often something happened, by name.
    pub counts: Vec<(&'static str, f64)>,
}

impl Profiler {
    /// Starts to sample `pid`. The files go to `folder`, which is created, and begin with `name`.
    ///
    /// # Errors
    /// There is no `perf`, or the folder cannot be created.
    pub fn attach(pid: &str, folder: &Path, name: &str) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let path = folder.join(name);
        for former in ["data", "counts", "folded", "svg"] {
            // Of an earlier run, or absent.
            let _ = fs::remove_file(path.with_extension(former));
        }
        let events = COUNTERS.map(|(event, _)| event).join(",");
        let mut record = Command::new("perf");
        record
            .args(["record", "--quiet", "--call-graph", "fp", "--pid", pid])
            .args(["--freq", &SAMPLES_PER_S.to_string(), "--output"])
            .arg(path.with_extension("data"));
        let mut count = Command::new("perf");
        count
            .args(["stat", "--field-separator", ";", "--pid", pid])
            .args(["--event", &events, "--output"])
            .arg(path.with_extension("counts"));
        let cpu = cpu_time_of(pid).ok_or("the process has ended")?;
        Ok(Self {
            record: start(&mut record)?,
            count: start(&mut count)?,
            process: (pid.to_owned(), cpu),
            path,
        })
    }

    /// Stops sampling; the figures are per GiB of `gib`.
    ///
    /// # Errors
    /// `perf` failed; what it said is on standard error.
    pub fn finish(mut self, gib: f64) -> Result<Profile, String> {
        for child in [&mut self.record, &mut self.count] {
            interrupt(child)?;
        }
        let (pid, before) = &self.process;
        let cpu = cpu_time_of(pid).ok_or("the process has ended")?;
        let cpu_s = cpu.saturating_sub(*before).as_secs_f64();
        let folded = self.fold()?;
        let mut samples: BTreeMap<&'static str, u64> = BTreeMap::new();
        for line in folded.lines() {
            let Some((stack, count)) = line.rsplit_once(' ') else {
                continue;
            };
            *samples.entry(stage_of(stack)).or_default() += count.parse().unwrap_or(0);
        }
        if samples.is_empty() {
            return Err("perf has no sample: was the process idle?".to_owned());
        }
        // A sample counts for one, for nanoseconds or for cycles, as the machine can count.
        let all: u64 = samples.values().sum();
        let per_gib = |count: u64| count as f64 / all as f64 * cpu_s / gib;
        let mut stages: Vec<_> = samples
            .into_iter()
            .map(|(stage, count)| (stage, per_gib(count)))
            .collect();
        stages.sort_by(|one, other| other.1.total_cmp(&one.1));
        Ok(Profile {
            stages,
            counts: self.counts(gib)?,
        })
    }

    /// Writes one line per stack, and the flame graph.
    fn fold(&self) -> Result<String, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.path.display());
        let mut script = Command::new("perf")
            .args(["script", "--input"])
            .arg(self.path.with_extension("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let stacks = script.stdout.take().ok_or("perf script has no output")?;
        let mut folded = Vec::new();
        Folder::default()
            .collapse(BufReader::new(stacks), &mut folded)
            .map_err(failed)?;
        if !script.wait().map_err(failed)?.success() {
            return Err("perf script failed".to_owned());
        }
        let folded = String::from_utf8_lossy(&folded).into_owned();
        fs::write(self.path.with_extension("folded"), &folded).map_err(failed)?;
        let graph = File::create(self.path.with_extension("svg")).map_err(failed)?;
        let mut options = flamegraph::Options::default();
        options.title = "CPU time".to_owned();
        flamegraph::from_lines(&mut options, folded.lines(), BufWriter::new(graph))
            .map_err(|error| error.to_string())?;
        Ok(folded)
    }

    fn counts(&self, gib: f64) -> Result<Vec<(&'static str, f64)>, String> {
        let path = self.path.with_extension("counts");
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let count = |event: &str| {
            let line = text.lines().find(|line| line.contains(event))?;
            let count: f64 = line.split(';').next()?.parse().ok()?;
            Some(count / gib)
        };
        let counts = COUNTERS.iter();
        Ok(counts
            .filter_map(|&(event, name)| Some((name, count(event)?)))
            .collect())
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        for child in [&mut self.record, &mut self.count] {
            // They may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Profile {
    /// Prints it as a table.
    pub fn print(&self, title: &str) {
        println!("\n{title}:\n\n| stage | CPU s/GiB | % |\n|---|---|---|");
        let sum: f64 = self.stages.iter().map(|(_, seconds)| seconds).sum();
        for (stage, seconds) in &self.stages {
            println!("| {stage} | {seconds:.3} | {:.0} |", seconds / sum * 100.0);
        }
        println!("| all | {sum:.3} | 100 |\n");
        for (name, count) in &self.counts {
            println!("{name} per GiB: {count:.0}");
        }
    }
}

fn start(command: &mut Command) -> Result<Child, String> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().map_err(|error| {
        format!("perf: {error}; install it (Debian: linux-perf, Ubuntu: linux-tools)")
    })
}

/// Asks a perf to write what it has, and waits until it has.
fn interrupt(child: &mut Child) -> Result<(), String> {
    if let Some(ended) = child.try_wait().map_err(|error| error.to_string())? {
        return Err(format!("perf ended before the load did: {ended}"));
    }
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT)
        .map_err(|error| format!("perf: {error}"))?;
    // It says that it was interrupted.
    child.wait().map(|_| ()).map_err(|error| error.to_string())
}
