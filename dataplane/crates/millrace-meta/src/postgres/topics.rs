//! Topics and their partitions.

use std::collections::BTreeMap;

use millrace_model::{NodeId, Offset, StreamId, TopicId, TopicName, limits::TOPIC_PARTITIONS_MAX};
use sqlx::{FromRow, Row as _};
use uuid::Uuid;

use super::{
    PostgresMeta, Tx, failure,
    feed::{Change, commit_change},
    leaders, objects,
    streams::{self, Lock},
};
use crate::{
    CreatePartitionsError, CreateTopicError, Leader, LedTopic, NewTopic, PartitionStreams,
    StoreFailure, Topic, TopicError,
    number::{from_sql, to_sql},
    topic_row::{configs_to_sql, topic_from_row},
};

/// The streams of one partition: data, meta.
const STREAMS_PER_PARTITION: u32 = 2;

/// A partition with its topic's columns: id, name, configs, then index, data stream, meta stream.
type Row = (Vec<u8>, String, String, i64, i64, i64);

/// Rows of one topic follow each other.
fn topics_of(rows: Vec<Row>) -> Result<Vec<Topic>, StoreFailure> {
    let mut topics: Vec<Topic> = Vec::new();
    for (id, name, configs, index, data, meta) in rows {
        let is_next = topics
            .last()
            .is_none_or(|topic| topic.id.0.as_bytes().as_slice() != id);
        if is_next {
            topics.push(topic_from_row((id, name, configs))?);
        }
        let partition = PartitionStreams {
            index: from_sql(index)?,
            data: StreamId(from_sql(data)?),
            meta: StreamId(from_sql(meta)?),
        };
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(partition);
        }
    }
    Ok(topics)
}

pub(super) async fn all(meta: &PostgresMeta) -> Result<Vec<Topic>, StoreFailure> {
    // One statement sees one moment.
    let rows = sqlx::query_as(
        "SELECT topic_id, name, configs, partition_index, data_stream, meta_stream
         FROM topics JOIN partitions USING (topic_id) ORDER BY name, partition_index",
    )
    .fetch_all(&meta.pool)
    .await?;
    topics_of(rows)
}

/// The topics with these ids, or all, with their leaders, in the order of their names.
pub(super) async fn led(
    tx: &mut Tx,
    ids: Option<&[Vec<u8>]>,
) -> Result<Vec<LedTopic>, StoreFailure> {
    let rows = sqlx::query(
        "SELECT topic_id, name, configs, partition_index, data_stream, meta_stream,
                leader, leader_epoch, moving_to, preferred
         FROM topics JOIN partitions USING (topic_id)
         WHERE $1::bytea[] IS NULL OR topic_id = ANY($1) ORDER BY name, partition_index",
    )
    .bind(ids)
    .fetch_all(&mut **tx)
    .await?;
    let mut partitions = Vec::with_capacity(rows.len());
    let mut leaders = Vec::with_capacity(rows.len());
    for row in &rows {
        let partition: Row = FromRow::from_row(row)?;
        partitions.push(partition);
        let node = |column: Option<i64>| {
            Ok::<_, StoreFailure>(column.map(from_sql).transpose()?.map(NodeId))
        };
        leaders.push(Leader {
            node: node(row.try_get("leader")?)?,
            epoch: from_sql(row.try_get("leader_epoch")?)?,
            moving_to: node(row.try_get("moving_to")?)?,
            preferred: node(row.try_get("preferred")?)?,
        });
    }
    let mut leaders = leaders.into_iter();
    let led = |topic: Topic| LedTopic {
        leaders: leaders.by_ref().take(topic.partitions.len()).collect(),
        topic,
    };
    Ok(topics_of(partitions)?.into_iter().map(led).collect())
}

pub(super) fn id_from_sql(id: &[u8]) -> Result<TopicId, StoreFailure> {
    let corrupt = |error: uuid::Error| StoreFailure::Corrupt(format!("a topic's id: {error}"));
    Ok(TopicId(Uuid::from_slice(id).map_err(corrupt)?))
}

pub(super) fn ids_from_sql(ids: &[Vec<u8>]) -> Result<Vec<TopicId>, StoreFailure> {
    ids.iter().map(|id| id_from_sql(id)).collect()
}

/// The topic, locked until the transaction ends.
async fn find(tx: &mut Tx, name: &TopicName) -> Result<Option<Topic>, StoreFailure> {
    let rows = sqlx::query_as(
        "SELECT topic_id, name, configs, partition_index, data_stream, meta_stream
         FROM topics JOIN partitions USING (topic_id) WHERE name = $1
         ORDER BY partition_index FOR UPDATE OF topics",
    )
    .bind(name.as_str())
    .fetch_all(&mut **tx)
    .await?;
    Ok(topics_of(rows)?.pop())
}

