//! Which records of the log are still owed to the streams after a restart.
//!
//! Acknowledgements leave in the order of a stream's offsets, and the log keeps the records of one
//! stream in the order in which they were appended. A crash can leave, in log order:
//!
//! 1. **Records below the committed end.** They are in objects; the log was not trimmed yet. Dropped.
//! 2. **A contiguous run from the committed end.** Everything that was acknowledged is in it. Kept.
//! 3. **Records after a gap.** Writes reach the device in any order, so a record may have become
//!    durable while one before it did not. Nothing from the gap on was acknowledged. Dropped.
//! 4. **Records at or above an offset at which a later opening wrote.** A restart decided where the
//!    stream ended and went on from there; what it did not see of an earlier opening (a write that
//!    was still under way when the process died) was never acknowledged. The later opening wins,
//!    the earlier one's are dropped.
//!
//! Records of streams that no longer exist are dropped: their topic was deleted.

use std::collections::{BTreeMap, HashMap, HashSet};

use millrace_model::{Offset, StreamEpoch, StreamId};
use millrace_wal::Recovered;

use crate::{
    cache::{CachedEntry, LocatedEntry},
    entry,
    error::OpenError,
};

/// What the log hands over while it opens: [`push`](Self::push) is the sink of
/// [`millrace_wal::Wal::open_with`]. Keeps where each entry is and not its bytes, of which a full
/// log has more than there is memory.
#[derive(Debug, Default)]
pub struct RecoveredLog {
    records: Vec<LocatedEntry>,
    /// The end of the last record.
    end: Option<u64>,
    /// The first record that this version does not understand.
    unknown: Option<OpenError>,
}

impl RecoveredLog {
    /// Takes the next record, in order of position.
    pub fn push(&mut self, record: &Recovered) {
        let wal = record.range;
        self.end = Some(wal.end);
        match entry::decode_header(&record.head) {
            Ok(header) => {
                // The head was long enough for the header, so the record is.
                let payload_bytes = record.payload_bytes - entry::HEADER_BYTES as u32;
                let (base_offset, count) = (header.base_offset, header.count);
                self.records.push(LocatedEntry {
                    stream: header.stream,
                    epoch: header.epoch,
                    entry: CachedEntry::located(base_offset, count, payload_bytes, wal),
                });
            }
            Err(source) if self.unknown.is_none() => {
                let position = wal.start;
                self.unknown = Some(OpenError::Record { position, source });
            }
            Err(_) => {}
        }
    }

    /// How many records of each stream were handed over.
    #[must_use]
    pub fn records_by_stream(&self) -> BTreeMap<StreamId, usize> {
        let mut records = BTreeMap::new();
        for located in &self.records {
            *records.entry(located.stream).or_default() += 1;
        }
        records
    }

    /// What the log has of streams and an opening would not keep, by stream. `committed` has the end of
    /// what is in objects for every stream that exists. Records that nobody was told are durable may be
    /// among it: which ones, the log does not know.
    ///
    /// # Errors
    /// See [`Straddles`].
    pub fn lost(
        &self,
        committed: &HashMap<StreamId, Offset>,
    ) -> Result<Vec<LostRecords>, Straddles> {
        let (kept, _) = sort_out(self.records.clone(), committed)?;
        let mut ends = committed.clone();
        let mut places = HashSet::new();
        for located in &kept {
            ends.insert(located.stream, located.entry.end_offset());
            places.insert(located.entry.wal.start);
        }
        let mut lost: BTreeMap<StreamId, LostRecords> = BTreeMap::new();
        for LocatedEntry { stream, entry, .. } in &self.records {
            let end = ends.get(stream).copied();
            if places.contains(&entry.wal.start) || end.is_some_and(|end| entry.end_offset() <= end)
            {
                continue;
            }
            let from = end.unwrap_or(entry.base_offset);
            let lost = lost.entry(*stream).or_insert(LostRecords {
                stream: *stream,
                from,
                to: from,
                bytes: 0,
            });
            lost.from = lost.from.min(from);
            lost.to = lost.to.max(entry.end_offset());
            lost.bytes += u64::from(entry.payload_bytes);
        }
        Ok(lost.into_values().collect())
    }

    /// What an opening would keep. `committed` has the end of what is in objects for every stream that
    /// exists.
    ///
    /// # Errors
    /// See [`Straddles`].
    pub fn kept(&self, committed: &HashMap<StreamId, Offset>) -> Result<KeptRecords, Straddles> {
        let (located, report) = sort_out(self.records.clone(), committed)?;
        let mut kept = KeptRecords {
            records: located.iter().map(|one| u64::from(one.entry.count)).sum(),
            bytes: report.kept_bytes,
            ..KeptRecords::default()
        };
        for LocatedEntry { stream, entry, .. } in &located {
            kept.ends.insert(*stream, entry.end_offset());
        }
        for LocatedEntry { stream, epoch, .. } in &self.records {
            let highest = kept.epochs.entry(*stream).or_insert(*epoch);
            *highest = (*highest).max(*epoch);
        }
        Ok(kept)
    }

