//! Share partitions at their leader (KIP-932): which records of a partition a share group has acquired, which member holds
//! them, and how often they were delivered. Pure state machines: nothing here waits, reads a clock or stores anything.
//!
//! | module | what it holds |
//! |---|---|
//! | `in_flight` | the records in flight of one share partition, from its start offset to its end offset |
//! | `acquire` | which of the records that were read a member gets |
//! | `acknowledge` | acknowledgements of members, checked, and applied |
//! | `persist` | what of it has to be stored, and what a stored state says |
//! | `deliverable` | which of the batches that were read hold records for consumers |
//! | `sessions` | share sessions: what a member fetches from this broker |
//! | `config` | the settings of share groups |

mod acknowledge;
mod acquire;
mod config;
mod deliverable;
mod in_flight;
mod persist;
mod sessions;

pub use acknowledge::{
    AcknowledgeError, Acknowledgement, InvalidAcknowledgement, acknowledgements,
};
pub use acquire::{AcquiredRecords, Acquirer};
pub use config::{GroupSettings, ResetStrategy, ShareConfig};
pub use deliverable::{AbortedRecords, BatchSpan, Fetched, deliverable};
pub use in_flight::{InFlightRecords, Limits};
pub use persist::{InvalidState, Settled, StoredBatch, Write};
pub use sessions::{
    MEMBER_ID_BYTES_MAX, SESSION_PARTITION_BYTES, SESSION_PARTITIONS_MAX, SessionError, SessionKey,
    Sessions,
};
