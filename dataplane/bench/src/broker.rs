//! The broker as a process, and the folder that it works in.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use millrace_time::SystemClock;
use rustix::process::{Pid, Signal, kill_process};

use crate::{machine::pause, producer::Connection, usage::resident_memory_kib};

/// A start that serves nobody by then has failed.
const START_WAIT_MAX: Duration = Duration::from_secs(60);
/// Between two attempts to connect.
const START_POLL: Duration = Duration::from_millis(20);
/// Between two looks at a broker that stops.
const POLL: Duration = Duration::from_millis(1);

/// The admin HTTP of a broker that stands still does not answer.
const ADMIN_PATIENCE: Duration = Duration::from_secs(10);
/// Above Linux's own, 32768 to 60999.
const LASTING_PORTS: std::ops::Range<u16> = 61_000..65_000;

/// The broker only takes long ones; it guards what lies in the same folder.
const TOKEN: &str = "a-drill-has-no-secrets-to-keep-from-its-user";

/// What the broker is told beside its folders and its address.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Capacity of the write-ahead log.
    pub wal_bytes: u64,
    /// Writes of the log under way at once.
    pub io_depth: u32,
    /// `s3.data.buckets`; `None` is a folder beside the log.
    pub bucket: Option<String>,
    /// Further lines of the configuration.
    pub lines: String,
}

/// A broker's folder: configuration, metadata, log, objects, and what it said.
#[derive(Debug)]
pub struct Home {
    program: PathBuf,
    folder: PathBuf,
    address: SocketAddr,
    admin: SocketAddr,
}

/// A broker process; killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory now, bytes.
    ///
    /// # Errors
    /// The process has ended.
    pub fn resident_bytes(&self) -> Result<u64, String> {
        let pid = self.pid().to_string();
        let kib = resident_memory_kib(&pid).ok_or_else(|| format!("process {pid} has ended"))?;
        Ok(kib << 10)
    }

    /// How it ended, if it did by itself.
    pub fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("the broker ended by itself with {status}"))
    }

    /// `kill -9`; when this returns the process is gone.
    pub fn kill_9(mut self) -> Result<(), String> {
        if let Some(ended) = self.ended() {
            return Err(ended);
        }
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed
            .map(|_| ())
            .map_err(|error| format!("kill -9: {error}"))
    }
}

impl Running {
    /// Sends a signal.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&self, signal: Signal) -> Result<(), String> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("the broker has no process id")?;
        kill_process(pid, signal).map_err(|error| format!("{signal:?}: {error}"))
    }

    /// Asks the broker to stop, and kills it where it is not through after `patience`.
    pub fn stop_or_kill(mut self, patience: Duration) -> Result<Stopped, String> {
        self.signal(Signal::TERM)?;
        let clock = SystemClock::shared();
        while clock.now() < patience {
            let ended = self.child.try_wait();
            match ended.map_err(|error| format!("waiting for the broker: {error}"))? {
                Some(status) if status.success() => return Ok(Stopped::InPeace),
                Some(status) => {
                    return Err(format!("after SIGTERM the broker ended with {status}"));
                }
                None => pause(POLL),
            }
        }
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map_err(|error| format!("kill -9: {error}"))?;
        Ok(Stopped::Killed)
    }
}

/// How a broker ended that was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// By itself.
    InPeace,
    /// It took too long.
    Killed,
}

impl Home {
    /// An empty folder for a broker.
    pub fn create(program: &Path, folder: &Path, settings: &Settings) -> Result<Self, String> {
        Self::create_at(
            program,
            folder,
            settings,
            [free_address()?, free_address()?],
        )
    }

    /// The same for one that listens at these addresses: for clients, and for the admin HTTP.
    pub fn create_at(
        program: &Path,
        folder: &Path,
        settings: &Settings,
        [address, admin]: [SocketAddr; 2],
    ) -> Result<Self, String> {
        let failed = |what: &str| {
            let what = format!("{what} {}", folder.display());
            move |error: io::Error| format!("{what}: {error}")
        };
        if folder.exists() {
            return Err(format!(
                "{} exists; remove it, or name another folder with --work",
                folder.display()
            ));
        }
        fs::create_dir_all(folder).map_err(failed("cannot create"))?;
        let folder = folder.canonicalize().map_err(failed("cannot find again"))?;
        fs::write(folder.join("token"), TOKEN).map_err(failed("cannot write into"))?;
        let home = Self {
            program: program.to_owned(),
            folder,
            address,
            admin,
        };
        home.configure(settings)?;
        Ok(home)
    }

