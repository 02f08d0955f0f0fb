//! The classic protocol: join, sync, heartbeats, leave. The members' leader assigns.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use millrace_wire::{
    StrBytes,
    messages::{
        HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
        join_group_request::JoinGroupRequestProtocol, leave_group_request::MemberIdentity,
        sync_group_request::SyncGroupRequestAssignment,
    },
};

use super::{Ended, Task, ms};
use crate::{
    consumer::{
        assignor::{Assignor, topics_of},
        coordinator::Identity,
        protocol,
    },
    error::{BrokerError, ErrorCode, RequestError},
    topic_partition::TopicPartition,
};

/// The type of the group.
const PROTOCOL_TYPE: &str = "consumer";
/// The first JoinGroup with a rebalance time-out.
const REBALANCE_TIMEOUT_FROM: i16 = 1;
/// The first JoinGroup with static members.
const JOIN_INSTANCE_FROM: i16 = 5;
/// The first SyncGroup and Heartbeat with static members.
const INSTANCE_FROM: i16 = 3;
/// The first SyncGroup that names its protocol.
const SYNC_PROTOCOL_FROM: i16 = 5;
/// The first LeaveGroup for several members.
const LEAVE_MEMBERS_FROM: i16 = 3;
/// How much longer than the rebalance a JoinGroup may take.
const JOIN_MARGIN: Duration = Duration::from_secs(5);

impl Task {
    pub(super) fn is_cooperative(&self) -> bool {
        let mut assignors = self.shared.config.assignors.iter();
        assignors.all(|assignor| assignor.is_cooperative())
    }

    /// One rebalance. True where another one must follow.
    pub(super) async fn join(&mut self) -> Result<bool, Ended> {
        if !self.is_cooperative() {
            self.revoke(self.owned.clone()).await?;
        }
        let joined = self.join_group().await?;
        let identity = Identity {
            generation: joined.generation_id,
            member_id: joined.member_id.to_string(),
        };
        self.coordinator().set_identity(identity);
        let assignments = if joined.leader == joined.member_id && !joined.skip_assignment {
            self.assign_all(&joined).await?
        } else {
            Vec::new()
        };
        let assigned = self.sync_group(&joined, assignments).await?;
        self.take_over(assigned).await
    }

    async fn join_group(&self) -> Result<JoinGroupResponse, Ended> {
        loop {
            let identity = self.coordinator().identity();
            let config = &self.shared.config;
            let topics = self.membership.topics.lock().clone();
            let protocol = |assignor: &Assignor| {
                let generation = identity.generation;
                let (owned, last) = (&self.owned, &self.last);
                let metadata = protocol::subscription(*assignor, &topics, owned, last, generation);
                JoinGroupRequestProtocol::default()
                    .with_name(StrBytes::from_static_str(assignor.name()))
                    .with_metadata(metadata)
            };
            let make = |version| {
                let request = JoinGroupRequest::default()
                    .with_group_id(self.coordinator().group_id())
                    .with_session_timeout_ms(ms(config.session_timeout))
                    .with_member_id(StrBytes::from_string(identity.member_id.clone()))
                    .with_protocol_type(StrBytes::from_static_str(PROTOCOL_TYPE))
                    .with_protocols(config.assignors.iter().map(protocol).collect());
                let request = if version >= REBALANCE_TIMEOUT_FROM {
                    request.with_rebalance_timeout_ms(ms(config.rebalance_timeout))
                } else {
                    request
                };
                if version >= JOIN_INSTANCE_FROM {
                    request.with_group_instance_id(self.instance())
                } else {
                    request
                }
            };
            let timeout = config.rebalance_timeout + JOIN_MARGIN;
            let response = self.ask(timeout, make).await?;
            if ErrorCode::from_code(response.error_code) == Some(ErrorCode::MEMBER_ID_REQUIRED) {
                self.coordinator().set_identity(Identity {
                    generation: identity.generation,
                    member_id: response.member_id.to_string(),
                });
                continue;
            }
            self.check(response.error_code, None)?;
            return Ok(response);
        }
    }

