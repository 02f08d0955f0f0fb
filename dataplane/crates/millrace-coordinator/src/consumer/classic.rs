//! Members that use the classic protocol in a consumer group, while its clients are upgraded one by
//! one. The broker assigns for them too: their generation is their member epoch, and a rebalance is a
//! JoinGroup that brings what they have and a SyncGroup that takes what they are to have.

use bytes::Bytes;

use super::{
    ConsumerGroup, Member,
    heartbeat::Joins,
    member::{Classic, Due, Subscription as Subscribed},
};
use crate::{
    GroupError,
    config::{MEMBER_METADATA_BYTES_MAX, MEMBER_PROTOCOLS_MAX},
    kept::Now,
    messages::{
        Caller, JoinRequest, Joined, Leaving, Protocol, SyncRequest, Synced, TopicPartitions,
    },
    records::MemberState,
    subscription::{self, Subscription},
};

/// The protocol type of members that can be in a consumer group.
pub(crate) const CONSUMER: &str = "consumer";

impl ConsumerGroup {
    /// Takes a JoinGroup. Nothing has changed where it is refused.
    pub(crate) fn join(
        &mut self,
        request: &JoinRequest,
        unique: &str,
        now: Now,
    ) -> Result<Joined, GroupError> {
        let is_unknown = request.member_id.is_empty();
        let id = if is_unknown {
            unique
        } else {
            &request.member_id
        };
        self.check_room(id)?;
        self.check_protocols(request)?;
        let offered = request.protocols.first();
        let offered = offered.ok_or(GroupError::InconsistentGroupProtocol)?;
        let subscription = Subscription::read(&offered.metadata);
        let subscription = subscription.ok_or(GroupError::InconsistentGroupProtocol)?;
        if is_unknown && request.instance_id.is_none() && request.requires_known_member_id {
            return Err(GroupError::MemberIdRequired(id.to_owned()));
        }
        self.admit_classic(request, id)?;
        let protocol = offered.name.clone();
        let is_changed = self.change_classic(id, request, &subscription, now);
        let owned = self.by_id(&subscription.owned);
        self.forget_patterns();
        self.follow(id, is_changed, Some(&owned), now);
        self.refresh(id, now);
        let epoch = self
            .members
            .get(id)
            .map_or(0, |member| member.current.epoch);
        Ok(Joined {
            member_id: id.to_owned(),
            generation: epoch,
            protocol_type: CONSUMER.to_owned(),
            protocol,
            // The broker assigns: no member leads.
            leader: String::new(),
            skip_assignment: false,
            members: Vec::new(),
        })
    }

    /// Checks that all classic members offer one of the request's protocols.
    fn check_protocols(&self, request: &JoinRequest) -> Result<(), GroupError> {
        let bytes = request.protocols.iter();
        let bytes: usize = bytes.map(|p| p.name.len() + p.metadata.len()).sum();
        if bytes > MEMBER_METADATA_BYTES_MAX || request.protocols.len() > MEMBER_PROTOCOLS_MAX {
            return Err(GroupError::MetadataTooLarge);
        }
        let all = self
            .members
            .values()
            .filter_map(|member| member.classic.as_ref());
        let all: Vec<&Classic> = all.collect();
        let offer = |classic: &&Classic, name: &str| {
            classic.protocols.iter().any(|offered| offered.name == name)
        };
        let offered_by_all =
            |protocol: &Protocol| all.iter().all(|classic| offer(classic, &protocol.name));
        let fits =
            request.protocol_type == CONSUMER && request.protocols.iter().any(offered_by_all);
        if fits {
            Ok(())
        } else {
            Err(GroupError::InconsistentGroupProtocol)
        }
    }

    fn admit_classic(&mut self, request: &JoinRequest, id: &str) -> Result<(), GroupError> {
        let existing = request.instance_id.as_ref();
        let existing = existing.map(|instance| self.static_members.get(instance).cloned());
        match existing {
            // A known id must be that of the static member.
            Some(None) if !request.member_id.is_empty() => return Err(GroupError::UnknownMemberId),
            Some(Some(existing)) if request.member_id.is_empty() => {
                return self.replace(&existing, id, Joins::Classic);
            }
            Some(Some(existing)) if existing != id => return Err(GroupError::FencedInstanceId),
            _ => {}
        }
        let (client_id, host) = (&request.client_id, &request.client_host);
        let members = self.members.entry(id.to_owned());
        members.or_insert_with(|| Member::new(client_id.clone(), host.clone()));
        Ok(())
    }

    fn change_classic(
        &mut self,
        id: &str,
        request: &JoinRequest,
        subscription: &Subscription,
        now: Now,
    ) -> bool {
        let due = now.at + request.rebalance_timeout;
        self.note(due);
        self.update_member(id, |member| {
            if let Some(instance) = &request.instance_id {
                member.instance_id = Some(instance.clone());
            }
            if let Some(rack) = &subscription.rack_id {
                member.rack_id = Some(rack.clone());
            }
            member.client_id.clone_from(&request.client_id);
            member.client_host.clone_from(&request.client_host);
            member.set_rebalance_timeout(request.rebalance_timeout);
            member.classic = Some(Classic {
                session_timeout: request.session_timeout,
                protocols: request.protocols.clone(),
                due: Some(Due::Sync(due)),
            });
            Subscribed {
                names: subscription.topics.iter().cloned().collect(),
                pattern: None,
            }
        })
    }

