//! Idempotent producers of the client library that write numbered records to all partitions at a steady rate.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use millrace_client::{
    Client, Producer, ProducerConfig, ProducerRecord,
    producer::{Delivery, DeliveryError, RecordMetadata, SendError},
};
use millrace_time::SharedClock;
use tokio::{runtime::Runtime, sync::mpsc, task::JoinHandle};

use super::history::{Ack, Failure, History};
use crate::drill::{Place, pattern};

/// Records are sent in groups that are due at once, so often.
const TICK: Duration = Duration::from_millis(20);
/// Records of one producer in one partition that may wait for their acknowledgement. Beyond that the partition gets no further
/// ones, and the others go on.
const UNSETTLED_MAX: u32 = 500;
/// Records on their way from the task that sends to the one that awaits.
const HANDED_MAX: usize = 1 << 16;
/// More than the client may try for: whoever waits longer waits for a client that hangs.
const SETTLE_MARGIN: Duration = Duration::from_secs(15);

/// What is written.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// The topic, which is there.
    pub topic: String,
    /// How many producers there are, each with a connection of its own to each broker.
    pub producers: u32,
    /// Records per second of all of them together.
    pub records_per_s: u64,
    /// Bytes of each record's value.
    pub record_bytes: usize,
    /// Values and the order of partitions follow from it.
    pub seed: u64,
    /// For how long a client tries before an error reaches the application.
    pub delivery_timeout: Duration,
}

/// Producers at work.
#[derive(Debug)]
pub struct Load {
    finishing: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
    patience: Duration,
}

impl Load {
    /// Starts them; what they are told goes to `history`.
    ///
    /// # Errors
    /// The settings of the producers contradict each other.
    pub fn start(
        runtime: &Runtime,
        plan: &LoadPlan,
        client: impl Fn(&str) -> Client,
        history: &Arc<History>,
    ) -> Result<Self, String> {
        let finishing = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for number in 0..plan.producers {
            let client = client(&format!("producer-{number}"));
            let mut config = ProducerConfig::default();
            config.delivery_timeout = plan.delivery_timeout;
            config.max_block = plan.delivery_timeout;
            let writer = Writer {
                producer: Producer::new(&client, config).map_err(|error| error.to_string())?,
                clock: client.config().clock.clone(),
                plan: plan.clone(),
                number,
                history: Arc::clone(history),
                finishing: Arc::clone(&finishing),
                unsettled: (0..history.partitions())
                    .map(|_| AtomicU32::new(0))
                    .collect(),
            };
            tasks.push(runtime.spawn(Arc::new(writer).run()));
        }
        Ok(Self {
            finishing,
            tasks,
            patience: plan.delivery_timeout + SETTLE_MARGIN,
        })
    }

    /// Sends nothing more and waits until everything that was sent is settled.
    ///
    /// # Errors
    /// A producer panicked, or hangs.
    pub fn finish(self, runtime: &Runtime) -> Result<(), String> {
        self.finishing.store(true, Ordering::Release);
        runtime.block_on(async {
            for task in self.tasks {
                let ended = tokio::time::timeout(self.patience, task).await;
                ended
                    .map_err(|_| format!("a producer settles nothing for {:?}", self.patience))?
                    .map_err(|error| format!("a producer: {error}"))?;
            }
            Ok(())
        })
    }
}

struct Writer {
    producer: Producer,
    clock: SharedClock,
    plan: LoadPlan,
    number: u32,
    history: Arc<History>,
    finishing: Arc<AtomicBool>,
    /// By partition.
    unsettled: Vec<AtomicU32>,
}

/// A record on its way.
struct Pending {
    place: Place,
    sent_at: Duration,
    delivery: Delivery,
}

/// One that has arrived, or cannot.
type Settled = (Place, Duration, Result<RecordMetadata, DeliveryError>);

impl Writer {
    async fn run(self: Arc<Self>) {
        let (handed, to_await) = mpsc::channel(HANDED_MAX);
        let sending = Arc::clone(&self);
        tokio::join!(sending.send_all(handed), self.settle_all(to_await));
        self.producer.close().await;
    }

