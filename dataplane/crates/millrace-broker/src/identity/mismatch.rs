//! Why a broker refuses to start with the storage that it finds.

use millrace_model::{NodeEpoch, NodeId, StreamId};
use millrace_wal::WalOwner;

/// How old metadata is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Age {
    /// The node's last start that it knows.
    pub generation: NodeEpoch,
    /// Its last transaction.
    pub revision: u64,
}

impl std::fmt::Display for Age {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            generation,
            revision,
        } = self;
        write!(f, "generation {generation}, revision {revision}")
    }
}

/// Configuration, metadata, write-ahead log and bucket do not belong together. Nothing was changed. A
/// restart finds the same: each text says which two sides differ and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// `cluster.id` against the metadata.
    #[error(
        "cluster.id is {configured}, but data.dir belongs to the cluster {stored}; correct \
         cluster.id, or choose another data.dir"
    )]
    ConfiguredCluster {
        /// The setting.
        configured: String,
        /// What the metadata says.
        stored: String,
    },
    /// `cluster.id` against the metadata database.
    #[error(
        "cluster.id is {configured}, but metadata.database.url names the database of the cluster {stored}; correct \
         one of the two"
    )]
    DatabaseOfAnother {
        /// The setting.
        configured: String,
        /// What the database says.
        stored: String,
    },
    /// An empty metadata database, and storage that has been used.
    #[error(
        "metadata.database.url names an empty database, but {used}; correct it or restore the database, or choose \
         an empty bucket and an empty write-ahead log for a new cluster"
    )]
    BlankDatabase {
        /// What has been used, in words.
        used: String,
    },
    /// `node.id` against the metadata.
    #[error(
        "node.id is {configured}, but data.dir belongs to node {stored}; correct node.id, or choose \
         another data.dir"
    )]
    ConfiguredNode {
        /// The setting.
        configured: NodeId,
        /// What the metadata says.
        stored: NodeId,
    },
    /// The log's owner against the metadata or the settings.
    #[error(
        "the write-ahead log belongs to node {} of the cluster {}, but this is node {node_id} of the \
         cluster {cluster_id}; correct s3.wal.path, or give up the log's records with `millrace adopt \
         --config FILE`",
        found.node_id, found.cluster_id
    )]
    WalOfAnother {
        /// Our cluster.
        cluster_id: String,
        /// Our node.
        node_id: NodeId,
        /// Whose log it is.
        found: WalOwner,
    },
    /// The log's id against the metadata.
    #[error(
        "the write-ahead log is {found:016x}, but the metadata expects {expected:016x}, which holds \
         what is not uploaded yet; correct s3.wal.path or restore that log, or give up its records \
         with `millrace adopt --config FILE`"
    )]
    AnotherWal {
        /// The WAL id in the metadata.
        expected: u64,
        /// The WAL id in the log.
        found: u64,
    },
    /// A blank log against metadata that expects records.
    #[error(
        "the write-ahead log is blank, but the metadata expects {expected:016x}, which holds what is \
         not uploaded yet; correct s3.wal.path or restore that log, or give up its records with \
         `millrace adopt --config FILE`"
    )]
    BlankWal {
        /// The WAL id in the metadata.
        expected: u64,
    },
    /// No metadata beside a log.
    #[error(
        "data.dir has no metadata, but the write-ahead log {wal_id:016x}{} has been used; correct \
         data.dir or restore meta.db, or rebuild it with `millrace recover --config FILE`",
        owned_by(.owner.as_ref())
    )]
    BlankMetadata {
        /// The log.
        wal_id: u64,
        /// Whose it is, if it says so.
        owner: Option<WalOwner>,
    },
    /// Neither metadata nor log, and the bucket has a backup of this node's metadata.
    #[error(
        "data.dir and the write-ahead log are blank, but the bucket has the metadata of node \
         {node_id} of the cluster {cluster_id} ({backup}): its volume is gone; restore it, or rebuild \
         the broker with `millrace recover --config FILE`"
    )]
    VolumeLost {
        /// The cluster.
        cluster_id: String,
        /// The node.
        node_id: NodeId,
        /// How old the backup is.
        backup: Age,
    },
    /// Neither metadata nor log, and the bucket has objects of nobody who left a mark.
    #[error(
        "data.dir and the write-ahead log are blank, but the bucket already has objects ({object}); \
         restore the volume of the broker that wrote them, or choose an empty bucket in \
         s3.data.buckets"
    )]
    BucketInUse {
        /// The first of them.
        object: String,
    },
    /// The metadata is older than what the log relied on.
    #[error(
        "the metadata in data.dir is older ({metadata}) than what the write-ahead log relies on \
         ({wal}); restore the newest meta.db, or rebuild it with `millrace recover --config FILE`"
    )]
    MetadataBehindWal {
        /// The metadata.
        metadata: Age,
        /// What the log's header says.
        wal: Age,
    },
    /// The metadata is older than its backup.
    #[error(
        "the metadata in data.dir is older ({metadata}) than its backup in the bucket ({backup}); \
         restore the newest meta.db, or rebuild it with `millrace recover --config FILE`"
    )]
    MetadataBehindBackup {
        /// The metadata.
        metadata: Age,
        /// The end of the backup.
        backup: Age,
    },
    /// A start with another log owns the backup.
    #[error(
        "another machine has taken over node {node_id}: the bucket knows its start {} with the \
         write-ahead log {wal_id:016x}, data.dir is at {metadata}; stop one of the two, or take the \
         node over again with `millrace adopt --config FILE`",
        backup.generation
    )]
    TakenOver {
        /// The node.
        node_id: NodeId,
        /// Our metadata.
        metadata: Age,
        /// The other's log.
        wal_id: u64,
        /// The end of the backup, written by the other.
        backup: Age,
    },
    /// The bucket's mark against the metadata, the log or the settings.
    #[error(
        "the bucket belongs to the cluster {found}, but this is the cluster {cluster_id}; correct \
         s3.data.buckets"
    )]
    BucketOfAnother {
        /// Our cluster.
        cluster_id: String,
        /// Whose bucket it is.
        found: String,
    },
    /// No mark in a bucket that this broker has marked.
    #[error(
        "the bucket has no mark of a cluster, but this broker has put that of {cluster_id} into its \
         own; correct s3.data.buckets or restore the bucket, or give up its objects with `millrace \
         adopt --config FILE`"
    )]
    BlankBucket {
        /// Our cluster.
        cluster_id: String,
    },
    /// The mark is none.
    #[error(
        "the bucket's object meta/cluster does not say which cluster it belongs to ({0}); restore it, \
         or correct s3.data.buckets"
    )]
    UnreadableMark(String),
    /// Records of streams that the metadata has never had.
    #[error(
        "the write-ahead log has {records} records of {streams} streams that the metadata has never \
         had, such as stream {first}: the two do not belong together; restore the newest meta.db or \
         rebuild it with `millrace recover --config FILE`, or give up these records with `millrace \
         adopt --config FILE`"
    )]
    UnknownStreams {
        /// How many streams.
        streams: usize,
        /// How many records.
        records: usize,
        /// The lowest of the streams.
        first: StreamId,
    },
}

fn owned_by(owner: Option<&WalOwner>) -> String {
    owner.map_or_else(String::new, |owner| {
        format!(
            " of node {} of the cluster {}",
            owner.node_id, owner.cluster_id
        )
    })
}
