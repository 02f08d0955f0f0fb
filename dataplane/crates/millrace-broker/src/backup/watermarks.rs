//! How far streams are acknowledged, as far as the chain does not say it yet.

use std::collections::HashMap;

use millrace_model::{Offset, StreamId};
use millrace_objects::chain::Watermark;

/// Watermarks in one item, 16 bytes each; others follow with the next item.
const WATERMARKS_MAX: usize = 65_536;

/// What the chain says.
#[derive(Debug, Default)]
pub(super) struct Watermarks {
    told: HashMap<StreamId, Offset>,
}

impl Watermarks {
    /// Those of `ends` that the chain does not say yet; from now on it does.
    pub(super) fn changed(&mut self, ends: Vec<(StreamId, Offset)>) -> Vec<Watermark> {
        let mut changed = Vec::new();
        for (stream, end) in ends {
            if changed.len() >= WATERMARKS_MAX {
                break;
            }
            let told = self.told.entry(stream).or_default();
            if end > *told {
                *told = end;
                changed.push(Watermark { stream, end });
            }
        }
        changed
    }

    /// The chain is to say all of them again.
    pub(super) fn forget(&mut self) {
        self.told.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_moved_is_told_until_everything_is_told_again() {
        let mut watermarks = Watermarks::default();
        let ends = |a, b| vec![(StreamId(1), a), (StreamId(2), b)];
        let told = |marks: Vec<Watermark>| -> Vec<(u64, u64)> {
            marks
                .iter()
                .map(|mark| (mark.stream.get(), mark.end))
                .collect()
        };
        assert_eq!(told(watermarks.changed(ends(0, 5))), [(2, 5)]);
        assert_eq!(told(watermarks.changed(ends(3, 5))), [(1, 3)]);
        assert_eq!(told(watermarks.changed(ends(3, 5))), []);
        watermarks.forget();
        assert_eq!(told(watermarks.changed(ends(3, 5))), [(1, 3), (2, 5)]);
    }

    #[test]
    fn an_item_takes_so_many_and_the_next_one_the_rest() {
        let mut watermarks = Watermarks::default();
        let ends: Vec<_> = (0..WATERMARKS_MAX as u64 + 7)
            .map(|id| (StreamId(id), 1))
            .collect();
        assert_eq!(watermarks.changed(ends.clone()).len(), WATERMARKS_MAX);
        assert_eq!(watermarks.changed(ends.clone()).len(), 7);
        assert!(watermarks.changed(ends).is_empty());
    }
}
