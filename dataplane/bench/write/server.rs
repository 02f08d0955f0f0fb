//! A server that takes part, whichever it is.

use std::{
    error::Error,
    io::{self, BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    time::Duration,
};

use millrace_bench::{
    flush_shim::Counts,
    machine::pause,
    process::{Background, Meter},
};

/// Kafka needs some seconds on a busy machine; a log of 4 GiB is laid out in as many.
const START_MAX: Duration = Duration::from_secs(120);
const START_LOOK: Duration = Duration::from_millis(100);

/// A running server; it is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Background,
    port: u16,
    /// Where its flush calls are counted.
    pub(crate) flush_report: Option<PathBuf>,
}

impl Server {
    fn new(process: Background, port: u16) -> Self {
        Self {
            process,
            port,
            flush_report: None,
        }
    }

    /// A broker, once it answers.
    pub(crate) fn answering(mut process: Background, port: u16) -> Result<Self, Box<dyn Error>> {
        let looks = START_MAX.as_millis() / START_LOOK.as_millis();
        for _ in 0..looks {
            process.must_run()?;
            if crate::topics::is_ready(SocketAddr::from(([127, 0, 0, 1], port))) {
                return Ok(Self::new(process, port));
            }
            pause(START_LOOK);
        }
        Err(format!("no answer on port {port} in {START_MAX:?}").into())
    }

    /// A role that says `ready PORT` when it is.
    pub(crate) fn announcing(mut process: Background) -> Result<Self, Box<dyn Error>> {
        let stdout = process.stdout().ok_or("its output is not piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let port = line.trim().strip_prefix("ready ");
        match port.and_then(|port| port.parse().ok()) {
            Some(port) => Ok(Self::new(process, port)),
            None => {
                process.wait()?;
                Err(format!("it said {line:?} instead of its port").into())
            }
        }
    }

    /// How many flush calls it has made; nothing where they are not counted.
    pub(crate) fn flushes(&self) -> io::Result<Option<u64>> {
        let counts = self.flush_report.as_deref().map(Counts::read);
        Ok(counts.transpose()?.map(|counts| counts.flushes))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn meter(&mut self) -> Result<Meter, Box<dyn Error>> {
        self.process.must_run()?;
        self.process.meter()
    }
}
