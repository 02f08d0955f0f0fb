//! Producers under load.
//!
//! ```text
//! thread: waits until a record is due, hands it to the producer ─► channel ─► task: awaits deliveries
//! ```
//!
//! A thread waits more precisely than a task, whose timer has a resolution of a millisecond. The task
//! keeps the deliveries of each partition in a queue of its own, since batches of a partition
//! complete in order and those of different partitions do not.

use std::{
    collections::{BTreeSet, VecDeque},
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    thread,
    time::Duration,
};

use millrace_client::{
    Client, Producer, ProducerConfig, ProducerRecord,
    producer::{Acks, Delivery, ProducerMetrics, SendError},
};
use tokio::{runtime::Handle, sync::mpsc, task::JoinHandle};

use crate::{
    ending::Reason, error::PerfError, mark::Mark, options::ProduceOptions, pace::Pace,
    payload::Payload, phases::Phase, run::Run, verifier::Sent,
};

/// Records on their way from the thread to the task; the producer's memory bounds them as well.
const HANDED_MAX: usize = 1 << 16;
/// How many the task takes at once.
const TAKEN_MAX: usize = 1 << 10;
/// How often a waiting thread looks whether the run has ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long records that were sent may take to complete once the run has ended.
const DRAIN_MAX: Duration = Duration::from_secs(30);
/// A batch's own bytes, and some: a request must have room for one record.
const BATCH_OVERHEAD_BYTES: usize = 1024;

/// What became of one producer's records.
#[derive(Debug, Default)]
pub(crate) struct Produced {
    pub(crate) sent: Sent,
    pub(crate) metrics: ProducerMetrics,
    /// Records that were due and not handed over when the run ended.
    pub(crate) unsent: u64,
}

/// A record on its way.
struct Pending {
    number: u64,
    due_us: u64,
    bytes: u64,
    delivery: Delivery,
}

/// From the thread to the task.
enum Handed {
    Record(Pending),
    Refused {
        number: u64,
        due_us: u64,
        error: SendError,
    },
    /// The last one: how many numbers were used, how many records were late.
    Through {
        numbers: u64,
        unsent: u64,
    },
}

/// Starts producer number `index`.
pub(crate) fn start(
    run: &Arc<Run>,
    client: &Client,
    options: &ProduceOptions,
    index: usize,
) -> Result<JoinHandle<Produced>, PerfError> {
    let producer = Producer::new(client, config(options))?;
    let (handed, to_await) = mpsc::channel(HANDED_MAX);
    let share = |total: u64| {
        let (producers, index) = (options.producers as u64, index as u64);
        total / producers + u64::from(index < total % producers)
    };
    let driver = Driver {
        run: Arc::clone(run),
        producer: producer.clone(),
        pace: Pace::new(options.rate_per_producer(), index, options.producers),
        payload: Payload::new(options.record_size, run.random.as_ref()),
        records_max: run.plan.run.num_records.map(share),
        producer_number: u32::try_from(index).unwrap_or(u32::MAX),
        handed,
    };
    let runtime = Handle::current();
    let thread = thread::Builder::new().name(format!("producer-{index}"));
    // Not supervised: it ends with the run, and its task notices if it ends early.
    let started = thread.spawn(move || driver.drive(&runtime));
    started.map_err(PerfError::system("a thread for a producer"))?;
    let collector = Collector {
        run: Arc::clone(run),
        queues: Vec::new(),
        failed: BTreeSet::new(),
        completed: Vec::new(),
        taken: Vec::with_capacity(TAKEN_MAX),
        through: None,
    };
    // Not supervised: the run awaits it.
    Ok(tokio::spawn(collector.collect(to_await, producer)))
}

fn config(options: &ProduceOptions) -> ProducerConfig {
    let mut config = ProducerConfig::default();
    config.acks = options.acks();
    config.idempotence = config.acks == Acks::All;
    config.compression = options.compression();
    config.partitioning = options.partitioning();
    config.batch_size = options.batch_size;
    config.linger = Duration::from_millis(options.linger_ms);
    config.delivery_timeout += config.linger;
    let largest = options.record_size + BATCH_OVERHEAD_BYTES;
    config.max_request_size = config.max_request_size.max(largest).max(options.batch_size);
    config.buffer_memory = options.buffer_memory.max(largest);
    config
}

/// The thread's part.
struct Driver {
    run: Arc<Run>,
    producer: Producer,
    pace: Pace,
    payload: Payload,
    /// Records to measure.
    records_max: Option<u64>,
    producer_number: u32,
    handed: mpsc::Sender<Handed>,
}

impl Driver {
    fn drive(mut self, runtime: &Handle) {
        let (mut number, mut measured) = (0, 0);
        while let Some(due_us) = self.next_due(number) {
            if self.run.phases.at(due_us) != Phase::Warmup {
                if self.records_max.is_some_and(|max| measured >= max) {
                    break;
                }
                measured += 1;
            }
            let Some(handed) = self.hand_over(runtime, number, due_us) else {
                break;
            };
            number += 1;
            if self.handed.blocking_send(handed).is_err() {
                break;
            }
        }
        let through = Handed::Through {
            numbers: number,
            unsent: self.unsent(number, measured),
        };
        // Without a receiver the run is over.
        let _ = self.handed.blocking_send(through);
        drop(self.handed);
        // Sends what lingers; what does not complete in time fails.
        runtime.block_on(self.producer.close_within(DRAIN_MAX));
    }

