//! The byte layout of a chain item; BACKUP.md of `millrace-meta` draws it. Numbers are big-endian.

use bytes::Bytes;
use millrace_model::{NodeEpoch, NodeId, Offset, StreamId, crc32c};

const MAGIC: [u8; 8] = *b"MILLMETA";
/// The version of the format.
const VERSION: u16 = 1;
/// Header bytes beside the cluster id.
const FIXED_BYTES: usize = 8 + 2 + 1 + 1 + 4 + 4 + 4 + 8 * 11 + 4 + 2 + 4;
/// The longest cluster id, in bytes.
pub(super) const CLUSTER_ID_BYTES_MAX: usize = 1_024;
/// No header is longer: one read of this size has all of it.
pub(super) const HEADER_BYTES_MAX: usize = FIXED_BYTES + CLUSTER_ID_BYTES_MAX;
/// The largest body before compression, in bytes: one transaction is never split, and the largest
/// (a topic of 10,000 partitions) rewrites a few mebibytes. A larger length is taken for corrupt, so
/// that no flipped bit asks for memory.
pub const CHAIN_BODY_BYTES_MAX: usize = 512 << 20;
/// Zstandard's fastest regular level: page images shrink to about a fifth, at hundreds of MiB/s.
const ZSTD_LEVEL: i32 = 1;
const WATERMARK_BYTES: usize = 16;

/// What an item carries. The numbers are stored and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// A start of the node claims the chain. No body.
    Begin,
    /// A part of the whole database file as it was at `last_revision`.
    Snapshot,
    /// Pages that changed in the transactions `first_revision..=last_revision`. Without any, an item
    /// of this kind carries watermarks only.
    Frames,
}

impl ItemKind {
    const fn number(self) -> u8 {
        match self {
            Self::Begin => 1,
            Self::Snapshot => 2,
            Self::Frames => 3,
        }
    }

    const fn of(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Begin),
            2 => Some(Self::Snapshot),
            3 => Some(Self::Frames),
            _ => None,
        }
    }
}

/// Who writes items: one start of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainOwner {
    /// The cluster.
    pub cluster_id: String,
    /// The node.
    pub node_id: NodeId,
    /// The write-ahead log that holds what is acknowledged and not uploaded.
    pub wal_id: u64,
    /// The start of the node.
    pub generation: NodeEpoch,
    /// Made up by the process, so that two that believe they are the same start differ.
    pub nonce: u64,
}

/// Where the bytes of a snapshot's part belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotPart {
    /// The part's first byte in the database file.
    pub offset: u64,
    /// Bytes of the whole file; 0 where the item is no snapshot.
    pub file_bytes: u64,
}

/// How far a stream was acknowledged at the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    /// The stream.
    pub stream: StreamId,
    /// One past the last acknowledged offset.
    pub end: Offset,
}

/// What an item says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemHeader {
    /// Its place in the chain.
    pub seq: u64,
    /// What it carries.
    pub kind: ItemKind,
    /// Who wrote it.
    pub owner: ChainOwner,
    /// When, in milliseconds since 1970 by the writer's wall clock.
    pub wall_ms: i64,
    /// The first transaction in it. For a snapshot, as `last_revision`.
    pub first_revision: u64,
    /// The last transaction that the database has once this item is applied.
    pub last_revision: u64,
    /// The first item of the newest snapshot that was complete when this item was written; 0: there
    /// was none.
    pub snapshot_seq: u64,
    /// Of a snapshot: which part this is.
    pub part: SnapshotPart,
    /// How many watermarks the body begins with.
    watermarks: u32,
    /// The body's length before compression, in bytes.
    body_bytes: u64,
    body_checksum: u32,
}

/// What a writer says of an item; the chain adds the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// What it carries.
    pub kind: ItemKind,
    /// See [`ItemHeader::first_revision`].
    pub first_revision: u64,
    /// See [`ItemHeader::last_revision`].
    pub last_revision: u64,
    /// See [`ItemHeader::part`].
    pub part: SnapshotPart,
    /// Streams that were acknowledged further since an earlier item said so.
    pub watermarks: Vec<Watermark>,
    /// The database's bytes; opaque here.
    pub body: Vec<u8>,
}

impl Draft {
    /// An item without database bytes.
    #[must_use]
    pub fn empty(kind: ItemKind, revision: u64) -> Self {
        Self {
            kind,
            first_revision: revision,
            last_revision: revision,
            part: SnapshotPart::default(),
            watermarks: Vec::new(),
            body: Vec::new(),
        }
    }
}

/// An item as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it says of itself.
    pub header: ItemHeader,
    /// How far streams were acknowledged.
    pub watermarks: Vec<Watermark>,
    /// The database's bytes.
    pub body: Bytes,
}

