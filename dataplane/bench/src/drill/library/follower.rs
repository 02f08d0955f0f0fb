//! A member of a group, of the client library, that reads everything while the broker is killed.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use millrace_client::{
    Consumer, ConsumerConfig, TopicPartition,
    consumer::{OffsetReset, RecordBatch},
};

use super::{GROUP, client, feed, on_this_thread};
use crate::drill::{audit::Audit, load::Stage};

/// How often it commits: several times between two kills.
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
/// How long it waits for records before it looks whether there will be more.
const IDLE: Duration = Duration::from_millis(50);

/// Reads until the stage finishes and everything was read; `Err` where a record is missing, wrong,
/// or not in its place.
pub(in crate::drill) fn follow(stage: &Arc<Stage>) -> Result<(), String> {
    on_this_thread(async {
        let mut config = ConsumerConfig::in_group(GROUP);
        config.auto_offset_reset = OffsetReset::Earliest;
        config.auto_commit_interval = COMMIT_INTERVAL;
        let consumer = Consumer::new(&client(stage), config);
        consumer
            .subscribe(&[&stage.topic])
            .map_err(|error| error.to_string())?;
        let mut audits: Vec<_> = (0..stage.partitions).map(Audit::new).collect();
        let mut read = 0;
        while !is_done(stage, read) {
            if let Some(batch) = next(&consumer).await? {
                read += feed(&mut audits, batch, stage.seed)?;
            }
        }
        let failed = |error| format!("the group's last commit: {error}");
        consumer.commit().await.map_err(failed)?;
        consumer.close().await.map_err(failed)?;
        check_committed(stage, &audits).await
    })
}

/// The next batch; nothing where none comes for a while.
async fn next(consumer: &Consumer) -> Result<Option<RecordBatch>, String> {
    match tokio::time::timeout(IDLE, consumer.next_batch()).await {
        Err(_) => Ok(None),
        Ok(Ok(batch)) => Ok(Some(batch)),
        Ok(Err(error)) => Err(format!("a member of the group: {error}")),
    }
}

/// Whether nothing will come any more.
fn is_done(stage: &Stage, read: u64) -> bool {
    let is_over = stage.finishing.load(Ordering::Acquire)
        && stage
            .ledger
            .change(|promises| promises.durable == promises.sent && promises.records <= read);
    is_over || stage.abandoned.load(Ordering::Acquire)
}

/// What the group has committed is what was read.
async fn check_committed(stage: &Stage, audits: &[Audit]) -> Result<(), String> {
    let consumer = Consumer::new(&client(stage), ConsumerConfig::in_group(GROUP));
    let names: Vec<_> = (0..stage.partitions)
        .map(|partition| TopicPartition::new(&stage.topic, partition))
        .collect();
    let committed = consumer.committed(&names).await;
    let committed = committed.map_err(|error| format!("what the group committed: {error}"))?;
    for (name, audit) in names.iter().zip(audits) {
        let told = committed.get(name).map_or(0, |offset| offset.offset);
        if told != audit.next() {
            return Err(format!(
                "the group has read {name} up to {}, and the broker knows {told}",
                audit.next()
            ));
        }
    }
    Ok(())
}
