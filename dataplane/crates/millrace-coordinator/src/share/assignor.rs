//! The `simple` assignor of share groups: partitions are shared evenly among the members, and members keep what they have where
//! that is even.
//!
//! Where all members subscribe to the same topics, every partition has the same number of members, and the members' numbers of
//! partitions differ by one at most. Where they do not, every partition goes to the member with the fewest partitions of those that
//! subscribe to its topic, and who would have nothing shares the partition that has the fewest members.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use millrace_model::TopicId;

use crate::messages::TopicPartitions;

/// A partition.
type Partition = (TopicId, u32);

/// What is to be assigned, and to whom.
pub(super) struct Spec<'a> {
    /// The members, by id.
    pub(super) members: Vec<SpecMember<'a>>,
    /// The partitions that may be assigned.
    pub(super) partitions: TopicPartitions,
}

/// A member.
pub(super) struct SpecMember<'a> {
    /// The topics that it subscribes to.
    pub(super) topics: &'a BTreeSet<TopicId>,
    /// What it was to have so far.
    pub(super) current: &'a TopicPartitions,
}

impl SpecMember<'_> {
    fn had(&self) -> impl Iterator<Item = Partition> + '_ {
        flat(self.current)
    }
}

fn flat(partitions: &TopicPartitions) -> impl Iterator<Item = Partition> + '_ {
    let all = partitions.iter();
    all.flat_map(|(topic, numbers)| numbers.iter().map(|number| (*topic, *number)))
}

/// What each member is to have, in their order.
pub(super) fn assign(spec: &Spec<'_>) -> Vec<TopicPartitions> {
    let Some(first) = spec.members.first() else {
        return Vec::new();
    };
    let is_same = |member: &SpecMember<'_>| member.topics == first.topics;
    match spec.members.iter().all(is_same) {
        true => {
            let wanted = |(topic, _): &Partition| first.topics.contains(topic);
            let partitions: Vec<_> = flat(&spec.partitions).filter(wanted).collect();
            assign_same(spec, &partitions)
        }
        false => assign_different(spec),
    }
}

/// All members subscribe to all of these partitions.
fn assign_same(spec: &Spec<'_>, partitions: &[Partition]) -> Vec<TopicPartitions> {
    let members = spec.members.len();
    if partitions.is_empty() {
        return vec![TopicPartitions::new(); members];
    }
    let sharing = members.div_ceil(partitions.len());
    let total = sharing * partitions.len();
    let quotas = quotas(spec, total);
    let mut even = Even::new(partitions, quotas, sharing);
    even.keep(spec);
    match even.fill() {
        true => even.assigned,
        false => dealt(partitions, members, total),
    }
}

/// How many partitions each member is to have: as many as the others, or one more, which those have that had the most.
fn quotas(spec: &Spec<'_>, total: usize) -> Vec<usize> {
    let members = spec.members.len();
    let mut quotas = vec![total / members; members];
    let mut order: Vec<usize> = (0..members).collect();
    order.sort_by_key(|&index| Reverse(spec.members.get(index).map(|member| member.had().count())));
    for index in order.into_iter().take(total % members) {
        if let Some(quota) = quotas.get_mut(index) {
            *quota += 1;
        }
    }
    quotas
}

/// Gives each member the partitions that come next, from the first again behind the last: even, but nobody keeps what it had.
fn dealt(partitions: &[Partition], members: usize, total: usize) -> Vec<TopicPartitions> {
    let mut next = partitions.iter().cycle();
    let count = |index| total / members + usize::from(index < total % members);
    let deal = |index| {
        let mut assigned = TopicPartitions::new();
        for (topic, number) in next.by_ref().take(count(index)) {
            assigned.entry(*topic).or_default().insert(*number);
        }
        assigned
    };
    (0..members).map(deal).collect()
}

/// An even assignment that is being made: each partition to the same number of members.
struct Even<'a> {
    partitions: &'a [Partition],
    sharing: usize,
    /// How many partitions each member may yet have.
    left: Vec<usize>,
    assigned: Vec<TopicPartitions>,
    /// The members of each partition.
    members: HashMap<Partition, BTreeSet<usize>>,
}

impl<'a> Even<'a> {
    fn new(partitions: &'a [Partition], quotas: Vec<usize>, sharing: usize) -> Self {
        let nobody = |partition: &Partition| (*partition, BTreeSet::new());
        Self {
            partitions,
            sharing,
            assigned: vec![TopicPartitions::new(); quotas.len()],
            left: quotas,
            members: partitions.iter().map(nobody).collect(),
        }
    }

    /// Lets members keep what they had as far as it is even.
    fn keep(&mut self, spec: &Spec<'_>) {
        for (index, member) in spec.members.iter().enumerate() {
            for partition in member.had() {
                let has_room = self
                    .members
                    .get(&partition)
                    .is_some_and(|members| members.len() < self.sharing);
                if has_room && self.left.get(index).is_some_and(|&left| left > 0) {
                    self.give(partition, index);
                }
            }
        }
    }

