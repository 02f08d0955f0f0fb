//! What a folder needs to be a durable bucket, beyond what `object_store` does.

mod direct;

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Body, PartSlot, PartTag, UploadId};
use crate::ObjectKey;

/// Folders between the bucket and an object: `<spread>/<cluster>/`, or `meta/nodes/<node>/log/`.
const KEY_FOLDERS: usize = 4;

/// Objects and parts that are written at a time. Two keep up with a log on the same disk. More only make the log's own writes wait longer.
const WRITES_AT_ONCE: usize = 2;

/// The writes of this process to folders, whichever client of a bucket asks for them.
static WRITES: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(WRITES_AT_ONCE)));

/// The folder that is a bucket.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Creates the folder where it is missing; it then survives power loss.
    pub(super) fn create(root: &Path) -> io::Result<Self> {
        let missing = root.ancestors().take_while(|folder| !folder.exists());
        let missing: Vec<_> = missing
            .filter_map(Path::parent)
            .map(Path::to_path_buf)
            .collect();
        fs::create_dir_all(root)?;
        for parent in &missing {
            sync(if parent.as_os_str().is_empty() {
                Path::new(".")
            } else {
                parent
            })?;
        }
        Ok(Self {
            root: root.to_path_buf(),
        })
    }

    /// Removes what a crash left of PUTs that were under way: files named `<object>#<number>`, which
    /// no reader and no listing sees. A PUT of another process that loses its file fails and is
    /// tried again.
    pub(super) fn remove_unfinished(&self) -> io::Result<u64> {
        remove_unfinished(&self.root, KEY_FOLDERS)
    }

    /// Writes an object that does not exist yet; it and its name survive power loss once this
    /// returns. Where the object exists, so does its name.
    pub(super) async fn put(&self, key: &ObjectKey, body: &Body) -> io::Result<()> {
        let (root, object) = (self.root.clone(), self.root.join(key.as_str()));
        let body = body.clone();
        let turn = turn().await?;
        blocking(move || {
            let _turn = turn;
            named_durably(&root, &object, put(&object, body.chunks()))
        })
        .await
    }

    /// Creates the file that parts are written to. Its name is that of an unfinished PUT, so that
    /// the next start removes what a crash leaves of it.
    pub(super) async fn begin_parts(&self, key: &ObjectKey) -> io::Result<UploadId> {
        let object = self.root.join(key.as_str());
        blocking(move || {
            if let Some(parent) = object.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut number = 1_u64;
            loop {
                match File::create_new(staging_name(&object, number)) {
                    Ok(_) => return Ok(UploadId::new(number.to_string())),
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                    Err(error) => return Err(error),
                }
            }
        })
        .await
    }

    /// Writes a part to its place, and to the disk, so that its work is spread over the parts.
    pub(super) async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> io::Result<PartTag> {
        let (staged, body) = (self.staged(key, upload)?, body.clone());
        let turn = turn().await?;
        blocking(move || {
            let _turn = turn;
            direct::write_part(&staged, slot.offset, &body)?;
            Ok(PartTag::new(slot.number.to_string()))
        })
        .await
    }

    /// Gives the file of the parts its object's name, unless that is taken; it then survives power
    /// loss.
    pub(super) async fn complete_parts(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        size: u64,
    ) -> io::Result<()> {
        let (root, object) = (self.root.clone(), self.root.join(key.as_str()));
        let staged = self.staged(key, upload)?;
        blocking(move || {
            direct::finish_parts(&staged, size)?;
            // A link, unlike a renaming, refuses to replace what is there.
            let named = fs::hard_link(&staged, &object);
            let named = match &named {
                Ok(()) => fs::remove_file(&staged),
                Err(_) => named,
            };
            named_durably(&root, &object, named)
        })
        .await
    }

    pub(super) async fn abort_parts(&self, key: &ObjectKey, upload: &UploadId) -> io::Result<()> {
        let staged = self.staged(key, upload)?;
        match blocking(move || fs::remove_file(staged)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Makes the name of an object that was found survive power loss: the write that gave it may not
    /// have come so far, and a reader that finds the object takes it for complete.
    pub(super) async fn sync_name(&self, key: &ObjectKey) -> io::Result<()> {
        let (root, object) = (self.root.clone(), self.root.join(key.as_str()));
        blocking(move || sync_above(&root, &object)).await
    }

    fn staged(&self, key: &ObjectKey, upload: &UploadId) -> io::Result<PathBuf> {
        let number = upload.as_str().parse().map_err(io::Error::other)?;
        Ok(staging_name(&self.root.join(key.as_str()), number))
    }
}

/// Waits for one of [`WRITES_AT_ONCE`]. The writing thread keeps it to the end, even if its caller has
/// given up.
async fn turn() -> io::Result<OwnedSemaphorePermit> {
    let writes = Arc::clone(&WRITES);
    writes.acquire_owned().await.map_err(io::Error::other)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let working = tokio::task::spawn_blocking(work);
    working.await.map_err(io::Error::other)?
}

/// What naming an object has come to, once the name survives power loss. The write that created a
/// folder syncs it, but another one into it may be faster; and one whose last sync failed leaves an
/// object that a next try finds.
fn named_durably(root: &Path, object: &Path, named: io::Result<()>) -> io::Result<()> {
    match &named {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => named,
        _ => sync_above(root, object).and(named),
    }
}

fn staging_name(object: &Path, number: u64) -> PathBuf {
    let mut name = object.as_os_str().to_owned();
    name.push(format!("#{number}"));
    PathBuf::from(name)
}

/// Writes a file beside the object, and gives it the object's name if that is free.
fn put(object: &Path, chunks: &[Bytes]) -> io::Result<()> {
    if let Some(parent) = object.parent() {
        fs::create_dir_all(parent)?;
    }
    let staged = stage(object, chunks)?;
    let named = fs::hard_link(&staged, object);
    named.and(fs::remove_file(&staged))
}

/// Writes the bytes under the first staging name that is free.
fn stage(object: &Path, chunks: &[Bytes]) -> io::Result<PathBuf> {
    let mut number = 1_u64;
    loop {
        let staged = staging_name(object, number);
        match direct::create(&staged, chunks) {
            Ok(()) => return Ok(staged),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => {
                // What cannot be removed now is removed at the next start.
                let _ = fs::remove_file(&staged);
                return Err(error);
            }
        }
    }
}

fn sync_above(root: &Path, object: &Path) -> io::Result<()> {
    let above = object.ancestors().skip(1);
    above
        .take_while(|folder| folder.starts_with(root))
        .try_for_each(sync)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn remove_unfinished(folder: &Path, depth: usize) -> io::Result<u64> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            removed += if depth > 0 {
                remove_unfinished(&entry.path(), depth - 1)?
            } else {
                0
            };
        } else if entry.file_name().to_str().is_some_and(is_unfinished) {
            match fs::remove_file(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => removed += 1,
            }
        }
    }
    Ok(removed)
}

