//! Consumers that outlive the broker.
//!
//! One follows the end of all partitions from the first record on: it must see every record once, in
//! order, without a gap, through every kill. Others begin at the start of a partition, read to its
//! end, and begin again: their records come from objects, while those are compacted and deleted.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use millrace_bench::{
    drill::{Audit, Promises, Stage, feed},
    machine::pause,
    producer::{ClientError, Connection, error_code::ErrorCode},
};
use serde_json::{Value, json};

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(30);
const CLIENT_ID: &str = "soak-follower";
const FETCH_BYTES: i32 = 1 << 20;
/// How long one that follows waits at the end of a partition, before it looks at the next.
const TAIL_WAIT: Duration = Duration::from_millis(20);
/// Before it is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Consumers that begin again and again.
const REWINDING: i32 = 2;
/// Between two fetches of such a one: it shall not take the processors from everybody else.
const REWINDING_PAUSE: Duration = Duration::from_millis(30);
/// After these a consumer tries again.
const RETRIABLE: [ErrorCode; 6] = [
    ErrorCode::UnknownTopicOrPartition,
    ErrorCode::LeaderNotAvailable,
    ErrorCode::NotLeaderOrFollower,
    ErrorCode::RequestTimedOut,
    ErrorCode::KafkaStorageError,
    ErrorCode::OffsetNotAvailable,
];

/// What a consumer saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    records: u64,
    /// Readings that were begun at the start of a partition.
    beginnings: u64,
    /// Those that retention overtook.
    overtaken: u64,
    reconnects: u64,
    retries: BTreeMap<i16, u64>,
}

/// All of them, at work.
pub(crate) struct Followers {
    stopping: Arc<AtomicBool>,
    tail: JoinHandle<Result<(Seen, Vec<Audit>), String>>,
    rewinding: Vec<JoinHandle<Result<Seen, String>>>,
}

impl Followers {
    pub(crate) fn begin(stage: &Arc<Stage>) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let follower = || Follower {
            stage: Arc::clone(stage),
            stopping: Arc::clone(&stopping),
            connection: None,
            seen: Seen::default(),
        };
        let tail = follower();
        let rewinding = (0..REWINDING).map(|number| {
            let rewinding = follower();
            thread::spawn(move || rewinding.rewind(number))
        });
        let rewinding = rewinding.collect();
        Self {
            stopping,
            tail: thread::spawn(move || tail.follow()),
            rewinding,
        }
    }

    /// They are all at work: they end only where the broker breaks its word.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        if self.tail.is_finished() || self.rewinding.iter().any(JoinHandle::is_finished) {
            return Err("a consumer ended early; see its reason at the end".to_owned());
        }
        Ok(())
    }

    /// Lets the one that follows come to the end, which no producer moves any more, and ends all.
    /// `promises` are everything that was acknowledged.
    pub(crate) fn finish(self, promises: &Promises) -> Result<Value, String> {
        self.stopping.store(true, Ordering::Release);
        let panicked = || "a consumer panicked".to_owned();
        let (tail, mut audits) = self.tail.join().map_err(|_| panicked())??;
        for audit in &mut audits {
            audit.promise(promises)?;
            audit.at_end(promises)?;
            audit.nothing_invented(promises)?;
        }
        if tail.records != promises.records {
            return Err(format!(
                "{} records were acknowledged, the consumer that followed saw {}",
                promises.records, tail.records
            ));
        }
        let mut rewinding = Vec::new();
        for thread in self.rewinding {
            rewinding.push(thread.join().map_err(|_| panicked())??.to_json());
        }
        Ok(json!({ "following": tail.to_json(), "beginning_again": rewinding }))
    }
}

struct Follower {
    stage: Arc<Stage>,
    stopping: Arc<AtomicBool>,
    connection: Option<Connection>,
    seen: Seen,
}

/// What a fetch came to.
enum Got {
    Records(bytes::Bytes),
    /// Ask again.
    Nothing,
    /// What was asked for is deleted, or not there yet.
    OutOfRange,
}

impl Follower {
    /// Follows all partitions until they end and nobody writes any more.
    fn follow(mut self) -> Result<(Seen, Vec<Audit>), String> {
        let mut audits: Vec<Audit> = (0..self.stage.partitions).map(Audit::new).collect();
        loop {
            let stopping = self.stopping.load(Ordering::Acquire);
            let mut moved = false;
            for (partition, audit) in (0..).zip(&mut audits) {
                let from = audit.next();
                match self.fetch(partition, from, TAIL_WAIT)? {
                    Got::Records(records) => {
                        self.seen.records += feed(audit, partition, records, self.stage.seed)?;
                    }
                    Got::Nothing => pause(RETRY_PAUSE),
                    Got::OutOfRange => {
                        return Err(format!(
                            "partition {partition}: {from} is out of range for the consumer that \
                             follows"
                        ));
                    }
                }
                moved |= audit.next() > from;
            }
            if stopping && !moved && self.is_at_end(&audits)? {
                return Ok((self.seen, audits));
            }
        }
    }

