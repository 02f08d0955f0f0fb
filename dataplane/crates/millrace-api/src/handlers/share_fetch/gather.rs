//! Acquires records for a member, and waits where there are none.

use std::{ops::Range, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_log::{Isolation, PartitionLog, ReadResult, error::ReadError};
use millrace_model::{Offset, TopicId, TopicPartition};
use millrace_purgatory::Outcome;
use millrace_share::{
    AbortedRecords, AcquiredRecords, Acquirer, Fetched, GroupSettings, Limits, SessionKey,
    Sessions, deliverable,
};
use millrace_wire::{error_code::ErrorCode, messages::ShareFetchRequest};
use tokio::sync::Notify;

use super::WAIT_MAX;
use crate::{
    authorization::Rights,
    code,
    cold_reads::{ColdReadError, Source, SourceLog},
    context::Context,
    quota::Payer,
    share_partitions::{FetchTurn, Leader, readable_to},
};

/// How often a partition is read again where a read held nothing for consumers: records of aborted transactions, or markers.
const READS_MAX: usize = 8;

/// How long a fetch waits at least for what has to be read from objects. As in Fetch.
const COLD_WAIT_MIN: Duration = Duration::from_millis(500);

/// How much a member wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    wait: Duration,
    bytes_min: u64,
    bytes_max: usize,
    records_max: u64,
    batch_size: u64,
}

impl Sizes {
    pub(super) fn of(request: &ShareFetchRequest, bytes_max: usize, payer: Option<&Payer>) -> Self {
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
        // A larger answer would be followed by a long silence.
        let at_once = payer.map_or(usize::MAX, Payer::bytes_at_once);
        let asked = usize::try_from(request.max_bytes).unwrap_or(0);
        let bytes_max = asked.min(bytes_max).min(at_once);
        let bytes_min = u64::try_from(request.min_bytes).unwrap_or(0);
        Self {
            wait: wait.min(WAIT_MAX),
            bytes_min: bytes_min.min(bytes_max as u64),
            bytes_max,
            records_max: u64::try_from(request.max_records).unwrap_or(0).max(1),
            batch_size: u64::try_from(request.batch_size).unwrap_or(0).max(1),
        }
    }
}

/// What a member fetches.
#[derive(Debug)]
pub(super) struct ShareFetch {
    key: SessionKey,
    member: Arc<str>,
    connection: u64,
    settings: GroupSettings,
    limits: Limits,
    isolation: Isolation,
    sizes: Sizes,
    wanted: Vec<Wanted>,
}

/// One partition that a member fetches.
#[derive(Debug)]
struct Wanted {
    partition: (TopicId, i32),
    log: Result<Arc<PartitionLog>, ErrorCode>,
    leader: Option<Arc<Leader>>,
    /// Held while records are read from objects.
    turn: Option<FetchTurn>,
    /// Where nothing is, because log compaction has removed it: from an offset to where readable records ended.
    vacant: Option<Range<Offset>>,
    part: Part,
}

/// A partition that is waited for.
#[derive(Debug, Clone)]
struct Watched {
    leader: Arc<Leader>,
    vacant: Option<Range<Offset>>,
}

/// What was found of a partition.
#[derive(Debug)]
pub(super) enum Part {
    /// Nothing that can be acquired.
    Nothing,
    /// Records were acquired.
    Acquired {
        /// The batches that hold them, whole.
        batches: Vec<Bytes>,
        ranges: Vec<AcquiredRecords>,
    },
    /// Nothing can be read.
    Failed(ErrorCode),
}

/// What was found of all partitions.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) connection: u64,
    pub(super) parts: Vec<((TopicId, i32), Part)>,
    pub(super) lock: Duration,
    /// Bytes that come from memory, and are not paid for yet.
    pub(super) hot_bytes: usize,
    pub(super) bytes: usize,
    pub(super) waited: Duration,
}

/// What was gathered so far.
#[derive(Debug, Default)]
struct Progress {
    bytes: usize,
    hot_bytes: usize,
    records: u64,
    has_failed: bool,
    /// Told when something was read from objects.
    changed: Arc<Notify>,
    is_reading: bool,
}

