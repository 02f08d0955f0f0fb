//! The contract of a metadata store.

use std::{collections::BTreeMap, fmt::Debug, ops::Range};

use async_trait::async_trait;
use millrace_model::{NodeEpoch, NodeId, ObjectId, Offset, StreamId, TopicName};

use crate::{
    AclRow, CommitError, Compaction, CompactionError, CreatePartitionsError, CreateTopicError,
    DelegationTokenChange, DelegationTokenRow, NewTopic, ObjectContents, ObjectRange,
    OpenStreamError, QuotaChange, QuotaRow, ReserveError, ResourceConfigChange, ResourceConfigRow,
    ScramChange, ScramRow, StreamMeta, StreamSetSummary, StreamSummary, SweepError, Topic,
    TopicError, TrimError, Upload,
};

/// The node epoch is not (or no longer) the current one of any node: another start has replaced
/// this one. It must stop; nothing that it does counts any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("node epoch {0} is fenced: a newer start of the node has registered")]
pub struct Fenced(pub NodeEpoch);

/// The store itself failed. The text is for us.
#[derive(Debug, thiserror::Error)]
pub enum StoreFailure {
    /// The database failed or is not reachable: try again.
    #[error("the metadata database failed")]
    Database(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The database holds what this program would never write: report it.
    #[error("the metadata database is corrupt: {0}")]
    Corrupt(String),
    /// A number that is beyond 63 bits; no sound id or offset is.
    #[error("the number {0} is beyond what the metadata database can hold")]
    TooLarge(u64),
}

/// What exists and who owns it. All changes are durable when they return, and take effect whole or
/// not at all, even where the caller stops waiting.
#[async_trait]
pub trait MetaStore: Debug + Send + Sync + 'static {
    /// Counts the changes: it grows by one with every transaction and is as durable. 0 where the
    /// store does not count.
    fn revision(&self) -> u64 {
        0
    }

    /// Resolves once every change made so far is in the backup of the metadata, with a revision that
    /// is; at once where there is no backup. While the bucket does not answer, it does not resolve.
    async fn backed_up(&self) -> u64 {
        let revision = self.revision();
        self.backed_up_to(revision).await;
        revision
    }

    /// The same for the changes up to `revision`.
    async fn backed_up_to(&self, _revision: u64) {}

    /// Asks for the backup now rather than within its interval, for somebody who waits.
    fn hurry_backup(&self) {}

    /// The cluster's id: `default` on the first call ever, the same for good afterwards.
    ///
    /// # Errors
    /// The store failed.
    async fn cluster_id(&self, default: &str) -> Result<String, StoreFailure>;

    /// Begins a new epoch of `node`, above all epochs of all nodes, and fences its former one. Ids
    /// that the former one reserved and did not commit are retired.
    ///
    /// # Errors
    /// The store failed.
    async fn register_node(&self, node: NodeId) -> Result<NodeEpoch, StoreFailure>;

    /// Creates a topic with two new streams per partition.
    ///
    /// # Errors
    /// See [`CreateTopicError`].
    async fn create_topic(&self, topic: NewTopic) -> Result<Topic, CreateTopicError>;

    /// Adds partitions until the topic has `total`.
    ///
    /// # Errors
    /// See [`CreatePartitionsError`].
    async fn create_partitions(
        &self,
        name: &TopicName,
        total: u32,
    ) -> Result<Topic, CreatePartitionsError>;

    /// Deletes a topic and its streams; gives back what it was. Objects that hold nothing else are
    /// retired. Uploads of the deleted streams that are under way may still be committed.
    ///
    /// # Errors
    /// See [`TopicError`].
    async fn delete_topic(&self, name: &TopicName) -> Result<Topic, TopicError>;

    /// Replaces a topic's settings.
    ///
    /// # Errors
    /// See [`TopicError`].
    async fn set_topic_configs(
        &self,
        name: &TopicName,
        configs: BTreeMap<String, String>,
    ) -> Result<Topic, TopicError>;

    /// All topics, in the order of their names.
    ///
    /// # Errors
    /// The store failed.
    async fn topics(&self) -> Result<Vec<Topic>, StoreFailure>;

