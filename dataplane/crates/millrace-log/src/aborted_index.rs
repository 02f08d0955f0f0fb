//! The aborted transactions of a partition that have left memory.
//!
//! The newest aborted transactions are in memory and in every checkpoint ([`crate::transactions`]). When there are more than
//! [`AbortedBounds::in_memory`], the oldest are written to a *block*: an entry of the partition's meta stream, between its checkpoints.
//! Memory and checkpoints keep the directory of the blocks, in the order of the markers: where each block is, and the offsets that its
//! transactions span. A fetch reads the blocks that overlap the offsets that it returns, one after the other.
//!
//! ```text
//!  u8   kind             128; numbered by hand, never reused, and no version of a checkpoint
//!  u32  transactions     in the order of their markers, each: i64 producer id | varint marker's offset − the one's before
//!                        | varint marker's offset − first offset; the first marker is relative to 0
//! ```
//!
//! Numbers are big-endian, varints are LEB128. The stream below guards every byte with a checksum.
//!
//! **Crashes.** A block is durable before the directory has it. Until a checkpoint has that directory, a restart finds the transactions
//! in the checkpoint before, or in the data that it replays; the block is then never referenced. Blocks are not changed: one
//! that replaces others is a new entry, and what it replaces stays until the checkpoint that no longer refers to it is durable.
//!
//! **Space.** A stream is only trimmed at its start, so a block keeps the checkpoints behind it. Once the stream holds more than twice
//! the bytes of the blocks and [`AbortedBounds::slack_bytes`], the block that is first in the stream is written again at its end, merged with
//! neighbours while they fit into [`AbortedBounds::merged`]. The bytes written for this are at most those of the checkpoints that it frees,
//! plus one copy per doubling of a block.

use std::collections::{HashSet, VecDeque};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use millrace_model::Offset;

use crate::{
    checkpoint::{InvalidCheckpoint, get_varint, put_varint},
    transactions::Aborted,
};

/// Blocks of one partition: with [`AbortedBounds::merged`] each, 268 million aborted transactions, which is one per second for eight
/// years. The directory of as many takes 1 MiB in memory and about 300 KiB in a checkpoint.
pub(crate) const BLOCKS_MAX: usize = 16_384;

/// What one block costs a partition in memory, bytes.
pub(crate) const BLOCK_BYTES: u64 = 64;

/// From this many blocks on, small neighbours are merged even where that frees no space.
const BLOCKS_MANY: usize = BLOCKS_MAX / 2;

/// The first byte of a block.
const KIND: u8 = 128;

/// How many aborted transactions of a partition stay in memory, and how the others are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedBounds {
    /// From this many on in memory, the oldest are written to a block.
    pub in_memory: usize,
    /// Transactions of a new block; at most `in_memory`.
    pub per_block: usize,
    /// Transactions of a block into which others are merged: what a fetch reads at once.
    pub merged: usize,
    /// Bytes that the meta stream may hold besides twice those of its blocks.
    pub slack_bytes: u64,
}

impl Default for AbortedBounds {
    /// A new block has about 50 KiB, a merged one about 200 KiB.
    fn default() -> Self {
        Self {
            in_memory: 4_608,
            per_block: 4_096,
            merged: 16_384,
            slack_bytes: 4 * 1024 * 1024,
        }
    }
}

/// Where a block is, and what it spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Its offset in the meta stream.
    pub(crate) at: Offset,
    /// Bytes of the meta stream before it.
    pub(crate) position: u64,
    /// Its own bytes.
    pub(crate) bytes: u64,
    /// Its transactions.
    pub(crate) count: u64,
    /// The smallest first offset of its transactions.
    pub(crate) first_min: Offset,
    /// The largest offset of their markers.
    pub(crate) last_max: Offset,
}

impl Block {
    /// The block of `entries`, which are in the order of their markers; `None` where there are none.
    pub(crate) fn of(
        entries: &[Aborted],
        (at, position, bytes): (Offset, u64, u64),
    ) -> Option<Self> {
        Some(Self {
            at,
            position,
            bytes,
            count: entries.len() as u64,
            first_min: entries.iter().map(|one| one.first).min()?,
            last_max: entries.last()?.last,
        })
    }
}

/// The directory of a partition's blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AbortedIndex {
    /// In the order of the markers.
    blocks: VecDeque<Block>,
    /// Bytes that were ever appended to the meta stream; an estimate, as a crash forgets some.
    position: u64,
}

