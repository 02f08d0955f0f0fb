//! Replacing objects by others that hold the same.

use std::collections::{BTreeMap, BTreeSet};

use millrace_meta::{Compaction, CompactionError};
use millrace_model::{Offset, StreamId};

use super::{
    objects::{State, Uploaded},
    tables::Tables,
};

/// Of each stream the offsets that can be read, from the first to, not including, the second.
type Stretches = BTreeMap<StreamId, Vec<(Offset, Offset)>>;

impl Tables {
    /// Commits a compaction: its outputs hold exactly what its inputs do, as far as it can be read.
    pub(super) fn commit_compaction(
        &mut self,
        compaction: Compaction,
    ) -> Result<(), CompactionError> {
        let epoch = compaction.node_epoch;
        self.node_of(epoch)?;
        let inputs = compaction.inputs;
        let outputs = Uploaded::all(compaction.stream_set, compaction.stream_objects);
        if !outputs.is_empty()
            && outputs
                .iter()
                .all(|output| self.objects.is_recorded(output))
        {
            return Ok(());
        }
        let mut held = Stretches::new();
        for &input in &inputs {
            if self.objects.is_reserved(input) {
                return Err(CompactionError::NotCommitted(input));
            }
            for live in self
                .contents(input)
                .into_iter()
                .flat_map(|found| found.live)
            {
                let of_stream = held.entry(live.range.stream).or_default();
                of_stream.push((live.readable_from, live.range.end));
            }
        }
        let mut offered = Stretches::new();
        for range in outputs.iter().flat_map(|output| &output.ranges) {
            let Some(stream) = self.streams.get(&range.stream) else {
                continue;
            };
            let readable = (range.start.max(stream.start), range.end);
            if readable.0 < readable.1 {
                offered.entry(range.stream).or_default().push(readable);
            }
        }
        same(held, offered)?;
        for &input in &inputs {
            self.objects.set_state(input, State::Retired(None));
        }
        for output in outputs {
            let id = output.id;
            self.record(output, epoch)
                .ok_or(CompactionError::NotPrepared(id))?;
        }
        Ok(())
    }
}

fn same(mut held: Stretches, mut offered: Stretches) -> Result<(), CompactionError> {
    let streams: BTreeSet<StreamId> = held.keys().chain(offered.keys()).copied().collect();
    for stream in streams {
        let joined = |of: &mut Stretches| join(of.remove(&stream).unwrap_or_default());
        let (held, offered) = (joined(&mut held), joined(&mut offered));
        if held.is_none() || held != offered {
            return Err(CompactionError::Differs { stream, offset: 0 });
        }
    }
    Ok(())
}

/// Joins stretches that touch; `None` where two overlap.
fn join(mut stretches: Vec<(Offset, Offset)>) -> Option<Vec<(Offset, Offset)>> {
    stretches.sort_unstable();
    let mut joined: Vec<(Offset, Offset)> = Vec::new();
    for (start, end) in stretches {
        match joined.last_mut() {
            Some(last) if start < last.1 => return None,
            Some(last) if start == last.1 => last.1 = end,
            _ => joined.push((start, end)),
        }
    }
    Some(joined)
}
