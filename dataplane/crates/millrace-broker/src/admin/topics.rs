//! `/v1/topics`: listed and described from what the broker serves now; changed by Kafka's APIs as the control
//! plane.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, Query, Request, State, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use millrace_log::{Partition, Topic};
use millrace_model::{NodeId, TopicName};
use millrace_wire::{
    StrBytes,
    error_code::ErrorCode,
    messages::{
        CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
        IncrementalAlterConfigsRequest, TopicName as WireTopic,
        create_partitions_request::CreatePartitionsTopic,
        create_topics_request::{CreatableTopic, CreatableTopicConfig},
        delete_topics_request::DeleteTopicState,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::DescribeConfigsResourceResult,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
};
use serde::{Deserialize, Serialize};

use super::{
    AdminState,
    kafka::{Refused, ask, body, check},
};

/// Topics of one page, and how many there are if nobody asks for a number: with its settings, a topic takes
/// about 4 KiB.
const PAGE_TOPICS_MAX: usize = 1_000;
/// A page ends with the topic that brings it to so many described partitions, of about 150 bytes each. One topic
/// has at most [`millrace_model::limits::TOPIC_PARTITIONS_MAX`].
const PAGE_PARTITIONS_MAX: usize = 10_000;

/// Kafka's numbers: the resource, and what becomes of a setting.
const TOPIC: i8 = 2;
const SET: i8 = 0;
const DELETE: i8 = 1;
/// What CreateTopics takes for a number that the broker chooses.
const BROKER_DEFAULT: i16 = -1;
/// There is one copy of each record beside the bucket's.
const REPLICATION_FACTOR: i16 = 1;
/// What Kafka's requests carry; the broker carries changes out however long they take.
const CHANGE_TIMEOUT_MS: i32 = 30_000;

/// Which topics, and how much of each.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only topics whose names come after this one.
    after: Option<String>,
    limit: Option<usize>,
    /// Also topics whose names begin with two underscores: those of the broker and the control plane.
    #[serde(default)]
    internal: bool,
    #[serde(default)]
    include: String,
}

/// How much of a topic.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DescribeQuery {
    #[serde(default)]
    include: String,
}

/// What is told of a topic besides its numbers.
#[derive(Clone, Copy)]
struct Include {
    configs: bool,
    partitions: bool,
}

impl Include {
    fn parse(text: &str) -> Result<Self, Refused> {
        let mut include = Self {
            configs: false,
            partitions: false,
        };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part {
                "configs" => include.configs = true,
                "partitions" => include.partitions = true,
                _ => {
                    let message = format!("include is configs, partitions or both, not {part:?}");
                    return Err(Refused::invalid(message));
                }
            }
        }
        Ok(include)
    }
}

#[derive(Serialize)]
struct TopicPage {
    topics: Vec<TopicAnswer>,
    /// The name to go on `after`; none on the last page.
    next: Option<String>,
}

#[derive(Serialize)]
struct TopicAnswer {
    name: String,
    topic_id: String,
    partition_count: usize,
    replication_factor: i16,
    /// How many of them are offline.
    offline_partition_count: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Vec<PartitionAnswer>>,
    /// By name.
    #[serde(skip_serializing_if = "Option::is_none")]
    configs: Option<BTreeMap<String, ConfigAnswer>>,
}

#[derive(Serialize)]
struct PartitionAnswer {
    partition: usize,
    /// The node that leads it; none where nobody does.
    leader: Option<u32>,
    leader_epoch: i32,
    /// Why it is offline, where it is.
    offline: Option<String>,
    /// The first record's offset, and one past that of the last one that clients can see; decimal. Only the leader knows them:
    /// none in the answers of the other brokers.
    start_offset: Option<String>,
    end_offset: Option<String>,
}

#[derive(Serialize)]
struct ConfigAnswer {
    /// None where it is secret.
    value: Option<String>,
    /// Where the value comes from, by Kafka's names.
    source: &'static str,
    read_only: bool,
    sensitive: bool,
}

