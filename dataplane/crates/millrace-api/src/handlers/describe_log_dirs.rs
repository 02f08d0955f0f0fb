//! DescribeLogDirs: the sizes of partitions. There is one "directory", the bucket. As in Kafka, what this broker does
//! not serve is left out, whether it exists or not.

use std::sync::Arc;

use millrace_log::Topic;
use millrace_model::TopicName;
use millrace_security::acl::Operation;
use millrace_wire::{
    StrBytes, decode,
    error_code::NONE,
    messages::{
        DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName as WireTopic,
        describe_log_dirs_request::DescribableLogDirTopic,
        describe_log_dirs_response::{
            DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
        },
    },
};

use crate::{
    call::{Call, Outcome},
    context::{Context, text},
};

/// What stands in the place of a directory. A bucket's own name is not told: it may be a secret.
pub(super) const LOG_DIR: &str = "object-storage";

/// The first version with an error of the whole request (KIP-784).
const FIRST_WITH_ERROR: i16 = 3;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeLogDirsRequest = decode(&call.request)?;
    if let Err(code) = context.rights(&call).cluster(Operation::Describe) {
        let response = DescribeLogDirsResponse::default();
        // Before version 3, the answer has no place for an error; Kafka answers with nothing.
        let response = match call.version() {
            FIRST_WITH_ERROR.. => response.with_error_code(code.code()),
            _ => response,
        };
        return call.reply().now(&response, code.code());
    }
    let topics: Vec<DescribeLogDirsTopic> = match &request.topics {
        None => context
            .logs
            .topics()
            .iter()
            .filter_map(|topic| describe(topic, 0..topic.partitions.len()))
            .collect(),
        Some(asked) => asked
            .iter()
            .filter_map(|asked| find(context, asked))
            .collect(),
    };
    // How much fits into a bucket, nobody knows: the totals stay unknown.
    let bucket = DescribeLogDirsResult::default()
        .with_log_dir(StrBytes::from_static_str(LOG_DIR))
        .with_topics(topics);
    call.reply().now(
        &DescribeLogDirsResponse::default().with_results(vec![bucket]),
        NONE,
    )
}

/// What is asked for of one topic.
fn find(context: &Context, asked: &DescribableLogDirTopic) -> Option<DescribeLogDirsTopic> {
    let name = TopicName::new(asked.topic.as_str()).ok()?;
    let topic = context.logs.topic(&name)?;
    let indexes = asked.partitions.iter();
    let indexes = indexes.filter_map(|&index| usize::try_from(index).ok());
    describe(&topic, indexes)
}

fn describe(topic: &Topic, indexes: impl Iterator<Item = usize>) -> Option<DescribeLogDirsTopic> {
    let partitions = indexes.filter_map(|index| {
        // Those of other brokers are in their answers.
        let log = topic.log(index)?;
        let described = DescribeLogDirsPartition::default()
            .with_partition_index(i32::try_from(index).unwrap_or(i32::MAX))
            .with_partition_size(i64::try_from(log.size_bytes()).unwrap_or(i64::MAX));
        Some(described)
    });
    let partitions: Vec<_> = partitions.collect();
    let described = DescribeLogDirsTopic::default()
        .with_name(WireTopic(text(topic.name.as_str())))
        .with_partitions(partitions);
    (!described.partitions.is_empty()).then_some(described)
}
