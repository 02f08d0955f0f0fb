//! `/v1/groups`: consumer groups and how far they are behind, from what the broker knows now.
//!
//! A group's partitions are those that its members are assigned and those that it has committed. Commits are read
//! before the logs' ends, so a commit that is beyond the end was made before the log was cut.

use std::collections::{BTreeMap, HashMap};

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use millrace_coordinator::{
    GroupError,
    messages::{GroupDescription, GroupState, MemberDescription},
};
use millrace_log::PartitionLog;
use millrace_model::{Offset, TopicPartition};
use millrace_wire::error_code::ErrorCode;
use serde::{Deserialize, Serialize};

use super::{AdminState, kafka::Refused};
use crate::state::Serving;

/// Groups of one page.
const PAGE_GROUPS_MAX: usize = 1_000;
/// A page ends with the group that brings it to so many partitions, each of which costs a few microseconds, and
/// 200 bytes where they are told. So 10,000 groups of 100 partitions are read in a hundred pages.
const PAGE_PARTITIONS_MAX: usize = 10_000;
/// Assigned partitions that are looked at per group: more than a broker has of a group that reads everything.
const ASSIGNED_MAX: usize = 100_000;

/// Which groups, and how much of each.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only groups whose ids come after this one.
    after: Option<String>,
    limit: Option<usize>,
    /// `partitions`, or nothing.
    #[serde(default)]
    include: String,
}

#[derive(Serialize)]
struct GroupPage {
    groups: Vec<GroupAnswer>,
    /// The id to go on `after`; none on the last page.
    next: Option<String>,
    /// The broker has started a moment ago and still reads groups from its log: some are missing.
    loading: bool,
}

#[derive(Serialize)]
struct GroupAnswer {
    group_id: String,
    /// Kafka's name: `Stable`, `Empty`, …
    state: &'static str,
    protocol_type: String,
    /// The assignor that the members agreed on; empty unless the group is stable.
    protocol: String,
    /// Nobody reads: what is behind stays behind.
    idle: bool,
    member_count: usize,
    partition_count: usize,
    /// Partitions whose lag is not known, and is not part of the sum.
    offline_partition_count: usize,
    /// Sum over the partitions, in records; decimal.
    lag: String,
    /// Sum of the committed offsets: as long as it stands still, so does the group. Decimal.
    committed_offset_sum: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<MemberAnswer>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Vec<PartitionAnswer>>,
}

#[derive(Serialize)]
struct MemberAnswer {
    member_id: String,
    /// `group.instance.id` of a static member.
    instance_id: Option<String>,
    client_id: String,
    host: String,
    partition_count: usize,
}

/// A partition of a group. Offsets are decimal.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct PartitionAnswer {
    topic: String,
    partition: u32,
    /// Who is assigned it.
    member_id: Option<String>,
    #[serde(flatten)]
    position: Position,
}

/// Where a group stands in a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Position {
    /// The next record that the group wants; none where it has committed nothing.
    committed_offset: Option<String>,
    /// The first offset that can be read; none where the partition is offline, as the end and the lag.
    start_offset: Option<String>,
    /// One past the last offset that can be read.
    end_offset: Option<String>,
    /// Records from the commit to the end. Without a commit, all that the partition has: where the group will
    /// begin is the consumer's `auto.offset.reset`, which the broker does not know.
    lag: Option<String>,
    /// The group has committed nothing.
    uncommitted: bool,
    /// The commit is before the first record or behind the last one, so the group will begin where
    /// `auto.offset.reset` says. The lag is that from the first record, or 0.
    out_of_range: bool,
    offline: bool,
}

impl Position {
    /// With the first and the last offset of a log that is not offline, and the lag as a number.
    fn new(committed: Option<Offset>, bounds: Option<(Offset, Offset)>) -> (Self, u64) {
        let lag = bounds.map(|(start, end)| {
            let from = committed.unwrap_or(start).max(start);
            end.saturating_sub(from)
        });
        let is_outside =
            |(start, end)| committed.is_some_and(|committed| committed < start || committed > end);
        let text = |offset: Offset| offset.to_string();
        let position = Self {
            committed_offset: committed.map(text),
            start_offset: bounds.map(|(start, _)| text(start)),
            end_offset: bounds.map(|(_, end)| text(end)),
            lag: lag.map(text),
            uncommitted: committed.is_none(),
            out_of_range: bounds.is_some_and(is_outside),
            offline: bounds.is_none(),
        };
        (position, lag.unwrap_or(0))
    }
}

