//! The clients' threads, and what one waits for with them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use millrace_time::SystemClock;

use crate::{
    broker::{Home, Running},
    machine::pause,
};

use super::{
    group,
    ledger::{Ledger, Promises},
    library,
    load::{PATIENCE, Producer, START_WAIT_MAX, Stage, connect_patiently},
};

const TOPIC: &str = "drill";
const POLL: Duration = Duration::from_micros(500);

/// Producers and a group, at work on one topic.
pub struct Workers {
    /// What the clients share.
    pub stage: Arc<Stage>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

/// What the clients do.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Batches and pauses follow from it.
    pub seed: u64,
    /// How many producers there are.
    pub producers: u32,
    /// Partitions of the topic.
    pub partitions: i32,
    /// Bytes per second of all producers together.
    pub bytes_per_s: u64,
}

impl Workers {
    /// Creates the topic, and has the broker create that of the groups. The broker may still be starting.
    pub fn create_topics(work: &Work, home: &Home) -> Result<(), String> {
        let failed = |error| format!("preparing: {error}");
        let mut connection = connect_patiently(home.address())?;
        connection
            .create_topic(TOPIC, work.partitions, PATIENCE)
            .map_err(failed)?;
        group::create_topic(&mut connection, TOPIC)
    }

    /// Creates the topics where they are missing, lets the broker name the producers, and begins.
    pub fn begin(work: &Work, home: &Home) -> Result<Self, String> {
        Self::create_topics(work, home)?;
        let mut workers = Self::resume(work, home)?;
        workers.commit();
        Ok(workers)
    }

    /// The same with producers of the client library, and with a member of a group that reads what
    /// they write.
    pub fn begin_with_library(work: &Work, home: &Home) -> Result<Self, String> {
        Self::create_topics(work, home)?;
        let stage = stage(work, home);
        let mut threads = Vec::new();
        for number in 0..work.producers {
            let stage = Arc::clone(&stage);
            threads.push(thread::spawn(move || library::produce(&stage, number)));
        }
        let following = Arc::clone(&stage);
        threads.push(thread::spawn(move || library::follow(&following)));
        let mut workers = Self { stage, threads };
        workers.commit();
        Ok(workers)
    }

    /// Lets the broker name producers, and begins with them on the topic that is there.
    pub fn resume(work: &Work, home: &Home) -> Result<Self, String> {
        let mut connection = connect_patiently(home.address())?;
        let stage = stage(work, home);
        let mut threads = Vec::new();
        for number in 0..work.producers {
            let identity = connection.init_producer_id();
            let identity = identity.map_err(|error| format!("preparing: {error}"))?;
            let producer = Producer::new(Arc::clone(&stage), number, identity);
            threads.push(thread::spawn(move || producer.run()));
        }
        Ok(Self { stage, threads })
    }

    /// Begins with the group that only commits.
    fn commit(&mut self) {
        let stage = Arc::clone(&self.stage);
        stage
            .ledger
            .change(|promises| promises.group_offset = group::NOTHING_COMMITTED);
        self.threads.push(thread::spawn(move || group::run(&stage)));
    }

    /// Executes the next broker; when it began to.
    pub fn restart(&self, home: &Home) -> Result<(Running, Duration), String> {
        self.stage.incarnation.fetch_add(1, Ordering::AcqRel);
        let started = self.stage.clock.now();
        Ok((home.start()?, started))
    }

    /// Waits until the broker that was started at `started` has acknowledged something; how long
    /// that took.
    pub fn first_ack(
        &mut self,
        running: &mut Running,
        started: Duration,
    ) -> Result<Duration, String> {
        let incarnation = self.stage.incarnation.load(Ordering::Acquire);
        let clock = Arc::clone(&self.stage.clock);
        let waited = || clock.now().saturating_sub(started);
        loop {
            let took = waited();
            if self.stage.acknowledging.load(Ordering::Acquire) >= incarnation {
                return Ok(took);
            }
            self.check(running)?;
            if took > START_WAIT_MAX {
                return Err(format!(
                    "start {incarnation} acknowledged nothing within {took:?}"
                ));
            }
            pause(POLL);
        }
    }

    /// Waits until so many bytes of batches are acknowledged.
    pub fn until_acknowledged(&mut self, running: &mut Running, bytes: u64) -> Result<(), String> {
        let progress = |stage: &Stage| stage.ledger.change(|promises| promises.bytes);
        let (mut last, mut moved) = (0, self.stage.clock.now());
        loop {
            let now = progress(&self.stage);
            if now >= bytes {
                return Ok(());
            }
            self.check(running)?;
            let clock = self.stage.clock.now();
            if now > last {
                (last, moved) = (now, clock);
            } else if clock.saturating_sub(moved) > START_WAIT_MAX {
                let refusals = self.stage.ledger.snapshot().refusals;
                return Err(format!(
                    "after {} MiB of {} nothing is acknowledged any more; refusals by code: \
                     {refusals:?}",
                    now >> 20,
                    bytes >> 20
                ));
            }
            pause(POLL);
        }
    }

    /// The broker runs, and no client ended: they do only where the broker breaks its word.
    pub fn check(&mut self, running: &mut Running) -> Result<(), String> {
        if let Some(ended) = running.ended() {
            return Err(ended);
        }
        let ended = self.threads.iter().position(JoinHandle::is_finished);
        match ended {
            None => Ok(()),
            Some(at) => match joined(self.threads.swap_remove(at)) {
                Err(reason) => Err(reason),
                Ok(()) => Err("a client ended early".to_owned()),
            },
        }
    }

    /// Ends the clients of a broker that does not run; what they were promised until then.
    pub fn abandon(&mut self) -> Result<Promises, String> {
        self.stage.abandoned.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            joined(thread)?;
        }
        Ok(self.stage.ledger.snapshot())
    }

    /// Lets everything be acknowledged and ends the clients; what they were promised in all.
    pub fn finish(&mut self, running: &mut Running) -> Result<Promises, String> {
        self.stage.finishing.store(true, Ordering::Release);
        let asked = self.stage.clock.now();
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if let Some(ended) = running.ended() {
                return Err(ended);
            }
            if self.stage.clock.now().saturating_sub(asked) > START_WAIT_MAX {
                return Err("the last batches are not acknowledged in time".to_owned());
            }
            pause(POLL);
        }
        for thread in self.threads.drain(..) {
            joined(thread)?;
        }
        let promises = self.stage.ledger.snapshot();
        if promises.durable != promises.sent {
            return Err("a producer ended with batches that are not acknowledged".to_owned());
        }
        Ok(promises)
    }
}

fn stage(work: &Work, home: &Home) -> Arc<Stage> {
    Arc::new(Stage {
        broker: home.address(),
        topic: TOPIC.to_owned(),
        partitions: work.partitions,
        seed: work.seed,
        bytes_per_s: (work.bytes_per_s / u64::from(work.producers)).max(1),
        clock: SystemClock::shared(),
        ledger: Ledger::default(),
        incarnation: AtomicU64::new(1),
        acknowledging: AtomicU64::new(0),
        finishing: AtomicBool::new(false),
        abandoned: AtomicBool::new(false),
    })
}

fn joined(thread: JoinHandle<Result<(), String>>) -> Result<(), String> {
    thread
        .join()
        .unwrap_or_else(|_| Err("a client panicked".to_owned()))
}
