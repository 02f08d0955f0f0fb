//! AlterPartitionReassignments: partitions move to other brokers, and moves that have not been made yet are cancelled (KIP-455).
//!
//! The broker that a partition moves to is its preferred leader from then on.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use millrace_meta::{ClusterError, Move, Preferred};
use millrace_model::{TopicName, TopicPartition};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, BrokerId,
        TopicName as WireTopic,
        alter_partition_reassignments_request::ReassignablePartition,
        alter_partition_reassignments_response::{
            ReassignablePartitionResponse, ReassignableTopicResponse,
        },
    },
};

use crate::{
    authorization::{Changed, Rights},
    call::{Call, Outcome, first_error},
    code,
    context::{Context, text},
    topic_changes::enqueue,
    topics::Refused,
};

/// A partition's index, and what is to be done where something is.
type Checked = (i32, Result<Option<Change>, Refused>);

/// What is asked for a partition.
#[derive(Debug, Clone)]
enum Change {
    /// It moves.
    Move(Move),
    /// It stays where it is.
    Cancel(TopicPartition),
}

/// Partitions of a request, by topic, in its order.
type Asked = Vec<(WireTopic, Vec<Checked>)>;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: AlterPartitionReassignmentsRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    if let Err(code) = rights.cluster(Operation::Alter) {
        let response = AlterPartitionReassignmentsResponse::default()
            .with_error_code(code.code())
            .with_error_message(Some(text(code.to_string())));
        return reply.now(&response, code.code());
    }
    let own = Arc::clone(context);
    let change = async move {
        let mut asked = check(&own, request);
        plan(&own, &mut asked).await;
        cancel(&own, &mut asked).await;
        asked
    };
    enqueue(context, change, move |asked| async move {
        let topics: Vec<_> = asked.into_iter().map(|of| topic(&rights, of)).collect();
        let partitions = topics.iter().flat_map(|topic| &topic.partitions);
        let error = first_error(partitions.map(|partition| partition.error_code));
        let response = AlterPartitionReassignmentsResponse::default()
            .with_error_code(NONE)
            .with_error_message(None)
            .with_responses(topics);
        reply.with(&response, error)
    })
    .await
}

/// What is to be done for each partition; nothing for those that are where they should be, and their preferred leader as well.
fn check(context: &Context, request: AlterPartitionReassignmentsRequest) -> Asked {
    let mut named = HashSet::new();
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|partition| {
            let index = partition.partition_index;
            let is_first = named.insert((topic.name.clone(), index));
            let checked = match is_first {
                true => check_partition(context, &topic.name, &partition),
                false => Err(Refused::new(
                    ErrorCode::InvalidRequest,
                    "The partition is named twice.",
                )),
            };
            (index, checked)
        });
        let partitions = partitions.collect();
        (topic.name, partitions)
    });
    topics.collect()
}

fn check_partition(
    context: &Context,
    name: &WireTopic,
    asked: &ReassignablePartition,
) -> Result<Option<Change>, Refused> {
    let unknown = || {
        let message = "The partition does not exist.";
        Refused::new(ErrorCode::UnknownTopicOrPartition, message)
    };
    let legal = TopicName::new(name.as_str()).map_err(|_| unknown())?;
    let topic = context.logs.topic(&legal).ok_or_else(unknown)?;
    let index = u32::try_from(asked.partition_index).map_err(|_| unknown())?;
    let partition = topic.partitions.get(index as usize).ok_or_else(unknown)?;
    let partition_id = TopicPartition {
        topic: legal,
        partition: index,
    };
    let leader = partition.leader();
    let Some(replicas) = &asked.replicas else {
        return match leader.and_then(|leader| leader.moving_to) {
            Some(_) => Ok(Some(Change::Cancel(partition_id))),
            None => Err(ErrorCode::NoReassignmentInProgress.into()),
        };
    };
    let to = one_replica(replicas)?;
    let to = context.able(to).ok_or_else(|| {
        Refused::new(
            ErrorCode::InvalidReplicaAssignment,
            format!("Broker {} is not running, or is about to stop.", to.0),
        )
    })?;
    // A broker that is alone leads everything.
    let is_done = leader.is_none_or(|leader| {
        (leader.node, leader.moving_to, leader.preferred) == (Some(to), None, Some(to))
    });
    let planned = Move {
        partition: partition_id,
        to,
    };
    Ok((!is_done).then_some(Change::Move(planned)))
}

