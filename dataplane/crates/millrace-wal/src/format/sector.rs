//! Sectors: the unit that a disk writes whole or not at all.
//!
//! Every 512-byte sector of the ring has 508 bytes of content and ends with a 4-byte **tag**, a
//! function of the device's identity, the sector's position, and whether a chunk starts there.
//! After a crash a sector holds either the newest write or the previous content, and the previous
//! content has a tag of another position. So the tags of a corrupt chunk distinguish a write that a
//! crash tore (some tags are foreign; it was never acknowledged) from bytes that rotted later (all
//! tags are its own; it may have been acknowledged).

/// Bytes that a disk writes whole or not at all.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Bytes of content per sector.
pub(crate) const CONTENT_BYTES: usize = SECTOR_BYTES - TAG_BYTES;

const TAG_BYTES: usize = 4;

/// Where byte `content` of a chunk's content lies, counted from the chunk's start.
pub(crate) const fn place_of(content: u64) -> u64 {
    content / CONTENT_BYTES as u64 * SECTOR_BYTES as u64 + content % CONTENT_BYTES as u64
}

/// Where the byte that lies `place` bytes behind the start of a sector is in its content.
pub(crate) const fn content_at(place: u64) -> usize {
    let (sectors, within) = (place / SECTOR_BYTES as u64, place % SECTOR_BYTES as u64);
    (sectors * CONTENT_BYTES as u64 + within) as usize
}

/// Knows the tags of one device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tagger {
    identity: u32,
}

/// What a sector's tag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Written for this position, as the first sector of a chunk.
    Head,
    /// Written for this position, as a later sector of a chunk.
    Body,
    /// Written for another position, or never.
    Foreign,
}

impl Tagger {
    pub(crate) fn new(identity: u64) -> Self {
        Self {
            identity: mix(identity as u32) ^ (identity >> 32) as u32,
        }
    }

    /// Tags differ for any two sectors within 2 TiB of log, because mixing is a bijection.
    fn tag(self, position: u64, head: bool) -> u32 {
        let number = (position / SECTOR_BYTES as u64) as u32;
        mix(number ^ self.identity) ^ if head { 0xA5C3_3C5A } else { 0 }
    }

    /// Closes every sector of a chunk that starts at `position`.
    pub(crate) fn close(self, chunk: &mut [u8], position: u64) {
        let mut at = position;
        for sector in chunk.chunks_exact_mut(SECTOR_BYTES) {
            let tag = self.tag(at, at == position);
            sector[CONTENT_BYTES..].copy_from_slice(&tag.to_le_bytes());
            at += SECTOR_BYTES as u64;
        }
    }

    /// What the tag of the sector at `position` says. A tag that is one byte off still counts, so
    /// that a rotten tag does not make rotten content look torn.
    pub(crate) fn read(self, sector: &[u8], position: u64) -> Tag {
        let Some(found) = tag_of(sector) else {
            return Tag::Foreign;
        };
        let matches = |head| {
            let off = (found ^ self.tag(position, head)).to_le_bytes();
            off.iter().filter(|&&byte| byte != 0).count() <= 1
        };
        match (matches(true), matches(false)) {
            (true, _) => Tag::Head,
            (_, true) => Tag::Body,
            _ => Tag::Foreign,
        }
    }

    /// Whether the tag of the sector at `position` says `expected`, as [`read`](Self::read) would.
    pub(crate) fn says(self, sector: &[u8], position: u64, expected: Tag) -> bool {
        let exact = match expected {
            Tag::Head => Some(self.tag(position, true)),
            Tag::Body => Some(self.tag(position, false)),
            Tag::Foreign => None,
        };
        // Nearly always; recovery asks this of every sector of the ring.
        (exact.is_some() && exact == tag_of(sector)) || self.read(sector, position) == expected
    }

    /// Whether a chunk was written that starts at `position`, to the last bit of its tag. After every
    /// crash this is asked of each block of the window, thousands of times about sectors that have
    /// nothing to do with the place: where one wrong byte still counted, one start in about two
    /// thousand would take an empty place for a rotten chunk.
    pub(crate) fn starts_chunk(self, sector: &[u8], position: u64) -> bool {
        tag_of(sector) == Some(self.tag(position, true))
    }
}

