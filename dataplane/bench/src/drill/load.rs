//! Idempotent producers that outlive the broker: whatever was not answered is sent again with the
//! same producer id, epoch and sequence, in order, as Kafka's own client does it.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use millrace_record::{BatchBuilder, Compression};
use millrace_time::{SharedClock, SystemClock};

use crate::{
    machine::pause,
    producer::{ClientError, Connection, PartitionAnswer, ProducerIdentity, error_code::ErrorCode},
};

use super::{
    ledger::Ledger,
    pattern::{self, HEAD_BYTES, Place},
};

/// Kafka's `max.in.flight.requests.per.connection`.
const IN_FLIGHT_MAX: usize = 5;
/// Partitions that one request writes to at most.
const PARTITIONS_PER_REQUEST: usize = 3;
/// Between two attempts to connect: short, since the time to the first acknowledgement is measured.
pub(super) const RECONNECT_PAUSE: Duration = Duration::from_millis(2);
/// Before what was refused is sent again; `retry.backoff.ms` of Kafka's clients.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Kafka's `request.timeout.ms`: no answer takes longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// A start that serves nobody by then has failed.
pub(super) const START_WAIT_MAX: Duration = Duration::from_secs(60);
pub(super) const CLIENT_ID: &str = "drill";

/// After these a client tries again; any other code is final.
const RETRIABLE: [ErrorCode; 6] = [
    ErrorCode::UnknownTopicOrPartition,
    ErrorCode::LeaderNotAvailable,
    ErrorCode::NotLeaderOrFollower,
    ErrorCode::RequestTimedOut,
    ErrorCode::NotEnoughReplicas,
    ErrorCode::KafkaStorageError,
];

/// What the producers and whoever drives them share.
#[derive(Debug)]
pub struct Stage {
    /// Where clients find the broker.
    pub broker: SocketAddr,
    /// The topic that is written to.
    pub topic: String,
    /// Its partitions.
    pub partitions: i32,
    /// Records follow from it.
    pub seed: u64,
    /// Bytes per second of each producer.
    pub bytes_per_s: u64,
    /// What time it is.
    pub clock: SharedClock,
    /// What was promised.
    pub ledger: Ledger,
    /// Counts the broker's starts.
    pub incarnation: AtomicU64,
    /// The newest start that has acknowledged something.
    pub acknowledging: AtomicU64,
    /// No new batches: send again what is not acknowledged, and end.
    pub finishing: AtomicBool,
    /// The broker lost what it had acknowledged, and says so: end at once.
    pub abandoned: AtomicBool,
}

impl Stage {
    /// When the next batch is due after one of so many bytes, which was due at `due`.
    pub(super) fn next_due(&self, due: Duration, bytes: u64) -> Duration {
        let takes = Duration::from_nanos(bytes * 1_000_000_000 / self.bytes_per_s);
        // What could not be sent while the broker was away is not made up for.
        due.max(self.clock.now().saturating_sub(RETRY_PAUSE)) + takes
    }
}

/// One batch that is not acknowledged.
#[derive(Debug)]
struct Batch {
    first: Place,
    count: u32,
    bytes: Vec<u8>,
    /// How often it was sent.
    sent: u32,
}

/// What one producer writes to one partition.
#[derive(Debug, Default)]
struct Line {
    /// The sequence of the next record.
    next: u64,
    /// Not acknowledged, in order.
    open: VecDeque<Batch>,
    /// Of these, how many are under way on the present connection.
    under_way: usize,
    /// A batch was refused: those behind it that are under way will be, too.
    refused: bool,
}

/// Why a connection is left.
#[derive(Debug)]
enum Ended {
    /// The broker is gone, or the connection is.
    Lost,
    /// Everything is acknowledged, and nothing new is wanted.
    Finished,
    /// The broker broke its word.
    Broken(String),
}

impl From<ClientError> for Ended {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Io(_) => Self::Lost,
            wrong => Self::Broken(wrong.to_string()),
        }
    }
}

/// One producer with a connection of its own.
#[derive(Debug)]
pub(super) struct Producer {
    stage: Arc<Stage>,
    number: u32,
    identity: ProducerIdentity,
    random: fastrand::Rng,
    lines: Vec<Line>,
    /// The correlation id and the partitions of each request that is not answered.
    requests: VecDeque<(i32, Vec<i32>)>,
    /// Where the last request ended, so that every partition has its turn.
    turn: usize,
    /// When the next batch is due.
    due: Duration,
}

impl Producer {
    pub(super) fn new(stage: Arc<Stage>, number: u32, identity: ProducerIdentity) -> Self {
        Self {
            lines: (0..stage.partitions).map(|_| Line::default()).collect(),
            due: stage.clock.now(),
            random: random_of(stage.seed, number),
            stage,
            number,
            identity,
            requests: VecDeque::new(),
            turn: 0,
        }
    }

