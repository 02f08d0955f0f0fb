//! Takes entries: room for each, and its place in the log and in the open block, which agree on the
//! order.

mod sizes;

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::poll;
use millrace_budget::Charge;
use millrace_model::{Cause, limits::ENTRY_BYTES_MAX};
use millrace_wal::{Reservation, ReserveError, WalRange};
use parking_lot::Mutex;
use tokio::{sync::mpsc, time::timeout};

use self::sizes::LiveSizes;
pub(super) use self::sizes::{BlockSizes, Sizing};
use super::StoreInner;
use crate::{
    acks::Durable,
    cache::{Block, Durability, ENTRY_BESIDE_BYTES_MAX, Placed, SealedBlock, entry_cost},
    entry::{self, Entry},
    error::{AppendError, Bottleneck},
    state::StreamState,
};

/// Room for one entry, in memory and in the log. Dropping it gives the room back.
#[derive(Debug)]
pub struct Permit {
    bytes: usize,
    charge: Charge,
    reservation: Reservation,
}

impl Permit {
    /// The payload that it was asked for, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// An entry on its way to the device.
pub(crate) struct Placement {
    pub(crate) durable: Durable,
    pub(crate) durability: Arc<Durability>,
    /// Its record in the log.
    pub(crate) wal: WalRange,
}

/// The most of the log that one block takes. The log is trimmed block by block, and small records
/// cost it more than their payload, so the payload alone does not bound it.
const BLOCKS_IN_LOG_MIN: u64 = 4;

/// The open block, and what decides when it is sealed.
pub(super) struct Appends {
    /// The block that takes appends.
    open_block: Mutex<Block>,
    /// Sealed blocks go here, in order; the receiver is the upload task.
    sealed: mpsc::UnboundedSender<Arc<SealedBlock>>,
    /// Appends that wait for room in the log, or for the device.
    log_waiters: AtomicU64,
    /// What `sizes` follows from; the lock orders changes.
    sizing: Mutex<Sizing>,
    sizes: LiveSizes,
    /// Bytes of the log at which a block is sealed.
    wal_span_max: u64,
}

impl Appends {
    /// Blocks from `sequence` on, on a log of `wal_capacity` bytes.
    pub(super) fn new(
        sequence: u64,
        sizing: Sizing,
        wal_capacity: u64,
        sealed: mpsc::UnboundedSender<Arc<SealedBlock>>,
    ) -> Self {
        Self {
            open_block: Mutex::new(Block::new(sequence)),
            sealed,
            log_waiters: AtomicU64::new(0),
            sizes: LiveSizes::new(&sizing),
            sizing: Mutex::new(sizing),
            wal_span_max: wal_capacity / BLOCKS_IN_LOG_MIN,
        }
    }

    /// What the cache is to have; for a while after it was made smaller it has more.
    pub(super) fn cache_bytes(&self) -> u64 {
        self.sizes.cache_bytes()
    }
}

impl StoreInner {
    /// Waits, within bounds, until an entry of `bytes` payload fits.
    pub(crate) async fn reserve(&self, bytes: usize) -> Result<Permit, AppendError> {
        self.check_open()?;
        let room = self
            .append
            .cache_bytes()
            .saturating_sub(ENTRY_BESIDE_BYTES_MAX);
        let max = room.min(ENTRY_BYTES_MAX as u64);
        if bytes as u64 > max {
            return Err(AppendError::TooLarge { bytes, max });
        }
        let charge = match self.budget.try_take(entry_cost(bytes)) {
            Some(charge) => charge,
            None => {
                self.metrics.cache_waits.increment(1);
                let place = self.budget.take(entry_cost(bytes));
                self.make_room();
                let wait = timeout(self.config.reserve_wait, place);
                tokio::select! {
                    biased;
                    admitted = wait => {
                        admitted.map_err(|_| AppendError::Overloaded(Bottleneck::LogCache))?
                    }
                    reason = self.failure.wait() => return Err(AppendError::Failed(reason)),
                }
            }
        };
        let reservation = self.reserve_log(entry::HEADER_BYTES + bytes).await?;
        // The wait may have outlasted the store.
        self.check_open()?;
        Ok(Permit {
            bytes,
            charge,
            reservation,
        })
    }

    async fn reserve_log(&self, bytes: usize) -> Result<Reservation, AppendError> {
        let mut reserve = pin!(self.wal.reserve(bytes));
        let reserved = match poll!(reserve.as_mut()) {
            std::task::Poll::Ready(reserved) => reserved,
            std::task::Poll::Pending => {
                self.metrics.log_waits.increment(1);
                let _waiting = LogWaiter::new(self);
                self.make_room();
                let wait = timeout(self.config.reserve_wait, reserve);
                wait.await
                    .map_err(|_| AppendError::Overloaded(Bottleneck::WriteAheadLog))?
            }
        };
        reserved.map_err(|error| match error {
            ReserveError::Full(_) => AppendError::Overloaded(Bottleneck::WriteAheadLog),
            ReserveError::TooLarge { bytes_max, .. } => {
                let max = (bytes_max as u64).saturating_sub(entry::HEADER_BYTES as u64);
                AppendError::TooLarge {
                    bytes: bytes - entry::HEADER_BYTES,
                    max,
                }
            }
            ReserveError::Closed => AppendError::Closed,
            ReserveError::Failed(reason) => AppendError::Failed(Cause::new(reason)),
        })
    }

