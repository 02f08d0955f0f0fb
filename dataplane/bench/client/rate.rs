//! A run at a fixed rate of one of the clients, and what it showed.

use std::error::Error;

use crate::{
    peers::{Peer, Shown, shown},
    report::Fields,
    rounds::Bench,
    targets::{Target, role},
};

/// Trogdor's default, which the article's tests used.
const RECORD_BYTES: usize = 512;
/// Trogdor's `ProduceBenchWorker` hands over so many milliseconds' records at once.
pub(crate) const TROGDOR_BURST_MS: u64 = 100;

/// A JVM's first minute is unlike all others.
const WARM_UP_SECONDS: u64 = 60;
const QUICK_WARM_UP_SECONDS: u64 = 20;

/// What is produced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) producers: u64,
    /// Records per second of each producer.
    pub(crate) per_second: u64,
    /// The records of so many milliseconds are due at once; 0 is evenly spaced.
    pub(crate) burst_ms: u64,
    pub(crate) topics: usize,
    pub(crate) partitions: usize,
    pub(crate) linger_ms: u64,
    pub(crate) keys: &'static str,
}

impl Rate {
    /// The article's table: four topics, no linger, no keys.
    pub(crate) const fn article(producers: u64, per_second: u64, partitions: usize) -> Self {
        Self {
            producers,
            per_second,
            burst_ms: TROGDOR_BURST_MS,
            topics: 4,
            partitions,
            linger_ms: 0,
            keys: "none",
        }
    }

    pub(crate) const fn partitions(mut self, partitions: usize) -> Self {
        self.partitions = partitions;
        self
    }

    pub(crate) const fn per_second(mut self, records: u64) -> Self {
        self.per_second = records;
        self
    }

    pub(crate) const fn one_topic(mut self) -> Self {
        self.topics = 1;
        self
    }

    pub(crate) const fn evenly(mut self) -> Self {
        self.burst_ms = 0;
        self
    }

    pub(crate) const fn linger(mut self, ms: u64) -> Self {
        self.linger_ms = ms;
        self
    }

    pub(crate) const fn keys(mut self, keys: &'static str) -> Self {
        self.keys = keys;
        self
    }
}

/// Who produces.
#[derive(Debug, Clone)]
pub(crate) enum Client {
    /// Ours, with this partitioner.
    Ours(&'static str),
    /// With its default partitioner.
    Peer(Peer),
}

/// How long, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) measured: u64,
    pub(crate) warmup: u64,
}

/// Uses a target that is slow until its code is compiled and its disk has what it needs.
pub(crate) fn warm_up(bench: &mut Bench<'_>, target: &Target) -> Result<(), Box<dyn Error>> {
    let (client, rate) = (Client::Ours("round_robin"), Rate::article(3, 1_000, 16));
    let times = Times {
        measured: if bench.options.quick {
            QUICK_WARM_UP_SECONDS
        } else {
            WARM_UP_SECONDS
        },
        warmup: 0,
    };
    run(bench, target, &client, rate, times).map(|_| ())
}

/// Runs it in topics that all runs with so many partitions share: new ones would have Kafka's nodes
/// make logs while they are measured.
pub(crate) fn run(
    bench: &mut Bench<'_>,
    target: &Target,
    client: &Client,
    rate: Rate,
    times: Times,
) -> Result<Fields, Box<dyn Error>> {
    let name = |index| format!("rate-{}-of-{}x{}", index, rate.topics, rate.partitions);
    let topics = (0..rate.topics).map(name).collect::<Vec<_>>().join(",");
    target.create(&topics, rate.partitions)?;
    bench.wait_until_quiet();
    let arguments = [
        "rate".to_owned(),
        target.address(),
        topics,
        rate.partitions.to_string(),
        rate.producers.to_string(),
        rate.per_second.to_string(),
        rate.burst_ms.to_string(),
        times.measured.to_string(),
        times.warmup.to_string(),
        RECORD_BYTES.to_string(),
        rate.linger_ms.to_string(),
        rate.keys.to_owned(),
    ];
    let broker_cpu = target.cpu_seconds();
    let shown = match client {
        Client::Ours(partitioner) => shown(role(&[]).args(arguments).arg(partitioner))?,
        Client::Peer(peer) => peer.run(&arguments)?,
    };
    let broker_cpu = target.cpu_seconds() - broker_cpu;
    let expected = rate.producers * rate.per_second * times.measured;
    if shown.number("records")? != expected as f64 {
        let records = shown.number("records")?;
        return Err(format!("{records} of {expected} records were acknowledged").into());
    }
    fields(&shown, broker_cpu, times)
}

fn fields(shown: &Shown, broker_cpu: f64, times: Times) -> Result<Fields, Box<dyn Error>> {
    let seconds = (times.measured + times.warmup) as f64;
    Ok(vec![
        ("p50_ms", shown.number("p50_ms")?),
        ("p99_ms", shown.number("p99_ms")?),
        ("requests_per_s", shown.number("requests")? / seconds),
        ("records_per_batch", shown.number("records_per_batch")?),
        ("client_cpu_s", shown.cpu.as_secs_f64()),
        ("broker_cpu_s", broker_cpu),
        ("spread_percent", spread_percent(shown)?),
    ])
}

/// How far the partition that got most, or least, is from the mean.
fn spread_percent(shown: &Shown) -> Result<f64, String> {
    let records = shown.json["by_partition"].as_array();
    let records: Option<Vec<f64>> =
        records.and_then(|all| all.iter().map(serde_json::Value::as_f64).collect());
    let records = records.ok_or_else(|| format!("no by_partition in {}", shown.json))?;
    let mean = records.iter().sum::<f64>() / records.len() as f64;
    let farthest = records
        .iter()
        .map(|one| (one - mean).abs())
        .fold(0.0, f64::max);
    Ok(farthest / mean * 100.0)
}