impl ShareFetch {
    pub(super) fn new(
        (context, rights): (&Context, &Rights),
        key: SessionKey,
        (partitions, connection): (Vec<(TopicId, i32)>, u64),
        sizes: Sizes,
    ) -> Self {
        let settings = context.share.settings_of(&key.group);
        let wanted = partitions.into_iter().map(|partition| Wanted {
            partition,
            log: context.led(rights, partition).map(|(_, log)| log),
            leader: None,
            turn: None,
            vacant: None,
            part: Part::Nothing,
        });
        Self {
            member: key.member.as_str().into(),
            connection,
            limits: context.share.limits(&settings),
            isolation: match settings.is_read_committed {
                true => Isolation::ReadCommitted,
                false => Isolation::ReadUncommitted,
            },
            settings,
            sizes,
            wanted: wanted.collect(),
            key,
        }
    }

    /// Nothing was found, because nothing was looked for.
    pub(super) fn nothing(self) -> Gathered {
        self.gathered(&Progress::default(), Duration::ZERO)
    }

    /// Acquires what is available; waits for it as long as the member wants to.
    ///
    /// # Errors
    /// The session was closed meanwhile.
    pub(super) async fn run(mut self, context: &Context) -> Result<Gathered, ErrorCode> {
        let began = context.now();
        let mut progress = Progress::default();
        self.find_leaders(context);
        loop {
            let is_open = |sessions: &mut Sessions| sessions.check(&self.key).is_ok();
            if !self.wanted.is_empty() && !context.share.sessions(is_open) {
                return Err(ErrorCode::ShareSessionNotFound);
            }
            let is_late = self.left(context, began, &progress).is_zero();
            if is_late || progress.is_reading || self.has_enough() {
                self.gather(context, &mut progress);
            }
            let is_done = progress.records > 0 || progress.has_failed || self.wanted.is_empty();
            let left = self.left(context, began, &progress);
            if is_done || left.is_zero() {
                break;
            }
            let outcome = self.wait(context, left, &progress).await;
            let is_early = !self.left(context, began, &progress).is_zero();
            if outcome == Outcome::Expired && is_early {
                // The broker stops.
                break;
            }
        }
        let waited = match progress.is_reading {
            // Waiting for what has to be read is no wait on purpose.
            true => Duration::ZERO,
            false => context.now().saturating_sub(began),
        };
        Ok(self.gathered(&progress, waited))
    }

    /// How long the fetch still waits.
    fn left(&self, context: &Context, began: Duration, progress: &Progress) -> Duration {
        let time = match progress.is_reading {
            true => self.sizes.wait.max(COLD_WAIT_MIN),
            false => self.sizes.wait,
        };
        time.saturating_sub(context.now().saturating_sub(began))
    }

    fn gathered(self, progress: &Progress, waited: Duration) -> Gathered {
        let parts = self.wanted.into_iter();
        Gathered {
            connection: self.connection,
            parts: parts
                .map(|wanted| (wanted.partition, wanted.part))
                .collect(),
            lock: self.settings.record_lock,
            hot_bytes: progress.hot_bytes,
            bytes: progress.bytes,
            waited,
        }
    }

    fn find_leaders(&mut self, context: &Context) {
        for wanted in &mut self.wanted {
            let (group, index) = (&self.key.group, wanted.partition.1);
            let found = wanted.log.clone();
            let found = found.and_then(|log| context.share.leader(group, index, &log));
            match found {
                Ok(leader) => {
                    context.wakeups.listen(leader.log());
                    leader.start(&self.settings, self.limits);
                    wanted.leader = Some(leader);
                }
                Err(code) => wanted.part = Part::Failed(code),
            }
        }
    }

    /// Whether the partitions together have what the member wants at least, or one of them has an error to tell.
    fn has_enough(&self) -> bool {
        let failed = { self.wanted.iter() }.any(|wanted| matches!(wanted.part, Part::Failed(_)));
        failed || is_enough(&self.watched(), self.isolation, self.sizes.bytes_min)
    }