    /// Takes a SyncGroup.
    pub(crate) fn sync(&mut self, request: &SyncRequest, now: Now) -> Result<Synced, GroupError> {
        let caller = &request.caller;
        let member = self.classic_member(caller)?;
        if member.current.epoch != caller.generation {
            return Err(GroupError::IllegalGeneration);
        }
        let protocols = member.classic.iter().flat_map(|classic| &classic.protocols);
        let (protocol, version) = protocols.map(named).next().unwrap_or_default();
        let other_type = { request.protocol_type.as_ref() }.is_some_and(|name| name != CONSUMER);
        let other_name = request
            .protocol
            .as_ref()
            .is_some_and(|name| *name != protocol);
        if other_type || other_name {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        // A member that has yet to give up partitions has joined already; it joins again by itself.
        let is_behind = self.epoch > member.current.epoch && !Self::revokes(&member.current);
        let assignment = self.named_pairs(&member.current.assigned);
        if is_behind {
            self.await_join(&caller.member_id, now);
            return Err(GroupError::RebalanceInProgress);
        }
        if let Some(classic) = self.classic_mut(&caller.member_id) {
            classic.due = None;
        }
        self.refresh(&caller.member_id, now);
        Ok(Synced {
            protocol_type: CONSUMER.to_owned(),
            protocol,
            assignment: subscription::encode_assignment(version, &assignment),
        })
    }

    /// Takes a Heartbeat of the classic protocol.
    pub(crate) fn heartbeat_classic(
        &mut self,
        caller: &Caller,
        now: Now,
    ) -> Result<(), GroupError> {
        let member = self.classic_member(caller)?;
        if member.current.epoch != caller.generation {
            return Err(GroupError::IllegalGeneration);
        }
        let current = &member.current;
        let has_more = || {
            let missing = member.target.iter().flat_map(|(topic, partitions)| {
                let own = current.assigned.get(topic);
                let missing = partitions
                    .iter()
                    .filter(move |p| own.is_none_or(|own| !own.contains(p)));
                missing.map(|partition| (*topic, *partition))
            });
            missing
                .into_iter()
                .any(|partition| !self.owned.contains(&partition))
        };
        let must_join = current.epoch < self.epoch
            || Self::revokes(current)
            || (current.state == MemberState::UnreleasedPartitions && has_more());
        self.refresh(&caller.member_id, now);
        if must_join {
            self.await_join(&caller.member_id, now);
            return Err(GroupError::RebalanceInProgress);
        }
        Ok(())
    }

    /// Takes a LeaveGroup: one result per member, in their order.
    pub(crate) fn leave_classic(&mut self, leaving: &[Leaving]) -> Vec<Result<(), GroupError>> {
        let before = self.members.len();
        let results = leaving.iter().map(|leaving| {
            let id = self.leaving_id(leaving)?;
            tracing::info!(group = self.id, member = id, "member left the group");
            self.remove(&id);
            Ok(())
        });
        let results = results.collect();
        if self.members.len() < before {
            self.count_epoch();
        }
        results
    }

    fn leaving_id(&self, leaving: &Leaving) -> Result<String, GroupError> {
        let Some(instance) = &leaving.instance_id else {
            let member = self.members.get(&leaving.member_id);
            // Others leave with a heartbeat.
            let is_classic = member.is_some_and(|member| member.classic.is_some());
            return match is_classic {
                true => Ok(leaving.member_id.clone()),
                false => Err(GroupError::UnknownMemberId),
            };
        };
        // An administrator removes a static member by its name alone, whatever protocol it uses.
        let id = self.static_members.get(instance);
        let id = id.ok_or(GroupError::UnknownMemberId)?;
        if !leaving.member_id.is_empty() && leaving.member_id != *id {
            return Err(GroupError::FencedInstanceId);
        }
        Ok(id.clone())
    }

    fn classic_member(&self, caller: &Caller) -> Result<&Member, GroupError> {
        if let Some(instance) = &caller.instance_id {
            let id = self.static_members.get(instance);
            if *id.ok_or(GroupError::UnknownMemberId)? != caller.member_id {
                return Err(GroupError::FencedInstanceId);
            }
        }
        let member = self.members.get(&caller.member_id);
        let classic = member.filter(|member| member.classic.is_some());
        classic.ok_or(GroupError::UnknownMemberId)
    }

    fn classic_mut(&mut self, id: &str) -> Option<&mut Classic> {
        self.members.get_mut(id)?.classic.as_mut()
    }

    /// Gives a member time to join again, from the first time that it was told to.
    fn await_join(&mut self, id: &str, now: Now) {
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let deadline = now.at + member.rebalance_timeout();
        let Some(classic) = &mut member.classic else {
            return;
        };
        if !matches!(classic.due, Some(Due::Join(_))) {
            classic.due = Some(Due::Join(deadline));
            self.note(deadline);
        }
    }

    /// The partitions by the ids of their topics, without those of topics that are gone.
    pub(super) fn by_id(&self, named: &[(String, Vec<u32>)]) -> TopicPartitions {
        let mut partitions = TopicPartitions::new();
        for (name, numbers) in named {
            if let Some((id, _)) = self.topics.find(name)
                && !numbers.is_empty()
            {
                partitions.entry(id).or_default().extend(numbers);
            }
        }
        partitions
    }

    /// The partitions by the names of their topics, without those of topics that are gone.
    pub(super) fn named_pairs(&self, partitions: &TopicPartitions) -> Vec<(String, Vec<u32>)> {
        let named = partitions.iter().filter_map(|(id, numbers)| {
            let name = self.topics.name_of(*id)?;
            Some((name.as_str().to_owned(), numbers.iter().copied().collect()))
        });
        named.collect()
    }
}

/// A protocol's name and the version of the subscription in it.
fn named(protocol: &Protocol) -> (String, i16) {
    let version = version_of(&protocol.metadata);
    (protocol.name.clone(), version)
}

fn version_of(metadata: &Bytes) -> i16 {
    let version = metadata.first_chunk::<2>();
    version.map_or(0, |version| i16::from_be_bytes(*version))
}
