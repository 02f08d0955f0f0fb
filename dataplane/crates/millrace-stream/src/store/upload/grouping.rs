//! Groups the streams of a block into objects.

use millrace_model::StreamId;

use crate::cache::Block;

/// How a block becomes objects. Both lists are sorted; a stream is in one of them at most.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Grouping {
    /// These share one object; never exactly one.
    pub(super) set: Vec<StreamId>,
    /// These get one each: they are large enough, or alone.
    pub(super) singles: Vec<StreamId>,
}

/// Sorts the streams of `block` that are still wanted by their size.
pub(super) fn group(
    block: &Block,
    split_bytes: u64,
    wanted: impl Fn(StreamId) -> bool,
) -> Grouping {
    let mut streams: Vec<(StreamId, u64)> = block
        .streams
        .iter()
        .filter(|(id, _)| wanted(**id))
        .map(|(id, run)| (*id, run.bytes))
        .collect();
    streams.sort_unstable();
    let (large, small): (Vec<_>, Vec<_>) = streams
        .into_iter()
        .partition(|&(_, bytes)| bytes >= split_bytes);
    let ids = |streams: Vec<(StreamId, u64)>| streams.into_iter().map(|(id, _)| id).collect();
    let mut grouping = Grouping {
        set: ids(small),
        singles: ids(large),
    };
    if grouping.set.len() == 1 {
        grouping.singles.append(&mut grouping.set);
        grouping.singles.sort_unstable();
    }
    grouping
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use millrace_budget::Budget;
    use millrace_model::StreamEpoch;

    use super::*;
    use crate::{cache::Placed, entry::Entry};

    fn block(sizes: &[(u64, usize)]) -> Block {
        let (budget, mut block) = (Budget::new(u64::MAX / 2), Block::new(0));
        for (position, &(stream, size)) in sizes.iter().enumerate() {
            let placed = Placed {
                stream: StreamId(stream),
                epoch: StreamEpoch(1),
                entry: Entry {
                    base_offset: 0,
                    count: 1,
                    payload: Bytes::from(vec![0; size]),
                },
                payload_sum: None,
                wal: position as u64..position as u64 + 1,
                charge: budget.take_anyway(size as u64),
            };
            block.push(placed, Duration::ZERO);
        }
        block
    }

    fn grouped(sizes: &[(u64, usize)]) -> (Vec<u64>, Vec<u64>) {
        let grouping = group(&block(sizes), 100, |stream| stream != StreamId(99));
        let ids = |streams: &[StreamId]| streams.iter().map(|id| id.get()).collect();
        (ids(&grouping.set), ids(&grouping.singles))
    }

    #[test]
    fn large_streams_stand_alone_and_small_ones_share() {
        assert_eq!(grouped(&[(3, 100), (1, 99), (2, 5)]), (vec![1, 2], vec![3]));
        assert_eq!(grouped(&[(3, 200), (1, 99)]), (vec![], vec![1, 3]));
        assert_eq!(grouped(&[(7, 1)]), (vec![], vec![7]));
        assert_eq!(grouped(&[]), (vec![], vec![]));
    }

    #[test]
    fn discarded_streams_are_left_out() {
        assert_eq!(grouped(&[(99, 200), (1, 1), (2, 1)]), (vec![1, 2], vec![]));
        assert_eq!(grouped(&[(99, 200), (1, 1)]), (vec![], vec![1]));
        assert_eq!(grouped(&[(99, 200)]), (vec![], vec![]));
    }
}
