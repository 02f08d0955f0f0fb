//! Evens out what brokers have to do where they lead equally many partitions, and some of these are busier than others. A busy
//! partition moves to a broker that has less to do, mostly in exchange for one that is idle, so that the numbers of partitions
//! stay even.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use millrace_meta::{Broker, BrokerLoad, Leader, Move};
use millrace_model::{NodeId, TopicPartition};

/// The least difference between two brokers that is evened out, in per cent of the busier one's load.
const DIFFERENCE_PERCENT: u64 = 25;

/// The same in bytes per second.
const DIFFERENCE_MIN: u64 = 4 << 20;

/// Exchanges that are planned at once.
const EXCHANGES_MAX: usize = 5;

/// A partition that was moved for its load, or for another's, is not moved for that again within this time.
const MOVE_COOLDOWN: Duration = Duration::from_secs(600);

/// Plans moves, and remembers those that were made.
#[derive(Debug, Default)]
pub(super) struct ByLoad {
    /// When partitions last moved, or the set of brokers last changed.
    disturbed: Option<Duration>,
    /// When partitions were moved: as many as are moved within [`MOVE_COOLDOWN`].
    moved: BTreeMap<TopicPartition, Duration>,
}

/// A broker as it would be after the exchanges so far.
#[derive(Debug)]
struct Node<'a> {
    load: u64,
    leads: usize,
    /// Partitions that may move, with what each costs.
    free: Vec<(u64, &'a TopicPartition)>,
}

/// A busy partition moves from one broker to another, and mostly an idle one comes back for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exchange {
    from: NodeId,
    to: NodeId,
    busy: TopicPartition,
    idle: Option<TopicPartition>,
    /// What the brokers have to do before it, and what moves: bytes per second.
    loads: (u64, u64),
    relief: u64,
}

impl Exchange {
    pub(super) fn moves(&self) -> impl Iterator<Item = Move> {
        let to = |partition: &TopicPartition, to| Move {
            partition: partition.clone(),
            to,
        };
        let idle = self.idle.iter().map(move |idle| to(idle, self.from));
        std::iter::once(to(&self.busy, self.to)).chain(idle)
    }
}

impl ByLoad {
    /// Exchanges that even the loads out; none where not every broker has reported its own, or within `settling` of a change: the
    /// reports do not show yet what it has changed.
    pub(super) fn plan(
        &self,
        (now, settling): (Duration, Duration),
        leaders: &[(TopicPartition, Leader)],
        brokers: &[Broker],
        loads: &BTreeMap<NodeId, BrokerLoad>,
    ) -> Vec<Exchange> {
        if self
            .disturbed
            .is_some_and(|last| now.saturating_sub(last) < settling)
        {
            return Vec::new();
        }
        let Some(mut nodes) = self.nodes(now, leaders, (brokers, loads)) else {
            return Vec::new();
        };
        let exchanges = std::iter::from_fn(|| exchange(&mut nodes));
        exchanges.take(EXCHANGES_MAX).collect()
    }

    /// Partitions have moved, or the set of brokers has changed.
    pub(super) fn disturbed(&mut self, now: Duration) {
        self.disturbed = Some(now);
    }

    /// The moves of these are planned: says why, and remembers them.
    pub(super) fn planned(&mut self, exchanges: &[Exchange], now: Duration) {
        self.moved
            .retain(|_, at| now.saturating_sub(*at) < MOVE_COOLDOWN);
        for exchange in exchanges {
            let Exchange {
                from,
                to,
                busy,
                idle,
                loads,
                relief,
            } = exchange;
            tracing::info!(
                %from, load = loads.0, %to, less = loads.1, partition = %busy, relief,
                back = idle.as_ref().map(tracing::field::display),
                "balancing: a busy partition moves to a broker that has less to do (bytes per second)"
            );
            for planned in exchange.moves() {
                self.moved.insert(planned.partition, now);
                self.disturbed(now);
            }
        }
    }

