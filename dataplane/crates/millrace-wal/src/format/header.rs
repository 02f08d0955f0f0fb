//! The header: what recovery must know before it reads the ring.
//!
//! ```text
//! magic u64 · version u32 · length u32 (bytes, the sum included) · generation u64 · identity u64
//! · capacity u64 · session u64 · session start u64 · window u64 · trim u64 · trimmed to u64
//! · stable u64 · clean end u64 (all ones: not closed cleanly) · metadata revision u64 · extents u32
//! · owner's generation u64 · node u32 · cluster length u32 (0: no owner) · cluster id
//! · per extent: start u64 · end u64 · CRC32C of everything before u32
//! ```
//!
//! Version 2 has no owner, and 0 for the revision. It is read, and the next header that is written is
//! of version 3.
//!
//! It is written to both slots, one after the other, each time with the next generation number;
//! [`crate::header_store`] says why either slot alone is then enough.

use millrace_model::{NodeEpoch, NodeId, limits::CLUSTER_ID_BYTES_MAX};

use super::{BLOCK, Fields, HEADER_SLOT_BYTES, block_up};
use crate::{AlignedBuf, WalIdentity, WalOwner, WalRange};

const MAGIC: u64 = u64::from_le_bytes(*b"MILLRACE");
/// The version of the whole format. 2: chunks have a directory. 3: the header names the log's owner.
pub(crate) const VERSION: u32 = 3;
/// The version whose only difference is that its header names no owner.
const VERSION_WITHOUT_OWNER: u32 = 2;
const FIXED_BYTES: usize = 8 + 4 + 4 + 8 * 11 + 4 + OWNER_FIXED_BYTES;
/// The owner without the text of its cluster id.
const OWNER_FIXED_BYTES: usize = 8 + 4 + 4;
const EXTENT_BYTES: usize = 16;

/// Extents that fit a slot.
pub(crate) const EXTENTS_MAX: usize =
    (HEADER_SLOT_BYTES as usize - FIXED_BYTES - CLUSTER_ID_BYTES_MAX - 4) / EXTENT_BYTES;

/// The header's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    /// Grows with every write of the header; the highest valid one counts.
    pub(crate) generation: u64,
    /// The WAL id: generated when the device was formatted.
    pub(crate) identity: u64,
    /// Bytes of the device.
    pub(crate) capacity: u64,
    /// Counts the openings of the log.
    pub(crate) session: u64,
    /// Where this session's first chunk starts.
    pub(crate) session_start: u64,
    /// No write of this session ends further than this above the lowest one that is not durable.
    pub(crate) window: u64,
    /// Everything below is no longer needed. A chunk starts here, or nothing does yet.
    pub(crate) trim: u64,
    /// Records that end at or below this are no longer needed, though their chunk still is.
    pub(crate) trimmed_to: u64,
    /// Everything of this session below this was durable.
    pub(crate) stable: u64,
    /// Where the log ended when it was closed in peace.
    pub(crate) clean_end: Option<u64>,
    /// The highest metadata revision that a trim of this log relied on.
    pub(crate) revision: u64,
    /// Whose log it is; `None` before the first opening that said so.
    pub(crate) owner: Option<WalOwner>,
    /// What earlier sessions left: ranges that hold valid chunks and nothing else.
    pub(crate) extents: Vec<WalRange>,
}

/// What a slot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A header.
    Valid(Header),
    /// Nothing was ever written.
    Blank,
    /// A header of another version of the format.
    Version(u32),
    /// Something that is no valid header.
    Invalid,
}

impl Header {
    /// What its owner compares before anything is written.
    pub(crate) fn wal_identity(&self) -> WalIdentity {
        WalIdentity {
            wal_id: self.identity,
            owner: self.owner.clone(),
            revision: self.revision,
        }
    }

