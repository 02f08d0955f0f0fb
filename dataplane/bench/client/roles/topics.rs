//! Topics: made, filled, deleted.

use std::{error::Error, time::Duration};

use millrace_client::{
    Admin, Client, ErrorCode, Producer, ProducerConfig, ProducerRecord, admin::NewTopic,
};
use millrace_time::SystemClock;
use serde_json::{Value, json};
use tokio::time::sleep;

/// The nodes of a cluster that has just started know each other by then.
const CREATE_MAX: Duration = Duration::from_secs(30);
const CREATE_POLL: Duration = Duration::from_millis(500);

/// Makes topics, whose names are separated by commas, unless they exist.
pub(super) async fn create(
    client: &Client,
    topics: &str,
    (partitions, replicas): (i32, i16),
) -> Result<Value, Box<dyn Error>> {
    let wanted = |name: &str| {
        NewTopic::new(name)
            .partitions(partitions)
            .replication_factor(replicas)
    };
    let clock = SystemClock::shared();
    for topic in topics.split(',') {
        loop {
            let mut created = Admin::new(client).create_topics(&[wanted(topic)]).await?;
            match created.remove(topic) {
                Some(Err(error)) if error.code == ErrorCode::TOPIC_ALREADY_EXISTS => break,
                Some(Err(error)) if clock.now() > CREATE_MAX => return Err(error.into()),
                Some(Err(_)) => sleep(CREATE_POLL).await,
                _ => break,
            }
        }
    }
    Ok(json!({}))
}

/// Deletes topics, whose names are separated by commas.
pub(super) async fn delete(client: &Client, topics: &str) -> Result<Value, Box<dyn Error>> {
    let topics: Vec<&str> = topics.split(',').collect();
    for result in Admin::new(client)
        .delete_topics(&topics)
        .await?
        .into_values()
    {
        result?;
    }
    Ok(json!({}))
}

/// So many records to each partition of a new topic, each partition by a producer of its own, so that
/// the bytes of each are known.
pub(super) async fn fill(
    client: &Client,
    topic: &str,
    (partitions, records, record_bytes): (i32, u64, usize),
) -> Result<Value, Box<dyn Error>> {
    let created = Admin::new(client)
        .create_topics(&[NewTopic::new(topic).partitions(partitions)])
        .await?;
    for result in created.into_values() {
        result?;
    }
    let value = vec![7; record_bytes];
    let mut bytes = Vec::new();
    for partition in 0..partitions {
        let producer = Producer::new(client, ProducerConfig::default())?;
        let record = ProducerRecord::to(topic).partition(partition).value(&value);
        let mut last = None;
        for _ in 0..records {
            last = Some(producer.send(record).await?);
        }
        producer.close().await;
        if let Some(last) = last {
            last.await?;
        }
        let metrics = producer.metrics();
        if metrics.failed_records > 0 || metrics.retried_batches > 0 {
            return Err("records were sent twice or not at all: the bytes are not known".into());
        }
        bytes.push(metrics.bytes);
    }
    Ok(json!({ "bytes_by_partition": bytes }))
}
