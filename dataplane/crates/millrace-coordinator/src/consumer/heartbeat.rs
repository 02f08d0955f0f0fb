//! ConsumerGroupHeartbeat.

use std::{sync::Arc, time::Duration};

use super::{
    ConsumerGroup, Member,
    member::{Subscription, parts_of},
    pattern::MayDescribe,
    reconcile::{Towards, is_subset, reconcile},
};
use crate::{
    GroupError,
    config::MEMBER_METADATA_BYTES_MAX,
    kept::Now,
    messages::{
        ConsumerHeartbeat, ConsumerHeartbeatAnswer, JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH,
        TopicPartitions,
    },
    pattern::whole_match,
    records::{ConsumerPart, ConsumerValue, MemberState, StoredCurrent},
};

/// Which protocol a member that joins uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joins {
    Consumer,
    Classic,
}

impl ConsumerGroup {
    /// Takes a heartbeat. Nothing has changed where it is refused.
    pub(crate) fn heartbeat(
        &mut self,
        request: &ConsumerHeartbeat,
        may_describe: MayDescribe<'_>,
        now: Now,
    ) -> Result<ConsumerHeartbeatAnswer, GroupError> {
        if matches!(request.member_epoch, LEAVE_EPOCH | LEAVE_STATIC_EPOCH) {
            return self.leave(request);
        }
        self.check_room(&request.member_id)?;
        let pattern = request.pattern.as_deref().filter(|text| !text.is_empty());
        let compiled = pattern.map(whole_match).transpose();
        let compiled = compiled.map_err(GroupError::InvalidRegularExpression)?;
        check_size(request)?;
        let id = self.admit(request)?;
        let before = self.members.get(&id).map(|member| member.current.clone());
        let is_changed = self.change_member(&id, request);
        if let (Some(text), Some(compiled)) = (pattern, compiled) {
            self.add_pattern(text, compiled, may_describe, now);
        }
        self.forget_patterns();
        self.refresh_patterns(may_describe, now);
        self.follow(&id, is_changed, request.owned.as_ref(), now);
        self.refresh(&id, now);
        let member = self.members.get(&id).ok_or(GroupError::UnknownMemberId)?;
        let is_full = request.rebalance_timeout_ms.is_some()
            && (request.names.is_some() || request.pattern.is_some())
            && request.owned.is_some();
        let is_moved =
            before.map(|before| before.assigned).as_ref() != Some(&member.current.assigned);
        let tells = request.member_epoch == JOIN_EPOCH || is_full || is_moved;
        Ok(ConsumerHeartbeatAnswer {
            member_id: id,
            member_epoch: member.current.epoch,
            heartbeat_interval: self.heartbeat_interval(),
            assignment: tells.then(|| member.current.assigned.clone()),
        })
    }

    /// Makes the group follow a change of a member or of the topics, and moves the member on.
    pub(super) fn follow(
        &mut self,
        id: &str,
        is_changed: bool,
        owned: Option<&TopicPartitions>,
        now: Now,
    ) {
        if is_changed || self.epoch == 0 {
            self.count_epoch();
        } else {
            self.look_at_topics();
        }
        self.update_target();
        self.move_on(id, owned, now);
    }

    pub(super) fn check_room(&self, member_id: &str) -> Result<(), GroupError> {
        let is_known = self.members.contains_key(member_id);
        if !is_known && self.members.len() >= self.config.consumer.group_size_max {
            return Err(GroupError::GroupMaxSizeReached);
        }
        Ok(())
    }

    /// The member that the request comes from; a new one where it joins.
    fn admit(&mut self, request: &ConsumerHeartbeat) -> Result<String, GroupError> {
        let id = request.member_id.clone();
        let joins = request.member_epoch == JOIN_EPOCH;
        let Some(instance) = &request.instance_id else {
            match self.members.get(&id) {
                Some(member) => check_epoch(member, request)?,
                None if joins => self.add(&id, request),
                None => return Err(GroupError::UnknownMemberId),
            }
            return Ok(id);
        };
        let existing = self.static_members.get(instance).cloned();
        if !joins {
            let existing = existing.ok_or(GroupError::UnknownMemberId)?;
            if existing != id {
                return Err(GroupError::FencedInstanceId);
            }
            let member = self.members.get(&id).ok_or(GroupError::UnknownMemberId)?;
            check_epoch(member, request)?;
            return Ok(id);
        }
        match existing {
            None if self.members.contains_key(&id) => {}
            None => self.add(&id, request),
            Some(existing) => self.replace(&existing, &id, Joins::Consumer)?,
        }
        Ok(id)
    }

