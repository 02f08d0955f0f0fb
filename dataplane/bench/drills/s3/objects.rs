//! What is in the bucket, by the broker's own program and beside it.

use std::{path::Path, process::Command};

use millrace_bench::{broker::files_below, s3_server::BUCKET};
use serde_json::Value;

/// The cluster's id in this drill.
pub(crate) const CLUSTER: &str = "drill";

/// Reads every object to its last byte; what all of them hold together. Fails where one is not
/// sound, or together they leave something out or hold it twice.
pub(crate) fn verify(program: &Path, bucket_uri: &str) -> Result<Value, String> {
    let output = Command::new(program)
        .args(["inspect", "objects", bucket_uri, CLUSTER, "--verify"])
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let sum: Value = serde_json::from_str(last).unwrap_or_default();
    let is_zero = |key: &str| sum[key] == 0;
    if output.status.success() && is_zero("unsound") && is_zero("gaps") && is_zero("overlaps") {
        return Ok(sum);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let unsound = text.lines().filter(|line| line.contains("\"unsound\":\""));
    let unsound: Vec<&str> = unsound.take(5).collect();
    Err(format!(
        "some objects are damaged: {last} {said} {unsound:?}"
    ))
}

/// Uploads in parts that were begun and neither completed nor aborted, in files and bytes.
pub(crate) fn abandoned_parts(server_folder: &Path) -> (u64, u64) {
    files_below(&server_folder.join(BUCKET).join(".sgwtmp/multipart"))
}
