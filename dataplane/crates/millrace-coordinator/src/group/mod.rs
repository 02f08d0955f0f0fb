//! One group: the state machine of Kafka's classic protocol, unless it has a consumer group, which then
//! decides (`consumer`).
//!
//! Pure: the caller passes the time; it does no I/O and starts nothing. Writes to the group's log
//! are returned as [`Effect`]s; timeouts are the time at which it wants [`Group::expire`] called. A
//! request that must wait leaves its reply inside the member.
//!
//! ```text
//! Empty ──join──▶ PreparingRebalance ──all joined / timeout──▶ CompletingRebalance
//!   ▲                 ▲        │ nobody left                        │ leader's assignment durable
//!   └─────────────────┼────────┘                                    ▼
//!                     └───────────── join, leave, silence ──────── Stable
//! ```

mod consumer;
mod describe;
mod join;
mod kept;
mod leave;
mod member;
mod memory;
mod offsets;
mod rebalance;
mod share;
mod sync;
#[cfg(test)]
mod tests;
mod transactional;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use millrace_model::TopicPartition;

pub(crate) use self::{
    consumer::ConsumerWrite,
    kept::{GroupGround, Outcome, encoded},
    member::Reply,
    memory::{empty_bytes, generation_bytes, offset_bytes},
};
use self::{member::Member, memory::Memory, transactional::Pending};
use crate::{
    GroupConfig, GroupError,
    consumer::ConsumerGroup,
    kept::Now,
    messages::{Caller, CommittedOffset, GroupState, Joined, Protocol},
    records::{GroupMetadata, StoredMember},
    share::ShareGroup,
};

/// Something that the group's owner must write to the log, in this order.
#[derive(Debug)]
pub(crate) struct Effect {
    /// The generation to write.
    pub(crate) metadata: GroupMetadata,
    /// What the group does once it is durable.
    pub(crate) then: Then,
}

/// What a durable generation allows.
#[derive(Debug)]
pub(crate) enum Then {
    /// Nothing waits for it: the group is empty.
    Nothing,
    /// Hand every member its assignment.
    Assign,
    /// Tell a static member that it has taken its predecessor's place.
    Welcome(Reply<Joined>, Joined),
}

/// A rebalance that waits for members to join.
#[derive(Debug)]
struct Rebalance {
    deadline: Duration,
    /// The first rebalance of an empty group waits on purpose for more members; this is by how
    /// much it may yet be prolonged.
    first: Option<Duration>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Group {
    id: String,
    config: Arc<GroupConfig>,
    state: GroupState,
    state_ms: i64,
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<String>,
    members: BTreeMap<String, Member>,
    /// Static name → member id.
    static_members: HashMap<String, String>,
    /// Ids given out with MEMBER_ID_REQUIRED that have not joined yet, and until when they may.
    pending_members: BTreeMap<String, Duration>,
    /// Members of this generation that have not sent SyncGroup.
    pending_sync: BTreeSet<String>,
    /// When the members in `pending_sync` are given up.
    sync_deadline: Option<Duration>,
    /// Protocol → how many members offer it.
    offered: HashMap<String, usize>,
    /// How many members have `joining` set.
    joining: usize,
    rebalance: Option<Rebalance>,
    /// A member came while the first rebalance waited.
    new_member_added: bool,
    offsets: BTreeMap<TopicPartition, CommittedOffset>,
    /// Offsets in open transactions.
    pending_offsets: Pending,
    /// Commits on their way to the log.
    commits_in_flight: usize,
    /// The generation that the log holds.
    stored: Option<GroupMetadata>,
    effects: Vec<Effect>,
    /// There while the group uses the consumer protocol; the classic fields are empty then.
    consumer: Option<Box<ConsumerGroup>>,
    /// There while the group is a share group; the classic fields are empty then.
    share: Option<Box<ShareGroup>>,
    consumer_writes: Vec<ConsumerWrite>,
    consumer_writes_in_flight: usize,
    wake_at: Option<Duration>,
    /// What all of this costs.
    memory: Memory,
}

impl Group {
    pub(crate) fn new(id: String, config: Arc<GroupConfig>, now: Now) -> Self {
        Self {
            id,
            config,
            state: GroupState::Empty,
            state_ms: now.ms,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: HashMap::new(),
            pending_members: BTreeMap::new(),
            pending_sync: BTreeSet::new(),
            sync_deadline: None,
            offered: HashMap::new(),
            joining: 0,
            rebalance: None,
            new_member_added: false,
            offsets: BTreeMap::new(),
            pending_offsets: Pending::new(),
            commits_in_flight: 0,
            stored: None,
            effects: Vec::new(),
            consumer: None,
            share: None,
            consumer_writes: Vec::new(),
            consumer_writes_in_flight: 0,
            wake_at: None,
            memory: Memory::default(),
        }
    }

