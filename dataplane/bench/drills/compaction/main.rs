//! `npm run drill:compaction`: a large topic with few live keys is compacted while a producer writes elsewhere.
//!
//! A topic is filled with records of random keys, which nothing compacts yet because of `min.compaction.lag.ms`. The latency of a
//! producer at a fixed rate is measured without compaction. Then the lag is set to 0, and measured are the time until the topic has
//! shrunk, what that reads and writes, and the producer's latency meanwhile. At the end a consumer reads the topic: every
//! key must have its last value, and nothing else may have been lost.

mod arguments;
mod steady;
mod topic;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use millrace_bench::{
    broker::{Home, Running, Settings, files_below},
    drill::conclude,
    latencies::describe,
    machine::{Patience, wait_until_quiet},
    usage::cpu_time_of,
};
use millrace_client::{Client, ClientConfig, transport::BrokerAddress};
use millrace_perf::Latencies;
use millrace_time::{SharedClock, SystemClock};
use serde_json::{Map, Value, json};

use crate::{
    arguments::{Arguments, USAGE},
    steady::SteadyProducer,
    topic::Topic,
};

/// Between two looks at the broker.
const POLL: Duration = Duration::from_millis(500);
/// A topic that has not shrunk by then never will.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Until the objects that were replaced are deleted.
const DELETED_WITHIN: Duration = Duration::from_secs(120);
/// The target: how much longer the slowest one percent of the producer's records may take meanwhile.
const P99_RATIO_MAX: f64 = 2.0;
/// What may be left of the topic beside its live keys and its active part: the active part begins where a segment of the partition's
/// table begins, and such a segment can be the 128th part of the log. The rest is headers.
const LEFT_OVER_PART: u64 = 64;
/// Headers of batches, and records of unequal size, make the size of a topic differ from that of its records.
const SIZE_ERROR_PART: u64 = 10;
/// The bucket holds the other topic's objects, too.
const OBJECTS_FACTOR: u64 = 2;

fn main() -> ExitCode {
    millrace_bench::drill::main("compaction", USAGE, Arguments::parse, drill)
}

fn drill(arguments: &Arguments) -> Result<(), String> {
    let settings = Settings {
        wal_bytes: 4 << 30,
        io_depth: 32,
        bucket: arguments
            .bucket
            .as_ref()
            .map(|folder| format!("0@file://{}", folder.display())),
        lines: lines(arguments.baseline_mib),
    };
    if let Some(bucket) = arguments.bucket.as_ref().filter(|bucket| bucket.exists()) {
        let bucket = bucket.display();
        return Err(format!("--bucket: {bucket} exists: name a new folder"));
    }
    let home = Home::create(&arguments.files.program, &arguments.files.work, &settings)?;
    let home = Arc::new(home);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("starting a runtime: {error}"))?;
    let outcome = runtime.block_on(measure(arguments, &home));
    conclude(&home, topic::SEED, arguments.files.json.as_deref(), outcome)?;
    match &arguments.bucket {
        Some(bucket) => fs::remove_dir_all(bucket)
            .map_err(|error| format!("{} cannot be removed: {error}", bucket.display())),
        None => Ok(()),
    }
}

async fn measure(arguments: &Arguments, home: &Arc<Home>) -> Result<(Value, Vec<String>), String> {
    let clock = SystemClock::shared();
    let running = home.start_and_wait()?;
    let client = client(home);
    let bucket = bucket_of(arguments, home);
    let topic = Topic::create(&client, arguments).await?;
    let steady = SteadyProducer::create(&client, arguments.rate).await?;
    let started = clock.now();
    let last_values = topic.fill(&client).await?;
    let filled = clock.now() - started;
    until_uploaded(home, &clock).await?;
    let size = topic.size(&client).await?;
    let (_, bytes_before) = files_below(&bucket);
    let idle_percent = wait_until_quiet(Patience::THOROUGH);

    let seconds = Duration::from_secs(arguments.seconds as u64);
    let before = steady.produce_while(poll_for(home, seconds)).await?.0;
    topic.let_compact(&client).await?;
    let cpu = cpu(&running)?;
    let started = clock.now();
    let done = until_compacted(home, &clock);
    let (during, compacted) = steady.produce_while(done).await?;
    let took = clock.now() - started;
    let cpu = self::cpu(&running)?.saturating_sub(cpu);
    let left = topic.size(&client).await?;
    let resident = running.resident_bytes()?;
    let objects = until_deleted(&bucket, left, &clock).await;
    let records_left = topic.check(&client, &last_values).await?;

    let ratio = |percentile: fn(&millrace_perf::LatencySummary) -> f64| {
        let of = |latencies: &Latencies| latencies.summary().map(|summary| percentile(&summary));
        Some(of(&during)? / of(&before)?)
    };
    let p99_ratio = ratio(|summary| summary.p99).ok_or("no record of the producer was measured")?;
    let live = topic.live_bytes() + topic::ACTIVE_BYTES;
    let report = json!({
        "records": topic.records(),
        "live_keys": topic.keys(),
        "topic_mib": size >> 20,
        "baseline_mib_per_s": arguments.baseline_mib,
        "filled_s": filled.as_secs_f64(),
        "live_mib": live >> 20,
        "left_mib": left >> 20,
        "left_records": records_left,
        "compacted_s": took.as_secs_f64(),
        "compacted_mib_per_s": (size >> 20) as f64 / took.as_secs_f64(),
        "runs": compacted["runs"],
        "read_mib": mib(&compacted["read_bytes"]),
        "written_mib": mib(&compacted["written_bytes"]),
        "broker_cpu_s": cpu.as_secs_f64(),
        "resident_mib": resident >> 20,
        "bucket_mib_before": bytes_before >> 20,
        "bucket_mib_after": objects >> 20,
        "producer_before": described(&before),
        "producer_during": described(&during),
        "producer_p99_ratio": p99_ratio,
        "producer_avg_ratio": ratio(|summary| summary.mean),
        "idle_percent_before": idle_percent,
    });
    let mut failures = Sizes {
        live,
        whole: size,
        told: left,
        read: records_left * topic::RECORD_BYTES,
        bucket: objects,
    }
    .failures();
    if arguments.is_full && p99_ratio > P99_RATIO_MAX {
        failures.push(format!("the producer's p99 grew {p99_ratio:.1} times"));
    }
    Ok((report, failures))
}

