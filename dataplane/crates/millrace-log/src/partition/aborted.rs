//! The aborted transactions of a partition: in memory, and in the blocks of its meta stream ([`crate::aborted_index`]).

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use millrace_model::{Cause, Classified, FailureClass, Offset};
use millrace_stream::{Entry, FetchError};
use tokio::time::timeout;

use super::{PartitionLog, persist::Written};
use crate::{
    aborted_index::{Block, decode_block, encode_block},
    error::{AppendError, ReadError},
    transactions::{Aborted, AbortedTransaction},
};

/// A read of blocks is tried again when one of them was replaced meanwhile.
const TRIES_MAX: usize = 4;

/// Times that one checkpoint writes blocks again: at most some MiB.
const TIDIED_MAX: usize = 16;

/// How long they may take: the next checkpoint waits for it.
const TIDY_WAIT: Duration = Duration::from_secs(10);

/// Where blocks may be read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The memory and the write-ahead log of the broker.
    Local,
    /// Objects as well.
    Objects,
}

/// Why blocks were not written. Those before them stand.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Classified for IndexError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Append(_) => FailureClass::Transient,
            Self::Read(error) => error.class(),
        }
    }
}

impl PartitionLog {
    /// The aborted transactions that overlap the offsets from `from` up to `upper`, which is at most the last stable offset.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn aborted_transactions(
        &self,
        from: Offset,
        upper: Offset,
    ) -> Result<Vec<AbortedTransaction>, ReadError> {
        let found = self.aborted_between((from, upper)).await?;
        Ok(found.into_iter().map(Into::into).collect())
    }

    /// The same with their markers.
    pub(super) async fn aborted_between(
        &self,
        range: (Offset, Offset),
    ) -> Result<Vec<Aborted>, ReadError> {
        let found = self.aborted_within(Reach::Objects, range).await?;
        found.ok_or_else(|| ReadError::Storage(Cause::of(FailureClass::Transient, REPLACED)))
    }

    /// The same; `None` where `reach` does not suffice.
    pub(super) async fn aborted_within(
        &self,
        reach: Reach,
        range: (Offset, Offset),
    ) -> Result<Option<Vec<Aborted>>, ReadError> {
        let mut tries = 0;
        loop {
            let (blocks, newest) = self.aborted_now(range);
            let failed = match self.read_blocks(&blocks, (reach, range)).await {
                Ok(None) => return Ok(None),
                Ok(Some(mut found)) => {
                    found.extend(newest);
                    return Ok(Some(found));
                }
                Err(error) => error,
            };
            tries += 1;
            let is_current = {
                let state = self.state.lock();
                let index = state.transactions.index();
                blocks.iter().all(|block| index.has(block))
            };
            if is_current || tries == TRIES_MAX {
                return Err(failed);
            }
        }
    }

    /// The same from memory alone; `None` where that does not suffice.
    pub(super) fn aborted_in_memory(&self, range: (Offset, Offset)) -> Option<Vec<Aborted>> {
        let (blocks, newest) = self.aborted_now(range);
        let mut all = Vec::new();
        for block in &blocks {
            let found = self.meta.fetch_cached(block.at, block.at + 1, usize::MAX)?;
            // A read that may wait tells what is wrong with it.
            let entries = decode_block(found.into_iter().next()?.payload, block).ok()?;
            all.extend(entries.into_iter().filter(|one| overlaps(one, range)));
        }
        all.extend(newest);
        Some(all)
    }

    /// The blocks of a range, and what is in memory.
    fn aborted_now(&self, (from, upper): (Offset, Offset)) -> (Vec<Block>, Vec<Aborted>) {
        let state = self.state.lock();
        let transactions = &state.transactions;
        (
            transactions.index().overlapping(from, upper),
            transactions.newest_between(from, upper),
        )
    }

    /// Reads blocks one after the other, so that one is in memory at a time.
    async fn read_blocks(
        &self,
        blocks: &[Block],
        (reach, range): (Reach, (Offset, Offset)),
    ) -> Result<Option<Vec<Aborted>>, ReadError> {
        let mut all = Vec::new();
        for block in blocks {
            let Some(entries) = self.read_block(block, reach).await? else {
                return Ok(None);
            };
            all.extend(entries.into_iter().filter(|one| overlaps(one, range)));
        }
        Ok(Some(all))
    }

    async fn read_block(
        &self,
        block: &Block,
        reach: Reach,
    ) -> Result<Option<Vec<Aborted>>, ReadError> {
        let (at, end) = (block.at, block.at + 1);
        let found = match reach {
            Reach::Local => self.meta.fetch_local(at, end, usize::MAX).await,
            Reach::Objects => self.meta.fetch(at, end, usize::MAX).await.map(Some),
        };
        let Some(found) = found.map_err(|error| self.block_error(error))? else {
            return Ok(None);
        };
        let missing = || ReadError::Storage(Cause::of(FailureClass::Gone, REPLACED));
        let entry = found.into_iter().next().ok_or_else(missing)?;
        let corrupt = |error| ReadError::Storage(Cause::of(FailureClass::Corrupt, error));
        let entries = decode_block(entry.payload, block).map_err(corrupt)?;
        Ok(Some(entries))
    }

    /// The caller reads records: an offset of the meta stream would mean nothing to it.
    fn block_error(&self, error: FetchError) -> ReadError {
        if self.is_closed() {
            return ReadError::Closed;
        }
        match error {
            FetchError::Storage(cause) => ReadError::Storage(cause),
            error @ (FetchError::BelowStart { .. } | FetchError::Missing { .. }) => {
                ReadError::Storage(Cause::new(error))
            }
        }
    }

    /// Where a cleaning that begins at `from` must end at the latest, so that it meets about `max` aborted transactions.
    pub(super) fn end_of_aborted(&self, (from, end): (Offset, Offset), max: u64) -> Offset {
        let state = self.state.lock();
        let mut count = 0;
        for block in state.transactions.index().overlapping(from, end) {
            count += block.count;
            if count > max {
                return end.min(block.last_max + 1);
            }
        }
        end
    }

    /// Writes the oldest aborted transactions to blocks where too many are in memory, unless a checkpoint is being written, which does
    /// it as well.
    pub(super) async fn index_aborted_if_due(&self) {
        let in_memory = self.state.lock().transactions.aborted().len();
        if in_memory < self.aborted_bounds.in_memory {
            return;
        }
        let Ok(mut written) = self.checkpointing.try_lock() else {
            return;
        };
        if let Err(error) = self.index_aborted(&mut written).await {
            tracing::warn!(partition = %self.id, %error, "aborted transactions stay in memory");
        }
    }

    /// Writes the oldest aborted transactions to blocks, until no more than may be are in memory.
    pub(super) async fn index_aborted(&self, written: &mut Written) -> Result<(), IndexError> {
        loop {
            let oldest = {
                let (state, durable) = (self.state.lock(), self.data.confirm_offset());
                state.transactions.to_index(&self.aborted_bounds, durable)
            };
            let Some(oldest) = oldest else {
                return Ok(());
            };
            let Some(block) = self.append_block(written, &oldest).await? else {
                return Ok(());
            };
            let mut state = self.state.lock();
            state.transactions.indexed(block, self.start_offset());
            state.cleaner_changed = true;
            self.charge_producers(&state);
        }
    }

    /// Writes blocks again that keep too much of the meta stream, or that are small and many. What fails is retried with a later checkpoint.
    pub(super) async fn tidy_blocks(&self, written: &mut Written) {
        match timeout(TIDY_WAIT, self.try_tidy_blocks(written)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(partition = %self.id, %error, "blocks of aborted transactions were not rewritten");
            }
            Err(_) => {
                tracing::debug!(partition = %self.id, "the bucket does not answer; blocks are rewritten later");
            }
        }
    }

    async fn try_tidy_blocks(&self, written: &mut Written) -> Result<(), IndexError> {
        for _ in 0..TIDIED_MAX {
            let old = {
                let state = self.state.lock();
                state.transactions.index().to_tidy(&self.aborted_bounds)
            };
            let Some(old) = old else {
                return Ok(());
            };
            self.replace_blocks(written, &old, &HashSet::new()).await?;
        }
        Ok(())
    }

    /// Forgets aborted transactions of which log compaction has left nothing. A restart may find them again; then the next cleaning forgets them again.
    pub(super) async fn forget_aborted(&self, gone: &[Aborted]) -> Result<(), IndexError> {
        let gone: HashSet<Offset> = gone.iter().map(|aborted| aborted.last).collect();
        if gone.is_empty() {
            return Ok(());
        }
        let mut written = self.checkpointing.lock().await;
        let blocks = {
            let mut state = self.state.lock();
            state.transactions.forget(&gone);
            state.cleaner_changed = true;
            self.charge_producers(&state);
            state.transactions.index().with_markers(&gone)
        };
        for block in blocks {
            self.replace_blocks(&mut written, &[block], &gone).await?;
        }
        Ok(())
    }

    /// Writes neighbours again as one block, without those that are `gone`.
    async fn replace_blocks(
        &self,
        written: &mut Written,
        old: &[Block],
        gone: &HashSet<Offset>,
    ) -> Result<(), IndexError> {
        let mut entries = Vec::new();
        let start = self.start_offset();
        for block in old {
            let found = self.read_block(block, Reach::Objects).await?;
            entries.extend(found.into_iter().flatten());
        }
        entries.retain(|one| one.last >= start && !gone.contains(&one.last));
        let new = self.append_block(written, &entries).await?;
        let mut state = self.state.lock();
        state.transactions.index_mut().replace(old, new);
        // It may have been trimmed meanwhile.
        state.transactions.trim(self.start_offset());
        state.cleaner_changed = true;
        self.charge_producers(&state);
        Ok(())
    }

    /// Appends a block of `entries`; it is durable when this returns. `None` where there are none.
    async fn append_block(
        &self,
        _one_at_a_time: &mut Written,
        entries: &[Aborted],
    ) -> Result<Option<Block>, AppendError> {
        if entries.is_empty() {
            return Ok(None);
        }
        let payload = encode_block(entries);
        let bytes = payload.len() as u64;
        let (at, position) = self.append_meta(payload).await?;
        Ok(Block::of(entries, (at, position, bytes)))
    }

    /// Appends an entry to the meta stream, with the lock on checkpoints held; gives its offset and the bytes before it once it is durable.
    pub(super) async fn append_meta(&self, payload: Bytes) -> Result<(Offset, u64), AppendError> {
        let bytes = payload.len() as u64;
        let permit = self.meta.reserve(payload.len()).await?;
        let base_offset = self.meta.next_offset();
        let entry = Entry {
            base_offset,
            count: 1,
            payload,
        };
        self.meta.append(permit, entry).await?;
        let mut state = self.state.lock();
        let index = state.transactions.index_mut();
        let position = index.position();
        index.note_appended(bytes);
        Ok((base_offset, position))
    }
}

const REPLACED: &str = "a block of aborted transactions is not where it was";

fn overlaps(aborted: &Aborted, (from, upper): (Offset, Offset)) -> bool {
    aborted.last >= from && aborted.first < upper
}
