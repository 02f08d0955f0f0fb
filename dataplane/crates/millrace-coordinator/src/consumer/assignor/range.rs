//! The `range` assignor.

use std::collections::BTreeMap;

use millrace_model::TopicId;

use super::{Spec, SpecMember};
use crate::messages::TopicPartitions;

pub(super) fn assign(spec: &Spec<'_>) -> Vec<TopicPartitions> {
    let mut order: Vec<usize> = (0..spec.members.len()).collect();
    // Static members come first and in the order of their names, so that a restart moves nothing.
    order.sort_by_key(|&member| {
        let SpecMember {
            id, instance_id, ..
        } = spec.members[member];
        (instance_id.is_none(), instance_id, id)
    });
    let mut subscribers: BTreeMap<TopicId, Vec<usize>> = BTreeMap::new();
    for &member in &order {
        for &topic in spec.members[member].topics {
            subscribers.entry(topic).or_default().push(member);
        }
    }
    let mut assigned = vec![TopicPartitions::new(); spec.members.len()];
    for (topic, members) in subscribers {
        let count = spec.partitions_of(topic);
        let of = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let (quota, mut extra) = (count / of, count % of);
        let mut start = 0;
        for member in members {
            let end = start + quota + u32::from(extra > 0);
            extra = extra.saturating_sub(1);
            if start < end {
                assigned[member].insert(topic, (start..end).collect());
            }
            start = end;
        }
    }
    assigned
}
