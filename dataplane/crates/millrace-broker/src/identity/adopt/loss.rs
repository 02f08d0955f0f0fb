//! What an adoption loses: by partition and offset where the metadata knows the stream.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use millrace_meta::{
    MetaStore,
    sqlite::{ObjectState, SqliteMeta, read_object_records},
};
use millrace_model::{ObjectId, Offset, StreamId};
use millrace_objects::Listed;
use millrace_stream::RecoveredLog;
use millrace_wal::UnopenedWal;

use super::{AdoptError, MetadataCopy, Sides};
use crate::{identity::Mismatch, storage::Seams};

/// One thing that is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// Records of a partition.
    Records {
        /// Topic and partition; what is lost may be the broker's own records about them.
        partition: String,
        /// The first offset.
        from: Offset,
        /// One past the last; `None`: whatever was acknowledged from there on.
        to: Option<Offset>,
        /// Bytes, where they are known.
        bytes: Option<u64>,
        /// Where they are or were.
        place: &'static str,
    },
    /// Records of streams that no metadata here names.
    UnnamedRecords {
        /// How many streams.
        streams: usize,
        /// How many records.
        records: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// Objects that no metadata will know any more.
    Objects {
        /// How many.
        objects: usize,
        /// Their bytes.
        bytes: u64,
    },
    /// The log cannot be read: all that is in it.
    UnreadableLog(String),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Records {
                partition,
                from,
                to: Some(to),
                bytes,
                place,
            } => {
                write!(
                    f,
                    "{partition}: offsets {from} to {}, {} records",
                    to - 1,
                    to - from
                )?;
                if let Some(bytes) = bytes {
                    write!(f, ", {bytes} bytes")?;
                }
                write!(f, " ({place})")
            }
            Self::Records {
                partition,
                from,
                place,
                ..
            } => write!(
                f,
                "{partition}: everything acknowledged from offset {from} on ({place})"
            ),
            Self::UnnamedRecords {
                streams,
                records,
                bytes,
            } => write!(
                f,
                "{records} records, {bytes} bytes, of {streams} streams that the metadata does not name \
                 (in the write-ahead log)"
            ),
            Self::Objects { objects, bytes } => write!(
                f,
                "{objects} objects, {bytes} bytes, that the metadata does not know (in the bucket)"
            ),
            Self::UnreadableLog(error) => {
                write!(
                    f,
                    "everything in the write-ahead log, which cannot be read: {error}"
                )
            }
        }
    }
}

/// What the metadata knows, read from a copy.
pub(super) struct Known {
    meta: Option<SqliteMeta>,
    pub(super) streams: HashMap<StreamId, KnownStream>,
    /// Objects with their state.
    objects: BTreeMap<ObjectId, ObjectState>,
    /// The id that is given out next; 0 without metadata.
    next_object: ObjectId,
}

/// A stream of the metadata.
pub(super) struct KnownStream {
    /// Topic and partition.
    name: String,
    /// The end of what is in objects.
    end: Offset,
}

impl Known {
    /// Reads the copy, which may be changed.
    pub(super) async fn read(
        copy: &MetadataCopy,
        sides: &Sides,
        seams: &Seams,
    ) -> Result<Self, AdoptError> {
        let mut known = Self {
            meta: None,
            streams: HashMap::new(),
            objects: BTreeMap::new(),
            next_object: ObjectId(0),
        };
        if sides.metadata.is_none() {
            return Ok(known);
        }
        let meta = super::open_metadata(&copy.file(), seams).await?;
        let records = read_object_records(&copy.file()).await?;
        known.next_object = records.next_object;
        let states = records
            .objects
            .iter()
            .map(|record| (record.object, record.state));
        known.objects = states.collect();
        let mut names = HashMap::new();
        for topic in meta.topics().await? {
            for partition in topic.partitions {
                let name = format!("{}-{}", topic.name, partition.index);
                names.insert(
                    partition.meta,
                    format!("{name} (its state, not its records)"),
                );
                names.insert(partition.data, name);
            }
        }
        let epoch = meta.register_node(sides.configured.node_id).await?;
        let ids: Vec<StreamId> = names.keys().copied().collect();
        let opened = meta.open_streams(&ids, epoch).await;
        for stream in opened.map_err(|error| AdoptError::Streams(error.to_string()))? {
            let name = names.remove(&stream.id).unwrap_or_default();
            let end = stream.end.max(stream.start);
            known.streams.insert(stream.id, KnownStream { name, end });
        }
        known.meta = Some(meta);
        Ok(known)
    }

    fn ends(&self) -> HashMap<StreamId, Offset> {
        let ends = self.streams.iter();
        ends.map(|(&id, stream)| (id, stream.end)).collect()
    }

