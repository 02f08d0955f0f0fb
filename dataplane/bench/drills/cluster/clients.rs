//! The clients: an idempotent producer for each partition, and a group that commits for each.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use millrace_client::{
    Admin, Client, Producer, ProducerConfig, ProducerRecord, TopicPartition,
    consumer::CommittedOffset,
};
use millrace_time::{SharedClock, SystemClock};
use parking_lot::Mutex;
use tokio::task::JoinSet;

pub(crate) const TOPIC: &str = "drill";
/// Each partition gets a record after such a pause.
const PAUSE: Duration = Duration::from_millis(20);
/// A commit of each group after such a pause.
const COMMIT_PAUSE: Duration = Duration::from_millis(200);
/// Groups, each of which commits for one partition.
const GROUPS: i32 = 8;
/// How long a client tries before an error reaches the application.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(120);

/// What one partition's producer was told.
#[derive(Debug, Default)]
struct Told {
    acknowledged: Vec<u64>,
    last: Option<Duration>,
    /// The longest time between two acknowledgements since it was asked for last.
    gap: Duration,
}

/// Clients at work.
pub(crate) struct Clients {
    told: Vec<Arc<Mutex<Told>>>,
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicU64>,
    offsets_back: Arc<AtomicU64>,
    clock: SharedClock,
    work: JoinSet<()>,
}

/// What the clients were told by the end.
pub(crate) struct Promises {
    /// By partition.
    pub(crate) acknowledged: Vec<Vec<u64>>,
    pub(crate) failed: u64,
    pub(crate) offsets_back: u64,
}

impl Clients {
    /// Starts them.
    pub(crate) fn start(client: &Client, partitions: i32) -> Result<Self, String> {
        let mut config = ProducerConfig::default();
        config.linger = Duration::from_millis(1);
        config.delivery_timeout = DELIVERY_TIMEOUT;
        let producer = Producer::new(client, config).map_err(|error| error.to_string())?;
        let mut clients = Self {
            told: Vec::new(),
            stop: Arc::default(),
            failed: Arc::default(),
            offsets_back: Arc::default(),
            clock: SystemClock::shared(),
            work: JoinSet::new(),
        };
        for partition in 0..partitions {
            let told = Arc::<Mutex<Told>>::default();
            clients.told.push(Arc::clone(&told));
            let (stop, failed) = (Arc::clone(&clients.stop), Arc::clone(&clients.failed));
            let (producer, clock) = (producer.clone(), clients.clock.clone());
            clients.work.spawn(async move {
                for number in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    match send(&producer, partition, number).await {
                        Ok(()) => told.lock().acknowledge(number, clock.now()),
                        Err(error) => {
                            println!("partition {partition}: record {number} failed: {error}");
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
        for group in 0..GROUPS {
            let (stop, back) = (Arc::clone(&clients.stop), Arc::clone(&clients.offsets_back));
            clients
                .work
                .spawn(commit(client.clone(), group, stop, back));
        }
        Ok(clients)
    }

    /// The longest time that each partition had no acknowledgement since this was asked last.
    pub(crate) fn gaps(&self) -> Vec<Duration> {
        let now = self.clock.now();
        let gap = |told: &Arc<Mutex<Told>>| {
            let mut told = told.lock();
            let open = told
                .last
                .map_or(Duration::ZERO, |last| now.saturating_sub(last));
            std::mem::take(&mut told.gap).max(open)
        };
        self.told.iter().map(gap).collect()
    }

    /// The clock by which acknowledgements are timed.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Whether every partition had an acknowledgement since then.
    pub(crate) fn all_since(&self, since: Duration) -> bool {
        let mut partitions = self.told.iter();
        partitions.all(|told| told.lock().last.is_some_and(|last| last > since))
    }

    /// Stops when everything that was sent is settled.
    pub(crate) async fn stop(mut self) -> Promises {
        self.stop.store(true, Ordering::Relaxed);
        while self.work.join_next().await.is_some() {}
        let acknowledged = self
            .told
            .iter()
            .map(|told| told.lock().acknowledged.clone());
        Promises {
            acknowledged: acknowledged.collect(),
            failed: self.failed.load(Ordering::Relaxed),
            offsets_back: self.offsets_back.load(Ordering::Relaxed),
        }
    }
}

impl Told {
    fn acknowledge(&mut self, number: u64, now: Duration) {
        self.acknowledged.push(number);
        if let Some(last) = self.last.replace(now) {
            self.gap = self.gap.max(now.saturating_sub(last));
        }
    }
}

async fn send(producer: &Producer, partition: i32, number: u64) -> Result<(), String> {
    let value = number.to_string();
    let record = ProducerRecord::to(TOPIC)
        .partition(partition)
        .value(value.as_bytes());
    let delivery = producer
        .send(record)
        .await
        .map_err(|error| error.to_string())?;
    delivery.await.map(drop).map_err(|error| error.to_string())
}

/// Commits ever higher offsets, and looks what is committed: never less than what was acknowledged.
async fn commit(client: Client, group: i32, stop: Arc<AtomicBool>, back: Arc<AtomicU64>) {
    let (admin, name) = (Admin::new(&client), format!("group-{group}"));
    let partition = TopicPartition::new(TOPIC, group);
    let mut committed = 0;
    for offset in 1_i64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let offsets = BTreeMap::from([(partition.clone(), CommittedOffset::new(offset))]);
        let altered = admin.alter_group_offsets(&name, &offsets).await;
        if altered.is_ok_and(|results| results.values().all(Result::is_ok)) {
            committed = offset;
        }
        if let Ok(found) = admin.group_offsets(&name).await {
            let found = found.get(&partition).map_or(0, |found| found.offset);
            if found < committed {
                println!("{name}: {committed} was committed, and now it is {found}");
                back.fetch_add(1, Ordering::Relaxed);
            }
        }
        tokio::time::sleep(COMMIT_PAUSE).await;
    }
}
