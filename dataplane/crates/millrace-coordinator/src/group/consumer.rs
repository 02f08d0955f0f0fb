//! A group that uses the consumer protocol (KIP-848): what its consumer group says, in the order of the
//! log, and the conversion from and to a classic group.

use std::fmt;

use tokio::sync::oneshot;

use super::{Effect, Group, Member, Now, Then, answer, member::Reply};
use crate::{
    GroupError,
    config::{MEMBER_BYTES, OFFSET_BYTES},
    consumer::{ClassicMember, ConsumerGroup, MayDescribe, bytes_of, subscription_bytes},
    messages::{
        Caller, ConsumerGroupDescription, ConsumerHeartbeat, ConsumerHeartbeatAnswer,
        GroupDescription, GroupKind, GroupState, JOIN_EPOCH, JoinRequest, Joined, LEAVE_EPOCH,
        LEAVE_STATIC_EPOCH, Leaving, MemberDescription, SyncRequest, Synced,
    },
    records::{GroupRecord, Key},
    share,
    stored::COPIES,
    subscription,
    topics::SharedTopics,
};

/// What happens once a write is durable, or could not be written.
pub(super) type Settled = Box<dyn FnOnce(Result<(), GroupError>) + Send>;

/// Records of a consumer group or a share group on their way to the log.
pub(crate) struct ConsumerWrite {
    pub(super) records: Vec<GroupRecord>,
    then: Option<Settled>,
}

impl fmt::Debug for ConsumerWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerWrite")
            .field("records", &self.records.len())
            .finish_non_exhaustive()
    }
}

impl ConsumerWrite {
    /// What its records cost in memory, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = |record: &GroupRecord| match record {
            GroupRecord::Consumer(Key::Consumer { part, .. }, Some(value)) => bytes_of(part, value),
            GroupRecord::Share(Key::Share { part, .. }, Some(value)) => {
                share::bytes_of(part, value)
            }
            _ => OFFSET_BYTES,
        };
        self.records.iter().map(bytes).sum()
    }

    /// Tells who waits for it, where the group is no longer here.
    pub(crate) fn answer(self, result: Result<(), GroupError>) {
        if let Some(then) = self.then {
            then(result);
        }
    }
}

/// Hands a result to who waits for it, once what it depends on is durable.
pub(super) fn reply_with<T: Send + 'static>(reply: Reply<T>, value: T) -> Option<Settled> {
    Some(Box::new(move |result: Result<(), GroupError>| {
        answer(reply, result.map(|()| value));
    }))
}

impl Group {
    /// The group's protocol.
    pub(crate) const fn kind(&self) -> GroupKind {
        match (&self.consumer, &self.share) {
            (Some(_), _) => GroupKind::Consumer,
            (None, Some(_)) => GroupKind::Share,
            (None, None) => GroupKind::Classic,
        }
    }

    /// Takes on a consumer group that was read from the log.
    pub(crate) fn restore_consumer(&mut self, consumer: ConsumerGroup) {
        self.consumer = Some(Box::new(consumer));
        self.note_consumer();
    }

    /// Takes a ConsumerGroupHeartbeat. The answer comes when what it tells is durable.
    pub(crate) fn consumer_heartbeat(
        &mut self,
        request: &ConsumerHeartbeat,
        topics: &SharedTopics,
        may_describe: MayDescribe<'_>,
        now: Now,
    ) -> oneshot::Receiver<Result<ConsumerHeartbeatAnswer, GroupError>> {
        let (reply, answered) = oneshot::channel();
        let heard = match &mut self.consumer {
            _ if self.state == GroupState::Dead => Err(GroupError::CoordinatorNotAvailable),
            _ if self.share.is_some() => Err(GroupError::GroupIdNotFound),
            Some(consumer) => consumer.heartbeat(request, may_describe, now),
            None => self.convert_and_hear(request, topics, may_describe, now),
        };
        match heard {
            Err(error) => answer(reply, Err(error)),
            Ok(heard) => {
                self.write_consumer(reply_with(reply, heard), now);
            }
        }
        answered
    }

