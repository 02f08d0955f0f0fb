//! Raw speed: as much as possible through one producer, then one consumer.

use std::error::Error;

use serde_json::Value;

use crate::{
    allocations::Counter,
    peers::{JAVA_4, Peer, Shown},
    report::Fields,
    rounds::{Bench, Section},
    targets::Broker,
};

/// Settings that are the same for all.
const BATCH_BYTES: usize = 512 * 1024;
const LINGER_MS: usize = 5;
const BUFFER_BYTES: usize = 64 << 20;
const BYTES: u64 = 1 << 30;
const QUICK_BYTES: u64 = 512 << 20;
/// Of records of 100 B, which take longer.
const SMALL_BYTES: u64 = 256 << 20;
/// Of a run whose allocations are counted.
const COUNTED_BYTES: u64 = 128 << 20;
const GIB: f64 = (1 << 30) as f64;
const MIB: f64 = (1 << 20) as f64;

/// Records and a topic.
#[derive(Debug, Clone, Copy)]
struct Load {
    key: &'static str,
    record_bytes: usize,
    partitions: usize,
}

/// The loads of the main figures.
pub(crate) const MAIN: [&str; 2] = ["1_kib_1_partition", "64_kib_1_partition"];
const LOADS: [Load; 6] = [
    load(MAIN[0], 1 << 10, 1),
    load(MAIN[1], 64 << 10, 1),
    load("1_kib_16_partitions", 1 << 10, 16),
    load("64_kib_16_partitions", 64 << 10, 16),
    load("100_b_1_partition", 100, 1),
    load("100_b_16_partitions", 100, 16),
];
const QUICK_LOADS: usize = 2;
/// Of loads that no main figure needs.
const OTHER_ROUNDS_MAX: usize = 3;

const fn load(key: &'static str, record_bytes: usize, partitions: usize) -> Load {
    Load {
        key,
        record_bytes,
        partitions,
    }
}

/// Somebody who produces and consumes.
#[derive(Debug, Clone)]
enum Contender {
    Ours,
    Peer(&'static str, Peer),
}

/// Measures all contenders.
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let (loads, bytes) = if bench.options.quick {
        (&LOADS[..QUICK_LOADS], QUICK_BYTES)
    } else {
        (&LOADS[..], BYTES)
    };
    let mut contenders = vec![
        Contender::Ours,
        Contender::Peer("java_4", bench.java(JAVA_4)?),
    ];
    contenders.extend(
        bench
            .librdkafka()
            .map(|peer| Contender::Peer("librdkafka", peer)),
    );
    for load in loads {
        let bytes = if load.record_bytes < 1 << 10 {
            SMALL_BYTES
        } else {
            bytes
        };
        let records = bytes / load.record_bytes as u64;
        let rounds_max = if MAIN.contains(&load.key) {
            usize::MAX
        } else {
            OTHER_ROUNDS_MAX
        };
        for round in 0..bench.options.rounds.min(rounds_max) {
            // A broker of its own: its log is not yet full of the last load's uploads.
            let broker = bench.start_broker()?;
            contenders.rotate_left(usize::from(round > 0));
            for contender in &contenders {
                let name = contender.name();
                let topic = format!("{}-{name}", load.key);
                broker.create_topic(&topic, load.partitions)?;
                let run = Run {
                    broker: &broker,
                    topic: &topic,
                    load: *load,
                    records,
                    environment: &[],
                };
                for (section, does) in BOTH {
                    bench.wait_until_quiet();
                    let broker_cpu = broker.cpu_seconds();
                    let mut fields = does(contender, bench, &run)?;
                    let broker_cpu = broker.cpu_seconds() - broker_cpu;
                    fields.push(("broker_cpu_s_per_gib", broker_cpu / (bytes as f64 / GIB)));
                    bench.report.add(section, load.key, name, fields);
                }
            }
        }
        count_allocations(bench, &contenders, *load)?;
    }
    Ok(())
}

