//! A stream of records that goes on with what is produced.
//!
//! It is polled by whoever writes to the reader's socket. A task reads at most one batch ahead, so that
//! one that waits for its turn among large batches keeps its place while progress is written. So a
//! reader that stops reading stops the polls, the consumer sees no demand and fetches nothing; and a
//! stream that is dropped leaves nothing running.

use std::collections::VecDeque;

use bytes::Bytes;
use millrace_client::{
    Client, Consumer,
    consumer::{ConsumerError, StartAt},
};
use serde::Serialize;
use tokio::time::{Interval, MissedTickBehavior, interval};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    admission::Permit,
    error::RecordsError,
    in_hand::InHand,
    lane::{Lane, Lanes, PartitionStatus, Topic, assign},
    limits::{CHUNK_BYTES, PROGRESS_INTERVAL},
    query::Selection,
    record::{ShownRecord, size_bytes},
};

/// How items are separated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFormat {
    /// A line of JSON for each.
    Ndjson,
    /// Server-sent events: `record`, `progress`, `error`. Their ids are cursors.
    ServerSentEvents,
}

/// See the module.
pub struct RecordsStream {
    parts: StreamParts,
    scanned_records: u64,
    scanned_bytes: u64,
    /// Reads the next batch.
    reading: Option<AbortOnDropHandle<Result<InHand, ConsumerError>>>,
    /// The batch that is being written.
    batch: Option<InHand>,
    progress: Interval,
    /// What comes after the items that are written.
    failed: Option<RecordsError>,
    has_ended: bool,
}

/// One item as JSON.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Item<'a> {
    Record(&'a ShownRecord),
    Progress(Progress),
    Error(ErrorBody<'a>),
}

#[derive(Serialize)]
struct Progress {
    scanned_records: u64,
    scanned_bytes: u64,
    partitions: Vec<PartitionStatus>,
    cursor: String,
}

/// An error as JSON, in answers and in streams.
#[derive(Debug, Serialize)]
pub struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
}

impl<'a> ErrorBody<'a> {
    /// The JSON of an error.
    #[must_use]
    pub fn new(error: &'a RecordsError) -> Self {
        Self {
            code: &error.code,
            message: &error.message,
        }
    }
}

/// What a stream is made from.
pub(crate) struct StreamParts {
    pub(crate) client: Client,
    pub(crate) topic: Topic,
    pub(crate) consumer: Consumer,
    pub(crate) selection: Selection,
    pub(crate) lanes: Lanes,
    pub(crate) earlier: VecDeque<ShownRecord>,
    pub(crate) format: StreamFormat,
    pub(crate) stopped: CancellationToken,
    pub(crate) _permit: Permit,
}