fn tag_of(sector: &[u8]) -> Option<u32> {
    let (_, tag) = sector.split_last_chunk::<TAG_BYTES>()?;
    Some(u32::from_le_bytes(*tag))
}

/// Spreads a number over 32 bits, reversibly (the finaliser of MurmurHash3).
const fn mix(mut n: u32) -> u32 {
    n ^= n >> 16;
    n = n.wrapping_mul(0x85EB_CA6B);
    n ^= n >> 13;
    n = n.wrapping_mul(0xC2B2_AE35);
    n ^ (n >> 16)
}

/// Lays content over sectors, leaving room for the tags.
#[derive(Debug)]
pub(crate) struct ContentWriter<'a> {
    chunk: &'a mut [u8],
    at: usize,
}

impl<'a> ContentWriter<'a> {
    pub(crate) fn new(chunk: &'a mut [u8]) -> Self {
        Self { chunk, at: 0 }
    }

    /// Content bytes written or skipped so far.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Appends `bytes`.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.put_at(self.at, bytes);
        self.at += bytes.len();
    }

    /// Leaves room for `len` bytes, which a later [`put_at`](Self::put_at) fills.
    pub(crate) fn skip(&mut self, len: usize) {
        self.at += len;
    }

    /// Writes `bytes` at content byte `at`.
    pub(crate) fn put_at(&mut self, at: usize, mut bytes: &[u8]) {
        let mut place = place_of(at as u64) as usize;
        while !bytes.is_empty() {
            let room = CONTENT_BYTES - place % SECTOR_BYTES;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk[place..place + now.len()].copy_from_slice(now);
            place += now.len() + TAG_BYTES;
            bytes = later;
        }
    }

    /// Fills the rest of the chunk with zeros.
    pub(crate) fn pad(self) {
        let place = place_of(self.at as u64) as usize;
        self.chunk[place..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn content_comes_back(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..2000), 0..8)) {
            let content: Vec<u8> = pieces.concat();
            let mut chunk = vec![0xEE; 40 * SECTOR_BYTES];
            let mut writer = ContentWriter::new(&mut chunk);
            pieces.iter().for_each(|piece| writer.put(piece));
            prop_assert_eq!(writer.at(), content.len());
            writer.pad();
            Tagger::new(7).close(&mut chunk, 4096);
            let back: Vec<u8> =
                chunk.chunks(SECTOR_BYTES).flat_map(|s| &s[..CONTENT_BYTES]).copied().collect();
            prop_assert_eq!(&back[..content.len()], &content[..]);
            prop_assert!(back[content.len()..].iter().all(|&b| b == 0));
        }

        #[test]
        fn tags_name_one_position_and_one_device(identity: u64, other: u64, block in 0u64..1 << 40, lap in 1u64..1000) {
            let position = block * 512;
            let mut sector = [1; SECTOR_BYTES];
            let tagger = Tagger::new(identity);
            tagger.close(&mut sector, position);
            prop_assert_eq!(tagger.read(&sector, position), Tag::Head);
            prop_assert_ne!(tagger.read(&sector, position + lap * (1 << 20)), Tag::Head);
            if identity != other {
                // Distinct with all but certainty; a seed that collides would be a fluke of 2^-22.
                prop_assert_eq!(Tagger::new(other).read(&sector, position), Tag::Foreign);
            }
            sector[CONTENT_BYTES + 2] ^= 0x40;
            prop_assert_eq!(tagger.read(&sector, position), Tag::Head);
            for expected in [Tag::Head, Tag::Body, Tag::Foreign] {
                for at in [position, position + 512] {
                    let says = tagger.says(&sector, at, expected);
                    prop_assert_eq!(says, tagger.read(&sector, at) == expected);
                }
            }
        }
    }

    #[test]
    fn a_later_sector_is_no_head() {
        let mut chunk = [0; 2 * SECTOR_BYTES];
        let tagger = Tagger::new(99);
        tagger.close(&mut chunk, 0);
        assert_eq!(tagger.read(&chunk[..512], 0), Tag::Head);
        assert_eq!(tagger.read(&chunk[512..], 512), Tag::Body);
        assert_eq!(tagger.read(&[0; 512], 512), Tag::Foreign);
    }
}
