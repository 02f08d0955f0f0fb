//! Reads the transactions that SQLite has written to its write-ahead log (`meta.db-wal`), called the
//! journal here, since "WAL" is our own log.
//!
//! The layout is that of <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>: a header of 32
//! bytes, then frames of 24 bytes and a page each. Both carry the journal's salts and a checksum over
//! everything before. A frame counts if its salts and its checksum match; a transaction counts if its
//! last frame says so. After a checkpoint the writer begins at the front again, under other salts.
//!
//! Read while the store's writer is held: then nobody appends, and nobody begins a journal again.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The magic number's last bit: the checksums are over big-endian words.
const MAGIC: u32 = 0x377f_0682;
/// SQLite's bounds of a page, in bytes.
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 512..=65_536;
/// Bytes read at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// What some transactions left of each page that they changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Pages {
    /// Bytes of a page.
    pub(super) page_bytes: u32,
    /// Pages of the database after the last transaction.
    pub(super) database_pages: u32,
    /// The pages by number, which begins with 1.
    pub(super) images: BTreeMap<u32, Vec<u8>>,
    /// Transactions.
    pub(super) commits: u64,
}

/// Reads a journal bit by bit.
#[derive(Debug)]
pub(super) struct JournalReader {
    path: PathBuf,
    /// Behind the last transaction that was read.
    place: Option<Place>,
}

/// A place in one journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    salts: [u8; 8],
    page_bytes: u32,
    big_endian: bool,
    offset: u64,
    checksum: [u32; 2],
}

impl JournalReader {
    /// A reader of the journal beside `database`, at its front.
    pub(super) fn new(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-wal");
        Self {
            path: path.into(),
            place: None,
        }
    }

    /// The journal's length in bytes; the part of it that counts may be shorter.
    pub(super) fn file_bytes(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |found| found.len())
    }

    /// How far the journal that is written now has been read, in bytes.
    pub(super) fn read_bytes(&self) -> u64 {
        self.place.map_or(0, |place| place.offset)
    }

    /// Reads the transactions behind those that were read before. Blocks.
    pub(super) fn read(&mut self) -> io::Result<Pages> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Pages::default()),
            opened => opened?,
        };
        let Some(front) = read_front(&mut file)? else {
            return Ok(Pages::default());
        };
        let same =
            |place: &Place| place.salts == front.salts && place.page_bytes == front.page_bytes;
        let mut place = self.place.filter(same).unwrap_or(front);
        let mut pages = Pages {
            page_bytes: place.page_bytes,
            ..Pages::default()
        };
        file.seek(SeekFrom::Start(place.offset))?;
        let mut frames = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut transaction = BTreeMap::new();
        let mut reached = place;
        while let Some(frame) = read_frame(&mut frames, &mut reached)? {
            transaction.insert(frame.page, frame.image);
            if frame.database_pages > 0 {
                pages.images.append(&mut transaction);
                pages.database_pages = frame.database_pages;
                pages.commits += 1;
                place = reached;
            }
        }
        // What a transaction changed beyond its own end, when it made the database smaller.
        let end = pages.database_pages;
        pages.images.retain(|&page, _| page <= end);
        self.place = Some(place);
        Ok(pages)
    }
}

struct Frame {
    page: u32,
    /// Above 0 in the last frame of a transaction.
    database_pages: u32,
    image: Vec<u8>,
}

/// The place behind a sound header; `None` where there is none.
fn read_front(file: &mut File) -> io::Result<Option<Place>> {
    let mut header = [0; HEADER_BYTES];
    if !read_whole(file, &mut header)? {
        return Ok(None);
    }
    let [magic, _, page_bytes, _, _, _, sum_0, sum_1] = words(&header);
    let big_endian = magic & 1 == 1;
    let checksum = sum(big_endian, [0, 0], &header[..24]);
    let sound = magic & !1 == MAGIC
        && PAGE_BYTES.contains(&page_bytes)
        && page_bytes.is_power_of_two()
        && checksum == [sum_0, sum_1];
    let mut salts = [0; 8];
    salts.copy_from_slice(&header[16..24]);
    Ok(sound.then_some(Place {
        salts,
        page_bytes,
        big_endian,
        offset: HEADER_BYTES as u64,
        checksum,
    }))
}

/// The next frame, if there is one; moves `place` behind it.
fn read_frame(frames: &mut impl Read, place: &mut Place) -> io::Result<Option<Frame>> {
    let mut header = [0; FRAME_HEADER_BYTES];
    let mut image = vec![0; place.page_bytes as usize];
    if !read_whole(frames, &mut header)? || !read_whole(frames, &mut image)? {
        return Ok(None);
    }
    let [page, database_pages, _, _, sum_0, sum_1] = words(&header);
    let checksum = sum(place.big_endian, place.checksum, &header[..8]);
    let checksum = sum(place.big_endian, checksum, &image);
    if header[8..16] != place.salts || checksum != [sum_0, sum_1] || page == 0 {
        return Ok(None);
    }
    place.checksum = checksum;
    place.offset += (header.len() + image.len()) as u64;
    Ok(Some(Frame {
        page,
        database_pages,
        image,
    }))
}

/// Fills `buffer`; false where the file ends before.
fn read_whole(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    words
}

/// SQLite's checksum over pairs of words, continued from `sums`.
fn sum(big_endian: bool, sums: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    let word = |bytes: [u8; 4]| {
        if big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    };
    let pairs = bytes.as_chunks::<8>().0;
    pairs.iter().fold(sums, |[first, second], pair| {
        let [a, b, c, d, e, f, g, h] = *pair;
        let first = first.wrapping_add(word([a, b, c, d])).wrapping_add(second);
        let second = second.wrapping_add(word([e, f, g, h])).wrapping_add(first);
        [first, second]
    })
}

impl Pages {
    /// The pages as the body of a backup item: page size, pages of the database, count, then all
    /// numbers, then all images. Numbers are big-endian, of 32 bits.
    pub(super) fn encode(&self) -> Vec<u8> {
        let images = self.images.len() * (4 + self.page_bytes as usize);
        let mut bytes = Vec::with_capacity(12 + images);
        bytes.extend(self.page_bytes.to_be_bytes());
        bytes.extend(self.database_pages.to_be_bytes());
        bytes.extend((self.images.len() as u32).to_be_bytes());
        self.images
            .keys()
            .for_each(|page| bytes.extend(page.to_be_bytes()));
        self.images.values().for_each(|image| bytes.extend(image));
        bytes
    }

    /// Reads what [`Pages::encode`] wrote; `None` where it did not.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<12>()?;
        let [page_bytes, database_pages, count] = words(head);
        let count = count as usize;
        if !PAGE_BYTES.contains(&page_bytes) || !page_bytes.is_power_of_two() {
            return None;
        }
        let (numbers, images) = rest.split_at_checked(count.checked_mul(4)?)?;
        let page = page_bytes as usize;
        if images.len() != count.checked_mul(page)? {
            return None;
        }
        let numbers = numbers
            .as_chunks()
            .0
            .iter()
            .copied()
            .map(u32::from_be_bytes);
        let images: BTreeMap<u32, Vec<u8>> = numbers
            .zip(images.chunks_exact(page).map(<[u8]>::to_vec))
            .collect();
        let in_bounds = |number: &u32| (1..=database_pages).contains(number);
        (images.len() == count && images.keys().all(in_bounds)).then_some(Self {
            page_bytes,
            database_pages,
            images,
            commits: 0,
        })
    }
}
