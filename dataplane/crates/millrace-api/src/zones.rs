//! Clients that state their zone (`client.rack`) and brokers that know theirs (`broker.rack`): who reads where (KIP-392).
//!
//! What is in objects, any broker can read. So a leader sends a consumer that is far behind to a broker in the consumer's own
//! zone. That one serves what is committed and sends the consumer back for the rest. Both answer without an error and without
//! records, and name the other in `preferred_read_replica`: clients go there from the position that they have. The errors that
//! Kafka's followers answer with make some clients reset their offsets, stop, or stay.

mod redirects;

use millrace_meta::Broker;
use millrace_model::TopicId;
use millrace_wire::messages::BrokerId;

pub(crate) use self::redirects::Redirects;
use crate::{context::Context, members::broker_id};

/// How far a consumer must be behind what is committed, in bytes of batches, before its leader sends it away: some of its
/// fetches. Less would not be worth the way there and back.
pub(crate) const BEHIND_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// Who serves a consumer of another zone: `replica.selector.class`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReplicaSelector {
    /// Kafka's `LeaderSelector`: always the leader.
    Leader,
    /// Consumers that are far behind are sent to their zone. Metadata names leaders only, so newer Java clients do not go.
    #[default]
    Zone,
    /// Kafka's `RackAwareReplicaSelector`: the same, and consumers and producers are told of a replica in each zone.
    ListedZone,
}

/// Which way records go to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zone {
    Same,
    Other,
    /// The client or the broker does not say where it is.
    Unknown,
}

impl Zone {
    pub(crate) fn of(client: Option<&str>, broker: Option<&str>) -> Self {
        match (client, broker) {
            (Some(client), Some(broker)) if client == broker => Self::Same,
            (Some(_), Some(_)) => Self::Other,
            _ => Self::Unknown,
        }
    }

    /// The label of its metric.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

impl Context {
    /// The broker of a zone that serves what is committed of a partition: the same one as long as the zone has the same brokers.
    pub(crate) fn reader_in(&self, rack: &str, partition: (TopicId, i32)) -> Option<BrokerId> {
        let members = self.config.members.as_ref()?;
        let brokers = members.borrow();
        pick(in_rack(&brokers, rack), partition)
    }

    /// Those brokers of all zones but the leader's.
    pub(crate) fn readers(&self, partition: (TopicId, i32), leader: BrokerId) -> Vec<BrokerId> {
        let Some(members) = &self.config.members else {
            return Vec::new();
        };
        let brokers = members.borrow();
        let rack_of = |broker: &Broker| broker.joined.rack.clone();
        let of_leader = |broker: &&Broker| broker_id(broker.joined.node) == leader;
        let Some(own) = brokers.iter().find(of_leader).and_then(rack_of) else {
            return Vec::new();
        };
        let able = brokers.iter().filter(|broker| broker.may_lead());
        let mut racks: Vec<String> = able.filter_map(rack_of).collect();
        racks.retain(|rack| *rack != own);
        racks.sort_unstable();
        racks.dedup();
        let readers = racks.iter().map(|rack| in_rack(&brokers, rack));
        readers.filter_map(|of| pick(of, partition)).collect()
    }
}

/// The brokers of a zone that are there to stay, in the order of their ids.
fn in_rack(brokers: &[Broker], rack: &str) -> Vec<BrokerId> {
    let there = brokers.iter().filter(|broker| broker.may_lead());
    let there = there.filter(|broker| broker.joined.rack.as_deref() == Some(rack));
    let mut there: Vec<_> = there.map(|broker| broker_id(broker.joined.node)).collect();
    there.sort_unstable_by_key(|id| id.0);
    there
}

/// Partitions of a topic go round the brokers, and topics begin at different ones.
fn pick(brokers: Vec<BrokerId>, (topic, index): (TopicId, i32)) -> Option<BrokerId> {
    let index = u128::from(index.unsigned_abs());
    let place = topic.0.as_u128().wrapping_add(index) % (brokers.len() as u128).max(1);
    brokers.get(usize::try_from(place).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use millrace_meta::{BrokerState, Joining};
    use millrace_model::{NodeEpoch, NodeId};

    use super::*;

    const TOPIC: TopicId = TopicId(uuid::Uuid::from_u128(12));

    fn broker(node: u32, rack: &str) -> Broker {
        Broker {
            joined: Joining {
                node: NodeId(node),
                endpoints: Vec::new(),
                rack: Some(rack.to_owned()),
                version: String::new(),
                log: String::new(),
                log_id: 0,
            },
            epoch: NodeEpoch(1),
            state: BrokerState::Active,
            is_draining: false,
        }
    }

    #[test]
    fn partitions_are_spread_over_the_brokers_of_a_zone() {
        let mut brokers = vec![
            broker(4, "b"),
            broker(2, "b"),
            broker(1, "a"),
            broker(3, "b"),
        ];
        let picks = |brokers: &[Broker]| -> Vec<i32> {
            let of = |index| pick(in_rack(brokers, "b"), (TOPIC, index)).map(|id| id.0);
            (0..6).filter_map(of).collect()
        };
        assert_eq!(picks(&brokers), [2, 3, 4, 2, 3, 4]);
        brokers[1].is_draining = true;
        brokers[3].is_draining = true;
        assert_eq!(picks(&brokers), [4; 6]);
        assert_eq!(pick(in_rack(&brokers, "c"), (TOPIC, 0)), None);
    }

    #[test]
    fn a_zone_is_known_where_both_say_theirs() {
        assert_eq!(Zone::of(Some("a"), Some("a")), Zone::Same);
        assert_eq!(Zone::of(Some("a"), Some("b")), Zone::Other);
        assert_eq!(Zone::of(Some("a"), None), Zone::Unknown);
        assert_eq!(Zone::of(None, Some("a")), Zone::Unknown);
    }
}
