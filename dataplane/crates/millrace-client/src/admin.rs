//! Topics, configurations, groups and offsets.
//!
//! A call fails as a whole only if no broker answers. Otherwise each topic, group or partition has
//! its own result: a broker carries out the part that it can.

mod configs;
mod group_description;
mod groups;
mod log_dirs;
mod offsets;
mod reassignments;
mod share_states;
mod topics;
mod transactions;

use std::{collections::BTreeMap, future::Future};

use futures_util::future::join_all;
use millrace_wire::{StrBytes, messages::GroupId};

pub use self::{
    configs::{ConfigChange, ConfigEntry, ConfigResource, ConfigSource},
    group_description::{GroupDescription, GroupMember},
    groups::{GroupListing, Offsets},
    offsets::{ListedOffset, OffsetSpec, PartitionOffsets},
    reassignments::Reassignment,
    share_states::{SharePartition, ShareState, ShareStateBatch},
    topics::{ClusterDescription, NewTopic, TopicListing},
    transactions::{TransactionMarker, TransactionProducer},
};
use crate::{
    client::{Client, Retry},
    error::{BrokerError, ErrorCode, RequestError},
    topic_partition::TopicPartition,
};

/// What to ask each leader.
type ByLeader<V> = BTreeMap<i32, BTreeMap<TopicPartition, V>>;

/// Results by topic, group or partition.
pub type Results<K, T> = BTreeMap<K, Result<T, BrokerError>>;

/// Administers a cluster. It has no connections of its own, so it costs nothing to make one.
///
/// Requests are retried, for as long as [`ClientConfig::request_timeout`](crate::ClientConfig), when
/// the broker that was asked is not the right one or not ready. A create or delete whose answer is
/// lost is therefore sent twice; the second answer may be `TOPIC_ALREADY_EXISTS` or
/// `UNKNOWN_TOPIC_OR_PARTITION`.
///
/// ```no_run
/// use millrace_client::{Admin, Client, ClientConfig, admin::NewTopic};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let admin = Admin::new(&Client::new(ClientConfig::new("localhost:9092")?));
/// let topic = NewTopic::new("orders").partitions(12).config("retention.ms", "86400000");
/// for (name, result) in admin.create_topics(&[topic]).await? {
///     result.map_err(|error| format!("{name}: {error}"))?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Admin {
    client: Client,
}

impl Admin {
    /// Administers the client's cluster.
    #[must_use]
    pub fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
        }
    }

    /// How long a broker may take for an operation, in milliseconds.
    fn timeout_ms(&self) -> i32 {
        let timeout = self.client.config().request_timeout;
        i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX)
    }

    /// Repeats an attempt while it fails in a way that a retry may repair. What the client knows of
    /// the cluster is refreshed before each retry.
    async fn retried<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, RequestError>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        let mut retry = Retry::new(&self.client, self.client.config().request_timeout);
        loop {
            match attempt().await {
                Ok(result) => return Ok(result),
                Err(error) => {
                    let is_stale = error.code().is_some_and(ErrorCode::is_stale_metadata);
                    retry.after(error).await?;
                    if is_stale {
                        self.client.refresh_topics(&[]).await?;
                    }
                }
            }
        }
    }

    /// Asks the leader of each partition, and again where a partition has another leader than was
    /// thought. `ask` gets a node and what to ask it.
    async fn at_leaders<V, T, F>(
        &self,
        wanted: BTreeMap<TopicPartition, V>,
        ask: impl Fn(i32, BTreeMap<TopicPartition, V>) -> F,
    ) -> Result<Results<TopicPartition, T>, RequestError>
    where
        V: Clone,
        F: Future<Output = Result<Results<TopicPartition, T>, RequestError>>,
    {
        let mut retry = Retry::new(&self.client, self.client.config().request_timeout);
        let mut done = Results::new();
        let mut left = wanted;
        loop {
            let (by_leader, unknown) = self.group_by_leader(&left).await?;
            let mut failed = RequestError::from(BrokerError::from(ErrorCode::LEADER_NOT_AVAILABLE));
            // At the same time: one that does not answer holds nobody else up.
            let asked = by_leader.into_iter().map(|(node, part)| ask(node, part));
            for answered in join_all(asked).await {
                match answered {
                    Ok(answers) => {
                        for (partition, answer) in answers {
                            let again = matches!(&answer, Err(error) if error.code.is_retriable());
                            if !again {
                                left.remove(&partition);
                            }
                            done.insert(partition, answer);
                        }
                    }
                    Err(error) => failed = error,
                }
            }
            // A second look, after a pause, has not found them either.
            if retry.has_retried() {
                for partition in unknown {
                    left.remove(&partition);
                    done.insert(partition, Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.into()));
                }
            }
            if left.is_empty() {
                return Ok(done);
            }
            if let Err(error) = retry.after(failed).await {
                // What other brokers have answered stands.
                if done.is_empty() {
                    return Err(error);
                }
                let code = error.code().unwrap_or(ErrorCode::REQUEST_TIMED_OUT);
                for partition in left.into_keys() {
                    done.entry(partition).or_insert_with(|| Err(code.into()));
                }
                return Ok(done);
            }
            let topics: Vec<_> = left.keys().map(|partition| &*partition.topic).collect();
            self.client.refresh_topics(&topics).await?;
        }
    }

    /// What to ask each leader, and the partitions that do not exist. Those without a leader are in
    /// neither.
    async fn group_by_leader<V: Clone>(
        &self,
        wanted: &BTreeMap<TopicPartition, V>,
    ) -> Result<(ByLeader<V>, Vec<TopicPartition>), RequestError> {
        let is_known = |partition: &TopicPartition| {
            let metadata = self.client.metadata();
            metadata.topic(&partition.topic).is_some()
        };
        if !wanted.keys().all(is_known) {
            let topics: Vec<_> = wanted.keys().map(|partition| &*partition.topic).collect();
            self.client.refresh_topics(&topics).await?;
        }
        let metadata = self.client.metadata();
        let mut by_leader = ByLeader::new();
        let mut unknown = Vec::new();
        for (partition, value) in wanted {
            let known = metadata.partition(&partition.topic, partition.partition);
            match known.map(|known| known.leader) {
                Some(Some(leader)) => {
                    let part = by_leader.entry(leader).or_default();
                    part.insert(partition.clone(), value.clone());
                }
                Some(None) => {}
                None => unknown.push(partition.clone()),
            }
        }
        Ok((by_leader, unknown))
    }

    /// Asks the coordinator of a group, and the next one where it has moved.
    async fn at_coordinator<T, F>(
        &self,
        group: &str,
        ask: impl Fn(i32) -> F,
    ) -> Result<T, RequestError>
    where
        F: Future<Output = Result<T, RequestError>>,
    {
        self.retried(|| async {
            let node = self.client.find_coordinator(group).await?;
            ask(node).await
        })
        .await
    }
}

/// Fails as a whole where every part fails in a way that a retry may repair: the broker is the wrong
/// one or not ready, and has done nothing.
fn whole<K, T>(results: Results<K, T>) -> Result<Results<K, T>, RequestError> {
    let may_repair = |code: ErrorCode| {
        code.is_retriable()
            && code != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            && code != ErrorCode::UNKNOWN_TOPIC_ID
    };
    let first = results.values().find_map(|result| result.as_ref().err());
    let repairable = results
        .values()
        .all(|result| matches!(result, Err(error) if may_repair(error.code)));
    match first.cloned() {
        Some(error) if repairable => Err(error.into()),
        _ => Ok(results),
    }
}

fn group_id(group: &str) -> GroupId {
    GroupId(text(group))
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
