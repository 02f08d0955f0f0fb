//! Topics, and the cluster as a whole.

use std::{collections::BTreeMap, sync::Arc};

use millrace_model::TopicId;
use millrace_wire::messages::{
    BrokerId, CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest,
    DescribeClusterRequest, MetadataRequest,
    create_partitions_request::CreatePartitionsTopic,
    create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig},
    delete_topics_request::DeleteTopicState,
};

use super::{Admin, Results, text, whole};
use crate::{
    client::{Broker, TopicMetadata},
    error::{BrokerError, ErrorCode, RequestError},
    topic_partition::topic_name,
    transport::BrokerAddress,
};

/// Partition count and replication factor that leave the choice to the broker.
const BROKER_DEFAULT: i16 = -1;
/// Since this version the broker has a choice.
const BROKER_DEFAULT_FROM: i16 = 4;
/// Since this version topics are deleted by name or id.
const DELETE_STATES_FROM: i16 = 6;
/// Before this version no topic list, and since it an absent one, means all topics.
const METADATA_ALL_FROM: i16 = 1;

/// A topic to create.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; the broker's default where none is given.
    pub partitions: Option<i32>,
    /// How many replicas each has; the broker's default where none is given.
    pub replication_factor: Option<i16>,
    /// The replicas of each partition, instead of the two numbers.
    pub assignments: BTreeMap<i32, Vec<i32>>,
    /// Its configuration.
    pub configs: BTreeMap<String, String>,
}

impl NewTopic {
    /// A topic with the broker's defaults.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            partitions: None,
            replication_factor: None,
            assignments: BTreeMap::new(),
            configs: BTreeMap::new(),
        }
    }

    /// Sets the number of partitions.
    #[must_use]
    pub fn partitions(mut self, partitions: i32) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Sets the number of replicas.
    #[must_use]
    pub fn replication_factor(mut self, replicas: i16) -> Self {
        self.replication_factor = Some(replicas);
        self
    }

    /// Sets one configuration.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.configs.insert(name.to_owned(), value.to_owned());
        self
    }

    fn creatable(&self, version: i16) -> CreatableTopic {
        let default = if version >= BROKER_DEFAULT_FROM {
            BROKER_DEFAULT
        } else {
            1
        };
        let has_assignments = !self.assignments.is_empty();
        let (partitions, replicas) = if has_assignments {
            (i32::from(BROKER_DEFAULT), BROKER_DEFAULT)
        } else {
            (
                self.partitions.unwrap_or(i32::from(default)),
                self.replication_factor.unwrap_or(default),
            )
        };
        let assignment = |(index, nodes): (&i32, &Vec<i32>)| {
            CreatableReplicaAssignment::default()
                .with_partition_index(*index)
                .with_broker_ids(nodes.iter().copied().map(BrokerId).collect())
        };
        let config = |(name, value): (&String, &String)| {
            CreatableTopicConfig::default()
                .with_name(text(name))
                .with_value(Some(text(value)))
        };
        CreatableTopic::default()
            .with_name(topic_name(&self.name))
            .with_num_partitions(partitions)
            .with_replication_factor(replicas)
            .with_assignments(self.assignments.iter().map(assignment).collect())
            .with_configs(self.configs.iter().map(config).collect())
    }
}

/// A topic of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicListing {
    /// Its name.
    pub name: Arc<str>,
    /// Its id, where the broker tells it.
    pub id: Option<TopicId>,
    /// Whether Kafka itself uses it.
    pub is_internal: bool,
    /// How many partitions it has.
    pub partitions: usize,
}

/// The cluster as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterDescription {
    /// The cluster's id.
    pub cluster_id: String,
    /// The node that admin requests go to.
    pub controller: Option<i32>,
    /// The brokers.
    pub brokers: Vec<Broker>,
}

impl Admin {
    /// Creates topics; their ids, where the broker tells them.
    ///
    /// # Errors
    /// No broker could answer.
    pub async fn create_topics(
        &self,
        topics: &[NewTopic],
    ) -> Result<Results<String, Option<TopicId>>, RequestError> {
        self.create(topics, false).await
    }

    /// Checks whether [`Self::create_topics`] would succeed, and creates nothing.
    ///
    /// # Errors
    /// No broker could answer.
    pub async fn validate_topics(
        &self,
        topics: &[NewTopic],
    ) -> Result<Results<String, Option<TopicId>>, RequestError> {
        self.create(topics, true).await
    }

