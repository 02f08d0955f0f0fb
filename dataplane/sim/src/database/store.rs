//! The contracts that brokers know the database by.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use async_trait::async_trait;
use millrace_meta::{
    AclRow, Adoption, Broker, BrokerLoad, Changes, ClusterError, ClusterEvent, ClusterStore,
    CommitError, Compaction, CompactionError, CreatePartitionsError, CreateTopicError,
    DelegationTokenChange, DelegationTokenRow, FencedBroker, JoinError, Joining, MetaStore, Move,
    NewTopic, ObjectContents, ObjectRange, OpenStreamError, Preferred, QuotaChange, QuotaRow,
    ReserveError, ResourceConfigChange, ResourceConfigRow, ScramChange, ScramRow, StoreFailure,
    StreamMeta, StreamSetSummary, StreamSummary, SweepError, Topic, TopicError, TrimError, Upload,
};
use millrace_model::{
    NodeEpoch, NodeId, ObjectId, Offset, StreamId, StreamRange, TopicName, TopicPartition,
};

use super::{Connection, RENEWAL, failed};

/// What the simulation has no need of.
fn left_out<T, E: From<StoreFailure>>() -> Result<T, E> {
    Err(failed("does not simulate this").into())
}

#[async_trait]
impl MetaStore for Connection {
    async fn cluster_id(&self, default: &str) -> Result<String, StoreFailure> {
        let default = default.to_owned();
        self.commit("cluster id", |tables, _| {
            Ok(tables.cluster_id.get_or_insert(default).clone())
        })
        .await
    }

    async fn register_node(&self, _node: NodeId) -> Result<NodeEpoch, StoreFailure> {
        left_out()
    }

    async fn create_topic(&self, topic: NewTopic) -> Result<Topic, CreateTopicError> {
        self.commit("create topic", |tables, _| tables.create_topic(topic))
            .await
    }

    async fn create_partitions(
        &self,
        _name: &TopicName,
        _total: u32,
    ) -> Result<Topic, CreatePartitionsError> {
        left_out()
    }

    async fn delete_topic(&self, _name: &TopicName) -> Result<Topic, TopicError> {
        left_out()
    }

    async fn set_topic_configs(
        &self,
        _name: &TopicName,
        _configs: BTreeMap<String, String>,
    ) -> Result<Topic, TopicError> {
        left_out()
    }

    async fn topics(&self) -> Result<Vec<Topic>, StoreFailure> {
        self.read(|tables| {
            let led = tables.topics.values();
            led.map(|led| led.topic.clone()).collect()
        })
        .await
    }

    async fn open_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<Vec<StreamMeta>, OpenStreamError> {
        self.commit("open streams", |tables, _| {
            tables.open(streams, node_epoch, true)
        })
        .await
    }

    async fn reopen_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<Vec<StreamMeta>, OpenStreamError> {
        self.commit("reopen streams", |tables, _| {
            tables.open(streams, node_epoch, false)
        })
        .await
    }

    async fn reserve_objects(
        &self,
        node_epoch: NodeEpoch,
        count: u32,
    ) -> Result<ObjectId, ReserveError> {
        self.commit("reserve objects", |tables, _| {
            tables.node_of(node_epoch)?;
            Ok(tables.objects.reserve(node_epoch, count))
        })
        .await
    }

    async fn commit_upload(&self, upload: Upload) -> Result<(), CommitError> {
        self.commit("commit upload", |tables, _| tables.commit_upload(upload))
            .await
    }

    async fn objects_of(
        &self,
        stream: StreamId,
        from: Offset,
        limit: usize,
    ) -> Result<Vec<ObjectRange>, StoreFailure> {
        self.read(|tables| {
            let Some(known) = tables.streams.get(&stream) else {
                return Vec::new();
            };
            tables.objects.of(stream, from.max(known.start), limit)
        })
        .await
    }

    async fn trim_stream(
        &self,
        stream: StreamId,
        node_epoch: NodeEpoch,
        new_start: Offset,
    ) -> Result<Offset, TrimError> {
        self.commit("trim stream", |tables, _| {
            tables.node_of(node_epoch)?;
            let known = tables.streams.get_mut(&stream);
            let known = known.ok_or(TrimError::Unknown(stream))?;
            if known.owner != Some(node_epoch) {
                return Err(TrimError::NotOwner(stream));
            }
            known.start = known.start.max(new_start);
            let start = known.start;
            tables.retire_unreadable();
            Ok(start)
        })
        .await
    }

