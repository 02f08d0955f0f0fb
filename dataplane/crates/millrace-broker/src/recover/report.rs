//! What a recovery found, for people and, in a stable shape, for programs.

use std::fmt;

use millrace_model::{NodeId, Offset};
use millrace_time::rfc3339;
use serde::{Serialize, Serializer};

/// What a recovery restores, and what it cannot. The JSON shape is part of the product: 64-bit numbers
/// are strings, moments are RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecoveryReport {
    /// The cluster.
    pub cluster_id: String,
    /// The node.
    pub node_id: NodeId,
    /// What it is restored from.
    pub source: Source,
    /// The moment that the metadata shows.
    #[serde(serialize_with = "moment")]
    pub recovered_to: i64,
    /// The first moment that `--at` can restore.
    #[serde(serialize_with = "moment")]
    pub window_start: i64,
    /// Up to here the backup knows what was acknowledged. Without the write-ahead log, records that
    /// were acknowledged later are missing too, and not listed.
    #[serde(serialize_with = "moment")]
    pub acknowledged_known_to: i64,
    /// The first item of the snapshot that was used.
    #[serde(serialize_with = "text")]
    pub snapshot_seq: u64,
    /// Items of the backup that were read.
    #[serde(serialize_with = "text")]
    pub items: u64,
    /// Topics that are restored.
    #[serde(serialize_with = "text")]
    pub topics: u64,
    /// Partitions that are restored.
    #[serde(serialize_with = "text")]
    pub partitions: u64,
    /// Records that only the write-ahead log has; the next start takes them over.
    #[serde(serialize_with = "text")]
    pub records_from_wal: u64,
    /// Their bytes.
    #[serde(serialize_with = "text")]
    pub bytes_from_wal: u64,
    /// Acknowledged records that are neither in the bucket nor in the log.
    pub missing: Vec<MissingRange>,
    /// What else an operator should know.
    pub warnings: Vec<String>,
    /// Whether it was done.
    pub applied: bool,
}

/// Where everything comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Source {
    /// The bucket alone.
    #[serde(rename = "bucket")]
    Bucket,
    /// The bucket, and the write-ahead log for what was not uploaded.
    #[serde(rename = "bucket+wal")]
    BucketAndWal,
}

/// Acknowledged records of one partition that are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingRange {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The first missing offset.
    #[serde(serialize_with = "text")]
    pub from_offset: Offset,
    /// One past the last that is known to be missing.
    #[serde(serialize_with = "text")]
    pub to_offset: Offset,
    /// When all of them were acknowledged, at the latest.
    #[serde(serialize_with = "moment")]
    pub acknowledged_by: i64,
}

fn moment<S: Serializer>(wall_ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&rfc3339::format(*wall_ms))
}

fn text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.source {
            Source::Bucket => "the bucket alone",
            Source::BucketAndWal => "the bucket and the write-ahead log",
        };
        let (to, start) = (self.recovered_to, self.window_start);
        writeln!(
            f,
            "Node {} of cluster {}, from {source}",
            self.node_id, self.cluster_id
        )?;
        writeln!(
            f,
            "Metadata as of {} (snapshot {}, {} items read); --at can go back to {}",
            rfc3339::format(to),
            self.snapshot_seq,
            self.items,
            rfc3339::format(start)
        )?;
        writeln!(
            f,
            "Restored: {} topics, {} partitions",
            self.topics, self.partitions
        )?;
        if self.source == Source::BucketAndWal {
            let (records, bytes) = (self.records_from_wal, self.bytes_from_wal);
            writeln!(
                f,
                "From the write-ahead log: {records} records, {bytes} bytes"
            )?;
        }
        if self.missing.is_empty() {
            writeln!(f, "Missing: no acknowledged record that is known")?;
        }
        for gone in &self.missing {
            writeln!(
                f,
                "Missing: {}-{}, offsets {} to {}, acknowledged by {}",
                gone.topic,
                gone.partition,
                gone.from_offset,
                gone.to_offset.saturating_sub(1),
                rfc3339::format(gone.acknowledged_by)
            )?;
        }
        for warning in &self.warnings {
            writeln!(f, "Warning: {warning}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The control plane and scripts read this.
    #[test]
    fn the_shape_of_the_json() {
        let report = RecoveryReport {
            cluster_id: "c".into(),
            node_id: NodeId(1),
            source: Source::BucketAndWal,
            recovered_to: 1_000,
            window_start: 0,
            acknowledged_known_to: 2_000,
            snapshot_seq: u64::MAX,
            items: 3,
            topics: 1,
            partitions: 2,
            records_from_wal: 4,
            bytes_from_wal: 5,
            missing: vec![MissingRange {
                topic: "t".into(),
                partition: 1,
                from_offset: 7,
                to_offset: 9,
                acknowledged_by: 1_500,
            }],
            warnings: vec!["w".into()],
            applied: false,
        };
        let json = serde_json::to_value(&report).expect("plain");
        let expected = serde_json::json!({
            "cluster_id": "c",
            "node_id": 1,
            "source": "bucket+wal",
            "recovered_to": "1970-01-01T00:00:01.000Z",
            "window_start": "1970-01-01T00:00:00.000Z",
            "acknowledged_known_to": "1970-01-01T00:00:02.000Z",
            "snapshot_seq": "18446744073709551615",
            "items": "3",
            "topics": "1",
            "partitions": "2",
            "records_from_wal": "4",
            "bytes_from_wal": "5",
            "missing": [{
                "topic": "t",
                "partition": 1,
                "from_offset": "7",
                "to_offset": "9",
                "acknowledged_by": "1970-01-01T00:00:01.500Z",
            }],
            "warnings": ["w"],
            "applied": false,
        });
        assert_eq!(json, expected);
        let text = report.to_string();
        assert!(text.contains("t-1, offsets 7 to 8"), "{text}");
    }
}
