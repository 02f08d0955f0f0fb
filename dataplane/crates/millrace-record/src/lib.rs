//! Record batch v2: validate, view, re-stamp offsets in place.
//!
//! A batch travels from the socket to the log as the bytes that the client sent. [`split`] divides a
//! record set into batches without copying, [`Batch::validate`] validates one, [`Batch::restamp`]
//! writes the assigned offsets into the same bytes, and [`records`] reads single records.
//! [`BatchBuilder`] makes a batch; [`sign_batch`] writes its producer. [`TransactionEnd`] is what the
//! markers of transactions say.
//! The layout is Kafka's message format 2 (KIP-98), drawn in [`header`].

mod batch;
mod builder;
mod compression;
mod control;
mod error;
pub mod header;
mod records;
mod retain;
mod varint;

pub use batch::{Batch, BatchLimits, split};
pub use builder::{BatchBuilder, ClosedBatch, sign_batch};
pub use compression::{Compression, DECOMPRESSED_BYTES_MAX};
pub use control::TransactionEnd;
pub use error::{BatchFault, InvalidBatch};
pub use header::{BatchHeader, TimestampType, header_of};
pub use records::{
    Header, InvalidTimestamp, RECORD_ERRORS_MAX, Record, RecordView, Records, RecordsSummary,
    records, records_within,
};
pub use retain::{holds_exactly, retain_records, without_records};