    async fn create(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<Results<String, Option<TopicId>>, RequestError> {
        self.retried(|| async {
            let response = self
                .client
                .call_controller::<CreateTopicsRequest>(i16::MAX, |version| {
                    let topics = topics.iter().map(|topic| topic.creatable(version));
                    CreateTopicsRequest::default()
                        .with_topics(topics.collect())
                        .with_timeout_ms(self.timeout_ms())
                        .with_validate_only(validate_only)
                })
                .await?;
            let results = response.topics.into_iter().map(|topic| {
                let message = topic.error_message.as_deref();
                let id = Some(TopicId(topic.topic_id)).filter(|id| *id != TopicId::default());
                let result = BrokerError::check(topic.error_code, message).map(|()| id);
                (topic.name.to_string(), result)
            });
            whole(results.collect())
        })
        .await
    }

    /// Deletes topics with all their records.
    ///
    /// # Errors
    /// No broker could answer.
    pub async fn delete_topics(&self, names: &[&str]) -> Result<Results<String, ()>, RequestError> {
        self.retried(|| async {
            let response = self
                .client
                .call_controller::<DeleteTopicsRequest>(i16::MAX, |version| {
                    let request = DeleteTopicsRequest::default().with_timeout_ms(self.timeout_ms());
                    let names = names.iter().map(|name| topic_name(name));
                    if version >= DELETE_STATES_FROM {
                        let state = |name| DeleteTopicState::default().with_name(Some(name));
                        request.with_topics(names.map(state).collect())
                    } else {
                        request.with_topic_names(names.collect())
                    }
                })
                .await?;
            let results = response.responses.into_iter().map(|topic| {
                let message = topic.error_message.as_deref();
                let result = BrokerError::check(topic.error_code, message);
                (topic.name.unwrap_or_default().to_string(), result)
            });
            whole(results.collect())
        })
        .await
    }

    /// Gives topics more partitions: so many in total.
    ///
    /// # Errors
    /// No broker could answer.
    pub async fn create_partitions(
        &self,
        totals: &BTreeMap<String, i32>,
    ) -> Result<Results<String, ()>, RequestError> {
        self.retried(|| async {
            let topic = |(name, total): (&String, &i32)| {
                CreatePartitionsTopic::default()
                    .with_name(topic_name(name))
                    .with_count(*total)
                    .with_assignments(None)
            };
            let response = self
                .client
                .call_controller::<CreatePartitionsRequest>(i16::MAX, |_| {
                    CreatePartitionsRequest::default()
                        .with_topics(totals.iter().map(topic).collect())
                        .with_timeout_ms(self.timeout_ms())
                })
                .await?;
            let results = response.results.into_iter().map(|topic| {
                let message = topic.error_message.as_deref();
                let result = BrokerError::check(topic.error_code, message);
                (topic.name.to_string(), result)
            });
            whole(results.collect())
        })
        .await
    }

    /// All topics that the client may see.
    ///
    /// # Errors
    /// No broker could answer.
    pub async fn list_topics(&self) -> Result<Vec<TopicListing>, RequestError> {
        let response = self
            .client
            .call_any::<MetadataRequest>(i16::MAX, |version| {
                let topics = (version < METADATA_ALL_FROM).then(Vec::new);
                MetadataRequest::default().with_topics(topics)
            })
            .await?;
        BrokerError::check(response.error_code, None)?;
        let topics = response.topics.into_iter();
        let mut listed: Vec<_> = topics
            .filter_map(|topic| {
                Some(TopicListing {
                    name: topic.name?.as_str().into(),
                    id: Some(TopicId(topic.topic_id)).filter(|id| *id != TopicId::default()),
                    is_internal: topic.is_internal,
                    partitions: topic.partitions.len(),
                })
            })
            .collect();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(listed)
    }

    /// Partitions, leaders and replicas of topics, as a broker knows them now.
    ///
    /// # Errors
    /// No broker could answer.
    pub async fn describe_topics(
        &self,
        names: &[&str],
    ) -> Result<Results<String, Arc<TopicMetadata>>, RequestError> {
        let metadata = self.client.refresh_topics(names).await?;
        let describe = |name: &&str| {
            let topic = metadata.topic(name).cloned();
            let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            let described = match topic {
                None => Err(unknown.into()),
                Some(topic) => match topic.error {
                    None => Ok(topic),
                    Some(code) => Err(code.into()),
                },
            };
            ((*name).to_owned(), described)
        };
        Ok(names.iter().map(describe).collect())
    }

    /// The cluster's id, controller and brokers.
    ///
    /// # Errors
    /// No broker could answer.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, RequestError> {
        let response = self
            .client
            .call_any::<DescribeClusterRequest>(i16::MAX, |_| DescribeClusterRequest::default())
            .await?;
        BrokerError::check(response.error_code, response.error_message.as_deref())?;
        let brokers = response.brokers.iter().filter_map(|broker| {
            Some(Broker {
                id: broker.broker_id.0,
                address: BrokerAddress::new(&broker.host, u16::try_from(broker.port).ok()?),
                rack: broker.rack.as_deref().map(Into::into),
            })
        });
        Ok(ClusterDescription {
            cluster_id: response.cluster_id.to_string(),
            controller: Some(response.controller_id.0).filter(|id| *id >= 0),
            brokers: brokers.collect(),
        })
    }
}
