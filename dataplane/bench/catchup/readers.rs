//! Consumers that read a backlog from its beginning, and check every batch of it.
//!
//! Each has a connection of its own, one fetch under way for all its partitions that are not
//! through, and commits its positions every five seconds, as Kafka's consumer does by default.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use millrace_bench::{
    consumer::{Consumer, FetchLimits, Position, take},
    producer::{ClientError, error_code::ErrorCode},
    usage::cpu_time_of_threads,
};
use millrace_time::SharedClock;
use tokio::task::JoinSet;

const CLIENT_ID: &str = "bench-catchup-reader";
/// The name of these threads, by which their CPU time is found.
pub(crate) const THREADS: &str = "readers";
/// Threads of all consumers together.
const THREADS_MAX: usize = 2;
/// `auto.commit.interval.ms` of Kafka's consumer.
const COMMIT_EVERY: Duration = Duration::from_secs(5);

/// What a coordinator answers that is getting ready.
const NOT_READY: [i16; 3] = [
    ErrorCode::CoordinatorLoadInProgress.code(),
    ErrorCode::CoordinatorNotAvailable.code(),
    ErrorCode::NotCoordinator.code(),
];
const COMMIT_PAUSE: Duration = Duration::from_millis(100);
const COMMIT_TRIES_MAX: usize = 100;

/// What a partition has, and is read from offset 0 on.
#[derive(Debug, Clone)]
pub(crate) struct Backlog {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    /// The offset behind its last record.
    pub(crate) end: i64,
}

/// What one consumer reads.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub(crate) group: String,
    pub(crate) topic: String,
    /// Partitions, and where each of their backlogs ends.
    pub(crate) ends: Vec<(i32, i64)>,
    /// Bytes per second that it takes at most.
    pub(crate) bytes_per_s: Option<u64>,
}

/// What is read.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) broker: SocketAddr,
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) limits: FetchLimits,
    /// Ends after that time, through or not.
    pub(crate) time_max: Option<Duration>,
}

/// What one consumer got.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Batches that it got.
    pub(crate) bytes: u64,
    /// Of these, what belongs to the backlog: the last fetches get newer records, too.
    pub(crate) backlog_bytes: u64,
    pub(crate) batches: u64,
    pub(crate) fetches: u64,
    /// From the beginning until it was through; nothing where its time was up.
    pub(crate) through: Option<Duration>,
}

/// What all consumers got.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// When they began.
    pub(crate) began: Duration,
    /// Until the last of them was through, or their time was up.
    pub(crate) took: Duration,
    /// In the order of the assignments.
    pub(crate) readers: Vec<Progress>,
    pub(crate) cpu: Duration,
}

impl Outcome {
    pub(crate) fn bytes(&self) -> u64 {
        self.readers.iter().map(|reader| reader.bytes).sum()
    }

    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.readers.iter().map(|reader| reader.backlog_bytes).sum()
    }

    pub(crate) fn fetches(&self) -> u64 {
        self.readers.iter().map(|reader| reader.fetches).sum()
    }
}

/// The assignment of Kafka's range assignor, for each topic and group.
pub(crate) fn assign(backlogs: &[Backlog], groups: usize, consumers: usize) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    for topic in backlogs.chunk_by(|a, b| a.topic == b.topic) {
        for group in 0..groups {
            let share = topic.len().div_ceil(consumers);
            let ranges = topic.chunks(share.max(1)).map(|range| Assignment {
                group: format!("catchup-{}-{group}", range[0].topic),
                topic: range[0].topic.clone(),
                ends: range.iter().map(|of| (of.partition, of.end)).collect(),
                bytes_per_s: None,
            });
            assignments.extend(ranges);
        }
    }
    assignments
}

/// Reads; fails where a batch is damaged, missing or twice there, or a fetch is refused.
pub(crate) fn read(plan: &Plan, clock: &SharedClock) -> Result<Outcome, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS_MAX)
        .thread_name(THREADS)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime: {error}"))?;
    let limits = Arc::new(plan.limits);
    runtime.block_on(async {
        let began = clock.now();
        let until = plan.time_max.map(|time| began + time);
        let mut tasks = JoinSet::new();
        for (number, assignment) in plan.assignments.iter().enumerate() {
            let mut reader = Reader {
                assignment: assignment.clone(),
                positions: assignment
                    .ends
                    .iter()
                    .map(|&(partition, _)| Position { partition, next: 0 })
                    .collect(),
                limits: Arc::clone(&limits),
                clock: clock.clone(),
                began,
                until,
                progress: Progress::default(),
            };
            let broker = plan.broker;
            tasks.spawn(async move {
                let done = reader.run(broker).await;
                let at = &reader.assignment;
                done.map_err(|error| format!("{} {:?}: {error}", at.topic, at.ends))
                    .map(|()| (number, reader.progress))
            });
        }
        let mut readers = vec![Progress::default(); plan.assignments.len()];
        while let Some(done) = tasks.join_next().await {
            let (number, progress) = done.map_err(|error| error.to_string())??;
            readers[number] = progress;
        }
        let ended = clock.now().saturating_sub(began);
        let through = readers.iter().map(|reader| reader.through.unwrap_or(ended));
        Ok(Outcome {
            began,
            // Their last commits are not counted.
            took: through.max().unwrap_or(ended),
            readers,
            // Before the threads end.
            cpu: cpu_time_of_threads(THREADS),
        })
    })
}