    /// Produces until the stage finishes; `Err` where the broker breaks its word.
    pub(super) fn run(mut self) -> Result<(), String> {
        while !self.stage.abandoned.load(Ordering::Acquire) {
            let before = self.stage.incarnation.load(Ordering::Acquire);
            let connection = Connection::connect(self.stage.broker, CLIENT_ID, PATIENCE);
            let incarnation = self.stage.incarnation.load(Ordering::Acquire);
            let connection = match connection.map_err(Ended::from) {
                Ok(connection) => connection,
                Err(Ended::Broken(reason)) => return Err(reason),
                Err(_) => {
                    pause(RECONNECT_PAUSE);
                    continue;
                }
            };
            if before != incarnation {
                // It cannot be told whom this connection reaches.
                continue;
            }
            self.requests.clear();
            for line in &mut self.lines {
                line.under_way = 0;
                line.refused = false;
            }
            match self.produce(connection, incarnation) {
                Ended::Lost => {}
                Ended::Finished => return Ok(()),
                Ended::Broken(reason) => return Err(reason),
            }
        }
        Ok(())
    }

    fn produce(&mut self, mut connection: Connection, incarnation: u64) -> Ended {
        loop {
            let step = self.step(&mut connection, incarnation);
            if let Err(ended) = step {
                return ended;
            }
        }
    }

    /// Sends one request, or takes one answer.
    fn step(&mut self, connection: &mut Connection, incarnation: u64) -> Result<(), Ended> {
        if self.lines.iter().any(|line| line.refused) {
            while !self.requests.is_empty() {
                self.take_answer(connection, incarnation)?;
            }
            for line in &mut self.lines {
                line.under_way = 0;
                line.refused = false;
            }
            pause(RETRY_PAUSE);
        }
        if self.requests.len() < IN_FLIGHT_MAX {
            let again = self.to_send_again();
            if !again.is_empty() {
                return self.send(connection, again);
            }
            if !self.stage.finishing.load(Ordering::Acquire) && self.is_due() {
                let partitions = self.fill();
                return self.send(connection, partitions);
            }
        }
        if !self.requests.is_empty() {
            return self.take_answer(connection, incarnation);
        }
        if self.stage.finishing.load(Ordering::Acquire) {
            return Err(Ended::Finished);
        }
        pause(self.due.saturating_sub(self.stage.clock.now()));
        Ok(())
    }

    /// Partitions that have a batch which is not under way.
    fn to_send_again(&self) -> Vec<i32> {
        let waiting = |(_, line): &(usize, &Line)| line.under_way < line.open.len();
        let lines = self.lines.iter().enumerate().filter(waiting);
        lines
            .map(|(partition, _)| number(partition))
            .take(PARTITIONS_PER_REQUEST)
            .collect()
    }

    fn is_due(&self) -> bool {
        self.stage.clock.now() >= self.due
    }

    /// Makes new batches for some partitions.
    fn fill(&mut self) -> Vec<i32> {
        let wanted = self.random.usize(1..=PARTITIONS_PER_REQUEST);
        let wanted = wanted.min(self.lines.len());
        let partitions: Vec<i32> = (0..wanted)
            .map(|step| number((self.turn + step) % self.lines.len()))
            .collect();
        self.turn = (self.turn + wanted) % self.lines.len();
        let mut bytes = 0;
        for &partition in &partitions {
            bytes += self.fill_line(partition);
        }
        self.due = self.stage.next_due(self.due, bytes);
        partitions
    }

    fn fill_line(&mut self, partition: i32) -> u64 {
        let (count, record_bytes) = shape(&mut self.random);
        let ProducerIdentity { id, epoch } = self.identity;
        let line = &mut self.lines[index(partition)];
        let first = Place {
            producer: self.number,
            partition,
            sequence: line.next,
        };
        let mut builder =
            BatchBuilder::new(Compression::None).producer(id, epoch, wire_sequence(line.next));
        let mut value = Vec::new();
        for at in 0..u64::from(count) {
            let sequence = first.sequence + at;
            pattern::write(
                self.stage.seed,
                Place { sequence, ..first },
                record_bytes,
                &mut value,
            );
            builder.push(self.stage.clock.wall_ms(), None, Some(&value), &[]);
        }
        let bytes = builder.build().to_vec();
        let size = bytes.len() as u64;
        line.next += u64::from(count);
        line.open.push_back(Batch {
            first,
            count,
            bytes,
            sent: 0,
        });
        size
    }

