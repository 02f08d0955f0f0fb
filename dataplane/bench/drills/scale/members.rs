//! A consumer group of many members that use the protocol of KIP-848. Each has a connection of its own, sends heartbeats as
//! often as the broker says, and at once after its assignment has changed, as Kafka's consumer does.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use millrace_bench::consumer::Consumer;
use millrace_time::SystemClock;
use millrace_wire::{
    StrBytes,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId, TopicName,
        consumer_group_heartbeat_request,
    },
};
use tokio::task::JoinSet;

/// Between two looks at what all members have.
const POLL: Duration = Duration::from_millis(50);
/// A group that has not settled by then never will.
const PATIENCE: Duration = Duration::from_secs(120);
const GROUP: &str = "scale-members";
const REBALANCE_TIMEOUT_MS: i32 = 300_000;

/// A topic by its id, and a partition's index.
type Partition = (u128, i32);

/// What one member has been told.
#[derive(Debug, Clone, Default)]
struct Held {
    epoch: i32,
    partitions: BTreeSet<Partition>,
}

type Board = Arc<Mutex<Vec<Held>>>;

/// Lets `members` join a group that consumes these topics, all at once. Gives how long it takes until all have the same epoch and
/// every one of the `partitions` has exactly one member.
pub(crate) async fn settle(
    address: SocketAddr,
    members: usize,
    topics: &[String],
    partitions: usize,
) -> Result<Duration, String> {
    let clock = SystemClock::shared();
    let board: Board = Arc::new(Mutex::new(vec![Held::default(); members]));
    let mut running = JoinSet::new();
    let mut connected = Vec::with_capacity(members);
    for number in 0..members {
        let client_id = format!("member-{number}");
        let connection = Consumer::connect(address, &client_id, "").await;
        connected.push(connection.map_err(|error| error.to_string())?);
    }
    let started = clock.now();
    for (number, connection) in connected.into_iter().enumerate() {
        let names = topics.iter().map(|name| TopicName(text(name))).collect();
        running.spawn(member(connection, number, names, Arc::clone(&board)));
    }
    loop {
        tokio::select! {
            ended = running.join_next() => {
                let ended = ended.ok_or("no members")?.map_err(|error| error.to_string())?;
                return Err(ended.map_or_else(|error| error, |never| match never {}));
            }
            () = tokio::time::sleep(POLL) => {}
        }
        if is_settled(&board, partitions) {
            return Ok(clock.now() - started);
        }
        if clock.now() - started > PATIENCE {
            return Err(unsettled(&board, partitions));
        }
    }
}

fn is_settled(board: &Board, partitions: usize) -> bool {
    let board = board.lock().expect("no member panics while it writes");
    let epoch = board.first().map_or(0, |held| held.epoch);
    if epoch == 0 || board.iter().any(|held| held.epoch != epoch) {
        return false;
    }
    let all: BTreeSet<Partition> = board
        .iter()
        .flat_map(|held| &held.partitions)
        .copied()
        .collect();
    let sum: usize = board.iter().map(|held| held.partitions.len()).sum();
    sum == partitions && all.len() == partitions
}

fn unsettled(board: &Board, partitions: usize) -> String {
    let board = board.lock().expect("no member panics while it writes");
    let sum: usize = board.iter().map(|held| held.partitions.len()).sum();
    let epochs: BTreeSet<i32> = board.iter().map(|held| held.epoch).collect();
    format!(
        "the group has not settled within {PATIENCE:?}: {sum} of {partitions} partitions are assigned, at epochs {epochs:?}"
    )
}

enum Never {}

/// One member, until it fails.
async fn member(
    mut connection: Consumer,
    number: usize,
    topics: Vec<TopicName>,
    board: Board,
) -> Result<Never, String> {
    let id = text(&format!("scale-member-{number}"));
    let mut held = Held::default();
    let mut topics = Some(topics);
    loop {
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(text(GROUP)))
            .with_member_id(id.clone())
            .with_member_epoch(held.epoch)
            .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
            .with_subscribed_topic_names(topics.take())
            .with_topic_partitions(Some(owned(&held)));
        let answer = connection.heartbeat(&request).await;
        let answer = answer.map_err(|error| format!("member {number}: {error}"))?;
        let has_changed = take(&mut held, &answer);
        board.lock().expect("no member panics while it writes")[number] = held.clone();
        if !has_changed {
            let interval = u64::try_from(answer.heartbeat_interval_ms).unwrap_or(1);
            tokio::time::sleep(Duration::from_millis(interval)).await;
        }
    }
}

/// Takes over what an answer says. Gives whether the assignment is another one, which the member confirms at once.
fn take(held: &mut Held, answer: &ConsumerGroupHeartbeatResponse) -> bool {
    held.epoch = answer.member_epoch;
    let Some(assignment) = &answer.assignment else {
        return false;
    };
    let partitions = assignment.topic_partitions.iter().flat_map(|topic| {
        let id = topic.topic_id.as_u128();
        topic.partitions.iter().map(move |&index| (id, index))
    });
    let partitions: BTreeSet<Partition> = partitions.collect();
    let has_changed = partitions != held.partitions;
    held.partitions = partitions;
    has_changed
}

fn owned(held: &Held) -> Vec<consumer_group_heartbeat_request::TopicPartitions> {
    let mut topics: Vec<consumer_group_heartbeat_request::TopicPartitions> = Vec::new();
    for &(id, index) in &held.partitions {
        match topics.last_mut() {
            Some(last) if last.topic_id.as_u128() == id => last.partitions.push(index),
            _ => topics.push(
                consumer_group_heartbeat_request::TopicPartitions::default()
                    .with_topic_id(uuid::Uuid::from_u128(id))
                    .with_partitions(vec![index]),
            ),
        }
    }
    topics
}

fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}