    fn is_at_end(&mut self, audits: &[Audit]) -> Result<bool, String> {
        for (partition, audit) in (0..).zip(audits) {
            let topic = self.stage.topic.clone();
            let end = self.ask(|connection| connection.end_offset(&topic, partition))?;
            if end.is_none_or(|end| audit.next() < end) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads one partition after the other, from its start to its end.
    fn rewind(mut self, number: i32) -> Result<Seen, String> {
        let mut partition = number % self.stage.partitions;
        while !self.stopping.load(Ordering::Acquire) {
            let topic = self.stage.topic.clone();
            let start = self.ask(|connection| connection.start_offset(&topic, partition))?;
            let end = self.ask(|connection| connection.end_offset(&topic, partition))?;
            if let (Some(start), Some(end)) = (start, end) {
                self.seen.beginnings += 1;
                self.read_once(partition, start, end)?;
            }
            partition = (partition + 1) % self.stage.partitions;
        }
        Ok(self.seen)
    }

    fn read_once(&mut self, partition: i32, start: i64, end: i64) -> Result<(), String> {
        let mut audit = Audit::beginning_at(partition, start);
        while audit.next() < end && !self.stopping.load(Ordering::Acquire) {
            match self.fetch(partition, audit.next(), Duration::ZERO)? {
                Got::Records(records) => {
                    self.seen.records += feed(&mut audit, partition, records, self.stage.seed)?;
                }
                Got::Nothing => {}
                Got::OutOfRange => {
                    let topic = self.stage.topic.clone();
                    let now = self.ask(|connection| connection.start_offset(&topic, partition))?;
                    let Some(now) = now else { continue };
                    if now <= audit.next() {
                        return Err(format!(
                            "partition {partition} begins at {now}, and {} is out of range",
                            audit.next()
                        ));
                    }
                    self.seen.overtaken += 1;
                    return Ok(());
                }
            }
            pause(REWINDING_PAUSE);
        }
        Ok(())
    }

    fn fetch(&mut self, partition: i32, from: i64, wait: Duration) -> Result<Got, String> {
        let topic = self.stage.topic.clone();
        let fetch = |connection: &mut Connection| {
            connection.fetch(&topic, partition, from, FETCH_BYTES, wait)
        };
        let Some(fetched) = self.ask(fetch)? else {
            return Ok(Got::Nothing);
        };
        let code = fetched.error_code;
        if code == 0 {
            return Ok(Got::Records(fetched.records));
        }
        if code == ErrorCode::OffsetOutOfRange.code() {
            return Ok(Got::OutOfRange);
        }
        self.retriable(code)
            .map(|()| Got::Nothing)
            .map_err(|error| format!("partition {partition}: reading at {from}: {error}"))
    }

    /// Asks the broker something; nothing where it is away, or asks to try again.
    fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<Option<T>, String> {
        let connection = match &mut self.connection {
            Some(connection) => Ok(connection),
            none => Connection::connect(self.stage.broker, CLIENT_ID, PATIENCE)
                .map(|connected| none.insert(connected)),
        };
        match connection.and_then(ask) {
            Ok(answer) => Ok(Some(answer)),
            Err(ClientError::Io(_)) => {
                self.connection = None;
                self.seen.reconnects += 1;
                pause(RETRY_PAUSE);
                Ok(None)
            }
            Err(ClientError::Refused { code, .. }) => {
                self.retriable(code)?;
                pause(RETRY_PAUSE);
                Ok(None)
            }
            Err(wrong) => Err(wrong.to_string()),
        }
    }

    fn retriable(&mut self, code: i16) -> Result<(), String> {
        *self.seen.retries.entry(code).or_default() += 1;
        let known = RETRIABLE.iter().any(|known| known.code() == code);
        known
            .then_some(())
            .ok_or_else(|| format!("error code {code}"))
    }
}

impl Seen {
    fn to_json(&self) -> Value {
        let retries = self.retries.iter();
        let retries = retries.map(|(code, count)| (code.to_string(), json!(count)));
        json!({
            "records": self.records,
            "beginnings": self.beginnings,
            "overtaken_by_retention": self.overtaken,
            "reconnects": self.reconnects,
            "retries_by_code": Value::Object(retries.collect()),
        })
    }
}
