//! The broker as a process, what it says of itself, and what Linux says of it.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use millrace_bench::producer::Connection;

/// The broker only takes long ones; it guards what lies in the same folder.
const TOKEN: &str = "a-drill-has-no-secrets-to-keep-from-its-user";
/// How long a broker with an empty folder may take to start.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// The log cache: small, so that it is full, and its size constant, before anything is measured.
pub(crate) const CACHE_BYTES: usize = 64 << 20;
/// The broker's memory for requests and responses, its default.
pub(crate) const BROKER_BYTES_MAX: usize = 512 << 20;

/// A broker that runs; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    child: Child,
    folder: PathBuf,
    pub(crate) address: SocketAddr,
    admin: SocketAddr,
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Broker {
    /// Starts a broker in an empty folder and waits until it serves.
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Self, String> {
        if folder.exists() {
            let folder = folder.display();
            return Err(format!(
                "{folder} exists; remove it, or name another folder with --work"
            ));
        }
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        let (address, admin) = (free_address()?, free_address()?);
        let home = folder.display();
        let text = format!(
            "listeners=PLAINTEXT://{address}\nadmin.listener={admin}\n\
             admin.token.file={home}/token\ndata.dir={home}/data\n\
             s3.wal.path=0@file://{home}/wal/wal?capacity={}&iodepth=32\n\
             s3.data.buckets=0@file://{home}/objects\ns3.wal.cache.size={CACHE_BYTES}\n\
             s3.wal.upload.threshold={}\nqueued.max.request.bytes={BROKER_BYTES_MAX}\n",
            1_u64 << 30,
            CACHE_BYTES / 4,
        );
        fs::write(folder.join("token"), TOKEN).map_err(failed)?;
        fs::write(folder.join("server.properties"), text).map_err(failed)?;
        let log = File::create(folder.join("log")).map_err(failed)?;
        let child = Command::new(program)
            .args(["broker", "--config"])
            .arg(folder.join("server.properties"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut broker = Self {
            child,
            folder,
            address,
            admin,
        };
        broker.wait_until_served()?;
        Ok(broker)
    }

    #[expect(clippy::disallowed_methods, reason = "a drill waits")]
    fn wait_until_served(&mut self) -> Result<(), String> {
        let pause = Duration::from_millis(50);
        for _ in 0..START_PATIENCE.as_millis() / pause.as_millis() {
            if Connection::connect(self.address, "drill", START_PATIENCE).is_ok() {
                return Ok(());
            }
            self.check()?;
            thread::sleep(pause);
        }
        Err(format!("no broker within {START_PATIENCE:?}"))
    }

    /// Whether it still runs.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the broker ended by itself with {status}")),
            Err(error) => Err(format!("the broker: {error}")),
        }
    }

    /// Resident memory now, bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_ascii_whitespace().next());
        let kib: Option<u64> = kib.and_then(|kib| kib.parse().ok());
        kib.map(|kib| kib * 1_024)
            .ok_or_else(|| format!("{path} has no VmRSS"))
    }

    /// The sum over the series of a metric whose labels contain `label`; 0 where there is none.
    pub(crate) fn metric(&self, name: &str, label: &str) -> Result<f64, String> {
        let failed = |error: std::io::Error| format!("the admin HTTP: {error}");
        let mut stream = TcpStream::connect(self.admin).map_err(failed)?;
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).map_err(failed)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(failed)?;
        if !text.starts_with("HTTP/1.1 200") {
            return Err(format!("the admin HTTP answers {text}"));
        }
        Ok(sum_of(&text, name, label))
    }

    /// Ends it, and removes what it left.
    pub(crate) fn remove(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

fn sum_of(text: &str, name: &str, label: &str) -> f64 {
    let value = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let (found, labels) = series.split_once('{').unwrap_or((series, ""));
        (found == name && labels.contains(label)).then(|| value.parse::<f64>().ok())?
    };
    // Not `sum`, whose nothing is -0.
    text.lines()
        .filter_map(value)
        .fold(0.0, |sum, value| sum + value)
}

fn free_address() -> Result<SocketAddr, String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.map_err(|error| format!("no free port: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_the_series_that_are_meant() {
        let text = "a{r=\"x\"} 2\na{r=\"y\"} 3\nab 9\na_b{r=\"x\"} 7";
        assert!((sum_of(text, "a", "") - 5.0).abs() < 1e-9);
        assert!((sum_of(text, "a", "\"y\"") - 3.0).abs() < 1e-9);
        assert!(sum_of(text, "c", "").abs() < 1e-9);
    }
}
