//! Opening a file or block device, and blocking I/O on it.
//!
//! Linux: `O_DIRECT | O_DSYNC`, which is RWF_DSYNC on every write: on a device with FUA the write
//! itself is durable and no flush follows. macOS: `F_NOCACHE`, and `F_FULLFSYNC` after each write.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, FileTypeExt},
    path::Path,
    time::Duration,
};

use super::{DeviceConfig, DeviceError};
use crate::{AlignedBuf, aligned::BufferPool};

/// Written per call while a new file is filled with zeros, in bytes: large enough for a disk's
/// full bandwidth, small enough to be no burden.
const FILL_BYTES: usize = 1024 * 1024;

/// An open file or block device.
#[derive(Debug)]
pub(super) struct BlockFile {
    file: File,
    capacity: u64,
    durable_completion: bool,
    /// Buffers of reads, used again: recovery reads the whole ring, and fresh memory for it would
    /// cost as much as its checksums.
    reads: BufferPool,
}

/// Idle buffers that are kept for reads, in bytes: what recovery has in flight.
const READ_BUFFERS_BYTES: usize = 16 * 1024 * 1024;

impl BlockFile {
    /// Opens or creates `path` as [`super::open_device`] says.
    pub(super) fn open(path: &Path, config: &DeviceConfig) -> Result<Self, DeviceError> {
        let failed = |action| {
            let path = path.display().to_string();
            move |source| DeviceError::Io {
                action,
                path,
                source,
            }
        };
        let (file, direct) = open_unbuffered(path, config).map_err(failed("open"))?;
        if config.locked {
            lock(&file, path)?;
        }
        let is_device = file
            .metadata()
            .map_err(failed("inspect"))?
            .file_type()
            .is_block_device();
        let found = size_of(&file).map_err(failed("measure"))?;
        let capacity = if config.capacity == 0 {
            found
        } else {
            config.capacity
        };
        if found == 0 && !is_device {
            let filled = preallocate(&file, capacity, config).map_err(failed("preallocate"))?;
            if filled < capacity {
                tracing::info!(path = %path.display(), filled, capacity, "a part of the new write-ahead log is reserved, not filled: the first write of each block there is slower");
            }
        } else if (is_device && found < capacity) || (!is_device && found != capacity) {
            let path = path.display().to_string();
            return Err(DeviceError::Capacity {
                path,
                found,
                wanted: capacity,
            });
        }
        if !direct {
            tracing::warn!(path = %path.display(), "direct I/O is not supported here; the WAL writes through the page cache");
        }
        Ok(Self {
            file,
            capacity,
            durable_completion: config.durable_completion,
            reads: BufferPool::new(READ_BUFFERS_BYTES),
        })
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The descriptor, for a back-end that talks to the kernel itself.
    #[cfg(target_os = "linux")]
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Writes all of `data`; durable when it returns.
    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        super::check_range(self.capacity, offset, data.len())?;
        self.file.write_all_at(data, offset)?;
        if cfg!(target_vendor = "apple") && !self.durable_completion {
            return full_sync(&self.file);
        }
        Ok(())
    }

    /// Reads exactly `len` bytes.
    pub(super) fn read(&self, offset: u64, len: usize) -> io::Result<AlignedBuf> {
        super::check_range(self.capacity, offset, len)?;
        let mut buf = self.read_buffer(len);
        self.file.read_exact_at(&mut buf, offset)?;
        Ok(buf)
    }

    /// A buffer of arbitrary content, to be read into.
    pub(super) fn read_buffer(&self, len: usize) -> AlignedBuf {
        self.reads.take(len)
    }

    /// Flushes the page cache and the device's own cache.
    pub(super) fn sync(&self) -> io::Result<()> {
        full_sync(&self.file)
    }
}

