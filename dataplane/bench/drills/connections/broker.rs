//! The broker of this drill: a log cache that is soon full, and the default bound on requests and
//! responses.

use std::net::SocketAddr;

use millrace_bench::{
    broker::{Home, Running, Settings},
    drill::DrillFiles,
};

/// The log cache: small, so that it is full, and its size constant, before anything is measured.
pub(crate) const CACHE_BYTES: usize = 64 << 20;
/// The broker's memory for requests and responses, its default.
pub(crate) const BROKER_BYTES_MAX: usize = 512 << 20;

/// A broker that runs; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    home: Home,
    running: Running,
    pub(crate) address: SocketAddr,
}

impl Broker {
    /// Starts a broker in an empty folder and waits until it serves.
    pub(crate) fn start(files: &DrillFiles) -> Result<Self, String> {
        let settings = Settings {
            wal_bytes: 1 << 30,
            io_depth: 32,
            bucket: None,
            lines: format!(
                "s3.wal.cache.size={CACHE_BYTES}\ns3.wal.upload.threshold={}\n\
                 queued.max.request.bytes={BROKER_BYTES_MAX}\n",
                CACHE_BYTES / 4
            ),
        };
        let home = Home::create(&files.program, &files.work, &settings)?;
        Ok(Self {
            running: home.start_and_wait()?,
            address: home.address(),
            home,
        })
    }

    /// Whether it still runs.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.running.ended().map_or(Ok(()), Err)
    }

    /// Resident memory now, bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64, String> {
        self.running.resident_bytes()
    }

    /// The sum over the series of a metric whose labels contain `label`; 0 where there is none.
    pub(crate) fn metric(&self, name: &str, label: &str) -> Result<f64, String> {
        let metrics = self.home.metrics()?;
        Ok(metrics.sum(name, label).unwrap_or(0.0))
    }

    /// Ends it, and removes what it left.
    pub(crate) fn remove(self) {
        drop(self.running);
        self.home.remove();
    }
}