    /// A member with the consumer protocol joins a classic group, which becomes a consumer group unless
    /// the member is refused.
    fn convert_and_hear(
        &mut self,
        request: &ConsumerHeartbeat,
        topics: &SharedTopics,
        may_describe: MayDescribe<'_>,
        now: Now,
    ) -> Result<ConsumerHeartbeatAnswer, GroupError> {
        if request.member_epoch != JOIN_EPOCH {
            return Err(GroupError::GroupIdNotFound);
        }
        let parts = (self.id.clone(), self.config.clone(), topics.clone());
        let mut consumer = if self.state == GroupState::Empty {
            ConsumerGroup::new(parts.0, parts.1, parts.2)
        } else {
            self.check_upgrade()?;
            let members = self
                .members
                .values()
                .map(|member| self.classic_member(member));
            ConsumerGroup::from_classic(parts, self.generation, members.collect(), now)?
        };
        let heard = consumer.heartbeat(request, may_describe, now)?;
        if !self.members.is_empty() {
            tracing::info!(group = self.id, "converted to a consumer group");
        }
        self.refuse_waiting(&GroupError::RebalanceInProgress, now);
        self.clear_classic();
        self.consumer = Some(Box::new(consumer));
        Ok(heard)
    }

    fn check_upgrade(&self) -> Result<(), GroupError> {
        let config = &self.config.consumer;
        let may_upgrade = config.migration.upgrades()
            && self.protocol_type.as_deref() == Some(crate::consumer::CONSUMER)
            && self.members.len() <= config.group_size_max;
        if may_upgrade {
            Ok(())
        } else {
            Err(GroupError::GroupIdNotFound)
        }
    }

    fn classic_member(&self, member: &Member) -> ClassicMember {
        let mut protocols = member.protocols.clone();
        // What the group agreed on is what the member was told.
        protocols.sort_by_key(|protocol| Some(&protocol.name) != self.protocol.as_ref());
        ClassicMember {
            id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            session_timeout: member.session_timeout,
            rebalance_timeout: member.rebalance_timeout,
            protocols,
            assignment: member.assignment.clone(),
        }
    }

    /// Forgets all members and the generation; what the log holds of them is deleted with the next
    /// write.
    fn clear_classic(&mut self) {
        self.state = GroupState::Empty;
        self.generation = 0;
        self.protocol_type = None;
        self.protocol = None;
        self.leader = None;
        self.members.clear();
        self.static_members.clear();
        self.pending_members.clear();
        self.pending_sync.clear();
        self.sync_deadline = None;
        self.offered.clear();
        self.joining = 0;
        self.rebalance = None;
        self.recount();
    }

    /// Hands what the consumer group has changed to the log. `then` happens once that and all before
    /// it is durable.
    fn write_consumer(&mut self, then: Option<Settled>, now: Now) {
        self.downgrade(now);
        let is_settled = self.consumer_writes_in_flight == 0;
        let mut records = Vec::new();
        let key = self.key();
        if let Some(consumer) = &mut self.consumer {
            // The generation of the classic group that it was.
            if is_settled && self.stored.is_some() {
                records.push(GroupRecord::Group(key, None));
            }
            records.extend(consumer.take_records(is_settled));
        }
        self.note_consumer();
        if records.is_empty() && is_settled {
            if let Some(then) = then {
                then(Ok(()));
            }
            return;
        }
        self.push_write(records, then);
    }

    pub(super) fn push_write(&mut self, records: Vec<GroupRecord>, then: Option<Settled>) {
        if records.is_empty() && then.is_none() {
            return;
        }
        self.consumer_writes_in_flight += 1;
        self.consumer_writes.push(ConsumerWrite { records, then });
    }

    fn key(&self) -> Key {
        Key::Group {
            group: self.id.clone(),
        }
    }

    fn note_consumer(&mut self) {
        let at = self
            .consumer
            .as_ref()
            .and_then(|consumer| consumer.wake_at());
        if let Some(at) = at {
            self.note(at);
        }
    }

