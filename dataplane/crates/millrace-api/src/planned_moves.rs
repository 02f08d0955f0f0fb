//! A producer that reaches the old or the new leader of a partition during a planned move waits here until the move is done: its
//! own retry would take longer.

use std::{sync::Arc, time::Duration};

use millrace_log::{Partition, Topic};
use millrace_model::{NodeId, TopicId};
use tokio::time::{Instant, sleep, timeout_at};

use crate::context::Context;

/// How long a request waits for a partition to be handed over. It is answered in the order of its connection, so others wait, too.
const HAND_OVER_WAIT: Duration = Duration::from_millis(500);
/// How long a request waits for partitions to be opened here.
const ARRIVAL_WAIT: Duration = Duration::from_millis(500);

/// Waits until none of these partitions is about to be given away by this broker, so that their new leaders can be named.
pub(crate) async fn wait_for_hand_over(context: &Context, partitions: &[(TopicId, i32)]) {
    if partitions.is_empty() {
        return;
    }
    let own = u32::try_from(context.broker_id().0).ok().map(NodeId);
    let is_leaving = |&(topic, index): &(TopicId, i32)| {
        let topic = context.logs.topic_by_id(topic);
        let partition = topic.as_deref().and_then(|topic| at(topic, index));
        // It is shut, and not taken away yet. One that has never opened here cannot be handed over soon.
        let partition = partition.filter(|partition| partition.log().is_some());
        let leader = partition.and_then(Partition::leader);
        leader.is_some_and(|leader| leader.node == own && leader.moving_to.is_some())
    };
    let until = sleep(HAND_OVER_WAIT).deadline();
    let mut changes = context.logs.changes();
    while partitions.iter().any(is_leaving) {
        if timeout_at(until, changes.changed()).await.is_err() {
            return;
        }
    }
}

/// Until when a request waits for partitions to arrive: all of them together, from the first one on.
#[derive(Debug, Default)]
pub(crate) struct ArrivalDeadline(Option<Instant>);

/// The topic, once none of these partitions is on its way to this broker.
pub(crate) async fn wait_for_arrival(
    context: &Context,
    topic: Arc<Topic>,
    indexes: impl Iterator<Item = i32> + Clone,
    deadline: &mut ArrivalDeadline,
) -> Arc<Topic> {
    let is_arriving = |topic: &Topic| {
        let mut partitions = indexes.clone().filter_map(|index| at(topic, index));
        partitions.any(Partition::is_arriving)
    };
    let mut topic = topic;
    if !is_arriving(&topic) {
        return topic;
    }
    let until = *deadline
        .0
        .get_or_insert_with(|| sleep(ARRIVAL_WAIT).deadline());
    let mut changes = context.logs.changes();
    loop {
        topic = context.logs.topic_by_id(topic.id).unwrap_or(topic);
        if !is_arriving(&topic) || timeout_at(until, changes.changed()).await.is_err() {
            return topic;
        }
    }
}

fn at(topic: &Topic, index: i32) -> Option<&Partition> {
    topic.partitions.get(usize::try_from(index).ok()?)
}