    /// Waits until the record is due; nothing if the run has ended.
    fn next_due(&self, number: u64) -> Option<u64> {
        let run = &self.run;
        loop {
            if run.ending.has_ended() {
                return None;
            }
            let now = run.phases.now_us();
            let due = self.pace.due_us(number).unwrap_or(now);
            if run.deadline_us.is_some_and(|deadline| due >= deadline) {
                run.ending.end(Reason::Duration);
                return None;
            }
            if due <= now {
                return Some(due);
            }
            thread::park_timeout(Duration::from_micros(due - now).min(LOOK));
        }
    }

    /// Nothing if the run has ended.
    fn hand_over(&mut self, runtime: &Handle, number: u64, due_us: u64) -> Option<Handed> {
        let mark = self.run.plan.marks_records().then_some(Mark {
            run: self.run.id,
            producer: self.producer_number,
            number,
            due_us,
        });
        let value = self.payload.next(mark.as_ref());
        let bytes = value.len() as u64;
        if !self.run.ending.allows(bytes) {
            return None;
        }
        let record = ProducerRecord::to(&self.run.plan.run.topic).value(value);
        let sent = match self.producer.try_send(record) {
            Err(SendError::WouldBlock) => runtime.block_on(async {
                tokio::select! {
                    sent = self.producer.send(record) => Some(sent),
                    () = self.run.ending.ended() => None,
                }
            })?,
            sent => sent,
        };
        Some(match sent {
            Ok(delivery) => Handed::Record(Pending {
                number,
                due_us,
                bytes,
                delivery,
            }),
            Err(error) => Handed::Refused {
                number,
                due_us,
                error,
            },
        })
    }

    /// How many records were due by now.
    fn unsent(&self, number: u64, measured: u64) -> u64 {
        let now = self.run.phases.now_us();
        let left = self.records_max.map_or(u64::MAX, |max| max - measured);
        let is_late = |later: &u64| {
            self.pace
                .due_us(number + later)
                .is_some_and(|due| due < now)
        };
        // At most a week's records of one producer: found by halving.
        let (mut low, mut high) = (0, left.min(1 << 40));
        while low < high {
            let middle = u64::midpoint(low, high);
            if is_late(&middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The task's part.
struct Collector {
    run: Arc<Run>,
    /// By partition.
    queues: Vec<VecDeque<Pending>>,
    failed: BTreeSet<u64>,
    /// Due times and bytes, until they are recorded.
    completed: Vec<(u64, u64)>,
    taken: Vec<Handed>,
    through: Option<(u64, u64)>,
}

impl Collector {
    async fn collect(
        mut self,
        mut to_await: mpsc::Receiver<Handed>,
        producer: Producer,
    ) -> Produced {
        poll_fn(|context| self.poll(&mut to_await, context)).await;
        let (numbers, unsent) = self.through.unwrap_or_default();
        Produced {
            sent: Sent {
                numbers,
                failed: self.failed,
            },
            metrics: producer.metrics(),
            unsent,
        }
    }

    /// Ready once the thread is through and all records are complete.
    fn poll(
        &mut self,
        to_await: &mut mpsc::Receiver<Handed>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let mut is_closed = false;
        while let Poll::Ready(count) = to_await.poll_recv_many(context, &mut self.taken, TAKEN_MAX)
        {
            if count == 0 {
                is_closed = true;
                break;
            }
            self.sort();
        }
        self.complete(context);
        if is_closed && self.queues.iter().all(VecDeque::is_empty) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn sort(&mut self) {
        for handed in self.taken.drain(..) {
            match handed {
                Handed::Record(pending) => {
                    let partition = usize::try_from(pending.delivery.partition()).unwrap_or(0);
                    if self.queues.len() <= partition {
                        self.queues.resize_with(partition + 1, VecDeque::new);
                    }
                    self.queues[partition].push_back(pending);
                }
                Handed::Refused {
                    number,
                    due_us,
                    error,
                } => {
                    self.failed.insert(number);
                    self.run.produce_failed(due_us, &error);
                    if !matches!(error, SendError::NoMemory(_)) {
                        self.run.ending.fail(error);
                    }
                }
                Handed::Through { numbers, unsent } => self.through = Some((numbers, unsent)),
            }
        }
    }

    /// Records what has completed.
    fn complete(&mut self, context: &mut Context<'_>) {
        for queue in &mut self.queues {
            while let Some(first) = queue.front_mut() {
                let Poll::Ready(result) = Pin::new(&mut first.delivery).poll(context) else {
                    break;
                };
                match result {
                    Ok(_) => self.completed.push((first.due_us, first.bytes)),
                    Err(error) => {
                        self.failed.insert(first.number);
                        self.run.produce_failed(first.due_us, &error);
                    }
                }
                queue.pop_front();
            }
        }
        if self.completed.is_empty() {
            return;
        }
        let phases = &self.run.phases;
        let now = phases.now_us();
        self.run.produced.with(|tallies| {
            for (due_us, bytes) in self.completed.drain(..) {
                let tally = &mut tallies[phases.at(due_us) as usize];
                tally.add(bytes, Some(now.saturating_sub(due_us)));
            }
        });
    }
}
