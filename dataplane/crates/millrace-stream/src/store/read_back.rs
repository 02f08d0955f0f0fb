//! Reads payloads that were offloaded to the log: for their upload, or for a reader.

use std::{sync::Arc, time::Duration};

use millrace_budget::Charge;
use millrace_model::{Classified, FailureClass, Offset, StreamId};
use millrace_wal::{ReadError, WalRange};
use tokio::time::timeout;

use super::StoreInner;
use crate::{
    cache::{Block, CachedEntry, Contents, LocatedEntry, Placed, Places, SealedBlock},
    entry::{self, Entry, InvalidLoggedEntry},
};

/// How long an upload waits in line for memory. Then it goes ahead: it is what empties the log, and
/// the uploads under way together take half of the cache at most.
const LOAD_WAIT: Duration = Duration::from_secs(1);

/// Why a payload was not read back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadBackError {
    #[error(transparent)]
    Log(ReadError),
    /// It has rotted since it was written; an opening does not look at payloads. Never trimmed, so
    /// that a volume that is restored has it.
    #[error(
        "the record of {stream}@{base_offset} at position {position} of the log is damaged; \
         restore the log's volume"
    )]
    Damaged {
        stream: StreamId,
        base_offset: Offset,
        position: u64,
    },
    #[error("a record of the log has changed: {0}")]
    Record(#[from] InvalidLoggedEntry),
    #[error("the log has {stream}@{found} where {stream}@{expected} was written")]
    Other {
        stream: StreamId,
        expected: Offset,
        found: Offset,
    },
    #[error("block {0} was uploaded twice")]
    Taken(u64),
}

impl Classified for ReadBackError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Log(error) => error.class(),
            Self::Damaged { .. } | Self::Record(_) | Self::Other { .. } => FailureClass::Corrupt,
            Self::Taken(_) => FailureClass::Rejected,
        }
    }
}

impl ReadBackError {
    /// Says whose record it is: `owner` tells by its position.
    fn of(error: ReadError, owner: impl Fn(u64) -> Option<(StreamId, Offset)>) -> Self {
        let damaged = match &error {
            ReadError::Damaged(position) => owner(*position).map(|owner| (owner, *position)),
            ReadError::Absent | ReadError::Device(_) => None,
        };
        match damaged {
            Some(((stream, base_offset), position)) => Self::Damaged {
                stream,
                base_offset,
                position,
            },
            None => Self::Log(error),
        }
    }
}

impl StoreInner {
    /// A sealed block with its payloads in memory, for its one upload.
    pub(super) async fn load(&self, sealed: &SealedBlock) -> Result<Arc<Block>, ReadBackError> {
        self.evict.must_not_offload(sealed);
        match sealed.take() {
            Contents::Memory(block) => Ok(block),
            Contents::Device(places) => {
                let block = self.read_block(sealed.sequence, places).await?;
                self.metrics.read_back_bytes.increment(block.bytes);
                Ok(Arc::new(block))
            }
            Contents::Taken => Err(ReadBackError::Taken(sealed.sequence)),
        }
    }

    async fn read_block(&self, sequence: u64, places: Places) -> Result<Block, ReadBackError> {
        let Places {
            mut entries,
            charge: places_charge,
        } = places;
        {
            let streams = self.streams.read();
            entries.retain(|located| streams.contains_key(&located.stream));
        }
        entries.sort_unstable_by_key(|located| located.entry.wal.start);
        let bytes = entries
            .iter()
            .map(|located| u64::from(located.entry.payload_bytes))
            .sum();
        let mut charge = self.charge_load(bytes).await;
        if let Some(places_charge) = places_charge {
            charge.absorb(places_charge);
        }
        let ranges: Vec<WalRange> = entries.iter().map(|located| located.entry.wal).collect();
        let records = self.wal.read_many(&ranges).await;
        let owner = |position| {
            let owns = |located: &&LocatedEntry| located.entry.wal.start == position;
            let located = entries.iter().find(owns)?;
            Some((located.stream, located.entry.base_offset))
        };
        let records = records.map_err(|error| ReadBackError::of(error, owner))?;
        let mut block = Block::read_back(sequence, charge);
        for (located, record) in entries.into_iter().zip(records) {
            let entry = entry_in(record, located.stream, &located.entry)?;
            let placed = Placed {
                stream: located.stream,
                epoch: located.epoch,
                entry,
                wal: located.entry.wal.start..located.entry.wal.end,
                // All of them are charged together.
                charge: self.budget.take_anyway(0),
            };
            block.push(placed, Duration::ZERO);
        }
        Ok(block)
    }

    async fn charge_load(&self, bytes: u64) -> Charge {
        let wanted = bytes.min(self.budget.capacity());
        if let Some(charge) = self.budget.try_take(wanted) {
            return charge;
        }
        let place = self.budget.take(wanted);
        self.make_room();
        match timeout(LOAD_WAIT, place).await {
            Ok(charge) => charge,
            Err(_) => self.budget.take_anyway(bytes),
        }
    }

    /// A reader has met a record of the log that is not what was written.
    pub(crate) fn report_corrupt_log(
        &self,
        stream: StreamId,
        offset: Offset,
        error: &ReadBackError,
    ) {
        self.metrics.corrupt_wal_reads.increment(1);
        tracing::error!(%stream, offset, %error, "a record of the write-ahead log is corrupt");
    }

    /// Reads entries of one stream that lie in the log.
    pub(crate) async fn read_entries(
        &self,
        stream: StreamId,
        located: &[CachedEntry],
    ) -> Result<Vec<Entry>, ReadBackError> {
        let ranges: Vec<WalRange> = located.iter().map(|entry| entry.wal).collect();
        let records = self.wal.read_many(&ranges).await;
        let owner = |position| {
            let entry = located.iter().find(|entry| entry.wal.start == position)?;
            Some((stream, entry.base_offset))
        };
        let records = records.map_err(|error| ReadBackError::of(error, owner))?;
        let entries = located.iter().zip(records);
        entries
            .map(|(located, record)| entry_in(record, stream, located))
            .collect()
    }
}

/// The entry in a record that was read back: exactly the one that was written there.
fn entry_in(
    record: bytes::Bytes,
    stream: StreamId,
    located: &CachedEntry,
) -> Result<Entry, ReadBackError> {
    let logged = entry::decode(record)?;
    let same = logged.stream == stream
        && logged.entry.base_offset == located.base_offset
        && logged.entry.count == located.count;
    if same {
        return Ok(logged.entry);
    }
    Err(ReadBackError::Other {
        stream,
        expected: located.base_offset,
        found: logged.entry.base_offset,
    })
}