    fn watched(&self) -> Vec<Watched> {
        let watched = self.wanted.iter().filter(|wanted| wanted.turn.is_none());
        let watched = watched.filter_map(|wanted| {
            Some(Watched {
                leader: wanted.leader.clone()?,
                vacant: wanted.vacant.clone(),
            })
        });
        watched.collect()
    }

    async fn wait(&self, context: &Context, time: Duration, progress: &Progress) -> Outcome {
        let watched = self.watched();
        let keys = watched.iter().map(|of| of.leader.log().id().clone());
        let keys: Vec<TopicPartition> = keys.collect();
        let (isolation, bytes_min) = (self.isolation, self.sizes.bytes_min);
        let is_ready = move || is_enough(&watched, isolation, bytes_min);
        let in_memory = context.purgatory.wait(&keys, time, is_ready);
        tokio::select! {
            biased;
            () = progress.changed.notified(), if progress.is_reading => Outcome::Completed,
            outcome = in_memory => outcome,
        }
    }

    fn gather(&mut self, context: &Context, progress: &mut Progress) {
        let by_part = self.sizes.bytes_max / self.wanted.len().max(1);
        progress.is_reading = false;
        let acquirer = Acquirer {
            member: Arc::clone(&self.member),
            records_max: self.sizes.records_max,
            batch_size: self.sizes.batch_size,
            locked_until: context.now() + self.settings.record_lock,
        };
        for wanted in &mut self.wanted {
            let left = self.sizes.bytes_max.saturating_sub(progress.bytes);
            let records = self.sizes.records_max.saturating_sub(progress.records);
            if records == 0 || (left == 0 && progress.bytes > 0) {
                break;
            }
            let acquirer = Acquirer {
                records_max: records,
                ..acquirer.clone()
            };
            let reader = Reader {
                connection: self.connection,
                limits: self.limits,
                isolation: self.isolation,
                bytes_max: by_part.min(left),
            };
            if let Err(code) = wanted.take(context, reader, &acquirer, progress) {
                wanted.part = Part::Failed(code);
            }
            progress.has_failed |= matches!(wanted.part, Part::Failed(_));
        }
    }
}

/// How a partition is read.
#[derive(Debug, Clone, Copy)]
struct Reader {
    connection: u64,
    limits: Limits,
    isolation: Isolation,
    bytes_max: usize,
}

impl Wanted {
    /// Acquires what is available.
    fn take(
        &mut self,
        context: &Context,
        reader: Reader,
        acquirer: &Acquirer,
        progress: &mut Progress,
    ) -> Result<(), ErrorCode> {
        let (Some(leader), Part::Nothing) = (&self.leader, &self.part) else {
            return Ok(());
        };
        if let Some(code) = leader.closed_because() {
            // Members know no error of the coordinator here.
            return Err(match code {
                ErrorCode::CoordinatorNotAvailable => ErrorCode::OffsetNotAvailable,
                code => code,
            });
        }
        let Some(turn) = self.turn.take().or_else(|| leader.take_turn()) else {
            return Ok(());
        };
        for _ in 0..READS_MAX {
            let offset = leader.fetch_offset(reader.limits);
            let readable_to = readable_to(leader.log(), reader.isolation);
            let Some(offset) = offset.filter(|at| *at < readable_to) else {
                return Ok(());
            };
            let source = Source {
                log: SourceLog::Led(Arc::clone(leader.log())),
                offset,
                isolation: reader.isolation,
            };
            let (read, is_hot) = match reader.read(context, &source, progress)? {
                Read::Found(read, is_hot) => (read, is_hot),
                Read::Pending => {
                    self.turn = Some(turn);
                    return Ok(());
                }
                Read::Gone => continue,
            };
            if read.batches.is_empty() {
                self.vacant = Some(offset..readable_to);
                return Ok(());
            }
            let fetched = looked_at(offset, &read)?;
            let ranges = leader.acquire(&fetched, acquirer)?;
            if ranges.is_empty() {
                continue;
            }
            let batches = holding(read.batches, &ranges);
            let bytes: usize = batches.iter().map(Bytes::len).sum();
            progress.bytes += bytes;
            progress.hot_bytes += if is_hot { bytes } else { 0 };
            let records = ranges.iter().map(|range| range.last - range.first + 1);
            progress.records += records.sum::<u64>();
            self.part = Part::Acquired { batches, ranges };
            return Ok(());
        }
        Ok(())
    }
}

