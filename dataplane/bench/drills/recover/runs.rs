//! The runs: each with a broker of its own.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use millrace_bench::{
    broker::{Home, Running, Settings},
    drill::{
        Audit, Promises, Readback, Stage, Work, Workers, connect_patiently, feed, print_report,
    },
    machine::pause,
};
use serde_json::{Value, json};

use crate::{
    arguments::Arguments,
    loss::{Lost, Report, split},
};

/// Small, so that it goes round, and large enough for what is not uploaded.
const WAL_BYTES: u64 = 256 << 20;
const PARTITIONS: i32 = 6;
const PRODUCERS: u32 = 3;
/// How long a broker serves before a kill.
const SERVE_MS: std::ops::RangeInclusive<u64> = 200..=2_500;
/// How soon little is uploaded: at once, sometimes, or not while the drill watches.
const UPLOAD_INTERVALS_MS: [u64; 3] = [150, 1_000, 60_000];
/// How long the broker takes new records after a recovery.
const AFTER: Duration = Duration::from_millis(300);
/// A broker that is to refuse its storage has done so by then.
const REFUSAL_WAIT_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);
const FETCH_BYTES: i32 = 8 << 20;
/// What a restart left to the log is read back first, which a fetch without patience does not wait for.
const FETCH_WAIT: Duration = Duration::from_secs(5);

/// What is gone after the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wiped {
    Metadata,
    Log,
    Both,
}

const WIPES: [Wiped; 3] = [Wiped::Metadata, Wiped::Log, Wiped::Both];

/// All runs together.
#[derive(Debug, Default)]
struct Totals {
    by_wipe: BTreeMap<&'static str, u64>,
    acknowledged: u64,
    lost: u64,
    lost_runs: u64,
    recover_ms: Vec<u128>,
    backup: BTreeMap<&'static str, (f64, f64)>,
}

/// One run.
struct Run<'a> {
    home: &'a Home,
    random: fastrand::Rng,
    wiped: Wiped,
    work: Work,
}

/// Runs everything; prints what it saw.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let mut totals = Totals::default();
    for number in 0..arguments.runs {
        let mut random = fastrand::Rng::with_seed(arguments.seed.wrapping_add(number as u64));
        let folder = arguments.files.work.join(number.to_string());
        let home = Home::create(&arguments.files.program, &folder, &settings(&mut random))?;
        if !arguments.any_disk && !home.writes_directly()? {
            return Err("the disk takes no O_DIRECT; name a folder on another with --work".into());
        }
        let run = Run {
            home: &home,
            wiped: WIPES[number % WIPES.len()],
            work: Work {
                seed: random.u64(..),
                producers: PRODUCERS,
                partitions: PARTITIONS,
                bytes_per_s: arguments.bytes_per_s,
            },
            random,
        };
        let wiped = run.wiped;
        let lost = run.go(&mut totals).map_err(|reason| {
            let evidence = format!(
                "seed {}, run {number}, {wiped:?} wiped\n{reason}\n",
                arguments.seed
            );
            // The reason is shown all the same.
            let _ = fs::write(folder.join("evidence"), evidence);
            format!(
                "FAILED: run {number} ({wiped:?} wiped): {reason}\nkept in {}",
                folder.display()
            )
        })?;
        println!(
            "run {number}: {wiped:?} wiped, {} acknowledged records lost",
            lost.records
        );
        home.remove();
    }
    // Only where every run was sound is nothing worth keeping.
    let _ = fs::remove_dir(&arguments.files.work);
    print_report(&totals.report(arguments), arguments.files.json.as_deref())
}

fn settings(random: &mut fastrand::Rng) -> Settings {
    let interval = random.choice(UPLOAD_INTERVALS_MS).unwrap_or(1_000);
    Settings {
        wal_bytes: WAL_BYTES,
        io_depth: 16,
        bucket: None,
        lines: format!(
            "s3.wal.cache.size=48MiB\ns3.wal.upload.threshold=4MiB\n\
             s3.wal.upload.interval.ms={interval}\ns3.stream.object.split.size=256KiB\n\
             s3.block.cache.size=16MiB\noffsets.topic.num.partitions=2\n"
        ),
    }
}