    /// A write has reached the log, or could not.
    pub(crate) fn consumer_written(
        &mut self,
        write: ConsumerWrite,
        result: Result<(), GroupError>,
    ) {
        self.consumer_writes_in_flight = self.consumer_writes_in_flight.saturating_sub(1);
        let ConsumerWrite { records, then } = write;
        if result.is_ok()
            && records
                .iter()
                .any(|r| matches!(r, GroupRecord::Group(_, None)))
        {
            self.unstore();
        }
        if let Some(consumer) = &mut self.consumer {
            consumer.write_finished(records, result.is_ok());
        } else if let Some(share) = &mut self.share {
            share.write_finished(records, result.is_ok());
        }
        if let Some(then) = then {
            then(result);
        }
    }

    /// Ends sessions of the consumer group's members.
    pub(super) fn expire_consumer(&mut self, now: Now) {
        if let Some(consumer) = &mut self.consumer {
            consumer.expire(now);
            self.write_consumer(None, now);
        }
    }

    /// A member with the classic protocol joins. The answer comes when it is durable.
    pub(super) fn join_consumer(
        &mut self,
        request: &JoinRequest,
        unique: &str,
        reply: Reply<Joined>,
        now: Now,
    ) {
        let Some(consumer) = &mut self.consumer else {
            return answer(reply, Err(GroupError::CoordinatorNotAvailable));
        };
        match consumer.join(request, unique, now) {
            Err(error) => answer(reply, Err(error)),
            Ok(joined) => self.write_consumer(reply_with(reply, joined), now),
        }
    }

    pub(super) fn sync_consumer(&mut self, request: &SyncRequest, reply: Reply<Synced>, now: Now) {
        let synced = match &mut self.consumer {
            Some(consumer) => consumer.sync(request, now),
            None => Err(GroupError::CoordinatorNotAvailable),
        };
        match synced {
            Err(error) => answer(reply, Err(error)),
            Ok(synced) => self.write_consumer(reply_with(reply, synced), now),
        }
        self.note_consumer();
    }

    pub(super) fn heartbeat_consumer(
        &mut self,
        caller: &Caller,
        now: Now,
    ) -> Result<(), GroupError> {
        let consumer = self.consumer.as_mut().ok_or(GroupError::UnknownMemberId)?;
        let heard = consumer.heartbeat_classic(caller, now);
        self.note_consumer();
        heard
    }

    pub(super) fn leave_consumer(
        &mut self,
        leaving: &[Leaving],
        now: Now,
    ) -> Vec<Result<(), GroupError>> {
        let Some(consumer) = &mut self.consumer else {
            return Vec::new();
        };
        let left = consumer.leave_classic(leaving);
        self.write_consumer(None, now);
        left
    }

    /// A consumer group without members becomes a classic one, for a classic member that joins.
    pub(super) fn leave_consumer_protocol(&mut self) {
        if let Some(mut consumer) = self.consumer.take() {
            consumer.delete_all();
            let is_settled = self.consumer_writes_in_flight == 0;
            self.push_write(consumer.take_records(is_settled), None);
        }
    }

    /// A consumer group that is left with classic members only becomes a classic group, and
    /// rebalances.
    fn downgrade(&mut self, now: Now) {
        let only_classic = |consumer: &&mut Box<ConsumerGroup>| consumer.has_only_classic_members();
        let may_downgrade = self.config.consumer.migration.downgrades();
        let Some(consumer) = self.consumer.as_mut().filter(only_classic) else {
            return;
        };
        let fits = consumer.members_count() <= self.config.group_size_max;
        if !may_downgrade || !fits {
            return;
        }
        tracing::info!(group = self.id, "converted to a classic group");
        let (generation, members) = consumer.to_classic();
        self.leave_consumer_protocol();
        self.generation = generation;
        self.protocol_type = Some(crate::consumer::CONSUMER.to_owned());
        for member in members {
            self.adopt(member, now);
        }
        self.leader = self.members.keys().next().cloned();
        self.protocol = self.select_protocol();
        self.enter(GroupState::Stable, now);
        self.recount();
        let metadata = self.metadata(|member| member.assignment.clone());
        self.effects.push(Effect {
            metadata,
            then: Then::Nothing,
        });
        self.prepare_rebalance(now);
    }