impl RecordsStream {
    pub(crate) fn new(parts: StreamParts) -> Result<Self, RecordsError> {
        assign(&parts.consumer, parts.lanes.values())?;
        let mut progress = interval(PROGRESS_INTERVAL);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            parts,
            scanned_records: 0,
            scanned_bytes: 0,
            reading: None,
            batch: None,
            progress,
            failed: None,
            has_ended: false,
        })
    }

    /// The next items, encoded; nothing after the last one, which is an error.
    pub async fn next(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        match self.chunk().await {
            Ok(chunk) => Some(chunk),
            Err(error) => {
                self.has_ended = true;
                let mut chunk = Vec::new();
                let item = Item::Error(ErrorBody::new(&error));
                write(&mut chunk, self.parts.format, "error", None, &item);
                Some(chunk.into())
            }
        }
    }

    async fn chunk(&mut self) -> Result<Bytes, RecordsError> {
        loop {
            if let Some(chunk) = self.write_earlier() {
                return Ok(chunk);
            }
            if let Some(chunk) = self.write_batch()? {
                return Ok(chunk);
            }
            if let Some(error) = self.failed.take() {
                return Err(error);
            }
            let consumer = &self.parts.consumer;
            let reading = self.reading.get_or_insert_with(|| read(consumer.clone()));
            tokio::select! {
                biased;
                () = self.parts.stopped.cancelled() => return Err(RecordsError::stopping()),
                _ = self.progress.tick() => return self.write_progress(),
                batch = reading => {
                    self.reading = None;
                    // It ends early with the runtime only.
                    let batch = batch.map_err(|_| RecordsError::stopping())?;
                    self.batch = Some(batch?);
                }
            }
            tokio::task::yield_now().await;
        }
    }

    fn write_earlier(&mut self) -> Option<Bytes> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK_BYTES
            && let Some(record) = self.parts.earlier.pop_front()
        {
            // Only the last one has an id: whoever has it has them all.
            let cursor = self.parts.earlier.is_empty().then(|| self.cursor());
            let item = Item::Record(&record);
            write(&mut chunk, self.parts.format, "record", cursor, &item);
        }
        (!chunk.is_empty()).then(|| chunk.into())
    }

    /// What the filters admit of the batch in hand, up to the bound of a chunk.
    fn write_batch(&mut self) -> Result<Option<Bytes>, RecordsError> {
        let Some(hand) = self.batch.take() else {
            return Ok(None);
        };
        let Some(mut batch) = hand.take() else {
            // Its time was up: the rest is fetched again.
            if let Some(lane) = self.parts.lanes.get(&hand.partition) {
                let next = StartAt::Offset(lane.next);
                self.parts.consumer.seek(&lane.name, next)?;
            }
            return Ok(None);
        };
        let partition = hand.partition;
        let has_log_append_time = batch.has_log_append_time();
        let mut chunk = Vec::new();
        let mut is_whole = true;
        while let Some(record) = batch.next_ref() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    self.failed = Some(error.into());
                    return Ok((!chunk.is_empty()).then(|| chunk.into()));
                }
            };
            self.scanned_records += 1;
            self.scanned_bytes += size_bytes(&record) as u64;
            self.advance(partition, record.offset.saturating_add(1));
            if !self.parts.selection.filter.admits(&record) {
                continue;
            }
            let showing = self.parts.selection.showing;
            let shown = ShownRecord::new(partition, &record, has_log_append_time, showing);
            let has_ids = self.parts.format == StreamFormat::ServerSentEvents;
            let cursor = has_ids.then(|| self.cursor());
            write(
                &mut chunk,
                self.parts.format,
                "record",
                cursor,
                &Item::Record(&shown),
            );
            if chunk.len() >= CHUNK_BYTES {
                is_whole = false;
                break;
            }
        }
        if is_whole {
            self.advance(partition, batch.next_offset());
        } else {
            hand.put_back(batch);
            self.batch = Some(hand);
        }
        Ok((!chunk.is_empty()).then(|| chunk.into()))
    }

    fn advance(&mut self, partition: i32, next: i64) {
        if let Some(lane) = self.parts.lanes.get_mut(&partition) {
            lane.next = next;
            lane.end = lane.end.max(next);
        }
    }

    fn cursor(&self) -> String {
        self.parts
            .topic
            .cursor(&self.parts.selection, &self.parts.lanes)
            .to_string()
    }

    fn write_progress(&mut self) -> Result<Bytes, RecordsError> {
        if self.parts.topic.is_gone(&self.parts.client) {
            let name = &self.parts.topic.name;
            return Err(RecordsError::not_found(format!(
                "the topic {name} was deleted"
            )));
        }
        for lane in self.parts.lanes.values_mut() {
            if let Some(lag) = self.parts.consumer.lag(&lane.name) {
                // A batch that was read ahead is not part of the lag.
                lane.end = lane.end.max(lane.next.saturating_add(lag));
            }
        }
        let progress = Progress {
            scanned_records: self.scanned_records,
            scanned_bytes: self.scanned_bytes,
            partitions: self.parts.lanes.values().map(Lane::status).collect(),
            cursor: self.cursor(),
        };
        let cursor = Some(progress.cursor.clone());
        let mut chunk = Vec::new();
        write(
            &mut chunk,
            self.parts.format,
            "progress",
            cursor,
            &Item::Progress(progress),
        );
        Ok(chunk.into())
    }
}

fn read(consumer: Consumer) -> AbortOnDropHandle<Result<InHand, ConsumerError>> {
    let reading = async move { consumer.next_batch().await.map(InHand::new) };
    // Not supervised: it ends with its batch, or with the stream.
    AbortOnDropHandle::new(tokio::spawn(reading))
}

fn write(
    chunk: &mut Vec<u8>,
    format: StreamFormat,
    event: &str,
    cursor: Option<String>,
    item: &Item<'_>,
) {
    if format == StreamFormat::ServerSentEvents {
        chunk.extend_from_slice(b"event: ");
        chunk.extend_from_slice(event.as_bytes());
        if let Some(cursor) = cursor {
            chunk.extend_from_slice(b"\nid: ");
            chunk.extend_from_slice(cursor.as_bytes());
        }
        chunk.extend_from_slice(b"\ndata: ");
    }
    serde_json::to_writer(&mut *chunk, item).expect("no map with other keys than text, no I/O");
    let end: &[u8] = match format {
        StreamFormat::Ndjson => b"\n",
        StreamFormat::ServerSentEvents => b"\n\n",
    };
    chunk.extend_from_slice(end);
}
