//! Who takes part.

use std::{error::Error, path::Path, process::Command};

use millrace_bench::{kafka::Version, process::Background};

use crate::{
    disk::Disk,
    kafka::{self, Flush},
    millrace::{self, Pipeline},
    server::Server,
};

/// Size of the file that the sink and the device alone write over and over.
pub(crate) const FILE_BYTES: u64 = 1 << 30;

/// Somebody to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contender {
    Millrace(Pipeline),
    Kafka(Version, Flush),
    /// Receives the same bytes and writes them, no protocol: the physical limit of a broker.
    Sink,
    /// Speaks Kafka's protocol and keeps no records: the limit of a client.
    Acknowledger,
    /// Writes alone, so many at once: the physical limit of the sink. It is no server.
    Device {
        depth: u32,
    },
}

impl Contender {
    pub(crate) const MILLRACE: Self = Self::Millrace(Pipeline::Default);
    pub(crate) const SERIAL: Self = Self::Millrace(Pipeline::Serial);
    pub(crate) const KAFKA_3: Self = Self::Kafka(Version::V3, Flush::EachMessage);
    pub(crate) const KAFKA_4: Self = Self::Kafka(Version::V4, Flush::EachMessage);
    pub(crate) const KAFKA_3_INDEXES_FREE: Self =
        Self::Kafka(Version::V3, Flush::EachMessageIndexesFree);
    pub(crate) const KAFKA_3_UNFLUSHED: Self = Self::Kafka(Version::V3, Flush::Never);
    pub(crate) const KAFKA_4_UNFLUSHED: Self = Self::Kafka(Version::V4, Flush::Never);
    pub(crate) const DEVICE: Self = Self::Device { depth: 32 };
    pub(crate) const DEVICE_SERIAL: Self = Self::Device { depth: 1 };

    /// Its key in the report.
    pub(crate) fn key(self) -> String {
        match self {
            Self::Millrace(Pipeline::Default) => "millrace".into(),
            Self::Millrace(Pipeline::Serial) => "millrace_depth_1".into(),
            Self::Kafka(version, flush) => {
                let flush = match flush {
                    Flush::EachMessage => "flushed",
                    Flush::EachMessageIndexesFree => "flushed_indexes_free",
                    Flush::Never => "unflushed",
                };
                format!("kafka_{}_{flush}", version.number())
            }
            Self::Sink => "bare_sink".into(),
            Self::Acknowledger => "acknowledger".into(),
            Self::Device { depth } => format!("device_depth_{depth}"),
        }
    }

    /// Starts it with its data below `folder`, which is empty. Nothing where it is no server.
    pub(crate) fn start(
        self,
        disk: &Disk,
        folder: &Path,
    ) -> Result<Option<Server>, Box<dyn Error>> {
        Ok(Some(match self {
            Self::Millrace(pipeline) => millrace::start(pipeline, disk, folder)?,
            Self::Kafka(version, flush) => kafka::start(version, flush, disk, folder)?,
            Self::Sink => start_sink(disk, folder)?,
            Self::Acknowledger => start_acknowledger(folder)?,
            Self::Device { .. } => return Ok(None),
        }))
    }
}

fn start_acknowledger(folder: &Path) -> Result<Server, Box<dyn Error>> {
    let mut program = Command::new(std::env::current_exe()?);
    program.args(["run", "acknowledge", "--port", "0"]);
    let log = folder.join("acknowledger.log");
    let process = Background::start(&mut program, "the acknowledger", &log, true)?;
    Server::announcing(process)
}

fn start_sink(disk: &Disk, folder: &Path) -> Result<Server, Box<dyn Error>> {
    let mut sink = Command::new(std::env::current_exe()?);
    sink.args(["run", "sink", "--port", "0", "--file"])
        .arg(folder.join("sink"))
        .args(["--bytes", &FILE_BYTES.to_string()])
        .args(["--block", "1048576"])
        .args(disk.role_arguments());
    let log = folder.join("sink.log");
    let process = Background::start(&mut sink, "the bare sink", &log, true)?;
    Server::announcing(process)
}
