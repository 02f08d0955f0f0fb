//! Producers at a fixed rate.
//!
//! A clock thread hands out records when they come due, evenly over all producers, whether or not
//! earlier ones were answered, and the latency of each counts from there. It sleeps with the
//! system's precision: the runtime's timers round to milliseconds, which would hide a part of what
//! is to be seen. A record is a batch and a request of its own (`batch.size=0`); a producer has five
//! under way, as Kafka's has, and everything else waits, which its latency shows.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use millrace_bench::{
    latencies::Latencies,
    machine::pause,
    priority::raise_priority,
    producer::{BatchTemplate, ProduceAnswer, ProduceFrame, Stamp},
};
use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

/// Kafka's `max.in.flight.requests.per.connection`.
const IN_FLIGHT_MAX: usize = 5;
/// Kafka's `request.timeout.ms`: no answer takes longer.
const PATIENCE: Duration = Duration::from_secs(30);
const CLIENT_ID: &str = "bench-catchup-writer";
/// The same bytes in all runs.
const SEED: u64 = 1;
/// The name of these threads, by which their CPU time is found.
pub(crate) const THREADS: &str = "writers";

/// What is written.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) broker: SocketAddr,
    pub(crate) topics: Vec<String>,
    pub(crate) partitions_per_topic: usize,
    pub(crate) producers_per_topic: usize,
    pub(crate) record_bytes: usize,
    /// Per second, in all.
    pub(crate) records_per_s: usize,
    /// Ends after so many.
    pub(crate) records_max: Option<u64>,
    /// Their threads do not wait for the processors that they share with others: producers have their own.
    pub(crate) is_first: bool,
}

/// Producers at work.
#[derive(Debug)]
pub(crate) struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

#[derive(Debug)]
struct Shared {
    plan: Plan,
    clock: SharedClock,
    template: BatchTemplate,
    stopping: AtomicBool,
    acked: AtomicU64,
    /// When each record was due, and how long its acknowledgement took.
    samples: Mutex<Vec<(Duration, Duration)>>,
}

/// When records come due, for one producer.
type Due = mpsc::UnboundedReceiver<Duration>;

impl Writers {
    /// Starts them.
    pub(crate) fn begin(plan: Plan, clock: &SharedClock) -> Result<Self, String> {
        let template = BatchTemplate::random(plan.record_bytes, 1, SEED);
        let shared = Arc::new(Shared {
            plan,
            clock: clock.clone(),
            template,
            stopping: AtomicBool::new(false),
            acked: AtomicU64::new(0),
            samples: Mutex::default(),
        });
        let producers = shared.plan.topics.len() * shared.plan.producers_per_topic;
        let (hands, dues): (Vec<_>, Vec<Due>) =
            (0..producers).map(|_| mpsc::unbounded_channel()).unzip();
        let (ticking, writing) = (Arc::clone(&shared), Arc::clone(&shared));
        let named = |name: &str| thread::Builder::new().name(format!("{THREADS}-{name}"));
        let failed = |error: io::Error| format!("no thread: {error}");
        let threads = vec![
            named("clock")
                .spawn(move || {
                    ticking.hand_out(&hands);
                    Ok(())
                })
                .map_err(failed)?,
            named("net")
                .spawn(move || write(&writing, dues))
                .map_err(failed)?,
        ];
        Ok(Self { shared, threads })
    }

    /// Of the records that came due within one of `windows`, from and to, and are answered.
    pub(crate) fn latencies(&self, windows: &[(Duration, Duration)]) -> Latencies {
        let mut latencies = Latencies::default();
        for &(due, took) in self.shared.samples.lock().iter() {
            if windows.iter().any(|&(from, to)| (from..to).contains(&due)) {
                latencies.add(took, 1);
            }
        }
        latencies
    }

    /// They are all at work.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        match self.threads.iter().position(JoinHandle::is_finished) {
            None => Ok(()),
            Some(at) => joined(self.threads.swap_remove(at))
                .and(Err("the producers ended early".to_owned())),
        }
    }

    /// Lets no more records come due, and waits until each is acknowledged. How many there were.
    pub(crate) fn finish(&mut self) -> Result<u64, String> {
        self.shared.stopping.store(true, Ordering::Release);
        self.wait()
    }

    /// Waits until they are through. How many records there were.
    pub(crate) fn wait(&mut self) -> Result<u64, String> {
        for thread in self.threads.drain(..) {
            joined(thread)?;
        }
        Ok(self.shared.acked.load(Ordering::Acquire))
    }
}

fn joined(thread: JoinHandle<Result<(), String>>) -> Result<(), String> {
    thread
        .join()
        .unwrap_or_else(|_| Err("a thread of the producers panicked".to_owned()))
}