/// `GET /v1/groups`: in order of their ids.
pub(super) async fn list(
    State(state): State<AdminState>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Response, Refused> {
    let query = query?.0;
    let with_partitions = match query.include.as_str() {
        "" => false,
        "partitions" => true,
        _ => return Err(Refused::invalid("include is partitions, or absent")),
    };
    let limit = query.limit.unwrap_or(PAGE_GROUPS_MAX);
    if limit == 0 || limit > PAGE_GROUPS_MAX {
        let message = format!("limit is a number from 1 to {PAGE_GROUPS_MAX}");
        return Err(Refused::invalid(message));
    }
    let serving = state.broker.serving().ok_or(Refused::Starting)?;
    let ids = serving
        .groups
        .list()
        .into_iter()
        .map(|group| group.group_id);
    let is_after = |id: &String| query.after.as_ref().is_none_or(|after| id > after);
    let mut rest = ids.filter(is_after);
    let (mut groups, mut partitions, mut last) = (Vec::new(), 0, None);
    while groups.len() < limit && partitions < PAGE_PARTITIONS_MAX {
        let Some(id) = rest.next() else { break };
        // A group that is deleted meanwhile is none.
        if let Ok(group) = answer(serving, &id, Detail::List { with_partitions }) {
            partitions += group.partition_count;
            groups.push(group);
        }
        last = Some(id);
        // A group takes milliseconds at most. Clients are served between two of them.
        tokio::task::yield_now().await;
    }
    let next = rest.next().and(last);
    let loading = serving.groups.is_loading();
    let page = GroupPage {
        groups,
        next,
        loading,
    };
    Ok(Json(page).into_response())
}

/// `GET /v1/groups/{group}`
pub(super) async fn describe(
    State(state): State<AdminState>,
    Path(group_id): Path<String>,
) -> Result<Response, Refused> {
    let serving = state.broker.serving().ok_or(Refused::Starting)?;
    let group = answer(serving, &group_id, Detail::All);
    let group = group.map_err(|error| refused(serving, &group_id, &error))?;
    Ok(Json(group).into_response())
}

fn refused(serving: &Serving, group_id: &str, error: &GroupError) -> Refused {
    match error {
        GroupError::InvalidGroupId => Refused::Kafka(ErrorCode::InvalidGroupId, error.to_string()),
        GroupError::GroupIdNotFound => not_found(group_id),
        // The groups' topic is made with the first group. Of those that another broker coordinates, that one tells.
        GroupError::NotCoordinator => not_found(group_id),
        _ if !serving.groups.is_loading() => not_found(group_id),
        _ => {
            let message = "the group's log is still being read; ask again in a moment";
            Refused::Kafka(ErrorCode::CoordinatorLoadInProgress, message.to_owned())
        }
    }
}

fn not_found(group_id: &str) -> Refused {
    let message = format!("there is no group {group_id}");
    Refused::Kafka(ErrorCode::GroupIdNotFound, message)
}

/// How much of a group is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    List { with_partitions: bool },
    All,
}

fn answer(serving: &Serving, group_id: &str, detail: Detail) -> Result<GroupAnswer, GroupError> {
    let group = serving.groups.describe(group_id)?;
    if group.state == GroupState::Dead {
        return Err(GroupError::GroupIdNotFound);
    }
    let assignments = match detail {
        Detail::All => Assignments::of(&group),
        Detail::List { .. } => Assignments::default(),
    };
    let (mut sum, mut committed_sum): (u64, u64) = (0, 0);
    let mut offline = 0;
    let mut partitions = Vec::new();
    for (id, committed) in committed_offsets(serving, group_id)? {
        let bounds = match serving.logs.partition(&id) {
            Some(log) => bounds(&log),
            None if serving.logs.exists(&id) => elsewhere(serving, &id),
            // Of a topic that is gone, nothing is behind.
            None => continue,
        };
        let (position, lag) = Position::new(committed, bounds);
        sum = sum.saturating_add(lag);
        committed_sum = committed_sum.saturating_add(committed.unwrap_or(0));
        offline += usize::from(position.offline);
        partitions.push((id, position));
    }
    let is_told = !matches!(
        detail,
        Detail::List {
            with_partitions: false
        }
    );
    let partition_count = partitions.len();
    Ok(GroupAnswer {
        group_id: group_id.to_owned(),
        state: group.state.name(),
        idle: group.members.is_empty(),
        member_count: group.members.len(),
        partition_count,
        offline_partition_count: offline,
        lag: sum.to_string(),
        committed_offset_sum: committed_sum.to_string(),
        partitions: is_told.then(|| {
            let told = |(id, position)| assignments.partition(id, position);
            partitions.into_iter().map(told).collect()
        }),
        members: (detail == Detail::All).then(|| assignments.members(group.members)),
        protocol_type: group.protocol_type,
        protocol: group.protocol,
    })
}

