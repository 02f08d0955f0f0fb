//! Replacing objects by others that hold the same.

use std::collections::{BTreeMap, HashSet};

use millrace_model::{ObjectId, Offset, StreamId};

use super::{
    Inner, begin, fence,
    index::{Committed, Index},
    objects::{self, Found},
};
use crate::{Compaction, CompactionError, ObjectContents, StoreFailure};

/// Offsets from the first to, not including, the second.
type Stretch = (Offset, Offset);

/// Of each stream the stretches that can be read, ascending.
type Stretches = BTreeMap<StreamId, Vec<Stretch>>;

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

/// Whether the outputs hold exactly what the inputs hold, as far as it can be read.
fn check(
    index: &Index,
    inputs: &[ObjectContents],
    outputs: &[Committed],
) -> Result<(), CompactionError> {
    if let Some(output) = outputs.iter().find(|output| output.is_empty()) {
        return Err(CompactionError::EmptyRange(output.id));
    }
    let mut held = Stretches::new();
    for live in inputs.iter().flat_map(|input| &input.live) {
        let stretches = held.entry(live.range.stream).or_default();
        stretches.push((live.readable_from, live.range.end));
    }
    let mut offered = Stretches::new();
    for range in outputs.iter().flat_map(|output| &output.ranges) {
        let Some(stream) = index.streams.get(&range.stream) else {
            if range.stream.get() >= index.next_stream {
                return Err(CompactionError::UnknownStream(range.stream));
            }
            continue;
        };
        let readable = (range.start.max(stream.start), range.end);
        if readable.0 < readable.1 {
            offered.entry(range.stream).or_default().push(readable);
        }
    }
    let streams: HashSet<StreamId> = held.keys().chain(offered.keys()).copied().collect();
    for stream in streams {
        let joined = |of: &mut Stretches| join(of.remove(&stream).unwrap_or_default());
        let differs = |offset| CompactionError::Differs { stream, offset };
        let (held, offered) = (joined(&mut held), joined(&mut offered));
        let (held, offered) = (held.map_err(differs)?, offered.map_err(differs)?);
        if let Some(offset) = first_difference(&held, &offered) {
            return Err(differs(offset));
        }
    }
    Ok(())
}

/// Sorts stretches and joins those that touch.
///
/// # Errors
/// The first offset that is there twice.
fn join(mut stretches: Vec<Stretch>) -> Result<Vec<Stretch>, Offset> {
    stretches.sort_unstable();
    let mut joined: Vec<Stretch> = Vec::with_capacity(stretches.len());
    for (start, end) in stretches {
        match joined.last_mut() {
            Some(last) if start < last.1 => return Err(start),
            Some(last) if start == last.1 => last.1 = end,
            _ => joined.push((start, end)),
        }
    }
    Ok(joined)
}

/// The first offset that is in one list only. Both are joined.
fn first_difference(one: &[Stretch], other: &[Stretch]) -> Option<Offset> {
    let mut pairs = one.iter().zip(other);
    if let Some((a, b)) = pairs.find(|(a, b)| a != b) {
        return Some(if a.0 == b.0 {
            a.1.min(b.1)
        } else {
            a.0.min(b.0)
        });
    }
    let longer = if one.len() > other.len() { one } else { other };
    longer
        .get(one.len().min(other.len()))
        .map(|stretch| stretch.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_stretches_are_one_and_overlapping_ones_are_refused() {
        assert_eq!(
            join(vec![(5, 9), (0, 5), (20, 21)]),
            Ok(vec![(0, 9), (20, 21)])
        );
        assert_eq!(join(vec![(0, 6), (5, 9)]), Err(5));
        assert_eq!(join(Vec::new()), Ok(Vec::new()));
    }

    #[test]
    fn the_first_difference_is_named() {
        let difference = first_difference;
        assert_eq!(difference(&[(0, 9)], &[(0, 9)]), None);
        assert_eq!(difference(&[(0, 9)], &[(0, 7)]), Some(7));
        assert_eq!(difference(&[(0, 9)], &[(1, 9)]), Some(0));
        assert_eq!(difference(&[(0, 9)], &[(0, 9), (12, 13)]), Some(12));
        assert_eq!(difference(&[(0, 9), (12, 13)], &[]), Some(0));
    }
}