    /// The entries in log order, and the end of the last record.
    pub(crate) fn into_records(self) -> Result<(Vec<LocatedEntry>, Option<u64>), OpenError> {
        match self.unknown {
            Some(unknown) => Err(unknown),
            None => Ok((self.records, self.end)),
        }
    }
}

/// Records of one stream that an opening would not keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostRecords {
    /// The stream.
    pub stream: StreamId,
    /// The first offset.
    pub from: Offset,
    /// One past the last offset.
    pub to: Offset,
    /// Bytes of them that are in the log.
    pub bytes: u64,
}

/// What an opening would keep of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptRecords {
    /// Offsets that are kept: Kafka's records.
    pub records: u64,
    /// Their payloads, bytes.
    pub bytes: u64,
    /// Where each stream ends that has any.
    pub ends: HashMap<StreamId, Offset>,
    /// The highest epoch of each stream that the log has records of, kept or not.
    pub epochs: HashMap<StreamId, StreamEpoch>,
}

/// What recovery found.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
pub struct RecoveryReport {
    /// Records that are kept: they will be uploaded.
    pub kept: u64,
    /// Their payloads, bytes.
    pub kept_bytes: u64,
    /// Records that are in objects already.
    pub committed: u64,
    /// Records after a gap, or of an opening that another one superseded; none was acknowledged.
    pub unacknowledged: u64,
    /// Records of streams that no longer exist.
    pub forgotten: u64,
}

/// An entry lies across the committed end of its stream, which no sequence of crashes can cause.
/// The log and the metadata do not belong together; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "stream {stream} is committed up to {committed}, but the log has an entry {base_offset}..{end}; \
     the log does not belong to this metadata"
)]
pub struct Straddles {
    /// The stream.
    pub stream: StreamId,
    /// Its committed end.
    pub committed: Offset,
    /// The entry's first offset.
    pub base_offset: Offset,
    /// The entry's end.
    pub end: Offset,
}

/// The run of one stream so far.
#[derive(Debug)]
struct Run {
    committed: Offset,
    /// For each opening that wrote, the lowest offset at which it or a later one wrote; by opening.
    began: Vec<(StreamEpoch, Offset)>,
    kept: Vec<LocatedEntry>,
}

impl Run {
    fn end(&self) -> Offset {
        self.kept
            .last()
            .map_or(self.committed, |last| last.entry.end_offset())
    }

    /// Whether an opening later than `epoch` wrote at or below `base`.
    fn superseded(&self, epoch: StreamEpoch, base: Offset) -> bool {
        let later = self.began.partition_point(|&(other, _)| other <= epoch);
        self.began
            .get(later)
            .is_some_and(|&(_, began)| began <= base)
    }

    /// Takes or drops one record.
    fn offer(
        &mut self,
        located: LocatedEntry,
        report: &mut RecoveryReport,
    ) -> Result<(), Straddles> {
        let LocatedEntry {
            stream,
            epoch,
            entry,
        } = &located;
        let (stream, base_offset, end) = (*stream, entry.base_offset, entry.end_offset());
        if end <= self.committed {
            report.committed += 1;
        } else if self.superseded(*epoch, base_offset) {
            report.unacknowledged += 1;
        } else if base_offset < self.committed {
            return Err(Straddles {
                stream,
                committed: self.committed,
                base_offset,
                end,
            });
        } else if base_offset == self.end() {
            self.kept.push(located);
        } else {
            report.unacknowledged += 1;
        }
        Ok(())
    }
}

/// For each stream, the lowest offset at which each opening or a later one wrote.
fn openings(records: &[LocatedEntry]) -> HashMap<StreamId, Vec<(StreamEpoch, Offset)>> {
    let mut lowest: HashMap<StreamId, BTreeMap<StreamEpoch, Offset>> = HashMap::new();
    for LocatedEntry {
        stream,
        epoch,
        entry,
    } in records
    {
        let base = lowest
            .entry(*stream)
            .or_default()
            .entry(*epoch)
            .or_insert(entry.base_offset);
        *base = entry.base_offset.min(*base);
    }
    let or_later = |epochs: BTreeMap<StreamEpoch, Offset>| {
        let mut began: Vec<_> = epochs.into_iter().collect();
        let mut lowest = Offset::MAX;
        for (_, base) in began.iter_mut().rev() {
            lowest = lowest.min(*base);
            *base = lowest;
        }
        began
    };
    lowest
        .into_iter()
        .map(|(stream, epochs)| (stream, or_later(epochs)))
        .collect()
}