    /// Sends the next batch of each of `partitions`.
    fn send(&mut self, connection: &mut Connection, partitions: Vec<i32>) -> Result<(), Ended> {
        for &partition in &partitions {
            let line = &mut self.lines[index(partition)];
            let batch = &mut line.open[line.under_way];
            batch.sent += 1;
            let (first, count) = (batch.first, batch.count);
            line.under_way += 1;
            self.stage
                .ledger
                .change(|promises| promises.send(first, count));
        }
        let batches: Vec<(i32, &[u8])> = partitions
            .iter()
            .map(|&partition| {
                let line = &self.lines[index(partition)];
                (partition, &line.open[line.under_way - 1].bytes[..])
            })
            .collect();
        let id = connection.send_produce(&self.stage.topic, &batches)?;
        self.requests.push_back((id, partitions));
        Ok(())
    }

    fn take_answer(&mut self, connection: &mut Connection, incarnation: u64) -> Result<(), Ended> {
        let answer = connection.await_produce()?;
        let answered = answer.partitions.iter().map(|answer| answer.partition);
        let answered = (answer.correlation_id, answered.collect());
        match self.requests.pop_front() {
            Some(asked) if asked == answered => {}
            asked => {
                return Err(Ended::Broken(format!(
                    "asked {asked:?} (request, partitions), answered {answered:?}"
                )));
            }
        }
        for answer in answer.partitions {
            self.settle(answer).map_err(Ended::Broken)?;
            if answer.error_code == 0 {
                let acknowledging = &self.stage.acknowledging;
                acknowledging.fetch_max(incarnation, Ordering::AcqRel);
            }
        }
        Ok(())
    }

    /// Answers come in the order of the requests, so this one is about the oldest open batch,
    /// unless one of the partition was refused before it.
    fn settle(&mut self, answer: PartitionAnswer) -> Result<(), String> {
        let PartitionAnswer {
            partition,
            error_code,
            base_offset,
        } = answer;
        let ledger = &self.stage.ledger;
        let line = &mut self.lines[index(partition)];
        let duplicate = error_code == ErrorCode::DuplicateSequenceNumber.code();
        if error_code != 0 && !duplicate {
            ledger.change(|promises| *promises.refusals.entry(error_code).or_default() += 1);
            let follows = error_code == ErrorCode::OutOfOrderSequenceNumber.code() && line.refused;
            if !follows && !RETRIABLE.iter().any(|code| code.code() == error_code) {
                let open = line.open.front().map(|batch| (batch.first, batch.sent));
                return Err(format!(
                    "partition {partition}: error code {error_code} for the oldest batch, {open:?}, \
                     which is what follows what was acknowledged"
                ));
            }
            line.refused = true;
            return Ok(());
        }
        if line.refused {
            // The one before it was given up on too early. Both are sent again.
            ledger.change(|promises| promises.overtaken += 1);
            return Ok(());
        }
        let batch = line.open.pop_front().ok_or("an answer to nothing")?;
        line.under_way = line.under_way.saturating_sub(1);
        let known = (error_code == 0).then_some(base_offset);
        if known.is_some_and(|offset| offset < 0) {
            return Err(format!(
                "partition {partition}: an acknowledgement without an offset"
            ));
        }
        ledger.change(|promises| {
            promises.resent += u64::from(batch.sent > 1);
            promises.duplicates += u64::from(duplicate);
            let (bytes, wall_ms) = (batch.bytes.len(), self.stage.clock.wall_ms());
            promises.acknowledge(batch.first, batch.count, bytes, known, wall_ms);
        });
        Ok(())
    }
}

/// What the producer with this number draws from.
pub(super) fn random_of(seed: u64, number: u32) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed ^ u64::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Records of one batch and bytes of each: mostly small ones, some as a busy client packs them, some
/// large.
pub(super) fn shape(random: &mut fastrand::Rng) -> (u32, usize) {
    match random.u32(0..100) {
        0..60 => (random.u32(1..=20), random.usize(HEAD_BYTES..=400)),
        60..90 => (random.u32(8..=16), 1_024),
        90..99 => (random.u32(2..=6), random.usize(20_000..=60_000)),
        _ => (1, random.usize(700_000..=1_000_000)),
    }
}

/// A connection to a broker that may still be starting.
pub fn connect_patiently(broker: SocketAddr) -> Result<Connection, String> {
    let clock = SystemClock::shared();
    loop {
        match Connection::connect(broker, CLIENT_ID, PATIENCE) {
            Ok(connection) => return Ok(connection),
            Err(error) if clock.now() > START_WAIT_MAX => {
                return Err(format!("the broker does not serve clients: {error}"));
            }
            Err(_) => pause(RECONNECT_PAUSE),
        }
    }
}

fn index(partition: i32) -> usize {
    usize::try_from(partition).unwrap_or(usize::MAX)
}

/// Sequences wrap from 2³¹ − 1 to 0.
fn wire_sequence(sequence: u64) -> i32 {
    i32::try_from(sequence & 0x7fff_ffff).unwrap_or(0)
}

fn number(partition: usize) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}
