//! The light load generator as a process, against a scripted broker and against the bare sink.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use crate::scripted_broker::{Fault, start};
use serde_json::Value;

/// Small, so that requests end inside of what the socket takes at once, and are many.
const SMALL: [&str; 4] = ["--record-bytes", "100", "--batch-bytes", "4096"];

fn program(role: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_bench-write"));
    program.args(["run", role]);
    program
}

fn light(address: SocketAddr, arguments: &[&str]) -> Output {
    let mut light = program("light");
    light.args(["--bootstrap", &address.to_string()]);
    light.args(arguments).output().expect("starts")
}

fn shown(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

#[test]
fn all_records_arrive_once_in_order_and_legal() {
    let (address, broker) = start(Fault::None);
    let load = ["--records", "10000", "--partitions", "3", "--idempotent"];
    let shown = shown(&light(address, &[&load[..], &SMALL].concat()));
    let seen = broker.join().expect("all batches are legal");
    assert_eq!(seen.records.values().sum::<i64>(), 10_000);
    assert_eq!(seen.records.len(), 3);
    assert_eq!(seen.sequences[&0] as i64, seen.records[&0]);
    assert_eq!(shown["records"], 10_000);
    assert_eq!(shown["requests"], seen.produces);
    assert_eq!(shown["errors"], 0);
}

#[test]
fn a_rate_is_kept_and_its_records_are_not_held_back() {
    let (address, broker) = start(Fault::None);
    let load = ["--records", "500", "--throughput-mb", "0.095367431640625"];
    let shown = shown(&light(address, &[&load[..], &SMALL].concat()));
    broker.join().expect("all batches are legal");
    // 1,000 a second: the last one comes due at 0.499 s.
    let seconds = shown["seconds"].as_f64().expect("a number");
    assert!(seconds >= 0.499, "{shown}");
    // The first record of a batch waits for one linger; those that join it wait less.
    let [p50_ms, p99_ms] = ["p50_ms", "p99_ms"].map(|key| shown[key].as_f64().expect("a number"));
    assert!(p99_ms >= 1.0 && p50_ms < 100.0, "about one linger: {shown}");
}

#[test]
fn whatever_a_broker_does_wrong_fails_the_run() {
    let cases = [
        (Fault::Refuse(20, 87), "error 87"),
        (Fault::Skip(30), "not at"),
        (Fault::Confuse(9), "in place of"),
        (Fault::Close(40), "the connection"),
    ];
    for (fault, reason) in cases {
        let (address, broker) = start(fault);
        let output = light(address, &[&["--records", "5000"][..], &SMALL].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{fault:?}");
        assert!(errors.contains(reason), "{fault:?}: {errors}");
        broker.join().expect("all batches are legal");
    }
}

/// A sink for so many connections, and its address.
fn sink(
    file: &Path,
    connections: u32,
    block: &str,
) -> (Child, BufReader<impl std::io::Read>, SocketAddr) {
    let mut sink = program("sink");
    sink.arg("--file").arg(file);
    sink.args(["--bytes", "4194304", "--block", block, "--depth", "4"]);
    sink.args(["--connections", &connections.to_string()]);
    let mut sink = sink.stdout(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(sink.stdout.take().expect("is piped"));
    let mut ready = String::new();
    lines.read_line(&mut ready).expect("says that it is ready");
    let port = ready.trim().strip_prefix("ready ").expect("its port");
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().expect("a number")));
    (sink, lines, address)
}

#[test]
fn the_sink_answers_what_it_has_written() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sink");
    // There may be one of an earlier run.
    let _ = fs::remove_file(&file);
    let (mut sink, mut lines, address) = sink(&file, 2, "65536");
    // Frames that share blocks, and, in a ring that goes round, frames larger than a block.
    for load in [
        ["--record-bytes", "1000", "--batch-bytes", "4096"],
        ["--record-bytes", "50000", "--batch-bytes", "300000"],
    ] {
        let records = ["--sink", "--records", "300"];
        let shown = shown(&light(address, &[&records[..], &load].concat()));
        assert_eq!(shown["records"], 300);
    }
    let mut last = String::new();
    lines.read_line(&mut last).expect("shows its figures");
    assert!(sink.wait().expect("ends").success());
    let figures: Value = serde_json::from_str(&last).expect("JSON");
    assert_eq!(figures["frames"], 100 + 60);
    let bytes = figures["bytes"].as_u64().expect("a number");
    assert!(bytes > 300 * 51_000, "{figures}");

    // The file holds whole frames, each at a block's start or right behind another one.
    let written = fs::read(&file).expect("is there");
    assert_eq!(written.len(), 4 << 20);
    let length = u32::from_be_bytes(*written.first_chunk().expect("bytes")) as usize;
    let produce = &written[4..][..4];
    assert_eq!(
        produce,
        [0, 0, 0, 8],
        "a Produce of version 8 is what light sends"
    );
    assert!(length > 250_000 && length < 300_000, "{length}");
    fs::remove_file(&file).expect("goes");
}
