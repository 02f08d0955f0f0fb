//! A disk that several hosts are attached to, with NVMe reservations as EBS gives them to io2 volumes with Multi-Attach.
//!
//! - Every host reads. While somebody holds the reservation, only registered hosts write; to others the disk answers
//!   with a reservation conflict.
//! - Preempting a key ends the writes that its hosts have under way: they are answered with an error, and each may be on
//!   the disk all the same.
//! - Registrations belong to hosts and not to processes, and outlive both.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_util::FutureExt;
use millrace_wal::{
    AlignedBuf,
    device::{BlockDevice, DeviceFuture, Registrants, Reservations, reservation_conflict},
};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::SimDisk;

/// Hosts that a volume may be attached to at once.
const HOSTS_MAX: usize = 16;

/// A disk with reservations. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct ReservedDisk {
    disk: SimDisk,
    namespace: Arc<Mutex<Namespace>>,
    /// Writes reach the disk while this is true.
    flows: watch::Sender<bool>,
}

/// What the disk knows of its hosts.
#[derive(Debug, Default)]
struct Namespace {
    /// By host. A registration's number changes with each, so that a write knows whether its host was preempted meanwhile.
    registered: BTreeMap<u64, Registration>,
    /// The host that holds the reservation.
    holder: Option<u64>,
    registrations: u64,
    /// What a plain preemption does: writes that are under way succeed.
    spares_writes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Registration {
    key: u64,
    number: u64,
}

/// The disk as one host sees it.
#[derive(Debug, Clone)]
pub struct ReservingHost {
    disk: ReservedDisk,
    host: u64,
    commands_left: Arc<AtomicU32>,
}

impl ReservedDisk {
    /// Reservations on `disk`.
    #[must_use]
    pub fn over(disk: SimDisk) -> Self {
        Self {
            disk,
            namespace: Arc::default(),
            flows: watch::Sender::new(true),
        }
    }

    /// Holds writes back in the device, and lets them go again.
    pub fn hold_writes(&self, hold: bool) {
        self.flows.send_replace(!hold);
    }

    /// From here on, preempting lets the writes succeed that are under way.
    pub fn preempt_without_abort(&self) {
        self.namespace.lock().spares_writes = true;
    }

    /// The disk as the host with this number sees it.
    #[must_use]
    pub fn host(&self, host: u64) -> ReservingHost {
        ReservingHost {
            disk: self.clone(),
            host,
            commands_left: Arc::new(AtomicU32::new(u32::MAX)),
        }
    }

    /// The disk below.
    #[must_use]
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }
}

impl ReservingHost {
    /// The device that this host reads and writes.
    #[must_use]
    pub fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::new(HostDevice {
            inner: self.disk.disk.attach(),
            host: self.clone(),
        })
    }

    /// The host dies after so many commands more: those after them fail and change nothing.
    pub fn die_after(&self, commands: u32) {
        self.commands_left.store(commands, Ordering::SeqCst);
    }

    fn command<T>(&self, run: impl FnOnce(&mut Namespace) -> io::Result<T>) -> io::Result<T> {
        let left = &self.commands_left;
        let took = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        match took {
            Ok(_) => run(&mut self.disk.namespace.lock()),
            Err(_) => Err(io::Error::other("the host is dead")),
        }
    }

    /// This host's registration, where it may write: any, while nobody holds the reservation.
    fn may_write(&self) -> io::Result<Option<Registration>> {
        let namespace = self.disk.namespace.lock();
        let registration = namespace.registered.get(&self.host).copied();
        match namespace.holder {
            Some(_) if registration.is_none() => Err(reservation_conflict()),
            _ => Ok(registration),
        }
    }
}

impl Namespace {
    fn expect(&self, host: u64, key: u64) -> io::Result<()> {
        match self.registered.get(&host) {
            Some(registration) if registration.key == key => Ok(()),
            _ => Err(reservation_conflict()),
        }
    }
}

impl Reservations for ReservingHost {
    fn register(&self, key: u64) -> io::Result<()> {
        self.command(|namespace| {
            let host = self.host;
            if !namespace.registered.contains_key(&host) && namespace.registered.len() == HOSTS_MAX
            {
                return Err(io::ErrorKind::QuotaExceeded.into());
            }
            namespace.registrations += 1;
            let number = namespace.registrations;
            // A host that replaces its key stays registered, and its writes go on.
            let registration = namespace.registered.entry(host);
            registration.or_insert(Registration { key, number }).key = key;
            Ok(())
        })
    }

    fn reserve(&self, key: u64) -> io::Result<()> {
        self.command(|namespace| {
            namespace.expect(self.host, key)?;
            match namespace.holder {
                Some(holder) if holder != self.host => Err(reservation_conflict()),
                _ => {
                    namespace.holder = Some(self.host);
                    Ok(())
                }
            }
        })
    }

    fn preempt(&self, key: u64, other: u64) -> io::Result<()> {
        self.command(|namespace| {
            namespace.expect(self.host, key)?;
            let before = namespace.registered.len();
            let held = namespace
                .holder
                .and_then(|host| namespace.registered.get(&host));
            let held_by_other = held.is_some_and(|holder| holder.key == other);
            namespace
                .registered
                .retain(|_, registration| registration.key != other);
            if namespace.registered.len() == before {
                return Err(reservation_conflict());
            }
            if held_by_other {
                namespace.holder = Some(self.host);
            }
            Ok(())
        })
    }

    fn registrants(&self) -> io::Result<Registrants> {
        self.command(|namespace| {
            let key = |host: u64| namespace.registered.get(&host).map(|found| found.key);
            Ok(Registrants {
                keys: namespace
                    .registered
                    .values()
                    .map(|found| found.key)
                    .collect(),
                holder: namespace.holder.and_then(key),
            })
        })
    }
}

#[derive(Debug)]
struct HostDevice {
    inner: Arc<dyn BlockDevice>,
    host: ReservingHost,
}

impl BlockDevice for HostDevice {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    fn write(&self, offset: u64, data: AlignedBuf) -> DeviceFuture<()> {
        let registration = match self.host.may_write() {
            Ok(registration) => registration,
            Err(refused) => return std::future::ready(Err(refused)).boxed(),
        };
        let (inner, host) = (Arc::clone(&self.inner), self.host.clone());
        let mut flows = host.disk.flows.subscribe();
        async move {
            // The disk lives as long as its hosts.
            let _ = flows.wait_for(|&flows| flows).await;
            inner.write(offset, data).await?;
            if host.disk.namespace.lock().spares_writes {
                return Ok(());
            }
            // Preempted meanwhile: ended, and tried again by the kernel, which meets the conflict.
            let still = host.may_write()?;
            let same = still.map(|found| found.number) == registration.map(|found| found.number);
            if same || registration.is_none() {
                Ok(())
            } else {
                Err(reservation_conflict())
            }
        }
        .boxed()
    }

    fn read(&self, offset: u64, len: usize) -> DeviceFuture<AlignedBuf> {
        self.inner.read(offset, len)
    }

    fn sync(&self) -> DeviceFuture<()> {
        self.inner.sync()
    }
}
