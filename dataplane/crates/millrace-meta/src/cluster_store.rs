//! The contract of a metadata store that several brokers share.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use millrace_model::{NodeEpoch, NodeId, StreamId, StreamRange, TopicPartition};

use crate::{
    Adoption, Broker, BrokerLoad, Changes, ClusterError, ClusterEvent, FencedBroker, JoinError,
    Joining, MetaStore, Move, Preferred, StoreFailure,
};

/// Who belongs to the cluster, who leads what, and who owns which stream. As in [`MetaStore`], all changes are durable when they
/// return, and may be made again.
#[async_trait]
pub trait ClusterStore: MetaStore {
    /// Begins a new start of a broker: its former start is fenced, and it has a lease, to be renewed by
    /// [`ClusterStore::renew_lease`]. Partitions without a leader get one.
    ///
    /// # Errors
    /// See [`JoinError`].
    async fn join(&self, joining: &Joining) -> Result<NodeEpoch, JoinError>;

    /// Renews the lease of a start.
    ///
    /// # Errors
    /// See [`ClusterError`]: the start has been fenced, or the database does not answer.
    async fn renew_lease(&self, node_epoch: NodeEpoch) -> Result<(), ClusterError>;

    /// Fences every broker whose lease has run out, and spreads what they led over the others. Does nothing where the caller's
    /// own lease was not renewed for half of its time, or had not been within the last two times of a lease: the database was away
    /// then. A start that joined while no other lease was late need not wait for that.
    ///
    /// # Errors
    /// See [`ClusterError`].
    async fn fence_expired(&self, judge: NodeEpoch) -> Result<Vec<FencedBroker>, ClusterError>;

    /// Takes over the log of a fenced node. The caller acts for the node under the epoch that this gives: it raises the log's
    /// fence to it, opens the streams of the log, uploads what the log has, and lets the node leave.
    ///
    /// # Errors
    /// See [`ClusterError`].
    async fn adopt_log(&self, node: NodeId, adopter: NodeEpoch) -> Result<Adoption, ClusterError>;

    /// A node whose log is empty leaves: its streams have no owner any more, and what it led goes to the others, where there
    /// are any.
    ///
    /// # Errors
    /// See [`ClusterError`].
    async fn leave(&self, node_epoch: NodeEpoch) -> Result<(), ClusterError>;

    /// A start is about to stop: it is given nothing more to lead.
    ///
    /// # Errors
    /// See [`ClusterError`].
    async fn begin_drain(&self, node_epoch: NodeEpoch) -> Result<(), ClusterError>;

    /// All brokers that have ever joined, in the order of their nodes.
    ///
    /// # Errors
    /// The database failed.
    async fn brokers(&self) -> Result<Vec<Broker>, StoreFailure>;

    /// Gives up streams whose records are all in the bucket. Those that have no owner are left as they are.
    ///
    /// # Errors
    /// See [`ClusterError`].
    async fn release_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<(), ClusterError>;

    /// Gives partitions to other nodes, their leads and their streams at once, all in one transaction. The owner must have stopped
    /// appending, and everything must be in the bucket: what is not is lost. Returns the partitions that `from` does not
    /// own any more; among them are those that an earlier call gave away whose answer was lost. The others stay as they are: they
    /// were deleted, their move was cancelled or planned to another node, or the node that they were to go to may
    /// not lead: then their move is cancelled.
    ///
    /// # Errors
    /// See [`ClusterError`].
    async fn hand_over(
        &self,
        moves: &[Move],
        from: NodeEpoch,
    ) -> Result<Vec<TopicPartition>, ClusterError>;

    /// Records where partitions are to go; a move to where a partition is takes back what was planned. All or none.
    ///
    /// # Errors
    /// See [`ClusterError`].
    async fn plan_moves(&self, moves: &[Move], preferred: Preferred) -> Result<(), ClusterError>;

    /// Takes back what was planned of partitions that have not moved yet: they stay at their leaders, which become their preferred
    /// ones. Returns those partitions; the others had moved already, were not to move, or do not exist.
    ///
    /// # Errors
    /// See [`ClusterError`].
    async fn cancel_moves(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<TopicPartition>, ClusterError>;

    /// Tells the others what this broker has to do, in place of what it told before.
    ///
    /// # Errors
    /// See [`ClusterError`].
    async fn report_load(
        &self,
        node_epoch: NodeEpoch,
        load: &BrokerLoad,
    ) -> Result<(), ClusterError>;

    /// What brokers have told within `age_max`.
    ///
    /// # Errors
    /// The database failed.
    async fn loads(&self, age_max: Duration) -> Result<BTreeMap<NodeId, BrokerLoad>, StoreFailure>;

    /// What happened to the brokers last, the newest first, up to `limit`.
    ///
    /// # Errors
    /// The database failed.
    async fn events(&self, limit: usize) -> Result<Vec<ClusterEvent>, StoreFailure>;

    /// What the brokers of the cluster sign in with at each other; `None` before the cluster has an id.
    ///
    /// # Errors
    /// The database failed.
    async fn broker_secret(&self) -> Result<Option<String>, StoreFailure>;

    /// Those of the streams that have never been created in this store, ascending.
    ///
    /// # Errors
    /// The database failed.
    async fn never_created(&self, streams: &[StreamId]) -> Result<Vec<StreamId>, StoreFailure>;

    /// From where a stream can be read to where it is committed to objects, whoever owns it; `None` where there is no such
    /// stream (any more). The end is below the start where records were trimmed before they were uploaded.
    ///
    /// # Errors
    /// The database failed.
    async fn committed_range(&self, stream: StreamId) -> Result<Option<StreamRange>, StoreFailure>;

    /// The revision of the last change of topics, leaders, brokers or security; 0 where there was none.
    ///
    /// # Errors
    /// The database failed.
    async fn cluster_revision(&self) -> Result<u64, StoreFailure>;

    /// What has changed since a revision that an earlier call gave; everything since 0.
    ///
    /// # Errors
    /// The database failed.
    async fn changes_since(&self, revision: u64) -> Result<Changes, StoreFailure>;
}
