//! Partitioners: the latency of records without keys, by how they are spread.

use std::error::Error;

use crate::rounds::{Bench, Section};

/// Trogdor's default, which the article's tests used.
const RECORD_BYTES: usize = 512;
const SECONDS: u64 = 60;
const QUICK_SECONDS: u64 = 10;
const WARMUP_SECONDS: u64 = 3;
const PARTITIONERS: [&str; 3] = ["sticky", "uniform_sticky", "round_robin"];

/// A rate and a topic.
#[derive(Debug, Clone, Copy)]
struct Load {
    key: &'static str,
    producers: usize,
    rate: u64,
    partitions: usize,
    linger_ms: u64,
}

pub(crate) const AT_16: &str = "3_producers_1000_per_s_16_partitions";
pub(crate) const LINGER_1000: &str = "1_producer_1000_per_s_16_partitions_linger_1000";

const LOADS: [Load; 5] = [
    load(AT_16, 3, 1_000, 16, 0),
    load(LINGER_1000, 1, 1_000, 16, 1_000),
    load("3_producers_10000_per_s_16_partitions", 3, 10_000, 16, 0),
    load("3_producers_10000_per_s_64_partitions", 3, 10_000, 64, 0),
    load("3_producers_10000_per_s_128_partitions", 3, 10_000, 128, 0),
];
/// Of these, a quick run has the first ones.
const QUICK_LOADS: usize = 3;

const fn load(
    key: &'static str,
    producers: usize,
    rate: u64,
    partitions: usize,
    linger_ms: u64,
) -> Load {
    Load {
        key,
        producers,
        rate,
        partitions,
        linger_ms,
    }
}

/// Measures all partitioners.
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let (loads, seconds) = if bench.options.quick {
        (&LOADS[..QUICK_LOADS], QUICK_SECONDS)
    } else {
        (&LOADS[..], SECONDS)
    };
    let broker = bench.start_broker()?;
    for round in 0..bench.options.rounds {
        for load in loads {
            for turn in 0..PARTITIONERS.len() {
                let partitioner = PARTITIONERS[(turn + round) % PARTITIONERS.len()];
                bench.wait_until_quiet();
                let broker_cpu = broker.cpu_seconds();
                let topic = format!("{}-{partitioner}-{round}", load.key);
                let arguments = format!(
                    "produce --topic {topic} --partitions {} --producers {} --throughput {} \
                     --record-size {RECORD_BYTES} --linger-ms {} --partitioner {partitioner} \
                     --duration {seconds} --warmup {WARMUP_SECONDS}",
                    load.partitions, load.producers, load.rate, load.linger_ms
                );
                let report = bench.perf(&broker.address(), &arguments)?;
                let latency = |name: &str| report["produced"]["latency_ms"][name].as_f64();
                let client = |name: &str| report["client"][name].as_f64();
                let fields = [
                    ("p50_ms", latency("p50")),
                    ("p99_ms", latency("p99")),
                    ("requests", client("produce_requests")),
                    ("records_per_batch", client("records_per_batch")),
                    ("client_cpu_s", client("cpu_seconds")),
                    ("broker_cpu_s", Some(broker.cpu_seconds() - broker_cpu)),
                    (
                        "records_per_s",
                        report["produced"]["records_per_second"].as_f64(),
                    ),
                ];
                let fields = fields
                    .into_iter()
                    .map(|(name, value)| Some((name, value?)))
                    .collect::<Option<_>>()
                    .ok_or_else(|| format!("a figure is missing in {report}"))?;
                bench
                    .report
                    .add(Section::Partitioner, load.key, partitioner, fields);
            }
        }
    }
    Ok(())
}
