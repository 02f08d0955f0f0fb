//! A coordinator on a log in memory, and the partitions that its transactions write to.

use std::{
    collections::{HashMap, VecDeque},
    sync::atomic::AtomicI64,
};

use millrace_log::TransactionMarker;
use millrace_model::{Cause, TopicName};
use millrace_tasks::Supervisor;
use millrace_time::ManualClock;
use parking_lot::Mutex;

use super::{
    super::record::{decode_key, encode_key},
    *,
};
use crate::log::{BoxFuture, StateTopic as _, memory::MemoryLog};

/// Gives out 1,000 and so on.
#[derive(Debug)]
pub(super) struct Ids(AtomicI64);

impl ProducerIdSource for Ids {
    fn next_id(&self) -> BoxFuture<'_, Result<i64, Cause>> {
        let id = self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(id)))
    }
}

/// What goes wrong with a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is not written.
    Refused,
    /// It is written, and nobody is told.
    AnswerLost,
    /// It takes so long to be written.
    Slow(Duration),
    /// It is written, and it takes so long to tell.
    SlowAnswer(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// Of a producer, in one of its transactions.
    Data(ProducerEpoch, usize),
    Marker(TransactionMarker),
}

/// The partitions that transactions write to.
#[derive(Debug, Default)]
pub(super) struct Data {
    pub(super) logs: Mutex<HashMap<TopicPartition, Vec<Entry>>>,
    pub(super) faults: Mutex<VecDeque<Fault>>,
    pub(super) is_down: std::sync::atomic::AtomicBool,
    /// Partitions that do not exist any more.
    pub(super) gone: Mutex<BTreeSet<TopicPartition>>,
}

impl Data {
    pub(super) fn log(&self, partition: &TopicPartition) -> Vec<Entry> {
        let logs = self.logs.lock();
        logs.get(partition).cloned().unwrap_or_default()
    }

    /// Appends what the partition does not refuse.
    pub(super) fn append(&self, partition: &TopicPartition, entry: Entry) -> MarkerOutcome {
        let mut logs = self.logs.lock();
        let log = logs.entry(partition.clone()).or_default();
        let (id, epoch) = match entry {
            Entry::Data(producer, _) => producer,
            Entry::Marker(marker) => (marker.producer_id, marker.producer_epoch),
        };
        let (mut known, mut coordinator, mut is_open) = (-1, -1, false);
        for entry in log.iter() {
            match *entry {
                Entry::Data(producer, _) if producer.0 == id => {
                    (known, is_open) = (producer.1, true)
                }
                Entry::Marker(marker) if marker.producer_id == id => {
                    (known, is_open) = (marker.producer_epoch, false);
                    coordinator = marker.coordinator_epoch;
                }
                _ => {}
            }
        }
        if epoch < known {
            return MarkerOutcome::Done;
        }
        if let Entry::Marker(marker) = entry {
            let is_late = marker.transaction_version >= 2 && is_open && epoch == known;
            assert!(!is_late, "{marker:?} would end another transaction");
            if marker.coordinator_epoch < coordinator {
                return MarkerOutcome::Fenced;
            }
        }
        log.push(entry);
        MarkerOutcome::Done
    }
}

impl MarkerWriter for Data {
    fn write(
        &self,
        marker: TransactionMarker,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'_, Vec<(TopicPartition, MarkerOutcome)>> {
        Box::pin(async move {
            let mut outcomes = Vec::new();
            for partition in partitions {
                let fault = self.faults.lock().pop_front();
                if let Some(Fault::Slow(pause)) = fault {
                    sleep(pause).await;
                }
                let is_down = self.is_down.load(Ordering::SeqCst);
                let outcome = if self.gone.lock().contains(&partition) {
                    MarkerOutcome::Gone
                } else if is_down || fault == Some(Fault::Refused) {
                    MarkerOutcome::Retry
                } else {
                    let written = self.append(&partition, Entry::Marker(marker));
                    if let Some(Fault::SlowAnswer(pause)) = fault {
                        sleep(pause).await;
                    }
                    match fault {
                        Some(Fault::AnswerLost) => MarkerOutcome::Retry,
                        _ => written,
                    }
                };
                outcomes.push((partition, outcome));
            }
            outcomes
        })
    }
}

pub(super) struct World {
    pub(super) topic: Arc<MemoryTopic>,
    pub(super) data: Arc<Data>,
    pub(super) ids: Arc<Ids>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) timers: millrace_purgatory::Timers,
    pub(super) coordinator: TransactionCoordinator,
}

pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

impl World {
    pub(super) async fn new() -> Self {
        let topic = MemoryTopic::new(1);
        topic.create_elsewhere();
        topic.gain(0);
        Self::on(topic).await
    }

    pub(super) async fn on(topic: Arc<MemoryTopic>) -> Self {
        let ids = Arc::new(Ids(AtomicI64::new(1_000)));
        Self::with(topic, Arc::default(), ManualClock::shared(), ids).await
    }

