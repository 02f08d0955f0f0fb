//! How many bytes of records may be buffered.
//!
//! What is fetched arrives in frames: one allocation for many partitions. A frame is in memory for
//! as long as any part of it is, so it is charged as a whole until its last part is released. A
//! reader that leaves one partition alone would keep many frames alive for a small part of each;
//! where room is short, such parts are therefore copied out ([`Budget::wasteful`]). While they are
//! copied they are in memory twice: a part of the bytes is kept free for that.

use std::collections::HashMap;

/// Answers leave this part of all bytes free, for parts of frames that are copied out.
const COPIES_PART: usize = 8;

/// A frame that is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::consumer) struct FrameId(u64);

#[derive(Debug, Clone, Copy)]
struct Frame {
    bytes: usize,
    /// Bytes that are still needed.
    live: usize,
}

/// The bytes of one consumer.
#[derive(Debug)]
pub(super) struct Budget {
    total: usize,
    charged: usize,
    /// For answers that are on their way.
    reserved: usize,
    frames: HashMap<FrameId, Frame>,
    next_frame: u64,
    charged_max: usize,
}

impl Budget {
    pub(super) fn new(total: usize) -> Self {
        Self {
            total,
            charged: 0,
            reserved: 0,
            frames: HashMap::new(),
            next_frame: 0,
            charged_max: 0,
        }
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// For more answers.
    pub(super) fn free(&self) -> usize {
        self.room().saturating_sub(self.total / COPIES_PART)
    }

    /// For answers and copies.
    fn room(&self) -> usize {
        self.total.saturating_sub(self.charged + self.reserved)
    }

    pub(super) fn charged(&self) -> usize {
        self.charged
    }

    /// The most that was ever charged.
    pub(super) fn charged_max(&self) -> usize {
        self.charged_max
    }

    #[cfg(test)]
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    pub(super) fn reserve(&mut self, bytes: usize) {
        self.reserved += bytes;
    }

    pub(super) fn unreserve(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.reserved, "what is given back was reserved");
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    /// Charges a frame; nothing is charged where nothing of it is needed.
    pub(super) fn charge(&mut self, bytes: usize, live: usize) -> FrameId {
        let id = FrameId(self.next_frame);
        self.next_frame += 1;
        if live > 0 {
            self.charged += bytes;
            self.charged_max = self.charged_max.max(self.charged);
            self.frames.insert(id, Frame { bytes, live });
        }
        id
    }

    /// So many bytes of a frame are no longer needed.
    pub(super) fn release(&mut self, id: FrameId, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let Some(frame) = self.frames.get_mut(&id) else {
            debug_assert!(false, "a frame is released as often as it was charged");
            return;
        };
        debug_assert!(bytes <= frame.live, "no byte is released twice");
        frame.live = frame.live.saturating_sub(bytes);
        if frame.live == 0 {
            self.charged -= frame.bytes;
            self.frames.remove(&id);
        }
    }

    /// Frames that are kept for less than half of them, the smallest parts first.
    pub(super) fn wasteful(&self) -> Vec<FrameId> {
        let wasteful = |(_, frame): &(&FrameId, &Frame)| frame.live < frame.bytes / 2;
        let mut frames: Vec<_> = self.frames.iter().filter(wasteful).collect();
        frames.sort_by_key(|(_, frame)| frame.live);
        frames.into_iter().map(|(id, _)| *id).collect()
    }

    /// Whether there is room for a copy of what is needed of a frame.
    pub(super) fn can_copy(&self, id: FrameId) -> bool {
        self.frames
            .get(&id)
            .is_some_and(|frame| frame.live <= self.room())
    }

    #[cfg(test)]
    pub(super) fn live(&self) -> usize {
        self.frames.values().map(|frame| frame.live).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_frames_are_copied_out_within_the_bound() {
        let mut budget = Budget::new(800);
        let mut kept = Vec::new();
        while budget.free() >= 100 {
            let frame = budget.charge(100, 100);
            budget.release(frame, 60);
            kept.push(frame);
        }
        assert_eq!((kept.len(), budget.free()), (7, 0));
        for frame in budget.wasteful() {
            assert!(budget.can_copy(frame));
            budget.charge(40, 40);
            budget.release(frame, 40);
        }
        assert_eq!((budget.charged(), budget.live()), (280, 280));
        assert!(budget.charged_max() <= 800);
        assert!(budget.wasteful().is_empty());
    }

    #[test]
    fn nothing_is_copied_for_which_there_is_no_room() {
        let mut budget = Budget::new(800);
        let frame = budget.charge(770, 770);
        budget.release(frame, 730);
        assert_eq!(budget.wasteful(), [frame]);
        assert!(!budget.can_copy(frame));
    }
}