impl AbortedIndex {
    /// A directory as a checkpoint kept it; `None` where it is out of order.
    pub(crate) fn from_parts(blocks: Vec<Block>, position: u64) -> Option<Self> {
        let ascends = |pair: &[Block]| match pair {
            [a, b] => a.last_max < b.last_max,
            _ => true,
        };
        let is_sound = |block: &Block| block.count > 0 && block.first_min < block.last_max;
        let sound = blocks.len() <= BLOCKS_MAX
            && blocks.windows(2).all(ascends)
            && blocks.iter().all(is_sound);
        sound.then(|| Self {
            blocks: blocks.into(),
            position,
        })
    }

    /// Bytes that were ever appended to the meta stream.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Takes note of an entry of the meta stream.
    pub(crate) fn note_appended(&mut self, bytes: u64) {
        self.position = self.position.saturating_add(bytes);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.blocks.len() >= BLOCKS_MAX
    }

    /// Where the meta stream must begin at the latest, for a log that begins at `start`; `None` where that needs no block.
    pub(crate) fn needs_from(&self, start: Offset) -> Option<Offset> {
        let blocks = self.blocks.iter().filter(|block| block.last_max >= start);
        blocks.map(|block| block.at).min()
    }

    /// The largest marker offset of all blocks.
    pub(crate) fn last_max(&self) -> Option<Offset> {
        self.blocks.back().map(|block| block.last_max)
    }

    /// Adds a block behind all others.
    pub(crate) fn push(&mut self, block: Block) {
        self.blocks.push_back(block);
    }

    /// The blocks that may have transactions with records or a marker from `from` on and records below `upper`.
    pub(crate) fn overlapping(&self, from: Offset, upper: Offset) -> Vec<Block> {
        let begin = self.blocks.partition_point(|block| block.last_max < from);
        let behind = self.blocks.range(begin..);
        behind
            .filter(|block| block.first_min < upper)
            .copied()
            .collect()
    }

    /// The blocks that have the markers at these offsets.
    pub(crate) fn with_markers(&self, lasts: &HashSet<Offset>) -> Vec<Block> {
        let mut found: Vec<Block> = Vec::new();
        let mut lasts: Vec<Offset> = lasts.iter().copied().collect();
        lasts.sort_unstable();
        for last in lasts {
            let at = self.blocks.partition_point(|block| block.last_max < last);
            let block = self.blocks.get(at).copied();
            if let Some(block) = block.filter(|block| found.last() != Some(block)) {
                found.push(block);
            }
        }
        found
    }

    pub(crate) fn has(&self, block: &Block) -> bool {
        let below = |one: &Block| one.last_max < block.last_max;
        let at = self.blocks.partition_point(below);
        self.blocks.get(at) == Some(block)
    }

    /// Puts one block, or none, in the place of neighbours. Where all of these were trimmed meanwhile, it puts none.
    pub(crate) fn replace(&mut self, old: &[Block], new: Option<Block>) {
        let Some(at) = self.blocks.iter().position(|block| old.contains(block)) else {
            return;
        };
        self.blocks.retain(|block| !old.contains(block));
        if let Some(new) = new {
            self.blocks.insert(at, new);
        }
    }

    /// Neighbours that should be written again as one block: because the first of the stream keeps more than it should, or
    /// because there are many.
    pub(crate) fn to_tidy(&self, bounds: &AbortedBounds) -> Option<Vec<Block>> {
        let (oldest, block) = { self.blocks.iter().enumerate() }.min_by_key(|(_, one)| one.at)?;
        let live: u64 = self.blocks.iter().map(|block| block.bytes).sum();
        let held = self.position.saturating_sub(block.position);
        let allowed = live.saturating_mul(2).saturating_add(bounds.slack_bytes);
        if held > allowed {
            return Some(self.run_from(oldest, bounds));
        }
        if self.blocks.len() <= BLOCKS_MANY {
            return None;
        }
        let mut runs = (0..self.blocks.len()).map(|from| self.run_from(from, bounds));
        runs.find(|run| run.len() > 1)
    }

    /// The block at `from` with as many of those behind it as one block may have.
    fn run_from(&self, from: usize, bounds: &AbortedBounds) -> Vec<Block> {
        let mut room = bounds.merged as u64;
        let mut is_first = true;
        let fits = self.blocks.range(from..).take_while(|block| {
            let fits = is_first || block.count <= room;
            is_first = false;
            room = room.saturating_sub(block.count);
            fits
        });
        fits.copied().collect()
    }