/// `GET /v1/topics`: in order of their names.
pub(super) async fn list(
    State(state): State<AdminState>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, Refused> {
    let query = query?.0;
    let include = Include::parse(&query.include)?;
    let limit = query.limit.unwrap_or(PAGE_TOPICS_MAX);
    if limit == 0 || limit > PAGE_TOPICS_MAX {
        let message = format!("limit is a number from 1 to {PAGE_TOPICS_MAX}");
        return Err(Refused::invalid(message));
    }
    let mut topics = state
        .broker
        .serving()
        .ok_or(Refused::Starting)?
        .logs
        .topics();
    topics.retain(|topic| {
        let name = topic.name.as_str();
        let is_after = query.after.as_deref().is_none_or(|after| name > after);
        is_after && (query.internal || !name.starts_with("__"))
    });
    topics.sort_unstable_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
    let (mut page, mut described, mut rest) = (Vec::new(), 0, topics.into_iter());
    while page.len() < limit && (!include.partitions || described < PAGE_PARTITIONS_MAX) {
        let Some(topic) = rest.next() else { break };
        described += topic.partitions.len();
        page.push(topic);
    }
    let last = page.last().map(|topic| topic.name.as_str().to_owned());
    let next = rest.next().and(last);
    let topics = answers(&state, &page, include).await?;
    Ok(Json(TopicPage { topics, next }).into_response())
}

/// `GET /v1/topics/{topic}`
pub(super) async fn describe(
    State(state): State<AdminState>,
    Path(name): Path<String>,
    query: Result<Query<DescribeQuery>, QueryRejection>,
) -> Result<Response, Refused> {
    let include = Include::parse(&query?.include)?;
    let logs = &state.broker.serving().ok_or(Refused::Starting)?.logs;
    let topic = TopicName::new(&name).ok();
    let topic = topic.and_then(|name| logs.topic(&name));
    let topic = topic.ok_or_else(|| not_found(&name))?;
    let mut described = answers(&state, &[topic], include).await?;
    let topic = described.pop().ok_or_else(|| not_found(&name))?;
    Ok(Json(topic).into_response())
}

/// A topic that is to be created.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTopic {
    name: String,
    /// The broker's defaults where these are absent.
    partitions: Option<i32>,
    replication_factor: Option<i16>,
    #[serde(default)]
    configs: BTreeMap<String, String>,
    /// Checks the topic and creates none.
    #[serde(default)]
    validate_only: bool,
}

#[derive(Serialize)]
struct CreatedTopic {
    name: String,
    /// None where nothing was created.
    topic_id: Option<String>,
    partition_count: i32,
    replication_factor: i16,
}

/// `POST /v1/topics`: 201 once the topic is served, 200 where it was only checked.
pub(super) async fn create(
    State(state): State<AdminState>,
    request: Request,
) -> Result<Response, Refused> {
    let new: NewTopic = body(request).await?;
    let config = |(name, value): (String, String)| {
        let config = CreatableTopicConfig::default().with_name(text(name));
        config.with_value(Some(text(value)))
    };
    let topic = CreatableTopic::default()
        .with_name(wire_name(&new.name))
        .with_num_partitions(new.partitions.unwrap_or(BROKER_DEFAULT.into()))
        .with_replication_factor(new.replication_factor.unwrap_or(BROKER_DEFAULT))
        .with_configs(new.configs.into_iter().map(config).collect());
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(CHANGE_TIMEOUT_MS)
        .with_validate_only(new.validate_only);
    let results = ask(&state, &request).await?.topics;
    let created = results.into_iter().next().ok_or_else(unanswered)?;
    check(created.error_code, created.error_message.as_ref())?;
    let status = match new.validate_only {
        true => StatusCode::OK,
        false => StatusCode::CREATED,
    };
    let answer = CreatedTopic {
        name: new.name,
        topic_id: (!new.validate_only).then(|| created.topic_id.to_string()),
        partition_count: created.num_partitions,
        replication_factor: created.replication_factor,
    };
    Ok((status, Json(answer)).into_response())
}

