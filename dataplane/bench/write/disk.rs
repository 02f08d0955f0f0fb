//! What the contenders write to.

use std::path::{Path, PathBuf};

use millrace_bench::flush_shim::{self, BuildError};

/// The disk that the work folder lies on, as it is or made slower.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Disk {
    pub(crate) shape: Option<Shape>,
}

/// How much slower: the figures of a cloud volume.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    /// No durable write takes less, in milliseconds.
    pub(crate) write_ms: u32,
    /// Durable writes per second.
    pub(crate) iops: u32,
    /// Bytes written per second.
    pub(crate) bandwidth_bytes: u64,
}

impl Disk {
    pub(crate) const OWN: Self = Self { shape: None };

    /// At most what the largest volumes of that kind do.
    pub(crate) const fn ebs_like(write_ms: u32) -> Self {
        Self {
            shape: Some(Shape {
                write_ms,
                iops: 4_000,
                bandwidth_bytes: 1_000 << 20,
            }),
        }
    }

    /// Parameters of the broker's log address, each with `&` before it.
    pub(crate) fn wal_parameters(&self) -> String {
        self.shape.map_or_else(String::new, |shape| {
            format!(
                "&shape_write_ms={}&shape_iops={}&shape_bandwidth={}",
                shape.write_ms, shape.iops, shape.bandwidth_bytes
            )
        })
    }

    /// Arguments of the roles that write themselves.
    pub(crate) fn role_arguments(&self) -> Vec<String> {
        self.shape.map_or_else(Vec::new, |shape| {
            [
                ("--write-ms", u64::from(shape.write_ms)),
                ("--iops", u64::from(shape.iops)),
                ("--bandwidth", shape.bandwidth_bytes),
            ]
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value.to_string()])
            .collect()
        })
    }

    /// Environment of a broker whose flush calls are made slower by a library that is loaded
    /// first. The library is made in `folder`, and counts there.
    pub(crate) fn shim_environment(
        &self,
        folder: &Path,
    ) -> Result<Vec<(&'static str, String)>, BuildError> {
        let Some(shape) = self.shape else {
            return Ok(Vec::new());
        };
        let library = flush_shim::build(folder)?;
        Ok(vec![
            ("LD_PRELOAD", library.display().to_string()),
            ("SHIM_FLUSH_MS", shape.write_ms.to_string()),
            ("SHIM_IOPS", shape.iops.to_string()),
            ("SHIM_BANDWIDTH", shape.bandwidth_bytes.to_string()),
            ("SHIM_REPORT", shim_report(folder).display().to_string()),
        ])
    }
}

/// Where the library of [`Disk::shim_environment`] counts.
pub(crate) fn shim_report(folder: &Path) -> PathBuf {
    folder.join("flushes")
}
