//! What fails, in an order that a seed decides: one after the other out of a deck that holds each
//! once, and is shuffled anew when it is used up. So everything has its turn, in every order.
//!
//! The broker is killed at any moment; and at chosen ones. For those a trap in the proxy holds a
//! request to the bucket, and the broker's own gauge tells whether it compacts at that moment: the
//! kill comes while the request is under way, before it is carried out or after, and before its
//! answer. Where the moment is not the one that was meant, the request goes on. One that was held when
//! its broker was killed goes on once the next broker serves: a late request of the dead, as networks
//! deliver them.

use std::{collections::BTreeMap, time::Duration};

use millrace_bench::{
    broker::{Home, Running, Stopped},
    drill::{Caught, Faults, Proxy, Workers},
    machine::pause,
};
use millrace_time::SharedClock;
use serde_json::{Value, json};

use crate::followers::Followers;

/// Kills that each chosen phase must see.
const KILLS_MIN: u64 = 3;
/// How long a moment is waited for.
const AIM_PATIENCE: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_millis(2);
/// Between two events the broker serves undisturbed.
const PEACE_MS: std::ops::RangeInclusive<u64> = 1_000..=5_000;
const BURST_MS: std::ops::RangeInclusive<u64> = 3_000..=8_000;
const OUTAGE_MS: std::ops::RangeInclusive<u64> = 4_000..=10_000;
/// How long a broker that was asked to stop may take.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
/// After the gauge says that it compacts, within this time.
const INTO_COMPACTION_MS: std::ops::RangeInclusive<u64> = 0..=30;

const COMPACTION_GAUGE: &str = "millrace_compaction_running";
const WRITES: &[&str] = &["put", "put_part", "copy", "begin", "complete"];
const DELETES: &[&str] = &["delete"];

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    KillAnyTime,
    KillInUpload,
    KillInCompaction,
    KillInDeletion,
    KillInOutage,
    Stop,
    Burst,
    Outage,
}

impl Event {
    const ALL: [Self; 8] = [
        Self::KillAnyTime,
        Self::KillInUpload,
        Self::KillInCompaction,
        Self::KillInDeletion,
        Self::KillInOutage,
        Self::Stop,
        Self::Burst,
        Self::Outage,
    ];
    /// Those that must have been met.
    const CHOSEN: [Self; 3] = [
        Self::KillInUpload,
        Self::KillInCompaction,
        Self::KillInDeletion,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::KillAnyTime => "kill_any_time",
            Self::KillInUpload => "kill_in_upload",
            Self::KillInCompaction => "kill_in_compaction",
            Self::KillInDeletion => "kill_in_deletion",
            Self::KillInOutage => "kill_in_outage",
            Self::Stop => "stop",
            Self::Burst => "burst_of_503",
            Self::Outage => "outage",
        }
    }
}

/// The drill's hands on everything.
pub(crate) struct Chaos<'a> {
    pub(crate) home: &'a Home,
    pub(crate) proxy: &'a Proxy,
    pub(crate) clock: SharedClock,
    random: fastrand::Rng,
    deck: Vec<Event>,
    counts: BTreeMap<Event, u64>,
    /// What was under way at kills at chosen moments.
    under_way: BTreeMap<String, u64>,
    /// Moments that did not come in time.
    missed: BTreeMap<Event, u64>,
    /// From the start of a broker to its first acknowledgement.
    first_acks: Vec<Duration>,
}

/// The broker and everybody who watches it.
pub(crate) struct World {
    pub(crate) running: Running,
    pub(crate) workers: Workers,
    pub(crate) followers: Followers,
}

impl World {
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.followers.check()?;
        self.workers.check(&mut self.running)
    }
}

impl<'a> Chaos<'a> {
    pub(crate) fn new(home: &'a Home, proxy: &'a Proxy, clock: SharedClock, seed: u64) -> Self {
        Self {
            home,
            proxy,
            clock,
            random: fastrand::Rng::with_seed(seed),
            deck: Vec::new(),
            counts: BTreeMap::new(),
            under_way: BTreeMap::new(),
            missed: BTreeMap::new(),
            first_acks: Vec::new(),
        }
    }

