//! ElectLeaders: partitions go back to their preferred leaders (KIP-460).
//!
//! An unclean election, which gives records up to have a leader at all, is never needed: a failed broker's records are
//! recovered from its log.

use std::{sync::Arc, time::Duration};

use millrace_log::{Partition, Topic};
use millrace_meta::{Move, Preferred};
use millrace_model::{TopicName, TopicPartition};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        ElectLeadersRequest, ElectLeadersResponse, TopicName as WireTopic,
        elect_leaders_request::TopicPartitions,
        elect_leaders_response::{PartitionResult, ReplicaElectionResult},
    },
};

use super::alter_partition_reassignments::refused;
use crate::{
    authorization::{Changed, Rights},
    call::{Call, Outcome, first_error},
    context::{Context, text},
    members::broker_id,
    topic_changes::enqueue,
    topics::Refused,
};

/// The first version with an error of the whole request.
const FIRST_WITH_ERROR: i16 = 1;
const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// How long a client may wait for the moves.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A partition's index, and the move that its election takes.
type Election = (i32, Result<Move, Refused>);

/// Partitions, by topic.
type Elections = Vec<(WireTopic, Vec<Election>)>;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ElectLeadersRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    if let Err(code) = rights.cluster(Operation::Alter) {
        let response = match reply.version {
            FIRST_WITH_ERROR.. => ElectLeadersResponse::default().with_error_code(code.code()),
            _ => denied(&request, code),
        };
        return reply.now(&response, code.code());
    }
    if !matches!(request.election_type, PREFERRED | UNCLEAN) && reply.version >= FIRST_WITH_ERROR {
        let code = ErrorCode::InvalidRequest.code();
        return reply.now(&ElectLeadersResponse::default().with_error_code(code), code);
    }
    let wait = u64::try_from(request.timeout_ms).unwrap_or(0);
    let wait = Duration::from_millis(wait).min(WAIT_MAX);
    let own = Arc::clone(context);
    let change = async move {
        let mut elections = check(&own, &request);
        plan(&own, &mut elections).await;
        elections
    };
    let own = Arc::clone(context);
    enqueue(context, change, move |mut elections| async move {
        await_leaders(&own, &mut elections, wait).await;
        let results: Vec<_> = elections
            .into_iter()
            .map(|of| result(&rights, of))
            .collect();
        let partitions = results.iter().flat_map(|topic| &topic.partition_result);
        let error = first_error(partitions.map(|partition| partition.error_code));
        let response = ElectLeadersResponse::default().with_replica_election_results(results);
        reply.with(&response, error)
    })
    .await
}

