//! Which leader epoch wrote which offsets (KIP-101, KIP-320).
//!
//! An epoch starts with the first batch appended under it and ends where the next one starts.
//! Acknowledged records are never lost here, so a client never finds its position truncated; but
//! clients ask, and their next fetch waits for the answer.

use millrace_model::Offset;

/// Epochs that one partition remembers, 16 bytes each: one for each restart of the broker after which
/// something was written. The oldest go first; who asks for one of those is told the first that is
/// known, as after a deletion of records.
pub(crate) const EPOCHS_MAX: usize = 256;

/// What clients write where they know no epoch.
const NO_EPOCH: i32 = -1;

/// An epoch's first offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EpochStart {
    pub(crate) epoch: i32,
    pub(crate) offset: Offset,
}

/// Where an epoch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The epoch that was asked for, or the one below it that wrote last before it.
    pub leader_epoch: i32,
    /// One past its last offset.
    pub end_offset: Offset,
}

/// The leader epochs of one partition's records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LeaderEpochs {
    /// Ascending in both fields.
    starts: Vec<EpochStart>,
}

impl LeaderEpochs {
    /// Epochs as a checkpoint kept them. `None` where they do not ascend.
    pub(crate) fn from_parts(starts: Vec<EpochStart>) -> Option<Self> {
        let ascends = |pair: &[EpochStart]| match pair {
            [a, b] => a.epoch < b.epoch && a.offset < b.offset,
            _ => true,
        };
        let sound = starts.windows(2).all(ascends) && starts.len() <= EPOCHS_MAX;
        sound.then_some(Self { starts })
    }

    pub(crate) fn starts(&self) -> &[EpochStart] {
        &self.starts
    }

    /// Takes note of a batch at the log's end.
    pub(crate) fn append(&mut self, base_offset: Offset, epoch: i32) {
        if self.starts.last().is_some_and(|last| last.epoch >= epoch) {
            return;
        }
        if self.starts.len() >= EPOCHS_MAX {
            self.starts.remove(0);
        }
        self.starts.push(EpochStart {
            epoch,
            offset: base_offset,
        });
    }

    /// Forgets epochs that ended below the log's new start.
    pub(crate) fn trim(&mut self, start: Offset) {
        let below = self.starts.partition_point(|first| first.offset <= start);
        self.starts.drain(..below.saturating_sub(1));
    }

    /// Where `epoch` ends, when `current` is the leader's own and the log ends at `end`. `None` for
    /// an epoch that is above all of them, and for [`NO_EPOCH`].
    pub(crate) fn end_of(&self, epoch: i32, current: i32, end: Offset) -> Option<EpochEnd> {
        if epoch == current {
            return Some(EpochEnd {
                leader_epoch: current,
                end_offset: end,
            });
        }
        if epoch > current || epoch == NO_EPOCH {
            return None;
        }
        let above = self.starts.partition_point(|first| first.epoch <= epoch);
        let end_offset = self.starts.get(above).map_or(end, |next| next.offset);
        let leader_epoch = above
            .checked_sub(1)
            .map_or(epoch, |at| self.starts[at].epoch);
        Some(EpochEnd {
            leader_epoch,
            end_offset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(starts: &[(i32, Offset)]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        for &(epoch, offset) in starts {
            epochs.append(offset, epoch);
            epochs.append(offset + 1, epoch);
        }
        epochs
    }

    fn end_of(epochs: &LeaderEpochs, epoch: i32) -> Option<(i32, Offset)> {
        let found = epochs.end_of(epoch, 9, 100)?;
        Some((found.leader_epoch, found.end_offset))
    }

    #[test]
    fn an_epoch_ends_where_the_next_one_begins() {
        let epochs = epochs(&[(2, 10), (5, 30), (7, 60)]);
        // Below all that is known: the log begins with a later one.
        assert_eq!(end_of(&epochs, 1), Some((1, 10)));
        assert_eq!(end_of(&epochs, 2), Some((2, 30)));
        // It wrote nothing.
        assert_eq!(end_of(&epochs, 4), Some((2, 30)));
        assert_eq!(end_of(&epochs, 6), Some((5, 60)));
        assert_eq!(end_of(&epochs, 8), Some((7, 100)));
        assert_eq!(end_of(&epochs, 9), Some((9, 100)));
        assert_eq!(end_of(&epochs, 10), None);
        assert_eq!(end_of(&epochs, NO_EPOCH), None);
        assert_eq!(end_of(&LeaderEpochs::default(), 3), Some((3, 100)));
    }

    #[test]
    fn trimming_keeps_the_epoch_of_the_first_record() {
        let mut epochs = epochs(&[(2, 10), (5, 30), (7, 60)]);
        epochs.trim(40);
        assert_eq!(epochs.starts().len(), 2);
        assert_eq!(end_of(&epochs, 5), Some((5, 60)));
        assert_eq!(end_of(&epochs, 2), Some((2, 30)));
    }

    #[test]
    fn the_number_of_epochs_is_bounded() {
        let mut epochs = LeaderEpochs::default();
        for epoch in 0..1_000 {
            epochs.append(epoch as Offset * 2, epoch);
            assert!(epochs.starts().len() <= EPOCHS_MAX);
        }
        let again = LeaderEpochs::from_parts(epochs.starts().to_vec());
        assert_eq!(again, Some(epochs));
        let twice = vec![
            EpochStart {
                epoch: 1,
                offset: 5
            };
            2
        ];
        assert_eq!(LeaderEpochs::from_parts(twice), None);
    }
}