    /// What the metadata refers to and the bucket does not have, and the other way round.
    pub(super) async fn lost_objects(&self, listed: &[Listed]) -> Result<Vec<Loss>, AdoptError> {
        let stored: BTreeMap<ObjectId, u64> = listed
            .iter()
            .filter_map(|listed| Some((listed.key.object_id()?, listed.size)))
            .collect();
        let mut losses = Vec::new();
        for (&object, &state) in &self.objects {
            if state == ObjectState::Committed && !stored.contains_key(&object) {
                losses.extend(self.ranges_of(object).await?);
            }
        }
        let unknown = stored.iter().filter(|(id, _)| **id >= self.next_object);
        let (objects, bytes) = unknown.fold((0, 0), |(n, sum), (_, size)| (n + 1, sum + size));
        if objects > 0 {
            losses.push(Loss::Objects { objects, bytes });
        }
        Ok(losses)
    }

    async fn ranges_of(&self, object: ObjectId) -> Result<Vec<Loss>, AdoptError> {
        let contents = match &self.meta {
            Some(meta) => meta.object_contents(object).await?,
            None => None,
        };
        let live = contents.into_iter().flat_map(|contents| contents.live);
        let lost = live.filter_map(|live| {
            Some(Loss::Records {
                partition: self.streams.get(&live.range.stream)?.name.clone(),
                from: live.readable_from,
                to: Some(live.range.end),
                bytes: None,
                place: "in an object that is not in the bucket",
            })
        });
        Ok(lost.collect())
    }

    /// What of a log that is kept does not continue what is in objects.
    pub(super) fn lost_in_kept_log(&self, log: &RecoveredLog) -> Result<Vec<Loss>, AdoptError> {
        let lost = log.lost(&self.ends());
        let lost = lost.map_err(|straddles| AdoptError::Streams(straddles.to_string()))?;
        let mut unnamed = (0, 0, 0);
        let mut losses = Vec::new();
        for lost in lost {
            match self.streams.get(&lost.stream) {
                Some(stream) => losses.push(Loss::Records {
                    partition: stream.name.clone(),
                    from: lost.from,
                    to: Some(lost.to),
                    bytes: Some(lost.bytes),
                    place: "in the write-ahead log, or trimmed from it",
                }),
                None => {
                    let (streams, records, bytes) = unnamed;
                    unnamed = (
                        streams + 1,
                        records + lost.to - lost.from,
                        bytes + lost.bytes,
                    );
                }
            }
        }
        losses.extend(unnamed_records(unnamed));
        Ok(losses)
    }

    /// What was only in the log that the metadata expects, and that is not here.
    pub(super) fn lost_with_expected_log(&self) -> Vec<Loss> {
        let mut losses: Vec<Loss> = self
            .streams
            .values()
            .map(|stream| Loss::Records {
                partition: stream.name.clone(),
                from: stream.end,
                to: None,
                bytes: None,
                place: "only in the write-ahead log that is not here",
            })
            .collect();
        losses.sort_by_cached_key(ToString::to_string);
        losses
    }
}

/// Everything in a log that is given up.
pub(super) async fn of_discarded_log(log: &UnopenedWal) -> Option<Loss> {
    let mut recovered = RecoveredLog::default();
    let mut sink = |record| recovered.push(&record);
    if let Err(error) = log.clone().scan(&mut sink).await {
        return Some(Loss::UnreadableLog(error.to_string()));
    }
    let lost = recovered.lost(&HashMap::new()).unwrap_or_default();
    let sum = lost
        .iter()
        .fold((0, 0, 0), |(streams, records, bytes), lost| {
            (
                streams + 1,
                records + lost.to - lost.from,
                bytes + lost.bytes,
            )
        });
    unnamed_records(sum)
}

fn unnamed_records((streams, records, bytes): (usize, u64, u64)) -> Option<Loss> {
    (streams > 0).then_some(Loss::UnnamedRecords {
        streams,
        records,
        bytes,
    })
}

impl Mismatch {
    /// Whether a setting names the wrong place, so that there is nothing to give up.
    pub(super) fn is_about_settings(&self) -> bool {
        match self {
            Self::ConfiguredCluster { .. }
            | Self::ConfiguredNode { .. }
            | Self::DatabaseOfAnother { .. }
            | Self::BlankDatabase { .. }
            | Self::BucketOfAnother { .. }
            | Self::UnreadableMark(_) => true,
            Self::WalOfAnother { .. }
            | Self::AnotherWal { .. }
            | Self::BlankWal { .. }
            | Self::BlankMetadata { .. }
            | Self::VolumeLost { .. }
            | Self::BucketInUse { .. }
            | Self::MetadataBehindWal { .. }
            | Self::MetadataBehindBackup { .. }
            | Self::TakenOver { .. }
            | Self::BlankBucket { .. }
            | Self::UnknownStreams { .. } => false,
        }
    }
}