    async fn send_all(&self, handed: mpsc::Sender<Pending>) {
        let partitions = self.history.partitions();
        let seed = self.plan.seed ^ u64::from(self.number + 1) << 32;
        let mut random = fastrand::Rng::with_seed(seed);
        let mut order: Vec<i32> = (0..partitions).collect();
        random.shuffle(&mut order);
        let mut next = vec![0_u64; order.len()];
        let mut turn = order.iter().copied().cycle();
        let rate = self.plan.records_per_s as f64 / f64::from(self.plan.producers);
        let (began, mut sent, mut value) = (self.clock.now(), 0_u64, Vec::new());
        while !self.finishing.load(Ordering::Acquire) {
            tokio::time::sleep(TICK).await;
            let due = (self.clock.now().saturating_sub(began)).as_secs_f64() * rate;
            while (sent as f64) < due {
                sent += 1;
                let Some(partition) = turn.next() else { return };
                let at = usize::try_from(partition).unwrap_or(0);
                if self.unsettled[at].load(Ordering::Relaxed) >= UNSETTLED_MAX {
                    continue;
                }
                let place = Place {
                    producer: self.number,
                    partition,
                    sequence: next[at],
                };
                next[at] += 1;
                if !self.send(place, &mut value, &handed).await {
                    return;
                }
            }
        }
    }

    /// Whether there is any use in sending more.
    async fn send(
        &self,
        place: Place,
        value: &mut Vec<u8>,
        handed: &mpsc::Sender<Pending>,
    ) -> bool {
        pattern::write(self.plan.seed, place, self.plan.record_bytes, value);
        let key = format!("{}-{}", place.producer, place.partition);
        let record = ProducerRecord::to(&self.plan.topic)
            .partition(place.partition)
            .key(key.as_bytes())
            .value(value);
        let sent_at = self.clock.now();
        self.history.send(place);
        match self.producer.send(record).await {
            Ok(delivery) => {
                self.count(place).fetch_add(1, Ordering::Relaxed);
                let pending = Pending {
                    place,
                    sent_at,
                    delivery,
                };
                handed.send(pending).await.is_ok()
            }
            Err(error) => {
                let is_fatal = matches!(error, SendError::Closed | SendError::Failed(_));
                let in_time = !matches!(error, SendError::NoMemory(_) | SendError::Metadata(_));
                self.fail(place, sent_at, (in_time, &error));
                !is_fatal
            }
        }
    }

    /// Awaits records until no further ones come. Each is noted when it arrives, whatever happens to other partitions.
    async fn settle_all(&self, mut to_await: mpsc::Receiver<Pending>) {
        let mut under_way = FuturesUnordered::new();
        let mut is_open = true;
        while is_open || !under_way.is_empty() {
            tokio::select! {
                biased;
                Some(settled) = under_way.next() => self.settle(settled),
                pending = to_await.recv(), if is_open => match pending {
                    Some(pending) => under_way.push(settled(pending)),
                    None => is_open = false,
                },
            }
        }
    }

    fn settle(&self, (place, sent_at, result): Settled) {
        self.count(place).fetch_sub(1, Ordering::Relaxed);
        match result {
            Ok(told) => self.history.acknowledge(Ack {
                place,
                offset: told.offset,
                sent_at,
                acked_at: self.clock.now(),
            }),
            Err(error) => {
                // The records of a batch share the time of its first one.
                let in_time = !matches!(error, DeliveryError::TimedOut { .. });
                self.fail(place, sent_at, (in_time, &error));
            }
        }
    }

    fn fail(
        &self,
        place: Place,
        sent_at: Duration,
        (in_time, error): (bool, &dyn std::error::Error),
    ) {
        let now = self.clock.now();
        let took = now.saturating_sub(sent_at);
        self.history.fail(Failure {
            what: format!("{place:?}: after {took:?}: {error}"),
            at: now,
            in_time,
        });
    }

    fn count(&self, place: Place) -> &AtomicU32 {
        &self.unsettled[usize::try_from(place.partition).unwrap_or(0)]
    }
}

async fn settled(pending: Pending) -> Settled {
    (pending.place, pending.sent_at, pending.delivery.await)
}
