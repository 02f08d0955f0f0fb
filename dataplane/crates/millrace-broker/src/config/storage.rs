//! Settings of the storage engine: the write-ahead log, the caches, the bucket and the ways to it.

use std::{path::Path, time::Duration};

use millrace_limiter::LimiterMode;
use millrace_objects::BucketUri;
use millrace_stream::StreamConfig;

use super::{
    BYTES_MAX, MIB, MILLIS_MAX,
    reader::{Reader, Shown},
    wal_uri::WalUri,
};

/// Settings of the storage engine.
#[derive(Debug, Clone)]
pub struct StorageConfig {
    /// `s3.wal.path`
    pub wal: WalUri,
    /// `s3.wal.cache.size`, in bytes: the log cache.
    pub wal_cache_bytes: usize,
    /// `s3.wal.upload.threshold`, in bytes: this much is uploaded at once.
    pub upload_threshold_bytes: usize,
    /// `s3.wal.upload.interval.ms`: less is uploaded after this long.
    pub upload_interval: Duration,
    /// `s3.wal.upload.pace.percent`: how fast uploads go, in percent of the rate at which appends
    /// came lately; `None` is as fast as they can.
    pub upload_pace_percent: Option<u64>,
    /// `s3.wal.upload.forced.percent`: the log or the log cache being this full, they go as fast as
    /// they can.
    pub upload_forced_percent: u64,
    /// `s3.block.cache.size`, in bytes.
    pub block_cache_bytes: usize,
    /// `s3.data.buckets`
    pub bucket: BucketUri,
    /// `s3.network.ingress.baseline.bandwidth`: bytes per second that come in, from producers and
    /// from the bucket; `None` is no bound. Where it is not set, `s3.network.baseline.bandwidth`
    /// holds.
    pub ingress_bytes_per_s: Option<u64>,
    /// `s3.network.egress.baseline.bandwidth`: the same for what goes out, to consumers and to the
    /// bucket.
    pub egress_bytes_per_s: Option<u64>,
    /// `s3.network.limiter.mode`: whether the two are one bandwidth.
    pub limiter_mode: LimiterMode,
    /// `s3.stream.object.split.size`, in bytes: from here on a stream gets an object of its own.
    pub stream_object_split_bytes: usize,
    /// `s3.object.block.size`, in bytes.
    pub object_block_bytes: usize,
}

pub(super) fn read_storage(r: &mut Reader<'_>, data_dir: &Path) -> Option<StorageConfig> {
    let in_data = |name: &str| url::Url::from_file_path(data_dir.join(name));
    let default_wal = in_data("wal").map_or_else(|()| String::new(), |url| format!("0@{url}"));
    let default_bucket =
        in_data("objects").map_or_else(|()| String::new(), |url| format!("0@{url}"));
    let remedy = "write 0@file:///path/to/wal?capacity=2147483648&iodepth=8&iops=3000";
    let wal = r.parsed("s3.wal.path", &default_wal, Shown::Plainly, remedy);
    let remedy = "write 0@file:///path/to/folder or 0@s3://bucket?region=eu-central-1";
    let bucket = r.parsed("s3.data.buckets", &default_bucket, Shown::Hidden, remedy);
    let wal_cache_bytes = r.bytes("s3.wal.cache.size", 256 * MIB, 1_048_576..=BYTES_MAX);
    let threshold = (wal_cache_bytes / 3).min(500 * MIB);
    let upload_threshold_bytes = r.bytes("s3.wal.upload.threshold", threshold, 65_536..=BYTES_MAX);
    if upload_threshold_bytes > wal_cache_bytes {
        let problem = "it is larger than s3.wal.cache.size, so it would never be reached";
        r.fail(
            "s3.wal.upload.threshold",
            problem,
            "write at most a third of s3.wal.cache.size",
        );
    }
    let (ingress_bytes_per_s, egress_bytes_per_s) = read_bandwidth(r);
    let remedy = "write separate, or shared where both directions share one bandwidth";
    let limiter_mode = r.parsed(
        "s3.network.limiter.mode",
        LimiterMode::default().as_str(),
        Shown::Plainly,
        remedy,
    );
    let (upload_pace_percent, upload_forced_percent) = read_pace(r);
    let storage = StorageConfig {
        ingress_bytes_per_s,
        egress_bytes_per_s,
        limiter_mode: limiter_mode?,
        upload_pace_percent,
        upload_forced_percent,
        wal: wal?,
        wal_cache_bytes,
        upload_threshold_bytes,
        upload_interval: r.millis(
            "s3.wal.upload.interval.ms",
            Duration::from_secs(60),
            10..=MILLIS_MAX,
        ),
        block_cache_bytes: r.bytes("s3.block.cache.size", 256 * MIB, 1_048_576..=BYTES_MAX),
        bucket: bucket?,
        stream_object_split_bytes: r.bytes(
            "s3.stream.object.split.size",
            8 * MIB,
            65_536..=BYTES_MAX,
        ),
        object_block_bytes: r.bytes("s3.object.block.size", 512 * 1024, 4_096..=64 << 20),
    };
    Some(storage)
}

/// How fast uploads go, 0 being as fast as they can, and from which fill on they do so anyway.
fn read_pace(r: &mut Reader<'_>) -> (Option<u64>, u64) {
    let default = StreamConfig::default();
    let number = |percent: u64| i64::try_from(percent).unwrap_or(0);
    let pace = number(default.upload_pace_percent.unwrap_or(0));
    let pace = r.number("s3.wal.upload.pace.percent", pace, 0..=10_000);
    if (1..100).contains(&pace) {
        r.fail(
            "s3.wal.upload.pace.percent",
            "uploads that are slower than appends never end",
            "write 100 or more, or 0 for uploads that are not held back",
        );
    }
    let forced = number(default.upload_forced_percent);
    let forced = r.number("s3.wal.upload.forced.percent", forced, 1..=100);
    let percent = |number: i64| u64::try_from(number).ok();
    (
        percent(pace).filter(|&pace| pace > 0),
        percent(forced).unwrap_or(default.upload_forced_percent),
    )
}

/// Bytes per second from and to the bucket; 0 is no bound.
fn read_bandwidth(r: &mut Reader<'_>) -> (Option<u64>, Option<u64>) {
    let both = r.number("s3.network.baseline.bandwidth", 0, 0..=BYTES_MAX);
    let ingress = r.number("s3.network.ingress.baseline.bandwidth", both, 0..=BYTES_MAX);
    let egress = r.number("s3.network.egress.baseline.bandwidth", both, 0..=BYTES_MAX);
    let bound = |number: i64| u64::try_from(number).ok().filter(|&bytes| bytes > 0);
    (bound(ingress), bound(egress))
}