impl Run<'_> {
    fn go(mut self, totals: &mut Totals) -> Result<Lost, String> {
        let mut running = self.home.start()?;
        let mut workers = Workers::begin(&self.work, self.home)?;
        let clock = workers.stage.clock.clone();
        let mut started = clock.now();
        workers.first_ack(&mut running, started)?;
        for _ in 0..self.random.u32(0..=2) {
            self.serve(&mut workers, &mut running)?;
            running.kill_9()?;
            (running, started) = workers.restart(self.home)?;
            workers.first_ack(&mut running, started)?;
        }
        self.serve(&mut workers, &mut running)?;
        totals.add_backup(self.home)?;
        running.kill_9()?;
        self.wipe()?;
        self.refused()?;
        let began = clock.now();
        let report = self.recover(&workers.stage.topic)?;
        totals
            .recover_ms
            .push(clock.now().saturating_sub(began).as_millis());
        let lost = match self.wiped {
            Wiped::Metadata => self.all_is_back(workers, &report, totals)?,
            Wiped::Log | Wiped::Both => self.only_the_named_is_lost(workers, &report, totals)?,
        };
        *totals.by_wipe.entry(self.wiped.name()).or_default() += 1;
        totals.lost += lost.records;
        totals.lost_runs += u64::from(lost.records > 0);
        Ok(lost)
    }

    fn serve(&mut self, workers: &mut Workers, running: &mut Running) -> Result<(), String> {
        pause(Duration::from_millis(self.random.u64(SERVE_MS)));
        workers.check(running)
    }

    fn wipe(&self) -> Result<(), String> {
        let folder = self.home.folder();
        if self.wiped != Wiped::Log {
            for name in ["meta.db", "meta.db-wal", "meta.db-shm"] {
                let file = folder.join("data").join(name);
                if file.exists() {
                    fs::rename(&file, folder.join(name)).map_err(failed(&file))?;
                }
            }
        }
        if self.wiped != Wiped::Metadata {
            let log = folder.join("wal/wal");
            fs::rename(&log, folder.join("wal.gone")).map_err(failed(&log))?;
        }
        Ok(())
    }

    /// The broker must not start on what is left.
    fn refused(&self) -> Result<(), String> {
        let clock = millrace_time::SystemClock::shared();
        let mut running = self.home.start()?;
        while clock.now() < REFUSAL_WAIT_MAX {
            if running.ended().is_some() {
                return Ok(());
            }
            pause(POLL);
        }
        Err("the broker started although its storage is incomplete".to_owned())
    }

    /// Recovers what is wiped; the report.
    fn recover(&self, topic: &str) -> Result<Report, String> {
        let planned = self.done(&["recover", "--json", "--dry-run"])?;
        let report = Report::read(&planned, topic)?;
        if self.wiped == Wiped::Log {
            // The metadata is there and newer than its backup: it is kept, and the log given up.
            let told = self.done(&["adopt", "--yes"])?;
            let told = String::from_utf8_lossy(&told).into_owned();
            if !told.contains("Lost:") {
                return Err(format!("adopt does not say what is lost: {told}"));
            }
            return Ok(report);
        }
        let applied = self.done(&["recover", "--json", "--yes"])?;
        let (planned, applied): (Value, Value) = (parsed(&planned)?, parsed(&applied)?);
        if planned["missing"] != applied["missing"] || applied["applied"] != true {
            return Err(format!("planned {planned}, done {applied}"));
        }
        Ok(report)
    }

    fn done(&self, arguments: &[&str]) -> Result<Vec<u8>, String> {
        let output = self.home.command(arguments)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(format!(
            "{arguments:?} ended with {}: {said}",
            output.status
        ))
    }

    /// With the log, the same producers go on, and everything they were ever told is there.
    fn all_is_back(
        &self,
        mut workers: Workers,
        report: &Report,
        totals: &mut Totals,
    ) -> Result<Lost, String> {
        if report.source != "bucket+wal" || !report.is_nothing_missing() {
            return Err(format!("the log is there, and the report says {report:?}"));
        }
        let (mut running, started) = workers.restart(self.home)?;
        workers.first_ack(&mut running, started)?;
        pause(AFTER);
        let promises = workers.finish(&mut running)?;
        totals.acknowledged += promises.records;
        Readback::new(&workers.stage).check_complete(&promises)?;
        millrace_bench::drill::check_group(&workers.stage)?;
        running.kill_9()?;
        Ok(Lost::default())
    }

    /// Without the log: what is there is right, what is not is named, and new records follow.
    fn only_the_named_is_lost(
        &self,
        mut workers: Workers,
        report: &Report,
        totals: &mut Totals,
    ) -> Result<Lost, String> {
        let promises = workers.abandon()?;
        totals.acknowledged += promises.records;
        if report.source != "bucket" {
            return Err(format!("the log is gone, and the report says {report:?}"));
        }
        let mut running = self.home.start_and_wait()?;
        let ends = ends(&workers.stage)?;
        let (kept, lost) = split(&promises, &ends, report)?;
        Readback::new(&workers.stage).check(&kept)?;
        let mut again = Workers::resume(
            &Work {
                seed: !self.work.seed,
                ..self.work
            },
            self.home,
        )?;
        let started = again.stage.clock.now();
        again.first_ack(&mut running, started)?;
        pause(AFTER);
        let promises = again.finish(&mut running)?;
        continues(&again.stage, &promises, &ends)?;
        running.kill_9()?;
        // A start on what was recovered is a start like any other.
        let running = self.home.start_and_wait()?;
        continues(&again.stage, &promises, &ends)?;
        running.kill_9()?;
        Ok(lost)
    }
}

