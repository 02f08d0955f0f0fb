//! One sequential position of a stream, and the blocks that will be read from there.

use std::{collections::VecDeque, time::Duration};

use millrace_model::{Offset, StreamId};
use millrace_objects::{BlockRef, ObjectKey};

use crate::{block::BlockId, window::Window};

/// Blocks that a reader knows of ahead of its position, at most: the widest window in blocks of the
/// default size, and one read beyond. Bounds its memory to some 10 KiB.
pub(crate) const READER_BLOCKS_MAX: usize = 96;

/// Numbers readers in the order in which they came.
pub(crate) type ReaderId = u64;

/// What is to be read next: a block, or a stretch where compaction has left nothing. Those of a reader
/// follow each other without a gap.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    /// The first offset that is read from here.
    pub(crate) from: Offset,
    /// One past the last.
    pub(crate) to: Offset,
    /// Where it stands.
    pub(crate) place: Option<Place>,
}

/// Where a block stands.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) id: BlockId,
    pub(crate) key: ObjectKey,
    pub(crate) block: BlockRef,
}

/// A reader. A sequential read is recognized by where the last one ended, so a reader is
/// a consumer's position without his name. It is found too by where its last read began: an answer
/// may get lost, and two consumers that are one read apart share everything.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) stream: StreamId,
    /// Where its last read began.
    pub(crate) start: Offset,
    /// Where it ended.
    pub(crate) next: Offset,
    /// Nothing from here on was asked for: newer entries are in the log cache.
    pub(crate) end: Offset,
    /// What its last read might have given, bounded, in bytes.
    pub(crate) asked_bytes: u64,
    /// From the block that holds `start` on.
    pub(crate) blocks: VecDeque<Watched>,
    /// The first so many are watched: they are in memory or on their way.
    pub(crate) held: usize,
    /// Reads under way.
    pub(crate) busy: u32,
    /// Those of them that wait for room. While all do, what the reader watches is not protected: a read
    /// holds nothing while it waits.
    pub(crate) waiting: u32,
    /// Reads that went on where the one before had ended.
    pub(crate) went_on: u32,
    pub(crate) window: Window,
    /// Somebody asks the metadata for what follows its blocks.
    pub(crate) is_locating: bool,
    pub(crate) last_use: Duration,
    /// Its place among all uses of all readers.
    pub(crate) used_at: u64,
    /// Its places in the orders of eviction.
    pub(crate) listed: Listed,
}

/// A located block, and which incarnation of it is watched.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) located: Located,
    pub(crate) generation: u64,
}

/// Under which keys a reader is listed for eviction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) used_at: u64,
    pub(crate) holds: bool,
    pub(crate) holds_behind: bool,
    /// Bytes that it has not read through, if it holds a block of them.
    pub(crate) ahead: Option<u64>,
}

impl Located {
    /// Bytes in the object.
    pub(crate) fn size(&self) -> u64 {
        self.place
            .as_ref()
            .map_or(0, |place| u64::from(place.block.size))
    }
}

impl Reader {
    pub(crate) fn new(stream: StreamId, start: Offset, now: Duration) -> Self {
        Self {
            stream,
            start,
            next: start,
            end: 0,
            asked_bytes: 0,
            blocks: VecDeque::new(),
            held: 0,
            busy: 0,
            waiting: 0,
            went_on: 0,
            window: Window::new(),
            is_locating: false,
            last_use: now,
            used_at: 0,
            listed: Listed::default(),
        }
    }

    /// Which block is read at `offset`; the number of blocks if they end before.
    pub(crate) fn index_of(&self, offset: Offset) -> usize {
        self.blocks
            .partition_point(|watched| watched.located.to <= offset)
    }

    /// Where the located blocks end; `None` if there are none.
    pub(crate) fn blocks_end(&self) -> Option<Offset> {
        self.blocks.back().map(|last| last.located.to)
    }

    /// Whether the located blocks cover `offset`, or end there.
    pub(crate) fn can_reach(&self, offset: Offset) -> bool {
        let first = self.blocks.front().map(|first| first.located.from);
        first.is_some_and(|first| first <= offset)
            && self.blocks_end().is_some_and(|end| offset <= end)
    }

    /// Keeps the blocks that are held and so many more, and no memory for others.
    pub(crate) fn forget_beyond(&mut self, ahead: usize) {
        let kept = self.held + ahead;
        self.blocks.truncate(kept);
        self.blocks.shrink_to(kept);
    }

    /// Blocks that are kept only because the last read may be repeated.
    pub(crate) fn behind(&self) -> usize {
        self.index_of(self.next).min(self.held)
    }

    /// Bytes of the blocks that are in memory, or on their way, and not read through yet.
    pub(crate) fn ahead_bytes(&self) -> u64 {
        let ahead = self.blocks.range(self.behind()..self.held);
        ahead.map(|watched| watched.located.size()).sum()
    }
}