    /// Takes on a generation that was read from the log. Sessions restart: the members' silence
    /// while the broker was away is not theirs.
    pub(crate) fn restore(&mut self, metadata: GroupMetadata, now: Now) {
        self.generation = metadata.generation;
        self.protocol_type = Some(metadata.protocol_type.clone()).filter(|t| !t.is_empty());
        self.protocol.clone_from(&metadata.protocol);
        self.leader.clone_from(&metadata.leader);
        self.state_ms = if metadata.state_ms >= 0 {
            metadata.state_ms
        } else {
            now.ms
        };
        self.members.clear();
        self.static_members.clear();
        self.offered.clear();
        for stored in &metadata.members {
            let member = self.restored_member(stored, now);
            self.count_protocols(&member.protocols.clone(), true);
            if let Some(instance) = &member.instance_id {
                self.static_members
                    .insert(instance.clone(), member.id.clone());
            }
            self.note(member.session_deadline);
            self.members.insert(member.id.clone(), member);
        }
        self.state = if self.members.is_empty() {
            GroupState::Empty
        } else {
            GroupState::Stable
        };
        self.stored = Some(metadata);
        self.recount();
    }

    fn restored_member(&self, stored: &StoredMember, now: Now) -> Member {
        let session_timeout = millis(stored.session_timeout_ms);
        let rebalance_timeout = match stored.rebalance_timeout_ms {
            ..0 => session_timeout,
            given => millis(given),
        };
        Member {
            id: stored.member_id.clone(),
            instance_id: stored.instance_id.clone(),
            client_id: stored.client_id.clone(),
            client_host: stored.client_host.clone(),
            rebalance_timeout,
            session_timeout,
            protocols: vec![Protocol {
                name: self.protocol.clone().unwrap_or_default(),
                metadata: stored.subscription.clone(),
            }],
            assignment: stored.assignment.clone(),
            is_new: false,
            joining: None,
            syncing: None,
            session_deadline: now.at + session_timeout,
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn state(&self) -> GroupState {
        match &self.consumer {
            _ if self.state == GroupState::Dead => self.state,
            Some(consumer) => consumer.state(),
            None => { self.share.as_ref() }.map_or(self.state, |share| share.state()),
        }
    }

    /// What has to be written since this was last asked, oldest first.
    #[cfg(test)]
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// When [`Group::expire`] wants to be called; earlier is harmless.
    pub(crate) const fn wake_at(&self) -> Option<Duration> {
        self.wake_at
    }

    fn note(&mut self, deadline: Duration) {
        self.wake_at = Some(self.wake_at.map_or(deadline, |at| at.min(deadline)));
    }

    /// Does what is due: ends sessions, gives up who does not join or sync.
    pub(crate) fn expire(&mut self, now: Now) {
        self.expire_consumer(now);
        self.expire_share(now);
        self.no_longer_expect_late(now.at);
        let silent: Vec<String> = self
            .members
            .values()
            .filter(|member| member.expires_at().is_some_and(|at| at <= now.at))
            .map(|member| member.id.clone())
            .collect();
        for id in silent {
            tracing::info!(
                group = self.id,
                member = id,
                "session ended: not heard from"
            );
            self.remove_and_rebalance(&id, now);
        }
        if self.sync_deadline.is_some_and(|at| at <= now.at) {
            self.give_up_unsynced(now);
        }
        self.try_complete_rebalance(now);
        self.wake_at = self.next_deadline();
    }

    fn next_deadline(&self) -> Option<Duration> {
        let sessions = self.members.values().filter_map(Member::expires_at);
        let pending = self.pending_members.values().copied();
        let phases = [
            self.sync_deadline,
            self.rebalance.as_ref().map(|r| r.deadline),
        ];
        let consumer = self
            .consumer
            .as_ref()
            .and_then(|consumer| consumer.wake_at());
        let share = self.share.as_ref().and_then(|share| share.wake_at());
        sessions
            .chain(pending)
            .chain(consumer)
            .chain(share)
            .chain(phases.into_iter().flatten())
            .min()
    }

    /// Checks that the caller is who it says (Kafka's `validateCurrentMember`).
    fn check_member(&self, caller: &Caller) -> Result<(), GroupError> {
        if let Some(instance) = &caller.instance_id {
            return match self.static_members.get(instance) {
                None => Err(GroupError::UnknownMemberId),
                Some(id) if *id != caller.member_id => Err(GroupError::FencedInstanceId),
                Some(_) => Ok(()),
            };
        }
        if self.members.contains_key(&caller.member_id) {
            Ok(())
        } else {
            Err(GroupError::UnknownMemberId)
        }
    }

    /// Checks the caller and that it speaks of the current generation.
    fn check_generation(&self, caller: &Caller) -> Result<(), GroupError> {
        if self.state == GroupState::Dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        self.check_member(caller)?;
        if caller.generation == self.generation {
            Ok(())
        } else {
            Err(GroupError::IllegalGeneration)
        }
    }

    /// Hears from a member: its session restarts.
    fn refresh(&mut self, member_id: &str, now: Now) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.session_deadline = now.at + member.session_timeout;
            let deadline = member.session_deadline;
            self.note(deadline);
        }
    }

