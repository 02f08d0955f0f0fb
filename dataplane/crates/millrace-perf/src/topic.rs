//! The topic of a run.

use std::time::Duration;

use millrace_client::{
    Admin, Client, Consumer, ConsumerConfig, ErrorCode, RequestError, TopicPartition,
    admin::NewTopic,
};

use crate::{
    consuming::Offsets,
    error::PerfError,
    options::{Plan, Workload},
};

/// How long a new topic may take to have leaders.
const CREATED_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// The partitions of the topic, which is created if it does not exist.
pub(crate) async fn partitions(
    client: &Client,
    plan: &Plan,
) -> Result<Vec<TopicPartition>, PerfError> {
    let name = plan.run.topic.as_str();
    let what = || format!("topic {name}");
    match count(client, name).await {
        Ok(Some(count)) => return Ok(all(name, count)),
        Ok(None) => {}
        Err(error) if error.code() != Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) => {
            return Err(PerfError::request(what())(error));
        }
        Err(error) if plan.workload == Workload::Consume => {
            return Err(PerfError::request(what())(error));
        }
        Err(_) => create(client, plan).await?,
    }
    let created = async {
        loop {
            if let Ok(Some(count)) = count(client, name).await {
                return all(name, count);
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let timed_out = |_| {
        PerfError::request(what())(RequestError::TimedOut {
            what: "electing leaders".to_owned(),
            after: CREATED_WITHIN,
        })
    };
    tokio::time::timeout(CREATED_WITHIN, created)
        .await
        .map_err(timed_out)
}

/// How many partitions there are; nothing while one has no leader.
async fn count(client: &Client, name: &str) -> Result<Option<usize>, RequestError> {
    let topic = client.topic(name).await?;
    let has_leaders = topic.partitions.iter().all(|one| one.leader.is_some());
    Ok(Some(topic.partitions.len()).filter(|count| *count > 0 && has_leaders))
}

fn all(name: &str, count: usize) -> Vec<TopicPartition> {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    (0..count)
        .map(|index| TopicPartition::new(name, index))
        .collect()
}

async fn create(client: &Client, plan: &Plan) -> Result<(), PerfError> {
    let name = &plan.run.topic;
    let what = || format!("creating topic {name}");
    let topic = NewTopic::new(name).partitions(plan.run.partitions);
    let mut results = Admin::new(client)
        .create_topics(&[topic])
        .await
        .map_err(PerfError::request(what()))?;
    match results.remove(name) {
        // Somebody else was faster.
        Some(Err(error)) if error.code == ErrorCode::TOPIC_ALREADY_EXISTS => Ok(()),
        Some(Err(error)) => Err(PerfError::broker(what())(error)),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// Where the partitions end now.
pub(crate) async fn end_offsets(
    client: &Client,
    partitions: &[TopicPartition],
) -> Result<Offsets, PerfError> {
    let consumer = Consumer::new(client, ConsumerConfig::default());
    Ok(consumer.end_offsets(partitions).await?)
}

/// Where the partitions begin now.
pub(crate) async fn beginning_offsets(
    client: &Client,
    partitions: &[TopicPartition],
) -> Result<Offsets, PerfError> {
    let consumer = Consumer::new(client, ConsumerConfig::default());
    Ok(consumer.beginning_offsets(partitions).await?)
}
