//! Writing a file past the page cache.
//!
//! An object is written once and rarely read soon, because the log cache still has its records. In
//! the page cache it would evict more useful pages, and the copy into fresh pages was the largest
//! single cost of a broker with a folder as its bucket.

use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

use bytes::Bytes;

use super::Body;

/// Addresses, offsets and lengths of direct writes are multiples of this, which suits every device.
const ALIGNMENT: usize = 4096;

/// Written per call, in bytes: reaches a disk's bandwidth, and a thread's buffer stays small.
const WRITE_BYTES: usize = 1024 * 1024;

/// Creates `path`, which must not exist, with the bytes of `chunks`. The file, though not its name,
/// survives power loss once this returns.
pub(super) fn create(path: &Path, chunks: &[Bytes]) -> io::Result<()> {
    let (file, direct) = open_new(path)?;
    if direct {
        allocate(
            &file,
            0,
            chunks.iter().map(|chunk| chunk.len() as u64).sum(),
        )?;
        let size = write_aligned(&file, chunks)?;
        file.set_len(size)?;
    } else {
        write_cached(&file, chunks)?;
    }
    file.sync_all()
}

/// Writes `part` into the file at `path`, which must exist, from `offset` on, which must be a multiple
/// of [`ALIGNMENT`]; [`finish_parts`] makes it survive power loss.
pub(super) fn write_part(path: &Path, offset: u64, part: &Body) -> io::Result<()> {
    let (mut file, direct) = open_existing(path)?;
    file.seek(SeekFrom::Start(offset))?;
    if !direct {
        write_cached(&file, part.chunks())?;
        // What gathers in the page cache would all be written at the end.
        return file.sync_data();
    }
    allocate(&file, offset, part.size())?;
    // The device has the bytes. One sync of the file's size and places is enough, at the end.
    let aligned = part.size() - part.size() % ALIGNMENT as u64;
    write_aligned(&file, part.slice(0..aligned).chunks())?;
    let rest = part.slice(aligned..part.size());
    write_rest(path, offset + aligned, rest.chunks())
}

/// Writes what fills no block, through the page cache. Padding would lengthen the file, and a try
/// that was given up, and goes on in its thread, would do that even after the file has become an
/// object.
fn write_rest(path: &Path, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
    if chunks.is_empty() {
        return Ok(());
    }
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    write_cached(&file, chunks)
}

/// Makes a file of `size` bytes survive power loss. A part gives the file its length before it is written: only the
/// receipts of all parts show that they are there.
pub(super) fn finish_parts(path: &Path, size: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let written = file.metadata()?.len();
    if written != size {
        return Err(io::Error::other(format!(
            "the parts have {written} bytes, the object has {size}"
        )));
    }
    file.sync_all()
}

/// Gives the file blocks for these bytes, and a length that includes them. Writers that make a file longer exclude each other, and wait
/// actively: with four parts of an object under way, a tenth of the broker's CPU time went there.
#[cfg(target_os = "linux")]
fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    use rustix::{fs::FallocateFlags, io::Errno};

    if bytes == 0 {
        return Ok(());
    }
    match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, bytes) {
        // Not every file system can; the writes do it then.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        allocated => Ok(allocated?),
    }
}

#[cfg(not(target_os = "linux"))]
fn allocate(_file: &File, _offset: u64, _bytes: u64) -> io::Result<()> {
    Ok(())
}

fn write_cached(mut file: &File, chunks: &[Bytes]) -> io::Result<()> {
    chunks.iter().try_for_each(|chunk| file.write_all(chunk))
}

/// Opens a new file past the page cache, or through it where the file system refuses that; says
/// which.
fn open_new(path: &Path) -> io::Result<(File, bool)> {
    let mut new = OpenOptions::new();
    new.write(true).create_new(true);
    // The file may have been created before the flag was refused.
    let mut refused = OpenOptions::new();
    refused.write(true).create(true).truncate(false);
    open(path, new, &refused)
}

fn open_existing(path: &Path) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.write(true);
    open(path, options.clone(), &options)
}

#[cfg(target_os = "linux")]
fn open(path: &Path, mut direct: OpenOptions, refused: &OpenOptions) -> io::Result<(File, bool)> {
    use std::os::unix::fs::OpenOptionsExt;

    let flags = rustix::fs::OFlags::DIRECT.bits();
    let flags = i32::try_from(flags).expect("open flags fit the system's own type");
    match direct.custom_flags(flags).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Ok((refused.open(path)?, false))
        }
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path, options: OpenOptions, _refused: &OpenOptions) -> io::Result<(File, bool)> {
    Ok((options.open(path)?, false))
}

/// Gathers the chunks in an aligned buffer; the last write is padded. Gives the bytes without the
/// padding.
fn write_aligned(mut file: &File, chunks: &[Bytes]) -> io::Result<u64> {
    let mut storage = vec![0; WRITE_BYTES + ALIGNMENT];
    let start = storage.as_ptr().align_offset(ALIGNMENT);
    let buffer = &mut storage[start..start + WRITE_BYTES];
    let (mut filled, mut size) = (0, 0_u64);
    for chunk in chunks {
        let mut rest = &chunk[..];
        while !rest.is_empty() {
            let take = rest.len().min(WRITE_BYTES - filled);
            buffer[filled..filled + take].copy_from_slice(&rest[..take]);
            rest = &rest[take..];
            filled += take;
            size += take as u64;
            if filled == WRITE_BYTES {
                file.write_all(buffer)?;
                filled = 0;
            }
        }
    }
    let padded = filled.next_multiple_of(ALIGNMENT);
    buffer[filled..padded].fill(0);
    file.write_all(&buffer[..padded])?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_exactly_the_bytes_of_its_chunks() {
        let folder = tempfile::tempdir().expect("a folder");
        for (n, sizes) in [
            &[][..],
            &[1],
            &[ALIGNMENT],
            &[WRITE_BYTES],
            &[WRITE_BYTES - 1, 2, 0, 5_000],
            &[7, 3 * WRITE_BYTES + 11, 4_089],
        ]
        .iter()
        .enumerate()
        {
            let chunks: Vec<Bytes> = sizes
                .iter()
                .enumerate()
                .map(|(salt, &size)| (0..size).map(|i| (i * 31 + salt) as u8).collect())
                .collect();
            let path = folder.path().join(n.to_string());
            create(&path, &chunks).expect("writes");
            assert!(std::fs::read(&path).expect("reads") == chunks.concat());
        }
    }

    #[test]
    fn a_part_ends_where_its_bytes_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("parts");
        std::fs::write(&path, "").expect("writes");
        let part = Body::from(vec![Bytes::from(vec![7; 2 * ALIGNMENT + 11])]);
        write_part(&path, ALIGNMENT as u64, &part).expect("writes");
        let written = std::fs::read(&path).expect("reads");
        assert_eq!(written.len(), 3 * ALIGNMENT + 11);
        assert!(written[ALIGNMENT..].iter().all(|&byte| byte == 7));
    }

    #[test]
    fn a_file_that_exists_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("taken");
        std::fs::write(&path, "first").expect("writes");
        let error = create(&path, &[Bytes::from_static(b"second")]).expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).expect("reads"), b"first");
    }
}
