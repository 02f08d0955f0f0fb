//! One answer: records of a topic, in the order of time as far as the partitions' orders allow.

use std::collections::{BTreeMap, VecDeque};

use millrace_client::{Consumer, consumer::RecordBatch};
use serde::Serialize;

use crate::{
    error::RecordsError,
    lane::{Lane, Lanes, PartitionStatus, Topic},
    limits::{FOUND_PAGES_MAX, WINDOW_OFFSETS_MAX},
    query::{ReadQuery, Selection, Start},
    record::{Rank, ShownRecord},
    scan::{Scan, Step},
};

/// The answer to a read.
#[derive(Debug, Serialize)]
pub struct Page {
    pub(crate) records: Vec<ShownRecord>,
    /// Where to go on.
    cursor: String,
    /// Whether everything up to the ends that the partitions had when the request came was scanned.
    end: bool,
    scanned_records: u64,
    scanned_bytes: u64,
    partitions: Vec<PartitionStatus>,
}

impl Page {
    /// Reads one.
    pub(crate) async fn read(
        topic: &Topic,
        consumer: Consumer,
        query: &ReadQuery,
    ) -> Result<(Self, Lanes), RecordsError> {
        let mut lanes = topic.lanes(&consumer, &query.selection).await?;
        let scan = Scan::new(consumer, query.wait);
        let (records, end, scan) = match query.selection.start {
            Start::Newest(count) => Newest::new(scan, query, count).read(&lanes).await?,
            _ => Forward::new(scan, query).read(&mut lanes).await?,
        };
        let page = Self {
            records,
            cursor: topic.cursor(&query.selection, &lanes).to_string(),
            end,
            scanned_records: scan.records,
            scanned_bytes: scan.bytes,
            partitions: lanes.values().map(Lane::status).collect(),
        };
        Ok((page, lanes))
    }
}

/// Records, whether all was scanned, and the scan with its counts.
type Outcome = (Vec<ShownRecord>, bool, Scan);

/// Records of one partition that are not yet in the answer.
#[derive(Default)]
struct Found {
    records: VecDeque<ShownRecord>,
    bytes: usize,
}

/// From where the partitions stand, in the order of time. Each partition's records are collected
/// until the first of every partition is known; then the oldest goes into the answer, and so on.
struct Forward<'a> {
    scan: Scan,
    query: &'a ReadQuery,
    found: BTreeMap<i32, Found>,
    /// What one partition may have there, so that all together have a small multiple of the answer.
    found_bytes_max: usize,
    records: Vec<ShownRecord>,
    records_bytes: usize,
}

impl<'a> Forward<'a> {
    fn new(scan: Scan, query: &'a ReadQuery) -> Self {
        Self {
            scan,
            query,
            found: BTreeMap::new(),
            found_bytes_max: 0,
            records: Vec::new(),
            records_bytes: 0,
        }
    }

    async fn read(mut self, lanes: &mut Lanes) -> Result<Outcome, RecordsError> {
        self.scan
            .read(lanes.values().map(|lane| (lane, lane.end)))?;
        let page_bytes = self.query.page_bytes;
        self.found_bytes_max = page_bytes.min(FOUND_PAGES_MAX * page_bytes / lanes.len().max(1));
        let mut full = Vec::new();
        while self.answer(&full) {
            match self.scan.step().await? {
                Step::Batch(batch) => {
                    let partition = batch.topic_partition().partition;
                    if self.collect(partition, batch, lanes)? {
                        full.push(partition);
                    }
                }
                Step::Ended(partition) => to_the_end(lanes, partition),
                Step::Done => break,
                Step::OutOfBudget => {
                    // Some partitions have told nothing: the others do not wait for them.
                    while self.oldest().is_some_and(|partition| self.take(partition)) {}
                    break;
                }
            }
            tokio::task::yield_now().await;
        }
        for (partition, found) in &self.found {
            if let (Some(left), Some(lane)) = (found.records.front(), lanes.get_mut(partition)) {
                lane.next = left.offset.0;
            }
        }
        let is_end = lanes.values().all(|lane| lane.next >= lane.end);
        Ok((self.records, is_end, self.scan))
    }

    /// Moves into the answer what is known to be next. False where the answer is complete.
    fn answer(&mut self, full: &[i32]) -> bool {
        loop {
            if self.records.len() >= self.query.limit {
                return false;
            }
            let is_empty = |partition: &i32| {
                let found = self.found.get(partition);
                found.is_none_or(|found| found.records.is_empty())
            };
            if full.iter().any(is_empty) {
                // More of it has been dropped: it is for the next answer.
                return false;
            }
            if self.scan.open().any(|partition| is_empty(&partition)) {
                return true;
            }
            match self.oldest() {
                None => return true,
                Some(partition) if self.take(partition) => {}
                Some(_) => return false,
            }
        }
    }

    /// The partition whose first record is the oldest of all that were found.
    fn oldest(&self) -> Option<i32> {
        let first = |found: &Found| found.records.front().map(ShownRecord::rank);
        let ranks = self.found.values().filter_map(first);
        ranks.min().map(|(_, partition, _)| partition)
    }

    /// Moves a partition's first record into the answer. False where it has no room.
    fn take(&mut self, partition: i32) -> bool {
        let Some(found) = self.found.get_mut(&partition) else {
            return false;
        };
        let bytes = found.records.front().map_or(0, ShownRecord::written_bytes);
        let fits = self.records_bytes + bytes <= self.query.page_bytes || self.records.is_empty();
        if self.records.len() >= self.query.limit || !fits {
            return false;
        }
        found.bytes -= bytes;
        self.records_bytes += bytes;
        self.records.extend(found.records.pop_front());
        true
    }

