//! Apache Kafka's purgatory, driven by Kafka's own benchmark of it, both from Maven Central.

use std::{
    error::Error,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use millrace_bench::{
    maven::{self, FetchError},
    usage::peak_memory_kib,
};

use crate::{
    runs::{Run, per_million},
    workload::Plan,
};

/// The version of the article's successor that still carries the benchmark in Scala; the one that
/// the pom beside this file names.
const VERSION: &str = "3.7.0";
/// In Kafka's test jar.
const BENCHMARK: &str = "kafka.TestPurgatoryPerformance";
/// The article's heap, "to reproduce a memory tight situation".
const HEAP: &str = "-Xmx200m";
/// How often the JVM's memory is looked at. Its peak only grows, so the last look is what counts.
const LOOK: Duration = Duration::from_millis(20);
/// Stands for "as many as possible": all intervals round to nothing.
const UNLIMITED: f64 = 1e9;

/// A folder with Kafka's jars.
#[derive(Debug, Clone)]
pub(crate) struct Kafka {
    jars: PathBuf,
}

impl Kafka {
    /// Fetches the jars unless they are there.
    pub(crate) fn fetch() -> Result<Self, FetchError> {
        let pom = Path::new(env!("CARGO_MANIFEST_DIR")).join("purgatory/kafka.pom.xml");
        let jars = maven::fetch(&pom, &format!("kafka-purgatory-{VERSION}"), VERSION)?;
        Ok(Self { jars })
    }

    /// Runs a plan in a JVM of its own, which seeds itself.
    pub(crate) fn run(&self, plan: &Plan) -> Result<Run, Box<dyn Error>> {
        let mut java = Command::new("java")
            .args([HEAP, "-cp"])
            .arg(self.jars.join("*"))
            .arg(BENCHMARK)
            .args(["--num", &plan.requests.to_string()])
            .args(["--rate", &plan.rate.min(UNLIMITED).to_string()])
            .args(["--size", "100"])
            .args(["--timeout", &plan.timeout.as_millis().to_string()])
            .args(["--pct50", &plan.setting.pct50_ms.to_string()])
            .args(["--pct75", &plan.setting.pct75_ms.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("java: {error}"))?;
        let peak_kib = wait_with_peak(&mut java)?;
        let mut output = String::new();
        if let Some(mut stdout) = java.stdout.take() {
            stdout.read_to_string(&mut output)?;
        }
        let line = output.lines().last().unwrap_or_default();
        parse(plan, line, peak_kib)
            .ok_or_else(|| format!("Kafka's benchmark said: {output}").into())
    }
}

/// Waits for the end of a process whose output fits into a pipe; returns the peak of its memory.
#[expect(
    clippy::disallowed_methods,
    reason = "the kernel reports no peak of its own accord"
)]
fn wait_with_peak(process: &mut Child) -> std::io::Result<u64> {
    let mut peak_kib = 0;
    while process.try_wait()?.is_none() {
        peak_kib =
            peak_memory_kib(&process.id().to_string()).map_or(peak_kib, |kib| kib.max(peak_kib));
        thread::sleep(LOOK);
    }
    Ok(peak_kib)
}

/// The last line: elapsed ms, target rate, actual rate, CPU ms, and the collector's figures.
fn parse(plan: &Plan, line: &str, peak_kib: u64) -> Option<Run> {
    let mut fields = line.split('\t');
    let elapsed_ms: f64 = fields.next()?.parse().ok()?;
    let target_rate: f64 = fields.next()?.replace("Infinity", "inf").parse().ok()?;
    let actual_rate: f64 = fields.next()?.parse().ok()?;
    let cpu_ms: f64 = fields.next()?.parse().ok()?;
    Some(Run {
        target_rate,
        actual_rate,
        drain_ms: elapsed_ms - plan.requests as f64 * 1_000.0 / actual_rate,
        cpu_seconds_per_million: per_million(plan, cpu_ms / 1_000.0),
        peak_mib: peak_kib as f64 / 1_024.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{arguments::plan, workload::SETTINGS};

    #[test]
    fn the_line_of_kafkas_benchmark_is_understood() {
        let plan = plan(SETTINGS[1], 1_000_000, f64::INFINITY, 1);
        let line = "2200\tInfinity\t500000.000000\t2900\t0 22\t0 225";
        let run = parse(&plan, line, 2_048).expect("well-formed");
        assert!(run.target_rate.is_infinite());
        assert_eq!(
            (
                run.actual_rate,
                run.drain_ms,
                run.cpu_seconds_per_million,
                run.peak_mib
            ),
            (500_000.0, 200.0, 2.9, 2.0)
        );
        assert!(parse(&plan, "Exception in thread \"main\"", 0).is_none());
    }
}
