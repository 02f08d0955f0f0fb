//! Topics and their partitions.

use std::collections::{BTreeMap, HashSet};

use millrace_model::{Offset, StreamId, TopicName, limits::TOPIC_PARTITIONS_MAX};
use sqlx::{Sqlite, SqliteConnection, Transaction};

use super::{
    Inner, begin, failure, identity,
    number::{from_sql, to_sql},
    objects, streams,
};
use crate::{
    CreatePartitionsError, CreateTopicError, NewTopic, PartitionStreams, StoreFailure, Topic,
    TopicError,
    topic_row::{configs_to_sql, topic_from_row},
};

/// The streams of one partition: data, meta.
const STREAMS_PER_PARTITION: u32 = 2;

/// A row of `partitions`: topic, index, data stream, meta stream.
type PartitionRow = (Vec<u8>, i64, i64, i64);

fn partition_from_row(row: &PartitionRow) -> Result<PartitionStreams, StoreFailure> {
    let &(_, index, data, meta) = row;
    Ok(PartitionStreams {
        index: from_sql(index)?,
        data: StreamId(from_sql(data)?),
        meta: StreamId(from_sql(meta)?),
    })
}

async fn find(
    connection: &mut SqliteConnection,
    name: &TopicName,
) -> Result<Option<Topic>, StoreFailure> {
    let row = sqlx::query_as("SELECT topic_id, name, configs FROM topics WHERE name = $1")
        .bind(name.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let mut topic = topic_from_row(row)?;
    let rows: Vec<PartitionRow> = sqlx::query_as(
        "SELECT topic_id, partition_index, data_stream, meta_stream FROM partitions
         WHERE topic_id = $1 ORDER BY partition_index",
    )
    .bind(topic.id.0.as_bytes().as_slice())
    .fetch_all(&mut *connection)
    .await?;
    topic.partitions = rows
        .iter()
        .map(partition_from_row)
        .collect::<Result<_, _>>()?;
    Ok(Some(topic))
}

/// Adds partitions to `topic` until it has `total`; gives their streams' first number and count.
async fn add_partitions(
    tx: &mut Transaction<'_, Sqlite>,
    topic: &mut Topic,
    total: u32,
) -> Result<(u64, u32), StoreFailure> {
    let present = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
    let count = total.saturating_sub(present) * STREAMS_PER_PARTITION;
    let first = streams::create(tx, count).await?;
    for (index, nth) in (present..total).zip(0_u64..) {
        let data = first + nth * u64::from(STREAMS_PER_PARTITION);
        let added = PartitionStreams {
            index,
            data: StreamId(data),
            meta: StreamId(data + 1),
        };
        sqlx::query(
            "INSERT INTO partitions (topic_id, partition_index, data_stream, meta_stream)
             VALUES ($1, $2, $3, $4)",
        )
        .bind(topic.id.0.as_bytes().as_slice())
        .bind(i64::from(index))
        .bind(to_sql(added.data.get())?)
        .bind(to_sql(added.meta.get())?)
        .execute(&mut **tx)
        .await?;
        topic.partitions.push(added);
    }
    Ok((first, count))
}

impl Inner {
    pub(super) async fn create_topic(&self, new: NewTopic) -> Result<Topic, CreateTopicError> {
        if new.partitions == 0 || new.partitions > TOPIC_PARTITIONS_MAX {
            let (asked, max) = (new.partitions, TOPIC_PARTITIONS_MAX);
            return Err(CreateTopicError::Partitions { asked, max });
        }
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        if find(&mut tx, &new.name).await?.is_some() {
            return Err(CreateTopicError::Exists(new.name));
        }
        sqlx::query("INSERT INTO topics (topic_id, name, configs) VALUES ($1, $2, $3)")
            .bind(new.id.0.as_bytes().as_slice())
            .bind(new.name.as_str())
            .bind(configs_to_sql(&new.configs))
            .execute(&mut *tx)
            .await
            .map_err(failure)?;
        let mut topic = Topic {
            id: new.id,
            name: new.name,
            configs: new.configs,
            partitions: Vec::new(),
        };
        let (first, count) = add_partitions(&mut tx, &mut topic, new.partitions).await?;
        self.commit(tx, |index| streams::created(index, first, count))
            .await?;
        Ok(topic)
    }

    pub(super) async fn create_partitions(
        &self,
        name: &TopicName,
        total: u32,
    ) -> Result<Topic, CreatePartitionsError> {
        if total > TOPIC_PARTITIONS_MAX {
            let max = TOPIC_PARTITIONS_MAX;
            return Err(CreatePartitionsError::TooMany { asked: total, max });
        }
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let Some(mut topic) = find(&mut tx, name).await? else {
            return Err(CreatePartitionsError::Unknown(name.clone()));
        };
        let current = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
        if total <= current {
            return Err(CreatePartitionsError::NotMore {
                current,
                asked: total,
            });
        }
        let (first, count) = add_partitions(&mut tx, &mut topic, total).await?;
        self.commit(tx, |index| streams::created(index, first, count))
            .await?;
        Ok(topic)
    }

    pub(super) async fn delete_topic(&self, name: &TopicName) -> Result<Topic, TopicError> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let Some(topic) = find(&mut tx, name).await? else {
            return Err(TopicError::Unknown(name.clone()));
        };
        let gone: HashSet<StreamId> = topic
            .partitions
            .iter()
            .flat_map(|p| [p.data, p.meta])
            .collect();
        for stream in &gone {
            sqlx::query("DELETE FROM streams WHERE stream_id = $1")
                .bind(to_sql(stream.get())?)
                .execute(&mut *tx)
                .await
                .map_err(failure)?;
        }
        identity::remember_deleted(&mut tx, gone.iter().copied()).await?;
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
        let all: Vec<_> = gone.iter().map(|&stream| (stream, Offset::MAX)).collect();
        let dying = self.index.read().dying(&all);
        objects::retire(&mut tx, &dying, self.clock.wall_ms()).await?;
        let now = self.clock.now();
        self.commit(tx, |index| {
            index.remove_streams(&gone);
            index.retire(dying, now);
        })
        .await?;
        Ok(topic)
    }

    pub(super) async fn set_topic_configs(
        &self,
        name: &TopicName,
        configs: BTreeMap<String, String>,
    ) -> Result<Topic, TopicError> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let Some(topic) = find(&mut tx, name).await? else {
            return Err(TopicError::Unknown(name.clone()));
        };
        sqlx::query("UPDATE topics SET configs = $1 WHERE topic_id = $2")
            .bind(configs_to_sql(&configs))
            .bind(topic.id.0.as_bytes().as_slice())
            .execute(&mut *tx)
            .await
            .map_err(failure)?;
        self.commit(tx, |_| ()).await?;
        Ok(Topic { configs, ..topic })
    }

    pub(super) async fn topics(&self) -> Result<Vec<Topic>, StoreFailure> {
        let mut tx = self.readers.begin().await?;
        let rows = sqlx::query_as("SELECT topic_id, name, configs FROM topics ORDER BY name")
            .fetch_all(&mut *tx)
            .await?;
        let mut topics: Vec<Topic> = rows
            .into_iter()
            .map(topic_from_row)
            .collect::<Result<_, _>>()?;
        let rows: Vec<PartitionRow> = sqlx::query_as(
            "SELECT topic_id, partition_index, data_stream, meta_stream FROM partitions
             ORDER BY topic_id, partition_index",
        )
        .fetch_all(&mut *tx)
        .await?;
        tx.commit().await?;
        let mut partitions: BTreeMap<&[u8], Vec<PartitionStreams>> = BTreeMap::new();
        for row in &rows {
            partitions
                .entry(&row.0)
                .or_default()
                .push(partition_from_row(row)?);
        }
        for topic in &mut topics {
            topic.partitions = partitions
                .remove(topic.id.0.as_bytes().as_slice())
                .unwrap_or_default();
        }
        Ok(topics)
    }
}
