//! Reservations: which hosts may write to a device that several are attached to.
//!
//! The terms are those of NVMe: a host *registers* a key, one registrant *holds* the reservation, and *preempting* a key
//! makes the device forget the hosts that registered it. The reservation is always *write exclusive, registrants only*:
//! registered hosts write, all hosts read.

#[cfg(target_os = "linux")]
mod nvme;

use std::{fmt::Debug, io, path::Path, sync::Arc};

/// Who has registered at a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Registrants {
    /// Keys of all hosts.
    pub keys: Vec<u64>,
    /// The key of the host that holds the reservation; `None` where nobody does and every host may write.
    pub holder: Option<u64>,
}

/// A device's reservations, as this host asks for them. Calls block for one round trip to the device.
///
/// Errors for which [`is_reservation_conflict`] holds say that another host was there before.
pub trait Reservations: Debug + Send + Sync + 'static {
    /// Registers this host under `key`, in place of the key that it had.
    ///
    /// # Errors
    /// The device failed, or has no reservations.
    fn register(&self, key: u64) -> io::Result<()>;

    /// Takes the reservation, which nobody holds, for this host, whose key is `key`.
    ///
    /// # Errors
    /// A conflict: another host holds it, or this one is not registered under `key`. Or the device failed.
    fn reserve(&self, key: u64) -> io::Result<()>;

    /// Removes the hosts that have registered `other`. When this returns, none of their writes succeeds any more, also none
    /// that was under way. If one of them held the reservation, this host holds it now.
    ///
    /// # Errors
    /// A conflict: nobody has registered `other`, or this host is not registered under `key`. Or the device failed.
    fn preempt(&self, key: u64, other: u64) -> io::Result<()>;

    /// Who has registered.
    ///
    /// # Errors
    /// The device failed.
    fn registrants(&self) -> io::Result<Registrants>;
}

/// The reservations of the NVMe device at `path`.
///
/// # Errors
/// The path cannot be opened, or is no NVMe device.
#[cfg(target_os = "linux")]
pub fn open_reservations(path: &Path) -> io::Result<Arc<dyn Reservations>> {
    Ok(Arc::new(nvme::NvmeReservations::open(path)?))
}

/// Reservations are implemented for Linux.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn open_reservations(_path: &Path) -> io::Result<Arc<dyn Reservations>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// `EBADE` of Linux, in which a block device's reservation conflict arrives. Elsewhere no disk answers with this number.
const CONFLICT: i32 = 52;

/// Whether a device has refused a command because of another host's reservation.
#[must_use]
pub fn is_reservation_conflict(error: &io::Error) -> bool {
    error.raw_os_error() == Some(CONFLICT)
}

/// What a device answers with in that case.
#[must_use]
pub fn reservation_conflict() -> io::Error {
    io::Error::from_raw_os_error(CONFLICT)
}
