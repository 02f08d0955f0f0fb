//! One step of an axis: a broker with so many units, prepared once and measured in every round.

use std::{path::Path, time::Duration};

use millrace_bench::{
    broker::{Home, Running, Settings, Stopped, lasting_addresses},
    machine::pause,
    population::client,
    process::settle,
    producer::Connection,
    usage::cpu_time_of,
};
use millrace_client::Admin;
use millrace_time::SystemClock;
use tokio::runtime::Runtime;

use crate::{
    axis::{Axis, Sizes},
    figures::Figures,
    load::{Load, Pace, Produced, REQUEST_BYTES},
    members::{self, Members},
    objects,
};

/// A broker that does not answer for so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// The load ends after this time, however much of it is left.
const LOAD_MAX: Duration = Duration::from_secs(30);
const WAL_BYTES: u64 = 1 << 30;
/// A restart reads what is not uploaded. This keeps it small, and about the same at every step.
const UPLOAD_INTERVAL_MS: u64 = 1_000;
/// Partitions beside those of the step: of groups, and the brokers' own.
const OTHER_PARTITIONS: usize = 1_000;
const GIB: f64 = (1_u64 << 30) as f64;
const MIB: f64 = (1_u64 << 20) as f64;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Bytes of the load without pauses.
    pub(crate) bytes: usize,
    /// Requests per second of the moderate load, and for how long.
    pub(crate) rate_per_s: f64,
    pub(crate) rate_time: Duration,
    /// How long the broker idles.
    pub(crate) idle: Duration,
}

impl Plan {
    pub(crate) const FULL: Self = Self {
        bytes: 512 << 20,
        rate_per_s: 500.0,
        rate_time: Duration::from_secs(5),
        idle: Duration::from_secs(5),
    };
    pub(crate) const QUICK: Self = Self {
        bytes: 128 << 20,
        rate_per_s: 500.0,
        rate_time: Duration::from_secs(4),
        idle: Duration::from_secs(3),
    };

    const fn unlimited(&self) -> Pace {
        Pace::Unlimited {
            requests: self.bytes / REQUEST_BYTES,
            within: LOAD_MAX,
        }
    }

    const fn moderate(&self) -> Pace {
        Pace::Rate {
            per_s: self.rate_per_s,
            time: self.rate_time,
        }
    }
}

/// A step, whose broker runs only while it is measured.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) units: usize,
    sizes: Sizes,
    home: Home,
}

impl Step {
    /// Creates everything that the step has. The broker has stopped when this returns.
    pub(crate) fn prepare(
        (axis, units): (Axis, usize),
        (program, work): (&Path, &Path),
        runtime: &Runtime,
    ) -> Result<Self, String> {
        let sizes = axis.sizes(units);
        let mut settings = Settings {
            wal_bytes: WAL_BYTES,
            io_depth: 32,
            bucket: None,
            lines: format!(
                "partitions.max={}\nlog.retention.ms=-1\ns3.compaction.interval.ms=0\n\
                 s3.wal.upload.interval.ms={UPLOAD_INTERVAL_MS}\n",
                sizes.partitions + OTHER_PARTITIONS
            ),
        };
        let folder = work.join(format!("{}-{units}", axis.name()));
        let addresses = lasting_addresses(2)?;
        let addresses = [addresses[0], addresses[1]];
        let home = Home::create_at(program, &folder, &settings, addresses)?;
        let step = Self { units, sizes, home };
        if sizes.objects > 0 {
            let usual = settings.lines.clone();
            settings.lines.push_str(objects::SETTINGS);
            step.home.configure(&settings)?;
            settings.lines = usual;
        }
        let running = step.home.start_and_wait()?;
        runtime.block_on(step.create())?;
        if sizes.objects > 0 {
            objects::write(&step.home, sizes.population(), sizes.objects)?;
        }
        stop(running)?;
        if sizes.objects > 0 {
            let made = runtime.block_on(objects::split(&step.home))?;
            if made < sizes.objects {
                return Err(format!("{made} objects of {} were seeded", sizes.objects));
            }
            step.home.configure(&settings)?;
        }
        Ok(step)
    }

    async fn create(&self) -> Result<(), String> {
        let failed = |error| format!("the topic of the groups: {error}");
        let connection = Connection::connect(self.home.address(), "bench-scale", PATIENCE);
        let created = connection
            .and_then(|mut connection| connection.create_topic(members::TOPIC, 1, PATIENCE));
        created.map_err(failed)?;
        let client = client(self.home.address());
        let admin = Admin::new(&client);
        let population = self.sizes.population();
        population.create_topics(&admin).await?;
        population.commit_offsets(&admin).await
    }