    fn give(&mut self, partition: Partition, index: usize) {
        let (topic, number) = partition;
        self.members.entry(partition).or_default().insert(index);
        if let Some(left) = self.left.get_mut(index) {
            *left -= 1;
        }
        if let Some(assigned) = self.assigned.get_mut(index) {
            assigned.entry(topic).or_default().insert(number);
        }
    }

    /// Gives each partition the members that it lacks, those first who may have the most. False where what was kept
    /// stands in the way.
    fn fill(&mut self) -> bool {
        let left = self.left.iter().enumerate();
        let mut free: BTreeSet<(Reverse<usize>, usize)> = left
            .filter(|(_, left)| **left > 0)
            .map(|(index, left)| (Reverse(*left), index))
            .collect();
        for partition in self.partitions {
            let has = self.members.get(partition).cloned().unwrap_or_default();
            let lacks = self.sharing.saturating_sub(has.len());
            let others = free.iter().filter(|(_, index)| !has.contains(index));
            let chosen: Vec<_> = others.take(lacks).copied().collect();
            if chosen.len() < lacks {
                return false;
            }
            for (Reverse(left), index) in chosen {
                self.give(*partition, index);
                free.remove(&(Reverse(left), index));
                if left > 1 {
                    free.insert((Reverse(left - 1), index));
                }
            }
        }
        free.is_empty()
    }
}

/// The members do not all subscribe to the same.
fn assign_different(spec: &Spec<'_>) -> Vec<TopicPartitions> {
    let mut had: HashMap<Partition, Vec<usize>> = HashMap::new();
    let mut subscribers: BTreeMap<TopicId, Vec<usize>> = BTreeMap::new();
    for (index, member) in spec.members.iter().enumerate() {
        for partition in member.had() {
            had.entry(partition).or_default().push(index);
        }
        for topic in member.topics {
            subscribers.entry(*topic).or_default().push(index);
        }
    }
    let mut loads = Loads::new(spec.members.len());
    // Where few may have a topic, it comes first; others can go elsewhere.
    let mut topics: Vec<_> = spec.partitions.iter().collect();
    topics.sort_by_key(|(topic, _)| subscribers.get(topic).map_or(0, Vec::len));
    for (topic, numbers) in topics {
        let of_topic = subscribers.get(topic).map_or(&[][..], Vec::as_slice);
        loads.spread(*topic, numbers, of_topic, &had);
    }
    for (index, member) in spec.members.iter().enumerate() {
        loads.share(index, member, &spec.partitions);
    }
    loads.assigned
}

/// An assignment that is being made, by load.
struct Loads {
    counts: Vec<usize>,
    assigned: Vec<TopicPartitions>,
    /// How many members each partition has.
    sharing: HashMap<Partition, usize>,
}

impl Loads {
    fn new(members: usize) -> Self {
        Self {
            counts: vec![0; members],
            assigned: vec![TopicPartitions::new(); members],
            sharing: HashMap::new(),
        }
    }

    fn count(&self, index: usize) -> usize {
        self.counts.get(index).copied().unwrap_or_default()
    }

    fn give(&mut self, partition: Partition, index: usize) {
        let (topic, number) = partition;
        if let Some(count) = self.counts.get_mut(index) {
            *count += 1;
        }
        if let Some(assigned) = self.assigned.get_mut(index) {
            assigned.entry(topic).or_default().insert(number);
        }
        *self.sharing.entry(partition).or_default() += 1;
    }

    /// Gives the partitions of a topic to those who have the least, and among them to who had it.
    fn spread(
        &mut self,
        topic: TopicId,
        numbers: &BTreeSet<u32>,
        subscribers: &[usize],
        had: &HashMap<Partition, Vec<usize>>,
    ) {
        let by_load = subscribers.iter().map(|&index| (self.count(index), index));
        let mut by_load: BTreeSet<(usize, usize)> = by_load.collect();
        for number in numbers {
            let partition = (topic, *number);
            let Some(&(least, first)) = by_load.first() else {
                return;
            };
            let holders = had.get(&partition).into_iter().flatten();
            let mut holders = holders.filter(|&&index| by_load.contains(&(least, index)));
            let index = holders.next().copied().unwrap_or(first);
            by_load.remove(&(least, index));
            by_load.insert((least + 1, index));
            self.give(partition, index);
        }
    }

    /// Lets a member without partitions share one: the one that has the fewest members, and that it had where there are several.
    fn share(&mut self, index: usize, member: &SpecMember<'_>, partitions: &TopicPartitions) {
        if self.count(index) > 0 {
            return;
        }
        let had: BTreeSet<Partition> = member.had().collect();
        let wanted = flat(partitions).filter(|(topic, _)| member.topics.contains(topic));
        let fewest = wanted.min_by_key(|partition| {
            let sharing = self.sharing.get(partition).copied().unwrap_or_default();
            (sharing, !had.contains(partition))
        });
        if let Some(partition) = fewest {
            self.give(partition, index);
        }
    }
}
