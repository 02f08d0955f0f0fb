//! A share group (KIP-932): what it says, in the order of the log. No group becomes one, and none ceases to be one, but by its deletion.

use std::collections::BTreeSet;

use bytes::Bytes;
use millrace_model::{Offset, TopicId};
use tokio::sync::oneshot;

use super::{Group, Now, answer, consumer::reply_with};
use crate::{
    GroupError,
    config::MEMBER_BYTES,
    messages::{
        ConsumerHeartbeatAnswer, GroupDescription, GroupKind, GroupState, JOIN_EPOCH, LEAVE_EPOCH,
        MemberDescription, ShareGroupDescription, ShareHeartbeat,
    },
    records::{GroupRecord, StoredPartitions},
    share::{SHARE, ShareGroup, StateRequest, StateResults, subscription_bytes},
    stored::COPIES,
    subscription,
    topics::SharedTopics,
};

/// The answer to a heartbeat, which comes when what it tells is durable, and what the share coordinator is to be asked then.
type Heard = (
    oneshot::Receiver<Result<ConsumerHeartbeatAnswer, GroupError>>,
    Option<StateRequest>,
);

impl Group {
    /// Takes on a share group that was read from the log.
    pub(crate) fn restore_share(&mut self, share: ShareGroup) {
        self.share = Some(Box::new(share));
        self.note_share();
    }

    /// Takes a ShareGroupHeartbeat.
    pub(crate) fn share_heartbeat(
        &mut self,
        request: &ShareHeartbeat,
        topics: &SharedTopics,
        now: Now,
    ) -> Heard {
        let (reply, answered) = oneshot::channel();
        let heard = match &mut self.share {
            _ if self.state == GroupState::Dead => Err(GroupError::CoordinatorNotAvailable),
            Some(share) => share.heartbeat(request, now),
            None => self.found_and_hear(request, topics, now),
        };
        let mut heard = match heard {
            Ok(heard) => heard,
            Err(error) => {
                answer(reply, Err(error));
                return (answered, None);
            }
        };
        let share = self.share.as_mut();
        let asked = share.and_then(|share| {
            let asked = share.begin_initialization(now);
            if request.member_epoch != LEAVE_EPOCH {
                heard.heartbeat_interval = share.heartbeat_interval();
            }
            asked
        });
        self.write_share(reply_with(reply, heard));
        (answered, asked)
    }

    /// The first member joins.
    fn found_and_hear(
        &mut self,
        request: &ShareHeartbeat,
        topics: &SharedTopics,
        now: Now,
    ) -> Result<ConsumerHeartbeatAnswer, GroupError> {
        if request.member_epoch != JOIN_EPOCH || !self.is_new() {
            return Err(GroupError::GroupIdNotFound);
        }
        let (id, config) = (self.id.clone(), self.config.clone());
        let mut share = ShareGroup::new(id, config, topics.clone());
        let heard = share.heartbeat(request, now)?;
        self.share = Some(Box::new(share));
        Ok(heard)
    }

    /// Whether nothing is known of the group but its id.
    fn is_new(&self) -> bool {
        self.is_unused()
            && self.durable_count() == 0
            && self.consumer.is_none()
            && self.effects.is_empty()
    }

    /// Hands what the share group has changed to the log. `then` happens once that and all before it is durable.
    fn write_share(&mut self, then: Option<super::consumer::Settled>) {
        let is_settled = self.consumer_writes_in_flight == 0;
        let share = self.share.as_mut();
        let records = share.map_or_else(Vec::new, |share| share.take_records(is_settled));
        self.note_share();
        if records.is_empty() && is_settled {
            if let Some(then) = then {
                then(Ok(()));
            }
            return;
        }
        self.push_write(records, then);
    }

    fn note_share(&mut self) {
        if let Some(at) = self.share.as_ref().and_then(|share| share.wake_at()) {
            self.note(at);
        }
    }

    /// Ends sessions of the share group's members.
    pub(super) fn expire_share(&mut self, now: Now) {
        if let Some(share) = &mut self.share {
            share.expire(now);
            self.write_share(None);
        }
    }

    /// The share coordinator was asked to initialize states.
    pub(crate) fn initialization_finished(
        &mut self,
        results: &StateResults,
        newest_epoch: Option<i32>,
        now: Now,
    ) {
        if let Some(share) = &mut self.share {
            share.initialization_finished(results, newest_epoch, now);
            self.write_share(None);
        }
    }

