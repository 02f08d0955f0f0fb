//! JoinGroup.

use tokio::sync::oneshot;

use super::{Effect, Group, Member, Now, Then, answer, member::Reply};
use crate::{
    GroupError,
    config::{MEMBER_METADATA_BYTES_MAX, MEMBER_PROTOCOLS_MAX, NEW_MEMBER_JOIN_TIMEOUT},
    messages::{Caller, GroupState, JoinRequest, Joined, JoinedMember},
};

impl Group {
    /// Takes a JoinGroup; the answer comes when the rebalance ends, or at once. `unique` makes the
    /// id of a new member.
    pub(crate) fn join(
        &mut self,
        request: JoinRequest,
        unique: &str,
        now: Now,
    ) -> oneshot::Receiver<Result<Joined, GroupError>> {
        let (reply, answered) = oneshot::channel();
        if self.consumer.is_some() {
            if self.state() != GroupState::Empty {
                self.join_consumer(&request, unique, reply, now);
                return answered;
            }
            self.leave_consumer_protocol();
        }
        match self.check_join(&request) {
            Err(error) => answer(reply, Err(error)),
            Ok(()) if request.member_id.is_empty() => self.join_new(request, unique, reply, now),
            Ok(()) => self.join_known(request, reply, now),
        }
        self.try_complete_rebalance(now);
        answered
    }

    fn check_join(&mut self, request: &JoinRequest) -> Result<(), GroupError> {
        if self.state == GroupState::Dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        if self.share.is_some() {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        if !self.has_room(&request.member_id) {
            self.no_longer_expect(&request.member_id);
            return Err(GroupError::GroupMaxSizeReached);
        }
        let bytes: usize = request
            .protocols
            .iter()
            .map(|p| p.name.len() + p.metadata.len())
            .sum();
        if bytes > MEMBER_METADATA_BYTES_MAX || request.protocols.len() > MEMBER_PROTOCOLS_MAX {
            return Err(GroupError::MetadataTooLarge);
        }
        if self.fits(request) {
            Ok(())
        } else {
            Err(GroupError::InconsistentGroupProtocol)
        }
    }

    fn has_room(&self, member_id: &str) -> bool {
        let max = self.config.group_size_max;
        match self.state {
            GroupState::Empty
            | GroupState::Dead
            | GroupState::Assigning
            | GroupState::Reconciling => self.pending_members.len() < max,
            GroupState::PreparingRebalance => {
                let awaited = self
                    .members
                    .get(member_id)
                    .is_some_and(|m| m.joining.is_some());
                awaited || self.joining < max
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                self.members.contains_key(member_id) || self.members.len() < max
            }
        }
    }

    /// Whether the member speaks the group's protocol type and one protocol that all members offer.
    fn fits(&self, request: &JoinRequest) -> bool {
        if self.state == GroupState::Empty {
            return !request.protocol_type.is_empty() && !request.protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(request.protocol_type.as_str())
            && request
                .protocols
                .iter()
                .any(|p| self.offered_by_all(&p.name))
    }

    pub(super) fn offered_by_all(&self, protocol: &str) -> bool {
        self.offered.get(protocol) == Some(&self.members.len())
    }

    fn join_new(&mut self, request: JoinRequest, unique: &str, reply: Reply<Joined>, now: Now) {
        let prefix = request.instance_id.as_deref().unwrap_or(&request.client_id);
        let id = format!("{prefix}-{unique}");
        match &request.instance_id {
            Some(instance) => match self.static_members.get(instance).cloned() {
                Some(old) => self.replace_static(&old, id, request, reply, now),
                None => self.add_member(id, request, reply, now),
            },
            None if request.requires_known_member_id => {
                if self.pending_members.len() >= self.config.group_size_max {
                    return answer(reply, Err(GroupError::GroupMaxSizeReached));
                }
                let deadline = now.at + request.session_timeout;
                self.expect_member(id.clone(), deadline);
                self.note(deadline);
                answer(reply, Err(GroupError::MemberIdRequired(id)));
            }
            None => self.add_member(id, request, reply, now),
        }
    }

    fn join_known(&mut self, request: JoinRequest, reply: Reply<Joined>, now: Now) {
        let id = request.member_id.clone();
        if self.pending_members.contains_key(&id) && request.instance_id.is_none() {
            return self.add_member(id, request, reply, now);
        }
        let caller = Caller {
            member_id: id.clone(),
            instance_id: request.instance_id.clone(),
            generation: self.generation,
        };
        if let Err(error) = self.check_member(&caller) {
            return answer(reply, Err(error));
        }
        let unchanged = self
            .members
            .get(&id)
            .is_some_and(|m| m.offers(&request.protocols));
        let leads = self.leader.as_deref() == Some(id.as_str());
        match self.state {
            GroupState::PreparingRebalance => self.join_again(&id, request, reply, now),
            // The member has not seen the answer to its JoinGroup: it is told again.
            GroupState::CompletingRebalance if unchanged => {
                answer(reply, Ok(self.joined(&id)));
            }
            // A follower whose subscription stands as it was needs no rebalance. A leader joins
            // again because it wants one: its topics have changed.
            GroupState::Stable if unchanged && !leads => {
                answer(reply, Ok(self.joined(&id)));
                self.refresh(&id, now);
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                self.join_again(&id, request, reply, now);
            }
            GroupState::Empty
            | GroupState::Dead
            | GroupState::Assigning
            | GroupState::Reconciling => {
                answer(reply, Err(GroupError::UnknownMemberId));
            }
        }
    }

    fn add_member(&mut self, id: String, request: JoinRequest, reply: Reply<Joined>, now: Now) {
        let first_wait = self.rebalance.as_ref().is_some_and(|r| r.first.is_some());
        self.new_member_added |= first_wait;
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type.clone());
        }
        self.no_longer_expect(&id);
        self.leader.get_or_insert_with(|| id.clone());
        if let Some(instance) = &request.instance_id {
            self.static_members.insert(instance.clone(), id.clone());
        }
        self.count_protocols(&request.protocols, true);
        self.joining += 1;
        let session_deadline = now.at + NEW_MEMBER_JOIN_TIMEOUT;
        self.note(session_deadline);
        let member = Member {
            id,
            instance_id: request.instance_id,
            client_id: request.client_id,
            client_host: request.client_host,
            rebalance_timeout: request.rebalance_timeout,
            session_timeout: request.session_timeout,
            protocols: request.protocols,
            assignment: bytes::Bytes::new(),
            is_new: true,
            joining: Some(reply),
            syncing: None,
            session_deadline,
        };
        self.put_member(member);
        self.prepare_rebalance(now);
    }

