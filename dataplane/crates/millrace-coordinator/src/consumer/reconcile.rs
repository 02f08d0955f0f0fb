//! Brings one member from what it has to what it is to have (KIP-848).
//!
//! A member first gives up what it must not keep; it stays at its epoch until it says that it has.
//! Then it moves to the epoch of the target assignment and gets what is free. What other members
//! have not given up yet follows as soon as it is free.
//!
//! ```text
//! Stable ──newer target──▶ UnrevokedPartitions ──gave up──▶ UnreleasedPartitions ──all free──▶ Stable
//! ```

use std::collections::BTreeSet;

use millrace_model::TopicId;

use crate::{
    GroupError,
    messages::TopicPartitions,
    records::{MemberState, StoredCurrent},
};

/// What a member is to have, and what it says that it has.
pub(crate) struct Towards<'a> {
    pub(crate) epoch: i32,
    pub(crate) target: &'a TopicPartitions,
    /// None where the member did not say: nothing changed since it last did.
    pub(crate) owned: Option<&'a TopicPartitions>,
}

impl Towards<'_> {
    fn owns_any_of(&self, revoked: &TopicPartitions) -> bool {
        let Some(owned) = self.owned else {
            return true;
        };
        let both = |(topic, partitions)| {
            let revoked: Option<&BTreeSet<u32>> = revoked.get(topic);
            revoked.is_some_and(|revoked| !revoked.is_disjoint(partitions))
        };
        owned.iter().any(both)
    }
}

/// What the member has next. `is_free` tells whether no other member has a partition.
///
/// # Errors
/// The state was written by a newer broker, and the member still has partitions: it has to start again.
pub(crate) fn reconcile(
    current: &StoredCurrent,
    towards: &Towards<'_>,
    is_free: impl Fn(TopicId, u32) -> bool,
) -> Result<StoredCurrent, GroupError> {
    match current.state {
        MemberState::Stable if current.epoch == towards.epoch => Ok(current.clone()),
        MemberState::UnrevokedPartitions if towards.owns_any_of(&current.revoking) => {
            Ok(current.clone())
        }
        MemberState::Stable
        | MemberState::UnrevokedPartitions
        | MemberState::UnreleasedPartitions => Ok(next(current, towards, is_free)),
        MemberState::Unknown if towards.owned.is_some_and(TopicPartitions::is_empty) => {
            Ok(next(current, towards, is_free))
        }
        MemberState::Unknown => Err(GroupError::FencedMemberEpoch),
    }
}

fn next(
    current: &StoredCurrent,
    towards: &Towards<'_>,
    is_free: impl Fn(TopicId, u32) -> bool,
) -> StoredCurrent {
    let mut assigned = intersection(&current.assigned, towards.target);
    let revoking = difference(&current.assigned, &assigned);
    if !revoking.is_empty() && towards.owns_any_of(&revoking) {
        return StoredCurrent {
            epoch: current.epoch,
            previous_epoch: current.epoch,
            state: MemberState::UnrevokedPartitions,
            assigned,
            revoking,
        };
    }
    let mut state = MemberState::Stable;
    for (topic, partitions) in difference(towards.target, &assigned) {
        for partition in partitions {
            // What the member itself has just given up is free.
            let own = current.revoking.get(&topic);
            let own = own.is_some_and(|own| own.contains(&partition));
            if own || is_free(topic, partition) {
                assigned.entry(topic).or_default().insert(partition);
            } else {
                state = MemberState::UnreleasedPartitions;
            }
        }
    }
    StoredCurrent {
        epoch: towards.epoch,
        previous_epoch: current.epoch,
        state,
        assigned,
        revoking: TopicPartitions::new(),
    }
}

/// Whether every partition of `part` is in `whole`.
pub(crate) fn is_subset(part: &TopicPartitions, whole: &TopicPartitions) -> bool {
    let inside = |(topic, partitions): (&TopicId, &BTreeSet<u32>)| {
        partitions.is_empty()
            || whole
                .get(topic)
                .is_some_and(|whole| partitions.is_subset(whole))
    };
    part.iter().all(inside)
}

fn intersection(a: &TopicPartitions, b: &TopicPartitions) -> TopicPartitions {
    let both = |(topic, partitions): (&TopicId, &BTreeSet<u32>)| {
        let others = b.get(topic)?;
        Some((*topic, partitions & others)).filter(|(_, both)| !both.is_empty())
    };
    a.iter().filter_map(both).collect()
}

fn difference(a: &TopicPartitions, b: &TopicPartitions) -> TopicPartitions {
    let left = |(topic, partitions): (&TopicId, &BTreeSet<u32>)| {
        let left = b
            .get(topic)
            .map_or_else(|| partitions.clone(), |b| partitions - b);
        Some((*topic, left)).filter(|(_, left)| !left.is_empty())
    };
    a.iter().filter_map(left).collect()
}