/// The answer of a version that has no error of the whole request.
fn denied(request: &ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse {
    let asked = request.topic_partitions.iter().flatten();
    let results = asked.map(
        |TopicPartitions {
             topic, partitions, ..
         }| {
            let partition = |&index: &i32| {
                PartitionResult::default()
                    .with_partition_id(index)
                    .with_error_code(code.code())
            };
            ReplicaElectionResult::default()
                .with_topic(topic.clone())
                .with_partition_result(partitions.iter().map(partition).collect())
        },
    );
    ElectLeadersResponse::default().with_replica_election_results(results.collect())
}

fn check(context: &Context, request: &ElectLeadersRequest) -> Elections {
    let Some(asked) = &request.topic_partitions else {
        let all = context.logs.topics();
        return all
            .iter()
            .filter_map(|topic| all_of(context, topic, request.election_type))
            .collect();
    };
    let topics = asked.iter().map(
        |TopicPartitions {
             topic, partitions, ..
         }| {
            let elections = partitions.iter().map(|&index| {
                let election = find(context, topic, index).and_then(|(id, partition)| {
                    elect(context, id, &partition, request.election_type)
                });
                (index, election)
            });
            (topic.clone(), elections.collect())
        },
    );
    topics.collect()
}

/// The elections of a topic that are needed. Who asks for all is not told of the others.
fn all_of(
    context: &Context,
    topic: &Topic,
    election_type: i8,
) -> Option<(WireTopic, Vec<Election>)> {
    let partitions = (0_u32..).zip(&topic.partitions);
    let elections = partitions.map(|(index, partition)| {
        let id = TopicPartition {
            topic: topic.name.clone(),
            partition: index,
        };
        let election = elect(context, id, partition, election_type);
        (i32::try_from(index).unwrap_or(i32::MAX), election)
    });
    let is_needed = |election: &Result<Move, Refused>| !matches!(election, Err(refused) if refused.code == ErrorCode::ElectionNotNeeded);
    let elections: Vec<_> = elections
        .filter(|(_, election)| is_needed(election))
        .collect();
    let name = WireTopic(text(topic.name.as_str()));
    (!elections.is_empty()).then_some((name, elections))
}

fn find(
    context: &Context,
    name: &WireTopic,
    index: i32,
) -> Result<(TopicPartition, Partition), Refused> {
    let unknown = || Refused::from(ErrorCode::UnknownTopicOrPartition);
    let topic = TopicName::new(name.as_str()).map_err(|_| unknown())?;
    let found = context.logs.topic(&topic).ok_or_else(unknown)?;
    let partition = u32::try_from(index).map_err(|_| unknown())?;
    let of = found.partitions.get(partition as usize);
    let of = of.ok_or_else(unknown)?.clone();
    Ok((TopicPartition { topic, partition }, of))
}

/// The move that makes the preferred leader the leader.
fn elect(
    context: &Context,
    partition: TopicPartition,
    of: &Partition,
    election_type: i8,
) -> Result<Move, Refused> {
    let not_needed = || Refused::from(ErrorCode::ElectionNotNeeded);
    let leader = of.leader().ok_or_else(not_needed)?;
    if election_type != PREFERRED {
        // A partition whose leader is gone is led again once that one's log is recovered.
        return match context.leader_of(of) {
            Some(_) => Err(not_needed()),
            None => Err(ErrorCode::EligibleLeadersNotAvailable.into()),
        };
    }
    let preferred = leader.preferred.filter(|&to| Some(to) != leader.node);
    let to = preferred.ok_or_else(not_needed)?;
    match context.able(broker_id(to)) {
        Some(to) => Ok(Move { partition, to }),
        None => Err(Refused::new(
            ErrorCode::PreferredLeaderNotAvailable,
            format!("Broker {to} is not running, or is about to stop."),
        )),
    }
}

/// Plans all of them in one transaction. Where that fails, all of them are refused.
async fn plan(context: &Context, elections: &mut Elections) {
    let all = elections.iter().flat_map(|(_, of_topic)| of_topic);
    let moves: Vec<Move> = all
        .filter_map(|(_, election)| election.as_ref().ok().cloned())
        .collect();
    if moves.is_empty() {
        return;
    }
    let planned = context.logs.plan_moves(&moves, Preferred::Keep).await;
    let Err(error) = planned else {
        tracing::info!(
            partitions = moves.len(),
            "a client requested preferred leader election"
        );
        return;
    };
    tracing::warn!(%error, "preferred leaders were not elected");
    let all = elections.iter_mut().flat_map(|(_, of_topic)| of_topic);
    for (_, election) in all {
        if election.is_ok() {
            *election = Err(refused(&error));
        }
    }
}

/// Waits until the partitions are led by whom they were to be led. Those that are not in time are refused; they go on moving.
async fn await_leaders(context: &Context, elections: &mut Elections, wait: Duration) {
    let mut changes = context.logs.changes();
    let mut is_late = false;
    let waiting = tokio::time::sleep(wait);
    tokio::pin!(waiting);
    loop {
        changes.mark_unchanged();
        let all = elections.iter_mut().flat_map(|(_, of_topic)| of_topic);
        let mut open = 0_usize;
        for (_, election) in all {
            if election
                .as_ref()
                .is_ok_and(|wanted| !is_led(context, wanted))
            {
                open += 1;
                if is_late {
                    *election = Err(ErrorCode::RequestTimedOut.into());
                }
            }
        }
        if open == 0 || is_late {
            return;
        }
        tokio::select! {
            () = &mut waiting => is_late = true,
            _ = changes.changed() => {}
        }
    }
}

/// Whether a partition is where it was to go, or is gone.
fn is_led(context: &Context, wanted: &Move) -> bool {
    let Some(topic) = context.logs.topic(&wanted.partition.topic) else {
        return true;
    };
    let partition = topic.partitions.get(wanted.partition.partition as usize);
    let leader = partition.and_then(Partition::leader);
    leader.is_none_or(|leader| leader.node == Some(wanted.to))
}

fn result(
    rights: &Rights,
    (topic, elections): (WireTopic, Vec<Election>),
) -> ReplicaElectionResult {
    let partitions = elections.into_iter().map(|(index, election)| {
        let (error, message) = Refused::worded_parts(&election);
        if error == NONE {
            let partition = format!("{}-{index}", topic.as_str());
            rights.audit(Operation::Alter, Changed::Leader, &partition, error);
        }
        PartitionResult::default()
            .with_partition_id(index)
            .with_error_code(error)
            .with_error_message(message)
    });
    let partitions = partitions.collect();
    ReplicaElectionResult::default()
        .with_topic(topic)
        .with_partition_result(partitions)
}
