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
    Log(#[from] ReadError),
    #[error("block {0} was uploaded twice")]
    Taken(u64),
    #[error(transparent)]
    Damaged(#[from] DamagedRecord),
}

/// A record of the log is not what was written: it has rotted since, for an opening does not look at
/// payloads. It is not trimmed, so that a volume that is restored has it.
#[derive(Debug, thiserror::Error)]
#[error("the record of {stream}@{base_offset} at position {position} of the log {fault}")]
pub(crate) struct DamagedRecord {
    pub(crate) stream: StreamId,
    base_offset: Offset,
    position: u64,
    fault: Fault,
}

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("is damaged")]
    Checksum,
    #[error("is no entry: {0}")]
    NoEntry(#[from] InvalidLoggedEntry),
    #[error("is one of {0}@{1}")]
    Other(StreamId, Offset),
}

impl Classified for DamagedRecord {
    fn class(&self) -> FailureClass {
        FailureClass::Corrupt
    }
}

impl Classified for ReadBackError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Log(error) => error.class(),
            Self::Taken(_) => FailureClass::Rejected,
            Self::Damaged(error) => error.class(),
        }
    }
}

/// A block that was loaded for its upload.
pub(super) struct Loaded {
    pub(super) block: Arc<Block>,
    /// The streams that are left out of it, because a record of theirs is damaged.
    pub(super) damaged: Vec<DamagedRun>,
}

/// What a block has of a stream with a damaged record.
pub(super) struct DamagedRun {
    pub(super) record: DamagedRecord,
    /// Where in the log its first record is.
    pub(super) wal_start: u64,
}

impl DamagedRun {
    /// Takes the stream of a damaged record out of a block's entries, which are in order of position.
    fn take(record: DamagedRecord, entries: &mut Vec<LocatedEntry>) -> Self {
        let stream = record.stream;
        let first = entries.iter().find(|located| located.stream == stream);
        let wal_start = first.map_or(record.position, |first| first.entry.wal.start);
        entries.retain(|located| located.stream != stream);
        Self { record, wal_start }
    }
}

impl StoreInner {
    /// A sealed block with its payloads in memory, for its one upload.
    pub(super) async fn load(&self, sealed: &SealedBlock) -> Result<Loaded, ReadBackError> {
        self.evict.must_not_offload(sealed);
        match sealed.take() {
            Contents::Memory(block) => Ok(Loaded {
                block,
                damaged: Vec::new(),
            }),
            Contents::Device(places) => {
                let loaded = self.read_block(sealed.sequence, places).await?;
                let bytes = loaded.block.bytes;
                self.metrics.read_back_bytes.increment(bytes);
                Ok(loaded)
            }
            Contents::Taken => Err(ReadBackError::Taken(sealed.sequence)),
        }
    }

    async fn read_block(&self, sequence: u64, places: Places) -> Result<Loaded, ReadBackError> {
        let Places {
            mut entries,
            charge: places_charge,
        } = places;
        entries.retain(|located| self.is_wanted(located.stream));
        entries.sort_unstable_by_key(|located| located.entry.wal.start);
        let bytes = entries
            .iter()
            .map(|located| u64::from(located.entry.payload_bytes))
            .sum();
        let mut charge = self.charge_load(bytes).await;
        if let Some(places_charge) = places_charge {
            charge.absorb(places_charge);
        }
        let (read, damaged) = self.read_undamaged(&mut entries).await?;
        let mut block = Block::read_back(sequence, charge);
        for (located, entry) in entries.into_iter().zip(read) {
            let placed = Placed {
                stream: located.stream,
                epoch: located.epoch,
                entry,
                payload_sum: None,
                wal: located.entry.wal.start..located.entry.wal.end,
                // All of them are charged together.
                charge: self.budget.take_anyway(0),
            };
            block.push(placed, Duration::ZERO);
        }
        let block = Arc::new(block);
        Ok(Loaded { block, damaged })
    }

    /// Reads entries that are in order of position. A stream with a damaged record is taken out of them.
    async fn read_undamaged(
        &self,
        entries: &mut Vec<LocatedEntry>,
    ) -> Result<(Vec<Entry>, Vec<DamagedRun>), ReadBackError> {
        let (mut suspect, mut damaged) = (None, Vec::new());
        loop {
            let located = entries.iter().map(|one| (one.stream, &one.entry)).collect();
            match self.read_records(located).await {
                Ok(read) => return Ok((read, damaged)),
                Err(ReadBackError::Damaged(record)) => {
                    // A second look rules out the transport.
                    if suspect.replace(record.position) == Some(record.position) {
                        damaged.push(DamagedRun::take(record, entries));
                    }
                }
                Err(error) => return Err(error),
            }
        }
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

    /// Somebody has met a record of the log that is not what was written.
    pub(crate) fn report_damaged(&self, error: &DamagedRecord) {
        self.metrics.corrupt_wal_reads.increment(1);
        tracing::error!(%error, "a record of the write-ahead log is corrupt");
    }

    /// Reads entries of one stream that lie in the log.
    pub(crate) async fn read_entries(
        &self,
        stream: StreamId,
        located: &[CachedEntry],
    ) -> Result<Vec<Entry>, ReadBackError> {
        let located = located.iter().map(|entry| (stream, entry)).collect();
        self.read_records(located).await
    }

    /// Reads entries, which are in order of position.
    async fn read_records(
        &self,
        located: Vec<(StreamId, &CachedEntry)>,
    ) -> Result<Vec<Entry>, ReadBackError> {
        let ranges: Vec<WalRange> = located.iter().map(|(_, entry)| entry.wal).collect();
        let damaged = |(stream, entry): (StreamId, &CachedEntry), fault| DamagedRecord {
            stream,
            base_offset: entry.base_offset,
            position: entry.wal.start,
            fault,
        };
        let records = match self.wal.read_many(&ranges).await {
            Ok(records) => records,
            Err(error) => {
                let is_damaged = |range: &WalRange| matches!(error, ReadError::Damaged(position) if position == range.start);
                let owner = ranges.iter().position(is_damaged);
                return Err(match owner {
                    Some(owner) => damaged(located[owner], Fault::Checksum).into(),
                    None => error.into(),
                });
            }
        };
        let entries = located.into_iter().zip(records);
        let entry = |(located, record): ((StreamId, &CachedEntry), bytes::Bytes)| {
            let (stream, expected) = located;
            entry_in(record, stream, expected).map_err(|fault| damaged(located, fault).into())
        };
        entries.map(entry).collect()
    }
}

/// The entry in a record that was read back: exactly the one that was written there.
fn entry_in(record: bytes::Bytes, stream: StreamId, located: &CachedEntry) -> Result<Entry, Fault> {
    let logged = entry::decode(record)?;
    let same = logged.stream == stream
        && logged.entry.base_offset == located.base_offset
        && logged.entry.count == located.count;
    if same {
        return Ok(logged.entry);
    }
    Err(Fault::Other(logged.stream, logged.entry.base_offset))
}