/// Whether a file's name is that of an object key's last part with a staging number behind it.
fn is_unfinished(name: &str) -> bool {
    name.split_once('#').is_some_and(|(object, number)| {
        object.len() == 16
            && object.chars().all(|c| c.is_ascii_hexdigit())
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unfinished_objects_are_removed() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = Folder::create(&root.path().join("a/b")).expect("creates");
        let inner = folder.root.join("1000/c");
        fs::create_dir_all(&inner).expect("creates");
        let object = "0000000000000001";
        for name in [
            object,
            "0000000000000001#1",
            "0000000000000002#12",
            "x#1",
            "0000000000000003#x",
        ] {
            fs::write(inner.join(name), name).expect("writes");
        }
        assert_eq!(folder.remove_unfinished().expect("removes"), 2);
        assert_eq!(folder.remove_unfinished().expect("removes"), 0);
        assert_eq!(fs::read_dir(&inner).expect("lists").count(), 3);
        assert!(inner.join(object).exists());
    }

    #[tokio::test]
    async fn an_object_is_written_once_and_leaves_nothing_else() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = Folder::create(root.path()).expect("is there already");
        let key = ObjectKey::listed("1000/c/0000000000000001");
        let body = |text: &'static [u8]| Body::from(vec![Bytes::from_static(text)]);
        folder.put(&key, &body(b"first")).await.expect("written");
        let error = folder.put(&key, &body(b"second")).await.expect_err("taken");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let inner = root.path().join("1000/c");
        assert_eq!(fs::read_dir(&inner).expect("lists").count(), 1);
        let written = fs::read(inner.join("0000000000000001")).expect("reads");
        assert_eq!(written, b"first");
    }

    #[tokio::test]
    async fn what_another_process_left_half_written_is_no_obstacle() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = Folder::create(root.path()).expect("is there already");
        let inner = root.path().join("1000/c");
        fs::create_dir_all(&inner).expect("creates");
        fs::write(inner.join("0000000000000001#1"), "half").expect("writes");
        let key = ObjectKey::listed("1000/c/0000000000000001");
        let body = Body::from(vec![Bytes::from_static(b"whole")]);
        folder.put(&key, &body).await.expect("written");
        let written = fs::read(inner.join("0000000000000001")).expect("reads");
        assert_eq!(written, b"whole");
    }
}
