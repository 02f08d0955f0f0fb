//! The acknowledgements of a request, and when they are durable.

use std::sync::Arc;

use futures_util::future::join_all;
use millrace_log::{PartitionLog, Topic};
use millrace_model::TopicId;
use millrace_security::acl::Operation;
use millrace_share::{SessionKey, acknowledgements};
use millrace_wire::error_code::ErrorCode;

use super::leader::Durable;
use crate::{authorization::Rights, context::Context, topics::partition};

/// The acknowledgements of one partition, as a request has them: first offset, last offset, types.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedPartition<'a> {
    pub(crate) partition: (TopicId, i32),
    pub(crate) batches: &'a [(i64, i64, &'a [i8])],
}

/// What became of the acknowledgements of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) partition: (TopicId, i32),
    pub(crate) result: Result<(), ErrorCode>,
}

/// Acknowledgements that were taken.
#[derive(Debug)]
pub(crate) struct Acknowledging {
    partition: (TopicId, i32),
    taken: Result<Option<Durable>, ErrorCode>,
}

/// Takes the acknowledgements of a partition. Its place in the order of the member's requests is fixed once this returns.
pub(crate) fn acknowledge(
    (context, rights): (&Context, &Rights),
    key: &SessionKey,
    asked: AskedPartition<'_>,
) -> Acknowledging {
    let taken = context
        .led(rights, asked.partition)
        .and_then(|_| take(context, key, asked));
    Acknowledging {
        partition: asked.partition,
        taken,
    }
}

fn take(
    context: &Context,
    key: &SessionKey,
    asked: AskedPartition<'_>,
) -> Result<Option<Durable>, ErrorCode> {
    let acknowledgements = acknowledgements(asked.batches.iter().copied());
    let acknowledgements = acknowledgements.map_err(|error| {
        tracing::debug!(%error, "invalid acknowledgements");
        ErrorCode::InvalidRequest
    })?;
    // Where nobody has fetched since the broker leads the partition, nobody holds anything.
    let leader = context.share.known(&key.group, asked.partition);
    let leader = leader.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    leader.acknowledge(&key.member, &acknowledgements)
}

impl Acknowledging {
    /// Waits until all of them are durable, or have failed.
    pub(crate) async fn all(taken: Vec<Self>) -> Vec<Acknowledged> {
        let ended = taken.into_iter().map(|one| async move {
            let result = match one.taken {
                Ok(None) => Ok(()),
                // The broker stops.
                Ok(Some(durable)) => durable.await.unwrap_or(Err(ErrorCode::NotLeaderOrFollower)),
                Err(code) => Err(code),
            };
            Acknowledged {
                partition: one.partition,
                result,
            }
        });
        join_all(ended).await
    }
}

impl Context {
    /// The log of a partition that a client may read and this broker leads.
    pub(crate) fn led(
        &self,
        rights: &Rights,
        (topic, index): (TopicId, i32),
    ) -> Result<(Arc<Topic>, Arc<PartitionLog>), ErrorCode> {
        let topic = self.logs.topic_by_id(topic);
        let topic = topic.ok_or(ErrorCode::UnknownTopicId)?;
        rights.topic(Operation::Read, topic.name.as_str())?;
        let log = Arc::clone(partition(&topic, index)?);
        Ok((topic, log))
    }
}