    /// A member of the group joins (again) with what may be a new subscription.
    fn join_again(&mut self, id: &str, request: JoinRequest, reply: Reply<Joined>, now: Now) {
        self.update_member(id, request, now);
        self.await_join(id, reply);
        self.prepare_rebalance(now);
    }

    fn await_join(&mut self, id: &str, reply: Reply<Joined>) {
        let Some(member) = self.members.get_mut(id) else {
            return answer(reply, Err(GroupError::UnknownMemberId));
        };
        match member.joining.replace(reply) {
            None => self.joining += 1,
            // The member asked again, perhaps over a new connection; only the last one counts.
            Some(earlier) => answer(earlier, Err(GroupError::RebalanceInProgress)),
        }
    }

    fn update_member(&mut self, id: &str, request: JoinRequest, now: Now) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        member.rebalance_timeout = request.rebalance_timeout;
        member.session_timeout = request.session_timeout;
        self.count_protocols(&request.protocols, true);
        let old = self.replace_protocols(id, request.protocols);
        self.count_protocols(&old, false);
        self.refresh(id, now);
    }

    /// A static member comes back without its id, as after a restart, and takes its place over.
    fn replace_static(
        &mut self,
        old_id: &str,
        id: String,
        request: JoinRequest,
        reply: Reply<Joined>,
        now: Now,
    ) {
        let old_leader = self.leader.clone().unwrap_or_default();
        self.rename_member(old_id, &id);
        let can_skip = request.can_skip_assignment;
        self.update_member(&id, request, now);
        match self.state {
            GroupState::Stable if self.select_protocol() == self.protocol => {
                let joined = self.welcome(&id, old_leader, can_skip);
                let metadata = self.metadata(|member| member.assignment.clone());
                self.effects.push(Effect {
                    metadata,
                    then: Then::Welcome(reply, joined),
                });
            }
            _ => {
                self.await_join(&id, reply);
                self.prepare_rebalance(now);
            }
        }
    }

    fn rename_member(&mut self, old_id: &str, id: &str) {
        let Some(mut member) = self.take_member(old_id) else {
            return;
        };
        if let Some(reply) = member.joining.take() {
            self.joining -= 1;
            answer(reply, Err(GroupError::FencedInstanceId));
        }
        if let Some(reply) = member.syncing.take() {
            answer(reply, Err(GroupError::FencedInstanceId));
        }
        if self.pending_sync.remove(old_id) {
            self.pending_sync.insert(id.to_owned());
        }
        if self.leader.as_deref() == Some(old_id) {
            self.leader = Some(id.to_owned());
        }
        if let Some(instance) = &member.instance_id {
            self.static_members.insert(instance.clone(), id.to_owned());
        }
        id.clone_into(&mut member.id);
        self.put_member(member);
    }

    /// What a static member is told that returns to a stable group. A leader that understands
    /// `skip_assignment` learns that it leads; an older one is told that its former self does, so
    /// that it does not assign again (KIP-814).
    fn welcome(&self, id: &str, old_leader: String, can_skip: bool) -> Joined {
        let leads = self.leader.as_deref() == Some(id);
        let joined = self.joined(id);
        if can_skip {
            Joined {
                skip_assignment: leads,
                ..joined
            }
        } else {
            Joined {
                leader: old_leader,
                members: Vec::new(),
                ..joined
            }
        }
    }

    /// What a member is told of the current generation.
    pub(super) fn joined(&self, id: &str) -> Joined {
        let protocol = self.protocol.clone().unwrap_or_default();
        let leader = self.leader.clone().unwrap_or_default();
        let members = if leader == id {
            self.roster(&protocol)
        } else {
            Vec::new()
        };
        Joined {
            member_id: id.to_owned(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol,
            leader,
            skip_assignment: false,
            members,
        }
    }

    fn roster(&self, protocol: &str) -> Vec<JoinedMember> {
        let member = |member: &Member| JoinedMember {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
        };
        self.members.values().map(member).collect()
    }
}