    /// The brokers that may lead, and what they may give away; `None` where the load of one is not known.
    fn nodes<'a>(
        &self,
        now: Duration,
        leaders: &'a [(TopicPartition, Leader)],
        (brokers, loads): (&[Broker], &BTreeMap<NodeId, BrokerLoad>),
    ) -> Option<BTreeMap<NodeId, Node<'a>>> {
        let able = brokers.iter().filter(|broker| broker.may_lead());
        let mut nodes: BTreeMap<NodeId, Node<'a>> = able
            .map(|broker| {
                let load = loads.get(&broker.joined.node)?.total;
                let node = Node {
                    load,
                    leads: 0,
                    free: Vec::new(),
                };
                Some((broker.joined.node, node))
            })
            .collect::<Option<_>>()?;
        for (_, leader) in leaders {
            if let Some(node) = leader.node.and_then(|id| nodes.get_mut(&id)) {
                node.leads += 1;
            }
        }
        let of_named: BTreeMap<(NodeId, &TopicPartition), u64> = loads
            .iter()
            .flat_map(|(&node, load)| {
                let partitions = load.partitions.iter();
                partitions.map(move |one| ((node, &one.partition), one.load))
            })
            .collect();
        let of_others: BTreeMap<NodeId, u64> = nodes
            .iter()
            .map(|(&id, node)| {
                (
                    id,
                    loads
                        .get(&id)
                        .map_or(0, |load| unnamed_partition_load(load, node.leads)),
                )
            })
            .collect();
        for (partition, leader) in leaders {
            let Some(id) = leader.node else { continue };
            let Some(node) = nodes.get_mut(&id) else {
                continue;
            };
            if leader.preferred != Some(id)
                && leader.moving_to.is_none()
                && !self.moved_recently(partition, now)
            {
                let named = of_named.get(&(id, partition)).copied();
                let load = named.or_else(|| of_others.get(&id).copied());
                node.free.push((load.unwrap_or(0), partition));
            }
        }
        Some(nodes)
    }

    fn moved_recently(&self, partition: &TopicPartition, now: Duration) -> bool {
        let moved = self.moved.get(partition);
        moved.is_some_and(|&at| now.saturating_sub(at) < MOVE_COOLDOWN)
    }
}

/// What each partition costs that the report does not name: all of them share the rest.
fn unnamed_partition_load(load: &BrokerLoad, leads: usize) -> u64 {
    let named: u64 = load.partitions.iter().map(|one| one.load).sum();
    let others = leads.saturating_sub(load.partitions.len()).max(1) as u64;
    load.total.saturating_sub(named) / others
}

/// Exchanges partitions of two brokers that differ by enough: of those between which something can be exchanged, the two that
/// differ most.
fn exchange(nodes: &mut BTreeMap<NodeId, Node<'_>>) -> Option<Exchange> {
    let mut pairs = Vec::new();
    for (&from, busier) in nodes.iter() {
        for (&to, other) in nodes.iter() {
            let difference = busier.load.saturating_sub(other.load);
            if difference >= (busier.load / 100 * DIFFERENCE_PERCENT).max(DIFFERENCE_MIN) {
                pairs.push((difference, from, to));
            }
        }
    }
    pairs.sort_by_key(|&(difference, ..)| Reverse(difference));
    let found = pairs.into_iter().find_map(|(difference, from, to)| {
        let found = best(nodes.get(&from)?, nodes.get(&to)?, difference)?;
        Some((from, to, found))
    });
    let (from, to, (busy, idle, relief)) = found?;
    let giving = nodes.get_mut(&from)?;
    let (_, busy) = giving.free.swap_remove(busy);
    let before = giving.load;
    giving.load -= relief;
    giving.leads -= usize::from(idle.is_none());
    let taking = nodes.get_mut(&to)?;
    let idle = idle.map(|idle| taking.free.swap_remove(idle).1.clone());
    let loads = (before, taking.load);
    taking.load += relief;
    taking.leads += usize::from(idle.is_none());
    let busy = busy.clone();
    Some(Exchange {
        from,
        to,
        busy,
        idle,
        loads,
        relief,
    })
}

/// The partition whose move comes closest to half of the difference, the one that comes back for it, and what the busier broker
/// has less to do then; partitions by their places in what their brokers may give away.
fn best(
    busier: &Node<'_>,
    other: &Node<'_>,
    difference: u64,
) -> Option<(usize, Option<usize>, u64)> {
    // A broker that leads more may give one away without getting one back.
    let (idle, returned) = match busier.leads > other.leads {
        true => (None, 0),
        false => {
            let free = other.free.iter().enumerate();
            let (idle, (load, _)) = free.min_by_key(|(_, (load, _))| *load)?;
            (Some(idle), *load)
        }
    };
    let relief_of = |(busy, (load, _)): (usize, &(u64, &TopicPartition))| {
        let relief = load.checked_sub(returned)?;
        (relief > 0 && relief < difference).then_some((busy, idle, relief))
    };
    busier
        .free
        .iter()
        .enumerate()
        .filter_map(relief_of)
        .min_by_key(|(.., relief)| (difference / 2).abs_diff(*relief))
}

