//! Producers at a fixed rate. Latencies count from when a record was due, whether or not earlier ones
//! were sent in time.

use std::{error::Error, sync::Arc, thread, time::Duration};

use fastrand::Rng;
use futures_util::{StreamExt, stream::FuturesUnordered};
use millrace_client::{
    Client, ClientConfig, Producer, ProducerConfig, ProducerRecord,
    producer::{Delivery, DeliveryError, Partitioning, ProducerMetrics, RecordMetadata},
};
use millrace_time::{Clock, SystemClock};
use serde_json::{Value, json};
use tokio::{runtime::Handle, sync::mpsc};

use super::number;

/// Different values, so that nobody profits from sending the same one.
const VALUES: usize = 64;
/// Records on their way from the thread to the task; the producer's memory bounds them as well.
const HANDED_MAX: usize = 1 << 16;
/// Until the first record is due, so that all producers have started.
const START: Duration = Duration::from_millis(500);

/// What is produced.
#[derive(Debug, Clone)]
pub(super) struct Load {
    brokers: String,
    topics: Vec<String>,
    partitions: usize,
    producers: u64,
    /// Records per second of each producer.
    rate: u64,
    /// Records that are due at once.
    burst: u64,
    seconds: u64,
    warmup_seconds: u64,
    record_bytes: usize,
    linger: Duration,
    keys: Keys,
    partitioning: Partitioning,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    None,
    /// Random ones for half of each topic's records.
    Mixed,
    Random,
    Sequential,
}

impl Load {
    pub(super) fn parse(arguments: &[String]) -> Result<Self, String> {
        let text = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
        let rate: u64 = number(text(4))?;
        let burst_ms: u64 = number(text(5))?;
        Ok(Self {
            brokers: text(0).to_owned(),
            topics: text(1).split(',').map(str::to_owned).collect(),
            partitions: number(text(2))?,
            producers: number(text(3))?,
            rate,
            burst: (rate * burst_ms / 1_000).max(1),
            seconds: number(text(6))?,
            warmup_seconds: number(text(7))?,
            record_bytes: number(text(8))?,
            linger: Duration::from_millis(number(text(9))?),
            keys: match text(10) {
                "none" => Keys::None,
                "mixed" => Keys::Mixed,
                "random" => Keys::Random,
                "sequential" => Keys::Sequential,
                other => return Err(format!("no such keys: {other:?}")),
            },
            partitioning: match text(11) {
                "sticky" => Partitioning::Sticky,
                "uniform_sticky" => Partitioning::UniformSticky,
                "round_robin" => Partitioning::RoundRobin,
                other => return Err(format!("no such partitioner: {other:?}")),
            },
        })
    }

    /// Warm-up included.
    fn records(&self) -> u64 {
        self.rate * (self.warmup_seconds + self.seconds)
    }

    fn due(&self, producer: u64, number: u64) -> Duration {
        let period = self.burst as f64 / self.rate as f64;
        // The producers' bursts alternate.
        let first = period * producer as f64 / self.producers as f64;
        START + Duration::from_secs_f64(first + (number / self.burst) as f64 * period)
    }

    fn key(&self, number: u64, random: &mut Rng) -> Option<[u8; 8]> {
        let with_key = match self.keys {
            Keys::None => false,
            Keys::Mixed => (number / self.topics.len() as u64).is_multiple_of(2),
            Keys::Random | Keys::Sequential => true,
        };
        let key = if self.keys == Keys::Sequential {
            number
        } else {
            random.u64(..)
        };
        with_key.then(|| key.to_be_bytes())
    }
}

/// What one producer's records came to.
#[derive(Debug, Default)]
struct Produced {
    latencies: Vec<Duration>,
    by_partition: Vec<u64>,
    metrics: ProducerMetrics,
}

/// A record on its way.
struct Pending {
    due: Duration,
    is_measured: bool,
    delivery: Delivery,
}

/// A record that has arrived, or cannot.
struct Delivered {
    due: Duration,
    is_measured: bool,
    result: Result<RecordMetadata, DeliveryError>,
}

