//! How many bytes of records may be buffered.
//!
//! What is fetched arrives in frames: one allocation for many partitions. A frame is in memory for
//! as long as any part of it is, so it is charged as a whole until its last part is released. A
//! reader that leaves one partition alone would keep many frames alive for a small part of each;
//! where room is short, such parts are therefore copied out ([`Budget::is_wasteful`]).

use std::collections::HashMap;

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

    pub(super) fn free(&self) -> usize {
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

    /// Whether most of a frame is kept for a small part of it.
    pub(super) fn is_wasteful(&self, id: FrameId) -> bool {
        self.frames
            .get(&id)
            .is_some_and(|frame| frame.live < frame.bytes / 2)
    }

    /// Whether any frame is wasteful; cheap where none is held.
    pub(super) fn has_waste(&self) -> bool {
        self.frames
            .values()
            .any(|frame| frame.live < frame.bytes / 2)
    }

    #[cfg(test)]
    pub(super) fn live(&self) -> usize {
        self.frames.values().map(|frame| frame.live).sum()
    }
}