    /// Takes ownership of a stream under a new stream epoch. Opening it again under the same node
    /// epoch changes nothing.
    ///
    /// # Errors
    /// See [`OpenStreamError`].
    async fn open_stream(
        &self,
        stream: StreamId,
        node_epoch: NodeEpoch,
    ) -> Result<StreamMeta, OpenStreamError> {
        let opened = self.open_streams(&[stream], node_epoch).await?;
        opened
            .into_iter()
            .next()
            .ok_or(OpenStreamError::Unknown(stream))
    }

    /// Opens many streams at once. Those that do not exist (any more) are left out of the answer, and those that belong
    /// to another node that has joined the cluster: what that one has not uploaded is in its log.
    ///
    /// # Errors
    /// See [`OpenStreamError`]; never [`OpenStreamError::Unknown`].
    async fn open_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<Vec<StreamMeta>, OpenStreamError>;

    /// Opens those of the streams that belong to this node already, from an earlier start of it. Its log has records of others
    /// as well, that were released or handed over since; they are left out. Streams of this node that are not named have no owner
    /// any more: its log has nothing of them, so all of them is in the bucket.
    ///
    /// # Errors
    /// See [`OpenStreamError`]; never [`OpenStreamError::Unknown`].
    async fn reopen_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<Vec<StreamMeta>, OpenStreamError> {
        self.open_streams(streams, node_epoch).await
    }

    /// Gives out `count` successive object ids and returns the first. They can be committed until
    /// the node registers again; there is no other expiry.
    ///
    /// # Errors
    /// See [`ReserveError`].
    async fn reserve_objects(
        &self,
        node_epoch: NodeEpoch,
        count: u32,
    ) -> Result<ObjectId, ReserveError>;

    /// Commits uploaded objects: each stream's end moves to the end of its range, which must begin
    /// where the stream ended (or behind a gap that has been trimmed). Committing the same upload
    /// again changes nothing. Ranges of deleted streams are accepted and forgotten.
    ///
    /// # Errors
    /// See [`CommitError`].
    async fn commit_upload(&self, upload: Upload) -> Result<(), CommitError>;

    /// Up to `limit` ranges of `stream` that end behind `from`, ascending; together they have no
    /// gap. Empty where the stream ends at or before `from`, or does not exist.
    ///
    /// # Errors
    /// The store failed.
    async fn objects_of(
        &self,
        stream: StreamId,
        from: Offset,
        limit: usize,
    ) -> Result<Vec<ObjectRange>, StoreFailure>;

    /// Moves a stream's start to `new_start`, never back; gives the start that now holds. Objects
    /// that hold nothing else are retired.
    ///
    /// # Errors
    /// See [`TrimError`].
    async fn trim_stream(
        &self,
        stream: StreamId,
        node_epoch: NodeEpoch,
        new_start: Offset,
    ) -> Result<Offset, TrimError>;

    /// Retires ids that were reserved and will not be committed; the objects may exist in the bucket or
    /// not. Ids that were committed, or belong to another node epoch, are left as they are.
    ///
    /// # Errors
    /// See [`ReserveError`]; never [`ReserveError::TooMany`].
    async fn release_objects(
        &self,
        node_epoch: NodeEpoch,
        objects: &[ObjectId],
    ) -> Result<(), ReserveError>;

