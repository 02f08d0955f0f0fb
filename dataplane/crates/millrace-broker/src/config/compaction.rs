//! Settings of background work: compaction and deletion of objects.

use std::time::Duration;

use millrace_meta::sqlite::SqliteOptions;
use millrace_stream::CompactionConfig;

use super::{BYTES_MAX, MILLIS_MAX, reader::Reader};

/// The least size of a merged object, bytes: below, merging is not worth its requests.
const MERGED_BYTES_MIN: i64 = 1 << 20;

/// S3 copies no more into one part, and an object is copied whole where it can be.
const MERGED_BYTES_MAX: i64 = 5 << 30;

/// Objects merged at once. Each takes part of the memory of a compaction, a block at least.
const INPUTS_MAX: i64 = 500;

/// The shortest time for which an object that nothing refers to stays readable. Only tests and drills
/// want so little: it should be longer than the longest read, about three minutes.
const DELETE_RETENTION_MS_MIN: i64 = 100;

/// What goes on behind the streams.
#[derive(Debug, Clone)]
pub struct BackgroundConfig {
    /// `s3.compaction.interval.ms`, `s3.stream.object.compaction.max.size.bytes`,
    /// `s3.stream.set.object.compaction.max.size.bytes`, `s3.stream.set.object.compaction.max.num`
    pub compaction: CompactionConfig,
    /// `s3.object.delete.retention.ms`: how long an object that nothing refers to any more stays in
    /// the bucket, since a reader may have been told of it just before.
    pub delete_retention: Duration,
}

pub(super) fn read_background(r: &mut Reader<'_>) -> BackgroundConfig {
    let default = CompactionConfig::default();
    let merged = MERGED_BYTES_MIN..=MERGED_BYTES_MAX.min(BYTES_MAX);
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let read = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let object_bytes_max = r.bytes(
        "s3.stream.object.compaction.max.size.bytes",
        bytes(default.object_bytes_max),
        merged.clone(),
    );
    let set_bytes_max = r.bytes(
        "s3.stream.set.object.compaction.max.size.bytes",
        bytes(default.set_bytes_max),
        merged,
    );
    let inputs_max = i64::try_from(default.inputs_max).unwrap_or(INPUTS_MAX);
    let inputs_min = i64::try_from(default.inputs_min).unwrap_or(2);
    let inputs_max = r.number(
        "s3.stream.set.object.compaction.max.num",
        inputs_max,
        inputs_min..=INPUTS_MAX,
    );
    let interval = r.millis(
        "s3.compaction.interval.ms",
        default.interval,
        0..=MILLIS_MAX,
    );
    BackgroundConfig {
        compaction: CompactionConfig {
            interval,
            // Who asks for passes at a higher rate does not want to wait a minute for the first.
            cool_down: default.cool_down.min(interval),
            object_bytes_max: read(object_bytes_max),
            set_bytes_max: read(set_bytes_max),
            inputs_max: usize::try_from(inputs_max).unwrap_or(default.inputs_max),
            ..default
        },
        delete_retention: r.millis(
            "s3.object.delete.retention.ms",
            SqliteOptions::default().retired_retention,
            DELETE_RETENTION_MS_MIN..=MILLIS_MAX,
        ),
    }
}
