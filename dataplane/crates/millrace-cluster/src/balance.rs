//! Evens out how many partitions each broker leads: after a failover, a restart or a scale-out some lead many and others
//! none. Partitions that have a preferred leader go back to it first, and stay there. One broker does it for all, the
//! active one with the lowest node id.
//!
//! - this file: preferred leaders, and the numbers of partitions
//! - `by_load`: what brokers have to do for them, where the numbers are even

mod by_load;

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    time::Duration,
};

use millrace_meta::{Broker, BrokerState, Leader, Move, Preferred};
use millrace_model::{NodeEpoch, NodeId, TopicName, TopicPartition};
use millrace_time::SharedClock;

use self::by_load::{ByLoad, Exchange};
use crate::{cluster::View, load};

/// Moves that are planned at once. The next ones are planned when these are done.
const MOVES_MAX: usize = 50;

/// If no planned move has ended for this long, balancing stops waiting: a damaged log can block a move for ever.
const MOVES_WAIT: Duration = Duration::from_secs(120);

/// The most that one broker leads more than another. Evening out less would move partitions for nothing.
const DIFFERENCE_MAX: usize = 1;

/// A load that was reported longer ago, in intervals, is not known.
const REPORT_AGE: u32 = 3;
/// After this many intervals, the averages of the loads reflect a change.
const SETTLING: u32 = 8;

/// Balances for ever.
pub(super) async fn run(view: View, interval: Duration, clock: SharedClock) -> Infallible {
    if interval.is_zero() {
        return std::future::pending().await;
    }
    let (mut settled, mut by_load) = (BTreeSet::new(), ByLoad::default());
    let mut pending = Pending::default();
    loop {
        tokio::time::sleep(interval).await;
        let brokers = view.brokers.borrow().clone();
        // A broker that has just joined may be gone again soon.
        let before = std::mem::replace(&mut settled, members(&brokers));
        if settled != before || !is_quiet(&brokers) {
            by_load.disturbed(clock.now());
            continue;
        }
        if !plans(&view, &brokers) {
            continue;
        }
        let leaders = view.logs.leaders();
        if pending.may_end(&leaders, clock.now()) {
            by_load.disturbed(clock.now());
            continue;
        }
        let store = &view.membership.store;
        let mut moves = to_preferred(&leaders, &brokers);
        if moves.is_empty() {
            moves = even_out(&leaders, &brokers);
        }
        let mut exchanges = Vec::new();
        if moves.is_empty() {
            let reported = load::interval(interval);
            let loads = store.loads(reported * REPORT_AGE).await.unwrap_or_default();
            let times = (clock.now(), reported * SETTLING);
            exchanges = by_load.plan(times, &leaders, &brokers, &loads);
            moves = exchanges.iter().flat_map(Exchange::moves).collect();
        } else {
            log_moves(&moves, &leaders);
            by_load.disturbed(clock.now());
        }
        if moves.is_empty() {
            continue;
        }
        match store.plan_moves(&moves, Preferred::Keep).await {
            Ok(()) => by_load.planned(&exchanges, clock.now()),
            Err(error) => tracing::warn!(%error, "partitions cannot be balanced; trying again"),
        }
    }
}

/// Planned moves that have not ended.
#[derive(Debug, Default)]
struct Pending {
    moves: BTreeSet<TopicPartition>,
    since: Duration,
}

impl Pending {
    /// Whether there are moves that may still end. Balancing waits for them, unless none has ended for [`MOVES_WAIT`].
    fn may_end(&mut self, leaders: &[(TopicPartition, Leader)], now: Duration) -> bool {
        let moving = leaders
            .iter()
            .filter(|(_, leader)| leader.moving_to.is_some());
        let moving: BTreeSet<_> = moving.map(|(partition, _)| partition.clone()).collect();
        if moving != self.moves {
            (self.moves, self.since) = (moving, now);
        }
        !self.moves.is_empty() && now.saturating_sub(self.since) < MOVES_WAIT
    }
}

/// Who may lead, each with its start.
fn members(brokers: &[Broker]) -> BTreeSet<(NodeId, NodeEpoch)> {
    let able = brokers.iter().filter(|broker| broker.may_lead());
    able.map(|broker| (broker.joined.node, broker.epoch))
        .collect()
}

/// Whether no log waits to be taken over, and nobody is about to stop.
fn is_quiet(brokers: &[Broker]) -> bool {
    let is_busy = |broker: &Broker| {
        matches!(broker.state, BrokerState::Fenced { .. })
            || broker.state == BrokerState::Active && broker.is_draining
    };
    !brokers.iter().any(is_busy)
}

/// Whether this broker plans for all.
fn plans(view: &View, brokers: &[Broker]) -> bool {
    let able = brokers.iter().filter(|broker| broker.may_lead());
    able.map(|broker| broker.joined.node).min() == Some(view.membership.node)
}

