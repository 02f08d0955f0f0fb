//! Evens out what brokers have to do where they lead equally many partitions, and some of these are busier than others. A busy
//! partition moves to the broker that has the least to do, mostly in exchange for one that is idle, so that the numbers of
//! partitions stay even.

use std::{collections::BTreeMap, time::Duration};

use millrace_meta::{Broker, BrokerLoad, Leader, Move};
use millrace_model::{NodeId, TopicPartition};

/// So much less than the busiest broker the idlest one may have to do, per cent.
const DIFFERENCE_PERCENT: u64 = 25;

/// Where they differ by less, nothing moves: bytes per second.
const DIFFERENCE_MIN: u64 = 4 << 20;

/// Partitions that are moved for their load at once. Each may need another one to move the other way.
const BUSY_MAX: usize = 5;

/// A partition that was moved for its load, or for another's, stays where it is for so long.
const STAYS: Duration = Duration::from_secs(600);

/// Plans moves, and remembers them.
#[derive(Debug, Default)]
pub(super) struct ByLoad {
    /// When partitions were moved. As many as are moved within [`STAYS`].
    moved: BTreeMap<TopicPartition, Duration>,
}

/// A broker as it would be after the moves so far.
#[derive(Debug)]
struct Node<'a> {
    load: u64,
    leads: usize,
    /// Partitions that may move, with what each costs.
    free: Vec<(u64, &'a TopicPartition)>,
}

/// A partition that moves, and the one that comes back for it: positions in what their brokers may give away.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    busy: usize,
    idle: Option<usize>,
    /// What the busier broker has less to do.
    relief: u64,
}

impl ByLoad {
    /// Moves that even the loads out; none where not every broker has told its own. Says why.
    pub(super) fn plan(
        &mut self,
        now: Duration,
        leaders: &[(TopicPartition, Leader)],
        brokers: &[Broker],
        loads: &BTreeMap<NodeId, BrokerLoad>,
    ) -> Vec<Move> {
        self.moved.retain(|_, at| now.saturating_sub(*at) < STAYS);
        let Some(mut nodes) = self.nodes(leaders, brokers, loads) else {
            return Vec::new();
        };
        let mut moves = Vec::new();
        for _ in 0..BUSY_MAX {
            let Some(exchanged) = exchange(&mut nodes) else {
                break;
            };
            moves.extend(exchanged);
        }
        for planned in &moves {
            self.moved.insert(planned.partition.clone(), now);
        }
        moves
    }

    /// The brokers that may lead, and what they may give away; `None` where the load of one is not known.
    fn nodes<'a>(
        &self,
        leaders: &'a [(TopicPartition, Leader)],
        brokers: &[Broker],
        loads: &BTreeMap<NodeId, BrokerLoad>,
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
        let of_partitions: BTreeMap<(NodeId, &TopicPartition), u64> = loads
            .iter()
            .flat_map(|(&node, load)| {
                let partitions = load.partitions.iter();
                partitions.map(move |one| ((node, &one.partition), one.load))
            })
            .collect();
        for (partition, leader) in leaders {
            let Some(id) = leader.node else { continue };
            let Some(node) = nodes.get_mut(&id) else {
                continue;
            };
            node.leads += 1;
            if leader.preferred != Some(id) && !self.moved.contains_key(partition) {
                let load = of_partitions.get(&(id, partition)).copied().unwrap_or(0);
                node.free.push((load, partition));
            }
        }
        Some(nodes)
    }
}

/// Moves the partition that evens the busiest and the idlest broker out best, where they differ by enough.
fn exchange(nodes: &mut BTreeMap<NodeId, Node<'_>>) -> Option<Vec<Move>> {
    let (&from, most) = nodes.iter().max_by_key(|(_, node)| node.load)?;
    let (&to, least) = nodes.iter().min_by_key(|(_, node)| node.load)?;
    let difference = most.load - least.load;
    if difference < (most.load / 100 * DIFFERENCE_PERCENT).max(DIFFERENCE_MIN) {
        return None;
    }
    let found = best(most, least, difference)?;
    tracing::info!(
        %from,
        load = most.load,
        %to,
        least = least.load,
        relief = found.relief,
        "balancing: a busy partition moves to the broker that has the least to do (bytes per second)"
    );
    let giving = nodes.get_mut(&from)?;
    let (_, busy) = giving.free.swap_remove(found.busy);
    giving.load -= found.relief;
    giving.leads -= usize::from(found.idle.is_none());
    let taking = nodes.get_mut(&to)?;
    let idle = found.idle.map(|idle| taking.free.swap_remove(idle).1);
    taking.load += found.relief;
    taking.leads += usize::from(idle.is_none());
    let busy = Move {
        partition: busy.clone(),
        to,
    };
    let idle = idle.map(|partition| Move {
        partition: partition.clone(),
        to: from,
    });
    Some([busy].into_iter().chain(idle).collect())
}

/// The partition whose move comes closest to half of the difference.
fn best(most: &Node<'_>, least: &Node<'_>, difference: u64) -> Option<Exchange> {
    let idlest = (0..least.free.len()).min_by_key(|&at| least.free.get(at).map(|(load, _)| *load));
    let idle_load = idlest
        .and_then(|at| least.free.get(at))
        .map(|(load, _)| *load);
    // A broker that leads more may give one away without getting one back.
    let (idle, returned) = match most.leads > least.leads {
        true => (None, 0),
        false => (Some(idlest?), idle_load?),
    };
    let of = |(busy, (load, _)): (usize, &(u64, &TopicPartition))| {
        let relief = load
            .checked_sub(returned)
            .filter(|&relief| relief > 0 && relief < difference)?;
        Some(Exchange { busy, idle, relief })
    };
    most.free
        .iter()
        .enumerate()
        .filter_map(of)
        .min_by_key(|exchange| (difference / 2).abs_diff(exchange.relief))
}

#[cfg(test)]
mod tests {
    use millrace_meta::{BrokerState, Joining, PartitionLoad};
    use millrace_model::{NodeEpoch, TopicName};
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

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

        fn plan(&self, by_load: &mut ByLoad, now: u64) -> Vec<Move> {
            let now = Duration::from_secs(now);
            by_load.plan(now, &self.leaders, &self.brokers, &self.reports())
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
        let moves = by_load.plan(Duration::ZERO, &world.leaders, &world.brokers, &reports);
        assert_eq!(moves, []);
        for (_, leader) in &mut world.leaders {
            leader.preferred = leader.node;
        }
        assert_eq!(world.plan(&mut by_load, 0), []);
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