    /// Collects what the filters admit. True where the partition has as much as the answer may
    /// have; the rest of the batch is dropped.
    fn collect(
        &mut self,
        partition: i32,
        mut batch: RecordBatch,
        lanes: &mut Lanes,
    ) -> Result<bool, RecordsError> {
        let Some(lane) = lanes.get_mut(&partition) else {
            return Ok(false);
        };
        let Selection {
            filter, showing, ..
        } = &self.query.selection;
        let has_log_append_time = batch.has_log_append_time();
        let found = self.found.entry(partition).or_default();
        while let Some(record) = batch.next_ref() {
            let record = record?;
            if record.offset >= self.scan.end(partition) {
                break;
            }
            self.scan.count(&record);
            lane.next = record.offset.saturating_add(1);
            if !filter.admits(&record) {
                continue;
            }
            let shown = ShownRecord::new(partition, &record, has_log_append_time, *showing);
            found.bytes += shown.written_bytes();
            found.records.push_back(shown);
            if found.records.len() >= self.query.limit || found.bytes >= self.found_bytes_max {
                self.scan.leave(partition)?;
                return Ok(lane.next < lane.end);
            }
        }
        lane.next = lane.next.max(batch.next_offset()).min(lane.end);
        if lane.next >= lane.end {
            self.scan.leave(partition)?;
        }
        Ok(false)
    }
}

fn to_the_end(lanes: &mut Lanes, partition: i32) {
    if let Some(lane) = lanes.get_mut(&partition) {
        lane.next = lane.end;
    }
}

/// The newest records: windows before the ends, each larger than the one after it, until every
/// partition has told as many as are wanted, or all that it has.
struct Newest<'a> {
    scan: Scan,
    query: &'a ReadQuery,
    count: usize,
    /// The newest so far.
    kept: BTreeMap<Rank, ShownRecord>,
    kept_bytes: usize,
}

/// A partition's window: from where its lane stands to an offset.
struct Window {
    lane: Lane,
    to: i64,
    found: usize,
}

impl<'a> Newest<'a> {
    fn new(scan: Scan, query: &'a ReadQuery, count: usize) -> Self {
        Self {
            scan,
            query,
            count,
            kept: BTreeMap::new(),
            kept_bytes: 0,
        }
    }

    async fn read(mut self, lanes: &Lanes) -> Result<Outcome, RecordsError> {
        let window = |lane: &Lane| Window {
            lane: lane.clone(),
            to: lane.end,
            found: 0,
        };
        let mut windows: BTreeMap<_, _> = lanes
            .iter()
            .map(|(partition, lane)| (*partition, window(lane)))
            .collect();
        let mut offsets = i64::try_from(self.count).unwrap_or(i64::MAX);
        let is_end = loop {
            let count = self.count;
            windows.retain(|_, window| {
                window.lane.next > window.lane.earliest && window.found < count
            });
            if windows.is_empty() {
                break true;
            }
            for window in windows.values_mut() {
                window.to = window.lane.next;
                let from = window.to.saturating_sub(offsets);
                window.lane.next = from.max(window.lane.earliest);
            }
            if !self.read_windows(&mut windows).await? {
                break false;
            }
            offsets = (4 * offsets).min(WINDOW_OFFSETS_MAX);
        };
        let newest_first = self.kept.into_values().rev();
        Ok((newest_first.collect(), is_end, self.scan))
    }

    /// False where the bounds have ended it.
    async fn read_windows(
        &mut self,
        windows: &mut BTreeMap<i32, Window>,
    ) -> Result<bool, RecordsError> {
        let ranges = windows.values().map(|window| (&window.lane, window.to));
        self.scan.read(ranges)?;
        loop {
            match self.scan.step().await? {
                Step::Batch(batch) => {
                    let partition = batch.topic_partition().partition;
                    if let Some(window) = windows.get_mut(&partition) {
                        window.found += self.keep(partition, batch)?;
                    }
                }
                Step::Ended(_) => {}
                Step::Done => return Ok(true),
                Step::OutOfBudget => return Ok(false),
            }
            tokio::task::yield_now().await;
        }
    }

    /// Keeps what is new enough; how many records the filters have admitted.
    fn keep(&mut self, partition: i32, mut batch: RecordBatch) -> Result<usize, RecordsError> {
        let Selection {
            filter, showing, ..
        } = &self.query.selection;
        let has_log_append_time = batch.has_log_append_time();
        let end = self.scan.end(partition);
        let mut admitted = 0;
        while let Some(record) = batch.next_ref() {
            let record = record?;
            if record.offset >= end {
                break;
            }
            self.scan.count(&record);
            if !filter.admits(&record) {
                continue;
            }
            admitted += 1;
            let rank = (record.timestamp_ms, partition, record.offset);
            let oldest = self.kept.first_key_value().map(|(rank, _)| *rank);
            if self.kept.len() >= self.count && oldest > Some(rank) {
                continue;
            }
            let shown = ShownRecord::new(partition, &record, has_log_append_time, *showing);
            self.kept_bytes += shown.written_bytes();
            self.kept.insert(rank, shown);
            while self.kept.len() > self.count
                || (self.kept_bytes > self.query.page_bytes && self.kept.len() > 1)
            {
                let dropped = self.kept.pop_first();
                self.kept_bytes -= dropped.map_or(0, |(_, dropped)| dropped.written_bytes());
            }
        }
        if batch.next_offset() >= end {
            self.scan.leave(partition)?;
        }
        Ok(admitted)
    }
}
