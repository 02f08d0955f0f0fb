//! Objects in the metadata, without waiting for as many uploads.
//!
//! The records are real: one for each object, produced and uploaded in large objects. While the broker is stopped, each of
//! these is replaced by as many as it has records, through the store's own reservation and compaction, which checks that the same
//! offsets can be read as before. The new objects have no files: nothing reads records so old.

use std::path::Path;

use millrace_bench::{
    broker::Home,
    population::{Population, topic},
    producer::{BatchTemplate, ClientError, Connection, Stamp},
};
use millrace_meta::{
    Compaction, MetaStore, ObjectKind, ObjectRange, StreamObject,
    sqlite::{SqliteMeta, SqliteOptions, read_identity},
};
use millrace_model::{NodeEpoch, ObjectId, StreamId, StreamRange};
use millrace_time::SystemClock;

use crate::step::PATIENCE;

/// A stream with so many bytes in an upload gets an object of its own, whatever is set: the least that may be set, and some more.
const STREAM_BYTES: usize = 80 << 10;
/// Of a record, beside its value.
const RECORD_FIELDS_BYTES: usize = 8;
/// What the metadata says an object has: an upload's least size.
const OBJECT_BYTES: u64 = 64 << 10;

/// Lets a stream get an object of its own as early as may be set.
pub(crate) const SETTINGS: &str = "s3.stream.object.split.size=65536\n";

/// Writes a record for each of so many objects.
pub(crate) fn write(home: &Home, population: Population, objects: usize) -> Result<(), String> {
    let failed = |error: ClientError| format!("the records of the objects: {error}");
    let connected = Connection::connect(home.address(), "bench-scale", PATIENCE);
    let mut connection = connected.map_err(failed)?;
    let records = records(population, objects);
    let value = (STREAM_BYTES / records).max(RECORD_FIELDS_BYTES + 1) - RECORD_FIELDS_BYTES;
    let values = std::iter::repeat_n(vec![b'x'; value], records);
    let template = BatchTemplate::of(values, usize::MAX);
    let stamp = Stamp {
        timestamp_ms: SystemClock::shared().wall_ms(),
        producer: None,
        base_sequence: -1,
    };
    let batch = [
        &template.header(records, &stamp)[..],
        template.records(records),
    ]
    .concat();
    for number in 0..population.topics {
        for partition in 0..population.partitions {
            let partition = i32::try_from(partition).unwrap_or(i32::MAX);
            let sent = connection.send_produce(&topic(number), &[(partition, &batch)]);
            sent.map_err(failed)?;
            let answer = connection.await_produce().map_err(failed)?;
            if answer.partitions.iter().any(|one| one.error_code != 0) {
                return Err(format!(
                    "the records of the objects were refused: {answer:?}"
                ));
            }
        }
    }
    Ok(())
}

/// Records of a partition.
fn records(population: Population, objects: usize) -> usize {
    objects.div_ceil(population.topics * population.partitions)
}

/// Replaces the objects of the records by one for each record. The broker must have stopped and uploaded everything.
pub(crate) async fn split(home: &Home) -> Result<usize, String> {
    let path = home.folder().join("data/meta.db");
    let epoch = epoch(&path).await?;
    let opened = SqliteMeta::open(&path, SqliteOptions::default(), SystemClock::shared()).await;
    let meta = opened.map_err(|error| error.to_string())?;
    let mut made = 0;
    for found in meta.topics().await.map_err(|error| error.to_string())? {
        for partition in &found.partitions {
            made += split_stream(&meta, partition.data, epoch).await?;
        }
    }
    meta.close().await;
    Ok(made)
}

async fn epoch(path: &Path) -> Result<NodeEpoch, String> {
    let identity = read_identity(path)
        .await
        .map_err(|error| error.to_string())?;
    let epoch = identity.and_then(|identity| identity.generation);
    epoch.ok_or_else(|| format!("{}: no broker has started with it", path.display()))
}

async fn split_stream(
    meta: &SqliteMeta,
    stream: StreamId,
    node_epoch: NodeEpoch,
) -> Result<usize, String> {
    let ranges = meta.objects_of(stream, 0, usize::MAX).await;
    let ranges = ranges.map_err(|error| error.to_string())?;
    let mut made = 0;
    for ObjectRange { object, range, .. } in ranges
        .iter()
        .filter(|range| range.kind == ObjectKind::Stream)
    {
        let count = range.end - range.start;
        let asked = u32::try_from(count).map_err(|error| error.to_string())?;
        let first = meta.reserve_objects(node_epoch, asked).await;
        let first = first.map_err(|error| error.to_string())?;
        let stream_objects = (0..count).map(|nth| StreamObject {
            id: ObjectId(first.get() + nth),
            size: OBJECT_BYTES,
            range: StreamRange {
                stream,
                start: range.start + nth,
                end: range.start + nth + 1,
            },
        });
        let compaction = Compaction {
            node_epoch,
            inputs: vec![*object],
            stream_set: None,
            stream_objects: stream_objects.collect(),
        };
        let committed = meta.commit_compaction(compaction).await;
        committed.map_err(|error| error.to_string())?;
        made += usize::try_from(count).unwrap_or(usize::MAX);
    }
    Ok(made)
}
