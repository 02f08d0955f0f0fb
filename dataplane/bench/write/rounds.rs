//! The order of the runs.

use std::{
    error::Error,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use millrace_bench::{
    kafka::Version,
    machine::{Patience, wait_until_quiet},
    process::fresh_folder,
    profile::Profiler,
};
use serde_json::Value;

use crate::{
    arguments::Options,
    contenders::{Contender, FILE_BYTES},
    disk::Disk,
    kafka_client::KafkaClient,
    loads::{Generator, Load, Outcome, Run, Target},
    report::Report,
    sections::{Job, Scale, SectionKey},
    server::Server,
    topics,
};

/// Millrace's log and objects of the largest section, which are removed at its end, and some more.
const FREE_BYTES_MIN: u64 = 32 << 30;
const QUICK_FREE_BYTES_MIN: u64 = 8 << 30;
/// A server's first requests, of which nothing is measured, are one part in so many of a run's.
const WARM_UP_SHARE: u64 = 3;
/// How a quick run waits for a quiet machine.
const QUICK: Patience = Patience {
    quiet: Duration::from_millis(400),
    tries_max: 5,
};

/// The benchmark while it runs.
struct Bench<'a> {
    options: &'a Options,
    client: KafkaClient,
    /// Where each contender in turn has its data.
    server_folder: PathBuf,
    report: Report,
}

/// Measures all sections, alternating the contenders.
pub(crate) fn measure(options: &Options) -> Result<Report, Box<dyn Error>> {
    for version in [Version::V3, Version::V4] {
        version.jars()?;
    }
    fs::create_dir_all(&options.work)?;
    let _alone = lock(&options.work)?;
    // A folder of its own: who names the work folder need not lose what else is in it.
    let data = options.work.join("data");
    fresh_folder(&data)?;
    must_have_room(options)?;
    let mut bench = Bench {
        options,
        client: KafkaClient::new(&data),
        server_folder: data.join("server"),
        report: Report::new(options),
    };
    let scale = if options.quick {
        Scale::QUICK
    } else {
        Scale::FULL
    };
    let measured = options.sections.iter().try_for_each(|&section| {
        bench.alternate(section, wanted(options, section.jobs(&scale)))?;
        let later = section.later_jobs(&scale, &bench.report);
        bench.alternate(section, wanted(options, later))
    });
    // What a failed run leaves is gigabytes; its message holds the end of its log.
    fs::remove_dir_all(&data)?;
    measured.map(|()| bench.report)
}

/// What was asked for of `jobs`.
fn wanted(options: &Options, mut jobs: Vec<Job>) -> Vec<Job> {
    for job in &mut jobs {
        job.loads.retain(|load| options.wants(load.key));
    }
    jobs.retain(|job| !job.loads.is_empty());
    if options.profile.is_some() {
        jobs.retain(|job| matches!(job.contender, Contender::Millrace(_)));
    }
    jobs
}

/// Held while the benchmark runs: two at once would measure, and remove, each other.
fn lock(work: &Path) -> Result<File, Box<dyn Error>> {
    let path = work.join("lock");
    let file = File::create(&path)?;
    file.try_lock()
        .map_err(|error| format!("{}: {error}; does another one run?", path.display()))?;
    Ok(file)
}

fn must_have_room(options: &Options) -> Result<(), Box<dyn Error>> {
    let disk = rustix::fs::statvfs(&options.work)?;
    let free = disk.f_bavail * disk.f_frsize;
    let needed = if options.quick {
        QUICK_FREE_BYTES_MIN
    } else {
        FREE_BYTES_MIN
    };
    if free < needed {
        let (free, needed) = (free >> 30, needed >> 30);
        let work = options.work.display();
        return Err(format!("{work} has {free} GiB free, {needed} are needed; see --work").into());
    }
    Ok(())
}

