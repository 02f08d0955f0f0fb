//! ShareGroupHeartbeat.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{Member, Names, ShareGroup};
use crate::{
    GroupError,
    config::{MEMBER_METADATA_BYTES_MAX, SHARE_INITIALIZING_INTERVAL, SHARE_MEMBER_TOPICS_MAX},
    kept::Now,
    messages::{ConsumerHeartbeatAnswer, JOIN_EPOCH, LEAVE_EPOCH, ShareHeartbeat},
    records::{SharePart, ShareValue, StoredShareCurrent},
};

impl ShareGroup {
    /// Takes a heartbeat. Nothing has changed where it is refused. The share coordinator may have to be asked something then:
    /// see [`ShareGroup::begin_initialization`].
    pub(crate) fn heartbeat(
        &mut self,
        request: &ShareHeartbeat,
        now: Now,
    ) -> Result<ConsumerHeartbeatAnswer, GroupError> {
        if request.member_epoch == LEAVE_EPOCH {
            return self.leave(request);
        }
        let id = &request.member_id;
        self.check_room(id)?;
        check_size(request)?;
        let missed_answer = self.admit(request)?;
        let before = self.members.get(id).map(|member| member.current.clone());
        let is_changed = self.change_member(request);
        if is_changed || self.epoch == 0 {
            self.count_epoch();
        }
        self.look_at_topics();
        self.update_target();
        self.move_on(id);
        self.refresh(id, now);
        let member = self.members.get(id).ok_or(GroupError::UnknownMemberId)?;
        let is_moved =
            before.map(|before| before.assigned).as_ref() != Some(&member.current.assigned);
        let tells = request.member_epoch == JOIN_EPOCH
            || request.names.is_some()
            || missed_answer
            || is_moved;
        Ok(ConsumerHeartbeatAnswer {
            member_id: id.clone(),
            member_epoch: member.current.epoch,
            heartbeat_interval: self.config.share.heartbeat_interval,
            assignment: tells.then(|| member.current.assigned.clone()),
        })
    }

    /// When the next heartbeat is due: soon, where the group waits for the states of partitions that it is to assign.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        let interval = self.config.share.heartbeat_interval;
        match self.is_asking {
            true => interval.min(SHARE_INITIALIZING_INTERVAL),
            false => interval,
        }
    }

    fn check_room(&self, member_id: &str) -> Result<(), GroupError> {
        let is_known = self.members.contains_key(member_id);
        if !is_known && self.members.len() >= self.config.share.group_size_max {
            return Err(GroupError::GroupMaxSizeReached);
        }
        Ok(())
    }

    /// Finds the member that the request comes from, or adds it where it joins. True where it has missed the answer with its epoch.
    fn admit(&mut self, request: &ShareHeartbeat) -> Result<bool, GroupError> {
        let received = request.member_epoch;
        let Some(member) = self.members.get(&request.member_id) else {
            if received != JOIN_EPOCH {
                return Err(GroupError::UnknownMemberId);
            }
            let id = request.member_id.clone();
            tracing::info!(
                group = self.id,
                member = id,
                "member joined the share group"
            );
            self.members.insert(id, Member::default());
            return Ok(false);
        };
        let StoredShareCurrent {
            epoch,
            previous_epoch,
            ..
        } = member.current;
        match received {
            _ if received == epoch => Ok(false),
            JOIN_EPOCH => Ok(true),
            _ if received < epoch && received == previous_epoch => Ok(true),
            _ => Err(GroupError::FencedMemberEpoch),
        }
    }

    /// Takes on what the request says of the member. True where it subscribes to something else now.
    fn change_member(&mut self, request: &ShareHeartbeat) -> bool {
        let id = &request.member_id;
        let names = request.names.as_ref();
        let names = names.map(|names| self.shared(names.iter().cloned().collect()));
        let Some(member) = self.members.get_mut(id) else {
            return false;
        };
        let before = member.stored();
        if let Some(rack) = &request.rack_id {
            member.rack_id = Some(rack.clone());
        }
        member.client_id.clone_from(&request.client_id);
        member.client_host.clone_from(&request.client_host);
        let is_changed = names.as_ref().is_some_and(|names| *names != member.names);
        if let Some(names) = names {
            member.names = names;
        }
        let stored = member.stored();
        let part = SharePart::Member(id.clone());
        if stored != before || self.stored.lacks(&part) {
            self.stored.push(part, Some(ShareValue::Member(stored)));
        }
        is_changed
    }

    /// The same names, shared with another member that subscribes to them.
    pub(super) fn shared(&self, names: BTreeSet<String>) -> Names {
        // Members of a group mostly subscribe to the same; looking at the first ones finds it.
        const LOOKS_MAX: usize = 16;
        let mut others = self.members.values().map(|member| &member.names);
        let same = others
            .by_ref()
            .take(LOOKS_MAX)
            .find(|other| ***other == names);
        same.map_or_else(|| Arc::new(names), Arc::clone)
    }

    /// Lets a member have its target.
    fn move_on(&mut self, id: &str) {
        let epoch = self.assignment_epoch;
        let Some(member) = self.members.get_mut(id) else {
            return;
        };
        let current = &member.current;
        if current.epoch == epoch && current.assigned == member.target {
            return;
        }
        member.current = StoredShareCurrent {
            epoch,
            previous_epoch: current.epoch,
            assigned: member.target.clone(),
        };
        let value = ShareValue::Current(member.current.clone());
        self.stored
            .push(SharePart::Current(id.to_owned()), Some(value));
    }

    /// Hears from a member: its session restarts.
    pub(super) fn refresh(&mut self, id: &str, now: Now) {
        let deadline = now.at + self.config.share.session_timeout;
        if let Some(member) = self.members.get_mut(id) {
            member.session_deadline = deadline;
            self.note(deadline);
        }
    }

    fn leave(&mut self, request: &ShareHeartbeat) -> Result<ConsumerHeartbeatAnswer, GroupError> {
        let id = &request.member_id;
        if !self.members.contains_key(id) {
            return Err(GroupError::UnknownMemberId);
        }
        tracing::info!(group = self.id, member = id, "member left the share group");
        self.remove(id);
        self.count_epoch();
        Ok(ConsumerHeartbeatAnswer {
            member_id: id.clone(),
            member_epoch: LEAVE_EPOCH,
            heartbeat_interval: Duration::ZERO,
            assignment: None,
        })
    }

    /// Takes a member out of the group. The caller counts the epoch.
    pub(super) fn remove(&mut self, id: &str) {
        if self.members.remove(id).is_none() {
            return;
        }
        let name = id.to_owned();
        let parts = [
            SharePart::Current(name.clone()),
            SharePart::TargetMember(name.clone()),
            SharePart::Member(name),
        ];
        for part in parts {
            self.stored.push(part, None);
        }
    }
}

fn check_size(request: &ShareHeartbeat) -> Result<(), GroupError> {
    let names = request.names.iter().flatten();
    let bytes: usize = names.clone().map(String::len).sum();
    if names.count() > SHARE_MEMBER_TOPICS_MAX || bytes > MEMBER_METADATA_BYTES_MAX {
        return Err(GroupError::MetadataTooLarge);
    }
    Ok(())
}
