//! Allocations per record, counted in runs of their own by a library that is loaded first: the whole
//! process, its own records and figures included.

use std::{error::Error, fs, path::Path, path::PathBuf};

use crate::peers::compile;

/// Counts the allocations of one process after the other.
#[derive(Debug)]
pub(crate) struct Counter {
    /// The compiled library.
    preloaded: PathBuf,
    count: PathBuf,
}

impl Counter {
    /// Compiles the library into `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let library = folder.join("libcount_allocations.so");
        compile(&["count_allocations.c"], &["-shared", "-fPIC"], &library)?;
        Ok(Self {
            preloaded: library,
            count: folder.join("allocations"),
        })
    }

    /// The environment of the process to count in.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.preloaded.display().to_string()),
            ("COUNT_ALLOCATIONS", self.count.display().to_string()),
        ]
    }

    /// What was counted in the process that ended last.
    pub(crate) fn take(&self) -> Result<f64, Box<dyn Error>> {
        let count = fs::read_to_string(&self.count)
            .map_err(|error| format!("{}: {error}", self.count.display()))?;
        fs::remove_file(&self.count)?;
        Ok(count.trim().parse()?)
    }
}
