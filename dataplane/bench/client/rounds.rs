//! What the sections share: brokers, peers, our own performance tool, a quiet machine.

use std::{
    collections::HashMap,
    error::Error,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use millrace_bench::{
    broker::{Home, Running, Settings},
    command_line::broker_program,
    machine::{Patience, wait_until_quiet},
    producer::Connection,
    usage::cpu_time_of,
};
use serde_json::Value;

use crate::{
    arguments::Options,
    flow, partitioner,
    peers::{Peer, shown},
    report::Report,
    speed,
};

/// The log and what is not uploaded yet of the largest load.
const WAL_BYTES: u64 = 4 << 30;
const WAL_DEPTH: u32 = 32;
/// How a quick run waits for a quiet machine.
const QUICK: Patience = Patience {
    quiet: Duration::from_millis(400),
    tries_max: 5,
};
/// Longer than a broker on a busy machine takes for any answer.
const PATIENCE: Duration = Duration::from_secs(30);
const CLIENT_ID: &str = "bench-client";

/// A part of the benchmark; the last two are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Partitioner,
    Flow,
    Produce,
    Consume,
}

impl Section {
    /// By the flag's values.
    pub(crate) const ALL: [Self; 3] = [Self::Flow, Self::Partitioner, Self::Produce];

    pub(crate) fn named(name: &str) -> Result<Self, String> {
        match name {
            "partitioner" => Ok(Self::Partitioner),
            "flow" => Ok(Self::Flow),
            "speed" => Ok(Self::Produce),
            _ => Err(format!(
                "there is no section {name:?}: partitioner, flow, speed"
            )),
        }
    }

    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Partitioner => "partitioner",
            Self::Flow => "flow",
            Self::Produce => "produce",
            Self::Consume => "consume",
        }
    }
}

/// The benchmark while it runs.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) options: &'a Options,
    pub(crate) report: Report,
    program: PathBuf,
    data: PathBuf,
    java: HashMap<&'static str, Peer>,
}

/// A broker whose data is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Broker {
    home: Home,
    running: Option<Running>,
}

/// Measures all sections.
pub(crate) fn measure(options: &Options) -> Result<Report, Box<dyn Error>> {
    fs::create_dir_all(&options.work)?;
    let _alone = lock(&options.work)?;
    let data = options.work.join("data");
    if data.exists() {
        fs::remove_dir_all(&data)?;
    }
    fs::create_dir(&data)?;
    let mut bench = Bench {
        options,
        report: Report::new(options),
        program: broker_program()?,
        data: data.clone(),
        java: HashMap::new(),
    };
    let measured = options.sections.iter().try_for_each(|section| {
        let measured = match section {
            Section::Partitioner => partitioner::measure(&mut bench),
            Section::Flow => flow::measure(&mut bench),
            Section::Produce | Section::Consume => speed::measure(&mut bench),
        };
        measured.map_err(|error| format!("{}: {error}", section.key()))
    });
    fs::remove_dir_all(&data)?;
    measured?;
    Ok(bench.report)
}

/// Held while the benchmark runs: two at once would measure, and remove, each other.
fn lock(work: &Path) -> Result<File, Box<dyn Error>> {
    let path = work.join("lock");
    let file = File::create(&path)?;
    file.try_lock()
        .map_err(|error| format!("{}: {error}; does another one run?", path.display()))?;
    Ok(file)
}

impl Bench<'_> {
    /// A new broker on an empty folder.
    pub(crate) fn start_broker(&self) -> Result<Broker, Box<dyn Error>> {
        let settings = Settings {
            wal_bytes: WAL_BYTES,
            io_depth: WAL_DEPTH,
            bucket: None,
            lines: "auto.create.topics.enable=false\n".to_owned(),
        };
        let home = Home::create(&self.program, &self.data.join("broker"), &settings)?;
        let running = home.start_and_wait()?;
        Ok(Broker {
            home,
            running: Some(running),
        })
    }

    /// Kafka's client of a version; fetched and compiled the first time.
    pub(crate) fn java(&mut self, version: &'static str) -> Result<Peer, Box<dyn Error>> {
        if let Some(peer) = self.java.get(version) {
            return Ok(peer.clone());
        }
        let peer = Peer::java(version, &self.data)?;
        self.java.insert(version, peer.clone());
        Ok(peer)
    }

    /// Compiled each time: it takes a moment.
    pub(crate) fn librdkafka(&self) -> Result<Peer, Box<dyn Error>> {
        Peer::librdkafka(&self.data)
    }

    /// Runs `millrace perf` to its end. Its report, with the CPU time of the whole process as
    /// `process_cpu_seconds`.
    pub(crate) fn perf(&self, broker: &str, arguments: &str) -> Result<Value, Box<dyn Error>> {
        let mut command = Command::new(&self.program);
        command
            .arg("perf")
            .args(arguments.split_ascii_whitespace())
            .args(["--bootstrap-server", broker, "--progress", "json"]);
        let shown = shown(&mut command)?;
        let mut report = shown.json;
        report["process_cpu_seconds"] = shown.cpu.as_secs_f64().into();
        Ok(report)
    }

    /// Waits, and remembers how idle the machine was.
    pub(crate) fn wait_until_quiet(&mut self) {
        let patience = if self.options.quick {
            QUICK
        } else {
            Patience::THOROUGH
        };
        self.report.idle_percent = wait_until_quiet(patience);
    }
}

impl Broker {
    pub(crate) fn address(&self) -> String {
        self.home.address().to_string()
    }

    /// User and system time so far.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let pid = self
            .running
            .as_ref()
            .map(|running| running.pid().to_string());
        let cpu = pid.and_then(|pid| cpu_time_of(&pid));
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
