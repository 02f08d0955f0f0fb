//! The only writer of one shard's log.

use std::{future::ready, sync::Arc};

use futures_util::{StreamExt, stream::FuturesOrdered};
use millrace_budget::Charge;
use millrace_log::TransactionMarker;
use millrace_model::{Classified as _, FailureClass, Offset};
use millrace_record::{BatchBuilder, Compression};
use tokio::sync::{mpsc, oneshot};

use crate::{
    kept::{COPY, Kept, ProducerEpoch, StateRecord, Unserved},
    log::{BoxFuture, Durable, LogFault, StateLog},
    shard::{Cell, Ground, Shard, Write},
};

/// A batch is closed once it has this many bytes. Further writes go to the next batch.
const BATCH_BYTES: usize = 256 * 1024;

/// Batches that are not durable yet. Enough to keep the queue of the device busy; further writes wait in the channel and
/// make larger batches.
const IN_FLIGHT_MAX: usize = 32;

/// Aborted transactions after which the live state is rewritten as well, because the partition remembers each until its records
/// are trimmed.
pub(crate) const ABORTS_MAX: u64 = 4_000;

/// The headers of records, and of records that a rewrite copies to the end of the log.
const NO_HEADERS: Headers = &[];
const COPY_HEADERS: Headers = &[(COPY, None)];

/// The sequence of batches without one.
const NO_SEQUENCE: i32 = -1;

type Headers = &'static [(&'static str, Option<&'static [u8]>)];

type Finished<K> = (Result<Offset, LogFault>, Vec<Ended<K>>);

/// A write whose last record is in the batch.
enum Ended<K: Kept> {
    /// Of one entry, with its memory until it is durable.
    Of(Arc<Cell<K>>, K::Outcome, Charge),
    /// The end of a transaction.
    Marker(TransactionMarker, oneshot::Sender<Result<(), K::Error>>),
}

pub(crate) struct Writer<K: Kept> {
    shard: Arc<Shard<K>>,
    ground: Ground<K>,
    log: Arc<dyn StateLog>,
    writes: mpsc::Receiver<Write<K>>,
    in_flight: FuturesOrdered<BoxFuture<'static, Finished<K>>>,
    /// Records in the log, live and dead.
    records: u64,
    /// The number of records at which the live state is rewritten.
    rewrite_at: u64,
    /// Aborted transactions since the last rewrite.
    aborts: u64,
}

/// The batch that is being filled, and the writes that end in it.
struct Filling<K: Kept> {
    builder: BatchBuilder,
    /// The producer whose transaction the batch is part of.
    producer: Option<ProducerEpoch>,
    ended: Vec<Ended<K>>,
    /// Why an earlier batch of the current write was refused, if it was.
    fault: Option<LogFault>,
}

impl<K: Kept> Filling<K> {
    fn new(producer: Option<ProducerEpoch>) -> Self {
        let builder = BatchBuilder::new(Compression::None);
        Self {
            builder: match producer {
                Some((id, epoch)) => builder.producer(id, epoch, NO_SEQUENCE).transactional(),
                None => builder,
            },
            producer,
            ended: Vec::new(),
            fault: None,
        }
    }
}

impl<K: Kept> Writer<K> {
    pub(crate) fn new(
        shard: Arc<Shard<K>>,
        ground: Ground<K>,
        log: Arc<dyn StateLog>,
        writes: mpsc::Receiver<Write<K>>,
        (records, aborts): (u64, u64),
    ) -> Self {
        let mut writer = Self {
            shard,
            ground,
            log,
            writes,
            in_flight: FuturesOrdered::new(),
            records,
            rewrite_at: 0,
            aborts: 0,
        };
        let live = writer.shard.durable_count() as u64;
        writer.schedule_rewrite(live);
        writer.aborts = aborts;
        writer
    }

