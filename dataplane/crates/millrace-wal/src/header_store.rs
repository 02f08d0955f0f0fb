//! Keeps the header in its two slots.
//!
//! An update writes the next generation to the slot that does **not** hold the newest header, waits,
//! writes it to the other slot too, waits, and only then counts as done. So at rest both slots say
//! the same, and in between one of them is whole: a torn write and a rotten byte both leave a slot
//! that is enough. The newest generation among the valid slots is the header; no clock takes part.

use std::{io, sync::Arc};

use crate::{
    BlockDevice, OpenError,
    format::{
        HEADER_SLOT_BYTES,
        header::{Header, Slot},
    },
};

/// A dead process may have had one more header write in the kernel, which can land late. The first
/// header of an opening skips this many generations, so the late one never counts.
const GENERATIONS_SKIPPED: u64 = 16;

/// The header's slots, and what was last written to them.
#[derive(Debug)]
pub(crate) struct HeaderStore {
    device: Arc<dyn BlockDevice>,
    header: Header,
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
            "a header slot of the WAL is damaged; its twin is used"
        );
    }
    Stored::Log(header, slot)
}

impl HeaderStore {
    /// Continues after the header that [`read`] found in `slot`, or before the first one.
    pub(crate) fn after(device: Arc<dyn BlockDevice>, header: Header, slot: u64) -> Self {
        let mut header = header;
        header.generation += GENERATIONS_SKIPPED;
        Self {
            device,
            header,
            next_slot: 1 - slot,
        }
    }

    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Changes the header; durable, in both slots, when this answers.
    pub(crate) async fn update(&mut self, change: impl FnOnce(&mut Header)) -> io::Result<()> {
        change(&mut self.header);
        self.header.generation += 1;
        for slot in [self.next_slot, 1 - self.next_slot] {
            self.device
                .write(slot * HEADER_SLOT_BYTES, self.header.encode())
                .await?;
        }
        Ok(())
    }
}
