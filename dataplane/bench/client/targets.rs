//! Where is produced to: Millrace, Millrace on a slow disk, Apache Kafka.

use std::{error::Error, path::Path, process::Command, time::Duration};

use millrace_bench::{
    broker::{Home, Running, Settings},
    kafka_cluster::{Cluster, NODES},
    producer::Connection,
    usage::cpu_time_of,
};

use crate::{peers::shown, rounds::CLIENT_ID};

/// The log and what is not uploaded yet of the largest load.
const WAL_BYTES: u64 = 4 << 30;
const WAL_DEPTH: u32 = 32;
/// The slow disk of `bench:write`.
const EBS_LIKE: &str = "&shape_write_ms=5&shape_iops=4000&shape_bandwidth=1048576000";
/// Longer than a broker on a busy machine takes for any answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One broker on the work folder's disk.
    Millrace,
    /// The same, with a log whose durable writes take at least 5 ms.
    MillraceSlowDisk,
    /// Three nodes of Apache Kafka, each partition on all of them.
    Kafka,
    /// The same; clients reach one of them through a proxy. Each partition is on one node only, so
    /// that the delay is that of the node alone.
    KafkaDelayed(Duration),
}

/// What runs.
#[derive(Debug)]
pub(crate) enum Target {
    Millrace(Broker),
    Kafka { cluster: Cluster, replicas: usize },
}

/// A Millrace broker whose data is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    home: Home,
    running: Option<Running>,
}

impl Target {
    /// Starts it with its data in `folder`, which is empty.
    pub(crate) fn start(kind: Kind, program: &Path, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let (delay, replicas) = match kind {
            Kind::Millrace => return Ok(Self::Millrace(Broker::start(program, folder, "")?)),
            Kind::MillraceSlowDisk => {
                return Ok(Self::Millrace(Broker::start(program, folder, EBS_LIKE)?));
            }
            Kind::Kafka => (None, NODES),
            Kind::KafkaDelayed(delay) => (Some(delay), 1),
        };
        Ok(Self::Kafka {
            cluster: Cluster::start(&folder.join("kafka"), delay)?,
            replicas,
        })
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::Millrace(broker) => broker.address(),
            Self::Kafka { cluster, .. } => cluster.address(),
        }
    }

    pub(crate) fn cpu_seconds(&self) -> f64 {
        match self {
            Self::Millrace(broker) => broker.cpu_seconds(),
            Self::Kafka { cluster, .. } => cluster.cpu_seconds(),
        }
    }

    /// Creates topics, whose names are separated by commas, unless they exist.
    pub(crate) fn create(&self, topics: &str, partitions: usize) -> Result<(), Box<dyn Error>> {
        let replicas = match self {
            Self::Millrace(_) => 1,
            Self::Kafka { replicas, .. } => *replicas,
        };
        let mut create = role(&["create", &self.address(), topics]);
        create.args([partitions.to_string(), replicas.to_string()]);
        shown(&mut create).map(|_| ())
    }

    /// Deletes topics, whose names are separated by commas.
    pub(crate) fn delete(&self, topics: &str) -> Result<(), Box<dyn Error>> {
        shown(&mut role(&["delete", &self.address(), topics])).map(|_| ())
    }
}

/// This program as one of its roles.
pub(crate) fn role(arguments: &[&str]) -> Command {
    // The system knows where this program lies; it is running.
    let mut command = Command::new(std::env::current_exe().unwrap_or_default());
    command.arg("run").args(arguments);
    command
}

impl Broker {
    /// `shape` is what the log's address says about its disk.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        shape: &str,
    ) -> Result<Self, Box<dyn Error>> {
        let folder = folder.join("broker");
        // The last of two lines with the same name counts.
        let wal = format!(
            "s3.wal.path=0@file://{}/wal/wal?capacity={WAL_BYTES}&iodepth={WAL_DEPTH}{shape}\n",
            std::path::absolute(&folder)?.display()
        );
        let settings = Settings {
            wal_bytes: WAL_BYTES,
            io_depth: WAL_DEPTH,
            bucket: None,
            lines: format!("auto.create.topics.enable=false\n{wal}"),
        };
        let home = Home::create(program, &folder, &settings)?;
        let running = home.start_and_wait()?;
        Ok(Self {
            home,
            running: Some(running),
        })
    }

    pub(crate) fn address(&self) -> String {
        self.home.address().to_string()
    }

    /// User and system time so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let running = self.running.as_ref();
        let cpu = running.and_then(|running| cpu_time_of(&running.pid().to_string()));
        cpu.map_or(f64::NAN, |cpu| cpu.as_secs_f64())
    }

    pub(crate) fn create_topic(
        &self,
        topic: &str,
        partitions: usize,
    ) -> Result<(), Box<dyn Error>> {
        let address = self.home.address();
        let mut connection = Connection::connect(address, CLIENT_ID, PATIENCE)?;
        connection.create_topic(topic, i32::try_from(partitions)?, PATIENCE)?;
        Ok(())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // Killed first: it would write into the folder.
        self.running = None;
        self.home.remove();
    }
}
