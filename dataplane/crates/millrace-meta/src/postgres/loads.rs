//! What brokers have to do, as each of them measured it last.

use std::{collections::BTreeMap, time::Duration};

use millrace_model::{NodeEpoch, NodeId, TopicName, TopicPartition};

use super::{PostgresMeta, failure};
use crate::{
    BrokerLoad, ClusterError, Fenced, PartitionLoad, StoreFailure,
    number::{from_sql, to_sql},
};

pub(super) async fn report(
    meta: &PostgresMeta,
    epoch: NodeEpoch,
    load: &BrokerLoad,
) -> Result<(), ClusterError> {
    let of = |one: &PartitionLoad| {
        let PartitionLoad { partition, load } = one;
        (partition.topic.to_string(), partition.partition, *load)
    };
    let partitions: Vec<(String, u32, u64)> = load.partitions.iter().map(of).collect();
    let partitions = serde_json::to_string(&partitions).expect("plain fields are JSON");
    let reported = sqlx::query(
        "INSERT INTO broker_loads (node_id, reported_at, total, partitions)
         SELECT node_id, now(), $2, $3 FROM nodes WHERE epoch = $1 AND state = 1
         ON CONFLICT (node_id) DO UPDATE
         SET reported_at = excluded.reported_at, total = excluded.total, partitions = excluded.partitions",
    )
    .bind(to_sql(epoch.get())?)
    .bind(to_sql(load.total)?)
    .bind(partitions)
    .execute(&meta.pool)
    .await
    .map_err(failure)?;
    match reported.rows_affected() {
        0 => Err(Fenced(epoch).into()),
        _ => Ok(()),
    }
}

pub(super) async fn newest(
    meta: &PostgresMeta,
    age_max: Duration,
) -> Result<BTreeMap<NodeId, BrokerLoad>, StoreFailure> {
    let rows: Vec<(i64, i64, String)> = sqlx::query_as(
        "SELECT node_id, total, partitions FROM broker_loads
         WHERE reported_at >= now() - make_interval(secs => $1)",
    )
    .bind(age_max.as_secs_f64())
    .fetch_all(&meta.pool)
    .await?;
    rows.into_iter().map(load_from_row).collect()
}

fn load_from_row(
    (node, total, partitions): (i64, i64, String),
) -> Result<(NodeId, BrokerLoad), StoreFailure> {
    let corrupt = |what: String| StoreFailure::Corrupt(format!("a broker's load: {what}"));
    let partitions: Vec<(String, u32, u64)> =
        serde_json::from_str(&partitions).map_err(|error| corrupt(error.to_string()))?;
    let partitions = partitions.into_iter().map(|(topic, partition, load)| {
        let topic = TopicName::new(topic).map_err(|error| corrupt(error.to_string()))?;
        let partition = TopicPartition { topic, partition };
        Ok(PartitionLoad { partition, load })
    });
    let load = BrokerLoad {
        total: from_sql(total)?,
        partitions: partitions.collect::<Result<_, StoreFailure>>()?,
    };
    Ok((NodeId(from_sql(node)?), load))
}
