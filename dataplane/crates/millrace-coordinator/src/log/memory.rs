//! Logs of state in memory, for tests.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use millrace_record::TransactionEnd;
use parking_lot::Mutex;

use super::*;

/// A log in memory whose device can be held up or broken.
#[derive(Debug)]
pub(crate) struct MemoryLog {
    batches: Mutex<Vec<(Offset, Bytes)>>,
    start: Mutex<Offset>,
    end: Mutex<Offset>,
    /// Appends become durable while this is true.
    pub(crate) durable: watch::Sender<bool>,
    pub(crate) broken: AtomicBool,
    /// Its bytes in storage are not what was written.
    pub(crate) corrupt: AtomicBool,
    /// Trims take place later than anybody looks.
    pub(crate) keep_all: AtomicBool,
    /// The epoch of its last leader.
    epoch: AtomicI32,
}

impl MemoryLog {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            batches: Mutex::default(),
            start: Mutex::new(0),
            end: Mutex::new(0),
            durable: watch::Sender::new(true),
            broken: AtomicBool::new(false),
            corrupt: AtomicBool::new(false),
            keep_all: AtomicBool::new(false),
            epoch: AtomicI32::new(0),
        })
    }

    pub(crate) fn records(&self) -> Offset {
        *self.end.lock() - *self.start.lock()
    }

    /// Its batches, oldest first.
    pub(crate) fn batches(&self) -> Vec<Bytes> {
        let batches = self.batches.lock();
        batches.iter().map(|(_, batch)| batch.clone()).collect()
    }

    /// Loses what never became durable.
    pub(crate) fn truncate(&self, end: Offset) {
        *self.end.lock() = end;
        self.batches.lock().retain(|(base, _)| *base < end);
    }
}

/// A log in memory, for as long as this broker leads its partition.
pub(crate) struct Led {
    log: Arc<MemoryLog>,
    pub(crate) lost: watch::Sender<bool>,
    epoch: i32,
}

impl Led {
    fn new(log: &Arc<MemoryLog>) -> Arc<Self> {
        Arc::new(Self {
            log: log.clone(),
            lost: watch::Sender::new(false),
            epoch: log.epoch.fetch_add(1, Ordering::SeqCst) + 1,
        })
    }

    fn lost() -> LogFault {
        LogFault(Cause::of(FailureClass::Gone, "led elsewhere"))
    }

    fn check(&self) -> Result<(), LogFault> {
        if *self.lost.borrow() {
            return Err(Self::lost());
        }
        if self.log.broken.load(Ordering::SeqCst) {
            return Err(LogFault(Cause::of(FailureClass::Transient, "broken")));
        }
        Ok(())
    }
}

impl StateLog for Led {
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn epoch(&self) -> i32 {
        self.epoch
    }

    fn append_marker(&self, marker: TransactionMarker) -> BoxFuture<'_, Result<Durable, LogFault>> {
        let end = TransactionEnd {
            committed: marker.committed,
            coordinator_epoch: marker.coordinator_epoch,
        };
        self.append(end.batch((marker.producer_id, marker.producer_epoch), 1))
    }

    fn append(&self, batch: BytesMut) -> BoxFuture<'_, Result<Durable, LogFault>> {
        Box::pin(async {
            self.check()?;
            let mut batch = split(batch).expect("built here").remove(0);
            let base = {
                let mut end = self.log.end.lock();
                let base = *end;
                batch.restamp(base, 0, None);
                *end += u64::from(batch.count());
                self.log.batches.lock().push((base, batch.freeze()));
                base
            };
            let mut durable = self.log.durable.subscribe();
            let mut lost = self.lost.subscribe();
            let durable: Durable = Box::pin(async move {
                tokio::select! {
                    biased;
                    _ = durable.wait_for(|durable| *durable) => Ok(base),
                    _ = lost.wait_for(|lost| *lost) => Err(Self::lost()),
                }
            });
            Ok(durable)
        })
    }

    fn start(&self) -> Offset {
        *self.log.start.lock()
    }

    fn end(&self) -> Offset {
        *self.log.end.lock()
    }

    fn read(&self, offset: Offset) -> BoxFuture<'_, Result<Vec<Bytes>, LogFault>> {
        if self.log.corrupt.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(LogFault::corrupt("a flipped byte"))));
        }
        if let Err(fault) = self.check() {
            return Box::pin(std::future::ready(Err(fault)));
        }
        let batches = self.log.batches.lock();
        let found = batches.iter().rev().find(|(base, _)| *base <= offset);
        let found = found.map(|(_, batch)| batch.clone()).into_iter().collect();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn trim(&self, new_start: Offset) -> BoxFuture<'_, Result<(), LogFault>> {
        let trimmed = self.check().map(|()| {
            if self.log.keep_all.load(Ordering::SeqCst) {
                return;
            }
            *self.log.start.lock() = new_start;
            let mut batches = self.log.batches.lock();
            batches.retain(|(base, _)| *base >= new_start);
        });
        Box::pin(std::future::ready(trimmed))
    }
}

pub(crate) struct MemoryTopic {
    pub(crate) logs: Vec<Arc<MemoryLog>>,
    /// Nothing before the topic exists.
    pub(crate) led: Mutex<Option<Vec<Option<Arc<Led>>>>>,
    changes: watch::Sender<u64>,
}

impl MemoryTopic {
    pub(crate) fn new(partitions: usize) -> Arc<Self> {
        Self::of((0..partitions).map(|_| MemoryLog::new()).collect())
    }

    /// The topic as a broker sees it. Several can share its logs.
    pub(crate) fn of(logs: Vec<Arc<MemoryLog>>) -> Arc<Self> {
        Arc::new(Self {
            logs,
            led: Mutex::new(None),
            changes: watch::Sender::new(0),
        })
    }

    /// Another broker creates the topic, and leads all of it.
    pub(crate) fn create_elsewhere(&self) {
        *self.led.lock() = Some(vec![None; self.logs.len()]);
        self.changed();
    }

    pub(crate) fn gain(&self, index: usize) {
        let led = Some(Led::new(&self.logs[index]));
        self.led.lock().as_mut().expect("created")[index] = led;
        self.changed();
    }

    pub(crate) fn lose(&self, index: usize) {
        self.lose_unnoticed(index);
        self.changed();
    }

    pub(crate) fn lose_unnoticed(&self, index: usize) {
        let led = self.led.lock().as_mut().expect("created")[index].take();
        led.expect("led").lost.send_replace(true);
    }

    pub(crate) fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }
}

impl StateTopic for MemoryTopic {
    fn partitions(&self) -> Option<Vec<Option<Arc<dyn StateLog>>>> {
        let led = self.led.lock();
        let log = |led: &Option<Arc<Led>>| led.clone().map(|led| led as Arc<dyn StateLog>);
        Some(led.as_ref()?.iter().map(log).collect())
    }

    fn create(&self) -> BoxFuture<'_, Result<(), LogFault>> {
        let all = || self.logs.iter().map(Led::new).map(Some).collect();
        self.led.lock().get_or_insert_with(all);
        Box::pin(std::future::ready(Ok(())))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