    fn adopt(&mut self, from: ClassicMember, now: Now) {
        self.count_protocols(&from.protocols, true);
        if let Some(instance) = &from.instance_id {
            self.static_members
                .insert(instance.clone(), from.id.clone());
        }
        let session_deadline = now.at + from.session_timeout;
        self.note(session_deadline);
        let member = Member {
            id: from.id,
            instance_id: from.instance_id,
            client_id: from.client_id,
            client_host: from.client_host,
            rebalance_timeout: from.rebalance_timeout,
            session_timeout: from.session_timeout,
            protocols: from.protocols,
            assignment: from.assignment,
            is_new: false,
            joining: None,
            syncing: None,
            session_deadline,
        };
        self.members.insert(member.id.clone(), member);
    }

    /// Whether the caller may commit offsets of the consumer group.
    pub(super) fn check_consumer_commit(&self, caller: &Caller) -> Result<(), GroupError> {
        let Some(consumer) = &self.consumer else {
            return Ok(());
        };
        // An administrator.
        if caller.generation < 0 && consumer.members_count() == 0 {
            return Ok(());
        }
        consumer.check_epoch(&caller.member_id, caller.generation)
    }

    /// Whether a member may read the group's offsets (OffsetFetch from version 9).
    pub(crate) fn check_fetch(&self, member_id: &str, epoch: i32) -> Result<(), GroupError> {
        match &self.consumer {
            Some(consumer) => consumer.check_epoch(member_id, epoch),
            // The classic protocol leaves that to who may read the group.
            None => Ok(()),
        }
    }

    /// What a heartbeat may add to the group, in bytes: a member that joins, and what a member subscribes to beyond
    /// what it has.
    pub(crate) fn heartbeat_growth(&self, request: &ConsumerHeartbeat) -> u64 {
        let member = match request.member_epoch {
            LEAVE_EPOCH | LEAVE_STATIC_EPOCH => return 0,
            JOIN_EPOCH => MEMBER_BYTES,
            _ => 0,
        };
        let asked = request.names.iter().flatten().chain(&request.pattern);
        let known = self.consumer.as_ref();
        let known = known.map_or(0, |consumer| {
            consumer.subscription_bytes(&request.member_id)
        });
        COPIES * (member + subscription_bytes(asked).saturating_sub(known))
    }

    /// All that is shown of a consumer group.
    pub(crate) fn describe_consumer(&self) -> Result<ConsumerGroupDescription, GroupError> {
        match &self.consumer {
            Some(consumer) if self.state != GroupState::Dead => Ok(consumer.describe()),
            _ => Err(GroupError::GroupIdNotFound),
        }
    }

    /// A consumer group in the terms of a classic one.
    pub(super) fn describe_as_classic(&self, consumer: &ConsumerGroup) -> GroupDescription {
        let described = consumer.describe();
        let members = described.members.into_iter().map(|member| {
            let assigned = member.assignment.into_iter();
            let assigned: Vec<(String, Vec<u32>)> = assigned
                .map(|(_, name, numbers)| (name.as_str().to_owned(), numbers.into_iter().collect()))
                .collect();
            MemberDescription {
                member_id: member.member_id,
                instance_id: member.instance_id,
                client_id: member.client_id,
                client_host: member.client_host,
                metadata: bytes::Bytes::new(),
                assignment: subscription::encode_assignment(0, &assigned),
            }
        });
        GroupDescription {
            kind: GroupKind::Consumer,
            state: self.state(),
            protocol_type: crate::consumer::CONSUMER.to_owned(),
            protocol: described.assignor.to_owned(),
            members: members.collect(),
        }
    }
}