impl Bench<'_> {
    fn alternate(&mut self, section: SectionKey, mut jobs: Vec<Job>) -> Result<(), Box<dyn Error>> {
        for round in 0..self.options.rounds {
            for job in &jobs {
                let context = format!("{}, {}", section.name(), job.contender.key());
                self.run(section, round, job)
                    .map_err(|error| format!("{context}: {error}"))?;
            }
            if !jobs.is_empty() {
                jobs.rotate_left(1);
            }
        }
        Ok(())
    }

    /// One contender, started for this, and its loads in turn.
    fn run(&mut self, section: SectionKey, round: usize, job: &Job) -> Result<(), Box<dyn Error>> {
        let (contender, disk) = (job.contender, section.disk());
        let folder = self.server_folder.clone();
        fresh_folder(&folder)?;
        let mut server = contender.start(&disk, &folder)?;
        if let (Some(server), Some(first)) = (&mut server, job.loads.first()) {
            let warm_up = Load {
                generator: Generator::Light,
                records: first.records / WARM_UP_SHARE,
                rate: None,
                ..first.clone()
            };
            self.load(contender, server, &warm_up, "warm-up")?;
        }
        for load in &job.loads {
            let idle_percent = self.wait_until_quiet();
            let run = match (&mut server, contender) {
                (Some(server), _) => self.profiled(contender, server, load)?,
                (None, Contender::Device { depth }) => run_device(load, depth, &disk, &folder)?,
                (None, _) => return Err("it is no server".into()),
            };
            say(section, round, contender, load, &run);
            self.report
                .add(section, load.key, contender, run, idle_percent);
        }
        drop(server);
        fresh_folder(&folder)?;
        // What others' files left in the page cache is no concern of the next contender.
        rustix::fs::sync();
        Ok(())
    }

    /// A load, with a profile where one is asked for.
    fn profiled(
        &self,
        contender: Contender,
        server: &mut Server,
        load: &Load,
    ) -> Result<Run, Box<dyn Error>> {
        let Some(folder) = &self.options.profile else {
            return self.load(contender, server, load, load.key);
        };
        let name = format!("{}-{}", contender.key(), load.key);
        let profiler = Profiler::attach(&server.pid().to_string(), folder, &name)?;
        let run = self.load(contender, server, load, load.key)?;
        profiler.finish(load.gib())?.print(&name);
        Ok(run)
    }

    fn load(
        &self,
        contender: Contender,
        server: &mut Server,
        load: &Load,
        topic: &str,
    ) -> Result<Run, Box<dyn Error>> {
        let address = server.address();
        let target = if contender == Contender::Sink {
            Target::Sink
        } else {
            topics::create(address, topic, load.partitions)?;
            Target::Topic(topic)
        };
        let flushes_before = server.flushes()?;
        let meter = server.meter()?;
        let (outcome, client_cpu) = load.run(target, address, &self.client)?;
        meter.settle();
        let used = meter.read()?;
        let flushes = server.flushes()?.zip(flushes_before);
        let flushes = flushes.map(|(after, before)| after - before);
        if let Target::Topic(topic) = target {
            topics::must_hold(address, topic, load.partitions, load.records)?;
        }
        Ok(Run {
            outcome,
            server_cpu_per_gib: used.cpu_seconds / load.gib(),
            server_peak_mib: Some(used.peak_mib),
            client_cpu_per_gib: Some(client_cpu / load.gib()),
            share_of_offered: load.mib_per_s().map(|offered| outcome.mib_per_s / offered),
            flushes_per_mib: flushes.map(|flushes| flushes as f64 / load.mib()),
        })
    }

    fn wait_until_quiet(&self) -> f64 {
        wait_until_quiet(if self.options.quick {
            QUICK
        } else {
            Patience::THOROUGH
        })
    }
}

/// The device alone, in blocks as large as a producer's batches.
fn run_device(load: &Load, depth: u32, disk: &Disk, folder: &Path) -> Result<Run, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["run", "device", "--file"])
        .arg(folder.join("device"))
        .args(["--bytes", &load.bytes().to_string()])
        .args(["--file-bytes", &FILE_BYTES.to_string()])
        .args(["--block", "1048576", "--depth", &depth.to_string()])
        .args(disk.role_arguments())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the device alone: {}", output.status).into());
    }
    let shown: Value = serde_json::from_slice(&output.stdout)?;
    let cpu_seconds = shown["cpu_seconds"].as_f64().ok_or("no cpu_seconds")?;
    Ok(Run {
        outcome: Outcome::of_role(&shown)?,
        server_cpu_per_gib: cpu_seconds / load.gib(),
        server_peak_mib: None,
        client_cpu_per_gib: None,
        flushes_per_mib: None,
        share_of_offered: None,
    })
}

fn say(section: SectionKey, round: usize, contender: Contender, load: &Load, run: &Run) {
    let outcome = &run.outcome;
    eprintln!(
        "{}, round {}, {}, {}: {:.1} MiB/s, p50 {:.2} ms, p99 {:.2} ms, {:.2} CPU s/GiB",
        section.name(),
        round + 1,
        contender.key(),
        load.key,
        outcome.mib_per_s,
        outcome.p50_ms,
        outcome.p99_ms,
        run.server_cpu_per_gib,
    );
}