    /// Forgets the blocks whose transactions all end below the log's new start. Gives whether there were any.
    pub(crate) fn trim(&mut self, start: Offset) -> bool {
        let gone = self.blocks.partition_point(|block| block.last_max < start);
        self.blocks.drain(..gone);
        gone > 0
    }

    /// What it costs, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.blocks.len() as u64 * BLOCK_BYTES
    }
}

/// Whether an entry of the meta stream is a block.
pub(crate) fn is_block(payload: &[u8]) -> bool {
    payload.first() == Some(&KIND)
}

/// Writes a block.
pub(crate) fn encode_block(entries: &[Aborted]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(KIND);
    put_aborted(&mut out, entries.iter());
    out.freeze()
}

/// Reads a block back: its transactions, in the order of their markers.
///
/// # Errors
/// See [`InvalidCheckpoint`].
pub(crate) fn decode_block(
    mut bytes: Bytes,
    block: &Block,
) -> Result<Vec<Aborted>, InvalidCheckpoint> {
    let kind = bytes.try_get_u8().map_err(|_| InvalidCheckpoint::Short)?;
    if kind != KIND {
        return Err(InvalidCheckpoint::Version(kind));
    }
    let unsound = InvalidCheckpoint::Unsound("it is not the block that the directory names");
    let found = get_aborted(
        &mut bytes,
        usize::try_from(block.count).unwrap_or(usize::MAX),
    )?;
    if bytes.has_remaining() {
        return Err(InvalidCheckpoint::Trailing(bytes.remaining()));
    }
    let entries: Vec<Aborted> = found.into_iter().map(aborted).collect();
    let expected = (block.at, block.position, block.bytes);
    match Block::of(&entries, expected) {
        Some(read) if read == *block => Ok(entries),
        _ => Err(unsound),
    }
}

fn aborted((producer_id, first, last): (i64, Offset, Offset)) -> Aborted {
    Aborted {
        producer_id,
        first,
        last,
        // Not known any more: it may be anywhere.
        later_from: 0,
    }
}

/// Writes aborted transactions in the order of their markers.
pub(crate) fn put_aborted<'a>(
    out: &mut BytesMut,
    entries: impl ExactSizeIterator<Item = &'a Aborted>,
) {
    out.put_u32(u32::try_from(entries.len()).unwrap_or(u32::MAX));
    let mut before = 0;
    for one in entries {
        out.put_i64(one.producer_id);
        put_varint(out, one.last.wrapping_sub(before));
        put_varint(out, one.last.wrapping_sub(one.first));
        before = one.last;
    }
}

/// Producer id, first offset and marker's offset of each; at most `max`.
pub(crate) fn get_aborted(
    bytes: &mut Bytes,
    max: usize,
) -> Result<Vec<(i64, Offset, Offset)>, InvalidCheckpoint> {
    let short = |_| InvalidCheckpoint::Short;
    let count = bytes.try_get_u32().map_err(short)? as usize;
    if count > max {
        return Err(InvalidCheckpoint::Unsound(
            "there are too many aborted transactions",
        ));
    }
    let mut aborted = Vec::with_capacity(count.min(bytes.remaining()));
    let mut last: Offset = 0;
    for _ in 0..count {
        let producer_id = bytes.try_get_i64().map_err(short)?;
        last = last.wrapping_add(get_varint(bytes)?);
        let first = last.wrapping_sub(get_varint(bytes)?);
        aborted.push((producer_id, first, last));
    }
    Ok(aborted)
}

/// Writes the directory.
pub(crate) fn put_index(out: &mut BytesMut, index: &AbortedIndex) {
    out.put_u64(index.position);
    out.put_u32(u32::try_from(index.blocks.len()).unwrap_or(u32::MAX));
    let mut before = 0;
    for block in &index.blocks {
        put_varint(out, block.at);
        put_varint(out, block.position);
        put_varint(out, block.bytes);
        put_varint(out, block.count);
        put_varint(out, block.last_max.wrapping_sub(before));
        put_varint(out, block.last_max.wrapping_sub(block.first_min));
        before = block.last_max;
    }
}

