//! The metadata of all brokers of a cluster in one PostgreSQL database.
//!
//! Nothing is decided from memory: each change reads what it depends on in its own transaction, under locks, because
//! other brokers write too. Locks are taken in one order, topics, nodes, partitions, streams, objects, each by
//! ascending id, and the revision of the feed last. Where two
//! changes get into each other's way all the same, PostgreSQL undoes one of them, and it is made again.
//!
//! A commit whose answer is lost may have been made or not. Every change of the contract may therefore be made again.

mod brokers;
mod compaction;
mod connect;
mod events;
mod feed;
mod leaders;
mod loads;
mod lookups;
mod nodes;
mod objects;
mod ownership;
mod resource_configs;
mod retry;
mod schema;
mod security;
mod streams;
mod topics;
mod transaction;

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use millrace_model::{
    NodeEpoch, NodeId, ObjectId, Offset, StreamId, StreamRange, TopicName, TopicPartition,
};
use sqlx::PgPool;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

pub use self::connect::{OpenError, PostgresOptions};
use self::{
    connect::Pools,
    lookups::{Lookup, Lookups},
    retry::retried,
    streams::Take,
    transaction::Tx,
};
use crate::{
    AclRow, Adoption, Broker, BrokerLoad, Changes, ClusterError, ClusterEvent, ClusterStore,
    CommitError, Compaction, CompactionError, CreatePartitionsError, CreateTopicError,
    DelegationTokenChange, DelegationTokenRow, Fenced, FencedBroker, JoinError, Joining, MetaStore,
    Move, NewTopic, ObjectContents, ObjectRange, OpenStreamError, Preferred, QuotaChange, QuotaRow,
    ReserveError, ResourceConfigChange, ResourceConfigRow, ScramChange, ScramRow, StoreFailure,
    StreamMeta, StreamSetSummary, StreamSummary, SweepError, Topic, TopicError, TrimError, Upload,
    index::Committed, number::to_sql,
};

/// A metadata store in a PostgreSQL database. A clone is the same store.
#[derive(Debug, Clone)]
pub struct PostgresMeta {
    pool: PgPool,
    leases: PgPool,
    lookups: Arc<Lookups>,
    retired_retention: Duration,
    lease_ttl: Duration,
    /// Opens the connections, whoever begins a transaction: the runtime that opened a connection drives it, and other callers reuse it.
    runtime: Handle,
}

impl PostgresMeta {
    /// Connects to the database and creates or migrates its tables. Many brokers may do so at once.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(url: &str, options: PostgresOptions) -> Result<Self, OpenError> {
        let Pools {
            changes,
            leases,
            lookups,
        } = connect::pools(url, &options).await?;
        schema::migrate(&changes).await?;
        Ok(Self {
            pool: changes,
            leases,
            lookups: Arc::new(Lookups::new(lookups)),
            retired_retention: options.retired_retention,
            lease_ttl: options.lease_ttl,
            runtime: Handle::current(),
        })
    }

    /// Closes the connections. Later uses of the store return errors.
    pub async fn close(&self) {
        self.pool.close().await;
        self.leases.close().await;
        self.lookups.close().await;
    }

    async fn begin(&self) -> Result<Tx, StoreFailure> {
        let pool = self.pool.clone();
        // Not supervised: awaited. If the caller is cancelled, it leaves the pool's queue.
        let begun = self.runtime.spawn(async move { Tx::begin(&pool).await });
        let begun = AbortOnDropHandle::new(begun).await;
        begun.unwrap_or_else(|error| Err(StoreFailure::Database(Box::new(error))))
    }
}

async fn commit(tx: Tx) -> Result<(), StoreFailure> {
    tx.commit().await
}

fn failure(error: sqlx::Error) -> StoreFailure {
    error.into()
}

/// Refuses a node epoch that has been replaced, and keeps it from being replaced until the transaction ends. The lease is
/// no part of the key, so it can be renewed meanwhile: a long change must not make its own broker look dead.
async fn fence<E>(tx: &mut Tx, node_epoch: NodeEpoch) -> Result<(), E>
where
    E: From<StoreFailure> + From<Fenced>,
{
    let known: Option<i64> =
        sqlx::query_scalar("SELECT node_id FROM nodes WHERE epoch = $1 FOR KEY SHARE")
            .bind(to_sql(node_epoch.get())?)
            .fetch_optional(&mut **tx)
            .await
            .map_err(failure)?;
    known.map(drop).ok_or_else(|| Fenced(node_epoch).into())
}

#[async_trait]
impl MetaStore for PostgresMeta {
    async fn cluster_id(&self, default: &str) -> Result<String, StoreFailure> {
        nodes::cluster_id(self, default).await
    }

