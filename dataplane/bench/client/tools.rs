//! `millrace perf` beside Kafka's own performance tools: both are to show the same at a rate that both
//! sustain.

use std::{error::Error, process::Stdio};

use millrace_bench::{
    kafka::{Version, java},
    kafka_tools::{Consumed, Produced},
};
use serde_json::Value;

use crate::{
    report::{Fields, Report},
    rounds::{Bench, Section},
    targets::{Kind, Target},
};

const ROUNDS_MAX: usize = 3;
/// What Kafka's start script gives its tools.
const HEAP: [&str; 1] = ["-Xmx512M"];
const RECORD_BYTES: u64 = 1_024;
const PARTITIONS: usize = 4;
/// Long enough that the start of a JVM is a small part of it.
const SECONDS: u64 = 20;
const QUICK_SECONDS: u64 = 10;
const OURS: &str = "ours";
const KAFKAS: &str = "kafka_tool_3.7.0";

/// What is compared, where, and at how many records per second. Three nodes of Kafka, each partition on
/// all of them, do not sustain the higher rates of one broker on two cores.
#[rustfmt::skip]
const LOADS: [(&str, Kind, Does, u64); 6] = [
    ("produce_5000_per_s", Kind::Millrace, Does::Produce, 5_000),
    ("produce_20000_per_s", Kind::Millrace, Does::Produce, 20_000),
    ("consume_20000_per_s", Kind::Millrace, Does::Consume, 20_000),
    ("produce_2000_per_s_kafka", Kind::Kafka, Does::Produce, 2_000),
    ("produce_5000_per_s_kafka", Kind::Kafka, Does::Produce, 5_000),
    ("consume_5000_per_s_kafka", Kind::Kafka, Does::Consume, 5_000),
];

#[derive(Debug, Clone, Copy)]
enum Does {
    Produce,
    /// Reads what somebody else produces at the rate meanwhile.
    Consume,
}

/// One run.
struct Run<'a> {
    address: String,
    topic: &'a str,
    per_second: u64,
    records: u64,
}

/// Measures both tools.
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let seconds = if bench.options.quick {
        QUICK_SECONDS
    } else {
        SECONDS
    };
    for kind in [Kind::Millrace, Kind::Kafka] {
        let target = bench.start(kind)?;
        for round in 0..bench.options.rounds.min(ROUNDS_MAX) {
            for (key, _, does, per_second) in LOADS.iter().filter(|load| load.1 == kind) {
                for turn in 0..2 {
                    let ours = (turn + round) % 2 == 0;
                    let load = (*does, *per_second, seconds);
                    let fields = run(bench, &target, load, ours)?;
                    let name = if ours { OURS } else { KAFKAS };
                    bench.report.add(Section::Tools, key, name, fields);
                }
            }
        }
    }
    Ok(())
}

/// How far our records per second are from those of Kafka's tool, in percent: the worst load.
pub(crate) fn deviation_percent(report: &Report) -> Option<f64> {
    let ratios = LOADS.iter().map(|(key, ..)| {
        let ratio = report.ratio((Section::Tools, key), "records_per_s", OURS, KAFKAS)?;
        Some((ratio - 1.0).abs() * 100.0)
    });
    let deviations: Option<Vec<f64>> = ratios.collect();
    deviations?.into_iter().reduce(f64::max)
}

fn run(
    bench: &mut Bench<'_>,
    target: &Target,
    (does, per_second, seconds): (Does, u64, u64),
    ours: bool,
) -> Result<Fields, Box<dyn Error>> {
    let topic = bench.fresh_topic();
    target.create(&topic, PARTITIONS)?;
    bench.wait_until_quiet();
    let run = Run {
        address: target.address(),
        topic: &topic,
        per_second,
        records: per_second * seconds,
    };
    let fields = match does {
        Does::Produce if ours => run.produce_ours(bench),
        Does::Produce => run.produce_kafkas(),
        Does::Consume => run.consume(bench, ours),
    }?;
    target.delete(&topic)?;
    Ok(fields)
}

impl Run<'_> {
    fn produce_arguments(&self) -> String {
        format!(
            "produce --topic {} --num-records {} --throughput {} --record-size {RECORD_BYTES} \
             --batch-size 16384 --linger-ms 0",
            self.topic, self.records, self.per_second
        )
    }

    fn produce_ours(&self, bench: &Bench<'_>) -> Result<Fields, Box<dyn Error>> {
        let report = bench.perf(&self.address, &self.produce_arguments(), &[])?;
        let produced = &report["produced"];
        let latency = |name: &str| number(&produced["latency_ms"][name], &report);
        Ok(vec![
            (
                "records_per_s",
                number(&produced["records_per_second"], &report)?,
            ),
            ("p50_ms", latency("p50")?),
            ("p99_ms", latency("p99")?),
        ])
    }

    fn produce_kafkas(&self) -> Result<Fields, Box<dyn Error>> {
        let text = self.kafkas_tool(&[
            "org.apache.kafka.tools.ProducerPerformance",
            "--topic",
            self.topic,
            "--num-records",
            &self.records.to_string(),
            "--throughput",
            &self.per_second.to_string(),
            "--record-size",
            &RECORD_BYTES.to_string(),
            "--producer-props",
            &format!("bootstrap.servers={}", self.address),
        ])?;
        let produced =
            Produced::parse(self.records, &text).ok_or_else(|| format!("it said {text}"))?;
        Ok(vec![
            ("records_per_s", produced.records_per_s),
            ("p50_ms", produced.p50_ms),
            ("p99_ms", produced.p99_ms),
        ])
    }

    fn consume(&self, bench: &Bench<'_>, ours: bool) -> Result<Fields, Box<dyn Error>> {
        let mut producer = bench
            .perf_command(&self.address, &self.produce_arguments())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let consumed = if ours {
            self.consume_ours(bench)
        } else {
            self.consume_kafkas()
        };
        if consumed.is_err() {
            // Nobody reads what it produces any more.
            producer.kill()?;
        }
        let status = producer.wait()?;
        let fields = consumed?;
        if !status.success() {
            return Err(format!("the producer: {status}").into());
        }
        Ok(fields)
    }

    fn consume_ours(&self, bench: &Bench<'_>) -> Result<Fields, Box<dyn Error>> {
        let arguments = format!(
            "consume --topic {} --num-records {}",
            self.topic, self.records
        );
        let report = bench.perf(&self.address, &arguments, &[])?;
        let rate = number(&report["consumed"]["records_per_second"], &report)?;
        Ok(vec![("records_per_s", rate)])
    }

    fn consume_kafkas(&self) -> Result<Fields, Box<dyn Error>> {
        let text = self.kafkas_tool(&[
            "org.apache.kafka.tools.ConsumerPerformance",
            "--topic",
            self.topic,
            "--messages",
            &self.records.to_string(),
            "--bootstrap-server",
            &self.address,
            "--hide-header",
        ])?;
        let consumed =
            Consumed::parse(self.records, &text).ok_or_else(|| format!("it said {text}"))?;
        Ok(vec![("records_per_s", consumed.records_per_s)])
    }

    fn kafkas_tool(&self, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
        let output = java(Version::V3, &HEAP)?
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        Err(format!("Kafka's tool: {}\n{text}", output.status).into())
    }
}

fn number(value: &Value, report: &Value) -> Result<f64, String> {
    value
        .as_f64()
        .ok_or_else(|| format!("a figure is missing in {report}"))
}
