//! The command line of `millrace perf`. Names are those of Kafka's and AutoMQ's performance tools
//! where they have them.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use millrace_client::{
    Compression,
    producer::{Acks, Partitioning},
};
use serde::{Serialize, Serializer};

use crate::{error::PerfError, mark::MARK_BYTES};

/// Far above the largest record that brokers accept by default, far below memory.
const RECORD_BYTES_MAX: usize = 16 << 20;
/// Each producer has a thread, each consumer connections of its own.
const CLIENTS_MAX: usize = 256;
/// Far above what one topic can have.
const PARTITIONS_MAX: i32 = 100_000;
/// A week: a run is bounded.
const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);

/// What to measure.
#[derive(Debug, Clone, Subcommand)]
pub enum PerfCommand {
    /// Measures how fast records can be produced, and the latency until they are acknowledged.
    Produce {
        /// What all workloads have.
        #[command(flatten)]
        run: RunOptions,
        /// How records are produced.
        #[command(flatten)]
        produce: ProduceOptions,
    },
    /// Measures how fast the records of a topic can be consumed, from the beginning.
    Consume {
        /// What all workloads have.
        #[command(flatten)]
        run: RunOptions,
        /// How records are consumed.
        #[command(flatten)]
        consume: ConsumeOptions,
    },
    /// Measures the latency from when a record is due to when a consumer has it.
    EndToEnd {
        /// What all workloads have.
        #[command(flatten)]
        run: RunOptions,
        /// How records are produced.
        #[command(flatten)]
        produce: ProduceOptions,
        /// How records are consumed.
        #[command(flatten)]
        consume: ConsumeOptions,
    },
    /// Produces a backlog, then consumes it from the beginning while producing continues.
    CatchUp {
        /// What all workloads have.
        #[command(flatten)]
        run: RunOptions,
        /// How records are produced.
        #[command(flatten)]
        produce: ProduceOptions,
        /// How records are consumed.
        #[command(flatten)]
        consume: ConsumeOptions,
        /// How long the backlog is produced before consumers start [default: half of --duration]
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        backlog_duration: Option<Duration>,
    },
    /// Produces, consumes at the end of the topic, and consumes from its beginning, all at once.
    Mixed {
        /// What all workloads have.
        #[command(flatten)]
        run: RunOptions,
        /// How records are produced.
        #[command(flatten)]
        produce: ProduceOptions,
        /// How records are consumed.
        #[command(flatten)]
        consume: ConsumeOptions,
    },
}

/// What all workloads have.
#[derive(Debug, Clone, Args, Serialize)]
pub struct RunOptions {
    /// Brokers to connect to first, as HOST:PORT, separated by commas.
    #[arg(long, value_name = "HOST:PORT,…")]
    pub bootstrap_server: String,
    /// Properties of Kafka's clients that say how to encrypt and authenticate: security.protocol, sasl.*, ssl.*.
    #[arg(long, value_name = "FILE", aliases = ["command.config", "producer.config", "consumer.config"])]
    #[serde(skip)]
    pub command_config: Option<PathBuf>,
    /// The topic. It is created if it does not exist, and kept.
    #[arg(long)]
    pub topic: String,
    /// Partitions of the topic, if it has to be created.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=i64::from(PARTITIONS_MAX)))]
    pub partitions: i32,
    /// Ends the run after so many records, not counting the warm-up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub num_records: Option<u64>,
    /// Ends the run after so many seconds, not counting the warm-up.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    #[serde(rename = "duration_seconds", serialize_with = "optional_seconds")]
    pub duration: Option<Duration>,
    /// Seconds at the beginning that are not measured.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds_or_none)]
    #[serde(rename = "warmup_seconds", serialize_with = "plain_seconds")]
    pub warmup: Duration,
    /// Ends the run after so many bytes of keys and values, warm-up included.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_bytes: Option<u64>,
    /// Checks each record: checksum, order, gaps, duplicates. `produce` reads back what it wrote.
    #[arg(long)]
    pub verify: bool,
    /// Writes the report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub json: Option<PathBuf>,
    /// Writes the report to this file, as an HTML page with charts that needs no network.
    #[arg(long, value_name = "FILE.html")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
    /// What is shown during the run.
    #[arg(long, value_enum, default_value_t = ProgressFormat::Text)]
    #[serde(skip)]
    pub progress: ProgressFormat,
}