impl Wiped {
    fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Log => "log",
            Self::Both => "both",
        }
    }
}

impl Totals {
    /// What the backup has cost since the broker's last start, by kind.
    fn add_backup(&mut self, home: &Home) -> Result<(), String> {
        let metrics = home.metrics()?;
        for kind in ["changes", "watermarks", "snapshot"] {
            let sum = |name| {
                metrics
                    .sum(name, &format!("kind=\"{kind}\""))
                    .unwrap_or(0.0)
            };
            let (items, bytes) = self.backup.entry(kind).or_default();
            *items += sum("millrace_meta_backup_items_total");
            *bytes += sum("millrace_meta_backup_bytes_total");
        }
        Ok(())
    }

    fn report(&self, arguments: &Arguments) -> Value {
        let mut recover_ms = self.recover_ms.clone();
        recover_ms.sort_unstable();
        json!({
            "seed": arguments.seed,
            "runs": arguments.runs,
            "wiped": self.by_wipe,
            "acknowledged_records": self.acknowledged,
            "lost_records": self.lost,
            "runs_with_loss": self.lost_runs,
            "recover_ms_median": recover_ms.get(recover_ms.len() / 2),
            "recover_ms_max": recover_ms.last(),
            "backup_items_and_bytes": self.backup,
        })
    }
}

fn parsed(json: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(json).map_err(|error| error.to_string())
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> String + use<> {
    let path: PathBuf = path.to_owned();
    move |error| format!("{}: {error}", path.display())
}

/// Where each partition ends.
fn ends(stage: &Stage) -> Result<BTreeMap<i32, i64>, String> {
    let mut connection = connect_patiently(stage.broker)?;
    let end = |partition| {
        let end = connection.end_offset(&stage.topic, partition);
        end.map(|end| (partition, end))
            .map_err(|error| error.to_string())
    };
    (0..stage.partitions).map(end).collect()
}

/// The records that came after the recovery begin where the recovered ones end, and are all there.
fn continues(stage: &Stage, promises: &Promises, ends: &BTreeMap<i32, i64>) -> Result<(), String> {
    let mut connection = connect_patiently(stage.broker)?;
    for (&partition, &from) in ends {
        let first = promises
            .acked
            .get(&partition)
            .and_then(|acked| acked.iter().map(|acked| acked.base_offset).min());
        if first.is_some_and(|first| first != from) {
            return Err(format!(
                "partition {partition} ended at {from}, and goes on at {first:?}"
            ));
        }
        let mut audit = Audit::new(partition);
        audit.skip_to(from);
        audit.promise(promises)?;
        let end = connection
            .end_offset(&stage.topic, partition)
            .map_err(|error| error.to_string())?;
        while audit.next() < end {
            let at = audit.next();
            let fetched = connection
                .fetch(&stage.topic, partition, at, FETCH_BYTES, FETCH_WAIT)
                .map_err(|error| error.to_string())?;
            feed(&mut audit, partition, fetched.records, stage.seed)?;
            if audit.next() == at {
                return Err(format!(
                    "partition {partition}: nothing is at {at} of {end}"
                ));
            }
        }
        audit.at_end(promises)?;
    }
    Ok(())
}
