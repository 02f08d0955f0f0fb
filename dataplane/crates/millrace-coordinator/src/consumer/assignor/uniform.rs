//! The `uniform` assignor: balanced first, and of all balanced assignments one that moves little.
//!
//! Members with the same subscription have a quota each. With different subscriptions, each partition
//! goes to the subscriber that has the least, and then topics are levelled one by one until no move
//! helps.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use millrace_model::TopicId;

use super::{Spec, SpecMember};
use crate::messages::TopicPartitions;

/// How often all topics are levelled. Subscriptions that still are not balanced then stay as they are.
const ROUNDS_MAX: usize = 16;

pub(super) fn assign(spec: &Spec<'_>) -> Vec<TopicPartitions> {
    let mut filling = Filling::new(spec);
    if spec.members.is_empty() {
        return filling.assigned;
    }
    if spec.is_homogeneous() {
        filling.by_quota();
    } else {
        filling.by_load();
    }
    filling.assigned
}

struct Filling<'a> {
    spec: &'a Spec<'a>,
    assigned: Vec<TopicPartitions>,
    /// How many partitions each member has.
    loads: Vec<usize>,
    /// Which partitions are assigned, by topic.
    taken: BTreeMap<TopicId, Vec<bool>>,
}

impl<'a> Filling<'a> {
    fn new(spec: &'a Spec<'a>) -> Self {
        let taken = |(&topic, &count): (&TopicId, &u32)| (topic, vec![false; count as usize]);
        Self {
            spec,
            assigned: vec![TopicPartitions::new(); spec.members.len()],
            loads: vec![0; spec.members.len()],
            taken: spec.topics.iter().map(taken).collect(),
        }
    }

    /// Lets a member keep what it has of the topics that it subscribes to, `max` at most.
    fn keep(&mut self, member: usize, max: usize) {
        let spec = self.spec;
        let SpecMember {
            topics, current, ..
        } = &spec.members[member];
        for (topic, partitions) in *current {
            let Some(taken) = self.taken.get_mut(topic).filter(|_| topics.contains(topic)) else {
                continue;
            };
            for &partition in partitions {
                let free = taken.get_mut(partition as usize).filter(|taken| !**taken);
                if let Some(taken) = free
                    && self.loads[member] < max
                {
                    *taken = true;
                    self.loads[member] += 1;
                    self.assigned[member]
                        .entry(*topic)
                        .or_default()
                        .insert(partition);
                }
            }
        }
    }

    fn give(&mut self, member: usize, topic: TopicId, partition: u32) {
        self.loads[member] += 1;
        let topics = &mut self.assigned[member];
        topics.entry(topic).or_default().insert(partition);
    }

    /// The partitions of a topic that nobody has.
    fn free(&self, topic: TopicId) -> Vec<u32> {
        let taken = self.taken.get(&topic).into_iter().flatten();
        let numbered = (0_u32..).zip(taken);
        numbered
            .filter(|(_, taken)| !**taken)
            .map(|(p, _)| p)
            .collect()
    }

    fn by_quota(&mut self) {
        let members = self.spec.members.len();
        let subscribed = self.spec.members[0].topics;
        let counts = subscribed
            .iter()
            .map(|&topic| self.spec.partitions_of(topic) as usize);
        let total: usize = counts.sum();
        let (quota, mut extra) = (total / members, total % members);
        for member in 0..members {
            self.keep(member, quota + usize::from(extra > 0));
            extra -= usize::from(self.loads[member] > quota);
        }
        // Round-robin, so that a topic is spread over the members.
        let short = (0..members).filter(|&member| self.loads[member] < quota);
        let mut short: VecDeque<usize> = short.collect();
        // Those that get one more than the quota, once all have reached it.
        let mut last: VecDeque<usize> = (0..members)
            .filter(|&member| self.loads[member] <= quota)
            .collect();
        for &topic in subscribed {
            for partition in self.free(topic) {
                if let Some(member) = short.pop_front() {
                    self.give(member, topic, partition);
                    if self.loads[member] < quota {
                        short.push_back(member);
                    }
                } else if let Some(member) = last.pop_front() {
                    self.give(member, topic, partition);
                }
            }
        }
    }

    fn by_load(&mut self) {
        for member in 0..self.spec.members.len() {
            self.keep(member, usize::MAX);
        }
        let mut subscribers: BTreeMap<TopicId, Vec<usize>> = BTreeMap::new();
        for (number, member) in self.spec.members.iter().enumerate() {
            for &topic in member.topics {
                subscribers.entry(topic).or_default().push(number);
            }
        }
        // Those with the fewest subscribers leave the least choice.
        let mut topics: Vec<(TopicId, Vec<usize>)> = subscribers.into_iter().collect();
        topics.sort_by_key(|(topic, members)| (members.len(), *topic));
        for (topic, members) in &topics {
            let mut by_load: BTreeSet<(usize, usize)> =
                members.iter().map(|&m| (self.loads[m], m)).collect();
            for partition in self.free(*topic) {
                let Some((_, member)) = by_load.pop_first() else {
                    break;
                };
                self.give(member, *topic, partition);
                by_load.insert((self.loads[member], member));
            }
        }
        for _ in 0..ROUNDS_MAX {
            let moves = topics
                .iter()
                .map(|(topic, members)| self.level(*topic, members));
            if moves.sum::<usize>() == 0 {
                return;
            }
        }
    }

    /// Moves partitions of a topic from the subscribers that have the most to those that have the
    /// least. Returns how many it moved.
    fn level(&mut self, topic: TopicId, members: &[usize]) -> usize {
        let mut by_load: BTreeSet<(usize, usize)> =
            members.iter().map(|&m| (self.loads[m], m)).collect();
        let has_some = |member: &&usize| self.assigned[**member].contains_key(&topic);
        let owners = members.iter().filter(has_some);
        let mut owners: BTreeSet<(usize, usize)> = owners.map(|&m| (self.loads[m], m)).collect();
        let mut moves = 0;
        while let (Some(&(low, to)), Some(&(high, from))) = (by_load.first(), owners.last()) {
            if high <= low + 1 {
                break;
            }
            let Some(partition) = self.take_one(from, topic) else {
                break;
            };
            self.give(to, topic, partition);
            for (member, before) in [(from, high), (to, low)] {
                by_load.remove(&(before, member));
                owners.remove(&(before, member));
                by_load.insert((self.loads[member], member));
                if self.assigned[member].contains_key(&topic) {
                    owners.insert((self.loads[member], member));
                }
            }
            moves += 1;
        }
        moves
    }

    fn take_one(&mut self, member: usize, topic: TopicId) -> Option<u32> {
        let partitions = self.assigned[member].get_mut(&topic)?;
        let partition = partitions.pop_last()?;
        if partitions.is_empty() {
            self.assigned[member].remove(&topic);
        }
        self.loads[member] -= 1;
        Some(partition)
    }
}
