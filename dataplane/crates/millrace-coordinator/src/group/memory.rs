//! What a group costs in memory, and what requests would add to it.
//!
//! Counted incrementally, because every heartbeat asks. The log's copy of a generation is counted in
//! addition to its members, although both share their bytes while they agree: a member may leave, or
//! rejoin with something else, while the log still has the previous value.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use millrace_model::TopicPartition;

use super::{Group, Member};
use crate::{
    config::{GROUP_BYTES, MEMBER_BYTES, OFFSET_BYTES, PENDING_MEMBER_BYTES},
    messages::{CommittedOffset, JoinRequest, Protocol, SyncRequest},
    records::{GroupMetadata, StoredMember},
};

/// A member's names are the keys of several tables: each of their bytes counts so often.
const NAME_COPIES: u64 = 4;

/// Bytes of what a group holds, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) members: u64,
    pub(super) pending: u64,
    pub(super) offsets: u64,
    pub(super) stored: u64,
    /// Offsets in open transactions.
    pub(super) transactional: u64,
}

impl Group {
    /// What the group costs, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let Memory {
            members,
            pending,
            offsets,
            stored,
            transactional,
        } = self.memory;
        let consumer = self.consumer.as_ref();
        let consumer = consumer.map_or(0, |consumer| consumer.memory_bytes());
        let share = self.share.as_ref().map_or(0, |share| share.memory_bytes());
        empty_bytes(&self.id)
            + consumer
            + share
            + members
            + pending
            + offsets
            + stored
            + transactional
    }

    /// What a JoinGroup would add, in bytes. A member that joins again with what it had adds nothing.
    pub(crate) fn join_growth(&self, request: &JoinRequest) -> u64 {
        let known = self.known_as(request);
        if known.is_none() && request.member_id.is_empty() && request.requires_known_member_id {
            return PENDING_MEMBER_BYTES + NAME_COPIES * len(&request.client_id);
        }
        let names = names_bytes([
            &request.client_id,
            &request.client_id,
            &request.client_host,
            request.instance_id.as_deref().unwrap_or_default(),
        ]);
        let asked = MEMBER_BYTES + names + protocols_bytes(&request.protocols);
        asked.saturating_sub(known.map_or(0, member_bytes))
    }

    fn known_as(&self, request: &JoinRequest) -> Option<&Member> {
        let by_name = request.instance_id.as_ref();
        let id = by_name.and_then(|instance| self.static_members.get(instance));
        self.members.get(id.unwrap_or(&request.member_id))
    }

    /// What a SyncGroup would add, in bytes: what the leader assigns, to the members and in the log.
    pub(crate) fn sync_growth(&self, request: &SyncRequest) -> u64 {
        if self.leader.as_ref() != Some(&request.caller.member_id) {
            return 0;
        }
        let bytes = |(_, assignment): &(String, Bytes)| assignment.len() as u64;
        let assigned: u64 = request.assignments.iter().map(bytes).sum();
        let had: u64 = self
            .members
            .values()
            .map(|m| m.assignment.len() as u64)
            .sum();
        let unassigned = generation_bytes(&self.metadata(|_| Bytes::new()));
        let Memory {
            members, stored, ..
        } = self.memory;
        (members - had + assigned + unassigned + assigned).saturating_sub(members + stored)
    }

    /// What a commit would add, in bytes.
    pub(crate) fn commit_growth(&self, offsets: &[(TopicPartition, CommittedOffset)]) -> u64 {
        let growth = |(partition, committed): &(TopicPartition, CommittedOffset)| {
            let known = self.offsets.get(partition);
            offset_bytes(committed).saturating_sub(known.map_or(0, offset_bytes))
        };
        offsets.iter().map(growth).sum()
    }

    /// Counts everything again, where everything was looked at anyway.
    pub(super) fn recount(&mut self) {
        self.memory = Memory {
            members: self.members.values().map(member_bytes).sum(),
            pending: pending_bytes(&self.pending_members),
            offsets: self.offsets.values().map(offset_bytes).sum(),
            stored: self.stored.as_ref().map_or(0, generation_bytes),
            transactional: self.memory.transactional,
        };
    }

    pub(super) fn put_member(&mut self, member: Member) {
        self.memory.members += member_bytes(&member);
        if let Some(old) = self.members.insert(member.id.clone(), member) {
            self.memory.members -= member_bytes(&old);
        }
    }

    pub(super) fn take_member(&mut self, id: &str) -> Option<Member> {
        let member = self.members.remove(id)?;
        self.memory.members -= member_bytes(&member);
        Some(member)
    }

    /// Lets a member offer other protocols; returns those that it had.
    pub(super) fn replace_protocols(&mut self, id: &str, with: Vec<Protocol>) -> Vec<Protocol> {
        let Some(member) = self.members.get_mut(id) else {
            return Vec::new();
        };
        let old = std::mem::replace(&mut member.protocols, with);
        self.memory.members -= protocols_bytes(&old);
        self.memory.members += protocols_bytes(&member.protocols);
        old
    }

    /// Waits for a member to come back with the id that it was given.
    pub(super) fn expect_member(&mut self, id: String, until: Duration) {
        self.no_longer_expect(&id);
        self.memory.pending += pending_member_bytes(&id);
        self.pending_members.insert(id, until);
    }

    /// No longer waits for it; whether it did.
    pub(super) fn no_longer_expect(&mut self, id: &str) -> bool {
        let was_expected = self.pending_members.remove(id).is_some();
        if was_expected {
            self.memory.pending -= pending_member_bytes(id);
        }
        was_expected
    }

    pub(super) fn no_longer_expect_late(&mut self, now: Duration) {
        self.pending_members.retain(|_, deadline| *deadline > now);
        self.memory.pending = pending_bytes(&self.pending_members);
    }

    pub(super) fn store(&mut self, metadata: GroupMetadata) {
        self.memory.stored = generation_bytes(&metadata);
        self.stored = Some(metadata);
    }

    /// The log no longer holds a generation.
    pub(super) fn unstore(&mut self) {
        self.memory.stored = 0;
        self.stored = None;
    }

    pub(super) fn put_offset(&mut self, partition: TopicPartition, committed: CommittedOffset) {
        self.memory.offsets += offset_bytes(&committed);
        if let Some(old) = self.offsets.insert(partition, committed) {
            self.memory.offsets -= offset_bytes(&old);
        }
    }

    pub(super) fn take_offset(&mut self, partition: &TopicPartition) {
        if let Some(old) = self.offsets.remove(partition) {
            self.memory.offsets -= offset_bytes(&old);
        }
    }
}

