//! The coordinator of one group that speaks the consumer protocol (KIP-848): it assigns topic `t`,
//! gives nobody a partition that another member still has, and checks members as a broker does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millrace_wire::{
    StrBytes,
    error_code::ErrorCode,
    messages::{
        consumer_group_heartbeat_response::{Assignment, TopicPartitions},
        find_coordinator_response::Coordinator,
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
        offset_fetch_response::{
            OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
        },
        *,
    },
};
use uuid::Uuid;

/// How often members are to send heartbeats, in milliseconds.
const INTERVAL_MS: i32 = 100;
const JOIN: i32 = 0;
const LEAVE: i32 = -1;
const LEAVE_FOR_A_WHILE: i32 = -2;

/// What happens to one heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupFault {
    None,
    /// The connection ends instead of an answer; the heartbeat counts.
    Cut,
    /// The member is not known any more.
    Forget,
    /// The coordinator does not serve the protocol.
    Refuse,
}

#[derive(Debug)]
pub(crate) struct Group {
    topic_id: Uuid,
    partitions: i32,
    epoch: i32,
    members: BTreeMap<String, Member>,
    offsets: BTreeMap<i32, i64>,
    script: VecDeque<GroupFault>,
    /// Why the next commits are refused.
    pub(crate) refused_commits: VecDeque<ErrorCode>,
    pub(crate) heartbeats: Vec<ConsumerGroupHeartbeatRequest>,
}

#[derive(Debug, Default)]
struct Member {
    epoch: i32,
    /// What it says that it has.
    owned: BTreeSet<i32>,
    /// What it was told that it may have.
    assigned: BTreeSet<i32>,
    /// What it is to have.
    target: BTreeSet<i32>,
}

impl Group {
    pub(crate) fn new(topic_id: Uuid, partitions: i32) -> Self {
        Self {
            topic_id,
            partitions,
            epoch: 0,
            members: BTreeMap::new(),
            offsets: BTreeMap::new(),
            script: VecDeque::new(),
            refused_commits: VecDeque::new(),
            heartbeats: Vec::new(),
        }
    }

    pub(crate) fn script(&mut self, faults: impl IntoIterator<Item = GroupFault>) {
        self.script.extend(faults);
    }

    pub(crate) fn committed(&self) -> Vec<i64> {
        self.offsets.values().copied().collect()
    }

    /// The answer; nothing where the connection is to end.
    pub(crate) fn heartbeat(
        &mut self,
        asked: ConsumerGroupHeartbeatRequest,
    ) -> Option<ConsumerGroupHeartbeatResponse> {
        // Only one who is a member can be forgotten.
        let is_for_others =
            self.script.front() == Some(&GroupFault::Forget) && asked.member_epoch <= 0;
        let fault = match is_for_others {
            true => GroupFault::None,
            false => self.script.pop_front().unwrap_or(GroupFault::None),
        };
        let id = asked.member_id.to_string();
        if fault == GroupFault::Forget {
            self.members.remove(&id);
            self.assign();
        }
        self.heartbeats.push(asked.clone());
        let judged = match fault {
            GroupFault::Refuse => Err(ErrorCode::UnsupportedVersion),
            _ => self.judge(&id, asked),
        };
        let answer = match judged {
            Ok(answer) => answer,
            Err(code) => ConsumerGroupHeartbeatResponse::default().with_error_code(code.code()),
        };
        (fault != GroupFault::Cut).then_some(answer)
    }

    fn judge(
        &mut self,
        id: &str,
        asked: ConsumerGroupHeartbeatRequest,
    ) -> Result<ConsumerGroupHeartbeatResponse, ErrorCode> {
        assert!(!id.is_empty(), "the client chooses its id");
        let is_full = asked.subscribed_topic_names.is_some() && asked.rebalance_timeout_ms > 0;
        let answer = ConsumerGroupHeartbeatResponse::default()
            .with_member_id(Some(StrBytes::from_string(id.to_owned())))
            .with_heartbeat_interval_ms(INTERVAL_MS);
        match asked.member_epoch {
            LEAVE | LEAVE_FOR_A_WHILE => {
                self.members.remove(id).ok_or(ErrorCode::UnknownMemberId)?;
                self.assign();
                return Ok(answer.with_member_epoch(asked.member_epoch));
            }
            JOIN => {
                let names = asked.subscribed_topic_names.as_deref();
                assert_eq!(
                    names,
                    Some(&[TopicName(StrBytes::from_static_str("t"))][..])
                );
                assert!(is_full, "{asked:?}");
                assert_eq!(asked.topic_partitions.as_deref(), Some(&[][..]));
                self.members.insert(id.to_owned(), Member::default());
                self.assign();
            }
            epoch => {
                let member = self.members.get(id).ok_or(ErrorCode::UnknownMemberId)?;
                if member.epoch != epoch {
                    return Err(ErrorCode::FencedMemberEpoch);
                }
            }
        }
        if let Some(owned) = asked.topic_partitions {
            let all = owned.iter().flat_map(|topic| {
                assert_eq!(topic.topic_id, self.topic_id);
                topic.partitions.iter().copied()
            });
            let member = self.members.get_mut(id).expect("known");
            member.owned = all.collect();
        }
        let is_new = self.reconcile(id);
        let member = &self.members[id];
        let assignment = (is_new || is_full).then(|| {
            let topic = TopicPartitions::default()
                .with_topic_id(self.topic_id)
                .with_partitions(member.assigned.iter().copied().collect());
            Assignment::default().with_topic_partitions(vec![topic])
        });
        Ok(answer
            .with_member_epoch(member.epoch)
            .with_assignment(assignment))
    }

