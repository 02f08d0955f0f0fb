//! A simulated disk whose faults follow from a seed.
//!
//! What it does to its users, all of which real disks and kernels do:
//! - writes complete after random times, so in any order, and in the middle of others;
//! - a power loss leaves each piece (512 or 4,096 bytes) of a write in flight old or new;
//! - a killed process leaves its writes in flight done, undone or torn, and some of it only in a
//!   cache, where it is read but lost with the power unless somebody syncs;
//! - a write of a killed process may land later, when the next process already runs, though not
//!   after that one has ended too;
//! - bytes rot; reads and writes fail.
//!
//! A write that was answered is durable: that is the contract of `BlockDevice`, and the only
//! promise that this disk keeps.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use futures_util::FutureExt;
use millrace_time::SharedRandom;
use millrace_wal::{
    AlignedBuf,
    device::{BlockDevice, DeviceFuture},
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

const SECTOR_BYTES: usize = 512;

/// How a process that used the disk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The machine lost power: caches are gone.
    PowerLoss,
    /// The process was killed: what it wrote may linger in a cache, or land late.
    Killed,
}

/// A simulated disk. It outlives the processes that attach to it; clones are the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk {
    medium: Arc<Mutex<Medium>>,
    random: SharedRandom,
    capacity: u64,
}

/// What is on the disk and on its way there.
#[derive(Debug)]
struct Medium {
    /// What survives everything.
    durable: Vec<u8>,
    /// Sectors that are read but would not survive a power loss, by number.
    cached: BTreeMap<usize, Vec<u8>>,
    in_flight: BTreeMap<u64, Write>,
    /// Writes of killed processes that will still land.
    late: Vec<Write>,
    /// Answers that dead processes wait for: they stay unanswered.
    graveyard: Vec<oneshot::Sender<io::Result<()>>>,
    /// Counts the processes that [`SimDisk::crash`] has ended.
    process: u64,
    /// Processes that run; only their operations take effect.
    running: BTreeSet<u64>,
    latency_max: Duration,
    operations: u64,
    writes_until_failure: Option<u64>,
    reads_fail: bool,
}

#[derive(Debug)]
struct Write {
    process: u64,
    offset: usize,
    data: Vec<u8>,
    reply: Option<oneshot::Sender<io::Result<()>>>,
}

impl SimDisk {
    /// A disk of `capacity` zero bytes, whose operations take up to `latency_max`, and one in eight
    /// up to ten times as long.
    #[must_use]
    pub fn new(capacity: u64, latency_max: Duration, random: SharedRandom) -> Self {
        let medium = Medium {
            durable: vec![0; usize::try_from(capacity).expect("fits memory")],
            cached: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            late: Vec::new(),
            graveyard: Vec::new(),
            process: 0,
            running: BTreeSet::new(),
            latency_max,
            operations: 0,
            writes_until_failure: None,
            reads_fail: false,
        };
        Self {
            medium: Arc::new(Mutex::new(medium)),
            random,
            capacity,
        }
    }

    /// The disk as the present process sees it.
    #[must_use]
    pub fn attach(&self) -> Arc<dyn BlockDevice> {
        let process = self.medium.lock().process;
        self.attach_as(process)
    }

    /// The disk as one of several processes sees it, which [`SimDisk::end`] ends. Its number must be its own.
    #[must_use]
    pub fn attach_as(&self, process: u64) -> Arc<dyn BlockDevice> {
        self.medium.lock().running.insert(process);
        Arc::new(Attachment {
            disk: self.clone(),
            process,
        })
    }

    /// Ends all processes: none of their operations is ever answered from now on.
    pub fn crash(&self, crash: Crash) {
        let running: Vec<u64> = {
            let medium = &mut *self.medium.lock();
            medium.process += 1;
            medium.running.iter().copied().collect()
        };
        for process in running {
            self.end(process, crash);
        }
    }

