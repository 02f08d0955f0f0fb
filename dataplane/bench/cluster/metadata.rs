//! What the shared metadata costs: commits, rows and bytes of the database per GiB that is produced, its processor time, and how
//! long a commit takes beside it.

use std::{cell::Cell, time::Duration};

use millrace_bench::{cluster::Percentiles, usage::cpu_time_of};
use millrace_testkit::{DatabaseStatistics, PostgresServer};
use tokio::runtime::Runtime;

use crate::{
    arguments::Options,
    contenders::{Contender, Running},
    report::Fields,
    throughput,
};

/// Between two commits that are timed.
const COMMIT_PAUSE: Duration = Duration::from_millis(50);
/// PostgreSQL publishes a session's counts at most once a second.
const PUBLISHED_WAIT: Duration = Duration::from_secs(2);

/// How long it is looked what the database does without any load: leases, and looks at the feed of changes.
const IDLE: Duration = Duration::from_secs(5);

/// The load of `throughput` on three brokers.
pub(crate) fn run(
    options: &Options,
    runtime: &Runtime,
    contender: &mut Contender,
) -> Result<Fields, String> {
    let Running::Millrace { database, .. } = &contender.cluster else {
        return Err("only brokers of Millrace have shared metadata".to_owned());
    };
    let database = database.clone();
    let idle = idle_commits_per_s(runtime, &database);
    let before = Cell::new((DatabaseStatistics::default(), Duration::ZERO));
    let count = options.load_time().as_millis() / COMMIT_PAUSE.as_millis();
    let count = usize::try_from(count).unwrap_or(0);
    let timing = Cell::new(None);
    let loaded = throughput::load(options, runtime, contender, |contender| {
        let statistics = runtime.block_on(PostgresServer::statistics(&database));
        before.set((statistics, cpu_time(contender)));
        let database = database.clone();
        timing.set(Some(runtime.spawn(async move {
            PostgresServer::commit_latencies(&database, count, COMMIT_PAUSE).await
        })));
        Ok(())
    })?;
    let timing = timing.into_inner().ok_or("no commit was timed")?;
    let latencies = runtime.block_on(timing);
    let latencies = latencies.map_err(|error| error.to_string())?;
    let commits = Percentiles::of(latencies).ok_or("no commit was timed")?;
    runtime.block_on(tokio::time::sleep(PUBLISHED_WAIT));
    let after = runtime.block_on(PostgresServer::statistics(&database));
    let (before, cpu_before) = before.get();
    let cpu = cpu_time(contender).saturating_sub(cpu_before);
    let per_gib = |after: i64, before: i64| (after - before) as f64 / loaded.gib;
    // The commits that were timed are not the brokers', and those without a load have nothing to do with bytes.
    let own = count as f64 / loaded.gib;
    let polled = idle * (loaded.seconds + PUBLISHED_WAIT.as_secs_f64()) / loaded.gib;
    Ok(vec![
        (
            "commits_per_gib",
            per_gib(after.commits, before.commits) - own - polled,
        ),
        (
            "rows_per_gib",
            per_gib(after.rows_written, before.rows_written) - own,
        ),
        (
            "wal_mib_per_gib",
            per_gib(after.wal_bytes, before.wal_bytes) / f64::from(1 << 20),
        ),
        (
            "size_mib_per_gib",
            per_gib(after.size_bytes, before.size_bytes) / f64::from(1 << 20),
        ),
        ("cpu_s_per_gib", cpu.as_secs_f64() / loaded.gib),
        ("p50_ms", commits.p50_ms),
        ("p99_ms", commits.p99_ms),
    ])
}

/// Transactions per second, those that only read included.
fn idle_commits_per_s(runtime: &Runtime, database: &str) -> f64 {
    let commits = || {
        runtime
            .block_on(PostgresServer::statistics(database))
            .commits
    };
    let before = commits();
    runtime.block_on(tokio::time::sleep(IDLE));
    (commits() - before) as f64 / IDLE.as_secs_f64()
}

/// Of all processes of PostgreSQL that run.
fn cpu_time(contender: &Contender) -> Duration {
    let Running::Millrace { server, .. } = &contender.cluster else {
        return Duration::ZERO;
    };
    let processes = server.processes().into_iter();
    processes
        .filter_map(|process| cpu_time_of(&process.to_string()))
        .sum()
}
