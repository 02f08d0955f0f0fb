//! The group epoch, which counts the changes of members, topics and initialized partitions, and the target assignment, which is made
//! once for each.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use millrace_model::TopicId;

use super::{
    Names, ShareGroup,
    assignor::{Spec, SpecMember, assign},
};
use crate::{
    messages::TopicPartitions,
    records::{SharePart, ShareValue},
    topics::hash_of,
};

/// What distinct subscriptions name.
type Resolved = Vec<(Names, BTreeSet<TopicId>)>;

impl ShareGroup {
    /// Counts a change of the group: a new target assignment is due.
    pub(super) fn count_epoch(&mut self) {
        self.epoch = self.epoch.saturating_add(1);
        self.metadata_hash = self.hash_topics();
        let value = ShareValue::Group {
            epoch: self.epoch,
            metadata_hash: self.metadata_hash,
        };
        self.stored.push(SharePart::Group, Some(value));
    }

    /// Counts a change of the topics that the members subscribe to, if there is one, and forgets the states of topics that are gone.
    pub(super) fn look_at_topics(&mut self) {
        let revision = self.topics.revision();
        if self.seen_topics == Some(revision) {
            return;
        }
        self.seen_topics = Some(revision);
        self.forget_gone_topics();
        if self.hash_topics() != self.metadata_hash {
            tracing::debug!(group = self.id, "topics changed");
            self.count_epoch();
        }
    }

    fn hash_topics(&self) -> i64 {
        hash_of(&*self.topics, &self.names())
    }

    /// The names that the members subscribe to.
    pub(super) fn names(&self) -> BTreeSet<&String> {
        let mut seen: BTreeSet<*const BTreeSet<String>> = BTreeSet::new();
        let members = self.members.values();
        let distinct = members.filter(|member| seen.insert(Arc::as_ptr(&member.names)));
        distinct.flat_map(|member| &*member.names).collect()
    }

    /// Makes the target assignment where one is due.
    pub(super) fn update_target(&mut self) {
        if self.assignment_epoch >= self.epoch {
            return;
        }
        let targets = self.assign();
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for (id, target) in ids.into_iter().zip(targets) {
            let known = self.members.get_mut(&id);
            if let Some(member) = known.filter(|member| member.target != target) {
                member.target.clone_from(&target);
                let value = ShareValue::TargetMember(target);
                self.stored.push(SharePart::TargetMember(id), Some(value));
            }
        }
        self.assignment_epoch = self.epoch;
        let value = ShareValue::Target { epoch: self.epoch };
        self.stored.push(SharePart::Target, Some(value));
    }

    fn assign(&self) -> Vec<TopicPartitions> {
        let mut resolved = Resolved::new();
        let mut counts = BTreeMap::new();
        for member in self.members.values() {
            if of(&resolved, &member.names).is_some() {
                continue;
            }
            let found = member
                .names
                .iter()
                .filter_map(|name| self.topics.find(name));
            let found: BTreeMap<TopicId, u32> = found.collect();
            resolved.push((Arc::clone(&member.names), found.keys().copied().collect()));
            counts.extend(found);
        }
        let nothing = BTreeSet::new();
        let members = self.members.values().map(|member| SpecMember {
            topics: of(&resolved, &member.names).unwrap_or(&nothing),
            current: &member.target,
        });
        let members = members.collect();
        let initialized = &self.states.initialized;
        let partitions = counts.into_iter().filter_map(|(topic, count)| {
            let (_, numbers) = initialized.get(&topic)?;
            let numbers: BTreeSet<u32> = numbers.range(..count).copied().collect();
            (!numbers.is_empty()).then_some((topic, numbers))
        });
        let partitions = partitions.collect();
        assign(&Spec {
            members,
            partitions,
        })
    }
}

fn of<'a>(resolved: &'a Resolved, names: &Names) -> Option<&'a BTreeSet<TopicId>> {
    let known = resolved.iter().find(|(known, _)| Arc::ptr_eq(known, names));
    known.map(|(_, topics)| topics)
}
