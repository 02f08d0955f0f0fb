//! The only writer of one shard's log.

use std::{future::ready, sync::Arc};

use futures_util::{StreamExt, stream::FuturesOrdered};
use millrace_budget::Charge;
use millrace_model::{Classified as _, FailureClass, Offset};
use millrace_record::{BatchBuilder, Compression};
use tokio::sync::mpsc;

use crate::{
    GroupError,
    log::{BoxFuture, LogFault, StateLog},
    records::GroupRecord,
    shard::{Cell, Ground, Outcome, Shard, Write},
};

/// A batch is closed once it has this many bytes; what waits longer goes into the next one.
const BATCH_BYTES: usize = 256 * 1024;

/// Batches on their way to durability at one time. Enough to keep the device's queue busy; the
/// rest waits in the channel and makes larger batches.
const IN_FLIGHT_MAX: usize = 32;

type Finished = (Result<Offset, LogFault>, Vec<Ended>);

/// A write whose last record is in a batch, and what it costs until that is durable.
type Ended = (Arc<Cell>, Outcome, Charge);

pub(crate) struct Writer {
    shard: Arc<Shard>,
    ground: Ground,
    log: Arc<dyn StateLog>,
    writes: mpsc::Receiver<Write>,
    in_flight: FuturesOrdered<BoxFuture<'static, Finished>>,
    /// Records that the log holds, live and dead.
    records: u64,
    /// At how many of them the live ones are rewritten.
    rewrite_at: u64,
}

/// The batch being filled, and whose writes end in it.
struct Filling {
    builder: BatchBuilder,
    ended: Vec<Ended>,
    /// An earlier batch of the write that is being filled in was refused.
    fault: Option<LogFault>,
}

impl Filling {
    fn new() -> Self {
        Self {
            builder: BatchBuilder::new(Compression::None),
            ended: Vec::new(),
            fault: None,
        }
    }
}

impl Writer {
    pub(crate) fn new(
        shard: Arc<Shard>,
        ground: Ground,
        log: Arc<dyn StateLog>,
        writes: mpsc::Receiver<Write>,
        records: u64,
    ) -> Self {
        let mut writer = Self {
            shard,
            ground,
            log,
            writes,
            in_flight: FuturesOrdered::new(),
            records,
            rewrite_at: 0,
        };
        writer.schedule_rewrite(writer.shard.durable_count() as u64);
        writer
    }

    /// Runs until every sender is gone, then until nothing is in flight.
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
            if self.records >= self.rewrite_at {
                self.rewrite().await;
            }
        }
        self.drain().await;
    }

    /// Puts a write and all that wait behind it into as few batches as they need.
    async fn append(&mut self, first: Write) {
        let mut filling = Filling::new();
        let mut next = Some(first);
        while let Some(write) = next {
            for record in &write.records {
                self.fill(&mut filling, record).await;
            }
            filling
                .ended
                .push((write.cell, write.outcome, write.charge));
            let room = filling.builder.size_bytes() < BATCH_BYTES;
            next = if room {
                self.writes.try_recv().ok()
            } else {
                None
            };
        }
        self.flush(filling).await;
    }

    async fn fill(&mut self, filling: &mut Filling, record: &GroupRecord) {
        let (key, value) = record.encode();
        if filling.builder.size_bytes() >= BATCH_BYTES {
            let full = std::mem::replace(filling, Filling::new());
            filling.fault = self.flush(full).await;
        }
        let ms = self.ground.clock.wall_ms();
        filling.builder.push(ms, Some(&key), value.as_deref(), &[]);
    }

    /// Appends the batch. Returns why it was refused, if it was.
    async fn flush(&mut self, filling: Filling) -> Option<LogFault> {
        let Filling {
            builder,
            ended,
            fault,
        } = filling;
        let count = u64::try_from(builder.count()).unwrap_or(0);
        let appended = match fault {
            Some(fault) => Err(fault),
            // What has nothing to write is finished with what was written before it.
            None if count == 0 => Ok(Box::pin(ready(Ok(self.log.end()))) as BoxFuture<'_, _>),
            None => self.log.append(builder.build()).await,
        };
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

    fn finish(&self, (result, ended): Finished) {
        match &result {
            // Another broker leads the partition now; its clients ask that one.
            Err(fault) if fault.class() == FailureClass::Gone => {
                tracing::debug!(%fault, writes = ended.len(), "group log: closed");
            }
            Err(fault) => {
                tracing::error!(%fault, writes = ended.len(), "group log: write failed");
            }
            Ok(_) => {}
        }
        for (cell, outcome, _charge) in ended {
            let result = result.as_ref().map(|_| ());
            self.shard.finish(
                (cell, outcome),
                result.map_err(|_| GroupError::CoordinatorNotAvailable),
            );
        }
    }

    async fn drain(&mut self) {
        while let Some(finished) = self.in_flight.next().await {
            self.finish(finished);
        }
    }

    /// Writes the live state at the tail and trims what is before it. Nothing is in flight
    /// meanwhile, so the live state is exactly what the log holds.
    async fn rewrite(&mut self) {
        self.drain().await;
        let start = self.log.end();
        let before = self.records;
        let mut filling = Filling::new();
        for cell in self.shard.cells() {
            for record in Shard::durable_records(&cell) {
                self.fill(&mut filling, &record).await;
            }
        }
        if self.shard.has_resigned() {
            // What was read may be a part of the live state, and must not replace it.
            return;
        }
        self.flush(filling).await;
        let live = self.records - before;
        match self.trim_after_rewrite(start).await {
            Ok(()) => {
                tracing::info!(before, live, "group log rewritten");
                self.records = live;
                self.schedule_rewrite(live);
            }
            Err(fault) => {
                tracing::warn!(%fault, "group log could not be rewritten; tried again later");
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
        self.rewrite_at = (2 * live).max(live + self.ground.config.rewrite_after_records);
    }
}
