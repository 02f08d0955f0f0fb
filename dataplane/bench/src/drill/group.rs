//! A consumer group that commits ever higher offsets: what was acknowledged is never below what a
//! restarted broker knows, and what it knows was committed.

use std::sync::{Arc, atomic::Ordering};

use millrace_time::SystemClock;
use millrace_wire::{
    StrBytes,
    messages::{
        FindCoordinatorRequest, GroupId, OffsetCommitRequest, OffsetFetchRequest, TopicName,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
    },
};

use crate::{
    machine::pause,
    producer::{ClientError, Connection, error_code::ErrorCode},
};

use super::load::{CLIENT_ID, PATIENCE, RECONNECT_PAUSE, START_WAIT_MAX, Stage, connect_patiently};

/// What a broker tells of a group that has committed nothing.
pub(super) const NOTHING_COMMITTED: i64 = -1;

const GROUP: &str = "drill";
/// Between two commits: several fall between two kills, and they do not crowd out the producers.
const COMMIT_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// After these a client tries again.
const RETRIABLE: [ErrorCode; 5] = [
    ErrorCode::CoordinatorLoadInProgress,
    ErrorCode::CoordinatorNotAvailable,
    ErrorCode::NotCoordinator,
    ErrorCode::RequestTimedOut,
    ErrorCode::UnknownTopicOrPartition,
];

/// Commits offsets until the stage finishes; `Err` where the group remembers the wrong one.
pub(super) fn run(stage: &Arc<Stage>) -> Result<(), String> {
    let mut committing = Committing {
        sent: NOTHING_COMMITTED,
    };
    while !stage.abandoned.load(Ordering::Acquire) {
        match committing.on_one_connection(stage) {
            Ok(true) => return Ok(()),
            Ok(false) | Err(Trouble::Lost) => pause(RECONNECT_PAUSE),
            Err(Trouble::Broken(reason)) => return Err(reason),
        }
    }
    Ok(())
}

/// Has the broker create the topic of the groups: it does so when somebody asks for a coordinator.
pub(super) fn create_topic(connection: &mut Connection, topic: &str) -> Result<(), String> {
    find_coordinator(connection)?;
    match committed_patiently(connection, topic)? {
        Some(_) => Ok(()),
        None => Err(format!("no coordinator within {START_WAIT_MAX:?}")),
    }
}

/// Whether the broker at `stage` knows what was acknowledged.
pub fn check(stage: &Arc<Stage>) -> Result<(), String> {
    let mut connection = connect_patiently(stage.broker)?;
    let found = committed_patiently(&mut connection, &stage.topic)?;
    let acknowledged = stage.ledger.change(|promises| promises.group_offset);
    if found != Some(acknowledged) {
        // Whoever calls this made sure that nothing was on its way.
        return Err(format!(
            "the group committed {acknowledged}, the broker remembers {found:?}"
        ));
    }
    Ok(())
}

struct Committing {
    /// The highest offset that was sent.
    sent: i64,
}

enum Trouble {
    Lost,
    Broken(String),
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Lost => "the broker does not answer".to_owned(),
            Trouble::Broken(reason) => reason,
        }
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Io(_) => Self::Lost,
            wrong => Self::Broken(wrong.to_string()),
        }
    }
}

impl Committing {
    /// Commits while the connection holds. True where the stage finishes and the last commit is
    /// acknowledged, so that it is known which it is.
    fn on_one_connection(&mut self, stage: &Arc<Stage>) -> Result<bool, Trouble> {
        let mut connection = Connection::connect(stage.broker, CLIENT_ID, PATIENCE)?;
        // What groups commit has a place only after somebody has asked where it is.
        find_coordinator(&mut connection)?;
        let Some(found) = committed(&mut connection, &stage.topic)? else {
            return Ok(false);
        };
        let acknowledged = stage.ledger.change(|promises| promises.group_offset);
        if found < acknowledged || found > self.sent {
            return Err(Trouble::Broken(format!(
                "the group was told that {acknowledged} is committed and has sent {}, the broker \
                 remembers {found}",
                self.sent
            )));
        }
        loop {
            let finishing = stage.finishing.load(Ordering::Acquire);
            self.sent += 1;
            let code = commit(&mut connection, &stage.topic, self.sent)?;
            if code == 0 {
                stage.ledger.change(|promises| {
                    promises.group_offset = self.sent;
                    promises.group_commits += 1;
                });
                if finishing {
                    return Ok(true);
                }
            } else if !RETRIABLE.iter().any(|known| known.code() == code) {
                return Err(Trouble::Broken(format!("a commit: error code {code}")));
            }
            pause(COMMIT_PAUSE);
        }
    }
}

fn find_coordinator(connection: &mut Connection) -> Result<(), Trouble> {
    let request = FindCoordinatorRequest::default()
        .with_coordinator_keys(vec![StrBytes::from_static_str(GROUP)]);
    connection.call(&request)?;
    Ok(())
}

fn commit(connection: &mut Connection, topic: &str, offset: i64) -> Result<i16, Trouble> {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let answer = connection.call(&request)?;
    let partition = answer.topics.first().and_then(|t| t.partitions.first());
    let partition = partition.ok_or(ClientError::Malformed("the answer to OffsetCommit"))?;
    Ok(partition.error_code)
}

/// The committed offset, -1 where there is none; `None` where the broker asks to try again.
fn committed(connection: &mut Connection, topic: &str) -> Result<Option<i64>, Trouble> {
    let topic = OffsetFetchRequestTopics::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partition_indexes(vec![0]);
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
        .with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_groups(vec![group]);
    let answer = connection.call(&request)?;
    let malformed = || ClientError::Malformed("the answer to OffsetFetch");
    let group = answer.groups.first().ok_or_else(malformed)?;
    let partition = group.topics.first().and_then(|t| t.partitions.first());
    let code = match partition {
        Some(partition) if group.error_code == 0 => partition.error_code,
        _ => group.error_code,
    };
    match (code, partition) {
        (0, Some(partition)) => Ok(Some(partition.committed_offset)),
        (0, None) => Err(malformed().into()),
        (code, _) if RETRIABLE.iter().any(|known| known.code() == code) => Ok(None),
        (code, _) => Err(Trouble::Broken(format!(
            "reading the committed offset: error code {code}"
        ))),
    }
}

/// The same, asked again while the coordinator loads; `None` where it still does after
/// [`START_WAIT_MAX`].
fn committed_patiently(connection: &mut Connection, topic: &str) -> Result<Option<i64>, Trouble> {
    let clock = SystemClock::shared();
    let asked = clock.now();
    loop {
        let found = committed(connection, topic)?;
        if found.is_some() || clock.now().saturating_sub(asked) > START_WAIT_MAX {
            return Ok(found);
        }
        pause(COMMIT_PAUSE);
    }
}
