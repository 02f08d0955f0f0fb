use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::slots::SLOTS_MAX;

const IN_FLIGHT_MAX: usize = SLOTS_MAX as usize;
const PREFETCHES_MAX: usize = IN_FLIGHT_MAX / PREFETCH_PART;

const MIB: u32 = 1 << 20;

fn id(object: u64, position: u64) -> BlockId {
    BlockId {
        object: ObjectId(object),
        position,
    }
}

/// Blocks of `size` side by side in object 1.
fn row(queue: &mut Queue, first: u64, many: u64, size: u32, urgency: Urgency) {
    for nth in first..first + many {
        queue.push(id(1, nth * u64::from(size)), size, urgency);
    }
}

fn positions(run: &Run) -> Vec<u64> {
    run.blocks.iter().map(|(id, _)| id.position).collect()
}

#[test]
fn neighbours_go_together_up_to_the_largest_request() {
    let mut queue = Queue::default();
    row(&mut queue, 0, 10, MIB, Urgency::Miss);
    let sizes: Vec<_> = std::iter::from_fn(|| queue.next_run())
        .map(|run| run.blocks.len())
        .collect();
    assert_eq!(sizes, [4, 4, 2]);
}

#[test]
fn a_gap_is_read_over_only_where_it_is_small() {
    let mut queue = Queue::default();
    queue.push(id(1, 0), MIB, Urgency::Miss);
    queue.push(id(1, u64::from(MIB) + 10_000), MIB, Urgency::Miss);
    queue.push(id(1, u64::from(MIB) * 2 + 200_000), MIB, Urgency::Miss);
    queue.push(id(2, u64::from(MIB)), MIB, Urgency::Miss);
    let run = queue.next_run().expect("a slot");
    assert_eq!(run.blocks.len(), 2);
    assert_eq!(queue.next_run().expect("a slot").blocks.len(), 1);
    assert_eq!(
        queue.next_run().expect("a slot").blocks,
        [(id(2, u64::from(MIB)), MIB)]
    );
    assert!(queue.is_empty() && queue.next_run().is_none());
}

#[test]
fn what_somebody_waits_for_goes_first_and_takes_a_little_along() {
    let mut queue = Queue::default();
    row(&mut queue, 0, 8, MIB / 4, Urgency::Prefetch);
    queue.raise(id(1, u64::from(MIB)));
    let run = queue.next_run().expect("a slot");
    assert_eq!(run.urgency, Urgency::Miss);
    // A mebibyte in all, the block itself among it.
    assert_eq!(run.blocks.len(), 4);
    assert!(positions(&run).contains(&u64::from(MIB)));
    let rest = queue.next_run().expect("a slot");
    assert_eq!(rest.urgency, Urgency::Prefetch);
}

#[test]
fn prefetches_leave_slots_to_those_who_wait() {
    let mut queue = Queue::default();
    for object in 0..200 {
        queue.push(id(object, 0), MIB, Urgency::Prefetch);
    }
    let prefetches = std::iter::from_fn(|| queue.next_run()).count();
    assert_eq!(prefetches, PREFETCHES_MAX);
    for object in 200..400 {
        queue.push(id(object, 0), MIB, Urgency::Miss);
    }
    let misses = std::iter::from_fn(|| queue.next_run()).count();
    assert_eq!(prefetches + misses, IN_FLIGHT_MAX);
    queue.raised_in_flight();
    queue.ended(Urgency::Miss);
    assert_eq!(queue.next_run().expect("a slot").urgency, Urgency::Miss);
}

proptest! {
    /// Every block goes exactly once, in runs that keep their bounds.
    #[test]
    fn every_block_goes_once(
        pushes in prop::collection::vec((0..4_u64, 0..60_u64, any::<bool>()), 1..120),
        raised in prop::collection::vec((0..4_u64, 0..60_u64), 0..20),
        removed in prop::collection::vec((0..4_u64, 0..60_u64), 0..20),
    ) {
        const SIZE: u32 = 300_000;
        let at = |object, nth: u64| id(object, nth * u64::from(SIZE));
        let mut queue = Queue::default();
        let mut waiting = HashSet::new();
        for (object, nth, is_miss) in pushes {
            if waiting.insert(at(object, nth)) {
                let urgency = if is_miss { Urgency::Miss } else { Urgency::Prefetch };
                queue.push(at(object, nth), SIZE, urgency);
            }
        }
        for (object, nth) in raised {
            queue.raise(at(object, nth));
        }
        for (object, nth) in removed {
            prop_assert_eq!(queue.remove(at(object, nth)), waiting.remove(&at(object, nth)));
        }
        while let Some(run) = queue.next_run() {
            let (first, last) = (run.blocks[0], *run.blocks.last().expect("not empty"));
            let span = last.0.position + u64::from(last.1) - first.0.position;
            let wanted: u64 = run.blocks.iter().map(|(_, size)| u64::from(*size)).sum();
            prop_assert!(span <= REQUEST_BYTES_MAX && span - wanted <= wanted / GAPS_PART);
            prop_assert!(run.blocks.is_sorted());
            for (id, _) in run.blocks {
                prop_assert_eq!(id.object, first.0.object);
                prop_assert!(waiting.remove(&id));
            }
            queue.ended(run.urgency);
        }
        prop_assert!(waiting.is_empty() && queue.is_empty());
        prop_assert_eq!(queue.in_flight(), 0);
    }
}
