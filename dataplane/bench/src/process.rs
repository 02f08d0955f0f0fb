//! Processes that are started, watched and ended.

use std::{
    error::Error,
    fs::{self, File},
    io,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use millrace_time::SystemClock;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use crate::{
    machine::pause,
    usage::{cpu_time_of, peak_memory_kib, reset_peak_memory},
};

/// Lines of a log that are shown where its process failed.
const LOG_LINES: usize = 15;

/// How often it is looked whether a process has come to rest, and how many times at most.
const SETTLE_LOOK: Duration = Duration::from_millis(500);
const SETTLE_LOOKS_MAX: usize = 20;
/// Of this process, beside its connections.
const OTHER_DESCRIPTORS: u64 = 256;

/// Between two looks at whether a process has stopped.
const STOP_LOOK: Duration = Duration::from_millis(50);

/// A process in the background, killed when it is dropped.
#[derive(Debug)]
pub struct Background {
    child: Child,
    name: String,
    log: PathBuf,
}

/// What a process used between two looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    /// User and system time.
    pub cpu_seconds: f64,
    /// The largest resident set.
    pub peak_mib: f64,
}

impl Background {
    /// Starts `command`; what it says goes to `log`. With `piped`, standard output is kept for
    /// [`stdout`](Self::stdout).
    ///
    /// # Errors
    /// It cannot be started, or its log cannot be written.
    pub fn start(
        command: &mut Command,
        name: &str,
        log: &Path,
        piped: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let errors = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let output = if piped {
            Stdio::piped()
        } else {
            Stdio::from(errors.try_clone()?)
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("{name}: {error}"))?;
        Ok(Self {
            child,
            name: name.to_owned(),
            log: log.to_owned(),
        })
    }

    /// Standard output, the first time that it is asked for.
    pub fn stdout(&mut self) -> Option<impl io::Read + use<>> {
        self.child.stdout.take()
    }

    /// Fails where the process has ended, and shows what it said last.
    ///
    /// # Errors
    /// As above.
    pub fn must_run(&mut self) -> Result<(), Box<dyn Error>> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(self.failure(status).into()),
        }
    }

    /// Waits for a process that ends by itself.
    ///
    /// # Errors
    /// It failed.
    pub fn wait(&mut self) -> Result<(), Box<dyn Error>> {
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(self.failure(status).into())
        }
    }

    /// Asks the process to stop, and waits until it has.
    ///
    /// # Errors
    /// It still runs after `patience`; it is killed then.
    pub fn stop(mut self, patience: Duration) -> Result<(), Box<dyn Error>> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.ok_or("no process id")?, Signal::TERM)?;
        let clock = SystemClock::shared();
        while self.child.try_wait()?.is_none() {
            if clock.now() > patience {
                return Err(format!("{} does not stop", self.name).into());
            }
            pause(STOP_LOOK);
        }
        Ok(())
    }

    fn failure(&self, status: ExitStatus) -> String {
        let said = last_lines(&self.log);
        format!("{} ended: {status}\n{said}", self.name)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// User and system time so far; nothing where it has ended.
    #[must_use]
    pub fn cpu_time(&self) -> Option<Duration> {
        cpu_time_of(&self.child.id().to_string())
    }

    /// Starts to measure.
    ///
    /// # Errors
    /// It has ended.
    pub fn meter(&self) -> Result<Meter, Box<dyn Error>> {
        let pid = self.child.id().to_string();
        reset_peak_memory(&pid).map_err(|error| format!("{}: {error}", self.name))?;
        let before = cpu_time_of(&pid).ok_or_else(|| format!("{} has ended", self.name))?;
        Ok(Meter { pid, before })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended; otherwise nothing that it still holds is needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Measures a process from its making on.
#[derive(Debug)]
pub struct Meter {
    pid: String,
    before: Duration,
}

impl Meter {
    /// As [`settle`].
    pub fn settle(&self) {
        settle(&self.pid);
    }

    /// What it used since.
    ///
    /// # Errors
    /// It has ended.
    pub fn read(&self) -> Result<Used, Box<dyn Error>> {
        let ended = || format!("process {} has ended", self.pid);
        let cpu = cpu_time_of(&self.pid).ok_or_else(ended)?;
        let peak_kib = peak_memory_kib(&self.pid).ok_or_else(ended)?;
        Ok(Used {
            cpu_seconds: cpu.saturating_sub(self.before).as_secs_f64(),
            peak_mib: peak_kib as f64 / 1_024.0,
        })
    }
}

/// Waits until a process has come to rest, so that what it still owes for a load is counted:
/// Millrace uploads the last block, Kafka's JVM collects garbage.
pub fn settle(process: &str) {
    let mut last = cpu_time_of(process);
    for _ in 0..SETTLE_LOOKS_MAX {
        pause(SETTLE_LOOK);
        let now = cpu_time_of(process);
        let used = now.zip(last).map(|(now, last)| now.saturating_sub(last));
        if used.is_none_or(|used| used < SETTLE_LOOK / 20) {
            return;
        }
        last = now;
    }
}

/// Lets this process have a descriptor for each of so many connections. The broker raises its own limit.
///
/// # Errors
/// The system does not allow so many.
pub fn raise_descriptors(connections: usize) -> Result<(), String> {
    let wanted = connections as u64 + OTHER_DESCRIPTORS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let limit = Rlimit {
        current: Some(wanted),
        maximum,
    };
    setrlimit(Resource::Nofile, limit).map_err(|error| {
        format!("{wanted} open files are needed ({error}); raise the limit with `ulimit -Hn`")
    })
}

/// The end of a log, for a message.
#[must_use]
pub fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// A port that nobody listens on at the moment.
///
/// # Errors
/// There is none left.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Empties a folder, or makes it.
///
/// # Errors
/// It cannot be emptied or made.
pub fn fresh_folder(path: &Path) -> Result<(), Box<dyn Error>> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", path.display()).into());
        }
        _ => {}
    }
    fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> Background {
        let mut command = Command::new("sh");
        Background::start(command.args(["-c", script]), "a shell", log, false).expect("starts")
    }

    #[test]
    fn a_process_is_measured_and_its_failure_is_told() {
        let log = std::env::temp_dir().join(format!("bench-process-{}.log", std::process::id()));
        let busy = shell("while :; do :; done", &log);
        let meter = busy.meter().expect("runs");
        // Other processes may have the processors for a while.
        let used = (0..60)
            .map(|_| {
                pause(Duration::from_millis(500));
                meter.read().expect("runs")
            })
            .find(|used| used.cpu_seconds > 0.05);
        let used = used.expect("it is busy");
        assert!(used.peak_mib > 0.1, "{used:?}");
        drop(busy);
        assert!(meter.read().is_err());

        let mut failing = shell("echo the reason >&2; exit 3", &log);
        let error = failing.wait().expect_err("fails").to_string();
        assert!(error.contains("the reason"), "{error}");
        assert!(shell("exit 0", &log).wait().is_ok());
        let stopped = shell("sleep 100", &log).stop(Duration::from_secs(10));
        assert!(stopped.is_ok(), "{stopped:?}");
        fs::remove_file(&log).expect("written");
    }
}