fn bucket_of(arguments: &Arguments, home: &Home) -> PathBuf {
    let named = arguments.bucket.clone();
    named.unwrap_or_else(|| home.folder().join("objects"))
}

/// Bytes after the compaction.
struct Sizes {
    /// Live keys and the active part.
    live: u64,
    /// The topic before.
    whole: u64,
    /// What the broker says is left, and what can be read.
    told: u64,
    read: u64,
    bucket: u64,
}

impl Sizes {
    fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        let [live, told, read, bucket] =
            [self.live, self.told, self.read, self.bucket].map(|bytes| bytes >> 20);
        if self.read.max(self.told) > self.live + self.whole / LEFT_OVER_PART {
            failures.push(format!(
                "{told} MiB are left, and {read} MiB of them can be read, of {live} MiB that are live"
            ));
        }
        if self.told.abs_diff(self.read) > self.read / SIZE_ERROR_PART {
            failures.push(format!(
                "the broker says that {told} MiB are left, but {read} MiB can be read"
            ));
        }
        if self.bucket >= OBJECTS_FACTOR * self.told {
            failures.push(format!(
                "the bucket still holds {bucket} MiB: what was replaced is not deleted"
            ));
        }
        failures
    }
}

fn lines(baseline_mib: Option<usize>) -> String {
    let throttle = baseline_mib
        .map(|mib| format!("s3.network.baseline.bandwidth={}\n", mib << 20))
        .unwrap_or_default();
    format!("log.cleaner.backoff.ms=1000\ns3.object.delete.retention.ms=10000\n{throttle}")
}

fn client(home: &Home) -> Client {
    let at = home.address();
    let address = BrokerAddress::new(&at.ip().to_string(), at.port());
    Client::new(ClientConfig::with_addresses(vec![address]))
}

fn cpu(running: &Running) -> Result<Duration, String> {
    let pid = running.pid().to_string();
    cpu_time_of(&pid).ok_or_else(|| "the broker has ended".to_owned())
}

fn mib(bytes: &Value) -> Option<u64> {
    bytes.as_u64().map(|bytes| bytes >> 20)
}

fn described(latencies: &Latencies) -> Map<String, Value> {
    let mut shown = Map::new();
    describe(latencies, &mut shown);
    shown.insert("records".to_owned(), latencies.count().into());
    shown
}

/// Waits until everything is in the bucket: only what is there can be compacted.
async fn until_uploaded(home: &Home, clock: &SharedClock) -> Result<(), String> {
    let started = clock.now();
    loop {
        let pending = home.metric("millrace_upload_pending_bytes")?;
        if pending == 0.0 {
            return Ok(());
        }
        if clock.now() - started > PATIENCE {
            return Err(format!("{pending} bytes were never uploaded"));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Polls the broker for `time`, as often as [`until_compacted`] does, so that polling costs the producer the same in both phases.
async fn poll_for(home: &Arc<Home>, time: Duration) -> Result<(), String> {
    for _ in 0..time.as_millis() / POLL.as_millis() {
        status(home).await?;
    }
    Ok(())
}

/// What `/v1/status` says, after a pause.
async fn status(home: &Arc<Home>) -> Result<Value, String> {
    tokio::time::sleep(POLL).await;
    let home = Arc::clone(home);
    let status = tokio::task::spawn_blocking(move || home.get("/v1/status")).await;
    let status = status.map_err(|error| error.to_string())??;
    serde_json::from_str(&status).map_err(|error| error.to_string())
}

/// Waits until a compaction has ended and no other is due. Gives what `/v1/status` says about all of them.
async fn until_compacted(home: &Arc<Home>, clock: &SharedClock) -> Result<Value, String> {
    let started = clock.now();
    loop {
        let mut status = status(home).await?;
        let compaction = status["log_compaction"].take();
        if let Some(failure) = compaction["failures"].get(0) {
            return Err(format!("the compaction failed: {failure}"));
        }
        let is_idle = compaction["running"].is_null() && compaction["waiting_total"] == 0;
        if is_idle && compaction["last_run"]["outcome"] == "done" {
            return Ok(compaction);
        }
        if clock.now() - started > PATIENCE {
            return Err(format!("the topic is not compacted: {compaction}"));
        }
    }
}

/// Waits until the bucket holds little more than `left`, or a deletion should have come by. Gives the bucket's bytes.
async fn until_deleted(bucket: &Path, left: u64, clock: &SharedClock) -> u64 {
    let started = clock.now();
    loop {
        let (_, bytes) = files_below(bucket);
        if bytes < OBJECTS_FACTOR * left || clock.now() - started > DELETED_WITHIN {
            return bytes;
        }
        tokio::time::sleep(POLL).await;
    }
}