    fn add(&mut self, id: &str, request: &ConsumerHeartbeat) {
        let member = Member::new(request.client_id.clone(), request.client_host.clone());
        tracing::info!(group = self.id, member = id, "member joined the group");
        self.members.insert(id.to_owned(), member);
    }

    /// A static member comes back under a new id and takes over what its former self had.
    pub(super) fn replace(
        &mut self,
        old_id: &str,
        id: &str,
        joins: Joins,
    ) -> Result<(), GroupError> {
        let old = self
            .members
            .get(old_id)
            .ok_or(GroupError::UnknownMemberId)?;
        let has_left = old.current.epoch == LEAVE_STATIC_EPOCH;
        // One that uses the classic protocol never says that it leaves for a while.
        let may_stay = joins == Joins::Classic || old.classic.is_some() || old_id == id;
        if !has_left && !may_stay {
            return Err(GroupError::UnreleasedInstanceId);
        }
        if old_id == id && joins == Joins::Classic {
            return Ok(());
        }
        let Some(mut member) = self.members.remove(old_id) else {
            return Err(GroupError::UnknownMemberId);
        };
        self.free(&member.current);
        for part in parts_of(old_id) {
            self.stored.push(part, None);
        }
        let next = StoredCurrent {
            epoch: 0,
            previous_epoch: 0,
            state: MemberState::Stable,
            assigned: member.current.assigned.clone(),
            revoking: TopicPartitions::new(),
        };
        member.revoke_deadline = None;
        if let Some(instance) = &member.instance_id {
            self.static_members.insert(instance.clone(), id.to_owned());
        }
        let target = ConsumerValue::TargetMember(member.target.clone());
        self.members.insert(id.to_owned(), member);
        self.store_member(id);
        self.stored
            .push(ConsumerPart::TargetMember(id.to_owned()), Some(target));
        self.set_current(id, next);
        Ok(())
    }

    /// Takes on what the request says of the member. True where it subscribes to something else now.
    fn change_member(&mut self, id: &str, request: &ConsumerHeartbeat) -> bool {
        self.update_member(id, |member| {
            if let Some(instance) = &request.instance_id {
                member.instance_id = Some(instance.clone());
            }
            if let Some(rack) = &request.rack_id {
                member.rack_id = Some(rack.clone());
            }
            if let Some(timeout) = request.rebalance_timeout_ms {
                member.rebalance_timeout_ms = timeout;
            }
            if let Some(assignor) = &request.assignor {
                member.assignor = Some(assignor.clone());
            }
            member.client_id.clone_from(&request.client_id);
            member.client_host.clone_from(&request.client_host);
            member.classic = None;
            let subscribed = &member.subscription;
            let (names, pattern) = (request.names.as_ref(), request.pattern.as_ref());
            Subscription {
                names: names.map_or_else(
                    || subscribed.names.clone(),
                    |names| names.iter().cloned().collect(),
                ),
                pattern: pattern.map_or_else(
                    || subscribed.pattern.clone(),
                    |text| Some(text.clone()).filter(|text| !text.is_empty()),
                ),
            }
        })
    }

