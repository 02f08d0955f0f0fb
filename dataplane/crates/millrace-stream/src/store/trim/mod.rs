//! Moves the start of a stream on; what lies below it can no longer be read, and its objects are
//! deleted later.

mod delete;
mod log;

use millrace_model::{Cause, Offset};

pub(super) use self::{
    delete::run as delete_unused,
    log::{LogTrims, run as trim_log},
};
use super::StoreInner;
use crate::{error::TrimError, state::StreamState};

impl StoreInner {
    /// Makes `new_start` the first offset of the stream, durably. Never moves back. Returns the start
    /// that is durable.
    pub(crate) async fn trim(
        &self,
        state: &StreamState,
        new_start: Offset,
    ) -> Result<Offset, TrimError> {
        let confirmed = state.confirm_offset();
        if new_start > confirmed {
            return Err(TrimError::AboveConfirmed {
                offset: new_start,
                confirmed,
            });
        }
        // Readers may have been moved on by a trim that has not reached the metadata: what is told
        // to hold must be durable, so this one goes as far.
        let new_start = new_start.max(state.start_offset());
        if new_start <= state.trimmed_offset() {
            return Ok(state.trimmed_offset());
        }
        // Readers first: once the metadata has it, objects may go away under them.
        state.raise_start(new_start);
        let trimmed = self
            .meta
            .trim_stream(state.id, self.node_epoch, new_start)
            .await
            .map_err(|error| TrimError::Meta(Cause::new(error)))?;
        state.trimmed(trimmed);
        // Not the readers' start: another trim may have moved that on, and not be durable yet.
        Ok(trimmed)
    }
}
