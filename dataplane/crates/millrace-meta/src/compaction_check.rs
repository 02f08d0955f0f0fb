//! Whether a compaction keeps what it replaces.

use std::collections::{BTreeMap, HashSet};

use millrace_model::{Offset, StreamId};

use crate::{
    CompactionError, ObjectContents,
    index::{Committed, Index},
};

/// Offsets from the first to, not including, the second.
type Stretch = (Offset, Offset);

/// Of each stream the stretches that can be read, ascending.
type Stretches = BTreeMap<StreamId, Vec<Stretch>>;

/// Whether the outputs hold exactly what the inputs hold, as far as it can be read.
pub(crate) fn check(
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