impl Shared {
    fn hand_out(&self, hands: &[mpsc::UnboundedSender<Duration>]) {
        if self.plan.is_first {
            raise_priority();
        }
        let began = self.clock.now();
        for n in 0..self.plan.records_max.unwrap_or(u64::MAX) {
            let due = began + Duration::from_secs_f64(n as f64 / self.plan.records_per_s as f64);
            pause(due.saturating_sub(self.clock.now()));
            let turn = usize::try_from(n).unwrap_or(0) % hands.len();
            // Fails where that producer has failed, which it says itself.
            let _ = hands[turn].send(due);
            if self.stopping.load(Ordering::Acquire) {
                break;
            }
        }
    }
}

fn write(shared: &Arc<Shared>, dues: Vec<Due>) -> Result<(), String> {
    if shared.plan.is_first {
        raise_priority();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(async {
        let mut producers = JoinSet::new();
        for (number, due) in dues.into_iter().enumerate() {
            let shared = Arc::clone(shared);
            producers.spawn(async move {
                let done = produce(shared, number, due).await;
                done.map_err(|error| format!("producer {number}: {error}"))
            });
        }
        while let Some(done) = producers.join_next().await {
            done.map_err(|error| error.to_string())??;
        }
        Ok(())
    })
}

/// One request that is under way.
struct Sent {
    correlation_id: i32,
    partition: i32,
    due: Duration,
}

async fn produce(shared: Arc<Shared>, number: usize, mut due: Due) -> io::Result<()> {
    let plan = &shared.plan;
    let stream = TcpStream::connect(plan.broker).await?;
    stream.set_nodelay(true)?;
    let (reading, mut writing) = stream.into_split();
    let (sent, under_way) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    let answers = tokio::spawn(take_answers(
        Arc::clone(&shared),
        reading,
        under_way,
        Arc::clone(&room),
    ));
    let mut frame = ProduceFrame::new(CLIENT_ID, &plan.topics[number % plan.topics.len()]);
    // Each of a topic's producers begins at another partition.
    let mut turn =
        number / plan.topics.len() * plan.partitions_per_topic / plan.producers_per_topic;
    let mut correlation_id = 0_i32;
    while let Some(due) = due.recv().await {
        match room.acquire().await {
            Ok(permit) => permit.forget(),
            // The other half has failed, and says why.
            Err(_) => break,
        }
        let partition = i32::try_from(turn % plan.partitions_per_topic).unwrap_or(0);
        turn += 1;
        correlation_id = correlation_id.wrapping_add(1);
        let known = Sent {
            correlation_id,
            partition,
            due,
        };
        if sent.send(known).is_err() {
            break;
        }
        send(&shared, &mut frame, correlation_id, partition, &mut writing).await?;
    }
    drop(sent);
    answers.await.map_err(io::Error::other)?
}

/// Sends one record.
async fn send(
    shared: &Shared,
    frame: &mut ProduceFrame,
    correlation_id: i32,
    partition: i32,
    writing: &mut OwnedWriteHalf,
) -> io::Result<()> {
    let stamp = Stamp {
        timestamp_ms: shared.clock.wall_ms(),
        producer: None,
        base_sequence: -1,
    };
    let records = shared.template.records(1);
    frame.begin(correlation_id);
    frame.push(partition, &shared.template.header(1, &stamp), records.len());
    let mut written = 0;
    while written < frame.len() {
        let mut slices = Vec::with_capacity(2);
        frame.slices(std::iter::once(records), written, &mut slices);
        match writing.write_vectored(&slices).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            bytes => written += bytes,
        }
    }
    Ok(())
}

async fn take_answers(
    shared: Arc<Shared>,
    mut reading: OwnedReadHalf,
    mut under_way: mpsc::UnboundedReceiver<Sent>,
    room: Arc<Semaphore>,
) -> io::Result<()> {
    let answered = async {
        while let Some(sent) = under_way.recv().await {
            let read = tokio::time::timeout(PATIENCE, read_answer(&mut reading)).await;
            let answer = read.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            sent.check(&answer).map_err(io::Error::other)?;
            let took = shared.clock.now().saturating_sub(sent.due);
            shared.samples.lock().push((sent.due, took));
            shared.acked.fetch_add(1, Ordering::AcqRel);
            room.add_permits(1);
        }
        Ok(())
    };
    let answered = answered.await;
    // Where it failed, the other half must not wait for room.
    room.close();
    answered
}

async fn read_answer(reading: &mut OwnedReadHalf) -> io::Result<ProduceAnswer> {
    let length = reading.read_u32().await?;
    let mut answer = vec![0; length as usize];
    reading.read_exact(&mut answer).await?;
    ProduceAnswer::parse(Bytes::from(answer)).map_err(io::Error::other)
}

impl Sent {
    /// The record was acknowledged, and this is its acknowledgement.
    fn check(&self, answer: &ProduceAnswer) -> Result<(), String> {
        let partition = match &answer.partitions[..] {
            [partition] if answer.correlation_id == self.correlation_id => partition,
            _ => {
                return Err(format!(
                    "{answer:?} answers request {}",
                    self.correlation_id
                ));
            }
        };
        let acked = partition.error_code == 0
            && partition.partition == self.partition
            && partition.base_offset >= 0;
        acked
            .then_some(())
            .ok_or_else(|| format!("a record was not acknowledged: {partition:?}"))
    }
}