    pub(super) async fn with(
        topic: Arc<MemoryTopic>,
        data: Arc<Data>,
        clock: Arc<ManualClock>,
        ids: Arc<Ids>,
    ) -> Self {
        let timers = millrace_purgatory::Timers::new(clock.clone(), Supervisor::new());
        let parts = TransactionParts {
            topic: topic.clone(),
            producer_ids: ids.clone(),
            markers: data.clone(),
            clock: clock.clone(),
            timers: timers.clone(),
            tasks: Supervisor::new(),
            config: TransactionConfig::default(),
        };
        let coordinator = TransactionCoordinator::open(parts)
            .await
            .expect("a good log");
        let world = Self {
            topic,
            data,
            ids,
            clock,
            timers,
            coordinator,
        };
        world.settle().await;
        world
    }

    /// Lets everything happen that is due.
    pub(super) async fn settle(&self) {
        for _ in 0..3 {
            self.timers.fire_due();
            sleep(Duration::from_millis(10)).await;
        }
    }

    pub(super) async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.settle().await;
    }

    pub(super) async fn lose_and_gain(&self) {
        self.topic.lose(0);
        self.settle().await;
        self.topic.gain(0);
        self.settle().await;
    }

    pub(super) fn log(&self) -> &MemoryLog {
        &self.topic.logs[0]
    }

    /// What the log says of an id, oldest first.
    pub(super) fn history(&self, id: &str) -> Vec<Option<Metadata>> {
        let mut history = Vec::new();
        for batch in self.log().batches() {
            for record in records(&batch).expect("sound") {
                let record = record.expect("sound");
                let key = decode_key(&record.key.expect("a key")).expect("a key");
                if key.as_deref() == Some(id) {
                    let value = record.value.map(|value| Metadata::decode(&value));
                    history.push(value.map(|value| value.expect("sound")));
                }
            }
        }
        history
    }

    pub(super) async fn init(&self, expected: Option<ProducerEpoch>) -> Answer {
        let request = InitProducer {
            transactional_id: "id".into(),
            timeout: TIMEOUT,
            expected,
        };
        self.coordinator.init_producer_id(request).await
    }

    pub(super) async fn add(
        &self,
        producer: ProducerEpoch,
        topics: &[&str],
    ) -> Result<(), TransactionError> {
        let partitions: Vec<_> = topics.iter().map(|topic| partition(topic)).collect();
        self.coordinator
            .add_partitions("id", producer, &partitions)
            .await
    }

    pub(super) async fn end(
        &self,
        producer: ProducerEpoch,
        committed: bool,
        protocol: i16,
    ) -> Answer {
        self.coordinator
            .end("id", producer, committed, protocol)
            .await
    }

    pub(super) fn verify(
        &self,
        producer: ProducerEpoch,
        topic: &str,
    ) -> Result<(), TransactionError> {
        let verified = self
            .coordinator
            .verify_partitions("id", producer, &[partition(topic)]);
        verified?.remove(0).1
    }

    pub(super) fn state(&self) -> TransactionState {
        self.coordinator.describe("id").expect("known").state
    }

    pub(super) fn markers(&self, topic: &str) -> Vec<(ProducerEpoch, bool)> {
        let log = self.data.log(&partition(topic)).into_iter();
        let markers = log.filter_map(|entry| match entry {
            Entry::Marker(marker) => Some(marker),
            Entry::Data(..) => None,
        });
        let told = |marker: TransactionMarker| {
            (
                (marker.producer_id, marker.producer_epoch),
                marker.committed,
            )
        };
        markers.map(told).collect()
    }
}

pub(super) type Answer = Result<ProducerEpoch, TransactionError>;

pub(super) fn partition(topic: &str) -> TopicPartition {
    TopicPartition {
        topic: TopicName::new(topic).expect("legal"),
        partition: 0,
    }
}

/// A world whose log says this of `id`.
pub(super) async fn loaded(stored: Metadata) -> World {
    use millrace_record::{BatchBuilder, Compression};
    let topic = MemoryTopic::new(1);
    topic.create_elsewhere();
    topic.gain(0);
    let log = topic.partitions().expect("created").remove(0).expect("led");
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(0, Some(&encode_key("id")), Some(&stored.encode()), &[]);
    let durable = log.append(builder.build()).await.expect("taken");
    durable.await.expect("durable");
    World::on(topic).await
}

pub(super) fn stored(state: TransactionState, epoch: i16) -> Metadata {
    let is_begun = state != TransactionState::Empty;
    let partitions: &[&str] = match state {
        TransactionState::Ongoing => &["t"],
        _ if state.is_ending() => &["t"],
        _ => &[],
    };
    Metadata {
        producer_id: 7,
        previous_producer_id: NONE,
        next_producer_id: NONE,
        epoch,
        timeout_ms: 60_000,
        state,
        partitions: partitions.iter().map(|topic| partition(topic)).collect(),
        update_ms: 0,
        start_ms: if is_begun { 0 } else { NONE },
        client_version: 2,
    }
}
