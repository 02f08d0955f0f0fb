//! The fence of a device that several hosts are attached to: a reservation, which the device itself enforces.
//!
//! The device's reservation is *write exclusive, registrants only*: it takes the writes of hosts that have registered a key,
//! and everybody may read. A host's key is the epoch under which it owns the log, so keys are ordered as owners are:
//!
//! 1. The new owner registers its key. If a later one is there, it has come too late and writes nothing.
//! 2. It preempts every other key. The device forgets those hosts and ends the writes that they have under way.
//! 3. It looks again, until its own key is the only one and holds the reservation. Then it reads the log.
//!
//! An owner that registers after the new one did sees the later key in step 1 or 3, and one that registered before is
//! preempted: step 2 is repeated until nobody is left. So no write of an earlier epoch is acknowledged once step 3 is over,
//! and each step may be repeated by whoever takes over from an owner that died between two of them.
//!
//! Nothing is ever released: a device without a reservation takes the writes of every host.

use std::{io, sync::Arc};

use millrace_model::NodeEpoch;

use super::{FenceError, LogFence};
use crate::device::{Registrants, Reservations, is_reservation_conflict};

/// Looks at the device until a log is acquired. Each further one is for an owner that registered in between, and owners
/// are limited by how fast brokers start.
const LOOKS_MAX: u32 = 32;

/// A key's upper bits tell logs apart, so that a log that was formatted again begins with any epoch.
const LOG_BITS: u32 = 16;
const EPOCH_MASK: u64 = u64::MAX >> LOG_BITS;

/// See the module.
#[derive(Debug)]
pub struct DeviceReservation {
    device: Arc<dyn Reservations>,
    wal_id: u64,
}

impl DeviceReservation {
    /// The fence of the log with this id on `device`.
    #[must_use]
    pub fn new(device: Arc<dyn Reservations>, wal_id: u64) -> Self {
        Self { device, wal_id }
    }

    fn log_of(key: u64) -> u64 {
        key & !EPOCH_MASK
    }

    /// A device takes no key of zero; epochs begin with one.
    fn key(&self, epoch: NodeEpoch) -> u64 {
        self.wal_id << (u64::BITS - LOG_BITS) | epoch.get() & EPOCH_MASK
    }

    /// Fails where a later epoch of this log has registered.
    fn none_later(&self, registrants: &Registrants, epoch: NodeEpoch) -> Result<(), FenceError> {
        let own = self.key(epoch);
        let of_log = |key: &&u64| Self::log_of(**key) == Self::log_of(own);
        match registrants.keys.iter().filter(of_log).max() {
            Some(&latest) if latest > own => Err(FenceError::Fenced {
                epoch,
                current: NodeEpoch(latest & EPOCH_MASK),
            }),
            _ => Ok(()),
        }
    }

    /// One round of steps 2 and 3. True once the log is acquired.
    fn settle(&self, epoch: NodeEpoch) -> Result<bool, FenceError> {
        let own = self.key(epoch);
        let registrants = self.device.registrants()?;
        self.none_later(&registrants, epoch)?;
        let others = registrants.keys.iter().filter(|&&key| key != own);
        let mut alone = true;
        for &other in others {
            alone = false;
            unless_conflict(self.device.preempt(own, other))?;
        }
        if !registrants.keys.contains(&own) {
            // Somebody has cleared the device, which is nobody's right but an operator's.
            self.device.register(own)?;
            return Ok(false);
        }
        match registrants.holder {
            Some(holder) if holder == own => Ok(alone),
            // The one that holds it was preempted just now.
            Some(_) => Ok(false),
            None => unless_conflict(self.device.reserve(own)).map(|()| false),
        }
    }
}

/// Another host was faster; what it did is seen when the device is looked at again.
fn unless_conflict(done: io::Result<()>) -> Result<(), FenceError> {
    match done {
        Err(error) if is_reservation_conflict(&error) => Ok(()),
        done => Ok(done?),
    }
}

impl LogFence for DeviceReservation {
    fn acquire(&self, epoch: NodeEpoch) -> Result<(), FenceError> {
        self.none_later(&self.device.registrants()?, epoch)?;
        self.device.register(self.key(epoch))?;
        for _ in 0..LOOKS_MAX {
            if self.settle(epoch)? {
                return Ok(());
            }
        }
        let busy = "other hosts keep registering at the device; is it the log of one broker?";
        Err(FenceError::Io(io::Error::other(busy)))
    }

    /// The device has answered already: it takes no write of an owner that was preempted, and ends those that are under way.
    fn check(&self, _epoch: NodeEpoch) -> Result<(), FenceError> {
        Ok(())
    }

    fn explain(&self, epoch: NodeEpoch, error: &io::Error) -> Option<FenceError> {
        if !is_reservation_conflict(error) {
            return None;
        }
        let refused = FenceError::Refused { epoch };
        let Ok(registrants) = self.device.registrants() else {
            return Some(refused);
        };
        if let Err(fenced) = self.none_later(&registrants, epoch) {
            return Some(fenced);
        }
        let replaced = registrants
            .holder
            .filter(|&key| Self::log_of(key) != Self::log_of(self.key(epoch)));
        let current = replaced.map(|key| NodeEpoch(key & EPOCH_MASK));
        Some(current.map_or(refused, |current| FenceError::Replaced { current }))
    }
}