pub(super) async fn rate(load: &Load) -> Result<Value, Box<dyn Error>> {
    let clock: Arc<dyn Clock> = SystemClock::shared();
    let mut running = Vec::new();
    for index in 0..load.producers {
        running.push(start(load.clone(), index, Arc::clone(&clock))?);
    }
    let mut all = Produced {
        by_partition: vec![0; load.partitions],
        ..Produced::default()
    };
    for producer in running {
        let one = producer.await??;
        all.latencies.extend(one.latencies);
        for (sum, records) in all.by_partition.iter_mut().zip(one.by_partition) {
            *sum += records;
        }
        all.metrics.requests += one.metrics.requests;
        all.metrics.records += one.metrics.records;
        all.metrics.batches += one.metrics.batches;
    }
    all.latencies.sort_unstable();
    let ms = |percent: usize| {
        let rank = (all.latencies.len() * percent).div_ceil(100).max(1);
        all.latencies
            .get(rank - 1)
            .map(|latency| latency.as_secs_f64() * 1e3)
    };
    Ok(json!({
        "records": all.latencies.len(),
        "p50_ms": ms(50),
        "p99_ms": ms(99),
        "max_ms": ms(100),
        "requests": all.metrics.requests,
        "records_per_batch": all.metrics.records as f64 / all.metrics.batches.max(1) as f64,
        "by_partition": all.by_partition,
    }))
}

type Running = tokio::task::JoinHandle<Result<Produced, String>>;

/// Starts a thread, which waits more precisely than a task, and a task that awaits its deliveries.
fn start(load: Load, index: u64, clock: Arc<dyn Clock>) -> Result<Running, Box<dyn Error>> {
    let client = Client::new(ClientConfig::new(&load.brokers)?);
    let mut config = ProducerConfig::default();
    config.batch_size = 16 << 10;
    config.linger = load.linger;
    config.partitioning = load.partitioning.clone();
    let producer = Producer::new(&client, config)?;
    let (handed, to_await) = mpsc::channel(HANDED_MAX);
    let runtime = Handle::current();
    let sender = Sender {
        load: load.clone(),
        index,
        clock: Arc::clone(&clock),
        producer: producer.clone(),
        handed,
    };
    thread::Builder::new()
        .name(format!("producer-{index}"))
        .spawn(move || sender.send_all(&runtime))?;
    Ok(tokio::spawn(async move {
        let mut produced = collect(to_await, load.partitions, clock.as_ref()).await?;
        produced.metrics = producer.metrics();
        Ok(produced)
    }))
}

struct Sender {
    load: Load,
    index: u64,
    clock: Arc<dyn Clock>,
    producer: Producer,
    handed: mpsc::Sender<Result<Pending, String>>,
}

impl Sender {
    fn send_all(self, runtime: &Handle) {
        let load = &self.load;
        let mut random = Rng::with_seed(self.index);
        let mut values = vec![vec![0; load.record_bytes]; VALUES];
        values.iter_mut().for_each(|value| random.fill(value));
        for number in 0..load.records() {
            let due = load.due(self.index, number);
            while let Some(wait) = due
                .checked_sub(self.clock.now())
                .filter(|wait| !wait.is_zero())
            {
                thread::park_timeout(wait);
            }
            let topic = &load.topics[number as usize % load.topics.len()];
            let key = load.key(number, &mut random);
            let mut record = ProducerRecord::to(topic).value(&values[number as usize % VALUES]);
            if let Some(key) = &key {
                record = record.key(key);
            }
            let sent = self.producer.try_send(record);
            let sent = sent.or_else(|_| runtime.block_on(self.producer.send(record)));
            let pending = sent.map(|delivery| Pending {
                due,
                is_measured: number >= load.rate * load.warmup_seconds,
                delivery,
            });
            let pending = pending.map_err(|error| error.to_string());
            if self.handed.blocking_send(pending).is_err() {
                return;
            }
        }
        drop(self.handed);
        runtime.block_on(self.producer.close());
    }
}

async fn delivered(pending: Pending) -> Delivered {
    Delivered {
        due: pending.due,
        is_measured: pending.is_measured,
        result: pending.delivery.await,
    }
}

/// Awaits deliveries until the sender is through.
async fn collect(
    mut to_await: mpsc::Receiver<Result<Pending, String>>,
    partitions: usize,
    clock: &dyn Clock,
) -> Result<Produced, String> {
    let mut produced = Produced {
        by_partition: vec![0; partitions],
        ..Produced::default()
    };
    let mut under_way = FuturesUnordered::new();
    let mut is_open = true;
    while is_open || !under_way.is_empty() {
        tokio::select! {
            biased;
            Some(delivered) = under_way.next() => {
                let Delivered { due, is_measured, result } = delivered;
                let metadata = result.map_err(|error| error.to_string())?;
                if is_measured {
                    produced.latencies.push(clock.now().saturating_sub(due));
                }
                let partition = usize::try_from(metadata.partition).unwrap_or(usize::MAX);
                if let Some(count) = produced.by_partition.get_mut(partition) {
                    *count += 1;
                }
            }
            handed = to_await.recv(), if is_open => match handed {
                Some(pending) => under_way.push(delivered(pending?)),
                None => is_open = false,
            },
        }
    }
    Ok(produced)
}
