//! Which of the batches that were read hold records for consumers: those that are no markers, and, where only committed records
//! are delivered, do not belong to an aborted transaction.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use millrace_model::Offset;
use millrace_record::{InvalidBatch, TransactionEnd, header_of};

/// The offsets of a batch in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSpan {
    /// Offset of the first record.
    pub first: Offset,
    /// Offset of the last one.
    pub last: Offset,
}

/// What was read from a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The offset from which on it was read.
    pub from: Offset,
    /// One past the last offset that was read.
    pub end: Offset,
    /// The batches with records for consumers, in order.
    pub deliverable: Vec<BatchSpan>,
}

/// An aborted transaction among the batches that were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedRecords {
    /// Whose it was.
    pub producer_id: i64,
    /// Offset of its first record.
    pub first_offset: Offset,
}

/// Looks at the batches of a read from `from`, in offset order.
///
/// # Errors
/// The header of a batch, or a marker, cannot be read.
pub fn deliverable(
    from: Offset,
    batches: &[Bytes],
    aborted: &[AbortedRecords],
) -> Result<Fetched, InvalidBatch> {
    let mut fetched = Fetched {
        from,
        end: from,
        deliverable: Vec::with_capacity(batches.len()),
    };
    let mut begins: BTreeMap<Offset, Vec<i64>> = BTreeMap::new();
    for transaction in aborted {
        let producers = begins.entry(transaction.first_offset).or_default();
        producers.push(transaction.producer_id);
    }
    let mut aborting = BTreeSet::new();
    for batch in batches {
        let header = header_of(batch)?;
        let span = BatchSpan {
            first: offset(header.base_offset),
            last: offset(header.last_offset()),
        };
        fetched.end = fetched.end.max(span.last.saturating_add(1));
        while let Some(begun) = begins.first_entry()
            && *begun.key() <= span.last
        {
            aborting.extend(begun.remove());
        }
        if header.is_control() {
            let end = TransactionEnd::of(batch)?;
            if end.is_some_and(|end| !end.committed) {
                aborting.remove(&header.producer_id);
            }
        } else if !(header.is_transactional() && aborting.contains(&header.producer_id)) {
            fetched.deliverable.push(span);
        }
    }
    Ok(fetched)
}

fn offset(offset: i64) -> Offset {
    Offset::try_from(offset).unwrap_or(0)
}

#[cfg(test)]
mod tests;
