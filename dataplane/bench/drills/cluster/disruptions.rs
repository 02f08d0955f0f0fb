//! Disruptions: each is done, waited out, and timed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fastrand::Rng;
use millrace_bench::{
    cluster::{Brokers, History, Leaders, leaders_by, reassign},
    machine::pause,
};
use millrace_testkit::PostgresServer;
use millrace_time::SharedClock;

use crate::{deck::Disruption, probes::Probes, times::Times};

/// After a disruption, every partition is served by then.
const SERVED_WAIT: Duration = Duration::from_secs(90);
/// After a disruption, all brokers are back by then.
const ACTIVE_WAIT: Duration = Duration::from_secs(90);
/// A broker stands still, or is cut off, so long: three times the lease.
const AWAY: Duration = Duration::from_secs(10);
/// A broker that was replaced has ended by then.
const END_WAIT: Duration = Duration::from_secs(30);
/// Moved partitions have their new leaders by then.
const MOVE_WAIT: Duration = Duration::from_secs(30);
/// Between two disruptions: a broker fences others only once it has held its lease for twice its length.
const REST_MS: std::ops::RangeInclusive<u64> = 4_000..=9_000;
const POLL: Duration = Duration::from_millis(10);
/// Of the partitions, one in so many is moved.
const MOVED_PART: usize = 10;

/// The cluster, its clients' history, and what has been seen.
pub(crate) struct Scene<'a> {
    pub(crate) brokers: Brokers,
    pub(crate) server: Option<&'a PostgresServer>,
    pub(crate) history: Arc<History>,
    pub(crate) topic: &'a str,
    pub(crate) clock: SharedClock,
    /// PostgreSQL is away so long.
    pub(crate) outage: Duration,
    pub(crate) random: Rng,
    pub(crate) times: Times,
    /// Records that a broker acknowledged after it had been replaced.
    pub(crate) acknowledged_after_replacement: u64,
    /// Planned moves that the brokers do not offer.
    pub(crate) moves_skipped: u64,
    /// Brokers that stood still, or were cut off, and were replaced meanwhile.
    pub(crate) replaced: u64,
}