    /// Changes a member, whose subscription becomes what `change` returns, and stores it if it is another now. True
    /// where it subscribes to something else.
    pub(super) fn update_member(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut Member) -> Subscription,
    ) -> bool {
        let Some(member) = self.members.get_mut(id) else {
            return false;
        };
        let before = member.stored();
        let subscribed = Arc::clone(&member.subscription);
        let subscription = change(member);
        if let Some(instance) = &member.instance_id {
            self.static_members.insert(instance.clone(), id.to_owned());
        }
        self.subscribe(id, subscription);
        let is_unchanged = self.members.get(id).is_none_or(|m| m.stored() == before);
        if !is_unchanged || self.stored.lacks(&ConsumerPart::Member(id.to_owned())) {
            self.store_member(id);
        }
        let now = self.members.get(id).map(|member| &member.subscription);
        now != Some(&subscribed)
    }

    fn subscribe(&mut self, id: &str, subscription: Subscription) {
        let same = |member: &Member| *member.subscription == subscription;
        if self.members.get(id).is_some_and(same) {
            return;
        }
        let shared = self.shared(&Arc::new(subscription));
        if let Some(member) = self.members.get_mut(id) {
            member.subscription = shared;
        }
    }

    /// Moves a member towards its target.
    pub(super) fn move_on(&mut self, id: &str, owned: Option<&TopicPartitions>, now: Now) {
        let Some(member) = self.members.get(id) else {
            return;
        };
        let towards = Towards {
            epoch: self.assignment_epoch,
            target: &member.target,
            owned,
        };
        let is_free = |topic, partition| !self.owned.contains(&(topic, partition));
        // Who has to start again was refused before.
        let Ok(next) = reconcile(&member.current, &towards, is_free) else {
            return;
        };
        if next == member.current {
            return;
        }
        let revokes = Self::revokes(&next);
        self.set_current(id, next);
        if revokes {
            self.await_revocation(id, now);
        } else if let Some(member) = self.members.get_mut(id) {
            member.revoke_deadline = None;
        }
    }

    /// Gives a member time to give up partitions. One that uses the classic protocol has deadlines of
    /// its own.
    pub(super) fn await_revocation(&mut self, id: &str, now: Now) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        if member.classic.is_none() {
            let deadline = now.at + member.rebalance_timeout();
            member.revoke_deadline = Some(deadline);
            self.note(deadline);
        }
    }

    fn heartbeat_interval(&self) -> Duration {
        let own = self.config.of_groups.overrides(&self.id);
        own.consumer_heartbeat_interval
            .unwrap_or(self.config.consumer.heartbeat_interval)
    }

    pub(super) fn session_timeout(&self, member: &Member) -> Duration {
        let own = member
            .classic
            .as_ref()
            .map(|classic| classic.session_timeout);
        own.unwrap_or_else(|| {
            let of_group = self.config.of_groups.overrides(&self.id);
            of_group
                .consumer_session_timeout
                .unwrap_or(self.config.consumer.session_timeout)
        })
    }

    /// Hears from a member: its session restarts.
    pub(super) fn refresh(&mut self, id: &str, now: Now) {
        let Some(member) = self.members.get(id) else {
            return;
        };
        let deadline = now.at + self.session_timeout(member);
        if let Some(member) = self.members.get_mut(id) {
            member.session_deadline = deadline;
        }
        self.note(deadline);
    }

    fn leave(
        &mut self,
        request: &ConsumerHeartbeat,
    ) -> Result<ConsumerHeartbeatAnswer, GroupError> {
        let id = &request.member_id;
        if let Some(instance) = &request.instance_id {
            let known = self.static_members.get(instance);
            if known.ok_or(GroupError::UnknownMemberId)? != id {
                return Err(GroupError::FencedInstanceId);
            }
        }
        let member = self.members.get(id).ok_or(GroupError::UnknownMemberId)?;
        if request.member_epoch == LEAVE_STATIC_EPOCH && request.instance_id.is_some() {
            tracing::info!(
                group = self.id,
                member = id,
                "static member left temporarily"
            );
            let next = StoredCurrent {
                epoch: LEAVE_STATIC_EPOCH,
                previous_epoch: member.current.epoch,
                revoking: TopicPartitions::new(),
                ..member.current.clone()
            };
            self.set_current(id, next);
            if let Some(member) = self.members.get_mut(id) {
                member.revoke_deadline = None;
            }
        } else {
            tracing::info!(group = self.id, member = id, "member left the group");
            self.remove(id);
            self.count_epoch();
        }
        Ok(ConsumerHeartbeatAnswer {
            member_id: id.clone(),
            member_epoch: request.member_epoch,
            heartbeat_interval: Duration::ZERO,
            assignment: None,
        })
    }
}

/// Checks that the member sends the epoch that it was told last, or the one before where that answer
/// may have been lost.
fn check_epoch(member: &Member, request: &ConsumerHeartbeat) -> Result<(), GroupError> {
    let current = &member.current;
    let owns_nothing = request
        .owned
        .as_ref()
        .is_some_and(TopicPartitions::is_empty);
    if current.state == MemberState::Unknown && !owns_nothing {
        return Err(GroupError::FencedMemberEpoch);
    }
    let received = request.member_epoch;
    if received == current.epoch || (received == JOIN_EPOCH && owns_nothing) {
        return Ok(());
    }
    let owned = request.owned.as_ref();
    let missed_answer = received < current.epoch
        && received == current.previous_epoch
        && owned.is_some_and(|owned| is_subset(owned, &current.assigned));
    if missed_answer {
        Ok(())
    } else {
        Err(GroupError::FencedMemberEpoch)
    }
}

fn check_size(request: &ConsumerHeartbeat) -> Result<(), GroupError> {
    let names = request.names.iter().flatten().map(String::len);
    if names.sum::<usize>() > MEMBER_METADATA_BYTES_MAX {
        return Err(GroupError::MetadataTooLarge);
    }
    Ok(())
}