/// `DELETE /v1/topics/{topic}`: with all its records.
pub(super) async fn delete(
    State(state): State<AdminState>,
    Path(name): Path<String>,
) -> Result<StatusCode, Refused> {
    let topic = DeleteTopicState::default().with_name(Some(wire_name(&name)));
    let request = DeleteTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(CHANGE_TIMEOUT_MS);
    for deleted in ask(&state, &request).await?.responses {
        check_topic(&name, deleted.error_code, deleted.error_message.as_ref())?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// What is to become of a topic.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    /// Settings by name.
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// Names of settings that are to have their defaults again.
    #[serde(default)]
    unset: Vec<String>,
    /// How many there are to be in all.
    partitions: Option<i32>,
    /// Checks the change and makes none.
    #[serde(default)]
    validate_only: bool,
}

/// `PATCH /v1/topics/{topic}`: settings as by IncrementalAlterConfigs, then partitions as by CreatePartitions.
/// Both are checked before either is changed.
pub(super) async fn change(
    State(state): State<AdminState>,
    Path(name): Path<String>,
    request: Request,
) -> Result<StatusCode, Refused> {
    let change: Change = body(request).await?;
    let configs = configs_of(change.set, change.unset);
    if configs.is_empty() && change.partitions.is_none() {
        return Err(Refused::invalid(
            "name something to change in set, unset or partitions",
        ));
    }
    let steps: &[bool] = match change.validate_only {
        true => &[true],
        false => &[true, false],
    };
    for &validate_only in steps {
        if !configs.is_empty() {
            alter(&state, &name, configs.clone(), validate_only).await?;
        }
        if let Some(total) = change.partitions {
            grow(&state, &name, total, validate_only).await?;
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

fn configs_of(set: BTreeMap<String, String>, unset: Vec<String>) -> Vec<AlterableConfig> {
    let named = |name: String| AlterableConfig::default().with_name(text(name));
    let set = set.into_iter().map(|(name, value)| {
        let config = named(name).with_config_operation(SET);
        config.with_value(Some(text(value)))
    });
    let unset = unset.into_iter().map(|name| {
        let config = named(name).with_config_operation(DELETE);
        config.with_value(None)
    });
    set.chain(unset).collect()
}

async fn alter(
    state: &AdminState,
    name: &str,
    configs: Vec<AlterableConfig>,
    validate_only: bool,
) -> Result<(), Refused> {
    let topic = AlterConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(name.to_owned()))
        .with_configs(configs);
    let request = IncrementalAlterConfigsRequest::default()
        .with_resources(vec![topic])
        .with_validate_only(validate_only);
    for changed in ask(state, &request).await?.responses {
        check_topic(name, changed.error_code, changed.error_message.as_ref())?;
    }
    Ok(())
}

async fn grow(
    state: &AdminState,
    name: &str,
    total: i32,
    validate_only: bool,
) -> Result<(), Refused> {
    let topic = CreatePartitionsTopic::default()
        .with_name(wire_name(name))
        .with_count(total)
        .with_assignments(None);
    let request = CreatePartitionsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(CHANGE_TIMEOUT_MS)
        .with_validate_only(validate_only);
    for grown in ask(state, &request).await?.results {
        check_topic(name, grown.error_code, grown.error_message.as_ref())?;
    }
    Ok(())
}

/// What is told of these topics. One that is deleted meanwhile is left out where its settings are asked for.
async fn answers(
    state: &AdminState,
    topics: &[Arc<Topic>],
    include: Include,
) -> Result<Vec<TopicAnswer>, Refused> {
    let node = state.broker.node_id().get();
    let answer = |topic: &Arc<Topic>| answer_of(topic, node, include.partitions);
    if !include.configs {
        return Ok(topics.iter().map(answer).collect());
    }
    let mut configs = configs_by_topic(state, topics).await?;
    let with_configs = |topic: &Arc<Topic>| {
        let configs = configs.remove(topic.name.as_str())?;
        Some(TopicAnswer {
            configs: Some(configs),
            ..answer(topic)
        })
    };
    Ok(topics.iter().filter_map(with_configs).collect())
}

fn answer_of(topic: &Topic, node: u32, with_partitions: bool) -> TopicAnswer {
    let offline = topic.logs().filter(|log| log.offline().is_some()).count();
    let partitions = with_partitions.then(|| {
        let partitions = topic.partitions.iter().enumerate();
        partitions
            .map(|(index, partition)| partition_answer(index, partition, node))
            .collect()
    });
    TopicAnswer {
        name: topic.name.as_str().to_owned(),
        topic_id: topic.id.to_string(),
        partition_count: topic.partitions.len(),
        replication_factor: REPLICATION_FACTOR,
        offline_partition_count: offline,
        partitions,
        configs: None,
    }
}

fn partition_answer(index: usize, partition: &Partition, node: u32) -> PartitionAnswer {
    let leader = partition.leader();
    let log = partition.log();
    let known = leader.map_or(0, |leader| i32::try_from(leader.epoch).unwrap_or(i32::MAX));
    PartitionAnswer {
        partition: index,
        leader: match leader {
            Some(leader) => leader.node.map(NodeId::get),
            None => Some(node),
        },
        leader_epoch: log.map_or(known, |log| log.leader_epoch()),
        offline: log
            .and_then(|log| log.offline())
            .map(|cause| cause.to_string()),
        start_offset: log.map(|log| log.start_offset().to_string()),
        end_offset: log.map(|log| log.high_watermark().to_string()),
    }
}

/// Every setting of these topics, those with their default included.
async fn configs_by_topic(
    state: &AdminState,
    topics: &[Arc<Topic>],
) -> Result<BTreeMap<String, BTreeMap<String, ConfigAnswer>>, Refused> {
    let resource = |topic: &Arc<Topic>| {
        DescribeConfigsResource::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text(topic.name.as_str().to_owned()))
            .with_configuration_keys(None)
    };
    let resources = topics.iter().map(resource).collect();
    let request = DescribeConfigsRequest::default().with_resources(resources);
    let mut by_topic = BTreeMap::new();
    for described in ask(state, &request).await?.results {
        if described.error_code == ErrorCode::UnknownTopicOrPartition.code() {
            continue;
        }
        check(described.error_code, described.error_message.as_ref())?;
        let configs = described.configs.into_iter().map(config_of).collect();
        by_topic.insert(described.resource_name.to_string(), configs);
    }
    Ok(by_topic)
}

fn config_of(config: DescribeConfigsResourceResult) -> (String, ConfigAnswer) {
    let source = match config.config_source {
        1 => "DYNAMIC_TOPIC_CONFIG",
        2 => "DYNAMIC_BROKER_CONFIG",
        3 => "DYNAMIC_DEFAULT_BROKER_CONFIG",
        4 => "STATIC_BROKER_CONFIG",
        _ => "DEFAULT_CONFIG",
    };
    let answer = ConfigAnswer {
        value: config.value.map(|value| value.to_string()),
        source,
        read_only: config.read_only,
        sensitive: config.is_sensitive,
    };
    (config.name.to_string(), answer)
}

fn not_found(name: &str) -> Refused {
    let message = format!("there is no topic {name}");
    Refused::Kafka(ErrorCode::UnknownTopicOrPartition, message)
}

/// [`check`] of a part of a response that is about this topic.
fn check_topic(name: &str, code: i16, message: Option<&StrBytes>) -> Result<(), Refused> {
    match code == ErrorCode::UnknownTopicOrPartition.code() {
        true => Err(not_found(name)),
        false => check(code, message),
    }
}

fn unanswered() -> Refused {
    let message = "the response does not mention the topic".to_owned();
    Refused::Kafka(ErrorCode::UnknownServerError, message)
}

fn wire_name(name: &str) -> WireTopic {
    WireTopic(text(name.to_owned()))
}

fn text(text: String) -> StrBytes {
    StrBytes::from_string(text)
}
