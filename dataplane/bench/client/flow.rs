//! Flow control: 10 partitions, 9 of them, chosen at random, paused before each poll for one record.

use std::error::Error;

use serde_json::Value;

use crate::{
    peers::{JAVA_2_3, JAVA_4, Peer, Shown, shown},
    report::Fields,
    rounds::{Bench, Section},
    targets::{Kind, role},
};

const TOPIC: &str = "flow";
const PARTITIONS: usize = 10;
/// Of each partition: more than the buffers of a consumer hold. A partition that is read to its end is
/// read again.
const RECORDS: u64 = 200_000;
const RECORD_BYTES: usize = 100;
/// The article's time.
const SECONDS: f64 = 60.0;
const QUICK_SECONDS: f64 = 10.0;
/// Of a minute for each contender.
const ROUNDS_MAX: usize = 3;
pub(crate) const LOAD: &str = "9_of_10_paused";

/// Measures all contenders.
pub(crate) fn measure(bench: &mut Bench<'_>) -> Result<(), Box<dyn Error>> {
    let seconds = if bench.options.quick {
        QUICK_SECONDS
    } else {
        SECONDS
    };
    let broker = bench.start(Kind::Millrace)?;
    let address = broker.address();
    let size = [PARTITIONS as u64, RECORDS, RECORD_BYTES as u64].map(|number| number.to_string());
    let filled = shown(role(&["fill", &address, TOPIC]).args(&size))?;
    let bytes = numbers(&filled.json["bytes_by_partition"]);
    let mut peers = vec![
        ("java_2.3.1", bench.java(JAVA_2_3)?),
        ("java_4", bench.java(JAVA_4)?),
    ];
    peers.extend(bench.librdkafka().map(|peer| ("librdkafka", peer)));
    for round in 0..bench.options.rounds.min(ROUNDS_MAX) {
        for turn in 0..=peers.len() {
            let turn = (turn + round) % (peers.len() + 1);
            bench.wait_until_quiet();
            let broker_cpu = broker.cpu_seconds();
            let (name, shown) = match peers.get(turn) {
                Some((name, peer)) => (*name, theirs(peer, &address, seconds)?),
                None => ("ours", ours(&address, seconds)?),
            };
            let mut fields = fields(&shown, broker.cpu_seconds() - broker_cpu)?;
            if name == "ours" {
                let passes = numbers(&shown.json["passes"]);
                let expected: f64 = bytes.iter().zip(&passes).map(|(one, n)| one * n).sum();
                let fetched = shown.number("fetched_bytes")?;
                fields.push(("refetched_bytes", fetched - expected));
                fields.push(("discarded_bytes", shown.number("discarded_bytes")?));
                fields.push((
                    "buffered_mib_max",
                    shown.number("buffered_bytes_max")? / MIB,
                ));
            }
            bench.report.add(Section::Flow, LOAD, name, fields);
        }
    }
    Ok(())
}

const MIB: f64 = (1 << 20) as f64;

fn ours(address: &str, seconds: f64) -> Result<Shown, Box<dyn Error>> {
    shown(role(&["flow", address, TOPIC]).args([seconds.to_string(), RECORDS.to_string()]))
}

fn theirs(peer: &Peer, address: &str, seconds: f64) -> Result<Shown, Box<dyn Error>> {
    let arguments = ["flow", address, TOPIC].map(str::to_owned);
    let more = [
        PARTITIONS.to_string(),
        seconds.to_string(),
        RECORDS.to_string(),
    ];
    peer.run(&[&arguments[..], &more].concat())
}

fn fields(shown: &Shown, broker_cpu: f64) -> Result<Fields, Box<dyn Error>> {
    let records = shown.number("records")?;
    let minute = SECONDS / shown.number("seconds")?;
    Ok(vec![
        ("records_per_60_s", records * minute),
        (
            "fetch_requests_per_60_s",
            shown.number("fetch_requests")? * minute,
        ),
        (
            "received_per_delivered_byte",
            shown.number("received_bytes")? / shown.number("bytes")?.max(1.0),
        ),
        ("client_cpu_s", shown.cpu.as_secs_f64()),
        ("broker_cpu_s", broker_cpu),
    ])
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    let numbers = value.as_array().into_iter().flatten();
    numbers.filter_map(Value::as_f64).collect()
}
