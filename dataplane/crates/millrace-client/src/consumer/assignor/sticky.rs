//! The sticky assignor: even, with few changes (KIP-54, KIP-341, KIP-429).
//!
//! Where all members read the same topics, the result is that of Java's assignor, partition for
//! partition. Where they do not, it has the same properties: no partition of a topic that somebody
//! reads is left out, members keep what they have unless another who could read it has at least two
//! less.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::{Assignment, Member, empty};
use crate::topic_partition::TopicPartition;

pub(super) fn assign(partitions: &BTreeMap<Arc<str>, i32>, members: &[Member]) -> Assignment {
    let owned = valid_ownership(partitions, members);
    let all: Vec<_> = partitions
        .iter()
        .flat_map(|(topic, count)| {
            (0..*count).map(|index| TopicPartition::of(Arc::clone(topic), index))
        })
        .collect();
    let topics = |member: &Member| -> BTreeSet<Arc<str>> {
        let known = |topic: &&Arc<str>| partitions.contains_key(*topic);
        member.topics.iter().filter(known).cloned().collect()
    };
    let mut subscriptions = members.iter().map(topics);
    let first = subscriptions.next().unwrap_or_default();
    if subscriptions.all(|other| other == first) {
        let read = |name: &TopicPartition| first.contains(&name.topic);
        let all = all.into_iter().filter(read).collect();
        Equal::new(members, owned).assign(all)
    } else {
        general(&all, members, owned)
    }
}

type Owned = BTreeMap<String, Vec<TopicPartition>>;

/// What members may keep: claims of an older generation do not count, and a partition that two
/// claim in the same one belongs to neither.
fn valid_ownership(partitions: &BTreeMap<Arc<str>, i32>, members: &[Member]) -> Owned {
    let newest = members.iter().filter_map(|member| member.generation).max();
    let mut owned = Owned::new();
    let mut claims: HashMap<&TopicPartition, usize> = HashMap::new();
    for member in members {
        let is_current =
            member.generation == newest || member.generation.is_none() && newest.is_none();
        let valid = |name: &&TopicPartition| {
            let exists = partitions
                .get(&name.topic)
                .is_some_and(|count| (0..*count).contains(&name.partition));
            is_current && exists && member.topics.contains(&name.topic)
        };
        let names: Vec<_> = member.owned.iter().filter(valid).collect();
        for name in &names {
            *claims.entry(name).or_default() += 1;
        }
        let names = names.into_iter().cloned().collect();
        owned.insert(member.id.clone(), names);
    }
    for names in owned.values_mut() {
        names.retain(|name| claims.get(name) == Some(&1));
    }
    owned
}

/// All members read the same topics.
struct Equal {
    assignment: Assignment,
    owned: Owned,
    /// Members with less than the smallest share.
    under: Vec<String>,
    /// Members with exactly the smallest share, while some may get one more.
    exact: VecDeque<String>,
    /// How many members have one more.
    over: usize,
}

impl Equal {
    fn new(members: &[Member], owned: Owned) -> Self {
        Self {
            assignment: empty(members),
            owned,
            under: Vec::new(),
            exact: VecDeque::new(),
            over: 0,
        }
    }

    fn assign(mut self, all: Vec<TopicPartition>) -> Assignment {
        let members = self.owned.len().max(1);
        let (least, most) = (all.len() / members, all.len().div_ceil(members));
        let over_max = all.len() % members;
        let kept = self.keep(least, most, over_max);
        self.under.sort_unstable();
        self.exact.make_contiguous().sort_unstable();
        let mut turn = 0;
        for name in all.into_iter().filter(|name| !kept.contains(name)) {
            let is_under = !self.under.is_empty();
            let member = if is_under {
                turn %= self.under.len();
                self.under[turn].clone()
            } else {
                let Some(member) = self.exact.pop_front() else {
                    debug_assert!(false, "the shares add up to all partitions");
                    break;
                };
                member
            };
            let count = self.give(&member, name);
            if is_under && count == least {
                self.under.remove(turn);
                self.exact.push_back(member);
            } else if is_under {
                turn += 1;
            }
            if count == most && most > least {
                self.over += 1;
                if self.over == over_max {
                    self.exact.clear();
                }
            }
        }
        self.assignment
    }

    /// Members keep what they have, up to their share.
    fn keep(&mut self, least: usize, most: usize, over_max: usize) -> HashSet<TopicPartition> {
        let mut kept = HashSet::new();
        for (member, owned) in std::mem::take(&mut self.owned) {
            let count = if owned.len() < least {
                self.under.push(member.clone());
                owned.len()
            } else if owned.len() >= most && self.over < over_max {
                self.over += 1;
                if self.over == over_max {
                    self.exact.clear();
                }
                most
            } else {
                if self.over < over_max {
                    self.exact.push_back(member.clone());
                }
                least
            };
            for name in owned.into_iter().take(count) {
                kept.insert(name.clone());
                self.give(&member, name);
            }
        }
        kept
    }

    fn give(&mut self, member: &str, name: TopicPartition) -> usize {
        let assigned = self.assignment.entry(member.to_owned()).or_default();
        assigned.push(name);
        assigned.len()
    }
}

/// Members read different topics.
fn general(all: &[TopicPartition], members: &[Member], owned: Owned) -> Assignment {
    let mut assignment = empty(members);
    let mut owner_of: HashMap<TopicPartition, String> = HashMap::new();
    for (member, names) in owned {
        for name in &names {
            owner_of.insert(name.clone(), member.clone());
        }
        assignment.insert(member, names);
    }
    // The hardest to place first: those that the fewest can read.
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_by_key(|name| (readers(members, name).count(), *name));
    for name in &sorted {
        if owner_of.contains_key(*name) {
            continue;
        }
        let least = readers(members, name).min_by_key(|id| (assignment[*id].len(), (*id).clone()));
        if let Some(member) = least.cloned() {
            assignment
                .entry(member.clone())
                .or_default()
                .push((*name).clone());
            owner_of.insert((*name).clone(), member);
        }
    }
    // Each move makes the difference of two members smaller, so this ends.
    loop {
        let mut moved = false;
        for name in &sorted {
            let Some(from) = owner_of.get(*name).cloned() else {
                continue;
            };
            let least =
                readers(members, name).min_by_key(|id| (assignment[*id].len(), (*id).clone()));
            let Some(to) = least.cloned() else {
                continue;
            };
            if assignment[&from].len() > assignment[&to].len() + 1 {
                assignment
                    .entry(from)
                    .or_default()
                    .retain(|one| one != *name);
                assignment
                    .entry(to.clone())
                    .or_default()
                    .push((*name).clone());
                owner_of.insert((*name).clone(), to);
                moved = true;
            }
        }
        if !moved {
            return assignment;
        }
    }
}

/// The ids of the members that read a partition's topic.
fn readers<'a>(
    members: &'a [Member],
    name: &'a TopicPartition,
) -> impl Iterator<Item = &'a String> + Clone {
    let reads = move |member: &&Member| member.topics.contains(&name.topic);
    members.iter().filter(reads).map(|member| &member.id)
}