fn one_replica(replicas: &[BrokerId]) -> Result<BrokerId, Refused> {
    match replicas {
        [] => Err(Refused::new(
            ErrorCode::InvalidReplicaAssignment,
            "The list of replicas is empty.",
        )),
        [replica] => Ok(*replica),
        _ if replicas.iter().collect::<HashSet<_>>().len() < replicas.len() => Err(Refused::new(
            ErrorCode::InvalidReplicaAssignment,
            "The list of replicas names a broker twice.",
        )),
        _ => Err(Refused::new(
            ErrorCode::InvalidReplicationFactor,
            "Assign each partition to one broker: records are kept in object storage, so 1 replica is enough.",
        )),
    }
}

/// Plans what may be planned, in one transaction. Where that fails, all of it is refused.
async fn plan(context: &Context, asked: &mut Asked) {
    let moves: Vec<Move> = all(asked)
        .filter_map(|asking| match asking {
            Change::Move(planned) => Some(planned.clone()),
            Change::Cancel(_) => None,
        })
        .collect();
    if moves.is_empty() {
        return;
    }
    let Err(error) = context.logs.plan_moves(&moves, Preferred::Set).await else {
        let mut to: BTreeMap<_, usize> = BTreeMap::new();
        for planned in &moves {
            *to.entry(planned.to).or_default() += 1;
        }
        tracing::info!(?to, "a client reassigned partitions");
        return;
    };
    tracing::warn!(%error, "partitions were not reassigned");
    let refused = refused(&error);
    refuse(asked, &refused, |asking| matches!(asking, Change::Move(_)));
}

/// Takes back what is to be taken back, in one transaction. A partition that has moved meanwhile is refused.
async fn cancel(context: &Context, asked: &mut Asked) {
    let partitions: Vec<TopicPartition> = all(asked)
        .filter_map(|asking| match asking {
            Change::Move(_) => None,
            Change::Cancel(partition) => Some(partition.clone()),
        })
        .collect();
    if partitions.is_empty() {
        return;
    }
    let (cancelled, refused) = match context.logs.cancel_moves(&partitions).await {
        Ok(cancelled) => (cancelled, ErrorCode::NoReassignmentInProgress.into()),
        Err(error) => {
            tracing::warn!(%error, "reassignments were not cancelled");
            (Vec::new(), refused(&error))
        }
    };
    let cancelled: HashSet<TopicPartition> = cancelled.into_iter().collect();
    refuse(asked, &refused, |asking| match asking {
        Change::Move(_) => false,
        Change::Cancel(partition) => !cancelled.contains(partition),
    });
}

fn all(asked: &Asked) -> impl Iterator<Item = &Change> {
    let partitions = asked.iter().flat_map(|(_, partitions)| partitions);
    partitions.filter_map(|(_, checked)| checked.as_ref().ok()?.as_ref())
}

/// Refuses what was asked and cannot be done.
fn refuse(asked: &mut Asked, refused: &Refused, is_refused: impl Fn(&Change) -> bool) {
    let partitions = asked.iter_mut().flat_map(|(_, partitions)| partitions);
    for (_, checked) in partitions {
        if matches!(checked, Ok(Some(asking)) if is_refused(asking)) {
            *checked = Err(refused.clone());
        }
    }
}

/// Why moves were not planned.
pub(super) fn refused(error: &ClusterError) -> Refused {
    let code = match error {
        ClusterError::UnknownPartition(_) => ErrorCode::UnknownTopicOrPartition,
        ClusterError::NodeNot(..) => ErrorCode::InvalidReplicaAssignment,
        ClusterError::Store(failure) => code::of_storage(failure),
        ClusterError::Fenced(_) | ClusterError::Adopted { .. } | ClusterError::NotOwner(_) => {
            ErrorCode::NotController
        }
    };
    Refused::new(code, error.to_string())
}

fn topic(
    rights: &Rights,
    (name, partitions): (WireTopic, Vec<Checked>),
) -> ReassignableTopicResponse {
    let partitions = partitions.into_iter().map(|(index, checked)| {
        let (error, message) = Refused::parts(&checked);
        let partition = format!("{}-{index}", name.as_str());
        rights.audit(Operation::Alter, Changed::Leader, &partition, error);
        ReassignablePartitionResponse::default()
            .with_partition_index(index)
            .with_error_code(error)
            .with_error_message(message)
    });
    let partitions = partitions.collect();
    ReassignableTopicResponse::default()
        .with_name(name)
        .with_partitions(partitions)
}
