//! How fast the log is, beside how fast its device is: both with the same sizes and depth.
//!
//! `cargo run --release -p millrace-wal --example throughput -- FOLDER RECORD_BYTES IN_FLIGHT SECONDS`

use std::{collections::VecDeque, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_time::{SharedClock, SystemClock};
use millrace_wal::{
    AlignedBuf, BLOCK_BYTES, Wal, WalConfig,
    device::{Backend, BlockDevice, DeviceConfig, open_device},
};

const CAPACITY: u64 = 1 << 30;

struct Load {
    record_bytes: usize,
    in_flight: usize,
    duration: Duration,
}

/// What was done in how long, and how long each took.
struct Outcome {
    bytes: u64,
    took: Duration,
    latencies: Vec<Duration>,
}

impl Outcome {
    fn print(mut self, what: &str) {
        self.latencies.sort_unstable();
        let at = |part: f64| {
            let n = ((self.latencies.len() as f64 * part) as usize).min(self.latencies.len() - 1);
            self.latencies[n].as_secs_f64() * 1e3
        };
        println!(
            "{what:<28} {:>8.0} MB/s {:>8.0} /s   p50 {:>7.2} ms   p99 {:>7.2} ms   max {:>7.2} ms",
            self.bytes as f64 / 1e6 / self.took.as_secs_f64(),
            self.latencies.len() as f64 / self.took.as_secs_f64(),
            at(0.5),
            at(0.99),
            at(1.0),
        );
    }
}

/// Keeps `in_flight` operations going, in order, until the time is over.
async fn run<F, S>(load: &Load, clock: &SharedClock, mut start: S) -> Outcome
where
    F: Future<Output = ()> + Send + 'static,
    S: AsyncFnMut() -> F,
{
    let began = clock.now();
    let mut going = VecDeque::new();
    let mut outcome = Outcome {
        bytes: 0,
        took: Duration::ZERO,
        latencies: Vec::new(),
    };
    while clock.now() - began < load.duration || !going.is_empty() {
        let more = clock.now() - began < load.duration;
        if more && going.len() < load.in_flight {
            let (sent, operation, clock) = (clock.now(), start().await, Arc::clone(clock));
            going.push_back(tokio::spawn(async move {
                operation.await;
                clock.now() - sent
            }));
            continue;
        }
        if let Some(oldest) = going.pop_front() {
            outcome.latencies.push(oldest.await.expect("runs"));
            outcome.bytes += load.record_bytes as u64;
        }
    }
    outcome.took = clock.now() - began;
    outcome
}

#[expect(
    clippy::async_yields_async,
    reason = "operations start in order and end later"
)]
async fn device_alone(device: Arc<dyn BlockDevice>, load: &Load, clock: &SharedClock) -> Outcome {
    let len = load.record_bytes.next_multiple_of(BLOCK_BYTES as usize);
    let mut at = 0;
    run(load, clock, async || {
        if at + len as u64 > CAPACITY {
            at = 0;
        }
        let write = device.write(at, AlignedBuf::zeroed(len));
        at += len as u64;
        async move { write.await.expect("writes") }
    })
    .await
}

#[expect(
    clippy::async_yields_async,
    reason = "operations start in order and end later"
)]
async fn the_log(device: Arc<dyn BlockDevice>, load: &Load, clock: &SharedClock) -> Outcome {
    let opened = Wal::open(device, WalConfig::new(1), Arc::clone(clock)).await;
    let (wal, _) = opened.expect("opens");
    let record = Bytes::from(vec![0x5A; load.record_bytes]);
    let outcome = run(load, clock, async || {
        let room = wal.reserve(record.len()).await.expect("room");
        let append = wal.append(room, std::slice::from_ref(&record));
        let wal = wal.clone();
        async move {
            let end = append.range.end;
            append.await.expect("durable");
            wal.trim(end.saturating_sub(CAPACITY / 2), 0);
        }
    })
    .await;
    wal.close().await.expect("closes");
    outcome
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, record_bytes, in_flight, seconds] = &arguments[..] else {
        eprintln!("usage: throughput FOLDER RECORD_BYTES IN_FLIGHT SECONDS");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let load = Load {
        record_bytes: number(record_bytes) as usize,
        in_flight: number(in_flight) as usize,
        duration: Duration::from_secs(number(seconds)),
    };
    let clock = SystemClock::shared();
    let dir = tempfile::tempdir_in(Path::new(folder)).expect("a folder");
    for backend in [Backend::ThreadPool, Backend::IoUring] {
        let config = DeviceConfig {
            backend,
            ..DeviceConfig::new(CAPACITY)
        };
        for what in ["the device alone", "the log"] {
            let path = dir.path().join("wal");
            match open_device(&path, &config) {
                Ok(device) if what == "the log" => the_log(device, &load, &clock).await,
                Ok(device) => device_alone(device, &load, &clock).await,
                Err(error) => {
                    println!("{backend:?}: {error}");
                    break;
                }
            }
            .print(&format!("{backend:?}, {what}"));
            std::fs::remove_file(&path).expect("is there");
        }
    }
}
