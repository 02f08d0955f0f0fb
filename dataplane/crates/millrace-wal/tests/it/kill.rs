//! `kill -9` of a real process that writes with real direct I/O: every record that it had said is
//! acknowledged is found by the next opening, with its bytes, in order.
//!
//! `MILLRACE_KILLS=500` kills that often.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use millrace_time::{Random, SeededRandom, SystemClock, SystemRandom};
use millrace_wal::{
    Wal, WalConfig, WalRange,
    device::{Backend, DeviceConfig, open_device},
};

/// Kills of an ordinary run.
const KILLS: u64 = 6;

const CAPACITY: u64 = 32 << 20;

/// Set for the process that is killed: the log's path, and the number of its first record.
const VICTIM: &str = "MILLRACE_KILL_VICTIM";

async fn open(path: &Path) -> (Wal, Vec<(WalRange, Bytes)>) {
    let config = DeviceConfig {
        backend: Backend::Auto,
        ..DeviceConfig::new(CAPACITY)
    };
    let device = open_device(path, &config).expect("opens");
    let config = WalConfig {
        chunk_bytes_max: 64 * 1024,
        ..WalConfig::new(1)
    };
    let opened = Wal::open(device, config, SystemClock::shared()).await;
    let (wal, recovered) = opened.expect("recovers");
    let ranges: Vec<_> = recovered.iter().map(|record| record.range).collect();
    let payloads = wal.read_many(&ranges).await.expect("reads");
    (wal, ranges.into_iter().zip(payloads).collect())
}

/// A record's bytes follow from its number.
fn payload(number: u64) -> Bytes {
    let random = SeededRandom::shared(number);
    let words = if number.is_multiple_of(50) {
        20_000
    } else {
        random.below(300)
    };
    let mut payload = number.to_le_bytes().to_vec();
    (0..words).for_each(|_| payload.extend(random.next_u64().to_le_bytes()));
    payload.into()
}

fn number_of(payload: &[u8]) -> u64 {
    u64::from_le_bytes(*payload.first_chunk().expect("starts with its number"))
}

/// What the killed process does: append without end, and say which records are acknowledged.
async fn append_until_killed(path: &Path, first: u64) {
    let (wal, recovered) = open(path).await;
    if let Some((last, _)) = recovered.last() {
        wal.trim(last.end, 0);
    }
    let wal = Arc::new(wal);
    let gate = Arc::new(tokio::sync::Semaphore::new(64));
    for number in first.. {
        let permit = Arc::clone(&gate).acquire_owned().await.expect("open");
        let payload = payload(number);
        let room = wal.reserve(payload.len()).await.expect("room");
        let append = wal.append(room, &[payload]);
        let wal = Arc::clone(&wal);
        tokio::spawn(async move {
            let end = append.range.end;
            append.await.expect("durable");
            let mut out = std::io::stdout().lock();
            writeln!(out, "acked {number}").expect("the parent listens");
            drop(permit);
            // Some room is given back, so that the ring wraps.
            wal.trim(end.saturating_sub(CAPACITY / 4), 0);
        });
    }
}

/// Not a test of its own: the test below runs this binary again, and kills it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Ok(order) = std::env::var(VICTIM) else {
        return;
    };
    let (first, path) = order.split_once(' ').expect("a number and a path");
    append_until_killed(Path::new(path), first.parse().expect("a number")).await;
}

/// Runs the victim for a while and kills it; returns the numbers that it said are acknowledged.
fn run_and_kill(path: &Path, first: u64, patience: Duration) -> Vec<u64> {
    let mut victim = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "kill::victim", "--nocapture"])
        .env(VICTIM, format!("{first} {}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("starts");
    let mut out = BufReader::new(victim.stdout.take().expect("piped"));
    let mut acked = Vec::new();
    let mut line = String::new();
    while acked.is_empty() && out.read_line(&mut line).expect("reads") > 0 {
        acked.extend(number_in(&line));
        line.clear();
    }
    let killer = std::thread::spawn(move || {
        std::thread::park_timeout(patience);
        victim.kill().expect("dies");
        victim.wait().expect("is gone");
    });
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("reads");
    killer.join().expect("killed");
    acked.extend(rest.lines().filter_map(number_in));
    acked
}

/// A line that the kill cut short says nothing.
fn number_in(line: &str) -> Option<u64> {
    line.trim().strip_prefix("acked ")?.parse().ok()
}

#[tokio::test]
async fn no_kill_costs_an_acknowledged_record() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let kills = std::env::var("MILLRACE_KILLS")
        .ok()
        .and_then(|text| text.parse().ok());
    let (mut first, mut total) = (0, 0);
    for kill in 0..kills.unwrap_or(KILLS) {
        let patience = Duration::from_millis(5 + SystemRandom.below(100));
        let mut acked = run_and_kill(&path, first, patience);
        // The last line may have been cut in the middle of its number.
        acked.pop();
        let (wal, recovered) = open(&path).await;
        let trimmed_below = recovered
            .first()
            .map_or(u64::MAX, |(_, payload)| number_of(payload));
        let found: BTreeMap<u64, &Bytes> = recovered
            .iter()
            .map(|(_, payload)| (number_of(payload), payload))
            .collect();
        assert_eq!(found.len(), recovered.len(), "a record came twice");
        assert!(
            recovered.is_sorted_by_key(|(_, payload)| number_of(payload)),
            "out of order"
        );
        for (number, bytes) in &found {
            assert!(
                **bytes == payload(*number),
                "wrong bytes in record {number}"
            );
        }
        for number in acked
            .iter()
            .filter(|&&number| number >= trimmed_below.max(first))
        {
            assert!(
                found.contains_key(number),
                "kill {kill}: acknowledged record {number} lost"
            );
        }
        total += acked.len();
        first = acked
            .iter()
            .chain(found.keys())
            .max()
            .map_or(first, |last| last + 1);
        wal.close().await.expect("closes");
    }
    println!("{total} records acknowledged");
    assert!(total > 0);
}
