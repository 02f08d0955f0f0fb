//! Replacing objects by others that hold the same.

use std::collections::HashSet;

use millrace_model::ObjectId;

use super::{
    Inner, begin, fence,
    index::Committed,
    objects::{self, Found},
};
use crate::{Compaction, CompactionError, ObjectContents, StoreFailure, compaction_check::check};

impl Inner {
    pub(super) async fn object_contents(
        &self,
        object: ObjectId,
    ) -> Result<Option<ObjectContents>, StoreFailure> {
        let mut tx = self.readers.begin().await?;
        let found = objects::find(&mut tx, object).await?;
        tx.commit().await?;
        let Some(Found::Committed(ranges)) = found else {
            return Ok(None);
        };
        // An object's ranges never change; which of them are live is asked at one moment.
        Ok(self.index.read().contents(object, &ranges))
    }

    pub(super) async fn commit_compaction(
        &self,
        compaction: Compaction,
    ) -> Result<(), CompactionError> {
        let node_epoch = compaction.node_epoch;
        let inputs = compaction.inputs.clone();
        let outputs = Committed::outputs_of(compaction);
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        fence::<CompactionError>(&mut tx, node_epoch).await?;
        let mut recorded = !outputs.is_empty();
        for output in &outputs {
            recorded = recorded && objects::is_recorded(&mut tx, output).await?;
        }
        if recorded {
            return Ok(());
        }
        let replaced = self.live_inputs(&mut tx, &inputs, &outputs).await?;
        check(&self.index.read(), &replaced, &outputs)?;
        let (now_ms, now) = (self.clock.wall_ms(), self.clock.now());
        let mut dying: Vec<ObjectId> = replaced.iter().map(|object| object.object).collect();
        objects::retire(&mut tx, &dying, now_ms).await?;
        for output in &outputs {
            let live = self.index.read().any_live(&output.ranges);
            let retired_ms = (!live).then_some(now_ms);
            if !objects::record(&mut tx, output, node_epoch, retired_ms).await? {
                return Err(CompactionError::NotPrepared(output.id));
            }
            dying.extend((!live).then_some(output.id));
        }
        self.commit(tx, |index| {
            index.remove_objects(&replaced);
            outputs.into_iter().for_each(|output| index.add(output));
            index.retire(dying, now);
        })
        .await?;
        Ok(())
    }

    /// Those of the inputs that are live, with what can be read of them. One that has been trimmed
    /// away meanwhile holds nothing, and so needs no replacement.
    async fn live_inputs(
        &self,
        tx: &mut sqlx::Transaction<'_, sqlx::Sqlite>,
        inputs: &[ObjectId],
        outputs: &[Committed],
    ) -> Result<Vec<ObjectContents>, CompactionError> {
        let mut seen: HashSet<ObjectId> = outputs.iter().map(|output| output.id).collect();
        let mut live = Vec::with_capacity(inputs.len());
        for &input in inputs {
            if !seen.insert(input) {
                return Err(CompactionError::NotCommitted(input));
            }
            match objects::find(tx, input).await? {
                Some(Found::Committed(ranges)) => {
                    live.extend(self.index.read().contents(input, &ranges));
                }
                Some(Found::Prepared) => return Err(CompactionError::NotCommitted(input)),
                Some(Found::Retired) | None => {}
            }
        }
        Ok(live)
    }
}
