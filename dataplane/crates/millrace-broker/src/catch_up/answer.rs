//! The response of `/v1/catch-up`. 64-bit numbers are strings, because JSON numbers lose precision.

use std::collections::BTreeMap;

use millrace_blockcache::BlockCacheMetrics;
use millrace_limiter::{Limiter, LimiterMetrics, TierMetrics};
use millrace_model::TopicPartition;
use millrace_objects::bucket::BucketCalls;
use serde::Serialize;

use crate::catch_up::{
    estimator::{Band, Mode, Track, as_float},
    pressure::{BucketPressure, TierPressure},
};

/// Who reads behind, how fast, and what that takes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CatchUpAnswer {
    /// RFC 3339, UTC.
    pub(crate) time: String,
    pub(crate) node_id: u32,
    pub(crate) cache: CacheAnswer,
    pub(crate) network: NetworkAnswer,
    pub(crate) bucket_calls: Vec<CallsAnswer>,
    pub(crate) bucket_reads: BucketReadsAnswer,
    pub(crate) groups: Vec<GroupAnswer>,
    /// Whether there are more groups or partitions than are listed.
    pub(crate) truncated: bool,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct CacheAnswer {
    size_bytes: String,
    used_bytes: String,
    hits: String,
    misses: String,
    hit_ratio: Option<f64>,
    fetched_bytes: String,
    delivered_bytes: String,
    fetched_per_delivered: Option<f64>,
    evicted_unread_bytes: String,
    readers: u64,
    prefetch_window_bytes: WindowAnswer,
}

