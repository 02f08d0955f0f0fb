//! Server-side assignors (KIP-848): they decide which member of a consumer group is to have which
//! partition. Pure, and the same result for the same input.

mod range;
mod uniform;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use millrace_model::TopicId;

use crate::messages::TopicPartitions;

/// What an assignor is told.
#[derive(Debug)]
pub(crate) struct Spec<'a> {
    /// The members, by id.
    pub(crate) members: Vec<SpecMember<'a>>,
    /// The topics that any member subscribes to, and how many partitions each has.
    pub(crate) topics: BTreeMap<TopicId, u32>,
}

/// What an assignor is told of a member.
#[derive(Debug)]
pub(crate) struct SpecMember<'a> {
    pub(crate) id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    /// Those of [`Spec::topics`] that it subscribes to.
    pub(crate) topics: &'a BTreeSet<TopicId>,
    /// What it was to have so far.
    pub(crate) current: &'a TopicPartitions,
}

impl Spec<'_> {
    /// Whether all members subscribe to the same topics.
    fn is_homogeneous(&self) -> bool {
        let mut topics = self.members.iter().map(|member| member.topics);
        let Some(first) = topics.next() else {
            return true;
        };
        topics.all(|other| std::ptr::eq(first, other) || first == other)
    }

    fn partitions_of(&self, topic: TopicId) -> u32 {
        self.topics.get(&topic).copied().unwrap_or(0)
    }
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Assignor {
    /// Every member gets the same number of partitions, give or take one, and keeps what it has.
    Uniform,
    /// Every member gets a range of each topic, so that topics with the same number of partitions and
    /// the same subscribers are co-partitioned.
    Range,
}

impl Assignor {
    /// The assignor with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Uniform, Self::Range]
            .into_iter()
            .find(|assignor| assignor.name() == name)
    }

    /// The name that clients know it by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// What each member is to have, in the order of the members.
    pub(crate) fn assign(self, spec: &Spec<'_>) -> Vec<TopicPartitions> {
        match self {
            Self::Uniform => uniform::assign(spec),
            Self::Range => range::assign(spec),
        }
    }
}
