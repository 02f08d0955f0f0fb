//! Other people's clients, as programs: Kafka's Java clients and librdkafka. Their sources are in
//! `peers/`.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use millrace_bench::{maven, usage::cpu_time_of_ended_children};
use serde_json::Value;

/// Before KIP-480 and KAFKA-7548.
pub(crate) const JAVA_2_3: &str = "2.3.1";
/// The first with both.
pub(crate) const JAVA_2_4: &str = "2.4.1";
/// The newest whose artefacts are complete on Maven Central.
pub(crate) const JAVA_4: &str = "4.3.1";
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/client/peers");
const JAVA_SOURCES: [&str; 3] = ["PeerClient.java", "RateLoad.java", "StreamLoad.java"];
const C_SOURCES: [&str; 4] = [
    "peer_client.c",
    "peer_stats.c",
    "peer_rate.c",
    "peer_flow.c",
];
/// Kafka's start script gives its tools half of it.
const HEAP: [&str; 2] = ["-Xms1G", "-Xmx1G"];

/// A client that takes part.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// The class path of one version.
    Java(String),
    /// The compiled program.
    Librdkafka(PathBuf),
}

/// What a run of a program showed.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    /// The JSON of its last line.
    pub(crate) json: Value,
    /// User and system time from its start to its end.
    pub(crate) cpu: Duration,
}

impl Shown {
    pub(crate) fn number(&self, key: &str) -> Result<f64, String> {
        let number = self.json[key].as_f64();
        number.ok_or_else(|| format!("no number {key} in {}", self.json))
    }
}

impl Peer {
    /// Fetches a version and compiles the program for it into `folder`.
    pub(crate) fn java(version: &str, folder: &Path) -> Result<Self, Box<dyn Error>> {
        let pom = Path::new(SOURCES).join("kafka-clients.pom.xml");
        let jars = maven::fetch(&pom, &format!("kafka-clients-{version}"), version)?;
        let classes = folder.join(format!("classes-{version}"));
        fs::create_dir_all(&classes)?;
        let jars = jars.join("*").display().to_string();
        let mut compiler = Command::new("javac");
        compiler
            .args(["-cp", &jars, "-d"])
            .arg(&classes)
            .args(JAVA_SOURCES.map(|name| Path::new(SOURCES).join(name)));
        if version == JAVA_4 {
            compiler.arg(Path::new(SOURCES).join("KeyPlacement.java"));
        }
        succeed(
            &mut compiler,
            "javac; a JDK 17 is needed (Debian/Ubuntu: default-jdk)",
        )?;
        Ok(Self::Java(format!("{}:{jars}", classes.display())))
    }

    /// Compiles the program; fails where the library is not installed.
    pub(crate) fn librdkafka(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let program = folder.join("librdkafka-client");
        compile(&C_SOURCES, &["-lrdkafka", "-lpthread"], &program)?;
        Ok(Self::Librdkafka(program))
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[String]) -> Result<Shown, Box<dyn Error>> {
        self.run_in(&[], arguments)
    }

    /// The same, with more environment.
    pub(crate) fn run_in(
        &self,
        environment: &[(&'static str, String)],
        arguments: &[String],
    ) -> Result<Shown, Box<dyn Error>> {
        let mut command = match self {
            Self::Java(class_path) => java(class_path, "PeerClient"),
            Self::Librdkafka(program) => Command::new(program),
        };
        let environment = environment.iter().map(|(name, value)| (name, value));
        shown(command.args(arguments).envs(environment))
    }

    /// Where Kafka's own client would place the keys of a file; `KeyPlacement.java` says how both
    /// files look.
    pub(crate) fn place_keys(
        &self,
        keys: &Path,
        places: &Path,
        partitions: &[u32],
    ) -> Result<(), Box<dyn Error>> {
        let Self::Java(class_path) = self else {
            return Err("only Java's client is asked where keys go".into());
        };
        let partitions = partitions.iter().map(u32::to_string);
        let mut placement = java(class_path, "KeyPlacement");
        shown(placement.args([keys, places]).args(partitions)).map(|_| ())
    }
}

/// Compiles sources of `peers/`; `flags` come behind them.
pub(crate) fn compile(sources: &[&str], flags: &[&str], to: &Path) -> Result<(), Box<dyn Error>> {
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(to)
        .args(sources.iter().map(|name| Path::new(SOURCES).join(name)))
        .args(flags);
    succeed(
        &mut compiler,
        "cc; a C compiler and librdkafka are needed (Debian/Ubuntu: build-essential librdkafka-dev)",
    )
}

fn java(class_path: &str, program: &str) -> Command {
    let mut java = Command::new("java");
    java.args(HEAP)
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
        .args(["-cp", class_path, program]);
    java
}

/// Runs a program to its end; its last line is JSON.
pub(crate) fn shown(command: &mut Command) -> Result<Shown, Box<dyn Error>> {
    let cpu_before = cpu_time_of_ended_children();
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    let cpu = cpu_time_of_ended_children().saturating_sub(cpu_before);
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{name}: {}\n{text}", output.status).into());
    }
    let line = text.lines().last().unwrap_or_default();
    let json = serde_json::from_str(line).map_err(|error| format!("{name}: {error}: {line}"))?;
    Ok(Shown { json, cpu })
}

fn succeed(command: &mut Command, what: &str) -> Result<(), Box<dyn Error>> {
    let status = command
        .status()
        .map_err(|error| format!("{what}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{what}: {status}").into())
    }
}
