//! Whose storage this is: metadata, write-ahead log and bucket each say so, and a start changes none
//! of them before all agree.
//!
//! 1. `probe` reads what each says, without opening anything for writing.
//! 2. `agree` compares; a [`Mismatch`] ends the start with everything as it was.
//! 3. `claim` migrates, registers the node, and writes the new start into bucket and log.
//!
//! Where other brokers share the metadata, `join` does the same with the database.
//!
//! A bucket that does not answer, or takes no writes, is checked later, unless something is blank that it
//! alone can vouch for. Until then writes to it wait behind a gate (`bucket_check`).

mod adopt;
mod agree;
mod bucket_check;
mod claim;
mod join;
mod mismatch;
mod probe;

/// Starts that nobody here may have heard of, because a side is lost, old or did not answer: generations
/// and stream epochs are raised by so many, so that none is used twice.
pub(crate) const UNSEEN_STARTS: u64 = 1_000;
/// Producer ids that may have been given out without a trace here.
pub(crate) const UNSEEN_PRODUCER_IDS: u32 = 1_000_000;

pub use self::{
    adopt::{AdoptError, Adoption, Loss, prepare_adoption},
    mismatch::{Age, Mismatch},
    probe::BucketSilent,
};
pub(crate) use self::{
    bucket_check::{BucketCheck, HeldBack},
    claim::claim,
    join::join,
    probe::probe_log,
};