    /// The header as whole blocks.
    pub(crate) fn encode(&self) -> AlignedBuf {
        let (generation, node, cluster_id) = match &self.owner {
            Some(owner) => (owner.generation.0, owner.node_id.0, &*owner.cluster_id),
            None => (0, 0, ""),
        };
        let length = FIXED_BYTES + cluster_id.len() + self.extents.len() * EXTENT_BYTES + 4;
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((length as u32).to_le_bytes());
        let numbers = [
            self.generation,
            self.identity,
            self.capacity,
            self.session,
            self.session_start,
            self.window,
            self.trim,
            self.trimmed_to,
            self.stable,
            self.clean_end.unwrap_or(u64::MAX),
            self.revision,
        ];
        numbers
            .iter()
            .for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend((self.extents.len() as u32).to_le_bytes());
        bytes.extend(generation.to_le_bytes());
        bytes.extend(node.to_le_bytes());
        bytes.extend((cluster_id.len() as u32).to_le_bytes());
        bytes.extend(cluster_id.as_bytes());
        for extent in &self.extents {
            bytes.extend(extent.start.to_le_bytes());
            bytes.extend(extent.end.to_le_bytes());
        }
        bytes.extend(millrace_model::crc32c(&bytes).to_le_bytes());
        let mut buf = AlignedBuf::zeroed(block_up(length as u64) as usize);
        buf[..length].copy_from_slice(&bytes);
        buf
    }

    /// Reads one slot.
    pub(crate) fn decode(slot: &[u8]) -> Slot {
        if slot.iter().all(|&byte| byte == 0) {
            return Slot::Blank;
        }
        Self::decode_written(slot).unwrap_or(Slot::Invalid)
    }

    fn decode_written(slot: &[u8]) -> Option<Slot> {
        let mut prefix = Fields(slot);
        let magic = prefix.u64()?;
        let version = prefix.u32()?;
        let length = prefix.u32()? as usize;
        let (summed, sum) = slot.get(..length)?.split_last_chunk::<4>()?;
        if magic != MAGIC || millrace_model::crc32c(summed) != u32::from_le_bytes(*sum) {
            return None;
        }
        if version != VERSION && version != VERSION_WITHOUT_OWNER {
            return Some(Slot::Version(version));
        }
        let mut fields = Fields(summed.get(16..)?);
        let mut header = Self {
            generation: fields.u64()?,
            identity: fields.u64()?,
            capacity: fields.u64()?,
            session: fields.u64()?,
            session_start: fields.u64()?,
            window: fields.u64()?,
            trim: fields.u64()?,
            trimmed_to: fields.u64()?,
            stable: fields.u64()?,
            clean_end: Some(fields.u64()?).filter(|&end| end != u64::MAX),
            revision: fields.u64()?,
            owner: None,
            extents: Vec::new(),
        };
        let extents = fields.u32()?;
        if version == VERSION {
            header.owner = decode_owner(&mut fields)?;
        }
        for _ in 0..extents {
            header.extents.push(WalRange {
                start: fields.u64()?,
                end: fields.u64()?,
            });
        }
        header.is_sane().then_some(Slot::Valid(header))
    }

    /// What every header obeys; a sum that matches by chance does not get past this.
    fn is_sane(&self) -> bool {
        let aligned = |n: u64| n.is_multiple_of(BLOCK);
        let mut floor = 0;
        let extents = self.extents.iter().all(|extent| {
            let ordered = floor <= extent.start && extent.start < extent.end;
            floor = extent.end;
            ordered && aligned(extent.start) && aligned(extent.end)
        });
        let positions = [self.session_start, self.window, self.trim];
        extents && floor <= self.session_start && positions.into_iter().all(aligned)
    }
}