fn log_moves(moves: &[Move], leaders: &[(TopicPartition, Leader)]) {
    let mut of: BTreeMap<NodeId, usize> = BTreeMap::new();
    for node in leaders.iter().filter_map(|(_, leader)| leader.node) {
        *of.entry(node).or_default() += 1;
    }
    let leads = |node: NodeId| of.get(&node).copied().unwrap_or(0);
    let mut to: BTreeMap<NodeId, usize> = BTreeMap::new();
    for planned in moves {
        *to.entry(planned.to).or_default() += 1;
    }
    for (node, partitions) in to {
        tracing::info!(
            %node,
            partitions,
            leads = leads(node),
            most = of.values().copied().max().unwrap_or(0),
            "balancing: partitions move to their preferred leader, or to a broker that leads fewer than others"
        );
    }
}

/// Moves of partitions that another broker than their preferred leader leads, where that one may lead.
fn to_preferred(leaders: &[(TopicPartition, Leader)], brokers: &[Broker]) -> Vec<Move> {
    let able: BTreeSet<NodeId> = brokers
        .iter()
        .filter(|broker| broker.may_lead())
        .map(|broker| broker.joined.node)
        .collect();
    let away = leaders.iter().filter_map(|(partition, leader)| {
        let to = leader.preferred.filter(|to| able.contains(to))?;
        let partition = partition.clone();
        let is_away = leader.node != Some(to) && leader.moving_to.is_none();
        is_away.then_some(Move { partition, to })
    });
    away.take(MOVES_MAX).collect()
}

/// What one broker leads.
#[derive(Debug, Default)]
struct Led<'a> {
    /// What may move, by topic.
    free: BTreeMap<&'a TopicName, Vec<&'a TopicPartition>>,
    /// How many have it as their preferred leader, or are on their way already.
    kept: usize,
}

/// Moves from the broker that leads the most to the one that leads the fewest, between equals to the zone that leads the
/// fewest, until they differ by no more than [`DIFFERENCE_MAX`]. Of a topic that both lead equally, nothing moves before topics that they do not.
fn even_out(leaders: &[(TopicPartition, Leader)], brokers: &[Broker]) -> Vec<Move> {
    let able = brokers.iter().filter(|broker| broker.may_lead());
    let zones: BTreeMap<NodeId, Option<&str>> = able
        .map(|broker| (broker.joined.node, broker.joined.rack.as_deref()))
        .collect();
    let mut led: BTreeMap<NodeId, Led<'_>> =
        zones.keys().map(|&node| (node, Led::default())).collect();
    for (partition, leader) in leaders {
        let Some(of) = leader.node.and_then(|node| led.get_mut(&node)) else {
            continue;
        };
        match leader.preferred == leader.node || leader.moving_to.is_some() {
            true => of.kept += 1,
            false => of.free.entry(&partition.topic).or_default().push(partition),
        }
    }
    let mut moves = Vec::new();
    while moves.len() < MOVES_MAX {
        let Some((partition, to)) = next(&mut led, &zones) else {
            break;
        };
        moves.push(Move { partition, to });
    }
    moves
}

fn count(led: &Led<'_>) -> usize {
    led.kept + led.free.values().map(Vec::len).sum::<usize>()
}

/// The next partition to move, which is moved in `led`.
fn next(
    led: &mut BTreeMap<NodeId, Led<'_>>,
    zones: &BTreeMap<NodeId, Option<&str>>,
) -> Option<(TopicPartition, NodeId)> {
    let counts: BTreeMap<NodeId, usize> =
        led.iter().map(|(&node, led)| (node, count(led))).collect();
    let of_zone = |node: NodeId| -> usize {
        let same = |other: &NodeId| zones.get(other) == zones.get(&node);
        counts
            .iter()
            .filter(|(other, _)| same(other))
            .map(|(_, count)| count)
            .sum()
    };
    // What has its preferred leader stays there.
    let has_free = |node: &NodeId| {
        led.get(node)
            .is_some_and(|led| led.free.values().any(|free| !free.is_empty()))
    };
    let (&from, &most) = counts
        .iter()
        .filter(|(node, _)| has_free(node))
        .max_by_key(|&(&node, &count)| (count, of_zone(node), node))?;
    let (&to, &fewest) = counts
        .iter()
        .min_by_key(|&(&node, &count)| (count, of_zone(node), node))?;
    if most - fewest <= DIFFERENCE_MAX {
        return None;
    }
    let here = |led: Option<&Led<'_>>, topic: &TopicName| {
        led.and_then(|led| led.free.get(topic)).map_or(0, Vec::len)
    };
    let target = led.get(&to);
    let topic = led
        .get(&from)?
        .free
        .iter()
        .filter(|(_, partitions)| !partitions.is_empty())
        .max_by_key(|(topic, partitions)| partitions.len().saturating_sub(here(target, topic)))
        .map(|(&topic, _)| topic)?;
    let partition = led.get_mut(&from)?.free.get_mut(topic)?.pop()?;
    let target = led.get_mut(&to)?;
    target.free.entry(topic).or_default().push(partition);
    Some((partition.clone(), to))
}