    /// Writes an entry to the log and puts it into the open block. The caller holds the stream's
    /// lock, so that the order of offsets is the order of both.
    pub(crate) fn place(
        &self,
        state: &StreamState,
        (entry, payload_sum): (&Entry, Option<u32>),
        permit: Permit,
    ) -> Placement {
        let Permit {
            charge,
            reservation,
            ..
        } = permit;
        let header = entry::encode_header(state.id, state.epoch, entry);
        let now = self.clock.now();
        self.metrics.appended(entry.payload.len());
        let mut block = self.append.open_block.lock();
        if block.charged_bytes() + charge.bytes() > self.append.sizes.cost_max() {
            self.seal(&mut block);
        }
        let parts = [header, entry.payload.clone()];
        let append = self.wal.append_summed(reservation, &parts, payload_sum);
        let wal = append.range;
        let placed = Placed {
            stream: state.id,
            epoch: state.epoch,
            entry: entry.clone(),
            payload_sum,
            wal: wal.start..wal.end,
            charge,
        };
        block.push(placed, now);
        block.durability.begin();
        let durability = Arc::clone(&block.durability);
        if self.is_full(&block) {
            self.seal(&mut block);
        }
        drop(block);
        let durable = Box::pin(async move {
            append.await.map_err(|error| match error {
                millrace_wal::AppendError::Closed => AppendError::Closed,
                error => AppendError::Failed(Cause::new(error)),
            })
        });
        Placement {
            durable,
            durability,
            wal,
        }
    }

    /// Whether the open block is due for its upload. What its entries cost counts too: tiny ones cost
    /// several times their payload.
    fn is_full(&self, open: &Block) -> bool {
        open.bytes >= self.append.sizes.upload_threshold()
            || open.charged_bytes() >= self.append.sizes.cost_max()
            || open.wal_span() >= self.append.wal_span_max
    }

    /// Closes the open block, if it has anything, and sends it on its way.
    fn seal(&self, open: &mut Block) {
        if open.is_empty() {
            return;
        }
        let filled_in = open.age(self.clock.now());
        self.upload.pace.sealed(open.bytes, filled_in);
        let next = Block::new(open.sequence + 1);
        let sealed = SealedBlock::in_memory(std::mem::replace(open, next));
        let sealed = Arc::new(sealed);
        self.evict.may_offload(Arc::clone(&sealed));
        // The receiver is gone only when the store is: then the log keeps what the block had.
        let _ = self.append.sealed.send(sealed);
    }

    /// Seals the open block if it is due for its upload: blocks may have become smaller.
    fn seal_if_full(&self) {
        let mut open = self.append.open_block.lock();
        if self.is_full(&open) {
            self.seal(&mut open);
        }
    }

    /// Seals the open block if it has become too old.
    pub(crate) fn seal_if_old(&self) {
        let mut open = self.append.open_block.lock();
        if open.age(self.clock.now()) >= self.config.upload_interval {
            self.seal(&mut open);
        }
    }

    /// Seals the open block if it costs `cost_min` bytes, or if no other is on its way.
    pub(super) fn seal_for_offload(&self, cost_min: u64) {
        let mut open = self.append.open_block.lock();
        if open.charged_bytes() >= cost_min || self.upload.next_to_commit() == open.sequence {
            self.seal(&mut open);
        }
    }

    /// Seals the open block and says up to which sequence, excluded, blocks have to be committed so
    /// that all of it is.
    pub(crate) fn seal_for_flush(&self) -> u64 {
        let mut open = self.append.open_block.lock();
        self.seal(&mut open);
        open.sequence
    }

    /// Whether somebody waits for room in the log that uploads would make. A reservation waits for
    /// the device too, which has to take what it was given first; then the log need not be full. A
    /// record takes a quarter of it at most, so where half is free nobody waits for uploads.
    pub(crate) fn log_is_wanted(&self) -> bool {
        if self.append.log_waiters.load(Ordering::Acquire) == 0 {
            return false;
        }
        let wal = self.wal.metrics();
        wal.used >= wal.capacity / 2
    }
}

/// Counts those who wait for room in the log, or for the device, while it lives.
struct LogWaiter<'a>(&'a StoreInner);

impl<'a> LogWaiter<'a> {
    fn new(store: &'a StoreInner) -> Self {
        store.append.log_waiters.fetch_add(1, Ordering::AcqRel);
        Self(store)
    }
}

impl Drop for LogWaiter<'_> {
    fn drop(&mut self) {
        self.0.append.log_waiters.fetch_sub(1, Ordering::AcqRel);
    }
}