impl Scene<'_> {
    /// Does it, and waits until everything is served and all brokers are back.
    pub(crate) fn run(&mut self, disruption: Disruption) -> Result<(), String> {
        let leaders = self.leaders()?;
        let known = self.history.acked();
        let (from, outage) = (self.clock.now(), self.outage);
        let (since, hit) = match disruption {
            Disruption::Kill | Disruption::DoubleKill => {
                let count = 1 + usize::from(disruption == Disruption::DoubleKill);
                let hit = self.victims(count, &leaders)?;
                self.kill(&hit)?;
                (self.clock.now(), led_by(&leaders, &hit))
            }
            Disruption::KillAndRestart => {
                let hit = self.victims(1, &leaders)?;
                self.kill(&hit)?;
                let since = self.clock.now();
                self.restart(&hit)?;
                (since, led_by(&leaders, &hit))
            }
            Disruption::Stop | Disruption::Cut => self.away(disruption, &leaders)?,
            Disruption::Drain => {
                let hit = self.victims(1, &leaders)?;
                self.brokers.drain(hit[0])?;
                self.restart(&hit)?;
                (from, led_by(&leaders, &hit))
            }
            Disruption::DatabaseRestart => self.database(from, |server| {
                server.halt();
                server.resume();
            })?,
            Disruption::DatabaseOutage => self.database(from, |server| {
                server.halt();
                pause(outage);
                server.resume();
            })?,
            Disruption::DatabaseHang => self.database(from, |server| {
                server.freeze();
                pause(outage);
                server.thaw();
            })?,
            Disruption::Moves => (from, self.moves(&leaders)?),
        };
        self.until_served(since)?;
        let to = self.clock.now();
        let acks = self.history.acks_after(known);
        self.times.add(disruption, &acks, (from, since, to), &hit);
        self.restart_all()?;
        self.brokers.until_active(ACTIVE_WAIT)?;
        pause(Duration::from_millis(self.random.u64(REST_MS)));
        self.until_served(self.clock.now())
    }

    /// Waits until each partition has acknowledged a record that was handed over since then.
    pub(crate) fn until_served(&mut self, since: Duration) -> Result<(), String> {
        let began = self.clock.now();
        loop {
            self.brokers.tend()?;
            let unserved = self.history.unserved_since(since);
            if unserved.is_empty() {
                return Ok(());
            }
            if self.clock.now().saturating_sub(began) > SERVED_WAIT {
                return Err(format!(
                    "{} partitions acknowledged nothing for {SERVED_WAIT:?}: {:?} …; the cluster: {:?}",
                    unserved.len(),
                    &unserved[..unserved.len().min(20)],
                    self.brokers.view(),
                ));
            }
            pause(POLL);
        }
    }

    fn leaders(&self) -> Result<Leaders, String> {
        let running = self.brokers.running();
        let first = running.first().ok_or("no broker runs")?;
        leaders_by(self.brokers.address(*first)?, self.topic)
    }

    /// Brokers that run, those that lead something first: nothing moves back to one that has returned.
    fn victims(&mut self, count: usize, leaders: &Leaders) -> Result<Vec<u32>, String> {
        let mut running = self.brokers.running();
        self.random.shuffle(&mut running);
        running.sort_by_key(|&node| led_by(leaders, &[node]).is_empty());
        running.truncate(count);
        match running.len() == count {
            true => Ok(running),
            false => Err(format!("no {count} brokers run")),
        }
    }

    fn kill(&mut self, nodes: &[u32]) -> Result<(), String> {
        println!("at {:.1} s: kill -9 of {nodes:?}", self.seconds());
        nodes.iter().try_for_each(|&node| self.brokers.kill(node))
    }

    fn restart(&mut self, nodes: &[u32]) -> Result<(), String> {
        let mut nodes = nodes.iter();
        nodes.try_for_each(|&node| self.brokers.restart(node))
    }

    /// Starts those that were killed and are not back.
    fn restart_all(&mut self) -> Result<(), String> {
        let gone = self.brokers.gone();
        self.restart(&gone)
    }

    /// A broker stands still, or does not reach the database, for longer than its lease. Returns since when, and the partitions
    /// that it led.
    fn away(
        &mut self,
        disruption: Disruption,
        leaders: &Leaders,
    ) -> Result<(Duration, BTreeSet<i32>), String> {
        let hit = self.victims(1, leaders)?;
        let node = hit[0];
        let is_cut = disruption == Disruption::Cut;
        println!(
            "at {:.1} s: {} of {node}",
            self.seconds(),
            disruption.name()
        );
        let mut probes = Probes::connect(node, self.brokers.address(node)?)?;
        let ended_before = self.brokers.exits().len();
        match is_cut {
            true => self.brokers.cut(node)?,
            false => self.brokers.freeze(node)?,
        }
        let since = self.clock.now();
        let is_replaced = self.until_replaced(node, since + AWAY, &mut probes)?;
        match is_cut {
            true => self.brokers.restore(node)?,
            false => self.brokers.thaw(node)?,
        }
        if !is_replaced {
            self.brokers.must_run(node)?;
            println!("node {node} was not replaced while it was away");
            return Ok((since, led_by(leaders, &hit)));
        }
        self.replaced += 1;
        self.acknowledged_after_replacement += probes.acknowledged();
        let back = self.clock.now();
        while self.brokers.exits().len() == ended_before {
            self.brokers.tend()?;
            if self.clock.now().saturating_sub(back) > END_WAIT {
                return Err(format!("node {node} was replaced, and goes on"));
            }
            pause(POLL);
        }
        Ok((since, led_by(leaders, &hit)))
    }

    /// Whether others replaced the node by then. Once they have its log, the node gets records that it may not acknowledge.
    fn until_replaced(
        &mut self,
        node: u32,
        until: Duration,
        probes: &mut Probes,
    ) -> Result<bool, String> {
        let others = self.brokers.running();
        let other = others.into_iter().find(|&other| other != node);
        let mut is_replaced = false;
        while self.clock.now() < until {
            let state = other.and_then(|other| self.brokers.state_by(other, node));
            // Its log's fence was raised before it left.
            if state.as_deref() == Some("left") {
                probes.send_once();
            }
            is_replaced |= matches!(state.as_deref(), Some("fenced" | "left"));
            pause(POLL);
        }
        Ok(is_replaced)
    }

    /// All partitions are meant: none may notice.
    fn database(
        &mut self,
        from: Duration,
        disrupt: impl FnOnce(&PostgresServer),
    ) -> Result<(Duration, BTreeSet<i32>), String> {
        println!("at {:.1} s: the database", self.seconds());
        disrupt(self.server.ok_or("there is no database")?);
        Ok((from, (0..self.history.partitions()).collect()))
    }

    /// Returns the partitions that were moved.
    fn moves(&mut self, leaders: &Leaders) -> Result<BTreeSet<i32>, String> {
        let nodes = self.brokers.running();
        let mut partitions: Vec<i32> = leaders.keys().copied().collect();
        self.random.shuffle(&mut partitions);
        partitions.truncate(partitions.len().div_ceil(MOVED_PART));
        let mut targets = BTreeMap::new();
        for partition in partitions {
            let leader = leaders.get(&partition).copied().flatten();
            let others: Vec<u32> = nodes
                .iter()
                .copied()
                .filter(|&node| Some(node) != leader)
                .collect();
            let target = self.random.choice(others).ok_or("there is no other node")?;
            targets.insert(partition, target);
        }
        println!("at {:.1} s: moves of {:?}", self.seconds(), targets);
        let asked = self.random.choice(nodes).ok_or("no broker runs")?;
        let address = self.brokers.address(asked)?;
        if !reassign(address, self.topic, &targets)? {
            println!("the brokers do not serve AlterPartitionReassignments");
            self.moves_skipped += 1;
            return Ok(BTreeSet::new());
        }
        let began = self.clock.now();
        loop {
            let leaders = leaders_by(address, self.topic)?;
            let has_moved = |(partition, node): (&i32, &u32)| {
                leaders.get(partition).copied().flatten() == Some(*node)
            };
            if targets.iter().all(has_moved) {
                return Ok(targets.into_keys().collect());
            }
            if self.clock.now().saturating_sub(began) > MOVE_WAIT {
                return Err(format!("{targets:?} were to move; now {leaders:?}"));
            }
            pause(POLL);
        }
    }

    fn seconds(&self) -> f64 {
        self.clock.now().as_secs_f64()
    }
}

fn led_by(leaders: &Leaders, nodes: &[u32]) -> BTreeSet<i32> {
    let led = leaders
        .iter()
        .filter(|(_, leader)| leader.is_some_and(|leader| nodes.contains(&leader)));
    led.map(|(&partition, _)| partition).collect()
}
