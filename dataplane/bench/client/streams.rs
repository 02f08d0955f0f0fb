//! Streams with a slow stage: a backlog in a hundred partitions, ten of which are processed slowly.

use std::error::Error;

use crate::{
    flow::numbers,
    peers::{JAVA_2_3, JAVA_4, Shown, shown},
    report::Fields,
    rounds::{Bench, Section},
    targets::{Kind, role},
};

const TOPIC: &str = "streams";
/// The article's partitions and record size; of its records a twentieth.
const PARTITIONS: usize = 100;
const RECORDS: u64 = 500;
const RECORD_BYTES: usize = 5_000;
/// With a slow stage, which takes 10 s for its partition.
const SLOW_PARTITIONS: usize = 10;
const SLOW_MS: u64 = 20;
const ROUNDS_MAX: usize = 3;
const MIB: f64 = (1 << 20) as f64;

pub(crate) const LOAD: &str = "10_of_100_partitions_slow";

/// Measures all contenders.
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let target = bench.start(Kind::Millrace)?;
    let address = target.address();
    let size = [PARTITIONS as u64, RECORDS, RECORD_BYTES as u64].map(|number| number.to_string());
    let filled = shown(role(&["fill", &address, TOPIC]).args(&size))?;
    let backlog: f64 = numbers(&filled.json["bytes_by_partition"]).iter().sum();
    let mut contenders = vec![
        ("ours", None),
        ("java_2.3.1", Some(bench.java(JAVA_2_3)?)),
        ("java_4", Some(bench.java(JAVA_4)?)),
    ];
    let arguments: Vec<String> = ["stream", &address, TOPIC]
        .map(str::to_owned)
        .into_iter()
        .chain([PARTITIONS as u64, RECORDS, SLOW_PARTITIONS as u64, SLOW_MS].map(|n| n.to_string()))
        .collect();
    for _ in 0..bench.options.rounds.min(ROUNDS_MAX) {
        for (name, peer) in &contenders {
            bench.wait_until_quiet();
            let broker_cpu = target.cpu_seconds();
            let shown = match peer {
                None => shown(role(&[]).args(&arguments))?,
                Some(peer) => peer.run(&arguments)?,
            };
            let broker_cpu = target.cpu_seconds() - broker_cpu;
            let fields = fields(&shown, backlog, broker_cpu)?;
            bench.report.add(Section::Streams, LOAD, name, fields);
        }
        contenders.rotate_left(1);
    }
    Ok(())
}

fn fields(shown: &Shown, backlog: f64, broker_cpu: f64) -> Result<Fields, Box<dyn Error>> {
    let (records, seconds) = (shown.number("records")?, shown.number("seconds")?);
    if records != (PARTITIONS as u64 * RECORDS) as f64 {
        return Err(format!("{records} records were delivered: {}", shown.json).into());
    }
    let mut fields = vec![
        ("seconds", seconds),
        ("records_per_s", records / seconds),
        ("fetch_requests", shown.number("fetch_requests")?),
        (
            "received_per_delivered_byte",
            shown.number("received_bytes")? / shown.number("bytes")?,
        ),
        ("client_cpu_s", shown.cpu.as_secs_f64()),
        ("broker_cpu_s", broker_cpu),
        (
            "peak_memory_mib",
            shown.number("peak_memory_kib")? / 1_024.0,
        ),
    ];
    // Only ours counts them.
    if let Ok(fetched) = shown.number("fetched_bytes") {
        fields.push(("fetched_per_delivered_byte", fetched / backlog));
        fields.push((
            "buffered_mib_max",
            shown.number("buffered_bytes_max")? / MIB,
        ));
        fields.push((
            "buffered_mib_bound",
            shown.number("buffered_bytes_bound")? / MIB,
        ));
    }
    Ok(fields)
}
