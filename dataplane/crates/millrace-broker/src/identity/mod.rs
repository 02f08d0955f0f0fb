//! Whose storage this is: metadata, write-ahead log and bucket each say so, and a start changes none
//! of them before all agree.
//!
//! 1. `look` reads what each says, without opening anything for writing.
//! 2. `agree` compares; a [`Mismatch`] ends the start with everything as it was.
//! 3. `claim` migrates, registers the node, and writes the new start into bucket and log.
//!
//! A bucket that does not answer is checked later, unless something is blank that it alone can vouch
//! for. Until then writes to it wait behind a gate (`bucket_check`).

mod adopt;
mod agree;
mod bucket_check;
mod claim;
mod look;
mod mismatch;

pub use self::{
    adopt::{AdoptError, Adoption, Loss, plan_adoption},
    look::BucketSilent,
    mismatch::{Age, Mismatch},
};
pub(crate) use self::{
    bucket_check::BucketCheck,
    claim::{Claimed, claim},
    look::look_at_log,
};
