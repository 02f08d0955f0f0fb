//! What stays of a batch.

use std::collections::HashMap;

use bytes::Bytes;
use millrace_model::{Cause, FailureClass, Offset};
use millrace_record::{
    BatchHeader, RecordView, header_of, holds_exactly, records, retain_records, without_records,
};
use millrace_stream::{Entry, EntryFilter, Outcome};

use super::{
    corrupt,
    key_map::KeyMap,
    transactions::{Marker, Need, Passing},
};
use crate::transactions::Aborted;

/// Where the last data of each known producer ends: its last offset, and `None` where only a marker of the epoch is known.
pub(crate) type LastOfProducers = HashMap<i64, (i16, Option<Offset>)>;

/// Decides on batches, from the log start on.
#[derive(Debug)]
pub(super) struct Retention<'a> {
    map: &'a KeyMap,
    transactions: Passing,
    now_ms: i64,
    delete_retention_ms: i64,
    last_of_producers: LastOfProducers,
    /// Last records of keys that the group has.
    last_records: u64,
    /// Those of them that were met.
    met: u64,
}

impl<'a> Retention<'a> {
    pub(super) fn new(map: &'a KeyMap, aborted: Vec<Aborted>) -> Self {
        Self {
            map,
            transactions: Passing::new(aborted),
            now_ms: 0,
            delete_retention_ms: 0,
            last_of_producers: HashMap::new(),
            last_records: 0,
            met: 0,
        }
    }

    /// These are in what comes now as well. They begin behind all that were told before.
    pub(super) fn also_aborted(&mut self, aborted: Vec<Aborted>) {
        self.transactions.expect(aborted);
    }

    /// The batches that come now are those of one group, which has the last records of so many keys.
    pub(super) fn begin_group(
        &mut self,
        last_records: u64,
        (now_ms, delete_retention_ms): (i64, i64),
        last_of_producers: LastOfProducers,
    ) {
        self.last_records = last_records;
        self.met = 0;
        self.now_ms = now_ms;
        self.delete_retention_ms = delete_retention_ms;
        self.last_of_producers = last_of_producers;
    }

    /// Aborted transactions of which nothing but the marker is left, for long enough.
    pub(super) fn take_emptied(&mut self) -> Vec<Aborted> {
        self.transactions.take_emptied()
    }

    fn decide(&mut self, batch: &Bytes, is_last: bool) -> Result<Outcome, Cause> {
        let header = header_of(batch).map_err(corrupt)?;
        let (discard, marker_of_nothing) = self.pass(batch, &header)?;
        let mut all = records(batch).map_err(corrupt)?;
        let (mut kept, mut tombstones) = (Vec::new(), false);
        while let Some(record) = all.next_view() {
            let record = record.map_err(corrupt)?;
            let is_last_record = self.is_last_record(&record);
            self.met += u64::from(is_last_record && !discard && !header.is_control());
            let stays = !discard && (header.is_control() || self.stays(&header, &record));
            tombstones |= stays && record.value.is_none();
            kept.push(stays);
        }
        if !kept.contains(&true) {
            let needed = is_last || self.is_last_of_producer(&header);
            return Ok(match (needed, header.count) {
                (false, _) => Outcome::Drop,
                (true, 0) => Outcome::Keep,
                (true, _) => Outcome::Replace(without_records(&header)),
            });
        }
        let first_deletion = header.delete_horizon_ms().is_none();
        let sets_horizon = first_deletion && (tombstones || marker_of_nothing);
        if !sets_horizon && !kept.contains(&false) {
            return Ok(Outcome::Keep);
        }
        let horizon = sets_horizon.then(|| self.now_ms.saturating_add(self.delete_retention_ms));
        let rewritten = retain_records(&all, &kept, horizon).map_err(corrupt)?;
        if !holds_exactly(&rewritten, &all, &kept).map_err(corrupt)? {
            return Err(refused(
                "a rewritten batch has other records than it should",
            ));
        }
        Ok(Outcome::Replace(rewritten))
    }

    /// Whether all records of the batch go, whatever their keys; and whether it is a marker of which no data is left.
    fn pass(&mut self, batch: &Bytes, header: &BatchHeader) -> Result<(bool, bool), Cause> {
        if !header.is_control() {
            return Ok((self.transactions.pass_data(header), false));
        }
        let marker = Marker::of(batch).map_err(corrupt)?;
        let is_over = self.is_over(header);
        let need = self.transactions.pass_marker(header, marker, is_over);
        Ok((need == Need::Unneeded && is_over, need != Need::Needed))
    }

    /// Whether what the batch has marked for deletion may go.
    fn is_over(&self, header: &BatchHeader) -> bool {
        let horizon_ms = header.delete_horizon_ms();
        horizon_ms.is_some_and(|horizon_ms| horizon_ms <= self.now_ms)
    }

    /// Whether the record is the one that the map has of its key.
    fn is_last_record(&self, record: &RecordView<'_>) -> bool {
        let last = record.key.and_then(|key| self.map.get(key));
        last.is_some() && last == u64::try_from(record.offset).ok()
    }

    fn stays(&self, header: &BatchHeader, record: &RecordView<'_>) -> bool {
        let offset = u64::try_from(record.offset).unwrap_or(0);
        if offset >= self.map.end() {
            return true;
        }
        let Some(key) = record.key else {
            return false;
        };
        let is_deleted = record.value.is_none() && self.is_over(header);
        !is_deleted && self.map.get(key).is_none_or(|last| last <= offset)
    }

    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        match self.last_of_producers.get(&header.producer_id) {
            Some((_, Some(last))) => u64::try_from(header.last_offset()).ok() == Some(*last),
            Some((epoch, None)) => header.is_control() && header.producer_epoch == *epoch,
            None => false,
        }
    }
}

impl EntryFilter for Retention<'_> {
    fn filter(&mut self, entry: &Entry, is_last: bool) -> Result<Outcome, Cause> {
        if entry.base_offset >= self.map.end() {
            return Ok(Outcome::Keep);
        }
        self.decide(&entry.payload, is_last)
    }

    fn check(&mut self) -> Result<(), Cause> {
        if self.met == self.last_records {
            return Ok(());
        }
        tracing::error!(
            expected = self.last_records,
            met = self.met,
            "log compaction did not find the records that its first pass had read; the objects stay as they are"
        );
        Err(refused("records that should stay were not found"))
    }
}

fn refused(reason: &'static str) -> Cause {
    Cause::of(FailureClass::Corrupt, reason)
}