    async fn register_node(&self, node: NodeId) -> Result<NodeEpoch, StoreFailure> {
        retried(|| nodes::register(self, node)).await
    }

    async fn create_topic(&self, topic: NewTopic) -> Result<Topic, CreateTopicError> {
        retried(|| topics::create(self, &topic)).await
    }

    async fn create_partitions(
        &self,
        name: &TopicName,
        total: u32,
    ) -> Result<Topic, CreatePartitionsError> {
        retried(|| topics::create_partitions(self, name, total)).await
    }

    async fn delete_topic(&self, name: &TopicName) -> Result<Topic, TopicError> {
        retried(|| topics::delete(self, name)).await
    }

    async fn set_topic_configs(
        &self,
        name: &TopicName,
        configs: BTreeMap<String, String>,
    ) -> Result<Topic, TopicError> {
        retried(|| topics::set_configs(self, name, &configs)).await
    }

    async fn topics(&self) -> Result<Vec<Topic>, StoreFailure> {
        topics::all(self).await
    }

    async fn open_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<Vec<StreamMeta>, OpenStreamError> {
        retried(|| streams::open(self, streams, node_epoch, Take::Free)).await
    }

    async fn reopen_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<Vec<StreamMeta>, OpenStreamError> {
        retried(|| streams::open(self, streams, node_epoch, Take::Own)).await
    }

    async fn reserve_objects(
        &self,
        node_epoch: NodeEpoch,
        count: u32,
    ) -> Result<ObjectId, ReserveError> {
        retried(|| objects::reserve(self, node_epoch, count)).await
    }

    async fn commit_upload(&self, upload: Upload) -> Result<(), CommitError> {
        let node_epoch = upload.node_epoch;
        let objects = Committed::of(upload);
        retried(|| objects::commit_upload(self, node_epoch, &objects)).await
    }

    async fn objects_of(
        &self,
        stream: StreamId,
        from: Offset,
        limit: usize,
    ) -> Result<Vec<ObjectRange>, StoreFailure> {
        let lookup = Lookup {
            stream,
            from,
            limit,
        };
        self.lookups.find(lookup).await
    }

    async fn trim_stream(
        &self,
        stream: StreamId,
        node_epoch: NodeEpoch,
        new_start: Offset,
    ) -> Result<Offset, TrimError> {
        retried(|| streams::trim(self, stream, node_epoch, new_start)).await
    }

    async fn release_objects(
        &self,
        node_epoch: NodeEpoch,
        objects: &[ObjectId],
    ) -> Result<(), ReserveError> {
        retried(|| objects::release(self, node_epoch, objects)).await
    }