/// How records are produced.
#[derive(Debug, Clone, Args, Serialize)]
pub struct ProduceOptions {
    /// Bytes of each record's value. Values are random.
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub record_size: usize,
    /// Records per second, all producers together; -1 is as many as possible. Latencies count from
    /// when a record was due.
    #[arg(long, value_name = "RECORDS/S", default_value_t = -1.0, allow_negative_numbers = true)]
    pub throughput: f64,
    /// Number of producers, each with connections of its own.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub producers: usize,
    /// How records, which have no keys, are spread over the partitions.
    #[arg(long, value_enum, default_value_t = PartitionerName::UniformSticky)]
    pub partitioner: PartitionerName,
    /// How batches are compressed.
    #[arg(long, value_enum, default_value_t = CompressionName::None)]
    pub compression: CompressionName,
    /// Which acknowledgements count: all in-sync replicas', the leader's, or none.
    #[arg(long, value_enum, default_value_t = AcksName::All, allow_hyphen_values = true)]
    pub acks: AcksName,
    /// How long a batch waits for more records.
    #[arg(long, value_name = "MS", default_value_t = 5)]
    pub linger_ms: u64,
    /// Bytes of a batch before it is sent without waiting.
    #[arg(long, value_name = "BYTES", default_value_t = 16 * 1024)]
    pub batch_size: usize,
    /// Bytes of records that may wait to be sent, per producer.
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 20)]
    pub buffer_memory: usize,
}

/// How records are consumed.
#[derive(Debug, Clone, Args, Serialize)]
pub struct ConsumeOptions {
    /// Number of consumers, each with connections of its own; they share the partitions evenly.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub consumers: usize,
}

/// What is shown during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressFormat {
    /// A line per second on standard error, a table on standard output at the end.
    Text,
    /// One JSON object per second on standard output; the last one is the report.
    Json,
    /// Only the table at the end.
    None,
}

/// See [`Partitioning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[value(rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum PartitionerName {
    /// `batch.size` bytes to one partition, then another one (KIP-794).
    #[value(alias = "uniform-sticky")]
    UniformSticky,
    /// To one partition until its batch closes (KIP-480).
    Sticky,
    /// Each record to the next partition.
    #[value(alias = "round-robin")]
    RoundRobin,
}

/// See [`Compression`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CompressionName {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// See [`Acks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
pub enum AcksName {
    /// All in-sync replicas'.
    #[value(name = "all", alias = "-1")]
    #[serde(rename = "all")]
    All,
    /// The leader's.
    #[value(name = "1")]
    #[serde(rename = "1")]
    Leader,
    /// None.
    #[value(name = "0")]
    #[serde(rename = "0")]
    None,
}

/// The kind of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Workload {
    Produce,
    Consume,
    EndToEnd,
    CatchUp,
    Mixed,
}

/// A checked command line.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) workload: Workload,
    pub(crate) run: RunOptions,
    pub(crate) produce: Option<ProduceOptions>,
    pub(crate) consume: Option<ConsumeOptions>,
    /// `CatchUp` only.
    pub(crate) backlog: Option<Duration>,
}

/// The flags as the report shows them.
#[derive(Debug, Serialize)]
pub(crate) struct Parameters<'a> {
    #[serde(flatten)]
    run: &'a RunOptions,
    #[serde(flatten)]
    produce: &'a Option<ProduceOptions>,
    #[serde(flatten)]
    consume: &'a Option<ConsumeOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backlog_seconds: Option<f64>,
}

impl PerfCommand {
    /// Checks what the parser cannot: how flags fit together.
    pub(crate) fn plan(self) -> Result<Plan, PerfError> {
        let (workload, run, produce, consume) = match self {
            Self::Produce { run, produce } => (Workload::Produce, run, Some(produce), None),
            Self::Consume { run, consume } => (Workload::Consume, run, None, Some(consume)),
            Self::EndToEnd {
                run,
                produce,
                consume,
            } => (Workload::EndToEnd, run, Some(produce), Some(consume)),
            Self::Mixed {
                run,
                produce,
                consume,
            } => (Workload::Mixed, run, Some(produce), Some(consume)),
            Self::CatchUp {
                run,
                produce,
                consume,
                backlog_duration,
            } => {
                let backlog = backlog_for(&run, backlog_duration)?;
                let mut plan = Plan {
                    workload: Workload::CatchUp,
                    run,
                    produce: Some(produce),
                    consume: Some(consume),
                    backlog: Some(backlog),
                };
                plan.check()?;
                return Ok(plan);
            }
        };
        let mut plan = Plan {
            workload,
            run,
            produce,
            consume,
            backlog: None,
        };
        plan.check()?;
        Ok(plan)
    }
}