    /// One thing after the other, for so long.
    pub(crate) fn reign(&mut self, mut world: World, length: Duration) -> Result<World, String> {
        let until = self.clock.now() + length;
        while self.clock.now() < until {
            let event = self.draw();
            world = self.happen_in_turn(event, world)?;
        }
        // A short drill owes some of the chosen moments.
        for _ in 0..KILLS_MIN {
            for event in Event::CHOSEN {
                if self.count(event) < KILLS_MIN {
                    world = self.happen_in_turn(event, world)?;
                }
            }
        }
        Ok(world)
    }

    /// Lets something happen, and then peace for a while.
    fn happen_in_turn(&mut self, event: Event, world: World) -> Result<World, String> {
        let before = self.clock.now();
        let mut world = self.happen(event, world)?;
        let took = self.clock.now() - before;
        println!("  {} ({} s)", event.name(), took.as_secs());
        let peace = Duration::from_millis(self.random.u64(PEACE_MS));
        self.watch(&mut world, peace)?;
        Ok(world)
    }

    fn count(&self, event: Event) -> u64 {
        self.counts.get(&event).copied().unwrap_or(0)
    }

    fn draw(&mut self) -> Event {
        if self.deck.is_empty() {
            self.deck = Event::ALL.to_vec();
            self.random.shuffle(&mut self.deck);
        }
        self.deck.pop().unwrap_or(Event::KillAnyTime)
    }

    fn happen(&mut self, event: Event, mut world: World) -> Result<World, String> {
        match event {
            Event::KillAnyTime => self.kill(event, world),
            Event::KillInUpload | Event::KillInCompaction | Event::KillInDeletion => {
                self.aim(event, world)
            }
            Event::KillInOutage => {
                self.proxy.set(Faults::SILENCE);
                let outage = Duration::from_millis(self.random.u64(OUTAGE_MS));
                self.watch(&mut world, outage / 2)?;
                // What partitions hold is told by objects: the next broker may have to wait for the
                // bucket before it serves.
                let (mut world, started) = self.kill_and_start(event, world)?;
                self.watch(&mut world, outage / 2)?;
                self.proxy.set(Faults::NONE);
                world.workers.first_ack(&mut world.running, started)?;
                Ok(world)
            }
            Event::Stop => {
                if world.running.stop_or_kill(STOP_PATIENCE)? == Stopped::Killed {
                    return Err(format!("a broker did not stop within {STOP_PATIENCE:?}"));
                }
                *self.counts.entry(event).or_default() += 1;
                let (running, started) = world.workers.restart(self.home)?;
                world.running = running;
                self.first_ack(&mut world, started)?;
                Ok(world)
            }
            Event::Burst | Event::Outage => {
                let (faults, length_ms) = match event {
                    Event::Burst => (Faults::FREQUENT, self.random.u64(BURST_MS)),
                    _ => (Faults::SILENCE, self.random.u64(OUTAGE_MS)),
                };
                self.proxy.set(faults);
                self.watch(&mut world, Duration::from_millis(length_ms))?;
                self.proxy.set(Faults::NONE);
                *self.counts.entry(event).or_default() += 1;
                Ok(world)
            }
        }
    }

    /// Lets time pass, and sees that nobody breaks their word meanwhile.
    pub(crate) fn watch(&self, world: &mut World, length: Duration) -> Result<(), String> {
        let until = self.clock.now() + length;
        while self.clock.now() < until {
            world.check()?;
            pause(Duration::from_millis(20));
        }
        Ok(())
    }

    /// `kill -9`, the next start, and its first acknowledgement.
    fn kill(&mut self, event: Event, world: World) -> Result<World, String> {
        let (mut world, started) = self.kill_and_start(event, world)?;
        self.first_ack(&mut world, started)?;
        Ok(world)
    }

    /// The same without the acknowledgement; when the next broker was started.
    fn kill_and_start(
        &mut self,
        event: Event,
        mut world: World,
    ) -> Result<(World, Duration), String> {
        world.running.kill_9()?;
        *self.counts.entry(event).or_default() += 1;
        let (running, started) = world.workers.restart(self.home)?;
        world.running = running;
        Ok((world, started))
    }

