//! Keeps the header in its two slots.
//!
//! An update writes the next generation to one slot, waits, writes it to the other slot, waits, and
//! is then complete. So at rest both slots are equal, and during an update one of them is intact: a
//! torn write or a rotten byte always leaves one valid slot. Before an update, the slot that would
//! be written second is read. If it does not hold the newest header, because it has rotted or a dead
//! process's last write landed on it, it is written first. The newest generation among the valid
//! slots is the header; no clock is involved.
//!
//! A dead process has at most one header write in the kernel, with a generation at most one above
//! the newest on the device, and it may land late. So opening the log first writes the header that
//! it found under the next generation (the **claim**), and then its own under the one after: a late
//! write is older than that and is ignored.

use std::{io, sync::Arc};

use crate::{
    OpenError,
    device::BlockDevice,
    format::{
        HEADER_SLOT_BYTES,
        header::{Header, Slot},
    },
};

/// The header's slots, and what was last written to them.
#[derive(Debug)]
pub(crate) struct HeaderStore {
    device: Arc<dyn BlockDevice>,
    header: Header,
    /// The generation that is on the device.
    stored: u64,
    /// The slot that the next update writes first.
    next_slot: u64,
}

/// What the two slots say.
#[derive(Debug)]
pub(crate) enum Stored {
    /// Nothing was ever written: the device can be formatted.
    Blank,
    /// A log, and the slot of the newest header.
    Log(Header, u64),
}

/// Reads both slots.
pub(crate) async fn read(device: &dyn BlockDevice) -> Result<Stored, OpenError> {
    let failed = |source| OpenError::Device {
        operation: "read the header",
        source,
    };
    let slots = device
        .read(0, 2 * HEADER_SLOT_BYTES as usize)
        .await
        .map_err(failed)?;
    let (a, b) = slots.split_at(HEADER_SLOT_BYTES as usize);
    match (Header::decode(a), Header::decode(b)) {
        (Slot::Valid(a), Slot::Valid(b)) => {
            let newest = if a.generation >= b.generation {
                (a, 0)
            } else {
                (b, 1)
            };
            Ok(Stored::Log(newest.0, newest.1))
        }
        (Slot::Valid(header), other) => Ok(survivor(header, 0, &other)),
        (other, Slot::Valid(header)) => Ok(survivor(header, 1, &other)),
        (Slot::Version(version), _) | (_, Slot::Version(version)) => {
            Err(OpenError::Version(version))
        }
        (Slot::Blank, Slot::Blank) => Ok(Stored::Blank),
        (Slot::Blank | Slot::Invalid, Slot::Blank | Slot::Invalid) => Err(OpenError::NotALog),
    }
}

fn survivor(header: Header, slot: u64, other: &Slot) -> Stored {
    if *other == Slot::Invalid {
        tracing::warn!(
            slot = 1 - slot,
            "a header slot of the WAL is corrupt; using the other slot"
        );
    }
    Stored::Log(header, slot)
}

impl HeaderStore {
    /// Continues after the header that [`read`] found in `slot`, or before the first one.
    pub(crate) fn after(device: Arc<dyn BlockDevice>, header: Header, slot: u64) -> Self {
        let stored = header.generation;
        Self {
            device,
            header,
            stored,
            next_slot: 1 - slot,
        }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Writes the header as it was found, under the next generation.
    pub(crate) async fn claim(&mut self) -> io::Result<()> {
        self.update(|_| ()).await
    }

    /// Changes the header; durable, in both slots, when this answers.
    pub(crate) async fn update(&mut self, change: impl FnOnce(&mut Header)) -> io::Result<()> {
        change(&mut self.header);
        self.header.generation += 1;
        if !self.holds_newest(1 - self.next_slot).await? {
            self.next_slot = 1 - self.next_slot;
        }
        for slot in [self.next_slot, 1 - self.next_slot] {
            let block = self.header.encode();
            self.device.write(slot * HEADER_SLOT_BYTES, block).await?;
        }
        self.stored = self.header.generation;
        Ok(())
    }

    async fn holds_newest(&self, slot: u64) -> io::Result<bool> {
        let offset = slot * HEADER_SLOT_BYTES;
        let found = self.device.read(offset, HEADER_SLOT_BYTES as usize).await?;
        match Header::decode(&found) {
            Slot::Valid(header) => Ok(header.generation == self.stored),
            // Before the first header there is nothing to keep.
            Slot::Blank => Ok(self.stored == 0),
            Slot::Version(_) | Slot::Invalid => Ok(false),
        }
    }
}
