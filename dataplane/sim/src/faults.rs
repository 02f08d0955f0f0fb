//! What happens to the cluster.

use std::{sync::Arc, time::Duration};

use millrace_meta::Move;
use millrace_model::NodeId;
use millrace_testkit::Crash;
use tokio::time::sleep;

use crate::{
    machine::{DISK_LATENCY, Machine},
    seams::Seams,
    world::World,
};

/// An operation of a slow disk takes up to this long, and one in eight up to ten times as long.
const SLOW_DISK: Duration = Duration::from_millis(150);

/// What may happen to one or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process is killed, and started again after a while.
    Kill(NodeId),
    /// The process is stopped and goes on after a while.
    Pause(NodeId),
    /// Its way to the database is cut.
    CutDatabase(NodeId),
    /// Its way to the bucket is cut.
    CutBucket(NodeId),
    /// Its way to clients is cut.
    CutClients(NodeId),
    SlowDisk(NodeId),
    /// All machines lose power at once: the fences that there are so far are files of one machine.
    PowerLoss,
    DatabaseOutage,
    BucketOutage,
    /// A partition is to move.
    Move {
        partition: u32,
        to: NodeId,
    },
    /// The broker is stopped in peace and started again.
    Stop(NodeId),
}

/// A fault, when it begins, and how long it lasts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned {
    fault: Fault,
    at: Duration,
    lasts: Duration,
}

/// Draws the faults of a simulation that take place within `within`.
pub(crate) fn draw(
    seams: &Seams,
    nodes: &[NodeId],
    partitions: u32,
    within: (Duration, Duration),
) -> Vec<Planned> {
    let count = 2 + seams.random.below(6);
    let mut planned = Vec::new();
    for _ in 0..count {
        let at = within.0 + (within.1 - within.0).mul_f64(seams.random.below(1_000) as f64 / 1e3);
        let lasts = match seams.random.below(3) {
            0 => seams.between_ms(50, 1_000),
            _ => seams.between_ms(1_000, 9_000),
        };
        let fault = draw_one(seams, nodes, partitions);
        planned.push(Planned { fault, at, lasts });
        // Two at once, or almost.
        if let Some(second) = another_at_once(seams, nodes, fault) {
            let at = at + seams.between_ms(0, 400);
            planned.push(Planned {
                fault: second,
                at,
                lasts,
            });
        }
    }
    planned
}

fn node_of(seams: &Seams, nodes: &[NodeId]) -> NodeId {
    let index = seams.random.below(nodes.len() as u64);
    nodes[usize::try_from(index).unwrap_or(0)]
}

fn draw_one(seams: &Seams, nodes: &[NodeId], partitions: u32) -> Fault {
    let node = node_of(seams, nodes);
    match seams.random.below(17) {
        0..=2 => Fault::Kill(node),
        3..=5 => Fault::Pause(node),
        6..=7 => Fault::CutDatabase(node),
        8 => Fault::CutBucket(node),
        9 => Fault::CutClients(node),
        10 => Fault::SlowDisk(node),
        11 => Fault::DatabaseOutage,
        12 => Fault::BucketOutage,
        13 => Fault::Stop(node),
        14 => Fault::PowerLoss,
        _ => Fault::Move {
            partition: u32::try_from(seams.random.below(u64::from(partitions))).unwrap_or(0),
            to: node,
        },
    }
}

fn another_at_once(seams: &Seams, nodes: &[NodeId], first: Fault) -> Option<Fault> {
    let other = node_of(seams, nodes);
    let again = match first {
        Fault::Kill(node) if node != other => Fault::Kill(other),
        Fault::Pause(node) if node != other => Fault::Pause(other),
        Fault::CutDatabase(node) if node != other => Fault::CutDatabase(other),
        _ => return None,
    };
    (nodes.len() > 2 && seams.random.below(4) == 0).then_some(again)
}

impl Planned {
    /// Lets it happen, and ends it.
    pub(crate) async fn run(self, world: Arc<World>) {
        sleep(self.at).await;
        let Self { fault, lasts, .. } = self;
        world.note(|| format!("fault {fault:?} for {:.3}", lasts.as_secs_f64()));
        match fault {
            Fault::DatabaseOutage => {
                world.database.uplink.cut();
                sleep(lasts).await;
                world.database.uplink.heal();
            }
            Fault::BucketOutage => {
                for machine in &world.machines.all {
                    machine.cut_bucket();
                }
                sleep(lasts).await;
                for machine in &world.machines.all {
                    machine.heal_bucket();
                }
            }
            Fault::PowerLoss => lose_power(&world, lasts).await,
            Fault::Move { partition, to } => {
                let partition = world.partition(partition);
                let moves = [Move { partition, to }];
                let planned = world.database.plan_moves(&moves);
                if let Err(error) = planned {
                    world.note(|| format!("no move: {error}"));
                }
            }
            Fault::Kill(node)
            | Fault::Pause(node)
            | Fault::CutDatabase(node)
            | Fault::CutBucket(node)
            | Fault::CutClients(node)
            | Fault::SlowDisk(node)
            | Fault::Stop(node) => {
                if let Some(machine) = world.machines.of(node) {
                    hurt(&world, machine, (fault, lasts)).await;
                }
            }
        }
        world.note(|| format!("end of {fault:?}"));
    }
}

async fn lose_power(world: &World, lasts: Duration) {
    for machine in &world.machines.all {
        machine.starts.cut();
        machine.kill(Crash::PowerLoss);
    }
    sleep(lasts).await;
    for machine in &world.machines.all {
        machine.starts.heal();
    }
}

/// A fault of one machine.
async fn hurt(world: &World, machine: &Machine, (fault, lasts): (Fault, Duration)) {
    let hurt = machine.begin_hurt(world.now());
    match fault {
        Fault::Kill(_) => {
            machine.starts.cut();
            machine.kill(Crash::Killed);
            // Writes that the kernel still had.
            let soon = world.seams.between_ms(0, 300).min(lasts);
            sleep(soon).await;
            machine.disk.land_late_writes();
            sleep(lasts - soon).await;
            machine.starts.heal();
        }
        Fault::Pause(_) => {
            let paused = machine.process();
            if let Some(process) = &paused {
                process.gate.pause();
            }
            sleep(lasts).await;
            if let Some(process) = &paused {
                process.gate.resume();
            }
        }
        Fault::CutDatabase(_) => {
            machine.database.cut();
            sleep(lasts).await;
            machine.database.heal();
        }
        Fault::CutBucket(_) => {
            machine.cut_bucket();
            sleep(lasts).await;
            machine.heal_bucket();
        }
        Fault::CutClients(_) => {
            machine.clients.cut();
            sleep(lasts).await;
            machine.clients.heal();
        }
        Fault::SlowDisk(_) => {
            machine.disk.set_latency_max(SLOW_DISK);
            sleep(lasts).await;
            machine.disk.set_latency_max(DISK_LATENCY);
        }
        Fault::Stop(_) => {
            if let Some(process) = machine.process() {
                process.stop.notify_one();
            }
        }
        Fault::PowerLoss | Fault::DatabaseOutage | Fault::BucketOutage | Fault::Move { .. } => {}
    }
    machine.end_hurt(hurt, world.now());
}
