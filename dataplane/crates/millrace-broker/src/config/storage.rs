//! Settings of the storage engine: the write-ahead log, the caches, the bucket and the ways to it.

use std::{path::Path, time::Duration};

use millrace_blockcache::Eviction;
use millrace_limiter::LimiterMode;
use millrace_objects::bucket::BucketUri;
use millrace_stream::StreamConfig;

use super::{
    BYTES_MAX, MIB, MILLIS_MAX,
    compaction::{BackgroundConfig, read_background},
    keys,
    reader::{Reader, Shown},
    wal_uri::WalUri,
};

/// The least of each cache: ten partitions that catch up hold three blocks of 512 KiB each, and one
/// block of the log cache is filled while others are uploaded.
pub(crate) const CACHE_BYTES_MIN: i64 = 16 << 20;
/// The default size of each cache.
pub(crate) const CACHE_BYTES_DEFAULT: usize = 256 * MIB;
/// Smaller uploads cost more requests than they are worth.
pub(crate) const UPLOAD_THRESHOLD_BYTES_MIN: i64 = 64 << 10;
/// The default of how far one reader prefetches.
pub(crate) const PREFETCH_BYTES_DEFAULT: u64 = 32 << 20;
/// A bucket that takes 100 ms is kept busy by this much at 10 GB/s.
pub(crate) const PREFETCH_BYTES_MAX: u64 = 1 << 30;

/// A third of the log cache, so that one upload and what comes meanwhile fit.
pub(crate) fn default_upload_threshold(wal_cache_bytes: usize) -> usize {
    (wal_cache_bytes / 3).min(500 * MIB)
}

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
    /// `s3.prefetch.max.bytes`: how far one reader is served ahead, in bytes; 0 turns it off.
    pub prefetch_max_bytes: u64,
    /// `s3.block.cache.eviction`: which blocks go first.
    pub eviction: Eviction,
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
    /// Compaction and deletion of objects.
    pub background: BackgroundConfig,
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
    let wal_cache_bytes = r.bytes(
        keys::LOG_CACHE,
        CACHE_BYTES_DEFAULT,
        CACHE_BYTES_MIN..=BYTES_MAX,
    );
    let threshold = default_upload_threshold(wal_cache_bytes);
    let range = UPLOAD_THRESHOLD_BYTES_MIN..=BYTES_MAX;
    let upload_threshold_bytes = r.bytes(keys::UPLOAD_THRESHOLD, threshold, range);
    if upload_threshold_bytes > wal_cache_bytes {
        let problem = "it is larger than s3.wal.cache.size, so it would never be reached";
        r.fail(
            keys::UPLOAD_THRESHOLD,
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
    let (prefetch_max_bytes, eviction) = read_reading_ahead(r);
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
        block_cache_bytes: r.bytes(
            keys::BLOCK_CACHE,
            CACHE_BYTES_DEFAULT,
            CACHE_BYTES_MIN..=BYTES_MAX,
        ),
        prefetch_max_bytes,
        eviction,
        bucket: bucket?,
        stream_object_split_bytes: r.bytes(
            "s3.stream.object.split.size",
            8 * MIB,
            65_536..=BYTES_MAX,
        ),
        object_block_bytes: r.bytes("s3.object.block.size", 512 * 1024, 4_096..=64 << 20),
        background: read_background(r),
    };
    Some(storage)
}

/// How far readers are served ahead, and which blocks go first where room is short.
fn read_reading_ahead(r: &mut Reader<'_>) -> (u64, Eviction) {
    let number = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let default = usize::try_from(PREFETCH_BYTES_DEFAULT).unwrap_or(usize::MAX);
    let prefetch = r.bytes(keys::PREFETCH_MAX, default, 0..=number(PREFETCH_BYTES_MAX));
    let eviction = match r.text("s3.block.cache.eviction", "watch").as_str() {
        "watch" => Eviction::Watch,
        "lru" => Eviction::Lru,
        other => {
            let problem = format!("{other:?} is neither watch nor lru");
            let remedy = "write watch; lru is there to be measured against";
            r.fail("s3.block.cache.eviction", problem, remedy);
            Eviction::Watch
        }
    };
    (
        u64::try_from(prefetch).unwrap_or(PREFETCH_BYTES_DEFAULT),
        eviction,
    )
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
    let both = r.number(keys::BANDWIDTH, 0, 0..=BYTES_MAX);
    let ingress = r.number(keys::INGRESS, both, 0..=BYTES_MAX);
    let egress = r.number(keys::EGRESS, both, 0..=BYTES_MAX);
    let bound = |number: i64| u64::try_from(number).ok().filter(|&bytes| bytes > 0);
    (bound(ingress), bound(egress))
}