/// The owner, or that there is none; `None` where neither is written.
fn decode_owner(fields: &mut Fields<'_>) -> Option<Option<WalOwner>> {
    let (generation, node) = (fields.u64()?, fields.u32()?);
    let length = fields.u32()? as usize;
    let (cluster_id, rest) = fields.0.split_at_checked(length)?;
    fields.0 = rest;
    let owner = WalOwner {
        cluster_id: std::str::from_utf8(cluster_id).ok()?.to_owned(),
        node_id: NodeId(node),
        generation: NodeEpoch(generation),
    };
    Some((length > 0).then_some(owner))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers() -> impl Strategy<Value = Header> {
        let extents = prop::collection::vec((1u64..50, 1u64..50), 0..300);
        let owner = prop::option::of(("[a-z0-9é-]{1,120}", any::<u32>(), any::<u64>()));
        let parts = (any::<[u64; 9]>(), any::<Option<u32>>(), extents, owner);
        parts.prop_map(|(numbers, clean, gaps, owner)| {
            let [
                generation,
                identity,
                capacity,
                session,
                window,
                trim,
                trimmed_to,
                stable,
                revision,
            ] = numbers;
            let mut at = 0;
            let mut extents = Vec::new();
            for (gap, len) in gaps {
                extents.push(WalRange {
                    start: (at + gap) * BLOCK,
                    end: (at + gap + len) * BLOCK,
                });
                at += gap + len;
            }
            Header {
                generation,
                identity,
                capacity,
                session,
                session_start: at * BLOCK,
                window: window / BLOCK * BLOCK,
                trim: trim / BLOCK * BLOCK,
                trimmed_to,
                stable,
                clean_end: clean.map(u64::from),
                revision,
                owner: owner.map(|(cluster_id, node, generation)| WalOwner {
                    cluster_id,
                    node_id: NodeId(node),
                    generation: NodeEpoch(generation),
                }),
                extents,
            }
        })
    }

    proptest! {
        #[test]
        fn a_header_comes_back(header in headers()) {
            prop_assert_eq!(Header::decode(&header.encode()), Slot::Valid(header));
        }

        #[test]
        fn a_flipped_byte_is_harmless_or_seen(header in headers(), at: prop::sample::Index, mask in 1u8..) {
            let mut slot = header.encode();
            let at = at.index(slot.len());
            slot[at] ^= mask;
            let read = Header::decode(&slot);
            prop_assert!(read == Slot::Invalid || read == Slot::Valid(header));
        }

        #[test]
        fn foreign_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 1..4096)) {
            prop_assert!(!matches!(Header::decode(&bytes), Slot::Valid(_)));
        }
    }

    #[test]
    fn the_largest_header_fits_its_slot() {
        let extents = (0..EXTENTS_MAX as u64)
            .map(|n| WalRange {
                start: 2 * n * BLOCK,
                end: (2 * n + 1) * BLOCK,
            })
            .collect();
        let header = Header {
            generation: 1,
            identity: 2,
            capacity: 3,
            session: 4,
            session_start: 1 << 40,
            window: BLOCK,
            trim: 0,
            trimmed_to: 0,
            stable: 0,
            clean_end: None,
            revision: 7,
            owner: Some(WalOwner {
                cluster_id: "c".repeat(CLUSTER_ID_BYTES_MAX),
                node_id: NodeId(8),
                generation: NodeEpoch(9),
            }),
            extents,
        };
        let slot = header.encode();
        assert_eq!(slot.len() as u64, HEADER_SLOT_BYTES);
        assert_eq!(Header::decode(&slot), Slot::Valid(header));
    }

    /// The bytes of a header as version 2 wrote them.
    fn version_2(header: &Header) -> Vec<u8> {
        let mut bytes = header.encode()[..].to_vec();
        let (fixed, extents) = (FIXED_BYTES - OWNER_FIXED_BYTES, header.extents.len());
        bytes.drain(fixed..FIXED_BYTES);
        let length = fixed + extents * EXTENT_BYTES + 4;
        bytes[8..12].copy_from_slice(&2u32.to_le_bytes());
        bytes[12..16].copy_from_slice(&(length as u32).to_le_bytes());
        let sum = millrace_model::crc32c(&bytes[..length - 4]).to_le_bytes();
        bytes[length - 4..length].copy_from_slice(&sum);
        bytes
    }

    proptest! {
        #[test]
        fn a_header_of_version_2_is_one_without_an_owner(header in headers()) {
            let header = Header { revision: 0, owner: None, ..header };
            prop_assert_eq!(Header::decode(&version_2(&header)), Slot::Valid(header));
        }
    }
}
