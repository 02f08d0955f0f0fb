//! Merges the state batches of a share partition.

use std::collections::BTreeMap;

use millrace_model::Offset;

use crate::share_state::ShareStateBatch;

/// What is known of one record. Of two facts about it, the greater counts, as in Kafka: more deliveries, or a state that comes
/// later. So it does not matter in which order writes arrive that a leader had under way at the same time.
type Fact = (i16, i8);

fn fact(batch: &ShareStateBatch) -> Fact {
    (batch.delivery_count, batch.delivery_state)
}

/// Merges `new` into `current`: sorted, without overlaps, and with adjacent records of the same state in one batch. Drops what is
/// below `start`. Batches of both lists may overlap and have any order; each must have its first offset at or below its last.
pub(super) fn merge(
    current: &[ShareStateBatch],
    new: &[ShareStateBatch],
    start: Option<Offset>,
) -> Vec<ShareStateBatch> {
    let start = start.unwrap_or(0);
    let kept = |batch: &&ShareStateBatch| batch.last_offset >= start;
    // Where batches begin and end. An end is the offset behind the last one.
    let mut edges: Vec<(Offset, bool, Fact)> = Vec::with_capacity(2 * (current.len() + new.len()));
    for batch in current.iter().chain(new).filter(kept) {
        edges.push((batch.first_offset.max(start), true, fact(batch)));
        edges.push((batch.last_offset.saturating_add(1), false, fact(batch)));
    }
    edges.sort_unstable_by_key(|(offset, ..)| *offset);
    let mut merged: Vec<ShareStateBatch> = Vec::with_capacity(current.len() + new.len());
    // The facts about the records from the edge that was last passed on, each with the number of batches that state it.
    let mut facts: BTreeMap<Fact, usize> = BTreeMap::new();
    let mut from = 0;
    for (offset, begins, fact) in edges {
        if let Some((&greatest, _)) = facts.last_key_value()
            && offset > from
        {
            push(&mut merged, from..offset, greatest);
        }
        from = offset;
        match begins {
            true => *facts.entry(fact).or_default() += 1,
            false => {
                if let Some(count) = facts.get_mut(&fact) {
                    *count -= 1;
                    if *count == 0 {
                        facts.remove(&fact);
                    }
                }
            }
        }
    }
    merged
}

fn push(merged: &mut Vec<ShareStateBatch>, offsets: std::ops::Range<Offset>, is: Fact) {
    let last_offset = offsets.end - 1;
    match merged.last_mut() {
        Some(last) if last.last_offset + 1 == offsets.start && fact(last) == is => {
            last.last_offset = last_offset;
        }
        _ => merged.push(ShareStateBatch {
            first_offset: offsets.start,
            last_offset,
            delivery_state: is.1,
            delivery_count: is.0,
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(
        first_offset: Offset,
        last_offset: Offset,
        delivery_state: i8,
        delivery_count: i16,
    ) -> ShareStateBatch {
        ShareStateBatch {
            first_offset,
            last_offset,
            delivery_state,
            delivery_count,
        }
    }

    /// The state of every record by itself.
    fn by_offset(batches: &[ShareStateBatch]) -> BTreeMap<Offset, Fact> {
        let mut facts = BTreeMap::new();
        for batch in batches {
            for offset in batch.first_offset..=batch.last_offset {
                let known = facts.entry(offset).or_insert(fact(batch));
                *known = fact(batch).max(*known);
            }
        }
        facts
    }

    fn batches() -> impl Strategy<Value = Vec<ShareStateBatch>> {
        let state = prop_oneof![Just(0_i8), Just(2), Just(4)];
        let one = (0_u64..60, 0_u64..12, state, 0_i16..4);
        let one =
            one.prop_map(|(first, more, state, count)| batch(first, first + more, state, count));
        prop::collection::vec(one, 0..20)
    }

    proptest! {
        #[test]
        fn merging_is_done_by_offset(
            current in batches(),
            new in batches(),
            start in prop::option::of(0_u64..70),
        ) {
            let current = merge(&current, &[], None);
            let merged = merge(&current, &new, start);
            let mut expected = by_offset(&[current, new].concat());
            expected.retain(|offset, _| *offset >= start.unwrap_or(0));
            prop_assert_eq!(by_offset(&merged), expected);
            for pair in merged.windows(2) {
                let [a, b] = pair else { unreachable!() };
                prop_assert!(a.last_offset < b.first_offset, "sorted and disjoint");
                let touch = a.last_offset + 1 == b.first_offset;
                prop_assert!(!touch || fact(a) != fact(b), "as few batches as possible");
            }
        }

        #[test]
        fn the_order_of_merging_does_not_matter(a in batches(), b in batches(), c in batches()) {
            let left = merge(&merge(&a, &b, None), &c, None);
            let right = merge(&a, &merge(&c, &b, None), None);
            prop_assert_eq!(&left, &right);
            prop_assert_eq!(merge(&left, &b, None), left);
        }
    }

    #[test]
    fn a_batch_is_split_by_one_inside_it() {
        let merged = merge(&[batch(0, 9, 0, 1)], &[batch(3, 5, 2, 1)], Some(1));
        let expected = [batch(1, 2, 0, 1), batch(3, 5, 2, 1), batch(6, 9, 0, 1)];
        assert_eq!(merged, expected);
    }
}
