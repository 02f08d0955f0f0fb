//! What the backup of the metadata costs: requests and bytes per hour, idle and under load.

use std::time::Duration;

use millrace_bench::{
    broker::{Home, Metrics, Settings},
    drill::{Work, Workers},
    machine::pause,
};
use serde_json::{Value, json};

use crate::arguments::{Arguments, Cost};

const KINDS: [&str; 3] = ["changes", "watermarks", "snapshot"];
/// After a start or a beginning of load, until it goes on evenly.
const SETTLE: Duration = Duration::from_secs(5);

/// Measures both; prints what it saw.
pub(crate) fn run(arguments: &Arguments, cost: &Cost) -> Result<(), String> {
    let settings = Settings {
        wal_bytes: 1 << 30,
        io_depth: 32,
        bucket: None,
        lines: format!(
            "s3.wal.cache.size=256MiB\ns3.wal.upload.threshold={}\n",
            cost.threshold_bytes
        ),
    };
    let home = Home::create(
        &arguments.files.program,
        &arguments.files.work.join("cost"),
        &settings,
    )?;
    let mut running = home.start_and_wait()?;
    let work = Work {
        seed: arguments.seed,
        producers: 4,
        partitions: 24,
        bytes_per_s: arguments.bytes_per_s,
    };
    let mut workers = Workers::begin(&work, &home)?;
    let started = workers.stage.clock.now();
    workers.first_ack(&mut running, started)?;
    pause(SETTLE);
    let (before, records) = (home.metrics()?, workers.stage.ledger.snapshot());
    pause(cost.measured);
    workers.check(&mut running)?;
    let loaded = per_hour(&before, &home.metrics()?, cost.measured);
    let bytes = workers.stage.ledger.snapshot().bytes - records.bytes;
    workers.finish(&mut running)?;
    // The last uploads and watermarks.
    pause(Duration::from_secs(65));
    let before = home.metrics()?;
    pause(cost.measured);
    let idle = per_hour(&before, &home.metrics()?, cost.measured);
    running.kill_9()?;
    home.remove();
    let report = json!({
        "seconds": cost.measured.as_secs(),
        "upload_threshold_bytes": cost.threshold_bytes,
        "produced_mib_per_s": (bytes / cost.measured.as_secs().max(1)) >> 20,
        "loaded_per_hour": loaded,
        "idle_per_hour": idle,
    });
    println!("{report:#}");
    Ok(())
}

fn per_hour(before: &Metrics, after: &Metrics, measured: Duration) -> Value {
    let hours = measured.as_secs_f64() / 3_600.0;
    let grown = |name: &str, label: &str| {
        let of = |metrics: &Metrics| metrics.sum(name, label).unwrap_or(0.0);
        ((of(after) - of(before)) / hours).round()
    };
    let mut rates = serde_json::Map::new();
    for kind in KINDS {
        let label = format!("kind=\"{kind}\"");
        let items = grown("millrace_meta_backup_items_total", &label);
        let bytes = grown("millrace_meta_backup_bytes_total", &label);
        rates.insert(
            kind.to_owned(),
            json!({ "requests": items, "bytes": bytes }),
        );
    }
    let commits = grown("millrace_object_requests_total", "operation=\"put\"");
    rates.insert("all_puts".to_owned(), commits.into());
    rates.into()
}
