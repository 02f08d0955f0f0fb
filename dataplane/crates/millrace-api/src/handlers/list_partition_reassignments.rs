//! ListPartitionReassignments: which partitions are moving to another broker (KIP-455).

use std::sync::Arc;

use millrace_log::{Partition, Topic};
use millrace_model::TopicName;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::NONE,
    messages::{
        ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
        TopicName as WireTopic,
        list_partition_reassignments_request::ListPartitionReassignmentsTopics,
        list_partition_reassignments_response::{
            OngoingPartitionReassignment, OngoingTopicReassignment,
        },
    },
};

use crate::{
    call::{Call, Outcome},
    context::{Context, text},
    placement::Moving,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ListPartitionReassignmentsRequest = decode(&call.request)?;
    let reply = call.reply();
    if let Err(code) = context.rights(&call).cluster(Operation::Describe) {
        let response = ListPartitionReassignmentsResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text(code.to_string())));
        return reply.now(&response, code.code());
    }
    let topics: Vec<OngoingTopicReassignment> = match &request.topics {
        None => {
            let all = context.logs.topics();
            all.iter()
                .filter_map(|topic| moving(context, topic, |_| true))
                .collect()
        }
        Some(asked) => asked
            .iter()
            .filter_map(|asked| of_asked(context, asked))
            .collect(),
    };
    let response = ListPartitionReassignmentsResponse::default()
        .with_error_message(None)
        .with_topics(topics);
    reply.now(&response, NONE)
}

fn of_asked(
    context: &Context,
    asked: &ListPartitionReassignmentsTopics,
) -> Option<OngoingTopicReassignment> {
    let name = TopicName::new(asked.name.as_str()).ok()?;
    let topic = context.logs.topic(&name)?;
    moving(context, &topic, |index| {
        asked.partition_indexes.contains(&index)
    })
}

/// The partitions of a topic that are moving; `None` where there are none.
fn moving(
    context: &Context,
    topic: &Topic,
    is_asked: impl Fn(i32) -> bool,
) -> Option<OngoingTopicReassignment> {
    let partitions = (0_i32..).zip(&topic.partitions);
    let partitions = partitions.filter(|(index, _)| is_asked(*index));
    let ongoing = |(index, partition): (i32, &Partition)| {
        let Moving { from, to } = context.moving(partition)?;
        let ongoing = OngoingPartitionReassignment::default()
            .with_partition_index(index)
            .with_replicas(vec![to, from])
            .with_adding_replicas(vec![to])
            .with_removing_replicas(vec![from]);
        Some(ongoing)
    };
    let partitions: Vec<_> = partitions.filter_map(ongoing).collect();
    (!partitions.is_empty()).then(|| {
        OngoingTopicReassignment::default()
            .with_name(WireTopic(text(topic.name.as_str())))
            .with_partitions(partitions)
    })
}