    /// Runs until all senders are dropped and no batch is in flight.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                Some(finished) = self.in_flight.next(), if !self.in_flight.is_empty() => {
                    self.finish(finished);
                }
                write = self.writes.recv(), if self.in_flight.len() < IN_FLIGHT_MAX => {
                    let Some(write) = write else { break };
                    self.append(write).await;
                }
            }
            if self.records >= self.rewrite_at || self.aborts >= ABORTS_MAX {
                self.rewrite().await;
            }
        }
        self.drain().await;
    }

    /// Appends a write and all that are queued behind it, in as few batches as possible.
    async fn append(&mut self, first: Write<K>) {
        let mut filling = Filling::new(None);
        let mut next = Some(first);
        while let Some(write) = next {
            match write {
                Write::Marker(marker, reply) => {
                    let full = std::mem::replace(&mut filling, Filling::new(None));
                    self.flush(full).await;
                    let appended = self.log.append_marker(marker).await;
                    self.aborts += u64::from(!marker.committed);
                    self.appended(appended, 1, vec![Ended::Marker(marker, reply)]);
                }
                Write::Of(write) => {
                    let (producer, records) = write.written.into_parts();
                    let records = (&records[..], NO_HEADERS);
                    self.fill_all(&mut filling, producer, records).await;
                    let ended = Ended::Of(write.cell, write.outcome, write.charge);
                    filling.ended.push(ended);
                }
            }
            let room =
                filling.builder.size_bytes() < BATCH_BYTES && self.in_flight.len() < IN_FLIGHT_MAX;
            next = if room {
                self.writes.try_recv().ok()
            } else {
                None
            };
        }
        self.flush(filling).await;
    }

    /// Adds records to the batch. Starts another batch if it is full or belongs to another producer.
    async fn fill_all(
        &mut self,
        filling: &mut Filling<K>,
        producer: Option<ProducerEpoch>,
        (records, headers): (&[StateRecord], Headers),
    ) {
        if filling.producer != producer {
            let full = std::mem::replace(filling, Filling::new(producer));
            self.flush(full).await;
        }
        for (key, value) in records {
            if filling.builder.size_bytes() >= BATCH_BYTES {
                let full = std::mem::replace(filling, Filling::new(producer));
                filling.fault = self.flush(full).await;
            }
            let ms = self.ground.clock.wall_ms();
            let value = value.as_deref();
            filling.builder.push(ms, Some(key), value, headers);
        }
    }

    /// Appends the batch. Returns why it was refused, if it was.
    async fn flush(&mut self, filling: Filling<K>) -> Option<LogFault> {
        let Filling {
            builder,
            ended,
            fault,
            ..
        } = filling;
        let count = u64::try_from(builder.count()).unwrap_or(0);
        if count == 0 && ended.is_empty() {
            return fault;
        }
        let appended = match fault {
            Some(fault) => Err(fault),
            // A write without records is finished along with those before it.
            None if count == 0 => Ok(Box::pin(ready(Ok(self.log.end()))) as BoxFuture<'_, _>),
            None => self.log.append(builder.build()).await,
        };
        self.appended(appended, count, ended)
    }

    /// Tracks a batch until it is durable. Returns why it was refused, if it was.
    fn appended(
        &mut self,
        appended: Result<Durable, LogFault>,
        count: u64,
        ended: Vec<Ended<K>>,
    ) -> Option<LogFault> {
        match appended {
            Ok(durable) => {
                self.records += count;
                self.in_flight
                    .push_back(Box::pin(async move { (durable.await, ended) }));
                None
            }
            Err(fault) => {
                let refused = fault.clone();
                self.in_flight
                    .push_back(Box::pin(ready((Err(refused), ended))));
                Some(fault)
            }
        }
    }

    fn finish(&self, (result, ended): Finished<K>) {
        let topic = K::NAMES.topic;
        match &result {
            // Another broker leads the partition now, and clients will find it.
            Err(fault) if fault.class() == FailureClass::Gone => {
                tracing::debug!(%fault, topic, writes = ended.len(), "log closed");
            }
            // The producer or the coordinator has been replaced.
            Err(fault) if fault.class() == FailureClass::Fenced => {
                tracing::info!(%fault, topic, writes = ended.len(), "refused by the log");
            }
            Err(fault) => {
                tracing::error!(%fault, topic, writes = ended.len(), "writing to the log failed");
            }
            Ok(_) => {}
        }
        for ended in ended {
            let result = result.as_ref().map(drop);
            let result = result.map_err(|_| Unserved::NotAvailable.into());
            match ended {
                Ended::Of(cell, outcome, _charge) => self.shard.finish((cell, outcome), result),
                Ended::Marker(marker, reply) => self.shard.marker_finished(marker, reply, result),
            }
        }
    }

    async fn drain(&mut self) {
        while let Some(finished) = self.in_flight.next().await {
            self.finish(finished);
        }
    }

    /// Writes the live state to the end of the log and trims everything before it. No batch is in flight meanwhile, so the live
    /// state is exactly what the log holds.
    async fn rewrite(&mut self) {
        self.drain().await;
        let start = self.log.end();
        let before = self.records;
        let mut filling = Filling::new(None);
        for cell in self.shard.cells() {
            for written in Shard::durable(&cell) {
                let (producer, records) = written.into_parts();
                let records = (&records[..], COPY_HEADERS);
                self.fill_all(&mut filling, producer, records).await;
            }
        }
        if self.shard.has_resigned() {
            // The live state that was read may be incomplete, and must not replace the log.
            return;
        }
        self.flush(filling).await;
        let live = self.records - before;
        match self.trim_after_rewrite(start).await {
            Ok(()) => {
                tracing::info!(topic = K::NAMES.topic, before, live, "log rewritten");
                self.records = live;
                self.schedule_rewrite(live);
            }
            Err(fault) => {
                tracing::warn!(%fault, topic = K::NAMES.topic, "the log could not be rewritten; tried again later");
                self.schedule_rewrite(self.records);
            }
        }
    }

    async fn trim_after_rewrite(&mut self, start: Offset) -> Result<(), LogFault> {
        let mut outcome = Ok(());
        while let Some((result, _)) = self.in_flight.next().await {
            outcome = outcome.and(result.map(drop));
        }
        outcome?;
        self.log.trim(start).await
    }

    fn schedule_rewrite(&mut self, live: u64) {
        self.aborts = 0;
        self.rewrite_at = (2 * live).max(live + self.ground.rewrite_after_records);
    }
}