/// One consumer.
struct Reader {
    assignment: Assignment,
    positions: Vec<Position>,
    limits: Arc<FetchLimits>,
    clock: SharedClock,
    began: Duration,
    until: Option<Duration>,
    progress: Progress,
}

impl Reader {
    async fn run(&mut self, broker: SocketAddr) -> Result<(), String> {
        let failed = |error: ClientError| error.to_string();
        let topic = &self.assignment.topic;
        let connected = Consumer::connect(broker, CLIENT_ID, topic).await;
        let mut consumer = connected.map_err(failed)?;
        let mut commit_at = self.began + COMMIT_EVERY;
        loop {
            let open = self.open();
            if open.is_empty() {
                self.progress.through = Some(self.clock.now().saturating_sub(self.began));
                break;
            }
            if self.is_over() {
                break;
            }
            self.keep_pace().await;
            let answer = consumer.fetch(open, &self.limits).await.map_err(failed)?;
            self.progress.fetches += 1;
            for topic in &answer.responses {
                for part in &topic.partitions {
                    let records = part.records.as_deref().unwrap_or_default();
                    self.take(part.partition_index, part.error_code, records)?;
                }
            }
            drop(answer);
            if self.clock.now() >= commit_at {
                commit_at += COMMIT_EVERY;
                self.commit(&mut consumer).await.map_err(failed)?;
            }
        }
        self.commit(&mut consumer).await.map_err(failed)
    }

    /// Partitions that are not through.
    fn open(&self) -> Vec<Position> {
        let pairs = self.positions.iter().zip(&self.assignment.ends);
        let open = pairs.filter(|(position, (_, end))| position.next < *end);
        open.map(|(position, _)| *position).collect()
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| self.clock.now() >= until)
    }

    /// Waits until what it has got is no more than its rate allows.
    async fn keep_pace(&self) {
        let Some(bytes_per_s) = self.assignment.bytes_per_s else {
            return;
        };
        let takes = Duration::from_secs_f64(self.progress.bytes as f64 / bytes_per_s as f64);
        let due = self.began + takes;
        let due = self.until.map_or(due, |until| due.min(until));
        tokio::time::sleep(due.saturating_sub(self.clock.now())).await;
    }

    fn take(&mut self, partition: i32, error_code: i16, records: &[u8]) -> Result<(), String> {
        if error_code != 0 {
            return Err(format!("partition {partition}: error code {error_code}"));
        }
        let mut asked = self.positions.iter_mut().zip(&self.assignment.ends);
        let asked = asked.find(|(position, _)| position.partition == partition);
        let (position, &(_, end)) =
            asked.ok_or_else(|| format!("partition {partition} was not asked for"))?;
        let taken = take(records, position.next)
            .map_err(|error| format!("partition {partition}: {error}"))?;
        // All records are equally long.
        let share = share_below(position.next, taken.next, end);
        position.next = taken.next;
        self.progress.bytes += taken.bytes;
        self.progress.backlog_bytes += (taken.bytes as f64 * share).round() as u64;
        self.progress.batches += taken.batches;
        Ok(())
    }

    /// Commits its positions; waits for a coordinator that is getting ready.
    async fn commit(&self, consumer: &mut Consumer) -> Result<(), ClientError> {
        for _ in 1..COMMIT_TRIES_MAX {
            let positions = self.positions.iter().copied();
            match consumer.commit(&self.assignment.group, positions).await {
                Err(ClientError::Refused { code, .. }) if NOT_READY.contains(&code) => {
                    tokio::time::sleep(COMMIT_PAUSE).await;
                }
                done => return done,
            }
        }
        let positions = self.positions.iter().copied();
        consumer.commit(&self.assignment.group, positions).await
    }
}

/// How many of the offsets from `from` on and before `to` are below `end`, as a share.
fn share_below(from: i64, to: i64, end: i64) -> f64 {
    if to <= from {
        return 0.0;
    }
    (to.min(end) - from) as f64 / (to - from) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_the_backlog_is_no_part_of_it() {
        assert_eq!(share_below(4, 8, 9), 1.0);
        assert_eq!(share_below(4, 8, 5), 0.25);
        assert_eq!(share_below(4, 4, 5), 0.0);
    }

    #[test]
    fn partitions_are_assigned_in_ranges_each_once_per_group() {
        let backlog = |topic: &str, partition| Backlog {
            topic: topic.to_owned(),
            partition,
            end: i64::from(partition) + 1,
        };
        let mut backlogs: Vec<_> = (0..5).map(|partition| backlog("a", partition)).collect();
        backlogs.extend((0..2).map(|partition| backlog("b", partition)));
        let assignments = assign(&backlogs, 2, 4);
        let of = |group: &str| -> Vec<Vec<(i32, i64)>> {
            let in_group = assignments.iter().filter(|at| at.group == group);
            in_group.map(|at| at.ends.clone()).collect()
        };
        assert_eq!(
            of("catchup-a-0"),
            [vec![(0, 1), (1, 2)], vec![(2, 3), (3, 4)], vec![(4, 5)]]
        );
        assert_eq!(of("catchup-a-1"), of("catchup-a-0"));
        assert_eq!(of("catchup-b-1"), [vec![(0, 1)], vec![(1, 2)]]);
    }
}
