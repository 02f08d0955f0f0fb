//! How long the first acknowledgement takes after a `kill -9` with a log full of what was not
//! uploaded, and how much memory that needs.
//!
//! `cargo run --release -p millrace-stream --example backlog -- FOLDER MIB RECORD_BYTES STREAMS`
//!
//! One process fills the log while the bucket refuses everything, and is killed. Another one opens
//! it: with the bucket still refusing, it appends at once. Then the bucket works, and it waits until
//! everything is uploaded, appending all the while, and reads it all back.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use millrace_blockcache::{BlockCache, BlockCacheConfig};
use millrace_meta::{
    MetaStore, NewTopic,
    sqlite::{SqliteMeta, SqliteOptions},
};
use millrace_model::{NodeId, StreamId, TopicId, TopicName};
use millrace_objects::{
    ObjectStorage,
    bucket::{BucketUri, RetryPolicy, StoreBucket, TimeoutPolicy},
};
use millrace_stream::{
    AppendTicket, Entry, RecoveredLog, Stream, StreamConfig, StreamParts, StreamStore,
};
use millrace_tasks::Supervisor;
use millrace_testkit::{BucketFaults, FaultyBucket};
use millrace_time::{SharedClock, SharedRandom, SystemClock, SystemRandom};
use millrace_wal::{
    Wal, WalConfig,
    device::{DeviceConfig, open_device},
};

const MIB: u64 = 1024 * 1024;

/// Appends that a stream has in flight while the log is filled.
const IN_FLIGHT: usize = 32;

struct Load {
    folder: String,
    mib: u64,
    record_bytes: usize,
    streams: u32,
}

struct Opened {
    store: StreamStore,
    streams: Vec<Stream>,
    bucket: FaultyBucket,
}

impl Load {
    async fn open(&self, clock: &SharedClock) -> Opened {
        let random = SystemRandom::shared();
        let bucket = self.bucket(&random);
        let path = Path::new(&self.folder).join("meta.db");
        let meta = SqliteMeta::open(&path, SqliteOptions::default(), clock.clone()).await;
        let meta = meta.expect("opens");
        let epoch = meta.register_node(NodeId(1)).await.expect("registers");
        let ids = self.stream_ids(&meta).await;
        let meta: Arc<dyn MetaStore> = Arc::new(meta);
        let (retry, timeouts) = (RetryPolicy::default(), TimeoutPolicy::default());
        let (shared, seeds) = (bucket.clone(), random.clone());
        let storage = ObjectStorage::over(shared, retry, timeouts, clock.clone(), seeds);
        let cache = BlockCacheConfig::new("c", 64 * MIB);
        let sources = storage.clone().into();
        let block_cache = BlockCache::new(cache, sources, Arc::clone(&meta), clock.clone());
        let began = clock.now();
        let (wal, recovered) = self.open_log(clock).await;
        let scanned = clock.now() - began;
        let store = StreamStore::open(StreamParts {
            tasks: Supervisor::new(),
            wal,
            recovered,
            background: storage.clone(),
            storage,
            meta,
            block_cache,
            clock: clock.clone(),
            random,
            cluster_id: "c".into(),
            node: (NodeId(1), epoch),
            config: StreamConfig::default(),
        });
        let store = store.await.expect("opens");
        let opened = clock.now() - began;
        let recovery = store.metrics().recovery;
        println!("log read in {scanned:?}, store open after {opened:?}: {recovery:?}");
        let streams = store.open_streams(&ids).await.expect("opens");
        Opened {
            store,
            streams,
            bucket,
        }
    }

    fn bucket(&self, random: &SharedRandom) -> FaultyBucket {
        let uri = format!("0@file://{}/bucket", self.folder);
        let uri: BucketUri = uri.parse().expect("a bucket");
        let bucket = FaultyBucket::new(StoreBucket::open(&uri).expect("opens"), random.clone());
        bucket.set(BucketFaults {
            down: true,
            ..BucketFaults::default()
        });
        bucket
    }

    async fn open_log(&self, clock: &SharedClock) -> (Wal, RecoveredLog) {
        // Records cost more than their bytes, and the second life appends too.
        let capacity = (self.mib * MIB / 4 * 5).next_multiple_of(4_096) + 64 * MIB;
        let device = DeviceConfig {
            depth: 32,
            ..DeviceConfig::new(capacity)
        };
        let path = Path::new(&self.folder).join("wal");
        let device = open_device(&path, &device).expect("opens");
        let mut recovered = RecoveredLog::default();
        let sink = &mut |record| recovered.push(&record);
        let config = WalConfig {
            depth: 32,
            ..WalConfig::new(7)
        };
        let wal = Wal::open_with(device, config, clock.clone(), sink).await;
        (wal.expect("recovers"), recovered)
    }

    async fn stream_ids(&self, meta: &SqliteMeta) -> Vec<StreamId> {
        let topics = meta.topics().await.expect("reads");
        let topic = match topics.into_iter().next() {
            Some(topic) => topic,
            None => {
                let topic = NewTopic {
                    name: TopicName::new("t").expect("legal"),
                    id: TopicId(uuid::Uuid::from_bytes([1; 16])),
                    partitions: self.streams,
                    configs: BTreeMap::new(),
                };
                meta.create_topic(topic).await.expect("creates")
            }
        };
        topic
            .partitions
            .iter()
            .map(|streams| streams.data)
            .collect()
    }