/// How long the backlog is written.
fn backlog_for(run: &RunOptions, asked: Option<Duration>) -> Result<Duration, PerfError> {
    let Some(duration) = run.duration else {
        return Err(PerfError::usage(
            "catch-up needs --duration: the time for the backlog and for catching up together",
        ));
    };
    match asked {
        None => Ok(duration / 2),
        Some(backlog) if backlog < duration => Ok(backlog),
        Some(_) => Err(PerfError::usage(
            "--backlog-duration must be less than --duration, which includes it",
        )),
    }
}

impl Plan {
    fn check(&mut self) -> Result<(), PerfError> {
        if self.produce.is_some() && self.run.num_records.is_none() && self.run.duration.is_none() {
            return Err(PerfError::usage(
                "give --num-records or --duration; with both, the run ends with the first",
            ));
        }
        if let Some(produce) = &mut self.produce {
            let needs_mark = self.workload != Workload::Produce || self.run.verify;
            produce.check(needs_mark)?;
        }
        if let Some(ConsumeOptions { consumers }) = self.consume {
            within("--consumers", consumers, 1, CLIENTS_MAX)?;
        }
        Ok(())
    }

    /// Whether each record carries its number, its time and its checksum.
    pub(crate) fn marks_records(&self) -> bool {
        self.produce.is_some() && (self.workload != Workload::Produce || self.run.verify)
    }

    pub(crate) fn parameters(&self) -> Parameters<'_> {
        Parameters {
            run: &self.run,
            produce: &self.produce,
            consume: &self.consume,
            backlog_seconds: self.backlog.map(|backlog| backlog.as_secs_f64()),
        }
    }
}

impl ProduceOptions {
    fn check(&self, needs_mark: bool) -> Result<(), PerfError> {
        within("--producers", self.producers, 1, CLIENTS_MAX)?;
        within("--record-size", self.record_size, 0, RECORD_BYTES_MAX)?;
        if needs_mark && self.record_size < MARK_BYTES {
            return Err(PerfError::usage(format!(
                "--record-size must be at least {MARK_BYTES} here: each record carries its number, \
                 its time and its checksum"
            )));
        }
        let is_rate = self.throughput > 0.0 && self.throughput.is_finite();
        if self.throughput != -1.0 && !is_rate {
            return Err(PerfError::usage(format!(
                "--throughput must be a number of records per second above 0, or -1 for no limit, \
                 not {}",
                self.throughput
            )));
        }
        Ok(())
    }

    /// Records per second of one producer; nothing where there is no limit.
    pub(crate) fn rate_per_producer(&self) -> Option<f64> {
        (self.throughput > 0.0).then(|| self.throughput / self.producers as f64)
    }

    pub(crate) fn partitioning(&self) -> Partitioning {
        match self.partitioner {
            PartitionerName::UniformSticky => Partitioning::UniformSticky,
            PartitionerName::Sticky => Partitioning::Sticky,
            PartitionerName::RoundRobin => Partitioning::RoundRobin,
        }
    }

    pub(crate) fn compression(&self) -> Compression {
        match self.compression {
            CompressionName::None => Compression::None,
            CompressionName::Gzip => Compression::Gzip,
            CompressionName::Snappy => Compression::Snappy,
            CompressionName::Lz4 => Compression::Lz4,
            CompressionName::Zstd => Compression::Zstd,
        }
    }

    pub(crate) fn acks(&self) -> Acks {
        match self.acks {
            AcksName::All => Acks::All,
            AcksName::Leader => Acks::Leader,
            AcksName::None => Acks::None,
        }
    }
}