    fn first_ack(&mut self, world: &mut World, started: Duration) -> Result<(), String> {
        let took = world.workers.first_ack(&mut world.running, started)?;
        self.first_acks.push(took);
        Ok(())
    }

    /// Waits for the moment, and kills in it.
    fn aim(&mut self, event: Event, mut world: World) -> Result<World, String> {
        let by_gauge = event == Event::KillInCompaction && self.random.bool();
        let moment = if by_gauge {
            self.wait_for_compaction(&mut world)?
        } else {
            let carried_out = self.random.bool();
            self.wait_for_request(event, carried_out, &mut world)?
        };
        let Some((what, held)) = moment else {
            *self.missed.entry(event).or_default() += 1;
            return Ok(world);
        };
        *self.under_way.entry(what).or_default() += 1;
        let world = self.kill(event, world);
        // Only now: until the kill the request hung.
        drop(held);
        world
    }

    /// A moment within a compaction, whatever it does.
    fn wait_for_compaction(
        &mut self,
        world: &mut World,
    ) -> Result<Option<(String, Option<Caught>)>, String> {
        let until = self.clock.now() + AIM_PATIENCE;
        while self.clock.now() < until {
            world.check()?;
            if self.is_compacting() {
                pause(Duration::from_millis(self.random.u64(INTO_COMPACTION_MS)));
                if self.is_compacting() {
                    return Ok(Some(("compaction".to_owned(), None)));
                }
            }
            pause(POLL);
        }
        Ok(None)
    }

    /// A moment in which the bucket is asked for what belongs to the event.
    fn wait_for_request(
        &mut self,
        event: Event,
        carried_out: bool,
        world: &mut World,
    ) -> Result<Option<(String, Option<Caught>)>, String> {
        let (kinds, compacting) = match event {
            Event::KillInDeletion => (DELETES, None),
            Event::KillInCompaction => (WRITES, Some(true)),
            _ => (WRITES, Some(false)),
        };
        let until = self.clock.now() + AIM_PATIENCE;
        let mut catch = self.proxy.trap(kinds, carried_out);
        while self.clock.now() < until {
            world.check()?;
            let Some(caught) = catch.take() else {
                pause(POLL);
                continue;
            };
            let is_meant = compacting.is_none_or(|wanted| self.is_compacting() == wanted);
            if is_meant {
                let when = if carried_out {
                    "answered"
                } else {
                    "carried out"
                };
                let phase = event.name().trim_start_matches("kill_in_");
                let what = format!("{phase}: {} before it was {when}", caught.kind);
                return Ok(Some((what, Some(caught))));
            }
        }
        Ok(None)
    }

    /// Whether the broker says so; a broker that is away does not.
    fn is_compacting(&self) -> bool {
        let gauge = self.home.metric(COMPACTION_GAUGE);
        gauge.is_ok_and(|running| running > 0.0)
    }

    /// What happened, and what did not happen often enough.
    pub(crate) fn report(&self) -> (Value, Vec<String>) {
        let named = |counts: &BTreeMap<Event, u64>| {
            let counts = counts.iter();
            let counts = counts.map(|(event, count)| (event.name().to_owned(), json!(count)));
            Value::Object(counts.collect())
        };
        let ms = self.first_acks.iter().map(|took| took.as_millis());
        let report = json!({
            "events": named(&self.counts),
            "moments_that_did_not_come": named(&self.missed),
            "under_way_at_kills": self.under_way,
            "starts": self.first_acks.len(),
            "restart_to_first_ack_ms_max": ms.max(),
        });
        let count = |event| self.counts.get(&event).copied().unwrap_or(0);
        let rare = Event::CHOSEN
            .into_iter()
            .filter(|event| count(*event) < KILLS_MIN);
        let failures = rare.map(|event| {
            let (name, count) = (event.name(), count(event));
            format!("{name} happened {count} times, not {KILLS_MIN}: run the drill for longer")
        });
        (report, failures.collect())
    }
}