/// Of ours and librdkafka; a JVM does not allocate so.
fn count_allocations(
    bench: &mut Bench<'_>,
    contenders: &[Contender],
    load: Load,
) -> Result<(), Box<dyn Error>> {
    let counter = Counter::new(&bench.data)?;
    let environment = counter.environment();
    let broker = bench.start_broker()?;
    let records = COUNTED_BYTES / load.record_bytes as u64;
    for contender in contenders {
        let name = contender.name();
        if matches!(contender, Contender::Peer(_, Peer::Java(_))) {
            continue;
        }
        let topic = format!("{}-{name}-allocations", load.key);
        broker.create_topic(&topic, load.partitions)?;
        let run = Run {
            broker: &broker,
            topic: &topic,
            load,
            records,
            environment: &environment,
        };
        for (section, does) in BOTH {
            does(contender, bench, &run)?;
            let allocations = counter.take()? / records as f64;
            let fields = vec![("allocations_per_record", allocations)];
            bench.report.add(section, load.key, name, fields);
        }
    }
    Ok(())
}

const BOTH: [(Section, Doing); 2] = [
    (Section::Produce, Contender::produce),
    (Section::Consume, Contender::consume),
];

type Doing = fn(&Contender, &Bench<'_>, &Run<'_>) -> Result<Fields, Box<dyn Error>>;

/// One contender's load.
struct Run<'a> {
    broker: &'a Broker,
    topic: &'a str,
    load: Load,
    records: u64,
    environment: &'a [(&'static str, String)],
}

impl Contender {
    fn name(&self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Peer(name, _) => name,
        }
    }

    fn produce(&self, bench: &Bench<'_>, run: &Run<'_>) -> Result<Fields, Box<dyn Error>> {
        let record_bytes = run.load.record_bytes;
        match self {
            Self::Ours => {
                let arguments = format!(
                    "produce --topic {} --num-records {} --record-size {record_bytes} --throughput -1 \
                     --batch-size {BATCH_BYTES} --linger-ms {LINGER_MS} --buffer-memory {BUFFER_BYTES}",
                    run.topic, run.records
                );
                let report = bench.perf(&run.broker.address(), &arguments, run.environment)?;
                of_report(&report, "produced", run)
            }
            Self::Peer(_, peer) => {
                let arguments = [
                    "produce".to_owned(),
                    run.broker.address(),
                    run.topic.to_owned(),
                    run.records.to_string(),
                    record_bytes.to_string(),
                    BATCH_BYTES.to_string(),
                    LINGER_MS.to_string(),
                    BUFFER_BYTES.to_string(),
                ];
                let shown = peer.run_in(run.environment, &arguments)?;
                of_shown(&shown, run)
            }
        }
    }

    fn consume(&self, bench: &Bench<'_>, run: &Run<'_>) -> Result<Fields, Box<dyn Error>> {
        match self {
            Self::Ours => {
                let arguments = format!("consume --topic {}", run.topic);
                let report = bench.perf(&run.broker.address(), &arguments, run.environment)?;
                of_report(&report, "consumed", run)
            }
            Self::Peer(_, peer) => {
                let arguments = [
                    "consume".to_owned(),
                    run.broker.address(),
                    run.topic.to_owned(),
                    run.load.partitions.to_string(),
                    run.records.to_string(),
                ];
                let shown = peer.run_in(run.environment, &arguments)?;
                of_shown(&shown, run)
            }
        }
    }
}

fn of_report(report: &Value, part: &str, run: &Run<'_>) -> Result<Fields, Box<dyn Error>> {
    let missing = || format!("a figure is missing in {report}");
    let records = report[part]["records"].as_u64();
    must_be_all(records.ok_or_else(missing)? as f64, run)?;
    let rate = report[part]["bytes_per_second"].as_f64();
    let cpu = report["process_cpu_seconds"].as_f64();
    let bytes = report[part]["bytes"].as_f64().ok_or_else(missing)?;
    Ok(vec![
        ("mib_per_s", rate.ok_or_else(missing)? / MIB),
        (
            "client_cpu_s_per_gib",
            cpu.ok_or_else(missing)? / (bytes / GIB),
        ),
    ])
}

fn of_shown(shown: &Shown, run: &Run<'_>) -> Result<Fields, Box<dyn Error>> {
    must_be_all(shown.number("records")?, run)?;
    let bytes = shown.number("bytes")?;
    Ok(vec![
        ("mib_per_s", bytes / MIB / shown.number("seconds")?),
        (
            "client_cpu_s_per_gib",
            shown.cpu.as_secs_f64() / (bytes / GIB),
        ),
    ])
}

fn must_be_all(records: f64, run: &Run<'_>) -> Result<(), String> {
    if records == run.records as f64 {
        return Ok(());
    }
    Err(format!("{records} instead of {} records", run.records))
}