    async fn stream_sets(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<StreamSetSummary>, StoreFailure> {
        compaction::stream_sets(self, after, limit).await
    }

    async fn stream_summaries(
        &self,
        after: Option<StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamSummary>, StoreFailure> {
        compaction::stream_summaries(self, after, limit).await
    }

    async fn object_contents(
        &self,
        object: ObjectId,
    ) -> Result<Option<ObjectContents>, StoreFailure> {
        compaction::object_contents(self, object).await
    }

    async fn commit_compaction(&self, compaction: Compaction) -> Result<(), CompactionError> {
        let (node_epoch, inputs) = (compaction.node_epoch, compaction.inputs.clone());
        let outputs = Committed::outputs_of(compaction);
        retried(|| compaction::commit_compaction(self, node_epoch, &inputs, &outputs)).await
    }

    async fn retired_objects(
        &self,
        node_epoch: NodeEpoch,
        limit: usize,
    ) -> Result<Vec<ObjectId>, SweepError> {
        retried(|| objects::retired(self, node_epoch, limit)).await
    }

    async fn mark_deleted(
        &self,
        node_epoch: NodeEpoch,
        objects: &[ObjectId],
    ) -> Result<(), SweepError> {
        retried(|| objects::mark_deleted(self, node_epoch, objects)).await
    }

    async fn allocate_producer_ids(&self, block: u32) -> Result<Range<i64>, StoreFailure> {
        nodes::allocate_producer_ids(self, block).await
    }

    async fn scram_credentials(&self) -> Result<Vec<ScramRow>, StoreFailure> {
        security::scram_credentials(self).await
    }

    async fn change_scram_credentials(
        &self,
        changes: Vec<ScramChange>,
    ) -> Result<(), StoreFailure> {
        retried(|| security::change_scram_credentials(self, &changes)).await
    }

    async fn client_quotas(&self) -> Result<Vec<QuotaRow>, StoreFailure> {
        security::client_quotas(self).await
    }

    async fn change_client_quotas(&self, changes: Vec<QuotaChange>) -> Result<(), StoreFailure> {
        retried(|| security::change_client_quotas(self, &changes)).await
    }

    async fn acls(&self) -> Result<Vec<AclRow>, StoreFailure> {
        security::acls(self).await
    }

    async fn change_acls(
        &self,
        added: Vec<AclRow>,
        removed: Vec<AclRow>,
    ) -> Result<(), StoreFailure> {
        retried(|| security::change_acls(self, &added, &removed)).await
    }

    async fn delegation_tokens(&self) -> Result<Vec<DelegationTokenRow>, StoreFailure> {
        security::delegation_tokens(self).await
    }

    async fn change_delegation_tokens(
        &self,
        changes: Vec<DelegationTokenChange>,
    ) -> Result<(), StoreFailure> {
        retried(|| security::change_delegation_tokens(self, &changes)).await
    }

    async fn resource_configs(&self) -> Result<Vec<ResourceConfigRow>, StoreFailure> {
        resource_configs::all(self).await
    }

    async fn change_resource_configs(
        &self,
        changes: Vec<ResourceConfigChange>,
    ) -> Result<(), StoreFailure> {
        retried(|| resource_configs::change(self, &changes)).await
    }

    async fn get_kv(&self, name: &str) -> Result<Option<Vec<u8>>, StoreFailure> {
        let value = sqlx::query_scalar("SELECT value FROM kv WHERE name = $1")
            .bind(name)
            .fetch_optional(&self.pool);
        Ok(value.await?)
    }

    async fn put_kv(&self, name: &str, value: &[u8]) -> Result<(), StoreFailure> {
        sqlx::query(
            "INSERT INTO kv (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(name)
        .bind(value)
        .execute(&self.pool)
        .await?;
        Ok(())
    }
}

#[async_trait]
impl ClusterStore for PostgresMeta {
    async fn join(&self, joining: &Joining) -> Result<NodeEpoch, JoinError> {
        retried(|| brokers::join(self, joining)).await
    }

    async fn renew_lease(&self, node_epoch: NodeEpoch) -> Result<(), ClusterError> {
        retried(|| brokers::renew(self, node_epoch)).await
    }

    async fn fence_expired(&self, judge: NodeEpoch) -> Result<Vec<FencedBroker>, ClusterError> {
        retried(|| brokers::fence_expired(self, judge)).await
    }

    async fn adopt_log(&self, node: NodeId, adopter: NodeEpoch) -> Result<Adoption, ClusterError> {
        retried(|| brokers::adopt(self, node, adopter)).await
    }

    async fn leave(&self, node_epoch: NodeEpoch) -> Result<(), ClusterError> {
        retried(|| brokers::leave(self, node_epoch)).await
    }

    async fn begin_drain(&self, node_epoch: NodeEpoch) -> Result<(), ClusterError> {
        retried(|| brokers::begin_drain(self, node_epoch)).await
    }

    async fn brokers(&self) -> Result<Vec<Broker>, StoreFailure> {
        brokers::list(self).await
    }

    async fn release_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<(), ClusterError> {
        retried(|| ownership::release(self, streams, node_epoch)).await
    }

    async fn hand_over(
        &self,
        moves: &[Move],
        from: NodeEpoch,
    ) -> Result<Vec<TopicPartition>, ClusterError> {
        retried(|| ownership::hand_over(self, moves, from)).await
    }

    async fn plan_moves(&self, moves: &[Move], preferred: Preferred) -> Result<(), ClusterError> {
        retried(|| leaders::plan_moves(self, moves, preferred)).await
    }

    async fn cancel_moves(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<TopicPartition>, ClusterError> {
        retried(|| leaders::cancel_moves(self, partitions)).await
    }

    async fn report_load(
        &self,
        node_epoch: NodeEpoch,
        load: &BrokerLoad,
    ) -> Result<(), ClusterError> {
        loads::report(self, node_epoch, load).await
    }

    async fn loads(&self, age_max: Duration) -> Result<BTreeMap<NodeId, BrokerLoad>, StoreFailure> {
        loads::newest(self, age_max).await
    }

    async fn events(&self, limit: usize) -> Result<Vec<ClusterEvent>, StoreFailure> {
        events::newest(self, limit).await
    }

    async fn broker_secret(&self) -> Result<Option<String>, StoreFailure> {
        brokers::secret(self).await
    }

    async fn never_created(&self, streams: &[StreamId]) -> Result<Vec<StreamId>, StoreFailure> {
        streams::never_created(self, streams).await
    }

    async fn committed_range(&self, stream: StreamId) -> Result<Option<StreamRange>, StoreFailure> {
        streams::committed_range(self, stream).await
    }

    async fn cluster_revision(&self) -> Result<u64, StoreFailure> {
        feed::revision(self).await
    }

    async fn changes_since(&self, revision: u64) -> Result<Changes, StoreFailure> {
        feed::changes(self, revision).await
    }
}