    /// Up to `limit` committed stream-set objects behind `after`, the oldest first.
    ///
    /// # Errors
    /// The store failed.
    async fn stream_sets(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<StreamSetSummary>, StoreFailure>;

    /// The next `limit` streams behind `after`, in the order of their ids.
    ///
    /// # Errors
    /// The store failed.
    async fn stream_summaries(
        &self,
        after: Option<StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamSummary>, StoreFailure>;

    /// What of an object can still be read; `None` where nothing can. One object at a time: how many
    /// ranges it has is known only then.
    ///
    /// # Errors
    /// The store failed.
    async fn object_contents(
        &self,
        object: ObjectId,
    ) -> Result<Option<ObjectContents>, StoreFailure>;

    /// Replaces objects by others that hold the same, at one moment for every reader, and retires the
    /// former. Of each stream the outputs must hold exactly the offsets that the inputs hold and that
    /// have not been trimmed; what was trimmed may be missing, ranges of deleted streams are accepted
    /// and forgotten. No stream's end moves, so uploads are not concerned. Committing the same
    /// compaction again changes nothing.
    ///
    /// # Errors
    /// See [`CompactionError`].
    async fn commit_compaction(&self, compaction: Compaction) -> Result<(), CompactionError>;

    /// Up to `limit` objects that have been retired for longer than any read takes: delete them from
    /// the bucket, then call [`MetaStore::mark_deleted`].
    ///
    /// # Errors
    /// See [`SweepError`].
    async fn retired_objects(
        &self,
        node_epoch: NodeEpoch,
        limit: usize,
    ) -> Result<Vec<ObjectId>, SweepError>;

    /// Forgets retired objects that have been deleted from the bucket. Others are left as they are.
    ///
    /// # Errors
    /// See [`SweepError`].
    async fn mark_deleted(
        &self,
        node_epoch: NodeEpoch,
        objects: &[ObjectId],
    ) -> Result<(), SweepError>;

    /// Gives out `block` successive producer ids, never given out before.
    ///
    /// # Errors
    /// The store failed.
    async fn allocate_producer_ids(&self, block: u32) -> Result<Range<i64>, StoreFailure>;

    /// The credentials of all users, by their names and mechanisms.
    ///
    /// # Errors
    /// The store failed.
    async fn scram_credentials(&self) -> Result<Vec<ScramRow>, StoreFailure>;

    /// Sets and removes credentials, all or none.
    ///
    /// # Errors
    /// The store failed.
    async fn change_scram_credentials(&self, changes: Vec<ScramChange>)
    -> Result<(), StoreFailure>;

    /// All client quotas, by their entities and keys.
    ///
    /// # Errors
    /// The store failed.
    async fn client_quotas(&self) -> Result<Vec<QuotaRow>, StoreFailure>;

    /// Sets and removes client quotas, all or none.
    ///
    /// # Errors
    /// The store failed.
    async fn change_client_quotas(&self, changes: Vec<QuotaChange>) -> Result<(), StoreFailure>;

    /// All access control lists, in no order.
    ///
    /// # Errors
    /// The store failed.
    async fn acls(&self) -> Result<Vec<AclRow>, StoreFailure>;

    /// Adds and removes access control lists, all or none. Adding one that exists and removing one that does
    /// not exist change nothing.
    ///
    /// # Errors
    /// The store failed.
    async fn change_acls(
        &self,
        added: Vec<AclRow>,
        removed: Vec<AclRow>,
    ) -> Result<(), StoreFailure>;

    /// All delegation tokens, in the order of their ids.
    ///
    /// # Errors
    /// The store failed.
    async fn delegation_tokens(&self) -> Result<Vec<DelegationTokenRow>, StoreFailure>;

    /// Changes delegation tokens: all or none.
    ///
    /// # Errors
    /// The store failed.
    async fn change_delegation_tokens(
        &self,
        changes: Vec<DelegationTokenChange>,
    ) -> Result<(), StoreFailure>;

    /// All configurations of groups and of subscriptions to client metrics, by type, resource and name.
    ///
    /// # Errors
    /// The store failed.
    async fn resource_configs(&self) -> Result<Vec<ResourceConfigRow>, StoreFailure>;

    /// Sets and removes configurations of groups and of subscriptions to client metrics, all or none.
    ///
    /// # Errors
    /// The store failed.
    async fn change_resource_configs(
        &self,
        changes: Vec<ResourceConfigChange>,
    ) -> Result<(), StoreFailure>;

    /// The value kept under `name`.
    ///
    /// # Errors
    /// The store failed.
    async fn get_kv(&self, name: &str) -> Result<Option<Vec<u8>>, StoreFailure>;

    /// Keeps `value` under `name`.
    ///
    /// # Errors
    /// The store failed.
    async fn put_kv(&self, name: &str, value: &[u8]) -> Result<(), StoreFailure>;
}