/// What a read has come to.
enum Read {
    /// Whole batches, and whether they were in memory.
    Found(ReadResult, bool),
    /// They are being read from objects.
    Pending,
    /// The log has moved on.
    Gone,
}

impl Reader {
    /// Reads what is in memory, or was read from objects. Otherwise sees to it that it is.
    fn read(
        &self,
        context: &Context,
        source: &Source,
        progress: &mut Progress,
    ) -> Result<Read, ErrorCode> {
        let sizes = (self.bytes_max, self.bytes_max, true);
        let read = match source.read_memory(self.bytes_max, true) {
            Some(read) => (read, true),
            None => match context.cold_reads.take(self.connection, source, sizes) {
                Some(Ok(read)) => (Ok(read), false),
                Some(Err(ColdReadError::Led(error))) => (Err(error), false),
                Some(Err(ColdReadError::Committed(_))) => {
                    return Err(ErrorCode::NotLeaderOrFollower);
                }
                None => {
                    let (cold_reads, waiter) = (&context.cold_reads, &progress.changed);
                    cold_reads.ensure(self.connection, source, self.bytes_max, waiter);
                    progress.is_reading = true;
                    return Ok(Read::Pending);
                }
            },
        };
        match read {
            (Ok(read), is_hot) => Ok(Read::Found(read, is_hot)),
            // Deleted since the offset was chosen. Members know no such error.
            (Err(ReadError::OutOfRange { .. }), _) => Ok(Read::Gone),
            (Err(error), _) => Err(code::of_read(&error)),
        }
    }
}

/// Which of the batches hold records for consumers.
fn looked_at(offset: u64, read: &ReadResult) -> Result<Fetched, ErrorCode> {
    let aborted = read.aborted_transactions.iter().flatten();
    let aborted: Vec<_> = aborted
        .map(|transaction| AbortedRecords {
            producer_id: transaction.producer_id,
            first_offset: transaction.first_offset,
        })
        .collect();
    deliverable(offset, &read.batches, &aborted).map_err(|error| {
        tracing::error!(%error, "a batch of the log cannot be read");
        ErrorCode::CorruptMessage
    })
}

/// The batches that hold some of the records.
fn holding(batches: Vec<Bytes>, ranges: &[AcquiredRecords]) -> Vec<Bytes> {
    let holds = |batch: &Bytes| {
        millrace_record::header_of(batch).is_ok_and(|header| {
            let (first, last) = (header.base_offset, header.last_offset());
            let first = u64::try_from(first).unwrap_or(0);
            let last = u64::try_from(last).unwrap_or(0);
            let at = ranges.partition_point(|range| range.last < first);
            ranges.get(at).is_some_and(|range| range.first <= last)
        })
    };
    batches.into_iter().filter(holds).collect()
}

/// Whether share partitions together have `bytes_min` to acquire, or one of them has an error to tell.
fn is_enough(watched: &[Watched], isolation: Isolation, bytes_min: u64) -> bool {
    let mut bytes = 0;
    for Watched { leader, vacant } in watched {
        if leader.is_closed() {
            return true;
        }
        let to = readable_to(leader.log(), isolation);
        let from = leader.available_from(isolation);
        let is_vacant = |from: Offset| {
            let vacant = vacant.as_ref();
            vacant.is_some_and(|vacant| from >= vacant.start && to <= vacant.end)
        };
        let Some(from) = from.filter(|from| !is_vacant(*from)) else {
            continue;
        };
        if bytes_min <= 1 {
            return true;
        }
        bytes += leader.log().bytes_between(from, to);
        if bytes >= bytes_min {
            return true;
        }
    }
    false
}
