//! Other people's programs for the JVM, from Maven Central.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

/// Written once all jars are there.
const COMPLETE: &str = "complete";

/// Why there are no jars.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Maven could not be started.
    #[error("mvn: {0}; a JDK 17 with Maven is needed (Debian/Ubuntu: default-jdk maven)")]
    Start(#[source] io::Error),
    /// Maven said why on standard error.
    #[error("mvn: {0}")]
    Failed(ExitStatus),
    /// The folder cannot be written.
    #[error("{path}: {source}")]
    Folder {
        /// What was written.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Copies what a pom depends on into the folder `name` under the project's folder for fetched
/// tools, unless it is there already. Returns that folder, for a class path of `<folder>/*`.
/// `version` becomes the pom's property `kafka.version`.
///
/// # Errors
/// Where there is no Maven, it fails, or the folder cannot be written.
pub fn fetch(pom: &Path, name: &str, version: &str) -> Result<PathBuf, FetchError> {
    let jars = tools_folder().join(name);
    let complete = jars.join(COMPLETE);
    if complete.exists() {
        return Ok(jars);
    }
    eprintln!("fetching {name} …");
    let status = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(pom)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", jars.display()))
        .arg(format!("-Dkafka.version={version}"))
        .status()
        .map_err(FetchError::Start)?;
    if !status.success() {
        return Err(FetchError::Failed(status));
    }
    fs::write(&complete, "").map_err(|source| FetchError::Folder {
        path: complete,
        source,
    })?;
    Ok(jars)
}

/// Ignored by version control and kept between runs.
pub(crate) fn tools_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.millrace-tools")
}
