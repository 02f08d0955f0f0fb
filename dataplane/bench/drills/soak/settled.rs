//! At the end, when nobody writes any more.

use std::{path::Path, process::Command, sync::Arc, time::Duration};

use millrace_bench::{
    broker::{Home, files_below},
    drill::{Promises, Readback, Stage},
    machine::pause,
    s3_server::BUCKET,
};
use millrace_time::SystemClock;
use serde_json::Value;

use crate::soak::{CLUSTER, RETENTION_BYTES};

/// What is left may take so long to be uploaded, with what a kill has left to do.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(120);
/// Retention, compaction, and deletion after its own retention have their last turns within this.
const SWEEP_PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_secs(2);
/// Retention deletes whole segments of a partition: of 256 KiB here, or one batch of the largest.
/// Bytes.
const RETENTION_STEP: i64 = 2 << 20;

/// Waits until nothing is in the log alone.
pub(crate) fn until_uploaded(home: &Home) -> Result<(), String> {
    let clock = SystemClock::shared();
    loop {
        let pending = home.metric("millrace_upload_pending_bytes")?;
        if pending == 0.0 {
            return Ok(());
        }
        if clock.now() > UPLOAD_PATIENCE {
            return Err(format!(
                "{pending} bytes are not uploaded after {UPLOAD_PATIENCE:?}"
            ));
        }
        pause(POLL);
    }
}

/// Bytes that are kept of each partition, by the broker's account: as much as retention asks, and
/// less than a step more. Waits until that is so.
pub(crate) fn until_retained(home: &Home, stage: &Arc<Stage>) -> Result<Value, String> {
    let clock = SystemClock::shared();
    let label = format!("topic=\"{}\"", stage.topic);
    let partitions = i64::from(stage.partitions);
    let wanted = partitions * RETENTION_BYTES..=partitions * (RETENTION_BYTES + RETENTION_STEP);
    loop {
        let size = home.metrics()?.sum("millrace_log_size_bytes", &label);
        let size = size.map(|size| size as i64);
        if size.is_some_and(|size| wanted.contains(&size)) {
            return Ok(size.into());
        }
        if clock.now() > SWEEP_PATIENCE {
            return Err(format!(
                "the topic has {size:?} bytes; retention keeps {wanted:?}"
            ));
        }
        pause(POLL);
    }
}

/// Waits until the bucket holds what is referenced, and nothing else: what is to be deleted is.
pub(crate) fn until_clean(program: &Path, home: &Home, bucket_uri: &str) -> Result<Value, String> {
    let clock = SystemClock::shared();
    loop {
        let found = audit(program, home, bucket_uri).and_then(|counts| {
            let is_swept = counts["pending"] == 0 && counts["referenced"] == counts["stored"];
            let reason = || format!("objects that should be deleted are still there: {counts}");
            is_swept.then(|| counts.clone()).ok_or_else(reason)
        });
        if found.is_ok() || clock.now() > SWEEP_PATIENCE {
            return found;
        }
        pause(POLL);
    }
}

/// `millrace inspect objects --audit`: `Err` where it is not clean.
pub(crate) fn audit(program: &Path, home: &Home, bucket_uri: &str) -> Result<Value, String> {
    let output = Command::new(program)
        .args([
            "inspect", "objects", bucket_uri, CLUSTER, "--audit", "--json",
        ])
        .arg("--metadata")
        .arg(home.folder().join("data/meta.db"))
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let counts: Value = serde_json::from_str(last).unwrap_or_default();
    let none = ["missing", "orphans", "wrong_size"];
    let is_clean = none.iter().all(|key| counts[*key] == 0);
    if output.status.success() && is_clean {
        return Ok(counts);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first: Vec<&str> = text.lines().take(5).collect();
    Err(format!(
        "the audit of the objects ended with {}: {last} {said} {first:?}",
        output.status
    ))
}

/// Whether the files of the S3 server are as many as the audit says that there are objects.
pub(crate) fn check_files(counts: &Value, files: u64) -> Result<(), String> {
    let number = |key: &str| counts[key].as_u64().unwrap_or(0);
    let told = number("stored") + number("pending_stored");
    if told == files {
        return Ok(());
    }
    Err(format!(
        "the audit found {told} objects, the server has {files}"
    ))
}

/// Objects with records that the S3 server has files of, in number and bytes.
pub(crate) fn stored(home: &Home) -> (u64, u64) {
    let bucket = home.folder().join("bucket").join(BUCKET);
    // The server's own parts of uploads that are under way or abandoned, and the metadata's backup.
    let others = [bucket.join(".sgwtmp"), bucket.join("meta")];
    let all = files_below(&bucket);
    others.iter().fold(all, |(files, bytes), folder| {
        let (other_files, other_bytes) = files_below(folder);
        (files - other_files, bytes - other_bytes)
    })
}

/// Reads all partitions from their start to their end and holds them against what was promised.
/// Returns how many records there were.
pub(crate) fn read_back(stage: &Arc<Stage>, promises: &Promises) -> Result<u64, String> {
    let mut readback = Readback::beginning_at_log_start(stage)?;
    readback.check(promises)?;
    readback.nothing_invented(promises)?;
    Ok(readback.records())
}
