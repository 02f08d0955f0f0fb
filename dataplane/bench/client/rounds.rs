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
    command_line::broker_program,
    machine::{Patience, wait_until_quiet},
};
use serde_json::Value;

use crate::{
    arguments::Options,
    flow, keys, partitioner,
    peers::{Peer, shown},
    rate,
    report::Report,
    skew, speed, streams,
    targets::{Broker, Kind, Target},
    tools,
};

/// How a quick run waits for a quiet machine.
const QUICK: Patience = Patience {
    quiet: Duration::from_millis(400),
    tries_max: 5,
};
pub(crate) const CLIENT_ID: &str = "bench-client";

/// A part of the benchmark; the last two are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Keys,
    Partitioner,
    Skew,
    Flow,
    Streams,
    Tools,
    Produce,
    Consume,
}

impl Section {
    /// By the flag's values.
    pub(crate) const ALL: [Self; 7] = [
        Self::Keys,
        Self::Flow,
        Self::Streams,
        Self::Partitioner,
        Self::Skew,
        Self::Tools,
        Self::Produce,
    ];

    pub(crate) fn named(name: &str) -> Result<Self, String> {
        match name {
            "keys" => Ok(Self::Keys),
            "partitioner" => Ok(Self::Partitioner),
            "skew" => Ok(Self::Skew),
            "flow" => Ok(Self::Flow),
            "streams" => Ok(Self::Streams),
            "tools" => Ok(Self::Tools),
            "speed" => Ok(Self::Produce),
            _ => Err(format!(
                "there is no section {name:?}: keys, partitioner, skew, flow, streams, tools, speed"
            )),
        }
    }

    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Partitioner => "partitioner",
            Self::Skew => "skew",
            Self::Flow => "flow",
            Self::Streams => "streams",
            Self::Tools => "tools",
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
    /// For everything that lives no longer than the benchmark.
    pub(crate) data: PathBuf,
    java: HashMap<&'static str, Peer>,
    /// Whether there is one is not known at first.
    librdkafka: Option<Option<Peer>>,
    topics: usize,
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
        librdkafka: None,
        topics: 0,
    };
    let measured = options.sections.iter().try_for_each(|section| {
        let measured = match section {
            Section::Partitioner => partitioner::measure(&mut bench),
            Section::Skew => skew::measure(&mut bench),
            Section::Flow => flow::measure(&mut bench),
            Section::Streams => streams::measure(&mut bench),
            Section::Keys => keys::measure(&mut bench),
            Section::Tools => tools::measure(&mut bench),
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
    /// Starts something to produce to, on an empty folder.
    pub(crate) fn start(&mut self, kind: Kind) -> Result<Target, Box<dyn Error>> {
        let target = Target::start(kind, &self.program, &self.data)?;
        if matches!(target, Target::Kafka { .. }) {
            rate::warm_up(self, &target)?;
        }
        Ok(target)
    }

    /// A new Millrace broker on an empty folder.
    pub(crate) fn start_broker(&self) -> Result<Broker, Box<dyn Error>> {
        Broker::start(&self.program, &self.data, "")
    }

    /// A name that no topic of this benchmark has.
    pub(crate) fn fresh_topic(&mut self) -> String {
        self.topics += 1;
        format!("topic-{}", self.topics)
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

    /// librdkafka, compiled the first time; nothing where it is not installed, which is said once.
    pub(crate) fn librdkafka(&mut self) -> Option<Peer> {
        let peer = self.librdkafka.get_or_insert_with(|| {
            let compiled = Peer::librdkafka(&self.data);
            compiled
                .inspect_err(|error| eprintln!("without librdkafka: {error}"))
                .ok()
        });
        peer.clone()
    }

    /// Runs `millrace perf` to its end. Its report, with the CPU time of the whole process as
    /// `process_cpu_seconds`.
    pub(crate) fn perf(
        &self,
        broker: &str,
        arguments: &str,
        environment: &[(&'static str, String)],
    ) -> Result<Value, Box<dyn Error>> {
        let mut command = self.perf_command(broker, arguments);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let shown = shown(&mut command)?;
        let mut report = shown.json;
        report["process_cpu_seconds"] = shown.cpu.as_secs_f64().into();
        Ok(report)
    }

    /// `millrace perf`, which is not started yet.
    pub(crate) fn perf_command(&self, broker: &str, arguments: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("perf")
            .args(arguments.split_ascii_whitespace())
            .args(["--bootstrap-server", broker, "--progress", "json"]);
        command
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