    /// Ends one process. A loss of power ends the others as well, so the caller ends them.
    pub fn end(&self, process: u64, crash: Crash) {
        let medium = &mut *self.medium.lock();
        medium.running.remove(&process);
        for write in std::mem::take(&mut medium.late) {
            self.tear(medium, &write, false);
        }
        medium.writes_until_failure = None;
        medium.reads_fail = false;
        let (ended, others) = std::mem::take(&mut medium.in_flight)
            .into_iter()
            .partition(|(_, write)| write.process == process);
        medium.in_flight = others;
        for (_, mut write) in ended {
            medium.graveyard.extend(write.reply.take());
            if crash == Crash::Killed && self.random.below(4) == 0 {
                medium.late.push(write);
            } else {
                self.tear(medium, &write, crash == Crash::Killed);
            }
        }
        if crash == Crash::PowerLoss {
            // What lingered in a cache is kept or lost now.
            for (sector, data) in std::mem::take(&mut medium.cached) {
                if self.random.below(2) == 0 {
                    medium.store(sector, &data);
                }
            }
        }
    }

    /// From now on, operations take up to this long, and one in eight up to ten times as long.
    pub fn set_latency_max(&self, latency_max: Duration) {
        self.medium.lock().latency_max = latency_max;
    }

    /// Lets the writes of killed processes land, whole or torn. Returns how many there were.
    pub fn land_late_writes(&self) -> usize {
        let medium = &mut *self.medium.lock();
        let late = std::mem::take(&mut medium.late);
        late.iter()
            .for_each(|write| self.tear(medium, write, false));
        late.len()
    }

    /// Rots one byte.
    pub fn flip(&self, offset: u64, mask: u8) {
        let offset = usize::try_from(offset).expect("fits memory");
        let medium = &mut *self.medium.lock();
        medium.durable[offset] ^= mask;
        if let Some(sector) = medium.cached.get_mut(&(offset / SECTOR_BYTES)) {
            sector[offset % SECTOR_BYTES] ^= mask;
        }
    }

    /// Makes every write of the present process fail after `writes` more.
    pub fn fail_writes_after(&self, writes: u64) {
        self.medium.lock().writes_until_failure = Some(writes);
    }

    /// Makes every read of the present process fail.
    pub fn fail_reads(&self) {
        self.medium.lock().reads_fail = true;
    }

    /// Bytes of the disk.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Writes that are in flight.
    #[must_use]
    pub fn writes_in_flight(&self) -> usize {
        self.medium.lock().in_flight.len()
    }

    fn latency(&self) -> Duration {
        let latency_max = self.medium.lock().latency_max;
        let bound_us = u64::try_from(latency_max.as_micros()).expect("a short time");
        let usual = Duration::from_micros(self.random.below(bound_us + 1));
        // Now and then others overtake an operation many times.
        if self.random.below(8) == 0 {
            usual * 10
        } else {
            usual
        }
    }

    /// Leaves each piece of a write old or new: all, none, a front part, or any.
    fn tear(&self, medium: &mut Medium, write: &Write, may_linger: bool) {
        let piece_bytes = if self.random.below(2) == 0 {
            SECTOR_BYTES
        } else {
            4096
        };
        let pieces = write.data.len().div_ceil(piece_bytes) as u64;
        let front = self.random.below(pieces + 1);
        let shape = self.random.below(4);
        for (n, piece) in write.data.chunks(piece_bytes).enumerate() {
            let written = match shape {
                0 => false,
                1 => true,
                2 => (n as u64) < front,
                _ => self.random.below(2) == 0,
            };
            if !written {
                continue;
            }
            let lingers = may_linger && self.random.below(2) == 0;
            let first = (write.offset + n * piece_bytes) / SECTOR_BYTES;
            for (i, data) in piece.chunks(SECTOR_BYTES).enumerate() {
                if lingers {
                    medium.cached.insert(first + i, data.to_vec());
                } else {
                    medium.store(first + i, data);
                }
            }
        }
    }
}

impl Medium {
    /// Makes a sector durable.
    fn store(&mut self, sector: usize, data: &[u8]) {
        self.cached.remove(&sector);
        let at = sector * SECTOR_BYTES;
        self.durable[at..at + data.len()].copy_from_slice(data);
    }

    fn sync(&mut self) {
        for (sector, data) in std::mem::take(&mut self.cached) {
            self.store(sector, &data);
        }
    }