fn within(flag: &str, value: usize, min: usize, max: usize) -> Result<(), PerfError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(PerfError::usage(format!(
        "{flag} must be from {min} to {max}, not {value}"
    )))
}

fn seconds(text: &str) -> Result<Duration, String> {
    match seconds_or_none(text)? {
        Duration::ZERO => Err("must be more than 0 seconds".to_owned()),
        duration => Ok(duration),
    }
}

fn seconds_or_none(text: &str) -> Result<Duration, String> {
    let parsed = text.parse().map_err(|_| "not a number of seconds")?;
    let duration = Duration::try_from_secs_f64(parsed)
        .map_err(|_| "not a number of seconds of 0 or more".to_owned())?;
    if duration > DURATION_MAX {
        let max = DURATION_MAX.as_secs();
        return Err(format!("must be at most {max} seconds, which is a week"));
    }
    Ok(duration)
}

fn optional_seconds<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(to)
}

fn plain_seconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    time.as_secs_f64().serialize(to)
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(subcommand)]
        command: PerfCommand,
    }

    pub(crate) fn plan(line: &str) -> Result<Plan, String> {
        let line = format!("perf {line} --bootstrap-server h:1 --topic t");
        let cli = Cli::try_parse_from(line.split_ascii_whitespace());
        let command = cli.map_err(|error| error.to_string())?.command;
        command.plan().map_err(|error| error.to_string())
    }

    #[test]
    fn flags_have_the_names_of_kafkas_tools() {
        let line = "produce --num-records 10 --record-size 100 --throughput -1 --acks -1 \
                    --partitioner round_robin --compression zstd --linger-ms 0 --warmup 1.5";
        let plan = plan(line).expect("legal");
        let produce = plan.produce.as_ref().expect("a producer");
        assert_eq!(produce.rate_per_producer(), None);
        assert_eq!(produce.acks, AcksName::All);
        assert_eq!(plan.run.warmup, Duration::from_millis(1_500));
        assert!(!plan.marks_records());
        let shown = serde_json::to_value(plan.parameters()).expect("JSON");
        assert_eq!(shown["num_records"], 10);
        assert_eq!(shown["partitioner"], "round_robin");
        assert_eq!(shown["warmup_seconds"], 1.5);
    }

    #[test]
    fn a_rate_is_shared_by_the_producers() {
        let plan = plan("produce --duration 5 --throughput 300 --producers 3").expect("legal");
        let produce = plan.produce.expect("a producer");
        assert_eq!(produce.rate_per_producer(), Some(100.0));
    }

    #[test]
    fn a_catch_up_has_half_of_its_time_for_the_backlog() {
        let some = plan("catch-up --duration 20").expect("legal");
        assert_eq!(some.backlog, Some(Duration::from_secs(10)));
        let some = plan("catch-up --duration 20 --backlog-duration 5").expect("legal");
        assert_eq!(some.backlog, Some(Duration::from_secs(5)));
    }

    #[test]
    fn bad_flags_are_explained() {
        for (line, words) in [
            ("produce", "--num-records or --duration"),
            ("produce --num-records 0", "0 is not in 1.."),
            ("produce --num-records 1 --throughput 0", "-1 for no limit"),
            (
                "produce --num-records 1 --throughput NaN",
                "-1 for no limit",
            ),
            (
                "produce --num-records 1 --record-size 99999999",
                "--record-size must be",
            ),
            (
                "produce --num-records 1 --producers 0",
                "--producers must be from 1",
            ),
            (
                "produce --num-records 1 --verify --record-size 8",
                "at least 32",
            ),
            (
                "produce --num-records 1 --consumers 2",
                "unexpected argument '--consumers'",
            ),
            ("produce --num-records 1 --acks 2", "invalid value '2'"),
            ("produce --duration 0", "more than 0 seconds"),
            ("produce --duration 1e9", "a week"),
            ("produce --duration soon", "not a number of seconds"),
            ("end-to-end --duration 1 --record-size 8", "at least 32"),
            (
                "consume --consumers 1000",
                "--consumers must be from 1 to 256",
            ),
            ("catch-up --num-records 5", "catch-up needs --duration"),
            (
                "catch-up --duration 5 --backlog-duration 5",
                "less than --duration",
            ),
        ] {
            let error = plan(line).expect_err(line);
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