#[derive(Debug, Clone, Serialize)]
struct WindowAnswer {
    max: String,
    median: String,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct NetworkAnswer {
    pub(crate) ingress: DirectionAnswer,
    pub(crate) egress: DirectionAnswer,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct DirectionAnswer {
    /// None without a bound.
    baseline_bytes_per_second: Option<String>,
    tiers: Vec<TierAnswer>,
}

#[derive(Debug, Clone, Serialize)]
struct TierAnswer {
    tier: &'static str,
    bytes: String,
    waited_seconds: f64,
    waiting: u64,
    /// How many have waited at a time lately, on average.
    waiting_mean: f64,
}

/// Reads of the bucket lately, each try counted.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BucketReadsAnswer {
    per_second: f64,
    failed_per_second: f64,
    /// None where nothing was read.
    seconds_mean: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct CallsAnswer {
    operation: &'static str,
    status: &'static str,
    calls: String,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct GroupAnswer {
    group: String,
    state: &'static str,
    mode: Mode,
    backlog_records: String,
    backlog_bytes: String,
    read_bytes_per_second: f64,
    produce_bytes_per_second: f64,
    drain_bytes_per_second: f64,
    eta_seconds: Option<f64>,
    /// Bounds of `eta_seconds`. The upper one is none where the end may never be reached.
    eta_low_seconds: Option<f64>,
    eta_high_seconds: Option<f64>,
    progress: Option<f64>,
    partitions: Vec<PartitionAnswer>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct PartitionAnswer {
    pub(super) topic: String,
    pub(super) partition: u32,
    pub(super) position: String,
    pub(super) high_watermark: String,
    pub(super) mode: Mode,
    pub(super) backlog_records: String,
    pub(super) backlog_bytes: String,
    pub(super) read_bytes_per_second: f64,
    pub(super) produce_bytes_per_second: f64,
    pub(super) drain_bytes_per_second: f64,
    pub(super) eta_seconds: Option<f64>,
    pub(super) eta_low_seconds: Option<f64>,
    pub(super) eta_high_seconds: Option<f64>,
}

impl CacheAnswer {
    pub(crate) fn new(metrics: &BlockCacheMetrics) -> Self {
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| as_float(part) / as_float(whole));
        Self {
            size_bytes: metrics.size_bytes.to_string(),
            used_bytes: metrics.used_bytes.to_string(),
            hits: metrics.hits.to_string(),
            misses: metrics.misses.to_string(),
            hit_ratio: ratio(metrics.hits, metrics.hits + metrics.misses),
            fetched_bytes: metrics.fetched_bytes.to_string(),
            delivered_bytes: metrics.delivered_bytes.to_string(),
            fetched_per_delivered: ratio(metrics.fetched_bytes, metrics.delivered_bytes),
            evicted_unread_bytes: metrics.evicted_unread_bytes.to_string(),
            readers: metrics.readers,
            prefetch_window_bytes: WindowAnswer {
                max: metrics.prefetch_window_max_bytes.to_string(),
                median: metrics.prefetch_window_median_bytes.to_string(),
            },
        }
    }
}

impl DirectionAnswer {
    pub(crate) fn new(limiter: &Limiter, pressure: &TierPressure) -> Self {
        let LimiterMetrics {
            bytes_per_second,
            tiers,
        } = limiter.metrics();
        let tier = |metrics: TierMetrics| TierAnswer {
            tier: metrics.tier.as_str(),
            bytes: metrics.bytes.to_string(),
            waited_seconds: metrics.waited.as_secs_f64(),
            waiting: metrics.waiting,
            waiting_mean: pressure.waiting_mean(metrics.tier),
        };
        Self {
            baseline_bytes_per_second: bytes_per_second.map(|rate| rate.to_string()),
            tiers: tiers.into_iter().map(tier).collect(),
        }
    }
}

impl CallsAnswer {
    pub(crate) fn new(calls: BucketCalls) -> Self {
        Self {
            operation: calls.operation,
            status: calls.outcome,
            calls: calls.calls.to_string(),
        }
    }
}

impl BucketReadsAnswer {
    pub(crate) fn new(bucket: &BucketPressure) -> Self {
        Self {
            per_second: bucket.reads_per_second(),
            failed_per_second: bucket.failed_per_second(),
            seconds_mean: bucket.seconds_mean(),
        }
    }
}

/// The remaining time of the member that arrives last. A member shares its time among its partitions: once
/// one of them is through, the others get more of it, so that the slowest partition's present rate says
/// too little about how long it will take. Who reads a partition that no member is assigned is not known, so
/// it counts by itself. None where a backlog does not shrink.
fn slowest_member<'a>(tracks: impl Iterator<Item = &'a Track>) -> Option<f64> {
    let mut members: BTreeMap<Result<usize, usize>, (u64, f64)> = BTreeMap::new();
    for (number, track) in tracks.enumerate() {
        let (backlog, drain) = members.entry(track.member().ok_or(number)).or_default();
        if track.is_behind() {
            *backlog += track.backlog_bytes();
        }
        *drain += track.drain_rate();
    }
    let behind = members.into_values().filter(|(backlog, _)| *backlog > 0);
    let etas = behind.map(|(backlog, drain)| (drain > 0.0).then(|| as_float(backlog) / drain));
    etas.reduce(|a, b| Some(a?.max(b?))).flatten()
}

impl GroupAnswer {
    /// A group has caught up once all of its members have.
    pub(crate) fn new<'a>(
        group: &str,
        state: &'static str,
        partitions: impl Iterator<Item = (&'a TopicPartition, &'a Track)> + Clone,
    ) -> Self {
        let tracks = || partitions.clone().map(|(_, track)| track);
        let mode = tracks().map(Track::mode).max().unwrap_or(Mode::Idle);
        let is_behind = |track: &&Track| matches!(track.mode(), Mode::Tail | Mode::CatchUp);
        let slowest = tracks().filter(is_behind).map(Track::eta_seconds);
        let slowest = slowest.reduce(|a, b| Some(a?.max(b?))).flatten();
        let slowest = slowest.filter(|_| mode != Mode::FallingBehind);
        let read = tracks().filter(|track| track.mode() != Mode::Idle);
        let eta = slowest.map(|slowest| slowest_member(read).unwrap_or(slowest));
        let band = eta.and_then(|eta| {
            let bands = tracks().filter(is_behind).filter_map(Track::eta_band);
            Some(bands.reduce(Band::slower)?.around(eta))
        });
        let (done, initial) = tracks()
            .filter_map(Track::done_of_initial)
            .fold((0, 0), |(done, initial), (d, i)| (done + d, initial + i));
        Self {
            group: group.to_owned(),
            state,
            mode,
            backlog_records: tracks()
                .map(Track::backlog_records)
                .sum::<u64>()
                .to_string(),
            backlog_bytes: tracks().map(Track::backlog_bytes).sum::<u64>().to_string(),
            read_bytes_per_second: tracks().map(Track::read_rate).sum(),
            produce_bytes_per_second: tracks().map(Track::produce_rate).sum(),
            drain_bytes_per_second: tracks().map(Track::drain_rate).sum(),
            eta_seconds: eta,
            eta_low_seconds: band.map(|band| band.low),
            eta_high_seconds: band.and_then(|band| band.high),
            progress: (initial > 0).then(|| as_float(done) / as_float(initial)),
            partitions: partitions
                .map(|(partition, track)| PartitionAnswer::new(partition, track))
                .collect(),
        }
    }
}