/// What a group of this id costs with nothing in it, in bytes.
pub(crate) fn empty_bytes(id: &str) -> u64 {
    GROUP_BYTES + 2 * len(id)
}

/// What a generation costs, in bytes.
pub(crate) fn generation_bytes(metadata: &GroupMetadata) -> u64 {
    let member = |member: &StoredMember| {
        let names = names_bytes([
            &member.member_id,
            &member.client_id,
            &member.client_host,
            member.instance_id.as_deref().unwrap_or_default(),
        ]);
        MEMBER_BYTES + names + (member.subscription.len() + member.assignment.len()) as u64
    };
    metadata.members.iter().map(member).sum()
}

/// What a committed offset costs, in bytes.
pub(crate) fn offset_bytes(committed: &CommittedOffset) -> u64 {
    OFFSET_BYTES + len(&committed.metadata)
}

fn member_bytes(member: &Member) -> u64 {
    let names = names_bytes([
        &member.id,
        &member.client_id,
        &member.client_host,
        member.instance_id.as_deref().unwrap_or_default(),
    ]);
    MEMBER_BYTES + names + protocols_bytes(&member.protocols) + member.assignment.len() as u64
}

fn protocols_bytes(protocols: &[Protocol]) -> u64 {
    let bytes = |protocol: &Protocol| {
        size_of::<Protocol>() as u64 + len(&protocol.name) + protocol.metadata.len() as u64
    };
    protocols.iter().map(bytes).sum()
}

fn pending_bytes(pending: &BTreeMap<String, Duration>) -> u64 {
    pending.keys().map(|id| pending_member_bytes(id)).sum()
}

fn pending_member_bytes(id: &str) -> u64 {
    PENDING_MEMBER_BYTES + len(id)
}

fn names_bytes(names: [&str; 4]) -> u64 {
    NAME_COPIES * names.into_iter().map(len).sum::<u64>()
}

fn len(text: &str) -> u64 {
    text.len() as u64
}