/// Opens `path` past the page cache, or through it where that is refused; says which.
#[cfg(target_os = "linux")]
fn open_unbuffered(path: &Path, config: &DeviceConfig) -> io::Result<(File, bool)> {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;

    // In a file, a durable write also needs the file system's journal where the block was only reserved before.
    let is_device = path
        .metadata()
        .is_ok_and(|found| found.file_type().is_block_device());
    let durable = if config.durable_completion && is_device {
        OFlags::empty()
    } else {
        OFlags::DSYNC
    };
    let open = |flags: OFlags| {
        let bits = i32::try_from(flags.bits()).expect("open flags fit the system's own type");
        options().custom_flags(bits).open(path)
    };
    match open(durable | OFlags::DIRECT) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            // Without direct I/O a completion only means the page cache, whatever the device.
            open(OFlags::DSYNC).map(|file| (file, false))
        }
        Err(error) => Err(error),
    }
}

#[cfg(target_vendor = "apple")]
fn open_unbuffered(path: &Path, _config: &DeviceConfig) -> io::Result<(File, bool)> {
    let file = options().open(path)?;
    let direct = rustix::fs::fcntl_nocache(&file, true).is_ok();
    Ok((file, direct))
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options
}

/// How often a lock that is held is tried again, and the pause between: after a `kill -9` the kernel
/// takes a moment to end the dead process's I/O, and only then lets go of its file.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Takes the file for this process alone: two logs on one file would each overwrite what the other
/// acknowledged. The lock ends with the process, however it ends.
fn lock(file: &File, path: &Path) -> Result<(), DeviceError> {
    let mut tries = 0;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if tries < LOCK_TRIES => {
                tries += 1;
                // Opening is not done on a thread that serves requests.
                std::thread::park_timeout(LOCK_PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(DeviceError::Held(path.display().to_string()));
            }
            // Some network file systems have no locks; the log works there as it did.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                tracing::warn!(path = %path.display(), "file locks are not supported here: a second process could open the WAL");
                return Ok(());
            }
            Err(TryLockError::Error(source)) => {
                return Err(DeviceError::Io {
                    action: "lock",
                    path: path.display().to_string(),
                    source,
                });
            }
        }
    }
}

/// A block device's metadata says 0; the end of its address space is its size.
fn size_of(mut file: &File) -> io::Result<u64> {
    io::Seek::seek(&mut file, io::SeekFrom::End(0))
}

/// Gives a new file its blocks and writes them once, for as long as `config.fill_max` allows. A block
/// that is only reserved costs a journal commit of the file system at its first durable write. It
/// reads as zeros like any other, so a file that was filled in part, for lack of time or because of a
/// crash, is complete and only slower in its first lap. Returns the bytes that were written.
fn preallocate(file: &File, capacity: u64, config: &DeviceConfig) -> io::Result<u64> {
    fill(file, capacity, config).inspect_err(|_| {
        // A full disk leaves a file of another size than configured, which is refused, or one with holes, which
        // fails later. An empty file is a new log again.
        if let Err(error) = file.set_len(0) {
            tracing::warn!(%error, "a new write-ahead log that has no room cannot be emptied");
        }
    })
}

fn fill(file: &File, capacity: u64, config: &DeviceConfig) -> io::Result<u64> {
    // Without a reservation, only filling shows that there is room.
    let reserved = reserve_blocks(file, capacity)?;
    let zeros = AlignedBuf::zeroed(FILL_BYTES);
    let began = config.clock.now();
    let mut at = 0;
    while at < capacity
        && !(reserved && config.clock.now().saturating_sub(began) >= config.fill_max)
    {
        let len = (capacity - at).min(FILL_BYTES as u64) as usize;
        file.write_all_at(&zeros[..len], at)?;
        at += len as u64;
    }
    full_sync(file)?;
    Ok(at)
}

/// Sets the size; returns whether the room is reserved, which not every file system does.
#[cfg(target_os = "linux")]
fn reserve_blocks(file: &File, capacity: u64) -> io::Result<bool> {
    use rustix::{fs::FallocateFlags, io::Errno};

    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, capacity) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(capacity).map(|()| false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(target_vendor = "apple")]
fn reserve_blocks(file: &File, capacity: u64) -> io::Result<bool> {
    file.set_len(capacity).map(|()| false)
}

#[cfg(target_vendor = "apple")]
fn full_sync(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fcntl_fullfsync(file)?)
}

#[cfg(target_os = "linux")]
fn full_sync(file: &File) -> io::Result<()> {
    file.sync_data()
}