    /// What the broker is told at its next start.
    ///
    /// # Errors
    /// The folder cannot be written into.
    pub fn configure(&self, settings: &Settings) -> Result<(), String> {
        let Self { address, admin, .. } = self;
        let home = self.folder.display();
        let bucket = settings.bucket.clone();
        let bucket = bucket.unwrap_or_else(|| format!("0@file://{home}/objects"));
        let text = format!(
            "listeners=PLAINTEXT://{address}\nadmin.listener={admin}\n\
             admin.token.file={home}/token\ndata.dir={home}/data\n\
             s3.wal.path=0@file://{home}/wal/wal?capacity={}&iodepth={}\n\
             s3.data.buckets={bucket}\n{}",
            settings.wal_bytes, settings.io_depth, settings.lines
        );
        let file = self.folder.join("server.properties");
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Where clients find the broker.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where everything of it lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Executes the broker and waits until it serves clients.
    ///
    /// # Errors
    /// It cannot be executed, ends, or serves nobody within a minute.
    pub fn start_and_wait(&self) -> Result<Running, String> {
        let clock = SystemClock::shared();
        let mut running = self.start()?;
        while let Err(error) = Connection::connect(self.address, "drill", START_WAIT_MAX) {
            if let Some(ended) = running.ended() {
                return Err(format!("{ended}; {} says why", self.log().display()));
            }
            if clock.now() > START_WAIT_MAX {
                return Err(format!("the broker does not serve clients: {error}"));
            }
            pause(START_POLL);
        }
        Ok(running)
    }

    /// Executes the broker, which is not ready yet when this returns.
    pub fn start(&self) -> Result<Running, String> {
        let failed = |error: io::Error| format!("{}: {error}", self.program.display());
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())
            .map_err(failed)?;
        let child = Command::new(&self.program)
            .args(["broker", "--config"])
            .arg(self.folder.join("server.properties"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(failed)?;
        Ok(Running { child })
    }

    /// What it says.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Runs another command of the broker's program on this home's configuration, to its end.
    ///
    /// # Errors
    /// It cannot be executed.
    pub fn command(&self, arguments: &[&str]) -> Result<Output, String> {
        Command::new(&self.program)
            .args(arguments)
            .arg("--config")
            .arg(self.folder.join("server.properties"))
            .output()
            .map_err(|error| format!("{}: {error}", self.program.display()))
    }

    /// What `millrace inspect wal` says of the log of a broker that does not run.
    pub fn inspect_wal(&self) -> Result<serde_json::Value, String> {
        let output = Command::new(&self.program)
            .args(["inspect", "wal"])
            .arg(self.wal())
            .output()
            .map_err(|error| format!("{}: {error}", self.program.display()))?;
        serde_json::from_slice(&output.stdout)
            .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// The sum of a metric over its labels, from a broker that runs.
    ///
    /// # Errors
    /// The broker does not answer, or has no such metric.
    pub fn metric(&self, name: &str) -> Result<f64, String> {
        let metrics = self.metrics()?;
        let sum = metrics.sum(name, "");
        sum.ok_or_else(|| format!("the broker has no metric {name}: {}", metrics.0))
    }

    /// All metrics of a broker that runs.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn metrics(&self) -> Result<Metrics, String> {
        self.get("/metrics").map(Metrics)
    }

    /// What the admin HTTP answers to a GET.
    ///
    /// # Errors
    /// The broker does not answer, or answers with another status than 200.
    pub fn get(&self, path: &str) -> Result<String, String> {
        self.ask("GET", path, "")
    }

    /// What the admin HTTP answers to a POST of JSON.
    ///
    /// # Errors
    /// The broker does not answer, or refuses.
    pub fn post(&self, path: &str, body: &str) -> Result<String, String> {
        self.ask("POST", path, body)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<String, String> {
        let failed = |error: io::Error| format!("the admin HTTP: {error}");
        let mut stream = TcpStream::connect(self.admin).map_err(failed)?;
        stream
            .set_read_timeout(Some(ADMIN_PATIENCE))
            .map_err(failed)?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(failed)?;
        match text.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 2") => Ok(body.to_owned()),
            _ => Err(format!("the admin HTTP answers {text}")),
        }
    }

    /// Removes the write-ahead log of a broker that does not run, so that what is read afterwards can come from objects only.
    ///
    /// # Errors
    /// The log is not there, or `millrace adopt` refuses.
    pub fn remove_log(&self) -> Result<(), String> {
        let wal = self.wal();
        fs::remove_file(&wal).map_err(|error| format!("{}: {error}", wal.display()))?;
        // A broker does not start without its log before somebody has accepted the loss.
        let adopted = self.command(&["adopt", "--yes"])?;
        let printed = String::from_utf8_lossy(&adopted.stdout);
        match adopted.status.success() {
            true => Ok(()),
            false => Err(format!(
                "millrace adopt ended with {}: {printed}",
                adopted.status
            )),
        }
    }

    fn wal(&self) -> PathBuf {
        self.folder.join("wal/wal")
    }

    /// Whether the file system that holds the log takes `O_DIRECT`: without it nothing here would
    /// be about the device.
    pub fn writes_directly(&self) -> Result<bool, String> {
        let probe = self.folder.join("direct");
        let opened = open_direct(&probe);
        let _ = fs::remove_file(&probe);
        match opened {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
            Err(error) => Err(format!("{}: {error}", probe.display())),
        }
    }

    /// Removes everything.
    pub fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

/// The metrics of one moment, in Prometheus' text format.
#[derive(Debug, Clone)]
pub struct Metrics(String);

impl Metrics {
    /// The sum over the series of a metric whose labels contain `label`; nothing where there is
    /// none.
    #[must_use]
    pub fn sum(&self, name: &str, label: &str) -> Option<f64> {
        let value = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let (found, labels) = series.split_once('{').unwrap_or((series, ""));
            (found == name && labels.contains(label)).then(|| value.parse::<f64>().ok())?
        };
        let mut values = self.0.lines().filter_map(value).peekable();
        values.peek().is_some().then(|| values.sum())
    }
}

/// Number and bytes of the files below a folder.
pub fn files_below(folder: &Path) -> (u64, u64) {
    let mut folders = vec![folder.to_owned()];
    let (mut count, mut bytes) = (0, 0);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(folder).into_iter().flatten();
        for entry in entries.filter_map(Result::ok) {
            match entry.metadata() {
                Ok(found) if found.is_dir() => folders.push(entry.path()),
                Ok(found) => {
                    count += 1;
                    bytes += found.len();
                }
                // Gone since it was listed.
                Err(_) => {}
            }
        }
    }
    (count, bytes)
}

/// An address on this machine where nobody listens at the moment.
///
/// # Errors
/// There is no port left.
pub fn free_address() -> Result<SocketAddr, String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.map_err(|error| format!("no free port: {error}"))
}

/// `count` addresses on this machine where nobody listens, with ports that Linux gives to no outgoing connection: a broker that
/// is started again finds its own free.
///
/// # Errors
/// There are not so many.
pub fn lasting_addresses(count: usize) -> Result<Vec<SocketAddr>, String> {
    let addresses: Vec<SocketAddr> = LASTING_PORTS
        .map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
        .filter(|address| TcpListener::bind(address).is_ok())
        .take(count)
        .collect();
    match addresses.len() == count {
        true => Ok(addresses),
        false => Err(format!("no {count} free ports among {LASTING_PORTS:?}")),
    }
}

/// Creates a file for direct I/O.
fn open_direct(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
    OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .custom_flags(direct)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_the_series_that_are_meant() {
        let text = "# TYPE a counter\na{r=\"x\"} 2\na{r=\"y\"} 3\nab 9\na_b{r=\"x\"} 7";
        let metrics = Metrics(text.to_owned());
        assert_eq!(metrics.sum("a", ""), Some(5.0));
        assert_eq!(metrics.sum("a", "\"y\""), Some(3.0));
        assert_eq!(metrics.sum("c", ""), None);
    }
}