    fn read(&self, offset: usize, buf: &mut [u8]) {
        buf.copy_from_slice(&self.durable[offset..offset + buf.len()]);
        for (i, out) in buf.chunks_mut(SECTOR_BYTES).enumerate() {
            if let Some(sector) = self.cached.get(&(offset / SECTOR_BYTES + i)) {
                out.copy_from_slice(sector);
            }
        }
    }

    /// True where this write is one that fails.
    fn write_fails(&mut self) -> bool {
        match &mut self.writes_until_failure {
            None => false,
            Some(0) => true,
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }
}

/// A process's view of the disk.
#[derive(Debug)]
struct Attachment {
    disk: SimDisk,
    process: u64,
}

impl Attachment {
    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let aligned = offset.is_multiple_of(4096) && len.is_multiple_of(4096) && len > 0;
        match offset.checked_add(len as u64) {
            Some(end) if aligned && end <= self.disk.capacity => Ok(()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Takes the time of one operation; never ends once the process is dead.
    async fn pass_time(disk: SimDisk, process: u64) {
        tokio::time::sleep(disk.latency()).await;
        if !disk.medium.lock().running.contains(&process) {
            std::future::pending::<()>().await;
        }
    }
}

/// Ends a write in its own time, whether or not anybody still waits for it.
async fn finish_write(disk: SimDisk, number: u64) {
    tokio::time::sleep(disk.latency()).await;
    let mut medium = disk.medium.lock();
    // A crash has taken it away.
    let Some(mut write) = medium.in_flight.remove(&number) else {
        return;
    };
    let reply = write.reply.take();
    let result = if medium.write_fails() {
        disk.tear(&mut medium, &write, false);
        Err(io::Error::other("the simulated disk fails"))
    } else {
        let first = write.offset / SECTOR_BYTES;
        for (i, data) in write.data.chunks(SECTOR_BYTES).enumerate() {
            medium.store(first + i, data);
        }
        Ok(())
    };
    drop(medium);
    if let Some(reply) = reply {
        // Nobody may be waiting any more, which is their choice.
        let _ = reply.send(result);
    }
}

impl BlockDevice for Attachment {
    fn capacity(&self) -> u64 {
        self.disk.capacity
    }

    fn write(&self, offset: u64, data: AlignedBuf) -> DeviceFuture<()> {
        if let Err(error) = self.check(offset, data.len()) {
            return std::future::ready(Err(error)).boxed();
        }
        let (reply, answer) = oneshot::channel();
        let number = {
            let mut medium = self.disk.medium.lock();
            if !medium.running.contains(&self.process) {
                return std::future::pending().boxed();
            }
            medium.operations += 1;
            let number = medium.operations;
            let offset = usize::try_from(offset).expect("fits memory");
            let write = Write {
                process: self.process,
                offset,
                data: data.to_vec(),
                reply: Some(reply),
            };
            medium.in_flight.insert(number, write);
            number
        };
        tokio::spawn(finish_write(self.disk.clone(), number));
        answer
            .map(|answer| answer.unwrap_or_else(|e| Err(io::Error::other(e))))
            .boxed()
    }

    fn read(&self, offset: u64, len: usize) -> DeviceFuture<AlignedBuf> {
        if let Err(error) = self.check(offset, len) {
            return std::future::ready(Err(error)).boxed();
        }
        let (disk, process) = (self.disk.clone(), self.process);
        async move {
            Self::pass_time(disk.clone(), process).await;
            let medium = disk.medium.lock();
            if medium.reads_fail {
                return Err(io::Error::other("the simulated disk fails"));
            }
            let mut buf = AlignedBuf::zeroed(len);
            medium.read(usize::try_from(offset).expect("fits memory"), &mut buf);
            Ok(buf)
        }
        .boxed()
    }

    fn sync(&self) -> DeviceFuture<()> {
        let (disk, process) = (self.disk.clone(), self.process);
        async move {
            Self::pass_time(disk.clone(), process).await;
            disk.medium.lock().sync();
            Ok(())
        }
        .boxed()
    }
}