#[cfg(test)]
mod tests {
    use millrace_meta::Joining;
    use proptest::prelude::*;

    use super::*;

    fn broker(node: u32, rack: u32) -> Broker {
        Broker {
            joined: Joining {
                node: NodeId(node),
                endpoints: Vec::new(),
                rack: Some(rack.to_string()),
                version: String::new(),
                log: String::new(),
                log_id: 0,
            },
            epoch: NodeEpoch(u64::from(node)),
            state: BrokerState::Active,
            is_draining: false,
        }
    }

    fn led(topic: u32, partition: u32, node: u32) -> (TopicPartition, Leader) {
        let topic = TopicName::new(format!("t{topic}")).expect("legal");
        let leader = Leader {
            node: Some(NodeId(node)),
            epoch: 0,
            moving_to: None,
            preferred: None,
        };
        (TopicPartition { topic, partition }, leader)
    }

    fn apply(leaders: &mut [(TopicPartition, Leader)], moves: &[Move]) {
        for planned in moves {
            let moved = leaders.iter_mut().find(|(id, _)| *id == planned.partition);
            moved.expect("it exists").1.node = Some(planned.to);
        }
    }

    fn counts(leaders: &[(TopicPartition, Leader)], brokers: &[Broker]) -> Vec<usize> {
        let of = |broker: &Broker| {
            let node = Some(broker.joined.node);
            leaders
                .iter()
                .filter(|(_, leader)| leader.node == node)
                .count()
        };
        brokers.iter().map(of).collect()
    }

    #[test]
    fn a_broker_that_came_back_gets_its_share_of_each_topic() {
        let brokers = [broker(1, 1), broker(2, 2), broker(3, 3)];
        let mut leaders: Vec<_> = (0..2)
            .flat_map(|topic| (0..6).map(move |partition| led(topic, partition, 1 + partition % 2)))
            .collect();
        let moves = even_out(&leaders, &brokers);
        assert_eq!(moves.len(), 4);
        apply(&mut leaders, &moves);
        assert_eq!(counts(&leaders, &brokers), [4, 4, 4]);
        let of_first = leaders
            .iter()
            .filter(|(id, leader)| id.topic.as_str() == "t0" && leader.node == Some(NodeId(3)));
        assert_eq!(of_first.count(), 2);
    }

    #[test]
    fn moves_that_never_end_are_not_waited_for() {
        let brokers = [broker(1, 1), broker(2, 2)];
        let mut leaders: Vec<_> = (0..6).map(|partition| led(0, partition, 1)).collect();
        let (mut pending, second) = (Pending::default(), Duration::from_secs(1));
        assert!(!pending.may_end(&leaders, second));
        for (_, leader) in &mut leaders[..2] {
            leader.moving_to = Some(NodeId(2));
        }
        assert!(pending.may_end(&leaders, second));
        leaders[0].1.moving_to = None;
        assert!(
            pending.may_end(&leaders, MOVES_WAIT),
            "one of them has ended"
        );
        assert!(pending.may_end(&leaders, 2 * MOVES_WAIT - second));
        assert!(!pending.may_end(&leaders, 2 * MOVES_WAIT));
        let moves = even_out(&leaders, &brokers);
        assert_eq!(moves.len(), 3);
        let stuck = &leaders[1].0;
        assert!(moves.iter().all(|planned| planned.partition != *stuck));
    }

    #[test]
    fn nobody_is_given_anything_who_is_about_to_stop() {
        let mut brokers = [broker(1, 1), broker(2, 2)];
        brokers[1].is_draining = true;
        let leaders: Vec<_> = (0..6).map(|partition| led(0, partition, 1)).collect();
        assert!(even_out(&leaders, &brokers).is_empty());
        assert!(!is_quiet(&brokers));
    }

    proptest! {
        #[test]
        fn it_comes_to_rest_with_as_few_moves_as_there_are_too_many(
            nodes in 1_u32..9,
            placed in prop::collection::vec((0_u32..5, 0_u32..9), 0..300),
        ) {
            let brokers: Vec<Broker> = (0..nodes).map(|node| broker(node, node % 3)).collect();
            let mut leaders: Vec<_> = (0..)
                .zip(placed)
                .map(|(partition, (topic, node))| led(topic, partition, node % nodes))
                .collect();
            let fair = leaders.len() / brokers.len();
            let too_many: usize = counts(&leaders, &brokers)
                .into_iter()
                .map(|count| count.saturating_sub(fair))
                .sum();
            let mut moved = 0;
            loop {
                let moves = even_out(&leaders, &brokers);
                if moves.is_empty() {
                    break;
                }
                moved += moves.len();
                apply(&mut leaders, &moves);
                prop_assert!(moved <= too_many, "{moved} of {too_many}");
            }
            let counts = counts(&leaders, &brokers);
            let (most, fewest) = (counts.iter().max(), counts.iter().min());
            prop_assert!(most.zip(fewest).is_none_or(|(most, fewest)| most - fewest <= 1), "{counts:?}");
        }
    }
}
