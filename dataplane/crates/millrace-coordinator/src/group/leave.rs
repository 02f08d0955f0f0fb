//! Heartbeat and LeaveGroup.

use super::{Group, Now};
use crate::{
    GroupError,
    messages::{Caller, GroupState, Leaving},
};

impl Group {
    /// Takes a Heartbeat.
    pub(crate) fn heartbeat(&mut self, caller: &Caller, now: Now) -> Result<(), GroupError> {
        if self.consumer.is_some() {
            return self.heartbeat_consumer(caller, now);
        }
        self.check_generation(caller)?;
        match self.state {
            GroupState::Empty
            | GroupState::Dead
            | GroupState::Assigning
            | GroupState::Reconciling => Err(GroupError::UnknownMemberId),
            GroupState::CompletingRebalance | GroupState::Stable => {
                self.refresh(&caller.member_id, now);
                Ok(())
            }
            GroupState::PreparingRebalance => {
                self.refresh(&caller.member_id, now);
                Err(GroupError::RebalanceInProgress)
            }
        }
    }

    /// Takes a LeaveGroup: one result per member, in their order.
    pub(crate) fn leave(
        &mut self,
        leaving: &[Leaving],
        now: Now,
    ) -> Result<Vec<Result<(), GroupError>>, GroupError> {
        if self.state == GroupState::Dead {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        if self.consumer.is_some() {
            return Ok(self.leave_consumer(leaving, now));
        }
        Ok(leaving
            .iter()
            .map(|member| self.leave_one(member, now))
            .collect())
    }

    fn leave_one(&mut self, leaving: &Leaving, now: Now) -> Result<(), GroupError> {
        let id = match &leaving.instance_id {
            // An administrator removes a static member by its name alone.
            Some(instance) if leaving.member_id.is_empty() => self
                .static_members
                .get(instance)
                .cloned()
                .ok_or(GroupError::UnknownMemberId)?,
            _ => leaving.member_id.clone(),
        };
        if leaving.instance_id.is_none() && self.no_longer_expect(&id) {
            self.try_complete_rebalance(now);
            return Ok(());
        }
        self.check_member(&Caller {
            member_id: id.clone(),
            instance_id: leaving.instance_id.clone(),
            generation: self.generation,
        })?;
        tracing::info!(group = self.id, member = id, "leaves");
        self.remove_and_rebalance(&id, now);
        Ok(())
    }

    pub(super) fn remove_and_rebalance(&mut self, id: &str, now: Now) {
        self.remove_member(id);
        match self.state {
            GroupState::Empty
            | GroupState::Dead
            | GroupState::Assigning
            | GroupState::Reconciling => {}
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(now),
            GroupState::PreparingRebalance => self.try_complete_rebalance(now),
        }
    }
}