/// Why bytes are not a sound item. Always a fault of the store or its transport.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CorruptItem {
    /// It ends too early.
    #[error("the item is cut off")]
    CutOff,
    /// It does not begin with the magic number.
    #[error("the item does not begin with the magic number")]
    Magic,
    /// Its version is not known here: a newer broker wrote it.
    #[error("the item has version {0}, this program reads version {VERSION}")]
    Version(u16),
    /// Its checksum does not match.
    #[error("the checksum of the item's {0} does not match")]
    Checksum(&'static str),
    /// The parts are sound one by one but do not agree.
    #[error("the item contradicts itself: {0}")]
    Contradiction(&'static str),
}

impl ItemHeader {
    /// The header as bytes. A cluster id is shorter than its bound, which the configuration checks.
    fn encode(&self) -> Vec<u8> {
        let cluster = self.owner.cluster_id.as_bytes();
        let cluster = &cluster[..cluster.len().min(CLUSTER_ID_BYTES_MAX)];
        let length = FIXED_BYTES + cluster.len();
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend([self.kind.number(), 0]);
        bytes.extend((length as u32).to_be_bytes());
        bytes.extend(self.owner.node_id.get().to_be_bytes());
        bytes.extend(self.watermarks.to_be_bytes());
        for number in [
            self.seq,
            self.owner.wal_id,
            self.owner.generation.get(),
            self.owner.nonce,
            self.wall_ms.cast_unsigned(),
            self.first_revision,
            self.last_revision,
            self.snapshot_seq,
            self.part.offset,
            self.part.file_bytes,
            self.body_bytes,
        ] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(self.body_checksum.to_be_bytes());
        bytes.extend((cluster.len() as u16).to_be_bytes());
        bytes.extend(cluster);
        bytes.extend(crc32c(&bytes).to_be_bytes());
        bytes
    }

    /// The header at the front of `item`, and its length.
    pub(super) fn decode(item: &[u8]) -> Result<(Self, usize), CorruptItem> {
        let mut fields = Fields(item);
        if fields.array::<8>()? != MAGIC {
            return Err(CorruptItem::Magic);
        }
        let version = u16::from_be_bytes(fields.array()?);
        let [kind, _] = fields.array()?;
        let length = u32::from_be_bytes(fields.array()?) as usize;
        let bytes = item.get(..length).ok_or(CorruptItem::CutOff)?;
        let (summed, sum) = bytes.split_last_chunk().ok_or(CorruptItem::CutOff)?;
        if crc32c(summed) != u32::from_be_bytes(*sum) {
            return Err(CorruptItem::Checksum("header"));
        }
        if version != VERSION {
            return Err(CorruptItem::Version(version));
        }
        let kind = ItemKind::of(kind).ok_or(CorruptItem::Contradiction("an unknown kind"))?;
        let node_id = NodeId(u32::from_be_bytes(fields.array()?));
        let watermarks = u32::from_be_bytes(fields.array()?);
        let [
            seq,
            wal_id,
            generation,
            nonce,
            wall,
            first_revision,
            last_revision,
        ] = fields.u64s()?;
        let [snapshot_seq, offset, file_bytes, body_bytes] = fields.u64s()?;
        let body_checksum = u32::from_be_bytes(fields.array()?);
        let cluster_bytes = usize::from(u16::from_be_bytes(fields.array()?));
        let cluster = fields.0.get(..cluster_bytes).ok_or(CorruptItem::CutOff)?;
        let cluster_id = std::str::from_utf8(cluster)
            .map_err(|_| CorruptItem::Contradiction("the cluster id is no text"))?;
        let header = Self {
            seq,
            kind,
            owner: ChainOwner {
                cluster_id: cluster_id.to_owned(),
                node_id,
                wal_id,
                generation: NodeEpoch(generation),
                nonce,
            },
            wall_ms: wall.cast_signed(),
            first_revision,
            last_revision,
            snapshot_seq,
            part: SnapshotPart { offset, file_bytes },
            watermarks,
            body_bytes,
            body_checksum,
        };
        Ok((header, length))
    }
}

/// Everything that the header has and a draft has not.
#[derive(Debug)]
pub(super) struct Stamp {
    pub(super) seq: u64,
    pub(super) owner: ChainOwner,
    pub(super) wall_ms: i64,
    pub(super) snapshot_seq: u64,
}

/// An item as it is put. Compresses, so not on a thread that serves requests.
pub(super) fn encode(stamp: &Stamp, draft: Draft) -> Bytes {
    let Draft {
        kind,
        first_revision,
        last_revision,
        part,
        watermarks,
        body,
    } = draft;
    let mut raw = Vec::with_capacity(watermarks.len() * WATERMARK_BYTES + body.len());
    for Watermark { stream, end } in &watermarks {
        raw.extend(stream.get().to_be_bytes());
        raw.extend(end.to_be_bytes());
    }
    raw.extend(body);
    let packed = zstd::bulk::compress(&raw, ZSTD_LEVEL)
        .expect("the output is as large as compression can make it");
    let header = ItemHeader {
        seq: stamp.seq,
        kind,
        owner: stamp.owner.clone(),
        wall_ms: stamp.wall_ms,
        first_revision,
        last_revision,
        snapshot_seq: stamp.snapshot_seq,
        part,
        watermarks: u32::try_from(watermarks.len()).expect("watermarks are bounded"),
        body_bytes: raw.len() as u64,
        body_checksum: crc32c(&packed),
    };
    let mut bytes = header.encode();
    bytes.extend(packed);
    bytes.into()
}

/// Reads a whole item.
pub(super) fn decode(item: &[u8]) -> Result<Item, CorruptItem> {
    let (header, length) = ItemHeader::decode(item)?;
    let packed = item.get(length..).ok_or(CorruptItem::CutOff)?;
    if crc32c(packed) != header.body_checksum {
        return Err(CorruptItem::Checksum("body"));
    }
    let raw_bytes = usize::try_from(header.body_bytes)
        .ok()
        .filter(|&bytes| bytes <= CHAIN_BODY_BYTES_MAX)
        .ok_or(CorruptItem::Contradiction("the body is too large"))?;
    let raw = zstd::bulk::decompress(packed, raw_bytes)
        .map_err(|_| CorruptItem::Contradiction("the body does not decompress"))?;
    if raw.len() != raw_bytes {
        return Err(CorruptItem::Contradiction("the body has another length"));
    }
    let raw = Bytes::from(raw);
    let marked = header.watermarks as usize * WATERMARK_BYTES;
    if marked > raw.len() {
        return Err(CorruptItem::Contradiction("more watermarks than bytes"));
    }
    let mut fields = Fields(&raw[..marked]);
    let mut watermarks = Vec::with_capacity(header.watermarks as usize);
    for _ in 0..header.watermarks {
        let [stream, end] = fields.u64s()?;
        let stream = StreamId(stream);
        watermarks.push(Watermark { stream, end });
    }
    Ok(Item {
        header,
        watermarks,
        body: raw.slice(marked..),
    })
}

/// The unread rest of a header.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], CorruptItem> {
        let (head, rest) = self.0.split_first_chunk().ok_or(CorruptItem::CutOff)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u64s<const N: usize>(&mut self) -> Result<[u64; N], CorruptItem> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = u64::from_be_bytes(self.array()?);
        }
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owner(cluster_id: &str) -> ChainOwner {
        ChainOwner {
            cluster_id: cluster_id.to_owned(),
            node_id: NodeId(7),
            wal_id: 0x1122_3344_5566_7788,
            generation: NodeEpoch(3),
            nonce: 9,
        }
    }

    fn encoded(draft: &Draft, cluster_id: &str) -> Bytes {
        let stamp = Stamp {
            seq: 5,
            owner: owner(cluster_id),
            wall_ms: 1_700_000_000_123,
            snapshot_seq: 2,
        };
        encode(&stamp, draft.clone())
    }

    /// The layout, pinned: a header that older programs wrote is read for good.
    #[test]
    fn the_bytes_of_a_header() {
        let bytes = encoded(&Draft::empty(ItemKind::Begin, 11), "c-1");
        let hex: String = bytes[..48]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let expected = [
            "4d494c4c4d455441",
            "0001",
            "01",
            "00",
            "0000007d",
            "00000007",
            "00000000",
            "0000000000000005",
            "1122334455667788",
            "0000000000000003",
        ];
        assert_eq!(hex, expected.concat());
        assert_eq!(&bytes[118..121], b"c-1");
        let (header, length) = ItemHeader::decode(&bytes).expect("sound");
        assert_eq!((header.seq, header.owner.generation.get()), (5, 3));
        assert_eq!(length, 125);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            kind in prop::sample::select(vec![ItemKind::Begin, ItemKind::Snapshot, ItemKind::Frames]),
            numbers in any::<[u64; 4]>(),
            marks in prop::collection::vec(any::<(u64, u64)>(), 0..40),
            body in prop::collection::vec(any::<u8>(), 0..5_000),
            cluster in "[a-zA-Z0-9_é-]{1,40}",
        ) {
            let watermarks = marks.into_iter().map(|(stream, end)| Watermark {
                stream: StreamId(stream),
                end,
            });
            let draft = Draft {
                kind,
                first_revision: numbers[0],
                last_revision: numbers[1],
                part: SnapshotPart { offset: numbers[2], file_bytes: numbers[3] },
                watermarks: watermarks.collect(),
                body,
            };
            let item = decode(&encoded(&draft, &cluster)).expect("sound");
            prop_assert_eq!(&item.header.owner, &owner(&cluster));
            prop_assert_eq!((item.header.seq, item.header.snapshot_seq), (5, 2));
            let read = Draft {
                kind: item.header.kind,
                first_revision: item.header.first_revision,
                last_revision: item.header.last_revision,
                part: item.header.part,
                watermarks: item.watermarks,
                body: item.body.to_vec(),
            };
            prop_assert_eq!(read, draft);
        }

        #[test]
        fn a_flipped_bit_or_a_cut_is_always_seen(
            body in prop::collection::vec(any::<u8>(), 0..300),
            at in any::<prop::sample::Index>(),
            bit in 0_u8..8,
        ) {
            let draft = Draft { body, ..Draft::empty(ItemKind::Frames, 4) };
            let mut bytes = encoded(&draft, "c").to_vec();
            let at = at.index(bytes.len());
            decode(&bytes[..at]).expect_err("cut");
            bytes[at] ^= 1 << bit;
            decode(&bytes).expect_err("flipped");
        }
    }
}
