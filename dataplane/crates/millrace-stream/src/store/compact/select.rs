//! Which objects are worth a compaction, and which of them together. Pure.
//!
//! Objects are merged with others of about their own size, so that a byte is written again about as
//! often as its object can grow fourfold, and not with every small object that comes after it.

use std::{collections::BTreeMap, ops::Range};

use millrace_meta::{ObjectKind, ObjectRange, StreamSetSummary};
use millrace_model::{ObjectId, Offset};

use crate::config::CompactionConfig;

/// Below this many bytes all objects count as being of one size.
const SMALL_BYTES: u64 = 1024 * 1024;

/// An object of which less than one part in so many can still be read is rewritten.
const DEAD_SHARE: u64 = 2;

/// What is rewritten for the sake of what is dead in it must have this many dead bytes: below, the
/// requests cost more than the room.
const DEAD_BYTES_MIN: u64 = 1024 * 1024;

/// Objects that become one group, oldest first.
pub(super) type Group = Vec<ObjectId>;

/// Groups among stream-set objects, which come oldest first.
pub(super) fn set_groups(sets: &[StreamSetSummary], config: &CompactionConfig) -> Vec<Group> {
    let mut tiers: BTreeMap<u32, Filling> = BTreeMap::new();
    let mut groups = Vec::new();
    for set in sets {
        // With fewer than the least number of inputs there is no group of this size.
        let grown = set.live_bytes > config.set_bytes_max / config.inputs_min.max(1) as u64;
        if grown {
            groups.extend(mostly_dead(set.size, set.live_bytes).then(|| vec![set.object]));
            continue;
        }
        let filling = tiers.entry(tier(set.live_bytes)).or_default();
        let full = filling.bytes + set.live_bytes > config.set_bytes_max
            || filling.sets.len() >= config.inputs_max;
        if full {
            std::mem::take(filling).close(config, &mut groups);
        }
        filling.bytes += set.live_bytes;
        filling.sets.push(*set);
    }
    for filling in tiers.into_values() {
        filling.close(config, &mut groups);
    }
    groups
}

/// A group that is being filled.
#[derive(Default)]
struct Filling {
    bytes: u64,
    sets: Vec<StreamSetSummary>,
}

impl Filling {
    fn close(self, config: &CompactionConfig, groups: &mut Vec<Group>) {
        if self.sets.len() >= config.inputs_min.max(2) {
            groups.push(self.sets.iter().map(|set| set.object).collect());
            return;
        }
        let dead = self
            .sets
            .iter()
            .filter(|set| mostly_dead(set.size, set.live_bytes));
        groups.extend(dead.map(|set| vec![set.object]));
    }
}

fn mostly_dead(size: u64, live_bytes: u64) -> bool {
    live_bytes < size / DEAD_SHARE && size - live_bytes >= DEAD_BYTES_MIN
}

/// Powers of four.
fn tier(bytes: u64) -> u32 {
    (bytes / SMALL_BYTES)
        .checked_ilog2()
        .map_or(0, |log| 1 + log / 2)
}

/// Groups among the objects of one stream that begins at `start`; the ranges come in their order.
pub(super) fn stream_groups(
    ranges: &[ObjectRange],
    start: Offset,
    config: &CompactionConfig,
) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut from = 0;
    while from < ranges.len() {
        let to = run_end(ranges, from, config);
        best_run(ranges, from..to, config, &mut groups);
        from = to.max(from + 1);
    }
    let grouped = |range: &ObjectRange| groups.iter().flatten().any(|id| *id == range.object);
    if let Some(first) = ranges.first().filter(|first| !grouped(first)) {
        let live_bytes = live_bytes(first, start);
        if first.kind == ObjectKind::Stream && mostly_dead(first.size, live_bytes) {
            groups.push(vec![first.object]);
        }
    }
    groups
}