    /// New targets, evenly.
    fn assign(&mut self) {
        self.epoch += 1;
        let count = self.members.len();
        for (at, member) in self.members.values_mut().enumerate() {
            let own = (0..self.partitions).skip(at).step_by(count);
            member.target = own.collect();
        }
    }

    /// Tells a member to give up what is not its own any more; only then it gets what nobody else
    /// has. Whether it is told something new.
    fn reconcile(&mut self, id: &str) -> bool {
        let others = self.members.iter().filter(|(other, _)| *other != id);
        let taken: BTreeSet<i32> = others
            .flat_map(|(_, other)| other.owned.union(&other.assigned).copied())
            .collect();
        let group_epoch = self.epoch;
        let member = self.members.get_mut(id).expect("known");
        let kept: BTreeSet<i32> = member
            .assigned
            .intersection(&member.target)
            .copied()
            .collect();
        let before = member.assigned.clone();
        if member.owned.is_subset(&kept) {
            member.epoch = group_epoch;
            member.assigned = member.target.difference(&taken).copied().collect();
        } else {
            member.assigned = kept;
        }
        member.assigned != before
    }

    pub(crate) fn find(asked: &FindCoordinatorRequest, port: u16) -> FindCoordinatorResponse {
        let coordinator = |key: &StrBytes| {
            Coordinator::default()
                .with_key(key.clone())
                .with_node_id(BrokerId(1))
                .with_host(StrBytes::from_static_str("broker"))
                .with_port(port.into())
        };
        let keys = asked.coordinator_keys.iter();
        FindCoordinatorResponse::default().with_coordinators(keys.map(coordinator).collect())
    }

    pub(crate) fn commit(&mut self, asked: &OffsetCommitRequest) -> OffsetCommitResponse {
        let code = self.judge_commit(asked);
        let mut answers = Vec::new();
        for partition in asked.topics.iter().flat_map(|topic| &topic.partitions) {
            if code == 0 {
                let offset = partition.committed_offset;
                self.offsets.insert(partition.partition_index, offset);
            }
            answers.push(
                OffsetCommitResponsePartition::default()
                    .with_partition_index(partition.partition_index)
                    .with_error_code(code),
            );
        }
        let topic = OffsetCommitResponseTopic::default()
            .with_name(TopicName(StrBytes::from_static_str("t")))
            .with_partitions(answers);
        OffsetCommitResponse::default().with_topics(vec![topic])
    }

    fn judge_commit(&mut self, asked: &OffsetCommitRequest) -> i16 {
        let is_outside = asked.generation_id_or_member_epoch < 0 && asked.member_id.is_empty();
        if is_outside && self.members.is_empty() {
            return 0;
        }
        let Some(member) = self.members.get(asked.member_id.as_str()) else {
            return ErrorCode::UnknownMemberId.code();
        };
        if let Some(refused) = self.refused_commits.pop_front() {
            return refused.code();
        }
        if asked.generation_id_or_member_epoch != member.epoch {
            return ErrorCode::StaleMemberEpoch.code();
        }
        0
    }

    pub(crate) fn offsets(&self, asked: &OffsetFetchRequest) -> OffsetFetchResponse {
        let group = asked.groups.first().expect("one group");
        let topics = group.topics.as_deref().expect("topics");
        let offset = |index: &i32| {
            OffsetFetchResponsePartitions::default()
                .with_partition_index(*index)
                .with_committed_offset(self.offsets.get(index).copied().unwrap_or(-1))
        };
        let topic = |topic: &offset_fetch_request::OffsetFetchRequestTopics| {
            OffsetFetchResponseTopics::default()
                .with_name(topic.name.clone())
                .with_partitions(topic.partition_indexes.iter().map(offset).collect())
        };
        let answer = OffsetFetchResponseGroup::default()
            .with_group_id(group.group_id.clone())
            .with_topics(topics.iter().map(topic).collect());
        OffsetFetchResponse::default().with_groups(vec![answer])
    }
}
