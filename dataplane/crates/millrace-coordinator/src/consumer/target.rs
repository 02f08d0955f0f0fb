//! The group epoch, which counts the changes of members and topics, and the target assignment, which
//! is made once for each.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use millrace_model::TopicId;

use super::{
    Assignor, ConsumerGroup, ConsumerPart, ConsumerValue, Member,
    assignor::{Spec, SpecMember},
    member::Subscription,
};
use crate::{messages::TopicPartitions, topics::hash_of};

/// What distinct subscriptions name.
type Resolved = HashMap<Arc<Subscription>, BTreeSet<TopicId>>;

impl ConsumerGroup {
    /// The same subscription, shared with another member that has it.
    pub(super) fn shared(&self, subscription: &Arc<Subscription>) -> Arc<Subscription> {
        // Members of a group mostly subscribe to the same; looking at the first ones finds it.
        const LOOKS_MAX: usize = 16;
        let mut others = self.members.values().map(|member| &member.subscription);
        let same = others
            .by_ref()
            .take(LOOKS_MAX)
            .find(|other| *other == subscription);
        Arc::clone(same.unwrap_or(subscription))
    }

    /// Counts a change of the group: a new target assignment is due.
    pub(super) fn count_epoch(&mut self) {
        self.epoch = self.epoch.saturating_add(1);
        self.metadata_hash = self.hash_topics();
        self.seen_topics = Some(self.topics.revision());
        self.store_epoch();
    }

    pub(super) fn store_epoch(&mut self) {
        let value = ConsumerValue::Group {
            epoch: self.epoch,
            metadata_hash: self.metadata_hash,
        };
        self.stored.push(ConsumerPart::Group, Some(value));
    }

    /// Counts a change of the topics that the members subscribe to, if there is one.
    pub(super) fn look_at_topics(&mut self) {
        let revision = self.topics.revision();
        if self.seen_topics == Some(revision) {
            return;
        }
        self.seen_topics = Some(revision);
        if self.hash_topics() != self.metadata_hash {
            tracing::debug!(group = self.id, "topics changed");
            self.count_epoch();
        }
    }

    /// The subscriptions of all members, each once.
    fn subscriptions(&self) -> BTreeSet<&Arc<Subscription>> {
        let mut seen: BTreeSet<*const Subscription> = BTreeSet::new();
        let subscriptions = self.members.values().map(|member| &member.subscription);
        let distinct = subscriptions.filter(|of| seen.insert(Arc::as_ptr(of)));
        distinct.collect()
    }

    /// The names that a subscription means now.
    fn names_of<'a>(&'a self, of: &'a Subscription) -> impl Iterator<Item = &'a String> {
        let pattern = of
            .pattern
            .iter()
            .flat_map(|text| self.patterns.topics(text));
        of.names.iter().chain(pattern)
    }

    /// A number that is another one whenever a topic that the members subscribe to is created, deleted
    /// or gets partitions; 0 without such topics.
    pub(super) fn hash_topics(&self) -> i64 {
        let subscriptions = self.subscriptions();
        let names = subscriptions.into_iter().flat_map(|of| self.names_of(of));
        hash_of(&*self.topics, &names.collect())
    }

    /// The assignor that most members vote for; the broker's first where nobody votes.
    pub(super) fn assignor(&self) -> Assignor {
        let offered = &self.config.consumer.assignors;
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        let names = self
            .members
            .values()
            .filter_map(|member| member.assignor.as_deref());
        for vote in names.filter_map(Assignor::named) {
            *votes.entry(vote).or_default() += 1;
        }
        let elected = { votes.into_iter() }
            .filter(|(assignor, _)| offered.contains(assignor))
            .max_by_key(|(_, count)| *count);
        let first = offered.first().copied().unwrap_or(Assignor::Uniform);
        elected.map_or(first, |(assignor, _)| assignor)
    }

    /// Makes the target assignment where one is due.
    pub(super) fn update_target(&mut self) {
        if self.assignment_epoch >= self.epoch {
            return;
        }
        let mut counts = BTreeMap::new();
        let mut resolved = Resolved::new();
        for of in self.subscriptions() {
            let mut topics = BTreeSet::new();
            for (id, partitions) in self.names_of(of).filter_map(|name| self.topics.find(name)) {
                counts.insert(id, partitions);
                topics.insert(id);
            }
            resolved.insert(Arc::clone(of), topics);
        }
        let targets = self.assign(counts, &resolved);
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for (id, target) in ids.into_iter().zip(targets) {
            let known = self.members.get_mut(&id);
            if let Some(member) = known.filter(|member| member.target != target) {
                member.target.clone_from(&target);
                let value = ConsumerValue::TargetMember(target);
                self.stored
                    .push(ConsumerPart::TargetMember(id), Some(value));
            }
        }
        self.assignment_epoch = self.epoch;
        let value = ConsumerValue::Target { epoch: self.epoch };
        self.stored.push(ConsumerPart::Target, Some(value));
    }

    fn assign(&self, topics: BTreeMap<TopicId, u32>, resolved: &Resolved) -> Vec<TopicPartitions> {
        let nothing = BTreeSet::new();
        // Members that share a subscription are not looked up by what it holds.
        let by_address: HashMap<*const Subscription, &BTreeSet<TopicId>> = resolved
            .iter()
            .map(|(of, topics)| (Arc::as_ptr(of), topics))
            .collect();
        let of = |member: &Member| {
            let known = by_address.get(&Arc::as_ptr(&member.subscription)).copied();
            known.or_else(|| resolved.get(&member.subscription))
        };
        let members = self.members.iter().map(|(id, member)| SpecMember {
            id,
            instance_id: member.instance_id.as_deref(),
            topics: of(member).unwrap_or(&nothing),
            current: &member.target,
        });
        let members = members.collect();
        self.assignor().assign(&Spec { members, topics })
    }
}