/// The bytes of an object that lie behind the stream's start, as if all offsets had the same size.
fn live_bytes(range: &ObjectRange, start: Offset) -> u64 {
    let (whole, live) = (
        range.range.end - range.range.start,
        range.range.end.saturating_sub(start.max(range.range.start)),
    );
    let bytes = u128::from(range.size) * u128::from(live) / u128::from(whole.max(1));
    u64::try_from(bytes).unwrap_or(range.size)
}

/// Where the objects that can be merged with the one at `from` end: the stream's own, side by side,
/// together not too large.
fn run_end(ranges: &[ObjectRange], from: usize, config: &CompactionConfig) -> usize {
    let (mut bytes, mut to) = (0_u64, from);
    while let Some(range) = ranges.get(to) {
        let last = to.checked_sub(1).and_then(|last| ranges.get(last));
        let apart = to > from && last.is_some_and(|last| last.range.end != range.range.start);
        bytes = bytes.saturating_add(range.size);
        if range.kind != ObjectKind::Stream
            || apart
            || bytes > config.object_bytes_max
            || to - from >= config.inputs_max
        {
            break;
        }
        to += 1;
    }
    to
}

/// Makes a run one group if no object in it is larger than the others together; else looks at both
/// sides of the largest.
fn best_run(
    ranges: &[ObjectRange],
    run: Range<usize>,
    config: &CompactionConfig,
    groups: &mut Vec<Group>,
) {
    let mut left_to_do = vec![run];
    while let Some(run) = left_to_do.pop() {
        let Some(objects) = ranges.get(run.clone()) else {
            continue;
        };
        if objects.len() < config.inputs_min.max(2) {
            continue;
        }
        let total: u64 = objects.iter().map(|object| object.size).sum();
        let sizes = objects.iter().map(|object| object.size).enumerate();
        let (at, largest) = sizes.max_by_key(|&(_, size)| size).unwrap_or((0, 0));
        if largest <= total / 2 || total <= SMALL_BYTES {
            groups.push(objects.iter().map(|object| object.object).collect());
        } else {
            left_to_do.push(run.start + at + 1..run.end);
            left_to_do.push(run.start..run.start + at);
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_model::{StreamId, StreamRange};

    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn config() -> CompactionConfig {
        CompactionConfig::default()
    }

    fn sets(sizes: &[(u64, u64)]) -> Vec<StreamSetSummary> {
        let set = |(id, &(size, live_bytes)): (u64, &(u64, u64))| StreamSetSummary {
            object: ObjectId(id),
            size,
            live_bytes,
        };
        (0..).zip(sizes).map(set).collect()
    }

    fn grouped(sizes: &[(u64, u64)]) -> Vec<Vec<u64>> {
        let groups = set_groups(&sets(sizes), &config());
        let ids = |group: &Group| group.iter().map(|id| id.get()).collect();
        groups.iter().map(ids).collect()
    }

    fn live(sizes: &[u64]) -> Vec<(u64, u64)> {
        sizes.iter().map(|&size| (size * MIB, size * MIB)).collect()
    }

    #[test]
    fn sets_of_about_one_size_are_merged() {
        assert_eq!(grouped(&live(&[1, 1, 1])), Vec::<Vec<u64>>::new());
        assert_eq!(grouped(&live(&[1, 1, 64, 1, 1])), [[0, 1, 3, 4]]);
        assert_eq!(
            grouped(&live(&[70, 80, 5, 90, 100])),
            [[0, 1, 3, 4]],
            "whatever lies between"
        );
        let many = grouped(&live(&[64; 40]));
        let lengths: Vec<usize> = many.iter().map(Vec::len).collect();
        assert_eq!(lengths, [16, 16, 8], "of at most 1 GiB each");
    }

    #[test]
    fn a_set_that_has_grown_is_left_alone_until_it_is_mostly_dead() {
        assert_eq!(grouped(&live(&[900; 8])), Vec::<Vec<u64>>::new());
        assert_eq!(grouped(&[(900 * MIB, 449 * MIB)]), [[0]]);
        assert_eq!(grouped(&[(900 * MIB, 451 * MIB)]), Vec::<Vec<u64>>::new());
        assert_eq!(grouped(&[(9 * MIB, MIB)]), [[0]]);
        assert_eq!(grouped(&[(MIB, 100)]), Vec::<Vec<u64>>::new());
    }

    /// A byte is written again about as often as its object can grow fourfold.
    #[test]
    fn merging_comes_to_an_end_and_writes_little() {
        let mut sizes = Vec::new();
        let (mut next, mut written) = (0, 0);
        for _ in 0..20_000 {
            sizes.push(StreamSetSummary {
                object: ObjectId(next),
                size: MIB,
                live_bytes: MIB,
            });
            next += 1;
            for group in set_groups(&sizes, &config()) {
                let of = |set: &&StreamSetSummary| group.contains(&set.object);
                let bytes: u64 = sizes.iter().filter(of).map(|set| set.size).sum();
                sizes.retain(|set| !group.contains(&set.object));
                written += bytes;
                sizes.push(StreamSetSummary {
                    object: ObjectId(next),
                    size: bytes,
                    live_bytes: bytes,
                });
                next += 1;
            }
        }
        let total: u64 = sizes.iter().map(|set| set.size).sum();
        assert_eq!(total, 20_000 * MIB);
        assert!(written <= total * 6, "{} times", written / total);
        assert!(sizes.len() < 100, "{} are left", sizes.len());
    }

    fn ranges(sizes: &[(u64, ObjectKind)]) -> Vec<ObjectRange> {
        let range = |(at, &(size, kind)): (u64, &(u64, ObjectKind))| ObjectRange {
            object: ObjectId(at),
            size: size * MIB,
            range: StreamRange {
                stream: StreamId(1),
                start: at * 10,
                end: at * 10 + 10,
            },
            kind,
        };
        (0..).zip(sizes).map(range).collect()
    }

    fn runs(sizes: &[u64], start: Offset) -> Vec<Vec<u64>> {
        let kinds: Vec<_> = sizes
            .iter()
            .map(|&size| {
                let kind = if size == 0 {
                    ObjectKind::StreamSet
                } else {
                    ObjectKind::Stream
                };
                (size, kind)
            })
            .collect();
        let mut groups = stream_groups(&ranges(&kinds), start, &config());
        groups.sort();
        let ids = |group: &Group| group.iter().map(|id| id.get()).collect();
        groups.iter().map(ids).collect()
    }

    #[test]
    fn neighbours_of_one_stream_are_merged_up_to_the_bound() {
        let nothing = Vec::<Vec<u64>>::new();
        assert_eq!(runs(&[8, 8, 8], 0), nothing, "too few");
        assert_eq!(runs(&[8, 8, 8, 8], 0), [[0, 1, 2, 3]]);
        assert_eq!(runs(&[8, 8, 0, 8, 8], 0), nothing, "a set lies between");
        let lengths: Vec<usize> = runs(&[8; 40], 0).iter().map(Vec::len).collect();
        assert_eq!(lengths, [16, 16, 8], "of at most 128 MiB each");
    }

    #[test]
    fn a_large_object_is_not_written_again_for_a_few_small_ones() {
        let nothing = Vec::<Vec<u64>>::new();
        assert_eq!(runs(&[64, 1, 1, 1], 0), nothing);
        assert_eq!(runs(&[64, 1, 1, 1, 1], 0), [[1, 2, 3, 4]]);
        assert_eq!(
            runs(&[1, 1, 1, 1, 64, 2, 2, 2, 2], 0),
            [vec![0, 1, 2, 3], vec![5, 6, 7, 8]]
        );
    }

    #[test]
    fn the_first_object_is_rewritten_when_it_is_mostly_trimmed() {
        assert_eq!(runs(&[120, 120], 4), Vec::<Vec<u64>>::new());
        assert_eq!(runs(&[120, 120], 6), [[0]]);
        assert_eq!(runs(&[0, 120], 9), Vec::<Vec<u64>>::new());
    }
}
