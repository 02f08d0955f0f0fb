//! Append, durable ack, recover, trim: a write-ahead log with direct I/O on a block device or a
//! preallocated file. Knows nothing of Kafka or S3.
//!
//! The log is a ring. [`Wal::reserve`] waits for room, [`Wal::append`] gives a record its position
//! and completes when it is durable, [`Wal::trim`] releases space, [`Wal::open`] recovers what was
//! not trimmed; [`UnopenedWal`] reads whose log it is before anything is written. `RECOVERY.md`
//! beside this crate lists the states that a crash can leave and why recovery is correct for each of
//! them.
//!
//! Reading order: `format`, then `wal` (append and commit), then `recovery`.

mod aligned;
mod config;
pub mod device;
mod error;
mod fence;
mod format;
mod header_store;
mod metrics;
mod pacer;
mod recovery;
mod ring;
mod wal;

pub use aligned::{AlignedBuf, BufferPool};
pub use config::WalConfig;
pub use error::{AppendError, OpenError, ReadError, ReserveError};
pub use fence::{DeviceReservation, FenceError, LogFence, SharedPage, SingleAttachment};
pub use format::{BLOCK_BYTES, RECORD_HEAD_BYTES};
pub use recovery::{Recovered, inspect};
pub use ring::WalRange;
pub use wal::{Append, Reservation, ScannedWal, UnopenedWal, Wal, WalIdentity, WalOwner};