#[cfg(test)]
mod tests {
    use millrace_meta::{BrokerState, Joining, PartitionLoad};
    use millrace_model::{NodeEpoch, TopicName};
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;
    const SETTLING: Duration = Duration::from_secs(30);

    fn broker(node: u32) -> Broker {
        Broker {
            joined: Joining {
                node: NodeId(node),
                endpoints: Vec::new(),
                rack: None,
                version: String::new(),
                log: String::new(),
                log_id: 0,
            },
            epoch: NodeEpoch(1),
            state: BrokerState::Active,
            is_draining: false,
        }
    }

    /// Brokers, and their partitions with what each costs.
    struct World {
        brokers: Vec<Broker>,
        leaders: Vec<(TopicPartition, Leader)>,
        loads: Vec<u64>,
    }

    impl World {
        fn new(nodes: u32, placed: &[(u32, u64)]) -> Self {
            let topic = TopicName::new("t").expect("legal");
            let led = |(partition, &(node, _)): (u32, &(u32, u64))| {
                let topic = topic.clone();
                let leader = Leader {
                    node: Some(NodeId(node)),
                    epoch: 0,
                    moving_to: None,
                    preferred: None,
                };
                (TopicPartition { topic, partition }, leader)
            };
            Self {
                brokers: (1..=nodes).map(broker).collect(),
                leaders: (0..).zip(placed).map(led).collect(),
                loads: placed.iter().map(|&(_, load)| load).collect(),
            }
        }

        fn reports(&self) -> BTreeMap<NodeId, BrokerLoad> {
            let report = |broker: &Broker| {
                let node = broker.joined.node;
                let led = self.leaders.iter().zip(&self.loads);
                let led = led.filter(|((_, leader), _)| leader.node == Some(node));
                let partitions = led.map(|((partition, _), &load)| PartitionLoad {
                    partition: partition.clone(),
                    load,
                });
                let partitions: Vec<_> = partitions.collect();
                let total = partitions.iter().map(|one| one.load).sum();
                (node, BrokerLoad { total, partitions })
            };
            self.brokers.iter().map(report).collect()
        }

        /// Plans, as if it was done.
        fn plan(&self, by_load: &mut ByLoad, now: u64) -> Vec<Move> {
            let now = Duration::from_secs(now);
            let exchanges = by_load.plan(
                (now, SETTLING),
                &self.leaders,
                &self.brokers,
                &self.reports(),
            );
            by_load.planned(&exchanges, now);
            exchanges.iter().flat_map(Exchange::moves).collect()
        }

        fn apply(&mut self, moves: &[Move]) {
            for planned in moves {
                let mut leaders = self.leaders.iter_mut();
                let moved = leaders.find(|(id, _)| *id == planned.partition);
                moved.expect("it exists").1.node = Some(planned.to);
            }
        }

        fn most(&self) -> u64 {
            let reports = self.reports();
            reports.values().map(|load| load.total).max().unwrap_or(0)
        }

        fn counts(&self) -> Vec<usize> {
            let of = |broker: &Broker| {
                let node = Some(broker.joined.node);
                let led = self
                    .leaders
                    .iter()
                    .filter(|(_, leader)| leader.node == node);
                led.count()
            };
            self.brokers.iter().map(of).collect()
        }
    }

    #[test]
    fn a_busy_partition_is_exchanged_for_an_idle_one() {
        let placed = [
            (1, 20 * MIB),
            (1, 20 * MIB),
            (1, 0),
            (2, 0),
            (2, 0),
            (2, MIB),
        ];
        let mut world = World::new(2, &placed);
        let mut by_load = ByLoad::default();
        let moves = world.plan(&mut by_load, 0);
        assert_eq!(moves.len(), 2, "{moves:?}");
        world.apply(&moves);
        assert_eq!(world.counts(), [3, 3]);
        assert_eq!(world.most(), 21 * MIB);
        assert_eq!(world.plan(&mut by_load, 1), [], "it is as even as it gets");
    }

    #[test]
    fn one_partition_that_is_too_busy_for_any_broker_stays() {
        let world = World::new(2, &[(1, 100 * MIB), (2, MIB)]);
        assert_eq!(world.plan(&mut ByLoad::default(), 0), []);
    }

