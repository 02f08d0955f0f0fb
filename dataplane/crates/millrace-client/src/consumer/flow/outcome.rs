//! What came of fetches and lookups.

use std::time::Duration;

use bytes::Bytes;
use millrace_record::{InvalidBatch, header_of};

use super::{
    Flow, PartitionId, Standing,
    aborted::Aborted,
    partition::{Chunk, Partition},
    plan::{Answer, Fetch, Lookup, Question},
};
use crate::{
    consumer::{config::OffsetReset, error::ConsumerError},
    error::{BrokerError, ErrorCode},
};

impl Flow {
    /// A request has no answer.
    pub(in crate::consumer) fn fetch_failed(&mut self, fetch: &Fetch) {
        self.budget.unreserve(fetch.max_bytes);
        for part in &fetch.parts {
            if let Some(partition) = self.current(part.id, part.token) {
                partition.in_flight = false;
            }
        }
    }

    /// A request is answered: `answers` by the position of the part. Parts without one have
    /// nothing new. `retry_after` is the pause after so many failures in a row.
    pub(in crate::consumer) fn fetched(
        &mut self,
        fetch: &Fetch,
        answers: Vec<(usize, Answer)>,
        now: Duration,
        retry_after: &dyn Fn(u32) -> Duration,
    ) {
        self.fetch_failed(fetch);
        let bytes: usize = answers.iter().map(|(_, answer)| answer.records.len()).sum();
        self.metrics.fetched_bytes += bytes as u64;
        let mut accepted = Vec::with_capacity(answers.len());
        for (at, answer) in answers {
            let Some(part) = fetch.parts.get(at) else {
                continue;
            };
            let records = answer.records.len();
            let Some(partition) = self.current(part.id, part.token) else {
                self.metrics.discarded_bytes += records as u64;
                continue;
            };
            partition.told(&answer);
            match answer.error {
                Some(code) => self.fetch_error(part.id, code, now, retry_after),
                None => {
                    partition.failures = 0;
                    match whole_batches(&answer.records, part.offset) {
                        Ok(Some(whole)) => accepted.push((part.id, answer, whole)),
                        Ok(None) => self.metrics.discarded_bytes += records as u64,
                        Err(reason) => {
                            self.metrics.discarded_bytes += records as u64;
                            self.damaged(part.id, reason.to_string(), now);
                            self.offer(part.id, false);
                        }
                    }
                }
            }
        }
        let live = accepted.iter().map(|(_, _, whole)| whole.bytes).sum();
        let frame = self.budget.charge(bytes, live);
        for (id, answer, whole) in accepted {
            self.metrics.discarded_bytes += (answer.records.len() - whole.bytes) as u64;
            let Some(partition) = self.get_mut(id) else {
                continue;
            };
            partition.fetch_offset = whole.next_offset;
            partition.fetch_epoch = whole.epoch.or(partition.fetch_epoch);
            partition.buffered += whole.bytes;
            partition.chunks.push_back(Chunk {
                bytes: answer.records.slice(..whole.bytes),
                frame,
                aborted: Aborted::new(answer.aborted),
            });
            self.offer(id, false);
        }
    }

    pub(super) fn current(&mut self, id: PartitionId, token: u64) -> Option<&mut Partition> {
        let partition = self.get_mut(id)?;
        (partition.token == token).then_some(partition)
    }

    fn fetch_error(
        &mut self,
        id: PartitionId,
        code: ErrorCode,
        now: Duration,
        retry_after: &dyn Fn(u32) -> Duration,
    ) {
        let policy = self.reset_of();
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        partition.back_off(now, retry_after);
        if code == ErrorCode::OFFSET_OUT_OF_RANGE {
            // What is buffered was in the log and comes first; then the next try finds this again.
            if !partition.has_records() && !partition.is_opening {
                partition.retry_at = now;
                let offset = partition.fetch_offset;
                partition.reset(policy, Some(offset));
            }
        } else if !code.is_retriable() && !code.is_stale_metadata() {
            partition.fault = Some(ConsumerError::Partition {
                partition: partition.name.clone(),
                error: BrokerError::from(code),
            });
        }
        self.offer(id, false);
    }

    /// A lookup has no answer, or one that may be different later.
    pub(in crate::consumer) fn lookup_failed(
        &mut self,
        lookup: &Lookup,
        error: Option<ErrorCode>,
        now: Duration,
        retry_after: &dyn Fn(u32) -> Duration,
    ) {
        let Some(partition) = self.current(lookup.id, lookup.token) else {
            return;
        };
        partition.in_flight = false;
        partition.back_off(now, retry_after);
        if let Some(code) = error
            && !code.is_retriable()
            && !code.is_stale_metadata()
        {
            partition.fault = Some(ConsumerError::Partition {
                partition: partition.name.clone(),
                error: BrokerError::from(code),
            });
            self.has_positions = true;
        }
        self.offer(lookup.id, false);
    }