/// Adds partitions to `topic` until it has `total`.
async fn add_partitions(tx: &mut Tx, topic: &mut Topic, total: u32) -> Result<(), StoreFailure> {
    let present = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
    let count = total.saturating_sub(present) * STREAMS_PER_PARTITION;
    let first = streams::create(tx, count).await?;
    let leaders = leaders::of_new(tx, count / STREAMS_PER_PARTITION).await?;
    sqlx::query(
        "INSERT INTO partitions (topic_id, partition_index, data_stream, meta_stream, leader)
         SELECT $1, $2::bigint + nth - 1, $3::bigint + 2 * nth - 2, $3::bigint + 2 * nth - 1, new.leader
         FROM unnest($4::bigint[]) WITH ORDINALITY AS new (leader, nth)",
    )
    .bind(topic.id.0.as_bytes().as_slice())
    .bind(i64::from(present))
    .bind(to_sql(first)?)
    .bind(leaders)
    .execute(&mut **tx)
    .await?;
    for (index, nth) in (present..total).zip(0_u64..) {
        let data = first + nth * u64::from(STREAMS_PER_PARTITION);
        topic.partitions.push(PartitionStreams {
            index,
            data: StreamId(data),
            meta: StreamId(data + 1),
        });
    }
    Ok(())
}

pub(super) async fn create(meta: &PostgresMeta, new: &NewTopic) -> Result<Topic, CreateTopicError> {
    if new.partitions == 0 || new.partitions > TOPIC_PARTITIONS_MAX {
        let (asked, max) = (new.partitions, TOPIC_PARTITIONS_MAX);
        return Err(CreateTopicError::Partitions { asked, max });
    }
    let mut tx = meta.begin().await?;
    let done = sqlx::query(
        "INSERT INTO topics (topic_id, name, configs) VALUES ($1, $2, $3)
         ON CONFLICT (name) DO NOTHING",
    )
    .bind(new.id.0.as_bytes().as_slice())
    .bind(new.name.as_str())
    .bind(configs_to_sql(&new.configs))
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    if done.rows_affected() == 0 {
        return Err(CreateTopicError::Exists(new.name.clone()));
    }
    let mut topic = Topic {
        id: new.id,
        name: new.name.clone(),
        configs: new.configs.clone(),
        partitions: Vec::new(),
    };
    add_partitions(&mut tx, &mut topic, new.partitions).await?;
    commit_change(tx, Change::Topics(&[topic.id])).await?;
    Ok(topic)
}

pub(super) async fn create_partitions(
    meta: &PostgresMeta,
    name: &TopicName,
    total: u32,
) -> Result<Topic, CreatePartitionsError> {
    if total > TOPIC_PARTITIONS_MAX {
        let max = TOPIC_PARTITIONS_MAX;
        return Err(CreatePartitionsError::TooMany { asked: total, max });
    }
    let mut tx = meta.begin().await?;
    let Some(mut topic) = find(&mut tx, name).await? else {
        return Err(CreatePartitionsError::Unknown(name.clone()));
    };
    let current = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
    if total <= current {
        let asked = total;
        return Err(CreatePartitionsError::NotMore { current, asked });
    }
    add_partitions(&mut tx, &mut topic, total).await?;
    commit_change(tx, Change::Topics(&[topic.id])).await?;
    Ok(topic)
}

pub(super) async fn delete(meta: &PostgresMeta, name: &TopicName) -> Result<Topic, TopicError> {
    let mut tx = meta.begin().await?;
    let Some(topic) = find(&mut tx, name).await? else {
        return Err(TopicError::Unknown(name.clone()));
    };
    let gone: Vec<StreamId> = topic
        .partitions
        .iter()
        .flat_map(|partition| [partition.data, partition.meta])
        .collect();
    // In the order of their indexes and ids, which a deletion alone does not keep to.
    sqlx::query("SELECT FROM partitions WHERE topic_id = $1 ORDER BY partition_index FOR UPDATE")
        .bind(topic.id.0.as_bytes().as_slice())
        .execute(&mut *tx)
        .await
        .map_err(failure)?;
    streams::load(&mut tx, gone.iter().copied(), Lock::Update).await?;
    sqlx::query("DELETE FROM streams WHERE stream_id = ANY($1)")
        .bind(streams::ids_to_sql(gone.iter().copied())?)
        .execute(&mut *tx)
        .await
        .map_err(failure)?;
    for statement in [
        "DELETE FROM partitions WHERE topic_id = $1",
        "DELETE FROM topics WHERE topic_id = $1",
    ] {
        sqlx::query(statement)
            .bind(topic.id.0.as_bytes().as_slice())
            .execute(&mut *tx)
            .await
            .map_err(failure)?;
    }
    objects::retire_unreadable(&mut tx, &gone, Offset::MAX).await?;
    commit_change(tx, Change::Topics(&[topic.id])).await?;
    Ok(topic)
}

pub(super) async fn set_configs(
    meta: &PostgresMeta,
    name: &TopicName,
    configs: &BTreeMap<String, String>,
) -> Result<Topic, TopicError> {
    let mut tx = meta.begin().await?;
    let Some(topic) = find(&mut tx, name).await? else {
        return Err(TopicError::Unknown(name.clone()));
    };
    sqlx::query("UPDATE topics SET configs = $1 WHERE topic_id = $2")
        .bind(configs_to_sql(configs))
        .bind(topic.id.0.as_bytes().as_slice())
        .execute(&mut *tx)
        .await
        .map_err(failure)?;
    commit_change(tx, Change::Topics(&[topic.id])).await?;
    let configs = configs.clone();
    Ok(Topic { configs, ..topic })
}