    fn enter(&mut self, state: GroupState, now: Now) {
        tracing::debug!(
            group = self.id,
            from = self.state.name(),
            to = state.name(),
            generation = self.generation,
        );
        self.state = state;
        self.state_ms = now.ms;
    }

    fn count_protocols(&mut self, protocols: &[Protocol], offered: bool) {
        for protocol in protocols {
            let count = self.offered.entry(protocol.name.clone()).or_default();
            *count = if offered {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
        }
        self.offered.retain(|_, count| *count > 0);
    }

    /// Takes a member out and answers what it waits for.
    fn remove_member(&mut self, member_id: &str) {
        self.no_longer_expect(member_id);
        self.pending_sync.remove(member_id);
        let Some(member) = self.take_member(member_id) else {
            return;
        };
        self.count_protocols(&member.protocols, false);
        if let Some(instance) = &member.instance_id {
            self.static_members.remove(instance);
        }
        if let Some(reply) = member.joining {
            self.joining -= 1;
            answer(reply, Err(GroupError::UnknownMemberId));
        }
        if let Some(reply) = member.syncing {
            answer(reply, Err(GroupError::UnknownMemberId));
        }
        if self.leader.as_deref() == Some(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// The generation as it is to be written, with these assignments.
    fn metadata(&self, assignment: impl Fn(&Member) -> Bytes) -> GroupMetadata {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = self.members.values().map(|member| StoredMember {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: whole_ms(member.rebalance_timeout),
            session_timeout_ms: whole_ms(member.session_timeout),
            subscription: member.metadata(protocol),
            assignment: assignment(member),
        });
        GroupMetadata {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_ms: self.state_ms,
            members: members.collect(),
        }
    }
}

/// Answers a request that may have gone away in the meantime.
fn answer<T>(reply: Reply<T>, result: Result<T, GroupError>) {
    // A caller that no longer listens has disconnected; its session timeout deals with it.
    drop(reply.send(result));
}

fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn whole_ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
