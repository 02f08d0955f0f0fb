//! A producer that reaches the old or the new leader of a partition during a planned move waits here until the move is done: its
//! own retry would take longer. The wait is bounded per move, not per request: requests are answered in the order of their connection, so
//! if a move does not end, later requests must not wait for it again.

use std::{sync::Arc, time::Duration};

use millrace_log::{Partition, Topic};
use millrace_model::{NodeId, TopicId};
use tokio::time::timeout;

use crate::context::Context;

/// How long requests wait for a partition to be handed over, from the moment on that it takes no more records.
const HAND_OVER_WAIT: Duration = Duration::from_millis(500);
/// How long requests wait for a partition to be opened here, from the first one on.
const ARRIVAL_WAIT: Duration = Duration::from_millis(500);

/// Waits until none of these partitions is about to be given away by this broker, so that their new leaders can be named.
pub(crate) async fn wait_for_hand_over(context: &Context, partitions: &[(TopicId, i32)]) {
    if partitions.is_empty() {
        return;
    }
    let own = u32::try_from(context.broker_id().0).ok().map(NodeId);
    let until = |&(topic, index): &(TopicId, i32)| {
        let topic = context.logs.topic_by_id(topic)?;
        let partition = at(&topic, index)?;
        let leader = partition.leader()?;
        let is_leaving = leader.node == own && leader.moving_to.is_some();
        let log = partition.log().filter(|_| is_leaving)?;
        Some(log.closed_since()? + HAND_OVER_WAIT)
    };
    let mut changes = context.logs.changes();
    while let Some(until) = partitions.iter().filter_map(until).max() {
        let left = until.saturating_sub(context.now());
        if left.is_zero() || timeout(left, changes.changed()).await.is_err() {
            return;
        }
    }
}

/// Until when a request waits for partitions to arrive: all of them together, from the first one on.
#[derive(Debug, Default)]
pub(crate) struct ArrivalDeadline(Option<Duration>);

/// The topic, once none of these partitions is on its way to this broker.
pub(crate) async fn wait_for_arrival(
    context: &Context,
    topic: Arc<Topic>,
    indexes: impl Iterator<Item = i32> + Clone,
    deadline: &mut ArrivalDeadline,
) -> Arc<Topic> {
    let until = |topic: &Topic| {
        let partitions = indexes.clone().filter_map(|index| at(topic, index));
        let arrivals = partitions.filter_map(Partition::arrival);
        let until = arrivals.map(|arrival| arrival.awaited_since(context.now()) + ARRIVAL_WAIT);
        until.max()
    };
    let mut topic = topic;
    if until(&topic).is_none() {
        return topic;
    }
    let of_request = *deadline
        .0
        .get_or_insert_with(|| context.now() + ARRIVAL_WAIT);
    let mut changes = context.logs.changes();
    loop {
        topic = context.logs.topic_by_id(topic.id).unwrap_or(topic);
        let Some(until) = until(&topic) else {
            return topic;
        };
        let left = until.min(of_request).saturating_sub(context.now());
        if left.is_zero() || timeout(left, changes.changed()).await.is_err() {
            return topic;
        }
    }
}

fn at(topic: &Topic, index: i32) -> Option<&Partition> {
    topic.partitions.get(usize::try_from(index).ok()?)
}