    /// An offset was found out; `None` if there is none: nothing committed, no record that new,
    /// no such epoch.
    pub(in crate::consumer) fn looked_up(
        &mut self,
        lookup: &Lookup,
        found: Option<(i64, Option<i32>)>,
    ) {
        let policy = self.reset_of();
        let Some(partition) = self.current(lookup.id, lookup.token) else {
            return;
        };
        partition.in_flight = false;
        match (lookup.question, found) {
            (Question::EpochEnd(_), found) => self.validated(lookup.id, found.map(|(end, _)| end)),
            (question, Some((offset, epoch))) => {
                // Only a committed offset was read before: only it can have been truncated.
                let epoch = epoch.filter(|_| question == Question::Committed);
                partition.restart(offset, epoch);
                partition.progress.restart(offset);
                if question == Question::Committed {
                    partition.progress.committed(offset);
                }
            }
            (Question::Committed, None) => partition.reset(policy, None),
            (Question::Timestamp(_) | Question::Reset(_), None) => {
                partition.standing = Standing::Reset(OffsetReset::Latest, None);
            }
        }
        self.offer(lookup.id, false);
        self.has_positions = true;
    }

    /// The log's end in the epoch of what was fetched last (KIP-320). If it is lower than the
    /// position, records that were read do not exist any more.
    fn validated(&mut self, id: PartitionId, end: Option<i64>) {
        let policy = self.reset_of();
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        partition.standing = Standing::Ready;
        if end.is_some_and(|end| end >= partition.fetch_offset) {
            return;
        }
        let (next, next_epoch) = (partition.next, partition.next_epoch);
        let name = partition.name.clone();
        if self.invalidate(id).is_none() {
            return;
        }
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        if end.is_some_and(|end| end >= next) {
            // Only what was buffered and not delivered has gone.
            partition.restart(next, next_epoch);
            return;
        }
        match (end, policy) {
            (_, OffsetReset::None) => {
                partition.standing = Standing::Stuck;
                partition.fault = Some(ConsumerError::Truncated {
                    partition: name,
                    offset: next,
                    diverges_at: end,
                });
            }
            (Some(end), _) => {
                tracing::warn!(partition = %name, from = next, to = end, "the log was truncated");
                partition.restart(end, None);
                partition.progress.restart(end);
            }
            // The leader knows nothing of the epoch.
            (None, policy) => {
                tracing::warn!(partition = %name, from = next, "the log was truncated");
                partition.reset(policy, Some(next));
            }
        }
    }
}

impl Partition {
    fn told(&mut self, answer: &Answer) {
        let known = |offset: i64| (offset >= 0).then_some(offset);
        self.high_watermark = known(answer.high_watermark).or(self.high_watermark);
        self.last_stable_offset = known(answer.last_stable_offset).or(self.last_stable_offset);
    }

    fn back_off(&mut self, now: Duration, retry_after: &dyn Fn(u32) -> Duration) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + retry_after(self.failures);
    }

    /// Goes on where the policy says; `offset` is the one that cannot be read.
    fn reset(&mut self, policy: OffsetReset, offset: Option<i64>) {
        if policy == OffsetReset::None {
            self.standing = Standing::Stuck;
            self.fault = Some(ConsumerError::NoOffset {
                partition: self.name.clone(),
                offset,
            });
        } else {
            self.standing = Standing::Reset(policy, offset);
        }
    }
}

/// What of an answer's records is whole.
struct Whole {
    bytes: usize,
    next_offset: i64,
    epoch: Option<i32>,
}

/// The whole batches at the beginning of `records`. Brokers may cut off the last batch. Nothing
/// where there is none that reaches `offset`.
fn whole_batches(records: &Bytes, offset: i64) -> Result<Option<Whole>, InvalidBatch> {
    let mut rest = &records[..];
    let mut whole = Whole {
        bytes: 0,
        next_offset: offset,
        epoch: None,
    };
    while !rest.is_empty() {
        let header = match header_of(rest) {
            Ok(header) => header,
            Err(InvalidBatch::Truncated { .. }) => break,
            // What is in front of it can be delivered; the next fetch begins with it.
            Err(_) if whole.bytes > 0 => break,
            Err(reason) => return Err(reason),
        };
        let Some(after) = rest.get(header.size_bytes()..) else {
            break;
        };
        whole.bytes += header.size_bytes();
        whole.next_offset = whole.next_offset.max(header.next_offset());
        whole.epoch = Some(header.leader_epoch).filter(|epoch| *epoch >= 0);
        rest = after;
    }
    Ok((whole.next_offset > offset).then_some(whole))
}