    async fn connect(&self) -> Result<Load, String> {
        let Sizes { connections, .. } = self.sizes;
        Load::connect(self.home.address(), connections, self.sizes.population()).await
    }

    /// Measures the broker once, from one clean stop to the next.
    pub(crate) fn measure(&self, plan: &Plan, runtime: &Runtime) -> Result<Figures, String> {
        let moderate = self.load_moderately(plan, runtime)?;
        let clock = SystemClock::shared();
        let started = clock.now();
        let running = self.home.start_and_wait()?;
        let restart_accepts = clock.now() - started;
        let mut load = runtime.block_on(async {
            let client = client(self.home.address());
            let population = self.sizes.population();
            population.all_served(&Admin::new(&client)).await?;
            self.connect().await
        })?;
        let restart_serves = clock.now() - started;
        let pid = running.pid().to_string();
        settle(&pid);
        let restart_cpu = cpu(&pid)?;
        let mut members = self.join(&pid, runtime)?;
        let resident = running.resident_bytes()?;
        let idle_cpu = idle_cpu_share(&pid, plan.idle)?;
        let (began, before) = (clock.now(), cpu(&pid)?);
        let unlimited = runtime.block_on(load.run(plan.unlimited()))?;
        pause(Duration::from_millis(UPLOAD_INTERVAL_MS));
        settle(&pid);
        let idle_cpu_s = idle_cpu * (clock.now() - began).as_secs_f64();
        let load_cpu_s = (cpu(&pid)? - before).as_secs_f64() - idle_cpu_s;
        let resident_loaded = running.resident_bytes()?;
        members.must_run()?;
        drop(members);
        stop(running)?;
        let bytes = (unlimited.requests as usize * REQUEST_BYTES) as f64;
        Ok(Figures {
            mib_per_s: bytes / MIB / unlimited.elapsed.as_secs_f64(),
            p99_ms: p99_ms(&moderate)?,
            cpu_s_per_gib: load_cpu_s / (bytes / GIB),
            idle_cpu_ms_per_s: idle_cpu * 1e3,
            resident_mib: resident as f64 / MIB,
            resident_loaded_mib: resident_loaded as f64 / MIB,
            restart_accepts_s: restart_accepts.as_secs_f64(),
            restart_s: restart_serves.as_secs_f64(),
            restart_cpu_s: restart_cpu.as_secs_f64(),
        })
    }

    /// Starts a broker that was stopped, loads it moderately, and kills it at once: every step leaves its restart the same to do.
    fn load_moderately(&self, plan: &Plan, runtime: &Runtime) -> Result<Produced, String> {
        let running = self.home.start_and_wait()?;
        let mut load = runtime.block_on(self.connect())?;
        let mut members = self.join(&running.pid().to_string(), runtime)?;
        let produced = runtime.block_on(load.run(plan.moderate()))?;
        members.must_run()?;
        running.kill_9()?;
        Ok(produced)
    }

    /// Lets the members join, and waits until the broker has come to rest.
    fn join(&self, pid: &str, runtime: &Runtime) -> Result<Members, String> {
        let join = Members::join(self.home.address(), self.sizes.groups);
        let members = runtime.block_on(join)?;
        settle(pid);
        Ok(members)
    }

    /// Removes the broker's folder.
    pub(crate) fn remove(&self) {
        self.home.remove();
    }
}

/// Stops a broker, which writes checkpoints and uploads everything.
fn stop(running: Running) -> Result<(), String> {
    match running.stop_or_kill(PATIENCE)? {
        Stopped::InPeace => Ok(()),
        Stopped::Killed => Err(format!("the broker did not stop within {PATIENCE:?}")),
    }
}

fn cpu(pid: &str) -> Result<Duration, String> {
    cpu_time_of(pid).ok_or_else(|| format!("process {pid} has ended"))
}

/// CPU seconds per second of a broker that nobody asks for anything but what its groups do.
fn idle_cpu_share(pid: &str, time: Duration) -> Result<f64, String> {
    let before = cpu(pid)?;
    pause(time);
    Ok((cpu(pid)? - before).as_secs_f64() / time.as_secs_f64())
}

fn p99_ms(produced: &Produced) -> Result<f64, String> {
    let summary = produced.latencies.summary();
    Ok(summary.ok_or("no request was answered")?.p99)
}