    #[test]
    fn nothing_moves_for_little_or_while_a_load_is_unknown_or_from_its_preferred_leader() {
        let world = World::new(2, &[(1, MIB), (1, MIB), (2, 0), (2, 0)]);
        assert_eq!(world.plan(&mut ByLoad::default(), 0), []);
        let mut world = World::new(2, &[(1, 20 * MIB), (1, 20 * MIB), (2, 0), (2, 0)]);
        let mut reports = world.reports();
        reports.remove(&NodeId(2));
        let mut by_load = ByLoad::default();
        let times = (Duration::ZERO, SETTLING);
        let exchanges = by_load.plan(times, &world.leaders, &world.brokers, &reports);
        assert_eq!(exchanges, []);
        for (_, leader) in &mut world.leaders {
            leader.preferred = leader.node;
        }
        assert_eq!(world.plan(&mut by_load, 0), []);
    }

    #[test]
    fn two_brokers_are_evened_out_where_the_busiest_cannot_be_helped() {
        let mut placed = vec![(1, 100 * MIB)];
        placed.extend((0..10).map(|_| (2, 6 * MIB)));
        placed.extend((0..10).map(|_| (3, 0)));
        let mut world = World::new(3, &placed);
        let moves = world.plan(&mut ByLoad::default(), 0);
        world.apply(&moves);
        assert_eq!(world.reports()[&NodeId(3)].total, 30 * MIB, "{moves:?}");
        assert_eq!(world.counts(), [1, 10, 10]);
    }

    #[test]
    fn partitions_that_a_report_does_not_name_share_the_rest() {
        let world = World::new(1, &[(1, 9), (1, 4), (1, 2)]);
        let mut load = world.reports()[&NodeId(1)].clone();
        assert_eq!(unnamed_partition_load(&load, 3), 0);
        load.partitions.truncate(1);
        assert_eq!(unnamed_partition_load(&load, 3), 3);
    }

    #[test]
    fn reports_that_do_not_show_the_last_moves_move_nothing() {
        let placed = [
            (1, 20 * MIB),
            (1, 20 * MIB),
            (1, 20 * MIB),
            (2, 0),
            (2, 0),
            (2, 0),
        ];
        let world = World::new(2, &placed);
        let mut by_load = ByLoad::default();
        assert_ne!(world.plan(&mut by_load, 0), []);
        assert_eq!(world.plan(&mut by_load, 29), []);
        assert_ne!(world.plan(&mut by_load, 30), []);
    }

    #[test]
    fn what_was_moved_stays_for_a_while() {
        let placed = [(1, 20 * MIB), (1, 20 * MIB), (2, 0), (2, 0)];
        let mut world = World::new(2, &placed);
        let mut by_load = ByLoad::default();
        let moves = world.plan(&mut by_load, 0);
        world.apply(&moves);
        // Now what was moved is busy, and what stayed is not.
        for (load, (_, leader)) in world.loads.iter_mut().zip(&world.leaders) {
            *load = if leader.node == Some(NodeId(2)) {
                20 * MIB
            } else {
                0
            };
        }
        let soon = world.plan(&mut by_load, 60);
        let stays = |planned: &Move| {
            !moves
                .iter()
                .any(|moved| moved.partition == planned.partition)
        };
        assert!(soon.iter().all(stays), "{soon:?}");
    }

    proptest! {
        #[test]
        fn the_busiest_gets_less_to_do_each_time_until_it_comes_to_rest(
            nodes in 2_u32..6,
            placed in prop::collection::vec((0_u32..6, 0_u64..60), 0..80),
        ) {
            let placed: Vec<_> = placed
                .into_iter()
                .map(|(node, load)| (1 + node % nodes, load * MIB))
                .collect();
            let mut world = World::new(nodes, &placed);
            let mut by_load = ByLoad::default();
            for round in 0..200 {
                let (before, counts) = (world.most(), world.counts());
                // Long after the last moves.
                let moves = world.plan(&mut by_load, round * 1_000);
                if moves.is_empty() {
                    return Ok(());
                }
                world.apply(&moves);
                prop_assert!(world.most() <= before);
                let spread = |counts: &[usize]| {
                    counts.iter().max().zip(counts.iter().min()).map(|(most, fewest)| most - fewest)
                };
                prop_assert!(spread(&world.counts()) <= spread(&counts));
            }
            prop_assert!(false, "it does not come to rest");
        }
    }
}
