//! Copies of what a broker left in its folder.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use bytes::Bytes;

/// Every file of a folder, by its path there: its bytes without the zeros at the end, and its length.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Image(pub(super) BTreeMap<PathBuf, (Bytes, u64)>);

impl Image {
    /// SQLite's index of its journal has no data and is left out.
    pub(super) fn of(folder: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(next).expect("a folder") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_none_or(|kind| kind != "db-shm") {
                    let bytes = fs::read(&path).expect("readable");
                    let len = bytes.len() as u64;
                    let end = data_end(&bytes);
                    let name = path.strip_prefix(folder).expect("inside").to_owned();
                    files.insert(name, (Bytes::copy_from_slice(&bytes[..end]), len));
                }
            }
        }
        Self(files)
    }

    pub(super) fn has(&self, file: &str) -> bool {
        self.0.contains_key(Path::new(file))
    }

    /// Writes the files whose names begin with `part`.
    pub(super) fn write(&self, part: &str, to: &Path) {
        for (name, (bytes, len)) in self.0.iter().filter(|(name, _)| name.starts_with(part)) {
            let path = to.join(name);
            fs::create_dir_all(path.parent().expect("in a folder")).expect("created");
            let mut file = fs::File::create(path).expect("created");
            file.write_all(bytes).expect("written");
            file.set_len(*len).expect("sized");
        }
    }
}

/// Where the zeros at the end begin. Whole blocks first: a debug build takes long for each byte of a log.
fn data_end(bytes: &[u8]) -> usize {
    const ZEROS: [u8; 4096] = [0; 4096];
    let blocks = bytes.chunks(ZEROS.len());
    let zero = blocks
        .rev()
        .take_while(|block| **block == ZEROS[..block.len()]);
    let end = bytes.len() - zero.map(<[u8]>::len).sum::<usize>();
    let last = bytes[..end].iter().rposition(|&byte| byte != 0);
    last.map_or(0, |at| at + 1)
}
