//! Metadata that answers where the blocks of a stream are, and is asked nothing else.

use std::{collections::BTreeMap, fmt::Debug, ops::Range};

use async_trait::async_trait;
use millrace_meta::{
    AclRow, CommitError, Compaction, CompactionError, CreatePartitionsError, CreateTopicError,
    DelegationTokenChange, DelegationTokenRow, MetaStore, NewTopic, ObjectContents, ObjectRange,
    OpenStreamError, QuotaChange, QuotaRow, ReserveError, ResourceConfigChange, ResourceConfigRow,
    ScramChange, ScramRow, StoreFailure, StreamMeta, StreamSetSummary, StreamSummary, SweepError,
    Topic, TopicError, TrimError, Upload,
};
use millrace_model::{NodeEpoch, NodeId, ObjectId, Offset, StreamId, TopicName};

/// What the test says of a stream's objects.
pub(crate) trait Objects: Debug + Send + Sync + 'static {
    /// See [`MetaStore::objects_of`].
    fn objects_of(&self, stream: StreamId, from: Offset, limit: usize) -> Vec<ObjectRange>;
}

/// A metadata store over them.
#[derive(Debug)]
pub(crate) struct FakeMeta<O>(pub(crate) O);

#[async_trait]
impl<O: Objects> MetaStore for FakeMeta<O> {
    async fn objects_of(
        &self,
        stream: StreamId,
        from: Offset,
        limit: usize,
    ) -> Result<Vec<ObjectRange>, StoreFailure> {
        Ok(self.0.objects_of(stream, from, limit))
    }

    async fn cluster_id(&self, _: &str) -> Result<String, StoreFailure> {
        panic!("not asked")
    }
    async fn register_node(&self, _: NodeId) -> Result<NodeEpoch, StoreFailure> {
        panic!("not asked")
    }
    async fn create_topic(&self, _: NewTopic) -> Result<Topic, CreateTopicError> {
        panic!("not asked")
    }
    async fn create_partitions(
        &self,
        _: &TopicName,
        _: u32,
    ) -> Result<Topic, CreatePartitionsError> {
        panic!("not asked")
    }
    async fn delete_topic(&self, _: &TopicName) -> Result<Topic, TopicError> {
        panic!("not asked")
    }
    async fn set_topic_configs(
        &self,
        _: &TopicName,
        _: BTreeMap<String, String>,
    ) -> Result<Topic, TopicError> {
        panic!("not asked")
    }
    async fn topics(&self) -> Result<Vec<Topic>, StoreFailure> {
        panic!("not asked")
    }
    async fn open_streams(
        &self,
        _: &[StreamId],
        _: NodeEpoch,
    ) -> Result<Vec<StreamMeta>, OpenStreamError> {
        panic!("not asked")
    }
    async fn reserve_objects(&self, _: NodeEpoch, _: u32) -> Result<ObjectId, ReserveError> {
        panic!("not asked")
    }
    async fn commit_upload(&self, _: Upload) -> Result<(), CommitError> {
        panic!("not asked")
    }
    async fn release_objects(&self, _: NodeEpoch, _: &[ObjectId]) -> Result<(), ReserveError> {
        panic!("not asked")
    }
    async fn stream_sets(
        &self,
        _: Option<ObjectId>,
        _: usize,
    ) -> Result<Vec<StreamSetSummary>, StoreFailure> {
        panic!("not asked")
    }
    async fn stream_summaries(
        &self,
        _: Option<StreamId>,
        _: usize,
    ) -> Result<Vec<StreamSummary>, StoreFailure> {
        panic!("not asked")
    }
    async fn object_contents(&self, _: ObjectId) -> Result<Option<ObjectContents>, StoreFailure> {
        panic!("not asked")
    }
    async fn commit_compaction(&self, _: Compaction) -> Result<(), CompactionError> {
        panic!("not asked")
    }
    async fn trim_stream(&self, _: StreamId, _: NodeEpoch, _: Offset) -> Result<Offset, TrimError> {
        panic!("not asked")
    }
    async fn retired_objects(&self, _: NodeEpoch, _: usize) -> Result<Vec<ObjectId>, SweepError> {
        panic!("not asked")
    }
    async fn mark_deleted(&self, _: NodeEpoch, _: &[ObjectId]) -> Result<(), SweepError> {
        panic!("not asked")
    }
    async fn allocate_producer_ids(&self, _: u32) -> Result<Range<i64>, StoreFailure> {
        panic!("not asked")
    }
    async fn scram_credentials(&self) -> Result<Vec<ScramRow>, StoreFailure> {
        panic!("not asked")
    }

    async fn change_scram_credentials(&self, _: Vec<ScramChange>) -> Result<(), StoreFailure> {
        panic!("not asked")
    }

    async fn client_quotas(&self) -> Result<Vec<QuotaRow>, StoreFailure> {
        panic!("not asked")
    }

    async fn change_client_quotas(&self, _: Vec<QuotaChange>) -> Result<(), StoreFailure> {
        panic!("not asked")
    }

    async fn acls(&self) -> Result<Vec<AclRow>, StoreFailure> {
        panic!("not asked")
    }

    async fn change_acls(&self, _: Vec<AclRow>, _: Vec<AclRow>) -> Result<(), StoreFailure> {
        panic!("not asked")
    }

    async fn delegation_tokens(&self) -> Result<Vec<DelegationTokenRow>, StoreFailure> {
        panic!("not asked")
    }

    async fn change_delegation_tokens(
        &self,
        _: Vec<DelegationTokenChange>,
    ) -> Result<(), StoreFailure> {
        panic!("not asked")
    }

    async fn resource_configs(&self) -> Result<Vec<ResourceConfigRow>, StoreFailure> {
        panic!("not asked")
    }

    async fn change_resource_configs(
        &self,
        _: Vec<ResourceConfigChange>,
    ) -> Result<(), StoreFailure> {
        panic!("not asked")
    }

    async fn get_kv(&self, _: &str) -> Result<Option<Vec<u8>>, StoreFailure> {
        panic!("not asked")
    }
    async fn put_kv(&self, _: &str, _: &[u8]) -> Result<(), StoreFailure> {
        panic!("not asked")
    }
}