/// Reads the directory back.
pub(crate) fn get_index(bytes: &mut Bytes) -> Result<AbortedIndex, InvalidCheckpoint> {
    let short = |_| InvalidCheckpoint::Short;
    let position = bytes.try_get_u64().map_err(short)?;
    let count = bytes.try_get_u32().map_err(short)? as usize;
    if count > BLOCKS_MAX {
        return Err(InvalidCheckpoint::Unsound(
            "there are too many blocks of aborted transactions",
        ));
    }
    let mut blocks = Vec::with_capacity(count.min(bytes.remaining()));
    let mut last_max: Offset = 0;
    for _ in 0..count {
        let (at, position) = (get_varint(bytes)?, get_varint(bytes)?);
        let (bytes_of_block, count) = (get_varint(bytes)?, get_varint(bytes)?);
        last_max = last_max.wrapping_add(get_varint(bytes)?);
        let first_min = last_max.wrapping_sub(get_varint(bytes)?);
        blocks.push(Block {
            at,
            position,
            bytes: bytes_of_block,
            count,
            first_min,
            last_max,
        });
    }
    AbortedIndex::from_parts(blocks, position).ok_or(InvalidCheckpoint::Unsound(
        "the blocks of aborted transactions are out of order",
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: AbortedBounds = AbortedBounds {
        in_memory: 3,
        per_block: 2,
        merged: 5,
        slack_bytes: 100,
    };

    fn block(at: Offset, count: u64, (first_min, last_max): (Offset, Offset)) -> Block {
        Block {
            at,
            position: at * 100,
            bytes: 10,
            count,
            first_min,
            last_max,
        }
    }

    fn index(blocks: Vec<Block>, position: u64) -> AbortedIndex {
        AbortedIndex::from_parts(blocks, position).expect("in order")
    }

    proptest! {
        #[test]
        fn a_block_decodes_to_itself(
            steps in prop::collection::vec((any::<i64>(), 1u64..1 << 20, 1u64..1 << 20), 1..50),
        ) {
            let mut last = 1 << 20;
            let entries: Vec<Aborted> = steps
                .into_iter()
                .map(|(id, step, records)| {
                    last += step;
                    aborted((id, last - records, last))
                })
                .collect();
            let bytes = encode_block(&entries);
            prop_assert!(is_block(&bytes));
            let block = Block::of(&entries, (1, 2, bytes.len() as u64)).expect("not empty");
            for cut in 0..bytes.len().min(40) {
                prop_assert!(decode_block(bytes.slice(..cut), &block).is_err());
            }
            let other = Block { last_max: block.last_max + 1, ..block };
            prop_assert!(decode_block(bytes.clone(), &other).is_err());
            prop_assert_eq!(decode_block(bytes, &block), Ok(entries));
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = get_index(&mut bytes.clone().into());
            if let Some(kind) = bytes.first_mut() {
                *kind = KIND;
            }
            let _ = decode_block(bytes.into(), &block(0, 3, (0, 1)));
        }
    }

    #[test]
    fn the_block_that_keeps_too_much_is_merged_with_those_behind_it() {
        let blocks = vec![
            block(7, 2, (0, 10)),
            block(3, 2, (5, 20)),
            block(4, 3, (12, 30)),
            block(5, 1, (22, 40)),
        ];
        // 40 bytes live, so 180 may be held from position 300 on.
        assert_eq!(index(blocks.clone(), 480).to_tidy(&BOUNDS), None);
        let mut index = index(blocks.clone(), 481);
        let run = index.to_tidy(&BOUNDS).expect("too much is held");
        assert_eq!(run, blocks[1..3]);
        let merged = block(9, 5, (5, 30));
        index.replace(&run, Some(merged));
        assert_eq!(index.blocks, [blocks[0], merged, blocks[3]]);
        assert_eq!(index.overlapping(11, 22), [merged]);
        assert_eq!((index.needs_from(0), index.needs_from(41)), (Some(5), None));
        // Trimmed before it is replaced.
        index.trim(31);
        index.replace(&[merged], Some(block(10, 4, (5, 30))));
        assert_eq!(index.blocks, [blocks[3]]);
    }

    #[test]
    fn many_small_blocks_are_merged() {
        let small = |n: u64| block(n, 2, (n * 2, n * 2 + 1));
        let many = |count: usize| index((0..count as u64).map(small).collect(), 0);
        assert_eq!(many(BLOCKS_MANY).to_tidy(&BOUNDS), None);
        let run = many(BLOCKS_MANY + 1).to_tidy(&BOUNDS).expect("many");
        assert_eq!(run, [small(0), small(1)]);
        assert!(many(BLOCKS_MAX).is_full());
    }
}
