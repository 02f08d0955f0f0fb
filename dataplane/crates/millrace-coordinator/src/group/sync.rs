//! SyncGroup: the leader's assignment goes to the log, then to the members.

use std::collections::HashMap;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{Effect, Group, Now, Then, answer};
use crate::{
    GroupError,
    config::GROUP_RECORD_BYTES_MAX,
    messages::{GroupState, SyncRequest, Synced},
    records::GroupMetadata,
};

impl Group {
    /// Takes a SyncGroup; the answer comes when the leader's assignment is durable.
    pub(crate) fn sync(
        &mut self,
        request: SyncRequest,
        now: Now,
    ) -> oneshot::Receiver<Result<Synced, GroupError>> {
        let (reply, answered) = oneshot::channel();
        if self.consumer.is_some() {
            self.sync_consumer(&request, reply, now);
            return answered;
        }
        if let Err(error) = self.check_sync(&request) {
            answer(reply, Err(error));
            return answered;
        }
        let id = request.caller.member_id;
        self.pending_sync.remove(&id);
        if self.state == GroupState::Stable {
            answer(reply, Ok(self.synced(&id)));
            self.finish_syncing_if_all();
            self.refresh(&id, now);
            return answered;
        }
        if let Some(member) = self.members.get_mut(&id)
            && let Some(earlier) = member.syncing.replace(reply)
        {
            answer(earlier, Err(GroupError::RebalanceInProgress));
        }
        if self.leader.as_deref() == Some(id.as_str()) {
            self.store_assignment(request.assignments, now);
        }
        answered
    }

    fn check_sync(&self, request: &SyncRequest) -> Result<(), GroupError> {
        self.check_generation(&request.caller)?;
        let other =
            |theirs: &Option<String>, ours: &Option<String>| theirs.is_some() && theirs != ours;
        if other(&request.protocol_type, &self.protocol_type)
            || other(&request.protocol, &self.protocol)
        {
            return Err(GroupError::InconsistentGroupProtocol);
        }
        match self.state {
            GroupState::CompletingRebalance | GroupState::Stable => Ok(()),
            GroupState::PreparingRebalance => Err(GroupError::RebalanceInProgress),
            GroupState::Empty
            | GroupState::Dead
            | GroupState::Assigning
            | GroupState::Reconciling => Err(GroupError::UnknownMemberId),
        }
    }

    /// Refuses what the leader assigns: everybody who waits for it is told why, and joins again.
    pub(crate) fn refuse_assignment(
        &mut self,
        error: &GroupError,
        now: Now,
    ) -> oneshot::Receiver<Result<Synced, GroupError>> {
        let (reply, answered) = oneshot::channel();
        answer(reply, Err(error.clone()));
        if self.state == GroupState::CompletingRebalance {
            self.refuse_syncing(error, now);
            self.prepare_rebalance(now);
        }
        answered
    }

    /// Members that the leader forgot get nothing; whom it invented is ignored.
    fn store_assignment(&mut self, assignments: Vec<(String, Bytes)>, now: Now) {
        let assignments: HashMap<String, Bytes> = assignments.into_iter().collect();
        let metadata =
            self.metadata(|member| assignments.get(&member.id).cloned().unwrap_or_default());
        if metadata.payload_bytes() > GROUP_RECORD_BYTES_MAX {
            self.refuse_syncing(&GroupError::MetadataTooLarge, now);
            return self.prepare_rebalance(now);
        }
        self.effects.push(Effect {
            metadata,
            then: Then::Assign,
        });
    }

    /// An [`Effect`] has reached the log, or could not.
    pub(crate) fn stored(
        &mut self,
        metadata: GroupMetadata,
        then: Then,
        result: Result<(), GroupError>,
        now: Now,
    ) {
        let current = metadata.generation == self.generation;
        match (then, &result) {
            (Then::Nothing, _) => {}
            (Then::Welcome(reply, joined), Ok(())) => answer(reply, Ok(joined)),
            (Then::Welcome(reply, _), Err(error)) => answer(reply, Err(error.clone())),
            // The group has moved on; whoever waited was told to join again.
            (Then::Assign, _) if !current || self.state != GroupState::CompletingRebalance => {}
            (Then::Assign, Ok(())) => self.assign(&metadata, now),
            (Then::Assign, Err(error)) => {
                self.refuse_syncing(&error.clone(), now);
                self.prepare_rebalance(now);
            }
        }
        if result.is_ok() {
            self.store(metadata);
        }
    }

    fn assign(&mut self, metadata: &GroupMetadata, now: Now) {
        for stored in &metadata.members {
            if let Some(member) = self.members.get_mut(&stored.member_id) {
                member.assignment = stored.assignment.clone();
            }
        }
        self.recount();
        self.enter(GroupState::Stable, now);
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let synced = self.synced(&id);
            let reply = self
                .members
                .get_mut(&id)
                .and_then(|member| member.syncing.take());
            if let Some(reply) = reply {
                answer(reply, Ok(synced));
                self.refresh(&id, now);
            }
        }
        self.finish_syncing_if_all();
    }

    fn finish_syncing_if_all(&mut self) {
        if self.pending_sync.is_empty() {
            self.sync_deadline = None;
        }
    }

    fn synced(&self, id: &str) -> Synced {
        Synced {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol: self.protocol.clone().unwrap_or_default(),
            assignment: self
                .members
                .get(id)
                .map(|m| m.assignment.clone())
                .unwrap_or_default(),
        }
    }

    /// Takes every assignment back and answers who waits for one.
    pub(super) fn refuse_syncing(&mut self, error: &GroupError, now: Now) {
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let Some(member) = self.members.get_mut(&id) else {
                continue;
            };
            member.assignment = Bytes::new();
            if let Some(reply) = member.syncing.take() {
                answer(reply, Err(error.clone()));
                self.refresh(&id, now);
            }
        }
        self.recount();
    }

    /// Answers everybody who waits, with a request to look for the coordinator elsewhere.
    pub(crate) fn refuse_waiting(&mut self, error: &GroupError, now: Now) {
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let Some(member) = self.members.get_mut(&id) else {
                continue;
            };
            if let Some(reply) = member.syncing.take() {
                answer(reply, Err(error.clone()));
            }
            if let Some(reply) = member.joining.take() {
                answer(reply, Err(error.clone()));
            }
            self.refresh(&id, now);
        }
        self.joining = 0;
    }

    /// Members that joined this generation but never asked for their assignment are gone.
    pub(super) fn give_up_unsynced(&mut self, now: Now) {
        self.sync_deadline = None;
        let unsynced = std::mem::take(&mut self.pending_sync);
        if unsynced.is_empty() {
            return;
        }
        for id in unsynced {
            tracing::info!(group = self.id, member = id, "did not sync in time");
            self.remove_member(&id);
        }
        self.prepare_rebalance(now);
    }
}
