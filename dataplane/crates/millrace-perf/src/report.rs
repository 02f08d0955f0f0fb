//! The outcome of a run.
//!
//! - `table`: for a terminal
//! - `page`, `chart`: for a browser

mod chart;
mod page;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

pub(crate) use self::{page::page, table::table};
use crate::{
    ending::Reason, latencies::LatencySummary, options::Workload, recorder::Tally, sampler::Sample,
    verifier::Verification,
};

/// The shape of the JSON; a change that readers would notice has another number.
const VERSION: u32 = 1;

/// What `--json` writes.
#[derive(Debug, Serialize)]
pub struct Report {
    pub(crate) version: u32,
    pub(crate) workload: Workload,
    pub(crate) started_at: String,
    /// Of the measured part.
    pub(crate) duration_seconds: f64,
    pub(crate) ended_by: Option<Reason>,
    /// Why the run ended early.
    pub(crate) failure: Option<String>,
    pub(crate) parameters: Value,
    pub(crate) produced: Option<Flow>,
    pub(crate) consumed: Option<Flow>,
    pub(crate) end_to_end: Option<EndToEnd>,
    pub(crate) catch_up: Option<CatchUp>,
    pub(crate) verification: Option<Verification>,
    pub(crate) client: ClientUse,
    pub(crate) samples: Vec<Sample>,
}

/// Records of one direction, in the measured part of the run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Flow {
    pub(crate) records: u64,
    /// Keys and values.
    pub(crate) bytes: u64,
    pub(crate) records_per_second: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) errors: u64,
    /// Produced: from when a record was due to its acknowledgement. Consumed: to its delivery.
    pub(crate) latency_ms: Option<LatencySummary>,
}

/// From when a record was due to its delivery to a consumer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EndToEnd {
    pub(crate) latency_ms: Option<LatencySummary>,
}

/// How a backlog was consumed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CatchUp {
    /// What was produced before consumers started.
    pub(crate) backlog_records: u64,
    pub(crate) backlog_bytes: u64,
    /// From the start of the consumers until they had caught up, or the run ended.
    pub(crate) seconds: f64,
    /// What was consumed in this time.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) records_per_second: f64,
    pub(crate) bytes_per_second: f64,
    /// Whether consumers read what was less than a second old in the end.
    pub(crate) complete: bool,
    pub(crate) produce_latency_before_ms: Option<LatencySummary>,
    pub(crate) produce_latency_during_ms: Option<LatencySummary>,
}

/// What the clients did and used, warm-up included.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ClientUse {
    /// Produce and Fetch requests.
    pub(crate) requests: u64,
    pub(crate) produce_requests: u64,
    pub(crate) fetch_requests: u64,
    /// Batches that were produced, or where nothing was, consumed.
    pub(crate) batches: u64,
    pub(crate) records_per_batch: Option<f64>,
    pub(crate) retried_batches: u64,
    /// Over all connections, both kinds of requests.
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
    /// Bytes of records that fetches brought, and of these, dropped ones.
    pub(crate) fetched_bytes: u64,
    pub(crate) discarded_bytes: u64,
    /// Records that were due and not sent when the run ended: the producers could not keep up.
    pub(crate) unsent_records: u64,
    /// User and system time of this process; nothing where the system does not tell.
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) peak_memory_bytes: Option<u64>,
    /// How often each kind of error occurred.
    pub(crate) errors: BTreeMap<String, u64>,
}

/// The latencies of one second.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Recent {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

impl From<LatencySummary> for Recent {
    fn from(summary: LatencySummary) -> Self {
        Self {
            p50: summary.p50,
            p95: summary.p95,
            p99: summary.p99,
            p999: summary.p999,
            max: summary.max,
        }
    }
}

impl Flow {
    /// What was counted in so many seconds.
    pub(crate) fn of(tally: &Tally, seconds: f64) -> Self {
        Self {
            records: tally.records,
            bytes: tally.bytes,
            records_per_second: per(tally.records, seconds),
            bytes_per_second: per(tally.bytes, seconds),
            errors: tally.errors,
            latency_ms: tally.latencies.summary(),
        }
    }
}

impl Report {
    pub(crate) const VERSION: u32 = VERSION;

    /// Whether nothing failed: no record, no check, and the run itself.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let errors = |flow: &Option<Flow>| flow.as_ref().map_or(0, |flow| flow.errors);
        self.failure.is_none()
            && errors(&self.produced) + errors(&self.consumed) == 0
            && self.verification.is_none_or(|outcome| outcome.is_sound())
    }
}

/// Microseconds in seconds.
pub(crate) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// A rate; 0 where no time has passed.
pub(crate) fn per(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}