    /// As the leader: distributes the partitions over the members.
    async fn assign_all(
        &mut self,
        joined: &JoinGroupResponse,
    ) -> Result<Vec<SyncGroupRequestAssignment>, Ended> {
        let chosen = joined.protocol_name.as_deref().unwrap_or_default();
        let assignors = &self.shared.config.assignors;
        let assignor = assignors.iter().find(|one| one.name() == chosen);
        let Some(&assignor) = assignor else {
            return Err(Ended::Fatal(ErrorCode::UNSUPPORTED_ASSIGNOR.into()));
        };
        let members: Vec<_> = joined
            .members
            .iter()
            .filter_map(|one| {
                let instance = one.group_instance_id.as_deref();
                protocol::member(assignor, &one.member_id, instance, one.metadata.clone())
            })
            .collect();
        let topics = topics_of(&members);
        let client = &self.shared.client;
        self.interests = topics.iter().map(|topic| client.interest(topic)).collect();
        let metadata = client.refresh_topics(&[]).await?;
        let mut partitions = BTreeMap::new();
        for topic in topics {
            if let Some(known) = metadata.topic(&topic) {
                let count = i32::try_from(known.partitions.len()).unwrap_or(i32::MAX);
                partitions.insert(topic, count);
            }
        }
        let assignment = assignor.assign(&partitions, &members);
        let message = |(member, partitions): (&String, &Vec<TopicPartition>)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(StrBytes::from_string(member.clone()))
                .with_assignment(protocol::assignment(partitions))
        };
        Ok(assignment.iter().map(message).collect())
    }

    async fn sync_group(
        &self,
        joined: &JoinGroupResponse,
        assignments: Vec<SyncGroupRequestAssignment>,
    ) -> Result<Vec<TopicPartition>, Ended> {
        let make = |version| {
            let request = SyncGroupRequest::default()
                .with_group_id(self.coordinator().group_id())
                .with_generation_id(joined.generation_id)
                .with_member_id(joined.member_id.clone())
                .with_assignments(assignments.clone());
            let request = if version >= INSTANCE_FROM {
                request.with_group_instance_id(self.instance())
            } else {
                request
            };
            if version >= SYNC_PROTOCOL_FROM {
                request
                    .with_protocol_type(Some(StrBytes::from_static_str(PROTOCOL_TYPE)))
                    .with_protocol_name(joined.protocol_name.clone())
            } else {
                request
            }
        };
        let timeout = self.shared.config.rebalance_timeout + JOIN_MARGIN;
        let response = self.ask(timeout, make).await?;
        self.check(response.error_code, None)?;
        protocol::assigned(response.assignment).ok_or_else(|| {
            Ended::Fatal(BrokerError {
                code: ErrorCode::UNKNOWN_SERVER_ERROR,
                message: Some("the leader's assignment is malformed".to_owned()),
            })
        })
    }

    /// How many partitions each topic of the leader's assignment has.
    pub(super) fn partition_counts(&self) -> HashMap<Arc<str>, usize> {
        if self.interests.is_empty() {
            return HashMap::new();
        }
        let metadata = self.shared.client.metadata();
        let topics = self.membership.topics.lock();
        let count = |topic: &Arc<str>| {
            let known = metadata.topic(topic)?;
            Some((Arc::clone(topic), known.partitions.len()))
        };
        topics.iter().filter_map(count).collect()
    }

    pub(super) async fn classic_heartbeat(&self) -> Result<(), Ended> {
        let identity = self.coordinator().identity();
        let make = |version| {
            let request = HeartbeatRequest::default()
                .with_group_id(self.coordinator().group_id())
                .with_generation_id(identity.generation)
                .with_member_id(StrBytes::from_string(identity.member_id.clone()));
            if version >= INSTANCE_FROM {
                request.with_group_instance_id(self.instance())
            } else {
                request
            }
        };
        let response = self.ask(Duration::ZERO, make).await?;
        self.check(response.error_code, None)
    }

    /// Tells the coordinator, so that others get the partitions at once. A static member does not:
    /// it may come back.
    pub(super) async fn classic_leave(&self, identity: Identity) -> Result<(), RequestError> {
        if self.shared.config.group_instance_id.is_some() {
            return Ok(());
        }
        let make = |version| {
            let request = LeaveGroupRequest::default().with_group_id(self.coordinator().group_id());
            let member_id = StrBytes::from_string(identity.member_id.clone());
            if version >= LEAVE_MEMBERS_FROM {
                let member = MemberIdentity::default().with_member_id(member_id);
                request.with_members(vec![member])
            } else {
                request.with_member_id(member_id)
            }
        };
        self.ask(Duration::ZERO, make).await.map(drop)
    }
}
