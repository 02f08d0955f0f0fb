//! The corrupt objects that reads have met: the alarm of the bucket.
//!
//! A part that fails its check is read once more before it is reported here. It is counted, logged as
//! an error when it is met first, and listed until it reads well again or its object is deleted.

use std::{
    collections::BTreeMap,
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
};

use metrics::{Counter, Gauge};
use millrace_model::StreamRange;
use parking_lot::Mutex;

use crate::{Corrupt, GetError, ObjectKey};

/// Parts that are listed at most; further ones are counted and logged. Bounds the memory, some 200
/// bytes each, and the length of a status page.
const LISTED_MAX: usize = 1_000;

/// What of an object is corrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CorruptKind {
    /// A data block: the entries in it cannot be read.
    Block,
    /// The index: nothing of the object can be read.
    Index,
    /// The footer: nothing of the object can be read.
    Footer,
    /// The object is shorter than the metadata says.
    Truncated,
}

impl CorruptKind {
    const ALL: [Self; 4] = [Self::Block, Self::Index, Self::Footer, Self::Truncated];

    /// The kind as a label of a metric and in a status.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Index => "index",
            Self::Footer => "footer",
            Self::Truncated => "truncated",
        }
    }
}

impl fmt::Display for CorruptKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A part of an object that is not what was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorruptPart {
    /// The object.
    pub key: ObjectKey,
    /// What of it is corrupt.
    pub kind: CorruptKind,
    /// The first byte of the block in the object; 0 for other kinds.
    pub position: u64,
    /// What cannot be read because of it, as far as it is known: of a block its whole range, else the
    /// range of the read that met it.
    pub range: Option<StreamRange>,
    /// What the check found.
    pub reason: Corrupt,
}

/// See the module. Shared by all uses of one bucket.
#[derive(Debug)]
pub struct CorruptObjects {
    parts: Mutex<BTreeMap<(ObjectKey, CorruptKind, u64), CorruptPart>>,
    /// How many parts are listed, so that a sound read need not take the lock.
    listed: AtomicUsize,
    reads: [(CorruptKind, Counter); CorruptKind::ALL.len()],
    gauge: Gauge,
}

impl CorruptObjects {
    pub(crate) fn new() -> Self {
        let counter = |kind: CorruptKind| {
            let counter =
                metrics::counter!("millrace_corrupt_reads_total", "kind" => kind.as_str());
            (kind, counter)
        };
        Self {
            parts: Mutex::default(),
            listed: AtomicUsize::new(0),
            reads: CorruptKind::ALL.map(counter),
            gauge: metrics::gauge!("millrace_corrupt_object_parts"),
        }
    }

    /// A read has met a corrupt part, twice.
    pub fn report(&self, part: CorruptPart) {
        let counters = self.reads.iter();
        counters
            .filter(|(kind, _)| *kind == part.kind)
            .for_each(|(_, counter)| counter.increment(1));
        let at = (part.key.clone(), part.kind, part.position);
        let mut parts = self.parts.lock();
        if parts.contains_key(&at) {
            return;
        }
        let range = part.range;
        tracing::error!(
            object = %part.key,
            part = %part.kind,
            position = part.position,
            stream = range.map(|range| range.stream.get()),
            from_offset = range.map(|range| range.start),
            to_offset = range.map(|range| range.end),
            reason = %part.reason,
            "an object is corrupt; restore it in the bucket, or delete the records"
        );
        if parts.len() < LISTED_MAX {
            parts.insert(at, part);
        }
        self.changed(&parts);
    }

    /// A read of an object has failed; reported where the object is too short.
    pub fn report_truncated(&self, key: &ObjectKey, range: Option<StreamRange>, error: &GetError) {
        if let GetError::Truncated { .. } = error {
            self.report(CorruptPart {
                key: key.clone(),
                kind: CorruptKind::Truncated,
                position: 0,
                range,
                reason: Corrupt::CutOff { part: "object" },
            });
        }
    }

    /// Which parts are corrupt, by object.
    #[must_use]
    pub fn parts(&self) -> Vec<CorruptPart> {
        self.parts.lock().values().cloned().collect()
    }

    /// Whether a part of the object is known to be corrupt.
    #[must_use]
    pub fn has(&self, key: &ObjectKey) -> bool {
        !self.is_empty() && self.parts.lock().keys().any(|(corrupt, ..)| corrupt == key)
    }

    /// A block was read and is sound: it may have been restored.
    pub fn sound_block(&self, key: &ObjectKey, position: u64) {
        self.clear(|(corrupt, kind, at)| {
            corrupt == key && *kind == CorruptKind::Block && *at == position
        });
    }

    /// The index of an object was read and is sound.
    pub(crate) fn sound_index(&self, key: &ObjectKey) {
        self.clear(|(corrupt, kind, _)| corrupt == key && *kind != CorruptKind::Block);
    }

    /// Objects are gone from the bucket.
    pub(crate) fn deleted(&self, keys: &[ObjectKey]) {
        self.clear(|(corrupt, ..)| keys.contains(corrupt));
    }

    fn is_empty(&self) -> bool {
        self.listed.load(Ordering::Relaxed) == 0
    }

    fn clear(&self, gone: impl Fn(&(ObjectKey, CorruptKind, u64)) -> bool) {
        if self.is_empty() {
            return;
        }
        let mut parts = self.parts.lock();
        parts.retain(|at, _| !gone(at));
        self.changed(&parts);
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn changed(&self, parts: &BTreeMap<(ObjectKey, CorruptKind, u64), CorruptPart>) {
        self.listed.store(parts.len(), Ordering::Relaxed);
        self.gauge.set(parts.len() as f64);
    }
}

#[cfg(test)]
mod tests {
    use millrace_model::{ObjectId, StreamId};

    use super::*;

    fn part(object: u64, kind: CorruptKind, position: u64) -> CorruptPart {
        CorruptPart {
            key: ObjectKey::of("c", ObjectId(object)),
            kind,
            position,
            range: Some(StreamRange {
                stream: StreamId(1),
                start: 0,
                end: 9,
            }),
            reason: Corrupt::Magic { part: "block" },
        }
    }

    #[test]
    fn a_part_is_listed_once_until_it_reads_well_or_its_object_is_deleted() {
        let corrupt = CorruptObjects::new();
        let (block, index) = (
            part(1, CorruptKind::Block, 64),
            part(2, CorruptKind::Index, 0),
        );
        corrupt.report(block.clone());
        corrupt.report(block.clone());
        corrupt.report(index.clone());
        assert_eq!(corrupt.parts().len(), 2);
        corrupt.sound_block(&block.key, 0);
        corrupt.sound_index(&block.key);
        assert!(corrupt.has(&block.key), "another part of it was sound");
        corrupt.sound_block(&block.key, 64);
        assert!(!corrupt.has(&block.key));
        corrupt.deleted(std::slice::from_ref(&index.key));
        assert!(corrupt.parts().is_empty());
    }

    #[test]
    fn what_is_listed_is_bounded() {
        let corrupt = CorruptObjects::new();
        for object in 0..LISTED_MAX as u64 + 10 {
            corrupt.report(part(object, CorruptKind::Block, 0));
        }
        assert_eq!(corrupt.parts().len(), LISTED_MAX);
    }
}
