//! A library that makes the flush calls of another program as slow as a cloud volume: its source
//! is `flush-shim/flush_shim.c`, whose head says how slow, and by which environment.

use std::{
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

const SOURCE: &str = include_str!("../flush-shim/flush_shim.c");

/// File name of the library.
pub const LIBRARY: &str = "libmillrace_flush_shim.so";

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The compiler could not be started or fed.
    #[error("cc: {0}; a C compiler is needed (Debian/Ubuntu: build-essential)")]
    Compiler(#[source] io::Error),
    /// It said why on standard error.
    #[error("cc: {0}")]
    Failed(ExitStatus),
    /// The library cannot be put into its place.
    #[error("{path}: {source}")]
    Place {
        /// That place.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Compiles the library, which takes a moment, into `folder`. Returns its path, for `LD_PRELOAD`.
///
/// # Errors
/// There is no C compiler, or the folder cannot be written.
pub fn build(folder: &Path) -> Result<PathBuf, BuildError> {
    // Renamed at the end: somebody may be running with the one that is there.
    let unfinished = folder.join(format!("{LIBRARY}.{}", std::process::id()));
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror"])
        .args(["-pthread", "-x", "c", "-", "-ldl", "-o"])
        .arg(&unfinished)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(BuildError::Compiler)?;
    let fed = match compiler.stdin.take() {
        Some(mut stdin) => stdin.write_all(SOURCE.as_bytes()),
        None => Ok(()),
    };
    let status = compiler.wait().map_err(BuildError::Compiler)?;
    if !status.success() {
        return Err(BuildError::Failed(status));
    }
    fed.map_err(BuildError::Compiler)?;
    let path = folder.join(LIBRARY);
    match fs::rename(&unfinished, &path) {
        Ok(()) => Ok(path),
        Err(source) => Err(BuildError::Place { path, source }),
    }
}

/// What the library counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Flush calls.
    pub flushes: u64,
    /// Bytes by which the flushed files had grown.
    pub bytes: u64,
    /// Time that was added to the calls, in nanoseconds.
    pub delayed_ns: u64,
}

impl Counts {
    /// Reads the file that `SHIM_REPORT` named; the program may still be running, or have been
    /// killed.
    ///
    /// # Errors
    /// There is no such file: the library was not loaded.
    pub fn read(report: &Path) -> io::Result<Self> {
        let bytes = fs::read(report)?;
        let (numbers, _) = bytes.as_chunks::<8>();
        match numbers
            .iter()
            .map(|&n| u64::from_ne_bytes(n))
            .collect::<Vec<_>>()[..]
        {
            [flushes, bytes, delayed_ns] => Ok(Self {
                flushes,
                bytes,
                delayed_ns,
            }),
            _ => Err(io::Error::other("the report of the flush shim is cut off")),
        }
    }
}