    /// Fills the log and then waits for the end.
    async fn fill(&self) {
        let opened = self.open(&SystemClock::shared()).await;
        let each = self.mib * MIB / self.record_bytes as u64 / u64::from(self.streams);
        let fill = |stream: Stream| async move {
            let mut in_flight = VecDeque::new();
            for _ in 0..each {
                in_flight.push_back(append(&stream, self.record_bytes).await);
                if in_flight.len() >= IN_FLIGHT
                    && let Some(oldest) = in_flight.pop_front()
                {
                    oldest.await.expect("durable");
                }
            }
            for ticket in in_flight {
                ticket.await.expect("durable");
            }
        };
        join_all(opened.streams.iter().cloned().map(fill)).await;
        let pending = opened.store.metrics().pending_bytes / MIB;
        println!("pending {pending} MiB; {}", peak_memory());
        println!("full");
        std::future::pending::<()>().await;
    }

    /// Opens the full log; everything is measured from the start of the process.
    async fn reopen(&self, clock: &SharedClock) {
        let opened = self.open(clock).await;
        let ticket = append(&opened.streams[0], self.record_bytes).await;
        ticket.await.expect("durable");
        let acknowledged = clock.now();
        println!(
            "first acknowledgement after {acknowledged:?}; {}",
            peak_memory()
        );
        opened.bucket.set(BucketFaults::default());
        let began = clock.now();
        let (mut appends, mut slowest) = (0_u32, Duration::ZERO);
        let meanwhile = async {
            loop {
                let sent = clock.now();
                let ticket = append(&opened.streams[0], self.record_bytes).await;
                ticket.await.expect("durable");
                slowest = slowest.max(clock.now() - sent);
                appends += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            flushed = opened.store.flush() => flushed.expect("uploads"),
            () = meanwhile => {}
        }
        let took = clock.now() - began;
        println!("uploaded in {took:?}; {}", peak_memory());
        println!("beside it {appends} appends, of which the slowest took {slowest:?}");
        let mut bytes = 0;
        for stream in &opened.streams {
            bytes += self.verify(stream).await;
        }
        println!("read back {} MiB, all as written", bytes / MIB);
        opened.store.close().await;
    }

    async fn verify(&self, stream: &Stream) -> u64 {
        let (mut at, mut bytes) = (0, 0);
        while at < stream.confirm_offset() {
            let found = stream.fetch(at, u64::MAX, 4 * 1024 * 1024).await;
            for entry in found.expect("readable") {
                assert_eq!(entry.base_offset, at, "no gap, no repetition");
                let expected = payload(stream.id(), at, self.record_bytes);
                assert!(entry.payload == expected, "other bytes at {at}");
                at = entry.end_offset();
                bytes += entry.payload.len() as u64;
            }
        }
        bytes
    }
}

/// Bytes that tell where they belong.
fn payload(stream: StreamId, offset: u64, bytes: usize) -> Bytes {
    let word = ((stream.get() << 40) ^ offset).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut payload = word.to_le_bytes().repeat(bytes.div_ceil(8));
    payload.truncate(bytes);
    payload.into()
}

async fn append(stream: &Stream, bytes: usize) -> AppendTicket {
    let permit = stream.reserve(bytes).await.expect("room");
    let base_offset = stream.next_offset();
    let payload = payload(stream.id(), base_offset, bytes);
    let entry = Entry {
        base_offset,
        count: 1,
        payload,
    };
    stream.append(permit, entry)
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    format!("peak memory {}", peak.unwrap_or("unknown").trim())
}

fn start(role: &str, arguments: &[String]) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .arg(role)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts")
}

/// Runs both lives.
fn orchestrate(arguments: &[String]) {
    let mut filling = start("fill", arguments);
    for line in BufReader::new(filling.stdout.take().expect("piped")).lines() {
        let line = line.expect("reads");
        println!("first life: {line}");
        if line == "full" {
            break;
        }
    }
    filling.kill().expect("kills");
    filling.wait().expect("is gone");
    let clock = SystemClock::shared();
    let mut reopening = start("reopen", arguments);
    for line in BufReader::new(reopening.stdout.take().expect("piped")).lines() {
        println!(
            "second life, at {:?}: {}",
            clock.now(),
            line.expect("reads")
        );
    }
    assert!(reopening.wait().expect("is gone").success());
}

fn main() {
    let clock = SystemClock::shared();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (role, load) = match arguments.split_first() {
        Some((role, load)) if ["fill", "reopen"].contains(&role.as_str()) => (Some(role), load),
        _ => (None, &arguments[..]),
    };
    let [folder, mib, record_bytes, streams] = load else {
        eprintln!("usage: backlog FOLDER MIB RECORD_BYTES STREAMS");
        std::process::exit(2);
    };
    let Some(role) = role else {
        return orchestrate(load);
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let load = Load {
        folder: folder.clone(),
        mib: number(mib),
        record_bytes: usize::try_from(number(record_bytes)).expect("a size"),
        streams: u32::try_from(number(streams)).expect("few"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        match role.as_str() {
            "fill" => load.fill().await,
            _ => load.reopen(&clock).await,
        }
    });
}
