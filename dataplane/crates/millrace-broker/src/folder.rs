//! The data folder, and the lock that keeps a second broker out of it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

/// The lock's name in the data folder.
const LOCK_FILE: &str = "lock";
/// Longer than any process id.
const PID_BYTES_MAX: u64 = 32;

/// The folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be created, or the lock cannot be written.
    #[error("data.dir {path}: {source}; choose a folder that this user may write to")]
    Io {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another broker runs on it.
    #[error(
        "data.dir {path} is in use by another broker{holder}; stop it, or choose another folder"
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The other broker, as far as it is known.
        holder: String,
    },
}

/// A data folder that belongs to this process until this is dropped, or the process dies.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    /// The kernel releases the lock with the file.
    _lock: File,
}

impl DataFolder {
    /// Creates the folder if it is missing and locks it.
    ///
    /// # Errors
    /// It cannot be written, or another broker has it.
    pub(crate) fn lock(path: &Path) -> Result<Self, FolderError> {
        let io = |source| FolderError::Io {
            path: path.to_owned(),
            source,
        };
        fs::create_dir_all(path).map_err(io)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK_FILE))
            .map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = holder(&mut file);
                return Err(FolderError::InUse {
                    path: path.to_owned(),
                    holder,
                });
            }
            Err(TryLockError::Error(source)) => return Err(io(source)),
        }
        let write_pid = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write_pid(&mut file).map_err(io)?;
        Ok(Self {
            path: path.to_owned(),
            _lock: file,
        })
    }

    /// Where the metadata is.
    #[must_use]
    pub(crate) fn metadata_file(&self) -> PathBuf {
        self.path.join("meta.db")
    }
}

/// Who holds the lock, in words; empty where that cannot be read.
fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(PID_BYTES_MAX).read_to_string(&mut text);
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!(" (process {pid})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_broker_is_refused_until_the_first_has_gone() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("a/b");
        let first = DataFolder::lock(&path).expect("free");
        let refused = DataFolder::lock(&path).expect_err("in use").to_string();
        let pid = std::process::id();
        assert!(refused.contains(&format!("process {pid}")), "{refused}");
        drop(first);
        DataFolder::lock(&path).expect("free again");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("file");
        fs::write(&path, "x").expect("writable");
        let error = DataFolder::lock(&path).expect_err("no folder").to_string();
        assert!(
            error.contains("file") && error.contains("choose a folder"),
            "{error}"
        );
    }
}
