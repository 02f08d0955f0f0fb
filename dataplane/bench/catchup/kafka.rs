//! One Apache Kafka broker with tiered storage, whose remote storage is a folder on this machine.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use millrace_bench::{
    kafka::{Version, format_data, java, single_broker_properties},
    machine::pause,
    process::{Background, free_port},
    producer::Connection,
};

use crate::load::CLIENT_ID;

/// Tiered storage is ready for production in Kafka from version 3.9 on.
pub(crate) const VERSION: Version = Version::V4;
/// As much as Millrace's log cache and block cache have together.
const HEAP: [&str; 2] = ["-Xms4G", "-Xmx4G"];
const START_MAX: Duration = Duration::from_secs(120);
const START_LOOK: Duration = Duration::from_millis(200);
/// A probe of a broker that does not answer yet ends soon.
const PROBE: Duration = Duration::from_secs(2);
/// A thousand partitions are flushed when it stops.
const STOP_PATIENCE: Duration = Duration::from_secs(120);

/// The remote storage in a folder, from Kafka's own tests. A partition is read by one of ten threads
/// (Kafka's default), and 200 consumers ask for 5 partitions each: by default, no more than a hundred
/// of these reads may wait.
const TIERED: &str = "\
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name=org.apache.kafka.server.log.remote.storage.LocalTieredStorage
remote.log.metadata.manager.listener.name=PLAINTEXT
rlmm.config.remote.log.metadata.topic.replication.factor=1
remote.log.reader.max.pending.tasks=10000
offsets.topic.num.partitions=8
";
/// While the backlog is moved to remote storage: look for what is to be moved or deleted each second,
/// not each half a minute and each five minutes.
const MOVING: &str = "\
remote.log.manager.task.interval.ms=1000
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=1000
";

/// What the broker is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Moves the backlog to remote storage.
    Moving,
    /// Is measured, with Kafka's own intervals.
    Measured,
}

/// Why Kafka cannot take part on this machine, if so; fetches what it needs.
pub(crate) fn missing() -> Option<String> {
    let mut java = Command::new("java");
    java.arg("-version").stdout(Stdio::null());
    if let Err(error) = java.stderr(Stdio::null()).status() {
        return Some(format!("java: {error}; a JDK 17 with Maven is needed"));
    }
    let fetched = VERSION.jars().and_then(|_| VERSION.local_tier_jars());
    fetched.err().map(|error| error.to_string())
}

/// The broker, in a folder of its own; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Kafka {
    folder: PathBuf,
    port: u16,
    controller_port: u16,
    running: Option<Background>,
}

impl Kafka {
    /// An empty folder for a broker.
    pub(crate) fn create(folder: &Path) -> Result<Self, String> {
        if folder.exists() {
            return Err(format!(
                "{} exists; remove it, or name another folder with --work",
                folder.display()
            ));
        }
        let failed = |error| format!("{}: {error}", folder.display());
        fs::create_dir_all(folder).map_err(failed)?;
        let port = || free_port().map_err(|error| format!("no free port: {error}"));
        let kafka = Self {
            folder: folder.canonicalize().map_err(failed)?,
            port: port()?,
            controller_port: port()?,
            running: None,
        };
        kafka.configure(Phase::Moving)?;
        let log = kafka.folder.join("format.log");
        let formatted = format_data(VERSION, &kafka.properties(), &log);
        formatted.map_err(|error| error.to_string())?;
        Ok(kafka)
    }

    /// Where clients find it.
    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The broker's process id.
    pub(crate) fn pid(&self) -> Result<String, String> {
        let running = self.running.as_ref().ok_or("Kafka was not started")?;
        Ok(running.pid().to_string())
    }

    /// Starts the broker for a phase, in place of the one that runs, and waits until it answers.
    pub(crate) fn serve(&mut self, phase: Phase) -> Result<(), String> {
        if let Some(running) = self.running.take() {
            let stopped = running.stop(STOP_PATIENCE);
            stopped.map_err(|error| error.to_string())?;
        }
        self.configure(phase)?;
        let mut broker = java(VERSION, &HEAP).map_err(|error| error.to_string())?;
        broker.arg("kafka.Kafka").arg(self.properties());
        let name = format!("Apache Kafka {}", VERSION.number());
        let log = self.folder.join(format!("{phase:?}.log"));
        let running = Background::start(&mut broker, &name, &log, false);
        self.running = Some(running.map_err(|error| error.to_string())?);
        let looks = START_MAX.as_millis() / START_LOOK.as_millis();
        for _ in 0..looks {
            self.check()?;
            if Connection::connect(self.address(), CLIENT_ID, PROBE).is_ok() {
                return Ok(());
            }
            pause(START_LOOK);
        }
        Err(format!("Kafka does not answer in {START_MAX:?}"))
    }

    /// The broker runs.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let running = self.running.as_mut().ok_or("Kafka was not started")?;
        running.must_run().map_err(|error| error.to_string())
    }

    /// Ends it, and removes what it left.
    pub(crate) fn remove(mut self) {
        self.running = None;
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }

    fn properties(&self) -> PathBuf {
        self.folder.join("server.properties")
    }

    fn configure(&self, phase: Phase) -> Result<(), String> {
        let jars = VERSION.local_tier_jars();
        let jars = jars.map_err(|error| error.to_string())?.join("*");
        let data = self.folder.join("data");
        let moving = match phase {
            Phase::Moving => MOVING,
            Phase::Measured => "",
        };
        let text = format!(
            "{}{TIERED}remote.log.storage.manager.class.path={}\nrsm.config.dir={}\n{moving}",
            single_broker_properties(self.port, self.controller_port, &data),
            jars.display(),
            self.folder.join("tier").display()
        );
        let file = self.properties();
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }
}
