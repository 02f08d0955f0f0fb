//! Apache Kafka from Maven Central: its programs, and the folder of a broker in KRaft mode.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{maven, process::last_lines};

/// What the benchmarks take part with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// The article's, whose tools the benchmark uses.
    V3,
    /// The newest whose artefacts are complete on Maven Central.
    V4,
}

/// The collector's flags of Kafka's start script.
const COLLECTOR: [&str; 6] = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
];
/// Warnings only, on standard error.
const LOGGING: &str = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn";
/// Any 16 bytes in base64; a cluster of one broker needs no other.
const CLUSTER_ID: &str = "AAAAAAAAAAAAAAAAAAAAAQ";

impl Version {
    /// As Maven Central names it.
    #[must_use]
    pub const fn number(self) -> &'static str {
        match self {
            Self::V3 => "3.7.0",
            Self::V4 => "4.3.1",
        }
    }

    /// The jars of this version, fetched unless they are there.
    ///
    /// # Errors
    /// As [`maven::fetch`].
    pub fn jars(self) -> Result<PathBuf, maven::FetchError> {
        let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("kafka.pom.xml");
        maven::fetch(
            &pom,
            &format!("kafka-{}-broker", self.number()),
            self.number(),
        )
    }

    /// The jar with Kafka's own remote storage in a local folder, which it has for its tests.
    ///
    /// # Errors
    /// As [`maven::fetch`].
    pub fn local_tier_jars(self) -> Result<PathBuf, maven::FetchError> {
        let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("kafka-local-tier.pom.xml");
        let name = format!("kafka-{}-local-tier", self.number());
        maven::fetch(&pom, &name, self.number())
    }
}

/// The properties of a single broker in KRaft mode: every setting is the default but for its
/// addresses, its folder, and the replicas of internal topics, of which one broker has one.
#[must_use]
pub fn single_broker_properties(port: u16, controller_port: u16, data: &Path) -> String {
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
",
        data.display()
    )
}

/// A program of Kafka's, without its arguments.
///
/// # Errors
/// As [`maven::fetch`].
pub fn java(version: Version, heap: &[&str]) -> Result<Command, maven::FetchError> {
    let mut java = Command::new("java");
    java.args(heap)
        .args(COLLECTOR)
        .arg(LOGGING)
        .arg("-cp")
        .arg(version.jars()?.join("*"));
    Ok(java)
}

/// Writes the metadata that a first start with these properties needs. What the tool says goes to
/// `log`.
///
/// # Errors
/// There is no Java, or the tool fails.
pub fn format_data(version: Version, properties: &Path, log: &Path) -> Result<(), Box<dyn Error>> {
    let output = fs::File::create(log)?;
    let status = java(version, &["-Xmx256M"])?
        .args(["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"])
        .arg(properties)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .status()
        .map_err(|error| format!("java: {error}"))?;
    if !status.success() {
        return Err(format!("Kafka's storage tool: {status}\n{}", last_lines(log)).into());
    }
    Ok(())
}
