//! AlterReplicaLogDirs: partitions are in the one "directory" that there is, the bucket, so they can move to no other.

use std::sync::Arc;

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse,
        alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic},
        alter_replica_log_dirs_response::{
            AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
        },
    },
};

use super::describe_log_dirs::LOG_DIR;
use crate::{
    call::{Call, Outcome, code_of, first_error},
    context::Context,
    topics,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: AlterReplicaLogDirsRequest = decode(&call.request)?;
    let allowed = context.rights(&call).cluster(Operation::Alter);
    let results: Vec<_> = { request.dirs.iter() }
        .flat_map(|dir| dir.topics.iter().map(move |topic| (dir, topic)))
        .map(|(dir, topic)| results(context, allowed, dir, topic))
        .collect();
    let partitions = results.iter().flat_map(|topic| &topic.partitions);
    let error = first_error(partitions.map(|partition| partition.error_code));
    let response = AlterReplicaLogDirsResponse::default().with_results(results);
    call.reply().now(&response, error)
}

fn results(
    context: &Context,
    allowed: Result<(), ErrorCode>,
    dir: &AlterReplicaLogDir,
    topic: &AlterReplicaLogDirTopic,
) -> AlterReplicaLogDirTopicResult {
    let result = |&index: &i32| {
        let altered = allowed.and_then(|()| check(context, dir, topic, index));
        AlterReplicaLogDirPartitionResult::default()
            .with_partition_index(index)
            .with_error_code(code_of(&altered))
    };
    AlterReplicaLogDirTopicResult::default()
        .with_topic_name(topic.name.clone())
        .with_partitions(topic.partitions.iter().map(result).collect())
}

/// Whether the partition is where the request wants it.
fn check(
    context: &Context,
    dir: &AlterReplicaLogDir,
    topic: &AlterReplicaLogDirTopic,
    index: i32,
) -> Result<(), ErrorCode> {
    if dir.path.as_str() != LOG_DIR {
        return Err(ErrorCode::LogDirNotFound);
    }
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let partition = topics::partition_id(&topic.name, index).ok_or(unknown)?;
    match context.logs.partition(&partition) {
        Some(_) => Ok(()),
        None if context.logs.exists(&partition) => Err(ErrorCode::ReplicaNotAvailable),
        None => Err(unknown),
    }
}