    async fn release_objects(
        &self,
        node_epoch: NodeEpoch,
        objects: &[ObjectId],
    ) -> Result<(), ReserveError> {
        self.commit("release objects", |tables, _| {
            tables.node_of(node_epoch)?;
            tables.objects.release(node_epoch, objects);
            Ok(())
        })
        .await
    }

    async fn stream_sets(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<StreamSetSummary>, StoreFailure> {
        self.read(|tables| tables.objects.stream_sets(after, limit))
            .await
    }

    async fn stream_summaries(
        &self,
        after: Option<StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamSummary>, StoreFailure> {
        self.read(|tables| {
            let behind = tables
                .streams
                .iter()
                .filter(|(id, _)| after.is_none_or(|after| **id > after));
            let summary = |(&stream, known): (&StreamId, &super::tables::Stream)| StreamSummary {
                stream,
                start: known.start,
                stream_objects: tables.objects.stream_objects_of(stream),
            };
            behind.map(summary).take(limit).collect()
        })
        .await
    }

    async fn object_contents(
        &self,
        object: ObjectId,
    ) -> Result<Option<ObjectContents>, StoreFailure> {
        self.read(|tables| tables.contents(object)).await
    }

    async fn commit_compaction(&self, compaction: Compaction) -> Result<(), CompactionError> {
        self.commit("commit compaction", |tables, _| {
            tables.commit_compaction(compaction)
        })
        .await
    }

    async fn retired_objects(
        &self,
        node_epoch: NodeEpoch,
        limit: usize,
    ) -> Result<Vec<ObjectId>, SweepError> {
        let now = self.seams().clock.now();
        self.read(|tables| {
            tables.node_of(node_epoch)?;
            Ok(tables.objects.retired(now, limit))
        })
        .await?
    }

    async fn mark_deleted(
        &self,
        node_epoch: NodeEpoch,
        objects: &[ObjectId],
    ) -> Result<(), SweepError> {
        self.commit("mark deleted", |tables, _| {
            tables.node_of(node_epoch)?;
            tables.objects.forget(objects);
            Ok(())
        })
        .await
    }

    async fn allocate_producer_ids(&self, block: u32) -> Result<Range<i64>, StoreFailure> {
        self.commit("producer ids", |tables, _| Ok(tables.take_producers(block)))
            .await
    }

    async fn scram_credentials(&self) -> Result<Vec<ScramRow>, StoreFailure> {
        left_out()
    }

    async fn change_scram_credentials(&self, _: Vec<ScramChange>) -> Result<(), StoreFailure> {
        left_out()
    }

    async fn client_quotas(&self) -> Result<Vec<QuotaRow>, StoreFailure> {
        left_out()
    }

    async fn change_client_quotas(&self, _: Vec<QuotaChange>) -> Result<(), StoreFailure> {
        left_out()
    }

    async fn acls(&self) -> Result<Vec<AclRow>, StoreFailure> {
        left_out()
    }

    async fn change_acls(&self, _: Vec<AclRow>, _: Vec<AclRow>) -> Result<(), StoreFailure> {
        left_out()
    }

    async fn delegation_tokens(&self) -> Result<Vec<DelegationTokenRow>, StoreFailure> {
        left_out()
    }

    async fn change_delegation_tokens(
        &self,
        _: Vec<DelegationTokenChange>,
    ) -> Result<(), StoreFailure> {
        left_out()
    }

    async fn resource_configs(&self) -> Result<Vec<ResourceConfigRow>, StoreFailure> {
        left_out()
    }

    async fn change_resource_configs(
        &self,
        _: Vec<ResourceConfigChange>,
    ) -> Result<(), StoreFailure> {
        left_out()
    }

    async fn get_kv(&self, name: &str) -> Result<Option<Vec<u8>>, StoreFailure> {
        self.read(|tables| tables.values.get(name).cloned()).await
    }

    async fn put_kv(&self, name: &str, value: &[u8]) -> Result<(), StoreFailure> {
        self.commit("put value", |tables, _| {
            tables.values.insert(name.to_owned(), value.to_vec());
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl ClusterStore for Connection {
    async fn join(&self, joining: &Joining) -> Result<NodeEpoch, JoinError> {
        self.commit("join", |tables, now| tables.join(joining, now))
            .await
    }

    async fn renew_lease(&self, node_epoch: NodeEpoch) -> Result<(), ClusterError> {
        self.commit(RENEWAL, |tables, now| tables.renew(node_epoch, now))
            .await
    }

    async fn fence_expired(&self, judge: NodeEpoch) -> Result<Vec<FencedBroker>, ClusterError> {
        self.commit("look at leases", |tables, now| {
            let fenced = tables.fence_expired(judge, now)?;
            let mut fencings = self.database.fencings.lock();
            fencings.extend(fenced.iter().map(|fenced| (fenced.node, now)));
            Ok(fenced)
        })
        .await
    }

    async fn adopt_log(&self, node: NodeId, adopter: NodeEpoch) -> Result<Adoption, ClusterError> {
        self.commit("adopt log", |tables, now| tables.adopt(node, adopter, now))
            .await
    }

    async fn leave(&self, node_epoch: NodeEpoch) -> Result<(), ClusterError> {
        self.commit("leave", |tables, _| tables.leave(node_epoch))
            .await
    }

    async fn begin_drain(&self, node_epoch: NodeEpoch) -> Result<(), ClusterError> {
        self.commit("begin drain", |tables, _| tables.begin_drain(node_epoch))
            .await
    }

    async fn brokers(&self) -> Result<Vec<Broker>, StoreFailure> {
        self.read(|tables| tables.brokers()).await
    }

    async fn release_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<(), ClusterError> {
        self.commit("release streams", |tables, _| {
            tables.release(streams, node_epoch)
        })
        .await
    }

    async fn hand_over(
        &self,
        moves: &[Move],
        from: NodeEpoch,
    ) -> Result<Vec<TopicPartition>, ClusterError> {
        self.commit("hand over", |tables, _| tables.hand_over(moves, from))
            .await
    }

    async fn report_load(
        &self,
        node_epoch: NodeEpoch,
        load: &BrokerLoad,
    ) -> Result<(), ClusterError> {
        self.commit("report load", |tables, now| {
            let node = tables.node_of(node_epoch)?;
            tables.loads.insert(node, (now, load.clone()));
            Ok(())
        })
        .await
    }

    async fn loads(&self, age_max: Duration) -> Result<BTreeMap<NodeId, BrokerLoad>, StoreFailure> {
        let now = self.seams().clock.now();
        self.read(|tables| {
            let newest = tables.loads.iter();
            let newest = newest.filter(|(_, (at, _))| now.saturating_sub(*at) <= age_max);
            newest
                .map(|(&node, (_, load))| (node, load.clone()))
                .collect()
        })
        .await
    }

    async fn cancel_moves(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<TopicPartition>, ClusterError> {
        self.commit("cancel moves", |tables, _| {
            Ok(tables.cancel_moves(partitions))
        })
        .await
    }

    async fn plan_moves(&self, moves: &[Move], preferred: Preferred) -> Result<(), ClusterError> {
        self.commit("plan moves", |tables, _| {
            tables.plan_moves(moves, preferred)
        })
        .await
    }

    async fn broker_secret(&self) -> Result<Option<String>, StoreFailure> {
        Ok(None)
    }

    async fn events(&self, _limit: usize) -> Result<Vec<ClusterEvent>, StoreFailure> {
        Ok(Vec::new())
    }

    async fn never_created(&self, streams: &[StreamId]) -> Result<Vec<StreamId>, StoreFailure> {
        self.read(|tables| {
            let next = tables.next_stream();
            let mut unknown: Vec<StreamId> = streams.to_vec();
            unknown.retain(|stream| stream.get() >= next);
            unknown.sort_unstable();
            unknown
        })
        .await
    }

    async fn committed_range(&self, stream: StreamId) -> Result<Option<StreamRange>, StoreFailure> {
        self.read(|tables| {
            let known = tables.streams.get(&stream)?;
            let (start, end) = (known.start, known.end);
            Some(StreamRange { stream, start, end })
        })
        .await
    }

    async fn cluster_revision(&self) -> Result<u64, StoreFailure> {
        self.read(|tables| tables.revision()).await
    }

    async fn changes_since(&self, revision: u64) -> Result<Changes, StoreFailure> {
        self.read(|tables| tables.changes_since(revision)).await
    }
}