/// What the group has committed of each of its partitions.
fn committed_offsets(
    serving: &Serving,
    group_id: &str,
) -> Result<BTreeMap<TopicPartition, Option<Offset>>, GroupError> {
    let assigned = serving.groups.assigned(group_id, ASSIGNED_MAX)?;
    let committed = serving.groups.all_offsets(group_id)?;
    let assigned = assigned.into_iter().map(|(partition, _)| (partition, None));
    let committed = committed
        .into_iter()
        .map(|(partition, committed)| (partition, Offset::try_from(committed.offset).ok()));
    // The later entry of a partition replaces the earlier one.
    Ok(assigned.chain(committed).collect())
}

/// The first offset that can be read and one past the last; none where the partition is offline.
fn bounds(log: &PartitionLog) -> Option<(Offset, Offset)> {
    if log.offline().is_some() {
        return None;
    }
    let end = log.high_watermark();
    Some((log.start_offset().min(end), end))
}

/// The same of a partition that another broker leads; none as long as that one has not told.
fn elsewhere(serving: &Serving, id: &TopicPartition) -> Option<(Offset, Offset)> {
    let span = serving.elsewhere.span(id)?;
    Some((span.start, span.end))
}

/// Which member has which partition.
#[derive(Default)]
struct Assignments {
    member_ids: HashMap<TopicPartition, String>,
    counts: HashMap<String, usize>,
}

impl Assignments {
    fn of(group: &GroupDescription) -> Self {
        let mut assignments = Self::default();
        for member in &group.members {
            let partitions = member.assigned(ASSIGNED_MAX);
            let id = &member.member_id;
            assignments.counts.insert(id.clone(), partitions.len());
            let named = partitions
                .into_iter()
                .map(|partition| (partition, id.clone()));
            assignments.member_ids.extend(named);
        }
        assignments
    }

    fn partition(&self, id: TopicPartition, position: Position) -> PartitionAnswer {
        PartitionAnswer {
            member_id: self.member_ids.get(&id).cloned(),
            topic: id.topic.to_string(),
            partition: id.partition,
            position,
        }
    }

    fn members(&self, members: Vec<MemberDescription>) -> Vec<MemberAnswer> {
        let answer = |member: MemberDescription| MemberAnswer {
            partition_count: self.counts.get(&member.member_id).copied().unwrap_or(0),
            member_id: member.member_id,
            instance_id: member.instance_id,
            client_id: member.client_id,
            // Kafka writes a slash where Java has a host's name.
            host: member.client_host.trim_start_matches('/').to_owned(),
        };
        members.into_iter().map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Position;

    fn position(
        committed: Option<u64>,
        bounds: Option<(u64, u64)>,
    ) -> (Option<String>, u64, [bool; 3]) {
        let (position, lag) = Position::new(committed, bounds);
        let marks = [
            position.uncommitted,
            position.out_of_range,
            position.offline,
        ];
        (position.lag, lag, marks)
    }

    #[test]
    fn lag_is_what_is_left_to_read() {
        let known = |lag: u64, marks| (Some(lag.to_string()), lag, marks);
        let log = Some((100, 1_000));
        assert_eq!(position(Some(400), log), known(600, [false; 3]));
        assert_eq!(position(Some(100), log), known(900, [false; 3]));
        assert_eq!(position(Some(1_000), log), known(0, [false; 3]));
        assert_eq!(position(None, log), known(900, [true, false, false]));
        assert_eq!(position(None, Some((0, 0))), known(0, [true, false, false]));
    }

    #[test]
    fn a_commit_outside_of_the_log_is_marked_and_its_lag_is_never_negative() {
        let known = |lag: u64| (Some(lag.to_string()), lag, [false, true, false]);
        assert_eq!(position(Some(40), Some((100, 1_000))), known(900));
        assert_eq!(position(Some(1_001), Some((100, 1_000))), known(0));
        assert_eq!(position(Some(u64::MAX), Some((0, 0))), known(0));
    }

    #[test]
    fn an_offline_partition_has_no_lag() {
        assert_eq!(position(Some(40), None), (None, 0, [false, false, true]));
        assert_eq!(position(None, None), (None, 0, [true, false, true]));
    }
}