/// Sorts out `records`, which are in log order. `committed` has the committed end of every stream
/// that exists. What is returned is in log order too.
///
/// # Errors
/// See [`Straddles`].
pub(crate) fn sort_out(
    records: Vec<LocatedEntry>,
    committed: &HashMap<StreamId, Offset>,
) -> Result<(Vec<LocatedEntry>, RecoveryReport), Straddles> {
    let mut report = RecoveryReport::default();
    let mut runs = HashMap::new();
    for (stream, began) in openings(&records) {
        if let Some(&committed) = committed.get(&stream) {
            runs.insert(
                stream,
                Run {
                    committed,
                    began,
                    kept: Vec::new(),
                },
            );
        }
    }
    for located in records {
        match runs.get_mut(&located.stream) {
            Some(run) => run.offer(located, &mut report)?,
            None => report.forgotten += 1,
        }
    }
    let mut kept: Vec<LocatedEntry> = runs.into_values().flat_map(|run| run.kept).collect();
    kept.sort_unstable_by_key(|located| located.entry.wal.start);
    report.kept = kept.len() as u64;
    report.kept_bytes = kept
        .iter()
        .map(|located| u64::from(located.entry.payload_bytes))
        .sum();
    Ok((kept, report))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use millrace_wal::{RECORD_HEAD_BYTES, WalRange};
    use proptest::prelude::*;

    use crate::entry::Entry;

    use super::*;

    /// As the log hands over a record whose bytes are `record`.
    fn recovered(start: u64, record: &Bytes) -> Recovered {
        Recovered {
            range: WalRange {
                start,
                end: start + 10,
            },
            payload_bytes: u32::try_from(record.len()).expect("short"),
            head: record.slice(..record.len().min(RECORD_HEAD_BYTES)),
        }
    }

    /// Records of stream 1 as (epoch, base, count, tag), in log order. The tag is the record's length.
    fn records(records: &[(u64, Offset, u32, u8)]) -> Vec<LocatedEntry> {
        let mut log = RecoveredLog::default();
        for (position, &(epoch, base_offset, count, tag)) in records.iter().enumerate() {
            let start = position as u64 * 10;
            let entry = Entry {
                base_offset,
                count,
                payload: Bytes::from(vec![0; usize::from(tag)]),
            };
            let header = entry::encode_header(StreamId(1), StreamEpoch(epoch), &entry);
            let record = [header, entry.payload].concat().into();
            log.push(&recovered(start, &record));
        }
        log.into_records().expect("known records").0
    }

    fn tag(located: &LocatedEntry) -> u8 {
        u8::try_from(located.entry.payload_bytes).expect("a tag")
    }

    fn tags(found: &[(u64, Offset, u32, u8)], committed: Offset) -> Vec<u8> {
        let committed = HashMap::from([(StreamId(1), committed)]);
        let (kept, report) = sort_out(records(found), &committed).expect("sound");
        assert_eq!(
            report.kept + report.committed + report.unacknowledged,
            found.len() as u64
        );
        kept.iter().map(tag).collect()
    }

    #[test]
    fn a_record_of_another_version_is_refused_with_its_place() {
        let mut log = RecoveredLog::default();
        for start in [0, 10, 20] {
            let kind = if start == 0 { 1 } else { 9 };
            let record = Bytes::from([vec![kind], vec![1; 40]].concat());
            log.push(&recovered(start, &record));
        }
        let error = log.into_records().expect_err("unknown").to_string();
        assert!(
            error.contains("position 10") && error.contains('9'),
            "{error}"
        );
    }

    #[test]
    fn committed_records_and_records_after_a_gap_are_dropped() {
        let found = [
            (1, 0, 5, 1),
            (1, 5, 5, 2),
            (1, 10, 5, 3),
            (1, 20, 5, 4),
            (1, 25, 5, 5),
        ];
        assert_eq!(tags(&found, 0), [1, 2, 3]);
        assert_eq!(tags(&found, 5), [2, 3]);
        assert_eq!(tags(&found, 10), [3]);
        assert_eq!(tags(&found, 15), [0; 0]);
        assert_eq!(tags(&found[1..], 0), [0; 0]);
    }

    #[test]
    fn a_later_opening_fills_the_gap_with_its_own() {
        // 5..10 was lost in the first crash, 10..15 was not; the second opening went on at 5.
        let found = [
            (1, 0, 5, 1),
            (1, 10, 5, 2),
            (2, 5, 3, 3),
            (2, 8, 2, 4),
            (2, 10, 1, 5),
        ];
        assert_eq!(tags(&found, 0), [1, 3, 4, 5]);
    }

    #[test]
    fn a_later_opening_voids_what_it_did_not_see() {
        // 5..10 of the first opening reached the device after the second had opened at 5.
        let found = [(1, 0, 5, 1), (1, 5, 5, 2), (1, 10, 5, 3), (2, 5, 4, 4)];
        assert_eq!(tags(&found, 0), [1, 4]);
        // The same when it is found behind the later opening's records.
        let found = [
            (1, 0, 5, 1),
            (2, 5, 4, 4),
            (1, 5, 5, 2),
            (1, 9, 5, 3),
            (2, 9, 1, 5),
        ];
        assert_eq!(tags(&found, 0), [1, 4, 5]);
        // And when what the later opening wrote is in objects already.
        let found = [(1, 0, 5, 1), (1, 5, 5, 2), (1, 10, 5, 3), (2, 5, 4, 4)];
        assert_eq!(tags(&found, 9), [0; 0]);
    }

    #[test]
    fn what_would_not_be_kept_is_named_with_its_offsets() {
        let mut log = RecoveredLog {
            records: records(&[(1, 0, 5, 1), (1, 5, 5, 2), (1, 20, 5, 4), (1, 25, 5, 8)]),
            ..RecoveredLog::default()
        };
        let lost = |log: &RecoveredLog, committed: &[(u64, Offset)]| {
            let committed = committed.iter().map(|&(id, end)| (StreamId(id), end));
            log.lost(&committed.collect()).expect("sound")
        };
        let range = |from, to, bytes| LostRecords {
            stream: StreamId(1),
            from,
            to,
            bytes,
        };
        assert_eq!(lost(&log, &[(1, 5)]), [range(10, 30, 12)]);
        assert_eq!(lost(&log, &[(1, 30)]), []);
        assert_eq!(lost(&log, &[(2, 0)]), [range(0, 30, 15)]);
        log.records.truncate(2);
        assert_eq!(lost(&log, &[(1, 0)]), []);
    }

    #[test]
    fn what_cannot_be_is_an_error_and_what_is_deleted_is_forgotten() {
        let committed = HashMap::from([(StreamId(1), 3)]);
        let error = sort_out(records(&[(1, 0, 5, 1)]), &committed).expect_err("straddles");
        assert_eq!((error.committed, error.base_offset, error.end), (3, 0, 5));

        let (kept, report) = sort_out(records(&[(1, 0, 5, 1)]), &HashMap::new()).expect("sound");
        assert!(kept.is_empty() && report.forgotten == 1);
    }

    /// A life of the stream: how many entries it appends, which of them survive the crash, and how
    /// many were acknowledged (they all survive).
    #[derive(Debug, Clone)]
    struct Life {
        appends: Vec<bool>,
        acknowledged: usize,
    }

    fn lives() -> impl Strategy<Value = Vec<Life>> {
        let life = (prop::collection::vec(any::<bool>(), 0..8), 0usize..9).prop_map(
            |(mut appends, acknowledged)| {
                let acknowledged = acknowledged.min(appends.len());
                appends[..acknowledged].fill(true);
                Life {
                    appends,
                    acknowledged,
                }
            },
        );
        prop::collection::vec(life, 1..6)
    }

    proptest! {
        /// Crash after crash: what was acknowledged is there, in place, and nothing is invented.
        #[test]
        fn acknowledged_records_survive_every_life(lives in lives(), committed_by in 0usize..40) {
            let mut log: Vec<(u64, Offset, u32, u8)> = Vec::new();
            let mut acknowledged: Vec<(Offset, u8)> = Vec::new();
            let mut tag = 0;
            for (epoch, life) in lives.iter().enumerate() {
                let committed = HashMap::from([(StreamId(1), 0)]);
                let (kept, _) = sort_out(records(&log), &committed).expect("sound");
                let end = kept.last().map_or(0, |last| last.entry.end_offset());
                for (n, &survives) in life.appends.iter().enumerate() {
                    let offset = end + n as u64;
                    tag += 1;
                    if survives {
                        log.push((epoch as u64 + 1, offset, 1, tag));
                    }
                    if n < life.acknowledged {
                        acknowledged.push((offset, tag));
                    }
                }
            }
            // Some of the acknowledged prefix may be committed by now; the log still has it.
            let committed = committed_by.min(acknowledged.len()) as u64;
            let ends = HashMap::from([(StreamId(1), committed)]);
            let (kept, _) = sort_out(records(&log), &ends).expect("sound");
            for (n, located) in kept.iter().enumerate() {
                prop_assert_eq!(located.entry.base_offset, committed + n as u64);
            }
            for (offset, tag) in acknowledged {
                if offset >= committed {
                    let found = kept.get((offset - committed) as usize);
                    prop_assert_eq!(found.map(self::tag), Some(tag));
                }
            }
        }
    }
}
