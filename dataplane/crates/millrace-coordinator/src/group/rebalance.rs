//! From the first reason to rebalance to the next generation.

use std::{collections::BTreeMap, time::Duration};

use super::{Effect, Group, Member, Now, Rebalance, Then, answer};
use crate::{GroupError, messages::GroupState};

impl Group {
    /// Starts a rebalance unless one waits already.
    pub(super) fn prepare_rebalance(&mut self, now: Now) {
        match self.state {
            GroupState::PreparingRebalance | GroupState::Dead => return,
            GroupState::CompletingRebalance => {
                self.refuse_syncing(&GroupError::RebalanceInProgress, now);
            }
            GroupState::Empty
            | GroupState::Stable
            | GroupState::Assigning
            | GroupState::Reconciling => {}
        }
        self.sync_deadline = None;
        self.pending_sync.clear();
        let timeout = self.rebalance_timeout();
        let rebalance = if self.state == GroupState::Empty {
            let delay = self.config.initial_rebalance_delay;
            Rebalance {
                deadline: now.at + delay,
                first: Some(timeout.saturating_sub(delay)),
            }
        } else {
            Rebalance {
                deadline: now.at + timeout,
                first: None,
            }
        };
        self.note(rebalance.deadline);
        self.rebalance = Some(rebalance);
        self.new_member_added = false;
        self.enter(GroupState::PreparingRebalance, now);
        self.try_complete_rebalance(now);
    }

    /// The longest that any member may take to join.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        self.members
            .values()
            .map(|m| m.rebalance_timeout)
            .max()
            .unwrap_or_default()
    }

    /// Ends the rebalance where nothing is left to wait for.
    pub(super) fn try_complete_rebalance(&mut self, now: Now) {
        let Some(rebalance) = &self.rebalance else {
            return;
        };
        let due = now.at >= rebalance.deadline;
        match rebalance.first {
            Some(_) if !due => {}
            Some(left) if self.new_member_added && !left.is_zero() => {
                self.new_member_added = false;
                let delay = self.config.initial_rebalance_delay.min(left);
                let deadline = now.at + delay;
                self.rebalance = Some(Rebalance {
                    deadline,
                    first: Some(left - delay),
                });
                self.note(deadline);
            }
            Some(_) => self.complete_rebalance(now),
            None => {
                let all_joined =
                    self.joining == self.members.len() && self.pending_members.is_empty();
                if all_joined || due {
                    self.complete_rebalance(now);
                }
            }
        }
    }

    fn complete_rebalance(&mut self, now: Now) {
        let absent: Vec<String> = self
            .members
            .values()
            .filter(|member| member.joining.is_none() && member.instance_id.is_none())
            .map(|member| member.id.clone())
            .collect();
        for id in absent {
            tracing::info!(group = self.id, member = id, "did not join again in time");
            self.remove_member(&id);
        }
        if !self.members.is_empty() && !self.elect_joined_leader() {
            // Only static members are left and none has joined; their sessions decide.
            let deadline = now.at + self.rebalance_timeout().max(self.shortest_session());
            self.rebalance = Some(Rebalance {
                deadline,
                first: None,
            });
            return self.note(deadline);
        }
        self.rebalance = None;
        // Generations start at 1; after the last one they restart.
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if self.members.is_empty() {
            self.become_empty(now);
        } else {
            self.start_generation(now);
        }
    }

    /// A static leader that has not joined hands its office to a member that has. False where
    /// nobody has.
    fn elect_joined_leader(&mut self) -> bool {
        let joined = |member: &Member| member.joining.is_some();
        let leader = self.leader.as_ref().and_then(|id| self.members.get(id));
        if leader.is_some_and(joined) {
            return true;
        }
        let successor = self.members.values().find(|member| joined(member));
        let Some(successor) = successor.map(|member| member.id.clone()) else {
            return false;
        };
        self.leader = Some(successor);
        true
    }

    /// Keeps a rebalance that cannot end from spinning where every rebalance timeout is zero.
    fn shortest_session(&self) -> Duration {
        self.members
            .values()
            .map(|m| m.session_timeout)
            .min()
            .unwrap_or_default()
    }

    fn become_empty(&mut self, now: Now) {
        self.protocol = None;
        self.leader = None;
        self.enter(GroupState::Empty, now);
        let metadata = self.metadata(|_| bytes::Bytes::new());
        self.effects.push(Effect {
            metadata,
            then: Then::Nothing,
        });
    }

    fn start_generation(&mut self, now: Now) {
        self.protocol = self.select_protocol();
        self.enter(GroupState::CompletingRebalance, now);
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in &ids {
            let joined = self.joined(id);
            if let Some(member) = self.members.get_mut(id) {
                member.is_new = false;
                if let Some(reply) = member.joining.take() {
                    answer(reply, Ok(joined));
                }
            }
            self.refresh(id, now);
        }
        self.joining = 0;
        self.pending_sync = ids.into_iter().collect();
        let deadline = now.at + self.rebalance_timeout();
        self.sync_deadline = Some(deadline);
        self.note(deadline);
    }

    /// The protocol that most members prefer among those that all offer; none without members.
    pub(super) fn select_protocol(&self) -> Option<String> {
        let mut candidates: Vec<&str> = self
            .offered
            .keys()
            .map(String::as_str)
            .filter(|p| self.offered_by_all(p))
            .collect();
        candidates.sort_unstable();
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for vote in self
            .members
            .values()
            .filter_map(|member| member.vote(&candidates))
        {
            *votes.entry(vote).or_default() += 1;
        }
        votes
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(protocol, _)| protocol.to_owned())
    }
}