    /// The share coordinator was asked to delete states.
    pub(crate) fn deletion_finished(&mut self, results: &StateResults) {
        if let Some(share) = &mut self.share {
            share.deletion_finished(results);
            self.write_share(None);
        }
    }

    /// Lets partitions of a share group without members start again at other offsets.
    pub(crate) fn begin_alter(
        &mut self,
        offsets: Vec<((TopicId, u32), Offset)>,
    ) -> Result<StateRequest, GroupError> {
        let asked = self.live_share()?.begin_alter(offsets)?;
        self.write_share(None);
        Ok(asked)
    }

    /// Deletes the states of topics of a share group without members.
    pub(crate) fn begin_delete_offsets(
        &mut self,
        topics: &BTreeSet<TopicId>,
    ) -> Result<Option<StateRequest>, GroupError> {
        let asked = self.live_share()?.begin_delete_offsets(topics)?;
        self.write_share(None);
        Ok(asked)
    }

    /// Deletes the states of a share group without members; none where it has none, or the group is of another kind.
    pub(crate) fn begin_delete_states(&mut self) -> Result<Option<StateRequest>, GroupError> {
        let Some(share) = &mut self.share else {
            return Ok(None);
        };
        if self.state == GroupState::Dead {
            return Err(GroupError::GroupIdNotFound);
        }
        let asked = share.begin_delete_states()?;
        self.write_share(None);
        Ok(asked)
    }

    /// The share coordinator has deleted all states of a share group, or has not: whether the group may be deleted now.
    pub(crate) fn end_delete_states(
        &mut self,
        is_done: bool,
        now: Now,
    ) -> Result<Vec<GroupRecord>, GroupError> {
        self.live_share()?.asked();
        match is_done {
            true => self.begin_delete(now),
            false => Err(GroupError::CoordinatorNotAvailable),
        }
    }

    /// Forgets the states of deleted topics. The share coordinators, which keep them, learn of the deletion themselves.
    pub(crate) fn share_topics_deleted(&mut self) {
        if let Some(share) = &mut self.share {
            share.forget_gone_topics();
            self.write_share(None);
        }
    }

    fn live_share(&mut self) -> Result<&mut ShareGroup, GroupError> {
        match &mut self.share {
            Some(share) if self.state != GroupState::Dead => Ok(share),
            _ => Err(GroupError::GroupIdNotFound),
        }
    }

    /// The partitions of a share group whose state is initialized.
    pub(crate) fn with_state(&self) -> Result<StoredPartitions, GroupError> {
        match &self.share {
            Some(share) if self.state != GroupState::Dead => Ok(share.with_state().clone()),
            _ => Err(GroupError::GroupIdNotFound),
        }
    }

    /// What a heartbeat may add to the group, in bytes: a member that joins, and what a member subscribes to beyond what it has.
    pub(crate) fn share_growth(&self, request: &ShareHeartbeat) -> u64 {
        let member = match request.member_epoch {
            LEAVE_EPOCH => return 0,
            JOIN_EPOCH => MEMBER_BYTES,
            _ => 0,
        };
        let known = self.share.as_ref();
        let known = known.map_or(0, |share| share.subscription_bytes(&request.member_id));
        let asked = subscription_bytes(request.names.iter().flatten());
        COPIES * (member + asked.saturating_sub(known))
    }

    /// All that is shown of a share group.
    pub(crate) fn describe_share(&self) -> Result<ShareGroupDescription, GroupError> {
        match &self.share {
            Some(share) if self.state != GroupState::Dead => Ok(share.describe()),
            _ => Err(GroupError::GroupIdNotFound),
        }
    }

    /// A share group in the terms of a classic one.
    pub(super) fn describe_share_as_classic(&self, share: &ShareGroup) -> GroupDescription {
        let described = share.describe();
        let members = described.members.into_iter().map(|member| {
            let assigned = member.assignment.into_iter();
            let assigned: Vec<(String, Vec<u32>)> = assigned
                .map(|(_, name, numbers)| (name.as_str().to_owned(), numbers.into_iter().collect()))
                .collect();
            MemberDescription {
                member_id: member.member_id,
                instance_id: None,
                client_id: member.client_id,
                client_host: member.client_host,
                metadata: Bytes::new(),
                assignment: subscription::encode_assignment(0, &assigned),
            }
        });
        GroupDescription {
            kind: GroupKind::Share,
            state: self.state(),
            protocol_type: SHARE.to_owned(),
            protocol: described.assignor.to_owned(),
            members: members.collect(),
        }
    }
}
