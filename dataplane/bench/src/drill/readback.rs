//! Reads partitions back as a consumer does, and audits them.

use std::{sync::Arc, time::Duration};

use millrace_record::{header_of, records};

use crate::{consumer::check_crc, producer::ClientError};

use super::{
    audit::Audit,
    ledger::Promises,
    load::{Stage, connect_patiently},
    pattern,
};

/// Bytes that one fetch asks for.
const FETCH_BYTES: i32 = 8 << 20;

/// How long a fetch waits for records that have to be read from objects. A broker answers a fetch that does not wait
/// after half a second, even if nothing is read by then because other programs use the processors.
const COLD_READ_PATIENCE: Duration = Duration::from_secs(10);

/// Audits of all partitions, from where they were left.
#[derive(Debug)]
pub struct Readback {
    stage: Arc<Stage>,
    audits: Vec<Audit>,
    /// Records read.
    records: u64,
}

impl Readback {
    /// Nothing was read yet.
    pub fn new(stage: &Arc<Stage>) -> Self {
        Self {
            stage: Arc::clone(stage),
            audits: (0..stage.partitions).map(Audit::new).collect(),
            records: 0,
        }
    }

    /// Nothing was read yet; the reading begins where each partition does now.
    pub fn beginning_at_log_start(stage: &Arc<Stage>) -> Result<Self, String> {
        let failed = |error: ClientError| format!("reading back: {error}");
        let mut connection = connect_patiently(stage.broker)?;
        let mut audits = Vec::new();
        for partition in 0..stage.partitions {
            let start = connection.start_offset(&stage.topic, partition);
            audits.push(Audit::beginning_at(partition, start.map_err(failed)?));
        }
        Ok(Self {
            stage: Arc::clone(stage),
            audits,
            records: 0,
        })
    }

    /// Records that were read.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The same where everything that was sent is acknowledged.
    pub fn check_complete(&mut self, promises: &Promises) -> Result<(), String> {
        self.check(promises)?;
        self.nothing_invented(promises)?;
        if self.records != promises.records {
            return Err(format!(
                "{} records were acknowledged, {} are there",
                promises.records, self.records
            ));
        }
        Ok(())
    }

    /// Reads every partition to its end and checks it against `promises`, which were taken before.
    pub fn check(&mut self, promises: &Promises) -> Result<(), String> {
        let Stage {
            broker,
            topic,
            seed,
            ..
        } = &*self.stage;
        let failed = |error: ClientError| format!("reading back: {error}");
        let mut connection = connect_patiently(*broker)?;
        for (partition, audit) in (0..).zip(&mut self.audits) {
            audit.promise(promises)?;
            let end = connection.end_offset(topic, partition).map_err(failed)?;
            while audit.next() < end {
                let from = audit.next();
                let fetched = connection
                    .fetch(topic, partition, from, FETCH_BYTES, COLD_READ_PATIENCE)
                    .map_err(failed)?;
                if fetched.error_code != 0 {
                    return Err(format!(
                        "partition {partition}: reading at {from} of {end}: error code {}",
                        fetched.error_code
                    ));
                }
                self.records += feed(audit, partition, fetched.records, *seed)?;
                if audit.next() == from {
                    return Err(format!(
                        "partition {partition}: nothing is at {from}, and it ends at {end}"
                    ));
                }
            }
            audit.at_end(promises)?;
        }
        Ok(())
    }

    /// Checks that nothing was read that was not sent; `promises` are from after the reading.
    pub fn nothing_invented(&self, promises: &Promises) -> Result<(), String> {
        let mut audits = self.audits.iter();
        audits.try_for_each(|audit| audit.nothing_invented(promises))
    }
}

/// Feeds whole batches to the audit; returns how many records they had.
///
/// # Errors
/// A batch is damaged, or not what was to come.
pub fn feed(
    audit: &mut Audit,
    partition: i32,
    mut rest: bytes::Bytes,
    seed: u64,
) -> Result<u64, String> {
    let mut count = 0;
    let broken = |at: i64, error: &dyn std::fmt::Display| {
        format!("partition {partition}: the batch at {at}: {error}")
    };
    while !rest.is_empty() {
        let at = audit.next();
        let size = header_of(&rest)
            .map_err(|error| broken(at, &error))?
            .size_bytes();
        if size > rest.len() {
            break;
        }
        let batch = rest.split_to(size);
        check_crc(&batch).map_err(|error| broken(at, &error))?;
        for record in records(&batch).map_err(|error| broken(at, &error))? {
            let record = record.map_err(|error| broken(at, &error))?;
            let place = record.value.and_then(|value| pattern::read(seed, &value));
            audit.record(record.offset, place)?;
            count += 1;
        }
    }
    Ok(count)
}
